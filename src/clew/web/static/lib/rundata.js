// The data of one open run: header, graph, items, changes. Each part loads and fails by itself.
//
// Runs of up to 4,000 steps are loaded whole; of longer ones a window around the cursor. Events extend what is there.

import { useCallback, useEffect, useMemo, useRef, useState } from './html.js';
import { at, get, useData, withQuery } from './api.js';
import { itemsOf, joinWindows } from './items.js';
import { follow, listen, whenBack } from './live.js';

const WHOLE = 4000; // steps
const MOST = 20000; // items
// Steps on each side of the cursor, for items and for changes
const HALF = 200;

export function useRunHeader(id) {
  const [version, setVersion] = useState(0);
  const header = useData(at('runs', id), { version, keep: true });
  const [patch, setPatch] = useState(null);
  const [gone, setGone] = useState(false);
  useEffect(() => { setPatch(null); }, [header.data]);
  useEffect(() => {
    const unfollow = follow(id);
    let timer = null;
    let due = Infinity; // what is wanted soon does not wait for what may come late
    const later = (ms) => {
      if (Date.now() + ms >= due) return;
      clearTimeout(timer);
      due = Date.now() + ms;
      timer = setTimeout(() => { due = Infinity; setVersion((n) => n + 1); }, ms);
    };
    const stop = listen({
      status: (event) => { if (event.run === id) { setPatch(event); later(150); } },
      steps: (event) => { if (event.run === id) { setPatch((old) => ({ ...old, last: event.to })); later(1500); } },
      open: (event) => { if (event.run === id) later(1500); },
      gone: (event) => { if (event.run === id) setGone(true); },
      hello: ({ resumed }) => { if (!resumed) later(100); },
    });
    return () => { stop(); unfollow(); clearTimeout(timer); };
  }, [id]);
  const data = useMemo(() => header.data && patch ? { ...header.data, last: Math.max(header.data.last, patch.last ?? 0), status: patch.status ?? header.data.status } : header.data, [header.data, patch]);
  return { ...header, data, gone };
}

/** Items in a window that contains k, or all of them. */
export function useItems(id, run, k, kinds) {
  const [window, setWindow] = useState(null);
  const [error, setError] = useState(null);
  const [again, setAgain] = useState(0);
  const whole = run ? run.last - run.first <= WHOLE && (run.items ?? 0) <= MOST : true;
  const centre = whole ? 0 : Math.round(k / HALF) * HALF;
  const from = run ? (whole ? run.first + 1 : Math.max(run.first + 1, centre - HALF)) : 1;
  const to = run ? (whole ? 1e9 : centre + HALF) : 1;
  const ready = Boolean(run);
  const latest = useRef(null);
  latest.current = { whole, to };
  // Events that come while items load: what was read may be older than they are
  const missed = useRef(null);
  useEffect(() => {
    if (!ready) return undefined;
    const control = new AbortController();
    const mine = [];
    missed.current = mine;
    (async () => {
      try {
        let got = null;
        let next = from;
        while (next != null) {
          const page = await get(withQuery(at('runs', id, 'items'), { from: next, to: whole ? null : to }), { signal: control.signal });
          const { next: after } = page;
          got = joinWindows(got, page);
          next = after != null && after > next && got.columns.path.length < MOST ? after : null;
        }
        if (control.signal.aborted) return;
        missed.current = null;
        for (const event of mine) {
          const more = extended(got, event);
          if (more) got = more; else setAgain((n) => n + 1);
        }
        setWindow(got);
        setError(null);
      } catch (problem) {
        if (problem.name === 'AbortError') return;
        if (missed.current === mine) missed.current = null;
        setError(problem);
      }
    })();
    return () => control.abort();
  }, [id, ready, from, whole ? 0 : to, again]);
  useEffect(() => {
    const take = (event) => {
      if (event.run !== id) return;
      const loading = missed.current;
      loading?.push(event);
      setWindow((old) => {
        const more = old && extended(old, event);
        if (!more && !loading) setAgain((n) => n + 1);
        return more ?? old;
      });
    };
    return listen({
      steps: (event) => { if (latest.current.whole || event.from <= latest.current.to) take(event); },
      open: take,
      // Steps between the load and the first look have no event
      status: (event) => { if (latest.current.whole) take(event); },
      hello: ({ resumed }) => { if (!resumed) setAgain((n) => n + 1); },
    });
  }, [id]);
  const items = useMemo(() => (window ? itemsOf(window, kinds) : null), [window, kinds]);
  return { items, origin: window?.origin, whole, from, to: whole ? run?.last : Math.min(to, run?.last ?? to), error, reload: () => setAgain((n) => n + 1) };
}

/** A window with what an event says; null if steps between them are missing. */
function extended(window, event) {
  if (event.open) return { ...window, open: event.open, attempts: { ...window.attempts, ...event.attempts } };
  if (event.status) return event.last <= window.to ? window : null;
  return event.items && event.from <= window.to + 1 ? joinWindows(window, { ...event.items, from: event.from, to: event.to }) : null;
}

/** What step k changed. Steps are fetched in blocks of 200 and kept; `changed` counts what was loaded. */
export function useChanges(id, k, last, fresh) {
  const blocks = useRef(new Map());
  const [, draw] = useState(0);
  const [error, setError] = useState(null);
  const load = useCallback(async (block) => {
    const known = blocks.current.get(block);
    const until = Math.min(last, block * HALF + HALF - 1);
    if (known && (known.busy || known.to >= until) && known.fresh === fresh) return;
    const entry = { ...known, steps: known?.steps ?? new Map(), busy: true, to: known?.to ?? -1, fresh };
    blocks.current.set(block, entry);
    try {
      const data = await get(withQuery(at('runs', id, 'changes'), { from: block * HALF, to: block * HALF + HALF - 1 }));
      // A later answer is there, or on its way
      if (blocks.current.get(block) !== entry) return;
      blocks.current.set(block, { steps: new Map(data.steps.map((step) => [step.k, step])), to: until, busy: false, fresh });
      setError(null);
      draw((n) => n + 1);
    } catch (problem) { entry.busy = false; entry.to = -1; setError(problem); }
    if (blocks.current.size > 12) for (const key of blocks.current.keys()) { if (Math.abs(key - block) > 4) blocks.current.delete(key); }
  }, [id, last, fresh]);
  const block = Math.floor(Math.max(0, k) / HALF);
  useEffect(() => {
    load(block);
    const near = k % HALF > HALF / 2 ? block + 1 : block - 1;
    if (near >= 0 && near * HALF <= last) load(near);
  }, [load, block, k % HALF > HALF / 2]);
  useEffect(() => (error ? whenBack(() => { setError(null); load(block); }) : undefined), [error, load, block]);
  const find = (step) => blocks.current.get(Math.floor(step / HALF))?.steps.get(step);
  return { step: find(k), find, error, reload: () => { blocks.current.clear(); load(block); } };
}

/** The items inside the item at a path, by path. */
export function useInside(id, path, run) {
  const found = useData(path ? withQuery(at('runs', id, 'items'), { inside: path }) : null, { version: `${run.last} ${run.status}` });
  return useMemo(() => new Map((path && found.data ? itemsOf(found.data) : []).map((item) => [item.path, item])), [path, found.data]);
}

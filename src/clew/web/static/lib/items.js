// Items of a run: from the columns of the API to objects, and questions about them. Pure.
import { duration, moment } from './format.js';

/** "use_tool#0[1]" -> "#0[1]"; nested paths keep their last part. */
export const shortName = (item) => {
  const last = item.path.slice(item.path.lastIndexOf('/') + 1);
  return last.startsWith(item.node) ? last.slice(item.node.length) : last;
};

/** The items of a window: committed ones from columns, then the open ones. */
export function itemsOf(window, kinds = new Map()) {
  const { columns: c, attempts = {}, waits = {}, open = [] } = window;
  const out = [];
  for (let i = 0; i < c.path.length; i++) {
    const earlier = c.cached[i] && c.start[i] < 0; // it executed in another run, long ago
    const start = earlier ? 0 : c.start[i];
    out.push(finish({
      path: c.path[i], node: c.node[i], step: c.step[i], start, end: start == null ? null : start + (earlier ? 0 : c.duration[i] ?? 0), supposed: earlier,
      duration: c.duration[i], attempt: c.attempt[i], cached: c.cached[i], calls: c.calls[i], failed: c.failed[i], byHand: c.by_hand[i],
      wrote: c.wrote[i], chose: c.chose[i], state: c.failed[i] ? 'failed' : 'done', open: false,
    }, attempts, waits, kinds));
  }
  // An unfinished item whose start was not stored began when the last step was committed, or later.
  const committed = out.reduce((latest, item) => Math.max(latest, item.end ?? 0), 0);
  for (const item of open) {
    if (item.state === 'next' && item.start == null && !attempts[item.path]) continue;
    const ends = item.state === 'done' || item.state === 'failed';
    const own = attempts[item.path];
    const known = item.start ?? own?.find((a) => a.start != null)?.start ?? null;
    const start = known ?? (ends ? null : committed);
    out.push(finish({
      path: item.path, node: item.node, step: item.step, start, end: ends && item.start != null ? item.start + (item.duration ?? 0) : null,
      duration: item.duration, attempt: item.attempt, calls: item.calls, due: item.due, until: item.due == null ? null : window.origin + item.due, awaits: item.for, supposed: known == null, state: item.state, open: true, guessed: item.guessed,
      wrote: item.wrote ?? [], chose: item.chose ?? [],
    }, attempts, waits, kinds));
  }
  out.forEach((item, i) => { item.index = i; });
  return out;
}

function finish(item, attempts, waits, kinds) {
  item.tries = (attempts[item.path] ?? []).filter((a) => a.end != null || a.start != null);
  // The last attempt of an item that failed for good is no different from those before.
  if (item.open && item.state === 'failed' && item.start != null && item.end != null) {
    item.tries = [...item.tries, { attempt: item.attempt ?? 0, start: item.start, end: item.end, due: null, error: item.error ?? '' }];
  }
  // A bar begins with the first attempt; an item that failed ends with the last one.
  if (item.tries.length) {
    const [first] = item.tries;
    item.begin = Math.min(first.start ?? first.end, item.start ?? Infinity);
    item.lastTry = Math.max(...item.tries.map((a) => a.end ?? a.start));
    if (item.start == null) item.start = item.begin;
    if (item.open && (item.state === 'failed' || item.state === 'next')) item.end = item.lastTry;
  }
  item.begin ??= item.start;
  // An item that waited starts over afterwards; while it waits, all of its bar is that wait.
  item.waits = item.state === 'asks' || item.state === 'sleeping' ? [] : (waits[item.path] ?? []).map((w) => ({ ...w, end: Math.min(w.end ?? Infinity, item.start ?? Infinity) })).filter((w) => w.end < Infinity);
  for (const wait of item.waits) item.begin = Math.min(item.begin, wait.start);
  item.gate = kinds.get(item.node) === 'gate';
  return item;
}

const UNFINISHED = ['failed', 'asks', 'sleeping', 'retrying', 'running']; // the first one says most

/** The items of unfinished subgraphs that are not in a list, made of what is open in them: by path, from outside to inside. */
export function around(items) {
  const known = new Set(items.map((item) => item.path));
  const found = new Map();
  for (const item of items) {
    if (!item.open || !UNFINISHED.includes(item.state)) continue;
    for (let end = item.path.indexOf('/'); end >= 0; end = item.path.indexOf('/', end + 1)) {
      const path = item.path.slice(0, end);
      if (known.has(path)) continue;
      const old = found.get(path);
      const says = !old || UNFINISHED.indexOf(item.state) < UNFINISHED.indexOf(old.state) ? item : old;
      const begin = Math.min(item.begin ?? Infinity, old?.begin ?? Infinity);
      found.set(path, { ...says, path, node: path.slice(path.lastIndexOf('/') + 1).split('#')[0], step: null, calls: 0, attempt: 0, duration: null, tries: [], waits: [], gate: false, begin, start: begin, wrote: [], chose: [] });
    }
  }
  return [...found.values()];
}

/** What an item waits for now, and until when: "waits for the signal paid until 16 Nov 13:00:00". */
export const waitsNow = ({ awaits, until }) => `${awaits && awaits !== 'sleep' ? `waits for the signal ${awaits}` : 'sleeps'}${until == null ? '' : ` until ${moment(until)}`}`;

/** "waited 2 d for an answer", "slept 8 s". */
export const waited = (wait) => (wait.for === 'sleep' ? `slept ${duration(wait.end - wait.start)}` : `waited ${duration(wait.end - wait.start)} for ${wait.for === 'answer' ? 'an answer' : wait.for}`);

export const isRetried = (item) => item.tries.length > 0 && item.state !== 'failed';

/** Items by node, or by another key: {ran, running, failed, tries, asks, cached, items}. */
export function nodeStates(items, keyOf = (item) => item.node) {
  const nodes = new Map();
  for (const item of items) {
    let n = nodes.get(keyOf(item));
    if (!n) nodes.set(keyOf(item), n = { ran: 0, running: 0, failed: 0, tries: 0, asks: 0, sleeps: 0, cached: 0, total: 0 });
    n.total++;
    if (item.state === 'running' || item.state === 'retrying') n.running++;
    else if (item.state === 'asks') n.asks++;
    else if (item.state === 'sleeping') n.sleeps++;
    else if (item.state === 'failed') { n.failed++; n.tries = Math.max(n.tries, item.tries.length || (item.attempt ?? 0) + 1); }
    else if (item.state === 'done') n.ran++;
    if (item.cached) n.cached++;
  }
  // What a gate has sent counts before it runs.
  const sent = new Map();
  for (const item of items) for (const text of item.chose ?? []) { const [, name, times] = /^(.*) ×(\d+)$/s.exec(text) ?? []; if (name) sent.set(name, (sent.get(name) ?? 0) + Number(times)); }
  for (const [name, times] of sent) if (nodes.has(name)) nodes.get(name).total = Math.max(nodes.get(name).total, times);
  return nodes;
}

/** "use_tool#1[0] use_tool#1[1]", or "500 items of scan". */
export function stepName(items) {
  if (items.length > 6 && items.every((item) => item.node === items[0].node)) return `${items.length} items of ${items[0].node}`;
  return items.slice(0, 6).map((item) => item.path).join(' ') + (items.length > 6 ? ` and ${items.length - 6} more` : '');
}

/** Join two windows of items (columns); the second one wins where both have a step. */
export function joinWindows(a, b) {
  if (!a) return b;
  const columns = {};
  const keep = a.columns.step.map((step, i) => (step < b.from || step > b.to ? i : -1)).filter((i) => i >= 0);
  const before = keep.filter((i) => a.columns.step[i] < b.from);
  const after = keep.filter((i) => a.columns.step[i] > b.to);
  for (const name of Object.keys(b.columns)) {
    const own = a.columns[name] ?? [];
    columns[name] = [...before.map((i) => own[i]), ...b.columns[name], ...after.map((i) => own[i])];
  }
  return {
    ...a, ...b, columns, from: Math.min(a.from, b.from), to: Math.max(a.to, b.to), last: Math.max(a.last ?? 0, b.last ?? 0),
    attempts: { ...a.attempts, ...b.attempts }, waits: { ...a.waits, ...b.waits }, open: b.open ?? a.open ?? [],
  };
}

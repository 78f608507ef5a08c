// The list of runs. Pages of 100 are loaded while scrolling; at most 120 rows are in the DOM at any time.
import { html, cx, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../lib/html.js';
import { at, BASE, get, post, send, withQuery } from '../lib/api.js';
import { ago, count, day, duration, moment, plural, targetName } from '../lib/format.js';
import { useKeys } from '../lib/keys.js';
import { early } from '../lib/lazy.js';
import { follow, listen } from '../lib/live.js';
import { go, href, pathTo, select } from '../lib/router.js';
import { clockOffset, useServer } from '../lib/server.js';
import { ask, Frame, VerbDialog } from '../ui/dialog.js';
import { Logo, Status, StatusIcon, toneOf } from '../ui/icons.js';
import { Command, Copy, download, Problem, Skeleton, useNow, usePhone } from '../ui/parts.js';
import { parts, QueryBox } from '../ui/querybox.js';
import { toast } from '../ui/shell.js';

const PAGE = 100;
const ROW = 34;
const SPARE = 5; // rows above and below the visible ones
const COLUMNS = [['steps', 'Steps', '70px'], ['took', 'Took', '88px'], ['owner', 'Owner', '108px'], ['started', 'Started', '92px']]; // that can be hidden
const SORTABLE = { status: 'Status', id: 'Run', graph: 'Graph', steps: 'Steps', took: 'Took', started: 'Started' };

const stored = (key, fallback) => { try { return JSON.parse(localStorage.getItem(key)) ?? fallback; } catch { return fallback; } };

/** Load pages of the list; rows that change arrive as events. */
function useRuns(q, sort) {
  const [state, setState] = useState({ runs: [], loading: true, error: null, next: null });
  const [fresh, setFresh] = useState([]); // new runs that wait at the top while the list is scrolled
  const job = useRef(0);
  const atTop = useRef(true);
  const address = useCallback((after) => withQuery(`${BASE}/runs`, { q, sort, after, limit: PAGE }), [q, sort]);
  const load = useCallback(async (quiet) => {
    const mine = quiet ? job.current : ++job.current; // a page that is on its way still fits
    if (!quiet) setState((old) => ({ ...old, loading: true, error: null }));
    try {
      const data = await get(address());
      if (mine !== job.current) return;
      setFresh([]);
      setState((old) => ({ ...data, runs: quiet && old.runs.length > PAGE ? merge(old.runs, data.runs) : data.runs, next: quiet && old.runs.length > PAGE ? old.next : data.next, loading: false, error: null, paging: quiet && old.paging }));
    } catch (error) {
      if (mine === job.current) setState((old) => ({ ...old, loading: false, error }));
    }
  }, [address]);
  const more = useCallback(async () => {
    const mine = job.current;
    let after = null;
    setState((old) => { after = old.paging ? null : old.next; return after ? { ...old, paging: true } : old; });
    await null;
    if (!after) return;
    try {
      const data = await get(address(after));
      if (mine === job.current) setState((old) => ({ ...old, runs: [...old.runs, ...data.runs.filter((r) => !old.runs.some((o) => o.id === r.id))], next: data.next, paging: false }));
    } catch { setState((old) => ({ ...old, paging: false })); }
  }, [address]);
  useLayoutEffect(() => { load(); }, [load]);
  useEffect(() => follow(null), []);
  const plain = !q && (!sort || sort === '-started');
  useEffect(() => {
    let again = null;
    const later = () => { again ??= setTimeout(() => { again = null; load(true); }, 700); };
    const stop = listen({
      hello: ({ resumed }) => { if (!resumed) later(); },
      rows: ({ runs, gone, counts }) => {
        setState((old) => {
          const known = new Map(runs.map((run) => [run.id, run]));
          const left = new Set(gone);
          const list = old.runs.filter((run) => !left.has(run.id)).map((run) => known.get(run.id) ?? run);
          const there = new Set(list.map((run) => run.id));
          const born = runs.filter((run) => !there.has(run.id) && (!old.runs.length || run.created >= (old.runs[0]?.created ?? 0)));
          if (plain && born.length) {
            if (atTop.current) list.unshift(...born.sort((a, b) => b.created - a.created));
            else setFresh((waiting) => [...waiting.filter((w) => !born.some((b) => b.id === w)), ...born.map((b) => b.id)]);
          } else if (!plain && born.length) later();
          return { ...old, runs: list, counts: counts ?? old.counts, matches: plain && counts?.all != null ? counts.all : old.matches };
        });
        if (!plain) later();
      },
    });
    return () => { stop(); clearTimeout(again); };
  }, [plain, load]);
  return { ...state, load, more, fresh, atTop };
}

function merge(old, fresh) {
  const known = new Set(fresh.map((run) => run.id));
  return [...fresh, ...old.filter((run) => !known.has(run.id))];
}

/** Rows and day headings with their heights: [{run?, day?, top, height}]. */
function layout(runs, now, phone, grouped) {
  const out = [];
  let top = 0;
  let last = null;
  for (const run of runs) {
    const name = grouped && !phone ? day(run.created, now) : null;
    if (name && name !== last) { out.push({ day: name, top, height: 26 }); top += 26; last = name; }
    const height = phone ? (run.says?.kind || run.parent || run.damage ? 74 : 54) : ROW;
    out.push({ run, top, height });
    top += height;
  }
  return { rows: out, height: top };
}

export default function Runs({ query }) {
  const q = query.q ?? '';
  const sort = query.sort ?? '-started';
  const list = useRuns(q, sort);
  const { runs, counts } = list;
  const total = list.matches ?? (q ? null : counts?.all); // without a query, the counts know before an event does
  const phone = usePhone();
  const server = useServer();
  const now = useNow(phone ? 5000 : 1000, clockOffset());
  const minute = Math.floor(now / 60);
  const [cursor, setCursor] = useState(-1);
  const [chosen, setChosen] = useState(() => new Set());
  const [all, setAll] = useState(false); // everything that matches, not only what is loaded
  const anchor = useRef(-1);
  const [hidden, setHidden] = useState(() => stored('clew.columns', []));
  const [views, setViews] = useState(() => stored('clew.views', []));
  const scroller = useRef(null);
  const [windowed, setWindowed] = useState({ top: 0, height: 800 });
  const model = useMemo(() => layout(runs, now, phone, sort.endsWith('started')), [runs, minute, phone, sort]);

  useEffect(() => {
    const main = document.getElementById('main');
    scroller.current = main;
    const look = () => {
      const top = main.scrollTop;
      list.atTop.current = top < 60;
      setWindowed((old) => (Math.abs(old.top - top) > ROW * 6 || old.height !== main.clientHeight ? { top, height: main.clientHeight } : old));
      if (top + main.clientHeight * 3 > main.scrollHeight) list.more();
    };
    main.addEventListener('scroll', look, { passive: true });
    addEventListener('resize', look);
    look();
    return () => { main.removeEventListener('scroll', look); removeEventListener('resize', look); };
  }, [list.more, runs.length]);

  useEffect(() => {
    if (!runs.length) return;
    if (!performance.getEntriesByName('first-list').length) performance.mark('first-list');
    early(() => Promise.all([import('./run.js'), import('../ui/graph.js'), import('../ui/inspector.js')]));
  }, [runs.length > 0]);
  const from = windowed.top - SPARE * ROW;
  const to = windowed.top + windowed.height + SPARE * ROW;
  const visible = model.rows.filter((row) => row.top + row.height > from && row.top < to);

  const picked = runs.filter((run) => chosen.has(run.id));
  const toggle = (i, range) => {
    const next = new Set(chosen);
    if (range && anchor.current >= 0) for (let j = Math.min(anchor.current, i); j <= Math.max(anchor.current, i); j++) next.add(runs[j].id);
    else if (next.has(runs[i].id)) next.delete(runs[i].id); else next.add(runs[i].id);
    anchor.current = i;
    setAll(false);
    setChosen(next);
  };
  const move = (by) => {
    const i = Math.max(0, Math.min(runs.length - 1, cursor + by));
    setCursor(i);
    const row = model.rows.find((r) => r.run === runs[i]);
    const main = scroller.current;
    if (!row || !main) return;
    const offset = document.querySelector('.rows')?.offsetTop ?? 0;
    if (row.top + offset < main.scrollTop + 40) main.scrollTop = row.top + offset - 80;
    if (row.top + offset + row.height > main.scrollTop + main.clientHeight - 60) main.scrollTop = row.top + offset - main.clientHeight + 140;
  };
  const clear = () => { setChosen(new Set()); setAll(false); };
  useKeys({
    j: () => move(1), k: () => move(-1), x: () => cursor >= 0 && toggle(cursor), 'shift+x': () => cursor >= 0 && toggle(cursor, true),
    Enter: () => (runs[cursor] ? go(pathTo('runs', runs[cursor].id)) : false), Escape: () => (chosen.size ? clear() : setCursor(-1)),
  });
  const setQuery = (text) => { select({ q: text }, { replace: Boolean(text && q && text.startsWith(q)) }); setCursor(-1); clear(); };
  const sortBy = (name) => select({ sort: sort === `-${name}` ? name : `-${name}` });
  const show = (name) => !hidden.includes(name);
  const empty = server?.counts?.runs === 0 && !q && !runs.length && !list.loading;
  if (empty) return html`<${FirstRun} server=${server}/>`;
  const everything = chosen.size > 0 && chosen.size === runs.length && list.matches > runs.length;
  const head = (name, text, right) => html`<div role="columnheader" class=${right ? 'r' : ''} aria-sort=${sort.endsWith(name) ? (sort[0] === '-' ? 'descending' : 'ascending') : 'none'}><button type="button" onClick=${() => sortBy(name)}>${text}${sort.endsWith(name) ? (sort[0] === '-' ? ' ↓' : ' ↑') : ''}</button></div>`;
  const columns = ['38px', '108px', 'minmax(105px,160px)', 'minmax(95px,176px)', 'minmax(120px,1fr)', ...COLUMNS.filter(([name]) => show(name)).map(([, , width]) => width)].join(' ');
  return html`<div class="runs"><h1 class="off">Runs</h1>
    <div class="searchrow"><${QueryBox} query=${q} understood=${list.query} onQuery=${setQuery}/>
      ${!phone && html`<button type="button" onClick=${() => ask(Columns, { hidden, setHidden })}>Columns</button>
        <button type="button" onClick=${() => ask(SaveView, { q, sort, views, setViews })}>Save view</button>`}</div>
    <div class="chips" role="group" aria-label="Views">${chips(counts, views).map((chip) => html`<button type="button" key=${chip.name} class="chip" aria-pressed=${String(same(q, chip.q) && (!chip.sort || chip.sort === sort))} onClick=${() => { select({ q: chip.q, sort: chip.sort }); clear(); }}>${chip.name}${chip.n > 0 ? html` <span class=${cx('badge', chip.tone && `bg-${chip.tone} t-${chip.tone}`)}>${count(chip.n)}</span>` : null}</button>`)}
      <span class="grow"/><span class="about">${total != null ? plural(total, 'run') : `${list.next ? 'first ' : ''}${plural(runs.length, 'run')}`}${list.truncated ? ', the first 20,000 sorted' : ''} · ${sortWords(sort)}</span></div>
    ${list.fresh.length > 0 && html`<button type="button" class="chip newruns bg-run" onClick=${() => { scroller.current.scrollTop = 0; list.load(true); }}>${plural(list.fresh.length, 'new run')}</button>`}
    ${list.error && html`<${Problem} error=${list.error} retry=${() => list.load()}/>`}
    ${!runs.length && list.loading ? html`<${Skeleton} rows=${8}/>` : !runs.length && !list.error ? html`<${NoMatch} q=${q} onQuery=${setQuery}/>` : html`
    <div class="table" style=${{ '--cols': columns }} role=${phone ? undefined : 'table'} aria-label=${phone ? undefined : 'Runs'} aria-rowcount=${phone ? undefined : list.matches ?? -1}>
      ${!phone && html`<div class="thead" role="rowgroup"><div class="tr" role="row"><div role="columnheader"><input type="checkbox" aria-label="select all" checked=${chosen.size > 0 && chosen.size === runs.length} onChange=${() => (chosen.size === runs.length ? clear() : setChosen(new Set(runs.map((r) => r.id))))}/></div>
        ${head('status', 'Status')}${head('id', 'Run')}${head('graph', 'Graph')}<div role="columnheader">What it says</div>${show('steps') && head('steps', 'Steps', true)}${show('took') && head('took', 'Took', true)}${show('owner') && html`<div role="columnheader">Owner</div>`}${show('started') && head('started', 'Started', true)}</div></div>`}
      <${phone ? 'ul' : 'div'} class="rows" role=${phone ? 'list' : 'rowgroup'} aria-label=${phone ? 'Runs' : undefined} style=${{ height: `${model.height}px` }}>${visible.map((row) => (row.day
        ? html`<div key=${`d${row.day}`} class="day" role="row" style=${{ top: `${row.top}px` }}><div role="cell">${row.day}</div></div>`
        : html`<${phone ? Card : Row} key=${row.run.id} run=${row.run} top=${row.top} height=${row.height} now=${now} show=${show} at=${runs[cursor] === row.run} chosen=${chosen.has(row.run.id)} onToggle=${(e) => toggle(runs.indexOf(row.run), e.shiftKey)}/>`))}<//>
      ${list.paging && html`<p class="empty">loading…</p>`}</div>`}
    ${chosen.size > 0 && html`<${Bulk} runs=${picked} all=${all} matches=${list.matches} q=${q} offerAll=${everything && !all} onAll=${() => setAll(true)} onClear=${clear} onDone=${() => { clear(); list.load(true); }}/>`}
  </div>`;
}

const same = (a, b) => parts(a).map((p) => p.text).sort().join(' ') === parts(b).map((p) => p.text).sort().join(' ');
const sortWords = (sort) => ({ '-started': 'newest first', started: 'oldest first', '-took': 'longest first', took: 'shortest first', '-steps': 'most steps first', steps: 'fewest steps first' })[sort] ?? `by ${SORTABLE[sort.replace('-', '')] ?? sort}`.toLowerCase();

function chips(counts = {}, views) {
  return [
    { name: 'All', q: '', n: counts.all }, { name: 'Needs me', q: 'status:needs-me', n: counts.needs_me }, { name: 'Running', q: 'status:running', n: counts.running },
    { name: 'Waiting', q: 'status:waiting', n: counts.waiting, tone: 'wait' }, { name: 'Failed', q: 'status:failed', n: counts.failed, tone: 'fail' },
    { name: 'Slowest today', q: 'after:1d', sort: '-took' }, ...views,
  ].filter((chip) => chip.n !== undefined || chip.sort || !['Running', 'Waiting', 'Failed'].includes(chip.name));
}

/** "What it says": one line of a run. */
function Says({ run }) {
  const says = run.says;
  if (run.damage) return html`<span class="t-fail">damaged</span> ${run.damage}`;
  const fork = run.parent && html`fork of <code>${run.parent}</code>${run.parent_step != null ? ` at S(${run.parent_step})` : ''}`;
  if (!says || !says.kind) return fork;
  const retries = says.retries ? ` · ${plural(says.retries, 'retry', 'retries')}` : '';
  switch (says.kind) {
    case 'progress': return html`${says.of > 1 && html`<progress class="meter" max=${says.of} value=${says.done} aria-label=${`${says.done} of ${says.of}`}/>`}${says.text || `${count(says.done)} of ${count(says.of)}`}${/retr/.test(says.text ?? '') ? '' : retries}`;
    case 'question': return html`<span class="t-wait">asks</span> ${says.text}`;
    case 'error': return html`<span class="t-fail">${says.type}</span> ${says.text}`;
    case 'fork': return fork;
    default: return html`${says.text}${says.due ? ` until ${moment(says.due)}` : ''}${retries}`;
  }
}

function Row({ run, top, now, show, at: here, chosen, onToggle }) {
  const link = pathTo('runs', run.id);
  return html`<div class=${cx('tr', here && 'here', chosen && 'chosen')} role="row" style=${{ top: `${top}px` }} data-row data-clew-run=${run.id} onClick=${(e) => { if (!e.target.closest('input, a, button')) go(link); }}>
    <div role="cell"><input type="checkbox" aria-label=${`select ${run.id}`} checked=${chosen} onClick=${onToggle}/></div>
    <div role="cell"><${Status} status=${run.status}/></div>
    <div role="cell" class="id"><a href=${link} title=${run.id}>${run.id}</a></div>
    <div role="cell" class="mono" title=${run.target ?? run.graph}>${targetName(run.target, run.graph)}</div>
    <div role="cell" class="says"><${Says} run=${run}/></div>
    ${show('steps') && html`<div role="cell" class="r">${count(run.steps)}</div>`}
    ${show('took') && html`<div role="cell" class="r">${duration(took(run, now))}</div>`}
    ${show('owner') && html`<div role="cell" class="dim" title=${run.owner?.host}>${run.owner?.name}</div>`}
    ${show('started') && html`<div role="cell" class="r dim" title=${moment(run.created)}>${ago(run.created, now)}</div>`}</div>`;
}

const took = (run, now) => (run.status === 'running' ? Math.max(run.took ?? 0, now - run.created) : run.took);

function Card({ run, top, height, now, chosen }) {
  return html`<li class="cardrow" style=${{ top: `${top}px`, height: `${height}px` }}><a class=${cx('card', chosen && 'chosen')} href=${pathTo('runs', run.id)} data-row data-clew-run=${run.id}>
    <span class=${`t-${toneOf(run.status)}`} title=${run.status}><${StatusIcon} status=${run.status}/><span class="off">${run.status}</span></span>
    <span class="cardbody"><span class="line1"><b>${run.id}</b><span>${ago(run.created, now)}</span></span>
    <span class="line2">${targetName(run.target, run.graph)} · ${[plural(run.steps, 'step'), duration(took(run, now))].filter(Boolean).join(' · ')}</span><span class="line3"><${Says} run=${run}/></span></span></a></li>`;
}

const VERBS = {
  resume: { name: 'Resume', fits: (run) => ['failed', 'lost', 'paused', 'cancelled'].includes(run.status), act: (id) => post(at('runs', id, 'resume')) },
  replay: { name: 'Replay', fits: (run) => ['completed', 'failed', 'waiting', 'cancelled'].includes(run.status), act: (id) => post(at('runs', id, 'replay')) },
  delete: { name: 'Delete…', fits: (run) => !['running', 'queued'].includes(run.status), act: (id) => send('DELETE', at('runs', id)) },
};

/** Every run that matches a query, page by page. */
async function allMatches(q) {
  const out = [];
  let after = null;
  do {
    const page = await get(withQuery(`${BASE}/runs`, { q, after, limit: 200 }));
    out.push(...page.runs);
    after = page.next;
  } while (after);
  return out;
}

function Bulk({ runs, all, matches, q, offerAll, onAll, onClear, onDone }) {
  const [busy, setBusy] = useState(null);
  const statuses = [...new Set(runs.map((run) => run.status))];
  const label = (verb) => {
    const n = runs.filter(verb.fits).length;
    if (all) return `${verb.name.replace('…', '')} ${count(matches)}${verb.name.endsWith('…') ? '…' : ''}`;
    if (n === runs.length) return verb === VERBS.resume ? `${verb.name} ${n}` : verb.name;
    return n ? `${verb.name.replace('…', '')} ${n} of ${runs.length}` : verb.name;
  };
  const run = async (key) => {
    const verb = VERBS[key];
    const list = (all ? await allMatches(q) : runs).filter(verb.fits);
    if (key === 'delete' || list.length > 20) {
      const yes = await ask(VerbDialog, { title: `${verb.name.replace('…', '')} ${plural(list.length, 'run')}`, action: `${verb.name.replace('…', '')} ${plural(list.length, 'run')}`, danger: key === 'delete', says: `${list.slice(0, 5).map((r) => r.id).join(', ')}${list.length > 5 ? ` and ${list.length - 5} more` : ''}.${key === 'delete' ? ' Their states are deleted. This cannot be undone.' : ''}`, act: async () => ({ yes: true }) });
      if (!yes) return;
    }
    let done = 0;
    const refused = [];
    for (const one of list) {
      setBusy(`${done + 1} of ${list.length}`);
      try { await verb.act(one.id); done++; } catch (error) { refused.push({ id: one.id, error }); }
    }
    setBusy(null);
    if (refused.length) await ask(Refused, { done, refused }); else toast(`${verb.name.replace('…', '')}: ${plural(done, 'run')}`);
    onDone();
  };
  const exportAll = async () => {
    for (const one of all ? await allMatches(q) : runs) {
      download(at('runs', one.id, 'export'));
      await new Promise((next) => setTimeout(next, 250));
    }
  };
  return html`<div class="bulk" role="region" aria-label="Selected runs"><b>${all ? count(matches) : runs.length} selected</b> <span class="dim">${busy ?? (statuses.length === 1 ? `all ${statuses[0]}` : '')}</span>
    ${offerAll && html`<button type="button" class="link" onClick=${onAll}>Select all ${count(matches)} that match</button>`}
    <button type="button" data-bulk="resume" disabled=${busy || !runs.some(VERBS.resume.fits)} onClick=${() => run('resume')}>${label(VERBS.resume)}</button>
    <button type="button" data-bulk="replay" disabled=${busy || !runs.some(VERBS.replay.fits)} onClick=${() => run('replay')}>${label(VERBS.replay)}</button>
    <button type="button" data-bulk="compare" disabled=${runs.length !== 2} title=${runs.length === 2 ? '' : 'select two runs'} onClick=${() => go(href('/compare', { a: runs[1].id, b: runs[0].id }))}>Compare</button>
    <button type="button" data-bulk="export" disabled=${busy} onClick=${exportAll}>Export</button>
    <button type="button" class="warn" data-bulk="delete" disabled=${busy || !runs.some(VERBS.delete.fits)} onClick=${() => run('delete')}>${label(VERBS.delete)}</button>
    <button type="button" class="esc" onClick=${onClear}>esc</button></div>`;
}

const Refused = ({ done, refused, close }) => html`<${Frame} title=${`${plural(refused.length, 'run')} refused, ${done} done`} close=${close} wide><ul class="refused">${refused.slice(0, 50).map(({ id, error }) => html`<li key=${id}><code>${id}</code> ${error.message}${error.hint && html`<br/><span class="dim">${error.hint}</span>`}${error.command && html`<${Command} text=${error.command}/>`}</li>`)}</ul><//>`;

const Columns = ({ hidden, setHidden, close }) => {
  const [off, setOff] = useState(hidden);
  const flip = (name) => { const next = off.includes(name) ? off.filter((o) => o !== name) : [...off, name]; setOff(next); setHidden(next); localStorage.setItem('clew.columns', JSON.stringify(next)); };
  return html`<${Frame} title="Columns" close=${close}>${COLUMNS.map(([name, text]) => html`<label class="check" key=${name}><input type="checkbox" checked=${!off.includes(name)} onChange=${() => flip(name)}/><b>${text}</b></label>`)}<//>`;
};

function SaveView({ q, sort, views, setViews, close }) {
  const box = useRef(null);
  const keep = (next) => { setViews(next); localStorage.setItem('clew.views', JSON.stringify(next)); };
  const save = (event) => {
    event.preventDefault();
    const name = box.current.value.trim();
    if (name) { keep([...views.filter((view) => view.name !== name), { name, q, sort }]); close(); }
  };
  return html`<${Frame} title="Save this view" close=${close}><form onSubmit=${save}><p class="says">The query <code>${q || 'everything'}</code>, ${sortWords(sort)}. Kept in this browser.</p>
    <div class="field"><label for="view-name">name</label><input id="view-name" ref=${box} autofocus autocomplete="off"/></div>
    ${views.length > 0 && html`<ul class="plainlist">${views.map((view) => html`<li key=${view.name}><b>${view.name}</b> <code>${view.q}</code> <button type="button" class="link" onClick=${() => { keep(views.filter((v) => v !== view)); close(); }}>remove</button></li>`)}</ul>`}
    <footer><button type="submit" class="primary">Save</button></footer></form><//>`;
}

const NoMatch = ({ q, onQuery }) => html`<div class="nomatch"><h2>No run matches</h2><p>Remove a part of the query:</p><div class="chips">${parts(q).map((part) => html`<button type="button" key=${part.text} class="chip" onClick=${() => onQuery(parts(q).filter((p) => p.text !== part.text).map((p) => p.text).join(' '))}><code>${part.text}</code> ×</button>`)}</div><p><button type="button" onClick=${() => onQuery('')}>Show all runs</button></p></div>`;

function FirstRun({ server }) {
  const name = server.store?.name.split('/').pop();
  return html`<div class="firstrun"><${Logo} size=${34}/><h1>No runs in ${name} yet</h1><p>This page shows runs as they happen. Start one in another terminal; it appears here at once.</p>
    ${(server.first_run ?? []).map((command) => html`<section key=${command}><p>${purpose(command)}</p>${command.includes('\n') ? html`<div class="script"><${Copy} text=${command} what="copy the commands"/><pre>${command}</pre></div>` : html`<${Command} text=${command}/>`}</section>`)}
    <p class="dim">Another store? <code>clew serve --store other.db</code> <span class="t-run"><${StatusIcon} status="running"/> listening</span></p></div>`;
}

const purpose = (command) => (/^clew demo/.test(command) ? 'Try it: a graph at work, offline; one run is killed and resumed' : /^clew run/.test(command) ? 'Run a graph: MODULE:GRAPH and its values'
  : /^clew import/.test(command) ? 'Bring a run from elsewhere' : /^cat >/.test(command) ? 'Write a graph, or use one of yours' : 'Make a run');

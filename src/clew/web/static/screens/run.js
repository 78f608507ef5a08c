// One run. Three panes: graph | timeline, chain, state at k | inspector. One selection in all of them:
// `k` is the cursor in the chain, `item` the selected item whose causal thread is drawn.

import { html, useEffect, useMemo, useRef, useState } from '../lib/html.js';
import { at, useData, withQuery } from '../lib/api.js';
import { count, duration, moment, plural, targetName } from '../lib/format.js';
import { around, isRetried, nodeStates, stepName } from '../lib/items.js';
import { aheadUntil } from '../lib/lanes.js';
import { lazy } from '../lib/lazy.js';
import { useKeys } from '../lib/keys.js';
import { useChanges, useInside, useItems, useRunHeader } from '../lib/rundata.js';
import { go, href, pathTo, select } from '../lib/router.js';
import { clockOffset, useServer } from '../lib/server.js';
import { Chain } from '../ui/chain.js';
import { Icon, Pill, Status } from '../ui/icons.js';
import { Command, Copy, Pane, Problem, Segments, Skeleton, Tabs, useMedia, useNow, usePhone } from '../ui/parts.js';
import { setOffers, toast } from '../ui/shell.js';
import { StatePane } from '../ui/state.js';
import { describe, Legend, Timeline } from '../ui/timeline.js';
import { commandOf, doVerb, Verbs } from '../ui/verbs.js';

const number = (text) => (text === undefined || text === '' || Number.isNaN(Number(text)) ? null : Number(text));
const AnswerView = lazy(() => import('./answer.js'), 'AnswerView');
const GraphView = lazy(() => import('../ui/graph.js'), 'GraphView');
const Inspector = lazy(() => import('../ui/inspector.js'), 'Inspector');
const NONE = [];
const EMPTY = new Map();

export default function Run({ id, query }) {
  const header = useRunHeader(id);
  const run = header.data;
  // A run that never was is not one that was deleted.
  if (header.gone && run) return html`<div class="lone"><h1>${id} was deleted</h1><p><a href="/runs">All runs</a></p></div>`;
  if (!run) {
    if (header.error?.status === 404) return html`<div class="lone"><h1>There is no run ${id}</h1><p class="dim">${header.error.hint}</p><p><a href=${href('/runs', { q: id })}>Search for it</a></p></div>`;
    return header.error ? html`<${Problem} error=${header.error} retry=${header.reload}/>` : html`<${Skeleton} rows=${5}/>`;
  }
  return html`<${Loaded} key=${id} run=${run} query=${query} reload=${header.reload} stale=${header.error}/>`;
}

function Loaded({ run, query, reload, stale }) {
  const id = run.id;
  const server = useServer();
  const phone = usePhone();
  const narrow = useMedia('(max-width: 1200px)') && !phone;
  const picture = useData(at('runs', id, 'graph'), { version: run.structure });
  const kinds = useMemo(() => new Map((picture.data?.boxes ?? []).map((box) => [box.name, box.kind])), [picture.data]);
  const order = useMemo(() => (picture.data ? new Map(picture.data.nodes.map((n, i) => [n.name, i])) : null), [picture.data]);
  const wanted = number(query.k);
  const path = query.item ?? null;
  const chosenNode = query.node ?? null;

  const [top, setTop] = useState(run.last); // with the states after the last committed one
  const k = Math.max(run.first, Math.min(wanted ?? run.last, Math.max(top, run.last)));
  const list = useItems(id, run, k, kinds);
  // A subgraph that asks or has failed is an item too, although only what is open in it is stored.
  const frames = useMemo(() => around(list.items ?? NONE), [list.items]);
  const items = useMemo(() => { const own = frames.filter(isOuter); return own.length ? [...own.map((one) => ({ ...one, step: run.last + 1 })), ...list.items] : list.items ?? NONE; }, [frames, list.items, run.last]);
  const ahead = useMemo(() => items.reduce((most, item) => (item.open && item.state === 'done' ? Math.max(most, item.step) : most), run.last), [items, run.last]);
  useEffect(() => setTop(ahead), [ahead]);
  const last = Math.max(run.last, ahead);
  // A provisional state grows with every item that finishes.
  const changes = useChanges(id, k, last, `${run.last} ${ahead} ${k > run.last ? items.length : ''}`);
  const overview = useData(run.last - run.first > 30 || run.forks.length || run.labels.length ? withQuery(at('runs', id, 'overview'), { buckets: 400 }) : null, { version: run.last, keep: true });
  const why = useData(path ? withQuery(at('runs', id, 'why'), { item: path, depth: 8 }) : null);
  const thread = why.data?.thread ?? (path ? [path] : NONE);
  // What ran inside the selected item, or around it if it is inside another one.
  const outer = path && (path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : kinds.get(path.split('#')[0]) === 'subgraph' ? path : null);
  const inside = useInside(id, outer, run);
  const deeper = useInside(id, path !== outer && inside.has(path) && depthOf(picture.data, path)?.inside ? path : null, run);
  // What is unfinished inside a subgraph is shown without a selection.
  const stuck = frames.length ? frames[frames.length - 1].path : null;
  const stuckIn = useInside(id, frames[0]?.path ?? null, run);
  const stuckDeep = useInside(id, stuck !== frames[0]?.path ? stuck : null, run);
  const byPath = useMemo(() => new Map([...stuckIn, ...stuckDeep, ...inside, ...items.map((item) => [item.path, item])]), [items, inside, stuckIn, stuckDeep]);
  const item = path ? byPath.get(path) : null;
  const now = useNow(run.status === 'running' ? 250 : 60000, clockOffset());
  const live = run.status === 'running' && list.origin != null ? now - list.origin : null;

  const stepItems = useMemo(() => items.filter((one) => one.step === k && isOuter(one)), [items, k]);
  const states = useMemo(() => nodeStates(items.filter(isOuter)), [items]);
  const counted = list.whole ? states : overview.data ? new Map([...states, ...overview.data.nodes.map((n) => [n.name, { ...(states.get(n.name) ?? { running: 0, failed: 0, tries: 0, asks: 0, cached: 0 }), ran: n.items, total: n.items }])]) : states;
  const innerStates = useMemo(() => nodeStates([...new Map([...frames.map((one) => [one.path, one]), ...byPath, ...deeper]).values()].filter((one) => !isOuter(one)), placeOf), [byPath, deeper, frames]);
  const current = useMemo(() => new Set(stepItems.map((one) => one.node)), [stepItems]);
  const threadNodes = useMemo(() => threadOf(why.data, thread, byPath, chosenNode, item), [why.data, byPath, item]);
  const decided = useMemo(() => { const set = new Set(); for (const one of stepItems) for (const target of one.chose ?? []) set.add(`${one.node}>${target}`); return set; }, [stepItems]);
  const node = item?.node ?? chosenNode;
  const nodeItems = useMemo(() => (node ? items.filter((one) => one.node === node && (!item || node !== chosenNode ? sameBatch(one, item) : true)) : NONE), [items, node, item]);

  const go2 = (to) => select({ k: Math.max(run.first, Math.min(last, to)) });
  // Steps inside a subgraph are numbered by themselves: the cursor stays at the item around it.
  const stepOf = (one) => (one?.step != null && !one.path.includes('/') ? Math.min(one.step, last) : query.k);
  const pick = (name) => { const one = byPath.get(name); select({ item: name, node: null, k: stepOf(one), tab: ['question', 'error', 'log', undefined].includes(query.tab) ? (one && query.tab === 'error' && run.failures.some((f) => f.path === name) ? 'error' : 'item') : query.tab }); };
  const pickNode = (name) => {
    let own = [...byPath.values(), ...deeper.values()].filter((one) => placeOf(one) === name);
    if (!own.length && name.includes('/')) own = items.filter((one) => one.node === name.split('/')[0]);
    if (!own.length) { toast(`${name} has not run`); return; }
    const here = own.find((one) => one.step === k) ?? [...own].reverse().find((one) => one.step <= k) ?? own[0];
    select({ item: here.path, node: own.length > 8 ? name : null, k: stepOf(here), tab: own.length > 8 ? 'items' : 'item' });
  };
  const setTab = (tab) => select({ tab });
  const nextChange = (by) => {
    const valueName = query.value;
    for (let step = k + by; step >= run.first && step <= last; step += by) {
      const found = changes.find(step);
      if (!found) { toast('No change near'); return; }
      if (valueName ? found.changes.some((c) => c.name === valueName) : node ? found.items.some((p) => byPath.get(p)?.node === node) : found.changes.length) { go2(step); return; }
    }
    toast('No further change');
  };
  const inTime = (by) => {
    const sorted = [...items].filter((one) => one.start != null).sort((a, b) => a.begin - b.begin || a.index - b.index);
    if (!sorted.length) return;
    const i = sorted.findIndex((one) => one.path === path);
    const here = sorted.findIndex((one) => one.step === k); // without a selection, from the cursor
    pick(sorted[Math.max(0, Math.min(sorted.length - 1, i < 0 ? Math.max(0, here) : i + by))].path);
  };
  const can = (verb) => run.verbs?.some((v) => v.verb === verb && v.enabled);
  const answerNow = () => { select({ tab: 'question', view: null }); setTimeout(() => document.querySelector('[data-clew-form] input, [data-clew-form] button, [data-clew-form] textarea')?.focus(), 120); };
  const context = { k, onAnswer: phone ? () => go(pathTo('runs', id, 'answer', run.questions[0]?.path ?? '')) : answerNow };
  const zoom = (by) => dispatchEvent(new CustomEvent('clew-zoom', { detail: by }));
  const axis = query.axis === 'steps' ? 'steps' : 'time';
  useKeys({
    ArrowLeft: () => go2(k - 1), ArrowRight: () => go2(k + 1), 'shift+ArrowLeft': () => nextChange(-1), 'shift+ArrowRight': () => nextChange(1), Home: () => go2(run.first), End: () => go2(last),
    '[': () => inTime(-1), ']': () => inTime(1), t: () => select({ axis: axis === 'time' ? 'steps' : null }), '+': () => zoom(1), '=': () => zoom(1), '-': () => zoom(-1), 0: () => zoom(0),
    w: () => setTab('item'), e: () => run.failures.length && setTab('error'), c: () => setTab('calls'), a: () => can('answer') && context.onAnswer(), f: () => can('fork') && doVerb('fork', run, context), r: () => can('resume') && doVerb('resume', run, context),
    Escape: () => (path || chosenNode || query.from ? select({ item: null, node: null, from: null, to: null, show: null }) : false),
  });
  useEffect(() => {
    setOffers(() => [...(picture.data?.nodes ?? []).map((n) => ({ kind: 'node', name: n.name, open: () => pickNode(n.name) })),
      ...(changes.find(run.first)?.changes ?? []).map((c) => ({ kind: 'value', name: c.name, open: () => select({ value: c.name, view: 'all' }) }))]);
  });

  const show = query.show ?? null;
  const filtered = useMemo(() => filterItems(items, show, query.only), [items, show, query.only]);
  filtered.ahead = useMemo(() => hasAhead(items, run.last), [items, run.last]);
  const big = items.length > 100;
  const [tab2, setTab2] = useState('timeline');
  const [fit, setFit] = useState(0);
  const [table, setTable] = useState(false);
  const panes = useRef(null);
  // A narrow graph leaves its room to the timeline; a border that was dragged stays where it is.
  const graphShare = Number(localStorage.getItem('clew.--left')) || Math.max(17, Math.min(27, ((picture.data?.width ?? 340) * 1.15 + 40) / 14.4));
  const hasError = run.failures.some((f) => !f.rescued);
  const isAnswer = run.answer && query.view !== 'run';

  const graphPane = html`<section class="pane p-graph" aria-label="Graph" key="graph"><div class="panehead"><h2>Graph</h2><span class="dim what" title=${picture.data?.name ?? run.graph}>${picture.data?.name ?? run.graph}</span><span class="end">${list.whole ? null : html`<small>counts of the whole run</small>`}<button type="button" class="link" onClick=${() => setFit((n) => n + 1)}>Fit</button></span></div>
    <${Pane} data=${picture}>${(data) => html`<${GraphView} picture=${data} states=${counted} inner=${innerStates} place=${item && placeOf(item)} current=${current} chosen=${node} thread=${threadNodes} decided=${decided} onPick=${pickNode} fitKey=${fit} label=${`Graph ${data.name}`}/>`}<//></section>`;

  const timelinePane = html`<div class="panehead"><h2>Timeline</h2><${Segments} label="Axis" options=${[['time', 'Time'], ['steps', 'Steps']]} value=${axis} onPick=${(v) => select({ axis: v === 'time' ? null : v })}/>
      ${query.from && html`<button type="button" class="link" onClick=${() => select({ from: null, to: null })}>Whole run</button>`}
      ${!list.whole && html`<span class="dim">steps ${count(list.from)} to ${count(list.to)} of ${count(run.last)}</span>`}
      <span class="end"><${Legend} items=${filtered} phone=${phone}/><button type="button" class="link" aria-pressed=${String(table)} onClick=${() => setTable(!table)}>${table ? 'as bars' : 'as table'}</button></span></div>
    ${big && html`<div class="filters"><span class="dim">${plural(filtered.length, 'item')}</span>${[['failed', 'failed'], ['retried', 'retried'], ['slowest', 'slowest']].map(([key, text]) => html`<button type="button" class="chip" key=${key} aria-pressed=${String(show === key)} onClick=${() => select({ show: show === key ? null : key })}>${text}</button>`)}
      ${node && html`<button type="button" class="chip" aria-pressed=${String(query.only === node)} onClick=${() => select({ only: query.only === node ? null : node })}>only ${node}</button>`}<span class="dim tip-line">ctrl and wheel zooms, drag selects a range</span></div>`}
    <div class="tl-scroll">${list.error && !list.items ? html`<${Problem} error=${list.error} retry=${list.reload}/>` : !list.items ? html`<${Skeleton} rows=${4}/>` : !items.length ? html`<p class="empty">No item has run yet.</p>`
      : table ? html`<${ItemTable} items=${filtered} path=${path} onPick=${pick}/>`
        : html`<${Timeline} items=${filtered} k=${k} path=${path} thread=${thread} axis=${axis} from=${number(query.from)} to=${number(query.to)} now=${live} committed=${run.last} order=${order} onPick=${pick} onRange=${(a, b) => select({ from: a == null ? null : a.toFixed(4), to: b == null ? null : b.toFixed(4) }, { replace: true })}/>`}</div>`;

  const marks = useMemo(() => [...(overview.data?.marks ?? []), ...(overview.data ? [] : run.labels.map((l) => ({ step: l.step, kind: 'label', text: l.label })))], [overview.data, run.labels]);
  const chainPane = html`<div class="chainhead"><h2>Chain</h2>
      <button type="button" class="icon ends2" aria-label="first state" disabled=${k <= run.first} onClick=${() => go2(run.first)}><${Icon} name="first"/></button><button type="button" class="icon" aria-label="state before" disabled=${k <= run.first} onClick=${() => go2(k - 1)}><${Icon} name="prev"/></button>
      <span class="k">S(${count(k)})</span> <span class="of">of S(${count(last)})</span>
      <button type="button" class="icon" aria-label="state after" disabled=${k >= last} onClick=${() => go2(k + 1)}><${Icon} name="next"/></button><button type="button" class="icon ends2" aria-label="last state" disabled=${k >= last} onClick=${() => go2(last)}><${Icon} name="last"/></button>
      ${k > run.last && html`<span class="badge bg-thread">ahead</span>`}<span class="what" title=${stepName(stepItems)}>${stepName(stepItems)}</span>
      <button type="button" class="small" disabled=${k > run.last || !can('fork')} onClick=${() => doVerb('fork', run, context)}><${Icon} name="fork"/> ${phone ? 'Fork' : 'Fork from here'}</button></div>
    <${Chain} first=${run.first} last=${last} committed=${run.last} k=${k} marks=${marks} name=${stepName(stepItems)} items=${stepItems.length} onMove=${go2}/>`;
  const statePane = html`<${StatePane} run=${run} k=${k} step=${changes.step} error=${changes.error} reload=${changes.reload} view=${query.view === 'all' || query.view === 'json' ? query.view : 'changes'} onView=${(v) => select({ view: v === 'changes' ? null : v })}/>`;
  const inspector = html`<section class="pane p-insp" aria-label="Inspector" key="insp"><${Inspector} run=${run} tab=${query.tab} onTab=${setTab} item=${item} path=${path} node=${node} nodeItems=${nodeItems} why=${why} items=${items} readOnly=${server?.read_only} onPick=${pick} committed=${run.last} nodes=${picture.data?.nodes} inside=${outer === path ? inside : deeper} step=${item && changes.find(item.step)}
    onFork=${(step) => doVerb('fork', run, { ...context, k: step })} onAnswered=${reload}/></section>`;

  const body = phone
    ? html`<div class="phone-order">${hasError ? inspector : null}<section class="pane" aria-label="Timeline" key="mid">${timelinePane}${chainPane}</section>${graphPane}<section class="pane" key="state">${statePane}</section>${hasError ? null : inspector}</div>`
    : html`<div class="panes" ref=${panes} style=${{ '--left': `${graphShare}%` }}>${!narrow && html`${graphPane}<${Grip} box=${panes} name="--left" side="left"/>`}
      <section class="pane" aria-label="Timeline and states" key="mid">${narrow && html`<${Tabs} label="Graph or timeline" options=${[['timeline', 'Timeline'], ['graph', 'Graph']]} value=${tab2} onPick=${setTab2}/>`}
        ${narrow && tab2 === 'graph' ? graphPane : timelinePane}${!(narrow && tab2 === 'graph') && html`${chainPane}${statePane}`}</section>
      <${Grip} box=${panes} name="--right" side="right"/>${inspector}</div>`;

  return html`<${Head} run=${run} context=${context} items=${items} whole=${list.whole} now=${now} ahead=${ahead} answered=${isAnswer}/>
    ${stale && html`<p class="stale" role="status">${stale.message} <button type="button" class="link" onClick=${reload}>Try again</button></p>`}
    <${Banner} run=${run} context=${context} phone=${phone} picture=${picture}/>
    ${run.answer && html`<${Tabs} label="View" options=${[['answer', 'Answer'], ['run', 'Run']]} value=${isAnswer ? 'answer' : 'run'} onPick=${(v) => select({ view: v === 'run' ? 'run' : null })}/>`}
    ${isAnswer ? html`<${AnswerView} run=${run}/>` : body}`;
}

/** Whether an item is one of the run itself, not of a subgraph. */
const isOuter = (item) => !item.path.includes('/');

/** The place of an item in the graph: "sub#0[1]/tool#2" -> "sub/tool". */
const placeOf = (item) => item.path.split('/').map((part) => part.split('#')[0]).join('/');

/** The box of an item, also inside subgraphs. */
function depthOf(picture, path) {
  let found = null;
  for (const part of path.split('/')) { found = (found?.inside ?? (found ? null : picture))?.boxes.find((box) => box.name === part.split('#')[0]); if (!found) return null; }
  return found;
}

const sameBatch = (one, item) => !item || !item.path.includes('[') || one.path.slice(0, one.path.lastIndexOf('[')) === item.path.slice(0, item.path.lastIndexOf('['));

function threadOf(why, thread, byPath, chosen, item) {
  const names = [];
  for (const name of thread) {
    const node = byPath.get(name)?.node ?? why?.items?.[name]?.node;
    if (node && names[names.length - 1] !== node) names.push(node);
  }
  const first = why?.items?.[thread[thread.length - 1]];
  const given = first?.reasons?.find((r) => r.kind === 'given' || r.kind === 'start');
  if (given?.value) names.push(given.value);
  return names;
}

function filterItems(items, show, only) {
  let out = only ? items.filter((item) => item.node === only) : items;
  if (show === 'failed') out = out.filter((item) => item.state === 'failed' || item.failed);
  if (show === 'retried') out = out.filter((item) => item.tries.length);
  if (show === 'slowest') out = [...out].sort((a, b) => (b.duration ?? 0) - (a.duration ?? 0)).slice(0, 50);
  return out === items ? [...items] : [...out];
}

function hasAhead(items, committed) {
  const until = aheadUntil(items, committed);
  return items.some((item) => item.start != null && !item.gate && until(item) > item.start);
}

function ItemTable({ items, path, onPick }) {
  const shown = items.slice(0, 180);
  return html`<div class="scrollx" tabindex="0" role="region" aria-label="Items"><table class="plain"><thead><tr><th>Item</th><th class="r">Step</th><th class="r">Began</th><th class="r">Took</th><th class="r">Calls</th><th class="r">Failed tries</th><th>State</th></tr></thead>
    <tbody>${shown.map((item) => html`<tr key=${item.path} class=${item.path === path ? 'chosen' : ''}><td><button type="button" class="link mono" onClick=${() => onPick(item.path)} aria-label=${describe(item)}>${item.path}</button></td><td class="r">${item.step}</td><td class="r">${duration(item.begin)}</td><td class="r">${duration(item.duration)}</td><td class="r">${item.calls || ''}</td><td class="r">${item.tries.length || ''}</td><td><${Status} status=${item.state}/></td></tr>`)}</tbody></table>${items.length > shown.length && html`<p class="empty">${count(items.length - shown.length)} more; filter or zoom to see them.</p>`}</div>`;
}

/** A border between panes that can be dragged, or moved with the arrow keys. */
function Grip({ box, name, side }) {
  const [at0, setAt] = useState(() => Number(localStorage.getItem(`clew.${name}`)) || null);
  const ref = useRef(null);
  const put = (share) => {
    const value = Math.max(14, Math.min(44, share));
    box.current?.style.setProperty(name, `${value}%`);
    localStorage.setItem(`clew.${name}`, String(value));
    setAt(value);
  };
  useEffect(() => { if (at0) box.current?.style.setProperty(name, `${at0}%`); }, []);
  const from = (event) => { const r = box.current.getBoundingClientRect(); return side === 'left' ? ((event.clientX - r.left) / r.width) * 100 : ((r.right - event.clientX) / r.width) * 100; };
  return html`<div ref=${ref} class="grip" role="separator" aria-orientation="vertical" tabindex="0" aria-label=${`Width of the ${side} pane`} aria-valuenow=${Math.round(at0 ?? 28)} aria-valuemin="14" aria-valuemax="44"
    onPointerDown=${(e) => e.currentTarget.setPointerCapture(e.pointerId)} onPointerMove=${(e) => e.currentTarget.hasPointerCapture(e.pointerId) && put(from(e))}
    onKeyDown=${(e) => { const by = { ArrowLeft: -2, ArrowRight: 2 }[e.key]; if (by) { put((at0 ?? 28) + (side === 'left' ? by : -by)); e.preventDefault(); e.stopPropagation(); } }}/>`;
}

function Head({ run, context, items, whole, now, ahead, answered }) {
  const took = run.status === 'running' ? Math.max(run.took ?? 0, now - run.created) : run.took;
  const fact = (n, word, many) => n > 0 && html`<span><b>${count(n)}</b> ${n === 1 ? word : many ?? `${word}s`}</span>`;
  // The items may be a moment behind: the steps that are counted are theirs.
  const last = run.status === 'running' && whole && items.length ? Math.min(run.last, items.reduce((most, item) => (item.open ? most : Math.max(most, item.step)), run.first)) : run.last;
  const done = whole ? items.filter((item) => !item.open || item.state === 'done').length : 0;
  const early = ahead > run.last ? 0 : items.filter((item) => item.open && item.state === 'done').length;
  const retried = run.retries || items.filter(isRetried).length;
  return html`<header class="head"><div class="row"><span class="crumb"><a href="/runs">Runs</a> /</span><h1 data-clew-run=${run.id}>${run.id}</h1><${Copy} text=${run.id} what="copy the id"/><${Pill} status=${answered && run.status === 'completed' ? run.answer.status : run.status}/><${Verbs} run=${run} context=${context}/></div>
    <div class="facts">${(run.target || run.graph) && html`<code title=${run.target}>${targetName(run.target, run.graph)}</code>`}${took != null && html`<span>took <b>${duration(took)}</b></span>`}
      ${ahead > run.last ? html`<span><b>${count(run.last - run.first)}</b> ${run.last - run.first === 1 ? 'step' : 'steps'} committed, <b>${count(ahead - run.last)}</b> ahead</span>` : fact(last - run.first, 'step')}${early > 0 && html`<span><b>${count(early)}</b> ${early === 1 ? 'item' : 'items'} ahead</span>`}
      ${answered && run.answer ? fact(run.answer.sources.length, 'source') : html`${fact(run.items ?? done, 'item')}${fact(run.calls, 'recorded call')}${retried > 0 && html`<span><b>${count(retried)}</b> retried</span>`}`}
      <span>started ${moment(run.created)}</span>${run.parent && html`<span>fork of <a href=${href(pathTo('runs', run.parent.id), { k: run.parent.step })}>${run.parent.id}</a> at S(${run.parent.step}) · <a href=${href('/compare', { a: run.parent.id, b: run.id })}>compare</a></span>`}
      ${run.child_of && html`<span>child of <a href=${pathTo('runs', run.child_of.id ?? run.child_of)}>${run.child_of.id ?? run.child_of}</a></span>`}
      ${run.forks.length > 0 && html`<span>${plural(run.forks.length, 'fork')}: ${run.forks.slice(0, 3).map((f, i) => html`${i ? ', ' : ''}<a href=${pathTo('runs', f.id)}>${f.id}</a>`)}${run.forks.length > 3 ? ' …' : ''}</span>`}
      <span>${run.owner ? html`owner <b>${run.owner.name}</b>${run.owner.lease != null ? `, lease ${Math.max(0, Math.round(run.owner.lease))} s` : ''}` : 'no owner'}</span></div></header>`;
}

function Banner({ run, context, phone, picture }) {
  const command = (verb) => commandOf(run, verb);
  const failure = run.failures.find((f) => !f.rescued);
  if (run.damage) return html`<div class="banner b-fail" role="alert"><${Status} status="damaged"/><b>${run.damage}</b><span class="dim">What can be read is shown.</span><span class="end"><${Command} text=${run.doctor}/></span></div>`;
  const open = run.questions.filter((q) => q.open !== false);
  if (run.status === 'waiting' && open.length) {
    const q = open.find((one) => !one.sent) ?? open[0];
    if (q.sent) return html`<div class="banner b-wait"><${Status} status="queued" word=${`${q.path} is answered`}/><b>${run.worker.available ? 'A worker takes the run.' : 'No worker takes this run.'}</b>${!run.worker.available && html`<span class="end"><${Command} text=${run.worker.command}/></span>`}</div>`;
    return html`<div class="banner b-wait"><${Status} status="waiting" word=${`${q.path} asks`}/><b>${q.title}</b>${open.length > 1 && html`<span class="dim">and ${open.length - 1} more</span>`}
      <span class="end">${phone ? html`<button type="button" onClick=${context.onAnswer}>Answer</button>` : html`or <${Command} text=${q.command ?? command('answer')}/>`}</span></div>`;
  }
  if (run.status === 'failed' && failure) return html`<div class="banner b-fail"><${Status} status="failed" word=${`${failure.path} failed`}/><b class="mono">${failure.type}: ${failure.message}</b><span class="dim">${failure.attempts > 1 ? `after ${failure.attempts} attempts, ` : ''}in step ${failure.step}</span>${!phone && command('resume') && html`<span class="end"><${Command} text=${command('resume')}/></span>`}</div>`;
  if (run.status === 'lost') return html`<div class="banner b-fail"><${Status} status="lost"/><b>Its process has ended without saying so.</b><span class="dim">Nothing is lost: resume goes on from S(${run.last}).</span><span class="end"><${Command} text=${command('resume')}/></span></div>`;
  const { says } = run;
  if (says?.due || says?.kind === 'wait') return html`<div class="banner b-wait"><${Status} status=${run.status}/><b>${says.path && html`<code>${says.path}</code> `}${says.text}${says.due ? ` until ${moment(says.due)}` : ''}</b></div>`;
  if (run.status === 'queued' && run.worker && !run.worker.available) return html`<div class="banner b-wait"><${Status} status="queued"/><b>No worker takes this run.</b><span class="end"><${Command} text=${run.worker.command}/></span></div>`;
  if (picture.error && !picture.data) return html`<div class="banner b-wait"><${Status} status="lost" word="graph not stored"/><span>${picture.error.message}</span></div>`;
  return null;
}

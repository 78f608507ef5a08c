// One dependency graph: values with their freshness, the picture, and why the selected one is outdated.
// Looking computes nothing.
import { html, cx, useEffect, useMemo, useRef, useState } from '../lib/html.js';
import { at, post, useData, withQuery } from '../lib/api.js';
import { count, plural, quote } from '../lib/format.js';
import { useKeys } from '../lib/keys.js';
import { select } from '../lib/router.js';
import { useServer } from '../lib/server.js';
import { parsed } from '../lib/values.js';
import { ask, VerbDialog } from '../ui/dialog.js';
import { GraphView } from '../ui/graph.js';
import { Icon, Pill, Status, StatusIcon, toneOf } from '../ui/icons.js';
import { Problem, Segments, Skeleton } from '../ui/parts.js';
import { setOffers, toast } from '../ui/shell.js';
import { ValueView } from '../ui/value.js';

export default function Value({ target, query }) {
  const data = useData(withQuery(at('values', target), { node: query.node, show: query.show }), { keep: true });
  if (!data.data) return data.error ? html`<${Problem} error=${data.error} retry=${data.reload}/>` : html`<${Skeleton} rows=${6}/>`;
  return html`<${Loaded} target=${target} graph=${data.data} query=${query} reload=${data.reload} error=${data.error}/>`;
}

function Loaded({ target, graph, query, reload, error }) {
  const nodes = useMemo(() => new Map(graph.nodes.map((n) => [n.name, n])), [graph]);
  const node = graph.node;
  const readOnly = useServer()?.read_only ? 'this server only reads (--read-only)' : undefined;
  const box = useRef(null);
  const [text, setText] = useState('');
  const matching = graph.nodes.filter((n) => (text.includes('is:outdated') ? n.state === 'outdated' : true) && n.name.toLowerCase().includes(text.replace(/is:\w+/g, '').trim().toLowerCase()));
  const outdated = graph.nodes.filter((n) => n.state === 'outdated').length;
  const fresh = graph.nodes.filter((n) => n.state === 'fresh').length;
  const sources = graph.nodes.filter((n) => n.is_source).length;
  const pick = (name) => select({ node: name });
  const move = (by) => { const i = matching.findIndex((n) => n.name === node?.name); const next = matching[Math.max(0, Math.min(matching.length - 1, i + by))]; if (next) pick(next.name); };
  useKeys({ j: () => move(1), k: () => move(-1), Escape: () => select({ node: null }), '/': () => box.current?.focus() });
  useEffect(() => setOffers(() => graph.nodes.map((n) => ({ kind: 'value', name: n.name, open: () => pick(n.name) }))));
  const source = node && nodes.get(node.name)?.is_source ? node.name : graph.nodes.find((n) => n.is_source)?.name;
  const act = async (dialog, props, done) => { const found = await ask(dialog, { graph, target, ...props }); if (found) { toast(`${done} ${found.node}`); reload(); } };
  const verb = (name, title, says) => act(VerbDialog, { title: `${title} ${node.name}`, says, action: title, command: graph.commands[name], act: () => post(at('values', target, name), { node: node.name }) }, title === 'Pull' ? 'Pulled' : 'Invalidated');
  const pull = () => verb('pull', 'Pull', node.would_compute != null ? `It computes at most ${plural(node.would_compute, 'value')}.` : 'It computes what is outdated below it.');
  const invalidate = () => verb('invalidate', 'Invalidate', 'Its value may be outdated from then on; the next pull computes it again.');
  const set = () => act(SetDialog, { name: source }, 'Set');
  const why = node?.why ?? [];
  const links = useMemo(() => linksOf(node?.name, why.map((entry) => entry.node), nodes), [graph]);
  const inputs = (nodes.get(node?.name)?.inputs ?? []).map((name) => nodes.get(name)).filter(Boolean);
  const roots = node ? rootsOf(node.name, nodes) : [];
  const rev = nodes.get(node?.name)?.revision;
  return html`<header class="head"><div class="row"><span class="crumb"><a href="/values">Values</a> /</span><h1>${target}</h1><${Pill} status=${outdated ? 'outdated' : 'fresh'} word=${outdated ? `${count(outdated)} may be outdated` : 'all up to date'}/>
      <div class="verbs">${node && !nodes.get(node.name)?.is_source && html`<button type="button" class="primary" data-verb="pull" disabled=${Boolean(readOnly)} title=${readOnly} onClick=${pull}>Pull ${node.name}</button>`}<button type="button" data-verb="set" disabled=${Boolean(readOnly)} title=${readOnly} onClick=${set}>Set a source…</button>${node && html`<button type="button" data-verb="invalidate" disabled=${Boolean(readOnly)} title=${readOnly} onClick=${invalidate}>Invalidate</button>`}</div></div>
    <div class="facts"><span>revision <b>${graph.revision}</b></span><span><b>${count(graph.nodes.length)}</b> values</span><span><b>${count(fresh)}</b> up to date</span><span><b>${count(sources)}</b> sources</span><span>nothing is computed by looking</span></div></header>
    ${error && html`<p class="stale">${error.message}</p>`}
    <div class="val3"><section class="pane" aria-label="List of values"><div class="filters"><div class="querybox"><${Icon} name="search"/><input ref=${box} data-query type="search" aria-label="Search values" placeholder="name  is:outdated" onInput=${(e) => setText(e.target.value)}/></div></div>
        <div class="insp" tabindex="0" role="region" aria-label="Values">${matching.slice(0, 190).map((n) => html`<button type="button" key=${n.name} class=${cx('vrow', node?.name === n.name && 'sel')} onClick=${() => pick(n.name)}><span class=${`t-${toneOf(n.state)}`} title=${n.state}><${StatusIcon} status=${n.state}/></span><span>${n.name}</span><span class="end">r${n.revision ?? '–'}</span></button>`)}${matching.length > 190 && html`<p class="empty">${count(matching.length - 190)} more; search for them.</p>`}${!matching.length && html`<p class="empty">No value matches.</p>`}</div></section><div class="rule"/>
      <section class="pane" aria-label="Picture"><div class="panehead"><h2>Graph</h2><span class="dim">of ${plural(graph.nodes.length, 'value')}${graph.nodes.length > 200 ? '; what is around the selected one' : ''}</span><span class="end"><${Segments} label="Show" options=${[['values', 'Values'], ['schemas', 'Schemas']]} value=${query.show ?? 'values'} onPick=${(v) => select({ show: v === 'values' ? null : v })}/></span></div>
        ${graph.picture?.boxes?.length ? html`<${GraphView} picture=${graph.picture} chosen=${node?.name} links=${links} onPick=${(name) => nodes.has(name) && pick(name)} label="Dependency graph"/>` : html`<p class="empty">Select a value to see what is around it.</p>`}
        <p class="legend foot" aria-hidden="true"><span class="t-ok">● up to date</span><span class="t-wait">◌ may be outdated</span><span>■ source</span><span class="t-thread"><b>━ why the selected one is outdated</b></span></p></section><div class="rule"/>
      <section class="pane scroll" aria-label="Selected value">${!node ? html`<p class="empty">Select a value. Its sources, its inputs and why it is outdated appear here.</p>` : html`
        <div class="itemhead"><b>${node.name}</b><span class="end"><${Status} status=${node.state}/></span></div>
        ${why.length > 0 && html`<section class="sec"><h3>Why</h3><ul class="why">${why.map((entry, i) => html`<li key=${i}><button type="button" onClick=${() => pick(entry.node)}><b>${entry.node}</b> ${entry.text.startsWith(entry.node) ? entry.text.slice(entry.node.length).trim() : entry.text}</button>${entry.note && html`<small>${entry.note}</small>`}</li>`)}</ul></section>`}
        ${roots.length > 0 && html`<section class="sec"><h3>Sources</h3>${roots.map((n) => html`<p class="choice" key=${n.name}><button type="button" class="link mono" onClick=${() => pick(n.name)}>${n.name}</button><span>set at r${n.revision} ${rev != null && n.revision > rev ? html`<span class="badge bg-wait">newer</span>` : null}</span></p>`)}</section>`}
        ${inputs.length > 0 && html`<section class="sec"><h3>Inputs</h3>${inputs.map((n) => html`<p class="choice" key=${n.name}><button type="button" class="link mono" onClick=${() => pick(n.name)}>${n.name}</button><span><${Status} status=${n.state}/> r${n.revision ?? '–'}</span></p>`)}</section>`}
        ${'value' in node && html`<section class="sec"><h3>Value${rev != null ? ` at revision ${rev}` : ''}</h3><${ValueView} value=${node.value}/></section>`}`}</section></div>`;
}

const setCommand = (line, node, value) => line.replace(/^clew set (.*) NODE VALUE(.*)$/, (_, target, store) => (/^'?-/.test(node) || value.startsWith('-') ? `clew set${store} -- ${target} ${node} ${value}` : `clew set ${target} ${node} ${value}${store}`));

function SetDialog({ graph, target, name, close }) {
  const [node, setNode] = useState(name);
  const found = useData(withQuery(at('values', target), { node })).data?.node;
  const now = found && (found.exact ?? '');
  const [typed, setTyped] = useState(null); // null: the current value
  const text = typed ?? now ?? '';
  const { value, error } = parsed(text);
  const note = typed === null && now === '' && ('value' in found ? 'the current value cannot be written as JSON' : 'it has no value yet');
  return html`<${VerbDialog} title="Set a source" action="Set" ready=${!error} close=${close} says="What uses it may be outdated from then on. Nothing is computed before the next pull."
    command=${setCommand(graph.commands.set, quote(node), error ? 'VALUE' : quote(text.trim()))}
    act=${() => post(at('values', target, 'set'), { node, value })}>
    <div class="field"><label for="set-node">source</label><select id="set-node" onChange=${(e) => { setNode(e.target.value); setTyped(null); }}>${graph.nodes.filter((n) => n.is_source).slice(0, 200).map((n) => html`<option key=${n.name} selected=${n.name === node}>${n.name}</option>`)}</select></div>
    <div class="field"><label for="set-value">value as JSON</label><textarea id="set-value" class="code" rows="4" spellcheck=${false} aria-invalid=${text && error ? 'true' : undefined} onInput=${(e) => setTyped(e.target.value)} value=${text}/>${text && error ? html`<p class="err">${error}</p>` : note && html`<p class="note">${note}</p>`}</div><//>`;
}

/** The arrows on the shortest ways from the causes to the selected value. */
function linksOf(name, causes, nodes) {
  const from = new Map([[name, null]]);
  const queue = [name];
  while (queue.length) {
    const here = queue.shift();
    for (const input of nodes.get(here)?.inputs ?? []) if (!from.has(input)) { from.set(input, here); queue.push(input); }
  }
  const out = new Set();
  for (const cause of causes) for (let at0 = cause; from.get(at0); at0 = from.get(at0)) out.add(`${at0}>${from.get(at0)}`);
  return out;
}

function rootsOf(name, nodes) {
  const out = new Map();
  const seen = new Set();
  const visit = (at0) => { if (seen.has(at0)) return; seen.add(at0); const n = nodes.get(at0); if (!n) return; if (n.is_source) out.set(at0, n); for (const input of n.inputs ?? []) visit(input); };
  visit(name);
  out.delete(name);
  return [...out.values()].sort((a, b) => (b.revision ?? 0) - (a.revision ?? 0));
}

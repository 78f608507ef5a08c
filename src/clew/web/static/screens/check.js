// One check: guarantees, states by distance from the start, and the shortest path to a violation, step by step.
import { html, cx, useMemo, useState } from '../lib/html.js';
import { at, useData } from '../lib/api.js';
import { count, duration, plural } from '../lib/format.js';
import { useKeys } from '../lib/keys.js';
import { select } from '../lib/router.js';
import { oneLine } from '../lib/values.js';
import { ask, Frame } from '../ui/dialog.js';
import { Pill, Status, StatusIcon } from '../ui/icons.js';
import { Command, Lines, Pane, saveText, Segments, usePhone, useWidth } from '../ui/parts.js';

export default function Check({ id, query }) {
  const data = useData(at('checks', id));
  return html`<${Pane} data=${data} rows=${6}>${(check) => html`<${Loaded} check=${check} query=${query}/>`}<//>`;
}

/** Positions: a column per distance, rows in the order of the mean of their predecessors; the path is on top. */
function place(check, keep, path, width, height, column) {
  const nodes = check.nodes.filter((node) => !keep || keep.has(node.id));
  const ids = new Set(nodes.map((node) => node.id));
  const edges = check.edges.filter((edge) => ids.has(edge.from) && ids.has(edge.to));
  const columns = [];
  for (const node of nodes) (columns[node.depth] ??= []).push(node);
  const y = new Map();
  const before = new Map();
  for (const edge of edges) { if (!before.has(edge.to)) before.set(edge.to, []); before.get(edge.to).push(edge.from); }
  const out = new Map();
  const dense = Math.max(...columns.map((c) => c?.length ?? 0), 1);
  const tall = Math.max(height, dense * 26 + 60);
  const wide = Math.max(width, columns.length * column);
  columns.forEach((column, depth) => {
    if (!column) return;
    const mean = (node) => { const from = (before.get(node.id) ?? []).map((p) => y.get(p)).filter((v) => v !== undefined); return from.length ? from.reduce((s, v) => s + v, 0) / from.length : 0.5; };
    column.sort((a, b) => path.has(b.id) - path.has(a.id) || mean(a) - mean(b) || a.id - b.id);
    column.forEach((node, i) => {
      const share = column.length === 1 ? (depth === 0 ? 0.5 : path.has(node.id) ? 0.06 : 0.5) : i / (column.length - 1);
      const spread = Math.min(1, (column.length * 52) / (tall - 70));
      const at0 = column.length === 1 ? share : path.has(column[0].id) && depth > 0 ? 0.04 + share * spread * 0.92 : 0.5 + (share - 0.5) * spread;
      y.set(node.id, at0);
      out.set(node.id, { node, x: 40 + (wide - 80) * (columns.length > 1 ? depth / (columns.length - 1) : 0.5), y: 50 + at0 * (tall - 80) });
    });
  });
  return { nodes: out, edges, columns: columns.map((_, depth) => ({ depth, x: 40 + (wide - 80) * (columns.length > 1 ? depth / (columns.length - 1) : 0.5) })), width: wide, height: tall };
}

const isBad = (node) => node.kind === 'violation' || node.kind === 'violates';

/** The states that are only reached through a violation. */
function afterViolations(check) {
  const next = new Map(check.nodes.map((node) => [node.id, []]));
  for (const edge of check.edges) next.get(edge.from)?.push(edge.to);
  const bad = new Set(check.nodes.filter(isBad).map((node) => node.id));
  const reach = (from) => { const seen = new Set(); const left = [...from]; while (left.length) { const id = left.pop(); if (!seen.has(id)) { seen.add(id); if (!bad.has(id) || from.includes(id)) left.push(...next.get(id) ?? []); } } return seen; };
  const without = reach(check.nodes.filter((node) => node.depth === 0 && !bad.has(node.id)).map((node) => node.id));
  return new Set([...reach([...bad])].filter((id) => !without.has(id)));
}

const oct = (x, y, r) => { const c = r * 0.42; return `M${x - c} ${y - r}H${x + c}L${x + r} ${y - c}V${y + c}L${x + c} ${y + r}H${x - c}L${x - r} ${y + c}V${y - c}Z`; };

function States({ check, violation, step, only, onStep }) {
  const [ref, size] = useWidth(700);
  const phone = usePhone();
  const path = useMemo(() => violation?.path ?? [], [violation]);
  const onPath = useMemo(() => new Set(path.map((p) => p.state)), [path]);
  const keep = useMemo(() => {
    if (!only) return null;
    const near = new Set(onPath);
    for (const edge of check.edges) if (onPath.has(edge.from) || onPath.has(edge.to)) { near.add(edge.from); near.add(edge.to); }
    return near;
  }, [check, onPath, only]);
  const view = useMemo(() => place(check, keep, onPath, size.width || 700, phone ? 420 : Math.max(360, size.height - 4), phone ? 62 : 90), [check, keep, onPath, size.width, size.height, phone]);
  const after = useMemo(() => afterViolations(check), [check]);
  const order = path.map((p) => p.state);
  const isOnPath = (edge) => { const i = order.indexOf(edge.from); return i >= 0 && order[i + 1] === edge.to && (!path[i + 1]?.choice || !edge.text || edge.text === path[i + 1].choice || edge.text === path[i].choice); };
  const curve = (edge) => {
    const [p, q] = [view.nodes.get(edge.from), view.nodes.get(edge.to)];
    if (edge.from === edge.to) return `M${p.x} ${p.y - 8}c14 -24 28 -8 8 4`;
    if (Math.abs(p.x - q.x) < 4) { const bend = 30 + Math.abs(p.y - q.y) / 7; return `M${p.x + 8} ${p.y}C${p.x + bend} ${p.y} ${q.x + bend} ${q.y} ${q.x + 8} ${q.y}`; }
    const m = (p.x + q.x) / 2;
    return `M${p.x} ${p.y}C${m} ${p.y} ${m} ${q.y} ${q.x} ${q.y}`;
  };
  const sorted = [...view.edges].sort((a, b) => isOnPath(a) - isOnPath(b));
  return html`<div class="states" ref=${ref} tabindex="0" role="region" aria-label="States of the check"><svg width=${view.width} height=${view.height} role="img" aria-label=${`${check.states} states, ${check.transitions} transitions; the shortest path has ${Math.max(0, path.length - 1)} choices`}>
    ${view.columns.map((c) => html`<text key=${c.depth} x=${c.x} y="20" text-anchor="middle">${c.depth}</text>`)}
    ${sorted.map((edge, i) => html`<path key=${i} class=${cx('edge', edge.fault && 'fault', isOnPath(edge) && 'path')} d=${curve(edge)}><title>${edge.text}</title></path>`)}
    ${[...view.nodes.values()].map(({ node, x, y }) => {
      const i = order.indexOf(node.id);
      const end = i === order.length - 1 && i >= 0;
      const bad = isBad(node) || end;
      const good = (node.kind === 'completed' || node.kind === 'end') && !after.has(node.id);
      const cls = cx('snode', good && 'completed', bad && 'violates', i >= 0 && 'path', end && 'end');
      return html`<g key=${node.id} onClick=${() => i >= 0 && onStep(i)}>${bad ? html`<path class=${cls} d=${oct(x, y, i >= 0 ? 12 : 11)}/>` : html`<circle class=${cls} cx=${x} cy=${y} r=${i >= 0 ? 10 : 7}/>`}<title>${node.label || `state ${node.id}`}</title>
        ${i >= 0 && html`<text class=${cx('num', end && 'inv')} x=${x} y=${y + 4} text-anchor="middle">${i}</text>`}${i >= 0 && i === step && html`<circle class="ring" cx=${x} cy=${y} r="15"/>`}</g>`;
    })}</svg></div>`;
}

function Loaded({ check, query }) {
  const v = Math.min(Number(query.v ?? 0) || 0, Math.max(0, check.violations.length - 1));
  const violation = check.violations[v];
  const path = violation?.path ?? [];
  // The first entry may be the start (no choice); what is shown are the choices.
  const choices = path.map((entry, i) => ({ ...entry, i })).filter((entry) => entry.choice);
  const step = Math.max(0, Math.min(Number(query.step ?? choices.length) || choices.length, choices.length));
  const [only, setOnly] = useState(false);
  const go = (to) => select({ step: Math.max(1, Math.min(choices.length, to)) });
  useKeys({ ArrowLeft: () => go(step - 1), ArrowRight: () => go(step + 1), Home: () => go(1), End: () => go(choices.length) });
  const broken = check.guarantees.filter((p) => p.violated);
  const facts = Object.entries(check.facts ?? {});
  const again = check.command;
  const isRun = check.kind === 'check';
  const show = (title, command) => ask(({ close }) => html`<${Frame} title=${title} close=${close}><p class="says">This executes your code, so the page does not do it. In a terminal:</p><${Command} text=${command}/><//>`);
  const counterexample = () => ({ clew_check: check.clew_check, counterexamples: [{ invariant: violation.guarantee, message: violation.message, choices: choices.map((entry) => entry.choice) }] });
  const save = () => saveText(JSON.stringify(!violation ? check : isRun ? counterexample() : violation, null, 2), `${check.name.replace(/[^\w.-]+/g, '-')}.json`, 'application/json');
  // A path entry's choice leads away from its state; the drawn path is the states, closed by the violating one.
  return html`<header class="head"><div class="row"><span class="crumb"><a href="/checks">Checks</a> /</span><h1>${check.name}</h1><${Pill} status=${check.violations.length ? 'failed' : 'completed'} word=${check.violations.length ? plural(check.violations.length, 'violation') : 'all held'}/>
      <div class="verbs">${again && html`<button type="button" class="primary" data-verb="again" onClick=${() => show('Run it again', again)}>Run again</button>`}<button type="button" data-verb="save" onClick=${save}>Save ${violation ? 'counterexample' : 'document'}</button>${again && html`<button type="button" data-verb="report" onClick=${() => show('A report as a page', `${again} --report report.html`)}>Report…</button>`}</div></div>
    <div class="facts">${check.graph && html`<span>graph <b class="mono">${check.graph}</b></span>`}<span><b>${count(check.states)}</b> states</span><span><b>${count(check.transitions)}</b> transitions</span>${facts.map(([name, value]) => html`<span key=${name}>${name.replace(/_/g, ' ')} <b>${typeof value === 'string' ? value : oneLine(value)}</b></span>`)}<span>${check.complete ? 'whole space seen' : 'stopped before the whole space was seen'}</span><span><b>${duration(check.took)}</b></span></div></header>
    ${violation && html`<div class="banner b-fail"><${Status} status="failed" word=${violation.guarantee}/><b>${violation.message || check.guarantees.find((p) => p.name === violation.guarantee)?.message}</b><span class="dim">shortest path: ${plural(choices.length, 'choice')} · seen ${plural(violation.times ?? 1, 'time')}${violation.confirmed ? ' · confirmed by a second run' : ''}</span></div>`}
    <div class="check3"><section class="pane scroll side" aria-label="Guarantees"><div class="panehead"><h2>Guarantees</h2></div>
        ${[...check.guarantees].sort((a, b) => (b.violated > 0) - (a.violated > 0)).map((p) => html`<button type="button" key=${p.name} class=${cx('guarantee', p.violated && 'bad')} onClick=${() => { const i = check.violations.findIndex((x) => x.guarantee === p.name); if (i >= 0) select({ v: i, step: null }); }}><${Status} status=${p.violated ? 'failed' : 'completed'} word=${p.name}/><span class="end">${p.violated ? plural(p.violated, 'time') : 'held'}</span></button>`)}
        ${check.choices?.length > 0 && html`<h3 class="subhead sec">Choices tried</h3>${check.choices.slice(0, 120).map((c) => html`<div class="choice" key=${c.text} title=${c.text}><span>${c.text}</span><span>${count(c.times)}</span></div>`)}`}</section><div class="rule"/>
      <section class="pane" aria-label="States"><div class="panehead"><h2>States</h2><span class="dim">by distance from the start</span><span class="end">${check.truncated && html`<small>the path and what is next to it</small>`}<${Segments} label="Which states" options=${[['all', `All ${count(check.nodes.length)}`], ['path', 'On the path']]} value=${only ? 'path' : 'all'} onPick=${(x) => setOnly(x === 'path')}/></span></div>
        <${States} check=${check} violation=${violation && closed(violation, check)} step=${step} only=${only} onStep=${(i) => go(i)}/>
        <p class="legend foot" aria-hidden="true"><span>○ state</span><span class="t-ok">○ ${isRun ? 'run completed' : 'nothing leaves it'}</span><span class="t-fail"><${StatusIcon} status="failed"/> violates</span>${isRun && html`<span class="t-wait">- - crash, timeout, failure</span>`}<span class="t-fail"><b>━ shortest path</b></span></p></section><div class="rule"/>
      <section class="pane scroll" aria-label="Path"><div class="panehead"><h2>${violation ? 'Path to it' : 'Nothing was violated'}</h2>${violation && html`<span class="end"><button type="button" class="icon" aria-label="step before" onClick=${() => go(step - 1)}>◀</button>step ${step} of ${choices.length}<button type="button" class="icon" aria-label="step after" onClick=${() => go(step + 1)}>▶</button></span>`}</div>
        ${choices.map((entry, i) => html`<div key=${i} class=${cx('pathstep', i + 1 === step && 'sel')} data-step=${i + 1} onClick=${() => go(i + 1)}><span class="badge bg-fail">${i + 1}</span><b>${entry.choice}</b>${(entry.narrative ?? []).map((line, j) => html`<p key=${j}>${line}</p>`)}
          ${entry.diff?.length > 0 && html`<${Lines} lines=${entry.diff.flatMap(diffLine)}/>`}
          ${entry.inside?.length > 0 && html`<details onClick=${(e) => e.stopPropagation()}><summary>${plural(entry.inside.length, 'line')} inside the run: ${[...new Set(entry.inside.map((line) => String(line).replace(/^run\./, '').split(/[.[ ]/)[0]))].slice(0, 5).join(', ')}</summary>${entry.inside.map((line, j) => html`<div key=${j}>${String(line)}</div>`)}</details>`}</div>`)}
        ${violation && html`<p class="violated"><b class="t-fail">${violation.guarantee} is violated here.</b> ${violation.message}</p>`}
        ${!violation && broken.length === 0 && html`<p class="empty">Every state that was seen keeps every guarantee.</p>`}</section></div>`;
}

// The states of a path: those that its choices leave, and the one that the last choice enters.
function closed(violation, check) {
  const path = violation.path;
  const last = path[path.length - 1];
  if (!last?.choice) return violation;
  if (last.to !== undefined) return { ...violation, path: [...path, { state: last.to }] };
  const edge = check.edges.find((e) => e.from === last.state && e.text === last.choice);
  return edge ? { ...violation, path: [...path, { state: edge.to }] } : violation;
}

function diffLine([sign, name, ...values]) {
  const text = (value) => (value === undefined ? '' : `: ${typeof value === 'string' ? value : oneLine(value)}`);
  if (sign === '~') return [{ sign: '-', tone: '-', text: `${name}${text(values[0])}` }, { sign: '+', tone: '+', text: `${name}${text(values[1])}` }];
  return [{ sign, tone: sign, text: `${name}${text(values[0])}` }];
}

// Two runs: where they part, and the values side by side. Steps that did the same are folded.
import { html, cx, useMemo, useState } from '../lib/html.js';
import { BASE, useData, withQuery } from '../lib/api.js';
import { changeLines, sides } from '../lib/diff.js';
import { plural } from '../lib/format.js';
import { useKeys } from '../lib/keys.js';
import { pathTo, select } from '../lib/router.js';
import { oneLine } from '../lib/values.js';
import { ask } from '../ui/dialog.js';
import { Status } from '../ui/icons.js';
import { Command, copyText, Lines, Pane, Tabs, usePhone } from '../ui/parts.js';
import { toast } from '../ui/shell.js';

const pickRun = (title) => import('../ui/jump.js').then(({ Jump }) => ask(Jump, { title, only: true }));

export default function Compare({ query }) {
  const { a, b } = query;
  const data = useData(a && b ? withQuery(`${BASE}/diff`, { a, b }) : null);
  if (!a || !b) return html`<div class="lone"><h1>Which runs?</h1><p><button type="button" onClick=${async () => { const one = a ?? (await pickRun('The first run')); const two = one && (await pickRun('The second run')); if (two) select({ a: one, b: two }); }}>Choose two runs</button></p></div>`;
  return html`<${Pane} data=${data} rows=${8}>${(diff) => html`<${Loaded} diff=${diff} query=${query}/>`}<//>`;
}

const differs = (step) => !step.same && (step.a?.length || step.b?.length);

/** Steps as rows: differing ones alone, others folded together. */
function rowsOf(diff) {
  const rows = [];
  if (diff.since > 0 && diff.a.id !== diff.b.id) rows.push({ fold: true, text: diff.common === diff.a.id ? 'common: B was forked from A here' : `common: both come from ${diff.common}`, from: 1, to: diff.since });
  const set = diff.steps.flatMap((step) => step.set ?? []);
  if (set.length) rows.push({ set });
  let same = [];
  const first = diff.steps.findIndex(differs);
  diff.steps.forEach((step, i) => {
    // The step before the first difference stays visible, as context.
    if (!step.same && !step.a?.length && !step.b?.length) return; // nothing but values set from outside
    if (step.same && i !== first - 1) { same.push(step); return; }
    if (same.length) { rows.push({ fold: true, steps: same, from: same[0].k, to: same[same.length - 1].k }); same = []; }
    rows.push({ step });
  });
  if (same.length) rows.push({ fold: true, steps: same, from: same[0].k, to: same[same.length - 1].k });
  return rows;
}

function Loaded({ diff, query }) {
  const phone = usePhone();
  const { a, b } = diff;
  const rows = useMemo(() => rowsOf(diff), [diff]);
  const differing = diff.steps.filter(differs);
  const first = differing[0]?.k ?? diff.first;
  const k = query.k !== undefined ? Number(query.k) : first ?? null;
  const [tab, setTab] = useState(query.k !== undefined ? 'k' : 'end');
  const [open, setOpen] = useState(new Set());
  const atK = useData(tab === 'k' && k != null ? withQuery(`${BASE}/diff`, { a: a.id, b: b.id, k }) : null, { keep: true });
  const move = (by) => {
    const i = differing.findIndex((step) => step.k === k);
    const next = differing[Math.max(0, Math.min(differing.length - 1, i + by))];
    if (next) select({ k: next.k });
  };
  useKeys({ ArrowLeft: () => move(-1), ArrowRight: () => move(1), j: () => move(1), k: () => move(-1) });
  const values = tab === 'k' ? atK.data?.values : diff.values;
  const equal = (tab === 'k' ? atK.data?.equal : diff.equal) ?? [];
  const change = async (which) => { const id = await pickRun(`Run ${which.toUpperCase()}`); if (id) select({ [which]: id, k: null }); };
  const side = (which, run, note) => html`<div><span class=${`badge l-${which}`}>${which.toUpperCase()}</span><h2><a href=${pathTo('runs', run.id)}>${run.id}</a></h2><${Status} status=${run.status}/><span class="dim">${plural(run.last, 'step')}</span>${note && html`<span class="dim">${note}</span>`}<button type="button" class="link" onClick=${() => change(which)}>Change…</button></div>`;
  const forkNote = a.id === b.id ? 'the same run' : diff.common === a.id ? `fork of A at S(${diff.since})` : diff.common && diff.since ? `both from ${diff.common}` : '';
  const selected = diff.steps.find((step) => step.k === k);
  return html`<header class="head"><div class="row"><span class="crumb"><a href="/runs">Runs</a> / Compare</span><h1 class="off">${a.id} and ${b.id}</h1><div class="verbs"><button type="button" onClick=${() => select({ a: b.id, b: a.id, k: null })}>Swap</button><button type="button" onClick=${() => copyText(asText(diff)).then(() => toast('Copied'))}>Copy as text</button>${!phone && html`<${Command} text=${diff.command}/>`}</div></div></header>
    <div class="sidesbar">${side('a', a)}${side('b', b, forkNote)}</div>
    <div class="cmp"><section class="pane" aria-label="Steps"><div class="panehead"><h2>Where they part</h2>${first != null ? html`<span class="dim">first difference: <b class="t-thread mono">S(${first}) ${(differing[0]?.a?.length ? differing[0].a : differing[0]?.b ?? [])[0] ?? ''}</b></span>` : html`<span class="dim">they did the same</span>`}
        <span class="end"><button type="button" class="icon" aria-label="previous difference" onClick=${() => move(-1)}>▲</button><button type="button" class="icon" aria-label="next difference" onClick=${() => move(1)}>▼</button>${plural(differing.length, 'step differs', 'steps differ')}</span></div>
      <div class="steps" tabindex="0" role="region" aria-label="Steps of both runs"><div class="srow headrow"><span/><span>A</span><span/><span>B</span></div>
        ${rows.slice(0, 190).map((row, i) => (row.fold ? html`<button type="button" class="srow" key=${i} aria-expanded=${String(open.has(i))} disabled=${!row.steps} onClick=${() => setOpen(flip(open, i))}><span class="n">${row.steps ? (open.has(i) ? '▾' : '▸') : ''}</span><span class="wide"><code>S(${row.from})${row.to > row.from ? `…S(${row.to})` : ''}</code> ${row.text ?? `${plural(row.to - row.from + 1, 'step')} did the same`}</span></button>${open.has(i) && row.steps?.slice(0, 60).map((step) => html`<${StepRow} key=${step.k} step=${step} sel=${step.k === k}/>`)}`
          : row.set ? html`<div class="srow setrow" key=${i}><span/><span class="wide"><b class="t-thread">${diff.common ? 'set at the fork' : 'they begin with'}</b> ${row.set.map((c) => html`<span key=${c.name}> <code>${c.name}</code> <code class="was">${'old' in c ? brief(c.old) : 'none'}</code> <code class="now2">${'new' in c ? brief(c.new) : 'none'}</code></span>`)}</span></div>`
            : html`<${StepRow} key=${row.step.k} step=${row.step} sel=${row.step.k === k}/>`))}
        ${diff.same && html`<p class="empty">Both runs did the same and ended with the same values.</p>`}</div></section><div class="rule"/>
      <section class="pane" aria-label="Values"><${Tabs} label="Compare" options=${[['end', 'At the end', diff.values.length || null], ...(k != null ? [['k', `At S(${k})`]] : []), ...(selected && !selected.same ? [['step', 'What they did']] : [])]} value=${tab} onPick=${setTab}/>
        <div class="insp" tabindex="0" role="region" aria-label="Values side by side">
          ${tab === 'step' && selected && (selected.items ?? []).map((item) => html`<div key=${item.path}><p class="vhead"><b class="mono">${item.path}</b>${item.only_in ? `only in ${item.only_in.toUpperCase?.() ?? item.only_in}` : ''}</p>${(item.changes ?? []).map((c) => html`<${Sides} key=${c.name} change=${c} phone=${phone}/>`)}</div>`)}
          ${tab !== 'step' && (values === undefined ? null : values.map((c) => html`<${Sides} key=${c.name} change=${c} phone=${phone}/>`))}
          ${tab !== 'step' && values && !values.length && html`<p class="empty">No value differs.</p>`}
          ${tab !== 'step' && equal.length > 0 && html`<div class="sec"><h3>The same in both</h3><p class="mono">${equal.join(' · ')}</p></div>`}</div></section></div>`;
}

const flip = (set, i) => { const next = new Set(set); if (next.has(i)) next.delete(i); else next.add(i); return next; };
const brief = (value) => { const text = Array.isArray(value) && value.every((v) => typeof v === 'string') ? value.join(', ') : oneLine(value); return text.length > 40 ? `${text.slice(0, 39)}…` : text; };
const names = (list) => (list?.length > 3 ? `${list.slice(0, 2).join(' ')} and ${list.length - 2} more` : (list ?? []).join(' '));

function StepRow({ step, sel }) {
  const both = step.a?.length && step.b?.length;
  const sameItems = both && step.a.join() === step.b.join();
  const changes = (step.items ?? []).flatMap((item) => item.changes ?? []).filter((c) => 'old' in c || 'new' in c);
  const first = changes[0];
  const sign = step.same ? '=' : both ? '≠' : '×';
  return html`<button type="button" class=${cx('srow', !step.same && 'diff', sel && 'sel')} aria-label=${`S(${step.k}): ${step.same ? 'the same' : 'differs'}, A ${names(step.a) || 'nothing'}, B ${names(step.b) || 'nothing'}`} onClick=${() => select({ k: step.k })}><span class="n">S(${step.k})</span><span class=${!step.same && !sameItems && step.a?.length ? 'only-a' : ''}>${names(step.a)}</span><span class=${sign === '≠' ? 'eq ne' : 'eq'}>${sign}</span><span class=${!step.same && !sameItems && step.b?.length ? 'only-b' : ''}>${names(step.b)}</span>
    ${!step.same && sameItems && first ? html`<span class="chg">${first.name.replace(/^its /, '')} <code class="was">${brief(first.old)}</code> <code class="now2">${brief(first.new)}</code></span>` : null}</button>`;
}

function Sides({ change, phone }) {
  const [left, right] = useMemo(() => (phone ? [null, null] : sides(change)), [change, phone]);
  return html`<p class="vhead"><b class="mono">${change.name}</b>${change.kind ?? ''}</p>${phone ? html`<${Lines} lines=${changeLines(change)}/>` : html`<div class="two"><div><${Lines} lines=${left.slice(0, 120)}/></div><div><${Lines} lines=${right.slice(0, 120)}/></div></div>`}`;
}

function asText(diff) {
  const out = [`--- ${diff.a.id} (${diff.a.status}, ${diff.a.last} steps)`, `+++ ${diff.b.id} (${diff.b.status}, ${diff.b.last} steps)`];
  if (diff.first != null) out.push(`first difference: S(${diff.first})`);
  for (const step of diff.steps.filter((s) => !s.same)) out.push(`S(${step.k}): ${names(step.a) || '-'} | ${names(step.b) || '-'}`);
  for (const change of diff.values) out.push('', change.name, ...changeLines(change).map((line) => `${line.sign} ${line.parts ? line.parts.map(([, t]) => t).join('') : line.text}`));
  if (diff.equal.length) out.push('', `the same: ${diff.equal.join(', ')}`);
  return out.join('\n');
}

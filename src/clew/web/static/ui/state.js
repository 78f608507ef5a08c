// The state at k: what the step changed (the default), all values, or JSON.
import { html, useMemo, useState, useTimer } from '../lib/html.js';
import { at, useData } from '../lib/api.js';
import { changeLines } from '../lib/diff.js';
import { bytes, short } from '../lib/format.js';
import { oneLine, pretty } from '../lib/values.js';
import { Copy, Lines, Pane, Problem, Segments, Skeleton } from './parts.js';
import { StateValue } from './value.js';

const writers = (by) => (by.length > 3 ? (sameNode(by) ? `${by.length} items` : `${by.slice(0, 2).join(', ')} and ${by.length - 2} more`) : by.join(', '));
const sameNode = (by) => by.every((path) => path.split('#')[0] === by[0].split('#')[0]);

function Changed({ change }) {
  const lines = useMemo(() => { const all = changeLines(change); return all.length ? all : [{ sign: ' ', text: 'written again, with the same value', quiet: true }]; }, [change]);
  return html`<section class="value changed" data-clew-value=${change.name}><header><b>${change.name}</b><span class="dim">v${change.version}</span><span class="by">${change.by?.length ? `by ${writers(change.by)}` : 'given'}</span></header><${Lines} lines=${lines}/></section>`;
}

/** Values as the JSON text that commands print and accept; without large ones. */
const exactly = (values) => pretty(`{${values.filter((v) => v.exact != null).map((v) => `${JSON.stringify(v.name)}:${v.exact}`).join(',')}}`);

const origin = (value) => (value.writer ? `by ${value.writer} in step ${value.step}` : value.set ? 'set from outside' : 'given');

export function StatePane({ run, k, step, error, reload, view, onView }) {
  const provisional = k > run.last;
  // The whole state is needed for the values that did not change; it is asked for when the scrubber rests.
  const state = useData(at('runs', run.id, 'state', k), { delay: 150, keep: true, version: provisional ? step?.items?.length ?? 0 : 0 });
  const digest = step?.digest ?? (state.data?.k === k ? state.data.digest : null);
  const [slow, setSlow] = useState(null); // a state that takes long
  useTimer(() => setSlow(k), 250, [k]);
  const changed = step?.changes ?? [];
  const names = new Set(changed.map((change) => change.name));
  const rest = (state.data?.values ?? []).filter((value) => !names.has(value.name));
  return html`<div class="statehead"><${Segments} label="State" options=${[['changes', 'Changes'], ['all', 'All'], ['json', 'JSON']]} value=${view} onPick=${onView}/>
      ${step?.labels?.map((label) => html`<span class="badge" key=${label}>▾ ${label}</span>`)}${step?.by_hand && html`<span class="badge">✎ set by hand</span>`}
      <span class="end">${digest ? html`<code title=${digest}>${digest.slice(0, 12)}</code><${Copy} text=${digest} what="copy the digest"/>` : provisional ? `provisional: no digest before step ${run.last + 1} commits` : ''}</span></div>
    <div class="values" role="region" tabindex="0" aria-label=${`State S(${k})`}>
      ${view === 'changes' && html`
        ${error && !step && html`<${Problem} error=${error} retry=${reload}/>`}
        ${!step && !error && (slow === k ? html`<${Skeleton} rows=${3}/>` : null)}
        ${step && !changed.length && html`<p class="empty">S(${k}) changed no value.${step.chose?.length ? ` ${step.chose.slice(0, 4).map((c) => `${c.path} chose ${c.targets.join(', ')}`).join('; ')}.` : ''}</p>`}
        ${changed.map((change) => html`<${Changed} key=${change.name} change=${change}/>`)}
        ${state.data?.k === k || rest.length ? rest.map((value) => html`<${Unchanged} key=${value.name} run=${run.id} k=${k} value=${value}/>`) : null}`}
      ${view === 'all' && html`<${Pane} data=${state} empty=${(data) => !data.values.length && 'The state has no values.'}>${(data) => data.values.map((value) => html`<section key=${value.name} class=${`value ${names.has(value.name) ? 'changed' : ''}`}><header><b>${value.name}</b><span class="dim">v${value.version}</span><span class="by">${origin(value)}</span></header><${StateValue} key=${data.k} run=${run.id} k=${k} entry=${value}/></section>`)}<//>`}
      ${view === 'json' && html`<${Pane} data=${state}>${(data) => { const text = exactly(data.values); const without = data.values.filter((v) => v.exact == null).map((v) => `${v.name} (${bytes(v.size)})`); return html`<section class="value"><header><span class="dim">${without.length ? `without what is too large: ${without.join(', ')}` : 'as commands print and accept it'}</span><span class="by"><${Copy} text=${text} what="copy the JSON"/></span></header><pre>${text}</pre></section>`; }}<//>`}
    </div>`;
}

function Unchanged({ run, k, value }) {
  const [open, setOpen] = useState(false);
  return html`<details class="value one" onToggle=${(e) => setOpen(e.currentTarget.open)}><summary><span>${value.name}</span> <span class="dim">v${value.version}</span> ${short(oneLine(value.value), 120)}</summary>${open && html`<div class="inner"><p class="dim">${origin(value)}</p><${StateValue} run=${run} k=${k} entry=${value}/></div>`}</details>`;
}

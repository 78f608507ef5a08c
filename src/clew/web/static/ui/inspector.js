// The right pane: question or error if there is one, the selected item, its calls, the log; items of a fan-out.
import { html, cx, useMemo, useState } from '../lib/html.js';
import { at, useData, withQuery } from '../lib/api.js';
import { clock, count, duration, moment, plural } from '../lib/format.js';
import { isRetried, waited, waitsNow } from '../lib/items.js';
import { histogram } from '../lib/lanes.js';
import { lazy } from '../lib/lazy.js';
import { pathTo } from '../lib/router.js';
import { Icon, Status, StatusIcon } from './icons.js';
import { Command, Copy, Kbd, Pane, Tabs } from './parts.js';
import { ValueView } from './value.js';
import { commandOf } from './verbs.js';

const QuestionView = lazy(() => import('./question.js'), 'QuestionView');

export function tabsOf(run, { item, node, nodeItems }) {
  const tabs = [];
  const open = run.questions.filter((q) => q.open !== false);
  if (open.length) tabs.push(['question', open.length > 1 ? 'Questions' : 'Question', open.length > 1 ? open.length : null]);
  if (run.failures.some((f) => !f.rescued)) tabs.push(['error', 'Error']);
  else if (run.failures.length) tabs.push(['error', 'Errors', run.failures.length]);
  if (node && nodeItems.length > 4) tabs.push(['items', 'Items', count(nodeItems.length)]);
  tabs.push(['item', 'Item'], ['calls', 'Calls', run.calls ? count(run.calls) : null], ['log', 'Log']);
  return tabs;
}

export function Inspector({ run, tab, onTab, item, path, node, nodeItems, why, items, readOnly, onPick, onFork, onAnswered, nodes, committed, inside, step }) {
  const tabs = tabsOf(run, { item, node, nodeItems });
  const names = tabs.map(([name]) => name);
  const shown = names.includes(tab) ? tab : path && tab !== 'question' ? 'item' : names[0];
  return html`<${Tabs} label="Inspector" options=${tabs} value=${shown} onPick=${onTab}/>
    <div class="insp" role="tabpanel" aria-label=${shown} tabindex="0">
      ${shown === 'question' && html`<${Questions} run=${run} path=${path} readOnly=${readOnly} onAnswered=${onAnswered}/>`}
      ${shown === 'error' && html`<${Errors} run=${run} items=${items} nodes=${nodes}/>`}
      ${shown === 'items' && html`<${FanOut} node=${node} items=${nodeItems} path=${path} onPick=${onPick}/>`}
      ${shown === 'item' && html`<${Item} run=${run} item=${item} path=${path} why=${why} onPick=${onPick} onFork=${onFork} committed=${committed} items=${items} nodes=${nodes} inside=${inside} change=${step}/>`}
      ${shown === 'calls' && html`<${Calls} run=${run} path=${path}/>`}
      ${shown === 'log' && html`<${Log} run=${run} onPick=${onPick}/>`}
    </div>`;
}

function Questions({ run, path, readOnly, onAnswered }) {
  const open = run.questions.filter((q) => q.open !== false);
  const [at0, setAt] = useState(null);
  const chosen = open.find((q) => q.path === (at0 ?? path)) ?? open[0];
  return html`${open.length > 1 && html`<div class="qpick" role="group" aria-label="Open questions">${open.map((q) => html`<button type="button" key=${q.path} class=${cx('itemrow', q.path === chosen.path && 'sel')} onClick=${() => setAt(q.path)}><span class="t-wait"><${StatusIcon} status="waiting"/></span>${q.path} <span class="dim">${q.title}</span></button>`)}</div>`}
    <${QuestionView} key=${chosen.path} id=${run.id} path=${chosen.path} version=${run.updated} readOnly=${readOnly} onAnswered=${onAnswered}/>`;
}

function Errors({ run, items, nodes }) {
  return run.failures.map((failure) => html`<${ErrorView} key=${failure.path} run=${run} failure=${failure} reads=${nodes?.find((n) => n.name === failure.node)?.reads} item=${items?.find((i) => i.path === failure.path)}/>`);
}

function frameText(frame) { return `File "${frame.file}", line ${frame.line}, in ${frame.function}`; }

function Trace({ error }) {
  const [all, setAll] = useState(false);
  const frames = error.traceback ?? [];
  const own = frames.filter((frame) => frame.own);
  const shown = all || !own.length ? frames : own;
  const hidden = frames.length - own.length;
  const text = frames.map((f) => `  ${frameText(f)}\n    ${f.code ?? ''}`).join('\n');
  if (!frames.length) return null;
  return html`<section class="sec"><h3>Traceback <span class="dim">your frames${hidden && own.length ? html` · <button type="button" class="link" onClick=${() => setAll(!all)}>${all ? 'hide' : 'show'} ${hidden} of Clew</button>` : ''}</span><span class="grow"/><${Copy} text=${`Traceback (most recent call last):\n${text}\n${error.type}: ${error.message}`} what="copy the traceback" label="copy"/></h3>
    <div class="frames">${shown.map((frame, i) => html`<div key=${i} class=${i === shown.length - 1 ? 'last' : ''}>${`${frameText(frame)}\n    ${frame.code ?? ''}`}</div>`)}</div></section>`;
}

function causesOf({ cause }) { return cause ? [cause, ...causesOf(cause)] : []; }

function ErrorView({ run, failure, item, reads }) {
  const before = Math.min(failure.step - 1, run.last);
  const tries = item?.tries ?? [];
  const read = useData(failure.step > run.first && !failure.rescued ? at('runs', run.id, 'state', before) : null);
  return html`<section class="sec"><h2 class="title mono">${failure.type}: ${failure.message}</h2><p class="dim">raised by <code>${failure.path}</code> in step ${failure.step}, attempt ${failure.attempts}${failure.max_attempts ? ` of ${failure.max_attempts}` : ''}${failure.rescued ? '; rescued' : ''}</p>${(failure.notes ?? []).map((note) => html`<p key=${note}>${note}</p>`)}</section>
    ${!failure.rescued && html`<section class="sec todo"><h3>What to do</h3><p>Mend the code, then go on. Only <code>${failure.node}</code> runs again; nothing that has finished is executed again.</p>
      <p><${Command} text=${commandOf(run, 'resume')}/></p><p>Or go on from S(${before}) with other values:</p><p><${Command} text=${`${commandOf(run, 'fork', before)} NAME=VALUE`}/></p></section>`}
    <${Trace} error=${failure}/>
    ${causesOf(failure).map((cause) => html`<section class="sec"><h3>Caused by</h3><p class="mono">${cause.type}: ${cause.message}</p></section><${Trace} error=${cause}/>`)}
    ${read.data && html`<section class="sec"><h3>It read in S(${read.data.k})</h3>${read.data.values.filter((v) => !reads || reads.includes(v.name)).slice(0, 6).map((v) => html`<div key=${v.name}><b class="mono">${v.name}</b><${ValueView} value=${v.value} limit=${12}/></div>`)}</section>`}
    ${tries.length > 0 && html`<section class="sec"><h3>Attempts</h3>${tries.map((a, i) => html`<p key=${i} class="attempt"><span class="t-fail"><${StatusIcon} status="failed"/></span> attempt ${a.attempt + 1} <code class="dim">${a.start != null ? `${duration(a.start)} – ` : ''}${duration(a.end)}</code> <span class="dim">${a.due != null && a.end != null ? `then waited ${duration(a.due - a.end)}` : ''}</span></p>`)}</section>`}`;
}

function ItemRow({ item, name = item.path, chosen, onPick }) {
  const failed = item.state === 'failed';
  const icon = failed ? 'failed' : item.tries.length ? 'retrying' : item.state === 'done' ? 'completed' : item.state;
  return html`<button type="button" class=${cx('itemrow', chosen && 'sel')} onClick=${() => onPick(item.path)}><span class=${failed ? 't-fail' : icon === 'completed' ? 't-ok' : 't-wait'}><${StatusIcon} status=${icon}/></span>${name}${item.tries.length ? html`<span class="badge bg-wait">${item.tries.length + (failed ? 0 : 1)} tries</span>` : null}<span class="end">${duration(item.duration)}</span></button>`;
}

function FanOut({ node, items, path, onPick }) {
  const done = items.filter((item) => item.state === 'done');
  const hist = useMemo(() => histogram(done.map((item) => item.duration ?? 0)), [items]);
  const slow = useMemo(() => [...done].sort((a, b) => (b.duration ?? 0) - (a.duration ?? 0)).slice(0, 5), [items]);
  const again = items.filter(isRetried);
  const bad = items.filter((item) => item.state === 'failed');
  const most = Math.max(...hist.counts, 1);
  const row = (item) => html`<${ItemRow} key=${item.path} item=${item} chosen=${item.path === path} onPick=${onPick}/>`;
  return html`<div class="itemhead"><b>${node}</b><${Status} status=${bad.length ? 'failed' : done.length === items.length ? 'done' : 'running'} word=${`${count(done.length)} of ${count(items.length)}`}/></div>
    <section class="sec"><h3>How long they took <span class="grow"/><span class="dim">p50 ${duration(hist.p50)} · p95 ${duration(hist.p95)} · max ${duration(hist.max)}</span></h3>
      <svg class="hist" viewBox="0 0 300 58" preserveAspectRatio="none" height="62" role="img" aria-label=${`Half took up to ${duration(hist.p50)}, 95 of 100 up to ${duration(hist.p95)}, the longest ${duration(hist.max)}`}>${hist.counts.map((n, i) => html`<rect key=${i} class=${hist.open && i === hist.counts.length - 1 ? 'tail' : ''} x=${i * (300 / hist.counts.length) + 0.5} width=${300 / hist.counts.length - 1.5} y=${56 - (n ? Math.max(1, (n / most) * 52) : 0)} height=${n ? Math.max(1, (n / most) * 52) : 0}/>`)}<path class="grid" d="M0 56.5H300"/></svg><p class="ends"><span>0</span><span>${duration(hist.limit)}${hist.open ? ' and more' : ''}</span></p></section>
    ${bad.length > 0 && html`<h3 class="subhead sec">Failed <span class="badge bg-fail">${bad.length}</span></h3>${bad.slice(0, 30).map(row)}`}
    <h3 class="subhead sec">Slowest <span class="grow"/><span class="dim">of ${count(items.length)}</span></h3>${slow.map(row)}
    ${again.length > 0 && html`<h3 class="subhead sec">Retried <span class="badge bg-wait">${again.length}</span><span class="grow"/><span class="dim">${again[0].tries[0]?.error}</span></h3>${again.slice(0, 40).map(row)}`}`;
}

/** What an item did that caused another: "wrote plan v1 in step 1". */
function causeText(reason, effect) {
  const step = reason.step != null ? ` in step ${reason.step}` : '';
  switch (reason.kind) {
    case 'changed': return `wrote ${reason.value} v${reason.version}${step}`;
    case 'selected': return `chose ${effect.node}${step}`;
    case 'sent': return reason.times > 1 ? `sent ${reason.times}${step}` : `sent it${step}`;
    case 'control': return `came before it${step}`;
    default: return reason.text;
  }
}

/** The causal thread as a list: each item, and why it ran. */
export function Why({ why, path, onPick }) {
  const chain = why.thread ?? [path];
  return html`<ul class="why">${chain.map((name, i) => {
    const entry = why.items[name];
    if (!entry) return html`<li key=${name}><b>${name}</b></li>`;
    const next = chain[i - 1];
    const link = next ? why.items[next]?.reasons.find((r) => r.path === name) : null;
    const given = (entry.reasons ?? []).filter((r) => r.kind === 'given').map((r) => r.value);
    const others = (entry.reasons ?? []).filter((r) => r.kind !== 'given' && (!r.path || !chain.includes(r.path)));
    return html`<li key=${name}><button type="button" onClick=${() => onPick(name)}><b>${name}</b>${link ? ` ${causeText(link, why.items[next])}` : ` ${entry.state === 'done' && entry.step != null ? `step ${entry.step}` : entry.state}`}</button>
      ${link?.earlier > 0 && html`<small>and ${plural(link.earlier, 'earlier version')}</small>`}
      ${link?.items > 1 && html`<small>with ${link.items - 1} more of its batch</small>`}${given.length > 0 && html`<small>given: ${given.join(', ')}</small>`}
      ${others.slice(0, 3).map((r, j) => html`<small key=${j}>${r.text}${r.earlier ? `, and ${plural(r.earlier, 'earlier version')}` : ''}</small>`)}${others.length > 3 && html`<small>and ${others.length - 3} more reasons</small>`}</li>`;
  })}</ul>`;
}

function Item({ run, item, path, why, onPick, onFork, committed, items, nodes, inside, change }) {
  if (!path) return html`<p class="empty">Select an item in the timeline or a node in the graph. Its causes appear here, and as a violet thread.</p>`;
  const step = item?.step ?? why.data?.items?.[path]?.step;
  const ahead = item && item.open && item.state === 'done' && (step == null || step > committed + 1);
  const blocker = ahead ? items?.find((i) => i.open && (i.step ?? committed + 1) === committed + 1 && i.state !== 'done') : null;
  const state = item?.state ?? why.data?.items?.[path]?.state;
  const around = path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : null;
  const reads = around ? null : nodes?.find((n) => n.name === item?.node)?.reads;
  const children = run.children.filter((child) => child.place?.startsWith(`${path}!`));
  return html`<div class="itemhead"><b>${path}</b><${Copy} text=${path} what="copy the path"/>${state && html`<${Status} status=${state === 'done' ? 'done' : state}/>`}<span class="dim">${step != null ? `step ${step}` : ''}${item?.duration != null ? ` · ${duration(item.duration)}` : ''}</span>
      <span class="end"><button type="button" class="small" disabled=${!step || around || step - 1 > committed} onClick=${() => onFork(step - 1)}><${Icon} name="fork"/> Fork before</button></span></div>
    ${around && html`<p class="sec dim">inside <button type="button" class="link mono" onClick=${() => onPick(around)}>${around}</button></p>`}
    ${ahead && html`<div class="aheadnote"><b>Ran ahead.</b> Step ${committed + 1} is still open${blocker ? html` (<code>${blocker.path}</code>)` : ''}, and nothing it can write is read here. It counts once step ${committed + 1} commits.</div>`}
    <section class="sec"><h3>Why it ran <span class="grow"/><${Kbd}>w<//></h3><${Pane} data=${why} rows=${3}>${(data) => html`<${Why} why=${data} path=${path} onPick=${onPick}/>`}<//></section>
    ${(inside?.size > 0 || children.length > 0) && html`<section class="sec"><h3>Inside <span class="dim">${inside?.size ? plural(inside.size, 'item') : ''}</span></h3>
      ${[...(inside?.values() ?? [])].slice(0, 200).map((one) => html`<${ItemRow} key=${one.path} item=${one} name=${one.path.slice(path.length).replace(/^\//, '')} onPick=${onPick}/>`)}
      ${children.map((child) => html`<p key=${child.id}><${Status} status=${child.status}/> child run <a href=${pathTo('runs', child.id)}>${child.id}</a> <span class="dim">${child.graph}</span></p>`)}</section>`}
    ${reads?.length > 0 && html`<section class="sec"><h3>It read</h3><p class="mono">${reads.join(' · ')}</p></section>`}
    ${item?.wrote?.length > 0 && html`<section class="sec"><h3>It wrote</h3><p class="mono">${item.wrote.map((name) => { const c = around ? null : change?.changes.find((one) => one.name === name); return c ? `${name} v${c.version}` : name; }).join(' · ')}</p></section>`}
    ${item?.chose?.length > 0 && html`<section class="sec"><h3>It chose</h3><p class="mono">${item.chose.join(' · ')}</p></section>`}
    ${item && html`<section class="sec"><h3>How it ran</h3><p>${item.cached ? 'reused from an earlier run' : `attempt ${(item.attempt ?? 0) + 1}`} · ${item.calls ? plural(item.calls, 'recorded call') : 'no recorded calls'}${item.start != null && !item.supposed ? ` · began ${duration(item.begin)} after the start` : ''}</p>
      ${item.state === 'sleeping' && html`<p class="t-wait">${waitsNow(item)}</p>`}
      ${item.tries.map((a, i) => html`<p key=${i} class="dim"><span class="t-fail">attempt ${a.attempt + 1} failed</span> ${a.error}${a.due != null && a.end != null ? `, waited ${duration(a.due - a.end)}` : ''}</p>`)}
      ${item.waits.map((wait, i) => html`<p key=${i} class="dim">${waited(wait)}</p>`)}</section>`}`;
}

function Calls({ run, path }) {
  const [all, setAll] = useState(false);
  const only = path && !all ? path : null;
  const data = useData(withQuery(at('runs', run.id, 'calls'), { item: only, limit: 100 }), { version: run.calls ?? 0, keep: true });
  return html`${path && html`<div class="filters"><button type="button" class="chip" aria-pressed=${String(!all)} onClick=${() => setAll(false)}>of ${path}</button><button type="button" class="chip" aria-pressed=${String(all)} onClick=${() => setAll(true)}>all</button></div>`}
    <${Pane} data=${data} empty=${(d) => !d.calls.length && !d.open?.length && (only ? `${only} made no recorded calls.` : 'This run made no recorded calls.')}>${(d) => html`
      ${(d.open ?? []).map((call, i) => html`<p class="sec" key=${i}><${Status} status="asks" word="ambiguous"/> <code>${call.name}</code> of <code>${call.path}</code> started and has no recorded result</p>`)}
      ${d.calls.map((call) => html`<details class="call" key=${`${call.path} ${call.attempt} ${call.number}`}><summary><span class=${call.error ? 't-fail' : 't-ok'}><${StatusIcon} status=${call.error ? 'failed' : 'completed'}/></span><code class="nm">${call.name}</code>${call.reused && html`<span class="badge">reused</span>`}<code class="dim">${call.path}</code><span class="end">${duration(call.duration)}</span></summary>
        <div class="inner"><h4>request</h4>${(call.args ?? []).map((arg, i) => html`<${ValueView} key=${i} value=${arg} limit=${20}/>`)}${Object.entries(call.kwargs ?? {}).map(([name, value]) => html`<${ValueView} key=${name} value=${{ [name]: value }} limit=${20}/>`)}
          <h4>${call.error ? 'raised' : 'answer'}</h4>${call.error ? html`<p class="t-fail mono">${call.error.type ?? ''}${call.error.message ? `: ${call.error.message}` : typeof call.error === 'string' ? call.error : ''}</p>` : html`<${ValueView} value=${call.response} limit=${30}/>`}
          <p class="dim">attempt ${(call.attempt ?? 0) + 1}${call.start != null ? ` · ${duration(call.start)} after the start` : ''} ${call.python && html`<${Copy} text=${call.python} what="copy as Python" label="copy as Python"/>`}</p></div></details>`)}
      ${d.next != null && html`<p class="empty">The first ${d.calls.length} calls. Select an item to see its own.</p>`}`}<//>`;
}

const LOGTONE = { retry: 'wait', question: 'wait', answer: 'ok', refused: 'fail', failed: 'fail', ended: 'idle' };

function Log({ run, onPick }) {
  const data = useData(withQuery(at('runs', run.id, 'log'), { limit: 200 }), { version: run.updated, keep: true });
  return html`<${Pane} data=${data} empty=${(d) => !d.entries.length && 'Nothing happened besides steps.'}>${(d) => html`${d.entries.slice(-190).map((entry) => html`<div class="logrow" key=${entry.n}><time title=${moment(entry.time)}>${entry.time ? clock(entry.time) : '—'}</time><div><b class=${`t-${LOGTONE[entry.kind] ?? 'idle'}`}>${entry.kind}</b> ${entry.path && html`<button type="button" class="link mono" onClick=${() => onPick(entry.path)}>${entry.path}</button>`} ${entry.text}${entry.by ? html` <span class="dim">by ${entry.by}</span>` : null}</div></div>`)}`}<//>`;
}


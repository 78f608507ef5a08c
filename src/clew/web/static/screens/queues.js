// Queues and workers, as the workers store them.
import { html, useEffect, useState } from '../lib/html.js';
import { BASE, useData, withQuery } from '../lib/api.js';
import { clock, count, duration, plural, rough } from '../lib/format.js';
import { href, pathTo, select } from '../lib/router.js';
import { Status } from '../ui/icons.js';
import { Command, Pane, Segments } from '../ui/parts.js';

export default function Queues({ query }) {
  const [version, setVersion] = useState(0);
  useEffect(() => { const t = setInterval(() => { if (!document.hidden) setVersion((n) => n + 1); }, 2000); return () => clearInterval(t); }, []);
  const data = useData(withQuery(`${BASE}/queues`, { window: query.window }), { version, keep: true });
  return html`<${Pane} data=${data} rows=${6}>${(d) => html`<${Loaded} data=${d}/>`}<//>`;
}

const sum = (numbers) => numbers.reduce((all, n) => all + n, 0);

/** A curve of numbers. */
function Spark({ numbers, wide, high, label }) {
  const most = Math.max(...numbers, 1);
  const d = numbers.map((n, i) => `${i ? 'L' : 'M'}${((i / (numbers.length - 1)) * wide).toFixed(1)} ${(high - (n / most) * (high - 3)).toFixed(1)}`).join('');
  return html`<svg viewBox=${`0 0 ${wide} ${high}`} width="100%" height=${high} preserveAspectRatio="none" role="img" aria-label=${label}><path class="spark" d=${`${d}L${wide} ${high}L0 ${high}Z`}/></svg>`;
}

/** Runs that ended, by time. */
function Curve({ series, window }) {
  const most = Math.max(...series.finished, 1);
  return html`<${Spark} numbers=${series.finished} wide=${520} high=${90} label=${`Runs finished in ${rough(window)}, at most ${most} in ${duration(series.width)}`}/>
    <p class="ends"><span>${clock(series.from)}</span><span>at most ${count(most)} in ${duration(series.width)}</span><span>now</span></p>`;
}

function Loaded({ data }) {
  const { queues, workers, totals } = data;
  // Runs whose graph no worker has; and queues that no worker reads.
  const alone = [...data.unserved.map((u) => [u.graph || u.target, u.count, u.command]), ...(data.unserved.length ? [] : queues.filter((q) => !q.served && q.ready > 0).map((q) => [q.name, q.ready, q.command]))];
  const oldest = Math.max(0, ...queues.map((q) => q.oldest ?? 0));
  if (!queues.length && !workers.length) return html`<div class="lone"><h1>No queues in this store</h1><p class="dim">Enqueue runs, and start workers that take them.</p><p><${Command} text="clew worker MODULE:GRAPH"/></p></div>`;
  const window = rough(totals.window);
  const share = totals.finished ? (100 * (totals.failed ?? 0)) / totals.finished : 0;
  return html`<header class="head"><div class="row"><h1>Queues and workers</h1><span class="end"><${Segments} label="Window" options=${[['900', '15 min'], ['3600', '1 h'], ['86400', '24 h']]} value=${String(totals.window)} onPick=${(w) => select({ window: w === '3600' ? null : w })}/></span></div></header>
    ${alone.map(([name, n, command]) => html`<div class="banner b-fail" key=${name}><${Status} status="failed" word=${name}/><span>${plural(n, 'run')} ${n === 1 ? 'waits' : 'wait'} and no worker takes ${n === 1 ? 'it' : 'them'}.</span><span class="end"><${Command} text=${command}/></span></div>`)}
    <div class="totals"><div><span>Waiting to start</span><b>${count(totals.ready)}</b><span>${oldest ? `oldest ${duration(oldest)}` : 'none waits'}</span></div><div><span>Running</span><b>${count(totals.running)}</b><span>of ${plural(totals.slots, 'place')}</span></div>
      <div><span>Finished</span><b>${totals.per_minute >= 10 ? count(Math.round(totals.per_minute)) : totals.per_minute} / min</b><span>${totals.p50 != null ? `p50 ${duration(totals.p50)} · p95 ${duration(totals.p95)}` : `none in ${window}`}</span></div><div><span>Failed</span><b>${share >= 10 || share === 0 ? Math.round(share) : share.toFixed(1)} %</b><span>${count(totals.failed)} of ${count(totals.finished)} in ${window}</span></div></div>
    <div class="cards"><section class="paper"><h2>Queues</h2><table class="plain"><thead><tr><th>Queue</th><th class="r">Waiting</th><th class="r wide">Later</th><th class="r">Running</th><th class="r">Oldest</th><th>Finished</th></tr></thead><tbody>${queues.slice(0, 190).map((q) => html`<tr key=${q.name}><td class="id"><a href=${href('/runs', { q: `queue:${JSON.stringify(q.name)}` })}>${q.name}</a></td><td class="r">${count(q.ready)}</td><td class="r wide">${count(q.later)}</td><td class="r">${count(q.taken)}</td><td class=${`r ${q.oldest > 600 ? 't-fail' : q.oldest > 120 ? 't-wait' : ''}`}>${q.oldest ? duration(q.oldest) : '–'}</td><td width="128">${q.finished.length ? html`<${Spark} numbers=${q.finished} wide=${120} high=${20} label=${`${plural(sum(q.finished), 'run')} of ${q.name} finished in ${window}`}/>` : html`<span class="dim">none</span>`}</td></tr>`)}</tbody></table></section>
      <section class="paper"><h2>Workers<span>a lease is renewed while the worker lives</span></h2>${workers.length ? html`<table class="plain"><thead><tr><th>Worker</th><th>Queues</th><th class="r">Runs</th><th>Lease</th></tr></thead><tbody>${workers.slice(0, 100).map((w) => html`<tr key=${w.owner}><td class="mono">${w.label || w.host} · ${w.pid}${(w.running ?? []).slice(0, 3).map((r) => html`<div key=${r.run}><a href=${pathTo('runs', r.run)}>${r.run}</a> <span class="dim">${(r.items ?? []).slice(0, 2).join(' ')}</span></div>`)}${(w.troubles ?? []).slice(0, 2).map((t, i) => html`<div class="t-fail" key=${i}>${typeof t === 'string' ? t : t.message ?? JSON.stringify(t)}</div>`)}</td><td>${w.queues.join(', ')}</td><td class="r">${w.executes} of ${w.slots}</td><td>${w.alive ? html`<progress class="meter lease" max="30" value=${Math.max(0, w.lease)} aria-label="lease"/>${Math.max(0, Math.round(w.lease))} s left${w.draining ? ', draining' : ''}` : html`<${Status} status="lost" word=${`lost ${rough(-(w.lease ?? 0))} ago`}/>`}</td></tr>`)}</tbody></table>` : html`<p class="empty">No worker is registered.</p>`}</section>
      <section class="paper curve"><h2>Runs finished<span>in ${window}${totals.truncated ? ', of the newest runs' : ''}</span></h2><${Curve} series=${data.series} window=${totals.window}/></section></div>`;
}

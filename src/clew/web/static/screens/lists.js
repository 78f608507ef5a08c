// What a store has besides runs: the open questions, oldest first; checks and explorations; dependency graphs.
import { html, useEffect, useState } from '../lib/html.js';
import { BASE, useData } from '../lib/api.js';
import { ago, count, moment, plural } from '../lib/format.js';
import { follow, listen } from '../lib/live.js';
import { pathTo } from '../lib/router.js';
import { clockOffset } from '../lib/server.js';
import { Status, StatusIcon } from '../ui/icons.js';
import { Command, Pane, useNow } from '../ui/parts.js';

export function Questions() {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    let timer = null;
    const later = () => { timer ??= setTimeout(() => { timer = null; setVersion((n) => n + 1); }, 400); };
    const unfollow = follow(null);
    const stop = listen({ rows: later, server: later, hello: ({ resumed }) => !resumed && later() });
    return () => { stop(); unfollow(); clearTimeout(timer); };
  }, []);
  const data = useData(`${BASE}/questions`, { version });
  const now = useNow(10000, clockOffset());
  return html`<h1 class="title20">Questions</h1><${Pane} data=${data} empty=${(d) => !d.questions.length && 'No run waits for an answer.'}>${(d) => html`<div class="paper qlist"><h2>${plural(d.questions.length, 'open question')}<span>oldest first</span></h2>${d.questions.slice(0, 190).map((q) => q.damage ? html`<a key=${q.run} href=${pathTo('runs', q.run)}><span class="t-fail"><${StatusIcon} status="damaged"/></span> <code>${q.run}</code><b>${q.damage}</b></a>` : html`<a key=${`${q.run} ${q.path}`} href=${pathTo('runs', q.run, 'answer', q.path)}><span class="t-wait"><${StatusIcon} status="waiting"/></span> <code>${q.run}</code> <span class="dim">${q.path} · <span title=${moment(q.asked)}>${ago(q.asked, now)}</span></span><b>${q.title}</b></a>`)}</div>`}<//>`;
}

export function Checks() {
  const data = useData(`${BASE}/checks`);
  const now = useNow(10000, clockOffset());
  return html`<h1 class="title20">Checks</h1><${Pane} data=${data}>${(d) => (d.checks.length ? html`<div class="paper scrollx"><table class="plain"><thead><tr><th>Result</th><th>Check</th><th class="wide">Kind</th><th class="wide">Graph</th><th class="r wide">States</th><th class="r wide">Transitions</th><th class="r">When</th></tr></thead>
    <tbody>${d.checks.slice(0, 190).map((c) => c.damage ? html`<tr key=${c.id}><td><${Status} status="damaged"/></td><td class="id">${c.id}</td><td colspan="5">${c.damage}</td></tr>` : html`<tr key=${c.id}><td><${Status} status=${c.violations ? 'failed' : c.finished ? 'completed' : 'waiting'} word=${c.violations ? plural(c.violations, 'violation') : c.finished ? 'held' : 'unfinished'}/></td><td class="id"><a href=${pathTo('checks', c.id)}>${c.name}</a></td><td class="wide">${c.kind}</td><td class="mono wide">${c.graph}</td><td class="r wide">${count(c.states)}</td><td class="r wide">${count(c.transitions)}</td><td class="r dim" title=${moment(c.time)}>${ago(c.time, now)}</td></tr>`)}</tbody></table></div>`
    : html`<div class="lone"><h1>No checks in this store</h1><p class="dim">A check runs a graph under every order and fault, and shows the shortest path to a broken guarantee. An exploration does it with the actions of a service.</p><p><${Command} text="clew check MODULE:CHECK"/></p><p><${Command} text="clew explore MODULE:AGENT --store clew.db"/></p></div>`)}<//>`;
}

export function Values() {
  const data = useData(`${BASE}/values`);
  return html`<h1 class="title20">Values</h1><${Pane} data=${data}>${(d) => (d.graphs.length ? html`<div class="paper scrollx"><table class="plain"><thead><tr><th>Dependency graph</th><th>Freshness</th><th class="r">Values</th><th class="r wide">Sources</th><th class="r wide">Revision</th></tr></thead>
    <tbody>${d.graphs.slice(0, 190).map((g) => g.damage ? html`<tr key=${g.target}><td class="id">${g.target}</td><td colspan="4"><${Status} status="damaged"/> ${g.damage}</td></tr>` : html`<tr key=${g.target}><td class="id"><a href=${pathTo('values', g.target)}>${g.target}</a></td><td><${Status} status=${g.outdated ? 'outdated' : 'fresh'} word=${g.outdated ? `${count(g.outdated)} may be outdated` : 'up to date'}/></td><td class="r">${count(g.values)}</td><td class="r wide">${count(g.sources)}</td><td class="r wide">${g.revision}</td></tr>`)}</tbody></table></div>`
    : html`<div class="lone"><h1>No dependency graphs in this store</h1><p class="dim">A dependency graph computes values again only when what they use has changed.</p><p><${Command} text="clew pull MODULE:GRAPH NODE"/></p></div>`)}<//>`;
}

// The list of checks and explorations in the store.
import { html } from '../lib/html.js';
import { BASE, useData } from '../lib/api.js';
import { ago, count, moment, plural } from '../lib/format.js';
import { pathTo } from '../lib/router.js';
import { clockOffset } from '../lib/server.js';
import { Status } from '../ui/icons.js';
import { Command, Pane, useNow } from '../ui/parts.js';

export default function Checks() {
  const data = useData(`${BASE}/checks`);
  const now = useNow(10000, clockOffset());
  return html`<h1 class="title20">Checks</h1><${Pane} data=${data}>${(d) => (d.checks.length ? html`<div class="paper scrollx"><table class="plain"><thead><tr><th>Result</th><th>Check</th><th class="wide">Kind</th><th class="wide">Graph</th><th class="r wide">States</th><th class="r wide">Transitions</th><th class="r">When</th></tr></thead>
    <tbody>${d.checks.slice(0, 190).map((c) => c.damage ? html`<tr key=${c.id}><td><${Status} status="damaged"/></td><td class="id">${c.id}</td><td colspan="5">${c.damage}</td></tr>` : html`<tr key=${c.id}><td><${Status} status=${c.violations ? 'failed' : c.finished ? 'completed' : 'waiting'} word=${c.violations ? plural(c.violations, 'violation') : c.finished ? 'held' : 'unfinished'}/></td><td class="id"><a href=${pathTo('checks', c.id)}>${c.name}</a></td><td class="wide">${c.kind}</td><td class="mono wide">${c.graph}</td><td class="r wide">${count(c.states)}</td><td class="r wide">${count(c.transitions)}</td><td class="r dim" title=${moment(c.time)}>${ago(c.time, now)}</td></tr>`)}</tbody></table></div>`
    : html`<div class="lone"><h1>No checks in this store</h1><p class="dim">A check runs a graph under every order and fault, and shows the shortest path to a broken guarantee. An exploration does it with the actions of a service.</p><p><${Command} text="clew check MODULE:CHECK"/></p><p><${Command} text="clew explore MODULE:AGENT --store clew.db"/></p></div>`)}<//>`;
}

// The dependency graphs in the store.
import { html } from '../lib/html.js';
import { BASE, useData } from '../lib/api.js';
import { count } from '../lib/format.js';
import { pathTo } from '../lib/router.js';
import { Status } from '../ui/icons.js';
import { Command, Pane } from '../ui/parts.js';

export default function Values() {
  const data = useData(`${BASE}/values`);
  return html`<h1 class="title20">Values</h1><${Pane} data=${data}>${(d) => (d.graphs.length ? html`<div class="paper scrollx"><table class="plain"><thead><tr><th>Dependency graph</th><th>Freshness</th><th class="r">Values</th><th class="r wide">Sources</th><th class="r wide">Revision</th></tr></thead>
    <tbody>${d.graphs.slice(0, 190).map((g) => g.damage ? html`<tr key=${g.target}><td class="id">${g.target}</td><td colspan="4"><${Status} status="damaged"/> ${g.damage}</td></tr>` : html`<tr key=${g.target}><td class="id"><a href=${pathTo('values', g.target)}>${g.target}</a></td><td><${Status} status=${g.outdated ? 'outdated' : 'fresh'} word=${g.outdated ? `${count(g.outdated)} may be outdated` : 'up to date'}/></td><td class="r">${count(g.values)}</td><td class="r wide">${count(g.sources)}</td><td class="r wide">${g.revision}</td></tr>`)}</tbody></table></div>`
    : html`<div class="lone"><h1>No dependency graphs in this store</h1><p class="dim">A dependency graph computes values again only when what they use has changed.</p><p><${Command} text="clew pull MODULE:GRAPH NODE"/></p></div>`)}<//>`;
}

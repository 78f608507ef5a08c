// All open questions, oldest first.
import { html, useEffect, useState } from '../lib/html.js';
import { BASE, useData } from '../lib/api.js';
import { ago, moment, plural } from '../lib/format.js';
import { follow, listen } from '../lib/live.js';
import { pathTo } from '../lib/router.js';
import { clockOffset } from '../lib/server.js';
import { StatusIcon } from '../ui/icons.js';
import { Pane, useNow } from '../ui/parts.js';

export default function Questions() {
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

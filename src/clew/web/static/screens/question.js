// One question alone: opened from a link in a message, made for phones.
import { html } from '../lib/html.js';
import { useRunHeader } from '../lib/rundata.js';
import { duration, plural, targetName } from '../lib/format.js';
import { href, pathTo } from '../lib/router.js';
import { useServer } from '../lib/server.js';
import { Pill } from '../ui/icons.js';
import { Copy, Problem, Tabs } from '../ui/parts.js';
import { QuestionView } from '../ui/question.js';
import { go } from '../lib/router.js';

export default function QuestionScreen({ id, path }) {
  const header = useRunHeader(id);
  const server = useServer();
  const run = header.data;
  return html`<div class="lonequestion"><header class="head"><div class="row"><span class="crumb"><a href="/questions">Questions</a> /</span><h1><a href=${pathTo('runs', id)}>${id}</a></h1><${Copy} text=${id} what="copy the id"/>${run && html`<${Pill} status=${run.status}/>`}</div>
      ${run && html`<div class="facts"><code>${targetName(run.target, run.graph)}</code>${run.took != null && html`<span>took <b>${duration(run.took)}</b></span>`}<span><b>${run.last - run.first}</b> ${run.last - run.first === 1 ? 'step' : 'steps'}</span>${run.items != null && html`<span>${plural(run.items, 'item')}</span>`}</div>`}</header>
    ${header.error && !run && html`<${Problem} error=${header.error} retry=${header.reload}/>`}
    <${Tabs} label="Parts of the run" options=${[['question', 'Question'], ['item', 'Item'], ['calls', 'Calls', run?.calls], ['log', 'Log']]} value="question" onPick=${(tab) => tab !== 'question' && go(href(pathTo('runs', id), { item: path, tab }))}/>
    <${QuestionView} id=${id} path=${path} version=${run?.updated ?? 0} readOnly=${server?.read_only} onAnswered=${header.reload}/></div>`;
}

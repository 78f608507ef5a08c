// A question: title, facts, long texts as quotations, a form by its schema, and what happens after the answer.
import { html, useEffect, useState } from '../lib/html.js';
import { at, post, useData } from '../lib/api.js';
import { clock, moment } from '../lib/format.js';
import { useKeys } from '../lib/keys.js';
import { oneLine } from '../lib/values.js';
import { useForm } from './form.js';
import { Command, Kbd, Pane, Problem, useNow } from './parts.js';
import { report } from './verbdialogs.js';

const isLong = (value) => typeof value === 'string' && (value.length > 70 || value.includes('\n'));

export function QuestionView({ id, path, readOnly, version = 0, onAnswered }) {
  // An answer that waits for a worker makes no event; another page, or the command line, may have sent one.
  const now = useNow(5000);
  const [open, setOpen] = useState(true);
  const data = useData(at('runs', id, 'questions', path), { version: `${version} ${open ? now : ''}`, keep: true });
  useEffect(() => setOpen(data.data ? data.data.open !== false && !data.data.sent : true), [data.data]);
  return html`<${Pane} data=${data} rows=${6}>${(question) => html`<${Question} key=${`${question.path} ${question.number} ${question.open} ${question.refused} ${Boolean(question.sent)}`} id=${id} question=${question} readOnly=${readOnly} onAnswered=${() => { data.reload(); onAnswered?.(); }}/>`}<//>`;
}

function Question({ id, question, readOnly, onAnswered }) {
  const facts = question.facts ?? [];
  const asks = question.title ?? (typeof question.question === 'string' ? question.question : oneLine(question.question));
  const quick = facts.filter((fact) => !isLong(fact.value));
  return html`<section class="sec question" data-clew-question=${question.path}><p class="dim"><b>${question.path}</b>  ${question.asked && html`<span title=${moment(question.asked)}>since ${clock(question.asked)}</span>`}${question.deadline && html` · until ${moment(question.deadline)}`}</p>
    <h2 class="title">${asks}</h2>
    ${quick.length > 0 && html`<p class="kv">${quick.map((fact, i) => html`${i ? ' · ' : ''}${typeof fact.value === 'string' ? (fact.name && fact.value.split(' ').length < 4 ? `${fact.name}: ${fact.value}` : fact.value) : html`${fact.name} <code>${oneLine(fact.value)}</code>`}`)}</p>`}
    ${facts.filter((fact) => isLong(fact.value)).map((fact) => html`<blockquote class="quote" tabindex="0" aria-label=${fact.name} key=${fact.name}>${fact.value}</blockquote>`)}
    ${question.refused && html`<div class="problem" role="alert"><b>The last answer was refused</b><p>${question.refused}</p></div>`}
    ${question.open === false ? html`<${Answered} question=${question}/>` : question.sent ? html`<p class="t-ok"><b>answered</b>${question.sent.by ? ` by ${question.sent.by}` : ''}</p><pre>${oneLine(question.sent.answer)}</pre><p class="after">The run goes on as soon as a worker takes it.</p>` : readOnly ? html`<p class="dim">This server is read only. Answer with</p><${Command} text=${question.command}/>` : html`<${AnswerForm} id=${id} question=${question} onAnswered=${onAnswered}/>`}</section>`;
}

function Answered({ question }) {
  const { answered, next = [] } = question;
  return html`<p class="answered t-ok"><b>answered${answered?.time ? ` ${clock(answered.time)}` : ''}</b>${answered?.by ? ` by ${answered.by}` : ''}${next.length ? html`, <code>${next.join(', ')}</code> ${next.length > 1 ? 'run' : 'runs'}` : ''}</p>
    ${answered && 'answer' in answered && html`<pre>${oneLine(answered.answer)}</pre>`}<p class="after">To answer differently, fork from the step before.</p>`;
}

function AnswerForm({ id, question, onAnswered }) {
  const form = useForm(question.schema ?? {});
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const next = question.next ?? [];
  const submit = async (event) => {
    event?.preventDefault();
    if (busy) return;
    const { value, errors } = form.collect();
    if (errors) return;
    setBusy(true);
    setError(null);
    try {
      const done = await post(at('runs', id, 'answer'), { path: question.path, answer: value, number: question.number });
      await report(done, `Answered${next.length ? `; ${next.join(', ')} ${next.length > 1 ? 'run' : 'runs'} next` : ''}`);
      onAnswered?.();
    } catch (problem) {
      if (problem.status === 422 && problem.fields.length) form.refuse(problem.fields, problem.message); else setError(problem);
    }
    setBusy(false);
  };
  useKeys({ 'mod+Enter': submit });
  return html`<form onSubmit=${submit} novalidate data-clew-form>${form.body}
    ${error && html`<${Problem} error=${error}/>`}
    <div class="sendrow"><button type="submit" class="primary" disabled=${busy}>${busy ? 'Sending…' : 'Answer and go on'}</button><button type="button" class="link" onClick=${form.toggle}>${form.asJson ? 'as a form' : 'as JSON'}</button><${Kbd}>⌘↵<//></div>
    <p class="after">Answers are kept with the run. ${next.length ? `${next.join(', ')} ${next.length > 1 ? 'run' : 'runs'} next, and nothing` : 'Nothing'} that has finished runs again.</p></form>`;
}

// "What it says": one line of a run in the list.
import { html } from '../lib/html.js';
import { count, plural } from '../lib/format.js';

export function Says({ run }) {
  const says = run.says;
  if (run.damage) return html`<span class="t-fail">damaged</span> ${run.damage}`;
  const fork = run.parent && html`fork of <code>${run.parent}</code>${run.parent_step != null ? ` at S(${run.parent_step})` : ''}`;
  if (!says || !says.kind) return fork;
  const retries = says.retries ? ` · ${plural(says.retries, 'retry', 'retries')}` : '';
  switch (says.kind) {
    case 'progress': return html`${says.of > 1 && html`<progress class="meter" max=${says.of} value=${says.done} aria-label=${`${says.done} of ${says.of}`}/>`}${says.text || `${count(says.done)} of ${count(says.of)}`}${/retr/.test(says.text ?? '') ? '' : retries}`;
    case 'question': return html`<span class="t-wait">asks</span> ${says.text}`;
    case 'error': return html`<span class="t-fail">${says.type}</span> ${says.text}`;
    case 'fork': return fork;
    default: return html`${says.text}${retries}`;
  }
}

// The answer of a question across databases: question, table, and the SQL of each source with its provenance.
import { html } from '../lib/html.js';
import { count, plural } from '../lib/format.js';
import { oneLine } from '../lib/values.js';
import { Copy, saveText } from '../ui/parts.js';

const WORDS = /\b(SELECT|FROM|WHERE|GROUP BY|ORDER BY|HAVING|LIMIT|JOIN|LEFT|RIGHT|INNER|OUTER|ON|AS|AND|OR|NOT|IN|IS|NULL|SUM|COUNT|AVG|MIN|MAX|DISTINCT|UNION|ALL|WITH|CASE|WHEN|THEN|ELSE|END|BETWEEN|LIKE|DESC|ASC)\b/g;

/** SQL with its key words marked; text in, elements out. */
function Sql({ text }) {
  const out = [];
  let last = 0;
  for (const match of text.matchAll(WORDS)) { out.push(text.slice(last, match.index), html`<b key=${match.index}>${match[0]}</b>`); last = match.index + match[0].length; }
  return html`<div class="sql">${out}${text.slice(last)}</div>`;
}

const cell = (value) => (value === null || value === undefined ? html`<span class="dim">none</span>` : typeof value === 'number' ? (Number.isInteger(value) ? count(value) : String(value)) : typeof value === 'string' ? value : oneLine(value));

function csv({ columns, rows }) {
  const quote = (value) => { const text = value === null || value === undefined ? '' : typeof value === 'object' ? oneLine(value) : String(value); return /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text; };
  return [columns, ...rows].map((row) => row.map(quote).join(',')).join('\n');
}

export function AnswerView({ run }) {
  const { question, columns, rows, sources, combined, text } = run.answer;
  const numeric = columns.map((_, i) => rows.length > 0 && rows.every((row) => row[i] === null || typeof row[i] === 'number' || row[i]?.$ === 'number'));
  const first = rows[0] && columns.map((name, i) => `${name.replace(/_/g, ' ')} ${rows[0][i] === null ? 'none' : typeof rows[0][i] === 'object' ? oneLine(rows[0][i]) : rows[0][i]}`).join(', ');
  const lines = Array.isArray(combined) ? combined : combined ? [combined] : [];
  return html`<div class="ans"><section class="pane scroll" aria-label="Answer"><h2 class="q">${question}</h2>
      <p class="sum">${text ?? `${plural(rows.length, 'row')}${first ? `; the first: ${first}.` : '.'}`} ${columns.length > 0 && html`<button type="button" class="link" onClick=${() => saveText(csv(run.answer), `${run.id}.csv`, 'text/csv')}>Export CSV</button>`}</p>
      <div class="scrollx" tabindex="0" role="region" aria-label="Rows of the answer"><table class="plain"><thead><tr>${columns.map((name, i) => html`<th key=${name} class=${numeric[i] ? 'r' : ''}>${name}</th>`)}</tr></thead><tbody>${rows.slice(0, 190).map((row, i) => html`<tr key=${i}>${row.map((value, j) => html`<td key=${j} class=${numeric[j] ? 'r' : ''}>${cell(value)}</td>`)}</tr>`)}</tbody></table></div>
      ${rows.length > 190 && html`<p class="empty">${count(rows.length - 190)} more rows; export them.</p>`}</section><div class="rule"/>
    <section class="pane scroll" aria-label="Where it comes from"><div class="panehead"><h2>Where it comes from</h2></div>
      ${sources.map((source) => html`<div class="sec" key=${source.name}><h3><b class="mono">${source.name}</b> <span class="dim">${plural(source.rows ?? 0, 'row')}${source.digest ? `, sha256 ${String(source.digest).slice(0, 12)}` : ''}</span><span class="grow"/><${Copy} text=${source.sql ?? ''} what="copy the SQL"/></h3><${Sql} text=${source.sql ?? ''}/></div>`)}
      ${lines.length > 0 && html`<div class="sec"><h3>Put together</h3>${lines.map((line, i) => html`<p key=${i} class="mono">${typeof line === 'string' ? line : oneLine(line)}</p>`)}</div>`}
      <p class="sec dim">Each query is a recorded call: a replay sends none.</p></section></div>`;
}

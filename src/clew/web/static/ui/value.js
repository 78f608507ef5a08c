// One value: as lines, as a table, as a picture, or raw. Large values are loaded on request, never by themselves.
import { html, useState } from '../lib/html.js';
import { at, get } from '../lib/api.js';
import { bytes, count } from '../lib/format.js';
import { asTable, isCut, oneLine, valueLines } from '../lib/values.js';
import { Lines, Problem, Segments } from './parts.js';

const IMAGE = /^image\/(png|jpeg|gif|webp)$/;

export function ValueView({ value, limit = 60 }) {
  const table = asTable(value);
  const [as, setAs] = useState('text');
  const [all, setAll] = useState(false);
  if (value?.$ === 'bytes' && IMAGE.test(value.media ?? '') && value.base64) return html`<div class="bits"><img alt=${`picture, ${bytes(value.size)}`} src=${`data:${value.media};base64,${value.base64}`}/></div>`;
  const text = typeof value === 'string' && value.includes('\n');
  const lines = text ? value.split('\n') : valueLines(value);
  const shown = all ? lines.slice(0, 2000) : lines.slice(0, limit);
  return html`${table && html`<div class="as"><${Segments} label="Show as" options=${[['text', 'Text'], ['table', 'Table']]} value=${as} onPick=${setAs}/></div>`}
    ${table && as === 'table' ? html`<div class="bits" tabindex="0"><table><thead><tr>${table.columns.map((name) => html`<th key=${name}>${name}</th>`)}</tr></thead><tbody>${table.rows.slice(0, 100).map((row, i) => html`<tr key=${i}>${table.columns.map((name) => html`<td key=${name}>${name in row ? (typeof row[name] === 'string' ? row[name] : oneLine(row[name])) : ''}</td>`)}</tr>`)}</tbody></table>${table.rows.length > 100 && html`<p class="dim">… ${table.rows.length - 100} more rows</p>`}</div>`
      : html`<${Lines} lines=${shown.map((line) => ({ sign: ' ', text: line }))}/>`}
    ${lines.length > shown.length && html`<button type="button" class="link" onClick=${() => setAll(true)}>show ${count(lines.length - shown.length)} more lines</button>`}`;
}

/** A value of a state, whole on request. */
export function StateValue({ run, k, entry }) {
  const [whole, setWhole] = useState(null);
  const [error, setError] = useState(null);
  const cut = entry.cut || isCut(entry.value);
  const load = () => get(at('runs', run, 'values', k, entry.name)).then((data) => setWhole(data), setError);
  return html`<${ValueView} value=${whole ? whole.value : entry.value} limit=${whole ? 400 : 60}/>
    ${cut && !whole && html`<p class="dim">${bytes(entry.size)} <button type="button" class="link" onClick=${load}>show the whole value</button></p>`}
    ${error && html`<${Problem} error=${error} retry=${load}/>`}`;
}

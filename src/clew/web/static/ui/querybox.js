// The query box: understood parts are chips, words stay in the input. The server understands the query
// and says which parts are invalid; the page only cuts it, to show them.
import { html, cx, useEffect, useRef } from '../lib/html.js';
import { Icon } from './icons.js';
import { Kbd, usePhone } from './parts.js';

const KEYS = ['status', 'graph', 'error', 'label', 'parent', 'queue', 'owner', 'node', 'after', 'before', 'took', 'steps', 'value', 'attr', 'is'];

/** Cut a query into parts: [{text, key, value, negated}]. Quotes keep spaces together. */
export function parts(query) {
  const out = [];
  for (const match of query.matchAll(/(-?)(?:([a-z]+):)?("(?:[^"\\]|\\.)*"?|[^\s"]\S*|(?<=:)(?=\s|$))/gi)) {
    const [text, minus, key, value] = match;
    if (!text) continue;
    out.push({ text, key: key?.toLowerCase() ?? null, value, negated: Boolean(minus) });
  }
  return out;
}

/** Whether the page knows this key; the server has the last word about the value. */
const isToken = (part) => part.key !== null && KEYS.includes(part.key) && part.value !== '';

/** [tokens, rest]: the parts shown as chips, and the words that stay in the input. */
function split(query) {
  const all = parts(query);
  return [all.filter(isToken), all.filter((part) => !isToken(part)).map((part) => part.text).join(' ')];
}

const join = (tokens, rest) => [...tokens.map((part) => part.text), rest.trim()].filter(Boolean).join(' ');

export function QueryBox({ query, understood, onQuery }) {
  const input = useRef(null);
  const phone = usePhone();
  const [tokens, rest] = split(query);
  const latest = useRef(query);
  latest.current = query;
  const timer = useRef(null);
  useEffect(() => { // follow Back and the chips, but never what is being typed
    const box = input.current;
    if (!box || timer.current) return;
    if (box !== document.activeElement) box.value = rest;
    else if (join(tokens, box.value.trim()) !== query && !box.value.endsWith(' ')) box.value = rest;
  }, [query]);
  const errors = new Map((understood ?? []).filter((part) => part.error).map((part) => [part.text, part.error]));
  const stop = () => { clearTimeout(timer.current); timer.current = null; };
  const typed = (event) => {
    const { value } = event.target;
    stop();
    const ready = parts(value).some(isToken) && (value.endsWith(' ') || event.type === 'change');
    const commit = () => {
      stop();
      const next = join(split(latest.current)[0], value);
      if (ready) event.target.value = split(value)[1];
      onQuery(next);
    };
    if (ready) commit(); else timer.current = setTimeout(commit, 180);
  };
  const key = (event) => {
    if (event.key === 'Enter') { const next = join(tokens, event.target.value); event.target.value = split(event.target.value)[1]; stop(); onQuery(next); }
    if (event.key === 'Backspace' && !event.target.value && tokens.length) onQuery(join(tokens.slice(0, -1), ''));
    if (event.key === 'Escape') event.target.blur();
    if (event.key === 'ArrowDown') { event.target.blur(); document.querySelector('[data-row]')?.focus(); }
  };
  const drop = (token) => onQuery(join(tokens.filter((other) => other !== token), input.current.value));
  return html`<div class="querybox" onClick=${(e) => { if (e.target === e.currentTarget) input.current.focus(); }}><${Icon} name="search"/>
    ${tokens.map((token) => html`<span key=${token.text} class=${cx('token', errors.has(token.text) && 'bad')} title=${errors.get(token.text)}>${token.negated ? '−' : ''}<span>${token.key}:</span>${token.value}<button type="button" aria-label=${`remove ${token.text}`} onClick=${() => drop(token)}>×</button></span>`)}
    <input ref=${input} data-query type="search" aria-label="Search runs" autocomplete="off" spellcheck=${false} defaultValue=${rest} onInput=${typed} onKeyDown=${key}
      placeholder=${phone ? 'search' : 'id, graph, error text — or status:failed graph:shop label:x took:>30s value:order=A-104'}/><${Kbd}>/<//></div>
    ${errors.size > 0 && html`<p class="queryerr" role="status">${[...errors].map(([text, problem]) => html`<span key=${text}><u>${text}</u> ${problem}</span>`)}</p>`}`;
}

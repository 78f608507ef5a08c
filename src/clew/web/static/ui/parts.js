// Small parts that every screen uses: copy buttons, commands, tabs, segments, panes with their four states.
import { html, cx, useEffect, useRef, useState, useTimer } from '../lib/html.js';
import { clock } from '../lib/format.js';
import { Icon } from './icons.js';

/** Copy text; without the clipboard API (plain http on another host) through a selection. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'off';
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

export function Copy({ text, what = 'copy', label }) {
  const [done, setDone] = useState(false);
  useTimer(() => setDone(false), 1400, [done]);
  return html`<button type="button" class="icon" title=${what} aria-label=${what} data-clew-copy=${text}
    onClick=${(e) => { e.stopPropagation(); e.preventDefault(); copyText(text).then(() => setDone(true)); }}><${Icon} name=${done ? 'done' : 'copy'}/>${label}</button>`;
}

/** A command line to copy. */
export const Command = ({ text }) => html`<span class="command"><code title=${text}>${text}</code><${Copy} text=${text} what="copy the command"/></span>`;

export function Segments({ options, value, onPick, label }) {
  return html`<div class="segments" role="group" aria-label=${label}>${options.map(([name, text]) => html`
    <button type="button" key=${name} aria-pressed=${String(value === name)} onClick=${() => onPick(name)}>${text}</button>`)}</div>`;
}

/** Tabs: [[name, text, badge?, tone?], …] */
export function Tabs({ options, value, onPick, label }) {
  const step = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const i = options.findIndex(([name]) => name === value);
    const next = options[(i + by + options.length) % options.length][0];
    onPick(next);
    event.currentTarget.querySelector(`[data-tab="${next}"]`)?.focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${step}>${options.map(([name, text, badge, tone]) => html`
    <button type="button" role="tab" key=${name} data-tab=${name} aria-selected=${String(value === name)} tabindex=${value === name ? 0 : -1}
      onClick=${() => onPick(name)}>${text}${badge ? html` <span class=${cx('badge', tone && `bg-${tone} t-${tone}`)}>${badge}</span>` : null}</button>`)}</div>`;
}

/** Bars that stand for content that loads; they appear after 150 ms. */
export function Skeleton({ rows = 4 }) {
  const [shown, setShown] = useState(false);
  useTimer(() => setShown(true), 150, []);
  return html`<div class="skeleton" aria-busy="true">${shown && Array.from({ length: rows }, (_, i) => html`<i key=${i}/>`)}</div>`;
}

export const Problem = ({ error, retry }) => html`<div class="problem" role="alert"><b>${error.message}</b>${error.hint && html`<p>${error.hint}</p>`}
  ${error.command && html`<${Command} text=${error.command}/>`}${retry && html`<button type="button" class="small" onClick=${retry}>Try again</button>`}</div>`;

/** The content of a pane by the state of its data: loading, failed, stale, or there. */
export function Pane({ data, rows, empty, children }) {
  const { data: value, error } = data;
  if (value === undefined) return error ? html`<${Problem} error=${error} retry=${data.reload}/>` : html`<${Skeleton} rows=${rows}/>`;
  return html`${error && html`<p class="stale" role="status">as of ${clock(data.at)}: ${error.message} <button type="button" class="link" onClick=${data.reload}>Try again</button></p>`}
    ${empty && empty(value) ? html`<p class="empty">${empty(value)}</p>` : children(value)}`;
}

/** The width of an element, followed while it changes. */
export function useWidth(initial = 600) {
  const ref = useRef(null);
  const [size, setSize] = useState({ width: initial, height: 0 });
  useEffect(() => {
    if (!ref.current) return undefined;
    const observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry.contentRect;
      setSize((old) => (Math.abs(old.width - width) < 1 && Math.abs(old.height - height) < 1 ? old : { width, height }));
    });
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return [ref, size];
}

export function useMedia(query) {
  const [hit, setHit] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const change = () => setHit(list.matches);
    change();
    list.addEventListener('change', change);
    return () => list.removeEventListener('change', change);
  }, [query]);
  return hit;
}

export const usePhone = () => useMedia('(max-width: 820px)');

/** Lines of a diff. */
export const Lines = ({ lines }) => html`<div class="lines">${lines.map((line, i) => html`<div key=${i} class=${cx('ln', line.tone === '+' && 'add', line.tone === '-' && 'del', line.quiet && 'quiet')}><span class="sg">${line.sign === '-' ? '−' : line.sign}</span><span>${line.parts ? line.parts.map(([changed, text], j) => (changed ? html`<mark key=${j}>${text}</mark>` : text)) : line.text}</span></div>`)}</div>`;

/** Save what an address returns as a file. */
export function download(href, name = '') {
  const link = Object.assign(document.createElement('a'), { href, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}

export function saveText(text, name, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  download(address, name);
  URL.revokeObjectURL(address);
}

export const Kbd = ({ children }) => html`<kbd aria-hidden="true">${children}</kbd>`;

/** The current time in seconds, again every `every` ms while shown. */
export function useNow(every = 1000, offset = 0) {
  const [now, setNow] = useState(() => Date.now() / 1000 + offset);
  useEffect(() => {
    const t = setInterval(() => setNow(Date.now() / 1000 + offset), every);
    return () => clearInterval(t);
  }, [every, offset]);
  return now;
}

// The address is the state: every selection is in the URL, and Back undoes it.
//
// `go` and `select` push a history entry. A series of changes to the same key (dragging the scrubber) makes one entry:
// further changes within a second replace it. Writing to the history is delayed, because browsers limit its rate; the
// page itself follows at once.

const listeners = new Set();
let current = read();
let pending = null; // a timer that writes the address
let series = { keys: '', at: 0 };

function read() {
  return { path: location.pathname, query: Object.fromEntries(new URLSearchParams(location.search)) };
}

export const route = () => current;

export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(next) {
  current = next;
  for (const listener of [...listeners]) listener(current);
}

/** The address of a path and query; empty values are left out. */
export function href(path, query = {}) {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value != null && value !== '' && value !== false) search.set(key, value);
  }
  const text = search.toString();
  return path + (text ? `?${text}` : '');
}

/** One segment of an address. Browsers resolve dots, so a segment of dots, or one that begins with "~", gets one more. */
export function segment(part) {
  const text = String(part);
  return encodeURIComponent(text === '.' || text === '..' || text.startsWith('~') ? `~${text}` : text);
}

const unsegment = (text) => (text.startsWith('~') ? text.slice(1) : text);

/** The address of a screen: its name and the segments below it. */
export const pathTo = (screen, ...parts) => [`/${screen}`, ...parts.map(segment)].join('/');

function flush() {
  if (!pending) return;
  clearTimeout(pending.timer);
  const { push } = pending;
  pending = null;
  const address = href(current.path, current.query);
  if (address === location.pathname + location.search) return;
  history[push ? 'pushState' : 'replaceState'](null, '', address);
}

/** Go to another screen. */
export function go(address, { replace = false } = {}) {
  flush();
  const url = new URL(address, location.href);
  history[replace ? 'replaceState' : 'pushState'](null, '', url.pathname + url.search);
  series = { keys: '', at: 0 };
  tell(read());
}

/** Change keys of the query; null removes one. */
export function select(changes, { replace = false } = {}) {
  const query = { ...current.query };
  let changed = false;
  for (const [key, value] of Object.entries(changes)) {
    const text = value == null || value === '' ? undefined : String(value);
    if (query[key] === text) continue;
    changed = true;
    if (text === undefined) delete query[key]; else query[key] = text;
  }
  if (!changed) return;
  const keys = Object.keys(changes).sort().join();
  const now = Date.now();
  const same = series.keys === keys && now - series.at < 1000;
  series = { keys, at: now };
  if (pending && !same) flush();
  const push = pending ? pending.push : !replace && !same;
  if (pending) clearTimeout(pending.timer);
  tell({ path: current.path, query });
  pending = { push, timer: setTimeout(flush, 120) };
}

/** The address as it will be, for copying. */
export const address = () => new URL(href(current.path, current.query), location.href).href;

addEventListener('popstate', () => {
  if (pending) clearTimeout(pending.timer);
  pending = null;
  series = { keys: '', at: 0 };
  tell(read());
});

// Links inside the page do not load it again.
document.addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest?.('a[href]');
  if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
  if (link.pathname.startsWith('/api/') || link.pathname.startsWith('/static/')) return;
  event.preventDefault();
  if (link.getAttribute('href').startsWith('#')) return;
  go(link.href);
});

const SCREENS = [
  [/^\/(?:runs\/?)?$/, 'runs'],
  [/^\/runs\/([^/]+)\/?$/, 'run', 'id'],
  [/^\/runs\/([^/]+)\/answer\/([^/]+)\/?$/, 'question', 'id', 'path'],
  [/^\/questions\/?$/, 'questions'],
  [/^\/compare\/?$/, 'compare'],
  [/^\/checks\/?$/, 'checks'],
  [/^\/checks\/([^/]+)\/?$/, 'check', 'id'],
  [/^\/values\/?$/, 'values'],
  [/^\/values\/([^/]+)\/?$/, 'value', 'target'],
  [/^\/queues\/?$/, 'queues'],
];

/** Which screen a path is, with its decoded parts; undecodable ids are taken as they are. */
export function screenOf(path) {
  for (const [pattern, screen, ...names] of SCREENS) {
    const match = pattern.exec(path);
    if (!match) continue;
    const params = {};
    names.forEach((name, i) => {
      try { params[name] = unsegment(decodeURIComponent(match[i + 1])); } catch { params[name] = match[i + 1]; }
    });
    return { screen, params };
  }
  return { screen: 'missing', params: {} };
}

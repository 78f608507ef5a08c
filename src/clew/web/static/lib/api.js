// Requests to the server that sent this page. Errors carry the server's message and its hint.

import { useLayoutEffect, useRef, useState } from './html.js';
import { segment } from './router.js';
import { jsonOf } from './values.js';

export const BASE = '/api';

export class ApiError extends Error {
  constructor(status, message, { type, hint, command, fields } = {}) {
    super(message);
    this.status = status;
    this.type = type;
    this.hint = hint;
    this.command = command;
    this.fields = fields ?? [];
  }
}

/** A path below the API; parts are encoded as one segment each. */
export const at = (...parts) => BASE + parts.map((part) => `/${segment(part)}`).join('');

export function withQuery(path, query) {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value != null && value !== '') search.set(key, value);
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

async function call(path, init) {
  let response;
  try {
    response = await fetch(path, { credentials: 'same-origin', cache: 'no-store', ...init });
  } catch (problem) {
    if (problem.name === 'AbortError') throw problem;
    throw new ApiError(0, 'the server does not answer', { hint: 'Start it again with clew serve.' });
  }
  const type = response.headers.get('content-type') ?? '';
  if (response.ok) return type.includes('json') ? response.json() : response.text();
  const error = (type.includes('json') ? await response.json().catch(() => null) : null)?.error ?? {};
  throw new ApiError(response.status, error.message || `the server answered ${response.status}`, error);
}

export const get = (path, { signal } = {}) => call(path, { signal });

export const send = (method, path, body) => call(path, {
  method,
  headers: { 'content-type': 'application/json', 'clew-request': '1' },
  body: body === undefined ? undefined : jsonOf(body),
});

export const post = (path, body = {}) => send('POST', path, body);

/**
 * Load what a path returns, again when the path or `version` changes. The last data stays while newer data loads, and
 * when loading fails: `stale` says so, with the time of the data.
 */
export function useData(path, { version = 0, delay = 0, keep = false } = {}) {
  const [state, setState] = useState({ path: null, data: undefined, error: null, at: 0 });
  const [again, setAgain] = useState(0);
  const latest = useRef(state);
  latest.current = state;
  // The request does not wait for the paint.
  useLayoutEffect(() => {
    if (!path) return undefined;
    const control = new AbortController();
    const load = () => get(path, { signal: control.signal }).then(
      (data) => setState({ path, data, error: null, at: Date.now() / 1000 }),
      (error) => {
        if (error.name === 'AbortError') return;
        const same = latest.current.path === path;
        setState({ path, data: same ? latest.current.data : undefined, error, at: same ? latest.current.at : 0 });
      },
    );
    const timer = delay && setTimeout(load, delay);
    if (!delay) load();
    return () => { clearTimeout(timer); control.abort(); };
  }, [path, version, again]);
  const current = state.path === path;
  return {
    data: current || keep ? state.data : undefined,
    error: current ? state.error : null,
    loading: Boolean(path) && !current,
    at: state.at,
    reload: () => setAgain((n) => n + 1),
  };
}

// Live updates: one stream of server-sent events for the whole page, read with fetch so that the page knows when it
// tries again. The stream continues after the last event that arrived. Hidden tabs close it, because browsers open at
// most six connections to a host. Events are handed on at most ten times a second.
//
// States: connecting, live, lost (with the time of the next try), busy (the server has no stream to give: the page asks
// again from time to time), paused (by the user).

import { BASE, withQuery } from './api.js';

const PAINT = 100; // ms between two deliveries
const listeners = new Map(); // event name -> Set
const watchers = new Set(); // of the state
const followed = new Map(); // run id -> how many components follow it
let wantsList = 0;
let state = { name: 'connecting', retry: 0, since: Date.now() };
let control = null;
let lastId = null;
let tries = 0;
let timer = null;
let queue = [];
let painting = null;
let key = '';

export const liveState = () => state;

export function watchState(watcher) {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

function setState(name, retry = 0) {
  state = { name, retry, since: state.name === name ? state.since : Date.now() };
  for (const watcher of [...watchers]) watcher(state);
}

/** Call back when a connection that is lost, or will be, is there again. */
export function whenBack(action) {
  let lost = state.name === 'lost';
  return watchState(({ name }) => { if (name === 'lost') lost = true; else if (lost && name === 'live') action(); });
}

/** Receive events of these names: {rows(data), steps(data), …}; `caughtUp` follows a new connection. */
export function listen(handlers) {
  for (const [name, handler] of Object.entries(handlers)) {
    if (!listeners.has(name)) listeners.set(name, new Set());
    listeners.get(name).add(handler);
  }
  return () => { for (const [name, handler] of Object.entries(handlers)) listeners.get(name)?.delete(handler); };
}

/** Ask for the events of a run, or of the list of runs (id null), until the returned function is called. */
export function follow(id) {
  if (id === null) wantsList++; else followed.set(id, (followed.get(id) ?? 0) + 1);
  restart();
  return () => {
    if (id === null) wantsList--;
    else if (followed.get(id) === 1) followed.delete(id);
    else followed.set(id, followed.get(id) - 1);
    restart();
  };
}

let soon = null;
function restart() {
  clearTimeout(soon);
  soon = setTimeout(() => {
    const next = address();
    if (next !== key && state.name !== 'paused') { lastId = null; connect(); }
  }, 30);
}

function address() {
  const search = new URLSearchParams();
  if (wantsList > 0) search.set('list', '1');
  for (const id of followed.keys()) search.append('runs', id);
  return `${withQuery(`${BASE}/events`, {})}?${search}`;
}

export function pause() {
  if (state.name === 'paused') { connect(); return; }
  stop();
  setState('paused');
}

export const retryNow = () => { if (isAway()) connect(); };
const isAway = () => state.name === 'lost' || state.name === 'busy';

function stop() {
  clearTimeout(timer);
  control?.abort();
  control = null;
}

async function connect() {
  stop();
  const mine = new AbortController();
  control = mine;
  key = address();
  if (!isAway()) setState('connecting');
  try {
    const headers = { accept: 'text/event-stream' };
    if (lastId) headers['Last-Event-ID'] = lastId;
    const response = await fetch(key, { headers, signal: mine.signal, cache: 'no-store', credentials: 'same-origin' });
    if (!response.ok) throw Object.assign(new Error(String(response.status)), { busy: response.status === 503 });
    tries = 0;
    setState('live');
    await readStream(response.body.getReader());
    throw new Error('the stream ended');
  } catch (problem) {
    if (control !== mine) return; // stopped on purpose
    const wait = Math.min(15, 2 ** Math.min(tries, 4)) * 1000;
    tries++;
    setState(problem.busy ? 'busy' : 'lost', Date.now() + wait);
    if (problem.busy) arrive('hello', { resumed: false });
    timer = setTimeout(connect, wait);
  }
}

async function readStream(reader) {
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) take(block);
  }
}

function take(block) {
  let name = 'message';
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith('event:')) name = line.slice(6).trim();
    else if (line.startsWith('data:')) data.push(line.slice(5).trimStart());
    else if (line.startsWith('id:')) lastId = line.slice(3).trim();
  }
  if (!data.length) return;
  arrive(name, JSON.parse(data.join('\n')));
}

function arrive(name, data) {
  queue.push([name, data]);
  painting ??= setTimeout(deliver, PAINT);
}

function deliver() {
  painting = null;
  const events = queue;
  queue = [];
  for (const [name, data] of events) for (const handler of [...(listeners.get(name) ?? [])]) handler(data);
}

document.addEventListener('visibilitychange', () => {
  if (state.name === 'paused') return;
  if (document.hidden) { stop(); setState('connecting'); } else connect();
});

export const start = () => connect();

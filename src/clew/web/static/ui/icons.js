// Icons: one shape per status, so that colour is never the only sign.
import { html } from '../lib/html.js';

const octagon = 'M5.3 1h5.4L15 5.3v5.4L10.7 15H5.3L1 10.7V5.3z';

const STATUS = {
  running: html`<path d="M8 2a6 6 0 1 0 6 6" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round"/>`,
  waiting: html`<rect x="1.7" y="1.7" width="12.6" height="12.6" rx="3" fill="none" stroke="currentColor" stroke-width="1.6"/><path d="M6.2 5.2v5.6M9.8 5.2v5.6" stroke="currentColor" stroke-width="1.8" stroke-linecap="round"/>`,
  completed: html`<circle cx="8" cy="8" r="6.3" fill="none" stroke="currentColor" stroke-width="1.6"/><path d="M5.2 8.2l2 2 3.7-4.2" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round"/>`,
  failed: html`<path d=${octagon} fill="currentColor"/><path class="i-cut" d="M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8" stroke-width="1.8" stroke-linecap="round"/>`,
  cancelled: html`<circle cx="8" cy="8" r="6.3" fill="none" stroke="currentColor" stroke-width="1.6"/><path d="M5 8h6" stroke="currentColor" stroke-width="1.8" stroke-linecap="round"/>`,
  lost: html`<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.8" stroke-dasharray="3.2 3.1"/>`,
  damaged: html`<path d="M5.3 1h5.4L15 5.3v2.2l-4 1 3 3-3.3 3.5H5.3L1 10.7V5.3zM8 4v4.5M8 11v.6" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round"/>`,
  queued: html`<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.6"/><circle cx="5" cy="8" r="1" fill="currentColor"/><circle cx="8" cy="8" r="1" fill="currentColor"/><circle cx="11" cy="8" r="1" fill="currentColor"/>`,
  sleeping: html`<circle cx="8" cy="8" r="6.3" fill="none" stroke="currentColor" stroke-width="1.6"/><path d="M8 4.5V8l2.3 1.6" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round"/>`,
  fresh: html`<circle cx="8" cy="8" r="5" fill="currentColor"/>`,
  outdated: html`<circle cx="8" cy="8" r="5" fill="none" stroke="currentColor" stroke-width="1.7" stroke-dasharray="2.3 2"/>`,
  source: html`<rect x="3" y="3" width="10" height="10" rx="1.5" fill="currentColor"/>`,
};
STATUS.paused = STATUS.waiting;
STATUS.compensated = STATUS.cancelled;
STATUS.answered = STATUS.completed;
STATUS.partial = STATUS.outdated;
STATUS.unanswered = STATUS.cancelled;
STATUS.done = STATUS.completed;
STATUS.asks = STATUS.waiting;
STATUS.retrying = STATUS.lost;
STATUS.next = STATUS.queued;
STATUS.missing = STATUS.lost;

const TONE = {
  running: 'run', waiting: 'wait', paused: 'wait', sleeping: 'wait', completed: 'ok', failed: 'fail', damaged: 'fail', lost: 'fail',
  cancelled: 'idle', compensated: 'idle', queued: 'idle', fresh: 'ok', outdated: 'wait', source: 'idle', answered: 'ok', partial: 'wait', unanswered: 'idle', done: 'ok', asks: 'wait',
  retrying: 'wait', next: 'idle', missing: 'idle',
};

export const toneOf = (status) => TONE[status] ?? 'idle';

const WORDS = { fresh: 'up to date', outdated: 'may be outdated', missing: 'never computed', next: 'runs next' };
export const wordOf = (status) => WORDS[status] ?? status;

export const StatusIcon = ({ status }) => html`<svg class=${`i i-${status}`} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">${STATUS[status] ?? STATUS.lost}</svg>`;

export const Status = ({ status, word }) => html`<span class=${`status t-${toneOf(status)}`} data-clew-status=${status}><${StatusIcon} status=${status}/>${word ?? wordOf(status)}</span>`;

export const Pill = ({ status, word }) => html`<span class=${`pill t-${toneOf(status)} bg-${toneOf(status)}`} data-clew-status=${status}><${StatusIcon} status=${status}/>${word ?? wordOf(status)}</span>`;

const LINE = {
  copy: 'M6 5.5V3.2A1.2 1.2 0 0 1 7.2 2h5.6A1.2 1.2 0 0 1 14 3.2v5.6a1.2 1.2 0 0 1-1.2 1.2h-2.3M3.2 6h5.6A1.2 1.2 0 0 1 10 7.2v5.6A1.2 1.2 0 0 1 8.8 14H3.2A1.2 1.2 0 0 1 2 12.8V7.2A1.2 1.2 0 0 1 3.2 6z',
  done: 'M3 8.5l3.2 3.2L13 4.5',
  search: 'M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.5L14 14',
  fork: 'M4.5 6v4.5M4.5 8.8c4.5 0 7-.8 7-3.3M4.5 2.5a1.7 1.7 0 1 0 0 3.4 1.7 1.7 0 0 0 0-3.4zM4.5 10.5a1.7 1.7 0 1 0 0 3.4 1.7 1.7 0 0 0 0-3.4zM11.5 2.2a1.7 1.7 0 1 0 0 3.4 1.7 1.7 0 0 0 0-3.4z',
  close: 'M4 4l8 8M12 4l-8 8',
};
const FILL = {
  first: 'M3 3h1.8v10H3zM13 3v10L5.5 8z', prev: 'M12 3v10L4 8z', next: 'M4 3v10l8-5z', last: 'M11.2 3H13v10h-1.8zM3 3l7.5 5L3 13z',
  theme: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm0 1.4v9.2a4.6 4.6 0 0 1 0-9.2z',
};

export function Icon({ name }) {
  return LINE[name]
    ? html`<svg class="i" viewBox="0 0 16 16" width="15" height="15" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"><path d=${LINE[name]}/></svg>`
    : html`<svg class="i" viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" fill="currentColor"><path fill-rule="evenodd" d=${FILL[name]}/></svg>`;
}

export const Logo = ({ size = 20 }) => html`<svg class="logo" viewBox="0 0 20 20" width=${size} height=${size} aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round"><circle cx="9" cy="9" r="7"/><path d="M3.2 5.6c4-.9 8.6 1.4 10.6 6.8M2.2 9.2c3.4-.4 7 1.7 8.5 6.3M6.2 2.6c3.6 0 7.6 2.6 9.4 6.2M13.8 13.8c1.4 2 3 2.7 5 2.6"/></svg>`;

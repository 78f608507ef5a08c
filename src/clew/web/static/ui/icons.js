// Icons: one shape per status, so that colour is never the only sign.
import { html } from '../lib/html.js';

const octagon = 'M5.3 1h5.400L15 5.300v5.400L10.7 15H5.300L1 10.700V5.300z';

const STATUS = {
  running: html`<path d="M8 2a6 6 0 1 0 6 6" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round"/>`,
  waiting: html`<rect x="1.7" y="1.7" width="12.6" height="12.6" rx="3" fill="none" stroke="currentColor" stroke-width="1.6"/><path d="M6.2 5.200v5.600M9.8 5.200v5.6" stroke="currentColor" stroke-width="1.8" stroke-linecap="round"/>`,
  completed: html`<circle cx="8" cy="8" r="6.3" fill="none" stroke="currentColor" stroke-width="1.6"/><path d="M5.2 8.200l2 2 3.7-4.2" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round"/>`,
  failed: html`<path d=${octagon} fill="currentColor"/><path class="i-cut" d="M5.6 5.600l4.8 4.800M10.4 5.600l-4.8 4.8" stroke-width="1.8" stroke-linecap="round"/>`,
  cancelled: html`<circle cx="8" cy="8" r="6.3" fill="none" stroke="currentColor" stroke-width="1.6"/><path d="M5 8h6" stroke="currentColor" stroke-width="1.8" stroke-linecap="round"/>`,
  lost: html`<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.8" stroke-dasharray="3.2 3.1"/>`,
  damaged: html`<path d="M5.3 1h5.400L15 5.300v2.200l-4 1 3 3-3.3 3.500H5.300L1 10.700V5.300zM8 4v4.500M8 11v.6" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round"/>`,
  queued: html`<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.6"/><circle cx="5" cy="8" r="1" fill="currentColor"/><circle cx="8" cy="8" r="1" fill="currentColor"/><circle cx="11" cy="8" r="1" fill="currentColor"/>`,
  sleeping: html`<circle cx="8" cy="8" r="6.3" fill="none" stroke="currentColor" stroke-width="1.6"/><path d="M8 4.500V8l2.3 1.6" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round"/>`,
  fresh: html`<circle cx="8" cy="8" r="5" fill="currentColor"/>`,
  outdated: html`<circle cx="8" cy="8" r="5" fill="none" stroke="currentColor" stroke-width="1.7" stroke-dasharray="2.3 2"/>`,
  source: html`<rect x="3" y="3" width="10" height="10" rx="1.5" fill="currentColor"/>`,
};
STATUS.paused = STATUS.waiting;
STATUS.compensated = STATUS.cancelled;
STATUS.answered = STATUS.completed;
STATUS.done = STATUS.completed;
STATUS.asks = STATUS.waiting;
STATUS.retrying = STATUS.lost;
STATUS.next = STATUS.queued;
STATUS.missing = STATUS.lost;

const TONE = {
  running: 'run', waiting: 'wait', paused: 'wait', sleeping: 'wait', completed: 'ok', failed: 'fail', damaged: 'fail', lost: 'fail',
  cancelled: 'idle', compensated: 'idle', queued: 'idle', fresh: 'ok', outdated: 'wait', source: 'idle', answered: 'ok', done: 'ok', asks: 'wait',
  retrying: 'wait', next: 'idle', missing: 'idle',
};

export const toneOf = (status) => TONE[status] ?? 'idle';

const WORDS = { fresh: 'up to date', outdated: 'may be outdated', missing: 'never computed', next: 'runs next' };
export const wordOf = (status) => WORDS[status] ?? status;

export const StatusIcon = ({ status }) => html`<svg class=${`i i-${status}`} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">${STATUS[status] ?? STATUS.lost}</svg>`;

export const Status = ({ status, word }) => html`<span class=${`status t-${toneOf(status)}`} data-clew-status=${status}><${StatusIcon} status=${status}/>${word ?? wordOf(status)}</span>`;

export const Pill = ({ status, word }) => html`<span class=${`pill t-${toneOf(status)} bg-${toneOf(status)}`} data-clew-status=${status}><${StatusIcon} status=${status}/>${word ?? wordOf(status)}</span>`;

const LINE = {
  copy: 'M6 5.500V3.200A1.2 1.2 0 0 1 7.2 2h5.600A1.2 1.2 0 0 1 14 3.200v5.600a1.2 1.2 0 0 1-1.2 1.200h-2.300M3.2 6h5.600A1.2 1.2 0 0 1 10 7.200v5.600A1.2 1.2 0 0 1 8.8 14H3.200A1.2 1.2 0 0 1 2 12.800V7.200A1.2 1.2 0 0 1 3.2 6z',
  done: 'M3 8.500l3.2 3.200L13 4.5',
  search: 'M7 2.500a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.500L14 14',
  fork: 'M4.5 6v4.500M4.5 8.800c4.5 0 7-.8 7-3.300M4.5 2.500a1.7 1.7 0 1 0 0 3.4 1.7 1.7 0 0 0 0-3.400zM4.5 10.500a1.7 1.7 0 1 0 0 3.4 1.7 1.7 0 0 0 0-3.400zM11.5 2.200a1.7 1.7 0 1 0 0 3.4 1.7 1.7 0 0 0 0-3.400z',
  close: 'M4 4l8 8M12 4l-8 8',
};
const FILL = {
  first: 'M3 3h1.800v10H3zM13 3v10L5.5 8z', prev: 'M12 3v10L4 8z', next: 'M4 3v10l8-5z', last: 'M11.2 3H13v10h-1.800zM3 3l7.5 5L3 13z',
  theme: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm0 1.400v9.200a4.6 4.6 0 0 1 0-9.200z',
};

export function Icon({ name }) {
  return LINE[name]
    ? html`<svg class="i" viewBox="0 0 16 16" width="15" height="15" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"><path d=${LINE[name]}/></svg>`
    : html`<svg class="i" viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" fill="currentColor"><path fill-rule="evenodd" d=${FILL[name]}/></svg>`;
}

export const Logo = ({ size = 20 }) => html`<svg class="logo" viewBox="0 0 20 20" width=${size} height=${size} aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round"><circle cx="9" cy="9" r="7"/><path d="M3.2 5.600c4-.9 8.6 1.4 10.6 6.800M2.2 9.200c3.4-.4 7 1.7 8.5 6.300M6.2 2.600c3.6 0 7.6 2.6 9.4 6.200M13.8 13.800c1.4 2 3 2.7 5 2.6"/></svg>`;

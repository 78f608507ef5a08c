// What surrounds every screen: navigation, live dot, theme, jump, help, and short messages.
import { html, useEffect, useState, useTimer } from '../lib/html.js';
import { clock } from '../lib/format.js';
import { useKeys } from '../lib/keys.js';
import { liveState, pause, retryNow, watchState } from '../lib/live.js';
import { address, go } from '../lib/router.js';
import { useServer } from '../lib/server.js';
import { ask, Dialogs } from './dialog.js';
import { Icon, Logo } from './icons.js';
import { copyText, Kbd, useNow } from './parts.js';

const THEMES = ['system', 'light', 'dark'];
let say = () => {};

/** Show a short message. */
export const toast = (text) => say({ text });

function useLive() {
  const [state, setState] = useState(liveState());
  useEffect(() => { setState(liveState()); return watchState(setState); }, []); // it may have changed before
  return state;
}

function LiveDot() {
  const live = useLive();
  const now = useNow(live.name === 'lost' ? 1000 : 60000) * 1000;
  const left = Math.max(0, Math.ceil((live.retry - now) / 1000));
  const text = { connecting: 'catching up', live: 'live', lost: left ? `lost, again in ${left} s` : 'lost, trying', busy: 'not live', paused: 'paused' }[live.name];
  return html`<button type="button" class=${`live l-${live.name}`} title=${live.name === 'paused' ? 'Updates are paused; press to go on (space)' : live.name === 'busy' ? 'The server has no room for more live pages; this one asks again from time to time' : live.name === 'lost' ? 'Press to try now' : 'Press to pause updates (space)'}
    data-clew-live=${live.name} onClick=${() => (live.name === 'lost' || live.name === 'busy' ? retryNow() : pause())}><i/>${text}</button>`;
}

/** A line across the page while the connection is lost. */
export function StaleBar() {
  const live = useLive();
  if (live.name !== 'lost' || Date.now() - live.since < 300) return null;
  return html`<p class="stalebar" role="status">connection lost, as of ${clock(live.since / 1000)}; retrying</p>`;
}

function nextTheme() {
  const now = localStorage.getItem('clew.theme') || 'system';
  const next = THEMES[(THEMES.indexOf(now) + 1) % 3];
  if (next === 'system') localStorage.removeItem('clew.theme'); else localStorage.setItem('clew.theme', next);
  dispatchEvent(new Event('clew-theme'));
  toast(`Theme: ${next}`);
}

// The dialogs are loaded when they are first opened.
const jump = () => import('./jump.js').then(({ Jump }) => ask(Jump, { offers: offers() }));
const help = () => import('./jump.js').then(({ Help }) => ask(Help));

// What the screen offers to jump to, besides runs: [{kind, name, open}].
let offers = () => [];
export const setOffers = (list) => { offers = list; };

const TABS = [['runs', 'Runs', '≡'], ['questions', 'Questions', '?'], ['checks', 'Checks', '✓'], ['values', 'Values', 'ƒ'], ['queues', 'Queues', '⇉']];
const SECTION = { run: 'runs', compare: 'runs', question: 'questions', check: 'checks', value: 'values' };

export function Shell({ screen, children }) {
  const server = useServer();
  const counts = server?.counts ?? {};
  const section = SECTION[screen] ?? screen;
  const badge = { questions: [counts.questions, 'wait'], checks: [counts.checks_bad, 'fail'] };
  const tabs = TABS.filter(([name]) => name !== 'queues' || counts.queues > 0 || screen === 'queues');
  const links = tabs.map(([name, text, sign]) => html`<a key=${name} href=${`/${name}`} aria-current=${section === name ? 'page' : undefined}><span class="sign" aria-hidden="true">${sign}</span>${text}${badge[name]?.[0] > 0 ? html` <span class=${`badge bg-${badge[name][1]} t-${badge[name][1]}`}>${badge[name][0]}</span>` : null}</a>`);
  useKeys({
    'g r': () => go('/runs'), 'g q': () => go('/questions'), 'g c': () => go('/checks'), 'g v': () => go('/values'),
    'mod+k': () => jump(), '?': () => help(), y: () => copyText(address()).then(() => toast('Link copied')), ' ': () => pause(),
    '/': () => { const box = document.querySelector('[data-query]'); if (box) box.focus(); else go('/runs'); },
  });
  return html`<a class="off" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById('main').focus(); }}>Skip to the content</a>
    <header class="top"><a class="brand" href="/runs" aria-label="clew: all runs"><${Logo}/><span>clew</span></a>
      <nav aria-label="Main">${links}</nav><span class="grow"/>
      <${LiveDot}/><span class="store" title=${server?.store?.name}>${server?.store ? `${server.store.name.split('/').pop()} · ${server.store.kind}` : ''}${server?.read_only ? html` <span class="badge">read only</span>` : null}</span>
      <button type="button" class="jump" aria-label="Jump to…" onClick=${() => jump()}><span>Jump to…</span> <${Kbd}>⌘K<//></button>
      <button type="button" class="icon" title="Theme: system, light, dark" aria-label="Theme" onClick=${nextTheme}><${Icon} name="theme"/></button></header>
    <${StaleBar}/>
    <main id="main" tabindex="-1" class=${`s-${screen}`}>${children}</main>
    <nav class="bottom" aria-label="Main, phone">${links}</nav>
    <${Toasts}/><${Dialogs}/>`;
}

function Toasts() {
  const [message, setMessage] = useState(null);
  say = setMessage;
  useTimer(() => setMessage(null), 2600, [message]);
  return html`<div class="toasts" role="status" aria-live="polite">${message && html`<div class="toast">${message.text}</div>`}</div>`;
}

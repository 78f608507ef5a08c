// The buttons of a run's verbs. The server decides which are possible; one that is not says why.

import { html, useRef } from '../lib/html.js';
import { Kbd } from './parts.js';

const NAMES = { answer: 'Answer', resume: 'Resume', fork: 'Fork…', rerun: 'Rerun…', replay: 'Replay', cancel: 'Cancel…', export: 'Export', delete: 'Delete…' };
const KEYS = { answer: 'a', resume: 'r' };

/** The command line of a verb, as the server quotes it for a shell; for a fork at a step. */
export const commandOf = (run, verb, k) => run.verbs?.find((v) => v.verb === verb)?.command.replace('--step N', `--step ${k}`);

/** Do a verb of a run. `context` is {k, onAnswer}. */
export async function doVerb(verb, run, context = {}) {
  if (verb === 'answer') { context.onAnswer?.(); return; }
  const dialogs = await import('./verbdialogs.js');
  await dialogs.doVerb(verb, run, context);
}

/** The verbs of a run, in the order of use; after four of them a menu. */
export function Verbs({ run, context }) {
  const all = run.verbs ?? [];
  const usable = all.filter((v) => v.enabled);
  const shown = usable.slice(0, 4);
  const rest = [...usable.slice(4), ...all.filter((v) => !v.enabled)];
  return html`<div class="verbs">${shown.map((v, i) => html`<button type="button" key=${v.verb} data-verb=${v.verb} class=${i === 0 && v.verb !== 'cancel' && ['answer', 'resume'].includes(v.verb) ? 'primary' : ['cancel', 'delete'].includes(v.verb) ? 'warn' : ''} onClick=${() => doVerb(v.verb, run, context)}>${NAMES[v.verb] ?? v.verb}${KEYS[v.verb] && i === 0 ? html` <${Kbd}>${KEYS[v.verb]}<//>` : null}</button>`)}
    ${rest.length > 0 && html`<${Menu} label="More verbs">${rest.map((v) => html`<button type="button" key=${v.verb} data-verb=${v.verb} disabled=${!v.enabled} onClick=${() => doVerb(v.verb, run, context)}>${NAMES[v.verb] ?? v.verb}${!v.enabled && html`<small>${v.reason}</small>`}</button>`)}<//>`}</div>`;
}

export function Menu({ label, children }) {
  const box = useRef(null);
  const close = () => { if (box.current) box.current.open = false; };
  return html`<details class="menu" ref=${box} onClick=${(e) => { if (e.target.closest('.menu-list button')) close(); }} onKeyDown=${(e) => { if (e.key === 'Escape' && box.current.open) { close(); e.stopPropagation(); } }} onFocusOut=${(e) => { if (!box.current?.contains(e.relatedTarget)) setTimeout(close, 120); }}>
    <summary aria-label=${label}>⋯</summary><div class="menu-list">${children}</div></details>`;
}

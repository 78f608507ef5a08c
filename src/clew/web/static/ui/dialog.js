// Dialogs. One at a time: `ask(component, props)` opens it and resolves with what it was closed with.
import { html, useLayoutEffect, useRef, useState } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { Icon } from './icons.js';
import { Command, Kbd, Problem } from './parts.js';

let show = () => {};
let open = null;

export function ask(component, props = {}) {
  open?.resolve(undefined);
  return new Promise((resolve) => { open = { component, props, resolve }; show({}); });
}

export function Dialogs() {
  const [, draw] = useState({});
  show = draw;
  if (!open) return null;
  const { component: Body, props, resolve } = open;
  const close = (value) => { open = null; resolve(value); draw({}); };
  return html`<${Body} ...${props} close=${close}/>`;
}

/** The frame of a dialog: it takes the focus, keeps it, and gives it back. */
export function Frame({ title, close, children, wide }) {
  const ref = useRef(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = ref.current;
    dialog.showModal();
    dialog.querySelector('[autofocus], input, textarea, button.primary')?.focus();
    return () => { dialog.close(); before?.focus?.(); };
  }, []);
  useKeys({ Escape: () => close() }, { modal: true });
  return html`<dialog ref=${ref} class=${wide ? 'wide' : ''} aria-label=${title} onCancel=${(e) => { e.preventDefault(); close(); }}
    onClick=${(e) => { if (e.target === ref.current) close(); }}>
    <div class="sheet"><header><h2>${title}</h2><button type="button" class="icon" aria-label="close" onClick=${() => close()}><${Icon} name="close"/></button></header>${children}</div></dialog>`;
}

/**
 * A verb: what it does, its command line, and a button. `act` does it; a refusal shows the server's message and hint.
 * A dangerous verb needs a second press.
 */
export function VerbDialog({ title, says, command, action, danger, act, close, children, ready = true }) {
  const [busy, setBusy] = useState(false);
  const [armed, setArmed] = useState(!danger);
  const [error, setError] = useState(null);
  const run = async (event) => {
    event?.preventDefault();
    if (busy || !ready) return;
    if (!armed) { setArmed(true); return; }
    setBusy(true);
    setError(null);
    try { close(await act()); } catch (problem) { setError(problem); setBusy(false); setArmed(!danger); }
  };
  useKeys({ 'mod+Enter': run });
  return html`<${Frame} title=${title} close=${close}><form onSubmit=${run} novalidate>
    ${says && html`<p class="says">${says}</p>`}${children}
    ${command && html`<p class="same">The same on the command line</p><${Command} text=${command}/>`}
    ${error && html`<${Problem} error=${{ message: error.message, hint: error.hint, command: command ? null : error.command }}/>`}
    <footer><button type="submit" class=${danger ? 'danger' : 'primary'} disabled=${busy || !ready}>${busy ? 'Working…' : danger && armed ? `Press again: ${action}` : action} ${!danger && html`<${Kbd}>⌘↵<//>`}</button>
      <button type="button" onClick=${() => close()}>Back</button></footer></form><//>`;
}

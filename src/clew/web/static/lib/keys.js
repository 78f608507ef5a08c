// Keyboard. Each screen declares its keys; the help lists them. Letters do nothing inside fields, and can be switched
// off (WCAG 2.1.4): a screen reader or a voice control may send them by mistake.

import { useLayoutEffect, useRef } from './html.js';

const layers = []; // the last one is asked first
const OFF = 'clew.letters';
let prefix = false; // after `g`, until the next key

export const lettersOn = () => localStorage.getItem(OFF) !== 'off';
export const setLetters = (on) => (on ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, 'off'));

/** The name of a pressed key: "j", "shift+x", "mod+k", "shift+ArrowLeft", "g r". */
export function nameOf(event) {
  const mod = event.metaKey || event.ctrlKey ? 'mod+' : '';
  const letter = event.key.length === 1;
  const shift = event.shiftKey && (!letter || /[a-z]/i.test(event.key)) ? 'shift+' : '';
  return mod + shift + (letter ? event.key.toLowerCase() : event.key);
}

const inField = (target) => Boolean(target.closest?.('input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]'));

document.addEventListener('keydown', (event) => {
  if (event.defaultPrevented || event.altKey) return;
  let name = nameOf(event);
  const bare = !name.startsWith('mod+') && name !== 'Escape';
  if (bare && inField(event.target)) return;
  const letter = /^(shift\+)?.$/.test(name) && name !== ' ';
  if (letter && !lettersOn()) return;
  if (prefix) name = `g ${name}`;
  prefix = name === 'g';
  if (prefix) return;
  // A focused control takes the keys that operate it.
  const control = event.target.closest?.('button, a, [role=slider], summary, input');
  if (control && (name === 'Enter' || name === ' ')) return;
  for (let i = layers.length - 1; i >= 0; i--) {
    const action = layers[i].keys[name];
    if (action) {
      if (action(event) !== false) event.preventDefault();
      return;
    }
    if (layers[i].modal) return;
  }
});

/** Handle keys while a component is shown: {name: action}. A modal layer hides those below. */
export function useKeys(keys, { modal = false } = {}) {
  const layer = useRef({}).current;
  Object.assign(layer, { keys, modal }); // while rendering: the next key may come before effects run
  useLayoutEffect(() => { // not after the paint: what can be seen has its keys
    layers.push(layer);
    return () => layers.splice(layers.indexOf(layer), 1);
  }, []);
}

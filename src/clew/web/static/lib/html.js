// One import for everything that components need from preact and htm.
import { h, options, render, Fragment, createContext } from '../vendor/preact.js';
import htm from '../vendor/htm.js';
import { useEffect } from '../vendor/hooks.js';

export { render, Fragment, createContext };
export {
  useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useContext, useErrorBoundary, useId, useReducer,
} from '../vendor/hooks.js';
export const html = htm.bind(h);

/** Do something `ms` after `deps` changed, unless they change again before. */
export const useTimer = (action, ms, deps) => useEffect(() => { const timer = setTimeout(action, ms); return () => clearTimeout(timer); }, deps);

/** Join class names; falsy parts are left out. */
export const cx = (...parts) => parts.filter(Boolean).join(' ');

// What arrives by itself is drawn at most every 100 ms; for a second after an input, everything at once.
// `touched` is the last input, or that the page was opened; `draw` is what waits.
let touched = 0;
let drawn = 0;
let draw;
const flush = () => draw?.();

options.debounceRendering = (process) => {
  const now = performance.now();
  draw = () => { draw = null; drawn = performance.now(); process(); };
  if (now - touched < 1000) queueMicrotask(flush); else setTimeout(flush, drawn + 100 - now);
};

for (const name of ['keydown', 'pointerdown', 'pointermove', 'wheel', 'scroll', 'resize']) {
  addEventListener(name, (event) => { touched = event.timeStamp; flush(); }, true);
}

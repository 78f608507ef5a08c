// One import for everything that components need from preact and htm.
import { h, render, Fragment, createContext } from '../vendor/preact.js';
import htm from '../vendor/htm.js';

export { render, Fragment, createContext };
export {
  useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useContext, useErrorBoundary, useId, useReducer,
} from '../vendor/hooks.js';
export const html = htm.bind(h);

/** Join class names; falsy parts are left out. */
export const cx = (...parts) => parts.filter(Boolean).join(' ');

// Parts of a screen that are loaded when they are first shown.
import { html, useEffect, useState } from './html.js';

/** A component from a module that is loaded on demand: lazy(() => import(path), 'Name'). */
export function lazy(load, name) {
  let found = null;
  return function Lazy(props) {
    const [, draw] = useState(0);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      let shown = true;
      if (!found) load().then((module) => { found = module[name]; if (shown) draw((n) => n + 1); }, () => shown && setFailed(true));
      return () => { shown = false; };
    }, []);
    if (failed) return html`<p class="problem" role="alert">this part of the page could not be loaded; load the page again</p>`;
    return found ? html`<${found} ...${props}/>` : null;
  };
}

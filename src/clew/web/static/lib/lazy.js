// Parts of the page that are loaded when they are first shown, or before, while the browser has nothing else to do.
import { html, useEffect, useLayoutEffect, useState } from './html.js';
import { whenBack } from './live.js';
import { Problem, Skeleton } from '../ui/parts.js';

const reload = () => location.reload();
const FAILED = { message: 'this part of the page could not be loaded', hint: 'Load the page again; the server may have stopped.' };

/** A component from a module that is loaded on demand: lazy(() => import(path), 'Name'). `ready` loads it before. */
export function lazy(load, name = 'default') {
  let found = null;
  const ready = async () => { found ??= (await load())[name]; };
  function Lazy(props) {
    const [, draw] = useState(0);
    const [failed, setFailed] = useState(false);
    // The import does not wait for the paint.
    useLayoutEffect(() => {
      let shown = true;
      if (!found) ready().then(() => shown && draw(1), () => shown && setFailed(true));
      return () => { shown = false; };
    }, []);
    useEffect(() => (failed ? whenBack(reload) : undefined), [failed]);
    if (failed) return html`<${Problem} error=${FAILED} retry=${reload}/>`;
    return found ? html`<${found} ...${props}/>` : html`<${Skeleton} rows=${6}/>`;
  }
  return Object.assign(Lazy, { ready });
}

/** Load modules that are probably needed next. Not for those who save data; a failure is reported when they are shown. */
export function early(load) {
  if (navigator.connection?.saveData) return;
  (window.requestIdleCallback ?? setTimeout)(() => load().catch(() => {}));
}

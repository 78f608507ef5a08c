// Starts the page: one router, one live stream, one screen at a time. Screens are loaded when they are first opened.
import { html, render, useEffect, useErrorBoundary, useState } from './lib/html.js';
import { lazy } from './lib/lazy.js';
import { start } from './lib/live.js';
import { route, screenOf, subscribe } from './lib/router.js';
import { loadServer } from './lib/server.js';
import { Problem } from './ui/parts.js';
import { setOffers, Shell } from './ui/shell.js';

const SCREENS = {
  runs: lazy(() => import('./screens/runs.js')),
  run: lazy(() => import('./screens/run.js')),
  question: lazy(() => import('./screens/question.js')),
  questions: lazy(() => import('./screens/lists.js'), 'Questions'),
  compare: lazy(() => import('./screens/compare.js')),
  checks: lazy(() => import('./screens/lists.js'), 'Checks'),
  check: lazy(() => import('./screens/check.js')),
  values: lazy(() => import('./screens/lists.js'), 'Values'),
  value: lazy(() => import('./screens/value.js')),
  queues: lazy(() => import('./screens/queues.js')),
};

/** A screen that cannot be drawn says so; the others keep working. */
function Guard({ children }) {
  const [error, reset] = useErrorBoundary((problem) => console.error(problem));
  return error ? html`<${Problem} error=${{ message: `this screen could not be drawn: ${error.message}`, hint: 'What is stored may be damaged: see clew doctor.' }} retry=${reset}/>` : children;
}

function App() {
  const [here, setHere] = useState(route());
  useEffect(() => { setHere(route()); return subscribe(setHere); }, []);
  const { screen, params } = screenOf(here.path);
  const Screen = SCREENS[screen];
  useEffect(() => {
    setOffers(() => []);
    document.title = [params.id ?? params.target, screen === 'missing' ? 'not found' : screen, 'clew'].filter(Boolean).join(' · ');
    document.getElementById('main')?.scrollTo?.(0, 0);
  }, [here.path]);
  const key = screen + JSON.stringify(params);
  return html`<${Shell} screen=${screen}>
    ${Screen ? html`<${Guard} key=${key}><${Screen} ...${params} query=${here.query}/><//>`
      : html`<div class="lone"><h1>There is no such address</h1><p>${here.path}</p><p><a href="/runs">All runs</a></p></div>`}<//>`;
}

loadServer();
start();
// The browser asked for the modules of the first screens together with this one, so they are drawn without a skeleton.
await SCREENS[screenOf(route().path).screen]?.ready().catch(() => {});
render(html`<${App}/>`, document.getElementById('app'));

// Starts the page: one router, one live stream, one screen at a time. Screens are loaded when they are first opened.
import { html, render, useEffect, useErrorBoundary, useLayoutEffect, useState } from './lib/html.js';
import { start, whenBack } from './lib/live.js';
import { route, screenOf, subscribe } from './lib/router.js';
import { loadServer } from './lib/server.js';
import { Problem, Skeleton } from './ui/parts.js';
import { setOffers, Shell } from './ui/shell.js';

const LOAD = {
  runs: () => import('./screens/runs.js'),
  run: () => import('./screens/run.js'),
  question: () => import('./screens/question.js'),
  questions: () => import('./screens/questions.js'),
  compare: () => import('./screens/compare.js'),
  checks: () => import('./screens/checks.js'),
  check: () => import('./screens/check.js'),
  values: () => import('./screens/values.js'),
  value: () => import('./screens/value.js'),
  queues: () => import('./screens/queues.js'),
};
const loaded = {};

/** A screen that cannot be drawn says so; the others keep working. */
function Guard({ children }) {
  const [error, reset] = useErrorBoundary((problem) => console.error(problem));
  return error ? html`<${Problem} error=${{ message: `this screen could not be drawn: ${error.message}`, hint: 'What is stored may be damaged: see clew doctor.' }} retry=${reset}/>` : children;
}

function App() {
  const [here, setHere] = useState(route());
  const [, again] = useState(0);
  const [failed, setFailed] = useState(null);
  useEffect(() => { setHere(route()); return subscribe(setHere); }, []);
  const { screen, params } = screenOf(here.path);
  const Screen = loaded[screen];
  // The import does not wait for the paint.
  useLayoutEffect(() => {
    setFailed(null);
    if (Screen || !LOAD[screen]) return;
    LOAD[screen]().then((module) => { loaded[screen] = module.default; again((n) => n + 1); }, setFailed);
  }, [screen, Screen]);
  useEffect(() => (failed ? whenBack(() => location.reload()) : undefined), [failed]);
  useEffect(() => {
    setOffers(() => []);
    document.title = [params.id ?? params.target, screen === 'missing' ? 'not found' : screen, 'clew'].filter(Boolean).join(' · ');
    document.getElementById('main')?.scrollTo?.(0, 0);
  }, [here.path]);
  const key = screen + JSON.stringify(params);
  return html`<${Shell} screen=${screen}>
    ${screen === 'missing' ? html`<div class="lone"><h1>There is no such address</h1><p>${here.path}</p><p><a href="/runs">All runs</a></p></div>`
      : failed ? html`<${Problem} error=${{ message: 'this part of the page could not be loaded', hint: 'Load the page again; the server may have stopped.' }} retry=${() => location.reload()}/>`
        : Screen ? html`<${Guard} key=${key}><${Screen} ...${params} query=${here.query}/><//>` : html`<${Skeleton} rows=${6}/>`}<//>`;
}

loadServer();
start();
render(html`<${App}/>`, document.getElementById('app'));

// Two dialogs: the list of keys, and the search for a run, or for a node or value of the open one.
import { html, useEffect, useRef, useState } from '../lib/html.js';
import { BASE, get, withQuery } from '../lib/api.js';
import { lettersOn, setLetters } from '../lib/keys.js';
import { go, pathTo } from '../lib/router.js';
import { Frame } from './dialog.js';
import { Status } from './icons.js';

const SCREENS = [['runs', 'Runs'], ['questions', 'Questions'], ['checks', 'Checks'], ['values', 'Values'], ['queues', 'Queues']];

const HELP = [
  ['Everywhere', [['/', 'query'], ['g r', 'runs'], ['g q', 'questions'], ['g c', 'checks'], ['g v', 'values'], ['⌘K', 'jump to a run, node or value'],
    ['y', 'copy the link'], ['space', 'pause live updates'], ['esc', 'clear the selection'], ['?', 'this list']]],
  ['Runs', [['j k', 'rows'], ['x', 'select'], ['shift+x', 'select a range'], ['enter', 'open']]],
  ['A run', [['← →', 'the state before, after'], ['shift+← →', 'last, next change of the selected value or node'], ['home end', 'first, last state'],
    ['[ ]', 'previous, next item in time'], ['t', 'axis: time or steps'], ['+ − 0', 'zoom the timeline'], ['w', 'why it ran'], ['e', 'error'], ['c', 'calls'],
    ['a', 'answer'], ['f', 'fork at k'], ['r', 'resume'], ['⌘↵', 'send the form']]],
];

export function Help({ close }) {
  const [on, setOn] = useState(lettersOn());
  return html`<${Frame} title="Keyboard" close=${close} wide><div class="help">${HELP.map(([name, keys]) => html`<section key=${name}><h3>${name}</h3><dl>${keys.map(([key, text]) => html`<div key=${key}><dt>${key.split(' ').map((k) => html`<kbd key=${k}>${k}</kbd> `)}</dt><dd>${text}</dd></div>`)}</dl></section>`)}</div>
    <label class="check"><input type="checkbox" checked=${on} onChange=${(e) => { setLetters(e.target.checked); setOn(e.target.checked); }}/><b>Single letter keys</b><span class="note">work outside of fields</span></label><//>`;
}

/** Go to what was found; with `only`, choose a run, and close with its id. */
export function Jump({ title = 'Jump to a run, node or value', offers = [], only = false, close }) {
  const [text, setText] = useState('');
  const [found, setFound] = useState({ text: '', runs: [] });
  const [at0, setAt] = useState(0);
  const box = useRef(null);
  useEffect(() => {
    const control = new AbortController();
    const t = setTimeout(() => get(withQuery(`${BASE}/runs`, { q: text, limit: 8 }), { signal: control.signal }).then((d) => setFound({ text, runs: d.runs }), () => {}), 80);
    return () => { clearTimeout(t); control.abort(); };
  }, [text]);
  // Until the answer is there, only those of the last one that match too: Enter opens what was typed.
  const runs = found.text === text ? found.runs : found.runs.filter((run) => run.id.toLowerCase().includes(text.toLowerCase()));
  const own = offers.filter((o) => o.name.toLowerCase().includes(text.toLowerCase())).slice(0, 12);
  const list = [...(text ? own : own.slice(0, 4)).map((o) => ({ key: `${o.kind}:${o.name}`, kind: o.kind, name: o.name, open: o.open })),
    ...runs.map((run) => ({ key: `run:${run.id}`, kind: 'run', name: run.id, run, open: () => go(pathTo('runs', run.id)) })),
    ...SCREENS.filter(([, name]) => text && !only && name.toLowerCase().startsWith(text.toLowerCase())).map(([key, name]) => ({ key, kind: 'screen', name, open: () => go(`/${key}`) }))];
  const here = Math.min(at0, list.length - 1);
  const pick = (entry) => { close(entry.name); if (!only) entry.open(); };
  const key = (event) => {
    if (event.key === 'ArrowDown') setAt(Math.min(here + 1, list.length - 1));
    else if (event.key === 'ArrowUp') setAt(Math.max(0, here - 1));
    else if (event.key === 'Enter' && list[here]) pick(list[here]);
    else return;
    event.preventDefault();
  };
  return html`<${Frame} title=${title} close=${close}><input ref=${box} autofocus class="jumpbox" role="combobox" aria-expanded="true" aria-controls="jumps" aria-activedescendant=${list[here] ? `jump${here}` : undefined}
      aria-label=${only ? 'Search runs' : 'Jump to'} placeholder=${only ? 'id, graph, status:completed' : 'id, graph, node, value'} onInput=${(e) => { setText(e.target.value); setAt(0); }} onKeyDown=${key}/>
    <ul id="jumps" role="listbox" aria-label="Matches" class="jumps">${list.map((entry, i) => html`<li key=${entry.key} id=${`jump${i}`} role="option" aria-selected=${String(i === here)} onClick=${() => pick(entry)}><span class="kind">${entry.kind}</span><code>${entry.name}</code>${entry.run && html`<${Status} status=${entry.run.status}/>`}</li>`)}</ul>
    ${!list.length && html`<p class="empty">Nothing matches.</p>`}<//>`;
}

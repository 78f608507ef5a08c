// The dialogs behind the verbs of a run. They are loaded with the first verb.

import { html, useRef, useState } from '../lib/html.js';
import { at, post, send, useData } from '../lib/api.js';
import { bytes, quote } from '../lib/format.js';
import { go, pathTo } from '../lib/router.js';
import { compact, jsonOf, oneLine, parsed, pretty } from '../lib/values.js';
import { ask, Frame, VerbDialog } from './dialog.js';
import { Command, download, Lines } from './parts.js';
import { toast } from './shell.js';
import { commandOf } from './verbs.js';

/** What to say after a verb was accepted; without a worker, how to start one. */
export async function report(done, what, { open = false } = {}) {
  if (!done) return;
  if (done.queued && done.worker && !done.worker.available) await ask(NeedsWorker, { done, what });
  else toast(what);
  if (open && done.run) go(pathTo('runs', done.run));
}

const NeedsWorker = ({ done, what, close }) => html`<${Frame} title=${what} close=${close}><p>No worker runs this graph now. The run waits in its queue until one starts:</p>
  <${Command} text=${done.worker.command}/><footer><button type="button" class="primary" onClick=${() => close()}>Good</button></footer><//>`;

function ForkDialog({ run, k, rerun, close }) {
  const state = useData(at('runs', run.id, 'state', rerun ? run.first : k));
  const name = useRef(null);
  const boxes = useRef(new Map());
  const [changed, setChanged] = useState({});
  const [bad, setBad] = useState({});
  const shown = (state.data?.values ?? []).filter((v) => !rerun || v.writer == null);
  const read = (value) => {
    const text = boxes.current.get(value.name)?.value ?? '';
    const { value: typed, error } = parsed(text);
    setBad((all) => ({ ...all, [value.name]: error }));
    if (!error) setChanged((all) => { const { [value.name]: _, ...rest } = all; return compact(text) === value.exact ? rest : { ...rest, [value.name]: typed }; });
  };
  const names = Object.keys(changed);
  const values = names.map((n) => ` ${quote(`${n}=${jsonOf(changed[n])}`)}`).join('');
  const [fresh] = useState(() => `${run.id}-${Math.random().toString(36).slice(2, 6)}`);
  const [newId, setNewId] = useState(fresh);
  const named = newId ? ` --run-id ${quote(newId)}` : '';
  const [words, ...dashed] = commandOf(run, rerun ? 'rerun' : 'fork', k).split(/(?= -- )/); // a run id that begins with a dash
  const command = words + named + dashed.join('') + values;
  const act = () => post(at('runs', run.id, rerun ? 'rerun' : 'fork'), { ...(rerun ? {} : { step: k }), values: changed, run_id: name.current.value.trim() || null });
  const next = state.data?.next ?? [];
  return html`<${VerbDialog} title=${rerun ? `Rerun ${run.id}` : `Fork ${run.id} at S(${k})`} action=${rerun ? 'Rerun' : 'Fork'} command=${command} act=${act} close=${close} ready=${!Object.values(bad).some(Boolean)}
    says=${rerun ? 'A new run with the same given values. What has not changed is not computed again.' : `A new run begins with S(${k})${next.length ? `; ${next.join(', ')} ${next.length > 1 ? 'run' : 'runs'} next` : ''}. Nothing before runs again, and this run stays as it is.`}>
    <div class="field"><label for="fork-id">new run id</label><input id="fork-id" ref=${name} autocomplete="off" spellcheck=${false} defaultValue=${fresh} onInput=${(e) => setNewId(e.target.value.trim())}/></div>
    <p class="same">Values${names.length ? `, ${names.length} changed` : ': change one to go on differently'}</p>
    <div class="edits">${shown.map((value) => html`<details key=${value.name} open=${value.name in changed}><summary><code>${value.name} <span class="dim">${oneLine(value.value)}</span></code>${value.name in changed && html`<span class="badge bg-thread t-thread">changed</span>`}</summary>
      ${value.exact == null ? html`<p class="note">too large to edit here${value.size == null ? '' : ` (${bytes(value.size)})`}; give it to the command with --values FILE</p>` : html`<textarea class="code" rows="3" aria-label=${`${value.name} as JSON`} spellcheck=${false} aria-invalid=${bad[value.name] ? 'true' : undefined} ref=${(node) => node && boxes.current.set(value.name, node)} onInput=${() => read(value)} defaultValue=${pretty(value.exact)}/>`}
      ${bad[value.name] && html`<p class="err">${bad[value.name]}</p>`}
      ${value.name in changed && html`<${Lines} lines=${[{ sign: '-', tone: '-', text: value.exact }, { sign: '+', tone: '+', text: jsonOf(changed[value.name]) }]}/>`}</details>`)}</div><//>`;
}

const ReplayResult = ({ result, run, close }) => html`<${Frame} title=${result.ok ? 'The replay did the same' : 'The replay differs'} close=${close} wide>
  <p>${result.ok ? `Every item of ${run.id} was executed again with its recorded calls, and produced the same states.` : 'The code does something else today than what is recorded.'}</p><pre>${result.text}</pre></${Frame}>`;

// What the other verbs say, and what follows.
const VERBS = {
  replay: { action: 'Replay', says: () => 'Executes every item again with the recorded calls, sends nothing, and compares the states.' },
  resume: { action: 'Resume', done: 'Resumed', says: () => 'Only what has not finished runs again. It is put into the queue; a worker continues it.' },
  cancel: { action: 'Cancel the run', done: 'Cancelled', danger: true, says: (id) => `${id} ends as cancelled; its states stay. Items that execute now are told to stop.` },
  delete: { action: 'Delete the run', danger: true, says: (id) => `${id} and all its states are deleted. This cannot be undone.` },
};

/** Ask what a verb needs to know, and do it. */
export async function doVerb(verb, run, context = {}) {
  const { id } = run;
  if (verb === 'export') { download(at('runs', id, 'export')); return; }
  if (verb === 'fork' || verb === 'rerun') { await report(await ask(ForkDialog, { run, k: Math.min(context.k ?? run.last, run.last), rerun: verb === 'rerun' }), verb === 'fork' ? 'Forked' : 'Started again', { open: true }); return; }
  const { action, says, danger, done } = VERBS[verb];
  const act = () => (verb === 'delete' ? send('DELETE', at('runs', id)) : post(at('runs', id, verb)));
  const result = await ask(VerbDialog, { title: `${verb[0].toUpperCase()}${verb.slice(1)} ${id}`, action, danger, command: commandOf(run, verb), says: says(id), act });
  if (result?.text !== undefined) await ask(ReplayResult, { result, run });
  else if (verb === 'delete') { if (result) { toast(`${id} is deleted`); go('/runs'); } } else await report(result, done ?? action);
}

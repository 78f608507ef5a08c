// The dialogs behind the verbs of a run. They are loaded with the first verb.

import { html, useRef, useState } from '../lib/html.js';
import { at, post, send, useData } from '../lib/api.js';
import { quote } from '../lib/format.js';
import { go, pathTo } from '../lib/router.js';
import { oneLine, plainJson } from '../lib/values.js';
import { ask, Frame, VerbDialog } from './dialog.js';
import { Command, Lines } from './parts.js';
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

const SLOW = 'It is put into the queue; a worker continues it.';

const id8 = () => Math.random().toString(36).slice(2, 6);

function ForkDialog({ run, k, rerun, close }) {
  const state = useData(at('runs', run.id, 'state', rerun ? run.first : k));
  const name = useRef(null);
  const boxes = useRef(new Map());
  const [changed, setChanged] = useState({});
  const [bad, setBad] = useState({});
  const shown = (state.data?.values ?? []).filter((v) => !rerun || v.writer == null);
  const read = (value) => {
    const text = boxes.current.get(value.name)?.value ?? '';
    const before = JSON.stringify(plainJson(value.value));
    try {
      const parsed = JSON.parse(text);
      setBad((all) => ({ ...all, [value.name]: undefined }));
      setChanged((all) => { const { [value.name]: _, ...rest } = all; return JSON.stringify(parsed) === before ? rest : { ...rest, [value.name]: parsed }; });
    } catch (problem) { setBad((all) => ({ ...all, [value.name]: `JSON is expected: ${problem.message}` })); }
  };
  const names = Object.keys(changed);
  const values = names.map((n) => ` ${quote(`${n}=${JSON.stringify(changed[n])}`)}`).join('');
  const [fresh] = useState(() => `${run.id}-${id8()}`);
  const command = commandOf(run, rerun ? 'rerun' : 'fork', k) + values;
  const act = () => post(at('runs', run.id, rerun ? 'rerun' : 'fork'), { ...(rerun ? {} : { step: k }), values: changed, run_id: name.current.value.trim() || null });
  const next = state.data?.next ?? [];
  return html`<${VerbDialog} title=${rerun ? `Rerun ${run.id}` : `Fork ${run.id} at S(${k})`} action=${rerun ? 'Rerun' : 'Fork'} command=${command} act=${act} close=${close} ready=${!Object.values(bad).some(Boolean)}
    says=${rerun ? 'A new run with the same given values. What has not changed is not computed again.' : `A new run begins with S(${k})${next.length ? `; ${next.join(', ')} ${next.length > 1 ? 'run' : 'runs'} next` : ''}. Nothing before runs again, and this run stays as it is.`}>
    <div class="field"><label for="fork-id">new run id</label><input id="fork-id" ref=${name} autocomplete="off" spellcheck=${false} defaultValue=${fresh}/></div>
    <p class="same">Values${names.length ? `, ${names.length} changed` : ': change one to go on differently'}</p>
    <div class="edits">${shown.map((value) => html`<details key=${value.name} open=${value.name in changed}><summary><code>${value.name} <span class="dim">${oneLine(value.value)}</span></code>${value.name in changed && html`<span class="badge bg-thread t-thread">changed</span>`}</summary>
      ${value.cut ? html`<p class="note">too large to edit here (${value.size} bytes)</p>` : html`<textarea class="code" rows="3" aria-label=${`${value.name} as JSON`} spellcheck=${false} aria-invalid=${bad[value.name] ? 'true' : undefined} ref=${(node) => node && boxes.current.set(value.name, node)} onInput=${() => read(value)} defaultValue=${JSON.stringify(plainJson(value.value), null, 1)}/>`}
      ${bad[value.name] && html`<p class="err">${bad[value.name]}</p>`}
      ${value.name in changed && html`<${Lines} lines=${[{ sign: '-', tone: '-', text: JSON.stringify(plainJson(value.value)) }, { sign: '+', tone: '+', text: JSON.stringify(changed[value.name]) }]}/>`}</details>`)}</div><//>`;
}

const ReplayResult = ({ result, run, close }) => html`<${Frame} title=${result.ok ? 'The replay did the same' : 'The replay differs'} close=${close} wide>
  <p>${result.ok ? `Every item of ${run.id} was executed again with its recorded calls, and produced the same states.` : 'The code does something else today than what is recorded.'}</p><pre>${result.text}</pre></${Frame}>`;

/** Ask what a verb needs to know, and do it. */
export async function doVerb(verb, run, context = {}) {
  const command = commandOf(run, verb);
  if (verb === 'export') { location.assign(at('runs', run.id, 'export')); return; }
  if (verb === 'fork' || verb === 'rerun') { await report(await ask(ForkDialog, { run, k: Math.min(context.k ?? run.last, run.last), rerun: verb === 'rerun' }), verb === 'fork' ? 'Forked' : 'Started again', { open: true }); return; }
  if (verb === 'replay') {
    const result = await ask(VerbDialog, { title: `Replay ${run.id}`, action: 'Replay', command, says: 'Executes every item again with the recorded calls, sends nothing, and compares the states.', act: () => post(at('runs', run.id, 'replay')) });
    if (result?.text !== undefined) await ask(ReplayResult, { result, run }); else await report(result, 'Replay');
    return;
  }
  if (verb === 'resume') { await report(await ask(VerbDialog, { title: `Resume ${run.id}`, action: 'Resume', command, says: `Only what has not finished runs again. ${SLOW}`, act: () => post(at('runs', run.id, 'resume')) }), 'Resumed'); return; }
  if (verb === 'cancel') { await report(await ask(VerbDialog, { title: `Cancel ${run.id}`, action: 'Cancel the run', danger: true, command, says: `${run.id} ends as cancelled; its states stay. Items that execute now are told to stop.`, act: () => post(at('runs', run.id, 'cancel')) }), 'Cancelled'); return; }
  if (verb === 'delete') {
    const done = await ask(VerbDialog, { title: `Delete ${run.id}`, action: 'Delete the run', danger: true, command, says: `${run.id} and all its states are deleted. This cannot be undone.`, act: () => send('DELETE', at('runs', run.id)) });
    if (done) { toast(`${run.id} is deleted`); go('/runs'); }
  }
}

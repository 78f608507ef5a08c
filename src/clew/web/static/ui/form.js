// A form by JSON schema. Inputs are uncontrolled: typing renders nothing. `useForm` collects the value when it is sent;
// errors appear under their field, and the focus moves to the first.

import { html, cx, useId, useRef, useState } from '../lib/html.js';
import { choiceName, choiceOf, fieldOf, hint, initial, isOnly, read, shown } from '../lib/schema.js';
import { jsonOf, parsed, pretty } from '../lib/values.js';

// A field registers a function that reads it: (errors) => value | undefined (left out).
function Field({ field, name, path, start, register, errors, root }) {
  const id = useId();
  const error = errors[path];
  const note = hint(field);
  const label = name ?? field.title;
  const described = cx(note && `${id}n`, error && `${id}e`) || undefined;
  const foot = html`${error && html`<p class="err" id=${`${id}e`}>${error}</p>`}`;
  const box = useRef(null);
  const common = { id, 'aria-describedby': described, 'aria-invalid': error ? 'true' : undefined, 'data-at': path, ref: box };
  const simple = (typed) => (found) => {
    const { value, error: problem } = read(field, typed());
    if (problem) found[path] = problem;
    return value;
  };
  if (field.kind === 'object') return html`<${Obj} ...${{ field, name, path, start, register, errors, root }}/>`;
  if (field.kind === 'list') return html`<${List} ...${{ field, name, path, start, register, errors }}/>`;
  if (field.kind === 'union') return html`<${Union} ...${{ field, name, path, start, register, errors }}/>`;
  if (field.kind === 'bool') {
    register(path, simple(() => box.current.checked));
    return html`<div class="field"><label class="check"><input type="checkbox" ...${common} defaultChecked=${start ?? false}/><b>${label ?? 'yes'}</b>${note && html`<span class="note" id=${`${id}n`}>${note}</span>`}</label>${foot}</div>`;
  }
  if (field.kind === 'null') { register(path, () => null); return html`<div class="field"><p class="note">nothing to enter</p></div>`; }
  if (field.kind === 'enum') return html`<${Enum} ...${{ field, label, note, path, start, register, error }}/>`;
  const text = shown(field, start);
  register(path, simple(() => (box.current.validity.badInput ? '?' : box.current.value))); // half a date has no value
  const long = field.kind === 'json' || (field.kind === 'text' && (text.length > 60 || (field.schema?.maxLength ?? 999) > 80));
  return html`<div class="field"><label for=${id}>${label ?? (root ? 'answer' : '')}</label>
    ${note && long && html`<p class="note" id=${`${id}n`}>${note}</p>`}
    ${long ? html`<textarea ...${common} rows=${field.kind === 'json' ? 5 : 2} spellcheck=${field.kind !== 'json'} class=${field.kind === 'json' ? 'code' : ''} defaultValue=${text}/>`
      : html`<input ...${common} type=${field.input ?? 'text'} step=${field.input && field.input !== 'date' ? '1' : undefined}
          inputmode=${{ int: 'numeric', number: 'decimal', decimal: 'decimal' }[field.kind]} autocomplete="off" defaultValue=${text}/>`}
    ${foot}${note && !long && !error && html`<p class="note" id=${`${id}n`}>${note}</p>`}</div>`;
}

function Enum({ field, label, note, path, start, register, error }) {
  const id = useId();
  const [at, setAt] = useState(() => { const i = field.options.indexOf(start); return i < 0 ? '' : String(i); });
  const picked = useRef(at);
  picked.current = at;
  register(path, (found) => { const { value, error: problem } = read(field, picked.current); if (problem) found[path] = problem; return value; });
  const text = (option) => (typeof option === 'string' ? option : JSON.stringify(option));
  if (field.options.length <= 4) {
    return html`<div class="field" role="radiogroup" aria-labelledby=${id} aria-invalid=${error ? 'true' : undefined}><span class="label" id=${id}>${label ?? 'answer'}</span>
      <div class="choices">${field.options.map((option, i) => html`<button type="button" role="radio" key=${i} data-at=${i ? undefined : path} aria-checked=${String(at === String(i))} onClick=${() => setAt(String(i))}>${text(option)}</button>`)}</div>
      ${error ? html`<p class="err">${error}</p>` : note && html`<p class="note">${note}</p>`}</div>`;
  }
  return html`<div class="field"><label for=${id}>${label ?? 'answer'}</label><select id=${id} data-at=${path} aria-invalid=${error ? 'true' : undefined} onChange=${(e) => setAt(e.target.value)} value=${at}>
    ${at === '' && html`<option value="">choose…</option>`}${field.options.map((option, i) => html`<option key=${i} value=${String(i)}>${text(option)}</option>`)}</select>${error ? html`<p class="err">${error}</p>` : note && html`<p class="note">${note}</p>`}</div>`;
}

function Obj({ field, name, path, start, register, errors, root }) {
  const readers = useRef(new Map());
  const inner = (at, reader) => readers.current.set(at, reader);
  register(path, (found) => {
    const value = {};
    for (const child of field.fields) {
      const got = readers.current.get(`${path}/${child.name}`)?.(found);
      if (got !== undefined) value[child.name] = got;
    }
    return value;
  });
  const body = field.fields.map((child) => html`<${Field} key=${child.name} field=${child} name=${child.name} path=${`${path}/${child.name}`} start=${start?.[child.name] ?? initial(child)} register=${inner} errors=${errors}/>`);
  return root ? html`<div>${body}</div>` : html`<fieldset><legend>${name ?? field.title}</legend>${field.note && html`<p class="note">${field.note}</p>`}${body}</fieldset>`;
}

function List({ field, name, path, start, register, errors }) {
  const [rows, setRows] = useState(() => (Array.isArray(start) ? start : []).map((value, i) => ({ key: i, value })));
  const next = useRef(rows.length);
  const readers = useRef(new Map());
  const begin = useRef(rows);
  register(path, (found) => {
    if (field.required === false && !rows.length && rows === begin.current) return undefined; // nobody touched it
    const value = rows.map((row) => readers.current.get(`${path}/${row.key}`)?.(found));
    if (field.min != null && value.length < field.min) found[path] = `at least ${field.min}`;
    if (field.max != null && value.length > field.max) found[path] = `at most ${field.max}`;
    return value.map((item) => (item === undefined ? null : item));
  });
  return html`<fieldset><legend>${name ?? field.title ?? 'list'}</legend>
    ${rows.map((row, i) => html`<div class="listrow" key=${row.key}><${Field} field=${field.item} name=${`${i + 1}`} path=${`${path}/${row.key}`} start=${row.value} register=${(at, reader) => readers.current.set(at, reader)} errors=${errors}/>
      <button type="button" class="icon" aria-label=${`remove ${i + 1}`} onClick=${() => setRows(rows.filter((other) => other !== row))}>✕</button></div>`)}
    <button type="button" class="small" data-at=${path} onClick=${() => setRows([...rows, { key: next.current++, value: initial(field.item) }])}>Add a row</button>${errors[path] && html`<p class="err">${errors[path]}</p>`}</fieldset>`;
}

function Union({ field, name, path, start, register, errors }) {
  const [at, setAt] = useState(() => choiceOf(field, start));
  const reader = useRef(null);
  const choice = field.choices[at];
  register(path, (found) => (isOnly(choice) ? choice.options[0] : reader.current?.(found)));
  return html`<div class="field" role="group" aria-label=${name ?? 'answer'}><span class="label">${name ?? field.title ?? 'answer'}</span>
    <div class="choices">${field.choices.map((choice, i) => html`<button type="button" key=${i} aria-pressed=${String(i === at)} onClick=${() => setAt(i)}>${choiceName(choice)}</button>`)}</div>
    ${isOnly(choice) ? null : html`<${Field} key=${at} field=${choice} name=${choiceName(choice)} path=${path} start=${at === choiceOf(field, start) ? start : initial(choice)} register=${(_, r) => { reader.current = r; }} errors=${errors}/>`}</div>`;
}

/** A form for a schema: {body, collect}. `collect()` returns {value} or {errors}, and shows them. */
export function useForm(schema, start) {
  const field = useRef(null);
  field.current ??= fieldOf(schema ?? {});
  const reader = useRef(null);
  const [errors, setErrors] = useState({});
  const [json, setJson] = useState(null); // the text, if shown as JSON
  const area = useRef(null);
  const box = useRef(null);
  const begin = useRef(start === undefined ? initial(field.current) : start);
  const focus = (found) => {
    setErrors(found);
    requestAnimationFrame(() => {
      const first = [...(box.current?.querySelectorAll('[data-at]') ?? [])].find((node) => found[node.dataset.at] !== undefined);
      (first ?? box.current?.querySelector('textarea, input, button'))?.focus();
    });
    return { errors: found };
  };
  const collect = () => {
    if (json !== null) {
      const { value, error } = parsed(area.current.value);
      if (error) return focus({ '': error });
      setErrors({});
      return { value };
    }
    const found = {};
    const value = reader.current(found);
    if (Object.keys(found).length) return focus(found);
    setErrors({});
    return { value: value === undefined ? null : value };
  };
  const toggle = () => {
    if (json === null) { setJson(pretty(jsonOf(reader.current({}) ?? begin.current ?? null))); return; }
    const { value, error } = parsed(area.current.value);
    if (error) { setErrors({ '': error }); return; }
    begin.current = value;
    setErrors({});
    setJson(null);
  };
  // What the server refused, under the nearest field that the form has; an editor for JSON has only one.
  const refuse = (fields, message) => {
    const known = [...(box.current?.querySelectorAll('[data-at]') ?? [])].map((node) => node.dataset.at);
    const found = {};
    for (const { at, message: text } of fields) {
      let path = at === '/' ? '' : at;
      while (path && !known.includes(path)) path = path.slice(0, path.lastIndexOf('/'));
      const inside = at.slice(path.length).replace(/^\//, '');
      found[path] = cx(found[path] && `${found[path]};`, inside && `${inside}:`, text);
    }
    return focus(fields.length ? found : { '': message });
  };
  const body = html`<div class="form" ref=${box}>${json === null
    ? html`<${Field} key="form" field=${field.current} path="" start=${begin.current} register=${(_, r) => { reader.current = r; }} errors=${errors} root/>`
    : html`<div class="field"><label for="as-json">the answer as JSON</label><textarea id="as-json" class="code" rows="8" ref=${area} data-at="" spellcheck=${false} aria-invalid=${errors[''] ? 'true' : undefined} defaultValue=${json}/>${errors[''] && html`<p class="err">${errors['']}</p>`}</div>`}
    ${json === null && field.current.kind === 'object' && errors[''] && html`<p class="err" role="alert">${errors['']}</p>`}</div>`;
  return { body, collect, toggle, refuse, asJson: json !== null };
}

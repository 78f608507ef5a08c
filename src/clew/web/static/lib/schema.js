// A JSON schema as a form model, and typed text as a checked value. Pure.
//
// `fieldOf(schema)` says which control a schema gets; `read` turns what was typed into a value or an error text.
// The page's check is a courtesy: the server and the run's owner check again.

import { Exact, jsonOf, parsed, pretty } from './values.js';

const KINDS = {
  __proto__: null, // a schema comes from a store: `constructor` is no kind
  boolean: 'bool', integer: 'int', number: 'number', string: 'text', array: 'list', object: 'object', null: 'null',
};

// The control of each format. A `date-time` has a time zone: the browser's. The `-local` ones have none.
const INPUTS = {
  __proto__: null, date: 'date', 'date-time': 'datetime-local', 'date-time-local': 'datetime-local', time: 'time', 'time-local': 'time', 'partial-time': 'time',
};

function resolve(schema, root, depth = 0) {
  if (schema === true || schema == null) return {};
  if (schema.$ref && depth < 20) {
    const target = schema.$ref.split('/').slice(1).reduce((at, part) => at?.[part.replace(/~1/g, '/').replace(/~0/g, '~')], root);
    return target ? resolve({ ...target, ...rest(schema) }, root, depth + 1) : {};
  }
  if (schema.allOf?.length === 1) return resolve({ ...schema.allOf[0], ...rest(schema, 'allOf') }, root, depth + 1);
  return schema;
}

function rest(schema, without = '$ref') {
  const { [without]: _, ...others } = schema;
  return others;
}

/** The form model of a schema: {kind, …}. Kinds: enum, bool, int, number, decimal, text, date, list, object, union, null, json. */
export function fieldOf(schema, root = schema, depth = 0) {
  const own = resolve(schema, root);
  const common = { title: own.title, note: own.description, preset: own.default, schema: own };
  if (depth > 8) return { ...common, kind: 'json' };
  if (own.const !== undefined) return { ...common, kind: 'enum', options: [own.const] };
  if (own.enum) return { ...common, kind: 'enum', options: own.enum };
  const choices = own.anyOf ?? own.oneOf;
  if (choices) {
    const kinds = choices.map((choice) => fieldOf(choice, root, depth + 1));
    if (kinds.every((kind) => kind.kind === 'enum')) return { ...common, kind: 'enum', options: kinds.flatMap((kind) => kind.options) };
    const solid = kinds.filter((kind) => kind.kind !== 'null');
    const optional = solid.length < kinds.length;
    if (solid.length === 1) return { ...solid[0], ...clean(common), optional, schema: { ...solid[0].schema, ...rest(own, 'anyOf') } };
    // pydantic: a decimal is a number, or a text for those that a number cannot hold
    if (solid.length === 2 && solid[0].kind === 'number' && solid[1].kind === 'text') return { ...solid[0], ...clean(common), optional, kind: 'decimal', schema: solid[0].schema };
    return { ...common, kind: 'union', choices: kinds };
  }
  let type = own.type;
  if (Array.isArray(type)) {
    const solid = type.filter((name) => name !== 'null');
    if (solid.length === 1) return { ...fieldOf({ ...own, type: solid[0] }, root, depth), optional: type.length > 1 };
    return { ...common, kind: 'union', choices: type.map((name) => fieldOf({ ...rest(own, 'default'), type: name }, root, depth + 1)) };
  }
  type ??= own.properties ? 'object' : own.items ? 'array' : undefined;
  const kind = KINDS[type];
  if (kind === 'object') {
    if (!own.properties) return { ...common, kind: 'json' };
    const required = new Set(own.required ?? []);
    const fields = Object.entries(own.properties).map(([name, inner]) => ({ name, required: required.has(name), ...fieldOf(inner, root, depth + 1) }));
    return { ...common, kind: 'object', fields };
  }
  if (kind === 'list') {
    if (!own.items || own.prefixItems) return { ...common, kind: 'json' };
    return { ...common, kind: 'list', item: fieldOf(own.items, root, depth + 1), min: own.minItems, max: own.maxItems };
  }
  if (kind === 'text' && own.format === 'decimal') return { ...common, kind: 'decimal' };
  if (kind === 'text' && INPUTS[own.format]) return { ...common, kind: 'date', input: INPUTS[own.format], zoned: own.format === 'date-time' };
  return { ...common, kind: kind ?? 'json' };
}

const clean = (o) => Object.fromEntries(Object.entries(o).filter(([, v]) => v !== undefined));

/** What a field accepts, in words. */
export function hint(field) {
  const s = field.schema ?? {};
  const bounds = [
    s.minimum != null && `at least ${s.minimum}`, s.exclusiveMinimum != null && `more than ${s.exclusiveMinimum}`,
    s.maximum != null && `at most ${s.maximum}`, s.exclusiveMaximum != null && `less than ${s.exclusiveMaximum}`,
  ].filter(Boolean).join(', ');
  const base = {
    bool: 'yes or no', int: 'a whole number', number: 'a number', decimal: 'a decimal number', text: s.format === 'duration' ? 'a duration: PT2H30M' : s.contentEncoding === 'base64' ? 'bytes in Base64' : '',
    date: { date: 'a date', time: 'a time' }[field.input] ?? (field.zoned ? `a date and time, in your time zone (${zone(new Date())})` : 'a date and time'),
    json: 'JSON', null: 'nothing', list: '', object: '', enum: '', union: '',
  }[field.kind] ?? '';
  const empty = field.optional || (field.kind === 'text' && (field.required === false || s.default === ''));
  return [field.note || (empty && !base ? 'text' : base), bounds, empty && 'may be left empty'].filter(Boolean).join(', ');
}

const bad = (message) => ({ error: message });

/** What was typed into a simple field: {value} or {error}; {} means that it was left empty and may be. */
export function read(field, typed) {
  const text = typeof typed === 'string' ? typed.trim() : typed;
  const empty = text === '' || text === undefined || text === null;
  if (field.kind === 'bool') return { value: Boolean(typed) };
  if (field.kind === 'null') return { value: null };
  if (field.kind === 'enum') return empty ? (field.optional ? { value: null } : bad('choose one')) : { value: field.options[Number(text)] };
  if (field.kind === 'text') {
    const raw = typed ?? '';
    if (raw === '' && field.optional) return { value: null };
    const s = field.schema ?? {};
    if (s.minLength != null && raw.length < s.minLength) return bad(raw === '' ? 'a text is expected' : `at least ${s.minLength} characters`);
    if (s.maxLength != null && raw.length > s.maxLength) return bad(`at most ${s.maxLength} characters`);
    if (s.pattern) {
      try { if (!new RegExp(s.pattern, 'u').test(raw)) return bad(`must match ${s.pattern}`); } catch { /* the server checks it */ }
    }
    return { value: raw };
  }
  if (empty) {
    if (field.optional) return { value: null };
    if (field.preset !== undefined || field.required === false) return {};
    return bad({ int: 'a whole number is expected', number: 'a number is expected', decimal: 'a number is expected', date: `a ${field.input === 'time' ? 'time' : 'date'} is expected` }[field.kind] ?? 'a value is expected');
  }
  if (field.kind === 'int' || field.kind === 'number' || field.kind === 'decimal') return number(field, text);
  if (field.kind === 'date') return date(field, text);
  return parsed(text);
}

function number(field, text) {
  const what = field.kind === 'int' ? 'a whole number' : 'a number';
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) {
    const fixed = corrected(text);
    return bad(fixed === null || (field.kind === 'int' && !Number.isInteger(Number(fixed))) ? `${what} is expected` : `${what} is expected: ${fixed}`);
  }
  const value = Number(text);
  if (field.kind === 'int' && !Number.isInteger(value)) return bad('a whole number is expected');
  const s = field.schema ?? {};
  if (s.minimum != null && value < s.minimum) return bad(`at least ${s.minimum}`);
  if (s.maximum != null && value > s.maximum) return bad(`at most ${s.maximum}`);
  if (s.exclusiveMinimum != null && value <= s.exclusiveMinimum) return bad(`more than ${s.exclusiveMinimum}`);
  if (s.exclusiveMaximum != null && value >= s.exclusiveMaximum) return bad(`less than ${s.exclusiveMaximum}`);
  if (field.kind === 'int' && !Number.isSafeInteger(value) && /^[+-]?\d+$/.test(text)) return { value: new Exact(text.replace(/^\+/, '').replace(/^(-?)0+(?=\d)/, '$1')) };
  return { value: field.kind === 'decimal' ? text : value }; // a decimal keeps its digits
}

/** "64,90" -> "64.90", "1.234,5" -> "1234.5"; null if that is not a number either. */
export function corrected(text) {
  const bare = text.replace(/[\s'_€$£%]/g, '');
  const comma = bare.lastIndexOf(',');
  const point = bare.lastIndexOf('.');
  let fixed = bare;
  if (comma > point) fixed = bare.replace(/\./g, '').replace(',', '.').replace(/,/g, '');
  else if (comma >= 0) fixed = bare.replace(/,/g, '');
  return /^[+-]?(\d+\.?\d*|\.\d+)$/.test(fixed) ? fixed : null;
}

const two = (n) => String(n).padStart(2, '0');

/** The offset of the browser's time zone at a moment: "+01:00". */
function zone(moment) {
  const minutes = Math.abs(moment.getTimezoneOffset());
  return `${moment.getTimezoneOffset() > 0 ? '-' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

function date(field, text) {
  if (field.input === 'time') {
    const found = /^(\d{2}:\d{2})(:\d{2}(\.\d+)?)?$/.exec(text);
    return found ? { value: found[2] ? text : `${text}:00` } : bad('a time is expected: 14:00:00');
  }
  if (field.input === 'date') return /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text)) ? { value: text } : bad('a date is expected: 2026-11-30');
  const full = /T\d{2}:\d{2}$/.test(text) ? `${text}:00` : text;
  if (!/^\d{4}-\d{2}-\d{2}T/.test(full) || Number.isNaN(Date.parse(full))) return bad('a date and time is expected: 2026-11-30T14:00:00');
  return { value: field.zoned && !ZONE.test(full) ? full + zone(new Date(full)) : full };
}

/** The text that a field shows for a value. A control for moments shows no time zone, so they are shown in the browser's. */
export function shown(field, value) {
  if (value === undefined || value === null) return '';
  if (field.kind === 'json') return pretty(jsonOf(value));
  if (field.kind !== 'date') return String(value);
  let text = String(value);
  if (field.input !== 'date' && ZONE.test(text)) text = field.input === 'time' ? text.replace(ZONE, '') : local(new Date(text));
  return date(field, text).error ? '' : text; // a control complains about any other text
}

const ZONE = /(Z|[+-]\d{2}:?\d{2})$/;
const local = (m) => `${m.getFullYear()}-${two(m.getMonth() + 1)}-${two(m.getDate())}T${two(m.getHours())}:${two(m.getMinutes())}:${two(m.getSeconds())}`;

/** Whether a field has a single choice. */
export const isOnly = (field) => field.kind === 'enum' && field.options.length === 1 && !field.optional;

/** The value that a form starts with. */
export function initial(field) {
  if (field.preset !== undefined) return field.preset;
  if (field.kind === 'object') {
    const value = {};
    for (const inner of field.fields) {
      const start = initial(inner);
      if (start !== undefined) value[inner.name] = start;
    }
    return value;
  }
  if (field.kind === 'list') return [];
  if (isOnly(field)) return field.options[0];
  if (field.kind === 'bool') return false;
  if (field.kind === 'null') return null;
  return undefined;
}

/** Which choice of a union a value belongs to. */
export function choiceOf(field, value) {
  const fits = (choice) => ({
    bool: typeof value === 'boolean', int: Number.isInteger(value) || (value instanceof Exact && /^-?\d+$/.test(value.text)), number: typeof value === 'number' || value instanceof Exact, text: typeof value === 'string',
    date: typeof value === 'string', decimal: typeof value === 'string' || typeof value === 'number' || value instanceof Exact, list: Array.isArray(value), null: value === null,
    object: value !== null && typeof value === 'object' && !Array.isArray(value) && !(value instanceof Exact), enum: (choice.options ?? []).includes(value),
  })[choice.kind] ?? false;
  const found = field.choices.findIndex(fits);
  return found < 0 ? 0 : found;
}

/** The name of a choice of a union. */
export function choiceName(field) {
  if (field.title) return field.title;
  if (field.kind === 'object') return field.fields[0]?.options?.[0] ?? 'object';
  return { bool: 'yes or no', int: 'number', number: 'number', decimal: 'number', text: 'text', date: field.input === 'time' ? 'time' : 'date', list: 'list', null: 'nothing', enum: (field.options ?? []).join(' | ') }[field.kind] ?? 'JSON';
}

// Values as text. Plain data is plain JSON; everything else is an object with the key `$`, its kind (docs: HTTP API,
// "Shown values").

export const isSpecial = (value) => value !== null && typeof value === 'object' && typeof value.$ === 'string';

/** How a special value is written: {text}, or {open, close, items | pairs | fields, more}. */
function form(value) {
  const more = value.$ === 'cut' ? value.size : null;
  const kind = value.$ === 'cut' ? value.of : value.$;
  const shown = value.$ === 'cut' ? value.shown : value.items;
  switch (kind) {
    case 'tuple': return { open: '(', close: shown.length === 1 && more === null ? ',)' : ')', items: shown, more };
    case 'set': case 'frozenset': return { open: '{', close: '}', items: shown, more };
    case 'list': return { open: '[', close: ']', items: shown, more };
    case 'map': return { open: '{', close: '}', pairs: shown, more };
    case 'dict': return Array.isArray(shown) ? { open: '{', close: '}', pairs: shown, more } : { open: '{', close: '}', fields: shown, more };
    case 'object': return { open: `${value.class}(`, close: ')', named: value.fields ?? shown ?? {}, more };
    case 'enum': return { text: `${value.class}.${value.text}` };
    case 'bytes': return { text: `bytes, ${value.size ?? more} of them` };
    case 'str': return { text: `${JSON.stringify(shown)}… ${more} characters` };
    case 'large': return { text: 'a large value, which is not shown here' };
    default: return { text: String(value.text ?? (typeof shown === 'string' ? shown : '') ?? kind) };
  }
}

function parts(value) {
  if (Array.isArray(value)) return { open: '[', close: ']', items: value };
  if (isSpecial(value)) return form(value);
  return { open: '{', close: '}', fields: value };
}

// Each part with its name in front: [name, value][]
function named({ items, pairs, fields, named: own }) {
  if (items) return items.map((item) => ['', item]);
  if (pairs) return pairs.map(([key, item]) => [`${oneLine(key)}: `, item]);
  if (own) return Object.entries(own).map(([key, item]) => [`${key}=`, item]);
  return Object.entries(fields ?? {}).map(([key, item]) => [`${JSON.stringify(key)}: `, item]);
}

const moreText = (shape, shown) => (shape.more != null && shape.more > shown ? [`… ${shape.more - shown} more`] : []);

/** One line of text for a whole value. */
export function oneLine(value) {
  if (value === undefined) return 'nothing';
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const shape = parts(value);
  if (shape.text !== undefined) return shape.text;
  const list = named(shape);
  return shape.open + [...list.map(([name, item]) => name + oneLine(item)), ...moreText(shape, list.length)].join(', ') + shape.close;
}

/** Lines of text; what fits into `width` stays on one line. */
export function valueLines(value, width = 72) {
  const flat = oneLine(value);
  if (flat.length <= width || value === null || typeof value !== 'object') return [flat];
  const shape = parts(value);
  if (shape.text !== undefined) return [flat];
  const list = named(shape);
  const blocks = list.map(([name, item]) => {
    const [head, ...rest] = valueLines(item, Math.max(24, width - 2 - Math.min(name.length, 24)));
    return [name + head, ...rest];
  });
  blocks.push(...moreText(shape, list.length).map((text) => [text]));
  const lines = [shape.open];
  blocks.forEach((block, i) => {
    const comma = i < blocks.length - 1 ? ',' : '';
    block.forEach((text, j) => lines.push(`  ${text}${j === block.length - 1 ? comma : ''}`));
  });
  lines.push(shape.close);
  return lines;
}

/** A number as it was written, if a number of the browser would change it. */
export class Exact {
  constructor(text) { this.text = text; }

  toString() { return this.text; }
}

const MARK = '\0exact';
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
const marked = (token) => (token[0] === '"' || String(Number(token)) === token ? token : `{${JSON.stringify(MARK)}:"${token}"}`);

/** JSON that somebody typed: {value} or {error}. Numbers keep all their digits (`Exact`). */
export function parsed(text) {
  try {
    JSON.parse(text);
    return { value: JSON.parse(text.replace(TOKENS, marked), (_, item) => (item !== null && typeof item === 'object' && MARK in item ? new Exact(item[MARK]) : item)) };
  } catch (problem) { return { error: `JSON is expected: ${problem.message}` }; }
}

/** A value as JSON text, with the digits of `Exact`. */
export function jsonOf(value) {
  if (value instanceof Exact) return value.text;
  if (Array.isArray(value)) return `[${value.map((item) => jsonOf(item ?? null)).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  return `{${Object.entries(value).filter(([, item]) => item !== undefined).map(([key, item]) => `${JSON.stringify(key)}:${jsonOf(item)}`).join(',')}}`;
}

/** JSON text without spaces around its parts. */
export const compact = (text) => text.replace(/("(?:[^"\\]|\\.)*")|\s+/g, '$1');

/** JSON text on several lines. */
export function pretty(text) {
  let depth = 0;
  const line = (by) => `\n${' '.repeat(2 * (depth += by))}`;
  return compact(text).replace(/"(?:[^"\\]|\\.)*"|\{\}|\[\]|[{}[\],:]/g, (token) => {
    switch (token) {
      case '{': case '[': return token + line(1);
      case '}': case ']': return line(-1) + token;
      case ',': return token + line(0);
      case ':': return ': ';
      default: return token;
    }
  });
}

/** Whether any part of a value was cut. */
export function isCut(value) {
  if (value === null || typeof value !== 'object') return false;
  if (value.$ === 'cut') return true;
  return Object.values(value).some(isCut);
}

/** A list of similar mappings as a table: {columns, rows}, or null. */
export function asTable(value) {
  const list = value?.$ === 'cut' && value.of === 'list' ? value.shown : value;
  if (!Array.isArray(list) || list.length < 2) return null;
  const fields = list.map((row) => (row?.$ === 'object' ? row.fields : row));
  if (!fields.every((row) => row && typeof row === 'object' && !Array.isArray(row) && !isSpecial(row))) return null;
  const columns = [...new Set(fields.flatMap((row) => Object.keys(row)))];
  if (!columns.length || columns.length > 12) return null;
  const common = columns.filter((name) => fields.every((row) => name in row));
  return common.length * 2 >= columns.length ? { columns, rows: fields } : null;
}

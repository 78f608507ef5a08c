// What changed between two values, as lines for display. Pure.
//
// The server compares lists and mappings (`diff` of a change); texts are compared here, by line or by word, with the
// longest common subsequence. A line is {sign: " "|"+"|"-", tone, text, parts?, quiet?}.

import { isSpecial, oneLine, valueLines } from './values.js';

const CELLS = 1_000_000; // of the table; longer texts are compared from both ends only
const plain = (text) => ({ sign: ' ', text, quiet: true });
const signed = (sign, lines) => lines.map((text, i) => ({ sign: i ? ' ' : sign, tone: sign, text }));

/** The edit script from a to b: [[op, item], …] with op in "=-+". */
export function script(a, b) {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  return [
    ...a.slice(0, head).map((item) => ['=', item]),
    ...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).map((item) => ['=', item]),
  ];
}

function middle(a, b) {
  const n = a.length;
  const m = b.length;
  if (!n || !m || n * m > CELLS) return [...a.map((item) => ['-', item]), ...b.map((item) => ['+', item])];
  const wide = m + 1;
  const length = new Uint16Array((n + 1) * wide);
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      length[i * wide + j] = a[i] === b[j]
        ? length[(i + 1) * wide + j + 1] + 1
        : Math.max(length[(i + 1) * wide + j], length[i * wide + j + 1]);
    }
  }
  const out = [];
  let i = 0;
  let j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && a[i] === b[j]) { out.push(['=', a[i]]); i++; j++; }
    else if (j >= m || (i < n && length[(i + 1) * wide + j] >= length[i * wide + j + 1])) out.push(['-', a[i++]]);
    else out.push(['+', b[j++]]);
  }
  return out;
}

/** The edit script of two texts by word; neighbours with the same sign are joined: [[op, text], …]. */
export function words(a, b) {
  const cut = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
  const out = [];
  for (const [op, text] of script(cut(a), cut(b))) {
    const last = out[out.length - 1];
    if (last && last[0] === op) last[1] += text; else out.push([op, text]);
  }
  return out;
}

function limited(lines, limit) {
  if (lines.length <= limit) return lines;
  return [...lines.slice(0, limit), plain(`… ${lines.length - limit} more lines`)];
}

/** Lines of a change {old, new, diff}: what is gone, what came, and how much stayed the same. */
export function changeLines(change, { width = 76, limit = 80 } = {}) {
  const { old, new: fresh, diff } = change;
  if (!('old' in change) || old === undefined) return limited(mappingLines(fresh, width) ?? signed('+', textual(fresh) ?? valueLines(fresh, width)), limit);
  if (!('new' in change) || fresh === undefined) return limited(signed('-', valueLines(old, width)), limit);
  if (diff) return limited(scriptLines(diff, width, Array.isArray(fresh) || isSpecial(fresh)), limit);
  if (typeof old === 'string' && typeof fresh === 'string') return limited(textLines(old, fresh), limit);
  return limited([...signed('-', valueLines(old, width)), ...signed('+', valueLines(fresh, width))], limit);
}

// A text of several lines is shown as such, not as one line of JSON.
const textual = (value) => (typeof value === 'string' && value.includes('\n') ? value.split('\n') : null);

// A new mapping that is too long for one line reads better entry by entry.
function mappingLines(value, width) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return null;
  const fields = value.$ === 'cut' && value.of === 'dict' && !Array.isArray(value.shown) ? value.shown : isSpecial(value) ? null : value;
  if (!fields || oneLine(fields).length <= width) return null;
  const lines = Object.entries(fields).flatMap(([key, item]) => keyed('+', key, item, width));
  const more = value.$ === 'cut' ? value.size - Object.keys(fields).length : 0;
  return more > 0 ? [...lines, plain(`… ${more} more`)] : lines;
}

function keyed(sign, key, value, width) {
  const name = typeof key === 'string' ? key : oneLine(key);
  const [head, ...rest] = valueLines(value, width - Math.min(name.length, 24));
  return signed(sign, [`${name}: ${head}`, ...rest]);
}

function scriptLines(diff, width, ordered) {
  const lines = [];
  let first = true;
  for (const [op, ...rest] of diff) {
    if (op === '=') lines.push(plain(first && ordered ? `${rest[0]} before` : `${rest[0]} the same`));
    else if (op === '…') lines.push(plain(`… ${rest[0]} more`));
    else if (op === '~') lines.push(...entryLines(rest, width));
    else if (rest.length === 2) lines.push(...keyed(op, rest[0], rest[1], width));
    else lines.push(...signed(op, valueLines(rest[0], width)));
    first = false;
  }
  return lines;
}

// An entry of a mapping that changed inside: its own script, indented below its name.
function entryLines([key, inner, old, fresh], width) {
  if (!inner) return [...keyed('-', key, old, width), ...keyed('+', key, fresh, width)];
  const name = typeof key === 'string' ? key : oneLine(key);
  return [{ sign: ' ', text: `${name}:` }, ...scriptLines(inner, width - 2, Array.isArray(fresh)).map((line) => ({ ...line, text: `  ${line.text}` }))];
}

function textLines(before, after) {
  if (before.includes('\n') || after.includes('\n')) {
    const lines = [];
    let same = 0;
    const fold = () => { if (same) lines.push(plain(`${same} ${same === 1 ? 'line' : 'lines'} the same`)); same = 0; };
    for (const [op, text] of script(before.split('\n'), after.split('\n'))) {
      if (op === '=') { same++; continue; }
      fold();
      lines.push({ sign: op, tone: op, text });
    }
    fold();
    return lines;
  }
  if (before.length + after.length < 60) return [...signed('-', [JSON.stringify(before)]), ...signed('+', [JSON.stringify(after)])];
  return halves(before, after);
}

function halves(before, after) {
  const all = words(before, after);
  const half = (op) => ({
    sign: op, tone: op, text: '', parts: all.filter(([sign]) => sign === '=' || sign === op).map(([sign, text]) => [sign !== '=', text]),
  });
  return [half('-'), half('+')];
}

/** Two columns of lines for a view side by side; what is equal stays in place, without colour. */
export function sides(change, width = 60) {
  const { old, new: fresh, diff } = change;
  if (typeof old === 'string' && typeof fresh === 'string' && !diff) {
    const [gone, come] = halves(old, fresh);
    return [[gone], [come]];
  }
  const column = (sign, value) => (value === undefined ? [] : signed(sign, valueLines(value, width)));
  if (!diff) return [column('-', old), column('+', fresh)];
  const left = [];
  const right = [];
  const lists = [listOf(old), listOf(fresh)];
  let i = 0;
  let j = 0;
  for (const [op, ...rest] of diff) {
    if (op === '=') {
      const [a, b] = [lists[0]?.slice(i, i + rest[0]), lists[1]?.slice(j, j + rest[0])];
      const known = (list) => list && list.length === rest[0];
      left.push(...(known(a) ? a.flatMap((item) => signed(' ', valueLines(item, width))) : [plain(`${rest[0]} the same`)]));
      right.push(...(known(b) ? b.flatMap((item) => signed(' ', valueLines(item, width))) : [plain(`${rest[0]} the same`)]));
      i += rest[0];
      j += rest[0];
    } else if (op === '…') {
      left.push(plain(`… ${rest[0]} more`));
      right.push(plain(`… ${rest[0]} more`));
    } else if (op === '~') {
      left.push(...keyed('-', rest[0], rest[2], width));
      right.push(...keyed('+', rest[0], rest[3], width));
    } else {
      const lines = rest.length === 2 ? keyed(op, rest[0], rest[1], width) : signed(op, valueLines(rest[0], width));
      (op === '-' ? left : right).push(...lines);
      if (op === '-') i++; else j++;
    }
  }
  return [left, right];
}

function listOf(value) {
  if (Array.isArray(value)) return value;
  if (value?.$ === 'tuple') return value.items;
  if (value?.$ === 'cut' && Array.isArray(value.shown)) return value.shown;
  return null;
}

// The query of the runs list, as typed. The server understands it; the page only cuts it into parts, to show them.

export const KEYS = ['status', 'graph', 'error', 'label', 'parent', 'queue', 'owner', 'node', 'after', 'before', 'took', 'steps', 'value', 'attr', 'is'];

/** Cut a query into parts: [{text, key, value, negated}]. Quotes keep spaces together. */
export function parts(query) {
  const out = [];
  for (const match of query.matchAll(/(-?)(?:([a-z]+):)?("(?:[^"\\]|\\.)*"?|[^\s"]\S*|(?<=:)(?=\s|$))/gi)) {
    const [text, minus, key, value] = match;
    if (!text) continue;
    out.push({ text, key: key?.toLowerCase() ?? null, value, negated: Boolean(minus) });
  }
  return out;
}

/** Whether the page knows this key; the server has the last word about the value. */
export const isToken = (part) => part.key !== null && KEYS.includes(part.key) && part.value !== '';

/** [tokens, rest]: the parts shown as chips, and the words that stay in the input. */
export function split(query) {
  const all = parts(query);
  return [all.filter(isToken), all.filter((part) => !isToken(part)).map((part) => part.text).join(' ')];
}

export const join = (tokens, rest) => [...tokens.map((part) => part.text), rest.trim()].filter(Boolean).join(' ');

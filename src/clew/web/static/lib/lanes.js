// Where the timeline draws what. Pure: items in, rectangles out; no DOM.
//
// An item is {path, node, step, begin, start, end, tries, waits, state}. Times are seconds after the run's creation; `begin`
// is the start of the first attempt or wait, and `end` is null while the item runs or asks.
//
// - A row per node, in the order in which nodes first ran. A row is packed into lanes: no two items of a lane overlap.
// - Lanes are 17 px with labels for up to 8 at once, else 6 px, and 3 px above 40.
// - Idle time of more than 15 % of the axis, and of more than 0.1 s, is folded to a fixed width.
// - An item of step k ran *ahead* until every earlier step had ended (running maximum of the ends).

export const LANES = { tall: { height: 17, gap: 3 }, thin: { height: 6, gap: 1 }, hair: { height: 3, gap: 1 } };
const FOLD_SHARE = 0.15;
const FOLD_LEAST = 0.1; // seconds
const FOLD_WIDTH = 46;
const ROUNDED = 2e-6; // seconds: times are rounded to microseconds
const PAD = 6; // above and below the lanes of a row

// Steps inside a subgraph are numbered by themselves.
const isInner = (item) => item.path?.includes('/');

/** Until when each step's items are ahead: the latest end of all earlier steps; Infinity while one of them is open. */
export function aheadUntil(items, committed = Infinity) {
  const ends = new Map();
  let first = Infinity;
  let last = -Infinity;
  for (const item of items) {
    if (item.step == null || isInner(item)) continue;
    const end = item.end ?? Infinity;
    ends.set(item.step, Math.max(ends.get(item.step) ?? -Infinity, end));
    first = Math.min(first, item.step);
    last = Math.max(last, item.step);
  }
  const until = new Map();
  let running = -Infinity;
  for (let step = first; step <= last; step++) {
    until.set(step, running);
    running = Math.max(running, ends.get(step) ?? -Infinity);
  }
  // An open item without a known step ran ahead if something that began before it, or at an unknown time, is unfinished.
  const unfinished = Math.min(...items.filter((item) => item.open && item.state !== 'done').map((item) => item.begin ?? -Infinity), Infinity);
  return (item) => {
    if (isInner(item)) return -Infinity;
    if (item.step == null) return item.begin >= unfinished ? Infinity : -Infinity;
    return item.step > committed + 1 ? Infinity : until.get(item.step) ?? -Infinity;
  };
}

/** A scale from time to pixels that folds long idle times: {x(t), t(x), folds, ticks, end}. */
export function timeScale(items, width, { from = null, to = null, now = null, foldable = true } = {}) {
  let start = Infinity;
  let end = -Infinity;
  for (const item of items) {
    if (item.start == null) continue;
    start = Math.min(start, item.begin);
    end = Math.max(end, item.end ?? item.start, item.lastTry ?? item.start);
  }
  if (now != null) end = Math.max(end, now);
  if (!Number.isFinite(start)) { start = 0; end = 1; }
  if (start > 0 && start < (end - start) * FOLD_SHARE) start = 0; // else the axis begins with the first item
  if (end - start < 1e-6) end = start + 1e-3;
  if (from != null && to != null && to > from) {
    [start, end] = [start + (end - start) * from, start + (end - start) * to];
    foldable = false;
  }
  const folds = foldable ? idle(items, start, end, now) : [];
  const busy = end - start - folds.reduce((sum, [a, b]) => sum + b - a, 0);
  const room = Math.max(40, width - folds.length * FOLD_WIDTH);
  const scale = room / (busy || 1);
  const x = (t) => {
    let at = 0;
    let reached = start;
    for (const [a, b] of folds) {
      if (t <= a) break;
      at += (a - reached) * scale;
      if (t < b) return at + ((t - a) / (b - a)) * FOLD_WIDTH;
      at += FOLD_WIDTH;
      reached = b;
    }
    return at + (t - reached) * scale;
  };
  const t = (px) => {
    let at = 0;
    let reached = start;
    for (const [a, b] of folds) {
      const wide = (a - reached) * scale;
      if (px <= at + wide) break;
      at += wide;
      if (px < at + FOLD_WIDTH) return a + ((px - at) / FOLD_WIDTH) * (b - a);
      at += FOLD_WIDTH;
      reached = b;
    }
    return reached + (px - at) / scale;
  };
  return {
    x, t, start, end, scale,
    folds: folds.map(([a, b]) => ({ x: x(a), width: FOLD_WIDTH, seconds: b - a })),
    ticks: ticks(start, end, scale).filter((at) => !folds.some(([a, b]) => at > a && at < b)).map((at) => ({ at, x: x(at), step: tickStep(scale) })),
  };
}

function idle(items, start, end, now) {
  // A wait is idle: for an answer, for the next attempt, or for a time.
  const spans = items.filter((i) => i.start != null)
    .flatMap((i) => [[i.start, i.end ?? (['asks', 'sleeping', 'retrying'].includes(i.state) ? i.start : now ?? i.start)], ...i.tries.map((a) => [a.start ?? a.end, a.end ?? a.start])])
    .sort((a, b) => a[0] - b[0]);
  const gaps = [];
  let reached = start;
  for (const [a, b] of spans) {
    if (a - reached > Math.max((end - start) * FOLD_SHARE, FOLD_LEAST) && gaps.length < 6) gaps.push([reached, a]);
    reached = Math.max(reached, b);
  }
  // A run that never rests in between is not folded at its beginning or end.
  return gaps.map(([a, b]) => { const edge = (b - a) * 0.02; return [a + edge, b - edge]; });
}

function tickStep(scale) {
  const wish = 100 / scale;
  const power = 10 ** Math.floor(Math.log10(wish));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= wish) ?? power * 10;
}

function ticks(start, end, scale) {
  const step = tickStep(scale);
  const out = [];
  for (let i = Math.ceil(start / step); i * step <= end + step * 1e-6 && out.length < 40; i++) out.push(i * step);
  return out;
}

/** The steps axis: one column per step, all equally wide. */
export function stepScale(items, width, first, last) {
  const wide = Math.max(4, width / Math.max(1, last - first + 1));
  return { x: (step) => (step - first) * wide, wide, first, last };
}

/** Pack the items of each node into lanes. */
export function rows(items, { axis = 'time', order = null } = {}) {
  const byNode = new Map();
  const sorted = [...items].sort((a, b) => (a.begin ?? 0) - (b.begin ?? 0) || a.index - b.index);
  for (const item of sorted) {
    if (!byNode.has(item.node)) byNode.set(item.node, []);
    byNode.get(item.node).push(item);
  }
  const names = [...byNode.keys()];
  if (order) names.sort((a, b) => (order.get(a) ?? 1e9) - (order.get(b) ?? 1e9));
  let y = 0;
  return names.map((node) => {
    const own = byNode.get(node);
    const lanes = axis === 'steps' ? packSteps(own) : packTimes(own);
    const kind = lanes > 40 ? 'hair' : lanes > 8 ? 'thin' : 'tall';
    const { height, gap } = LANES[kind];
    const tall = Math.max(kind === 'tall' ? 29 : 44, lanes * (height + gap) - gap + PAD * 2);
    const row = { node, items: own, lanes, atOnce: kind === 'tall' ? lanes : mostAtOnce(own), kind, lane: height + gap, bar: height, y, height: tall, top: y + PAD };
    y += tall;
    return row;
  });
}

/** How many items executed at once: waits and the pauses between attempts do not count. */
export function mostAtOnce(items) {
  const changes = [];
  const add = (from, to) => { if (from != null && to != null && to - ROUNDED > from) changes.push([from, 1], [to - ROUNDED, -1]); };
  for (const item of items) {
    for (const attempt of item.tries) add(attempt.start, attempt.end);
    if (item.state === 'done' || item.state === 'running') add(item.start, item.end ?? (item.state === 'running' ? Infinity : null));
  }
  changes.sort((a, b) => (a[0] === b[0] ? a[1] - b[1] : a[0] < b[0] ? -1 : 1)); // one that ends makes room for the next
  let most = 0;
  changes.reduce((now, [, by]) => { most = Math.max(most, now + by); return now + by; }, 0);
  return Math.max(1, most);
}

function packTimes(items) {
  const free = []; // the end of the last item of each lane
  for (const item of items) {
    const start = item.begin ?? 0;
    let lane = free.findIndex((end) => end <= start);
    if (lane < 0) lane = free.length;
    item.lane = lane;
    free[lane] = item.end ?? item.lastTry ?? Infinity;
    if (free.length > 400) break;
  }
  return Math.max(1, free.length);
}

function packSteps(items) {
  const used = new Map();
  let most = 1;
  for (const item of items) {
    const lane = used.get(item.step) ?? 0;
    item.lane = lane;
    used.set(item.step, lane + 1);
    most = Math.max(most, lane + 1);
  }
  return most;
}

export function median(numbers) {
  if (!numbers.length) return 0;
  const sorted = Float64Array.from(numbers).sort();
  return sorted[sorted.length >> 1];
}

export function quantile(sorted, share) {
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] : 0;
}

/** Counts in `bins` equal classes up to the 97th percentile; longer ones are in the last class. */
export function histogram(durations, bins = 24) {
  const sorted = Float64Array.from(durations).sort();
  const top = Math.max(quantile(sorted, 0.97) * 1.2, 1e-6);
  const limit = sorted.length && sorted[sorted.length - 1] <= top * 1.3 ? sorted[sorted.length - 1] || top : top;
  const counts = new Array(bins).fill(0);
  for (const d of sorted) counts[Math.min(bins - 1, Math.floor((d / limit) * bins))]++;
  return { counts, limit, open: sorted.length > 0 && sorted[sorted.length - 1] > limit, p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95), max: sorted[sorted.length - 1] ?? 0 };
}

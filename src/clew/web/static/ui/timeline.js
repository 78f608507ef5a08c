// The timeline: a row per node, bars in time or in steps. SVG up to 1,000 items, a canvas above.
//
// What does not depend on the cursor is drawn once (`useMemo`); the items of step k, the selected one and its causal
// thread are a layer above, so that scrubbing stays cheap.

import { html, cx, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../lib/html.js';
import { count, duration } from '../lib/format.js';
import { isRetried, shortName, waited, waitsNow } from '../lib/items.js';
import { aheadUntil, median, rows as packRows, stepScale, timeScale } from '../lib/lanes.js';
import { useWidth } from './parts.js';

const HEAD = 24; // the axis
const TICK = 52; // the width of a time at the axis
const SVG_LIMIT = 1000;

/** Rectangles of all bars: {item, x, y, w, h, parts, label}. */
function place(items, { axis, width, labels, from, to, now, order, committed }) {
  const tail = axis !== 'steps' && from == null && items.some((item) => item.state === 'asks' || item.state === 'sleeping') ? 44 : 0;
  const room = Math.max(60, width - labels - 14 - tail);
  const packed = packRows(items.map((item) => Object.assign(item, { packEnd: item.end })), { axis, order });
  const until = aheadUntil(items, committed);
  const bars = [];
  let scale;
  if (axis === 'steps') {
    let first = Infinity;
    let last = 1;
    for (const item of items) { first = Math.min(first, item.step); last = Math.max(last, item.step); }
    scale = stepScale(items, room, Number.isFinite(first) ? first : 1, last);
  } else scale = timeScale(items, room, { from, to, now });
  for (const row of packed) {
    const typical = row.kind === 'tall' ? 0 : median(row.items.map((item) => item.duration ?? 0));
    for (const item of row.items) {
      const y = row.top + (item.lane ?? 0) * row.lane;
      if (axis === 'steps') {
        const w = Math.max(2, scale.wide - 3);
        bars.push({ item, x: labels + scale.x(item.step) + 1, y, w, h: row.bar, row, label: row.kind === 'tall' && w > 26 ? shortName(item) : '', ahead: 0 });
        continue;
      }
      if (item.start == null) continue;
      const stop = item.end ?? (item.state === 'asks' || item.state === 'sleeping' ? scale.end : Math.max(now ?? 0, item.lastTry ?? 0, item.start));
      const edge = item.state === 'asks' || item.state === 'sleeping' ? room + Math.max(4, tail) : scale.x(stop);
      const x0 = scale.x(item.begin);
      const x = Math.max(-2, x0);
      const w = Math.max(item.gate ? 3 : 2, Math.min(edge, room + tail + 8) - x);
      if (edge < -2 || x > room + 8) continue;
      const own = (item.tries.length || item.waits.length) && !(item.open && item.state !== 'done' && item.state !== 'running') ? scale.x(item.start) : x0;
      const limit = until(item);
      const bar = { item, x: labels + x, y, w, h: row.bar, row, body: item.state === 'failed' && item.tries.length ? null : [labels + Math.max(own, -2), Math.max(2, Math.min(edge, room + tail + 8) - own)] };
      if (limit > item.start && !item.gate && !item.guessed) bar.ahead = Math.max(0, Math.min(scale.x(Math.min(limit, stop)), edge) - own);
      bar.tries = item.tries.map((a) => {
        const s = scale.x(a.start ?? a.end);
        const e = scale.x(a.end ?? a.start);
        const due = a.due != null ? scale.x(Math.min(a.due, stop)) : null;
        return { x: labels + s, w: Math.max(3, e - s), due: due == null ? null : labels + due };
      });
      bar.waits = item.waits.map((wait) => [labels + scale.x(wait.start), labels + scale.x(wait.end)]);
      const wide = shortName(item).length * 6.7 + 6;
      if (row.kind === 'tall' && w > wide) {
        bar.label = shortName(item);
        const solid = [bar.body, ...bar.tries.map((t) => [t.x, t.w])].find((part) => part && part[1] > wide);
        bar.at = solid ? Math.max(solid[0], labels) : bar.x; // else over the dots
        bar.over = !solid;
      } else if (typical && (item.duration ?? 0) > typical * 10) bar.outlier = true;
      bars.push(bar);
    }
    nameOutliers(bars.filter((bar) => bar.outlier && bar.row === row), row, labels);
  }
  const height = packed.length ? packed[packed.length - 1].y + packed[packed.length - 1].height : 40;
  return { bars, rows: packed, scale, height, room, byPath: new Map(bars.map((bar) => [bar.item.path, bar])) };
}

/** Names of slow items, below their bars: the slowest first, as long as they have room in the row. */
function nameOutliers(bars, row, labels) {
  const placed = [];
  for (const bar of [...bars].sort((a, b) => b.item.duration - a.item.duration)) {
    const text = `${bar.item.path} ${duration(bar.item.duration)}`;
    const wide = text.length * 6.7;
    const right = Math.max(bar.x + bar.w, labels + wide);
    const spots = [bar.y + bar.h + 12, bar.y - 4].filter((y) => y > row.y + 10 && y < row.y + row.height - 2);
    const y = spots.find((spot) => !placed.some((other) => Math.abs(other.y - spot) < 13 && right - wide < other.right && right > other.left));
    if (y === undefined) continue;
    placed.push({ left: right - wide - 6, right: right + 6, y });
    bar.outside = { text, x: right, y };
  }
}

const kindOf = (item) => {
  if (item.gate) return 'gate';
  if (item.state === 'asks') return 'asks';
  if (item.state === 'sleeping' || item.state === 'retrying') return 'pause';
  if (item.state === 'running') return 'live';
  if (item.failed || item.state === 'failed') return 'bad';
  if (item.cached) return 'cached';
  return 'ran';
};

/** What a screen reader says about an item. */
export function describe(item) {
  const bits = [item.path, [item.state !== 'done' && (item.state === 'sleeping' ? waitsNow(item) : item.state), item.step != null && `step ${item.step}`].filter(Boolean).join(', ') || 'not committed'];
  if (item.duration != null) bits.push(duration(item.duration));
  if (item.calls) bits.push(`${item.calls} recorded calls`);
  if (item.tries.length) bits.push(`${item.tries.length} failed tries`);
  for (const wait of item.waits) bits.push(waited(wait));
  if (item.cached) bits.push('reused');
  return bits.join(', ');
}

function Bar({ bar }) {
  const { item, x, y, w, h } = bar;
  const kind = kindOf(item);
  const [bx, bw] = bar.body === undefined ? [x, w] : bar.body ?? [0, 0];
  const r = h > 10 ? 3 : h > 4 ? 1.5 : 0.5;
  return html`<g class=${`bar k-${kind}`} role="button" tabindex="-1" data-path=${item.path} aria-label=${describe(item)}>
    ${bar.body !== null && html`<rect class="body" x=${bx} y=${y} width=${bw} height=${h} rx=${r}/>`}
    ${bar.ahead > 0.5 && html`<rect class="ahead" x=${bx} y=${y} width=${bar.ahead} height=${h} rx=${r}/>`}
    ${item.calls > 0 && h > 10 && bar.body !== null && html`<path class="calls" d=${`M${bx} ${y + h - 4}h${bw}v1a3 3 0 0 1 -${Math.min(3, bw / 2)} 3h-${Math.max(0, bw - 2 * Math.min(3, bw / 2))}a3 3 0 0 1 -${Math.min(3, bw / 2)} -3z`}/>`}
    ${bar.tries?.map((t, i) => html`<g key=${i}>${t.due != null && html`<path class="pausing" d=${`M${t.x + t.w} ${y + h / 2}H${t.due}`}/>`}<rect class="try" x=${t.x} y=${y} width=${t.w} height=${h} rx=${r}/>${item.calls > 0 && h > 10 && html`<rect class="badcall" x=${t.x + 1} y=${y + h - 3} width=${Math.max(1, t.w - 2)} height="2.5"/>`}</g>`)}
    ${bar.waits?.map(([from, to], i) => html`<path key=${i} class="waited" d=${`M${from} ${y + h / 2}H${to}`}/>`)}
    ${bar.label && html`<text class=${cx('in', bar.over && 'over')} x=${(bar.at ?? bx) + 5} y=${y + h / 2 + 4}>${bar.label}</text>`}
    <rect class="hit" x=${x - 2} y=${y - 1} width=${Math.max(w + 4, 8)} height=${h + 2}/>
  </g>`;
}

function paint(canvas, view, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const g = canvas.getContext('2d');
  const style = getComputedStyle(canvas);
  const colour = (name) => style.getPropertyValue(name).trim();
  const c = { ran: colour('--bar'), edge: colour('--bar-edge'), bad: colour('--fail'), badBg: colour('--fail-bg'), ahead: colour('--ahead'), gate: colour('--gate'), live: colour('--run-bg'), asks: colour('--wait-bg'), wait: colour('--wait') };
  g.scale(ratio, ratio);
  const dots = (from, to, y) => { g.setLineDash([2, 2]); g.beginPath(); g.moveTo(from, y); g.lineTo(to, y); g.stroke(); g.setLineDash([]); };
  g.fillStyle = colour('--sunken'); // the canvas lies below the SVG, so its rows have their stripes here
  for (const [i, row] of view.rows.entries()) if (i % 2) g.fillRect(0, row.y, width, row.height);
  // Bars under one pixel that touch in a lane are merged into one.
  let end = -1;
  let lane = -1;
  for (const bar of view.bars) {
    const { item, x, y, w, h } = bar;
    const kind = kindOf(item);
    if (w < 2.5 && kind === 'ran' && !bar.ahead && lane === y && x < end) continue;
    lane = y;
    end = x + 1;
    g.fillStyle = kind === 'gate' ? c.gate : kind === 'bad' ? c.badBg : kind === 'live' ? c.live : kind === 'asks' ? c.asks : c.ran;
    const [bx, bw] = bar.body === undefined ? [x, w] : bar.body ?? [x, w];
    g.fillRect(bx, y, bw, h);
    if (bar.ahead) { g.fillStyle = c.ahead; g.fillRect(bx, y, bar.ahead, h); }
    if (bw > 4) { g.strokeStyle = kind === 'bad' ? c.bad : c.edge; g.lineWidth = 0.8; g.strokeRect(bx + 0.4, y + 0.4, bw - 0.8, h - 0.8); }
    for (const t of bar.tries ?? []) {
      g.fillStyle = c.badBg;
      g.fillRect(t.x, y, t.w, h);
      g.strokeStyle = c.bad;
      g.strokeRect(t.x, y, t.w, h);
      if (t.due != null) dots(t.x + t.w, t.due, y + h / 2);
    }
    g.strokeStyle = c.wait;
    for (const [from, to] of bar.waits ?? []) dots(from, to, y + h / 2);
  }
}

function Overlay({ view, k, path, thread }) {
  const near = view.bars.length <= 3000 ? view.bars.filter((bar) => bar.item.step === k) : view.bars.filter((bar) => bar.item.step === k).slice(0, 400);
  const chosen = view.byPath.get(path);
  const links = [];
  const stops = (thread ?? []).map((name) => view.byPath.get(name)).filter(Boolean);
  for (let i = 0; i + 1 < stops.length; i++) {
    const [to, from] = [stops[i], stops[i + 1]];
    const x1 = from.x + from.w;
    const y1 = from.y + from.h / 2;
    const x2 = to.x;
    const y2 = to.y + to.h / 2;
    const bend = Math.max(8, Math.min(60, Math.abs(x2 - x1) / 2));
    links.push(`M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`);
  }
  const many = near.length > 12 || near.some((bar) => bar.h < 10);
  return html`<g class="over">
    ${many ? null : near.map((bar) => html`<rect key=${bar.item.path} class="nowstep" x=${bar.x - 2} y=${bar.y - 2} width=${bar.w + 4} height=${bar.h + 4} rx="5"/>`)}
    ${links.map((d, i) => html`<path key=${i} class="thread" d=${d}/>`)}
    ${stops.slice(1).filter((b) => b.h > 10).map((bar) => html`<circle key=${bar.item.path} class="stop" cx=${bar.x + bar.w} cy=${bar.y + bar.h / 2} r="1.5"/>`)}
    ${chosen && html`<rect class="pick" x=${chosen.x - 2} y=${chosen.y - 2} width=${chosen.w + 4} height=${chosen.h + 4} rx="5"/>`}
  </g>`;
}

export function Timeline({ items, k, path, thread, axis, from, to, now, committed, order, onPick, onRange, name }) {
  const [ref, { width }] = useWidth(680);
  const group = useRef(null);
  const canvas = useRef(null);
  const [drag, setDrag] = useState(null);
  const labels = width < 480 ? 86 : 124;
  const view = useMemo(() => place(items, { axis, width, labels, from, to, now, order, committed }),
    [items, axis, width, from, to, now && Math.floor(now * 4), committed, order]);
  const big = view.bars.length > SVG_LIMIT;
  const height = HEAD + view.height + 6;
  const focusable = path && view.byPath.has(path) ? path : view.bars[0]?.item.path;

  // Before the paint, so that it is one.
  useLayoutEffect(() => {
    if (!big || !canvas.current) return undefined;
    const draw = () => paint(canvas.current, view, width, view.height + 6);
    draw();
    addEventListener('clew-theme', draw);
    return () => removeEventListener('clew-theme', draw);
  }, [view, width, big]);

  useLayoutEffect(() => {
    for (const node of group.current?.querySelectorAll('[tabindex="0"]') ?? []) node.setAttribute('tabindex', '-1');
    group.current?.querySelector(focusable ? `[data-path="${CSS.escape(focusable)}"]` : null)?.setAttribute('tabindex', '0');
  }, [focusable, view]);

  const base = useMemo(() => html`<g>
    ${view.rows.map((row, i) => html`<g key=${row.node}>${i % 2 && !big ? html`<rect class="zebra" x="0" y=${row.y} width=${width} height=${row.height}/>` : null}
      <text class="name" x="10" y=${row.y + 19}>${clip(row.node, labels)}${row.node.length * 7.3 > labels - 12 && html`<title>${row.node}</title>`}</text>
      ${row.kind !== 'tall' && html`<text class="sub" x="10" y=${row.y + 34}>${count(row.items.length)} items</text>`}
      ${row.kind !== 'tall' && row.height > 50 && html`<text class="sub" x="10" y=${row.y + 47}>${row.atOnce} at once</text>`}
      ${row.kind !== 'tall' && row.height > 62 && row.items.some(isRetried) && html`<text class="sub" x="10" y=${row.y + 60}>${row.items.filter(isRetried).length} retried</text>`}</g>`)}
    ${axis !== 'steps' && view.scale.ticks.map((tick) => html`<path key=${tick.at} class="grid" d=${`M${labels + tick.x} 0V${view.height}`}/>`)}
    ${!big && view.bars.map((bar) => html`<${Bar} key=${bar.item.path} bar=${bar}/>`)}
    ${!big && view.bars.map(({ item, outside }) => outside && html`<text key=${item.path} class="out" x=${outside.x} y=${outside.y} text-anchor="end">${outside.text}</text>`)}
    ${axis !== 'steps' && view.scale.folds.map((fold) => html`<g key=${fold.x} class="fold"><rect x=${labels + fold.x} y="0" width=${fold.width} height=${view.height}/></g>`)}
  </g>`, [view, big]);

  const at = (event) => {
    const box = group.current.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top - HEAD };
  };
  const hit = (event) => {
    const own = event.target.closest?.('[data-path]');
    if (own) return own.dataset.path;
    if (!big) return null;
    const { x, y } = at(event);
    let best = null;
    for (const bar of view.bars) {
      if (y < bar.y - 1 || y > bar.y + bar.h + 1) continue;
      const gap = Math.max(bar.x - x, x - bar.x - bar.w, 0);
      if (gap <= 4 && (!best || gap < best.gap)) best = { gap, path: bar.item.path };
    }
    return best?.path ?? null;
  };
  const share = (px) => {
    const t = view.scale.t(Math.max(0, Math.min(view.room, px - labels)));
    const whole = timeScale(items, view.room, { now, foldable: false });
    return (t - whole.start) / (whole.end - whole.start);
  };
  const zoom = (factor, centre = labels + view.room / 2) => {
    if (axis === 'steps') return;
    const [a, b] = [from ?? 0, to ?? 1];
    const c = share(centre);
    const wide = Math.min(1, (b - a) * factor);
    let left = c - (c - a) * (wide / (b - a));
    left = Math.max(0, Math.min(1 - wide, left));
    if (wide >= 0.999) onRange(null, null); else if (wide > 1e-5) onRange(left, left + wide);
  };
  useEffect(() => { // Not passive: the wheel zooms here instead of scrolling.
    const node = group.current;
    const wheel = (event) => {
      const pane = node.closest('.tl-scroll');
      if (!event.ctrlKey && !event.metaKey && pane && pane.scrollHeight > pane.clientHeight + 2) return;
      if (Math.abs(event.deltaY) < Math.abs(event.deltaX)) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, at(event).x);
    };
    node?.addEventListener('wheel', wheel, { passive: false });
    return () => node?.removeEventListener('wheel', wheel);
  });
  useEffect(() => {
    const listener = (event) => (event.detail === 0 ? onRange(null, null) : zoom(event.detail > 0 ? 0.7 : 1 / 0.7));
    addEventListener('clew-zoom', listener);
    return () => removeEventListener('clew-zoom', listener);
  });

  const down = (event) => {
    if (event.button || axis === 'steps' || event.pointerType === 'touch') return;
    setDrag({ x: at(event).x, to: at(event).x, from, until: to });
  };
  const move = (event) => {
    if (!drag) return;
    const x = at(event).x;
    if (from != null && !event.shiftKey && Math.abs(x - drag.x) > 3) {
      const by = ((drag.x - x) / view.room) * (drag.until - drag.from);
      const left = Math.max(0, Math.min(1 - (drag.until - drag.from), drag.from + by));
      onRange(left, left + (drag.until - drag.from));
      setDrag({ ...drag, moved: true });
    } else setDrag({ ...drag, to: x });
  };
  const dragged = useRef(false); // a click follows a drag
  const up = () => {
    const wide = drag ? Math.abs(drag.to - drag.x) : 0;
    dragged.current = Boolean(drag?.moved) || wide > 12;
    setDrag(null);
    if (drag && !drag.moved && wide > 12) onRange(share(Math.min(drag.x, drag.to)), share(Math.max(drag.x, drag.to)));
  };
  const click = (event) => { const found = !dragged.current && hit(event); if (found) onPick(found); };
  const key = (event) => {
    const list = view.bars;
    const here = list.findIndex((bar) => bar.item.path === (document.activeElement?.dataset?.path ?? focusable));
    if (event.key === 'Enter' || event.key === ' ') { if (list[here]) onPick(list[here].item.path); event.preventDefault(); event.stopPropagation(); return; }
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: 'up', ArrowDown: 'down' }[event.key];
    if (!by || event.shiftKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    let next = list[here + by];
    if (typeof by === 'string' && list[here]) {
      const row = view.rows.indexOf(list[here].row) + (by === 'up' ? -1 : 1);
      const others = list.filter((bar) => bar.row === view.rows[row]);
      next = others.reduce((best, bar) => (!best || Math.abs(bar.x - list[here].x) < Math.abs(best.x - list[here].x) ? bar : best), null);
    }
    if (!next) return;
    for (const node of group.current.querySelectorAll('[tabindex="0"]')) node.setAttribute('tabindex', '-1');
    const target = group.current.querySelector(`[data-path="${CSS.escape(next.item.path)}"]`);
    target?.setAttribute('tabindex', '0');
    target?.focus();
    if (!target) onPick(next.item.path);
  };

  const nowX = now != null && axis !== 'steps' && from == null ? labels + view.scale.x(now) : null;
  return html`<div class="timeline" ref=${ref}>
    <div class="tl-box" role="group" aria-label=${name ?? 'Timeline'} ref=${group} onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} onPointerLeave=${() => setDrag(null)} onClick=${click}
      onKeyDown=${key}>
      <svg class="axis" width=${width} height=${HEAD} aria-hidden="true">${axis === 'steps' ? stepTicks(view.scale, labels, view.room) : timeTicks(view.scale, labels, view.room)}</svg>
      ${big && html`<canvas ref=${canvas} class="tl-canvas" aria-hidden="true"/>`}
      <svg class="tl" width=${width} height=${height - HEAD}>
        <defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="h0" width="6" height="6"/><rect class="h1" width="1.5" height="6"/></pattern></defs>
        ${base}
        <${Overlay} view=${view} k=${k} path=${path} thread=${thread}/>
        ${nowX != null && html`<path class="now" d=${`M${nowX} 0V${view.height}`}/>`}
        ${drag && !drag.moved && Math.abs(drag.to - drag.x) > 6 && html`<rect class="brush" x=${Math.min(drag.x, drag.to)} y="0" width=${Math.abs(drag.to - drag.x)} height=${view.height}/>`}
      </svg>
      ${big && html`<ul class="off">${view.bars.slice(0, 150).map((bar) => html`<li key=${bar.item.path}><button type="button" tabindex="-1" data-path=${bar.item.path}>${describe(bar.item)}</button></li>`)}</ul>`}
    </div></div>`;
}

/** The time of a tick, exact enough to differ from the next one. */
const tickText = ({ at, step }) => (at > 0 && step < 1e-3 ? `${(at * 1e3).toFixed(Math.ceil(-Math.log10(step * 1e3) - 1e-9))} ms` : duration(at));

/** The times at the axis, and how long the folded ones are. */
function timeTicks({ ticks, folds }, labels, room) {
  const free = ({ x }) => x < room - 34 && !folds.some((fold) => x > fold.x - TICK && x < fold.x + fold.width);
  return html`${ticks.filter(free).map((tick) => html`<text key=${tick.at} x=${labels + tick.x + 3} y="15">${tickText(tick)}</text>`)}
    ${folds.map((fold) => html`<text key=${`f${fold.x}`} class="folded" x=${labels + fold.x + fold.width / 2} y="15" text-anchor="middle">// ${duration(fold.seconds)}</text>`)}`;
}

const clip = (text, labels) => { const n = Math.floor((labels - 14) / 7.3); return text.length > n ? `${text.slice(0, n - 1)}…` : text; };

function stepTicks(scale, labels, room) {
  const every = Math.max(1, Math.ceil(34 / scale.wide));
  const out = [];
  for (let step = scale.first; step <= scale.last; step += 1) if ((step - scale.first) % every === 0) out.push(step);
  return out.slice(0, 60).map((step) => html`<text key=${step} x=${labels + scale.x(step) + 1} y="15">${step}</text>`);
}

export function Legend({ items, phone }) {
  const has = (test) => items.some(test);
  const entries = [
    ['ran', 'ran', has((i) => kindOf(i) === 'ran')], ['gate', 'gate', has((i) => i.gate)], ['ahead', 'ahead', items.ahead], ['call', 'call', has((i) => i.calls > 0)],
    ['try', 'failed try', has((i) => i.tries.length > 0)], ['asks', 'waits', has((i) => i.state === 'asks' || i.state === 'sleeping' || i.waits.length > 0)], ['live', 'running', has((i) => i.state === 'running')], ['cached', 'reused', has((i) => i.cached)],
  ];
  if (phone) return null;
  return html`<span class="legend" aria-hidden="true">${entries.filter(([, , there]) => there).map(([kind, text]) => html`<span key=${kind}><i class=${cx('sw', `sw-${kind}`)}/>${text}</span>`)}</span>`;
}

// A graph: boxes and arrows as the server laid them out, coloured by what the run did, or by the state of a value.
// Drag moves, the wheel with Ctrl zooms, Fit shows everything. One tab stop; arrow keys go along the arrows.

import { html, cx, useEffect, useMemo, useRef, useState } from '../lib/html.js';
import { useWidth } from './parts.js';

function outline(box) {
  const { x, y, w, h } = box;
  const [l, r, t, b] = [x - w / 2, x + w / 2, y - h / 2, y + h / 2];
  if (box.kind === 'gate') return `M${l} ${y}L${x} ${t}L${r} ${y}L${x} ${b}Z`;
  if (box.kind === 'interrupt') { const c = Math.min(12, h / 2); return `M${l} ${y}L${l + c} ${t}H${r - c}L${r} ${y}L${r - c} ${b}H${l + c}Z`; }
  return null;
}

/** A smooth path through points that lie below each other, else straight pieces with round corners. */
function pathOf(points) {
  if (!points.length) return '';
  let d = `M${points[0][0]} ${points[0][1]}`;
  if (points.every(([, y], i) => !i || y > points[i - 1][1])) {
    for (let i = 1; i < points.length; i++) {
      const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
      const m = (y0 + y1) / 2;
      d += Math.abs(x0 - x1) < 0.5 ? `L${x1} ${y1}` : `C${x0} ${m} ${x1} ${m} ${x1} ${y1}`;
    }
    return d;
  }
  for (let i = 1; i < points.length; i++) {
    const [x, y] = points[i];
    const next = points[i + 1];
    if (!next) { d += `L${x} ${y}`; break; }
    const [px, py] = points[i - 1];
    const before = Math.hypot(x - px, y - py) || 1;
    const after = Math.hypot(next[0] - x, next[1] - y) || 1;
    const r = Math.min(7, before / 2, after / 2);
    d += `L${x - ((x - px) / before) * r} ${y - ((y - py) / before) * r}Q${x} ${y} ${x + ((next[0] - x) / after) * r} ${y + ((next[1] - y) / after) * r}`;
  }
  return d;
}

function head(points) {
  const n = points.length;
  const [x, y] = points[n - 1];
  const [px, py] = points[n - 2] ?? [x, y - 1];
  let [dx, dy] = [x - px, y - py];
  if (Math.abs(dy) >= 1) { dx *= 0.35; }
  const len = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / len, dy / len];
  return `M${x} ${y}L${x - ux * 7 - uy * 3.4} ${y - uy * 7 + ux * 3.4}L${x - ux * 7 + uy * 3.4} ${y - uy * 7 - ux * 3.4}Z`;
}

function badge(state) {
  if (!state) return null;
  if (state.failed) return { text: state.tries > 1 ? `✕ ${state.tries} tries` : '✕ failed', tone: 'fail' };
  if (state.asks) return { text: 'asks', tone: 'wait' };
  if (state.sleeps) return { text: 'sleeps', tone: 'wait' };
  if (state.running) return { text: state.total > 1 ? `${state.ran}/${state.total}` : 'running', tone: 'run' };
  if (state.cached && state.cached === state.ran) return { text: '↺ reused', tone: 'idle' };
  if (state.ran > 1) return { text: `×${state.ran}`, tone: 'idle' };
  return null;
}

/** Whether a box can be selected: a node of a run, or a value. */
const acts = (box) => box.state || !['input', 'optional', 'end'].includes(box.kind);

function stateClass(state, box) {
  if (box.state) return `v-${box.state}`;
  if (!acts(box)) return `b-${box.kind}`;
  if (!state) return 'never';
  if (state.failed) return 'failed';
  if (state.asks) return 'asks';
  if (state.sleeps) return 'sleeps';
  if (state.running) return 'running';
  return 'ran';
}

const NONE = new Map();
const EMPTY = [];

/** `frame` is the state of the node around a picture: what is inside looks like it until it is known. */
const Boxes = ({ picture, view, dx = 0, dy = 0, frame = null }) => html`<g transform=${dx || dy ? `translate(${dx} ${dy})` : undefined}>
  ${picture.arrows.map((arrow, i) => {
    const d = pathOf(arrow.points);
    const on = view.onThread(arrow, picture);
    return html`<g key=${`a${i}`} class=${cx('arrow', `a-${arrow.kind}`, on && 'on', view.taken(arrow, picture) && 'taken')}>
      <path class="line" d=${d}/><path class="tip" d=${head(arrow.points)}/>
      ${arrow.label && arrow.label_at && (on || view.scale >= 0.74) && html`<text class="lab" x=${arrow.label_at[0]} y=${arrow.label_at[1] + 3.5} text-anchor="middle">${arrow.label}</text>`}</g>`;
  })}
  ${picture.boxes.map((box) => {
    const known = frame ? view.inner.get(box.path) : view.states.get(box.name);
    const state = known ?? (frame?.ran && !view.inner.size ? { ran: 1 } : undefined);
    const shape = outline(box);
    const note = badge(state);
    const half = note && note.text.length * 3.2 + 5;
    const mid = Math.min(box.x + box.w / 2 - 1, picture.width + 8 - half); // of the badge: it stays in the picture
    const inner = box.inside;
    const does = acts(box);
    const kind = stateClass(state, box);
    const is = (set) => !frame && set?.has(box.name);
    return html`<g key=${box.key} class=${cx('box', !box.state && `n-${box.kind}`, kind, kind === 'sleeps' && 'asks', is(view.current) && 'cur', (frame ? view.place === box.path : view.chosen === box.name) && 'sel', is(view.thread) && 'on')}
      role=${does ? 'button' : undefined} tabindex=${does ? '-1' : undefined} data-node=${does ? box.path ?? box.name : undefined}
      aria-label=${does ? `${box.label || box.name}, ${box.state ?? (kind === 'never' ? 'never ran' : kind)}${note ? `, ${note.text}` : ''}` : undefined}>
      ${is(view.current) && (shape ? html`<path class="halo" d=${shape}/>` : html`<rect class="halo" x=${box.x - box.w / 2} y=${box.y - box.h / 2} width=${box.w} height=${box.h} rx="6"/>`)}
      ${shape ? html`<path class="shape" d=${shape}/>` : html`<rect class="shape" x=${box.x - box.w / 2} y=${box.y - box.h / 2} width=${box.w} height=${box.h} rx=${does && box.state !== 'source' ? 6 : Math.min(12, box.h / 2)}/>`}
      ${inner ? html`<text class="frame" x=${box.x - box.w / 2 + 8} y=${box.y - box.h / 2 + 14}>${box.label || box.name}</text>
        <${Boxes} picture=${inner} view=${view} dx=${box.x - inner.width / 2} dy=${box.y - inner.height / 2 + 8} frame=${state ?? {}}/>`
        : html`<text x=${box.x + (box.kind === 'interrupt' && state?.asks ? 5 : 0)} y=${box.y + 4} text-anchor="middle">${box.label || box.name}</text>`}
      ${box.kind === 'interrupt' && state?.asks && html`<path class="pause" d=${`M${box.x - box.w / 2 + 14} ${box.y - 4}v8m4 -8v8`}/>`}
      ${note && html`<g class=${`tag t-${note.tone}`}><rect x=${mid - half} y=${box.y - box.h / 2 - 9} width=${half * 2} height="16" rx="8"/><text x=${mid} y=${box.y - box.h / 2 + 3} text-anchor="middle">${note.text}</text></g>`}
    </g>`;
  })}</g>`;

/** `thread` is a list of node names from the selected one back to the start; `links` are the arrows on it, "from>to". */
export function GraphView({ picture, states = NONE, inner = NONE, place, current, chosen, thread = EMPTY, links, decided, onPick, fitKey = 0, label = 'Graph' }) {
  const [ref, size] = useWidth(380);
  const [view, setView] = useState(null);
  const svg = useRef(null);
  const pad = 22;
  const fitScale = Math.min(1.25, (size.width - pad * 2) / picture.width, size.height > 80 ? (size.height - pad * 2) / picture.height : 9);
  const fit = { scale: Math.max(0.1, fitScale), x: 0, y: 0 };
  useEffect(() => setView(null), [fitKey, picture]);
  const { scale, x, y } = view ?? fit;
  const left = (size.width - picture.width * scale) / 2 + x;
  const top = Math.max(pad, Math.min(40, (size.height - picture.height * scale) / 2)) + y;
  const names = useMemo(() => new Map(picture.boxes.map((box) => [box.key, box.name])), [picture]);
  const onPath = useMemo(() => links ?? new Set(thread.slice(1).map((name, i) => `${name}>${thread[i]}`)), [thread, links]);
  const nodes = useMemo(() => new Set(thread), [thread]);
  const model = {
    states, inner, place, current, chosen, thread: nodes, scale,
    onThread: (arrow, own) => { const [a, b] = ends(arrow, own, names); return onPath.has(`${a}>${b}`); },
    taken: (arrow, own) => { const [a, b] = ends(arrow, own, names); return decided?.has(`${a}>${b}`); },
  };
  const zoom = (factor, event) => {
    const box = svg.current.getBoundingClientRect();
    const cx0 = event ? event.clientX - box.left : box.width / 2;
    const cy0 = event ? event.clientY - box.top : box.height / 2;
    const next = Math.max(0.15, Math.min(3, scale * factor));
    const newLeft = cx0 - ((cx0 - left) / scale) * next;
    const newTop = cy0 - ((cy0 - top) / scale) * next;
    setView({ scale: next, x: newLeft - (size.width - picture.width * next) / 2, y: newTop - Math.max(pad, Math.min(40, (size.height - picture.height * next) / 2)) });
  };
  const drag = useRef(null);
  const down = (event) => { if (!event.button && event.pointerType !== 'touch') drag.current = { px: event.clientX, py: event.clientY, x, y, moved: false }; };
  const move = (event) => {
    const d = drag.current;
    if (!d || !event.buttons) return;
    const [dx, dy] = [event.clientX - d.px, event.clientY - d.py];
    if (!d.moved && Math.hypot(dx, dy) < 4) return;
    d.moved = true;
    setView({ scale, x: d.x + dx, y: d.y + dy });
  };
  const click = (event) => {
    if (drag.current?.moved) { drag.current = null; return; }
    const node = event.target.closest('[data-node]')?.dataset.node;
    if (node) onPick(node);
  };
  useEffect(() => {
    const node = svg.current;
    const wheel = (event) => { if (!event.ctrlKey && !event.metaKey) return; event.preventDefault(); zoom(event.deltaY > 0 ? 0.87 : 1.15, event); };
    node.addEventListener('wheel', wheel, { passive: false });
    return () => node.removeEventListener('wheel', wheel);
  });
  const stop = chosen && picture.boxes.some((box) => box.name === chosen) ? chosen : picture.boxes.find(acts)?.name;
  useEffect(() => {
    for (const node of svg.current.querySelectorAll('[tabindex="0"]')) node.setAttribute('tabindex', '-1');
    if (stop) svg.current.querySelector(`[data-node="${CSS.escape(stop)}"]`)?.setAttribute('tabindex', '0');
  }, [stop, picture]);
  const key = (event) => {
    const name = document.activeElement?.dataset?.node;
    if (!name) return;
    if (event.key === 'Enter' || event.key === ' ') { onPick(name); event.preventDefault(); event.stopPropagation(); return; }
    if (!event.key.startsWith('Arrow') || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    const from = picture.boxes.find((box) => box.name === name);
    const [ax, ay] = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    let best = null;
    for (const box of picture.boxes) {
      if (box === from || !acts(box)) continue;
      const along = (box.x - from.x) * ax + (box.y - from.y) * ay;
      const off = Math.abs((box.x - from.x) * ay) + Math.abs((box.y - from.y) * ax);
      if (along > 4 && (!best || along + off * 2 < best.cost)) best = { cost: along + off * 2, box };
    }
    if (!best) return;
    for (const node of svg.current.querySelectorAll('[tabindex="0"]')) node.setAttribute('tabindex', '-1');
    const target = svg.current.querySelector(`[data-node="${CSS.escape(best.box.name)}"]`);
    target?.setAttribute('tabindex', '0');
    target?.focus();
  };
  const flow = size.height > 80 ? undefined : picture.height * scale + pad * 2;
  return html`<div class="graph" ref=${ref}><svg ref=${svg} role="group" aria-label=${label} width=${size.width} height=${flow ?? size.height}
    onPointerDown=${down} onPointerMove=${move} onClick=${click} onKeyDown=${key}>
    <g transform=${`translate(${left} ${top}) scale(${scale})`}><${Boxes} picture=${picture} view=${model}/></g></svg></div>`;
}

function ends(arrow, own, names) {
  const find = (key) => own.boxes.find((box) => box.key === key)?.name ?? names.get(key);
  return [find(arrow.source), find(arrow.target)];
}

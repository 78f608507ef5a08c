// The chain: a slider over the states S(first)…S(last). One bar per state up to 400, above that buckets of equal size
// with a lens around the cursor. It moves over k, never over time.

import { html, cx, useMemo, useRef } from '../lib/html.js';
import { count, plural } from '../lib/format.js';
import { useWidth } from './parts.js';

const BARS = 400;
const LENS = 41; // states around the cursor that keep a bar of their own
const JUMP = 20;
const MARKS = { label: '▾', failed: '✕', asked: '?', fork: 'Y', set: '✎' };

/** The segments to draw: {from, to, x, w}. Pure. */
export function segments(first, last, k, width) {
  const n = last - first + 1;
  if (n <= BARS) {
    const pitch = Math.min(48, width / n);
    const gap = pitch > 5 ? 2 : pitch > 2.5 ? 0.6 : 0;
    return Array.from({ length: n }, (_, i) => ({ from: first + i, to: first + i, x: i * pitch, w: Math.max(0.8, pitch - gap) }));
  }
  // The lens moves in jumps of half its width, so that most moves of the cursor change two bars only.
  const a = Math.max(first, Math.min(Math.round((k - first) / JUMP) * JUMP + first - (LENS >> 1), last - LENS + 1));
  const b = a + LENS - 1;
  const lens = Math.min(width * 0.4, LENS * 7);
  const rest = n - LENS;
  const room = width - lens - 8;
  const out = [];
  const many = (from, to, x, w) => {
    const size = to - from + 1;
    if (size <= 0 || w <= 0) return;
    const buckets = Math.max(1, Math.min(Math.floor(w / 3), size));
    for (let i = 0; i < buckets; i++) {
      out.push({ from: from + Math.floor((size * i) / buckets), to: from + Math.floor((size * (i + 1)) / buckets) - 1, x: x + (w * i) / buckets, w: Math.max(0.4, w / buckets - 0.6), many: true });
    }
  };
  const left = (room * (a - first)) / rest;
  many(first, a - 1, 0, left);
  for (let i = 0; i < LENS; i++) out.push({ from: a + i, to: a + i, x: left + 4 + (lens * i) / LENS, w: lens / LENS - 1 });
  many(b + 1, last, left + lens + 8, room - left);
  return out;
}

export function Chain({ first, last, committed, k, marks = [], name, items, onMove }) {
  const [ref, { width }] = useWidth(600);
  const slider = useRef(null);
  const wide = Math.max(120, width - 24);
  const all = last - first + 1 <= BARS;
  const parts = useMemo(() => segments(first, last, all ? 0 : k, wide), [first, last, wide, all ? 0 : Math.round((k - first) / JUMP)]);
  const pick = (event) => {
    const x = event.clientX - slider.current.getBoundingClientRect().left;
    let found = parts[0];
    for (const part of parts) if (part.x <= x) found = part;
    const inner = found.to > found.from ? Math.floor(((x - found.x) / found.w) * (found.to - found.from + 1)) : 0;
    onMove(Math.max(first, Math.min(last, found.from + Math.max(0, inner))));
  };
  const drag = (event) => {
    if (event.button) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    pick(event);
  };
  const key = (event) => {
    const to = { ArrowLeft: k - 1, ArrowDown: k - 1, ArrowRight: k + 1, ArrowUp: k + 1, PageUp: k + 10, PageDown: k - 10, Home: first, End: last }[event.key];
    if (to === undefined || event.shiftKey || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    event.stopPropagation();
    onMove(Math.max(first, Math.min(last, to)));
  };
  const noted = marks.filter((mark) => mark.step >= first && mark.step <= last);
  const place = (step) => parts.find((part) => step >= part.from && step <= part.to);
  return html`<div class="chain" ref=${ref}>
    <div class="slider" ref=${slider} role="slider" tabindex="0" aria-label="State of the run" aria-valuemin=${first} aria-valuemax=${last} aria-valuenow=${k}
      aria-valuetext=${`S(${k})${name ? `, ${name}` : ''}${items ? `, ${plural(items, 'item')}` : ''}${k > committed ? ', provisional' : ''}`}
      onPointerDown=${drag} onPointerMove=${(e) => e.currentTarget.hasPointerCapture(e.pointerId) && pick(e)} onKeyDown=${key}>
      <svg width=${wide} height="38" aria-hidden="true">
        ${parts.map((part, i) => {
          const here = k >= part.from && k <= part.to;
          return html`<rect key=${i} class=${cx('st', here ? 'at' : part.from > committed ? 'ahead' : part.from > k ? 'later' : '', part.many && 'many')}
            x=${part.x} width=${part.w} y=${here ? 14 : 25} height=${here ? 22 : 11} rx=${part.w > 4 ? 2 : 0}/>`;
        })}
        ${noted.map((mark, i) => {
          const part = place(mark.step);
          return part && html`<text key=${i} class=${`mark m-${mark.kind}`} x=${part.x + part.w / 2} y="11" text-anchor="middle">${MARKS[mark.kind] ?? '•'}<title>S(${mark.step}) ${mark.kind} ${mark.text ?? ''}</title></text>`;
        })}
      </svg></div>
    ${!all && html`<div class="lens"><span>S(${count(first)})</span><span>${count(last - first + 1)} states; every one around S(${count(k)})</span><span>S(${count(last)})</span></div>`}
  </div>`;
}

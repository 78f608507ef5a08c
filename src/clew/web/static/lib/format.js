// Numbers, durations and times as people read them. Times in the data are seconds since 1970.

const DAY = 86400;
const WEEKDAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** 1234567 -> "1,234,567" */
export function count(n) {
  return n == null ? '' : String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** "1 step", "3 steps" */
export function plural(n, word, many = `${word}s`) {
  return `${count(n)} ${n === 1 ? word : many}`;
}

/** A duration in seconds, with about three digits. */
export function duration(s) {
  if (s == null || Number.isNaN(s)) return '';
  if (s < 0) s = 0;
  if (s === 0) return '0';
  if (s < 0.001) return '< 1 ms';
  if (s < 0.01) return `${trim((s * 1000).toFixed(1))} ms`;
  if (s < 0.9995) return `${Math.round(s * 1000)} ms`;
  if (s < 9.995) return `${s.toFixed(2)} s`;
  if (s < 59.95) return `${s.toFixed(1)} s`;
  if (s < 3599.5) { const t = Math.round(s); return pair(t, 60, 'min', 's'); }
  if (s < DAY - 30) { const m = Math.round(s / 60); return pair(m, 60, 'h', 'min'); }
  return pair(Math.round(s / 3600), 24, 'd', 'h');
}

/** "1 min 5 s", "2 d". */
const pair = (n, size, large, small) => `${Math.floor(n / size)} ${large}${n % size ? ` ${n % size} ${small}` : ''}`;
const trim = (text) => text.replace(/\.0$/, '');

/** A distance in time with one unit: "3 s", "2 min", "5 h", "1 d". */
export function rough(s) {
  s = Math.max(0, s);
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < DAY) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / DAY)} d`;
}

export const ago = (t, now) => (t == null ? '' : `${rough(now - t)} ago`);

const two = (n) => String(n).padStart(2, '0');

/** "03:01:13" in local time. */
export function clock(t) {
  if (t == null) return '';
  const d = new Date(t * 1000);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** "16 Nov 03:01:13", with the year if it is not the current one. */
export function moment(t, now = Date.now() / 1000) {
  if (t == null) return '';
  const d = new Date(t * 1000);
  const year = d.getFullYear() === new Date(now * 1000).getFullYear() ? '' : ` ${d.getFullYear()}`;
  return `${d.getDate()} ${MONTHS[d.getMonth()]}${year} ${clock(t)}`;
}

/** The heading of a day in a list: "today", "yesterday", "Saturday 14 Nov". */
export function day(t, now = Date.now() / 1000) {
  const midnight = (s) => { const d = new Date(s * 1000); d.setHours(0, 0, 0, 0); return d.getTime(); };
  const back = Math.round((midnight(now) - midnight(t)) / (DAY * 1000));
  if (back <= 0) return 'today';
  if (back === 1) return 'yesterday';
  const d = new Date(t * 1000);
  const name = `${d.getDate()} ${MONTHS[d.getMonth()]}`;
  if (back < 7) return `${WEEKDAYS[d.getDay()]} ${name}`;
  return d.getFullYear() === new Date(now * 1000).getFullYear() ? name : `${name} ${d.getFullYear()}`;
}

export function bytes(n) {
  if (n == null) return '';
  if (n < 1000) return `${n} bytes`;
  if (n < 1e6) return `${trim((n / 1000).toFixed(1))} kB`;
  return `${trim((n / 1e6).toFixed(1))} MB`;
}

/** Cut a text after n characters. */
export const short = (text, n) => (text.length > n ? `${text.slice(0, n - 1)}…` : text);

/** "module:graph", or the graph's name if that is longer than 34 characters. */
export function targetName(target, graph) {
  if (!target) return graph || '';
  if (target.length <= 34) return target;
  return graph || target.slice(target.lastIndexOf(':') + 1);
}

/** A word for a shell. */
export const quote = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/[\x00-\x1f\x7f-\x9f]/g, '?').replace(/'/g, "'\\''")}'`);

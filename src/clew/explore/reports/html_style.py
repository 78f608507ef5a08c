"""The style and the script of the HTML report."""

from __future__ import annotations

STYLE = """
body.clew-page{margin:0;background:#f4f6f9}
.clew-x{--ink:#1c2430;--soft:#5b6675;--line:#dce1e8;--card:#fff;--red:#c62828;--blue:#3f6fd1;--pale:#eaf1ff;
--blush:#ffe3e3;--mono:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
max-width:1080px;margin:0 auto;padding:24px 16px 64px;color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
.clew-x header{border-radius:10px;padding:18px 22px;color:#fff}
.clew-x header.good{background:#2e7d4f}.clew-x header.warn{background:#9a6a12}.clew-x header.bad{background:var(--red)}
.clew-x header h1{margin:0;font-size:26px;line-height:1.2;color:#fff}.clew-x header p{margin:4px 0 0;opacity:.92}
.clew-x section{background:var(--card);border:1px solid var(--line);border-radius:10px;margin-top:16px;
padding:16px 22px}
.clew-x h2{margin:0 0 6px;font-size:18px}
.clew-x .figures{display:flex;flex-wrap:wrap;gap:8px 40px}
.clew-x .figures b{display:block;font-size:20px}.clew-x .figures span,.clew-x .note,.clew-x .confirmation,.clew-x .more
{color:var(--soft);font-size:13px}
.clew-x p{margin:4px 0}.clew-x .message{font-size:16px}
.clew-x .violation{border-left:5px solid var(--red)}
.clew-x .violation.medium{border-left-color:#c58a1c}.clew-x .violation.low{border-left-color:#8a94a3}
.clew-x .violation.chosen{box-shadow:0 0 0 2px var(--red)}
.clew-x .badge{font-size:11px;text-transform:uppercase;letter-spacing:.06em;background:var(--red);color:#fff;
border-radius:4px;padding:2px 7px;vertical-align:2px}
.clew-x .medium .badge{background:#9a6a12}.clew-x .low .badge{background:#667080}
.clew-x ol{margin:10px 0;padding-left:28px}.clew-x li{margin:5px 0;padding-left:4px}
.clew-x li>b{font-family:var(--mono);font-size:14px}.clew-x li>span{color:var(--soft);font-size:12px;margin-left:6px}
.clew-x .raised{color:var(--red);font-weight:600;font-style:normal;font-size:13px}
.clew-x table{border-collapse:collapse;font:13px/1.5 var(--mono)}
.clew-x li table{margin:2px 0 2px 2px;font-size:12px}
.clew-x td,.clew-x th{text-align:left;font-weight:400;padding:1px 14px 1px 0;vertical-align:top;overflow-wrap:anywhere;
background:none;border:0}
.clew-x li th{color:var(--soft)}
.clew-x .actions td{text-align:right}.clew-x .actions thead *{color:var(--soft);font-size:12px}
.clew-x .actions .never{color:var(--soft);text-decoration:line-through}
.clew-x pre{font:12px/1.45 var(--mono);overflow:auto;background:#8a94a31a;border-radius:6px;padding:10px;margin:8px 0 0;
max-height:340px}
.clew-x button{font:inherit;font-size:13px;border:1px solid var(--line);background:none;color:var(--blue);
border-radius:6px;padding:4px 12px;cursor:pointer}
.clew-x button:hover{border-color:var(--blue)}
.clew-x details summary{cursor:pointer;color:var(--soft);font-size:13px}
.clew-x .canvas{overflow:auto;max-height:78vh;margin-top:8px}
.clew-x svg{display:block;margin:0 auto;width:100%;height:auto}
.clew-x svg text{font:11px var(--mono);fill:var(--ink);text-anchor:middle}
.clew-x .state rect{fill:var(--pale);stroke:var(--blue);stroke-width:1.2}
.clew-x .state.initial rect{stroke-width:2.6}
.clew-x .state.violating rect{fill:var(--blush);stroke:var(--red);stroke-width:2}
.clew-x .state{cursor:pointer;outline:none}.clew-x .state:focus-visible rect{stroke-dasharray:4 2}
.clew-x .state .number{font-weight:700}
.clew-x .line{fill:none;stroke:#8894a5;stroke-width:1.2}.clew-x .tip{fill:#8894a5}
.clew-x svg .name{fill:var(--soft);font-size:10.5px}
.clew-x .back .line{stroke-width:.9}.clew-x .arrow.back{opacity:.28}
.clew-x .arrow.violating{opacity:1}
.clew-x .violating .line{stroke:var(--red);stroke-width:2.4}.clew-x .violating .tip{fill:var(--red)}
.clew-x svg .violating .name{fill:var(--red);font-weight:700}
.clew-x .focused .arrow,.clew-x .focused .state{opacity:.13}
.clew-x .focused .arrow.on,.clew-x .focused .state.on{opacity:1}
.clew-x .focused.ways .arrow.on:not(.violating) .line{stroke:var(--blue);stroke-width:2}
.clew-x .state.chosen rect{stroke-width:3}
@media (prefers-color-scheme:dark){
body.clew-page{background:#12161c}
.clew-x{--ink:#e8edf4;--soft:#a1adbd;--line:#2c3542;--card:#191f28;--red:#ef6b6b;--blue:#7ea6f5;--pale:#1c2a47;
--blush:#4a1f24}
.clew-x header.bad{background:#a52a2a}.clew-x .badge{color:#14181f}.clew-x .line{stroke:#76839a}
.clew-x .tip{fill:#76839a}}
@media (max-width:560px){.clew-x{padding:12px 8px 48px}.clew-x section{padding:12px 14px}.clew-x .figures{gap:8px 24px}}
@media print{.clew-x .canvas{max-height:none}.clew-x button{display:none}}
"""

SCRIPT = """
(() => {
  const root = document.querySelector('.clew-x'), svg = root.querySelector('svg.states');
  const detail = root.querySelector('.detail'), data = JSON.parse(document.getElementById('clew-data').textContent);
  const arrows = [...svg.querySelectorAll('.arrow')], states = [...svg.querySelectorAll('.state')];
  const sections = [...root.querySelectorAll('.violation')];
  const clear = () => {
    svg.classList.remove('focused', 'ways');
    for (const each of [...arrows, ...states]) each.classList.remove('on', 'chosen');
    for (const each of sections) each.classList.remove('chosen');
    detail.hidden = true;
  };
  const goes = (each, number) => (each.dataset.paths || '').split(' ').includes(number);
  const showPath = (section) => {
    const again = section.classList.contains('chosen');
    clear();
    if (again) return;
    const number = section.dataset.number;
    section.classList.add('chosen');
    svg.classList.add('focused');
    for (const each of [...arrows, ...states]) if (goes(each, number)) each.classList.add('on');
    svg.scrollIntoView({behavior: 'smooth', block: 'nearest'});
  };
  const showState = (state) => {
    const again = state.classList.contains('chosen');
    clear();
    if (again) return;
    const id = state.dataset.id, near = new Set([id]);
    svg.classList.add('focused', 'ways');
    for (const each of arrows) if (each.dataset.from === id || each.dataset.to === id) {
      each.classList.add('on'); near.add(each.dataset.from); near.add(each.dataset.to);
    }
    for (const each of states) if (near.has(each.dataset.id)) each.classList.add('on');
    state.classList.add('chosen');
    const ways = arrows.filter((each) => each.dataset.from === id)
      .map((each) => each.querySelector('title').textContent);
    const out = ways.length ? '\\nleaves by: ' + ways.join(', ') : '';
    detail.textContent = 'state ' + id + '\\n' + (data[id] || '') + out;
    detail.hidden = false;
  };
  for (const section of sections) {
    const button = section.querySelector('.show');
    button.hidden = false;
    button.addEventListener('click', () => showPath(section));
  }
  for (const state of states) {
    state.addEventListener('click', () => showState(state));
    state.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); showState(state); }
    });
  }
  document.addEventListener('keydown', (event) => { if (event.key === 'Escape') clear(); });
})();
"""

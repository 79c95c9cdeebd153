#include "fovea/html/page_style.h"

namespace fovea::html {

// Series colours are told apart by people who are colour-blind (after Okabe and Ito, 2008), with
// lighter twins for the dark scheme.
const std::string_view kPageStyle = R"css(
:root {
  --page: #f6f7f9; --card: #ffffff; --text: #16202c; --muted: #5a6675; --line: #d9dee5;
  --grid: #e8ebef; --right: #0a7d4b; --wrong: #c0392b; --heat-right: 0, 98, 177;
  --heat-wrong: 213, 94, 0; --shade: #eef1f5;
  --c0: #0062b1; --c1: #c4500a; --c2: #0a7d5a; --c3: #9b4f96; --c4: #8a6a00; --c5: #0086a8;
  --c6: #b0344c; --c7: #55606e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f141a; --card: #181f27; --text: #e6ebf1; --muted: #9aa7b5; --line: #323d49;
    --grid: #28323c; --right: #4cc98f; --wrong: #ff8172; --heat-right: 76, 164, 235;
    --heat-wrong: 240, 132, 56; --shade: #222b35;
    --c0: #5cb0f2; --c1: #f2924d; --c2: #4cc9a0; --c3: #d592d0; --c4: #e0bd4a; --c5: #56c7e3;
    --c6: #f28a9c; --c7: #a9b4c0;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
header, main, footer { max-width: 1120px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 28px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 0 0 12px; }
h3 { font-size: 1rem; margin: 16px 0 8px; }
p { margin: 0 0 12px; }
.lead, .note, footer { color: var(--muted); }
.note { font-size: .875rem; }
.warning { border-left: 4px solid var(--wrong); padding: 8px 12px; background: var(--card);
  overflow-wrap: anywhere; }
main { padding-top: 16px; }
nav { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 12px 0 0; font-size: .9rem; }
a { color: var(--c0); }
section {
  background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 20px; margin: 20px 0;
}
footer { padding-bottom: 32px; font-size: .85rem; overflow-wrap: anywhere; }
.figures {
  display: grid; gap: 12px; margin: 4px 0 0; padding: 0; list-style: none;
  grid-template-columns: repeat(auto-fit, minmax(150px, 1fr));
}
.figures li {
  background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 12px 16px; min-width: 0;
}
.figures span { display: block; color: var(--muted); font-size: .85rem; }
.figures strong { font-size: 1.5rem; line-height: 1.3; white-space: nowrap; }
.charts {
  display: grid; gap: 28px; margin-bottom: 24px;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr));
}
.charts.small { gap: 20px; grid-template-columns: repeat(auto-fill, minmax(min(100%, 300px), 1fr)); }
.charts:last-child { margin-bottom: 0; }
figure { margin: 0; min-width: 0; position: relative; }
figcaption { font-weight: 600; font-size: .95rem; }
.legend {
  display: flex; flex-wrap: wrap; gap: 0 14px; font-size: .85rem; color: var(--muted);
  list-style: none; margin: 0; padding: 0; min-height: 1.5em;
}
.legend li { overflow-wrap: anywhere; }
.legend i {
  display: inline-block; width: 16px; height: 3px; border-radius: 2px; margin-right: 6px;
  vertical-align: middle;
}
svg { display: block; width: 100%; height: auto; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  fill: var(--muted); }
.chart svg { touch-action: pan-y; }
.grid { stroke: var(--grid); stroke-width: 1; }
.axis { stroke: var(--line); stroke-width: 1; }
.cursor { stroke: var(--muted); stroke-width: 1; stroke-dasharray: 3 3; visibility: hidden; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.faint { stroke-width: 1; opacity: .32; }
.broken { stroke: var(--wrong); stroke-width: 2; }
.tip {
  position: absolute; z-index: 2; pointer-events: none; background: var(--card); font-size: .8rem;
  border: 1px solid var(--line); border-radius: 6px; padding: 4px 8px; white-space: nowrap;
  box-shadow: 0 2px 8px rgba(0, 0, 0, .2);
}
.tip div::before {
  content: ""; display: inline-block; width: 9px; height: 9px; border-radius: 50%;
  margin-right: 6px; background: var(--dot, transparent);
}
.s0 { stroke: var(--c0); } .s1 { stroke: var(--c1); } .s2 { stroke: var(--c2); }
.s3 { stroke: var(--c3); } .s4 { stroke: var(--c4); } .s5 { stroke: var(--c5); }
.s6 { stroke: var(--c6); } .s7 { stroke: var(--c7); }
.b0 { background: var(--c0); } .b1 { background: var(--c1); } .b2 { background: var(--c2); }
.b3 { background: var(--c3); } .b4 { background: var(--c4); } .b5 { background: var(--c5); }
.b6 { background: var(--c6); } .b7 { background: var(--c7); }
.f0 { fill: var(--c0); } .f1 { fill: var(--c1); } .f2 { fill: var(--c2); } .f3 { fill: var(--c3); }
.f4 { fill: var(--c4); } .f5 { fill: var(--c5); } .f6 { fill: var(--c6); } .f7 { fill: var(--c7); }
.heat-right { fill: rgb(var(--heat-right)); }
.heat-wrong { fill: rgb(var(--heat-wrong)); }
.heat .name { fill: var(--text); }
.heat .count { fill: var(--text); text-anchor: middle; }
.heat .count.strong { fill: #fff; }
@media (prefers-color-scheme: dark) { .heat .count.strong { fill: #0b1015; } }
.heat svg { max-width: 760px; margin: 0 auto; }
.scroll { overflow: auto; max-height: 560px; }
.scroll.plain { max-height: none; }
.scroll + .scroll, .scroll + .charts { margin-top: 24px; }
.scroll:focus-visible { outline: 2px solid var(--c0); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
caption { text-align: left; color: var(--muted); font-size: .85rem; padding-bottom: 6px; }
th, td { text-align: left; padding: 5px 10px; border-bottom: 1px solid var(--line);
  vertical-align: top; max-width: 28em; overflow-wrap: break-word; }
td:not(.number), thead th:not(.number) { overflow-wrap: anywhere; }
thead th { position: sticky; top: 0; background: var(--card); }
tbody th { font-weight: 500; min-width: 8em; }
thead th { white-space: nowrap; }
thead th.number { white-space: normal; vertical-align: bottom; }
.dense th, .dense td { padding: 5px 6px; font-size: .85rem; }
.dense tbody th { min-width: 5em; overflow-wrap: anywhere; }
tbody tr:last-child > * { border-bottom: 0; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.facts { overflow: visible; max-height: none; }
.facts td { overflow-wrap: anywhere; }
.facts tbody th { color: var(--muted); width: 34%; min-width: 110px; }
.bar { display: inline-block; width: 72px; height: 8px; border-radius: 2px; overflow: hidden;
  background: var(--shade); margin-right: 8px; }
.bar i { display: block; height: 100%; background: var(--c0); }
.samples {
  display: grid; gap: 14px; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr));
  list-style: none; margin: 0; padding: 0;
}
.sample { border: 2px solid var(--line); border-radius: 8px; overflow: hidden; min-width: 0; }
.sample.right { border-color: var(--right); }
.sample.wrong { border-color: var(--wrong); }
.samples.wide { grid-template-columns: repeat(auto-fill, minmax(min(100%, 340px), 1fr)); }
.samples.large { grid-template-columns: repeat(auto-fill, minmax(min(100%, 480px), 1fr)); }
.strip { display: grid; grid-auto-flow: column; grid-auto-columns: minmax(0, 1fr); gap: 6px;
  align-items: center; margin-top: 8px; font-size: .85rem; color: var(--muted); }
.strip img { display: block; width: 100%; height: auto; }
.strip + small { color: var(--muted); overflow-wrap: anywhere; }
.sample img, .sample .no-image { display: block; width: 100%; height: auto; aspect-ratio: 1;
  object-fit: contain; background: #000; }
.sample .no-image { background: var(--shade); color: var(--muted); text-align: center;
  padding-top: 40%; font-size: .8rem; }
.wide .sample img, .large .sample img { aspect-ratio: auto; }
.pixelated { image-rendering: pixelated; }
.sample div.body { padding: 6px 8px 8px; font-size: .85rem; line-height: 1.35; }
.verdict { font-weight: 600; overflow-wrap: anywhere; }
.right .verdict { color: var(--right); }
.wrong .verdict { color: var(--wrong); }
.sample small { color: var(--muted); display: block; overflow-wrap: anywhere; }
.scores { list-style: none; margin: 4px 0 0; padding: 0; font-size: .78rem; }
.scores li { position: relative; display: flex; justify-content: space-between; gap: 6px;
  padding: 1px 4px; }
.scores li > * { position: relative; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
.scores li > :last-child { flex: none; overflow: visible; }
.scores .fill { position: absolute; inset: 1px auto 1px 0; background: var(--c0); opacity: .22;
  border-radius: 3px; }
.scores .is-label .fill { background: var(--right); opacity: .32; }
pre { margin: 0; overflow: auto; font: .82rem/1.45 ui-monospace, "DejaVu Sans Mono", monospace;
  background: var(--shade); border-radius: 8px; padding: 12px; max-height: 560px; }
details summary { cursor: pointer; font-weight: 600; padding: 4px 0; }
@media (max-width: 520px) {
  header, main, footer { padding-left: 12px; padding-right: 12px; }
  section { padding: 14px; }
  svg text { font-size: 14px; }
  .heat svg text { font-size: 12px; }
  th, td { padding: 5px 7px; }
  h1 { font-size: 1.35rem; }
  .figures { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .figures strong { font-size: 1.2rem; }
  .bar { display: none; }
  .samples { grid-template-columns: repeat(auto-fill, minmax(130px, 1fr)); }
}
@media print { section { break-inside: avoid-page; } .scroll, pre { max-height: none; } }
)css";

const std::string_view kPageScript = R"js(
'use strict';
for (const figure of document.querySelectorAll('figure[data-chart]')) {
  const chart = JSON.parse(figure.dataset.chart);
  const svg = figure.querySelector('svg');
  const cursor = svg.querySelector('.cursor');
  const tip = document.createElement('div');
  tip.className = 'tip';
  tip.hidden = true;
  figure.append(tip);
  const nearest = (xs, x) => {
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] < x) low = middle; else high = middle;
    }
    return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
  };
  const show = event => {
    const box = svg.getBoundingClientRect();
    const pixel = (event.clientX - box.left) / box.width * chart.width;
    const share = (pixel - chart.left) / (chart.right - chart.left);
    if (share < -0.02 || share > 1.02) return hide();
    const wanted = chart.low + share * (chart.high - chart.low);
    let at = null;
    for (const series of chart.series) {
      const x = series.x[nearest(series.x, wanted)];
      if (at === null || Math.abs(x - wanted) < Math.abs(at - wanted)) at = x;
    }
    if (at === null) return;
    const head = document.createElement('b');
    head.textContent = chart.label + ' ' + at.toLocaleString('en');
    tip.replaceChildren(head);
    for (const series of chart.series) {
      const line = document.createElement('div');
      const i = nearest(series.x, at);
      line.style.setProperty('--dot', 'var(--c' + series.color + ')');
      line.textContent = series.name + ' ' + series.y[i];
      tip.append(line);
    }
    const place = chart.left + (at - chart.low) / (chart.high - chart.low || 1) *
      (chart.right - chart.left);
    cursor.setAttribute('x1', place);
    cursor.setAttribute('x2', place);
    cursor.style.visibility = 'visible';
    tip.hidden = false;
    const left = place / chart.width * box.width;
    tip.style.left = (left > box.width / 2 ? left - tip.offsetWidth - 10 : left + 10) + 'px';
    tip.style.top = (svg.offsetTop + 8) + 'px';
  };
  const hide = () => { tip.hidden = true; cursor.style.visibility = 'hidden'; };
  svg.addEventListener('pointermove', show);
  svg.addEventListener('pointerdown', show);
  svg.addEventListener('pointerleave', hide);
}
)js";

}  // namespace fovea::html

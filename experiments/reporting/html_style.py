"""The style sheet of every page: system fonts, light and dark, wide tables that scroll.

What scrolls says so: a shadow lies on its right edge until the end is reached (one layer of the
background stays, the other moves with the content and covers it), and browsers that know timelines
of scrolling add a word. The first column of a table stays. On a phone rows of small tables become
cards.
"""

STYLE = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1c2128; --soft: #57606a; --line: #dde1e6;
  --accent: #0072b2; --good: #0b6b45; --good-fill: #d9f2e6; --bad: #9b2216; --bad-fill: #fde3df;
  --open: #7a5200; --open-fill: #fdf0cf; --code: #eef0f3; --stripe: #1c21280a;
  --shade: #1c212840; --none: #ffffff00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1318; --card: #171c23; --ink: #e4e8ee; --soft: #9aa5b1; --line: #2d353f;
    --accent: #6cb8e6; --good: #7ddcae; --good-fill: #123a2a; --bad: #ff9c8f; --bad-fill: #4a1c17;
    --open: #f3cc72; --open-fill: #42330d; --code: #10151b; --stripe: #e4e8ee0a;
    --shade: #000000e6; --none: #171c2300;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink); overflow-wrap: anywhere;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
header, main { max-width: 1360px; margin: 0 auto; padding: 0 24px; }
header { padding-top: 44px; }
h1 { font-size: 2rem; line-height: 1.2; letter-spacing: -0.01em; margin: 0 0 14px; }
h2 { font-size: 1.3rem; margin: 0 0 12px; }
h3 { font-size: 1rem; margin: 26px 0 8px; }
h2 + h3, h2 + .block > h3:first-child { margin-top: 0; }
p { margin: 0 0 12px; max-width: 78ch; }
.lead { font-size: 1.06rem; }
nav { display: flex; flex-wrap: wrap; gap: 6px 18px; margin: 18px 0 26px; font-size: .92rem; }
a { color: var(--accent); text-decoration: none; }
a:hover, a:focus { text-decoration: underline; }
section {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 24px 26px; margin: 0 0 22px;
}
.scroll {
  overflow-x: auto; position: relative;
  background:
    linear-gradient(to left, var(--card) 40%, var(--none)) right / 64px 110% no-repeat local,
    linear-gradient(to left, var(--shade), transparent) right / 14px 100% no-repeat scroll;
}
.scroll::before {
  content: "more to the right \\2192"; position: sticky; left: 0; display: block; height: 0;
  overflow: hidden; text-align: right; color: var(--soft); font-size: .78rem;
}
@supports (animation-timeline: scroll()) {
  .scroll::before { animation: told linear both; animation-timeline: scroll(nearest inline); }
}
@keyframes told { from, 85% { height: 1.7em; opacity: 1; } to { height: 1.7em; opacity: 0; } }
.scroll:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table {
  border-collapse: separate; border-spacing: 0; width: 100%; overflow-wrap: normal;
  font-size: .88rem; font-variant-numeric: tabular-nums;
}
th, td {
  padding: 8px; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line);
}
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; border-bottom-width: 2px; }
tbody th { font-weight: 600; min-width: 10em; max-width: 18em; overflow-wrap: anywhere; }
th:first-child { position: sticky; left: 0; z-index: 1; background: var(--card); }
tbody tr:nth-child(even) > td { background: var(--stripe); }
tbody tr:nth-child(even) > th {
  background: linear-gradient(var(--stripe), var(--stripe)), var(--card);
}
tbody tr:last-child > * { border-bottom: 0; }
td, .number { white-space: nowrap; }
td:last-child:not(.number), td.long { white-space: normal; }
td.long { min-width: 15em; overflow-wrap: anywhere; }
.number { text-align: right; }
thead .number { white-space: normal; }
.also { display: none; }
.detail { color: var(--soft); font-size: .92em; }
.note, figcaption { color: var(--soft); font-size: .88rem; margin: 10px 0 0; max-width: 92ch; }
.badge {
  display: inline-block; padding: 1px 10px; border-radius: 999px; font-weight: 600;
  font-size: .82rem; white-space: nowrap;
}
.good { color: var(--good); background: var(--good-fill); }
.bad { color: var(--bad); background: var(--bad-fill); }
.open { color: var(--open); background: var(--open-fill); }
figure { margin: 0; }
figure + figure, .block + .block { margin-top: 30px; }
.block + p { margin-top: 24px; }
figure img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
ul { margin: 0 0 12px; padding-left: 1.2em; max-width: 78ch; }
li { margin: 3px 0; }
pre {
  background: var(--code); border: 1px solid var(--line); border-radius: 8px; margin: 12px 0;
  padding: 12px 14px; white-space: pre-wrap;
  font: .88rem/1.5 ui-monospace, Menlo, Consolas, monospace;
}
@media (max-width: 640px) {
  header, main { padding: 0 12px; }
  header { padding-top: 24px; }
  section { padding: 18px 14px; border-radius: 8px; }
  h1 { font-size: 1.5rem; }
  tbody th { min-width: 9.5em; max-width: 11em; overflow-wrap: break-word; }
  .slim tbody th { min-width: 6em; }
  .slim td { white-space: normal; }
  .also { display: block; font-weight: 400; color: var(--soft); }
  .folded { display: none; }
  .cards, .cards tbody, .cards tr, .cards th[scope=row] { display: block; }
  .cards thead { position: absolute; width: 1px; height: 1px; overflow: hidden; }
  .cards tr { padding: 10px 0; border-bottom: 1px solid var(--line); }
  .cards tr:last-child { border-bottom: 0; }
  .cards tbody tr:nth-child(n) > * {
    position: static; border: 0; padding: 3px 0; background: none;
  }
  .cards tbody th { max-width: none; font-size: .95rem; }
  .cards th[data-label]::before { content: attr(data-label) "\\00a0"; }
  .cards tr > td.none { display: none; }
  .cards tr > td:not(.none) {
    display: flow-root; white-space: normal; overflow-wrap: anywhere; text-align: right;
  }
  .cards td::before {
    content: attr(data-label); color: var(--soft); float: left; max-width: 55%;
    padding-right: 12px; text-align: left;
  }
  .cards tr > td.long { text-align: left; }
  .cards td.long::before { float: none; display: block; max-width: none; }
}
@media print {
  body { background: none; }
  nav { display: none; }
  section { border: 0; padding: 0; }
  figure, tr { break-inside: avoid; }
}
"""

#include "fovea/serve/http/page_files.h"

namespace fovea::serve {

const std::string_view kPageHtml = R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Fovea</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="page.css">
<script src="page.js" defer></script>
</head>
<body>
<header><h1>Fovea</h1><p id="server">asking the server</p></header>
<main>
<form id="key-form" hidden>
  <label for="key">Key of this server</label>
  <input id="key" type="password" autocomplete="current-password">
  <button>Use it</button>
</form>
<section aria-labelledby="models-title">
  <h2 id="models-title">Models</h2>
  <table>
    <thead><tr><th>name</th><th>state</th><th>answers with</th><th>images</th>
      <th>mean time</th></tr></thead>
    <tbody id="models"></tbody>
  </table>
</section>
<section aria-labelledby="try-title">
  <h2 id="try-title">Try one</h2>
  <div class="controls">
    <label>Model <select id="model"></select></label>
    <label class="extra" hidden><input id="attention" type="checkbox" checked> attention</label>
  </div>
  <label id="drop" for="file" tabindex="0">
    <input id="file" type="file">
    <span>Drop an image here, or choose one</span>
  </label>
  <p id="problem" role="alert" hidden></p>
  <div id="answer" aria-live="polite" hidden>
    <figure id="sent"><img alt="the image that was sent"><figcaption></figcaption></figure>
    <div id="result"></div>
  </div>
</section>
</main>
<footer>The page talks to this server alone.</footer>
</body>
</html>
)html";

const std::string_view kPageCss = R"css(
:root {
  --page: #f6f7f9; --card: #fff; --text: #16202c; --muted: #5a6675; --line: #d9dee5;
  --mark: #0062b1; --good: #0a7d4b; --bad: #c0392b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f141a; --card: #181f27; --text: #e6ebf1; --muted: #9aa7b5; --line: #323d49;
    --mark: #5cb0f2; --good: #4cc98f; --bad: #ff8172;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
header, main, footer { max-width: 960px; margin: 0 auto; padding: 0 20px; }
header { display: flex; align-items: baseline; gap: 16px; padding-top: 24px; }
h1 { margin: 0; font-size: 1.6rem; }
h2 { font-size: 1.1rem; margin: 0 0 12px; }
header p, footer, figcaption, .muted { color: var(--muted); }
footer { padding: 16px 20px 32px; font-size: 0.9rem; }
section, form {
  background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 16px 20px; margin: 16px 0; overflow-x: auto;
}
[hidden] { display: none !important; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: 6px 16px 6px 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--muted); font-size: 0.9rem; }
tr:last-child td { border-bottom: 0; }
.ready::before, .gone::before { content: ""; display: inline-block; width: 9px; height: 9px;
  border-radius: 50%; margin-right: 7px; background: var(--bad); }
.ready::before { background: var(--good); }
.controls { display: flex; gap: 20px; margin-bottom: 12px; flex-wrap: wrap; }
select, input[type=password], button {
  font: inherit; color: inherit; background: var(--page); border: 1px solid var(--line);
  border-radius: 6px; padding: 4px 10px;
}
#drop {
  display: block; border: 2px dashed var(--line); border-radius: 10px; padding: 28px;
  text-align: center; cursor: pointer; color: var(--muted);
}
#drop:hover, #drop:focus, #drop.over { border-color: var(--mark); color: var(--text); }
#drop input { position: absolute; opacity: 0; width: 1px; height: 1px; }
#problem { color: var(--bad); overflow-wrap: anywhere; }
#answer { display: grid; grid-template-columns: minmax(160px, 300px) 1fr; gap: 24px;
  margin-top: 20px; }
@media (max-width: 640px) { #answer { grid-template-columns: 1fr; } }
figure { margin: 0 0 16px; }
figure img { max-width: 100%; max-height: 420px; border-radius: 6px; display: block; }
figcaption { font-size: 0.9rem; margin-top: 4px; overflow-wrap: anywhere; }
.label { font-size: 1.4rem; font-weight: 600; margin: 0 0 12px; overflow-wrap: anywhere; }
.score { display: grid; grid-template-columns: minmax(80px, 220px) 1fr 64px; gap: 10px;
  align-items: center; margin: 4px 0; }
.score span:first-child { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.score span:last-child { text-align: right; font-variant-numeric: tabular-nums; }
progress { width: 100%; height: 12px; accent-color: var(--mark); }
)css";

}  // namespace fovea::serve

#include "fovea/serve/http/page_files.h"

namespace fovea::serve {

// What models and files are called becomes text, never markup.
const std::string_view kPageJs = R"js("use strict";
const TOP = 5, REFRESH_MS = 5000;
const byId = (id) => document.getElementById(id);
let key = sessionStorage.getItem("key") || "";
let outputs = {};   // their names, by model, of those that are ready
let pictures = [];  // URLs of blobs that are shown

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

async function ask(path, options = {}) {
  const headers = {...options.headers};
  if (key) headers.Authorization = "Bearer " + key;
  const response = await fetch(path, {...options, headers});
  byId("key-form").hidden = response.status !== 401;
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw new Error(body.error || `status ${response.status}`);
}

const askJson = async (path, options) => (await ask(path, options)).json();
const pathOf = (name) => "v2/models/" + encodeURIComponent(name);

function showProblem(problem) {
  byId("problem").hidden = !problem;
  byId("problem").textContent = problem ? String(problem.message || problem) : "";
}

// Those that every answer has, and those that are given on request.
async function outputsOf(name) {
  const model = await askJson(pathOf(name)), config = await askJson(pathOf(name) + "/config");
  const more = config.parameters?.outputs_on_request?.string_value || "";
  return [...model.outputs.map((output) => output.name), ...more.split(",").filter(Boolean)];
}

async function statisticsOf(name) {
  const all = await askJson(pathOf(name) + "/stats");
  const one = all.model_stats[0];
  const success = one.inference_stats.success;
  const mean = success.count ? success.ns / success.count / 1e6 : null;
  return {images: one.inference_count, mean: mean === null ? "" : mean.toFixed(1) + " ms"};
}

async function modelRow(model) {
  const row = element("tr");
  const isReady = model.state === "READY";
  row.append(element("td", model.name));
  const state = element("td", model.state.toLowerCase(), isReady ? "ready" : "gone");
  if (model.reason) state.title = model.reason;
  row.append(state);
  if (!isReady) {
    const why = element("td", model.reason || "", "muted");
    why.colSpan = 3;
    row.append(why);
    return row;
  }
  outputs[model.name] = outputs[model.name] || await outputsOf(model.name);
  const statistics = await statisticsOf(model.name);
  row.append(element("td", outputs[model.name].join(", ")), element("td", statistics.images),
             element("td", statistics.mean));
  return row;
}

function offerModels(names) {
  const select = byId("model"), chosen = select.value;
  if ([...select.options].map((option) => option.value).join() === names.join()) return;
  select.replaceChildren(...names.map((name) => element("option", name)));
  if (names.includes(chosen)) select.value = chosen;
  offerExtras();
}

const has = (output) => (outputs[byId("model").value] || []).includes(output);

function offerExtras() {
  document.querySelector(".extra").hidden = !has("attention");
}

async function refresh() {
  try {
    const server = await askJson("v2");
    byId("server").textContent = `${server.name} ${server.version}`;
    const models = await askJson("v2/repository/index", {method: "POST"});
    const ready = models.filter((model) => model.state === "READY").map((model) => model.name);
    for (const name of Object.keys(outputs)) if (!ready.includes(name)) delete outputs[name];
    byId("models").replaceChildren(...await Promise.all(models.map(modelRow)));
    offerModels(ready);
  } catch (problem) {
    byId("server").textContent = String(problem.message);
  }
}

// The outputs that are shown, of those that the model has.
function wantedOutputs() {
  const wanted = [];
  if (has("scores")) {
    wanted.push({name: "scores", parameters: {classification: TOP, binary_data: false}});
    wanted.push({name: "labels", parameters: {binary_data: false}});
  }
  for (const name of ["mask_picture", "attention"]) {
    if (!has(name) || (name === "attention" && !byId("attention").checked)) continue;
    wanted.push({name, parameters: {binary_data: true}});
  }
  return wanted;
}

// The protocol's binary form: JSON, then what its tensors hold, each text behind its length.
function requestOf(file) {
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, file.size, true);
  const head = new TextEncoder().encode(JSON.stringify({
    inputs: [{name: "image", datatype: "BYTES", shape: [1, 1],
              parameters: {binary_data_size: file.size + 4}}],
    outputs: wantedOutputs(),
  }));
  return {
    method: "POST", body: new Blob([head, length, file]),
    headers: {"Inference-Header-Content-Length": String(head.length)},
  };
}

async function answerOf(response) {
  const bytes = new Uint8Array(await response.arrayBuffer());
  const headLength = response.headers.get("Inference-Header-Content-Length");
  const end = headLength === null ? bytes.length : Number(headLength);
  const answer = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)));
  let offset = end;
  const found = {};
  for (const output of answer.outputs) {
    const size = output.parameters?.binary_data_size;
    found[output.name] = size === undefined ? output.data
      : bytes.subarray(offset + 4, offset + size);  // one text, behind its length
    offset += size || 0;
  }
  return found;
}

function scoreRow(text) {
  const [score, index, ...label] = text.split(":");
  const row = element("div", undefined, "score");
  const bar = element("progress");
  bar.max = 1;
  bar.value = Number(score);
  row.append(element("span", label.join(":") || index), bar,
             element("span", (100 * Number(score)).toFixed(1) + " %"));
  return row;
}

function pictureOf(blob) {
  pictures.push(URL.createObjectURL(blob));
  return pictures.at(-1);
}

function figure(bytes, caption) {
  const made = element("figure"), image = element("img");
  image.alt = caption;
  image.src = pictureOf(new Blob([bytes], {type: "image/png"}));
  made.append(image, element("figcaption", caption));
  return made;
}

function showAnswer(answer, milliseconds) {
  const parts = [];
  if (answer.labels) parts.push(element("p", answer.labels[0], "label"));
  parts.push(...(answer.scores || []).map(scoreRow));
  if (answer.mask_picture) parts.push(figure(answer.mask_picture, "mask"));
  if (answer.attention) parts.push(figure(answer.attention, "attention rollout"));
  parts.push(element("p", `answered in ${milliseconds.toFixed(0)} ms`, "muted"));
  byId("result").replaceChildren(...parts);
  byId("answer").hidden = false;
}

async function send(file) {
  if (!file) return;
  showProblem();
  if (!byId("model").value) return showProblem("no model is ready");
  pictures.splice(0).forEach(URL.revokeObjectURL);
  const shown = byId("sent").querySelector("img");
  shown.hidden = false;
  shown.onerror = () => { shown.hidden = true; };  // of a format that browsers do not show
  shown.src = pictureOf(file);
  byId("sent").querySelector("figcaption").textContent = file.name;
  const start = performance.now();
  try {
    const response = await ask(pathOf(byId("model").value) + "/infer", requestOf(file));
    showAnswer(await answerOf(response), performance.now() - start);
  } catch (problem) {
    byId("answer").hidden = true;
    showProblem(problem);
  }
  refresh();
}

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = byId("key").value.trim();
  sessionStorage.setItem("key", key);
  refresh();
});
byId("model").addEventListener("change", offerExtras);
byId("file").addEventListener("change", (event) => {
  send(event.target.files[0]);
  event.target.value = "";
});
const drop = byId("drop");
for (const name of ["dragenter", "dragover"]) {
  drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
}
drop.addEventListener("dragleave", () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  send(event.dataTransfer.files[0]);
});
drop.addEventListener("keydown", (event) => { if (event.key === "Enter") byId("file").click(); });
refresh();
setInterval(refresh, REFRESH_MS);
)js";

}  // namespace fovea::serve

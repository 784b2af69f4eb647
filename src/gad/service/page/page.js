// The page: what is typed or dropped is drawn at once, predicted, explained, and heated.

import * as api from "./api.js";
import { Operators, placeOf, timeOf } from "./heat.js";
import { Molecule, element } from "./molecule.js";
import { card, make, neighbours } from "./prediction.js";
import { Table } from "./table.js";

const $ = (id) => document.getElementById(id);
const EXAMPLES = {
  aspirin: "CC(=O)Oc1ccccc1C(=O)O",
  caffeine: "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
  ibuprofen: "CC(C)Cc1ccc(cc1)[C@@H](C)C(=O)O",
  penicillin: "CC1(C)S[C@@H]2[C@H](NC(=O)Cc3ccccc3)C(=O)N2[C@H]1C(=O)O",
  testosterone: "C[C@]12CC[C@H]3[C@@H](CCC4=CC(=O)CC[C@]34C)[C@@H]1CC[C@@H]2O",
};
const ENDINGS = {
  csv: "text/csv", tsv: "text/tab-separated-values", smi: "chemical/x-daylight-smiles",
  sdf: "chemical/x-mdl-sdfile", parquet: "application/vnd.apache.parquet",
};

const state = { models: [], target: 0, atom: 0, scheme: "implicit", filter: "dx", row: null };
const table = new Table(open);
const model = () => state.models.find((one) => one.name === $("model").value);

// ------------------------------------------------------------------ what is asked

let running = null;
function begin() {
  running?.abort();
  running = new AbortController();
  return running.signal;
}

function complain(text) {
  $("problem").textContent = text || "";
  $("problem").hidden = !text;
  $("smiles").setAttribute("aria-invalid", String(Boolean(text)));
}

async function guarded(work) {
  const signal = begin();
  try {
    await work(signal);
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    if (!(error instanceof api.Refused)) throw error;
    complain(error.message);
  }
}

function typed() {
  const lines = $("smiles").value.split("\n").map((line) => line.trim()).filter(Boolean);
  grow();
  if (lines.length > 1) return guarded((signal) => many(lines, signal));
  table.hide();
  remember(lines[0] || "");
  return lines.length ? guarded((signal) => one(lines[0], signal)) : nothing();
}

function grow() {
  const box = $("smiles");
  box.rows = Math.min(6, Math.max(1, box.value.split("\n").length));
}

function remember(smiles) {
  history.replaceState(null, "", smiles ? `#${encodeURIComponent(smiles)}` : location.pathname);
}

function nothing() {
  begin();
  complain("");
  for (const id of ["one", "heat"]) $(id).hidden = true;
}

// One molecule out of the table, or a neighbour: shown above, and the table stays.
function open(smiles) {
  if ($("many").hidden) { $("smiles").value = smiles; grow(); remember(smiles); }
  window.scrollTo({ top: 0, behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  return guarded((signal) => one(smiles, signal));
}

// ------------------------------------------------------------------ one molecule

async function one(smiles, signal) {
  const name = model().name;
  const [drawing] = await api.draw({ smiles: [smiles], geometry: true }, signal);
  if (drawing.error) {
    complain(drawing.error);
    document.querySelectorAll(".picture").forEach((p) => p.classList.add("stale"));
    return;
  }
  complain("");
  $("one").hidden = false;
  state.row = null;
  state.molecule = new Molecule($("molecule"), drawing, `The structure of ${smiles}`);
  $("share-key").hidden = true;
  $("share-note").textContent = "";
  warm(drawing);
  const { features } = model();
  if (features.length) {
    $("prediction").replaceChildren();
    $("near").replaceChildren();
    complain(`This model also wants the columns ${features.join(", ")}: open a table that has them.`);
    return;
  }
  const answer = await api.predict({ smiles: [smiles], model: name, explain: true, neighbours: 3 }, signal);
  if (signal.aborted) return;
  [state.row] = answer.predictions;
  if (state.row.error) { complain(state.row.error); return; }
  tell();
}

function tell() {
  const { targets } = model();
  const target = targets[Math.min(state.target, targets.length - 1)];
  const parts = card(state.row, target);
  if (targets.length > 1) {
    const buttons = targets.map((other, k) => {
      const button = make("button", { type: "button", textContent: other.name, onclick: () => { state.target = k; tell(); } });
      button.setAttribute("aria-pressed", String(other === target));
      return button;
    });
    parts.unshift(make("div", { className: "target" }, ...buttons));
  }
  $("prediction").replaceChildren(...parts);
  neighbours($("near"), state.row, target, open);
  share(targets.indexOf(target), target);
}

// The atoms coloured by what each adds to the prediction: of three classes or more, to the
// likeliest one.
function share(place, target) {
  const told = state.row.explanation;
  $("share-key").hidden = !told;
  $("share-note").textContent = "";
  if (!told || told.atoms.length !== state.molecule.atoms.length) return;
  const width = ({ kind, classes }) => (kind === "multiclass" ? classes.length : 1);
  const first = model().targets.slice(0, place).reduce((sum, other) => sum + width(other), 0);
  const named = target.classes[width(target) > 1
    ? target.classes.indexOf(state.row.values[target.name]) : target.classes.length - 1];
  const column = first + (width(target) > 1 ? target.classes.indexOf(named) : 0);
  const shares = told.atoms.map((own) => own[column]);
  const largest = Math.max(...shares.map(Math.abs));
  state.molecule.colour(shares, largest, (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`);
  const what = named === undefined ? target.name : `${target.name}: ${named}`;
  const unit = target.kind === "regression" ? target.unit : "in logits";
  $("share-note").textContent = `What each atom adds to ${what}; the strongest colour is ±${largest.toPrecision(2)} ${unit}.`;
}

// ------------------------------------------------------------------ heat

function warm(drawing) {
  $("heat").hidden = !drawing.geometry;
  if (!drawing.geometry) return;
  state.operators = new Operators(drawing.geometry);
  state.left = new Molecule($("heat-picture"), drawing, "Where heat starts", choose);
  state.right = new Molecule($("filter-picture"), drawing, "The directional filter of that heat");
  state.right.slopes(state.operators);
  $("heat-note").textContent = state.operators.directions > 1
    ? `The first eigenvector is not unique here: it spans ${state.operators.directions} dimensions, and the filter uses all of them, so no single direction is drawn. The answer does not depend on how the atoms are numbered.`
    : "Arrows point up the slope of the first eigenvector; the stronger, the more that bond counts. Ticks below the slider are the times that this model has learned.";
  choose(state.left.middle());
}

function choose(atom) {
  state.atom = atom;
  state.left.source(atom);
  state.right.source(atom);
  spread();
}

function spread() {
  const t = timeOf(Number($("time").value));
  const h = state.operators.heat(state.atom, t, state.scheme);
  const filtered = state.filter === "dx" ? state.operators.derivative(h) : state.operators.average(h);
  for (const [where, values, most] of [["left", h, "heat-most"], ["right", filtered, "filter-most"]]) {
    const largest = Math.max(...values.map(Math.abs), 1e-12);
    state[where].colour(Array.from(values), largest);
    $(most).textContent = largest < 1e-9 ? "0" : largest.toPrecision(2);
  }
  $("time-told").textContent = `${t < 10 ? t.toFixed(2) : t.toFixed(0)} · reaches ${Math.sqrt(t).toFixed(1)} bonds`;
  $("time").setAttribute("aria-valuetext", `time ${t.toPrecision(3)}`);
  $("heat-formula").textContent = state.scheme === "implicit" ? "h = (M + tL)⁻¹ M x" : "h = exp(−t M⁻¹L) x";
  state.told = { h: Array.from(h), filtered: Array.from(filtered), t };
}

function learned() {
  const times = (model().card.times || []).flat();
  $("learned").setAttribute("viewBox", "0 0 400 8");
  $("learned").setAttribute("preserveAspectRatio", "none");
  $("learned").replaceChildren(...times.map((t) => {
    const x = placeOf(t);
    return element("line", { x1: x, x2: x, y1: 0, y2: 6, "vector-effect": "non-scaling-stroke" });
  }));
}

let playing = null;
function play() {
  if (playing) { cancelAnimationFrame(playing); playing = null; $("play").textContent = "▶"; return; }
  const start = performance.now();
  const frame = (now) => {
    const place = Math.min(400, ((now - start) / 4000) * 400);
    $("time").value = place;
    spread();
    playing = place < 400 ? requestAnimationFrame(frame) : null;
    $("play").textContent = playing ? "❚❚" : "▶";
  };
  playing = requestAnimationFrame(frame);
}

function pressed(group, key, name) {
  for (const other of group) {
    $(`${key}-${other}`).addEventListener("click", () => {
      state[name] = other;
      for (const each of group) $(`${key}-${each}`).setAttribute("aria-pressed", String(each === other));
      spread();
    });
  }
}

// ------------------------------------------------------------------ many molecules

async function many(lines, signal) {
  const split = lines.map((line) => /^(\S+)\s*(.*)$/.exec(line).slice(1));
  const named = split.some(([, name]) => name);
  const cell = (text) => `"${text.replaceAll('"', '""')}"`;
  const rows = split.map(([smiles, name]) => (named ? `${cell(smiles)},${cell(name)}` : cell(smiles)));
  const text = `${named ? "smiles,name" : "smiles"}\n${rows.join("\n")}\n`;
  await tabled(new Blob([text]), ENDINGS.csv, signal);
  const first = split.map(([smiles]) => smiles)[0];
  if (!signal.aborted) await one(first, signal);
}

async function tabled(blob, kind, signal) {
  $("many").hidden = false;
  $("many-told").textContent = "predicting …";
  let text;
  try {
    text = await api.predictTable(blob, kind, model().name, signal);
  } catch (error) {
    if (error.name !== "AbortError") table.hide();
    throw error;
  }
  complain("");
  table.show(text);
}

function opened(file) {
  const kind = ENDINGS[file.name.split(".").pop().toLowerCase()];
  if (!kind) {
    complain(`${file.name}: tables are read as ${Object.keys(ENDINGS).join(", ")}.`);
    return;
  }
  guarded(async (signal) => {
    await tabled(file, kind, signal);
    for (const id of ["one", "heat"]) $(id).hidden = true;
    const good = table.smiles < 0 ? null : table.rows.find((row) => table.bad < 0 || row[table.bad] === "");
    if (good) await one(good[table.smiles], signal);
  });
}

// ------------------------------------------------------------------ the sketcher

let editor = null;
async function sketch() {
  $("sketcher").showModal();
  const OCL = await import("/page/openchemlib.js");
  if (!editor) editor = new OCL.CanvasEditor($("canvas"), { initialMode: "molecule" });
  let molecule = new OCL.Molecule(0, 0);
  const written = $("smiles").value.split("\n")[0].trim();
  try { if (written) molecule = OCL.Molecule.fromSmiles(written); } catch { /* begin anew */ }
  editor.setMolecule(molecule);
}

// ------------------------------------------------------------------ hands

let pause = null;
$("smiles").addEventListener("input", () => { clearTimeout(pause); pause = setTimeout(typed, 180); });
$("smiles").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) typed();
});
$("model").addEventListener("change", () => { learned(); typed(); });
$("file").addEventListener("change", (event) => { if (event.target.files[0]) opened(event.target.files[0]); event.target.value = ""; });
$("time").addEventListener("input", spread);
$("play").addEventListener("click", play);
pressed(["dx", "av"], "filter", "filter");
pressed(["implicit", "spectral"], "scheme", "scheme");
$("sketch").addEventListener("click", sketch);
$("sketch-leave").addEventListener("click", () => $("sketcher").close());
$("sketch-take").addEventListener("click", () => {
  $("sketcher").close();
  $("smiles").value = editor ? editor.getMolecule().toIsomericSmiles() : "";
  typed();
});

let dragged = 0;
const files = (event) => event.dataTransfer && Array.from(event.dataTransfer.types).includes("Files");
addEventListener("dragenter", (event) => { if (files(event)) { dragged++; $("drop").hidden = false; } });
addEventListener("dragleave", (event) => { if (files(event) && --dragged <= 0) { dragged = 0; $("drop").hidden = true; } });
addEventListener("dragover", (event) => { if (files(event)) event.preventDefault(); });
addEventListener("drop", (event) => {
  if (!files(event)) return;
  event.preventDefault();
  dragged = 0;
  $("drop").hidden = true;
  if (event.dataTransfer.files[0]) opened(event.dataTransfer.files[0]);
});

async function start() {
  for (const [name, smiles] of Object.entries(EXAMPLES)) {
    $("examples").append(make("button", { type: "button", textContent: name, onclick: () => { $("smiles").value = smiles; typed(); } }));
  }
  try {
    state.models = await api.models();
  } catch (error) { complain(error.message); return; }
  for (const { name } of state.models) $("model").append(make("option", { value: name, textContent: name }));
  learned();
  $("smiles").value = decodeURIComponent(location.hash.slice(1)) || EXAMPLES.aspirin;
  typed();
}

window.gad = state; // for the curious, and for tests
start();

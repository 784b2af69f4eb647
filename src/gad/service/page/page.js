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

const state = { models: [], smiles: null, target: 0, atom: 0, scheme: "implicit", filter: "dx", row: null };
const table = new Table(open);
const model = () => state.models.find((one) => one.name === $("model").value);
const lines = () => $("smiles").value.split("\n").map((line) => line.trim()).filter(Boolean);

// ------------------------------------------------------------------ what is asked

// One thing is asked at a time: a newer wish ends the older one, also one that waits for the typing to stop.
let running = null;
let pause = null;
function begin() {
  running?.abort();
  clearTimeout(pause);
  running = new AbortController();
  document.querySelector("main").setAttribute("aria-busy", "true");
  return running.signal;
}

// `wrong`: it is what is typed that cannot be used.
function complain(text, wrong = false) {
  $("problem").textContent = text || "";
  $("problem").hidden = !text;
  $("smiles").setAttribute("aria-invalid", String(wrong));
}

let loaded = null; // the models, on their way or here
let again = typed; // what a change of model repeats

async function guarded(work) {
  const signal = begin();
  try {
    await (loaded ??= load());
    if (!signal.aborted) await work(signal);
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof api.Refused)) throw error;
    complain(error.message);
  } finally {
    if (!signal.aborted) document.querySelector("main").setAttribute("aria-busy", "false");
  }
}

function typed() {
  again = typed;
  const asked = lines();
  grow();
  if (asked.length > 1) return guarded((signal) => many(asked, signal));
  table.hide();
  return guarded(async (signal) => (asked.length ? one(asked[0], signal) : nothing()));
}

function grow() {
  const box = $("smiles");
  box.rows = Math.min(6, Math.max(1, box.value.split("\n").length));
}

// The address names what is typed, unless that is long. What was chosen, an example or a neighbour,
// is a step that the back button undoes; typing is none.
function remember(step) {
  const text = lines().join("\n");
  const address = text && text.length < 2000 ? `#${encodeURIComponent(text)}` : location.pathname;
  history[step ? "pushState" : "replaceState"](null, "", address);
}

function recall() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch { return ""; } // not written by this page
}

function write(text, step = true) {
  $("smiles").value = text;
  remember(step);
  return typed();
}

function nothing() {
  complain("");
  for (const id of ["one", "heat", "cold"]) $(id).hidden = true;
}

// One molecule out of the table, or a neighbour: shown above, and the table stays.
function open(smiles) {
  window.scrollTo({ top: 0, behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  return $("many").hidden ? write(smiles) : guarded((signal) => one(smiles, signal));
}

// ------------------------------------------------------------------ one molecule

async function one(smiles, signal) {
  const problem = await drawn(smiles, signal);
  complain(problem, problem !== "");
  if (!problem) await predicted(smiles, signal);
}

// Pale is what is shown of another molecule than the one that is asked for.
function pale(pictures, prediction) {
  for (const part of document.querySelectorAll(".picture")) part.classList.toggle("stale", pictures);
  $("prediction-card").classList.toggle("stale", prediction);
}

// Pictures that show this molecule already stay, with the atom that was chosen. Those of another cannot
// be clicked while it comes: a click is always for the atom that is seen. Or why there are none.
async function drawn(smiles, signal) {
  if (smiles !== state.smiles) {
    pale(true, true);
    $("heat-picture").inert = true;
    const [drawing] = await api.draw({ smiles: [smiles], geometry: true }, signal);
    if (drawing.error) return drawing.error;
    state.smiles = smiles;
    state.drawing = drawing;
    state.molecule = new Molecule($("molecule"), drawing, `The structure of ${smiles}`);
    if (drawing.geometry) warm(drawing);
  }
  $("heat-picture").inert = false;
  pale(false, state.row?.smiles !== smiles);
  $("one").hidden = false;
  $("heat").hidden = !state.drawing.geometry;
  $("cold").hidden = !$("heat").hidden;
  return "";
}

async function predicted(smiles, signal) {
  const { name, features } = model();
  state.row = null;
  state.molecule.plain();
  $("share-key").classList.add("unseen");
  $("prediction-card").classList.add("stale");
  try {
    if (features.length) {
      throw new api.Refused(`This model also reads the columns ${features.join(", ")}: `
        + ($("many").hidden ? "open a table that has them." : "its predictions are in the table."));
    }
    const answer = await api.predict({ smiles: [smiles], model: name, explain: true, neighbours: 3 }, signal);
    const [row] = answer.predictions;
    if (row.error) throw new api.Refused(row.error);
    state.row = row;
    tell();
  } catch (error) {
    if (!signal.aborted) for (const id of ["prediction", "near", "share-note"]) $(id).replaceChildren();
    throw error;
  } finally {
    if (!signal.aborted) $("prediction-card").classList.remove("stale");
  }
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
  $("share-key").classList.toggle("unseen", !told);
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
  state.operators = new Operators(drawing.geometry);
  state.left = new Molecule($("heat-picture"), drawing, "Where heat starts", choose);
  state.right = new Molecule($("filter-picture"), drawing, "The directional filter of that heat");
  state.right.slopes(state.operators);
  $("heat-note").textContent = !state.operators.source.length
    ? "There is no bond here: heat stays where it is, and there is no slope to read."
    : state.operators.directions > 1
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

async function many(asked, signal) {
  const split = asked.map((line) => /^(\S+)\s*(.*)$/.exec(line).slice(1));
  const named = split.some(([, name]) => name);
  const cell = (text) => `"${text.replaceAll('"', '""')}"`;
  const rows = split.map(([smiles, name]) => (named ? `${cell(smiles)},${cell(name)}` : cell(smiles)));
  const text = `${named ? "smiles,name" : "smiles"}\n${rows.join("\n")}\n`;
  await drawn(split[0][0], signal); // at once, as if it were alone
  await tabled(new Blob([text]), ENDINGS.csv, signal);
  await first(signal);
}

async function tabled(blob, kind, signal) {
  $("many").hidden = false;
  $("many-told").textContent = "predicting …";
  try {
    const text = await api.predictTable(blob, kind, model().name, signal);
    if (!table.show(text)) throw new api.Refused("The table has no rows.");
  } catch (error) {
    if (!signal.aborted) table.hide();
    throw error;
  }
}

// Above the table, the first of its molecules that can be read.
async function first(signal) {
  const smiles = table.readable();
  return smiles === undefined ? nothing() : one(smiles, signal);
}

function opened(file) {
  const kind = ENDINGS[file.name.split(".").pop().toLowerCase()];
  if (!kind) {
    complain(`${file.name}: tables are read as ${Object.keys(ENDINGS).join(", ")}.`);
    return;
  }
  guarded(async (signal) => {
    await tabled(file, kind, signal);
    again = () => opened(file);
    $("smiles").value = "";
    grow();
    remember(false);
    await first(signal);
  });
}

// ------------------------------------------------------------------ the sketcher

let editor = null;
async function sketch() {
  $("sketcher").showModal();
  $("sketch-take").disabled = true; // until there is something to take
  let OCL;
  try { OCL = await import("/page/openchemlib.js"); } catch {
    $("sketcher").close();
    return complain(api.SILENT);
  }
  if (!editor) editor = new OCL.CanvasEditor($("canvas"), { initialMode: "molecule" });
  let molecule = new OCL.Molecule(0, 0);
  const written = $("smiles").value.split("\n")[0].trim();
  try { if (written) molecule = OCL.Molecule.fromSmiles(written); } catch { /* begin anew */ }
  editor.setMolecule(molecule);
  $("sketch-take").disabled = false;
}

// ------------------------------------------------------------------ hands

function soon(wait) {
  begin();
  $("heat-picture").inert = true;
  pause = setTimeout(() => { remember(false); typed(); }, wait);
}
$("smiles").addEventListener("input", () => soon(180));
$("smiles").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) soon(0);
});
addEventListener("popstate", () => {
  $("smiles").value = recall() || EXAMPLES.aspirin;
  typed();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is the molecule's
  $("smiles").focus();
});
$("model").addEventListener("change", () => { learned(); again(); });
$("file").addEventListener("change", (event) => { if (event.target.files[0]) opened(event.target.files[0]); event.target.value = ""; });
$("time").addEventListener("input", () => { if (playing) play(); spread(); });
$("play").addEventListener("click", play);
pressed(["dx", "av"], "filter", "filter");
pressed(["implicit", "spectral"], "scheme", "scheme");
$("sketch").addEventListener("click", sketch);
$("sketch-leave").addEventListener("click", () => $("sketcher").close());
$("sketch-take").addEventListener("click", () => {
  $("sketcher").close();
  write(editor.getMolecule().toIsomericSmiles());
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

async function load() {
  try {
    state.models = await api.models();
  } catch (error) {
    loaded = null; // the next wish asks again
    throw error;
  }
  $("model").append(...state.models.map(({ name }) => make("option", { value: name, textContent: name })));
  learned();
}

function start() {
  for (const [name, smiles] of Object.entries(EXAMPLES)) {
    $("examples").append(make("button", { type: "button", textContent: name, onclick: () => write(smiles) }));
  }
  // Something may be typed already, while the page was on its way.
  write($("smiles").value || recall() || EXAMPLES.aspirin, false);
}

window.gad = state; // for the curious, and for tests
start();

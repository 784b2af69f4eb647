// What is known of one molecule: its value, how sure it is, and what it is like.

import { draw } from "./api.js";
import { element, picture } from "./molecule.js";

export function make(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export const shown = (value) => (typeof value !== "number" ? String(value ?? "–")
  : (Math.abs(value) >= 1e5 || (Math.abs(value) < 1e-3 && value !== 0)
    ? value.toExponential(2) : value.toFixed(Math.abs(value) >= 100 ? 1 : 2)).replace("-", "−"));

const DOMAIN = {
  inside: "like the molecules it has learned from",
  edge: "at the edge of what it has learned from",
  outside: "unlike what it has learned from",
};

// The card of one target of one row.
export function card(row, target) {
  const value = row.values[target.name];
  const parts = [];
  const title = make("div", { className: "value" });
  const odds = target.kind === "binary" && !target.classes.length;
  title.append(odds ? `${shown(100 * value)} %` : shown(value), " ");
  title.append(make("small", { textContent: odds ? `likely ${target.name}` : [target.name, target.unit && `(${target.unit})`].filter(Boolean).join(" ") }));
  parts.push(title);
  const chances = row.probabilities?.[target.name];
  if (chances) parts.push(classes(chances));
  const possible = row.sets?.[target.name];
  if (possible) parts.push(make("p", { className: "note", textContent: possible.length ? `Cannot be ruled out: ${possible.join(", ")}.` : "No class fits: this molecule is unlike all that was learned." }));
  const [low, high] = [row.lower?.[target.name], row.upper?.[target.name]];
  if (typeof low === "number" && typeof high === "number") {
    parts.push(interval(low, value, high), make("div", { className: "ends" },
      make("span", { textContent: shown(low) }), make("span", { textContent: shown(high) })));
    parts.push(make("p", { className: "note", textContent: row.domain && row.domain !== "inside"
      ? "For molecules it knows, nine of ten measured values lie within; this one may not."
      : "Nine of ten measured values lie within." }));
  }
  const spread = row.std?.[target.name];
  if (typeof spread === "number") parts.push(make("p", { className: "note", textContent: `The members of the ensemble differ by ${shown(spread)} (standard deviation).` }));
  if (row.domain) {
    const near = typeof row.similarity === "number" ? ` The nearest has a similarity of ${row.similarity.toFixed(2)}.` : "";
    const told = make("p", { className: "note" }, make("span", { className: `badge ${row.domain}`, textContent: row.domain }));
    told.append(` ${DOMAIN[row.domain] || ""}.${near}`);
    parts.push(told);
  }
  if (row.warning) parts.push(make("p", { className: "problem", textContent: row.warning }));
  return parts;
}

function classes(chances) {
  const grid = make("div", { className: "classes" });
  for (const [name, chance] of Object.entries(chances).sort((a, b) => b[1] - a[1])) {
    const bar = make("i");
    bar.style.width = `${100 * chance}%`;
    grid.append(make("span", { textContent: name }), bar, make("span", { textContent: `${(100 * chance).toFixed(1)} %` }));
  }
  return grid;
}

function interval(low, value, high) {
  const svg = element("svg", { class: "interval", viewBox: "0 0 400 34", preserveAspectRatio: "none", role: "img", "aria-label": `from ${shown(low)} to ${shown(high)}` });
  const at = (x) => 4 + (392 * (x - low)) / (high - low || 1);
  svg.append(
    element("line", { x1: 4, x2: 396, y1: 17, y2: 17, stroke: "currentColor", "stroke-width": 6, "stroke-linecap": "round", opacity: 0.25 }),
    element("line", { x1: at(value), x2: at(value), y1: 5, y2: 29, stroke: "var(--warm)", "stroke-width": 4, "stroke-linecap": "round" }));
  return svg;
}

// The nearest training molecules, each of which can be opened.
export async function neighbours(place, row, target, open) {
  const near = row.neighbours || [];
  if (!near.length) { place.replaceChildren(); return; }
  const grid = make("div", { className: "near" });
  const buttons = near.map((one) => {
    // The place of its picture is kept, so nothing below moves when that comes.
    const button = make("button", { type: "button", title: one.smiles }, element("svg", { viewBox: "0 0 160 110" }));
    const value = one.values[target.name];
    button.append(make("span", { textContent: value === null || value === undefined ? "no label" : `measured ${shown(value)}` }),
      make("span", { textContent: `similarity ${one.similarity.toFixed(2)}` }));
    button.addEventListener("click", () => open(one.smiles));
    grid.append(button);
    return button;
  });
  place.replaceChildren(make("h3", { textContent: "Nearest molecules it has learned from" }), grid);
  try {
    const drawings = await draw({ smiles: near.map((one) => one.smiles), width: 160, height: 110 });
    buttons.forEach((button, k) => { if (drawings[k].svg) button.firstChild.replaceWith(picture(drawings[k])); });
  } catch { /* the words are there */ }
}

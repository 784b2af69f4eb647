// A molecule on the page: RDKit's lines in front, soft discs of colour behind, atoms that can be
// clicked and reached by the arrow keys.

const SVG = "http://www.w3.org/2000/svg";
let serial = 0;

export function element(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function picture(drawing) {
  const parsed = new DOMParser().parseFromString(drawing.svg, "image/svg+xml").documentElement;
  const svg = document.importNode(parsed, true);
  svg.removeAttribute("width");
  svg.removeAttribute("height");
  return svg;
}

export class Molecule {
  // `choose` is called with the number of an atom; without it atoms only tell their numbers.
  constructor(place, drawing, label, choose = null) {
    this.drawing = drawing;
    this.choose = choose;
    const svg = picture(drawing);
    svg.setAttribute("role", choose ? "radiogroup" : "img");
    svg.setAttribute("aria-label", label);
    this.radius = bondLength(drawing) * 0.42;
    this.trim(svg);
    const id = `blob${serial++}`;
    svg.prepend(element("defs", {}, blob(`${id}warm`, "warm"), blob(`${id}cold`, "cold")));
    this.discs = element("g");
    svg.insertBefore(this.discs, svg.children[1] || null);
    this.marks = element("g");
    this.id = id;
    this.blobs = drawing.places.map(([x, y]) =>
      this.discs.appendChild(element("circle", { cx: x, cy: y, r: this.radius * 1.75, opacity: 0 })));
    this.atoms = drawing.places.map((at, i) => this.atom(at, i));
    svg.append(this.marks, ...this.atoms);
    svg.addEventListener("keydown", (event) => this.step(event));
    this.svg = svg;
    place.replaceChildren(svg);
  }

  atom([x, y], i) {
    const title = element("title");
    const atom = element("circle", { class: "atom", cx: x, cy: y, r: this.radius * 1.05 }, title);
    title.textContent = this.name(i);
    if (this.choose) {
      atom.setAttribute("role", "radio");
      atom.setAttribute("aria-checked", "false");
      atom.setAttribute("tabindex", i === 0 ? "0" : "-1");
      atom.setAttribute("aria-label", this.name(i));
      atom.addEventListener("click", () => this.choose(i));
    } else {
      atom.classList.add("still");
    }
    return atom;
  }

  // Little molecules are not blown up, and no empty margin is shown.
  trim(svg) {
    const margin = this.radius * 2.1 + 6;
    const xs = this.drawing.places.map(([x]) => x);
    const ys = this.drawing.places.map(([, y]) => y);
    const [left, right] = [Math.min(...xs) - margin, Math.max(...xs) + margin];
    const [top, bottom] = [Math.min(...ys) - margin, Math.max(...ys) + margin];
    const width = Math.max(right - left, 380);
    const height = Math.max(bottom - top, 210);
    const x = (left + right - width) / 2;
    const y = (top + bottom - height) / 2;
    svg.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  }

  // The atom in the middle of the picture.
  middle() {
    const mean = [0, 1].map((d) => this.drawing.places.reduce((sum, at) => sum + at[d], 0) / this.atoms.length);
    const far = this.drawing.places.map(([x, y]) => Math.hypot(x - mean[0], y - mean[1]));
    return far.indexOf(Math.min(...far));
  }

  name(i) {
    return `atom ${i + 1}, ${this.drawing.symbols[i]}`;
  }

  step(event) {
    const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const at = this.atoms.indexOf(document.activeElement);
    if (!this.choose || at < 0 || (!way && event.key !== " " && event.key !== "Enter")) return;
    event.preventDefault();
    const next = (at + (way || 0) + this.atoms.length) % this.atoms.length;
    this.choose(next);
    this.atoms[next].focus();
  }

  source(atom) {
    this.atoms.forEach((circle, i) => {
      circle.classList.toggle("source", i === atom);
      if (this.choose) {
        circle.setAttribute("aria-checked", String(i === atom));
        circle.setAttribute("tabindex", i === atom ? "0" : "-1");
      }
    });
  }

  // A disc for every atom: as strong as its number, of the largest.
  colour(values, largest, say = (value) => value.toFixed(3)) {
    values.forEach((value, i) => {
      const share = largest > 0 ? Math.min(1, Math.abs(value) / largest) : 0;
      this.blobs[i].setAttribute("fill", `url(#${this.id}${value < 0 ? "cold" : "warm"})`);
      this.blobs[i].setAttribute("opacity", share.toFixed(4));
      this.atoms[i].firstChild.textContent = `${this.name(i)}: ${say(value)}`;
    });
  }

  plain() {
    this.blobs.forEach((disc) => disc.setAttribute("opacity", 0));
    this.atoms.forEach((atom, i) => { atom.firstChild.textContent = this.name(i); });
  }

  // Arrowheads on the bonds, up the slope of the field; as strong as the field is.
  slopes(operators) {
    this.marks.replaceChildren();
    if (operators.directions > 1) return;
    operators.source.forEach((j, e) => {
      const i = operators.target[e];
      const strength = operators.field[e];
      if (strength <= 0.02) return;
      const [[ax, ay], [bx, by]] = [this.drawing.places[i], this.drawing.places[j]];
      const length = Math.hypot(bx - ax, by - ay) || 1;
      const [ux, uy] = [(bx - ax) / length, (by - ay) / length];
      const [x, y] = [(ax + bx) / 2, (ay + by) / 2];
      const s = this.radius * 0.3;
      const [tip, left, right] = [[s, 0], [-s, s * 0.62], [-s, -s * 0.62]].map(([along, across]) =>
        `${(x + along * ux - across * uy).toFixed(1)} ${(y + along * uy + across * ux).toFixed(1)}`);
      this.marks.append(element("path", {
        class: "slope", d: `M${tip}L${left}L${right}Z`, opacity: (0.3 + 0.7 * strength).toFixed(3),
      }));
    });
  }
}

function bondLength({ places, bonds }) {
  const lengths = bonds.map(([i, j]) =>
    Math.hypot(places[i][0] - places[j][0], places[i][1] - places[j][1])).sort((a, b) => a - b);
  return lengths.length ? lengths[lengths.length >> 1] : 46;
}

function blob(id, kind) {
  return element("radialGradient", { id, class: `blob-${kind}` },
    element("stop", { offset: "0", "stop-opacity": "0.95" }),
    element("stop", { offset: "0.45", "stop-opacity": "0.7" }),
    element("stop", { offset: "1", "stop-opacity": "0" }));
}

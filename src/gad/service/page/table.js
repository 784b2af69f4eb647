// Many molecules: sort, filter, turn pages, download.

import { draw } from "./api.js";
import { picture } from "./molecule.js";

const LEAF = 25;

// The rows of a CSV text, quotes and all.
export function parseCSV(text) {
  const rows = [];
  let row = [], cell = "", quoted = false;
  for (let k = 0; k < text.length; k++) {
    const c = text[k];
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[k + 1] === '"') { cell += '"'; k++; } else quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === ",") { row.push(cell); cell = ""; }
    else if (c === "\n") { row.push(cell); rows.push(row); row = []; cell = ""; }
    else if (c !== "\r") cell += c;
  }
  if (cell || row.length) { row.push(cell); rows.push(row); }
  return rows;
}

const quote = (cell) => (/[",\n\r]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
export const writeCSV = (rows) => rows.map((row) => `${row.map(quote).join(",")}\n`).join("");

export class Table {
  constructor(open) {
    this.open = open;
    this.place = document.getElementById("many");
    this.table = document.getElementById("table");
    this.told = document.getElementById("many-told");
    this.leaf = document.getElementById("leaf");
    this.link = document.getElementById("download");
    this.filter = document.getElementById("filter");
    this.filter.addEventListener("input", () => { this.page = 0; this.choose(); });
    this.link.addEventListener("click", () => this.offer());
  }

  // Whether there is something to show.
  show(text) {
    [this.names, ...this.rows] = parseCSV(text);
    if (!this.rows.length) return false;
    this.numeric = this.names.map((_, c) => this.rows.some((row) => row[c] !== "")
      && this.rows.every((row) => row[c] === "" || Number.isFinite(Number(row[c]))));
    this.smiles = this.names.findIndex((name) => /smiles/i.test(name));
    this.bad = this.names.findIndex((name) => /^reject_reason/.test(name));
    // What has nothing to say in any row takes no room.
    this.seen = this.names.map((name, c) => !/^(warning|reject_reason)/.test(name)
      || this.rows.some((row) => row[c] !== ""));
    this.column = null;
    this.down = false;
    this.page = 0;
    this.filter.value = "";
    this.place.hidden = false;
    this.choose();
    return true;
  }

  // The first molecule that could be read, if there is one.
  readable() {
    if (this.smiles < 0) return undefined;
    return this.rows.find((row) => this.bad < 0 || row[this.bad] === "")?.[this.smiles];
  }

  hide() { this.place.hidden = true; this.rows = null; }

  choose() {
    const word = this.filter.value.trim().toLowerCase();
    this.shown = this.rows.filter((row) => !word || row.some((cell) => cell.toLowerCase().includes(word)));
    const c = this.column;
    if (c !== null) {
      const sign = this.down ? -1 : 1;
      this.shown.sort((a, b) => {
        if (a[c] === "" || b[c] === "") return (a[c] === "") - (b[c] === "");
        return sign * (this.numeric[c] ? a[c] - b[c] : a[c].localeCompare(b[c]));
      });
    }
    this.render();
  }

  render() {
    const head = document.createElement("tr");
    if (this.smiles >= 0) head.append(document.createElement("th"));
    this.names.forEach((name, c) => {
      if (!this.seen[c]) return;
      const th = document.createElement("th");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.addEventListener("click", () => {
        this.down = this.column === c && !this.down;
        this.column = c;
        this.page = 0;
        this.choose();
        this.table.querySelector("th:not([aria-sort=none]) button").focus();
      });
      th.scope = "col";
      if (this.numeric[c]) th.className = "number";
      th.setAttribute("aria-sort", this.column !== c ? "none" : this.down ? "descending" : "ascending");
      th.append(button);
      head.append(th);
    });
    const body = document.createElement("tbody");
    const rows = this.shown.slice(this.page * LEAF, (this.page + 1) * LEAF);
    const buttons = rows.map((row) => this.row(body, row));
    this.table.replaceChildren(document.createElement("thead"), body);
    this.table.tHead.append(head);
    const failed = this.bad < 0 ? 0 : this.rows.filter((row) => row[this.bad] !== "").length;
    const count = (n) => n.toLocaleString("en");
    this.told.textContent = `${count(this.shown.length)} of ${count(this.rows.length)} rows`
      + (failed ? `, ${count(failed)} could not be read` : "");
    this.turn();
    if (this.smiles >= 0) this.pictures(rows, buttons);
  }

  row(body, row) {
    const tr = body.insertRow();
    let button = null;
    if (this.smiles >= 0) {
      const td = tr.insertCell();
      td.className = "drawn";
      if (this.bad < 0 || row[this.bad] === "") {
        button = document.createElement("button");
        button.type = "button";
        button.setAttribute("aria-label", `Look at ${row[this.smiles]}`);
        button.addEventListener("click", () => this.open(row[this.smiles]));
        td.append(button);
      }
    }
    row.forEach((cell, c) => {
      if (!this.seen[c]) return;
      const td = tr.insertCell();
      td.className = this.numeric[c] ? "number" : c === this.bad ? "text bad" : "text";
      const digits = this.numeric[c] && /\.\d{4}/.test(cell);
      td.textContent = digits ? Number(cell).toPrecision(4) : cell;
      td.title = cell;
    });
    return button;
  }

  turn() {
    const last = Math.max(0, Math.ceil(this.shown.length / LEAF) - 1);
    const button = (text, by, off) => {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = text;
      made.disabled = off;
      made.addEventListener("click", () => { this.page += by; this.render(); });
      return made;
    };
    const where = document.createElement("span");
    where.textContent = `page ${this.page + 1} of ${last + 1}`;
    this.leaf.hidden = last === 0;
    this.leaf.replaceChildren(button("Back", -1, this.page === 0), where,
      button("Next", 1, this.page === last));
  }

  async pictures(rows, buttons) {
    const wanted = rows.map((row) => row[this.smiles]);
    const smiles = wanted.filter((_, k) => buttons[k]);
    if (!smiles.length) return;
    let drawings;
    try {
      drawings = await draw({ smiles, width: 176, height: 120 });
    } catch { return; } // a table without pictures is still a table
    buttons.filter(Boolean).forEach((button, k) => {
      if (drawings[k].svg) button.replaceChildren(picture(drawings[k]));
    });
  }

  offer() {
    if (this.url) URL.revokeObjectURL(this.url);
    const blob = new Blob([writeCSV([this.names, ...this.shown])], { type: "text/csv" });
    this.url = URL.createObjectURL(blob);
    this.link.href = this.url;
  }
}

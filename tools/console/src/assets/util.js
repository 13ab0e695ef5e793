// Elements, numbers for people, requests, charts.

const SVG = "http://www.w3.org/2000/svg";

/** Creates an element: attributes, listeners (`on…`), and children, which are elements or texts. */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Creates an element of SVG. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

const present = children => children.flat(9).filter(child => child !== null && child !== undefined && child !== false);

/** Replaces the children of an element; skips `false`, `null` and `undefined`. */
export const put = (element, ...children) => element.replaceChildren(...present(children));

/** A number with its noun. */
export const things = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** A job without its table numbers. */
export const jobWords = job => job.replace(/\[[^\]]*\]/g, "");

/** A policy that may break after its parameters. */
export const policyWords = policy => policy.split(/(?<=:)/).flatMap(part => [part, el("wbr")]);

/** Shows a literal of CQL: a text without its quotes. */
export const plain = literal => (/^'.*'$/s.test(literal) ? literal.slice(1, -1).replaceAll("''", "'") : literal);

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  let unit = 0;
  while (n >= 1024 && unit < UNITS.length - 1) { n /= 1024; unit += 1; }
  return `${unit === 0 ? Math.round(n) : n.toFixed(n < 10 ? 2 : n < 100 ? 1 : 0)} ${UNITS[unit]}`;
}

export function count(n) {
  if (n === null || n === undefined) return "–";
  return Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

export function rate(n) {
  if (n === null || n === undefined) return "–";
  if (n >= 1e6) return `${(n / 1e6).toFixed(2)} M`;
  if (n >= 1e4) return `${(n / 1e3).toFixed(1)} k`;
  return n >= 10 || n === 0 ? count(n) : n.toFixed(1);
}

export function nanos(n) {
  if (n === null || n === undefined) return "–";
  if (n < 1e3) return `${Math.round(n)} ns`;
  if (n < 1e6) return `${(n / 1e3).toFixed(n < 1e4 ? 1 : 0)} µs`;
  if (n < 1e9) return `${(n / 1e6).toFixed(n < 1e7 ? 1 : 0)} ms`;
  return `${(n / 1e9).toFixed(2)} s`;
}

export const share = (part, whole) => (whole > 0 ? `${((part / whole) * 100).toFixed(0)} %` : "–");
export const clock = millis => new Date(millis).toLocaleTimeString();

const token = document.querySelector("meta[name=firn-token]").content;

async function answer(response) {
  const type = response.headers.get("content-type") || "";
  const body = type.startsWith("application/json") ? await response.json() : { error: (await response.text()).trim() };
  if (!response.ok) {
    const error = new Error(body.error || response.statusText);
    error.next = body.next;
    throw error;
  }
  return body;
}

/** Requests data. */
export const get = async path => answer(await fetch(path));

/** Sends a request that may have an effect. */
export const post = async (path, body) => answer(await fetch(path, {
  method: "POST", headers: { "content-type": "application/json", "x-firn-token": token }, body: JSON.stringify(body),
}));

/** Shows an error with its advice. */
export const failure = error => el("p", { class: "error", role: "alert" }, error.next ? `${error.message}\nNext: ${error.next}` : error.message);

/** Builds a table: columns are `{ name, num, wrap, title, of }`. */
export function table(columns, rows, caption) {
  const kind = c => (c.num ? "num" : c.wrap ? "wrap" : undefined);
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    el("table", {},
      el("thead", {}, el("tr", {}, columns.map(c => el("th", { class: kind(c), title: c.title, scope: "col" }, c.name)))),
      el("tbody", {}, rows.map(row => el("tr", {}, columns.map(c => el("td", { class: kind(c) }, c.of(row))))))));
}

const WIDTH = 420, HEIGHT = 136, LEFT = 62, RIGHT = 6, TOP = 8, BOTTOM = 18;
const DASHES = ["", "7 3", "2 3", "9 3 2 3"];
const COLOURS = ["var(--one)", "var(--two)", "var(--three)", "var(--four)"];

/** Returns a round number at or above `n`. */
function ceiling(n, step) {
  if (!(n > 0)) return 1;
  if (step === 1024) {
    let unit = 1;
    while (unit * 1024 <= n) unit *= 1024;
    return unit * ceiling(n / unit, 10);
  }
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 2.5, 5, 10].map(m => m * power).find(v => v >= n);
}

/** A chart of lines over the last minutes: lines are `{ name, of }`, `of` returns a number or null. */
export class Chart {
  constructor(title, show, lines, step = 10) {
    lines = lines.filter(Boolean);
    Object.assign(this, { show, lines, step });
    this.drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
    this.values = lines.map(() => el("b", {}, "–"));
    this.element = el("section", { class: "panel chart" }, el("h3", {}, title), this.drawing,
      el("ul", { class: "key" }, lines.map((line, i) => el("li", {},
        svgLine(i), `${line.name} `, this.values[i]))));
    this.title = title;
  }

  draw(samples) {
    const last = samples[samples.length - 1];
    const shown = samples.slice(-300);
    const ends = [shown[0]?.at ?? 0, last?.at ?? 1];
    const span = Math.max(ends[1] - ends[0], 60000);
    const x = at => WIDTH - RIGHT - ((ends[1] - at) / span) * (WIDTH - LEFT - RIGHT);
    const series = this.lines.map(line => shown.map(s => [s.at, line.of(s)]));
    const isEmpty = !series.flat().some(([, v]) => v !== null && v !== undefined);
    const top = ceiling(Math.max(0, ...series.flat().map(([, v]) => v ?? 0)), this.step);
    const y = v => HEIGHT - BOTTOM - (v / top) * (HEIGHT - TOP - BOTTOM);
    const parts = (isEmpty ? [] : [0, 0.5, 1]).flatMap(part => [
      svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(top * part), y2: y(top * part) }),
      svg("text", { x: LEFT - 5, y: y(top * part) + 4, "text-anchor": "end" }, this.show(top * part))]);
    parts.push(svg("text", { x: LEFT, y: HEIGHT - 4 }, `${Math.round(span / 1000)} s ago`),
      svg("text", { x: WIDTH - RIGHT, y: HEIGHT - 4, "text-anchor": "end" }, "now"));
    if (isEmpty) parts.push(svg("text", { x: WIDTH / 2, y: HEIGHT / 2, "text-anchor": "middle" }, "none measured in this time"));
    series.forEach((points, i) => {
      let path = "", pen = false;
      for (const [at, value] of points) {
        if (value === null || value === undefined) { pen = false; continue; }
        path += `${pen ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = true;
      }
      parts.push(svg("path", { d: path, fill: "none", stroke: COLOURS[i], "stroke-width": 1.6, "stroke-dasharray": DASHES[i], "stroke-linecap": "round" }));
    });
    const values = this.lines.map(line => (last ? line.of(last) : null));
    this.values.forEach((value, i) => { value.textContent = values[i] === null || values[i] === undefined ? "–" : this.show(values[i]); });
    this.drawing.setAttribute("aria-label", `${this.title}: ${this.lines.map((line, i) => `${line.name} ${this.values[i].textContent}`).join(", ")}`);
    this.drawing.replaceChildren(...parts);
  }
}

function svgLine(i) {
  return svg("svg", { class: "swatch", viewBox: "0 0 26 8", "aria-hidden": "true" },
    svg("line", { x1: 0, x2: 26, y1: 4, y2: 4, stroke: COLOURS[i], "stroke-width": 2.5, "stroke-dasharray": DASHES[i] }));
}

// Simulate: the recorded load of a tree under other policies.

import { count, el, failure, get, nanos, post } from "/util.js";

const POLICIES = ["leveled:10", "leveled:4", "tiered:4", "lazy-leveled:4", "universal", "unified"];

export function open(main, live) {
  const tree = el("select", { name: "tree" });
  const policies = el("input", { name: "policies", value: "leveled:10, tiered:4", required: true, autocomplete: "off", spellcheck: "false", class: "mono" });
  const button = el("button", { class: "main" }, "Simulate");
  const out = el("section", { class: "panel", "aria-live": "polite" });
  let timer = null, closed = false;
  main.append(el("form", { class: "line", onsubmit: start }, el("label", {}, "Tree", tree), el("label", { class: "grow" }, "Policies, with commas", policies), button),
    el("p", { class: "note" }, "Examples: ", POLICIES.map((p, i) => [i ? ", " : "", el("button", { type: "button", class: "mono", onclick: () => { policies.value = policies.value ? `${policies.value}, ${p}` : p; } }, p)])),
    el("p", { class: "note" }, "The simulator runs the engine's policies on simulated tables with the writes that the store's event log records: no data is written, and this store is not changed. Lower figures are better. Reads are not recorded; their cost shows in the number of runs."), out);
  get("/api/trees").then(({ trees }) => {
    const bytesOf = t => t.runs.reduce((sum, r) => sum + r.bytes, 0);
    tree.append(...trees.sort((a, b) => bytesOf(b) - bytesOf(a)).map(t => el("option", { value: t.name }, t.words ? `${t.words} (${t.name})` : t.name)));
  }).catch(e => out.replaceChildren(failure(e)));
  poll();

  async function start(event) {
    event.preventDefault();
    try {
      draw(await post("/api/simulate", { tree: tree.value, policies: policies.value.split(/,\s*(?=[a-z])/).map(p => p.trim()).filter(Boolean) }));
      poll();
    } catch (e) { out.replaceChildren(failure(e)); }
  }

  async function poll() {
    clearTimeout(timer);
    try {
      const state = await get("/api/simulate");
      if (closed) return;
      draw(state);
      if (state.state === "running") timer = setTimeout(poll, 500);
    } catch (e) { out.replaceChildren(failure(e)); }
  }

  function draw(s) {
    button.disabled = s.state === "running";
    if (s.state === "idle") out.replaceChildren(el("p", { class: "note" }, "No simulation has run yet."));
    else if (s.state === "running") out.replaceChildren(el("p", {}, `Simulating ${s.tree}, for ${nanos(s.micros * 1000)}`), el("progress", { max: 1000, value: s.progress || undefined }));
    else if (s.result.error) out.replaceChildren(failure(new Error(s.result.error)));
    else drawResult(out, s.result);
  }
  return { close: () => { closed = true; clearTimeout(timer); } };
}

const HIGHER = new Set(["ops_per_second"]);

function drawResult(out, { tree, policy, flushes, cases, metrics }) {
  const known = metrics.filter(m => m.values.some(v => v.text !== null));
  const best = m => {
    const simulated = m.values.slice(1).map(v => v.value).filter(v => v !== null);
    if (simulated.length < 2 || new Set(simulated).size < 2 || HIGHER.has(m.name)) return null;
    return Math.min(...simulated);
  };
  out.replaceChildren(el("h3", {}, `${tree}: ${count(flushes)} recorded flushes`),
    policy ? el("p", { class: "note" }, `Its policy is ${policy}: as recorded, and as the simulator predicts it from the recorded writes.`) : "",
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Outcomes" }, el("table", {},
      el("thead", {}, el("tr", {}, el("th", {}, ""), cases.map(c => el("th", { class: "num name", scope: "col" }, c)))),
      el("tbody", {}, known.map(m => {
        const low = best(m);
        return el("tr", {}, el("th", { scope: "row", title: m.about }, m.words), m.values.map((v, i) =>
          el("td", { class: "num" }, v.text === null ? "–" : i > 0 && v.value === low ? el("span", { class: "best", title: "the lowest of the simulations" }, `${v.text} ●`) : v.text)));
      })))), el("p", { class: "note" }, "● marks the lowest figure of the simulations."));
}

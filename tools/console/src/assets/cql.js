// CQL: a prompt with results as tables, history and pages.

import { el, failure, nanos, plain, post, things } from "/util.js";

const MAX_HISTORY = 100;

function load() {
  try { return JSON.parse(localStorage.getItem("firn-history")) ?? []; } catch { return []; }
}

function save(history) {
  try { localStorage.setItem("firn-history", JSON.stringify(history)); } catch { /* the browser stores nothing */ }
}

export function open(main, live, argument) {
  const { cql, keyspaces = [], may_write: mayWrite } = live.store;
  if (!cql) {
    main.append(el("p", { class: "note" }, "The store has only keys and values. A server, or firn cql, creates keyspaces."));
    return {};
  }
  const history = load();
  let at = history.length, draft = "", asked = null;
  const prompt = el("textarea", { id: "prompt", class: "mono", spellcheck: "false", autocomplete: "off", "aria-label": "CQL statement", placeholder: "SELECT * FROM keyspace.table LIMIT 20" });
  const keyspace = el("select", {}, el("option", { value: "" }, "none"), keyspaces.map(k => el("option", {}, k)));
  const size = el("select", {}, [20, 100, 500, 1000].map(n => el("option", { selected: n === 100 }, String(n))));
  const button = el("button", { class: "main" }, "Run");
  const explain = el("a", { href: "#reads" }, "explain a SELECT");
  const recent = el("details", { class: "panel" });
  const out = el("div", { "aria-live": "polite" });
  const form = el("form", { onsubmit: e => { e.preventDefault(); run(); } }, prompt,
    el("div", { class: "line" }, el("label", {}, "Keyspace", keyspace), el("label", {}, "Rows a page", size), button,
      el("span", { class: "note" }, mayWrite ? "Statements may change the store." : "Read-only: SELECT, DESCRIBE, USE, LIST."), explain));
  main.append(form, out, recent);
  drawHistory();
  prompt.addEventListener("keydown", event => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); }
    if (event.altKey && ["ArrowUp", "ArrowDown"].includes(event.key)) {
      event.preventDefault();
      if (at === history.length) draft = prompt.value;
      at = Math.min(history.length, Math.max(0, at + (event.key === "ArrowUp" ? -1 : 1)));
      prompt.value = at === history.length ? draft : history[at];
    }
  });

  function drawHistory() {
    recent.replaceChildren(el("summary", {}, `History (${history.length}, in this browser)`), el("ul", {}, history.slice().reverse().slice(0, 30).map(text =>
      el("li", {}, el("button", { type: "button", class: "mono", onclick: () => { prompt.value = text; prompt.focus(); } }, text)))),
      el("button", { type: "button", onclick: () => { history.length = 0; at = 0; save(history); drawHistory(); } }, "Clear"));
  }

  async function run() {
    const statement = prompt.value.trim().replace(/;$/, "");
    if (!statement) return;
    if (history[history.length - 1] !== statement) history.push(statement);
    history.splice(0, history.length - MAX_HISTORY);
    at = history.length;
    save(history);
    drawHistory();
    asked = { statement, keyspace: keyspace.value, page_size: Number(size.value) };
    await page(asked, 0, true);
  }

  async function page(request, shown, isFirst) {
    button.disabled = true;
    try {
      const result = await post("/api/cql", request);
      if (result.keyspace) {
        if (![...keyspace.options].some(o => o.value === result.keyspace)) keyspace.append(el("option", {}, result.keyspace));
        keyspace.value = result.keyspace;
      }
      draw(request, result, shown, isFirst);
    } catch (e) { out.replaceChildren(failure(e)); }
    button.disabled = false;
  }

  function draw(request, result, shown, isFirst) {
    const { columns, rows, paging } = result;
    const warnings = result.warnings.map(w => el("p", {}, el("span", { class: "tag" }, "warning"), ` ${w}`));
    if (!columns) { out.replaceChildren(...warnings, el("p", {}, `${result.keyspace ? `keyspace ${result.keyspace}` : result.done}, in ${nanos(result.nanos)}`)); return; }
    const isText = request.statement.toLowerCase().startsWith("desc") && columns.some(c => c.name === "create_statement");
    if (isText) {
      const i = columns.findIndex(c => c.name === "create_statement");
      out.replaceChildren(...rows.map(r => el("pre", { class: "panel" }, plain(r[i] ?? ""))));
      return;
    }
    const right = c => ["int", "bigint", "smallint", "tinyint", "varint", "double", "float", "decimal", "counter"].includes(c.type);
    const cell = (value, c) => el("td", { class: right(c) ? "num" : "wrap" }, value === null ? el("span", { class: "null" }, "null") : plain(value));
    const line = row => el("tr", {}, row.map((value, i) => cell(value, columns[i])));
    let body = out.querySelector("tbody");
    if (isFirst || !body) {
      body = el("tbody");
      out.replaceChildren(el("div", { id: "warnings" }), el("p", { id: "summary" }), el("div", { class: "scroll tall panel", tabindex: "0", role: "group", "aria-label": "Result" }, el("table", {},
        el("thead", {}, el("tr", {}, columns.map(c => el("th", { scope: "col", title: c.type, class: right(c) ? "num" : undefined }, c.name)))), body)), el("p", { id: "more" }));
    }
    body.append(...rows.map(line));
    const all = shown + rows.length;
    out.querySelector("#warnings").replaceChildren(...warnings);
    out.querySelector("#summary").textContent = `${things(all, "row")}${paging ? " so far" : ""}, the last page in ${nanos(result.nanos)}`;
    out.querySelector("#more").replaceChildren(...(paging ? [el("button", { type: "button", onclick: () => page({ ...request, paging }, all, false) }, "Next page")] : []));
  }

  if (argument.get("focus")) prompt.focus();
  if (argument.get("run")) { prompt.value = argument.get("run"); run(); }
  return {};
}

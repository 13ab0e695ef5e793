// Reads: the cost of one read step by step, the most expensive keys, slow statements.

import { bytes, count, el, failure, get, nanos, plain, post, table, things } from "/util.js";

const WHY = {
  empty: "is empty", bounds: "has no such keys between its bounds", filter: "has no such key, by its filter", prefix: "has no such prefix, by its filter",
  decided: "not reached: a newer source decided", facts: "cannot count, by the properties of its table",
};

export function open(main, live) {
  const out = el("section", { class: "panel", "aria-live": "polite" }, el("p", { class: "note" }, "Explain a read to see which runs, filters and blocks it needs."));
  const { cql, keyspaces = [] } = live.store;
  const warm = () => el("label", { class: "check" }, el("input", { type: "checkbox", name: "warm" }), "run it once before");
  const tree = el("select", { name: "tree" });
  const byKey = el("form", { class: "line", onsubmit: e => run(e, f => ({ tree: f.get("tree"), key: f.get("key"), hex: f.has("hex"), warm: f.has("warm") })) },
    el("label", {}, "Tree", tree), el("label", { class: "grow" }, "Key", el("input", { name: "key", required: true, autocomplete: "off", spellcheck: "false" })),
    el("label", { class: "check" }, el("input", { type: "checkbox", name: "hex" }), "hexadecimal"), warm(), el("button", { class: "main" }, "Explain the key"));
  const byStatement = el("form", { class: "line", onsubmit: e => run(e, f => ({ statement: f.get("statement"), keyspace: f.get("keyspace"), warm: f.has("warm") })) },
    el("label", {}, "Keyspace", el("select", { name: "keyspace" }, el("option", { value: "" }, "none"), keyspaces.map(k => el("option", {}, k)))),
    el("label", { class: "grow" }, "SELECT", el("input", { name: "statement", required: true, class: "mono", autocomplete: "off", spellcheck: "false", placeholder: "SELECT * FROM shop.items WHERE id = 1" })),
    warm(), el("button", { class: "main" }, "Explain the statement"));
  const sample = el("section", { class: "panel" }), slow = el("section", { class: "panel" });
  main.append(el("h2", {}, "Explain a read"), cql ? byStatement : "", byKey,
    el("p", { class: "note" }, "The report has all reads of this process in that time, so other clients may add some."), out,
    el("div", { class: "grid wide" }, sample, slow));
  get("/api/trees").then(({ trees }) => tree.append(...trees.map(t => el("option", { value: t.name }, t.words ? `${t.name}: ${t.words}` : t.name)))).catch(() => {});
  drawSample(sample, live.store.followed);
  drawSlow(slow, live.store);

  async function run(event, request) {
    event.preventDefault();
    const form = event.target, button = form.querySelector("button");
    button.disabled = true;
    try { drawExplanation(out, await post("/api/explain", request(new FormData(form)))); } catch (e) { out.replaceChildren(failure(e)); }
    button.disabled = false;
  }
  return {};
}

function source(s) {
  const name = s.kind === "run" ? `level ${s.level}, run ${s.number}, ${things(s.tables_in_run, "table")}` : s.kind;
  const parts = [];
  if (s.opened.length) parts.push(`${things(s.opened.length, "table")} opened`);
  if (s.filters.length) {
    const wrong = s.filters.filter(f => f.right === false).length;
    parts.push(`filters: ${s.filters.filter(f => !f.maybe).length} no, ${s.filters.filter(f => f.maybe).length} maybe${wrong ? ` (${things(wrong, "false positive")})` : ""}`);
  }
  for (const from of ["cache", "file", "map"]) {
    const blocks = [...s.blocks, ...s.values].filter(b => b.from === from);
    if (blocks.length) parts.push(`${things(blocks.length, "block")} from the ${from === "map" ? "memory map" : from} (${bytes(blocks.reduce((n, b) => n + b.bytes, 0))})`);
  }
  for (const [field, words] of [["puts", "puts"], ["tombstones", "tombstones"], ["operands", "operands"], ["beneath_range_deletions", "entries under range deletions"], ["range_deletions", "range deletions"]])
    if (s[field]) parts.push(`${count(s[field])} ${words}`);
  const blocks = s.blocks.length > 0 && el("details", {}, el("summary", {}, "blocks"), table([
    { name: "table", num: true, of: b => b.table }, { name: "offset", num: true, of: b => count(b.offset) }, { name: "bytes", num: true, of: b => count(b.bytes) },
    { name: "from", of: b => b.from }], s.blocks.slice(0, 100), "Blocks"));
  return el("li", { class: s.skipped ? "skipped" : undefined }, el("span", { class: "tag" }, s.skipped ? "skipped" : "searched"), ` ${name} `,
    s.skipped ? WHY[s.skipped] ?? "was not needed" : `in ${nanos(s.nanos)}`, parts.length ? `: ${parts.join(", ")}` : "", blocks);
}

const FEW = 8;

/** Lists the sources of a read; many skipped ones are folded. */
function sources(all) {
  const skipped = all.filter(s => s.skipped);
  if (skipped.length <= FEW) return el("ul", {}, all.map(source));
  return [el("ul", {}, all.filter(s => !s.skipped).map(source)),
    el("details", {}, el("summary", {}, `${things(skipped.length, "source")} skipped`), el("ul", {}, skipped.map(source)))];
}

function drawExplanation(out, e) {
  const reads = e.reads.slice().sort((a, b) => b.nanos - a.nanos);
  const title = r => {
    const key = r.key ?? (r.key_hex ? `0x${r.key_hex}` : null);
    const what = r.partition ? `partition ${r.partition}${r.part ? `, ${r.part}` : ""}` : key !== null ? `key ${key}` : "a range of keys";
    return `${r.of ?? `tree ${r.tree}`}, ${what}: ${count(r.found)} found in ${nanos(r.nanos)}`;
  };
  out.replaceChildren(el("h3", {}, `${e.rows === null ? "" : `${things(e.rows, "row")}, `}${things(reads.length + e.not_recorded, "read")} of the engine`),
    ...e.stands_out.map(line => el("p", {}, el("span", { class: "tag" }, "stands out"), ` ${line}`)),
    e.stands_out.length === 0 && reads.length ? el("p", { class: "note" }, "Nothing stands out: this is the usual cost of such a read.") : "",
    el("div", { class: "tree" }, reads.slice(0, 20).map(r => [el("h3", {}, title(r)), sources(r.sources)])),
    reads.length > 20 ? el("p", { class: "note" }, `The 20 that took longest are shown.`) : "");
}

function drawSample(panel, followed) {
  const out = el("div", { "aria-live": "polite" });
  const button = el("button", { type: "button", onclick: run }, "Record for 5 seconds");
  panel.replaceChildren(el("h2", {}, "Most expensive keys"), el("p", { class: "note" }, followed
    ? "Only the process that serves clients can record their reads: use firn serve --console."
    : "Records the reads of all clients, and adds up those of each key or partition. Recording makes reads slower."), followed ? "" : button, out);
  async function run() {
    button.disabled = true;
    out.replaceChildren(el("p", {}, "Recording…"));
    try {
      const r = await post("/api/sample-reads", { seconds: 5 });
      out.replaceChildren(el("p", {}, `${count(r.reads)} reads of ${count(r.keys)} keys or partitions${r.not_recorded ? `, and ${count(r.not_recorded)} more that are not listed` : ""}.`),
        r.costly.length === 0 ? "" : table([{ name: "of", of: c => c.tree }, { name: "key", wrap: true, of: c => c.key }, { name: "reads", num: true, of: c => count(c.reads) },
          { name: "time", num: true, of: c => nanos(c.nanos) }, { name: "runs searched", num: true, of: c => (c.searched / c.reads).toFixed(1) }, { name: "found", num: true, of: c => count(c.found) }], r.costly, "Most expensive keys"));
    } catch (e) { out.replaceChildren(failure(e)); }
    button.disabled = false;
  }
}

const SLOW = [
  ["Tables by read latency", "SELECT keyspace_name, table_name, count, p50th_ms, p99th_ms, max_ms FROM system_views.coordinator_read_latency"],
  ["Tables by write latency", "SELECT keyspace_name, table_name, count, p50th_ms, p99th_ms, max_ms FROM system_views.coordinator_write_latency"],
  ["Running statements", "SELECT * FROM system_views.queries"],
  ["Traced statements", "SELECT session_id, duration, parameters, started_at FROM system_traces.sessions"],
];

async function drawSlow(panel, store) {
  const title = el("h2", {}, "Slow statements");
  if (!store.cql || store.followed) {
    panel.replaceChildren(title, el("p", { class: "note" }, "A server records latencies of tables and traces of statements: use firn serve --console."));
    return;
  }
  const out = el("div");
  panel.replaceChildren(title, el("p", { class: "note" }, "Latencies since the start of the server. Drivers trace a statement on request; cqlsh with TRACING ON."),
    el("button", { type: "button", onclick: load }, "Refresh"), out);
  async function load() {
    const parts = [];
    for (const [name, statement] of SLOW) {
      try {
        const { columns, rows } = await post("/api/cql", { statement, page_size: 200 });
        const by = columns.findIndex(c => ["p99th_ms", "duration"].includes(c.name));
        if (by >= 0) rows.sort((a, b) => Number(b[by]) - Number(a[by]));
        parts.push(el("h3", {}, name), rows.length === 0 ? el("p", { class: "note" }, "None.") : table(
          columns.map((c, i) => ({ name: c.name.replaceAll("_", " "), wrap: c.type.startsWith("map"), num: ["int", "bigint", "double"].includes(c.type), of: r => short(r[i], c.type) })), rows.slice(0, 15), name));
      } catch (e) { parts.push(el("h3", {}, name), failure(e)); }
    }
    out.replaceChildren(...parts);
  }
  load();
}

const short = (text, type) => (text === null ? "–" : type === "double" ? Number(text).toFixed(3) : text.length > 400 ? `${text.slice(0, 400)}…` : plain(text));

// Trees and tables: sizes, entries, options; keyspaces and tables with their schema.

import { bytes, count, el, failure, get, policyWords, table } from "/util.js";

export function open(main) {
  const trees = el("section", { class: "panel" }), schema = el("section", { class: "panel" }), pins = el("section", { class: "panel" });
  main.append(trees, schema, pins);
  load();
  async function load() {
    try {
      const [all, { items }] = await Promise.all([get("/api/trees"), get("/api/schema")]);
      drawTrees(trees, all);
      drawSchema(schema, items);
      drawPins(pins, all.pins);
    } catch (e) { trees.replaceChildren(failure(e)); }
  }
  let due = 10;
  return { update: (_, sample) => { if (sample && --due <= 0 && sample.changed_trees > 0 && !main.querySelector("details[open]")) { due = 10; load(); } } };
}

function drawTrees(panel, { trees, count: number }) {
  const sum = (t, of) => t.runs.reduce((n, r) => n + r[of], 0);
  const options = t => el("details", {}, el("summary", {}, Object.entries(t.unusual ?? {}).map(([k, v]) => `${k}=${v}`).join(", ") || "defaults"),
    el("dl", { class: "mono" }, Object.entries(t.options ?? {}).flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)])));
  panel.replaceChildren(el("h2", {}, `Trees (${count(number)})`), number === 0 ? el("p", { class: "note" }, "The store has no trees yet.") : table([
    { name: "tree", of: t => el("a", { href: `#shape?tree=${encodeURIComponent(t.name)}` }, t.name) },
    { name: "holds", of: t => t.words ?? "" },
    { name: "policy", wrap: true, of: t => policyWords(t.policy ?? "") },
    { name: "runs", num: true, of: t => count(t.runs.length) },
    { name: "tables", num: true, of: t => count(sum(t, "tables")) },
    { name: "on disk", num: true, of: t => bytes(sum(t, "bytes")) },
    { name: "in memory", num: true, of: t => bytes(t.memtable_bytes) },
    { name: "entries", num: true, title: "in tables", of: t => count(sum(t, "entries")) },
    { name: "deletes", num: true, title: "tombstones in tables", of: t => count(sum(t, "deletes")) },
    { name: "pending", num: true, title: "pending compaction bytes", of: t => bytes(t.debt_bytes) },
    { name: "gets", num: true, title: "of this process, estimated", of: t => count(t.reads.gets) },
    { name: "options", wrap: true, of: options },
  ], trees, "Trees"));
}

function drawSchema(panel, items) {
  const keyspaces = new Map();
  for (const item of items) {
    if (!keyspaces.has(item.keyspace)) keyspaces.set(item.keyspace, []);
    keyspaces.get(item.keyspace).push(item);
  }
  const shown = item => el("details", {}, el("summary", {}, `${item.type} `, el("b", {}, item.name),
    item.type === "table" ? [" ", el("a", { href: `#cql?run=${encodeURIComponent(`SELECT * FROM ${item.keyspace}.${item.name}`)}` }, "rows")] : ""),
    el("pre", {}, item.statement));
  panel.replaceChildren(el("h2", {}, "Keyspaces and tables of CQL"), keyspaces.size === 0 ? el("p", { class: "note" }, "None.") : "",
    ...[...keyspaces].flatMap(([name, own]) => [el("h3", {}, name), own.map(shown)].flat()));
}

function drawPins(panel, pins) {
  panel.replaceChildren(el("h2", {}, "Holders of space"), el("p", { class: "note" }, "Snapshots, iterators and jobs that retain obsolete files or old versions."),
    pins.length === 0 ? el("p", {}, "None.") : table([
      { name: "kind", of: p => p.kind }, { name: "name", wrap: true, of: p => p.name }, { name: "tree", of: p => p.tree },
      { name: "age", num: true, of: p => `${(p.age_micros / 1e6).toFixed(1)} s` }, { name: "holders", num: true, of: p => count(p.holders) },
      { name: "retains", num: true, of: p => bytes(p.bytes) }], pins, "Holders of space"));
}

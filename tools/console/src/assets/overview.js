// Overview: rates, latencies, memory, stalls, disk, jobs and events.

import { Chart, bytes, clock, count, el, jobWords, nanos, put, rate, table } from "/util.js";

const COLOURS = ["var(--one)", "var(--two)", "var(--three)", "var(--four)"];

export function open(main, live) {
  const { followed } = live.store;
  const latency = (op, q) => s => s.latencies[op]?.[q] ?? null;
  // Figures of the process that writes are unknown here.
  const charts = [
    new Chart("Operations a second", rate, [{ name: "writes", of: s => s.rates.operations }, !followed && { name: "gets", of: s => s.rates.gets }]),
    !followed && new Chart("Write latency", nanos, [{ name: "p50", of: latency("write", "p50") }, { name: "p99", of: latency("write", "p99") }]),
    !followed && new Chart("Read latency", nanos, [{ name: "get p50", of: latency("get", "p50") }, { name: "get p99", of: latency("get", "p99") }, { name: "seek p99", of: latency("seek", "p99") }]),
    new Chart("Bytes a second", bytes, [{ name: followed ? "entries flushed" : "user", of: s => s.rates.user_bytes }, { name: "flushes", of: s => s.rates.flush_bytes }, { name: "compactions", of: s => s.rates.compaction_written }], 1024),
    !followed && new Chart("Writers wait, seconds a second", n => n.toFixed(2), [{ name: "slowdown", of: s => s.rates.slowdown_nanos / 1e9 }, { name: "stall", of: s => s.rates.stalled_nanos / 1e9 }]),
    !followed && new Chart("Blocks a second", rate, [{ name: "from cache", of: s => s.rates.blocks_cached }, { name: "from files", of: s => s.rates.blocks_read }]),
    new Chart("Disk", bytes, [{ name: "tables", of: s => s.disk.tables }, !followed && { name: "log", of: s => s.disk.log }, { name: "obsolete or new", of: s => s.disk.pinned + s.disk.writing }], 1024),
    new Chart("Pending compaction", bytes, [{ name: "bytes", of: s => s.debt }], 1024),
    new Chart("Runs", count, [{ name: "all trees", of: s => s.runs }, { name: "largest tree", of: s => s.max_runs }]),
  ].filter(Boolean);
  const tiles = el("div", { class: "tiles" });
  const memory = el("section", { class: "panel" });
  const jobs = el("section", { class: "panel" });
  const events = el("section", { class: "panel" });
  put(main,
    followed && el("p", { class: "note" }, "Another process may have this store open. Its reads, latencies, memory and running jobs are only in its own console: firn serve --console."),
    tiles, el("div", { class: "grid" }, charts.map(c => c.element)),
    !followed && el("div", { class: "grid" }, memory, jobs), events);

  return {
    update({ samples, events: all }) {
      const s = samples[samples.length - 1];
      if (!s) { tiles.replaceChildren(el("p", { class: "note" }, "The first sample comes in a second.")); return; }
      const tile = (value, name) => el("div", { class: "tile" }, el("b", {}, value), el("span", {}, name));
      put(tiles,
        tile(rate(s.rates.operations), "writes a second"), !followed && [tile(rate(s.rates.gets), "gets a second"), tile(nanos(s.latencies.write?.p99), "write p99")],
         tile(bytes(s.disk.tables + s.disk.blobs), "in tables"),
        tile(bytes(s.disk.free), "disk free"), tile(count(s.trees), "trees"), tile(count(s.seq), "operations so far"),
        !followed && tile(s.write_amplification.toFixed(2), "write amplification"));
      charts.forEach(c => c.draw(samples));
      drawMemory(memory, s.memory);
      jobs.replaceChildren(el("h3", {}, "Running flushes and compactions"), s.jobs.length === 0 ? el("p", { class: "note" }, "None.") : table([
        { name: "tree", of: j => el("a", { href: `#shape?tree=${encodeURIComponent(j.tree)}` }, j.tree) }, { name: "job", wrap: true, of: j => jobWords(j.job) || j.kind },
        { name: "done", num: true, of: j => (j.total ? `${((j.done / j.total) * 100).toFixed(0)} %` : "–") },
        { name: "of", num: true, of: j => (j.total ? bytes(j.total) : "–") }, { name: "since", num: true, of: j => nanos(j.age_micros * 1000) }], s.jobs, "Jobs"));
      events.replaceChildren(el("h3", {}, "Events"), all.length === 0 ? el("p", { class: "note" }, "No events yet.") : el("div", { class: "tall scroll" }, table([
        { name: "time", of: e => clock(e.at / 1000) }, { name: "event", of: e => e.event }, { name: "tree", of: e => e.tree }, { name: "", wrap: true, of: e => jobWords(e.words) }],
        all.slice(-60).reverse(), "Events")));
    },
  };
}

function drawMemory(panel, m) {
  const parts = [["memtables", m.memtables], ["block cache", m.cache], ["indexes and filters", m.tables], ["jobs", m.jobs]];
  const whole = Math.max(m.budget, parts.reduce((sum, [, n]) => sum + n, 0), 1);
  const meter = el("div", { class: "meter", role: "img", "aria-label": parts.map(([name, n]) => `${name} ${bytes(n)}`).join(", ") });
  const key = el("ul", { class: "key" });
  parts.forEach(([name, n], i) => {
    const part = el("span");
    part.style.width = `${(n / whole) * 100}%`;
    part.style.background = COLOURS[i];
    const swatch = el("span", { class: "swatch" });
    swatch.style.background = COLOURS[i];
    meter.append(part);
    key.append(el("li", {}, swatch, `${name} `, el("b", {}, bytes(n))));
  });
  panel.replaceChildren(el("h3", {}, `Memory, of a budget of ${bytes(m.budget)}`), meter, key);
}

// Shape: the runs and tables of a tree to scale, with its flushes and compactions.

import { bytes, count, el, failure, get, jobWords, nanos, post, share, svg, things } from "/util.js";

const LANE = 26, GAP = 6, LEFT = 96, RIGHT = 92, TOP = 8;

export function open(main, live, argument) {
  const select = el("select", { id: "tree", onchange: () => choose(select.value) });
  const drawing = el("section", { class: "panel" });
  const facts = el("p", { class: "note" });
  const jobs = el("div");
  const record = el("button", { type: "button", onclick: start }, "Record");
  const recorded = el("span", { class: "note" });
  let tree = argument.get("tree"), known = new Map(), busy = false, again = false, last = null;
  main.append(el("form", { class: "line", onsubmit: e => e.preventDefault() }, el("label", {}, "Tree", select), record, recorded),
    facts, drawing, jobs,
    el("p", { class: "note" }, "Each line is a sorted run, the newest one above. A bar is a table: its position and width are its range of keys, on an axis whose lengths are bytes of data, and its height is its share of the bytes of the largest table. New tables are marked, inputs of a running compaction have a dashed frame. A read of a key may search each run whose bar covers it."));

  get("/api/trees").then(({ trees }) => {
    const bytesOf = t => t.runs.reduce((sum, r) => sum + r.bytes, 0);
    const sorted = trees.slice().sort((a, b) => bytesOf(b) - bytesOf(a));
    select.replaceChildren(...sorted.map(t => el("option", { value: t.name }, t.words ? `${t.words} (${t.name})` : t.name)));
    if (sorted.length === 0) { facts.textContent = "The store has no trees yet."; return; }
    if (!trees.some(t => t.name === tree)) tree = sorted[0].name;
    select.value = tree;
    refresh();
  }).catch(e => facts.replaceWith(failure(e)));

  function choose(name) {
    tree = name;
    known = new Map();
    history.replaceState(null, "", `#shape?tree=${encodeURIComponent(name)}`);
    refresh();
  }

  async function start() {
    try { await post("/api/recording", { tree }); } catch (e) { recorded.replaceChildren(failure(e)); }
  }

  async function refresh() {
    if (!tree) return;
    if (busy) { again = true; return; }
    busy = true;
    try {
      last = await get(`/api/shape?tree=${encodeURIComponent(tree)}`);
      draw(last);
    } catch (e) { drawing.replaceChildren(failure(e)); }
    busy = false;
    if (again) { again = false; refresh(); }
  }

  function draw(shape) {
    const all = shape.runs.reduce((sum, r) => sum + r.bytes, 0);
    facts.textContent = `${shape.holds ?? `Tree ${shape.tree}`}: policy ${shape.policy}; ${things(shape.runs.length, "run")}, ${things(shape.runs.reduce((n, r) => n + r.count, 0), "table")}, ${bytes(all)}; memtables ${bytes(shape.memtable_bytes)}${shape.sealed ? `, ${shape.sealed} waiting for their flush` : ""}; pending compaction ${bytes(shape.debt)}.`
      + (shape.together > 1 ? ` Each bar is ${shape.together} neighbouring tables.` : "");
    const busyRuns = new Set(shape.jobs.flatMap(j => [...j.job.split("->")[0].matchAll(/L(\d+)#(\d+)/g)].map(m => `${m[1]}#${m[2]}`)));
    const width = Math.max(280, drawing.clientWidth - 26), inner = width - LEFT - RIGHT;
    const largest = Math.max(1, ...shape.runs.flatMap(r => r.tables.map(t => t[2])));
    const parts = [], fresh = new Map();
    let y = TOP, level = null;
    const label = (text, at, kind) => svg("text", { x: 2, y: at, class: kind }, text);
    parts.push(label("memtable", y + 17, "soft"), svg("rect", { class: "lane", x: LEFT, y, width: inner, height: LANE - 4, rx: 3 }),
      svg("text", { x: width - RIGHT + 6, y: y + 17 }, bytes(shape.memtable_bytes)));
    y += LANE + GAP;
    for (const run of shape.runs) {
      if (run.level !== level) {
        level = run.level;
        y += 4;
      }
      parts.push(label(`L${run.level} #${run.number}`, y + 17), svg("rect", { class: "lane", x: LEFT, y: y + LANE - 2, width: inner, height: 2 }));
      for (const [from, to, size, entries, id] of run.tables) {
        const x = LEFT + (from / 1e6) * inner, w = Math.max(1.5, ((to - from) / 1e6) * inner), h = Math.max(3, (size / largest) * (LANE - 2));
        const place = [x, y + LANE - 2 - h, w, h];
        fresh.set(id, place);
        const isNew = known.size > 0 && !known.has(id);
        parts.push(svg("rect", { class: isNew ? "table new" : "table", x, y: place[1], width: w, height: h, rx: 1 },
          svg("title", {}, `table ${id}: ${bytes(size)}, ${count(entries)} entries`)));
      }
      if (busyRuns.has(`${run.level}#${run.number}`)) parts.push(svg("rect", { class: "busy", x: LEFT - 2, y: y - 1, width: inner + 4, height: LANE }));
      parts.push(svg("text", { x: width - RIGHT + 6, y: y + 17 }, bytes(run.bytes)));
      y += LANE + GAP;
    }
    for (const [id, [x, top, w, h]] of known) if (!fresh.has(id)) parts.push(svg("rect", { class: "table gone", x, y: top, width: w, height: h }));
    if (shape.first_key !== null) {
      const clip = text => (text.length > 28 ? `${text.slice(0, 27)}…` : text);
      parts.push(svg("text", { class: "soft", x: LEFT, y: y + 12 }, clip(shape.first_key)),
        svg("text", { class: "soft", x: LEFT + inner, y: y + 12, "text-anchor": "end" }, clip(shape.last_key)));
      y += 18;
    }
    known = fresh;
    const text = shape.runs.map(r => `level ${r.level} run ${r.number}: ${r.count} tables, ${bytes(r.bytes)}`).join("; ");
    drawing.replaceChildren(shape.runs.length === 0 ? el("p", { class: "note" }, "No tables yet: all entries are in memtables and the log.") : "",
      svg("svg", { class: "shape", viewBox: `0 0 ${width} ${y + 4}`, height: y + 4, role: "img", "aria-label": text || "no tables" }, parts));
    jobs.replaceChildren(...shape.jobs.map(j => el("p", {}, el("span", { class: "tag" }, j.kind), ` ${jobWords(j.job)} `,
      j.total ? `${share(j.done, j.total)} of ${bytes(j.total)}, ` : "", `for ${nanos(j.age_micros * 1000)}`)));
  }

  const resized = () => { if (last) draw(last); };
  window.addEventListener("resize", resized);
  return {
    update(_, sample) {
      if (!sample) return;
      if (sample.changed.includes(tree) || sample.changed_trees > sample.changed.length || sample.jobs.some(j => j.tree === tree) || last?.jobs.length || sample.rates.operations > 0) refresh();
      recorded.replaceChildren(...(sample.recording === null ? ["A recording can be scrolled back in time."] : [
        `${sample.recording} is recorded: `, el("a", { href: "/api/recording", download: "firn-recording.html" }, "download it as a page")]));
      record.textContent = sample.recording === tree ? "Record again from now" : "Record";
    },
    close: () => window.removeEventListener("resize", resized),
  };
}

// The frame of the console: pages, keys, and the live data that all pages share.

import { el, get, clock } from "/util.js";
import * as overview from "/overview.js";
import * as shape from "/shape.js";
import * as trees from "/trees.js";
import * as reads from "/reads.js";
import * as cql from "/cql.js";
import * as simulate from "/simulate.js";

const PAGES = [["overview", "Overview", overview], ["shape", "Shape", shape], ["trees", "Trees and tables", trees],
  ["reads", "Reads", reads], ["cql", "CQL", cql], ["simulate", "Simulate", simulate]];
const MAX_SAMPLES = 900, MAX_EVENTS = 300;

/** Shared by the pages: the store, samples and events, oldest first. */
const live = { store: {}, samples: [], events: [] };
const byId = id => document.getElementById(id);
let current = null;

function say(text, isProblem = false) {
  byId("notice").hidden = !isProblem;
  if (isProblem) byId("notice").textContent = text;
  else byId("state").textContent = text;
}

function describe() {
  const { store } = live;
  const how = store.followed ? "of another process, followed" : store.read_only ? "read-only" : "open here";
  byId("store").textContent = `${store.dir ?? "in memory"} (${how}${store.may_write ? ", console may write" : ""}${store.role ? `, as ${store.role}` : ""})`;
  document.title = `Firn: ${store.dir ?? "in memory"}`;
}

async function open() {
  const [name, argument] = location.hash.slice(1).split("?");
  const [id, , page] = PAGES.find(([id]) => id === name) ?? PAGES[0];
  for (const link of byId("nav").children) {
    if (link.dataset.page === id) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  current?.close?.();
  const main = byId("page");
  main.replaceChildren();
  current = page.open(main, live, new URLSearchParams(argument ?? ""));
  current.update?.(live);
}

function take({ sample, events }) {
  live.samples.push(sample);
  live.samples.splice(0, live.samples.length - MAX_SAMPLES);
  live.events.push(...events);
  live.events.splice(0, live.events.length - MAX_EVENTS);
  say(`live, ${clock(sample.at)}`);
  const problem = sample.problem ?? (!live.store.read_only && sample.refusal ? `the store refuses writes: ${sample.refusal}` : null);
  if (problem) say(problem, true);
  else byId("notice").hidden = true;
  current?.update?.(live, sample);
}

function follow() {
  const source = new EventSource("/api/live");
  source.onmessage = message => take(JSON.parse(message.data));
  source.onopen = async () => {
    // The stream begins after the stored samples; after an interruption these have the gap.
    try { Object.assign(live, await get("/api/samples")); current?.update?.(live); } catch { /* the stream reports it */ }
  };
  source.onerror = () => { if (source.readyState !== EventSource.OPEN) say("not connected: is the process still running? Trying again"); };
}

document.addEventListener("keydown", event => {
  const inField = event.target.matches("input, textarea, select");
  if (event.key === "Escape" && inField) { event.target.blur(); byId("page").focus(); return; }
  if (inField || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "?") byId("keys").showModal();
  else if (event.key === "/") {
    event.preventDefault();
    if (location.hash.startsWith("#cql")) document.getElementById("prompt")?.focus();
    else location.hash = "#cql?focus=1";
  } else if (PAGES[Number(event.key) - 1]) location.hash = `#${PAGES[Number(event.key) - 1][0]}`;
});

byId("nav").append(...PAGES.map(([id, title], i) => el("a", { href: `#${id}`, "data-page": id, title: `Key ${i + 1}` }, title)),
  el("a", { href: "#", title: "Key ?", onclick: event => { event.preventDefault(); byId("keys").showModal(); } }, "Keys"));
window.addEventListener("hashchange", open);
try {
  live.store = await get("/api/store");
  Object.assign(live, await get("/api/samples"));
  describe();
} catch (error) { say(error.message, true); }
await open();
follow();

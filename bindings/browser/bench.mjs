// Measures the module in headless Chromium: `node bench.mjs`, after `bindings/browser/build`.
//
// Keys of 16 bytes in random order, values of 100 bytes. Each figure is the best of five runs, because
// other work on the machine only makes a run slower.

import { Browser, browserName, serve } from './test/support.mjs'

const ENTRIES = 100000
const RUNS = 5

/** Runs in a worker of the page, with the module as `firn`. */
async function measure (firn, entries) {
  const keys = Array.from({ length: entries }, (_, n) => String(Math.imul(n, 0x9E3779B1) >>> 0).padStart(16, '0'))
  const value = new Uint8Array(100).fill(7)
  const rate = (work, count = entries) => {
    const start = performance.now()
    work()
    return Math.round(count / (performance.now() - start) * 1000)
  }
  const rates = {}
  for (const where of ['memory', 'opfs']) {
    if (where === 'opfs') await firn.deleteStore('bench')
    const store = where === 'memory' ? firn.Store.memory() : await firn.Store.opfs('bench')
    const tree = store.tree('t')
    rates[`${where}: puts/s`] = rate(() => keys.forEach((key) => tree.put(key, value)))
    await store.reserve()
    rates[`${where}: gets/s from the memtable`] = rate(() => keys.forEach((key) => tree.get(key)))
    tree.flush()
    await store.reserve()
    rates[`${where}: gets/s from tables`] = rate(() => keys.forEach((key) => tree.get(key)))
    rates[`${where}: entries/s of a scan`] = rate(() => tree.range())
    const batches = entries / 100
    rates[`${where}: puts/s in batches of 100`] = rate(() => {
      for (let b = 0; b < batches; b++) {
        const batch = store.batch()
        for (let n = 0; n < 100; n++) batch.put(tree, keys[b * 100 + n], value)
        batch.write()
      }
    })
    rates[`${where}: puts/s with power durability`] = rate(() => keys.slice(0, 500).forEach((key) => tree.put(key, value, { durability: 'power' })), 500)
    store.close()
    const session = where === 'memory' ? firn.Session.memory() : await firn.Session.opfs('bench-cql')
    session.execute("CREATE KEYSPACE IF NOT EXISTS k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute('CREATE TABLE IF NOT EXISTS k.t (a text PRIMARY KEY, b blob)')
    const [insert, select] = [session.prepare('INSERT INTO k.t (a, b) VALUES (?, ?)'), session.prepare('SELECT b FROM k.t WHERE a = ?')]
    const some = keys.slice(0, entries / 5)
    rates[`${where}: prepared INSERT/s`] = rate(() => some.forEach((key) => insert.execute([key, value])), some.length)
    rates[`${where}: prepared SELECT/s`] = rate(() => some.forEach((key) => select.execute([key])), some.length)
    session.close()
  }
  for (const name of ['bench', 'bench-cql']) await firn.deleteStore(name)
  return rates
}

const server = await serve()
const browser = await Browser.start(browserName())
try {
  const all = {}
  const note = (name, figure) => { (all[name] ??= []).push(figure) }
  for (let run = 0; run < RUNS; run++) {
    const page = await browser.open(`${server.url}/blank`)
    const code = `import init, * as firn from '${server.url}/pkg/firn_browser.js'
      const start = performance.now()
      await init()
      const loaded = performance.now()
      const session = firn.Session.memory()
      session.execute('SELECT * FROM system.local')
      const ready = { 'ms to load the module': Math.round(loaded - start), 'ms to open a session and run the first query': Math.round(performance.now() - loaded) }
      session.close()
      try { postMessage({ ...ready, ...await (${measure})(firn, ${ENTRIES}) }) } catch (error) { postMessage({ error: String(error) }) }`
    const rates = await page.run(`new Promise((resolve, reject) => {
      const worker = new Worker(URL.createObjectURL(new Blob([${JSON.stringify(code)}], { type: 'text/javascript' })), { type: 'module' })
      worker.onmessage = ({ data }) => resolve(data)
      worker.onerror = (event) => reject(new Error(event.message))
    })`)
    if (rates.error) throw new Error(rates.error)
    for (const [name, figure] of Object.entries(rates)) note(name, figure)
    await page.close()
  }
  for (const [name, figures] of Object.entries(all)) {
    const best = name.startsWith('ms') ? Math.min(...figures) : Math.max(...figures)
    console.log(`${String(best).padStart(9)}  ${name}`)
  }
} finally {
  await browser.stop()
  server.close()
}

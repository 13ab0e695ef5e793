// The page and its worker in headless Chromium: stores that outlive a reload and the end of a worker.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'

import { Browser, browserName, serve } from './support.mjs'

const name = browserName()
const skip = !name && 'there is no Chromium here (Debian has it as chromium-headless-shell)'
let server
let browser

before(async () => {
  if (skip) return
  server = await serve()
  browser = await Browser.start(name)
})

after(async () => {
  await browser?.stop()
  server?.close()
})

/** Opens an empty page whose `start()` starts a worker and whose `call()` calls it. */
async function blank () {
  const tab = await browser.open(`${server.url}/blank`)
  await tab.run(`
    globalThis.start = () => {
      globalThis.worker = new Worker('/worker.js', { type: 'module' })
      const waiting = new Map()
      let last = 0
      worker.onmessage = ({ data }) => {
        const { resolve, reject } = waiting.get(data.id)
        if (data.error) reject(Object.assign(new Error(data.error.message), data.error))
        else resolve(data.result)
      }
      globalThis.call = (call, ...values) => new Promise((resolve, reject) => {
        waiting.set(++last, { resolve, reject })
        worker.postMessage({ id: last, call, values })
      })
    }
    start()
  `)
  return tab
}

const KEYSPACE = "CREATE KEYSPACE IF NOT EXISTS k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; CREATE TABLE IF NOT EXISTS k.t (a int PRIMARY KEY);"
/** Rows of a statement of the page's worker, as JSON. */
const rows = (cql) => `call('run', ${JSON.stringify(cql)}).then(({ results }) => {
  const failed = results.find(({ error }) => error)
  if (failed) throw new Error(failed.text + ': ' + failed.error.message)
  return JSON.stringify(results.at(-1).rows, (_, value) => typeof value === 'bigint' ? Number(value) : value)
})`

test('the page runs statements, and shows results and errors', { skip }, async () => {
  const tab = await browser.open(server.url)
  await tab.until('document.body.dataset.ready')
  for (const script of ['songs', 'bloggy', 'collections']) {
    await tab.run(`document.querySelector('[data-script=${script}]').click()`)
    await tab.until('document.querySelectorAll(".result").length > 10 && !document.getElementById("run").disabled')
    assert.deepEqual(await tab.run('[...document.querySelectorAll(".result .error")].map((e) => e.textContent)'), [])
    await tab.run('document.getElementById("clear").click()')
  }
  const enter = async (text) => {
    await tab.run(`editor.value = ${JSON.stringify(text)}; editor.focus()`)
    await tab.send('Input.dispatchKeyEvent', { type: 'keyDown', key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 13, modifiers: 2 })
    await tab.until('document.querySelector(".result") && !document.getElementById("run").disabled')
  }
  await enter("SELECT title FROM music.songs WHERE user_name = 'arin'")
  assert.equal(await tab.run('document.querySelector(".result td").textContent'), 'Blackbird')
  await enter('SELECT * FROM nowhere.t')
  assert.match(await tab.run('document.querySelector(".result .error").textContent'), /nowhere[^]*FIRN_INVALID_REQUEST/)
  assert.equal(await tab.run('document.querySelectorAll(".result").length'), 2)
  // The newest statement of the history.
  await tab.run('editor.value = ""; editor.focus()')
  await tab.send('Input.dispatchKeyEvent', { type: 'keyDown', key: 'ArrowUp', code: 'ArrowUp', windowsVirtualKeyCode: 38, modifiers: 1 })
  assert.equal(await tab.run('editor.value'), 'SELECT * FROM nowhere.t')
  await tab.run('document.getElementById("fill").click()')
  await tab.until('!document.getElementById("run").disabled && /level 0/.test(document.getElementById("shape").textContent)')
  await tab.close()
})

test('the page keeps its database over a reload', { skip }, async () => {
  const tab = await browser.open(server.url)
  await tab.until('document.body.dataset.ready')
  const ready = 'document.body.dataset.ready && !document.getElementById("run").disabled'
  const choose = (where) => `document.getElementById('where').value = '${where}'; document.getElementById('where').dispatchEvent(new Event('change'))`
  await tab.run(choose('opfs'))
  await tab.until(ready)
  await tab.run('document.querySelector("[data-script=bloggy]").click()')
  await tab.until(`${ready} && document.querySelectorAll('.result').length > 10`)
  await tab.reload()
  await tab.until(ready)
  assert.equal(await tab.run('document.getElementById("where").value'), 'opfs')
  await tab.run('editor.value = "SELECT count(*) FROM bloggy.authors"; document.getElementById("prompt").requestSubmit()')
  await tab.until('document.querySelector(".result td")')
  assert.equal(await tab.run('document.querySelector(".result td").textContent'), '2')
  // A second tab finds the store locked, says so, and has a store in memory instead.
  const other = await browser.open(server.url)
  await other.until(ready)
  assert.match(await other.run('document.querySelector(".result .error").textContent'), /another tab[^]*FIRN_LOCKED/)
  assert.equal(await other.run('document.getElementById("where").value'), 'memory')
  await other.close()
  await tab.run('document.getElementById("start-over").click()')
  await tab.until(`${ready} && !document.querySelector('.result')`)
  await tab.run('editor.value = "SELECT count(*) FROM bloggy.authors"; document.getElementById("prompt").requestSubmit()')
  await tab.until('document.querySelector(".result .error")')
  await tab.run(choose('memory'))
  await tab.until(ready)
  await tab.close()
})

test('a worker that ends in the middle loses no finished statement', { skip }, async () => {
  const tab = await blank()
  await tab.run("call('remove', 'crash')")
  let known = 0
  for (let round = 0; round < 6; round++) {
    await tab.run("call('open', 'crash')")
    await tab.run(rows(KEYSPACE))
    const present = JSON.parse(await tab.run(rows('SELECT a FROM k.t'))).map(([a]) => a)
    const missing = Array.from({ length: known }, (_, n) => n).filter((n) => !present.includes(n))
    assert.deepEqual(missing, [], `round ${round} of ${present.length} rows`)
    // Statements one by one, and then many in a call that does not end.
    await tab.run(`(async () => {
      for (let n = ${known}; n < ${known + 100}; n++) {
        const { results: [{ error }] } = await call('run', 'INSERT INTO k.t (a) VALUES (' + n + ')')
        if (error) throw new Error(error.message)
      }
    })()`)
    known += 100
    await tab.run(`call('fill').catch(() => {}); new Promise((resolve) => setTimeout(resolve, ${50 + 60 * round})).then(() => { worker.terminate(); start() })`)
  }
  await tab.run("call('open', 'crash')")
  const count = JSON.parse(await tab.run(rows('SELECT count(*) FROM try.readings')))
  assert.ok(count[0][0] > 0)
  await tab.run("call('close').then(() => call('remove', 'crash'))")
  await tab.close()
})

/** Runs a module that posts a result or an error in a worker of an empty page. */
async function runModule (code) {
  const page = await browser.open(`${server.url}/blank`)
  const { result, error } = await page.run(`new Promise((resolve, reject) => {
    const worker = new Worker(URL.createObjectURL(new Blob([${JSON.stringify(code)}], { type: 'text/javascript' })), { type: 'module' })
    worker.onmessage = ({ data }) => resolve(data)
    worker.onerror = (event) => reject(new Error(event.message))
  })`)
  await page.close()
  if (error) throw new Error(error)
  return result
}

/** Runs a function in a worker, with the module as `firn`, and returns its result. */
function inWorker (work) {
  return runModule(`import init, * as firn from '${server.url}/pkg/firn_browser.js'
    await init()
    try { postMessage({ result: await (${work})(firn) }) } catch (error) { postMessage({ error: String(error?.stack ?? error) }) }`)
}

test('a pool without free files says so, and continues with more', { skip }, async () => {
  const { message, missing } = await inWorker(async (firn) => {
    await firn.deleteStore('pool')
    let store = await firn.Store.opfs('pool')
    let message
    const fill = (n) => {
      const tree = store.tree(`tree ${n}`)
      tree.put('key', `value ${n}`)
      tree.flush()
    }
    for (let n = 0; n < 200; n++) {
      try {
        fill(n)
      } catch (error) {
        message ??= error.message
        // Calls at the same time wait for each other.
        await Promise.all([store.reserve(), store.reserve(), store.reserve()])
        fill(n)
      }
    }
    store.close()
    store = await firn.Store.opfs('pool')
    const value = (n) => new TextDecoder().decode(store.tree(`tree ${n}`).get('key'))
    const missing = Array.from({ length: 200 }, (_, n) => n).filter((n) => value(n) !== `value ${n}`)
    store.close()
    await firn.deleteStore('pool')
    return { message, missing }
  })
  assert.match(message, /no free file: call `await reserve\(\)`/)
  assert.deepEqual(missing, [])
})

test('a full quota is an error, and reads and deletes continue', { skip }, async () => {
  const tab = await browser.open(`${server.url}/blank`)
  const quota = (bytes) => tab.send('Storage.overrideQuotaForOrigin', { origin: server.url, ...bytes })
  await quota({ quotaSize: 20 << 20 })
  try {
    const { code, count, later } = await inWorker(async (firn) => {
      await firn.deleteStore('full')
      const store = await firn.Store.opfs('full')
      const tree = store.tree('t', { memtableSize: '1m', compression: 'none' })
      let code
      let count = 0
      while (!code && count < 2000) {
        try {
          tree.put(`key ${count}`, crypto.getRandomValues(new Uint8Array(32768)))
          count++
        } catch (error) {
          code = error.code ?? error.message
        }
        await store.reserve().catch(() => {})
      }
      for (let n = 0; n < count; n++) if (tree.get(`key ${n}`)?.length !== 32768) throw new Error(`key ${n} is lost`)
      tree.deleteRange()
      let later = 'ok'
      try { tree.put('a', 'b') } catch (error) { later = error.message }
      store.close()
      await firn.deleteStore('full')
      return { code, count, later }
    })
    assert.equal(code, 'FIRN_NO_SPACE', `after ${count} puts`)
    assert.equal(later, 'ok')
  } finally {
    await quota({})
    await tab.close()
  }
})

test('the example of the README runs', { skip }, async () => {
  const readme = await readFile(new URL('../README.md', import.meta.url), 'utf8')
  const [imported, ...rest] = readme.split('```js\n')[1].split('```')[0].split('\n')
  const printed = await runModule(`${imported.replace('./pkg', `${server.url}/pkg`)}
    const printed = []
    const console = { log: (...values) => printed.push(values.map(String)) }
    try {
      ${rest.join('\n')}
      postMessage({ result: printed })
    } catch (error) { postMessage({ error: String(error?.stack ?? error) }) }`)
  assert.equal(printed.length, 3)
  assert.ok(Number(printed[2][0]) > 1 && printed[2][1].startsWith('<svg'))
})

test('one tab at a time has a store', { skip }, async () => {
  const [tab, other] = [await blank(), await blank()]
  await tab.run("call('open', 'shared')")
  const refused = await other.run("call('open', 'shared').then(() => 'opened', ({ code, message }) => code + ': ' + message)")
  assert.match(refused, /^FIRN_LOCKED: .*another tab or worker has the store open: close it there first.*shared/)
  await tab.run("call('close')")
  await other.run("call('open', 'shared')")
  await other.close()
  // The browser releases the files of a tab that is gone.
  await tab.run("call('open', 'shared')")
  await tab.run("call('close').then(() => call('remove', 'shared'))")
  await tab.close()
})

test('the page simulates and draws', { skip }, async () => {
  const tab = await browser.open(`${server.url}/#sim`)
  await tab.until('document.body.dataset.ready')
  const set = (id, value) => tab.run(`document.getElementById('${id}').value = ${JSON.stringify(value)}; document.getElementById('${id}').dispatchEvent(new Event('input', { bubbles: true }))`)
  const simulate = () => tab.run('document.getElementById("simulate").click()')
  await set('data', '200m')
  assert.match(await tab.run('document.getElementById("command").textContent'), /^compaction-sim run --workload zipfian .*--data 200m/)
  await simulate()
  await tab.until('document.querySelectorAll("#compared tbody tr").length === 1')
  await tab.until('document.getElementById("figure").naturalWidth > 0')
  await set('policy', 'tiered')
  await simulate()
  await tab.until('document.querySelectorAll("#compared tbody tr").length === 2')
  assert.equal(await tab.run('document.querySelector("#compared tbody td").textContent'), 'tiered')
  await set('policy', 'no-such-policy')
  await simulate()
  await tab.until('!document.getElementById("sim-error").hidden')
  assert.match(await tab.run('document.getElementById("sim-error").textContent'), /no-such-policy/)
  await tab.run("document.getElementById('workload').value = 'own'; document.getElementById('workload').dispatchEvent(new Event('change'))")
  assert.equal(await tab.run("document.getElementById('command').textContent"), 'compaction-sim run --workload churn.toml --seed 1')
  await simulate()
  await tab.until('document.querySelectorAll("#compared tbody tr").length === 3')
  await tab.close()
})

test('no part is wider than a narrow window', { skip }, async () => {
  for (const width of [360, 640, 1200]) {
    const tab = await browser.open(server.url, { width, height: 800 })
    await tab.until('document.body.dataset.ready')
    await tab.run('document.querySelector("[data-script=songs]").click()')
    await tab.until('document.querySelectorAll(".result").length > 10')
    const wide = 'document.documentElement.scrollWidth - document.documentElement.clientWidth'
    assert.equal(await tab.run(wide), 0, `CQL at ${width}`)
    await tab.run('document.getElementById("tab-sim").click(); document.getElementById("data").value = "100m"; document.getElementById("simulate").click()')
    await tab.until('document.getElementById("figure").naturalWidth > 0')
    assert.equal(await tab.run(wide), 0, `simulator at ${width}`)
    await tab.close()
  }
})

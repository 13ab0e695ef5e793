// The engine and the simulator in a dedicated worker: a call does all of its work before it returns,
// and only a worker can open files for synchronous access.

import init, * as firn from './pkg/firn_browser.js'

const ready = init()
let session
let comparison

/** Rows that are shown of one result. */
const MAX_ROWS = 1000
/** Rows that `fill` writes, and the number of sensors that they belong to. */
const FILL_ROWS = 20000
const SENSORS = 50

const calls = {
  /** Opens the database in memory, or the one with this name in the origin private file system. */
  async open (name) {
    if (session) session.close()
    session = undefined
    session = name === undefined ? firn.Session.memory() : await firn.Session.opfs(name)
  },

  close () {
    session?.close()
    session = undefined
  },

  /** Deletes the database with this name. */
  remove: (name) => firn.deleteStore(name),

  /** Runs the statements of a text; an error does not stop it. */
  async run (text) {
    const results = []
    for (const statement of firn.statements(text)) {
      const start = performance.now()
      const one = { text: statement.text }
      try {
        Object.assign(one, session.execute(statement.text, undefined, MAX_ROWS))
      } catch (error) {
        one.error = describe(error)
      }
      one.millis = performance.now() - start
      results.push(one)
      await session.reserve()
    }
    return { results, keyspace: session.keyspace }
  },

  /** Writes rows into a table, with new times at each call, and flushes them. */
  async fill () {
    const start = performance.now()
    session.execute("CREATE KEYSPACE IF NOT EXISTS try WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute('CREATE TABLE IF NOT EXISTS try.readings (sensor int, at timestamp, value double, PRIMARY KEY (sensor, at))')
    const insert = session.prepare('INSERT INTO try.readings (sensor, at, value) VALUES (?, ?, ?)')
    const now = Date.now()
    for (let n = 0; n < FILL_ROWS; n++) {
      insert.execute([n % SENSORS, new Date(now + n), Math.sin(n / 1000)])
      if (n % 5000 === 4999) await session.reserve()
    }
    session.flush()
    await session.reserve()
    return { rows: FILL_ROWS, millis: performance.now() - start }
  },

  async flush () {
    session.flush()
    await session.reserve()
  },

  stats: () => session.stats(),

  choices: () => ({ policies: firn.policies(), workloads: firn.workloads(), metrics: firn.metrics() }),

  simulate (options, description, id) {
    let last = 0
    comparison ??= new firn.Comparison()
    return comparison.run(options, description, (share) => {
      if (share - last < 0.01) return
      last = share
      postMessage({ id, progress: share })
    })
  }
}

function describe (error) {
  return { message: error.message ?? String(error), code: error.code ?? error.name }
}

onmessage = async ({ data: { id, call, values } }) => {
  try {
    await ready
    postMessage({ id, result: await calls[call](...values, id) })
  } catch (error) {
    postMessage({ id, error: describe(error) })
  }
}

'use strict'
// Sessions, statements, rows.

const native = require('./native')
const { convert, now, later } = require('./errors')
const { storeOptions, text } = require('./store')
const { Turns } = require('./turns')
const { Reader, packParameters, setField } = require('./value')

async function openSession (path, options) {
  return new Session(await later(() => native.openSession(text(path, 'the path'), storeOptions(options), false)))
}

function openSessionSync (path, options) {
  return new Session(now(() => native.openSession(text(path, 'the path'), storeOptions(options), true)))
}

function openSessionMemory () {
  return new Session(now(() => native.openSessionMemory()))
}

/** Checks the options of a statement. */
function runOptions (options = {}) {
  const { pageSize, timestamp } = options
  if (pageSize !== undefined && !(Number.isInteger(pageSize) && pageSize > 0 && pageSize < 2 ** 31)) {
    throw new TypeError('pageSize must be an integer above 0')
  }
  if (timestamp !== undefined && !Number.isSafeInteger(Number(timestamp))) {
    throw new TypeError('timestamp must be an integer: microseconds since 1970')
  }
  return { pageSize, timestamp: timestamp === undefined ? undefined : Number(timestamp) }
}

class Session {
  #native

  constructor (native) {
    this.#native = native
  }

  get keyspace () {
    return this.#native.keyspace() ?? undefined
  }

  clone () {
    return new Session(now(() => this.#native.fork()))
  }

  async execute (cql, parameters, options) {
    const rows = await later(() => this.#native.execute(text(cql, 'the statement'), packParameters(parameters), runOptions(options), false))
    return new Rows(rows, options)
  }

  executeSync (cql, parameters, options) {
    const rows = now(() => this.#native.execute(text(cql, 'the statement'), packParameters(parameters), runOptions(options), true))
    return new Rows(rows, options)
  }

  async prepare (cql) {
    return new Statement(await later(() => this.#native.prepare(text(cql, 'the statement'), false)))
  }

  prepareSync (cql) {
    return new Statement(now(() => this.#native.prepare(text(cql, 'the statement'), true)))
  }

  close () {
    return later(() => this.#native.close(false))
  }

  closeSync () {
    now(() => this.#native.close(true))
  }

  [Symbol.asyncDispose] () {
    return this.close()
  }

  [Symbol.dispose] () {
    this.closeSync()
  }
}

class Statement {
  #native

  constructor (native) {
    this.#native = native
  }

  get markers () {
    return this.#native.markers().map(([name, type]) => ({ name, type }))
  }

  async execute (parameters, options) {
    return new Rows(await later(() => this.#native.execute(packParameters(parameters), runOptions(options), false)), options)
  }

  executeSync (parameters, options) {
    return new Rows(now(() => this.#native.execute(packParameters(parameters), runOptions(options), true)), options)
  }
}

class Rows {
  #native
  #arrays
  #columns = []
  #reader
  /** Rows of the chunk that are not read yet. */
  #left = 0
  /** Whether that chunk is the last one. */
  #ended = false
  #turns = new Turns()

  constructor (native, options) {
    this.#native = native
    this.#arrays = Boolean(options?.arrays)
    this.#accept(native.first())
  }

  get columns () {
    return this.#columns
  }

  #accept (chunk) {
    this.#reader = new Reader(chunk)
    const header = new Reader(this.#reader.bytes())
    const columns = []
    for (let left = header.length(); left > 0; left--) columns.push({ name: header.text(), type: header.text() })
    this.#ended = this.#reader.byte() === 1
    this.#left = this.#reader.length()
    this.#columns = columns
  }

  /** Returns the next row of the chunk. */
  #row () {
    if (this.#left === 0) return undefined
    this.#left--
    const columns = this.#columns
    if (this.#arrays) return columns.map(() => this.#reader.value())
    const row = {}
    for (let at = 0; at < columns.length; at++) setField(row, columns[at].name, this.#reader.value())
    return row
  }

  #end () {
    this.#ended = true
    this.#left = 0
  }

  #nextSync () {
    if (this.#left === 0 && !this.#ended) {
      try {
        this.#accept(this.#native.next(true))
      } catch (e) {
        this.#end()
        throw convert(e)
      }
    }
    return this.#row()
  }

  #next () {
    if (this.#turns.idle && this.#left > 0) return Promise.resolve(this.#row())
    return this.#turns.run(() => this.#fetch())
  }

  async #fetch () {
    if (this.#left === 0 && !this.#ended) {
      try {
        this.#accept(await this.#native.next(false))
      } catch (e) {
        this.#end()
        throw convert(e)
      }
    }
    return this.#row()
  }

  one () {
    return this.#next()
  }

  oneSync () {
    return this.#nextSync()
  }

  async all () {
    const rows = []
    for await (const row of this) rows.push(row)
    return rows
  }

  allSync () {
    return [...this]
  }

  [Symbol.iterator] () {
    return {
      next: () => {
        const value = this.#nextSync()
        return { done: value === undefined, value }
      },
      return: (value) => {
        this.#end()
        return { done: true, value }
      },
      [Symbol.iterator] () {
        return this
      }
    }
  }

  [Symbol.asyncIterator] () {
    return {
      next: async () => {
        const value = await this.#next()
        return { done: value === undefined, value }
      },
      return: (value) => this.#turns.run(async () => {
        this.#end()
        return { done: true, value }
      }),
      [Symbol.asyncIterator] () {
        return this
      }
    }
  }
}

module.exports = { openSession, openSessionSync, openSessionMemory, Session, Statement, Rows }

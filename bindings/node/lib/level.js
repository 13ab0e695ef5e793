'use strict'
// A database of abstract-level over one tree of a store. https://github.com/Level/abstract-level
// describes the methods and their contracts.

const { AbstractLevel, AbstractIterator, AbstractSnapshot } = require('abstract-level')
const { open, openMemory } = require('./store')
const { classes } = require('./errors')

/** Converts an error to one with a code of abstract-level, where it has such a code. */
function levelError (error) {
  const code = {
    FIRN_LOCKED: 'LEVEL_LOCKED',
    FIRN_CORRUPTION: 'LEVEL_CORRUPTION',
    FIRN_IO: 'LEVEL_IO_ERROR',
    FIRN_NO_SPACE: 'LEVEL_IO_ERROR',
    FIRN_EXHAUSTED: 'LEVEL_IO_ERROR'
  }[error.code]
  return code ? Object.assign(new Error(error.message, { cause: error }), { code }) : error
}

async function call (work) {
  try {
    return await work()
  } catch (e) {
    throw levelError(e)
  }
}

/** Returns the options of a write. classic-level names the same durability `sync`. */
function writeOptions (options) {
  return options.sync ? { durability: 'power' } : options
}

class FirnLevelSnapshot extends AbstractSnapshot {
  constructor (snapshot, options) {
    super(options)
    this.snapshot = snapshot
  }

  async _close () {
    this.snapshot.close()
  }
}

class FirnLevelIterator extends AbstractIterator {
  #snapshot
  #isOwn
  #tree
  #options
  /** The range of the last seek. */
  #range
  /** Created by the first read, because the snapshot may be closed. */
  #items = undefined

  constructor (db, options, store, tree) {
    super(db, options)
    this.#isOwn = options.snapshot === undefined
    this.#snapshot = this.#isOwn ? store.snapshot() : options.snapshot.snapshot
    this.#tree = tree
    this.#options = this.#range = rangeOf(options)
  }

  #start () {
    const limit = this.limit === -1 ? Infinity : this.limit - this.count
    return this.#snapshot.range(this.#tree, { ...this.#range, limit })[Symbol.asyncIterator]()
  }

  async _next () {
    return (await this._nextv(1))[0]
  }

  _nextv (size) {
    return call(async () => {
      const items = this.#items ??= this.#start()
      const entries = []
      while (entries.length < size) {
        const { done, value } = await items.next()
        if (done) break
        entries.push(value)
      }
      return entries
    })
  }

  _seek (target) {
    const { reverse, gt, gte, lt, lte } = this.#options
    const range = { ...this.#options }
    // A target before the range leaves the whole range.
    if (reverse) {
      const order = lt ?? lte ? Buffer.compare(target, lt ?? lte) : -1
      if (order < 0 || (order === 0 && lte)) Object.assign(range, { lt: undefined, lte: target })
    } else {
      const order = gt ?? gte ? Buffer.compare(target, gt ?? gte) : 1
      if (order > 0 || (order === 0 && gte)) Object.assign(range, { gt: undefined, gte: target })
    }
    this.#items?.return()
    this.#items = undefined
    this.#range = range
  }

  async _close () {
    await this.#items?.return()
    if (this.#isOwn) this.#snapshot.close()
  }
}

function rangeOf ({ gt, gte, lt, lte, reverse }) {
  // Of two bounds for one end, abstract-level gives gte and lte the precedence.
  return { gt: gte === undefined ? gt : undefined, gte, lt: lte === undefined ? lt : undefined, lte, reverse }
}

class FirnLevel extends AbstractLevel {
  #location
  #options
  #store
  #tree

  constructor (location, options = {}) {
    const { tree = 'level', store = {}, ...rest } = options
    super({
      encodings: { buffer: true },
      implicitSnapshots: true,
      explicitSnapshots: true,
      permanence: location !== undefined,
      seek: true,
      has: true,
      getSync: true,
      createIfMissing: location !== undefined,
      errorIfExists: location !== undefined
    }, rest)
    this.#location = location
    this.#options = { tree, store }
  }

  get location () {
    return this.#location
  }

  get type () {
    return 'firn-db'
  }

  async _open (options) {
    const { tree, store } = this.#options
    this.#store = await call(async () => {
      if (this.#location === undefined) return this.#store ?? openMemory()
      if (options.errorIfExists && await exists(this.#location)) {
        throw new classes.InvalidArgumentError(`a store exists already in ${this.#location}`)
      }
      try {
        return await open(this.#location, { ...store, create: options.createIfMissing })
      } catch (e) {
        if (!(e instanceof classes.NotFoundError)) throw e
        throw new classes.NotFoundError(`the store ${this.#location} does not exist`, { cause: e })
      }
    })
    this.#tree = await call(() => this.#store.tree(tree))
  }

  async _close () {
    // A store in memory keeps its data until it is collected.
    if (this.#location !== undefined) await call(() => this.#store.close())
  }

  #read (options) {
    return options.snapshot?.snapshot
  }

  _get (key, options) {
    const at = this.#read(options)
    return call(() => at ? at.get(this.#tree, key) : this.#tree.get(key))
  }

  _getSync (key, options) {
    const at = this.#read(options)
    try {
      return at ? at.getSync(this.#tree, key) : this.#tree.getSync(key)
    } catch (e) {
      throw levelError(e)
    }
  }

  _getMany (keys, options) {
    const at = this.#read(options)
    return call(() => at ? at.getMany(this.#tree, keys) : this.#tree.getMany(keys))
  }

  _has (key, options) {
    const at = this.#read(options)
    return call(() => at ? at.has(this.#tree, key) : this.#tree.has(key))
  }

  async _hasMany (keys, options) {
    return (await this._getMany(keys, options)).map((value) => value !== undefined)
  }

  _put (key, value, options) {
    return call(() => this.#tree.put(key, value, writeOptions(options)))
  }

  _del (key, options) {
    return call(() => this.#tree.delete(key, writeOptions(options)))
  }

  _batch (operations, options) {
    return call(() => {
      const batch = this.#store.batch()
      for (const { type, key, value } of operations) {
        if (type === 'put') batch.put(this.#tree, key, value)
        else batch.delete(this.#tree, key)
      }
      return batch.write(writeOptions(options))
    })
  }

  async _clear (options) {
    await call(async () => {
      const range = rangeOf(options)
      const at = this.#read(options)
      if (!at && options.limit === -1) return this.#tree.deleteRange(range)
      const limit = options.limit === -1 ? Infinity : options.limit
      const own = at ?? this.#store.snapshot()
      try {
        let batch = this.#store.batch()
        for await (const key of own.keys(this.#tree, { ...range, limit })) {
          batch.delete(this.#tree, key)
          if (batch.length >= 1000) {
            await batch.write()
            batch = this.#store.batch()
          }
        }
        await batch.write()
      } finally {
        if (!at) own.close()
      }
    })
  }

  _iterator (options) {
    return new FirnLevelIterator(this, options, this.#store, this.#tree)
  }

  _snapshot (options) {
    return new FirnLevelSnapshot(this.#store.snapshot(), options)
  }
}

async function exists (location) {
  try {
    const store = await open(location, { create: false, readOnly: true })
    await store.close()
    return true
  } catch (e) {
    if (e instanceof classes.NotFoundError) return false
    throw e
  }
}

module.exports = { FirnLevel }

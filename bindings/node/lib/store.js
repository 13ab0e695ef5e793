'use strict'
// Stores, trees, batches, snapshots, transactions.

const native = require('./native')
const { classes, convert, now, later } = require('./errors')
const { toBytes, packKeys, unpackValues, durability } = require('./bytes')
const { Range, ends } = require('./range')
const { Subscription, whole } = require('./changes')

/** Key of the native object of a tree or savepoint. */
const NATIVE = Symbol('native')

/** Receives the values of synchronous reads, unless they are longer. */
const scratch = Buffer.allocUnsafeSlow(4096)

/** Checks the options of a store. */
function storeOptions (options = {}) {
  const { memoryBudget, backgroundThreads, readOnly, create } = options
  const optional = (n, name) => n === undefined ? undefined : whole(n, name)
  return {
    memoryBudget: optional(memoryBudget, 'memoryBudget'),
    backgroundThreads: optional(backgroundThreads, 'backgroundThreads'),
    durability: durability(options),
    readOnly: readOnly === undefined ? undefined : Boolean(readOnly),
    create: create === undefined ? undefined : Boolean(create)
  }
}

/** Log that a store retains for a subscription by default. */
const DEFAULT_LOG_BYTES = 2 ** 30

const snapshotOf = (native) => new Snapshot(native)

function text (given, what) {
  if (typeof given !== 'string') throw new TypeError(`${what} must be a string`)
  return given
}

function nativeOf (tree) {
  const of = tree?.[NATIVE]
  if (of === undefined) throw new TypeError('the tree must be a Tree')
  return of
}

/** Converts the options of a tree, named as those of `firn set-options` or in camel case. */
function treeOptions (options = {}) {
  const name = (key) => key.replace(/[A-Z]/g, (letter) => '_' + letter.toLowerCase())
  return Object.entries(options).filter(([, value]) => value !== undefined).map(([key, value]) => [name(key), String(value)])
}

async function open (path, options) {
  return new Db(await later(() => native.open(text(path, 'the path'), storeOptions(options), false)))
}

function openSync (path, options) {
  return new Db(now(() => native.open(text(path, 'the path'), storeOptions(options), true)))
}

function openMemory () {
  return new Db(now(() => native.openMemory()))
}

class Db {
  #native

  constructor (native) {
    this.#native = native
  }

  async tree (name, options) {
    const tree = await later(() => this.#native.tree(text(name, 'the name'), treeOptions(options), false))
    return new Tree(tree, name)
  }

  treeSync (name, options) {
    return new Tree(now(() => this.#native.tree(text(name, 'the name'), treeOptions(options), true)), name)
  }

  treeNames () {
    return now(() => this.#native.treeNames())
  }

  dropTree (name) {
    return later(() => this.#native.dropTree(text(name, 'the name'), false))
  }

  dropTreeSync (name) {
    now(() => this.#native.dropTree(text(name, 'the name'), true))
  }

  batch () {
    return new Batch(this.#native)
  }

  snapshot () {
    return new Snapshot(now(() => this.#native.snapshot()))
  }

  transaction () {
    return new Transaction(now(() => this.#native.transaction()))
  }

  async transact (work, options) {
    const attempts = options?.attempts ?? 32
    for (let attempt = 1; ; attempt++) {
      const tx = this.transaction()
      try {
        const result = await work(tx)
        await tx.commit(options)
        return result
      } catch (e) {
        tx.rollback()
        if (!(e instanceof classes.ConflictError) || attempt >= attempts) throw e
      }
      await later(() => this.#native.pause(attempt, false))
    }
  }

  transactSync (work, options) {
    const attempts = options?.attempts ?? 32
    for (let attempt = 1; ; attempt++) {
      const tx = this.transaction()
      try {
        const result = work(tx)
        tx.commitSync(options)
        return result
      } catch (e) {
        tx.rollback()
        if (!(e instanceof classes.ConflictError) || attempt >= attempts) throw e
      }
      now(() => this.#native.pause(attempt, true))
    }
  }

  async subscribe (name, options) {
    const most = whole(options?.maxLogBytes, 'maxLogBytes', DEFAULT_LOG_BYTES)
    return new Subscription(await later(() => this.#native.subscribe(text(name, 'the name'), most, false)), snapshotOf)
  }

  subscribeSync (name, options) {
    const most = whole(options?.maxLogBytes, 'maxLogBytes', DEFAULT_LOG_BYTES)
    return new Subscription(now(() => this.#native.subscribe(text(name, 'the name'), most, true)), snapshotOf)
  }

  subscriptions () {
    return now(() => this.#native.subscriptions())
  }

  dropSubscription (name) {
    return later(() => this.#native.dropSubscription(text(name, 'the name'), false))
  }

  dropSubscriptionSync (name) {
    now(() => this.#native.dropSubscription(text(name, 'the name'), true))
  }

  checkpoint (path) {
    return later(() => this.#native.checkpoint(text(path, 'the path'), false))
  }

  checkpointSync (path) {
    now(() => this.#native.checkpoint(text(path, 'the path'), true))
  }

  waitIdle () {
    return later(() => this.#native.waitIdle(false))
  }

  sync () {
    return later(() => this.#native.sync(false))
  }

  syncSync () {
    now(() => this.#native.sync(true))
  }

  async stats () {
    return JSON.parse(await later(() => this.#native.stats(false)))
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

class Tree {
  #native
  #name

  constructor (native, name) {
    this.#native = native
    this.#name = name
  }

  get [NATIVE] () {
    return this.#native
  }

  get name () {
    return this.#name
  }

  async get (key) {
    try {
      return await this.#native.get(toBytes(key, 'key'))
    } catch (e) {
      throw convert(e)
    }
  }

  getSync (key) {
    const bytes = toBytes(key, 'key')
    try {
      const length = this.#native.getInto(bytes, scratch)
      if (length < 0) return undefined
      if (length > scratch.length) return this.#native.getNow(bytes)
      // Buffers of the native module cost more than ones from the pool of Node.js.
      const value = Buffer.allocUnsafe(length)
      scratch.copy(value, 0, 0, length)
      return value
    } catch (e) {
      throw convert(e)
    }
  }

  async put (key, value, options) {
    try {
      await this.#native.put(toBytes(key, 'key'), toBytes(value, 'value'), durability(options))
    } catch (e) {
      throw convert(e)
    }
  }

  putSync (key, value, options) {
    try {
      this.#native.putNow(toBytes(key, 'key'), toBytes(value, 'value'), durability(options))
    } catch (e) {
      throw convert(e)
    }
  }

  has (key) {
    return later(() => this.#native.has(toBytes(key, 'key'), false))
  }

  hasSync (key) {
    return now(() => this.#native.has(toBytes(key, 'key'), true))
  }

  delete (key, options) {
    return later(() => this.#native.delete(toBytes(key, 'key'), durability(options), false))
  }

  deleteSync (key, options) {
    now(() => this.#native.delete(toBytes(key, 'key'), durability(options), true))
  }

  deleteRange (range, options) {
    return later(() => {
      const to = ends(range)
      return to && this.#native.deleteRange(to.from, to.to, durability(options), false)
    }).then(() => undefined)
  }

  deleteRangeSync (range, options) {
    now(() => {
      const to = ends(range)
      if (to) this.#native.deleteRange(to.from, to.to, durability(options), true)
    })
  }

  async getMany (keys) {
    return unpackValues(await later(() => this.#native.getMany(packKeys(keys), false)))
  }

  getManySync (keys) {
    return unpackValues(now(() => this.#native.getMany(packKeys(keys), true)))
  }

  async insertIfAbsent (key, value, options) {
    const before = await later(() => this.#native.insertIfAbsent(toBytes(key, 'key'), toBytes(value, 'value'), durability(options), false))
    return before === undefined
  }

  insertIfAbsentSync (key, value, options) {
    return now(() => this.#native.insertIfAbsent(toBytes(key, 'key'), toBytes(value, 'value'), durability(options), true)) === undefined
  }

  #swap (key, before, after, options, wait) {
    const optional = (value) => value === undefined || value === null ? undefined : toBytes(value, 'value')
    return this.#native.compareAndSwap(toBytes(key, 'key'), optional(before), optional(after), durability(options), wait)
  }

  compareAndSwap (key, before, after, options) {
    return later(() => this.#swap(key, before, after, options, false))
  }

  compareAndSwapSync (key, before, after, options) {
    return now(() => this.#swap(key, before, after, options, true))
  }

  #range (options, what) {
    return new Range((from, to, reverse) => this.#native.range(from, to, reverse), options, what)
  }

  range (options) {
    return this.#range(options, 'entries')
  }

  keys (options) {
    return this.#range(options, 'keys')
  }

  values (options) {
    return this.#range(options, 'values')
  }

  flush () {
    return later(() => this.#native.flush(false))
  }

  compact (range) {
    return later(() => {
      const to = ends(range)
      return to && this.#native.compact(to.from, to.to, false)
    }).then(() => undefined)
  }
}

class Batch {
  #db
  #native

  constructor (db) {
    this.#db = db
    this.#native = new native.NativeBatch()
  }

  get length () {
    return this.#native.len()
  }

  put (tree, key, value) {
    now(() => this.#native.put(nativeOf(tree), toBytes(key, 'key'), toBytes(value, 'value')))
    return this
  }

  delete (tree, key) {
    now(() => this.#native.delete(nativeOf(tree), toBytes(key, 'key')))
    return this
  }

  deleteRange (tree, range) {
    now(() => {
      const to = ends(range)
      if (to) this.#native.deleteRange(nativeOf(tree), to.from, to.to)
    })
    return this
  }

  clear () {
    this.#native.clear()
    return this
  }

  write (options) {
    return later(() => this.#db.write(this.#native, durability(options), false))
  }

  writeSync (options) {
    now(() => this.#db.write(this.#native, durability(options), true))
  }
}

class Snapshot {
  #native

  constructor (native) {
    this.#native = native
  }

  get (tree, key) {
    return later(() => this.#native.get(nativeOf(tree), toBytes(key, 'key'), false))
  }

  getSync (tree, key) {
    return now(() => this.#native.get(nativeOf(tree), toBytes(key, 'key'), true))
  }

  has (tree, key) {
    return later(() => this.#native.has(nativeOf(tree), toBytes(key, 'key'), false))
  }

  hasSync (tree, key) {
    return now(() => this.#native.has(nativeOf(tree), toBytes(key, 'key'), true))
  }

  async getMany (tree, keys) {
    return unpackValues(await later(() => this.#native.getMany(nativeOf(tree), packKeys(keys), false)))
  }

  getManySync (tree, keys) {
    return unpackValues(now(() => this.#native.getMany(nativeOf(tree), packKeys(keys), true)))
  }

  #range (tree, options, what) {
    const of = nativeOf(tree)
    return new Range((from, to, reverse) => this.#native.range(of, from, to, reverse), options, what)
  }

  range (tree, options) {
    return this.#range(tree, options, 'entries')
  }

  keys (tree, options) {
    return this.#range(tree, options, 'keys')
  }

  values (tree, options) {
    return this.#range(tree, options, 'values')
  }

  close () {
    this.#native.close()
  }

  [Symbol.dispose] () {
    this.close()
  }
}

class Savepoint {
  #native

  constructor (native) {
    this.#native = native
  }

  get [NATIVE] () {
    return this.#native
  }
}

class Transaction {
  #native

  constructor (native) {
    this.#native = native
  }

  get (tree, key) {
    return later(() => this.#native.get(nativeOf(tree), toBytes(key, 'key'), false))
  }

  getSync (tree, key) {
    return now(() => this.#native.get(nativeOf(tree), toBytes(key, 'key'), true))
  }

  put (tree, key, value) {
    now(() => this.#native.put(nativeOf(tree), toBytes(key, 'key'), toBytes(value, 'value')))
    return this
  }

  delete (tree, key) {
    now(() => this.#native.delete(nativeOf(tree), toBytes(key, 'key')))
    return this
  }

  deleteRange (tree, range) {
    now(() => {
      const to = ends(range)
      if (to) this.#native.deleteRange(nativeOf(tree), to.from, to.to)
    })
    return this
  }

  #lock (tree, key, options, wait) {
    const millis = options?.wait ?? 1000
    if (!(Number.isInteger(millis) && millis >= 0 && millis < 2 ** 32)) throw new TypeError('wait must be an integer of milliseconds')
    return this.#native.lock(nativeOf(tree), toBytes(key, 'key'), millis, wait)
  }

  lock (tree, key, options) {
    return later(() => this.#lock(tree, key, options, false))
  }

  lockSync (tree, key, options) {
    now(() => this.#lock(tree, key, options, true))
  }

  savepoint () {
    return new Savepoint(now(() => this.#native.savepoint()))
  }

  rollbackTo (savepoint) {
    const of = savepoint?.[NATIVE]
    if (of === undefined) throw new TypeError('the savepoint must be a Savepoint')
    now(() => this.#native.rollbackTo(of))
  }

  range (tree, options) {
    const of = nativeOf(tree)
    // Entries that are fetched count as read, so the first fetch is small.
    return new Range((from, to, reverse) => this.#native.range(of, from, to, reverse), options, 'entries', 1)
  }

  commit (options) {
    return later(() => this.#native.commit(durability(options), false))
  }

  commitSync (options) {
    now(() => this.#native.commit(durability(options), true))
  }

  rollback () {
    this.#native.rollback()
  }

  [Symbol.dispose] () {
    this.rollback()
  }
}

module.exports = { open, openSync, openMemory, storeOptions, text, Db, Tree, Batch, Snapshot, Savepoint, Transaction }

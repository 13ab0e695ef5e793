'use strict'
// Ranges of keys and their iterators. A fetch returns many entries, since a call into the native
// module, and more so one to libuv's pool, costs more than an entry.

const native = require('./native')
const { convert, now } = require('./errors')
const { toBytes } = require('./bytes')
const { Turns } = require('./turns')

/** Entries of the first fetch; later ones fetch twice as many. */
const FIRST_ENTRIES = 16
const MAX_ENTRIES = 1024
/** Bytes after which a fetch ends. */
const MAX_BYTES = 64 << 10

/** Converts the options gt, gte, lt, lte and prefix to two ends. Returns `null` for an empty range. */
function ends (options) {
  const { gt, gte, lt, lte, prefix } = options ?? {}
  if (gt !== undefined && gte !== undefined) throw new TypeError('a range has gt or gte, not both')
  if (lt !== undefined && lte !== undefined) throw new TypeError('a range has lt or lte, not both')
  const end = (key, included) => key === undefined ? undefined : { key: toBytes(key, 'key'), included }
  let from = end(gte, true) ?? end(gt, false)
  let to = end(lte, true) ?? end(lt, false)
  if (prefix !== undefined) {
    const bytes = toBytes(prefix, 'prefix')
    const after = native.endOfPrefix(bytes)
    if (!from || Buffer.compare(from.key, bytes) < 0) from = { key: bytes, included: true }
    if (after && (!to || Buffer.compare(to.key, after) >= 0)) to = { key: after, included: false }
  }
  if (from && to) {
    const order = Buffer.compare(from.key, to.key)
    if (order > 0 || (order === 0 && !(from.included && to.included))) return null
  }
  return { from, to }
}

const pickers = {
  entries: (packed, key, value, end) => [packed.subarray(key, value), packed.subarray(value, end)],
  keys: (packed, key, value) => packed.subarray(key, value),
  values: (packed, _key, value, end) => packed.subarray(value, end)
}

/** Reads the items of a range in order, a chunk at a time. */
class Fetcher {
  #range
  #pick
  #left
  #entries
  #packed = undefined
  #at = 0

  constructor (range, pick, limit, firstEntries) {
    this.#range = range
    this.#pick = pick
    this.#left = limit
    this.#entries = firstEntries
  }

  /** Returns the next item that was fetched, or `undefined`. */
  ready () {
    const packed = this.#packed
    if (packed === undefined || this.#left === 0) return undefined
    const at = this.#at
    const key = at + 8
    const value = key + packed.readUInt32LE(at)
    const end = value + packed.readUInt32LE(at + 4)
    this.#left--
    if (end < packed.length) this.#at = end
    else this.#packed = undefined
    return this.#pick(packed, key, value, end)
  }

  /** Fetches further entries; the range is closed when there are none. */
  fetch (wait) {
    if (this.#left === 0) this.close()
    if (!this.#range) return undefined
    const entries = Math.min(this.#entries, this.#left)
    this.#entries = Math.min(this.#entries * 2, MAX_ENTRIES)
    return this.#range.next(entries, MAX_BYTES, wait)
  }

  /** Stores what `fetch` has returned. Returns whether there are entries. */
  accept (packed) {
    if (packed === undefined) this.close()
    this.#packed = packed
    this.#at = 0
    return packed !== undefined
  }

  close () {
    this.#packed = undefined
    this.#range?.close()
    this.#range = undefined
  }
}

const DONE = { done: true, value: undefined }

class SyncIterator {
  #fetcher

  constructor (fetcher) {
    this.#fetcher = fetcher
  }

  next () {
    let value = this.#fetcher.ready()
    if (value === undefined) {
      let more
      try {
        more = this.#fetcher.accept(this.#fetcher.fetch(true))
      } catch (e) {
        this.#fetcher.close()
        throw convert(e)
      }
      if (!more) return DONE
      value = this.#fetcher.ready()
    }
    return { done: false, value }
  }

  return (value) {
    this.#fetcher.close()
    return { done: true, value }
  }

  [Symbol.iterator] () {
    return this
  }
}

class AsyncIterator {
  #fetcher
  #turns = new Turns()

  constructor (fetcher) {
    this.#fetcher = fetcher
  }

  next () {
    if (this.#turns.idle) {
      const value = this.#fetcher.ready()
      if (value !== undefined) return Promise.resolve({ done: false, value })
    }
    return this.#turns.run(() => this.#fetch())
  }

  return (value) {
    return this.#turns.run(async () => {
      this.#fetcher.close()
      return { done: true, value }
    })
  }

  async #fetch () {
    let value = this.#fetcher.ready()
    if (value === undefined) {
      try {
        if (!this.#fetcher.accept(await this.#fetcher.fetch(false))) return DONE
      } catch (e) {
        this.#fetcher.close()
        throw convert(e)
      }
      value = this.#fetcher.ready()
    }
    return { done: false, value }
  }

  [Symbol.asyncIterator] () {
    return this
  }
}

/** The items of a range. Each iteration begins with the state at its start. */
class Range {
  #open
  #options
  #pick
  #firstEntries

  constructor (open, options, what, firstEntries = FIRST_ENTRIES) {
    const limit = options?.limit ?? Infinity
    if (limit !== Infinity && !(Number.isSafeInteger(limit) && limit >= 0)) {
      throw new TypeError('limit must be an integer from 0 on')
    }
    this.#open = open
    this.#options = { ends: ends(options), reverse: Boolean(options?.reverse), limit }
    this.#pick = pickers[what]
    this.#firstEntries = firstEntries
  }

  #fetcher () {
    const { ends, reverse, limit } = this.#options
    const range = ends && now(() => this.#open(ends.from, ends.to, reverse))
    return new Fetcher(range ?? undefined, this.#pick, limit, this.#firstEntries)
  }

  [Symbol.iterator] () {
    return new SyncIterator(this.#fetcher())
  }

  [Symbol.asyncIterator] () {
    return new AsyncIterator(this.#fetcher())
  }

  /** Returns all items. */
  async all () {
    const items = []
    for await (const item of this) items.push(item)
    return items
  }

  allSync () {
    return [...this]
  }
}

module.exports = { Range, ends }

'use strict'
// Subscriptions: durable change feeds.

const { now, later } = require('./errors')
const { Turns } = require('./turns')

/** First and longest pause between two looks for a change, in milliseconds. */
const FIRST_PAUSE = 1
const LONGEST_PAUSE = 20

/** Returns a change of the native module as an object. */
function changeOf (native) {
  const ops = native.ops().map(({ op, tree, key, value, expiresMicros }) => {
    if (op === 'delete') return { op, tree, key }
    if (op === 'deleteRange') return { op, tree, start: key, end: value }
    if (op === 'merge') return { op, tree, key, operand: value }
    const put = { op, tree, key, value }
    if (expiresMicros !== undefined && expiresMicros !== null) put.expires = new Date(expiresMicros / 1000)
    return put
  })
  return { position: native.position(), loaded: native.loaded(), ops }
}

/** Waits, at most until a signal is aborted. */
function pause (millis, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, millis)
    signal?.addEventListener('abort', end)
  })
}

function whole (n, name, fallback) {
  const value = n ?? fallback
  if (!(Number.isSafeInteger(value) && value >= 0)) throw new TypeError(`${name} must be an integer from 0 on`)
  return value
}

function positionOf (position) {
  if (position !== undefined && typeof position !== 'string') throw new TypeError('a position must be a string')
  return position
}

class Subscription {
  #native
  #turns = new Turns()
  #snapshotOf

  constructor (native, snapshotOf) {
    this.#native = native
    this.#snapshotOf = snapshotOf
  }

  get name () {
    return now(() => this.#native.name())
  }

  get snapshotDue () {
    return now(() => this.#native.snapshotDue())
  }

  get position () {
    return now(() => this.#native.position())
  }

  async snapshot () {
    return this.#snapshotOf(await later(() => this.#native.snapshot(false)))
  }

  snapshotSync () {
    return this.#snapshotOf(now(() => this.#native.snapshot(true)))
  }

  async #next (until, signal) {
    for (let millis = FIRST_PAUSE; ; millis = Math.min(millis * 2, LONGEST_PAUSE)) {
      signal?.throwIfAborted()
      const change = await later(() => this.#native.next(false))
      if (change) return changeOf(change)
      const left = until - performance.now()
      if (left <= 0) return undefined
      // A call that waits would occupy a thread of the pool.
      await pause(Math.min(millis, left), signal)
    }
  }

  async next (options) {
    const until = performance.now() + (options?.wait === Infinity ? Infinity : whole(options?.wait, 'wait', 0))
    return this.#turns.run(() => this.#next(until, options?.signal))
  }

  nextSync () {
    const change = now(() => this.#native.next(true))
    return change ? changeOf(change) : undefined
  }

  async * changes (options) {
    const { signal } = options ?? {}
    for (;;) yield await this.next({ wait: Infinity, signal })
  }

  [Symbol.asyncIterator] () {
    return this.changes()
  }

  acknowledge (position) {
    return later(() => this.#native.acknowledge(positionOf(position), false))
  }

  acknowledgeSync (position) {
    now(() => this.#native.acknowledge(positionOf(position), true))
  }

  resume (position) {
    return later(() => this.#native.resume(positionOf(position), false))
  }

  resumeSync (position) {
    now(() => this.#native.resume(positionOf(position), true))
  }

  close () {
    this.#native.close()
  }

  [Symbol.dispose] () {
    this.close()
  }
}

module.exports = { Subscription, whole }

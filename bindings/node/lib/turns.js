'use strict'
// Runs steps of an iterator one after the other, since `next` may be called before the promise of
// the call before is resolved.

class Turns {
  #last = undefined

  /** Whether no step is unfinished. */
  get idle () {
    return this.#last === undefined
  }

  /** Runs an async function after the steps before it, and returns its promise. */
  run (step) {
    const promise = this.#last ? this.#last.then(step) : step()
    const end = () => {
      if (this.#last === last) this.#last = undefined
    }
    const last = promise.then(end, end)
    this.#last = last
    return promise
  }
}

module.exports = { Turns }

'use strict'
// Values of CQL in their packed form (`bindings/packed/src/value.rs`).

const MILLIS_OF_DAY = 86400000
/** Days of the years 0 and 9999, counted from 1970-01-01: outside, a date is a number. */
const FIRST_DAY = -719528
const LAST_DAY = 2932896
/** Milliseconds that a `Date` can have on each side of 1970. */
const MAX_MILLIS = 8640000000000000n

/** Sets a field, whatever its name. */
function setField (object, name, value) {
  if (name === '__proto__') {
    Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true })
  } else {
    object[name] = value
  }
}

class Reader {
  #bytes
  #at = 0

  constructor (bytes) {
    this.#bytes = bytes
  }

  byte () {
    return this.#bytes[this.#at++]
  }

  length () {
    const length = this.#bytes.readUInt32LE(this.#at)
    this.#at += 4
    return length
  }

  bytes () {
    const length = this.length()
    this.#at += length
    return this.#bytes.subarray(this.#at - length, this.#at)
  }

  text () {
    const length = this.length()
    this.#at += length
    return this.#bytes.toString('utf8', this.#at - length, this.#at)
  }

  #int64 () {
    this.#at += 8
    return this.#bytes.readBigInt64LE(this.#at - 8)
  }

  #values () {
    const values = []
    for (let left = this.length(); left > 0; left--) values.push(this.value())
    return values
  }

  value () {
    const tag = this.#bytes[this.#at++]
    switch (tag) {
      case 0:
      case 1:
      case 2:
        return null
      case 3:
      case 4:
        return tag === 4
      case 5:
        this.#at += 4
        return this.#bytes.readInt32LE(this.#at - 4)
      case 6:
        return this.#int64()
      case 7: {
        const bytes = this.bytes()
        return BigInt.asIntN(bytes.length * 8, BigInt('0x' + (bytes.toString('hex') || '0')))
      }
      case 8:
      case 11:
      case 14:
      case 18:
        return this.text()
      case 9:
        this.#at += 4
        return this.#bytes.readFloatLE(this.#at - 4)
      case 10:
        this.#at += 8
        return this.#bytes.readDoubleLE(this.#at - 8)
      case 12:
        // A copy, or a short blob would retain the memory of its chunk.
        return Buffer.from(this.bytes())
      case 13: {
        this.#at += 16
        const hex = this.#bytes.toString('hex', this.#at - 16, this.#at)
        return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
      }
      case 15: {
        const days = Number(this.#int64())
        if (days < FIRST_DAY || days > LAST_DAY) return days
        return new Date(days * MILLIS_OF_DAY).toISOString().slice(0, 10)
      }
      case 16: {
        const nanos = Number(this.#int64())
        const two = (n) => String(Math.floor(n)).padStart(2, '0')
        const fraction = String(nanos % 1e9).padStart(9, '0')
        return `${two(nanos / 3600e9)}:${two(nanos / 60e9 % 60)}:${two(nanos / 1e9 % 60)}.${fraction}`
      }
      case 17: {
        const millis = this.#int64()
        return millis > MAX_MILLIS || millis < -MAX_MILLIS ? millis : new Date(Number(millis))
      }
      case 19:
      case 22:
        return this.#values()
      case 20:
        return new Set(this.#values())
      case 21: {
        const map = new Map()
        for (let left = this.length(); left > 0; left--) {
          const key = this.value()
          map.set(key, this.value())
        }
        return map
      }
      case 23: {
        const object = {}
        for (let left = this.length(); left > 0; left--) {
          const name = this.text()
          setField(object, name, this.value())
        }
        return object
      }
      default:
        throw new Error(`a packed value has the unknown tag ${tag}`)
    }
  }
}

class Writer {
  #bytes = Buffer.allocUnsafe(256)
  #at = 0

  /** Returns the position of `length` further bytes. */
  #reserve (length) {
    const at = this.#at
    this.#at += length
    if (this.#at > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.#at, 2 * this.#bytes.length))
      this.#bytes.copy(larger, 0, 0, at)
      this.#bytes = larger
    }
    return at
  }

  byte (n) {
    const at = this.#reserve(1)
    this.#bytes[at] = n
  }

  length (n) {
    const at = this.#reserve(4)
    this.#bytes.writeUInt32LE(n, at)
  }

  bytes (bytes) {
    this.length(bytes.length)
    const at = this.#reserve(bytes.length)
    this.#bytes.set(bytes, at)
  }

  text (text) {
    const length = Buffer.byteLength(text)
    this.length(length)
    const at = this.#reserve(length)
    this.#bytes.write(text, at)
  }

  #int64 (tag, n) {
    this.byte(tag)
    const at = this.#reserve(8)
    this.#bytes.writeBigInt64LE(n, at)
  }

  #all (tag, values, length) {
    this.byte(tag)
    this.length(length)
    for (const value of values) this.value(value)
  }

  value (value) {
    switch (typeof value) {
      case 'undefined':
        return this.byte(1)
      case 'boolean':
        return this.byte(value ? 4 : 3)
      case 'number': {
        this.byte(10)
        const at = this.#reserve(8)
        this.#bytes.writeDoubleLE(value, at)
        return
      }
      case 'bigint': {
        if (BigInt.asIntN(64, value) === value) return this.#int64(6, value)
        let bits = 64
        while (BigInt.asIntN(bits, value) !== value) bits *= 2
        this.byte(7)
        return this.bytes(Buffer.from(BigInt.asUintN(bits, value).toString(16).padStart(bits / 4, '0'), 'hex'))
      }
      case 'string':
        this.byte(11)
        return this.text(value)
      case 'object':
        return this.#object(value)
      default:
        throw new TypeError(`a ${typeof value} can't be bound`)
    }
  }

  #object (value) {
    if (value === null) return this.byte(0)
    if (value instanceof Uint8Array) {
      this.byte(12)
      return this.bytes(value)
    }
    if (value instanceof Date) {
      if (Number.isNaN(value.getTime())) throw new TypeError("an invalid Date can't be bound")
      return this.#int64(17, BigInt(value.getTime()))
    }
    if (Array.isArray(value)) return this.#all(19, value, value.length)
    if (value instanceof Set) return this.#all(20, value, value.size)
    if (value instanceof Map) {
      this.byte(21)
      this.length(value.size)
      for (const [key, of] of value) {
        this.value(key)
        this.value(of)
      }
      return
    }
    this.byte(23)
    this.fields(value)
  }

  fields (object) {
    const fields = Object.entries(object)
    this.length(fields.length)
    for (const [name, value] of fields) {
      this.text(name)
      this.value(value)
    }
  }

  done () {
    return this.#bytes.subarray(0, this.#at)
  }
}

const NO_PARAMETERS = Buffer.alloc(0)

/** Packs the parameters of a statement: an array in order, or an object by name. */
function packParameters (given) {
  if (given === undefined || given === null) return NO_PARAMETERS
  const writer = new Writer()
  if (Array.isArray(given)) {
    writer.byte(0)
    writer.length(given.length)
    for (const value of given) writer.value(value)
  } else if (typeof given === 'object') {
    writer.byte(1)
    writer.fields(given)
  } else {
    throw new TypeError('parameters are an array, or an object with their names')
  }
  return writer.done()
}

module.exports = { Reader, packParameters, setField }

'use strict'
// Keys and values: conversion to bytes, and the packed forms that cross to the native module
// (`bindings/packed`).

/** Converts a key or value to bytes. */
function toBytes (given, what) {
  if (typeof given === 'string') return Buffer.from(given)
  if (given instanceof Uint8Array) return given
  throw new TypeError(`a ${what} must be a string, Buffer or Uint8Array`)
}

/** Packs keys: each with its length. */
function packKeys (keys) {
  const all = []
  let size = 0
  for (const key of keys) {
    const bytes = toBytes(key, 'key')
    size += 4 + bytes.length
    all.push(bytes)
  }
  const packed = Buffer.allocUnsafe(size)
  let at = 0
  for (const bytes of all) {
    packed.writeUInt32LE(bytes.length, at)
    packed.set(bytes, at + 4)
    at += 4 + bytes.length
  }
  return packed
}

/** Unpacks the values of keys; a key without one has `undefined`. */
function unpackValues (packed) {
  const values = []
  for (let at = 0; at < packed.length;) {
    const length = packed.readUInt32LE(at)
    at += 4
    if (length === 0xffffffff) {
      values.push(undefined)
    } else {
      values.push(packed.subarray(at, at + length))
      at += length
    }
  }
  return values
}

const durabilities = { process: 1, power: 2 }

/** Returns the number of a durability; 0 is the store's default. */
function durability (options) {
  const name = options?.durability
  if (name === undefined) return 0
  const number = durabilities[name]
  if (number === undefined) throw new TypeError(`durability must be "process" or "power", not ${String(name)}`)
  return number
}

module.exports = { toBytes, packKeys, unpackValues, durability }

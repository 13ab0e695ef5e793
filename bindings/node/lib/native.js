'use strict'
// Loads the native module.

const { join } = require('node:path')
const { file } = require('./platform')

const path = join(__dirname, '..', 'prebuilds', file())
try {
  module.exports = require(path)
} catch (cause) {
  const reason = cause.code === 'MODULE_NOT_FOUND' ? 'the package has none for this system' : cause.message
  throw new Error(`cannot load the native module ${path}: ${reason}; "npm run build" in bindings/node compiles it`, { cause })
}

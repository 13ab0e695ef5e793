'use strict'
// The public test suite of abstract-level, on stores in directories and in memory.

const { mkdtempSync, rmSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const test = require('tape')
const suite = require('abstract-level/test')
const { FirnLevel } = require('firn-db/level')

const folder = mkdtempSync(join(tmpdir(), 'firn-level-'))
let stores = 0
const store = { memoryBudget: 16 << 20 }

// Prints failures and totals only.
const counts = { passed: 0, failed: 0 }
test.createStream({ objectMode: true }).on('data', (row) => {
  if (row.type !== 'assert') return
  counts[row.ok ? 'passed' : 'failed']++
  if (!row.ok) console.error(row)
})
test.onFailure(() => { process.exitCode = 1 })
test.onFinish(() => {
  rmSync(folder, { recursive: true, force: true })
  console.log(`abstract-level: ${counts.passed} checks passed, ${counts.failed} failed`)
})

suite({ test, factory: (options) => new FirnLevel(join(folder, String(stores++)), { ...options, store }) })
suite({ test, factory: (options) => new FirnLevel(undefined, options) })

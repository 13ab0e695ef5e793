// The module under Node.js: stores in memory, CQL, and the simulator beside the native program.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

import { load, repository } from './support.mjs'

const firn = await load()
const text = (bytes) => new TextDecoder().decode(bytes)
const pairs = (entries) => entries.map(([key, value]) => [text(key), text(value)])

test('trees have gets, puts, deletes, scans and batches', () => {
  const store = firn.Store.memory()
  const fruit = store.tree('fruit')
  fruit.put('apple', 'red')
  fruit.put('pear', new Uint8Array([1, 2]), { durability: 'power' })
  fruit.put('plum', 'blue')
  assert.equal(text(fruit.get('apple')), 'red')
  assert.deepEqual([...fruit.get('pear')], [1, 2])
  assert.equal(fruit.get('none'), undefined)
  assert.deepEqual([fruit.has('plum'), fruit.has('none')], [true, false])
  fruit.delete('pear')
  assert.deepEqual(pairs(fruit.range()), [['apple', 'red'], ['plum', 'blue']])
  assert.deepEqual(pairs(fruit.range({ prefix: 'p' })), [['plum', 'blue']])
  assert.deepEqual(pairs(fruit.range({ reverse: true, limit: 1 })), [['plum', 'blue']])
  assert.deepEqual(pairs(fruit.range({ gt: 'apple', lte: 'plum' })), [['plum', 'blue']])
  assert.deepEqual(fruit.range({ gt: 'x', lt: 'a' }), [])
  const colours = store.tree('colours', { policy: 'leveled:8', memtableSize: '1m' })
  const batch = store.batch()
  batch.put(fruit, 'quince', 'yellow')
  batch.put(colours, 'yellow', 'quince')
  batch.delete(fruit, 'apple')
  assert.equal(fruit.has('quince'), false)
  batch.write()
  assert.deepEqual([fruit.has('quince'), colours.has('yellow'), fruit.has('apple')], [true, true, false])
  fruit.deleteRange({ prefix: 'p' })
  assert.deepEqual(pairs(fruit.range()), [['quince', 'yellow']])
  assert.deepEqual(store.treeNames(), ['fruit', 'colours'])
  fruit.flush()
  assert.equal(store.stats().trees.find((tree) => tree.name === 'fruit').runs.length, 1)
  store.close()
  assert.throws(() => fruit.get('quince'), { code: 'FIRN_CLOSED' })
})

test('flushes and compactions run in the calls', () => {
  const store = firn.Store.memory({ memoryBudget: 8 << 20 })
  const tree = store.tree('t', { policy: 'leveled:4:base=1m', memtableSize: '256k', tableSize: '256k' })
  const key = (n) => String(Math.imul(n, 0x9E3779B1) >>> 0).padStart(10, '0')
  for (let n = 0; n < 60000; n++) tree.put(key(n), `value ${n}`)
  const { flushes, compactions } = store.stats().since_open
  assert.ok(flushes > 5 && compactions > 0, `${flushes} flushes, ${compactions} compactions`)
  for (let n = 0; n < 60000; n += 77) assert.equal(text(tree.get(key(n))), `value ${n}`)
  assert.equal(tree.range().length, 60000)
  store.close()
})

test('wrong arguments are exceptions', () => {
  const store = firn.Store.memory()
  const tree = store.tree('t')
  assert.throws(() => tree.put(1, 'v'), TypeError)
  assert.throws(() => tree.put('k', 'v', { durability: 'x' }), TypeError)
  assert.throws(() => tree.range({ gt: 'a', gte: 'a' }), TypeError)
  assert.throws(() => store.tree('u', { policy: 'nope' }), { code: 'FIRN_INVALID_ARGUMENT' })
  assert.throws(() => firn.Store.memory({ memoryBudget: 1 }), { code: 'FIRN_INVALID_ARGUMENT' })
  assert.throws(() => tree.put('k'.repeat(600000), 'v'), { code: 'FIRN_INVALID_ARGUMENT' })
  store.close()
})

test('a session returns values of JavaScript', () => {
  const session = firn.Session.memory()
  const run = (cql, values) => session.execute(cql, values)
  run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
  assert.equal(run('USE k').kind, 'keyspace')
  assert.equal(session.keyspace, 'k')
  run('CREATE TYPE place (city text, zip int)')
  const created = run(`CREATE TABLE t (id int PRIMARY KEY, big bigint, whole varint, d double, ok boolean, name text, raw blob,
    day date, moment time, at timestamp, u uuid, tags set<text>, list list<int>, m map<text, int>, home frozen<place>, pair tuple<int, text>, amount decimal)`)
  assert.equal(created.kind, 'schema')
  const at = new Date('2026-02-28T01:02:03.004Z')
  const u = '00000000-0000-4000-8000-000000000001'
  run('INSERT INTO t (id, big, whole, d, ok, name, raw, day, moment, at, u, tags, list, m, home, pair, amount) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)', [
    1, -(2n ** 63n), 2n ** 80n, 1.5, true, 'Ärger', new Uint8Array([0, 255]), '2026-02-28', '01:02:03.000000004', at, u,
    new Set(['b', 'a']), [3, 1], new Map([['x', 1]]), { city: 'Ulm', zip: 89073 }, [7, 'seven'], '1.50'
  ])
  const { columns, rows, isComplete } = run('SELECT big, whole, d, ok, name, raw, day, moment, at, u, tags, list, m, home, pair, amount FROM t')
  assert.deepEqual(columns[10], { name: 'tags', type: 'set<text>' })
  assert.ok(isComplete)
  assert.deepEqual(rows, [[
    -(2n ** 63n), 2n ** 80n, 1.5, true, 'Ärger', new Uint8Array([0, 255]), '2026-02-28', '01:02:03.000000004', at, u,
    new Set(['a', 'b']), [3, 1], new Map([['x', 1]]), { city: 'Ulm', zip: 89073 }, [7, 'seven'], '1.50'
  ]])
  run('INSERT INTO t (id, name) VALUES (:id, :name)', { id: 2, name: null })
  const insert = session.prepare('INSERT INTO t (id, d) VALUES (?, ?)')
  for (let id = 3; id < 100; id++) insert.execute([id, id / 2])
  assert.deepEqual(run('SELECT count(*) FROM t').rows, [[99n]])
  const first = session.execute('SELECT id FROM t', undefined, 10)
  assert.deepEqual([first.rows.length, first.isComplete], [10, false])
  session.close()
})

test('errors of statements say what is wrong', () => {
  const session = firn.Session.memory()
  assert.throws(() => session.execute('SELEC 1'), { code: 'FIRN_SYNTAX', message: /SELEC/ })
  assert.throws(() => session.execute('SELECT * FROM k.t'), { code: 'FIRN_INVALID_REQUEST' })
  const cyclic = []
  cyclic.push(cyclic)
  assert.throws(() => session.execute('SELECT * FROM system.local WHERE key = ?', [cyclic]), TypeError)
  assert.deepEqual(firn.statements("a ';'; b").map((s) => [s.text, s.isClosed]), [["a ';'", true], ['b', false]])
  session.close()
})

const DESCRIPTION = `
keys = "20k"
value-size = "50-150"
steps = "filluniquerandom, wait, churn@300%"
[phase.churn]
distribution = "zipfian:0.9"
puts = 0.9
deletes = 0.1
[store]
policy = "leveled:8:base=2m"
memtable-size = "512k"
table-size = "1m"
`

test('the simulator has figures, and refuses what it cannot run', () => {
  const shares = []
  const { outcomes, figures } = firn.simulate(['--policy', 'tiered', '--data', '200m', '--memtable-size', '1m', '--table-size', '1m'], undefined, (share) => shares.push(share))
  assert.ok(outcomes[0].write_amplification > 1 && shares.length > 2)
  const names = figures.map(({ name }) => name)
  for (const name of ['runs', 'space', 'written']) assert.ok(names.includes(name), names.join())
  assert.ok(figures.every(({ svg }) => svg.startsWith('<svg')))
  const refused = (options, text, message) => assert.throws(() => firn.simulate(options, text), { code: 'FIRN_INVALID_ARGUMENT', message })
  refused(['--policy', 'nope'], undefined, /nope/)
  refused(['--unknown'], undefined, /--unknown/)
  refused(['--seeds', '3'], undefined, /threads/)
  refused([], 'keys = ', /description/)
  assert.ok(firn.policies().some(({ name }) => name === 'lazy-leveled'))
  assert.ok(firn.workloads().some(({ name, text }) => name === 'zipfian' && text.includes('steps')))
  assert.ok(firn.metrics().some(({ name }) => name === 'write_amplification'))
})

/**
 * Compares two outcomes. Counts are equal. Fractions are equal up to the last digits, in which the
 * logarithms of two systems differ.
 */
function assertAgree (actual, expected, path) {
  if (typeof expected === 'number' && !Number.isInteger(expected)) {
    const difference = Math.abs(actual - expected) / Math.abs(expected)
    return assert.ok(difference < 1e-12, `${path}: ${actual} and ${expected}`)
  }
  if (typeof expected !== 'object' || expected === null) return assert.equal(actual, expected, path)
  assert.deepEqual(Object.keys(actual), Object.keys(expected), path)
  for (const name of Object.keys(expected)) assertAgree(actual[name], expected[name], `${path}.${name}`)
}

const native = process.env.FIRN_SIMULATOR ?? join(repository, 'target/debug/compaction-sim')

test('the simulator agrees with the native program', { skip: !existsSync(native) && `build it first: cargo build -p compaction-sim` }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'firn-simulator-'))
  try {
    const file = join(folder, 'churn.toml')
    await writeFile(file, DESCRIPTION)
    for (const options of [
      ['--workload', file, '--seed', '3'],
      ['--workload', file, '--seed', '3', '--policy', 'lazy-leveled:4', '--exact'],
      ['--workload', 'zipfian:0.8', '--policy', 'tiered:3', '--data', '200m', '--memtable-size', '1m', '--table-size', '1m', '--seed', '9']
    ]) {
      const text = options[1] === file ? DESCRIPTION : undefined
      const { stdout } = await promisify(execFile)(native, ['--json', 'run', ...options], { maxBuffer: 64 << 20 })
      assertAgree(JSON.parse(firn.simulate(options, text).json), JSON.parse(stdout), options.join(' '))
    }
  } finally {
    await rm(folder, { recursive: true })
  }
})

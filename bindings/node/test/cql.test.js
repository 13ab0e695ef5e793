'use strict'
// Sessions, statements, values.

const assert = require('node:assert/strict')
const { mkdtempSync, rmSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const { test } = require('node:test')
const firn = require('firn-db')

const KEYSPACE = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
const ID = 'fe2b4360-28c6-11e2-81c1-0800200c9a66'

function memory () {
  const session = firn.openSessionMemory()
  session.executeSync(KEYSPACE)
  session.executeSync('USE k')
  return session
}

test('a database keeps its rows', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'firn-node-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const session = await firn.openSession(join(dir, 'cql'), { memoryBudget: 32 << 20 })
  await session.execute(KEYSPACE)
  await session.execute('USE k')
  assert.equal(session.keyspace, 'k')
  assert.equal(session.clone().keyspace, 'k')
  await session.execute('CREATE TABLE t (id int PRIMARY KEY, a text, b text)')
  const insert = await session.prepare('INSERT INTO t (id, a, b) VALUES (:id, :a, :b)')
  assert.deepEqual(insert.markers, [{ name: 'id', type: 'int' }, { name: 'a', type: 'text' }, { name: 'b', type: 'text' }])
  await insert.execute({ id: 1, a: 'x', b: 'y' })
  await insert.execute([1, undefined, 'z'])
  await insert.execute({ id: 2, a: null })
  await session.close()
  await assert.rejects(insert.execute([3, 'x', 'y']), firn.ClosedError)
  const again = firn.openSessionSync(join(dir, 'cql'))
  const rows = again.executeSync('SELECT * FROM k.t WHERE id IN ?', [[1, 2]])
  assert.deepEqual(rows.columns, [{ name: 'id', type: 'int' }, { name: 'a', type: 'text' }, { name: 'b', type: 'text' }])
  assert.deepEqual(rows.allSync(), [{ id: 1, a: 'x', b: 'z' }, { id: 2, a: null, b: null }])
  assert.deepEqual((await again.execute('SELECT a, a FROM k.t WHERE id = 1', [], { arrays: true })).oneSync(), ['x', 'x'])
  again.closeSync()
})

const cases = [
  ['tinyint', -7, -7],
  ['smallint', 300, 300],
  ['int', -2147483648, -2147483648],
  ['bigint', 9007199254740993n, 9007199254740993n],
  ['bigint', 5, 5n],
  ['varint', -(2n ** 100n), -(2n ** 100n)],
  ['varint', 255n, 255n],
  ['varint', 0, 0n],
  ['decimal', '-1.250', '-1.250'],
  ['decimal', 0.5, '0.5'],
  ['float', 1.5, 1.5],
  ['double', 0.1, 0.1],
  ['double', 3n, 3],
  ['boolean', true, true],
  ['text', 'grüße', 'grüße'],
  ['ascii', 'a', 'a'],
  ['blob', new Uint8Array([0, 255]), Buffer.from([0, 255])],
  ['uuid', ID, ID],
  ['timeuuid', ID, ID],
  ['inet', '::1', '::1'],
  ['inet', '10.0.0.1', '10.0.0.1'],
  ['date', '2026-02-28', '2026-02-28'],
  ['date', new Date('1969-12-31T23:00:00Z'), '1969-12-31'],
  ['date', 4000000, 4000000],
  ['time', '01:02:03.000000004', '01:02:03.000000004'],
  ['timestamp', new Date(1234567890123), new Date(1234567890123)],
  ['timestamp', -(2n ** 62n), -(2n ** 62n)],
  ['duration', '1mo2d', '1mo2d'],
  ['list<int>', [1, 2, 1], [1, 2, 1]],
  ['set<text>', new Set(['b', 'a']), new Set(['a', 'b'])],
  ['set<int>', [2, 1], new Set([1, 2])],
  ['map<text, bigint>', new Map([['a', 1n]]), new Map([['a', 1n]])],
  ['map<text, int>', { a: 1 }, new Map([['a', 1]])],
  ['frozen<list<frozen<set<int>>>>', [new Set([1])], [new Set([1])]],
  ['tuple<int, text>', [1, 'x'], [1, 'x']],
  ['vector<float, 2>', [0.5, 1], [0.5, 1]],
  ['address', { street: 'x', no: 5 }, { street: 'x', no: 5 }],
  ['address', { no: 5 }, { street: null, no: 5 }]
]

test('values of each type are bound and read, and bound again', async () => {
  const session = memory()
  session.executeSync('CREATE TYPE address (street text, no int)')
  for (const [at, [type, bound, read]] of cases.entries()) {
    await session.execute(`CREATE TABLE t${at} (p int PRIMARY KEY, v ${type})`)
    const insert = await session.prepare(`INSERT INTO t${at} (p, v) VALUES (1, ?)`)
    await insert.execute([bound])
    const first = (await (await session.execute(`SELECT v FROM t${at}`)).one()).v
    assert.deepEqual(first, read, type)
    await insert.execute([first])
    assert.deepEqual(session.executeSync(`SELECT v FROM t${at}`).oneSync().v, read, type)
    await insert.execute([null])
    assert.equal(session.executeSync(`SELECT v FROM t${at}`).oneSync().v, null, type)
  }
})

test('values of other types are refused', async () => {
  const session = memory()
  session.executeSync('CREATE TABLE t (p int PRIMARY KEY, l list<int>, s set<int>, m map<int, int>, d decimal)')
  const refuse = (column, value, error = firn.InvalidRequestError) =>
    assert.rejects(session.execute(`INSERT INTO t (p, ${column}) VALUES (1, ?)`, [value]), error)
  await refuse('l', 5)
  await refuse('l', new Set([1]))
  await refuse('l', [1.5])
  await refuse('s', 'x')
  await refuse('m', [1])
  await refuse('m', new Map([[1, 2n ** 70n]]))
  await refuse('d', NaN)
  await refuse('l', Symbol('x'), TypeError)
  await refuse('l', new Date(NaN), TypeError)
  await assert.rejects(session.execute('SELECT * FROM t WHERE p = ?', [1, 2]), /1 is wanted.*2 came/)
  await assert.rejects(session.execute('SELECT * FROM t WHERE p = :p', { q: 1 }), /no bind marker :q/)
  await assert.rejects(session.execute('SELECT * FROM t', 5), TypeError)
  await assert.rejects(session.execute('SELECT * FROM t', null, { pageSize: 0 }), TypeError)
})

test('rows are fetched page by page', async () => {
  const session = memory()
  session.executeSync('CREATE TABLE t (p int, c int, v text, PRIMARY KEY (p, c))')
  const insert = session.prepareSync('INSERT INTO t (p, c, v) VALUES (1, ?, ?)')
  for (let n = 0; n < 3000; n++) insert.executeSync([n, 'x'.repeat(50)])
  const numbers = Array.from({ length: 3000 }, (_, n) => n)
  for (const pageSize of [undefined, 7, 1000]) {
    const read = []
    for await (const row of await session.execute('SELECT c FROM t', null, { pageSize })) read.push(row.c)
    assert.deepEqual(read, numbers)
    assert.deepEqual(session.executeSync('SELECT c FROM t', [], { pageSize }).allSync().map((row) => row.c), numbers)
  }
  const rows = await session.execute('SELECT c FROM t', null, { pageSize: 100 })
  const together = await Promise.all(Array.from({ length: 3001 }, () => rows.one()))
  assert.deepEqual(together.map((row) => row?.c), [...numbers, undefined])
  const broken = await session.execute('SELECT c FROM t')
  for await (const row of broken) if (row.c === 5) break
  assert.equal(await broken.one(), undefined)
})

test('conditions, timestamps and names that JavaScript reserves', async () => {
  const session = memory()
  session.executeSync('CREATE TABLE t (p int PRIMARY KEY, "__proto__" int)')
  const insert = 'INSERT INTO t (p, "__proto__") VALUES (1, 2)'
  assert.deepEqual(session.executeSync(insert + ' IF NOT EXISTS').allSync(), [{ '[applied]': true }])
  assert.equal(session.executeSync(insert + ' IF NOT EXISTS').oneSync()['[applied]'], false)
  const row = session.executeSync('SELECT * FROM t').oneSync()
  assert.deepEqual(Object.entries(row), [['p', 1], ['__proto__', 2]])
  session.executeSync('UPDATE t SET "__proto__" = 3 WHERE p = 1', null, { timestamp: 5n })
  assert.equal(Object.entries(session.executeSync('SELECT * FROM t').oneSync())[1][1], 2)
})

test('errors have classes', async () => {
  const session = memory()
  await assert.rejects(session.execute('SELEC'), firn.CqlSyntaxError)
  await assert.rejects(session.execute('SELECT * FROM nowhere'), { name: 'InvalidRequestError', code: 'FIRN_INVALID_REQUEST' })
  await assert.rejects(session.execute(KEYSPACE), firn.AlreadyExistsError)
  assert.throws(() => session.executeSync('SELEC'), firn.CqlError)
  assert.throws(() => session.prepareSync(5), TypeError)
})

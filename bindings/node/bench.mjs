// Measures the cost of calls, on a store in a temporary directory:
//
//     node bench.mjs [ENTRIES]
//
// Keys have 16 bytes, values 100. Each figure is the fastest of three rounds.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSessionSync, openSync } from 'firn-db'

const count = Number(process.argv[2] ?? 100000)
const folder = mkdtempSync(join(tmpdir(), 'firn-bench-'))
const value = Buffer.alloc(100, 'v')
const keys = Array.from({ length: count }, (_, n) => Buffer.from(String(n * 7919 % count).padStart(16, '0')))

async function measure (name, operations, work) {
  let best = Infinity
  for (let round = 0; round < 3; round++) {
    const began = process.hrtime.bigint()
    await work()
    best = Math.min(best, Number(process.hrtime.bigint() - began) / operations)
  }
  console.log(`${name.padEnd(34)} ${(best / 1000).toFixed(2).padStart(7)} us ${Math.round(1e9 / best).toLocaleString('en').padStart(11)}/s`)
}

/** Runs calls with this many at a time. */
async function together (width, call) {
  let next = 0
  const lane = async () => { while (next < count) await call(keys[next++]) }
  await Promise.all(Array.from({ length: width }, lane))
}

const db = openSync(join(folder, 'kv'))
const tree = db.treeSync('t')
await measure('put, sync', count, () => { for (const key of keys) tree.putSync(key, value) })
await measure('put, promises, one by one', count, () => together(1, (key) => tree.put(key, value)))
await measure('put, promises, 64 at a time', count, () => together(64, (key) => tree.put(key, value)))
await measure('put, batches of 1000, sync', count, () => {
  for (let at = 0; at < count; at += 1000) {
    const batch = db.batch()
    for (const key of keys.slice(at, at + 1000)) batch.put(tree, key, value)
    batch.writeSync()
  }
})

const full = db.treeSync('full')
for (const key of keys) full.putSync(key, value)
await measure('get, sync', count, () => { for (const key of keys) full.getSync(key) })
await measure('get of a missing key, sync', count, () => { for (const key of keys) full.getSync(key.subarray(1)) })
await measure('get, promises, one by one', count, () => together(1, (key) => full.get(key)))
await measure('get, promises, 64 at a time', count, () => together(64, (key) => full.get(key)))
await measure('getMany of 100, promises', count, async () => {
  for (let at = 0; at < count; at += 100) await full.getMany(keys.slice(at, at + 100))
})
await measure('entries of a scan, for', count, () => { for (const entry of full.range()) void entry })
await measure('entries of a scan, for await', count, async () => { for await (const entry of full.range()) void entry })
db.closeSync()

const session = openSessionSync(join(folder, 'cql'))
session.executeSync("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
session.executeSync('CREATE TABLE k.t (p int, c int, v text, PRIMARY KEY (p, c))')
const insert = session.prepareSync('INSERT INTO k.t (p, c, v) VALUES (1, ?, ?)')
const select = session.prepareSync('SELECT v FROM k.t WHERE p = 1 AND c = ?')
const rows = Math.min(count, 20000)
const text = String(value)
await measure('INSERT, prepared, sync', rows, () => { for (let n = 0; n < rows; n++) insert.executeSync([n, text]) })
await measure('INSERT, prepared, promises', rows, async () => { for (let n = 0; n < rows; n++) await insert.execute([n, text]) })
await measure('SELECT of a row, prepared, sync', rows, () => { for (let n = 0; n < rows; n++) select.executeSync([n]).oneSync() })
await measure('SELECT of a row, prepared, promises', rows, async () => { for (let n = 0; n < rows; n++) await (await select.execute([n])).one() })
await measure('rows of a SELECT, for await', rows, async () => { for await (const row of await session.execute('SELECT * FROM k.t')) void row })
session.closeSync()
rmSync(folder, { recursive: true })

// A program that uses the types; `tsc --noEmit` checks it. Lines with errors are expected ones.

import { ConflictError, open, openSession, type Entry, type Row, type Subscription, type Tree } from 'firn-db'
import { FirnLevel } from 'firn-db/level'

await using db = await open('data', { memoryBudget: 16 << 20, durability: 'power' })
const tree: Tree = await db.tree('fruit', { policy: 'lazy-leveled:4' })
await tree.put('apple', new Uint8Array([1]))
const value: Buffer | undefined = await tree.get(Buffer.from('apple'))
for await (const [key, of] of tree.range({ gte: 'a', lt: 'b', limit: 3 })) console.log(key.length + of.length, value)
for (const key of tree.keys({ prefix: 'a', reverse: true })) console.log(key.toString('hex'))
const entries: Entry[] = await tree.range().all()
await db.batch().put(tree, 'a', 'b').delete(tree, 'c').write({ durability: 'process' })
const sum: number = await db.transact(async (tx) => {
  tx.put(tree, 'n', 'm')
  return (await tx.get(tree, 'n'))?.length ?? entries.length
})
try {
  db.transaction().commitSync()
} catch (e) {
  if (e instanceof ConflictError) console.log(e.code, sum)
}

using changes: Subscription = await db.subscribe('index', { maxLogBytes: 1 << 30 })
for await (const change of changes.changes({ signal: AbortSignal.timeout(10) })) {
  for (const op of change.ops) if (op.op === 'put') console.log(op.key.length + op.value.length, op.expires?.getTime())
  await changes.acknowledge(change.position)
}

const session = await openSession('music')
const insert = await session.prepare('INSERT INTO m.songs (id, tags) VALUES (?, ?)')
await insert.execute(['fe2b4360-28c6-11e2-81c1-0800200c9a66', new Set(['a'])], { timestamp: 1n })
for await (const row of await session.execute<{ title: string }>('SELECT title FROM m.songs')) console.log(row.title.length)
const row: Row | undefined = (await session.execute('SELECT * FROM m.songs WHERE id = :id', { id: null })).oneSync()

const level = new FirnLevel<string, { n: number }>('level', { valueEncoding: 'json' })
await level.put('a', { n: 1 })
const stored: { n: number } | undefined = await level.get('a')

// @ts-expect-error A value is text or bytes.
await tree.put('apple', 1)
// @ts-expect-error There are two durabilities.
await tree.put('apple', 'red', { durability: 'memory' })
// @ts-expect-error Stores are opened by `open`.
new (db.constructor as typeof import('firn-db').Db)()

console.log(row, stored)

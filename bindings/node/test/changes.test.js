'use strict'
// Subscriptions.

const assert = require('node:assert/strict')
const { mkdtempSync, rmSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const { test } = require('node:test')
const firn = require('firn-db')

/** Returns the operations of a change with strings. */
const shown = (change) => change?.ops.map((op) => Object.values(op).map(String).join(' '))

test('a subscription returns each change and continues after a reopening', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'firn-node-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  let db = await firn.open(join(dir, 'store'))
  let tree = await db.tree('t')
  await tree.put('before', '1')
  let changes = await db.subscribe('index', { maxLogBytes: 1 << 20 })
  assert.deepEqual([changes.name, changes.snapshotDue], ['index', true])
  await assert.rejects(db.subscribe('index'), firn.LockedError)
  const snapshot = await changes.snapshot()
  assert.equal(String(snapshot.getSync(tree, 'before')), '1')
  snapshot.close()
  await changes.acknowledge()
  assert.equal(changes.snapshotDue, false)
  assert.equal(await changes.next(), undefined)
  await db.batch().put(tree, 'a', '').delete(tree, 'before').write()
  await tree.deleteRange({ gte: 'x', lt: 'y' })
  const first = await changes.next()
  assert.deepEqual(shown(first), ['put t a ', 'delete t before'])
  assert.deepEqual([first.loaded, first.position], [false, changes.position])
  const second = changes.nextSync()
  assert.deepEqual(second.ops, [{ op: 'deleteRange', tree: 't', start: Buffer.from('x'), end: Buffer.from('y') }])
  const { seq, behind, retainedBytes, ...info } = db.subscriptions()[0]
  assert.deepEqual(info, { name: 'index', maxLogBytes: 1 << 20, snapshotDue: false })
  assert.ok(seq > 0 && behind === 3 && retainedBytes > 0)
  await db.close()
  await assert.rejects(changes.next(), firn.ClosedError)
  changes.close()
  assert.throws(() => changes.position, firn.ClosedError)

  // Nothing was acknowledged after the snapshot. A position of the consumer's own continues later.
  db = firn.openSync(join(dir, 'store'))
  tree = db.treeSync('t')
  changes = db.subscribeSync('index')
  assert.deepEqual(changes.nextSync(), first)
  changes.resumeSync(first.position)
  assert.deepEqual(changes.nextSync(), second)
  changes.acknowledgeSync(first.position)
  assert.equal(db.subscriptions()[0].behind, 1)
  assert.throws(() => changes.resumeSync('0000000000000001-1'), firn.InvalidArgumentError)
  assert.throws(() => changes.resumeSync(7), TypeError)
  await assert.rejects(changes.next({ wait: -1 }), TypeError)
  changes.close()
  await db.dropSubscription('index')
  assert.throws(() => db.dropSubscriptionSync('index'), firn.NotFoundError)
  db.closeSync()
})

test('an iteration waits for changes until its signal is aborted', async () => {
  const db = firn.openMemory()
  const tree = db.treeSync('t')
  const changes = db.subscribeSync('s')
  assert.equal(await changes.next({ wait: 5 }), undefined)
  const write = (async () => {
    for (let n = 0; n < 200; n++) await tree.put(String(n), '')
  })()
  let n = 0
  for await (const change of changes) {
    assert.deepEqual(shown(change), [`put t ${n} `])
    if (++n === 200) break
  }
  await write
  const stop = new AbortController()
  setTimeout(() => stop.abort(), 30)
  await assert.rejects(async () => {
    for await (const change of changes.changes({ signal: stop.signal })) assert.fail(String(shown(change)))
  }, { name: 'AbortError' })
  // Calls that overlap return the changes in order.
  const three = [changes.next({ wait: 1000 }), changes.next({ wait: 1000 }), changes.next({ wait: 1000 })]
  for (const key of 'abc') tree.putSync(key, '')
  assert.deepEqual((await Promise.all(three)).map((change) => String(change.ops[0].key)), ['a', 'b', 'c'])
})

test('a subscription that lags begins again', async () => {
  const db = firn.openMemory()
  const tree = db.treeSync('t')
  const changes = db.subscribeSync('s', { maxLogBytes: 64 << 10 })
  changes.acknowledgeSync()
  const value = Buffer.alloc(10_000)
  for (let n = 0; n < 2000; n++) {
    tree.putSync(String(n), value)
    if (n % 200 === 199) await tree.flush()
  }
  await assert.rejects(async () => {
    for await (const change of changes) assert.equal(change.ops.length, 1)
  }, firn.LaggedError)
  assert.equal(changes.snapshotDue, true)
  const snapshot = changes.snapshotSync()
  await changes.acknowledge()
  await tree.put('later', '')
  assert.equal(snapshot.hasSync(tree, 'later'), false)
  assert.deepEqual(shown(await changes.next()), ['put t later '])
  snapshot.close()
})

'use strict'
// Stores, trees, batches, snapshots, transactions, iterators.

const assert = require('node:assert/strict')
const { mkdtempSync, rmSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const { test } = require('node:test')
const firn = require('firn-db')

/** Returns a directory that is removed after the test. */
function folder (t) {
  const dir = mkdtempSync(join(tmpdir(), 'firn-node-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  return join(dir, 'store')
}

const strings = (entries) => entries.map(([k, v]) => [String(k), String(v)])

test('the package can be imported', async () => {
  const names = await import('firn-db')
  for (const name of Object.keys(firn)) assert.equal(names[name], firn[name], name)
})

test('a store keeps its entries', async (t) => {
  const path = folder(t)
  const db = await firn.open(path)
  const tree = await db.tree('fruit')
  assert.equal(tree.name, 'fruit')
  await tree.put('apple', 'red')
  tree.putSync(Buffer.from('pear'), new Uint8Array([1, 2]), { durability: 'power' })
  await tree.put('', '')
  assert.deepEqual(await tree.get('apple'), Buffer.from('red'))
  assert.deepEqual(tree.getSync('pear'), Buffer.from([1, 2]))
  assert.deepEqual(tree.getSync(''), Buffer.alloc(0))
  assert.equal(await tree.get('plum'), undefined)
  assert.equal(tree.getSync('plum'), undefined)
  assert.equal(await tree.has('apple'), true)
  assert.equal(tree.hasSync('plum'), false)
  assert.deepEqual(await tree.getMany(['pear', 'plum', '']), [Buffer.from([1, 2]), undefined, Buffer.alloc(0)])
  assert.deepEqual(tree.getManySync(new Set(['apple'])), [Buffer.from('red')])
  await tree.delete('')
  tree.deleteSync('pear')
  await db.close()
  await assert.rejects(tree.get('apple'), firn.ClosedError)
  assert.throws(() => tree.getSync('apple'), { name: 'ClosedError', code: 'FIRN_CLOSED' })
  {
    const again = firn.openSync(path)
    assert.deepEqual(strings(await again.treeSync('fruit').range().all()), [['apple', 'red']])
    assert.throws(() => firn.openSync(path), firn.LockedError)
    await again[Symbol.asyncDispose]()
  }
  await assert.rejects(firn.open(path + '-missing', { create: false }), firn.NotFoundError)
})

test('trees are listed, configured and dropped', async () => {
  const db = firn.openMemory()
  await db.tree('a', { memtableSize: '16m', policy: 'lazy-leveled:4' })
  db.treeSync('b')
  assert.deepEqual(db.treeNames(), ['a', 'b'])
  await db.dropTree('a')
  db.dropTreeSync('b')
  assert.deepEqual(db.treeNames(), [])
  await assert.rejects(db.tree('c', { memtableSize: 'x' }), firn.InvalidArgumentError)
  await assert.rejects(db.tree('c', { noSuchOption: 1 }), /no_such_option/)
})

test('a range has its bounds, order and limit', async () => {
  const db = firn.openMemory()
  const tree = db.treeSync('t')
  for (const key of ['a', 'b', 'ba', 'bb', 'c', 'd']) tree.putSync(key, key)
  const cases = [
    [{}, 'a b ba bb c d'],
    [{ gte: 'b', lt: 'c' }, 'b ba bb'],
    [{ gt: 'b', lte: 'c' }, 'ba bb c'],
    [{ prefix: 'b' }, 'b ba bb'],
    [{ prefix: 'b', gt: 'b' }, 'ba bb'],
    [{ prefix: 'b', lte: 'ba', reverse: true }, 'ba b'],
    [{ prefix: 'b', lt: 'z', gte: 'a' }, 'b ba bb'],
    [{ prefix: 'c', lt: 'b' }, ''],
    [{ gte: 'c', lte: 'c' }, 'c'],
    [{ gt: 'c', lte: 'c' }, ''],
    [{ gt: 'd', lt: 'a' }, ''],
    [{ limit: 2 }, 'a b'],
    [{ limit: 2, reverse: true }, 'd c'],
    [{ limit: 0 }, ''],
    [{ prefix: Buffer.from([255]) }, '']
  ]
  for (const [options, expected] of cases) {
    const keys = tree.keys(options)
    assert.equal(keys.allSync().join(' '), expected, JSON.stringify(options))
    assert.equal((await keys.all()).join(' '), expected, JSON.stringify(options))
    assert.equal((await tree.values(options).all()).join(' '), expected)
    assert.equal(tree.range(options).allSync().map(([k, v]) => `${k}`).join(' '), expected)
  }
  assert.throws(() => tree.range({ gt: 'a', gte: 'a' }), TypeError)
  assert.throws(() => tree.range({ lt: 'a', lte: 'a' }), TypeError)
  assert.throws(() => tree.range({ limit: -1 }), TypeError)
  assert.throws(() => tree.range({ gt: 1 }), TypeError)
})

test('an iterator reads many chunks of one state', async () => {
  const db = firn.openMemory()
  const tree = db.treeSync('t')
  const key = (n) => String(n).padStart(6, '0')
  const batch = db.batch()
  for (let n = 0; n < 5000; n++) batch.put(tree, key(n), Buffer.alloc(100, n))
  assert.equal(batch.length, 5000)
  batch.writeSync()
  assert.equal(batch.length, 0)
  for (const reverse of [false, true]) {
    let n = reverse ? 4999 : 0
    for await (const [k, v] of tree.range({ reverse })) {
      if (n === 100) tree.putSync('zz', 'later')
      assert.equal(String(k), key(n))
      assert.equal(v[99], n & 255)
      n += reverse ? -1 : 1
    }
    assert.equal(n, reverse ? -1 : 5000)
    tree.deleteSync('zz')
  }
  // Breaking off, and many calls of next at once.
  for await (const k of tree.keys()) if (String(k) === key(20)) break
  for (const k of tree.keys()) if (String(k) === key(20)) break
  const iterator = tree.keys()[Symbol.asyncIterator]()
  const first = await Promise.all(Array.from({ length: 100 }, () => iterator.next()))
  assert.deepEqual(first.map((item) => String(item.value)), Array.from({ length: 100 }, (_, n) => key(n)))
  await iterator.return()
  assert.deepEqual(await iterator.next(), { done: true, value: undefined })
  // Large values: one entry a chunk.
  tree.putSync('large', Buffer.alloc(200000, 7))
  assert.equal(tree.values({ gte: 'large' }).allSync()[0].length, 200000)
  assert.equal((await tree.get('large')).length, 200000)
})

test('an iterator of a closed store ends with an error', async () => {
  const db = firn.openMemory()
  const tree = db.treeSync('t')
  for (let n = 0; n < 100; n++) tree.putSync(`k${n}`, 'v')
  const iterator = tree.range()[Symbol.asyncIterator]()
  await iterator.next()
  await db.close()
  await assert.rejects(async () => { for await (const _ of tree.range()) assert.ok(_) }, firn.ClosedError)
})

test('a batch is atomic over trees', async () => {
  const db = firn.openMemory()
  const [a, b] = [db.treeSync('a'), db.treeSync('b')]
  await db.batch().put(a, 'k', '1').put(b, 'k', '2').put(b, 'x', '3').delete(b, 'x').write({ durability: 'power' })
  assert.deepEqual([String(a.getSync('k')), String(b.getSync('k')), b.getSync('x')], ['1', '2', undefined])
  db.batch().deleteRange(a).deleteRange(b, { gte: 'z', lt: 'a' }).writeSync()
  assert.deepEqual([a.getSync('k'), String(b.getSync('k'))], [undefined, '2'])
  assert.equal(db.batch().put(a, 'k', 'v').clear().length, 0)
  const other = firn.openMemory().treeSync('a')
  await assert.rejects(db.batch().put(other, 'k', 'v').write(), firn.InvalidArgumentError)
  assert.throws(() => db.batch().put({}, 'k', 'v'), TypeError)
})

test('ranges are deleted', async () => {
  const tree = firn.openMemory().treeSync('t')
  const left = () => tree.keys().allSync().join('')
  for (const key of 'abcdef') tree.putSync(key, key)
  await tree.deleteRange({ gt: 'a', lte: 'c' })
  assert.equal(left(), 'adef')
  tree.deleteRangeSync({ prefix: 'e' })
  assert.equal(left(), 'adf')
  await tree.deleteRange({ gt: 'c', lt: 'a' })
  assert.equal(left(), 'adf')
  await tree.deleteRange()
  assert.equal(left(), '')
})

test('conditional writes', async () => {
  const tree = firn.openMemory().treeSync('t')
  assert.equal(await tree.insertIfAbsent('k', '1'), true)
  assert.equal(tree.insertIfAbsentSync('k', '2'), false)
  assert.equal(await tree.compareAndSwap('k', '2', '3'), false)
  assert.equal(tree.compareAndSwapSync('k', '1', '3'), true)
  assert.equal(await tree.compareAndSwap('k', '3', null), true)
  assert.equal(tree.hasSync('k'), false)
  assert.equal(await tree.compareAndSwap('k', undefined, '4'), true)
})

test('a snapshot has one state', async () => {
  const db = firn.openMemory()
  const tree = db.treeSync('t')
  tree.putSync('a', '1')
  const snapshot = db.snapshot()
  tree.putSync('a', '2')
  tree.putSync('b', '2')
  assert.equal(String(await snapshot.get(tree, 'a')), '1')
  assert.equal(String(snapshot.getSync(tree, 'a')), '1')
  assert.equal(await snapshot.has(tree, 'b'), false)
  assert.deepEqual((await snapshot.getMany(tree, ['a', 'b'])).map(String), ['1', 'undefined'])
  assert.deepEqual(strings(await snapshot.range(tree).all()), [['a', '1']])
  assert.equal(snapshot.keys(tree).allSync().join(), 'a')
  snapshot.close()
  assert.throws(() => snapshot.getSync(tree, 'a'), firn.ClosedError)
})

test('a promise of a read gives the state at the call', async () => {
  const tree = firn.openMemory().treeSync('t')
  tree.putSync('a', '1')
  const reads = [tree.get('a'), tree.getMany(['a']), tree.has('b')]
  tree.putSync('a', '2')
  tree.putSync('b', '2')
  assert.deepEqual((await Promise.all(reads)).map(String), ['1', '1', 'false'])
})

test('a transaction conflicts and is run again', async () => {
  const db = firn.openMemory()
  const tree = db.treeSync('t')
  tree.putSync('n', '0')
  const add = async (tx) => {
    const n = Number(await tx.get(tree, 'n')) + 1
    tx.put(tree, 'n', String(n))
    return n
  }
  const results = await Promise.all(Array.from({ length: 20 }, () => db.transact(add)))
  assert.equal(String(tree.getSync('n')), '20')
  assert.deepEqual(results.sort((a, b) => a - b), Array.from({ length: 20 }, (_, n) => n + 1))

  const tx = db.transaction()
  await add(tx)
  assert.deepEqual(strings(tx.range(tree).allSync()), [['n', '21']])
  tree.putSync('n', '100')
  await assert.rejects(tx.commit(), { code: 'FIRN_CONFLICT' })
  await assert.rejects(tx.commit(), firn.ClosedError)
  assert.throws(() => tx.put(tree, 'n', '1'), firn.ClosedError)

  let attempts = 0
  await assert.rejects(db.transact(async (tx) => {
    attempts++
    await add(tx)
    tree.putSync('n', 'x')
  }, { attempts: 3 }), firn.ConflictError)
  assert.equal(attempts, 3)

  assert.equal(db.transactSync((tx) => tx.put(tree, 'a', '1').delete(tree, 'n') && 5), 5)
  assert.deepEqual(strings(tree.range().allSync()), [['a', '1']])
  await assert.rejects(db.transact(async (tx) => {
    tx.deleteRange(tree)
    throw new RangeError('no')
  }), RangeError)
  assert.equal(tree.hasSync('a'), true)
})

test('a transaction has locks and savepoints', async () => {
  const db = firn.openMemory()
  const tree = db.treeSync('t')
  const [ours, theirs] = [db.transaction(), db.transaction()]
  await ours.lock(tree, 'k')
  await assert.rejects(theirs.lock(tree, 'k', { wait: 1 }), firn.LockedError)
  assert.throws(() => theirs.lockSync(tree, 'k', { wait: 0 }), firn.LockedError)
  assert.throws(() => theirs.lockSync(tree, 'k', { wait: -1 }), TypeError)
  ours.put(tree, 'k', '1')
  const before = ours.savepoint()
  ours.put(tree, 'k', '2').put(tree, 'l', '3')
  ours.rollbackTo(before)
  assert.throws(() => theirs.rollbackTo(before), firn.InvalidArgumentError)
  assert.throws(() => ours.rollbackTo({}), TypeError)
  const waiting = theirs.lock(tree, 'k', { wait: 60000 })
  await ours.commit()
  await waiting
  theirs.rollback()
  assert.deepEqual(strings(tree.range().allSync()), [['k', '1']])
})

test('a copy, statistics and background work', async (t) => {
  const path = folder(t)
  const db = await firn.open(path, { memoryBudget: 16 << 20, backgroundThreads: 1, durability: 'power' })
  const tree = await db.tree('t')
  for (let n = 0; n < 1000; n++) tree.putSync(`k${n}`, 'v'.repeat(100))
  await tree.flush()
  await tree.compact()
  await tree.compact({ gt: 'z', lt: 'a' })
  await db.waitIdle()
  await db.sync()
  db.syncSync()
  await db.checkpoint(path + '-copy')
  assert.equal(typeof await db.stats(), 'object')
  await db.close()
  const copy = await firn.open(path + '-copy', { readOnly: true })
  assert.equal((await (await copy.tree('t')).keys().all()).length, 1000)
  await assert.rejects((await copy.tree('t')).put('a', 'b'), firn.ReadOnlyError)
  await copy.close()
})

test('arguments of other types are refused', async () => {
  const db = firn.openMemory()
  const tree = db.treeSync('t')
  assert.throws(() => tree.getSync(5), TypeError)
  await assert.rejects(tree.put('a', undefined), TypeError)
  assert.throws(() => tree.putSync('a', 'b', { durability: 'x' }), TypeError)
  await assert.rejects(firn.open(7), TypeError)
  await assert.rejects(firn.open('x', { memoryBudget: -1 }), TypeError)
  await assert.rejects(db.tree(undefined), TypeError)
  assert.throws(() => tree.putSync(Buffer.alloc(1 << 20), ''), firn.InvalidArgumentError)
})

test('random calls answer like a sorted map', async () => {
  let state = 42
  const random = (n) => {
    state = (state * 1103515245 + 12345) % 2147483648
    return Math.floor(state / 65536) % n
  }
  const db = firn.openMemory()
  const tree = db.treeSync('t')
  const map = new Map()
  const key = () => String.fromCharCode(97 + random(4)).repeat(1 + random(3)) + random(10)
  const within = ({ gt, gte, lt, lte, prefix }) => (k) =>
    (gt === undefined || k > gt) && (gte === undefined || k >= gte) && (lt === undefined || k < lt) &&
    (lte === undefined || k <= lte) && (prefix === undefined || k.startsWith(prefix))
  const bounds = () => {
    const range = {}
    if (random(2)) range[random(2) ? 'gt' : 'gte'] = key()
    if (random(2)) range[random(2) ? 'lt' : 'lte'] = key()
    if (random(4) === 0) range.prefix = key().slice(0, 1 + random(2))
    return range
  }
  for (let step = 0; step < 4000; step++) {
    const [k, v] = [key(), String(step)]
    switch (random(9)) {
      case 0:
        tree.deleteSync(k)
        map.delete(k)
        break
      case 1:
        if (random(20) === 0) {
          const range = bounds()
          await tree.deleteRange(range)
          for (const of of [...map.keys()].filter(within(range))) map.delete(of)
        }
        break
      case 2: {
        const other = key()
        await db.batch().put(tree, k, v).delete(tree, other).write()
        map.set(k, v).delete(other)
        break
      }
      case 3:
        await db.transact((tx) => tx.put(tree, k, v))
        map.set(k, v)
        break
      case 4:
        assert.equal(await tree.insertIfAbsent(k, v), !map.has(k))
        if (!map.has(k)) map.set(k, v)
        break
      case 5: {
        const keys = [k, key(), key()]
        assert.deepEqual((await tree.getMany(keys)).map((of) => of && String(of)), keys.map((of) => map.get(of)))
        break
      }
      case 6: {
        const options = { ...bounds(), reverse: random(2) === 1, limit: random(2) ? random(30) : undefined }
        let expected = [...map].filter(([of]) => within(options)(of)).sort(([a], [b]) => a < b ? -1 : 1)
        if (options.reverse) expected.reverse()
        expected = expected.slice(0, options.limit)
        assert.deepEqual(strings(random(2) ? tree.range(options).allSync() : await tree.range(options).all()), expected, JSON.stringify(options))
        break
      }
      default:
        tree.putSync(k, v)
        map.set(k, v)
    }
    assert.equal(tree.getSync(k)?.toString(), map.get(k))
  }
})

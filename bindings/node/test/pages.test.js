'use strict'
// The examples of README.md and of `examples` run, and the types name what the module has.

const assert = require('node:assert/strict')
const { spawn, spawnSync } = require('node:child_process')
const { mkdtempSync, readFileSync, rmSync, symlinkSync, mkdirSync, writeFileSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const { once } = require('node:events')
const { test } = require('node:test')
const firn = require('firn-db')

const root = join(__dirname, '..')

/** Returns a directory where the package is installed, by a link; it is removed after the test. */
function installed (t) {
  const dir = mkdtempSync(join(tmpdir(), 'firn-pages-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  mkdirSync(join(dir, 'node_modules'))
  symlinkSync(root, join(dir, 'node_modules', 'firn-db'))
  return dir
}

test('the examples of README.md run', (t) => {
  const dir = installed(t)
  const blocks = readFileSync(join(root, 'README.md'), 'utf8').matchAll(/^```js\n([^]*?)^```/gm)
  const printed = []
  for (const [, block] of blocks) {
    writeFileSync(join(dir, 'example.mjs'), block)
    const run = spawnSync(process.execPath, ['example.mjs'], { cwd: dir, encoding: 'utf8' })
    assert.equal(run.status, 0, run.stderr)
    printed.push(run.stdout)
  }
  assert.equal(printed.length, 4)
  assert.equal(printed[0], 'red undefined\napple: red\npear: green\npear\ngreen false\n')
  assert.equal(printed[1], "Map(1) { 'cherry' => 'black' }\n")
  assert.match(printed[2], /^(Blackbird 7n Set\(2\) { 'ballad', 'guitar' }|Yesterday 3n Set\(1\) { 'ballad' })$/m)
  assert.equal(printed[3], "{ n: 1 } [ 'b' ]\n")
})

test('the service of short links works', async (t) => {
  const dir = installed(t)
  const service = spawn(process.execPath, [join(root, 'examples/links.mjs'), join(dir, 'store'), '0'], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => service.kill('SIGKILL'))
  const [line] = await once(service.stdout, 'data')
  const base = String(line).trim()
  const created = await fetch(base, { method: 'POST', body: 'https://example.org/x' })
  assert.equal(created.status, 201)
  const name = (await created.text()).trim()
  const visits = await Promise.all(Array.from({ length: 5 }, () => fetch(base + name, { redirect: 'manual' })))
  assert.deepEqual(visits.map((v) => [v.status, v.headers.get('location')]), Array(5).fill([302, 'https://example.org/x']))
  const [listed, ...others] = await (await fetch(base)).json()
  assert.deepEqual([listed.name, listed.visits, others], [name, 5, []])
  assert.equal((await fetch(base + 'x', { redirect: 'manual' })).status, 404)
  assert.equal((await fetch(base, { method: 'POST', body: 'no address' })).status, 400)
  service.kill('SIGTERM')
  assert.deepEqual(await once(service, 'exit'), [0, null])
})

test('the types name the methods of each class', () => {
  const types = readFileSync(join(root, 'lib/index.d.ts'), 'utf8')
  const declared = new Map()
  for (const [, name, body] of types.matchAll(/^export class (\w+)[^{]*\{([^]*?)\}$/gm)) {
    const members = body.replace(/\/\*\*[^]*?\*\//g, '').matchAll(/^ {2}(?:readonly )?(\w+|\[Symbol\.\w+\])[(<:]/gm)
    declared.set(name, new Set([...members].map((m) => m[1]).filter((m) => m !== 'constructor')))
  }
  const functions = new Set([...types.matchAll(/^export function (\w+)/gm)].map((m) => m[1]))
  for (const [name, value] of Object.entries(firn)) {
    if (!/^[A-Z]/.test(name)) {
      assert.ok(functions.has(name), name)
      continue
    }
    assert.ok(declared.has(name), name)
    if (value.prototype instanceof Error) continue
    const own = Reflect.ownKeys(value.prototype).filter((key) => key !== 'constructor')
    const symbols = { [Symbol.asyncDispose]: 'asyncDispose', [Symbol.dispose]: 'dispose', [Symbol.iterator]: 'iterator', [Symbol.asyncIterator]: 'asyncIterator' }
    const names = own.map((key) => typeof key === 'string' ? key : `[Symbol.${symbols[key]}]`).filter((key) => key !== '[Symbol.undefined]')
    assert.deepEqual(names.sort(), [...declared.get(name)].sort(), name)
  }
  assert.equal(declared.size + functions.size, Object.keys(firn).length)
})

test('a store that is not closed is whole at the next opening', (t) => {
  const dir = installed(t)
  const program = "const db = require('firn-db').openSync('s'); const t = db.treeSync('t'); t.putSync('a', 'b'); for (const k of t.keys()) break"
  for (const end of ['', '; process.exit(0)', '; process.kill(process.pid, "SIGKILL")']) {
    spawnSync(process.execPath, ['-e', program + end], { cwd: dir })
    const read = spawnSync(process.execPath, ['-p', "String(require('firn-db').openSync('s').treeSync('t').getSync('a'))"], { cwd: dir, encoding: 'utf8' })
    assert.equal(read.stdout, 'b\n', read.stderr)
  }
})

test('what a program forgets is released by the collector', (t) => {
  const dir = installed(t)
  writeFileSync(join(dir, 'forget.js'), `
    const { openSync, LockedError } = require('firn-db')
    ;(function () {
      const db = openSync('s')
      const tree = db.treeSync('t')
      tree.putSync('a', 'b')
      db.snapshot()
      db.transaction().put(tree, 'b', 'c')
      db.batch().put(tree, 'b', 'c')
      tree.range()[Symbol.iterator]().next()
      tree.range()[Symbol.asyncIterator]().next()
    })()
    async function reopen () {
      for (let round = 0; round < 1000; round++) {
        await new Promise((resolve) => setImmediate(resolve))
        gc()
        try {
          return console.log(String(openSync('s').treeSync('t').getSync('a')))
        } catch (e) {
          if (!(e instanceof LockedError)) throw e
        }
      }
    }
    reopen()`)
  const run = spawnSync(process.execPath, ['--expose-gc', 'forget.js'], { cwd: dir, encoding: 'utf8' })
  assert.equal(run.stdout, 'b\n', run.stderr)
})

test('writes to a Level have the durability of their options', async (t) => {
  const { FirnLevel } = require('firn-db/level')
  const level = new FirnLevel(join(installed(t), 'level'))
  await level.put('a', '1', { sync: true })
  await level.batch([{ type: 'put', key: 'b', value: '2' }], { durability: 'power' })
  await level.del('a', { durability: 'process' })
  await assert.rejects(level.put('a', '1', { durability: 'memory' }), TypeError)
  assert.deepEqual(await level.iterator().all(), [['b', '2']])
  // The entries are those of the tree.
  await assert.rejects(firn.open(level.location), firn.LockedError)
  await level.close()
  assert.equal(String(firn.openSync(level.location).treeSync('level').getSync('b')), '2')
})

test('worker threads open stores of their own', async (t) => {
  const { Worker } = require('node:worker_threads')
  const dir = installed(t)
  const program = `
    const { openSync } = require('firn-db')
    const { parentPort, workerData } = require('node:worker_threads')
    const tree = openSync(workerData).treeSync('t')
    tree.putSync('a', 'b')
    parentPort.postMessage(String(tree.getSync('a')))`
  writeFileSync(join(dir, 'worker.js'), program)
  const workers = [0, 1, 2].map((n) => new Worker(join(dir, 'worker.js'), { workerData: join(dir, `store${n}`) }))
  const answers = await Promise.all(workers.map(async (worker) => {
    const [[answer]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')])
    return answer
  }))
  assert.deepEqual(answers, ['b', 'b', 'b'])
  // The stores of ended threads are closed.
  firn.openSync(join(dir, 'store0')).closeSync()
})

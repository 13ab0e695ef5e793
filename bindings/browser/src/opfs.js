// Pools of open files in the origin private file system (OPFS) of a browser. Rust names a pool and a
// file by numbers. Only a dedicated worker can open the files for synchronous access.

const pools = new Map()
let lastPool = 0

/** Milliseconds for which an open waits: a browser releases the files of an ended worker late. */
const PATIENCE = 2000
const PAUSE = 100

async function parent () {
  if (typeof FileSystemFileHandle === 'undefined' || !FileSystemFileHandle.prototype.createSyncAccessHandle) {
    throw new DOMException('files can be opened for synchronous access only in a dedicated worker', 'NotSupportedError')
  }
  const root = await navigator.storage.getDirectory()
  return root.getDirectoryHandle('firn', { create: true })
}

async function openFile (directory, number) {
  const file = await directory.getFileHandle(String(number), { create: true })
  return file.createSyncAccessHandle()
}

/** Opens the first file of a pool, whose lock is that of the store. */
async function openFirst (directory) {
  for (const end = performance.now() + PATIENCE; ;) {
    try {
      return await openFile(directory, 0)
    } catch (error) {
      if (error.name !== 'NoModificationAllowedError' || performance.now() > end) throw error
      await new Promise((resolve) => setTimeout(resolve, PAUSE))
    }
  }
}

/** Opens the files of a pool; creates it if it is missing. Returns its number. */
export async function openPool (name) {
  const directory = await (await parent()).getDirectoryHandle(name, { create: true })
  const pool = { directory, handles: [await openFirst(directory)], growing: Promise.resolve(), isClosed: false }
  try {
    let count = 1
    for await (const file of directory.keys()) count = Math.max(count, Number(file) + 1)
    await openMore(pool, count)
  } catch (error) {
    close(pool)
    throw error
  }
  pools.set(++lastPool, pool)
  return lastPool
}

function close (pool) {
  pool.isClosed = true
  pool.handles.forEach((handle) => handle.close())
}

async function openMore (pool, count) {
  const { directory, handles } = pool
  const numbers = Array.from({ length: Math.max(count - handles.length, 0) }, (_, i) => handles.length + i)
  const opened = await Promise.allSettled(numbers.map((number) => openFile(directory, number)))
  const failed = opened.find((result) => result.status === 'rejected')
  const files = opened.filter((result) => result.status === 'fulfilled').map((result) => result.value)
  if (failed || pool.isClosed) {
    files.forEach((handle) => handle.close())
    throw failed?.reason ?? closedError()
  }
  handles.push(...files)
}

/** Adds files until the pool has this many, after the calls before. */
export async function growPool (number, count) {
  const pool = pools.get(number)
  if (!pool) throw closedError()
  const grown = pool.growing.then(() => openMore(pool, count))
  pool.growing = grown.catch(() => {})
  await grown
}

export function closePool (number) {
  const pool = pools.get(number)
  if (pool) close(pool)
  pools.delete(number)
}

/** Deletes the files of a pool that is not open. */
export async function removePool (name) {
  try {
    await (await parent()).removeEntry(name, { recursive: true })
  } catch (error) {
    if (error.name !== 'NotFoundError') throw error
  }
}

const closedError = () => new DOMException('the store is closed', 'InvalidStateError')

function handleOf (pool, file) {
  const handle = pools.get(pool)?.handles[file]
  if (!handle) throw closedError()
  return handle
}

export const countFiles = (pool) => pools.get(pool)?.handles.length ?? 0
export const fileSize = (pool, file) => handleOf(pool, file).getSize()
export const readFile = (pool, file, at, bytes) => handleOf(pool, file).read(bytes, { at })
export const writeFile = (pool, file, at, bytes) => handleOf(pool, file).write(bytes, { at })
export const truncateFile = (pool, file, size) => handleOf(pool, file).truncate(size)
export const flushFile = (pool, file) => handleOf(pool, file).flush()

/** A key or value as an argument; a string stands for its UTF-8 bytes. */
export type Bytes = string | Uint8Array

/**
 * Survival of a write after the call. `process`: the operating system has it, so it survives a
 * crash of the process. `power`: the device has it, so it survives a power cut.
 */
export type Durability = 'process' | 'power'

export interface WriteOptions {
  /** Default: the durability of the store. */
  durability?: Durability
}

export interface StoreOptions {
  /** Memory for memtables and block cache, in bytes. Default: 256 MiB. */
  memoryBudget?: number
  /** Threads that flush and compact. Default: 2. With 0, writing calls do that work. */
  backgroundThreads?: number
  /** Default durability of writes. Default: `process`. */
  durability?: Durability
  /** Open for reading; others may have the store open. Default: false. */
  readOnly?: boolean
  /** Create the store if it is missing. Default: true. */
  create?: boolean
}

/**
 * Options of a tree, with the names and values of `firn set-options`, also in camel case:
 * `{ policy: 'lazy-leveled:4', memtableSize: '16m' }`. Options that are left out do not change.
 */
export type TreeOptions = Record<string, string | number | boolean | undefined>

/** Bounds of keys. A prefix and bounds together choose the keys that meet both. */
export interface KeyRange {
  gt?: Bytes
  gte?: Bytes
  lt?: Bytes
  lte?: Bytes
  prefix?: Bytes
}

export interface RangeOptions extends KeyRange {
  /** Iterate from the last key to the first. Default: false. */
  reverse?: boolean
  /** Maximum number of items. Default: no maximum. */
  limit?: number
}

/**
 * Items of a range of keys, for `for await` and for `for`. Each iteration reads the state at its
 * start. Items are fetched in chunks of at most 1024 entries or 64 KiB, or one entry if that is
 * longer; `for await` fetches them on libuv's pool. A `Buffer` of an item shares the memory of its
 * chunk.
 */
export interface Range<T> extends Iterable<T>, AsyncIterable<T> {
  /** Returns all items. */
  all(): Promise<T[]>
  allSync(): T[]
}

/** An entry: key and value. */
export type Entry = [key: Buffer, value: Buffer]

/**
 * Opens the store in a directory; creates it if it is missing.
 *
 * Calls that return a promise work on libuv's pool, which has 4 threads by default
 * (`UV_THREADPOOL_SIZE`). Calls with `Sync` in their name work at once, and block the event loop
 * meanwhile. A promise of a read gives the state at the call. Two writes of one key that do not wait
 * for each other can happen in any order.
 *
 * @throws {LockedError} Another process or handle has the store open.
 */
export function open(path: string, options?: StoreOptions): Promise<Db>
export function openSync(path: string, options?: StoreOptions): Db
/** Opens an empty store in memory. */
export function openMemory(): Db

/** A store: trees of bytes in a directory, or in memory. */
export class Db {
  private constructor()
  /** Opens the tree of this name; creates it if it is missing. */
  tree(name: string, options?: TreeOptions): Promise<Tree>
  treeSync(name: string, options?: TreeOptions): Tree
  treeNames(): string[]
  /** Drops a tree with its contents. */
  dropTree(name: string): Promise<void>
  dropTreeSync(name: string): void
  /** Creates an empty batch. */
  batch(): Batch
  /** Takes a snapshot of all trees. */
  snapshot(): Snapshot
  /** Begins a transaction. */
  transaction(): Transaction
  /**
   * Calls `work` with a transaction and commits it. After a conflict it starts again in a new
   * transaction, at most `attempts` times (default 32), with short pauses. Returns the result of
   * `work`. Side effects of `work` outside the transaction happen in each attempt.
   *
   * @throws {ConflictError} All attempts have failed.
   */
  transact<T>(work: (tx: Transaction) => T | Promise<T>, options?: WriteOptions & { attempts?: number }): Promise<T>
  transactSync<T>(work: (tx: Transaction) => T, options?: WriteOptions & { attempts?: number }): T
  /**
   * Opens the subscription of this name; creates it if it does not exist. The store retains at most
   * `maxLogBytes` (default 1 GiB) of its log for it, also while no program has it open.
   *
   * @throws {LockedError} Another handle uses the subscription.
   */
  subscribe(name: string, options?: SubscriptionOptions): Promise<Subscription>
  subscribeSync(name: string, options?: SubscriptionOptions): Subscription
  /** Returns the subscriptions of the store, in the order of their names. */
  subscriptions(): SubscriptionInfo[]
  /** Drops a subscription and releases its part of the log. */
  dropSubscription(name: string): Promise<void>
  dropSubscriptionSync(name: string): void
  /**
   * Copies the store into a directory that is missing or empty, on the same file system: tables are
   * linked, not copied. Writers continue meanwhile.
   */
  checkpoint(path: string): Promise<void>
  checkpointSync(path: string): void
  /** Waits until no flush and no compaction is due. */
  waitIdle(): Promise<void>
  /** Waits until all earlier writes are on the device. */
  sync(): Promise<void>
  syncSync(): void
  /** Returns the statistics, as in `firn stats --json`. */
  stats(): Promise<Record<string, unknown>>
  /**
   * Closes the store: all writes are durable afterwards. Its trees, snapshots and iterators throw
   * `ClosedError` from now on. A store that is not closed is closed when its last object is
   * collected.
   */
  close(): Promise<void>
  closeSync(): void
  [Symbol.asyncDispose](): Promise<void>
  [Symbol.dispose](): void
}

/** A tree of a store: an ordered map from bytes to bytes. */
export class Tree {
  private constructor()
  readonly name: string
  /** Returns the value of a key, or `undefined`. */
  get(key: Bytes): Promise<Buffer | undefined>
  getSync(key: Bytes): Buffer | undefined
  /** Returns the values of many keys with one call, in their order. */
  getMany(keys: Iterable<Bytes>): Promise<(Buffer | undefined)[]>
  getManySync(keys: Iterable<Bytes>): (Buffer | undefined)[]
  has(key: Bytes): Promise<boolean>
  hasSync(key: Bytes): boolean
  put(key: Bytes, value: Bytes, options?: WriteOptions): Promise<void>
  putSync(key: Bytes, value: Bytes, options?: WriteOptions): void
  /** Deletes a key, whether it exists or not. */
  delete(key: Bytes, options?: WriteOptions): Promise<void>
  deleteSync(key: Bytes, options?: WriteOptions): void
  /** Deletes all keys of a range with one operation; without bounds, all keys. */
  deleteRange(range?: KeyRange, options?: WriteOptions): Promise<void>
  deleteRangeSync(range?: KeyRange, options?: WriteOptions): void
  /** Sets a missing key atomically. Returns whether it was missing. */
  insertIfAbsent(key: Bytes, value: Bytes, options?: WriteOptions): Promise<boolean>
  insertIfAbsentSync(key: Bytes, value: Bytes, options?: WriteOptions): boolean
  /**
   * Replaces the value of a key atomically if it is `before`; `undefined` or `null` means no value.
   * Returns whether it was.
   */
  compareAndSwap(key: Bytes, before: Bytes | null | undefined, after: Bytes | null | undefined, options?: WriteOptions): Promise<boolean>
  compareAndSwapSync(key: Bytes, before: Bytes | null | undefined, after: Bytes | null | undefined, options?: WriteOptions): boolean
  range(options?: RangeOptions): Range<Entry>
  keys(options?: RangeOptions): Range<Buffer>
  values(options?: RangeOptions): Range<Buffer>
  /** Flushes the memtable. */
  flush(): Promise<void>
  /** Compacts the memtable, and all tables with keys of the range, into one run. */
  compact(range?: KeyRange): Promise<void>
}

/** Writes to trees of a store that happen atomically. */
export class Batch {
  private constructor()
  /** Number of operations. */
  readonly length: number
  put(tree: Tree, key: Bytes, value: Bytes): this
  delete(tree: Tree, key: Bytes): this
  deleteRange(tree: Tree, range?: KeyRange): this
  /** Removes all operations. */
  clear(): this
  /** Executes the operations. The batch is empty afterwards, also after an error. */
  write(options?: WriteOptions): Promise<void>
  writeSync(options?: WriteOptions): void
}

/** The state of all trees at one moment. Until it is closed, the store retains that data. */
export class Snapshot {
  private constructor()
  get(tree: Tree, key: Bytes): Promise<Buffer | undefined>
  getSync(tree: Tree, key: Bytes): Buffer | undefined
  getMany(tree: Tree, keys: Iterable<Bytes>): Promise<(Buffer | undefined)[]>
  getManySync(tree: Tree, keys: Iterable<Bytes>): (Buffer | undefined)[]
  has(tree: Tree, key: Bytes): Promise<boolean>
  hasSync(tree: Tree, key: Bytes): boolean
  range(tree: Tree, options?: RangeOptions): Range<Entry>
  keys(tree: Tree, options?: RangeOptions): Range<Buffer>
  values(tree: Tree, options?: RangeOptions): Range<Buffer>
  close(): void
  [Symbol.dispose](): void
}

/** The pending writes of a transaction at one moment. */
export class Savepoint {
  private constructor()
}

/**
 * Atomic reads and writes: the commit fails with `ConflictError` if data that the transaction has
 * read was changed since. Wait for a read before the next call. An iterator fetches some entries in
 * advance, and they count as read.
 */
export class Transaction {
  private constructor()
  /** Returns the value of a key, with the writes of the transaction, or `undefined`. */
  get(tree: Tree, key: Bytes): Promise<Buffer | undefined>
  getSync(tree: Tree, key: Bytes): Buffer | undefined
  put(tree: Tree, key: Bytes, value: Bytes): this
  delete(tree: Tree, key: Bytes): this
  deleteRange(tree: Tree, range?: KeyRange): this
  range(tree: Tree, options?: RangeOptions): Range<Entry>
  /**
   * Locks a key until the transaction ends: other transactions that lock it wait, at most `wait`
   * milliseconds (default 1000). Use it in `transact`, which starts again after a conflict.
   *
   * @throws {LockedError} Another transaction has the lock after the wait.
   * @throws {ConflictError} There is a deadlock, or the key has changed since the first read.
   */
  lock(tree: Tree, key: Bytes, options?: { wait?: number }): Promise<void>
  lockSync(tree: Tree, key: Bytes, options?: { wait?: number }): void
  /** Returns the pending writes, for `rollbackTo`. */
  savepoint(): Savepoint
  /** Replaces the pending writes with those at a savepoint of this transaction. */
  rollbackTo(savepoint: Savepoint): void
  /**
   * Executes all writes, or none after an error. The transaction is over in any case.
   *
   * @throws {ConflictError} Data that was read has changed.
   */
  commit(options?: WriteOptions): Promise<void>
  commitSync(options?: WriteOptions): void
  /** Ends the transaction without its writes. Does nothing after a commit. */
  rollback(): void
  [Symbol.dispose](): void
}

export interface SubscriptionOptions {
  /** Maximum bytes of log that the store retains. Default: 1 GiB. */
  maxLogBytes?: number
}

/** State of a subscription. */
export interface SubscriptionInfo {
  name: string
  /** Number up to which all changes are acknowledged. */
  seq: number
  /** Number of changes that are not acknowledged yet. */
  behind: number
  retainedBytes: number
  maxLogBytes: number
  snapshotDue: boolean
}

/** An operation of a change. */
export type ChangeOp =
  | { op: 'put', tree: string, key: Buffer, value: Buffer, expires?: Date }
  | { op: 'delete', tree: string, key: Buffer }
  | { op: 'deleteRange', tree: string, start: Buffer, end: Buffer | undefined }
  | { op: 'merge', tree: string, key: Buffer, operand: Buffer }

/** A batch, or a single write. */
export interface Change {
  /** The position after the change: store it with the effects of the change. */
  position: string
  /** Whether it bypassed the log or dropped a tree, so that it has no operations: copy a snapshot. */
  loaded: boolean
  ops: ChangeOp[]
}

/**
 * A durable change feed of a store: a name with a position in the log. `for await` returns each change
 * once it is durable, and waits for further ones.
 */
export class Subscription {
  private constructor()
  readonly name: string
  /**
   * Whether the consumer must copy a snapshot before it continues: until the first acknowledgement,
   * and after the log has lost changes.
   */
  readonly snapshotDue: boolean
  /** The position after the last change that was returned. */
  readonly position: string
  /** Begins again at the present state. Acknowledge the snapshot when it is copied. */
  snapshot(): Promise<Snapshot>
  snapshotSync(): Snapshot
  /**
   * Returns the next change. Waits at most `wait` milliseconds for it (default 0), or until `signal` is
   * aborted, whose reason it throws.
   *
   * @throws {LaggedError} The log has lost changes: begin again with a snapshot.
   */
  next(options?: { wait?: number, signal?: AbortSignal }): Promise<Change | undefined>
  nextSync(): Change | undefined
  /** Iterates over changes, and waits for them until `signal` is aborted, whose reason it throws. */
  changes(options?: { signal?: AbortSignal }): AsyncGenerator<Change, never>
  [Symbol.asyncIterator](): AsyncGenerator<Change, never>
  /** Acknowledges all changes up to a position; without one, up to the last that was returned. */
  acknowledge(position?: string): Promise<void>
  acknowledgeSync(position?: string): void
  /**
   * Continues after the position that the consumer stored with its effects, so that each change takes
   * effect once.
   *
   * @throws {LaggedError} The log has lost changes since: begin again with a snapshot.
   */
  resume(position: string): Promise<void>
  resumeSync(position: string): void
  /** Releases the handle. The subscription stays in the store. */
  close(): void
  [Symbol.dispose](): void
}

/** Opens the CQL database in a directory; creates it if it is missing. */
export function openSession(path: string, options?: StoreOptions): Promise<Session>
export function openSessionSync(path: string, options?: StoreOptions): Session
/** Opens an empty CQL database in memory. */
export function openSessionMemory(): Session

/** A value of CQL that a row has. */
export type CqlValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Buffer
  | Date
  | CqlValue[]
  | Set<CqlValue>
  | Map<CqlValue, CqlValue>
  | { [field: string]: CqlValue }

/** A value of CQL that can be bound; `undefined` leaves a column unchanged. */
export type CqlParameter =
  | null
  | undefined
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Date
  | readonly CqlParameter[]
  | ReadonlySet<CqlParameter>
  | ReadonlyMap<CqlParameter, CqlParameter>
  | { readonly [field: string]: CqlParameter }

/** Values for markers: in their order, or by name. A name that is left out leaves the column unchanged. */
export type CqlParameters = readonly CqlParameter[] | { readonly [name: string]: CqlParameter }

export interface RunOptions {
  /** Rows of a page, which is fetched at once. Default: 1000. */
  pageSize?: number
  /** Timestamp of the writes, in microseconds since 1970. Default: the time of the call. */
  timestamp?: number | bigint
  /** Return rows as arrays, for columns of the same name. Default: false. */
  arrays?: boolean
}

export type Row = Record<string, CqlValue>

/** A session with a CQL database. */
export class Session {
  private constructor()
  /** The keyspace of `USE`. */
  readonly keyspace: string | undefined
  /** Creates another session with the same database and its own keyspace. */
  clone(): Session
  /** Runs a statement. */
  execute<T = Row>(cql: string, parameters?: CqlParameters | null, options?: RunOptions): Promise<Rows<T>>
  executeSync<T = Row>(cql: string, parameters?: CqlParameters | null, options?: RunOptions): Rows<T>
  /** Prepares a statement about rows. */
  prepare(cql: string): Promise<Statement>
  prepareSync(cql: string): Statement
  /** Closes the database for all its sessions: all writes are durable afterwards. */
  close(): Promise<void>
  closeSync(): void
  [Symbol.asyncDispose](): Promise<void>
  [Symbol.dispose](): void
}

/** A prepared statement. */
export class Statement {
  private constructor()
  /** Name and CQL type of each marker. */
  readonly markers: { name: string, type: string }[]
  execute<T = Row>(parameters?: CqlParameters | null, options?: RunOptions): Promise<Rows<T>>
  executeSync<T = Row>(parameters?: CqlParameters | null, options?: RunOptions): Rows<T>
}

/** The rows of a statement, which can be read once. Pages are fetched as rows are read. */
export class Rows<T = Row> implements Iterable<T>, AsyncIterable<T> {
  private constructor()
  /** Name and CQL type of each column. */
  readonly columns: { name: string, type: string }[]
  /** Returns the next row, or `undefined`. */
  one(): Promise<T | undefined>
  oneSync(): T | undefined
  /** Returns all further rows. */
  all(): Promise<T[]>
  allSync(): T[]
  [Symbol.iterator](): IterableIterator<T>
  [Symbol.asyncIterator](): AsyncIterableIterator<T>
}

/** An error of Firn. Errors in arguments' types are `TypeError`s. */
export class FirnError extends Error {
  /** The class in one word: `FIRN_CONFLICT`, `FIRN_CLOSED`. `FIRN_PANIC` is a bug in Firn. */
  readonly code: string
}
/** Bytes on disk are damaged; the message has the location. */
export class CorruptionError extends FirnError {}
/** The operating system returned an error. */
export class IoError extends FirnError {}
/** The device or a quota is full. Nothing was written. */
export class NoSpaceError extends IoError {}
/** File descriptors or memory are exhausted. Nothing was written. */
export class ExhaustedError extends IoError {}
/** The store accepts no writes. */
export class ReadOnlyError extends FirnError {}
/** Another process or handle has the store or the subscription open. */
export class LockedError extends FirnError {}
/** Data read by a transaction has changed since; run it again. */
export class ConflictError extends FirnError {}
/** An argument is out of range. Nothing was changed. */
export class InvalidArgumentError extends FirnError {}
/** The files were written by a newer version, or with other hooks or options. */
export class IncompatibleError extends FirnError {}
/** No such store, tree or file. */
export class NotFoundError extends FirnError {}
/** The log has lost changes that a subscription needs: copy a snapshot. */
export class LaggedError extends FirnError {}
/** The store, tree, snapshot, transaction or subscription is closed or dropped. */
export class ClosedError extends FirnError {}
/** A statement failed without effect. */
export class CqlError extends FirnError {}
/** The text is not valid CQL. */
export class CqlSyntaxError extends CqlError {}
/** The statement is invalid. */
export class InvalidRequestError extends CqlError {}
/** The operation is not permitted. */
export class UnauthorizedError extends CqlError {}
/** A replication strategy or an option is invalid. */
export class ConfigurationError extends CqlError {}
/** The keyspace or table exists already. */
export class AlreadyExistsError extends CqlError {}
/** A user-defined function failed. */
export class FunctionFailureError extends CqlError {}

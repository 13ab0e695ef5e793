import { AbstractDatabaseOptions, AbstractLevel } from 'abstract-level'
import { StoreOptions } from './index.js'

export interface FirnLevelOptions<K, V> extends AbstractDatabaseOptions<K, V> {
  /** Tree of the store that has the entries. Default: `level`. */
  tree?: string
  /** Options of the store. `createIfMissing` determines `create`. */
  store?: StoreOptions
}

/**
 * A database of abstract-level over one tree of a store: what runs on `classic-level` or
 * `memory-level` runs on it. Operations that write accept the option
 * `durability`, and `sync: true` for `durability: 'power'`.
 */
export class FirnLevel<K = string, V = string> extends AbstractLevel<string | Buffer | Uint8Array, K, V> {
  /** `location` is a directory; without one the database is in memory. */
  constructor(location?: string, options?: FirnLevelOptions<K, V>)
  readonly location: string | undefined
  readonly type: 'firn-db'
}

//! Types for TypeScript that the calls name.

use wasm_bindgen::prelude::*;

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** A key or value as an argument; a string stands for its UTF-8 bytes. */
export type Bytes = string | Uint8Array

/**
 * Survival of a write after the call. `process`: the browser has it, so it survives the end of the
 * page. `power`: it is flushed.
 */
export type Durability = 'process' | 'power'

export interface WriteOptions {
  /** Default: the durability of the store. */
  durability?: Durability
}

export interface StoreOptions {
  /** Memory for memtables and block cache, in bytes. Default: 64 MiB. */
  memoryBudget?: number
  /** Default durability of writes. Default: `process`. */
  durability?: Durability
  /** Create the store if it is missing. Default: true. */
  create?: boolean
}

/** Options of a tree, with the names and values of `firn set-options`, also in camel case. */
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
  /** Return the last entries first. Default: false. */
  reverse?: boolean
  /** Maximum number of entries. Default: no maximum. */
  limit?: number
}

export type Entry = [key: Uint8Array, value: Uint8Array]

/** A value of CQL. */
export type CqlValue =
  | null | boolean | number | bigint | string | Date | Uint8Array
  | CqlValue[] | Set<CqlValue> | Map<CqlValue, CqlValue> | { [field: string]: CqlValue }

/** Parameters of a statement, in order or by name. `undefined` leaves a column unchanged. */
export type Parameters = (CqlValue | undefined)[] | Record<string, CqlValue | undefined>

/** The result of a statement. */
export interface CqlResult {
  kind: 'void' | 'rows' | 'keyspace' | 'schema'
  columns: { name: string, type: string }[]
  /** Values in the order of the columns. */
  rows: CqlValue[][]
  /** Whether there are no rows beyond the limit. */
  isComplete: boolean
  warnings: string[]
}

/** A simulation. */
export interface Simulation {
  /** The output of `compaction-sim run --json`. */
  json: string
  outcomes: Record<string, unknown>[]
  figures: { name: string, svg: string }[]
}
"#;

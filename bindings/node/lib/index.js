'use strict'
// The public interface; `index.d.ts` documents it.

const { open, openSync, openMemory, Db, Tree, Batch, Snapshot, Savepoint, Transaction } = require('./store')
const { Subscription } = require('./changes')
const { openSession, openSessionSync, openSessionMemory, Session, Statement, Rows } = require('./cql')
const {
  FirnError, CorruptionError, IoError, NoSpaceError, ExhaustedError, ReadOnlyError, LockedError, ConflictError,
  InvalidArgumentError, IncompatibleError, NotFoundError, LaggedError, ClosedError, CqlError, CqlSyntaxError,
  InvalidRequestError, UnauthorizedError, ConfigurationError, AlreadyExistsError, FunctionFailureError
} = require('./errors').classes

// In this form Node.js finds the names for `import { open } from 'firn-db'`.
module.exports = {
  open,
  openSync,
  openMemory,
  Db,
  Tree,
  Batch,
  Snapshot,
  Savepoint,
  Transaction,
  Subscription,
  openSession,
  openSessionSync,
  openSessionMemory,
  Session,
  Statement,
  Rows,
  FirnError,
  CorruptionError,
  IoError,
  NoSpaceError,
  ExhaustedError,
  ReadOnlyError,
  LockedError,
  ConflictError,
  InvalidArgumentError,
  IncompatibleError,
  NotFoundError,
  LaggedError,
  ClosedError,
  CqlError,
  CqlSyntaxError,
  InvalidRequestError,
  UnauthorizedError,
  ConfigurationError,
  AlreadyExistsError,
  FunctionFailureError
}

'use strict'
// The classes of errors, and their conversion from errors of the native module.

class FirnError extends Error {
  constructor (message, options) {
    super(message, options)
    this.code = new.target.code
  }

  get name () {
    return this.constructor.name
  }

  static code = 'FIRN_PANIC'
}

class CorruptionError extends FirnError { static code = 'FIRN_CORRUPTION' }
class IoError extends FirnError { static code = 'FIRN_IO' }
class NoSpaceError extends IoError { static code = 'FIRN_NO_SPACE' }
class ExhaustedError extends IoError { static code = 'FIRN_EXHAUSTED' }
class ReadOnlyError extends FirnError { static code = 'FIRN_READ_ONLY' }
class LockedError extends FirnError { static code = 'FIRN_LOCKED' }
class ConflictError extends FirnError { static code = 'FIRN_CONFLICT' }
class InvalidArgumentError extends FirnError { static code = 'FIRN_INVALID_ARGUMENT' }
class IncompatibleError extends FirnError { static code = 'FIRN_INCOMPATIBLE' }
class NotFoundError extends FirnError { static code = 'FIRN_NOT_FOUND' }
class LaggedError extends FirnError { static code = 'FIRN_LAGGED' }
class ClosedError extends FirnError { static code = 'FIRN_CLOSED' }
class CqlError extends FirnError { static code = 'FIRN_SERVER' }
class CqlSyntaxError extends CqlError { static code = 'FIRN_SYNTAX' }
class InvalidRequestError extends CqlError { static code = 'FIRN_INVALID_REQUEST' }
class UnauthorizedError extends CqlError { static code = 'FIRN_UNAUTHORIZED' }
class ConfigurationError extends CqlError { static code = 'FIRN_CONFIGURATION' }
class AlreadyExistsError extends CqlError { static code = 'FIRN_ALREADY_EXISTS' }
class FunctionFailureError extends CqlError { static code = 'FIRN_FUNCTION_FAILURE' }

const classes = {
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
const byCode = new Map(Object.values(classes).map((of) => [of.code, of]))

/** Converts an error of the native module, whose message has the code in its first line. */
function convert (error) {
  const end = error instanceof Error ? error.message.indexOf('\n') : -1
  const of = end > 0 ? byCode.get('FIRN_' + error.message.slice(0, end)) : undefined
  return of ? new of(error.message.slice(end + 1)) : error
}

/** Calls the native module and waits. */
function now (call) {
  try {
    return call()
  } catch (e) {
    throw convert(e)
  }
}

/** Calls the native module, which returns a promise. */
async function later (call) {
  try {
    return await call()
  } catch (e) {
    throw convert(e)
  }
}

module.exports = { classes, convert, now, later }

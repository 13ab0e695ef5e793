/*
 * Firn for C: the engine (trees of bytes) and CQL.
 *
 * Every call that can fail gives a FirnCode; firn_error_message() has the words for the last one that failed on this thread. What a call makes is
 * written behind its last argument, only when it gives FIRN_CODE_OK. Handles are freed by their own function, in any order: a store stays open
 * until it is closed, or the last handle of it is gone. NULL in the place of a handle or a result is FIRN_CODE_INVALID_ARGUMENT, and freeing NULL does nothing.
 *
 * Threads: FirnDb, FirnTree, FirnSnapshot and FirnSession may be used by many at once. FirnBatch, FirnIter, FirnTransaction, FirnStatement and
 * FirnRows may go from thread to thread, but are used by one at a time. No handle may be used after, or while, it is freed.
 */

#ifndef FIRN_H
#define FIRN_H

/* Made by cbindgen from bindings/c/src: see bindings/c/README.md. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/**
 * What came of a call.
 */
typedef enum {
  /**
   * Done.
   */
  FIRN_CODE_OK = 0,
  /**
   * Done, and there is nothing: no such key, no further entry or row, null.
   */
  FIRN_CODE_NONE = 1,
  /**
   * Bytes on disk are not what was written; the message names the place.
   */
  FIRN_CODE_CORRUPTION = 2,
  /**
   * The operating system refused.
   */
  FIRN_CODE_IO = 3,
  /**
   * The device or a quota is full. Nothing was written.
   */
  FIRN_CODE_NO_SPACE = 4,
  /**
   * No file descriptors or no memory are left. Nothing was written.
   */
  FIRN_CODE_EXHAUSTED = 5,
  /**
   * The store takes no writes.
   */
  FIRN_CODE_READ_ONLY = 6,
  /**
   * Somebody else has the store open.
   */
  FIRN_CODE_LOCKED = 7,
  /**
   * A transaction read something that has changed since; run it again.
   */
  FIRN_CODE_CONFLICT = 8,
  /**
   * An argument is null or out of its bounds. Nothing was changed.
   */
  FIRN_CODE_INVALID_ARGUMENT = 9,
  /**
   * The files were written by a newer version, or with other hooks or options.
   */
  FIRN_CODE_INCOMPATIBLE = 10,
  /**
   * No such store, tree or file.
   */
  FIRN_CODE_NOT_FOUND = 11,
  /**
   * The store or the tree was closed or dropped.
   */
  FIRN_CODE_CLOSED = 12,
  /**
   * The text is no CQL.
   */
  FIRN_CODE_SYNTAX = 20,
  /**
   * The statement can't be right.
   */
  FIRN_CODE_INVALID_REQUEST = 21,
  /**
   * What the system keeps may not be changed.
   */
  FIRN_CODE_UNAUTHORIZED = 22,
  /**
   * A strategy or an option can't be used.
   */
  FIRN_CODE_CONFIGURATION = 23,
  /**
   * The keyspace or table is there.
   */
  FIRN_CODE_ALREADY_EXISTS = 24,
  /**
   * A function failed over its arguments.
   */
  FIRN_CODE_FUNCTION_FAILURE = 25,
  /**
   * CQL failed otherwise.
   */
  FIRN_CODE_SERVER = 26,
  /**
   * Firn has a bug, which was caught here. Handles that the call had are to be freed.
   */
  FIRN_CODE_PANIC = 99,
} FirnCode;

/**
 * Writes that are done together or not at all.
 */
typedef struct FirnBatch FirnBatch;

/**
 * An open store.
 */
typedef struct FirnDb FirnDb;

/**
 * Where a merge function puts the value that it has made.
 */
typedef struct FirnFold FirnFold;

/**
 * Entries of a range of keys, from both ends.
 */
typedef struct FirnIter FirnIter;

/**
 * What keeps bytes in memory.
 */
typedef struct FirnOwner FirnOwner;

/**
 * The rows of a result, which are fetched a page at a time.
 */
typedef struct FirnRows FirnRows;

/**
 * A conversation in CQL with a database.
 */
typedef struct FirnSession FirnSession;

/**
 * A store as it was at one moment.
 */
typedef struct FirnSnapshot FirnSnapshot;

/**
 * A compiled statement with the values that are bound to its markers.
 */
typedef struct FirnStatement FirnStatement;

/**
 * Reads and writes as one step: what it read must not have changed when it is committed.
 */
typedef struct FirnTransaction FirnTransaction;

/**
 * A tree of a store: an ordered map from bytes to bytes.
 */
typedef struct FirnTree FirnTree;

/**
 * Bytes that are lent for a call, or until the next call on the same handle. NULL with length 0 is
 * nothing at all: an open end of a range, no value; where bytes must be, it is no bytes.
 */
typedef struct {
  const uint8_t *data;
  size_t len;
} FirnSlice;

/**
 * Gives the next pair of a load: `FIRN_CODE_OK` when it has written both, `FIRN_CODE_NONE` behind
 * the last one; anything else ends the load. The bytes must be good until it is called again.
 */
typedef int32_t (*FirnNextFunction)(void *context, FirnSlice *key, FirnSlice *value);

/**
 * Bytes that are the caller's, until they are given back with `firn_bytes_free`.
 */
typedef struct {
  const uint8_t *data;
  size_t len;
  FirnOwner *owner;
} FirnBytes;

/**
 * How far a write has got when the call is over: one of `FIRN_DURABILITY_…`. A number, since C
 * could put any into an enumeration.
 */
typedef uint32_t FirnDurability;

/**
 * How a store is opened. All zeros is the default.
 */
typedef struct {
  /**
   * Bytes of memory for memtables and the cache. 0: 256 MiB.
   */
  uint64_t memory_budget;
  /**
   * Threads that flush and compact. 0: two; -1: none, whoever writes does their work.
   */
  int32_t background_threads;
  /**
   * Of writes that do not say; 0: `FIRN_DURABILITY_PROCESS`.
   */
  FirnDurability durability;
  /**
   * Not 0: nothing is written, and others may have it open.
   */
  int32_t read_only;
  /**
   * Not 0: a store that is not there is an error.
   */
  int32_t must_exist;
} FirnOptions;

/**
 * The form of a merge function.
 */
typedef int32_t (*FirnFoldFunction)(void *context, FirnSlice key, FirnSlice base, const FirnSlice *operands, size_t count, FirnFold *result);

/**
 * Folds the versions of a key into one value. Reads call it, and the store's own threads, several
 * at once: it must give the same for the same bytes, in every process, and call nothing of the
 * store but `firn_fold_give`.
 */
typedef struct {
  /**
   * What the tree keeps: it is opened with a merge function of this name only. Copied.
   */
  FirnSlice name;
  /**
   * Handed to `fold`. It must be there until the store is closed, every handle that was got from
   * it is freed, and no call is running. A function that another `firn_db_tree_with` has
   * replaced may still be called until then.
   */
  void *context;
  /**
   * `base` is the value that was put before the operands, or nothing at all; operands come
   * oldest first. It gives the value to `result`, or leaves it, and then the key has no value.
   * It returns `FIRN_CODE_OK`; anything else fails the read, and leaves the versions as they
   * are. It must return: no exception, no `longjmp`.
   */
  FirnFoldFunction fold;
} FirnMerge;

/**
 * As the store was opened.
 */
#define FIRN_DURABILITY_DEFAULT 0

/**
 * The bytes are the operating system's: they survive a crash of the process.
 */
#define FIRN_DURABILITY_PROCESS 1

/**
 * The bytes are on the device: they survive a power cut.
 */
#define FIRN_DURABILITY_POWER 2

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Loads pairs in ascending order of their keys, straight into tables: faster than putting them,
 * and of all of them or none. `next` is called for each, with `context`, and must not use the
 * tree; `count`, which may be NULL, is how many there were.
 */
FirnCode firn_tree_ingest(const FirnTree *tree, FirnNextFunction next, void *context, uint64_t *count);

/**
 * Writes what is in memory of a tree to tables.
 */
FirnCode firn_tree_flush(const FirnTree *tree);

/**
 * Merges all tables that have keys from `from` on, before `to`, into one run, what is in memory
 * too.
 */
FirnCode firn_tree_compact(const FirnTree *tree, FirnSlice from, FirnSlice to);

/**
 * Makes a copy of the store in the directory `path`, which must be missing or empty and on the
 * same file system: tables are linked, not copied. Writers go on meanwhile.
 */
FirnCode firn_db_checkpoint(const FirnDb *db, FirnSlice path);

/**
 * Waits until no memtable is to be flushed and no compaction is due.
 */
FirnCode firn_db_wait_idle(const FirnDb *db);

/**
 * Why the last call failed that failed on this thread: UTF-8, never NULL, good until the next one
 * fails.
 */
const char *firn_error_message(void);

/**
 * The version of the library.
 */
const char *firn_version(void);

/**
 * Gives bytes back.
 */
void firn_bytes_free(FirnBytes bytes);

/**
 * Opens the database in the directory `path`, creating it where it is missing or empty. `options`
 * may be NULL.
 */
FirnCode firn_session_open(FirnSlice path, const FirnOptions *options, FirnSession **out);

/**
 * Opens an empty database in memory.
 */
FirnCode firn_session_open_memory(FirnSession **out);

/**
 * Another session with the same database; each has its own keyspace.
 */
FirnCode firn_session_clone(const FirnSession *session, FirnSession **out);

/**
 * Closes the database, for all its sessions, and says what came of it. Handles are still to be
 * freed; calls that need the database's store give `FIRN_CODE_CLOSED`.
 */
FirnCode firn_session_close(const FirnSession *session);

/**
 * Gives a session back. A database that was not closed is closed with the last handle of it.
 */
void firn_session_free(FirnSession *session);

/**
 * Runs a statement without bind markers and forgets its rows.
 */
FirnCode firn_session_execute(const FirnSession *session, FirnSlice cql);

/**
 * Runs a statement without bind markers, for its rows.
 */
FirnCode firn_session_query(const FirnSession *session, FirnSlice cql, FirnRows **out);

/**
 * Compiles a statement about rows.
 */
FirnCode firn_session_prepare(const FirnSession *session, FirnSlice cql, FirnStatement **out);

/**
 * Gives a statement back.
 */
void firn_statement_free(FirnStatement *statement);

/**
 * How many bind markers there are; 0 for NULL.
 */
size_t firn_statement_markers(const FirnStatement *statement);

/**
 * Binds null to a marker; the first one is 0. What is bound stays bound for the next run.
 */
FirnCode firn_statement_bind_null(FirnStatement *statement, size_t marker);

/**
 * Binds a truth value.
 */
FirnCode firn_statement_bind_bool(FirnStatement *statement, size_t marker, bool value);

/**
 * Binds a whole number: to tinyint, smallint, int, bigint, varint, counter, timestamp
 * (milliseconds since 1970) or time (nanoseconds).
 */
FirnCode firn_statement_bind_int(FirnStatement *statement, size_t marker, int64_t value);

/**
 * Binds a number: to float or double.
 */
FirnCode firn_statement_bind_double(FirnStatement *statement, size_t marker, double value);

/**
 * Binds a text; also to types that are written as one: uuid, inet, timestamp, date, time,
 * duration, decimal, varint.
 */
FirnCode firn_statement_bind_text(FirnStatement *statement, size_t marker, FirnSlice value);

/**
 * Binds bytes: to blob.
 */
FirnCode firn_statement_bind_blob(FirnStatement *statement, size_t marker, FirnSlice value);

/**
 * Binds the 16 bytes of a uuid.
 */
FirnCode firn_statement_bind_uuid(FirnStatement *statement, size_t marker, FirnSlice value);

/**
 * Binds a value of any type, collections too, as `INSERT … JSON` has it.
 */
FirnCode firn_statement_bind_json(FirnStatement *statement, size_t marker, FirnSlice value);

/**
 * Runs a statement with what is bound to it. What nothing was bound to stays as it is. `page_size`
 * is how many rows are fetched at once; 0: 1000.
 */
FirnCode firn_statement_query(const FirnStatement *statement, size_t page_size, FirnRows **out);

/**
 * Runs a statement with what is bound to it, and forgets its rows.
 */
FirnCode firn_statement_execute(const FirnStatement *statement);

/**
 * Gives a result back.
 */
void firn_rows_free(FirnRows *rows);

/**
 * Goes on to the next row, the first one at first; `FIRN_CODE_NONE` behind the last one.
 */
FirnCode firn_rows_next(FirnRows *rows);

/**
 * How many columns there are; 0 for NULL, and for what is no rows.
 */
size_t firn_rows_columns(const FirnRows *rows);

/**
 * The name of a column; good until the next row.
 */
FirnCode firn_rows_column_name(const FirnRows *rows, size_t column, FirnSlice *out);

/**
 * The type of a column as CQL writes it.
 */
FirnCode firn_rows_column_type(const FirnRows *rows, size_t column, FirnBytes *out);

/**
 * A truth value of the row; `FIRN_CODE_NONE` for null.
 */
FirnCode firn_rows_bool(const FirnRows *rows, size_t column, bool *out);

/**
 * A whole number of the row, also a counter, a timestamp or a time; `FIRN_CODE_NONE` for null.
 */
FirnCode firn_rows_int(const FirnRows *rows, size_t column, int64_t *out);

/**
 * A float or double of the row; `FIRN_CODE_NONE` for null.
 */
FirnCode firn_rows_double(const FirnRows *rows, size_t column, double *out);

/**
 * A value of the row as it is stored, whatever its type: a text or a blob is its bytes, a uuid
 * its 16. Good until the next row; `FIRN_CODE_NONE` for null.
 */
FirnCode firn_rows_bytes(const FirnRows *rows, size_t column, FirnSlice *out);

/**
 * A value of the row as JSON, whatever its type; null is `null`.
 */
FirnCode firn_rows_json(const FirnRows *rows, size_t column, FirnBytes *out);

/**
 * The value that a key has: to be called by a merge function, at most once. It is copied.
 */
FirnCode firn_fold_give(FirnFold *result, FirnSlice value);

/**
 * The tree of this name, made where it is not there, with these options: a text of words as
 * `policy=lazy-leveled:4` or `memtable_size=16m`, with blanks between them; the words are those of
 * `firn tree`. What is not said stays as it is. `merge` may be NULL; a tree that was made with one
 * takes `firn_tree_merge` and reads its operands only where it was given since the store was
 * opened.
 */
FirnCode firn_db_tree_with(const FirnDb *db, FirnSlice name, FirnSlice options, const FirnMerge *merge, FirnTree **out);

/**
 * Adds an operand to a key, which the tree's merge function folds when it is read.
 */
FirnCode firn_tree_merge(const FirnTree *tree, FirnSlice key, FirnSlice operand, FirnDurability durability);

/**
 * Adds: add an operand to a key of a tree.
 */
FirnCode firn_batch_merge(FirnBatch *batch, const FirnTree *tree, FirnSlice key, FirnSlice operand);

/**
 * The keys of a tree from `from` on, before `to`, as they are now.
 */
FirnCode firn_tree_iter(const FirnTree *tree, FirnSlice from, FirnSlice to, FirnIter **out);

/**
 * The next entry; `FIRN_CODE_NONE` behind the last one. Its bytes are good until the next call on
 * the iterator. `value` may be NULL.
 */
FirnCode firn_iter_next(FirnIter *iter, FirnSlice *key, FirnSlice *value);

/**
 * The next entry from the other end; where the two meet the iterator ends.
 */
FirnCode firn_iter_next_back(FirnIter *iter, FirnSlice *key, FirnSlice *value);

/**
 * Gives an iterator back.
 */
void firn_iter_free(FirnIter *iter);

/**
 * The store as it is now, for later reads.
 */
FirnCode firn_db_snapshot(const FirnDb *db, FirnSnapshot **out);

/**
 * The value that a key had; `FIRN_CODE_NONE` without one.
 */
FirnCode firn_snapshot_get(const FirnSnapshot *snapshot, const FirnTree *tree, FirnSlice key, FirnBytes *out);

/**
 * The keys that a tree had from `from` on, before `to`.
 */
FirnCode firn_snapshot_iter(const FirnSnapshot *snapshot, const FirnTree *tree, FirnSlice from, FirnSlice to, FirnIter **out);

/**
 * Gives a snapshot back; until then the store keeps what it shows.
 */
void firn_snapshot_free(FirnSnapshot *snapshot);

/**
 * Begins a transaction.
 */
FirnCode firn_db_transaction(const FirnDb *db, FirnTransaction **out);

/**
 * The value of a key in the transaction, its own writes included; `FIRN_CODE_NONE` without one.
 */
FirnCode firn_transaction_get(const FirnTransaction *transaction, const FirnTree *tree, FirnSlice key, FirnBytes *out);

/**
 * The keys of a tree in the transaction from `from` on, before `to`.
 */
FirnCode firn_transaction_iter(const FirnTransaction *transaction, const FirnTree *tree, FirnSlice from, FirnSlice to, FirnIter **out);

/**
 * Sets a key to a value, when it is committed.
 */
FirnCode firn_transaction_put(FirnTransaction *transaction, const FirnTree *tree, FirnSlice key, FirnSlice value);

/**
 * Deletes a key, when it is committed.
 */
FirnCode firn_transaction_delete(FirnTransaction *transaction, const FirnTree *tree, FirnSlice key);

/**
 * Deletes all keys of a tree from `from` on, before `to`, when it is committed.
 */
FirnCode firn_transaction_delete_range(FirnTransaction *transaction, const FirnTree *tree, FirnSlice from, FirnSlice to);

/**
 * Does all that the transaction wrote, or, with `FIRN_CODE_CONFLICT` or another failure, nothing.
 * The handle is gone in any case.
 */
FirnCode firn_transaction_commit(FirnTransaction *transaction);

/**
 * Gives a transaction up.
 */
void firn_transaction_free(FirnTransaction *transaction);

/**
 * Opens the store in the directory `path`, creating it where it is missing or empty. `options` may
 * be NULL.
 */
FirnCode firn_db_open(FirnSlice path, const FirnOptions *options, FirnDb **out);

/**
 * Opens an empty store in memory.
 */
FirnCode firn_db_open_memory(FirnDb **out);

/**
 * Closes the store and says what came of it: all that was written is safe when it gives
 * `FIRN_CODE_OK`. Handles are still to be freed; calls that need the store give
 * `FIRN_CODE_CLOSED`.
 */
FirnCode firn_db_close(const FirnDb *db);

/**
 * Gives a handle back. A store that was not closed is closed with the last handle of it or of
 * anything that was got from it.
 */
void firn_db_free(FirnDb *db);

/**
 * The tree of this name, made where it is not there.
 */
FirnCode firn_db_tree(const FirnDb *db, FirnSlice name, FirnTree **out);

/**
 * Names of the trees as a JSON array.
 */
FirnCode firn_db_tree_names(const FirnDb *db, FirnBytes *out);

/**
 * Drops a tree with all that it holds.
 */
FirnCode firn_db_drop_tree(const FirnDb *db, FirnSlice name);

/**
 * Does all that the batch says, or nothing. The batch is empty afterwards, also when it fails.
 */
FirnCode firn_db_write(const FirnDb *db, FirnBatch *batch, FirnDurability durability);

/**
 * Waits until all that was written is on the device.
 */
FirnCode firn_db_sync(const FirnDb *db);

/**
 * Statistics as JSON, as `firn stats --json` has them.
 */
FirnCode firn_db_stats(const FirnDb *db, FirnBytes *out);

/**
 * Gives a handle back; the tree stays.
 */
void firn_tree_free(FirnTree *tree);

/**
 * Sets a key to a value.
 */
FirnCode firn_tree_put(const FirnTree *tree, FirnSlice key, FirnSlice value, FirnDurability durability);

/**
 * Deletes a key, whether it is there or not.
 */
FirnCode firn_tree_delete(const FirnTree *tree, FirnSlice key, FirnDurability durability);

/**
 * Deletes all keys from `from` on, before `to`.
 */
FirnCode firn_tree_delete_range(const FirnTree *tree, FirnSlice from, FirnSlice to, FirnDurability durability);

/**
 * The value of a key; `FIRN_CODE_NONE` without one.
 */
FirnCode firn_tree_get(const FirnTree *tree, FirnSlice key, FirnBytes *out);

/**
 * Sets a key that has no value, as one step. `FIRN_CODE_NONE` when it has one, which stays.
 */
FirnCode firn_tree_insert_if_absent(const FirnTree *tree, FirnSlice key, FirnSlice value, FirnDurability durability);

/**
 * Sets a key that has the value `old` to `new`, as one step; nothing at all stands for no value.
 * `FIRN_CODE_NONE` when it has another one.
 */
FirnCode firn_tree_compare_and_swap(const FirnTree *tree, FirnSlice key, FirnSlice old, FirnSlice new_, FirnDurability durability);

/**
 * An empty batch.
 */
FirnCode firn_batch_new(FirnBatch **out);

/**
 * Gives a batch back.
 */
void firn_batch_free(FirnBatch *batch);

/**
 * Adds: set a key of a tree to a value.
 */
FirnCode firn_batch_put(FirnBatch *batch, const FirnTree *tree, FirnSlice key, FirnSlice value);

/**
 * Adds: delete a key of a tree.
 */
FirnCode firn_batch_delete(FirnBatch *batch, const FirnTree *tree, FirnSlice key);

/**
 * Adds: delete all keys of a tree from `from` on, before `to`.
 */
FirnCode firn_batch_delete_range(FirnBatch *batch, const FirnTree *tree, FirnSlice from, FirnSlice to);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FIRN_H */

/** The bytes of a text, without its end. NULL is nothing at all: an open end of a range, no value. */
static inline FirnSlice firn_str(const char *text) {
    FirnSlice slice = {(const uint8_t *)text, text ? strlen(text) : 0};
    return slice;
}

package firn

/*
#include <firn.h>
#cgo noescape firn_transaction_put
#cgo nocallback firn_transaction_put
*/
import "C"

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// Range selects keys and their order. The zero value selects all keys in ascending order.
type Range struct {
	Start   []byte // the first key; nil: unbounded. For keys after k, append a zero byte to k
	End     []byte // the end, which is excluded; nil: unbounded
	Prefix  []byte // keys with this prefix only
	Reverse bool   // from the last key to the first
	Limit   int    // maximum number of entries; 0: no maximum
}

// ends returns the first key and the end of the range.
func (r *Range) ends() (start, end []byte) {
	start, end = r.Start, r.End
	if len(r.Prefix) == 0 {
		return start, end
	}
	if string(start) < string(r.Prefix) {
		start = r.Prefix
	}
	// The end of the keys with the prefix: without trailing bytes 0xff, the last one increased.
	for last := len(r.Prefix) - 1; last >= 0; last-- {
		if r.Prefix[last] < 0xff {
			after := append([]byte(nil), r.Prefix[:last+1]...)
			after[last]++
			if end == nil || string(after) < string(end) {
				end = after
			}
			break
		}
	}
	return start, end
}

// Entries of the first fetch, later ones fetch twice as many; bytes after which a fetch ends.
const (
	firstEntries = 16
	maxEntries   = 1024
	maxBytes     = 64 << 10
)

// handle is a resource that a method releases, or the collector.
type handle[P comparable] struct {
	mutex sync.Mutex
	c     P
	free  func(P)
}

// newHandle returns a handle that is released when owner is collected.
func newHandle[O any, P comparable](owner *O, c P, free func(P)) *handle[P] {
	h := &handle[P]{c: c, free: free}
	runtime.AddCleanup(owner, func(h *handle[P]) { h.close() }, h)
	return h
}

// take returns the resource, which the caller must free, and whether it was not released before.
func (h *handle[P]) take() (c P, isOpen bool) {
	var none P
	h.mutex.Lock()
	defer h.mutex.Unlock()
	c, h.c = h.c, none
	return c, c != none
}

func (h *handle[P]) close() {
	if c, isOpen := h.take(); isOpen {
		h.free(c)
	}
}

// call runs a call with the resource; ErrClosed if it is released.
func (h *handle[P]) call(what string, work func(P) C.FirnCode) error {
	var none P
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.c == none {
		return closedError(what)
	}
	return call(func() C.FirnCode { return work(h.c) })
}

// Iter iterates over entries of a range, in the state of its creation. It fetches them in chunks of at
// most 1024 entries or 64 KiB, or one entry if that is longer.
//
//	it := tree.Iter(firn.Range{Prefix: []byte("a")})
//	for key, value := range it.All() {
//		…
//	}
//	if err := it.Err(); err != nil {
//		…
//	}
type Iter struct {
	handle  *handle[*C.FirnIter]
	reverse bool
	left    int
	fetch   int
	chunk   []byte
	key     []byte
	value   []byte
	err     error
}

func newIter(r Range, firstFetch int, open func(start, end C.FirnSlice, out **C.FirnIter) error) *Iter {
	it := &Iter{reverse: r.Reverse, left: r.Limit, fetch: firstFetch}
	if it.left <= 0 {
		it.left = int(^uint(0) >> 1)
	}
	start, end := r.ends()
	if end != nil && string(start) >= string(end) {
		it.left = 0
		return it
	}
	var c *C.FirnIter
	if it.err = open(borrow(start), borrow(end), &c); it.err == nil {
		it.handle = newHandle(it, c, func(c *C.FirnIter) { C.firn_iter_free(c) })
	}
	return it
}

// Next advances to the next entry, initially to the first one. It returns false at the end and after
// an error, and releases the iterator then.
func (it *Iter) Next() bool {
	if len(it.chunk) == 0 && !it.fill() {
		it.Close()
		return false
	}
	key := 8 + binary.LittleEndian.Uint32(it.chunk)
	value := key + binary.LittleEndian.Uint32(it.chunk[4:])
	it.key, it.value = it.chunk[8:key:key], it.chunk[key:value:value]
	it.chunk = it.chunk[value:]
	it.left--
	return true
}

// fill fetches the next entries.
func (it *Iter) fill() bool {
	if it.left == 0 || it.err != nil || it.handle == nil {
		return false
	}
	var code C.FirnCode
	it.err = it.handle.call("iterator", func(c *C.FirnIter) C.FirnCode {
		var entries C.FirnSlice
		code = C.firn_iter_next_many(c, C.bool(it.reverse), C.size_t(min(it.fetch, it.left)), maxBytes, &entries)
		if code == C.FIRN_CODE_OK {
			it.chunk = goBytes(entries.data, entries.len)
		}
		return code
	})
	it.fetch = min(it.fetch*2, maxEntries)
	return it.err == nil && code == C.FIRN_CODE_OK
}

// Key returns the key of the entry. It may be retained; it shares the memory of a chunk.
func (it *Iter) Key() []byte { return it.key }

// Value returns the value of the entry. It may be retained; it shares the memory of a chunk.
func (it *Iter) Value() []byte { return it.value }

// Err returns the error that has ended the iteration.
func (it *Iter) Err() error { return it.err }

// Close releases the iterator. It returns the error of Err.
func (it *Iter) Close() error {
	if it.handle != nil {
		it.handle.close()
	}
	it.chunk, it.key, it.value, it.left = nil, nil, nil, 0
	return it.err
}

// All returns the further entries for a range loop, and releases the iterator after it. Check Err
// after the loop.
func (it *Iter) All() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		defer it.Close()
		for it.Next() {
			if !yield(it.key, it.value) {
				return
			}
		}
	}
}

// Iter iterates over entries of the tree.
func (t *Tree) Iter(r Range) *Iter {
	defer runtime.KeepAlive(t)
	return newIter(r, firstEntries, func(start, end C.FirnSlice, out **C.FirnIter) error {
		return call(func() C.FirnCode { return C.firn_tree_iter(t.c, start, end, out) })
	})
}

// Reader is what Snapshot and Tx have in common.
type Reader interface {
	Get(t *Tree, key []byte) ([]byte, error)
	Iter(t *Tree, r Range) *Iter
}

// Snapshot is the state of a store at one moment. Until it is closed, the store retains that data.
type Snapshot struct {
	handle *handle[*C.FirnSnapshot]
}

// Snapshot takes a snapshot of all trees.
func (db *DB) Snapshot() (*Snapshot, error) {
	defer runtime.KeepAlive(db)
	var c *C.FirnSnapshot
	if err := call(func() C.FirnCode { return C.firn_db_snapshot(db.c, &c) }); err != nil {
		return nil, err
	}
	s := &Snapshot{}
	s.handle = newHandle(s, c, func(c *C.FirnSnapshot) { C.firn_snapshot_free(c) })
	return s, nil
}

// Get returns the value of a key in the snapshot; ErrNotFound if it has none.
func (s *Snapshot) Get(t *Tree, key []byte) ([]byte, error) {
	return getIn(s.handle, "snapshot", t, func(c *C.FirnSnapshot, out *C.FirnBytes) C.FirnCode {
		return C.firn_snapshot_get(c, t.c, borrow(key), out)
	})
}

// Iter iterates over entries of a tree in the snapshot.
func (s *Snapshot) Iter(t *Tree, r Range) *Iter {
	defer runtime.KeepAlive(t)
	return newIter(r, firstEntries, func(start, end C.FirnSlice, out **C.FirnIter) error {
		return s.handle.call("snapshot", func(c *C.FirnSnapshot) C.FirnCode {
			return C.firn_snapshot_iter(c, t.c, start, end, out)
		})
	})
}

// Close releases the snapshot.
func (s *Snapshot) Close() error {
	s.handle.close()
	return nil
}

func getIn[P comparable](h *handle[P], what string, t *Tree, work func(P, *C.FirnBytes) C.FirnCode) ([]byte, error) {
	defer runtime.KeepAlive(t)
	var code C.FirnCode
	var out C.FirnBytes
	err := h.call(what, func(c P) C.FirnCode {
		code = work(c, &out)
		return code
	})
	if err != nil {
		return nil, err
	}
	if code == C.FIRN_CODE_NONE {
		return nil, ErrNotFound
	}
	return take(out), nil
}

// Tx is a transaction: its writes happen at the commit, atomically, and only if the data that it has
// read is unchanged.
type Tx struct {
	handle *handle[*C.FirnTransaction]
}

// Begin begins a transaction. Transact is simpler: it runs a function again after a conflict.
func (db *DB) Begin() (*Tx, error) {
	defer runtime.KeepAlive(db)
	var c *C.FirnTransaction
	err := call(func() C.FirnCode {
		if code := C.firn_db_transaction(db.c, &c); code != C.FIRN_CODE_OK || db.durability == Default {
			return code
		}
		return C.firn_transaction_set_durability(c, C.FirnDurability(db.durability))
	})
	tx := &Tx{}
	tx.handle = newHandle(tx, c, func(c *C.FirnTransaction) { C.firn_transaction_free(c) })
	return tx, err
}

// Attempts of Transact, and the bounds of its random pauses.
const (
	attempts     = 32
	firstPause   = 50 * time.Microsecond
	longestPause = 10 * time.Millisecond
)

// Transact runs work in a transaction and commits it. After a conflict it runs work again in a new
// transaction, at most 32 times, with short pauses, and returns ErrConflict then. It ends early with
// the error of ctx. If work returns an error, nothing is written, and Transact returns that error.
func (db *DB) Transact(ctx context.Context, work func(*Tx) error) error {
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := db.try(work)
		if !errors.Is(err, ErrConflict) || attempt == attempts {
			return err
		}
		pause := min(firstPause<<min(attempt-1, 20), longestPause)
		select {
		case <-ctx.Done():
		case <-time.After(rand.N(pause)):
		}
	}
}

func (db *DB) try(work func(*Tx) error) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	// Also if work panics.
	defer tx.Rollback()
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (tx *Tx) call(t *Tree, work func(*C.FirnTransaction) C.FirnCode) error {
	defer runtime.KeepAlive(t)
	return tx.handle.call("transaction", work)
}

// Get returns the value of a key, with the writes of the transaction; ErrNotFound if it has none.
func (tx *Tx) Get(t *Tree, key []byte) ([]byte, error) {
	return getIn(tx.handle, "transaction", t, func(c *C.FirnTransaction, out *C.FirnBytes) C.FirnCode {
		return C.firn_transaction_get(c, t.c, borrow(key), out)
	})
}

// Iter iterates over entries of a tree, with the writes of the transaction. It fetches some entries in
// advance, and they count as read.
func (tx *Tx) Iter(t *Tree, r Range) *Iter {
	return newIter(r, 1, func(start, end C.FirnSlice, out **C.FirnIter) error {
		return tx.call(t, func(c *C.FirnTransaction) C.FirnCode {
			return C.firn_transaction_iter(c, t.c, start, end, out)
		})
	})
}

// Put sets a key to a value at the commit.
func (tx *Tx) Put(t *Tree, key, value []byte) error {
	return tx.call(t, func(c *C.FirnTransaction) C.FirnCode {
		return C.firn_transaction_put(c, t.c, borrow(key), borrow(value))
	})
}

// Delete deletes a key at the commit.
func (tx *Tx) Delete(t *Tree, key []byte) error {
	return tx.call(t, func(c *C.FirnTransaction) C.FirnCode { return C.firn_transaction_delete(c, t.c, borrow(key)) })
}

// DeleteRange deletes all keys from start on, before end, at the commit. A nil start or end is
// unbounded.
func (tx *Tx) DeleteRange(t *Tree, start, end []byte) error {
	return tx.call(t, func(c *C.FirnTransaction) C.FirnCode {
		return C.firn_transaction_delete_range(c, t.c, borrow(start), borrow(end))
	})
}

// Lock locks a key until the transaction ends: other transactions that lock it wait. It returns
// ErrLocked after the wait, and ErrConflict for a deadlock or if the key has changed since the first
// read. Transact runs the function again after ErrConflict.
func (tx *Tx) Lock(t *Tree, key []byte, wait time.Duration) error {
	micros := C.uint64_t(max(wait.Microseconds(), 0))
	return tx.call(t, func(c *C.FirnTransaction) C.FirnCode {
		return C.firn_transaction_lock(c, t.c, borrow(key), micros)
	})
}

// Savepoint is the pending writes of a transaction at one moment.
type Savepoint struct {
	c *C.FirnSavepoint
}

// Savepoint returns the pending writes.
func (tx *Tx) Savepoint() (*Savepoint, error) {
	s := &Savepoint{}
	err := tx.call(nil, func(c *C.FirnTransaction) C.FirnCode { return C.firn_transaction_savepoint(c, &s.c) })
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(s, func(c *C.FirnSavepoint) { C.firn_savepoint_free(c) }, s.c)
	return s, nil
}

// RollbackTo replaces the pending writes with those at a savepoint of this transaction, which stays
// usable.
func (tx *Tx) RollbackTo(s *Savepoint) error {
	defer runtime.KeepAlive(s)
	return tx.call(nil, func(c *C.FirnTransaction) C.FirnCode { return C.firn_transaction_rollback_to(c, s.c) })
}

// Commit executes all writes, or none after an error. The transaction is over in any case.
func (tx *Tx) Commit() error {
	c, isOpen := tx.handle.take()
	if !isOpen {
		return closedError("transaction")
	}
	return call(func() C.FirnCode { return C.firn_transaction_commit(c) })
}

// Rollback ends the transaction without its writes. It does nothing after Commit.
func (tx *Tx) Rollback() { tx.handle.close() }

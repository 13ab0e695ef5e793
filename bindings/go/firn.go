package firn

/*
#include <firn.h>
#cgo noescape firn_tree_put
#cgo nocallback firn_tree_put
#cgo noescape firn_tree_delete
#cgo nocallback firn_tree_delete
#cgo noescape firn_tree_get_into
#cgo nocallback firn_tree_get_into
#cgo noescape firn_batch_put
#cgo nocallback firn_batch_put
*/
import "C"

import (
	"encoding/binary"
	"encoding/json"
	"runtime"
	"sync"
	"unsafe"
)

// Durability says what a write survives after its call has returned.
type Durability uint32

const (
	Default Durability = C.FIRN_DURABILITY_DEFAULT // the durability of the store
	Process Durability = C.FIRN_DURABILITY_PROCESS // the operating system has it: it survives a crash of the process
	Power   Durability = C.FIRN_DURABILITY_POWER   // the device has it: it survives a power cut
)

// Options of a store. The zero value has the defaults.
type Options struct {
	MemoryBudget      int64      // memory for memtables and block cache in bytes; 0: 256 MiB
	BackgroundThreads int        // threads that flush and compact; 0: two; -1: none, writing calls do that work
	Durability        Durability // default durability of writes; Default: Process
	ReadOnly          bool       // open for reading; others may have the store open
	MustExist         bool       // do not create a missing store
}

func (o *Options) c() *C.FirnOptions {
	if o == nil {
		return nil
	}
	flag := func(b bool) C.int32_t {
		if b {
			return 1
		}
		return 0
	}
	return &C.FirnOptions{
		memory_budget:      C.uint64_t(max(o.MemoryBudget, 0)),
		background_threads: C.int32_t(min(max(o.BackgroundThreads, -1), 1<<20)),
		durability:         C.FirnDurability(o.Durability),
		read_only:          flag(o.ReadOnly),
		must_exist:         flag(o.MustExist),
	}
}

// borrow lends bytes to a call. Nil bytes are an unbounded end of a range, or no value.
func borrow(b []byte) C.FirnSlice {
	return C.FirnSlice{data: (*C.uint8_t)(unsafe.SliceData(b)), len: C.size_t(len(b))}
}

func borrowText(s string) C.FirnSlice {
	return C.FirnSlice{data: (*C.uint8_t)(unsafe.StringData(s)), len: C.size_t(len(s))}
}

// take copies bytes of the library and frees them.
func take(bytes C.FirnBytes) []byte {
	copied := goBytes(bytes.data, bytes.len)
	C.firn_bytes_free(bytes)
	return copied
}

func goBytes(data *C.uint8_t, length C.size_t) []byte {
	copied := make([]byte, length)
	copy(copied, unsafe.Slice((*byte)(data), length))
	return copied
}

// call runs a call of the library and returns its error. The goroutine stays on its thread, which
// has the message of the error.
func call(work func() C.FirnCode) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return failure(work())
}

// DB is a store: trees of bytes in a directory, or in memory.
type DB struct {
	c          *C.FirnDb
	durability Durability
	// The DB whose collection frees the handle, for DBs of With.
	owner *DB
}

// Open opens the store in a directory; it creates a missing one. opts may be nil.
func Open(path string, opts *Options) (*DB, error) {
	return openDB(func(c **C.FirnDb) C.FirnCode { return C.firn_db_open(borrowText(path), opts.c(), c) })
}

// OpenMemory opens an empty store in memory.
func OpenMemory() (*DB, error) {
	return openDB(func(c **C.FirnDb) C.FirnCode { return C.firn_db_open_memory(c) })
}

func openDB(open func(**C.FirnDb) C.FirnCode) (*DB, error) {
	db := &DB{}
	if err := call(func() C.FirnCode { return open(&db.c) }); err != nil {
		return nil, err
	}
	runtime.AddCleanup(db, func(c *C.FirnDb) { C.firn_db_free(c) }, db.c)
	return db, nil
}

// With returns the store with this durability for its writes.
func (db *DB) With(d Durability) *DB {
	return &DB{db.c, d, db}
}

// Close closes the store: all writes are durable afterwards. Calls that need the store return
// ErrClosed from now on.
func (db *DB) Close() error {
	defer runtime.KeepAlive(db)
	return call(func() C.FirnCode { return C.firn_db_close(db.c) })
}

// Tree opens the tree of this name; it creates a missing one.
func (db *DB) Tree(name string) (*Tree, error) { return db.TreeWith(name, "") }

// TreeWith opens the tree of this name with options; it creates a missing one. The options are words
// such as "policy=lazy-leveled:4 memtable_size=16m", those of the command `firn set-options`. Others
// do not change.
func (db *DB) TreeWith(name, options string) (*Tree, error) {
	defer runtime.KeepAlive(db)
	tree := &Tree{name: name, durability: db.durability}
	err := call(func() C.FirnCode {
		if options == "" {
			return C.firn_db_tree(db.c, borrowText(name), &tree.c)
		}
		return C.firn_db_tree_with(db.c, borrowText(name), borrowText(options), nil, &tree.c)
	})
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(tree, func(c *C.FirnTree) { C.firn_tree_free(c) }, tree.c)
	return tree, nil
}

// TreeNames returns the names of the trees.
func (db *DB) TreeNames() ([]string, error) {
	var names []string
	err := db.json(func(out *C.FirnBytes) C.FirnCode { return C.firn_db_tree_names(db.c, out) }, &names)
	return names, err
}

// Stats returns the statistics, as the command `firn stats --json` prints them.
func (db *DB) Stats() (map[string]any, error) {
	var stats map[string]any
	err := db.json(func(out *C.FirnBytes) C.FirnCode { return C.firn_db_stats(db.c, out) }, &stats)
	return stats, err
}

func (db *DB) json(work func(*C.FirnBytes) C.FirnCode, into any) error {
	defer runtime.KeepAlive(db)
	var out C.FirnBytes
	if err := call(func() C.FirnCode { return work(&out) }); err != nil {
		return err
	}
	return json.Unmarshal(take(out), into)
}

// DropTree drops a tree with its contents.
func (db *DB) DropTree(name string) error {
	defer runtime.KeepAlive(db)
	return call(func() C.FirnCode { return C.firn_db_drop_tree(db.c, borrowText(name)) })
}

// Sync waits until all earlier writes are on the device.
func (db *DB) Sync() error {
	defer runtime.KeepAlive(db)
	return call(func() C.FirnCode { return C.firn_db_sync(db.c) })
}

// WaitIdle waits until no flush and no compaction is due.
func (db *DB) WaitIdle() error {
	defer runtime.KeepAlive(db)
	return call(func() C.FirnCode { return C.firn_db_wait_idle(db.c) })
}

// Checkpoint copies the store into a directory that is missing or empty, on the same file system:
// tables are linked, not copied. Writers continue meanwhile.
func (db *DB) Checkpoint(path string) error {
	defer runtime.KeepAlive(db)
	return call(func() C.FirnCode { return C.firn_db_checkpoint(db.c, borrowText(path)) })
}

// Write executes a batch atomically. The batch is empty afterwards, also after an error.
func (db *DB) Write(batch *Batch) error {
	defer runtime.KeepAlive(db)
	defer runtime.KeepAlive(batch)
	batch.len = 0
	return call(func() C.FirnCode { return C.firn_db_write(db.c, batch.c, C.FirnDurability(db.durability)) })
}

// Tree is an ordered map from bytes to bytes in a store.
type Tree struct {
	c          *C.FirnTree
	name       string
	durability Durability
	// The Tree whose collection frees the handle, for Trees of With.
	owner *Tree
}

// Name returns the name of the tree.
func (t *Tree) Name() string { return t.name }

// With returns the tree with this durability for its writes.
func (t *Tree) With(d Durability) *Tree {
	return &Tree{t.c, t.name, d, t}
}

// Sizes of the buffers for values: the first try, and the largest one that is retained.
const (
	firstValue = 1 << 10
	keptValue  = 64 << 10
)

var values = sync.Pool{New: func() any { b := make([]byte, firstValue); return &b }}

// Get returns the value of a key; ErrNotFound if it has none.
func (t *Tree) Get(key []byte) ([]byte, error) {
	buffer := values.Get().(*[]byte)
	value, err := t.get(key, buffer)
	if err == nil {
		value = append(make([]byte, 0, len(value)), value...)
	}
	if cap(*buffer) <= keptValue {
		values.Put(buffer)
	}
	return value, err
}

// Append appends the value of a key to dst, without an allocation if dst has room. It returns dst and
// ErrNotFound if the key has no value.
func (t *Tree) Append(dst, key []byte) ([]byte, error) {
	free := dst[len(dst):cap(dst)]
	value, err := t.get(key, &free)
	switch {
	case err != nil:
		return dst, err
	case cap(dst)-len(dst) >= len(value):
		return dst[:len(dst)+len(value)], nil
	default:
		return append(dst, value...), nil
	}
}

// get reads a value into a buffer, which it replaces by a larger one if necessary.
func (t *Tree) get(key []byte, buffer *[]byte) ([]byte, error) {
	for {
		var length C.size_t
		b := *buffer
		runtime.LockOSThread()
		code := C.firn_tree_get_into(t.c, borrow(key), (*C.uint8_t)(unsafe.SliceData(b)), C.size_t(len(b)), &length)
		var err error
		if code != C.FIRN_CODE_OK {
			err = failure(code)
		}
		runtime.UnlockOSThread()
		runtime.KeepAlive(t)
		if code == C.FIRN_CODE_NONE {
			return nil, ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		if int(length) <= len(b) {
			return b[:length], nil
		}
		// Another value may be longer at the next try.
		*buffer = make([]byte, length)
	}
}

// Has reports whether a key has a value.
func (t *Tree) Has(key []byte) (bool, error) {
	defer runtime.KeepAlive(t)
	var length C.size_t
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	code := C.firn_tree_get_into(t.c, borrow(key), nil, 0, &length)
	return code == C.FIRN_CODE_OK, failure(code)
}

// GetMany returns the values of keys with one call, in their order; nil for a key without a value.
// The values share memory.
func (t *Tree) GetMany(keys [][]byte) ([][]byte, error) {
	defer runtime.KeepAlive(t)
	size := 0
	for _, key := range keys {
		size += 4 + len(key)
	}
	packed := make([]byte, 0, size)
	for _, key := range keys {
		packed = appendBytes(packed, key)
	}
	var out C.FirnBytes
	if err := call(func() C.FirnCode { return C.firn_tree_get_many(t.c, borrow(packed), &out) }); err != nil {
		return nil, err
	}
	found := take(out)
	values := make([][]byte, 0, len(keys))
	for len(found) > 0 {
		length := binary.LittleEndian.Uint32(found)
		found = found[4:]
		if length == 1<<32-1 {
			values = append(values, nil)
			continue
		}
		values = append(values, found[:length:length])
		found = found[length:]
	}
	return values, nil
}

// Put sets a key to a value.
func (t *Tree) Put(key, value []byte) error {
	runtime.LockOSThread()
	err := failure(C.firn_tree_put(t.c, borrow(key), borrow(value), C.FirnDurability(t.durability)))
	runtime.UnlockOSThread()
	runtime.KeepAlive(t)
	return err
}

// Delete deletes a key, whether it has a value or not.
func (t *Tree) Delete(key []byte) error {
	runtime.LockOSThread()
	err := failure(C.firn_tree_delete(t.c, borrow(key), C.FirnDurability(t.durability)))
	runtime.UnlockOSThread()
	runtime.KeepAlive(t)
	return err
}

// DeleteRange deletes all keys from start on, before end, with one operation. A nil start or end is
// unbounded.
func (t *Tree) DeleteRange(start, end []byte) error {
	defer runtime.KeepAlive(t)
	return call(func() C.FirnCode {
		return C.firn_tree_delete_range(t.c, borrow(start), borrow(end), C.FirnDurability(t.durability))
	})
}

// InsertIfAbsent sets a key without a value atomically. It reports whether the key had none.
func (t *Tree) InsertIfAbsent(key, value []byte) (bool, error) {
	return t.conditional(func() C.FirnCode {
		return C.firn_tree_insert_if_absent(t.c, borrow(key), borrow(value), C.FirnDurability(t.durability))
	})
}

// CompareAndSwap sets a key with the value before to after atomically; nil means no value. It reports
// whether the key had the value before.
func (t *Tree) CompareAndSwap(key, before, after []byte) (bool, error) {
	return t.conditional(func() C.FirnCode {
		return C.firn_tree_compare_and_swap(t.c, borrow(key), borrow(before), borrow(after), C.FirnDurability(t.durability))
	})
}

func (t *Tree) conditional(work func() C.FirnCode) (bool, error) {
	defer runtime.KeepAlive(t)
	var code C.FirnCode
	err := call(func() C.FirnCode {
		code = work()
		return code
	})
	return code == C.FIRN_CODE_OK, err
}

// Flush flushes the memtable.
func (t *Tree) Flush() error {
	defer runtime.KeepAlive(t)
	return call(func() C.FirnCode { return C.firn_tree_flush(t.c) })
}

// Compact compacts the memtable, and all tables with keys from start on, before end, into one run.
func (t *Tree) Compact(start, end []byte) error {
	defer runtime.KeepAlive(t)
	return call(func() C.FirnCode { return C.firn_tree_compact(t.c, borrow(start), borrow(end)) })
}

// Batch collects writes to trees of a store, which DB.Write executes atomically.
type Batch struct {
	c   *C.FirnBatch
	len int
}

// NewBatch returns an empty batch.
func NewBatch() *Batch {
	batch := &Batch{}
	C.firn_batch_new(&batch.c)
	runtime.AddCleanup(batch, func(c *C.FirnBatch) { C.firn_batch_free(c) }, batch.c)
	return batch
}

// Len returns the number of operations.
func (b *Batch) Len() int { return b.len }

// Put adds a put of a key.
func (b *Batch) Put(t *Tree, key, value []byte) error {
	runtime.LockOSThread()
	err := failure(C.firn_batch_put(b.c, t.c, borrow(key), borrow(value)))
	runtime.UnlockOSThread()
	return b.added(t, err)
}

// Delete adds a deletion of a key.
func (b *Batch) Delete(t *Tree, key []byte) error {
	return b.added(t, call(func() C.FirnCode { return C.firn_batch_delete(b.c, t.c, borrow(key)) }))
}

// DeleteRange adds a deletion of all keys from start on, before end. A nil start or end is unbounded.
func (b *Batch) DeleteRange(t *Tree, start, end []byte) error {
	return b.added(t, call(func() C.FirnCode { return C.firn_batch_delete_range(b.c, t.c, borrow(start), borrow(end)) }))
}

func (b *Batch) added(t *Tree, err error) error {
	runtime.KeepAlive(b)
	runtime.KeepAlive(t)
	if err == nil {
		b.len++
	}
	return err
}

// Version returns the version of the library.
func Version() string { return C.GoString(C.firn_version()) }

func appendBytes(packed, b []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(packed, uint32(len(b))), b...)
}

// Pebble behind a C interface, for the driver in src/engines/pebble.rs.
//
// Keys and values of a call are in the caller's memory, and are not used after the call. Results are
// copied into the caller's buffer, because C must not keep pointers to Go memory.
package main

/*
#include <stdint.h>
#include <stdlib.h>
*/
import "C"

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime/cgo"
	"unsafe"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
)

func bytesOf(start *C.char, length C.size_t) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(start)), int(length))
}

func storeOf(store C.uintptr_t) *pebble.DB {
	return cgo.Handle(store).Value().(*pebble.DB)
}

// said returns nil without an error, or the text of the error, which the caller frees.
func said(err error) *C.char {
	if err == nil {
		return nil
	}
	return C.CString(err.Error())
}

func durability(sync C.int) *pebble.WriteOptions {
	if sync != 0 {
		return pebble.Sync
	}
	return pebble.NoSync
}

// quiet is a logger that prints only fatal messages.
type quiet struct{}

func (quiet) Infof(string, ...interface{})  {}
func (quiet) Errorf(string, ...interface{}) {}
func (quiet) Fatalf(format string, args ...interface{}) {
	pebble.DefaultLogger.Fatalf(format, args...)
}

//export firn_pebble_open
func firn_pebble_open(dir *C.char, memtable, cache C.uint64_t, compactions, compress C.int, store *C.uintptr_t) *C.char {
	blocks := pebble.NewCache(int64(cache))
	defer blocks.Unref()
	options := &pebble.Options{
		Cache:                      blocks,
		MemTableSize:               uint64(memtable),
		FormatMajorVersion:         pebble.FormatNewest,
		CompactionConcurrencyRange: func() (int, int) { return 1, int(compactions) },
		Logger:                     quiet{},
	}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		if compress == 0 {
			options.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
		}
	}
	db, err := pebble.Open(C.GoString(dir), options)
	if err != nil {
		return said(err)
	}
	*store = C.uintptr_t(cgo.NewHandle(db))
	return nil
}

//export firn_pebble_close
func firn_pebble_close(store C.uintptr_t) *C.char {
	err := storeOf(store).Close()
	cgo.Handle(store).Delete()
	return said(err)
}

//export firn_pebble_put
func firn_pebble_put(store C.uintptr_t, key *C.char, keyLen C.size_t, value *C.char, valueLen C.size_t, sync C.int) *C.char {
	return said(storeOf(store).Set(bytesOf(key, keyLen), bytesOf(value, valueLen), durability(sync)))
}

//export firn_pebble_delete
func firn_pebble_delete(store C.uintptr_t, key *C.char, keyLen C.size_t) *C.char {
	return said(storeOf(store).Delete(bytesOf(key, keyLen), pebble.NoSync))
}

// An entry in a buffer is the length of its key and that of its value, of four bytes each,
// little-endian, then both.
const header = 8

//export firn_pebble_write
func firn_pebble_write(store C.uintptr_t, entries *C.char, length C.size_t) *C.char {
	db, left := storeOf(store), bytesOf(entries, length)
	batch := db.NewBatch()
	defer batch.Close()
	for len(left) > 0 {
		key := header + int(binary.LittleEndian.Uint32(left))
		value := key + int(binary.LittleEndian.Uint32(left[4:]))
		if err := batch.Set(left[header:key], left[key:value], nil); err != nil {
			return said(err)
		}
		left = left[value:]
	}
	return said(batch.Commit(pebble.NoSync))
}

// Returns the length of the value, or -1 without a value. A value longer than the buffer is not
// copied.
//
//export firn_pebble_get
func firn_pebble_get(store C.uintptr_t, key *C.char, keyLen C.size_t, buffer *C.char, room C.size_t, length *C.int64_t) *C.char {
	value, closer, err := storeOf(store).Get(bytesOf(key, keyLen))
	if errors.Is(err, pebble.ErrNotFound) {
		*length = -1
		return nil
	}
	if err != nil {
		return said(err)
	}
	*length = C.int64_t(len(value))
	if len(value) <= int(room) {
		copy(bytesOf(buffer, room), value)
	}
	return said(closer.Close())
}

//export firn_pebble_scan
func firn_pebble_scan(store C.uintptr_t, from *C.char, fromLen C.size_t, reverse C.int, scan *C.uintptr_t) *C.char {
	iter, err := storeOf(store).NewIter(nil)
	if err != nil {
		return said(err)
	}
	switch {
	case from == nil && reverse == 0:
		iter.First()
	case from == nil:
		iter.Last()
	case reverse == 0:
		iter.SeekGE(bytesOf(from, fromLen))
	default:
		// The next possible key is this key with a zero byte appended.
		next := append(append([]byte{}, bytesOf(from, fromLen)...), 0)
		iter.SeekLT(next)
	}
	*scan = C.uintptr_t(cgo.NewHandle(iter))
	return nil
}

// Fills the buffer with up to `limit` entries. Returns their size in bytes: 0 at the end of the scan.
// If an entry does not fit into an empty buffer, returns the negated size that it needs.
//
//export firn_pebble_walk
func firn_pebble_walk(scan C.uintptr_t, limit C.uint64_t, reverse C.int, buffer *C.char, room C.size_t, length *C.int64_t) *C.char {
	iter, out := cgo.Handle(scan).Value().(*pebble.Iterator), bytesOf(buffer, room)
	used := 0
	for ; limit > 0 && iter.Valid(); limit-- {
		value, err := iter.ValueAndErr()
		if err != nil {
			return said(err)
		}
		key := iter.Key()
		needed := header + len(key) + len(value)
		if used+needed > len(out) {
			if used == 0 {
				used = -needed
			}
			break
		}
		binary.LittleEndian.PutUint32(out[used:], uint32(len(key)))
		binary.LittleEndian.PutUint32(out[used+4:], uint32(len(value)))
		copy(out[used+header:], key)
		copy(out[used+header+len(key):], value)
		used += needed
		if reverse == 0 {
			iter.Next()
		} else {
			iter.Prev()
		}
	}
	*length = C.int64_t(used)
	return said(iter.Error())
}

//export firn_pebble_scan_close
func firn_pebble_scan_close(scan C.uintptr_t) *C.char {
	err := cgo.Handle(scan).Value().(*pebble.Iterator).Close()
	cgo.Handle(scan).Delete()
	return said(err)
}

//export firn_pebble_flush
func firn_pebble_flush(store C.uintptr_t) *C.char {
	return said(storeOf(store).Flush())
}

//export firn_pebble_compact
func firn_pebble_compact(store C.uintptr_t) *C.char {
	db := storeOf(store)
	if err := db.Flush(); err != nil {
		return said(err)
	}
	// Greater than every key of the workloads: a number of eight bytes, then zeros or one more byte.
	end := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	return said(db.Compact(context.Background(), nil, end, true))
}

func main() {}

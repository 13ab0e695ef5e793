package firn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	firn "example.org/firn/bindings/go"
)

func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refused(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%v instead of %v", err, want)
	}
}

func equal[T comparable](t testing.TB, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%v instead of %v", got, want)
	}
}

// memory returns a store in memory, and a tree with these keys, whose values are the keys.
func memory(t testing.TB, keys ...string) (*firn.DB, *firn.Tree) {
	t.Helper()
	db := must(firn.OpenMemory())(t)
	tree := must(db.Tree("t"))(t)
	for _, key := range keys {
		check(t, tree.Put([]byte(key), []byte(key)))
	}
	return db, tree
}

func read(t testing.TB, it *firn.Iter) string {
	t.Helper()
	var keys []string
	for key, value := range it.All() {
		if !bytes.Equal(key, value) {
			t.Fatalf("%s has %s", key, value)
		}
		keys = append(keys, string(key))
	}
	check(t, it.Err())
	return strings.Join(keys, " ")
}

func TestStoreKeepsItsEntries(t *testing.T) {
	path := t.TempDir() + "/store"
	db := must(firn.Open(path, &firn.Options{MemoryBudget: 16 << 20, BackgroundThreads: 1, Durability: firn.Power}))(t)
	tree := must(db.TreeWith("fruit", "memtable_size=4m"))(t)
	equal(t, tree.Name(), "fruit")
	check(t, tree.Put([]byte("apple"), []byte("red")))
	check(t, tree.With(firn.Process).Put([]byte{}, nil))
	equal(t, string(must(tree.Get([]byte("apple")))(t)), "red")
	equal(t, len(must(tree.Get(nil))(t)), 0)
	_, err := tree.Get([]byte("plum"))
	refused(t, err, firn.ErrNotFound)
	equal(t, must(tree.Has([]byte("apple")))(t), true)
	equal(t, must(tree.Has([]byte("plum")))(t), false)
	check(t, tree.Delete(nil))
	equal(t, fmt.Sprint(must(db.TreeNames())(t)), "[fruit]")
	if len(must(db.Stats())(t)) == 0 {
		t.Fatal("no statistics")
	}
	check(t, db.Sync())
	check(t, tree.Flush())
	check(t, tree.Compact(nil, nil))
	check(t, db.WaitIdle())
	check(t, db.Checkpoint(path+"-copy"))
	_, err = firn.Open(path, nil)
	refused(t, err, firn.ErrLocked)
	check(t, db.Close())
	refused(t, tree.Put(nil, nil), firn.ErrClosed)
	_, err = tree.Get(nil)
	refused(t, err, firn.ErrClosed)

	for _, path := range []string{path, path + "-copy"} {
		db = must(firn.Open(path, &firn.Options{ReadOnly: true, MustExist: true}))(t)
		tree = must(db.Tree("fruit"))(t)
		equal(t, string(must(tree.Get([]byte("apple")))(t)), "red")
		refused(t, tree.Put(nil, nil), firn.ErrReadOnly)
		check(t, db.Close())
	}
	_, err = firn.Open(path+"-missing", &firn.Options{MustExist: true})
	refused(t, err, firn.ErrStoreNotFound)
	_, err = must(firn.OpenMemory())(t).TreeWith("t", "no_such_option=1")
	refused(t, err, firn.ErrInvalidArgument)
	if !strings.Contains(err.Error(), "no_such_option") {
		t.Fatal(err)
	}
}

func TestValuesOfEachLength(t *testing.T) {
	_, tree := memory(t)
	var dst []byte
	for _, length := range []int{0, 1, 1023, 1024, 1025, 65536, 65537, 300000} {
		key, value := []byte(fmt.Sprint(length)), bytes.Repeat([]byte{byte(length)}, length)
		check(t, tree.Put(key, value))
		if !bytes.Equal(must(tree.Get(key))(t), value) {
			t.Fatal(length)
		}
		dst = must(tree.Append(dst[:0], key))(t)
		if !bytes.Equal(dst, value) {
			t.Fatal(length)
		}
		dst = must(tree.Append([]byte("before"), key))(t)
		if string(dst[:6]) != "before" || !bytes.Equal(dst[6:], value) {
			t.Fatal(length)
		}
	}
	dst, err := tree.Append([]byte("x"), []byte("missing"))
	refused(t, err, firn.ErrNotFound)
	equal(t, string(dst), "x")
	values := must(tree.GetMany([][]byte{[]byte("1"), []byte("missing"), []byte("0"), []byte("1024")}))(t)
	equal(t, len(values), 4)
	if len(values[0]) != 1 || values[1] != nil || values[2] == nil || len(values[3]) != 1024 {
		t.Fatal(values)
	}
	equal(t, len(must(tree.GetMany(nil))(t)), 0)
	allocations := testing.AllocsPerRun(100, func() {
		dst = must(tree.Append(dst[:0], []byte("1024")))(t)
	})
	if allocations > 1 {
		t.Fatalf("%v allocations", allocations)
	}
}

func TestRanges(t *testing.T) {
	db, tree := memory(t, "a", "b", "ba", "bb", "c", "d")
	bytes := func(text string) []byte {
		if text == "" {
			return nil
		}
		return []byte(text)
	}
	snapshot := must(db.Snapshot())(t)
	tx := must(db.Begin())(t)
	defer tx.Rollback()
	for _, of := range []struct {
		start, end, prefix string
		reverse            bool
		limit              int
		want               string
	}{
		{want: "a b ba bb c d"},
		{start: "b", end: "c", want: "b ba bb"},
		{start: "b\x00", want: "ba bb c d"},
		{prefix: "b", want: "b ba bb"},
		{prefix: "b", start: "ba", want: "ba bb"},
		{prefix: "b", end: "bb", reverse: true, want: "ba b"},
		{prefix: "b", start: "a", end: "z", want: "b ba bb"},
		{prefix: "c", end: "b", want: ""},
		{start: "c", end: "c", want: ""},
		{start: "d", end: "a", want: ""},
		{limit: 2, want: "a b"},
		{limit: 2, reverse: true, want: "d c"},
		{prefix: "\xff", want: ""},
	} {
		r := firn.Range{Start: bytes(of.start), End: bytes(of.end), Prefix: bytes(of.prefix), Reverse: of.reverse, Limit: of.limit}
		equal(t, read(t, tree.Iter(r)), of.want)
		equal(t, read(t, snapshot.Iter(tree, r)), of.want)
		equal(t, read(t, tx.Iter(tree, r)), of.want)
	}
	equal(t, read(t, tree.Iter(firn.Range{End: []byte{}})), "")
}

func TestIteratorReadsManyChunks(t *testing.T) {
	db, tree := memory(t)
	batch := firn.NewBatch()
	for n := range 5000 {
		check(t, batch.Put(tree, fmt.Appendf(nil, "%06d", n), bytes.Repeat([]byte{byte(n)}, 100)))
	}
	equal(t, batch.Len(), 5000)
	check(t, db.Write(batch))
	equal(t, batch.Len(), 0)
	for _, reverse := range []bool{false, true} {
		var keys, values [][]byte
		it := tree.Iter(firn.Range{Reverse: reverse})
		for it.Next() {
			keys, values = append(keys, it.Key()), append(values, it.Value())
		}
		check(t, it.Close())
		equal(t, len(keys), 5000)
		for at := range keys {
			n := at
			if reverse {
				n = 4999 - at
			}
			// Entries stay as they are while others are read.
			if string(keys[at]) != fmt.Sprintf("%06d", n) || values[at][99] != byte(n) {
				t.Fatal(at)
			}
		}
	}
	it := tree.Iter(firn.Range{})
	for key := range it.All() {
		if string(key) == "000020" {
			break
		}
	}
	equal(t, it.Next(), false)
	it = tree.Iter(firn.Range{})
	equal(t, it.Next(), true)
	check(t, db.Close())
	for it.Next() {
	}
	check(t, it.Close())
	refused(t, tree.Iter(firn.Range{}).Err(), nil)
	it = tree.Iter(firn.Range{})
	equal(t, it.Next(), false)
	refused(t, it.Err(), firn.ErrClosed)
}

func TestBatchesAndRangesAreAtomic(t *testing.T) {
	db, tree := memory(t, "a", "b", "c", "d")
	other := must(db.Tree("other"))(t)
	batch := firn.NewBatch()
	check(t, batch.Put(other, []byte("x"), []byte("x")))
	check(t, batch.Delete(tree, []byte("a")))
	check(t, batch.DeleteRange(tree, []byte("c"), nil))
	check(t, db.With(firn.Power).Write(batch))
	equal(t, read(t, tree.Iter(firn.Range{})), "b")
	equal(t, read(t, other.Iter(firn.Range{})), "x")
	check(t, tree.DeleteRange(nil, []byte("c")))
	equal(t, read(t, tree.Iter(firn.Range{})), "")
	_, foreign := memory(t)
	check(t, batch.Put(foreign, []byte("k"), nil))
	refused(t, db.Write(batch), firn.ErrInvalidArgument)
	check(t, db.DropTree("other"))
	refused(t, other.Put([]byte("k"), nil), firn.ErrClosed)
}

func TestConditionalWrites(t *testing.T) {
	_, tree := memory(t, "a")
	equal(t, must(tree.InsertIfAbsent([]byte("a"), nil))(t), false)
	equal(t, must(tree.InsertIfAbsent([]byte("b"), []byte("1")))(t), true)
	equal(t, must(tree.CompareAndSwap([]byte("b"), []byte("2"), []byte("3")))(t), false)
	equal(t, must(tree.CompareAndSwap([]byte("b"), []byte("1"), []byte("b")))(t), true)
	equal(t, must(tree.CompareAndSwap([]byte("c"), nil, []byte("c")))(t), true)
	equal(t, must(tree.CompareAndSwap([]byte("a"), []byte("a"), nil))(t), true)
	equal(t, read(t, tree.Iter(firn.Range{})), "b c")
}

func TestSnapshot(t *testing.T) {
	db, tree := memory(t, "a")
	snapshot := must(db.Snapshot())(t)
	check(t, tree.Put([]byte("b"), []byte("b")))
	equal(t, string(must(snapshot.Get(tree, []byte("a")))(t)), "a")
	_, err := snapshot.Get(tree, []byte("b"))
	refused(t, err, firn.ErrNotFound)
	it := snapshot.Iter(tree, firn.Range{})
	check(t, snapshot.Close())
	check(t, snapshot.Close())
	equal(t, read(t, it), "a")
	_, err = snapshot.Get(tree, []byte("a"))
	refused(t, err, firn.ErrClosed)
	refused(t, snapshot.Iter(tree, firn.Range{}).Err(), firn.ErrClosed)
}

func TestTransactions(t *testing.T) {
	db, tree := memory(t)
	ctx := context.Background()
	count := func(tx *firn.Tx) error {
		value, err := tx.Get(tree, []byte("n"))
		if err != nil && !errors.Is(err, firn.ErrNotFound) {
			return err
		}
		return tx.Put(tree, []byte("n"), append(value, '1'))
	}
	var wait sync.WaitGroup
	failures := make(chan error, 8)
	for range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range 10 {
				if err := db.Transact(ctx, count); err != nil {
					failures <- err
					return
				}
			}
		}()
	}
	wait.Wait()
	close(failures)
	for err := range failures {
		t.Fatal(err)
	}
	equal(t, len(must(tree.Get([]byte("n")))(t)), 80)

	tx := must(db.With(firn.Power).Begin())(t)
	check(t, count(tx))
	check(t, tree.Delete([]byte("n")))
	refused(t, tx.Commit(), firn.ErrConflict)
	refused(t, tx.Commit(), firn.ErrClosed)
	refused(t, tx.Put(tree, nil, nil), firn.ErrClosed)
	tx.Rollback()

	attempts := 0
	refused(t, db.Transact(ctx, func(tx *firn.Tx) error {
		attempts++
		check(t, count(tx))
		return tree.Put([]byte("n"), fmt.Append(nil, attempts))
	}), firn.ErrConflict)
	equal(t, attempts, 32)
	stop := errors.New("stop")
	refused(t, db.Transact(ctx, func(tx *firn.Tx) error {
		check(t, tx.DeleteRange(tree, nil, nil))
		return stop
	}), stop)
	func() {
		defer func() { equal(t, fmt.Sprint(recover()), "no") }()
		db.Transact(ctx, func(tx *firn.Tx) error { panic("no") })
	}()
	equal(t, must(tree.Has([]byte("n")))(t), true)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	refused(t, db.Transact(ended, count), context.Canceled)

	tx = must(db.Begin())(t)
	check(t, tx.Delete(tree, []byte("n")))
	before := must(tx.Savepoint())(t)
	check(t, tx.Put(tree, []byte("x"), []byte("x")))
	equal(t, read(t, tx.Iter(tree, firn.Range{})), "x")
	check(t, tx.RollbackTo(before))
	check(t, tx.Lock(tree, []byte("y"), 0))
	other := must(db.Begin())(t)
	refused(t, other.Lock(tree, []byte("y"), time.Millisecond), firn.ErrLocked)
	check(t, tx.Commit())
	check(t, other.Lock(tree, []byte("y"), time.Minute))
	other.Rollback()
	equal(t, read(t, tree.Iter(firn.Range{})), "")
}

func TestManyGoroutines(t *testing.T) {
	db, tree := memory(t)
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for n := range 500 {
				key := fmt.Appendf(nil, "%d-%03d", g, n)
				check(t, tree.Put(key, key))
				if got := must(tree.Get(key))(t); !bytes.Equal(got, key) {
					t.Errorf("%s instead of %s", got, key)
				}
				if n%100 == 0 {
					snapshot := must(db.Snapshot())(t)
					read(t, snapshot.Iter(tree, firn.Range{Prefix: fmt.Appendf(nil, "%d-", g)}))
					check(t, snapshot.Close())
				}
			}
		}()
	}
	// The error of a goroutine is not that of another.
	for range 1000 {
		_, err := db.TreeWith("t", "wrong=1")
		if err == nil || !strings.Contains(err.Error(), "wrong") {
			t.Fatal(err)
		}
	}
	wait.Wait()
	it := tree.Iter(firn.Range{})
	count := 0
	for range it.All() {
		count++
	}
	equal(t, count, 4000)
}

// What a program forgets is released by the collector: the store can be opened again.
func TestForgottenHandles(t *testing.T) {
	path := t.TempDir() + "/store"
	func() {
		db := must(firn.Open(path, nil))(t)
		tree := must(db.Tree("t"))(t)
		check(t, tree.With(firn.Power).Put([]byte("a"), []byte("a")))
		must(db.Snapshot())(t)
		must(db.Begin())(t)
		must(must(db.Begin())(t).Savepoint())(t)
		firn.NewBatch()
		equal(t, tree.Iter(firn.Range{}).Next(), true)
	}()
	for range 1000 {
		runtime.GC()
		db, err := firn.Open(path, nil)
		if err == nil {
			check(t, db.Close())
			return
		}
		refused(t, err, firn.ErrLocked)
		runtime.Gosched()
	}
	t.Fatal("the store is still open")
}

func TestErrors(t *testing.T) {
	_, tree := memory(t)
	err := tree.Put(make([]byte, 1<<20), nil)
	var of *firn.Error
	if !errors.As(err, &of) || of.Code != firn.CodeInvalidArgument || of.Message == "" {
		t.Fatal(err)
	}
	if errors.Is(err, firn.ErrConflict) || firn.Version() == "" {
		t.Fatal(err)
	}
}

// Random calls answer like a sorted map.
func TestRandomCalls(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	db, tree := memory(t)
	model := map[string]string{}
	key := func() string {
		return strings.Repeat(string(rune('a'+random.IntN(4))), 1+random.IntN(3)) + fmt.Sprint(random.IntN(10))
	}
	end := func() []byte {
		if random.IntN(2) == 0 {
			return nil
		}
		return []byte(key())
	}
	isIn := func(k string, r firn.Range) bool {
		return k >= string(r.Start) && (r.End == nil || k < string(r.End)) && strings.HasPrefix(k, string(r.Prefix))
	}
	for step := range 4000 {
		k, v := key(), fmt.Sprint(step)
		switch random.IntN(8) {
		case 0:
			check(t, tree.Delete([]byte(k)))
			delete(model, k)
		case 1:
			if random.IntN(20) > 0 {
				continue
			}
			r := firn.Range{Start: end(), End: end()}
			if r.Start != nil && r.End != nil && bytes.Compare(r.Start, r.End) > 0 {
				r.Start, r.End = r.End, r.Start
			}
			check(t, tree.DeleteRange(r.Start, r.End))
			for of := range model {
				if isIn(of, r) {
					delete(model, of)
				}
			}
		case 2:
			batch, other := firn.NewBatch(), key()
			check(t, batch.Put(tree, []byte(k), []byte(v)))
			check(t, batch.Delete(tree, []byte(other)))
			check(t, db.Write(batch))
			model[k] = v
			delete(model, other)
		case 3:
			check(t, db.Transact(context.Background(), func(tx *firn.Tx) error { return tx.Put(tree, []byte(k), []byte(v)) }))
			model[k] = v
		case 4:
			keys := [][]byte{[]byte(k), []byte(key())}
			for at, found := range must(tree.GetMany(keys))(t) {
				want, ok := model[string(keys[at])]
				if ok != (found != nil) || want != string(found) {
					t.Fatalf("%s has %s instead of %s", keys[at], found, want)
				}
			}
		case 5:
			r := firn.Range{Start: end(), End: end(), Reverse: random.IntN(2) == 0, Limit: random.IntN(30)}
			if random.IntN(4) == 0 {
				r.Prefix = []byte(key()[:1])
			}
			var want, got []string
			for of, value := range model {
				if isIn(of, r) {
					want = append(want, of+"="+value)
				}
			}
			slices.Sort(want)
			if r.Reverse {
				slices.Reverse(want)
			}
			if r.Limit > 0 && len(want) > r.Limit {
				want = want[:r.Limit]
			}
			it := tree.Iter(r)
			for of, value := range it.All() {
				got = append(got, string(of)+"="+string(value))
			}
			check(t, it.Err())
			if !slices.Equal(got, want) {
				t.Fatalf("%v: %v instead of %v", r, got, want)
			}
		default:
			check(t, tree.Put([]byte(k), []byte(v)))
			model[k] = v
		}
		value, err := tree.Get([]byte(k))
		if want, ok := model[k]; ok != (err == nil) || want != string(value) {
			t.Fatalf("%s has %s, %v instead of %s", k, value, err, want)
		}
	}
}

package firn_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	firn "example.org/firn/bindings/go"
)

// ops returns the operations of a change as text.
func ops(change *firn.Change) string {
	text := ""
	for _, op := range change.Ops {
		text += fmt.Sprintf("%s %s %q %q %q;", op.Kind, op.Tree, op.Key, op.Value, op.End)
	}
	return text
}

func TestSubscriptionReturnsEachChangeAndContinuesAfterReopening(t *testing.T) {
	path := t.TempDir() + "/store"
	db := must(firn.Open(path, nil))(t)
	tree := must(db.Tree("t"))(t)
	check(t, tree.Put([]byte("before"), []byte("1")))
	changes := must(db.Subscribe("index", 1<<20))(t)
	equal(t, must(changes.SnapshotDue())(t), true)
	_, err := db.Subscribe("index", 1<<20)
	refused(t, err, firn.ErrLocked)
	snapshot := must(changes.Snapshot())(t)
	equal(t, string(must(snapshot.Get(tree, []byte("before")))(t)), "1")
	check(t, snapshot.Close())
	check(t, changes.Acknowledge())
	equal(t, must(changes.SnapshotDue())(t), false)
	if change := must(changes.TryNext())(t); change != nil {
		t.Fatal(ops(change))
	}
	batch := firn.NewBatch()
	batch.Put(tree, []byte("a"), []byte(""))
	batch.Delete(tree, []byte("before"))
	check(t, db.Write(batch))
	check(t, tree.DeleteRange([]byte("x"), []byte("y")))
	first := must(changes.Next(context.Background()))(t)
	equal(t, ops(first), `put t "a" "" "";delete t "before" "" "";`)
	equal(t, first.Loaded, false)
	equal(t, first.Position, must(changes.Position())(t))
	second := must(changes.TryNext())(t)
	equal(t, ops(second), `delete range t "x" "" "y";`)
	check(t, db.Close())
	_, err = changes.TryNext()
	refused(t, err, firn.ErrClosed)
	check(t, changes.Close())
	_, err = changes.TryNext()
	refused(t, err, firn.ErrClosed)

	// Nothing was acknowledged after the snapshot. A position of the consumer's own continues later.
	db = must(firn.Open(path, nil))(t)
	changes = must(db.Subscribe("index", 1<<20))(t)
	equal(t, ops(must(changes.TryNext())(t)), ops(first))
	check(t, changes.Resume(first.Position))
	equal(t, ops(must(changes.TryNext())(t)), ops(second))
	refused(t, changes.Resume("0000000000000001-1"), firn.ErrInvalidArgument)
	check(t, changes.Close())
	check(t, db.DropSubscription("index"))
	refused(t, db.DropSubscription("index"), firn.ErrStoreNotFound)
	check(t, db.Close())
}

func TestNextWaitsForAChangeOrTheContext(t *testing.T) {
	db, tree := memory(t)
	changes := must(db.Subscribe("s", 1<<20))(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := changes.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	const rows = 200
	written := make(chan error)
	go func() {
		for n := range rows {
			if err := tree.Put(fmt.Append(nil, n), nil); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	n := 0
	for change, err := range changes.All(context.Background()) {
		check(t, err)
		equal(t, string(change.Ops[0].Key), fmt.Sprint(n))
		if n++; n == rows {
			break
		}
	}
	check(t, <-written)
	check(t, changes.Close())
	for _, err := range changes.All(context.Background()) {
		refused(t, err, firn.ErrClosed)
	}
}

func TestALaggedSubscriptionBeginsAgain(t *testing.T) {
	db, tree := memory(t)
	changes := must(db.Subscribe("s", 64<<10))(t)
	check(t, changes.Acknowledge())
	value := make([]byte, 10_000)
	for n := range 2000 {
		check(t, tree.Put(fmt.Append(nil, n), value))
		if n%200 == 199 {
			check(t, tree.Flush())
		}
	}
	var err error
	for err == nil {
		_, err = changes.Next(context.Background())
	}
	refused(t, err, firn.ErrLagged)
	equal(t, must(changes.SnapshotDue())(t), true)
	snapshot := must(changes.Snapshot())(t)
	check(t, changes.Acknowledge())
	check(t, tree.Put([]byte("later"), nil))
	if _, err := snapshot.Get(tree, []byte("later")); !errors.Is(err, firn.ErrNotFound) {
		t.Fatal(err)
	}
	equal(t, string(must(changes.TryNext())(t).Ops[0].Key), "later")
	check(t, snapshot.Close())
}

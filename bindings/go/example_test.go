package firn_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"

	firn "example.org/firn/bindings/go"
)

// directory returns a new directory, and a function that removes it.
func directory() (string, func()) {
	dir, err := os.MkdirTemp("", "firn-example-")
	if err != nil {
		log.Fatal(err)
	}
	return filepath.Join(dir, "data"), func() { os.RemoveAll(dir) }
}

func Example() {
	path, remove := directory()
	defer remove()

	db, err := firn.Open(path, &firn.Options{Durability: firn.Power})
	if err != nil {
		log.Fatal(err)
	}
	fruit, err := db.Tree("fruit")
	if err != nil {
		log.Fatal(err)
	}
	if err := fruit.Put([]byte("apple"), []byte("red")); err != nil {
		log.Fatal(err)
	}
	value, err := fruit.Get([]byte("apple"))
	fmt.Printf("%s %v\n", value, err)
	_, err = fruit.Get([]byte("plum"))
	fmt.Println(errors.Is(err, firn.ErrNotFound))
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// red <nil>
	// true
}

func ExampleTree_Iter() {
	db, _ := firn.OpenMemory()
	fruit, _ := db.Tree("fruit")
	for _, name := range []string{"apple", "pear", "plum", "quince"} {
		fruit.Put([]byte(name), []byte(strconv.Itoa(len(name))))
	}

	it := fruit.Iter(firn.Range{Start: []byte("b"), End: []byte("q")})
	for key, value := range it.All() {
		fmt.Printf("%s: %s\n", key, value)
	}
	if err := it.Err(); err != nil {
		log.Fatal(err)
	}

	last := fruit.Iter(firn.Range{Prefix: []byte("p"), Reverse: true, Limit: 1})
	defer last.Close()
	for last.Next() {
		fmt.Printf("last: %s\n", last.Key())
	}
	// Output:
	// pear: 4
	// plum: 4
	// last: plum
}

func ExampleDB_Write() {
	db, _ := firn.OpenMemory()
	users, _ := db.Tree("users")
	byMail, _ := db.Tree("by mail")

	batch := firn.NewBatch()
	batch.Put(users, []byte("1"), []byte("ann@example.org"))
	batch.Put(byMail, []byte("ann@example.org"), []byte("1"))
	if err := db.With(firn.Power).Write(batch); err != nil { // both or none
		log.Fatal(err)
	}
	id, _ := byMail.Get([]byte("ann@example.org"))
	fmt.Printf("%s\n", id)
	// Output: 1
}

func ExampleDB_Transact() {
	db, _ := firn.OpenMemory()
	counts, _ := db.Tree("counts")

	increase := func(tx *firn.Tx) error {
		value, err := tx.Get(counts, []byte("visits"))
		if err != nil && !errors.Is(err, firn.ErrNotFound) {
			return err
		}
		n, _ := strconv.Atoi(string(value))
		return tx.Put(counts, []byte("visits"), strconv.AppendInt(nil, int64(n+1), 10))
	}
	for range 3 {
		if err := db.Transact(context.Background(), increase); err != nil {
			log.Fatal(err)
		}
	}
	visits, _ := counts.Get([]byte("visits"))
	fmt.Printf("%s\n", visits)
	// Output: 3
}

func ExampleDB_Snapshot() {
	db, _ := firn.OpenMemory()
	fruit, _ := db.Tree("fruit")
	fruit.Put([]byte("apple"), []byte("red"))

	before, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer before.Close()
	fruit.Put([]byte("apple"), []byte("green"))
	value, _ := before.Get(fruit, []byte("apple"))
	fmt.Printf("%s\n", value)
	// Output: red
}

func ExampleSession_Query() {
	session, err := firn.OpenSessionMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for _, cql := range []string{
		"CREATE KEYSPACE m WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE m.songs (artist text, title text, plays bigint, tags set<text>, PRIMARY KEY (artist, title))",
	} {
		if err := session.Exec(cql); err != nil {
			log.Fatal(err)
		}
	}
	insert, err := session.Prepare("INSERT INTO m.songs (artist, title, plays, tags) VALUES (?, ?, ?, ?)")
	if err != nil {
		log.Fatal(err)
	}
	insert.Exec("The Beatles", "Blackbird", 7, []string{"guitar", "ballad"})
	insert.Exec("The Beatles", "Yesterday", 3, nil)

	rows, err := session.Query("SELECT title, plays, tags FROM m.songs WHERE artist = :artist", firn.Named{"artist": "The Beatles"})
	if err != nil {
		log.Fatal(err)
	}
	for rows.Next() {
		var title string
		var plays int
		var tags []string
		if err := rows.Scan(&title, &plays, &tags); err != nil {
			log.Fatal(err)
		}
		fmt.Println(title, plays, tags)
	}
	if err := rows.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Blackbird 7 [ballad guitar]
	// Yesterday 3 []
}

func ExampleSubscription() {
	db, _ := firn.OpenMemory()
	fruit, _ := db.Tree("fruit")
	fruit.Put([]byte("apple"), []byte("red"))

	// An index outside of the store, which applies each change once.
	index := map[string]string{}
	changes, err := db.Subscribe("index", 1<<30)
	if err != nil {
		log.Fatal(err)
	}
	defer changes.Close()
	if due, _ := changes.SnapshotDue(); due { // new, or the log has lost changes
		now, _ := changes.Snapshot()
		for key, value := range now.Iter(fruit, firn.Range{}).All() {
			index[string(key)] = string(value)
		}
		now.Close()
		changes.Acknowledge()
	}
	fruit.Put([]byte("cherry"), []byte("black"))
	fruit.Delete([]byte("apple"))

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for change, err := range changes.All(ctx) { // waits for changes until ctx ends
		if errors.Is(err, context.Canceled) {
			break
		} else if err != nil {
			log.Fatal(err)
		}
		for _, op := range change.Ops {
			fmt.Printf("%s %s\n", op.Kind, op.Key)
			if op.Kind == firn.ChangePut {
				index[string(op.Key)] = string(op.Value)
			} else {
				delete(index, string(op.Key))
			}
		}
		changes.Acknowledge() // or store change.Position with the effects, and Resume there
		if len(index) == 1 {
			cancel()
		}
	}
	fmt.Println(index)
	// Output:
	// put cherry
	// delete apple
	// map[cherry:black]
}

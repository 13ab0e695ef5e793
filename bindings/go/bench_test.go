package firn_test

import (
	"fmt"
	"testing"

	firn "example.org/firn/bindings/go"
)

// filled returns a store in a directory with a tree of many entries, and their keys of 16 bytes.
func filled(b *testing.B, count int) (*firn.DB, *firn.Tree, [][]byte, []byte) {
	db := must(firn.Open(b.TempDir()+"/store", nil))(b)
	b.Cleanup(func() { db.Close() })
	tree := must(db.Tree("t"))(b)
	keys, value := make([][]byte, count), make([]byte, 100)
	for n := range keys {
		keys[n] = fmt.Appendf(nil, "%016d", n*7919%count)
		check(b, tree.Put(keys[n], value))
	}
	b.ReportAllocs()
	b.ResetTimer()
	return db, tree, keys, value
}

const entries = 100_000

func BenchmarkPut(b *testing.B) {
	_, tree, keys, value := filled(b, entries)
	for n := range b.N {
		check(b, tree.Put(keys[n%entries], value))
	}
}

func BenchmarkBatch1000(b *testing.B) {
	db, tree, keys, value := filled(b, entries)
	batch := firn.NewBatch()
	for n := range b.N {
		check(b, batch.Put(tree, keys[n%entries], value))
		if batch.Len() == 1000 || n == b.N-1 {
			check(b, db.Write(batch))
		}
	}
}

func BenchmarkGet(b *testing.B) {
	_, tree, keys, _ := filled(b, entries)
	for n := range b.N {
		must(tree.Get(keys[n%entries]))(b)
	}
}

func BenchmarkAppend(b *testing.B) {
	_, tree, keys, value := filled(b, entries)
	for n := range b.N {
		value = must(tree.Append(value[:0], keys[n%entries]))(b)
	}
}

func BenchmarkGetOfAMissingKey(b *testing.B) {
	_, tree, keys, _ := filled(b, entries)
	for n := range b.N {
		if _, err := tree.Get(keys[n%entries][1:]); err != firn.ErrNotFound {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetMany100(b *testing.B) {
	_, tree, keys, _ := filled(b, entries)
	for n := 0; n < b.N; n += 100 {
		at := n % entries
		must(tree.GetMany(keys[at : at+100]))(b)
	}
}

func BenchmarkIter(b *testing.B) {
	_, tree, _, _ := filled(b, entries)
	for n := 0; n < b.N; {
		it := tree.Iter(firn.Range{Limit: b.N - n})
		for range it.All() {
			n++
		}
		check(b, it.Err())
	}
}

func songs(b *testing.B) *firn.Session {
	s := must(firn.OpenSession(b.TempDir()+"/cql", nil))(b)
	b.Cleanup(func() { s.Close() })
	check(b, s.Exec(keyspace))
	check(b, s.Exec("CREATE TABLE k.t (p int, c int, v text, PRIMARY KEY (p, c))"))
	insert := must(s.Prepare("INSERT INTO k.t (p, c, v) VALUES (1, ?, ?)"))(b)
	for n := range 10_000 {
		check(b, insert.Exec(n, string(make([]byte, 100))))
	}
	b.ReportAllocs()
	b.ResetTimer()
	return s
}

func BenchmarkInsert(b *testing.B) {
	insert := must(songs(b).Prepare("INSERT INTO k.t (p, c, v) VALUES (1, ?, ?)"))(b)
	value := string(make([]byte, 100))
	for n := range b.N {
		check(b, insert.Exec(n%10_000, value))
	}
}

func BenchmarkSelect(b *testing.B) {
	query := must(songs(b).Prepare("SELECT v FROM k.t WHERE p = 1 AND c = ?"))(b)
	for n := range b.N {
		rows := must(query.Query(n % 10_000))(b)
		if !rows.Next() {
			b.Fatal(rows.Err())
		}
		check(b, rows.Close())
	}
}

func BenchmarkRows(b *testing.B) {
	s := songs(b)
	for n := 0; n < b.N; {
		rows := must(s.Query("SELECT * FROM k.t"))(b)
		for rows.Next() {
			n++
		}
		check(b, rows.Err())
	}
}

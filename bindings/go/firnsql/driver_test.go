package firnsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	firn "example.org/firn/bindings/go"
	"example.org/firn/bindings/go/firnsql"
)

const keyspace = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T) (*sql.DB, string) {
	t.Helper()
	path := t.TempDir() + "/db"
	db, err := sql.Open("firn", path+"?durability=process&memory_budget=33554432")
	check(t, err)
	t.Cleanup(func() { db.Close() })
	_, err = db.Exec(keyspace)
	check(t, err)
	_, err = db.Exec(`CREATE TABLE k.songs (id int PRIMARY KEY, title text, plays bigint, added timestamp, raw blob, score double,
		live boolean, key uuid, large varint, tags set<text>, length time)`)
	check(t, err)
	return db, path
}

func TestStatements(t *testing.T) {
	db, path := open(t)
	check(t, db.Ping())
	added := time.UnixMilli(1700000000123).UTC()
	const insert = `INSERT INTO k.songs (id, title, plays, added, raw, score, live, key, large, tags, length)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	result, err := db.Exec(insert, 1, "Blackbird", 7, added, []byte{1, 2}, 0.5, true,
		"fe2b4360-28c6-11e2-81c1-0800200c9a66", "123456789012345678901234567890", []string{"b", "a"}, time.Hour)
	check(t, err)
	if _, err := result.RowsAffected(); err == nil {
		t.Fatal("the number of rows is not known")
	}
	_, err = db.Exec("INSERT INTO k.songs (id, title) VALUES (:id, :title)", sql.Named("id", 2), sql.Named("title", sql.NullString{}))
	check(t, err)
	_, err = db.Exec("INSERT INTO k.songs (id, title) VALUES (:id, ?)", 1, sql.Named("id", 2))
	if err == nil || !strings.Contains(err.Error(), "not both") {
		t.Fatal(err)
	}

	var (
		id     int
		title  string
		plays  int64
		at     time.Time
		raw    []byte
		score  float64
		live   bool
		key    string
		large  string
		tags   any
		length time.Duration
	)
	row := db.QueryRow("SELECT id, title, plays, added, raw, score, live, key, large, tags, length FROM k.songs WHERE id = ?", 1)
	check(t, row.Scan(&id, &title, &plays, &at, &raw, &score, &live, &key, &large, &tags, &length))
	got := fmt.Sprintln(id, title, plays, at.Equal(added), raw, score, live, key, large, tags, length)
	want := "1 Blackbird 7 true [1 2] 0.5 true fe2b4360-28c6-11e2-81c1-0800200c9a66 123456789012345678901234567890 [a b] 1h0m0s\n"
	if got != want {
		t.Fatal(got)
	}
	var none sql.NullString
	check(t, db.QueryRow("SELECT title FROM k.songs WHERE id = 2").Scan(&none))
	if none.Valid {
		t.Fatal(none)
	}
	if err := db.QueryRow("SELECT title FROM k.songs WHERE id = 3").Scan(&none); !errors.Is(err, sql.ErrNoRows) {
		t.Fatal(err)
	}
	if _, err := db.Exec("SELEC"); !errors.Is(err, firn.ErrSyntax) {
		t.Fatal(err)
	}
	if _, err := db.Begin(); err == nil {
		t.Fatal("CQL has no transactions")
	}
	check(t, db.Close())

	again, err := sql.Open("firn", path+"?keyspace=k&must_exist=true&read_only=false")
	check(t, err)
	check(t, again.QueryRow("SELECT plays FROM songs WHERE id = 1").Scan(&plays))
	check(t, again.Close())
	check(t, again.Close())
}

func TestRowsAndTypes(t *testing.T) {
	db, _ := open(t)
	insert, err := db.Prepare("INSERT INTO k.songs (id, title) VALUES (?, ?)")
	check(t, err)
	for n := range 2500 {
		_, err := insert.Exec(n, fmt.Sprint(n))
		check(t, err)
	}
	check(t, insert.Close())
	rows, err := db.Query("SELECT id, title, tags FROM k.songs")
	check(t, err)
	types, err := rows.ColumnTypes()
	check(t, err)
	var described []string
	for _, of := range types {
		described = append(described, fmt.Sprint(of.Name(), " ", of.DatabaseTypeName(), " ", of.ScanType()))
	}
	if got := strings.Join(described, ", "); got != "id INT int64, title TEXT string, tags SET<TEXT> interface {}" {
		t.Fatal(got)
	}
	seen := map[int]bool{}
	for rows.Next() {
		var id int
		var title string
		var tags any
		check(t, rows.Scan(&id, &title, &tags))
		if title != fmt.Sprint(id) || tags != nil {
			t.Fatal(id, title, tags)
		}
		seen[id] = true
	}
	check(t, rows.Err())
	if len(seen) != 2500 {
		t.Fatal(len(seen))
	}
	// A context that ends stops the rows.
	ctx, cancel := context.WithCancel(context.Background())
	rows, err = db.QueryContext(ctx, "SELECT id FROM k.songs")
	check(t, err)
	rows.Next()
	cancel()
	for rows.Next() {
	}
	if !errors.Is(rows.Err(), context.Canceled) {
		t.Fatal(rows.Err())
	}
	if _, err := db.QueryContext(ctx, "SELECT id FROM k.songs"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestManyConnections(t *testing.T) {
	db, _ := open(t)
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for n := range 50 {
				if _, err := db.Exec("INSERT INTO k.songs (id, title) VALUES (?, ?)", g*100+n, "x"); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	wait.Wait()
	var count int
	check(t, db.QueryRow("SELECT count(*) FROM k.songs").Scan(&count))
	if count != 400 {
		t.Fatal(count)
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"x?unknown=1", "x?durability=memory", "x?memory_budget=many", "x?read_only=perhaps", "x%zz?keyspace=k", "x?%zz"} {
		if _, err := sql.Open("firn", name); err == nil {
			t.Error(name)
		}
	}
	db, err := sql.Open("firn", t.TempDir()+"/missing?must_exist=true")
	check(t, err)
	if err := db.Ping(); !errors.Is(err, firn.ErrStoreNotFound) {
		t.Fatal(err)
	}
	db, err = sql.Open("firn", ":memory:")
	check(t, err)
	_, err = db.Exec(keyspace)
	check(t, err)
	check(t, db.Close())
}

func TestConnectorOverASession(t *testing.T) {
	session, err := firn.OpenSessionMemory()
	check(t, err)
	check(t, session.Exec(keyspace))
	db := sql.OpenDB(firnsql.NewConnector(session))
	_, err = db.Exec("CREATE TABLE k.t (p int PRIMARY KEY)")
	check(t, err)
	check(t, db.Close())
	check(t, session.Exec("INSERT INTO k.t (p) VALUES (1)"))
	check(t, session.Close())
}

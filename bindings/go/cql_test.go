package firn_test

import (
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	firn "example.org/firn/bindings/go"
)

const keyspace = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"

func session(t testing.TB) *firn.Session {
	t.Helper()
	s := must(firn.OpenSessionMemory())(t)
	check(t, s.Exec(keyspace))
	check(t, s.Exec("USE k"))
	return s
}

func one(t testing.TB, s *firn.Session, cql string, args ...any) any {
	t.Helper()
	rows := must(s.Query(cql, args...))(t)
	defer rows.Close()
	if !rows.Next() {
		t.Fatal("no row", rows.Err())
	}
	return rows.Values()[0]
}

func TestDatabaseKeepsItsRows(t *testing.T) {
	path := t.TempDir() + "/cql"
	s := must(firn.OpenSession(path, nil))(t)
	check(t, s.Exec(keyspace))
	check(t, s.Exec("USE k"))
	check(t, must(s.Clone())(t).Exec("CREATE TABLE t (id int PRIMARY KEY, a text, b text)"))
	insert := must(s.Prepare("INSERT INTO t (id, a, b) VALUES (:id, :a, :b)"))(t)
	equal(t, fmt.Sprint(insert.Markers()), "[{id int} {a text} {b text}]")
	check(t, insert.Exec(firn.Named{"id": 1, "a": "x", "b": "y"}))
	check(t, insert.Exec(1, firn.Unset, "z"))
	check(t, insert.Exec(firn.Named{"id": 2, "a": nil}))
	check(t, s.Close())
	refused(t, insert.Exec(3, "x", "y"), firn.ErrClosed)

	s = must(firn.OpenSession(path, nil))(t)
	rows := must(s.Query("SELECT * FROM k.t WHERE id IN ?", []int{1, 2}))(t)
	equal(t, fmt.Sprint(rows.Columns()), "[{id int} {a text} {b text}]")
	equal(t, rows.Next(), true)
	var id int8
	var a string
	var b *string
	check(t, rows.Scan(&id, &a, &b))
	equal(t, fmt.Sprintln(id, a, *b), "1 x z\n")
	equal(t, fmt.Sprint(rows.Map()), "map[a:x b:z id:1]")
	equal(t, rows.Next(), true)
	if err := rows.Scan(&id, &a, &b); err == nil || !strings.Contains(err.Error(), "column a, text: null") {
		t.Fatal(err)
	}
	if err := rows.Scan(&id); err == nil {
		t.Fatal("too few variables")
	}
	equal(t, rows.Next(), false)
	check(t, rows.Close())
	check(t, s.Close())
}

type address struct {
	Street string
	Number int32 `cql:"no"`
	ignore bool
}

func TestValuesOfEachType(t *testing.T) {
	id := must(firn.ParseUUID("fe2b4360-28c6-11e2-81c1-0800200c9a66"))(t)
	large, _ := new(big.Int).SetString("-1267650600228229401496703205376", 10)
	at := time.UnixMilli(1234567890123).UTC()
	day := time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC)
	s := session(t)
	check(t, s.Exec("CREATE TYPE address (street text, no int)"))
	for n, of := range []struct {
		of    string
		bound any
		read  any
	}{
		{"tinyint", int8(-7), int64(-7)},
		{"smallint", 300, int64(300)},
		{"int", int32(-5), int64(-5)},
		{"int", 4.0, int64(4)},
		{"bigint", int64(1) << 62, int64(1) << 62},
		{"bigint", uint64(5), int64(5)},
		{"varint", large, large},
		{"varint", big.NewInt(-128), big.NewInt(-128)},
		{"varint", uint64(1) << 63, new(big.Int).Lsh(big.NewInt(1), 63)},
		{"decimal", "-1.250", "-1.250"},
		{"decimal", 0.5, "0.5"},
		{"float", float32(1.5), 1.5},
		{"double", 0.1, 0.1},
		{"double", 3, 3.0},
		{"boolean", true, true},
		{"text", "grüße", "grüße"},
		{"blob", []byte{0, 255}, []byte{0, 255}},
		{"uuid", id, id},
		{"uuid", [16]byte(id), id},
		{"timeuuid", id.String(), id},
		{"inet", netip.MustParseAddr("::1"), netip.MustParseAddr("::1")},
		{"inet", net.IPv4(10, 0, 0, 1), netip.MustParseAddr("10.0.0.1")},
		{"date", day, day},
		{"date", "1969-12-31", time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)},
		{"time", 3*time.Hour + 4, 3*time.Hour + 4},
		{"timestamp", at, at},
		{"duration", "1mo2d", "1mo2d"},
		{"list<int>", []int{1, 2, 1}, []any{int64(1), int64(2), int64(1)}},
		{"set<text>", map[string]struct{}{"a": {}}, []any{"a"}},
		{"set<text>", []string{"b", "a"}, []any{"a", "b"}},
		{"map<text, bigint>", map[string]int{"a": 1}, firn.Map{{"a", int64(1)}}},
		{"map<text, int>", map[string]any{"a": 1}, firn.Map{{"a", int64(1)}}},
		{"frozen<map<frozen<list<int>>, int>>", firn.Map{{[]int{1}, 2}}, firn.Map{{[]any{int64(1)}, int64(2)}}},
		{"tuple<int, text>", []any{1, "x"}, []any{int64(1), "x"}},
		{"vector<float, 2>", [2]float32{0.5, 1}, []any{0.5, 1.0}},
		{"address", address{Street: "x", Number: 5}, map[string]any{"street": "x", "no": int64(5)}},
		{"address", map[string]any{"no": 5}, map[string]any{"street": nil, "no": int64(5)}},
		{"int", (*int)(nil), nil},
		{"list<int>", []int(nil), nil},
	} {
		check(t, s.Exec(fmt.Sprintf("CREATE TABLE t%d (p int PRIMARY KEY, v %s)", n, of.of)))
		insert := must(s.Prepare(fmt.Sprintf("INSERT INTO t%d (p, v) VALUES (1, ?)", n)))(t)
		query := fmt.Sprintf("SELECT v FROM t%d", n)
		check(t, insert.Exec(of.bound))
		got := one(t, s, query)
		if !reflect.DeepEqual(got, of.read) {
			t.Fatalf("%s: %#v instead of %#v", of.of, got, of.read)
		}
		// What was read can be bound again.
		check(t, insert.Exec(got))
		if again := one(t, s, query); !reflect.DeepEqual(again, of.read) {
			t.Fatalf("%s: %#v instead of %#v", of.of, again, of.read)
		}
	}
}

func TestScan(t *testing.T) {
	s := session(t)
	check(t, s.Exec("CREATE TYPE address (street text, no int)"))
	check(t, s.Exec(`CREATE TABLE t (p int PRIMARY KEY, u uuid, n varint, l list<bigint>, s set<text>, m map<text, int>,
		a address, tu tuple<int, text>, d double, i inet, ts timestamp, b blob, ok boolean)`))
	check(t, s.Exec(`INSERT INTO t (p, u, n, l, s, m, a, tu, d, i, ts, b, ok) VALUES (1, fe2b4360-28c6-11e2-81c1-0800200c9a66, 7,
		[1, 2], {'x'}, {'y': 3}, {street: 'z', no: 4}, (5, 'w'), 1.5, '10.0.0.1', 1000, 0x01, true)`))
	rows := must(s.Query("SELECT u, u, n, n, l, s, m, a, tu, d, i, i, ts, b, ok, l FROM t"))(t)
	equal(t, rows.Next(), true)
	var (
		text  string
		array [16]byte
		large *big.Int
		small uint8
		list  []int32
		set   map[string]struct{}
		m     map[string]int
		a     address
		tuple struct {
			N    int
			Text string
		}
		d      float32
		ip     net.IP
		addr   *netip.Addr
		ts     time.Time
		blob   []byte
		ok     bool
		strict []int64
	)
	check(t, rows.Scan(&text, &array, &large, &small, &list, &set, &m, &a, &tuple, &d, &ip, &addr, &ts, &blob, &ok, &strict))
	got := fmt.Sprintln(text, array[0], large, small, list, set, m, a, tuple, d, ip, addr, ts.Unix(), blob, ok, strict)
	equal(t, got, "fe2b4360-28c6-11e2-81c1-0800200c9a66 254 7 7 [1 2] map[x:{}] map[y:3] {z 4 false} {5 w} 1.5 10.0.0.1 10.0.0.1 1 [1] true [1 2]\n")
	for _, wrong := range []any{new(int), new(chan int), text, nil, (*string)(nil), new(map[string]bool)} {
		into := make([]any, 16)
		for at := range into {
			into[at] = new(any)
		}
		into[0] = wrong
		if err := rows.Scan(into...); err == nil {
			t.Fatalf("%T", wrong)
		}
	}
	check(t, rows.Close())
	var narrow int8
	rows = must(s.Query("SELECT p FROM t"))(t)
	rows.Next()
	check(t, rows.Scan(&narrow))
	check(t, s.Exec("INSERT INTO t (p) VALUES (300)"))
	rows = must(s.Query("SELECT p FROM t WHERE p = 300"))(t)
	rows.Next()
	if err := rows.Scan(&narrow); err == nil || !strings.Contains(err.Error(), "300 is out of the range of int8") {
		t.Fatal(err)
	}
}

func TestRefusedArguments(t *testing.T) {
	s := session(t)
	check(t, s.Exec("CREATE TABLE t (p int PRIMARY KEY, l list<int>)"))
	for _, value := range []any{5, map[string]struct{}{"a": {}}, []float64{1.5}, "x"} {
		refused(t, s.Exec("INSERT INTO t (p, l) VALUES (1, ?)", value), firn.ErrInvalidRequest)
	}
	if err := s.Exec("INSERT INTO t (p, l) VALUES (1, ?)", make(chan int)); err == nil || !strings.Contains(err.Error(), "argument 1: a chan int") {
		t.Fatal(err)
	}
	if err := s.Exec("INSERT INTO t (p, l) VALUES (:p, ?)", firn.Named{"p": []any{func() {}}}); err == nil {
		t.Fatal("a function was bound")
	}
	err := s.Exec("SELECT * FROM t WHERE p = ?", 1, 2)
	refused(t, err, firn.ErrInvalidRequest)
	if !strings.Contains(err.Error(), "2 came") {
		t.Fatal(err)
	}
	refused(t, s.Exec("SELECT * FROM t WHERE p = :p", firn.Named{"q": 1}), firn.ErrInvalidRequest)
	refused(t, s.Exec("SELEC"), firn.ErrSyntax)
	refused(t, s.Exec(keyspace), firn.ErrAlreadyExists)
	if _, err := firn.ParseUUID("fe2b4360-28c6-11e2-81c1-0800200c9a6x"); err == nil {
		t.Fatal("no uuid")
	}
}

func TestRowsOfManyChunks(t *testing.T) {
	s := session(t)
	check(t, s.Exec("CREATE TABLE t (p int, c int, v text, PRIMARY KEY (p, c))"))
	insert := must(s.Prepare("INSERT INTO t (p, c, v) VALUES (1, ?, ?)"))(t)
	for n := range 3000 {
		check(t, insert.Exec(n, strings.Repeat("x", 100)))
	}
	rows := must(s.Query("SELECT c, v FROM t"))(t)
	n := int64(0)
	for row := range rows.All() {
		equal(t, row[0].(int64), n)
		n++
	}
	check(t, rows.Err())
	equal(t, n, 3000)
	rows = must(s.Query("SELECT c FROM t"))(t)
	for range rows.All() {
		break
	}
	equal(t, rows.Next(), false)
	rows = must(s.Query("SELECT c, v FROM t"))(t)
	equal(t, rows.Next(), true)
	check(t, s.Close())
	for rows.Next() {
	}
	refused(t, rows.Err(), firn.ErrClosed)
}

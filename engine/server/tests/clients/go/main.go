// gocql against a server at 127.0.0.1: go run . PORT
package main

import (
	"fmt"
	"math/big"
	"os"
	"reflect"
	"strconv"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

func good(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		panic(err)
	}
}

func must(holds bool, what string) {
	if !holds {
		panic(what)
	}
}

func cluster(protocol int) *gocql.ClusterConfig {
	port, err := strconv.Atoi(os.Args[1])
	good(err)
	cluster := gocql.NewCluster("127.0.0.1")
	cluster.Port = port
	cluster.ProtoVersion = protocol
	cluster.Timeout = 10 * time.Second
	return cluster
}

func conversation(protocol int) {
	first, err := cluster(protocol).CreateSession()
	good(err)
	good(first.Query("CREATE KEYSPACE IF NOT EXISTS gocql WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").Exec())
	first.Close()
	config := cluster(protocol)
	config.Keyspace = "gocql"
	session, err := config.CreateSession()
	good(err)
	defer session.Close()
	for _, text := range []string{
		"DROP TABLE IF EXISTS every", "DROP TABLE IF EXISTS rows",
		"CREATE TABLE every (k int PRIMARY KEY, a ascii, b bigint, c blob, d boolean, g double, i float, l list<int>, m map<text, int>, " +
			"n set<text>, o smallint, p text, r timestamp, s timeuuid, t tinyint, v uuid, w varint)",
		"CREATE TABLE rows (k int, c int, v text, PRIMARY KEY (k, c))",
	} {
		good(session.Query(text).Exec())
	}
	// The driver reads the schema again when an event tells it to, after a while.
	known := func() bool {
		meta, err := session.KeyspaceMetadata("gocql")
		good(err)
		table := meta.Tables["every"]
		return table != nil && len(table.Columns) == 17
	}
	for attempt := 0; !known(); attempt++ {
		must(attempt < 200, "the schema is not read again")
		time.Sleep(50 * time.Millisecond)
	}

	whole := new(big.Int).Exp(big.NewInt(10), big.NewInt(30), nil)
	stamp := time.UnixMilli(1250558004007).UTC()
	put := []any{1, "plain", int64(-1 << 63), []byte{0, 255}, true, 1.5e300, float32(0.5), []int{3, 1, 2}, map[string]int{"x": 1},
		[]string{"a", "b"}, int16(-32768), "grüße", stamp, gocql.TimeUUID(), int8(-128), gocql.MustRandomUUID(), whole}
	good(session.Query("INSERT INTO every (k, a, b, c, d, g, i, l, m, n, o, p, r, s, t, v, w) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", put...).Exec())
	got := map[string]any{}
	must(session.Query("SELECT * FROM every WHERE k = ?", 1).Iter().MapScan(got), "a row of every")
	for i, name := range []string{"k", "a", "b", "c", "d", "g", "i", "l", "m", "n", "o", "p", "r", "s", "t", "v", "w"} {
		must(reflect.DeepEqual(got[name], put[i]), fmt.Sprint(name, " is ", got[name], ", not ", put[i]))
	}

	for i := range 300 {
		good(session.Query("INSERT INTO rows (k, c, v) VALUES (?, ?, ?)", i%3, i, fmt.Sprint("v", i)).Exec())
	}
	iter, seen := session.Query("SELECT k, c, v FROM rows").PageSize(40).Iter(), 0
	for iter.Scan(new(int), new(int), new(string)) {
		seen++
	}
	good(iter.Close())
	must(seen == 300, fmt.Sprint(seen, " rows"))

	batch := session.Batch(gocql.LoggedBatch)
	for i := range 20 {
		batch.Query("INSERT INTO rows (k, c, v) VALUES (?, ?, ?)", 9, i, "b")
	}
	good(batch.Exec())
	var count int
	good(session.Query("SELECT count(*) FROM rows WHERE k = 9").Scan(&count))
	must(count == 20, "rows of the batch")
	old := map[string]any{}
	applied, err := session.Query("INSERT INTO rows (k, c, v) VALUES (9, 0, 'x') IF NOT EXISTS").MapScanCAS(old)
	good(err)
	must(!applied && old["v"] == "b", "a condition that does not hold")

	must(len(columns(session)) == 3, "columns before")
	good(session.Query("ALTER TABLE rows ADD w int").Exec())
	must(len(columns(session)) == 4, "columns after")

	must(session.Query("SELECT * FROM nowhere").Exec() != nil, "a table that is not there")
	must(session.Query("SELEKT").Exec() != nil, "what is no CQL")
	fmt.Printf("gocql: protocol %d: good\n", protocol)
}

func columns(session *gocql.Session) []gocql.ColumnInfo {
	iter := session.Query("SELECT * FROM rows WHERE k = ?", 9).Iter()
	defer iter.Close()
	return iter.Columns()
}

func main() {
	for _, protocol := range []int{5, 4, 3} {
		conversation(protocol)
	}
}

package firnsql_test

import (
	"database/sql"
	"fmt"
	"log"

	_ "example.org/firn/bindings/go/firnsql"
)

func Example() {
	db, err := sql.Open("firn", ":memory:") // or a directory: "music?keyspace=m"
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, cql := range []string{
		"CREATE KEYSPACE m WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE m.songs (id int PRIMARY KEY, title text)",
	} {
		if _, err := db.Exec(cql); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := db.Exec("INSERT INTO m.songs (id, title) VALUES (?, ?)", 1, "Blackbird"); err != nil {
		log.Fatal(err)
	}
	var title string
	err = db.QueryRow("SELECT title FROM m.songs WHERE id = ?", 1).Scan(&title)
	fmt.Println(title, err)
	// Output: Blackbird <nil>
}

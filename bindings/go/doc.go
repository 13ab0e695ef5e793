// Package firn embeds Firn, an ordered and durable store, in Go programs: trees of bytes with
// iterators, batches, snapshots, transactions and subscriptions to changes, and CQL over Cassandra's
// data model. The package firnsql has a driver for database/sql.
//
//	db, err := firn.Open("data", nil)
//	fruit, err := db.Tree("fruit")
//	err = fruit.Put([]byte("apple"), []byte("red"))
//	value, err := fruit.Get([]byte("apple"))
//	err = db.Close()
//
// The package calls the library firn-c by cgo; README.md describes how to link it.
//
// # Memory
//
// Results are Go memory, and may be retained. Arguments are read during the call only. A DB,
// Session, Snapshot, Iter, Subscription, Tx and Rows has a method Close, Commit or Rollback that releases its
// resources at once. The garbage collector releases what a program forgets.
//
// # Goroutines
//
// Several goroutines may use a DB, Tree, Snapshot, Session and Statement at the same time. One
// goroutine at a time may use a Batch, Iter, Subscription, Tx and Rows. A call occupies a thread of the operating
// system until it returns, as every call by cgo does.
package firn

package firn

/*
#include <firn.h>
#cgo noescape firn_rows_next_many
#cgo nocallback firn_rows_next_many
*/
import "C"

import (
	"fmt"
	"iter"
	"runtime"
)

// Session is a session with a CQL database.
type Session struct {
	c *C.FirnSession
}

// OpenSession opens the CQL database in a directory; it creates a missing one. opts may be nil.
func OpenSession(path string, opts *Options) (*Session, error) {
	return openSession(func(c **C.FirnSession) C.FirnCode {
		return C.firn_session_open(borrowText(path), opts.c(), c)
	})
}

// OpenSessionMemory opens an empty CQL database in memory.
func OpenSessionMemory() (*Session, error) {
	return openSession(func(c **C.FirnSession) C.FirnCode { return C.firn_session_open_memory(c) })
}

func openSession(open func(**C.FirnSession) C.FirnCode) (*Session, error) {
	s := &Session{}
	if err := call(func() C.FirnCode { return open(&s.c) }); err != nil {
		return nil, err
	}
	runtime.AddCleanup(s, func(c *C.FirnSession) { C.firn_session_free(c) }, s.c)
	return s, nil
}

// Clone returns another session with the same database and its own keyspace.
func (s *Session) Clone() (*Session, error) {
	defer runtime.KeepAlive(s)
	return openSession(func(c **C.FirnSession) C.FirnCode { return C.firn_session_clone(s.c, c) })
}

// Close closes the database for all its sessions: all writes are durable afterwards. Calls that need
// the database return ErrClosed from now on.
func (s *Session) Close() error {
	defer runtime.KeepAlive(s)
	return call(func() C.FirnCode { return C.firn_session_close(s.c) })
}

// Exec runs a statement and discards its rows.
func (s *Session) Exec(cql string, args ...any) error {
	rows, err := s.Query(cql, args...)
	if err != nil {
		return err
	}
	return rows.Close()
}

// Query runs a statement. Arguments are values for its markers in their order, or one Named with
// values by name. README.md has a table of the types.
func (s *Session) Query(cql string, args ...any) (*Rows, error) {
	return s.query(cql, args, 0)
}

func (s *Session) query(cql string, args []any, pageSize int) (*Rows, error) {
	defer runtime.KeepAlive(s)
	packed, err := packArguments(args)
	if err != nil {
		return nil, err
	}
	return newRows(func(out **C.FirnRows) C.FirnCode {
		return C.firn_session_query_packed(s.c, borrowText(cql), borrow(packed), C.size_t(pageSize), out)
	})
}

// Statement is a prepared statement.
type Statement struct {
	c       *C.FirnStatement
	markers []Column
}

// Prepare prepares a statement about rows.
func (s *Session) Prepare(cql string) (*Statement, error) {
	defer runtime.KeepAlive(s)
	st := &Statement{}
	if err := call(func() C.FirnCode { return C.firn_session_prepare(s.c, borrowText(cql), &st.c) }); err != nil {
		return nil, err
	}
	runtime.AddCleanup(st, func(c *C.FirnStatement) { C.firn_statement_free(c) }, st.c)
	for at := range int(C.firn_statement_markers(st.c)) {
		var name C.FirnSlice
		var of C.FirnBytes
		if err := call(func() C.FirnCode { return C.firn_statement_marker_name(st.c, C.size_t(at), &name) }); err != nil {
			return nil, err
		}
		if err := call(func() C.FirnCode { return C.firn_statement_marker_type(st.c, C.size_t(at), &of) }); err != nil {
			return nil, err
		}
		st.markers = append(st.markers, Column{string(goBytes(name.data, name.len)), string(take(of))})
	}
	return st, nil
}

// Markers returns name and type of each marker.
func (st *Statement) Markers() []Column { return st.markers }

// Exec runs the statement and discards its rows.
func (st *Statement) Exec(args ...any) error {
	rows, err := st.Query(args...)
	if err != nil {
		return err
	}
	return rows.Close()
}

// Query runs the statement with arguments as those of Session.Query.
func (st *Statement) Query(args ...any) (*Rows, error) {
	defer runtime.KeepAlive(st)
	packed, err := packArguments(args)
	if err != nil {
		return nil, err
	}
	return newRows(func(out **C.FirnRows) C.FirnCode {
		return C.firn_statement_query_packed(st.c, borrow(packed), 0, out)
	})
}

// Column is the name and the CQL type of a column or marker.
type Column struct {
	Name string
	Type string
}

// Rows are the rows of a statement, which are fetched in chunks as they are read.
//
//	rows, err := session.Query("SELECT title, plays FROM songs")
//	for rows.Next() {
//		err := rows.Scan(&title, &plays)
//		…
//	}
//	if err := rows.Err(); err != nil {
//		…
//	}
type Rows struct {
	handle  *handle[*C.FirnRows]
	columns []Column
	header  string
	chunk   unpacker
	left    int
	isLast  bool
	row     []any
	err     error
}

// Rows of a chunk.
const maxRows = 1000

func newRows(open func(**C.FirnRows) C.FirnCode) (*Rows, error) {
	var c *C.FirnRows
	if err := call(func() C.FirnCode { return open(&c) }); err != nil {
		return nil, err
	}
	rows := &Rows{}
	rows.handle = newHandle(rows, c, func(c *C.FirnRows) { C.firn_rows_free(c) })
	rows.fill()
	return rows, rows.err
}

// fill fetches the next chunk.
func (r *Rows) fill() {
	r.err = r.handle.call("result", func(c *C.FirnRows) C.FirnCode {
		var chunk C.FirnSlice
		code := C.firn_rows_next_many(c, maxRows, maxBytes, &chunk)
		if code == C.FIRN_CODE_OK {
			r.chunk = unpacker{bytes: goBytes(chunk.data, chunk.len)}
		}
		return code
	})
	if r.err != nil {
		r.isLast = true
		return
	}
	header := r.chunk.take()
	r.isLast = r.chunk.byte() == 1
	r.left = r.chunk.number()
	if string(header) != r.header {
		r.header = string(header)
		columns := unpacker{bytes: header}
		r.columns = make([]Column, columns.number())
		for at := range r.columns {
			r.columns[at] = Column{columns.text(), columns.text()}
		}
	}
	if r.isLast {
		r.handle.close()
	}
}

// Columns returns name and type of each column.
func (r *Rows) Columns() []Column { return r.columns }

// Next advances to the next row, initially to the first one. It returns false at the end and after an
// error, and releases the rows then.
func (r *Rows) Next() bool {
	if r.left == 0 && !r.isLast {
		r.fill()
	}
	if r.left == 0 || r.err != nil {
		r.Close()
		return false
	}
	r.left--
	row := make([]any, len(r.columns))
	for at := range row {
		row[at] = r.chunk.value()
	}
	r.row = row
	if r.chunk.err != nil {
		r.err = r.chunk.err
		r.Close()
		return false
	}
	return true
}

// Values returns the values of the row. They may be retained.
func (r *Rows) Values() []any { return r.row }

// Map returns the values of the row by their columns' names.
func (r *Rows) Map() map[string]any {
	row := make(map[string]any, len(r.row))
	for at, value := range r.row {
		row[r.columns[at].Name] = value
	}
	return row
}

// Scan copies the values of the row to variables, of which it takes pointers.
func (r *Rows) Scan(into ...any) error {
	if len(into) != len(r.row) {
		return fmt.Errorf("firn: Scan with %d variables for %d columns", len(into), len(r.row))
	}
	for at, to := range into {
		if err := assign(to, r.row[at]); err != nil {
			return fmt.Errorf("firn: column %s, %s: %w", r.columns[at].Name, r.columns[at].Type, err)
		}
	}
	return nil
}

// Err returns the error that has ended the rows.
func (r *Rows) Err() error { return r.err }

// Close releases the rows. It returns the error of Err.
func (r *Rows) Close() error {
	r.handle.close()
	r.left, r.isLast, r.chunk, r.row = 0, true, unpacker{}, nil
	return r.err
}

// All returns the further rows for a range loop, and releases them after it. Check Err after the loop.
func (r *Rows) All() iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		defer r.Close()
		for r.Next() {
			if !yield(r.row) {
				return
			}
		}
	}
}

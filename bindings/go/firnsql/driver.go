// Package firnsql registers the driver "firn" for database/sql, which runs CQL.
//
//	import _ "example.org/firn/bindings/go/firnsql"
//
//	db, err := sql.Open("firn", "music?keyspace=m")
//
// The name of a data source is the directory of a database, or ":memory:" for a new one in memory.
// After a question mark it can have options: keyspace, durability (process or power), memory_budget in
// bytes, read_only and must_exist (true or false). A path with a question mark or percent sign needs
// these escaped as in a URL.
//
// Each connection is a session of the database, which one sql.DB in one process has open. CQL has no
// transactions of several statements, so Begin fails; BEGIN BATCH … APPLY BATCH is one statement. A
// result does not state how many rows it affected. A context is checked before a statement and between
// chunks of rows; a statement that runs is completed.
package firnsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	firn "example.org/firn/bindings/go"
)

func init() {
	sql.Register("firn", &Driver{})
}

// Driver opens databases by their data source names.
type Driver struct{}

// Open opens a database for one connection. database/sql uses OpenConnector instead.
func (d *Driver) Open(name string) (driver.Conn, error) {
	c, err := d.OpenConnector(name)
	if err != nil {
		return nil, err
	}
	return c.Connect(context.Background())
}

// OpenConnector reads a data source name.
func (d *Driver) OpenConnector(name string) (driver.Connector, error) {
	path, query, hasQuery := strings.Cut(name, "?")
	c := &connector{driver: d, path: path}
	if !hasQuery {
		return c, nil
	}
	path, err := url.PathUnescape(path)
	if err != nil {
		return nil, fmt.Errorf("firnsql: %w", err)
	}
	c.path = path
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("firnsql: %w", err)
	}
	for option := range values {
		if err := c.set(option, values.Get(option)); err != nil {
			return nil, fmt.Errorf("firnsql: option %s: %w", option, err)
		}
	}
	return c, nil
}

// NewConnector returns a connector for sql.OpenDB, over a session that is open. Closing the sql.DB does
// not close the session.
func NewConnector(session *firn.Session) driver.Connector {
	return &connector{driver: &Driver{}, session: session, isBorrowed: true}
}

type connector struct {
	driver   *Driver
	path     string
	keyspace string
	options  firn.Options

	mutex      sync.Mutex
	session    *firn.Session
	isBorrowed bool
	isClosed   bool
}

func (c *connector) set(option, value string) (err error) {
	switch option {
	case "keyspace":
		c.keyspace = value
	case "durability":
		switch value {
		case "process":
			c.options.Durability = firn.Process
		case "power":
			c.options.Durability = firn.Power
		default:
			err = fmt.Errorf("%q is neither process nor power", value)
		}
	case "memory_budget":
		c.options.MemoryBudget, err = strconv.ParseInt(value, 10, 64)
	case "read_only":
		c.options.ReadOnly, err = strconv.ParseBool(value)
	case "must_exist":
		c.options.MustExist, err = strconv.ParseBool(value)
	default:
		err = errors.New("there is no such option")
	}
	return err
}

// open returns the session that all connections clone.
func (c *connector) open() (*firn.Session, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.session != nil || c.isClosed {
		if c.isClosed {
			return nil, firn.ErrClosed
		}
		return c.session, nil
	}
	var err error
	if c.path == ":memory:" {
		c.session, err = firn.OpenSessionMemory()
	} else {
		c.session, err = firn.OpenSession(c.path, &c.options)
	}
	return c.session, err
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	session, err := c.open()
	if err != nil {
		return nil, err
	}
	if session, err = session.Clone(); err != nil {
		return nil, err
	}
	if c.keyspace != "" {
		if err := session.Exec(`USE "` + strings.ReplaceAll(c.keyspace, `"`, `""`) + `"`); err != nil {
			return nil, err
		}
	}
	return &conn{session}, nil
}

func (c *connector) Driver() driver.Driver { return c.driver }

// Close closes the database; sql.DB.Close calls it.
func (c *connector) Close() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.isClosed = true
	if c.session == nil || c.isBorrowed {
		return nil
	}
	return c.session.Close()
}

type conn struct {
	session *firn.Session
}

var (
	_ driver.ConnBeginTx        = (*conn)(nil)
	_ driver.ConnPrepareContext = (*conn)(nil)
	_ driver.ExecerContext      = (*conn)(nil)
	_ driver.QueryerContext     = (*conn)(nil)
	_ driver.NamedValueChecker  = (*conn)(nil)
	_ driver.StmtExecContext    = (*stmt)(nil)
	_ driver.StmtQueryContext   = (*stmt)(nil)
	_ driver.NamedValueChecker  = (*stmt)(nil)
)

// Close does nothing: the connector closes the database.
func (c *conn) Close() error { return nil }

func (c *conn) Begin() (driver.Tx, error) {
	return nil, errors.New("firnsql: CQL has no transactions; BEGIN BATCH … APPLY BATCH is one statement")
}

func (c *conn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return c.Begin() }

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	statement, err := c.session.Prepare(query)
	if err != nil {
		return nil, err
	}
	return &stmt{statement}, nil
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.Prepare(query)
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return exec(c.QueryContext(ctx, query, args))
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return run(ctx, args, func(args ...any) (*firn.Rows, error) { return c.session.Query(query, args...) })
}

// CheckNamedValue accepts what firn accepts, except for values that convert themselves.
func (c *conn) CheckNamedValue(value *driver.NamedValue) (err error) {
	if valuer, ok := value.Value.(driver.Valuer); ok {
		if v := reflect.ValueOf(value.Value); v.Kind() == reflect.Pointer && v.IsNil() {
			value.Value = nil
			return nil
		}
		value.Value, err = valuer.Value()
	}
	return err
}

type stmt struct {
	statement *firn.Statement
}

func (s *stmt) Close() error { return nil }

// NumInput returns the number of markers. It is unknown to database/sql, since values by name may leave
// markers out; the session refuses other numbers.
func (s *stmt) NumInput() int { return -1 }

func (s *stmt) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }
func (s *stmt) Query([]driver.Value) (driver.Rows, error)  { return nil, driver.ErrSkip }

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return exec(s.QueryContext(ctx, args))
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return run(ctx, args, s.statement.Query)
}

func (s *stmt) CheckNamedValue(value *driver.NamedValue) error {
	return (*conn)(nil).CheckNamedValue(value)
}

func exec(rows driver.Rows, err error) (driver.Result, error) {
	if err != nil {
		return nil, err
	}
	return driver.ResultNoRows, rows.Close()
}

func run(ctx context.Context, args []driver.NamedValue, query func(...any) (*firn.Rows, error)) (driver.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	inOrder, byName := make([]any, 0, len(args)), firn.Named{}
	for _, arg := range args {
		if arg.Name == "" {
			inOrder = append(inOrder, arg.Value)
		} else {
			byName[arg.Name] = arg.Value
		}
	}
	if len(byName) > 0 {
		if len(inOrder) > 0 {
			return nil, errors.New("firnsql: arguments are in order or by name, not both")
		}
		inOrder = []any{byName}
	}
	found, err := query(inOrder...)
	if err != nil {
		return nil, err
	}
	return &rows{ctx, found}, nil
}

type rows struct {
	ctx  context.Context
	rows *firn.Rows
}

var _ driver.RowsColumnTypeDatabaseTypeName = (*rows)(nil)
var _ driver.RowsColumnTypeScanType = (*rows)(nil)

func (r *rows) Columns() []string {
	names := []string{}
	for _, column := range r.rows.Columns() {
		names = append(names, column.Name)
	}
	return names
}

func (r *rows) Close() error { return r.rows.Close() }

func (r *rows) Next(into []driver.Value) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	for at, value := range r.rows.Values() {
		into[at] = plain(value)
	}
	return nil
}

// plain converts a value to one that database/sql can store in variables of the usual types.
func plain(value any) driver.Value {
	switch v := value.(type) {
	case firn.UUID:
		return v.String()
	case netip.Addr:
		return v.String()
	case time.Duration:
		return int64(v)
	case fmt.Stringer:
		// A varint; a time.Time is a value of database/sql itself.
		if _, ok := value.(time.Time); !ok {
			return v.String()
		}
	}
	return value
}

func (r *rows) ColumnTypeDatabaseTypeName(at int) string {
	return strings.ToUpper(r.rows.Columns()[at].Type)
}

func (r *rows) ColumnTypeScanType(at int) reflect.Type {
	switch r.rows.Columns()[at].Type {
	case "tinyint", "smallint", "int", "bigint", "counter", "time":
		return reflect.TypeFor[int64]()
	case "float", "double":
		return reflect.TypeFor[float64]()
	case "boolean":
		return reflect.TypeFor[bool]()
	case "blob":
		return reflect.TypeFor[[]byte]()
	case "timestamp", "date":
		return reflect.TypeFor[time.Time]()
	case "text", "ascii", "varint", "decimal", "duration", "inet", "uuid", "timeuuid":
		return reflect.TypeFor[string]()
	default:
		return reflect.TypeFor[any]()
	}
}

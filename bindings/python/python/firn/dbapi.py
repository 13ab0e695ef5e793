"""DB-API 2.0 (PEP 249) over CQL.

    from firn import dbapi

    with dbapi.connect("music", keyspace="m") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT title FROM songs WHERE id = ?", (7,))
        print(cursor.fetchone())

firn.Values are `?` with a sequence of values, or `:name` with a dict. CQL has no transactions: each
statement is durable by itself, `commit` does nothing, and `rollback` raises `NotSupportedError`. A
write reports no number of rows: `rowcount` is -1. Threads may share connections, not cursors.
"""

from __future__ import annotations

import datetime
from collections import deque
from types import TracebackType
from typing import (
    Any,
    Callable,
    Deque,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
)

import firn

apilevel = "2.0"
threadsafety = 2
paramstyle = "qmark"

Column = Tuple[str, str, None, None, None, None, None]
T = TypeVar("T")


class Warning(Exception):  # noqa: A001, N818 (the name of the standard)
    """Required by the standard; never raised."""


class Error(Exception):
    """Base class of errors. `__cause__` is Firn's exception, if there is one."""


class InterfaceError(Error):
    """A closed connection or cursor was used, or one without a result."""


class DatabaseError(Error):
    """An error of the database, such as damaged files."""


class DataError(DatabaseError):
    """A value cannot be processed."""


class OperationalError(DatabaseError):
    """The store cannot be used now: it is locked or missing, or the device is full."""


class IntegrityError(DatabaseError):
    """Required by the standard; never raised, because CQL has no constraints to violate."""


class InternalError(DatabaseError):
    """The database failed in an unexpected way."""


class ProgrammingError(DatabaseError):
    """The statement or its parameters are invalid."""


class NotSupportedError(DatabaseError):
    """The operation is not supported."""


# The first class that fits is used.
_CLASSES: Tuple[Tuple[Type[BaseException], Type[Error]], ...] = (
    (firn.ClosedError, InterfaceError),
    (firn.CorruptionError, DatabaseError),
    (firn.IncompatibleError, NotSupportedError),
    (firn.InvalidArgumentError, ProgrammingError),
    (firn.FunctionFailure, DataError),
    (firn.ServerError, InternalError),
    (firn.CqlError, ProgrammingError),
    (firn.Error, OperationalError),
    (TypeError, ProgrammingError),
    (ValueError, DataError),
    (OverflowError, DataError),
)


def _call(function: Callable[..., T], *args: Any, **options: Any) -> T:
    """Call Firn, with exceptions of this module."""
    try:
        return function(*args, **options)
    except tuple(theirs for theirs, _ in _CLASSES) as e:
        ours = next(ours for theirs, ours in _CLASSES if isinstance(e, theirs))
        raise ours(str(e)) from e


class TypeObject:
    """A group of CQL types: equal to the `type_code` of their columns."""

    def __init__(self, name: str, *types: str) -> None:
        self.name = name
        self.types: FrozenSet[str] = frozenset(types)

    def __eq__(self, other: object) -> bool:
        return other in self.types if isinstance(other, str) else self is other

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


STRING = TypeObject("STRING", "ascii", "text", "varchar", "inet", "uuid", "timeuuid", "duration")
BINARY = TypeObject("BINARY", "blob")
NUMBER = TypeObject(
    "NUMBER",
    *("tinyint", "smallint", "int", "bigint", "varint", "counter", "float", "double", "decimal", "boolean"),
)
DATETIME = TypeObject("DATETIME", "timestamp", "date", "time")
ROWID = TypeObject("ROWID")

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802
    """Return the moment this number of seconds after 1970, in UTC."""
    return datetime.datetime.fromtimestamp(ticks, datetime.timezone.utc)


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802
    """Return the date of a moment, in UTC."""
    return TimestampFromTicks(ticks).date()


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802
    """Return the time of day of a moment, in UTC."""
    return TimestampFromTicks(ticks).time()


def connect(path: Optional[Any] = None, keyspace: Optional[str] = None, **options: Any) -> Connection:
    """Open the database in a directory, or an empty one in memory without a path.

    A keyspace is used if it exists. Options are those of `firn.Session`. One process has a
    directory open once: for a second connection to the same database use `Connection.clone`.
    """
    if path is None or path == ":memory:":
        session = _call(firn.Session.in_memory, **options)
    else:
        session = _call(firn.Session, path, **options)
    connection = Connection(session)
    if keyspace is not None:
        try:
            quoted = keyspace.replace('"', '""')
            _call(session.execute, f'USE "{quoted}"')
        except Error:
            connection.close()
            raise
    return connection


class Connection:
    """A connection to a database. The end of a `with` block closes it."""

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, session: firn.Session) -> None:
        self._session: Optional[firn.Session] = session

    @property
    def session(self) -> firn.Session:
        """The session below, for calls that the standard does not have."""
        if self._session is None:
            raise InterfaceError("the connection is closed")
        return self._session

    def clone(self) -> Connection:
        """Return another connection to the same database. Closing one closes both."""
        return Connection(_call(self.session.clone))

    def cursor(self) -> Cursor:
        """Return a new cursor."""
        return Cursor(self, self.session)

    def commit(self) -> None:
        """Do nothing: each statement is committed when `execute` returns."""
        self.session  # noqa: B018 (raises if the connection is closed)

    def rollback(self) -> None:
        """Raise `NotSupportedError`: CQL has no transactions."""
        self.session  # noqa: B018
        raise NotSupportedError("CQL has no transactions: a statement cannot be rolled back")

    def close(self) -> None:
        """Close the database: all writes are durable afterwards."""
        session = self.session
        self._session = None
        _call(session.close)

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._session is not None:
            self.close()


# Rows that a cursor fetches at once.
_FETCH = 256


class Cursor:
    """A cursor. It fetches the rows of a result page by page; a new result replaces the old one."""

    def __init__(self, connection: Connection, session: firn.Session) -> None:
        self.connection = connection
        self.arraysize = 1
        self.rowcount = -1
        self.lastrowid: None = None
        self.description: Optional[List[Column]] = None
        self._session: Optional[firn.Session] = session
        self._rows: Optional[firn.Rows] = None
        self._ready: Deque[Tuple[Any, ...]] = deque()

    def _open(self) -> firn.Session:
        self.connection.session  # noqa: B018 (raises if the connection is closed)
        if self._session is None:
            raise InterfaceError("the cursor is closed")
        return self._session

    def _result(self) -> firn.Rows:
        self._open()
        if self._rows is None or self.description is None:
            raise ProgrammingError("the cursor has no result: execute a statement that returns rows")
        return self._rows

    def _forget(self) -> None:
        self.description = None
        self._rows = None
        self._ready.clear()

    def execute(self, operation: str, parameters: Optional[firn.Values] = None) -> Cursor:
        """Execute a statement, and return the cursor."""
        session = self._open()
        self._forget()
        self._rows = rows = _call(session.execute, operation, parameters)
        if rows.columns:
            self.description = [
                (name, of, None, None, None, None, None) for name, of in zip(rows.columns, rows.types)
            ]
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[firn.Values]) -> Cursor:
        """Execute a statement once for each of the parameters; results are dropped."""
        session = self._open()
        self._forget()
        statement = _call(session.prepare, operation)
        for parameters in seq_of_parameters:
            _call(statement, parameters)
        return self

    def _fetch(self, count: int) -> None:
        """Fetch until this number of rows is ready, or all are."""
        rows = self._result()
        while len(self._ready) < count:
            more = _call(rows.take, min(count - len(self._ready), _FETCH))
            if not more:
                break
            self._ready.extend(map(tuple, more))

    def fetchone(self) -> Optional[Tuple[Any, ...]]:
        """Return the next row, or None."""
        rows = self._result()
        if not self._ready:
            row = _call(rows.one)
            return None if row is None else tuple(row)
        return self._ready.popleft()

    def fetchmany(self, size: Optional[int] = None) -> List[Tuple[Any, ...]]:
        """Return the next rows, `arraysize` of them by default."""
        size = self.arraysize if size is None else size
        self._fetch(size)
        return [self._ready.popleft() for _ in range(min(size, len(self._ready)))]

    def fetchall(self) -> List[Tuple[Any, ...]]:
        """Return all remaining rows."""
        rows = self._result()
        out = list(self._ready)
        self._ready.clear()
        while True:
            more = _call(rows.take, _FETCH)
            if not more:
                return out
            out.extend(map(tuple, more))

    def __iter__(self) -> Iterator[Tuple[Any, ...]]:
        return self

    def __next__(self) -> Tuple[Any, ...]:
        if not self._ready:
            self._fetch(_FETCH)
        if not self._ready:
            raise StopIteration
        return self._ready.popleft()

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Do nothing, as the standard permits."""

    def setoutputsize(self, size: int, column: Optional[int] = None) -> None:
        """Do nothing, as the standard permits."""

    def close(self) -> None:
        """Drop the result; the cursor cannot be used any more."""
        self._open()
        self._forget()
        self._session = None

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._session is not None and self.connection._session is not None:
            self.close()

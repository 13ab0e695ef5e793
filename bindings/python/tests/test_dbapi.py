"""DB-API 2.0, along PEP 249."""

import datetime
import threading

import pytest

import firn
from firn import dbapi

KEYSPACE = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"


@pytest.fixture
def connection():
    with dbapi.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(KEYSPACE)
        cursor.execute("USE k")
        cursor.execute("CREATE TABLE songs (id int PRIMARY KEY, title text, plays bigint, cover blob, at timestamp)")
        yield connection


def test_the_module_says_what_it_is():
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    for name in ("InterfaceError", "DatabaseError"):
        assert issubclass(getattr(dbapi, name), dbapi.Error)
    for name in ("Data", "Operational", "Integrity", "Internal", "Programming", "NotSupported"):
        assert issubclass(getattr(dbapi, f"{name}Error"), dbapi.DatabaseError)
        assert getattr(dbapi.Connection, f"{name}Error") is getattr(dbapi, f"{name}Error")
    assert not issubclass(dbapi.Warning, dbapi.Error)


def test_rows_are_fetched(connection):
    cursor = connection.cursor()
    assert cursor.executemany("INSERT INTO songs (id, title) VALUES (?, ?)", [(n, f"t{n}") for n in range(1000)]) is cursor
    assert cursor.rowcount == -1 and cursor.description is None
    cursor.execute("SELECT id FROM songs WHERE id = ?", (7,))
    assert cursor.fetchone() == (7,) and cursor.fetchone() is None and cursor.fetchall() == []
    cursor.execute("SELECT title FROM songs WHERE id = :id", {"id": 8})
    assert cursor.fetchone() == ("t8",)
    cursor.execute("SELECT id FROM songs")
    first = cursor.fetchone()
    assert type(first) is tuple
    assert len(cursor.fetchmany()) == 1 and len(cursor.fetchmany(500)) == 500
    assert next(cursor) and len(list(cursor)) == 497 and cursor.fetchmany(3) == []
    cursor.arraysize = 600
    cursor.execute("SELECT id FROM songs")
    rows = cursor.fetchmany() + cursor.fetchall()
    assert sorted(rows) == [(n,) for n in range(1000)]


def test_columns_have_types(connection):
    cursor = connection.cursor()
    cursor.execute("SELECT id, title, plays, cover, at FROM songs")
    assert [column[0] for column in cursor.description] == ["id", "title", "plays", "cover", "at"]
    kinds = [dbapi.NUMBER, dbapi.STRING, dbapi.NUMBER, dbapi.BINARY, dbapi.DATETIME]
    for column, kind in zip(cursor.description, kinds):
        assert len(column) == 7 and column[1] == kind and kind == column[1] and column[1] != dbapi.ROWID
    assert [column[1] for column in cursor.description][:2] == ["int", "text"]
    assert dbapi.NUMBER != dbapi.STRING and len({dbapi.NUMBER, dbapi.STRING}) == 2


def test_constructors_make_values_that_can_be_bound(connection):
    cursor = connection.cursor()
    at = dbapi.TimestampFromTicks(86_399.5)
    assert at == datetime.datetime(1970, 1, 1, 23, 59, 59, 500_000, datetime.timezone.utc)
    cursor.execute("INSERT INTO songs (id, cover, at) VALUES (?, ?, ?)", (1, dbapi.Binary(b"\0"), at))
    cursor.execute("SELECT cover, at FROM songs")
    assert cursor.fetchone() == (b"\0", at)
    assert dbapi.DateFromTicks(86_400) == dbapi.Date(1970, 1, 2)
    assert dbapi.TimeFromTicks(86_401) == dbapi.Time(0, 0, 1)
    assert dbapi.Timestamp(2000, 1, 1).year == 2000
    cursor.setinputsizes([None])
    cursor.setoutputsize(10)


def test_errors_have_the_classes_of_the_standard(connection, tmp_path):
    cursor = connection.cursor()

    def fails(kind, cause, *args):
        with pytest.raises(dbapi.Error) as raised:
            cursor.execute(*args)
        assert type(raised.value) is kind and isinstance(raised.value.__cause__, cause)

    fails(dbapi.ProgrammingError, firn.SyntaxException, "SELEC")
    fails(dbapi.ProgrammingError, firn.InvalidRequest, "SELECT x FROM songs")
    fails(dbapi.ProgrammingError, firn.AlreadyExists, KEYSPACE)
    fails(dbapi.ProgrammingError, TypeError, "SELECT id FROM songs WHERE id = ?", (object(),))
    with pytest.raises(dbapi.OperationalError) as raised:
        dbapi.connect(tmp_path / "none", create=False)
    assert isinstance(raised.value.__cause__, firn.NotFoundError)
    with dbapi.connect(tmp_path / "db"):
        with pytest.raises(dbapi.OperationalError):
            dbapi.connect(tmp_path / "db")
    # A keyspace that does not exist closes the database again.
    for _ in range(2):
        with pytest.raises(dbapi.ProgrammingError):
            dbapi.connect(tmp_path / "db", keyspace='a"b')
    for call in (cursor.fetchone, cursor.fetchall, cursor.fetchmany, lambda: next(cursor)):
        with pytest.raises(dbapi.ProgrammingError, match="no result"):
            call()
    with pytest.raises(dbapi.ProgrammingError):
        dbapi.connect(create=False)


def test_statements_cannot_be_rolled_back(connection):
    connection.commit()
    with pytest.raises(dbapi.NotSupportedError):
        connection.rollback()


def test_closed_objects_are_refused(tmp_path):
    with dbapi.connect(tmp_path / "db") as connection:
        connection.cursor().execute(KEYSPACE)
        connection.cursor().execute("CREATE TABLE k.t (id int PRIMARY KEY)")
        with connection.cursor() as cursor:
            cursor.execute("SELECT release_version FROM system.local")
        for call in (cursor.close, cursor.fetchone, lambda: cursor.execute("USE k")):
            with pytest.raises(dbapi.InterfaceError):
                call()
        other = connection.clone()
        cursor = connection.cursor()
    for call in (connection.close, connection.commit, connection.rollback, connection.cursor, cursor.fetchone):
        with pytest.raises(dbapi.InterfaceError):
            call()
    with pytest.raises(dbapi.InterfaceError):
        other.cursor().execute("SELECT id FROM k.t")
    with dbapi.connect(tmp_path / "db", keyspace="k", durability="power") as connection:
        assert connection.session.keyspace == "k"


def test_threads_share_a_connection(connection):
    def work(first):
        cursor = connection.cursor()
        for n in range(first, first + 50):
            cursor.execute("INSERT INTO songs (id, plays) VALUES (?, ?)", (n, n))

    threads = [threading.Thread(target=work, args=(n * 50,)) for n in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    cursor = connection.cursor()
    cursor.execute("SELECT count(*) FROM songs")
    assert cursor.fetchone() == (200,)

"""CQL with Python's values."""

import datetime
import decimal
import ipaddress
import time
import uuid

import pytest

import firn

UTC = datetime.timezone.utc


@pytest.fixture
def session():
    session = firn.Session.in_memory()
    session.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute("USE k")
    return session


@pytest.mark.parametrize(
    "of, value",
    [
        ("tinyint", -7),
        ("bigint", 1 << 60),
        ("varint", -(1 << 100)),
        ("double", 0.1),
        ("float", 2.5),
        ("decimal", decimal.Decimal("1.50")),
        ("decimal", decimal.Decimal("-1E+30")),
        ("text", "käse"),
        ("blob", b"\x00\xff"),
        ("boolean", True),
        ("uuid", uuid.UUID(int=7 << 64)),
        ("inet", ipaddress.ip_address("10.1.2.3")),
        ("inet", ipaddress.ip_address("fe80::1")),
        ("timestamp", datetime.datetime(2011, 3, 13, 7, 6, 41, 123000, UTC)),
        ("timestamp", datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
        ("date", datetime.date(1960, 2, 29)),
        ("time", datetime.time(23, 59, 58, 7)),
        ("duration", "1mo2d"),
        ("list<int>", [3, 1, 3]),
        ("vector<float, 2>", [1.5, -2.0]),
        ("set<text>", {"a", "b"}),
        ("map<text, int>", {"a": 1}),
        ("map<frozen<list<int>>, int>", {(1, 2): 1}),
        ("set<frozen<set<int>>>", {frozenset({1, 2})}),
        ("tuple<int, text>", (1, None)),
        ("frozen<place>", {"x": 1, "y": None}),
        ("list<frozen<place>>", [{"x": 1, "y": "z"}]),
        ("int", None),
        ("map<frozen<place>, int>", {(("x", 1), ("y", None)): 2}),
        ("set<frozen<map<text, int>>>", {(("a", 1), ("b", 2)), ()}),
        ("map<frozen<map<int, frozen<list<frozen<place>>>>>, text>", {((7, ((("x", 1), ("y", "z")),)),): "v"}),
        ("timestamp", (1 << 63) - 1),
        ("timestamp", -62_135_596_800_001),
        ("timestamp", datetime.datetime(1, 1, 1, tzinfo=UTC)),
        ("timestamp", 253_402_300_800_000),
        ("timestamp", datetime.datetime(9999, 12, 31, 23, 59, 59, 999000, UTC)),
        ("date", -(1 << 31)),
        ("date", -719_163),
        ("date", datetime.date.min),
        ("date", datetime.date.max),
        ("date", (1 << 31) - 1),
        ("time", 86_400_000_000_000),
        ("time", -1),
        ("set<timestamp>", {datetime.datetime(2011, 3, 13, tzinfo=UTC), 1 << 62}),
    ],
)
def test_values_come_back_as_they_were_bound(session, of, value):
    session.execute("CREATE TYPE place (x int, y text)")
    session.execute(f"CREATE TABLE t (k int PRIMARY KEY, v {of})")
    session.execute("INSERT INTO t (k, v) VALUES (?, ?)", (1, value))
    found = session.execute("SELECT v FROM t").one().v
    assert found == value and type(found) is type(value)


def test_what_can_be_bound_beside_that(session):
    session.execute("CREATE TABLE t (k int PRIMARY KEY, ts timestamp, d double, s set<int>, dec decimal, c uuid)")
    naive = datetime.datetime(2020, 1, 1)
    session.execute("INSERT INTO t (k, ts, d, s, dec) VALUES (?, ?, ?, ?, ?)", [1, naive, 3, [2, 1, 2], 5])
    row = session.execute("SELECT ts, d, s, dec FROM t").one()
    assert tuple(row) == (naive.replace(tzinfo=UTC), 3.0, {1, 2}, decimal.Decimal(5))
    session.execute("INSERT INTO t (k, ts, d, dec) VALUES (?, ?, ?, ?)", [1, 86_400_000, 1 << 64, -(1 << 70)])
    row = session.execute("SELECT ts, d, dec FROM t").one()
    assert tuple(row) == (datetime.datetime(1970, 1, 2, tzinfo=UTC), 2.0**64, decimal.Decimal(-(1 << 70)))
    with pytest.raises(firn.InvalidRequest, match="too great for double"):
        session.execute("INSERT INTO t (k, d) VALUES (?, ?)", [1, 10**400])


def test_numbers_that_no_timestamp_or_date_can_be_are_refused(session):
    session.execute("CREATE TABLE t (k int PRIMARY KEY, ts timestamp, d date)")
    for values in ({"ts": 1 << 63}, {"d": 1 << 31}, {"d": (1 << 63) - 1}, {"d": -(1 << 63)}, {"d": 1 << 70}):
        with pytest.raises(firn.InvalidRequest):
            session.execute("INSERT INTO t (k, ts, d) VALUES (:k, :ts, :d)", {"k": 1, **values})


def test_databases_in_memory_have_the_time_of_day_and_chance():
    seen = set()
    for _ in range(2):
        session = firn.Session.in_memory()
        session.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE k.t (id uuid PRIMARY KEY, at timestamp)")
        session.execute("INSERT INTO k.t (id, at) VALUES (uuid(), toTimestamp(now()))")
        row = session.execute("SELECT id, at, writetime(at) AS written FROM k.t").one()
        seen.add(row.id)
        assert row.at.year >= 2025 and row.written // 1_000_000 > 1_735_689_600
    assert len(seen) == 2
    session.execute("INSERT INTO k.t (id, at) VALUES (uuid(), 0) USING TTL 1")
    # TTLs use the engine's clock, so real time has to pass.
    time.sleep(1.1)
    assert [tuple(row) for row in session.execute("SELECT id FROM k.t")] == [(row.id,)]


def test_no_values_are_as_good_as_none(session):
    for none in (None, (), [], {}):
        session.execute("USE k", none)
        session.execute("CREATE TABLE IF NOT EXISTS t (k int PRIMARY KEY, v int)", none)
        session.execute("INSERT INTO t (k) VALUES (1)", none)
        assert session.execute("SELECT k FROM t", none).one().k == 1
    for none in (None, (), []):
        with pytest.raises(firn.InvalidRequest, match="1 is wanted, v int, and 0 came"):
            session.execute("UPDATE t SET v = :v WHERE k = 1", none)
    session.execute("UPDATE t SET v = :v WHERE k = 1", {})


def test_pairs_are_taken_for_maps_and_user_types_only_where_they_are_pairs(session):
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v map<text, int>)")
    session.execute("INSERT INTO t (k, v) VALUES (?, ?)", (1, [("a", 1)]))
    assert session.execute("SELECT v FROM t").one().v == {"a": 1}
    for wrong in (["a"], [("a",)], [("a", 1, 2)], "ab", {"a"}):
        with pytest.raises((TypeError, firn.InvalidRequest)):
            session.execute("INSERT INTO t (k, v) VALUES (?, ?)", (1, wrong))


def test_rows_are_read_by_name_and_place(session):
    session.execute("CREATE TABLE t (k int PRIMARY KEY, title text)")
    session.execute("INSERT INTO t (k, title) VALUES (:k, :title)", {"title": "Hurt", "k": 1})
    rows = session.execute("SELECT * FROM t")
    assert rows.columns == ["k", "title"]
    (row,) = rows
    assert (row.k, row["title"], row[-1]) == (1, "Hurt", "Hurt")
    assert len(row) == 2 and row == (1, "Hurt") and dict(zip(row.keys(), row)) == {"k": 1, "title": "Hurt"}
    assert repr(row) == "Row(k=1, title='Hurt')"
    with pytest.raises(KeyError):
        row["none"]
    with pytest.raises(IndexError):
        row[2]
    with pytest.raises(AttributeError):
        row.none
    # Omitted columns do not change.
    session.execute("INSERT INTO t (k, title) VALUES (:k, :title)", {"k": 1})
    assert session.execute("SELECT title FROM t").one().title == "Hurt"
    assert session.execute("SELECT * FROM t WHERE k = 9").one() is None


def test_rows_come_page_by_page(session):
    session.execute("CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))")
    insert = session.prepare("INSERT INTO t (k, c) VALUES (?, ?)")
    assert insert.markers == [("k", "int"), ("c", "int")]
    for c in range(100):
        insert((1, c))
    rows = session.execute("SELECT c FROM t WHERE k = ?", (1,), page_size=7)
    assert next(rows).c == 0
    session.execute("DELETE FROM t WHERE k = 1 AND c = 99")
    session.execute("INSERT INTO t (k, c) VALUES (1, 200)")
    assert [row.c for row in rows] == [*range(1, 99), 200]
    assert session.execute("SELECT count(*) FROM t").one()[0] == 100


def test_errors_say_what_would_do(session):
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v int)")
    with pytest.raises(firn.SyntaxException, match="line 1:1"):
        session.execute("SELEC * FROM t")
    with pytest.raises(firn.InvalidRequest, match=r"CREATE INDEX ON k.t \(v\)"):
        session.execute("SELECT * FROM t WHERE v = ?", (1,))
    with pytest.raises(firn.InvalidRequest, match="2 are wanted, k int, v int, and 3 came"):
        session.execute("INSERT INTO t (k, v) VALUES (?, ?)", (1, 2, 3))
    with pytest.raises(firn.InvalidRequest, match="bind marker 2, v int"):
        session.execute("INSERT INTO t (k, v) VALUES (?, ?)", (1, "x"))
    with pytest.raises(firn.InvalidRequest, match="no bind marker :x"):
        session.execute("INSERT INTO t (k, v) VALUES (:k, :v)", {"x": object()})
    with pytest.raises(TypeError, match="a object can't be bound where int is wanted"):
        session.execute("INSERT INTO t (k, v) VALUES (?, ?)", (1, object()))
    with pytest.raises(firn.AlreadyExists):
        session.execute("CREATE TABLE t (k int PRIMARY KEY)")


def test_sessions_have_their_keyspaces_and_close(tmp_path, session):
    other = session.clone()
    assert (session.keyspace, other.keyspace) == ("k", "k")
    with firn.Session(tmp_path / "db") as kept:
        kept.execute("CREATE KEYSPACE x WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        kept.execute("USE x")
        assert kept.keyspace == "x"
    with pytest.raises(firn.ClosedError):
        kept.execute("USE x")
    with firn.Session(tmp_path / "db", create=False) as kept:
        names = [row[0] for row in kept.execute("DESCRIBE KEYSPACES")]
        assert [name for name in names if not name.startswith("system")] == ["x"]

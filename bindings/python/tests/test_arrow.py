"""Results as Arrow tables and data frames. Without pyarrow only the message about it is tested."""

import datetime
import decimal
import ipaddress
import subprocess
import sys
import uuid

import pytest

import firn

UTC = datetime.timezone.utc


@pytest.fixture
def session():
    session = firn.Session.in_memory()
    session.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute("USE k")
    session.execute("CREATE TYPE place (x int, y text)")
    return session


def arrow():
    return pytest.importorskip("pyarrow")


# The CQL type, the Arrow type, the bound value, and the value that Arrow returns where it differs.
TYPES = [
    ("ascii", "string", "a", ...),
    ("bigint", "int64", 1 << 60, ...),
    ("blob", "binary", b"\x00\xff", ...),
    ("boolean", "bool", True, ...),
    ("date", "date32[day]", datetime.date(1960, 2, 29), ...),
    ("decimal", "decimal128(38, 10)", decimal.Decimal("-1.5"), ...),
    ("decimal", "decimal128(38, 10)", decimal.Decimal("12E+3"), decimal.Decimal(12000)),
    ("double", "double", 0.1, ...),
    ("duration", "month_day_nano_interval", "1mo2d3ns", (1, 2, 3)),
    ("float", "float", 2.5, ...),
    ("inet", "string", ipaddress.ip_address("10.1.2.3"), "10.1.2.3"),
    ("inet", "string", ipaddress.ip_address("fe80::1"), "fe80::1"),
    ("int", "int32", -7, ...),
    ("smallint", "int16", -3, ...),
    ("text", "string", "käse", ...),
    ("time", "time64[ns]", datetime.time(23, 59, 58, 7), ...),
    ("timestamp", "timestamp[ms, tz=UTC]", datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, UTC), ...),
    ("timeuuid", "extension<arrow.uuid>", uuid.uuid1(), ...),
    ("tinyint", "int8", 5, ...),
    ("uuid", "extension<arrow.uuid>", uuid.UUID(int=7 << 64), ...),
    ("varint", "decimal128(38, 0)", -(1 << 100), decimal.Decimal(-(1 << 100))),
    ("varint", "decimal128(38, 0)", 10**38 - 1, decimal.Decimal(10**38 - 1)),
    ("list<int>", "list<item: int32>", [3, 1, 3], ...),
    ("set<text>", "list<item: string>", {"b", "a"}, ["a", "b"]),
    ("map<text, int>", "map<string, int32>", {"a": 1}, [("a", 1)]),
    ("tuple<int, text>", "struct<0: int32, 1: string>", (1, None), {"0": 1, "1": None}),
    ("frozen<place>", "struct<x: int32, y: string>", {"x": 1, "y": None}, ...),
    ("vector<float, 2>", "fixed_size_list<item: float>[2]", [1.5, -2.0], ...),
    ("list<frozen<list<uuid>>>", None, [[uuid.UUID(int=1)], []], ...),
    (
        "map<int, frozen<list<frozen<place>>>>",
        "map<int32, list<item: struct<x: int32, y: string>>>",
        {7: [{"x": 1, "y": "z"}]},
        [(7, [{"x": 1, "y": "z"}])],
    ),
]


@pytest.mark.parametrize("of, column, value, read", TYPES)
def test_every_type_has_a_column(session, of, column, value, read):
    arrow()
    session.execute(f"CREATE TABLE t (k int PRIMARY KEY, v {of})")
    session.execute("INSERT INTO t (k, v) VALUES (?, ?)", (1, value))
    # Null, before and after values.
    session.execute("INSERT INTO t (k) VALUES (2)")
    session.execute("INSERT INTO t (k, v) VALUES (?, ?)", (3, value))
    table = session.execute("SELECT k, v FROM t").to_arrow()
    table.validate(full=True)
    assert table.schema.names == ["k", "v"] and column in (None, str(table.schema.field("v").type))
    read = value if read is ... else read
    assert {row["k"]: row["v"] for row in table.to_pylist()} == {1: read, 2: None, 3: read}


def test_counters_and_empty_values(session):
    arrow()
    session.execute("CREATE TABLE c (k int PRIMARY KEY, n counter)")
    session.execute("UPDATE c SET n = n + 3 WHERE k = 1")
    assert session.execute("SELECT n FROM c").to_arrow().to_pydict() == {"n": [3]}
    session.execute("CREATE TABLE e (k int PRIMARY KEY, v int, t text)")
    session.execute("INSERT INTO e (k, v, t) VALUES (1, blobAsInt(0x), '')")
    assert session.execute("SELECT v, t FROM e").to_arrow().to_pydict() == {"v": [None], "t": [""]}


def test_numbers_that_do_not_fit_are_refused(session):
    arrow()
    session.execute("CREATE TABLE t (k int PRIMARY KEY, d decimal, n varint)")
    for column, value in (("d", decimal.Decimal("1E-11")), ("d", decimal.Decimal("1E+30")), ("n", 10**38), ("n", -(1 << 200))):
        session.execute("TRUNCATE t")
        session.execute(f"INSERT INTO t (k, {column}) VALUES (?, ?)", (1, value))
        rows = session.execute("SELECT * FROM t")
        with pytest.raises(firn.InvalidRequest, match=f"column {column} of type .*: .* decimal_scale"):
            rows.to_arrow()
    session.execute("INSERT INTO t (k, d) VALUES (1, 1E-11)")
    session.execute("DELETE n FROM t WHERE k = 1")
    assert session.execute("SELECT d FROM t").to_arrow(decimal_scale=11).to_pydict() == {"d": [decimal.Decimal("1E-11")]}
    for scale in (-1, 39):
        with pytest.raises(ValueError):
            session.execute("SELECT d FROM t").to_arrow(decimal_scale=scale)


def test_batches_are_bounded_and_read_as_needed(session):
    pa = arrow()
    session.execute("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))")
    insert = session.prepare("INSERT INTO t (k, c, v) VALUES (1, ?, 'x')")
    for c in range(20_000):
        insert((c,))
    reader = session.execute("SELECT c FROM t").to_arrow_batches()
    assert isinstance(reader, pa.RecordBatchReader) and reader.schema.names == ["c"]
    assert [batch.num_rows for batch in reader] == [16_384, 3_616]
    rows = session.execute("SELECT c FROM t")
    assert next(rows).c == 0
    # The remaining rows, by the protocol that other libraries use.
    assert pa.table(rows).column("c").to_pylist() == list(range(1, 20_000)) and rows.one() is None
    session.execute("CREATE TABLE b (k int PRIMARY KEY, v blob)")
    for k in range(6):
        session.execute("INSERT INTO b (k, v) VALUES (?, ?)", (k, bytes(6 << 20)))
    reader = session.execute("SELECT v FROM b", page_size=1).to_arrow_batches()
    assert [batch.num_rows for batch in reader] == [3, 3]


def test_nulls_in_the_place_of_vectors_are_bounded(session):
    arrow()
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v vector<float, 60000>, w vector<float, 2000000000>)")
    for k in range(100):
        session.execute("INSERT INTO t (k) VALUES (?)", (k,))
    reader = session.execute("SELECT v, w FROM t").to_arrow_batches()
    assert str(reader.schema.field("v").type).endswith("[60000]") and str(reader.schema.field("w").type) == "binary"
    rows = [batch.num_rows for batch in reader]
    assert sum(rows) == 100 and max(rows) == 35
    session.execute("CREATE TABLE d (k int PRIMARY KEY, v frozen<list<frozen<tuple<int, vector<float, 60000>>>>>)")
    session.execute("INSERT INTO d (k, v) VALUES (1, ?)", ([(1, None)] * 500,))
    assert session.execute("SELECT v FROM d").to_arrow().num_rows == 1
    session.execute("INSERT INTO d (k, v) VALUES (1, ?)", ([(1, None)] * 600,))
    with pytest.raises(firn.InvalidRequest, match="take more than 268435456 bytes"):
        session.execute("SELECT v FROM d").to_arrow()


def test_errors_while_reading_are_of_firn(session):
    pa = arrow()
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v int)")
    for k in range(10):
        session.execute("INSERT INTO t (k, v) VALUES (?, ?)", (k, k))
    rows = session.execute("SELECT * FROM t", page_size=2)
    other = session.execute("SELECT * FROM t", page_size=2)
    session.execute("ALTER TABLE t ADD w int")
    with pytest.raises(firn.InvalidRequest, match="columns of the table have changed"):
        rows.to_arrow()
    with pytest.raises(pa.ArrowInvalid, match="columns of the table have changed"):
        pa.table(other)


def test_results_without_rows(session):
    arrow()
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v list<int>)")
    table = session.execute("SELECT v FROM t").to_arrow()
    assert table.num_rows == 0 and str(table.schema.field("v").type) == "list<item: int32>"
    assert session.execute("INSERT INTO t (k) VALUES (1)").to_arrow().num_columns == 0


def test_trees_have_columns_of_keys_and_values():
    pa = arrow()
    db = firn.Db.in_memory()
    tree = db.tree("t")
    tree.update((b"%05d" % n, b"v") for n in range(20_000))
    table = tree[b"00010":b"00012"].to_arrow()
    assert table.to_pydict() == {"key": [b"00010", b"00011"], "value": [b"v", b"v"]}
    assert str(table.schema.field("key").type) == "binary"
    with db.snapshot() as before:
        tree.clear()
        assert [batch.num_rows for batch in before[tree].to_arrow_batches()] == [16_384, 3_616]
        assert pa.table(before[tree]).num_rows == 20_000
    with db.transaction() as tx:
        tx[tree][b"a"] = b"b"
        assert tx[tree].to_arrow().to_pydict() == {"key": [b"a"], "value": [b"b"]}
    with pytest.raises(firn.ClosedError):
        before[tree].to_arrow()


def test_rows_are_a_data_frame(session):
    arrow()
    pandas = pytest.importorskip("pandas")
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v double, at timestamp)")
    for k in range(100):
        session.execute("INSERT INTO t (k, v, at) VALUES (?, ?, ?)", (k, k / 2, k * 1000))
    frame = session.execute("SELECT * FROM t").to_pandas().set_index("k").sort_index()
    assert isinstance(frame, pandas.DataFrame) and frame["v"].sum() == 2475.0
    assert frame["at"][3] == pandas.Timestamp(3, unit="s", tz="UTC")


def test_without_the_packages_the_error_names_the_extra(tmp_path):
    script = """
import sys
sys.modules["pyarrow"] = None
sys.modules["pandas"] = None
import firn
rows = lambda: firn.Session.in_memory().execute("SELECT key FROM system.local")
tree = firn.Db.in_memory().tree("t")
for call in (lambda: rows().to_arrow(), lambda: rows().to_arrow_batches(), lambda: rows().to_pandas(), tree.to_arrow):
    try:
        call()
    except ImportError as e:
        print(e.name, e)
assert rows().__arrow_c_stream__() is not None
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    extra = "pyarrow pyarrow is missing: pip install 'firn-db[arrow]'\n"
    frame = "pandas pandas is missing: pip install 'firn-db[pandas]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, extra * 2 + frame + extra, "")

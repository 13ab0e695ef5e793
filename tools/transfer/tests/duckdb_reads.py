"""Lets DuckDB and PyArrow read exported files, and compares all rows with those that were written.

    python duckdb_reads.py FIRN

FIRN is the command, built with the feature `transfer`. The rows are drawn at random, with the ends of
each type among them, and written as JSON of CQL.
"""

import datetime
import decimal
import ipaddress
import json
import math
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import uuid

import duckdb
import pyarrow
import pyarrow.ipc
import pyarrow.parquet

ROWS = 1500
DAY = datetime.date(1970, 1, 1)
TABLE = """CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
CREATE TYPE k.pair (a int, b text);
CREATE TABLE k.t (id int PRIMARY KEY, ti tinyint, si smallint, bi bigint, f float, d double, b boolean,
    t text, a ascii, bl blob, u uuid, ts timestamp, dt date, tm time, de decimal, vi varint, ip inet,
    l list<int>, s frozen<set<text>>, m map<text, frozen<list<bigint>>>, tu tuple<int, text>,
    p pair, v vector<float, 3>);
"""


def single(n):
    """Rounds to a 32-bit float."""
    return struct.unpack("f", struct.pack("f", n))[0]


def whole(rng, bits):
    ends = [-(2 ** (bits - 1)), -1, 0, 1, 2 ** (bits - 1) - 1]
    return rng.choice(ends) if rng.random() < 0.5 else rng.randrange(ends[0], ends[-1] + 1)


def text(rng):
    return rng.choice(["", "it's", "é🙂", "a,\"b\"\n", "\\N", "null", "x" * rng.randrange(300)])


def drawn(rng, number):
    """Returns a row as Python's values; None is null."""
    values = {
        "ti": whole(rng, 8),
        "si": whole(rng, 16),
        "bi": whole(rng, 64),
        "f": single(rng.choice([0.5, -0.0, 1e30, rng.uniform(-1, 1), math.inf, math.nan])),
        "d": rng.choice([0.1, 5e-324, 1.7e308, rng.uniform(-1e9, 1e9), -math.inf, math.nan]),
        "b": rng.random() < 0.5,
        "t": text(rng),
        "a": rng.choice(["", "ascii", "~"]),
        "bl": rng.randbytes(rng.randrange(20)),
        "u": uuid.UUID(int=rng.getrandbits(128), version=4),
        "ts": rng.choice([-1, 0, -62135596800000, rng.randrange(-10**12, 4 * 10**12)]),
        "dt": rng.choice([-1, 0, -700000, rng.randrange(-30000, 60000)]),
        "tm": rng.choice([0, 86399999999000, rng.randrange(86400 * 10**6) * 1000]),
        "de": decimal.Decimal(rng.randrange(-10**12, 10**12)).scaleb(-rng.randrange(6)),
        "vi": rng.choice([0, -1, rng.randrange(-10**30, 10**30)]),
        "ip": rng.choice(["127.0.0.1", "::1", str(ipaddress.IPv4Address(rng.getrandbits(32)))]),
        "l": [whole(rng, 32) for _ in range(rng.randrange(1, 5))],
        "s": sorted({text(rng) for _ in range(rng.randrange(4))}, key=lambda t: t.encode()),
        "m": {f"k{i}": [whole(rng, 64)] * i for i in range(rng.randrange(1, 4))},
        "tu": (whole(rng, 32), rng.choice([None, text(rng)])),
        "p": {"a": rng.choice([None, 7]), "b": text(rng)},
        "v": [single(rng.uniform(-9, 9)) for _ in range(3)],
    }
    row = {name: None if rng.random() < 0.15 else value for name, value in values.items()}
    return {"id": number, **row}


def as_json(row):
    """Returns a row as the JSON of CQL."""

    def value(name, v):
        if isinstance(v, float) and not math.isfinite(v):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(v)]
        if isinstance(v, bytes):
            return "0x" + v.hex()
        if isinstance(v, uuid.UUID):
            return str(v)
        if name == "dt":
            return str(DAY + datetime.timedelta(days=v)) if v > -719000 else v
        if name == "tm":
            return f"{v // 3600_000000000:02}:{v // 60_000000000 % 60:02}:{v // 10**9 % 60:02}.{v % 10**9:09}"
        return v

    # Decimals and varints keep their digits.
    numbers = {name: str(row[name]) for name in ("de", "vi") if row[name] is not None}
    rest = {name: value(name, v) for name, v in row.items() if v is not None and name not in numbers}
    parts = [f"{json.dumps(name)}: {json.dumps(v)}" for name, v in rest.items()]
    parts += [f'"{name}": {format(row[name], "f") if name == "de" else v}' for name, v in numbers.items()]
    return "{" + ", ".join(parts) + "}"


def same(name, wanted, found):
    if wanted is None or found is None:
        return wanted is None and found is None
    if isinstance(wanted, float):
        if math.isnan(wanted):
            return math.isnan(found)
        return struct.pack("d", wanted) == struct.pack("d", found)
    if name == "m":
        return wanted == dict(found)
    if name == "tu":
        return list(wanted) == list(found.values())
    if name == "u":
        return wanted == (found if isinstance(found, uuid.UUID) else uuid.UUID(bytes=found))
    if name == "v":
        return [single(x) for x in wanted] == [single(x) for x in found]
    if name in ("de", "vi"):
        return decimal.Decimal(wanted) == decimal.Decimal(found)
    return wanted == found


def compare(what, rows, found):
    found = {row["id"]: row for row in found}
    assert len(found) == len(rows), f"{what}: {len(found)} rows of {len(rows)}"
    for row in rows:
        for name, wanted in row.items():
            got = found[row["id"]][name]
            assert same(name, wanted, got), f"{what}: {row['id']}.{name}: {wanted!r} is read as {got!r}"
    print(f"{what}: {len(rows)} rows of {len(rows[0])} columns are equal")


def with_numbers(table):
    """Returns an Arrow table as rows, with dates and times as numbers."""
    for name, of in (("ts", "int64"), ("dt", "int32"), ("tm", "int64")):
        column = table[name].cast(of)
        table = table.set_column(table.column_names.index(name), name, column)
    return table.to_pylist()


def with_duckdb(query):
    """Runs DuckDB, with dates and times as numbers."""
    numbers = "epoch_ms(ts) AS ts, (dt - DATE '1970-01-01')::BIGINT AS dt, epoch_ns(tm) AS tm"
    result = duckdb.sql(f"SELECT * REPLACE ({numbers}) FROM {query}")
    return [dict(zip(result.columns, row)) for row in result.fetchall()]


def main(firn):
    firn = str(pathlib.Path(firn).resolve())
    with tempfile.TemporaryDirectory() as folder:
        run = lambda *args, db="db": subprocess.run([firn, "--db", db, *args], cwd=folder, check=True)
        rng = random.Random(1)
        rows = [drawn(rng, number) for number in range(ROWS)]
        inserts = [f"INSERT INTO k.t JSON '{as_json(row).replace(chr(39), chr(39) * 2)}';" for row in rows]
        (pathlib.Path(folder) / "rows.cql").write_text(TABLE + "\n".join(inserts))
        run("cql", "-f", "rows.cql")
        run("export", "--table", "k.t", "t.parquet")
        run("export", "--table", "k.t", "t.arrow", "--compression", "lz4")
        run("export", "--table", "k.t", "fixed.parquet", "--decimal-scale", "5")
        path = f"{folder}/t.parquet"
        compare("DuckDB, Parquet", rows, with_duckdb(f"'{path}'"))
        compare("DuckDB, decimals in Parquet", rows, with_duckdb(f"'{folder}/fixed.parquet'"))
        compare("PyArrow, Parquet", rows, with_numbers(pyarrow.parquet.read_table(path)))
        exported = pyarrow.ipc.open_file(f"{folder}/t.arrow").read_all()
        compare("PyArrow, Arrow", rows, with_numbers(exported))
        duckdb.register("exported", exported)
        compare("DuckDB, Arrow", rows, with_duckdb("exported"))
        # The way back: a file of DuckDB, whose timestamps have microseconds.
        duckdb.sql(f"COPY (SELECT * FROM '{path}') TO '{folder}/back.parquet' (FORMAT parquet)")
        run("import", "back.parquet", "--table", "k.t", "--create", "--key", "id", db="copy")
        run("export", "--table", "k.t", "again.parquet", db="copy")
        compare("DuckDB, its own file", rows, with_duckdb(f"'{folder}/again.parquet'"))


main(sys.argv[1])

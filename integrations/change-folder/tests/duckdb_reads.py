"""Lets DuckDB and PyArrow read a folder of changes, and compares the result with the writes.

    python duckdb_reads.py FIRN LAKE

FIRN is the command `firn`, and LAKE the example's program.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

import duckdb
import pyarrow.parquet

firn, lake = sys.argv[1:]
rng = random.Random(7)
state = {}
with tempfile.TemporaryDirectory() as scratch:
    store, folder = f"{scratch}/store", f"{scratch}/folder"
    for _ in range(3):
        for _ in range(10):
            key = f"k{rng.randrange(8)}"
            if key in state and rng.random() < 0.3:
                subprocess.run([firn, "--db", store, "delete", key], check=True)
                del state[key]
            else:
                state[key] = f"é {rng.random()}"
                subprocess.run([firn, "--db", store, "put", key, state[key]], check=True)
        subprocess.run([lake, store, folder], check=True)
    rows = duckdb.sql(
        f"""SELECT key, columns FROM '{folder}/*.parquet'
            QUALIFY row_number() OVER (PARTITION BY source, key ORDER BY seq DESC) = 1 AND op <> 'delete'"""
    ).fetchall()
    found = {json.loads(key)["key"]: json.loads(columns)["value"] for key, columns in rows}
    assert found == state, (found, state)
    files = sorted(pathlib.Path(folder).iterdir())
    assert len(files) == 3, files
    numbers = []
    for file in files:
        table = pyarrow.parquet.read_table(file)
        assert b"firn.position" in table.schema.metadata
        numbers += table.column("seq").to_pylist()
    assert numbers == sorted(numbers)
print(f"DuckDB and PyArrow agree: {len(found)} keys, {len(numbers)} events")

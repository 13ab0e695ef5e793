"""Lets DuckDB and PyArrow read a folder of changes that was written between kills.

    python duckdb_reads.py LAKE

LAKE is the example's program. It writes ascending numbers, which are changes of the tree `numbers`.
"""

import pathlib
import subprocess
import sys
import tempfile

import duckdb
import pyarrow.parquet

(lake,) = sys.argv[1:]
with tempfile.TemporaryDirectory() as scratch:
    store, folder = f"{scratch}/store", f"{scratch}/folder"
    for seed in range(1, 5):
        with subprocess.Popen([lake, store, folder, "churn", str(seed)], stdout=subprocess.PIPE) as churn:
            for _ in range(3 * seed):
                last = int(churn.stdout.readline())
            churn.kill()
    subprocess.run([lake, store, folder], check=True)
    files = f"'{folder}/*.parquet'"
    numbers = duckdb.sql(f"SELECT CAST(columns->>'$.value' AS BIGINT) FROM {files} ORDER BY seq, 1").fetchall()
    numbers = [number for (number,) in numbers]
    assert numbers == list(range(len(numbers))) and len(numbers) >= last, (len(numbers), last)
    state = f"""SELECT count(*) FROM (SELECT * FROM {files} WHERE source = 'numbers'
        QUALIFY row_number() OVER (PARTITION BY source, key ORDER BY seq DESC) = 1 AND op <> 'delete')"""
    assert duckdb.sql(state).fetchall() == [(len(numbers),)]
    paths = sorted(pathlib.Path(folder).iterdir())
    for path in paths:
        file = pyarrow.parquet.ParquetFile(path)
        position = file.metadata.metadata[b"firn.position"].decode()
        assert int(position.rpartition("-")[2]) == int(path.name[:20]), path
        assert all(seq <= int(path.name[:20]) for seq in file.read().column("seq").to_pylist()), path
print(f"DuckDB and PyArrow agree: {len(numbers)} changes in {len(paths)} files")

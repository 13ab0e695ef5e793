#!/usr/bin/env python3
"""Has a real node write the files that the tests read, and keeps what its own tools say of them.

  make.py HOST:PORT NODE-DATA OUT SSTABLEDUMP…

NODE-DATA is the node's data directory, on this machine. SSTABLEDUMP is the command of the node's
version, with its options; it is called once a file. OUT gets a folder for each table, with the
files of each version of it and `*.jsonl`, what `sstabledump -l -t` printed, and the answers of
SELECTs as `*.rows`. Needs the package cassandra-driver.
"""

import pathlib
import shutil
import subprocess
import sys
import time

from cassandra.cluster import Cluster

KEPT = ("Data.db", "Statistics.db", "CompressionInfo.db", "CRC.db", "Digest.crc32", "TOC.txt")


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    (host, port), data, out = sys.argv[1].split(":"), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    dump = sys.argv[4:]
    session = Cluster([host], port=int(port)).connect()
    session.default_timeout = 120
    session.execute("DROP KEYSPACE IF EXISTS look")
    script = pathlib.Path(__file__).with_name("tables.cql").read_text()
    statement = ""
    for line in script.splitlines():
        if line.startswith("-- FLUSH"):
            time.sleep(6)
        if line.startswith("--"):
            continue
        statement += line + "\n"
        if line.rstrip().endswith(";"):
            session.execute(statement)
            statement = ""
    time.sleep(8)
    tables = session.execute("SELECT table_name, id FROM system_schema.tables WHERE keyspace_name = 'look'")
    for table, number in sorted(tables):
        to = out / table
        to.mkdir(parents=True, exist_ok=True)
        found = data / "look" / f"{table}-{number.hex}"
        for file in sorted(found.glob("*-Data.db")):
            stem = file.name.removesuffix("Data.db")
            for part in found.glob(stem + "*"):
                if part.name.removeprefix(stem) in KEPT:
                    shutil.copy(part, to)
            text = subprocess.run([*dump, file, "-l", "-t"], check=True, capture_output=True, text=True).stdout
            (to / f"{stem}Data.jsonl").write_text(text)
        rows = session.execute(f"SELECT JSON * FROM look.{table}")
        (to / f"{table}.rows").write_text("".join(row[0] + "\n" for row in rows))


main()

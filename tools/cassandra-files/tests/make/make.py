#!/usr/bin/env python3
"""Makes a real node write the files that the tests read, and saves the output of its own tools for them.

  make.py HOST:PORT NODE-DATA OUT TABLES SSTABLEDUMP…

NODE-DATA is the node's data directory, on this machine. TABLES is a comma-separated
list of tables that the node's version supports, or `all`. SSTABLEDUMP is the command of the node's
version, with its options; it runs once for each file. OUT gets a directory for each table, with the
files of each version, the output of `sstabledump -t` as `*.jsonl` with a line for each partition, and
the results of SELECTs as `*.rows`. Needs the package cassandra-driver.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

from cassandra.cluster import Cluster

KEPT = ("Data.db", "Statistics.db", "CompressionInfo.db", "CRC.db", "Digest.crc32", "TOC.txt")
# Tables whose partition index files are saved, too.
INDEXED = ("blocks",)
INDEXES = ("Index.db", "Summary.db", "Filter.db")
LONG = "x" * 4000


def main():
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    (host, port), data, out = sys.argv[1].split(":"), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    wanted, dump = sys.argv[4].split(","), sys.argv[5:]
    session = Cluster([host], port=int(port)).connect()
    session.default_timeout = 120
    session.execute("DROP KEYSPACE IF EXISTS look")
    script = pathlib.Path(__file__).with_name("tables.cql").read_text()
    statement, times = "", 1
    for line in script.splitlines():
        if line.startswith("-- FLUSH"):
            time.sleep(6)
        if line.startswith("-- TIMES "):
            times = int(line.split()[2])
        if line.startswith("--"):
            continue
        statement += line + "\n"
        if line.rstrip().endswith(";"):
            table = re.search(r" look\.(\w+)", statement)
            if wanted == ["all"] or " TYPE " in statement or not table or table.group(1) in wanted:
                for i in range(times):
                    session.execute(statement.replace("@I", str(i)).replace("@LONG", LONG))
            statement, times = "", 1
    time.sleep(8)
    tables = session.execute("SELECT table_name, id FROM system_schema.tables WHERE keyspace_name = 'look'")
    for table, number in sorted(tables):
        to = out / table
        to.mkdir(parents=True, exist_ok=True)
        found = data / "look" / f"{table}-{number.hex}"
        for file in sorted(found.glob("*-Data.db")):
            stem = file.name.removesuffix("Data.db")
            for part in found.glob(stem + "*"):
                name = part.name.removeprefix(stem)
                if name in KEPT or (table in INDEXED and name in INDEXES):
                    shutil.copy(part, to)
            said = subprocess.run([*dump, file, "-t"], check=True, capture_output=True, text=True).stdout
            lines = [json.dumps(partition, ensure_ascii=False) + "\n" for partition in json.loads(said)]
            (to / f"{stem}Data.jsonl").write_text("".join(lines).replace(LONG, "@LONG"))
        rows = session.execute(f"SELECT JSON * FROM look.{table}")
        (to / f"{table}.rows").write_text("".join(row[0] + "\n" for row in rows).replace(LONG, "@LONG"))


main()

"""Statements of about so many cells, with times, deletions and counters of all kinds: `made.py CELLS > made.cql`."""
import random
import sys

cells = int(sys.argv[1])
r = random.Random(26)
NOW = 1_764_000_000_000_000  # of write times, in microseconds
words = [f"word{n:04d}" for n in range(3000)]
out = sys.stdout.write
out("""CREATE KEYSPACE made WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
USE made;
CREATE TYPE address (street text, zip int, town text);
CREATE TABLE events (device bigint, at int, kind text, level int, ratio double, ok boolean, raw blob, seen timestamp,
  tags set<text>, counts map<text, int>, home address, pair frozen<tuple<int, text>>, owner text static, firmware int static,
  PRIMARY KEY (device, at));
CREATE TABLE notes (id int PRIMARY KEY, title text, lines list<text>, steps frozen<list<int>>);
CREATE TABLE wide (part text, a int, b timeuuid, body text, PRIMARY KEY (part, a, b)) WITH CLUSTERING ORDER BY (a DESC, b ASC);
CREATE TABLE visits (page int, day int, seen counter, bought counter, PRIMARY KEY (page, day));
""")
word = lambda: words[r.randrange(3000)]


def times(ts, short=True):
    """A write time; one statement in three has a time to live, a few a short one."""
    if r.random() < 0.33:
        ttl = r.randrange(60, 900) if short and r.random() < 0.1 else r.randrange(40_000, 3_000_000)
        return f"USING TIMESTAMP {ts} AND TTL {ttl}"
    return f"USING TIMESTAMP {ts}"


done = device = 0
ts = NOW
while done < cells * 0.80:  # events: partitions of 1 to 40 rows, about 13 cells each
    device += 1
    ts += 10
    if r.random() < 0.3:
        out(f"UPDATE events {times(ts)} SET owner = '{word()}', firmware = {r.randrange(99)} WHERE device = {device};\n")
        done += 2
    rows = r.randrange(1, 41)
    for at in range(rows):
        ts += 1
        tags = ", ".join(f"'{w}'" for w in {word(), word()})
        counts = ", ".join(f"'{w}': {r.randrange(1000)}" for w in {word(), word(), word()})
        out(f"INSERT INTO events (device, at, kind, level, ratio, ok, raw, seen, tags, counts, home, pair) VALUES ({device}, {at}, '{word()}', "
            f"{r.randrange(100)}, {r.random():.6f}, {r.random() < 0.5}, 0x{r.getrandbits(64):016x}, {1_700_000_000_000 + ts % 10**9}, "
            f"{{{tags}}}, {{{counts}}}, {{street: '{word()}', zip: {r.randrange(99999)}}}, ({at}, '{word()}')) {times(ts)};\n")
        done += 15
    # What is deleted, and what was written at other times.
    row = r.randrange(rows)
    ts += 50
    kind = r.randrange(24)
    where = f"WHERE device = {device}"
    of_row = f"{where} AND at = {row}"
    if kind == 0:
        out(f"DELETE FROM events USING TIMESTAMP {ts - 60 - rows // 2} {where};\n")
    elif kind == 1:
        out(f"DELETE FROM events USING TIMESTAMP {ts} {where} AND at >= {row} AND at < {row + 5};\n")
    elif kind == 2:
        out(f"DELETE FROM events USING TIMESTAMP {ts} {where} AND at > {row};\n")
    elif kind in (3, 4):
        out(f"DELETE FROM events USING TIMESTAMP {ts} {of_row};\n")
    elif kind in (5, 6):
        out(f"DELETE kind, level, home FROM events USING TIMESTAMP {ts} {of_row};\n")
    elif kind in (7, 8):
        out(f"UPDATE events {times(ts)} SET counts['extra'] = {row}, counts['{word()}'] = 7 {of_row};\n")
    elif kind in (9, 10):
        out(f"UPDATE events {times(ts)} SET tags = tags + {{'late', '{word()}'}} {of_row};\nDELETE counts['extra'] FROM events USING TIMESTAMP {ts + 1} {of_row};\n")
    elif kind == 11:
        out(f"UPDATE events {times(ts)} SET home.town = '{word()}' {of_row};\nDELETE home.zip FROM events USING TIMESTAMP {ts + 1} {of_row};\n")
    elif kind == 12:
        out(f"UPDATE events USING TIMESTAMP {ts} SET tags = {{'alone'}}, counts = {{}} {of_row};\n")
    elif kind == 13:
        out(f"DELETE owner FROM events USING TIMESTAMP {ts} {where};\n")
    elif kind == 14:
        out(f"UPDATE events USING TIMESTAMP {ts} SET level = 5 WHERE device = {device} AND at = {rows + 3};\n")  # no marker
    elif kind == 15:
        out(f"INSERT INTO events (device, at) VALUES ({device}, {rows + 4}) {times(ts)};\n")  # a marker alone
    done += 1
events = done
note = 0
while done < events + cells * 0.06:
    note += 1
    ts += 5
    lines = ", ".join(f"'{word()}'" for _ in range(r.randrange(1, 6)))
    out(f"INSERT INTO notes (id, title, lines, steps) VALUES ({note}, '{word()}', [{lines}], [{note}, 2]) {times(ts)};\n")
    if note % 5 == 0:
        out(f"UPDATE notes USING TIMESTAMP {ts + 2} SET lines = lines + ['{word()}'] WHERE id = {note};\n")
    if note % 17 == 0:
        out(f"DELETE lines[0] FROM notes USING TIMESTAMP {ts + 3} WHERE id = {note};\n")
    done += 7
wide = 0
while done < events + cells * 0.16:  # three partitions of many rows, with ranges of all kinds deleted
    wide += 1
    ts += 1
    part, a = f"p{wide % 3}", wide // 30
    b = f"{wide:08x}-1dd2-11ef-8000-000000000001"
    out(f"INSERT INTO wide (part, a, b, body) VALUES ('{part}', {a}, {b}, '{word()} {word()} {word()}') {times(ts)};\n")
    if wide % 900 == 0:
        ts += 3
        out(f"DELETE FROM wide USING TIMESTAMP {ts} WHERE part = '{part}' AND a = {max(a - 3, 0)};\n")
        out(f"DELETE FROM wide USING TIMESTAMP {ts + 1} WHERE part = '{part}' AND a > {max(a - 12, 0)} AND a <= {max(a - 10, 0)};\n")
        out(f"DELETE FROM wide USING TIMESTAMP {ts + 2} WHERE part = '{part}' AND a = {max(a - 15, 0)} AND b < {b};\n")
    done += 2
page = 0
while done < cells:
    page += 1
    for day in range(4):
        out(f"UPDATE visits SET seen = seen + {r.randrange(1, 1000)}, bought = bought + {r.randrange(9)} WHERE page = {page} AND day = {day};\n")
        done += 2
    if page % 10 == 0:
        out(f"UPDATE visits SET seen = seen - 3 WHERE page = {page} AND day = 1;\n")
    if page % 97 == 0:
        out(f"DELETE bought FROM visits WHERE page = {page} AND day = 2;\n")
print(f"{device} devices, {note} notes, {wide} wide rows, {page} pages, {done} cells", file=sys.stderr)

"""An independent reader of Firn's files: it follows README.md, section by section, and shares nothing with the engine.

It is strict: whatever the page calls damage is refused, and everything that the page promises about sound bytes is checked.
`python3 reader.py FILE-OR-FOLDER` prints what is there.
"""

import json
import os
import re
import sys
import zlib

from xxh3 import xxh3_64

M64 = (1 << 64) - 1
MAX_SEQ = (1 << 56) - 1
MAX_KEY, MAX_VALUE, MAX_PAYLOAD = 65535, 1 << 28, 1 << 29
MAX_NUMBER = 1 << 62
PUT, DELETE, MERGE, DELETE_RANGE = 1, 2, 3, 4
DATA, INDEX, FILTER, TOMBSTONES, PROPERTIES = 1, 2, 3, 4, 5


class Damaged(Exception):
    """The bytes are not what was written."""


class Newer(Exception):
    """The bytes are of a later version."""


def need(sound, what):
    if not sound:
        raise Damaged(what)


def u32(b, at):
    return int.from_bytes(b[at : at + 4], "little")


def u64(b, at):
    return int.from_bytes(b[at : at + 8], "little")


def crc(number, offset, *parts):
    """The CRC-32 with context."""
    c = zlib.crc32(number.to_bytes(8, "little") + offset.to_bytes(8, "little"))
    for p in parts:
        c = zlib.crc32(p, c)
    return c


class Cursor:
    """Reads from front to back, and never beyond the end."""

    def __init__(self, b):
        self.b, self.at = b, 0

    def done(self):
        return self.at == len(self.b)

    def take(self, n):
        need(n <= len(self.b) - self.at, "bytes are missing")
        self.at += n
        return self.b[self.at - n : self.at]

    def u8(self):
        return self.take(1)[0]

    def varint(self, bits=64):
        v = 0
        for i in range(10):
            byte = self.u8()
            need(i < 9 or byte <= 1, "a varint of more than 64 bits")
            v |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                need(v < 1 << bits, "a number that is too large")
                return v
        raise Damaged("a varint that is too long")

    def bytes(self, most=None):
        n = self.varint()
        need(most is None or n <= most, "bytes that are too many")
        return self.take(n)


def number(b, bits=64):
    """A varint that fills its field."""
    c = Cursor(b)
    v = c.varint(bits)
    need(c.done(), "a number that does not fill its field")
    return v


def text(b):
    try:
        return b.decode("utf-8")
    except UnicodeDecodeError:
        raise Damaged("a text that is not UTF-8")


# ---- Tables


def lz4(b, size):
    """Decompresses an LZ4 block of exactly `size` bytes."""
    out, at = bytearray(), 0

    def length(n):
        nonlocal at
        if n == 15:
            while True:
                need(at < len(b), "LZ4: a length is cut off")
                n += b[at]
                at += 1
                if b[at - 1] != 255:
                    break
        return n

    while True:
        need(at < len(b), "LZ4: a token is missing")
        token = b[at]
        at += 1
        n = length(token >> 4)
        need(n <= len(b) - at and len(out) + n <= size, "LZ4: literals run beyond the end")
        out += b[at : at + n]
        at += n
        if at == len(b):
            break
        need(at + 2 <= len(b), "LZ4: an offset is cut off")
        offset = b[at] | b[at + 1] << 8
        at += 2
        n = length(token & 15) + 4
        need(1 <= offset <= len(out) and len(out) + n <= size, "LZ4: a match beyond the start or the end")
        start = len(out) - offset
        if offset >= n:
            out += out[start : start + n]
        else:
            piece = bytes(out[start:])
            out += (piece * (n // offset + 1))[:n]
    need(len(out) == size, "LZ4: another length than was said")
    return bytes(out)


def physical_block(file, at, size, kind, file_id):
    """Checks the block that takes `size` bytes at `at`. Gives its raw content and its codec."""
    b = file[at : at + size]
    need(size >= 24 and len(b) == size, "a block that is cut off")
    need(b[:4] == b"FnB1", "no block begins here")
    stored, raw = u32(b, 8), u32(b, 12)
    need(stored == size - 24, "a block of another length than is said elsewhere")
    need(crc(file_id, at, b[:20], b[24:]) == u32(b, 20), "checksum mismatch")
    need(b[4] == kind, "a block of another kind")
    need(b[5] in (0, 1), "a block of unknown compression")
    need(b[6:8] == bytes(2) and b[16:20] == bytes(4), "a block header that is not 0 where it must be")
    need(kind != DATA or raw <= MAX_VALUE + 2 * MAX_KEY + 4096, "a block that is too large")
    if b[5] == 0:
        need(raw == stored, "a raw block of two lengths")
        return b[24:], 0
    need(raw <= 255 * stored, "a block that cannot have shrunk so much")
    return lz4(b[24:], raw), 1


def footer(file, file_id):
    """The footer; `file_id` is the number in the file's name, None when there is none to compare with."""
    at = len(file) - 64
    need(at >= 0, "too short for a table")
    f = file[at:]
    need(f[56:] == b"FirnSST\n", "not a table, or one that is cut off")
    if u32(f, 52) > 1:
        raise Newer("a table of a later version")
    need(crc(u64(f, 0), at, f[:48], f[52:]) == u32(f, 48), "footer: checksum mismatch")
    need(u32(f, 52) == 1 and u64(f, 40) == 0, "a footer that does not fit together")
    need(file_id is None or u64(f, 0) == file_id, "another table's footer")
    data, lengths = u64(f, 8), [u32(f, 16 + 4 * i) for i in range(4)]
    need(data + sum(lengths) == at and u64(f, 32) == len(file), "the file has another length than its footer says")
    return u64(f, 0), data, lengths


def data_block(b):
    """The entries of a block, (key, seq, kind, value) each, and whether it is PLAIN."""
    need(len(b) >= 16, "a data block that is cut off")
    n, p, flags, w, base = u32(b, 0), b[4] | b[5] << 8, b[6], b[7], u64(b, 8)
    uniform, plain, wide = flags & 1 != 0, flags & 2 != 0, flags & 4 != 0
    need(n >= 1, "a data block without entries")
    need(flags < 8 and w <= 8 and uniform == (w == 0), "a data block with flags that do not fit")
    step = 4 if wide else 2
    heads = 16
    table = heads + 8 * n
    prefix_at = table + step * (n + 1)
    entries_at = prefix_at + p
    need(entries_at <= len(b), "a data block that is cut off")
    prefix = b[prefix_at:entries_at]
    offsets = [int.from_bytes(b[table + step * i : table + step * (i + 1)], "little") for i in range(n + 1)]
    need(offsets[0] == 0 and entries_at + offsets[n] == len(b), "entries that do not fill the block")
    need(wide == (offsets[n] > 65535), "WIDE where it must not be, or not where it must")
    if uniform:
        need(base & 0xFF in (PUT, DELETE, MERGE), "a trailer of no kind")
    else:
        need(base <= MAX_SEQ, "a sequence number out of bounds")
    out, last_head = [], 0
    for i in range(n):
        need(offsets[i] <= offsets[i + 1], "offsets that go down")
        c = Cursor(b[entries_at + offsets[i] : entries_at + offsets[i + 1]])
        if uniform:
            seq, kind = base >> 8, base & 0xFF
        else:
            code = int.from_bytes(c.take(w), "little")
            seq, kind = base + (code >> 2), (code & 3) + 1
        need(seq <= MAX_SEQ and kind <= MERGE, "a sequence number or a kind out of bounds")
        length = c.varint()
        need(p + length <= MAX_KEY, "a key that is too long")
        head = u64(b, heads + 8 * i)
        need(head >= last_head, "heads that go down")
        last_head = head
        shown = head.to_bytes(8, "big")
        need(not any(shown[length:]), "a head that is longer than its key")
        key = prefix + shown[: min(8, length)] + c.take(max(length - 8, 0))
        value = c.b[c.at :]
        need(len(value) <= MAX_VALUE and (kind != DELETE or not value), "a value that must not be")
        need(not out or after(out[-1], (key, seq, kind)), "entries out of order")
        out.append((key, seq, kind, value))
    if not uniform:
        need(min(e[1] for e in out) == base, "a base that is not the smallest sequence number")
    return out, plain


def after(a, b):
    """Whether entry `b` may follow `a`."""
    return a[0] < b[0] or (a[0] == b[0] and (a[1], a[2]) > (b[1], b[2]))


def index_block(b, data_len):
    """Rows of (separator, offset, length, entries, flags)."""
    c = Cursor(b)
    n, prefix, rows, at = c.varint(), c.bytes(MAX_KEY), [], 0
    for _ in range(n):
        separator = prefix + c.bytes()
        length, entries, flags = c.varint(), c.varint(32), c.u8()
        need(len(separator) <= MAX_KEY and flags < 16, "an index row that does not fit")
        if rows:
            last = rows[-1]
            need(last[0] < separator or (last[0] == separator and last[4] & 4), "separators out of order")
        rows.append((separator, at, length, entries, flags))
        at += length
    need(c.done() and at == data_len, "an index of another length")
    need(not rows or not rows[-1][4] & 4, "a last block that goes on")
    return rows


class Filter:
    """A binary fuse filter."""

    def __init__(self, b):
        need(len(b) >= 24 and b[0] in (1, 2) and b[1:4] == bytes(3), "no filter")
        self.width, self.segment, self.seed, self.count = b[0], u32(b, 4), u64(b, 8), u32(b, 16)
        n, s = u32(b, 20), self.segment
        need(s > 0 and s & (s - 1) == 0 and self.count >= s and self.count % s == 0, "a filter of odd sizes")
        need(n == self.count + 2 * s and len(b) == 24 + n * self.width, "a filter of another length")
        self.prints = b[24:]

    def at(self, i):
        return int.from_bytes(self.prints[i * self.width : (i + 1) * self.width], "little")

    def may_contain(self, k):
        h = (k + self.seed) & M64
        h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & M64
        h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & M64
        h ^= h >> 33
        s = self.segment
        a = h * self.count >> 64
        b = (a + s) ^ (h >> 18 & s - 1)
        c = (a + 2 * s) ^ (h & s - 1)
        return self.at(a) ^ self.at(b) ^ self.at(c) == (h ^ h >> 32) & ((1 << 8 * self.width) - 1)


def tombstone_block(b):
    """Fragments of (start, end, sequence numbers, newest first)."""
    c, out = Cursor(b), []
    for _ in range(c.varint()):
        start, end, n = c.bytes(MAX_KEY), c.bytes(MAX_KEY), c.varint()
        need(start < end and n >= 1, "an empty fragment")
        need(not out or out[-1][1] <= start, "fragments out of order")
        seqs = [c.varint(56)]
        for _ in range(n - 1):
            distance = c.varint()
            need(1 <= distance <= seqs[-1], "sequence numbers out of order")
            seqs.append(seqs[-1] - distance)
        out.append((start, end, seqs))
    need(c.done(), "bytes behind the last fragment")
    return out


NUMBERS = (
    "block.size compression created.micros data.blocks deletes entries entry.largest filter filter.keys level merges "
    "oldest.tombstone range.deletes raw.keys raw.values seq.max seq.min tree"
).split()
TEXTS = "hook.filter_prefix hook.merge hook.purge hook.summary writer".split()


def properties_block(b):
    c, out, last = Cursor(b), {}, b""
    while not c.done():
        name, value = c.bytes(), c.bytes()
        need(name > last, "properties out of order")
        last, name = name, name.decode("utf-8", "replace")
        out[name] = number(value) if name in NUMBERS else text(value) if name in TEXTS else value
    get = lambda name: out.get(name, 0)
    need(get("compression") in (0, 1) and get("filter") in (0, 1, 2) and get("tree") < 1 << 32, "a property out of bounds")
    return out


class Table:
    """A table, wholly read and checked; filters of prefixes only where the hooks `first N` are taken for known."""

    def __init__(self, file, file_id=None, hooks=True):
        self.id, data_len, (filter_len, tombstones_len, index_len, properties_len) = footer(file, file_id)
        at = data_len
        part = lambda at, size, kind: physical_block(file, at, size, kind, self.id)[0]
        self.filter = Filter(part(at, filter_len, FILTER)) if filter_len else None
        at += filter_len
        self.tombstones = tombstone_block(part(at, tombstones_len, TOMBSTONES)) if tombstones_len else []
        at += tombstones_len
        self.rows = index_block(part(at, index_len, INDEX), data_len)
        at += index_len
        self.properties = properties_block(part(at, properties_len, PROPERTIES))
        self.entries, self.largest_block = [], 0
        for i, row in enumerate(self.rows):
            self.read_block(file, i, row)
        self.check_filter(hooks)
        self.check_properties()

    def read_block(self, file, i, row):
        separator, at, size, told, flags = row
        raw, codec = physical_block(file, at, size, DATA, self.id)
        entries, plain = data_block(raw)
        need(len(entries) == told, "a block of another number of entries")
        need((codec == 0) == (flags & 8 != 0), "a block of another compression")
        before = self.rows[i - 1] if i else None
        if self.entries:
            need(after(self.entries[-1], entries[0]), "blocks out of order")
            goes_on = self.entries[-1][0] == entries[0][0]
            need(goes_on == (before[4] & 4 != 0), "CONTINUES where it must not be, or not where it must")
            need(goes_on or before[0] < entries[0][0], "a block that begins below a separator")
        last = entries[-1][0]
        need(last <= separator and (not flags & 4 or last == separator), "a block that ends above its separator")
        keys = [e[0] for e in entries]
        alone = not flags & 4 and not (before and before[4] & 4)
        is_plain = alone and len(set(keys)) == len(keys) and all(e[2] == PUT for e in entries)
        need(plain == is_plain and (flags & 1 != 0) == is_plain, "PLAIN where it must not be, or not where it must")
        dense = 2 * sum(e[2] == DELETE for e in entries) > len(entries)
        need((flags & 2 != 0) == dense, "DENSE where it must not be, or not where it must")
        self.entries += entries

    def check_filter(self, hooks):
        """Every key must be in the filter: with a filter prefix hook, what it takes of the key."""
        if not self.filter:
            return
        need(self.filter.width == self.properties.get("filter", 0), "a filter of another kind")
        hook = self.properties.get("hook.filter_prefix", "")
        take = re.fullmatch(r"first (\d+)", hook) if hooks else None
        if hook and not take:
            return
        for key in {e[0][: int(take[1])] if take else e[0] for e in self.entries}:
            need(self.filter.may_contain(xxh3_64(key)), "a key that the filter denies")

    def check_properties(self):
        e, t, p = self.entries, self.tombstones, self.properties
        seqs = [x[1] for x in e] + [s for f in t for s in f[2]]
        firsts = [x[0] for x in e[:1]] + [f[0] for f in t[:1]]
        lasts = [x[0] for x in e[-1:]] + [f[1] for f in t[-1:]]
        found = {
            "data.blocks": len(self.rows),
            "entries": len(e),
            "deletes": sum(x[2] == DELETE for x in e),
            "merges": sum(x[2] == MERGE for x in e),
            "range.deletes": sum(len(f[2]) for f in t),
            "entry.largest": max((len(x[0]) + len(x[3]) for x in e), default=0),
            "raw.keys": sum(len(x[0]) for x in e),
            "raw.values": sum(len(x[3]) for x in e),
            "seq.min": min(seqs, default=0),
            "seq.max": max(seqs, default=0),
            "keys.first": min(firsts, default=b""),
            "keys.last": max(lasts, default=b""),
        }
        for name, value in found.items():
            need(p.get(name, type(value)()) == value, f"{name} is {p.get(name)}, found was {value}")
        need(bool(self.filter) == (p.get("filter", 0) != 0), "a filter that the properties do not tell of")

    def content(self):
        return {
            "entries": [[k.hex(), seq, kind, v.hex()] for k, seq, kind, v in self.entries],
            "tombstones": [[a.hex(), z.hex(), seqs] for a, z, seqs in self.tombstones],
        }


# ---- Write-ahead log


def operations(payload):
    c, out = Cursor(payload), []
    while not c.done():
        op, tree, key = c.u8(), c.varint(32), c.bytes(MAX_KEY)
        need(PUT <= op <= DELETE_RANGE, "an operation of no kind")
        value = b"" if op == DELETE else c.bytes(MAX_KEY if op == DELETE_RANGE else MAX_VALUE)
        out.append((op, tree, key, value))
    return out


class Segment:
    """A log segment's file."""

    def __init__(self, file, number):
        self.file, self.number, self.header = file, number, None
        h = file[:64]
        if len(h) == 64 and h[:8] == b"FIRNWAL\n" and crc(number, 0, h[:60]) == u32(h, 60):
            if u32(h, 8) != 1:
                raise Newer("a log segment of a later version")
            base = u64(h, 24)
            if u32(h, 12) == 64 and u64(h, 16) == number and number and base % 8 == 0 and base < MAX_NUMBER:
                self.header = {"base": base, "synced": u64(h, 32), "previous": u64(h, 40), "capacity": u64(h, 48)}

    def record(self, at):
        """The sound record at an offset: (size, kind, seq, synced, payload). None where there is none."""
        b = self.file
        if at + 32 > len(b):
            return None
        length, generation, kind = u32(b, at + 4), u32(b, at + 8), u32(b, at + 12)
        size = (32 + length + 7) // 8 * 8
        if generation != self.number & 0xFFFFFFFF or kind == 0 or length > MAX_PAYLOAD or at + size > len(b):
            return None
        if crc(self.number, at, b[at + 4 : at + 32 + length]) != u32(b, at):
            return None
        if kind not in (1, 2):
            raise Newer("a log record of unknown kind")
        return size, kind, u64(b, at + 16), u64(b, at + 24), b[at + 32 : at + 32 + length]

    def records_from(self, at):
        """All sound records at and behind an offset, in steps of 8 bytes over what is none, with their offsets."""
        while at + 32 <= len(self.file):
            r = self.record(at)
            if r:
                yield at, r
            at += r[0] if r else 8


def read_log(segments, start):
    """Records of (seq, operations, position after it) from a position on: steps 1 to 3 of the page."""
    segments = sorted(segments, key=lambda s: s.number)
    end, ends = None, {}
    for s in reversed(segments):
        if s.header and (end is None or s.header["base"] <= end):
            ends[s.number], end = end, s.header["base"]
    at, out, stop = start, [], None
    while stop is None:
        holders = [s for s in segments if s.number in ends and s.header["base"] <= at]
        if not holders:
            stop = (0, 0)
            break
        s = holders[-1]
        while ends[s.number] is None or at < ends[s.number]:
            offset = 64 + at - s.header["base"]
            r = s.record(offset)
            if r is None or (ends[s.number] is not None and at + r[0] > ends[s.number]):
                stop = (s.number, offset)
                break
            size, kind, seq, _, payload = r
            at += size
            if kind == 1:
                ops = operations(payload)
                need(seq + max(len(ops) - 1, 0) <= MAX_SEQ, "a sequence number out of bounds")
                out.append((seq, ops, at))
    for s in segments:
        if s.number < stop[0]:
            continue
        known = [r[3] for _, r in s.records_from(stop[1] + 8 if s.number == stop[0] else 64)]
        if s.header and s.number != stop[0]:
            known.append(s.header["synced"])
        need(all(k <= at for k in known), f"the log breaks off at position {at}, which had been durable")
    return out


# ---- Manifest

MESSAGES = {
    "state": {2: "store_id", 4: "created", 6: "next_file", 8: "last_seq", 10: "wal_floor", 12: "next_tree", 14: "trees"},
    "tree": {2: "id", 4: "name", 6: "options", 8: "flushed", 10: "runs"},
    "run": {2: "level", 4: "number", 6: "tables"},
    "table": {
        2: "id", 4: "size", 6: "entries", 8: "deletes", 10: "merges", 12: "range_deletes", 14: "raw_bytes", 16: "first_key",
        18: "last_key", 20: "min_seq", 22: "max_seq", 24: "created", 26: "newest", 28: "oldest_tombstone", 30: "ingested_seq",
    },
    "create_tree": {2: "id", 4: "name", 6: "options", 8: "flushed"},
    "drop_tree": {2: "id"},
    "set_options": {2: "id", 4: "options"},
    "tables": {2: "tree", 4: "removed", 6: "added", 8: "flushed"},
    "added": {2: "level", 4: "run", 6: "table"},
    "counters": {2: "next_file", 4: "last_seq", 6: "wal_floor"},
    "options": {
        2: "compression", 4: "filter", 6: "block_size", 8: "table_size", 10: "memtable_size", 12: "policy", 14: "tombstone_age_secs",
        16: "merge", 18: "purge", 20: "summary", 22: "filter_prefix",
    },
    "policy": {2: "name", 4: "parameters"},
    "parameter": {2: "name", 4: "value"},
}  # fmt: skip
EDITS = {2: "snapshot", 4: "create_tree", 6: "drop_tree", 8: "set_options", 10: "tables", 12: "counters"}
REPEATED = {"state.trees", "tree.runs", "run.tables", "tables.removed", "tables.added", "policy.parameters"}
OPTIONAL = {"table.oldest_tombstone", "table.ingested_seq", "tables.flushed", "options.merge", "options.purge", "options.summary"}
OPTIONAL |= {"options.filter_prefix"}
INNER = {"trees": "tree", "runs": "run", "tables": "table", "added": "added", "table": "table", "options": "options"}
INNER |= {"policy": "policy", "parameters": "parameter"}
BYTES = {"first_key", "last_key", "compression", "filter", "value"}
NAMES = {"name", "merge", "purge", "summary", "filter_prefix"}
BITS = {"level": 8, "next_tree": 32, "tree": 32, "tree.id": 32, "create_tree.id": 32, "drop_tree.id": 32, "set_options.id": 32}
POLICIES = {
    "tiered": ["bucket", "max_runs", "min_runs"],
    "leveled": ["base", "level0_runs", "ratio"],
    "lazy-leveled": ["ratio"],
    "unified": ["base_shards", "scaling", "target_table"],
    "time-window": ["min_runs", "window_secs"],
    "fifo": ["max_age_secs", "max_bytes"],
}


def fields(b):
    c = Cursor(b)
    while not c.done():
        yield c.varint(), c.bytes()


def message(kind, b):
    """A message as a dict of its fields."""
    out = {name: [] for name in MESSAGES[kind].values() if f"{kind}.{name}" in REPEATED}
    for tag, value in fields(b):
        name = MESSAGES[kind].get(tag)
        if name is None:
            if tag % 2 == 0:
                raise Newer(f"a {kind} has an unknown required field {tag}")
            continue
        if kind == "tables" and name == "added":
            v = message("added", value)
        elif name in INNER and not (kind == "tables" and name == "removed"):
            v = message(INNER[name], value)
        elif name in NAMES and not (kind == "options" and name in BYTES):
            v = text(value)
        elif name in BYTES:
            v = value
        else:
            v = number(value, BITS.get(f"{kind}.{name}", BITS.get(name, 64)))
        if name in out and f"{kind}.{name}" in REPEATED:
            out[name].append(v)
        else:
            out[name] = v
    for name in MESSAGES[kind].values():
        need(name in out or f"{kind}.{name}" in OPTIONAL, f"a {kind} lacks its {name}")
    if kind == "options":
        if any(b > 1 for b in out["compression"]) or any(b > 2 for b in out["filter"]):
            raise Newer("unknown compression or filter")
    return decoded_policy(out) if kind == "policy" else out


def decoded_policy(p):
    if p["name"] not in POLICIES:
        raise Newer("an unknown compaction policy")
    values = {}
    for x in p["parameters"]:
        name, b = x["name"], x["value"]
        if name == "bucket":
            import struct

            need(len(b) == 8, "a double of another length")
            values[name] = struct.unpack("<d", b)[0]
        elif name == "scaling":
            c, values[name] = Cursor(b), []
            while not c.done():
                v = c.varint(32)
                values[name].append(v >> 1 ^ -(v & 1))
        else:
            values[name] = number(b)
    missing = set(POLICIES[p["name"]]) - set(values)
    need(not missing, f"a policy lacks {missing}")
    if len(values) > len(POLICIES[p["name"]]):
        raise Newer("an unknown parameter of a compaction policy")
    return {"name": p["name"], "parameters": values}


def edits(payload):
    out = []
    for tag, value in fields(payload):
        if tag in EDITS:
            out.append((EDITS[tag], message("state" if tag == 2 else EDITS[tag], value)))
        elif tag % 2 == 0:
            raise Newer(f"an unknown edit {tag}")
    return out


class Manifest:
    """A manifest's frames and the state that they lead to."""

    def __init__(self, file, number):
        need(len(file) >= 16 and file[:8] == b"FIRNMAN\n" and crc(number, 0, file[:12]) == u32(file, 12), "a manifest's header")
        if u32(file, 8) != 1:
            raise Newer("a manifest of a later version")
        self.file, self.number, self.frames = file, number, []
        at, mark_is_due = 16, False
        while True:
            payload = self.payload(at)
            if payload is None:
                if mark_is_due and self.payload(at + 8):
                    at, mark_is_due = at + 8, False
                    continue
                break
            if payload:
                self.frames.append((at, edits(payload)))
            mark_is_due = bool(payload)
            at += 8 + len(payload)
        need(all(self.payload(x) is None for x in range(at + 1, len(file) - 7)), f"a bad frame at {at}, and a sound one behind it")
        self.state = None
        for _, frame in self.frames:
            for name, edit in frame:
                self.apply(name, edit)
        need(self.state is not None, "a manifest without a snapshot")
        self.check()

    def payload(self, at):
        b = self.file
        if at + 8 > len(b) or u32(b, at) > len(b) - at - 8:
            return None
        payload = b[at + 8 : at + 8 + u32(b, at)]
        return payload if crc(self.number, at, b[at : at + 4], payload) == u32(b, at + 4) else None

    def apply(self, name, edit):
        if name == "snapshot":
            self.state = edit
            self.check()
            return
        need(self.state is not None, "a manifest that does not begin with a snapshot")
        s = self.state
        if name == "create_tree":
            need(s["next_tree"] <= edit["id"] < 0xFFFFFFFF, "the id of a new tree")
            need(all(t["name"] != edit["name"] for t in s["trees"]), "the name of a new tree")
            s["trees"].append(dict(edit, runs=[]))
            s["next_tree"] = edit["id"] + 1
        elif name == "counters":
            for counter in ("next_file", "last_seq", "wal_floor"):
                s[counter] = max(s[counter], edit[counter])
        else:
            found = [t for t in s["trees"] if t["id"] == edit["tree" if name == "tables" else "id"]]
            need(found, "an edit of a tree that is not there")
            if name == "drop_tree":
                s["trees"].remove(found[0])
            elif name == "set_options":
                found[0]["options"] = edit["options"]
            else:
                self.apply_tables(found[0], edit)

    def apply_tables(self, tree, edit):
        gone = set(edit["removed"])
        there = {t["id"] for r in tree["runs"] for t in r["tables"]}
        need(len(gone) == len(edit["removed"]) and gone <= there, "a table that is removed and not there")
        for r in tree["runs"]:
            r["tables"] = [t for t in r["tables"] if t["id"] not in gone]
        for a in edit["added"]:
            run = [r for r in tree["runs"] if (r["level"], r["number"]) == (a["level"], a["run"])]
            if not run:
                run = [{"level": a["level"], "number": a["run"], "tables": []}]
                tree["runs"] += run
            run[0]["tables"].append(a["table"])
            self.state["next_file"] = max(self.state["next_file"], a["table"]["id"] + 1)
            self.state["last_seq"] = max(self.state["last_seq"], a["table"]["max_seq"])
        tree["runs"] = sorted((r for r in tree["runs"] if r["tables"]), key=lambda r: (r["level"], -r["number"]))
        for r in tree["runs"]:
            r["tables"].sort(key=lambda t: t["first_key"])
        flushed = edit.get("flushed", tree["flushed"])
        need(flushed >= tree["flushed"], "a tree that was flushed further already")
        tree["flushed"] = flushed
        self.check()

    def check(self):
        s = self.state
        s["trees"].sort(key=lambda t: t["id"])
        ids, names = [t["id"] for t in s["trees"]], [t["name"] for t in s["trees"]]
        need(len(set(ids)) == len(ids) and len(set(names)) == len(names), "a tree that is there twice")
        need(all(i < s["next_tree"] for i in ids), "a tree's id out of bounds")
        numbers = [t["flushed"] for t in s["trees"]] + [s["wal_floor"], s["next_file"]]
        need(s["last_seq"] <= MAX_SEQ and max(numbers) <= MAX_NUMBER, "a counter out of bounds")
        tables = []
        for tree in s["trees"]:
            places = [(r["level"], -r["number"]) for r in tree["runs"]]
            need(places == sorted(set(places)), "runs out of order")
            for r in tree["runs"]:
                need(r["tables"], "an empty run")
                for t in r["tables"]:
                    need(t["first_key"] <= t["last_key"] and t["min_seq"] <= t["max_seq"] <= s["last_seq"], "a table's bounds")
                for a, b in zip(r["tables"], r["tables"][1:]):
                    need(a["last_key"] < b["first_key"], "tables of a run that overlap")
                tables += [t["id"] for t in r["tables"]]
        need(len(set(tables)) == len(tables) and all(t < s["next_file"] for t in tables), "a table that is there twice, or its id")

    def content(self):
        names = [n for n in MESSAGES["table"].values()]
        table = lambda t: {n: t[n].hex() if n in BYTES else t[n] for n in names if n in t} | {
            "ingested_seq": t.get("ingested_seq", 0), "oldest_tombstone": t.get("oldest_tombstone")
        }  # fmt: skip
        run = lambda r: {"level": r["level"], "number": r["number"], "tables": [table(t) for t in r["tables"]]}
        tree = lambda t: {"id": t["id"], "name": t["name"], "flushed": t["flushed"], "runs": [run(r) for r in t["runs"]]}
        return dict(self.state, trees=[tree(t) for t in self.state["trees"]])


def current(file):
    """The name of the manifest that counts."""
    checked, found, last = file.rpartition(b"crc ")
    need(found and last == b"%08x\n" % zlib.crc32(checked), "CURRENT: checksum mismatch")
    lines = checked.split(b"\n")
    version = re.fullmatch(rb"firn format (\d+)", lines[0])
    need(version and int(version[1]) < 1 << 32, "CURRENT: no version")
    if int(version[1]) != 1:
        raise Newer("a store of a later version")
    need(version[1] == b"1" and len(lines) == 3 and lines[2] == b"", "CURRENT has not three lines")
    name = re.fullmatch(rb"MANIFEST-(\d{6,})", lines[1])
    need(name and lines[1] == b"MANIFEST-%06d" % int(name[1]) and int(name[1]) < MAX_NUMBER, "CURRENT names no manifest")
    return lines[1].decode()


# ---- A whole store


def number_of(name):
    """The number in a file's name, None where there is none."""
    found = re.fullmatch(r"(?:MANIFEST-)?(\d+)(?:\.wal|\.sst)?", name)
    return int(found[1]) if found else None


def load(path):
    with open(path, "rb") as f:
        return f.read()


def log_folder(folder):
    names = sorted(n for n in os.listdir(folder) if re.fullmatch(r"\d{8,}\.wal", n))
    return [Segment(load(os.path.join(folder, n)), number_of(n)) for n in names]


def log_content(folder, start):
    records = read_log(log_folder(folder), start)
    ops = lambda all: [[op, tree, key.hex(), value.hex()] for op, tree, key, value in all]
    return {"from": start, "records": [[seq, ops(all)] for seq, all, _ in records]}


def open_manifest(folder):
    name = current(load(os.path.join(folder, "CURRENT")))
    return Manifest(load(os.path.join(folder, name)), number_of(name))


def visible(entries, ranges):
    """Pairs of key and value from (key, seq, kind, value) and (start, end, seq): what the newest of each key say. Operands append."""
    out, versions = {}, {}
    for key, seq, kind, value in entries:
        versions.setdefault(key, []).append((seq, kind, value))
    for key, all in versions.items():
        hidden = max((seq for start, end, seq in ranges if start <= key < end), default=-1)
        operands, base = [], None
        for seq, kind, value in sorted(all, key=lambda v: -v[0]):
            if seq < hidden or kind == DELETE:
                break
            if kind == PUT:
                base = value
                break
            operands.append(value)
        if base is not None or operands:
            out[key] = (base or b"") + b"".join(reversed(operands))
    return sorted(out.items())


def store_content(folder):
    """What the trees of a store hold, with a merge hook that appends."""
    manifest = open_manifest(folder)
    state, trees = manifest.state, {}
    for tree in state["trees"]:
        entries, ranges = [], []
        for meta in (t for r in tree["runs"] for t in r["tables"]):
            file = load(os.path.join(folder, f"{meta['id']:08}.sst"))
            need(len(file) == meta["size"], "a table of another length than the manifest says")
            table, lift = Table(file, meta["id"]), meta.get("ingested_seq", 0)
            for told, found in (("entries", "entries"), ("deletes", "deletes"), ("merges", "merges"), ("range_deletes", "range.deletes")):
                need(meta[told] == table.properties[found], f"{told} of a table differ between manifest and properties")
            need(meta["first_key"] == table.properties["keys.first"] and meta["last_key"] == table.properties["keys.last"], "bounds")
            need(meta["raw_bytes"] == table.properties["raw.keys"] + table.properties["raw.values"], "raw bytes")
            need(not lift or all(seq == 0 and kind == PUT for _, seq, kind, _ in table.entries), "an ingested table's entries")
            entries += [(k, lift or seq, kind, v) for k, seq, kind, v in table.entries]
            ranges += [(start, end, seq) for start, end, seqs in table.tombstones for seq in seqs]
        trees[tree["id"]] = (tree, entries, ranges)
    for first, ops, end in read_log(log_folder(folder), state["wal_floor"]):
        for seq, (op, tree, key, value) in enumerate(ops, first):
            if tree in trees and end > trees[tree][0]["flushed"]:
                trees[tree][2 if op == DELETE_RANGE else 1].append((key, value, seq) if op == DELETE_RANGE else (key, seq, op, value))
    return {t["name"]: [[k.hex(), v.hex()] for k, v in visible(e, r)] for t, e, r in trees.values()}


def content(path, kind, start=0):
    """What there is at a path, as `expected.jsonl` tells it."""
    if kind == "table":
        return Table(load(path), number_of(os.path.basename(path))).content()
    if kind == "log":
        return log_content(path, start)
    return open_manifest(path).content() if kind == "manifest" else store_content(path)


def main():
    path = sys.argv[1]
    kind = "table" if os.path.isfile(path) else "store" if os.path.exists(os.path.join(path, "CURRENT")) else "log"
    try:
        print(json.dumps(content(path, kind), indent=1))
    except (Damaged, Newer) as e:
        sys.exit(f"{path}: {type(e).__name__.lower()}: {e}")


if __name__ == "__main__":
    main()

"""Tables (README.md, "Tables"): LZ4, blocks, the filter, and all that the parts of a table say of each other."""

import re

from read_base import *
from xxh3 import xxh3_64
import zstandard


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


def zstd(b, size):
    """Decompresses a Zstandard frame that states its content size, which is `size`."""
    try:
        stated = zstandard.frame_content_size(b)
    except zstandard.ZstdError as e:
        need(False, f"Zstandard: {e}")
    need(stated == size, "Zstandard: a frame that does not state the raw length")
    reader = zstandard.ZstdDecompressor().decompressobj(read_across_frames=False)
    try:
        out = reader.decompress(b)
    except zstandard.ZstdError as e:
        need(False, f"Zstandard: {e}")
    need(reader.eof and not reader.unused_data, "Zstandard: not one frame")
    need(len(out) == size, "Zstandard: another length than was said")
    return out


def physical_block(file, at, size, kind, file_id):
    """Checks the block that takes `size` bytes at `at`. Gives its raw content and its codec."""
    b = file[at : at + size]
    need(size >= 24 and len(b) == size, "a block that is cut off")
    need(b[:4] == b"FnB1", "no block begins here")
    stored, raw = u32(b, 8), u32(b, 12)
    need(stored == size - 24, "a block of another length than is said elsewhere")
    need(crc(file_id, at, b[:20], b[24:]) == u32(b, 20), "checksum mismatch")
    need(b[4] == kind, "a block of another kind")
    need(b[5] in (0, 1, 2), "a block of unknown compression")
    need(b[6:8] == bytes(2) and b[16:20] == bytes(4), "a block header that is not 0 where it must be")
    most = {DATA: MAX_VALUE + 2 * MAX_KEY + 4096, BLOB_BLOCK: MAX_VALUE + 2 * MAX_KEY + 4096, PROPERTIES: 1 << 24}
    need(raw <= most.get(kind, (1 << 32) - 25), "a block that is too large")
    need(kind != FILTER or b[5] == 0, "a filter that is compressed")
    if b[5] == 0:
        need(raw == stored, "a raw block of two lengths")
        return b[24:], 0
    need(raw <= 255 * stored, "a block that cannot have shrunk so much")
    return (lz4 if b[5] == 1 else zstd)(b[24:], raw), b[5]


def footer(file, file_id):
    """The footer; `file_id` is the number in the file's name, None when there is none to compare with."""
    at = len(file) - 72
    need(at >= 0, "too short for a table")
    f = file[at:]
    need(f[64:] == b"FirnSST\n", "not a table, or one that is cut off")
    if u32(f, 60) > 1:
        raise Newer("a table of a later version")
    need(crc(u64(f, 0), at, f[:56], f[60:]) == u32(f, 56), "footer: checksum mismatch")
    need(u32(f, 60) == 1, "a footer that does not fit together")
    need(file_id is None or u64(f, 0) == file_id, "another table's footer")
    data, lengths = u64(f, 8), [u32(f, 16 + 4 * i) for i in range(4)]
    need(data + sum(lengths) == at and u64(f, 32) == len(file), "the file has another length than its footer says")
    return u64(f, 0), data, lengths, (u64(f, 40), u64(f, 48))


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
        need(base & 0xFF in (PUT, DELETE, MERGE, BLOB), "a trailer of no kind")
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
        need(seq <= MAX_SEQ and kind <= BLOB, "a sequence number or a kind out of bounds")
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
        need(len(b) >= 24 and b[0] in (1, 2) and b[1] < 8 and b[2:4] == bytes(2), "no filter")
        self.dropped = b[1]
        self.bits = 8 * b[0] - b[1]
        self.width, self.segment, self.seed, self.count = b[0], u32(b, 4), u64(b, 8), u32(b, 16)
        n, s = u32(b, 20), self.segment
        need(s > 0 and s & (s - 1) == 0 and self.count >= s and self.count % s == 0, "a filter of odd sizes")
        need(n == self.count + 2 * s and len(b) == 24 + (n * self.bits + 7) // 8, "a filter of another length")
        self.prints = int.from_bytes(b[24:], "little")

    def at(self, i):
        return self.prints >> i * self.bits & (1 << self.bits) - 1

    def may_contain(self, k):
        h = (k + self.seed) & M64
        h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & M64
        h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & M64
        h ^= h >> 33
        s = self.segment
        a = h * self.count >> 64
        b = (a + s) ^ (h >> 18 & s - 1)
        c = (a + 2 * s) ^ (h & s - 1)
        return self.at(a) ^ self.at(b) ^ self.at(c) == (h ^ h >> 32) & (1 << self.bits) - 1


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
    "block.size compression created.micros data.blocks deletes entries entry.largest filter filter.dropped filter.keys level merges "
    "oldest.tombstone range.deletes raw.keys raw.values seq.max seq.min tree"
).split()
TEXTS = "hook.filter_prefix hook.merge_operator hook.compaction_filter hook.summary tree.name writer".split()


def properties_block(b):
    c, out, last = Cursor(b), {}, b""
    while not c.done():
        name, value = c.bytes(), c.bytes()
        need(name > last, "properties out of order")
        last, name = name, name.decode("utf-8", "replace")
        out[name] = number(value) if name in NUMBERS else text(value) if name in TEXTS else value
    for name in ("log.end", "log.writer"):
        need(len(out.get(name, bytes(8))) == 8, f"{name} of another length")
    get = lambda name: out.get(name, 0)
    need(get("compression") in (0, 1, 2) and get("filter") in (0, 1, 2) and get("filter.dropped") < 8 and get("tree") < 1 << 32, "a property out of bounds")
    return out


def reference(b):
    """A reference: file, number, offset, length of the block, length of the value."""
    c = Cursor(b)
    out = tuple(c.varint() for _ in range(5))
    need(c.done() and b == b"".join(map(varint, out)), "a reference that is not as short as it can be")
    need(out[1] < 1 << 32 and out[3] <= MAX_VALUE + MAX_KEY + 4096 and out[4] <= MAX_VALUE and out[2] + out[3] < 1 << 64, "a reference out of bounds")
    return out


def varint(n):
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def uses_of(b):
    """What the property `blob.uses` says: number, values, bytes."""
    c, out = Cursor(b), []
    while not c.done():
        out.append((c.varint(), c.varint(), c.varint()))
    need(all(u[1] for u in out) and all(a[0] < b[0] for a, b in zip(out, out[1:])), "blob.uses is not sound")
    return out


class BlobFile:
    """A blob file, wholly read and checked."""

    def __init__(self, file, file_id=None):
        self.id, data_len, lengths, self.identity = footer(file, file_id)
        need(lengths[:3] == [0, 0, 0], "a blob file with parts of a table")
        self.size = len(file)
        self.properties = properties_block(physical_block(file, data_len, lengths[3], PROPERTIES, self.id)[0])
        self.places, self.values, at = [], [], 0
        while at < data_len:
            need(at + 24 <= data_len, "a block that is cut off")
            size = 24 + u32(file, at + 8)
            need(at + size <= data_len, "a block that is cut off")
            raw = physical_block(file, at, size, BLOB_BLOCK, self.id)[0]
            need(len(raw) >= 12 and u32(raw, 0) <= min(len(raw) - 12, MAX_KEY), "a value's block that is cut off")
            end = 12 + u32(raw, 0)
            need(raw[4] == PUT and len(raw) - end <= MAX_VALUE, "a value's block that does not fit together")
            self.places.append((at, size))
            self.values.append((raw[12:end], u64(raw, 4) >> 8, raw[end:]))
            at += size
        keys, seqs, p = [v[0] for v in self.values], [v[1] for v in self.values], self.properties
        need(keys == sorted(keys), "keys of a blob file that go down")
        found = {
            "data.blocks": len(keys), "entries": len(keys), "deletes": 0, "merges": 0, "range.deletes": 0,
            "entry.largest": max((len(k) + len(v) for k, _, v in self.values), default=0),
            "raw.keys": sum(map(len, keys)), "raw.values": sum(len(v[2]) for v in self.values),
            "seq.min": min(seqs, default=0), "seq.max": max(seqs, default=0),
            "keys.first": keys[0] if keys else b"", "keys.last": keys[-1] if keys else b"",
        }  # fmt: skip
        for name, value in found.items():
            need(p.get(name, type(value)()) == value, f"{name} is {p.get(name)}, found was {value}")

    def get(self, key, where):
        """The value that a reference of an entry of this key leads to."""
        _, number, at, size, length = where
        need(number < len(self.places) and self.places[number] == (at, size), "a reference to no value")
        own, _, value = self.values[number]
        need(own == key and len(value) == length, "a reference to another value")
        return value

    def content(self):
        return {"values": [[k.hex(), seq, v.hex()] for k, seq, v in self.values]}


class Table:
    """A table, wholly read and checked; filters of prefixes only where the hooks `first N` are taken for known."""

    def __init__(self, file, file_id=None, hooks=True):
        self.id, data_len, lengths, self.identity = footer(file, file_id)
        filter_len, tombstones_len, index_len, properties_len = lengths
        at = data_len
        part = lambda at, size, kind: physical_block(file, at, size, kind, self.id)[0]
        self.filter = Filter(part(at, filter_len, FILTER)) if filter_len else None
        at += filter_len
        self.tombstones = tombstone_block(part(at, tombstones_len, TOMBSTONES)) if tombstones_len else []
        at += tombstones_len
        need(index_len, "a blob file where a table should be")
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
        need(self.filter.dropped == self.properties.get("filter.dropped", 0), "a filter with other bits dropped")
        hook = self.properties.get("hook.filter_prefix", "")
        take = re.fullmatch(r"first (\d+)", hook) if hooks else None
        if hook and not take:
            return
        for key in {e[0][: int(take[1])] if take else e[0] for e in self.entries}:
            need(self.filter.may_contain(xxh3_64(key)), "a key that the filter denies")

    def check_properties(self):
        e, t, p = self.entries, self.tombstones, self.properties
        sums = {}
        for x in (reference(x[3]) for x in e if x[2] == BLOB):
            values, size = sums.get(x[0], (0, 0))
            sums[x[0]] = values + 1, size + x[3]
        need([(f, *s) for f, s in sorted(sums.items())] == uses_of(p.get("blob.uses", b"")), "blob.uses is not what entries refer to")
        length = lambda x: reference(x[3])[4] if x[2] == BLOB else len(x[3])
        seqs = [x[1] for x in e] + [s for f in t for s in f[2]]
        firsts = [x[0] for x in e[:1]] + [f[0] for f in t[:1]]
        lasts = [x[0] for x in e[-1:]] + [f[1] for f in t[-1:]]
        found = {
            "data.blocks": len(self.rows),
            "entries": len(e),
            "deletes": sum(x[2] == DELETE for x in e),
            "merges": sum(x[2] == MERGE for x in e),
            "range.deletes": sum(len(f[2]) for f in t),
            "entry.largest": max((len(x[0]) + length(x) for x in e), default=0),
            "raw.keys": sum(len(x[0]) for x in e),
            "raw.values": sum(length(x) for x in e),
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

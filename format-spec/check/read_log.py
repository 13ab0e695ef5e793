"""The write-ahead log (README.md, "Operations" and "Write-ahead log")."""

import zlib

from read_base import *


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

    # Set for one of an opening that came to nothing.
    void = False

    def __init__(self, file, number):
        self.file, self.number, self.header, self.generation = file, number, None, None
        h = file[:80]
        if len(h) == 80 and h[:8] == b"FIRNWAL\n" and crc(number, 0, h[:76]) == u32(h, 76):
            if u32(h, 8) != 1:
                raise Newer("a log segment of a later version")
            base = u64(h, 24)
            if u32(h, 12) == 80 and u64(h, 16) == number and number and base % 8 == 0 and base < MAX_NUMBER:
                self.header = {"base": base, "synced": u64(h, 32), "previous": u64(h, 40), "capacity": u64(h, 48)}
                self.header |= {"store": u64(h, 56), "writer": u64(h, 64)}
                self.generation = (u64(h, 64) + number) & 0xFFFFFFFF

    def record(self, at):
        """The sound record at an offset: (size, kind, seq, synced, payload). None where there is none."""
        b = self.file
        if at + 32 > len(b):
            return None
        length, generation, kind = u32(b, at + 4), u32(b, at + 8), u32(b, at + 12)
        size = (32 + length + 7) // 8 * 8
        if generation != self.generation and self.generation is not None or kind == 0 or length > MAX_PAYLOAD or at + size > len(b):
            return None
        if crc(self.number, at, b[at + 4 : at + 32 + length]) != u32(b, at):
            return None
        if kind not in (1, 2) and self.generation is None:
            return None
        if kind not in (1, 2):
            raise Newer("a log record of unknown kind")
        return size, kind, u64(b, at + 16), u64(b, at + 24), b[at + 32 : at + 32 + length]

    def is_foreign(self, at):
        """Whether at an offset there is a record of this number and place that another writer wrote."""
        mine, self.generation = self.generation, None
        found = self.record(at)
        self.generation = mine
        return found is not None

    def records_from(self, at):
        """All sound records at and behind an offset, in steps of 8 bytes over what is none, with their offsets."""
        while at + 32 <= len(self.file):
            r = self.record(at)
            if r:
                yield at, r
            at += r[0] if r else 8


def own(segments, writers, start):
    """What the manifest's writers say of the segments: step 0 of the page."""
    for s in segments:
        of = [w for w in writers if w["first_segment"] <= s.number]
        if s.header and (not of or of[-1]["id"] != s.header["writer"]):
            need(not any(s.records_from(80)), f"segment {s.number} is of a clone, another store, or newer than the manifest")
            s.void = True
        elif not s.header and of:
            s.generation = (of[-1]["id"] + s.number) & 0xFFFFFFFF
    if writers and start <= writers[-1]["base"]:
        first = [s for s in segments if s.number == writers[-1]["first_segment"] and s.header and not s.void]
        need(first, "the segment in which the newest writer began is lost")


TABLE = [zlib.crc32(bytes([i])) ^ zlib.crc32(b"\0") for i in range(256)]


def is_one_bit(difference, length):
    """Whether one bit of a checksum, or of the `length` bytes that it covers, makes this difference of checksums."""
    if difference & (difference - 1) == 0:
        return True
    for bit in range(8):
        x = TABLE[1 << bit]
        for _ in range(length):
            if x == difference:
                return True
            x = TABLE[x & 0xFF] ^ x >> 8
    return False


def is_flipped(s, at):
    """Whether the bytes at an offset of a segment become a sound record if one bit is inverted."""
    b = s.file
    if at + 32 > len(b):
        return False
    for turned in [0] + [1 << bit for bit in range(32)]:
        length = u32(b, at + 4) ^ turned
        if length > 16 << 10 or at + 32 + length > len(b):
            continue
        head = length.to_bytes(4, "little") + b[at + 8 : at + 32 + length]
        difference = crc(s.number, at, head) ^ u32(b, at)
        if turned and difference == 0 or not turned and is_one_bit(difference, 28 + length):
            return True
    return False


def damage(segments, stop, ends, position):
    """Why the end of a log is damage, and not what a crash leaves; None where nothing proves that."""
    first = next((i for i, s in enumerate(segments) if s.number == stop[0]), None)
    lost, beyond, sector = [], False, False
    for s in segments[first or 0 :]:
        here = first is not None and s is segments[first]
        for at, r in s.records_from(stop[1] + 8 if here else 80):
            lsn = s.header and s.header["base"] + at - 80
            if lsn is None or lsn >= position and (ends.get(s.number, 0) is None or lsn < ends.get(s.number, 0)):
                beyond |= r[1] == 1
                sector |= here and at // 512 == stop[1] // 512
        if not here and s.header is None and len(s.file) >= 80 and (first is None or any(s.records_from(80))):
            lost.append(s)
    if not beyond:
        return None
    if sector:
        return "a sound record behind the end begins in its sector"
    if first is not None and is_flipped(segments[first], stop[1]):
        return "the record at the end is sound but for one bit"
    for s in lost[:1]:
        if is_one_bit(crc(s.number, 0, s.file[:76]) ^ u32(s.file, 76), 76):
            return f"the header of segment {s.number} is sound but for one bit"
    return None


def read_log(segments, start, writers=None, flushed=0, notices=None):
    """Records of (seq, operations, position after it) from a position on: steps 0 to 3 of the page. `flushed` is the highest position up to
    which a tree was flushed. `notices` gets what proves damage."""
    segments = sorted(segments, key=lambda s: s.number)
    if writers is not None:
        own(segments, writers, start)
    end, ends = None, {}
    for s in reversed(segments):
        if s.header and not s.void and (end is None or s.header["base"] <= end):
            ends[s.number], end = end, s.header["base"]
    at, out, stop = start, [], None
    while stop is None:
        holders = [s for s in segments if s.number in ends and s.header["base"] <= at]
        if not holders:
            stop = (0, 0)
            break
        s = holders[-1]
        while ends[s.number] is None or at < ends[s.number]:
            offset = 80 + at - s.header["base"]
            r = s.record(offset)
            need(r or not s.is_foreign(offset), "a record of another writer")
            is_close = r and r[1] == 2 and r[3] == at and offset + 32 == len(s.file) and ends[s.number] is None
            if r is None or is_close or (ends[s.number] is not None and at + r[0] > ends[s.number]):
                stop = (s.number, offset)
                break
            size, kind, seq, _, payload = r
            at += size
            if kind == 1:
                ops = operations(payload)
                need(seq + max(len(ops) - 1, 0) <= MAX_SEQ, "a sequence number out of bounds")
                out.append((seq, ops, at))
    need(flushed <= at, f"the log breaks off at position {at}, and a tree was flushed up to {flushed}")
    for s in segments:
        if s.number < stop[0]:
            continue
        known = [r[3] for _, r in s.records_from(stop[1] + 8 if s.number == stop[0] else 80)]
        if s.header and s.number != stop[0]:
            known.append(s.header["synced"])
        need(all(k <= at for k in known), f"the log breaks off at position {at}, which had been durable")
    why = damage(segments, stop, ends, at)
    if why and notices is not None:
        notices.append(f"the log is damaged at position {at}: {why}")
    return out

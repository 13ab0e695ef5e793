"""Conventions, checksums, and what damage is (README.md, "Conventions" and "Checksums")."""

import zlib

M64 = (1 << 64) - 1
MAX_SEQ = (1 << 56) - 1
MAX_KEY, MAX_VALUE, MAX_PAYLOAD = (1 << 19) - 1, 1 << 28, 1 << 29
MAX_NUMBER = 1 << 62
PUT, DELETE, MERGE = 1, 2, 3
# The fourth kind of an operation in a log, and that of an entry in a table.
DELETE_RANGE, BLOB = 4, 4
DATA, INDEX, FILTER, TOMBSTONES, PROPERTIES, BLOB_BLOCK = 1, 2, 3, 4, 5, 6


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

"""Rows of CQL tables, from the keys and values of a store's trees (README.md, "The wide model")."""

import hashlib
import ipaddress
import json
import re
import struct
import uuid
from decimal import Decimal

from read_base import *

DELETED, RANGES, STATIC, END, ROWS = 0x20, 0x24, 0x30, 0x38, 0x40
BEFORE, AFTER = 0x20, 0x60
NULL, EMPTY, NEXT, EMPTY_REVERSED = 0x3E, 0x3F, 0x40, 0x41
LIVE, EXPIRING, TOMBSTONE, DELETION, RANGE, COUNTER = range(1, 7)


def big(b, signed=False):
    return int.from_bytes(b, "big", signed=signed)


def inverted(b):
    return bytes(c ^ 0xFF for c in b)


# ---- Types


def parse_type(s):
    """A type from its class: (name without package and `Type`, parameters)."""
    found, rest = one_type(s)
    need(not rest, f"the class {s}")
    return found


def one_type(s):
    m = re.match(r"([\w.]+\.)?(\w+?)Type(?=[(), ]|$)", s)
    need(m, f"the class {s}")
    name, rest, parts = m[2], s[m.end() :], []
    if not rest.startswith("("):
        return (name, parts), rest
    rest = "," + rest[1:]
    if name == "User":
        rest = re.sub(r"^,[^,]*,[^,)]*", "", rest)
    while rest.startswith(","):
        rest = rest[1:].lstrip()
        if name == "Vector" and parts:
            n = re.match(r"\d+", rest)
            parts, rest = parts + [int(n[0])], rest[n.end() :]
            continue
        if name == "User":
            rest = re.sub(r"^[0-9a-f]*:", "", rest)
        part, rest = one_type(rest)
        parts, rest = parts + [part], rest.lstrip()
    need(rest.startswith(")"), f"the class {s}")
    return ("Tuple" if name == "User" else name, parts), rest[1:]


def part_types(t):
    """The types of components, one after the other."""
    name, parts = t
    while name in ("List", "Set", "Map"):
        yield from parts
    yield from [parts[0]] * parts[1] if name == "Vector" else parts


# ---- Values


def vint(b, at):
    n = 0
    while n < 8 and b[at] >> (7 - n) & 1:
        n += 1
    bits = 64 if n == 8 else 7 * (n + 1)
    need(at + n < len(b), "a vint that is cut off")
    return big(b[at : at + n + 1]) & ((1 << bits) - 1), at + n + 1


def decimal(n, exponent):
    """n times a power of ten, exactly."""
    return Decimal(Decimal(n).as_tuple()._replace(exponent=exponent))


FIXED = {"Boolean": 1, "Int32": 4, "Float": 4, "Long": 8, "Double": 8, "Timestamp": 8, "Date": 8, "UUID": 16, "TimeUUID": 16, "LexicalUUID": 16}


def fixed_length(t):
    if t[0] == "Vector":
        inner = fixed_length(t[1][0])
        return inner and inner * t[1][1]
    return FIXED.get(t[0])


def value(t, b):
    """What a value's bytes mean."""
    name, parts = t
    if name == "Reversed":
        return value(parts[0], b)
    if name in ("UTF8", "Ascii"):
        return text(b)
    if name == "Bytes":
        return b
    if not b:
        return None
    if name in ("Long", "Int32", "Short", "Byte", "Timestamp", "Date", "Integer", "Time", "CounterColumn"):
        return big(b, True)
    if name == "SimpleDate":
        return big(b) - (1 << 31)
    if name in ("Float", "Double"):
        return struct.unpack(">f" if name == "Float" else ">d", b)[0]
    if name == "Decimal":
        return decimal(big(b[4:], True), -big(b[:4], True))
    if name == "Boolean":
        return b != b"\0"
    if name in ("UUID", "TimeUUID", "LexicalUUID"):
        return uuid.UUID(bytes=b)
    if name == "InetAddress":
        return ipaddress.ip_address(b)
    if name == "Duration":
        out, at = [], 0
        for _ in range(3):
            n, at = vint(b, at)
            out.append(n >> 1 ^ -(n & 1))
        return out
    out, at, types = [], 0, part_types(t)
    if name in ("List", "Set", "Map"):
        count, at = big(b[:4]) * len(parts), 4
    while at < len(b):
        of = next(types, None)
        need(of, "a value with too many parts")
        if name == "Vector":
            n = fixed_length(of)
            if n is None:
                n, at = vint(b, at)
        elif name == "Composite":
            n, at = big(b[at : at + 2]), at + 2
        else:
            n, at = big(b[at : at + 4], True), at + 4
        need(at + max(n, 0) <= len(b), "a value that is cut off")
        out.append(None if n < 0 else value(of, b[at : at + n]))
        at += max(n, 0) + (name == "Composite")
    need(name not in ("List", "Set", "Map") or len(out) == count, "a collection of another length")
    return out + [None] * (len(parts) - len(out)) if name == "Tuple" else out


# ---- Forms in keys


def escaped(b, at):
    out = bytearray()
    while True:
        zero = b.find(b"\0", at)
        need(zero >= 0, "escaped bytes without an end")
        out += b[at:zero]
        at = zero + 1
        while b[at : at + 1] == b"\xfe":
            out.append(0)
            at += 1
        if b[at : at + 1] != b"\xff":
            return bytes(out), at
        out.append(0)
        at += 1


def long_form(b, at):
    mask = 0 if b[at] & 0x80 else 0xFF
    ones = 0
    while ones < 9 and (b[at + ones // 8 : at + ones // 8 + 1] or b"\0")[0] & (0x80 >> ones % 8) ^ mask & (0x80 >> ones % 8):
        ones += 1
    need(at + ones <= len(b), "a long that is cut off")
    n = big(bytes(c ^ mask for c in b[at : at + ones])) & ((1 << 7 * ones) - 1)
    return ~n if mask else n, at + ones


def integer_form(b, at):
    if b[at] not in (0, 0xFF):
        return long_form(b, at)
    negative = b[at] == 0
    n, end = vint(inverted(b[at + 1 : at + 10]) if negative else b[at + 1 : at + 10], 0)
    at, n = at + 1 + end, n + 7
    need(at + n <= len(b), "an integer that is cut off")
    return big(b[at : at + n]) - (1 << 8 * n if negative else 0), at + n


def decimal_form(b, at):
    head, at = b[at], at + 1
    if head == 0x80:
        return Decimal(0), at
    negative = head < 0x80
    n = head - (0x40 if negative else 0xC0)
    need(abs(n) <= 8, "the length of an exponent")
    e = big(b[at : at + abs(n)]) - (1 << 8 * abs(n) if n < 0 else 0)
    at, end = at + abs(n), b.find(b"\0", at + abs(n))
    need(end > at, "a decimal without digits")
    digits = 0
    for c in b[at:end]:
        digits = digits * 100 + c - 0x80
    return decimal(digits, 2 * ((-e if negative else e) - (end - at))), end + 1


def uuid_form(name, b):
    high, low = big(b[:8]), b[8:]
    if name == "LexicalUUID":
        return uuid.UUID(bytes=bytes([b[0] ^ 0x80]) + b[1:8] + bytes([low[0] ^ 0x80]) + low[1:])
    if name == "TimeUUID":
        low = bytes(c ^ 0x80 for c in low)
    if name == "TimeUUID" or high >> 60 == 1:
        high = (high & 0xFFFFFFFF) << 32 | (high >> 32 & 0xFFFF) << 16 | high >> 48
    else:
        high = (high >> 12 & (1 << 48) - 1) << 16 | (high >> 60) << 12 | high & 0xFFF
    return uuid.UUID(bytes=high.to_bytes(8, "big") + low)


LENGTHS = dict(FIXED, Short=2, Byte=1, SimpleDate=4, Time=8)


def form(t, b, at):
    """The meaning of a form, and where it ends."""
    name, parts = t
    if name == "Reversed":
        return form(parts[0], inverted(b), at)
    if name in ("Bytes", "Ascii", "UTF8", "InetAddress", "Duration", "Empty"):
        raw, end = escaped(b, at)
        return value(t, raw), end
    if name in ("Long", "Integer", "Decimal"):
        return {"Long": long_form, "Integer": integer_form, "Decimal": decimal_form}[name](b, at)
    if name in LENGTHS:
        raw, end = b[at : at + LENGTHS[name]], at + LENGTHS[name]
        need(len(raw) == LENGTHS[name], "a form that is cut off")
        if "UUID" in name:
            return uuid_form(name, raw), end
        if name in ("Float", "Double"):
            raw = bytes([raw[0] ^ 0x80]) + raw[1:] if raw[0] & 0x80 else inverted(raw)
        elif name in ("Int32", "Short", "Byte", "Timestamp"):
            raw = bytes([raw[0] ^ 0x80]) + raw[1:]
        return value(t, raw), end
    need(name in ("Composite", "List", "Set", "Map", "Tuple", "Vector"), f"the type {name}")
    out, types = [], part_types(t)
    while b[at] != END and not (name == "Composite" and b[at] in (BEFORE, AFTER)):
        part, at = component(next(types), b, at)
        out.append(part)
    return out + [None] * (len(parts) - len(out)) if name == "Tuple" else out, at + 1


def component(t, b, at):
    need(at < len(b), "a component is missing")
    if b[at] == NEXT:
        return form(t, b, at + 1)
    need(b[at] in (NULL, EMPTY_REVERSED if t[0] == "Reversed" else EMPTY), "a component's first byte")
    return None if b[at] == NULL else value(t, b""), at + 1


def tokens(partitioner):
    """The length of tokens, and the token of a row key."""
    name = partitioner.rsplit(".", 1)[-1]
    if name == "Murmur3Partitioner":
        return 8, lambda key: ((murmur3(key) ^ 1 << 63) & M64).to_bytes(8, "big")
    if name == "RandomPartitioner":
        return 16, lambda key: abs(big(hashlib.md5(key).digest(), True)).to_bytes(16, "big")
    return 0, lambda key: b""


def murmur3(key):
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
    turn = lambda x, n: (x << n | x >> (64 - n)) & M64
    first = lambda k: turn(k * c1 & M64, 31) * c2 & M64
    second = lambda k: turn(k * c2 & M64, 33) * c1 & M64
    h1 = h2 = 0
    for at in range(0, len(key) // 16 * 16, 16):
        h1 = (turn(h1 ^ first(u64(key, at)), 27) + h2) * 5 + 0x52DCE729 & M64
        h2 = (turn(h2 ^ second(u64(key, at + 8)), 31) + h1) * 5 + 0x38495AB5 & M64
    rest, tails = key[len(key) // 16 * 16 :], [0, 0]
    for i, c in enumerate(rest):
        tails[i // 8] ^= ((c - 256 if c > 127 else c) << 8 * (i % 8)) & M64
    h1, h2 = h1 ^ first(tails[0]) ^ len(key), h2 ^ second(tails[1]) ^ len(key)
    h1 = h1 + h2 & M64
    h2 = h2 + h1 & M64
    for _ in range(2):
        h1, h2 = ((h1 ^ h1 >> 33) * 0xFF51AFD7ED558CCD & M64, h2)
        h1 = (h1 ^ h1 >> 33) * 0xC4CEB9FE1A85EC53 & M64
        h1, h2 = h2, h1 ^ h1 >> 33
    h = h1 + h2 & M64
    return (1 << 63) - 1 if h == 1 << 63 else h


# ---- Cells


class Cell:
    """A value of a family."""

    def __init__(self, b):
        need(len(b) >= 9 and LIVE <= b[0] <= COUNTER, "a value of no kind")
        self.kind, self.timestamp, rest = b[0], i64(b, 1), b[9:]
        self.second, self.value = None, b""
        if self.kind == LIVE:
            self.value = rest
        elif self.kind == EXPIRING:
            self.second, self.value = i64(rest, 4), rest[12:]
        elif self.kind == COUNTER:
            # The values that the engine's operator would add are one behind the other.
            need(len(b) % 17 == 0, "a counter of another length")
            total = sum(i64(b, at + 9) for at in range(0, len(b), 17)) & M64
            self.value = total - (total >> 63 << 64)
        else:
            self.second, self.value = i64(rest, 0), rest[8:]
            need(self.kind == RANGE or not self.value, "a deletion of another length")


def i64(b, at):
    return struct.unpack_from("<q", b, at)[0]


class Table:
    """A CQL table: its record, and the keys and values of its tree."""

    def __init__(self, record, pairs, partitioner, now):
        self.record, self.now = record, now
        self.columns = record["columns"]
        of_kind = lambda kind: [c for c in self.columns if c["kind"] == kind]
        self.partition, self.clustering = of_kind("partition"), of_kind("clustering")
        self.cells = {c["id"]: c for c in self.columns if c["id"]}
        self.types = {c["name"]: parse_type(c["of"]["class"]) for c in self.columns}
        self.rows_of = [("Reversed", [self.types[c["name"]]]) if c.get("descending") else self.types[c["name"]] for c in self.clustering]
        self.dropped = {}
        for d in record["dropped"]:
            self.dropped[d["id"]] = max(d["dropped"], self.dropped.get(d["id"], d["dropped"]))
        self.token_len, self.token = tokens(partitioner)
        self.parts = {}
        for key, v in pairs:
            self.add(key, Cell(v))

    def key_end(self, key):
        need(key[self.token_len : self.token_len + 1] == b"\x40", "a key without its row key")
        row_key, at = escaped(key, self.token_len + 1)
        need(self.token(row_key) == key[: self.token_len], "another token than that of the row key")
        return row_key, at

    def split(self, key, at):
        """The place at `at`: whether it is static, its row's values, where the row ends, column, path, whether it is a deletion."""
        static, row = key[at] == STATIC, []
        at += 1
        if self.record["compact"]:
            need(key[at - 1] == ROWS and key[at] == END, "the row of a compact table")
            return self.split_compact(key, at + 1)
        if not static:
            need(key[at - 1] == ROWS, "a place of no kind")
            for t in self.rows_of:
                v, at = component(t, key, at)
                row.append(v)
            need(key[at] == END, "a row without an end")
            at += 1
        row_end = at
        if key[at:] == bytes([DELETED]):
            return static, row, row_end, None, None, True
        if key[at] == EMPTY:
            column, at = 0, at + 1
        else:
            need(key[at] == NEXT, "the name of a cell")
            column, at = big(key[at + 1 : at + 3]), at + 3
        need(key[at : at + 1] == bytes([END]), "a name without an end")
        at += 1
        if at == len(key) or key[at:] == bytes([DELETED]):
            return static, row, row_end, column, None, at < len(key)
        if column not in self.cells:
            return static, row, row_end, column, b"", False
        path, at = component(self.path_type(column), key, at)
        need(key[at:] == bytes([END]), "a path without an end")
        return static, row, row_end, column, (path,), False

    def split_compact(self, key, at):
        if self.clustering:
            many = len(self.rows_of) > 1
            row, end = component(("Composite", self.rows_of) if many else self.rows_of[0], key, at)
            row, column = (row if many else [row]), next(iter(self.cells), 0)
            row, row_end = row + [None] * (len(self.rows_of) - len(row)), len(key)
        else:
            name, end = component(("UTF8", []), key, at)
            row, row_end, column = [], at, next((c["id"] for c in self.cells.values() if c["name"] == name), -1)
        need(key[end:] == bytes([END]), "a name without an end")
        return False, row, row_end, column, None, False

    def path_type(self, column):
        name, parts = self.types[self.cells[column]["name"]]
        return {"List": ("TimeUUID", []), "Tuple": ("Short", [])}.get(name) or parts[0]

    def add(self, key, cell):
        row_key, at = self.key_end(key)
        part = self.parts.setdefault(key[:at], {"key": row_key, "deleted": [], "ranges": [], "rows": {}})
        if key[at] == DELETED:
            need(len(key) == at + 1 and cell.kind == DELETION, "the deletion of a row key")
            part["deleted"].append(cell.timestamp)
            return
        if key[at] == RANGES:
            need(cell.kind == RANGE, "the deletion of a range")
            part["ranges"].append((key[at + 1 :], cell.value, cell.timestamp))
            return
        static, values, row_end, column, path, is_deletion = self.split(key, at)
        need((cell.kind == DELETION) == is_deletion and cell.kind != RANGE, "a value of another kind than its key's")
        row = part["rows"].setdefault(key[at:row_end], {"static": static, "values": values, "deleted": [], "complex": {}, "cells": {}})
        if is_deletion and column is None:
            row["deleted"].append(cell.timestamp)
        elif is_deletion:
            row["complex"][column] = cell.timestamp
        else:
            covering = part["deleted"] + row["deleted"] + [t for start, end, t in part["ranges"] if start <= key[at:] < end]
            covering += [row["complex"][column]] if path and column in row["complex"] else []
            covering += [self.dropped[column]] if column in self.dropped else []
            expired = cell.kind == EXPIRING and cell.second <= self.now
            if cell.kind != TOMBSTONE and not expired and all(t < cell.timestamp for t in covering):
                row["cells"].setdefault(column, []).append((key, path, cell))

    def row_key(self, key):
        if len(self.partition) == 1:
            return [value(self.types[self.partition[0]["name"]], key)]
        out, at = [], 0
        for c in self.partition:
            n = big(key[at : at + 2])
            out.append(value(self.types[c["name"]], key[at + 2 : at + 2 + n]))
            need(key[at + 2 + n : at + 3 + n] == b"\0", "a row key of several columns")
            at += 3 + n
        need(at == len(key), "a row key that is too long")
        return out

    def column_value(self, column, cells):
        t = self.types[column["name"]]
        if not column["of"].get("multicell"):
            return cells[0][2].value if cells[0][2].kind == COUNTER else value(t, cells[0][2].value)
        name, parts = t
        if name == "Set":
            return [path for _, (path,), _ in cells]
        if name == "Map":
            return [x for _, (path,), cell in cells for x in (path, value(parts[1], cell.value))]
        if name == "List":
            return [value(parts[0], cell.value) for _, _, cell in cells]
        fields = {path: value(parts[path], cell.value) for _, (path,), cell in cells}
        return [fields.get(i) for i in range(len(parts))]

    def rows(self):
        """The rows in the order of keys, as dicts."""
        by_marker = self.record.get("view") and self.record["view"]["key_column"] is not None
        for part in self.parts.values():
            base = dict(zip((c["name"] for c in self.partition), self.row_key(part["key"])))
            static = next((r for r in part["rows"].values() if r["static"]), {"cells": {}})
            for row in part["rows"].values():
                known = [c for c in row["cells"] if c in self.cells]
                if row["static"] or not (0 in row["cells"] or known and not by_marker):
                    continue
                out = base | dict(zip((c["name"] for c in self.clustering), row["values"]))
                for c in self.cells.values():
                    cells = (static if c["kind"] == "static" else row)["cells"].get(c["id"])
                    out[c["name"]] = self.column_value(c, cells) if cells else None
                yield out


def tables(trees, now):
    """The CQL tables of a store, by number, from the pairs of each tree in hexadecimal."""
    pairs = lambda name: [(bytes.fromhex(k), bytes.fromhex(v)) for k, v in trees.get(name, [])]
    schema = dict(pairs("system.schema"))
    for key, v in schema.items():
        if key[0] not in (0, 0xFF):
            need(schema.get(b"\xff\xff" + key) == v, f"the record {key} has no copy")
    out = {}
    for key, v in schema.items():
        if key.startswith(b"cql/table/"):
            record, number = json.loads(v), int(key[10:])
            need(record["format"] == 1, "a record of another format")
            need(record["compact"] == (b"schema/family/%010d" % number in schema), "a compact table has the record of a family")
            out[number] = Table(record, pairs(f"cf-{number}"), schema[b"wide/partitioner"].decode(), now)
    return out

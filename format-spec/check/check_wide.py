"""Checks README.md, "The wide model", on a golden store of CQL: the rows that read_wide.py reads are those of `answers.txt`, each index
has the entries of the live cells and no others, and the keys and values of the example on the page are in the store.

Usage: check_wide.py FOLDER
"""

import datetime
import ipaddress
import json
import os
import re
import sys
import time
import uuid
from decimal import Decimal

import reader
import read_wide
from read_base import need

PAGE = os.path.join(os.path.dirname(__file__), "..", "README.md")


def answer(t, v):
    """A value of `SELECT JSON` as read_wide.py gives it."""
    name, parts = t
    if v is None or name in ("UTF8", "Ascii", "Boolean"):
        return v
    if name == "Bytes":
        return bytes.fromhex(v[2:])
    if "UUID" in name:
        return uuid.UUID(v)
    if name == "InetAddress":
        return ipaddress.ip_address(v)
    if name == "Timestamp":
        at = datetime.datetime.strptime(v, "%Y-%m-%d %H:%M:%S.%fZ") - datetime.datetime(1970, 1, 1)
        return at // datetime.timedelta(milliseconds=1)
    if name == "SimpleDate":
        return (datetime.date.fromisoformat(v) - datetime.date(1970, 1, 1)).days
    if name == "Time":
        h, m, s = v.split(":")
        return ((int(h) * 60 + int(m)) * 60) * 10**9 + int(Decimal(s) * 10**9)
    if name == "Duration":
        units = {"y": (0, 12), "mo": (0, 1), "d": (1, 1), "h": (2, 3600 * 10**9), "m": (2, 60 * 10**9), "s": (2, 10**9), "ns": (2, 1)}
        out = [0, 0, 0]
        for n, unit in re.findall(r"(\d+)([a-z]+)", v):
            out[units[unit][0]] += int(n) * units[unit][1]
        return out
    if name in ("Float", "Double"):
        return float(v)
    if name == "Decimal":
        return Decimal(v)
    if name == "Map":
        return [x for k, y in v.items() for x in (answer(parts[0], k), answer(parts[1], y))]
    if name in ("List", "Set", "Vector"):
        return [answer(parts[0], x) for x in v]
    if name == "Tuple":
        return [answer(p, x) for p, x in zip(parts, v.values() if isinstance(v, dict) else v)]
    return int(v)


def rows_agree(tables, lines):
    """The answers to `SELECT JSON * FROM …` without conditions against the rows of the tables."""
    by_name, name, count = {t.record["name"]: t for t in tables.values()}, None, 0
    expected = {}
    for line in lines:
        if not line.startswith("  "):
            found = re.fullmatch(r"SELECT JSON \* FROM (\w+)", line)
            name = found and found[1]
            if name:
                expected[name] = []
        elif name:
            t = by_name[name]
            row = json.loads(line, parse_float=Decimal)
            expected[name].append({c: answer(t.types[c], v) for c, v in row.items()})
    need(len(expected) == len(by_name), "answers about other tables than there are")
    for name, rows in expected.items():
        found = list(by_name[name].rows())
        need(len(found) == len(rows), f"{len(found)} rows of {name}, and {len(rows)} answers")
        for a, b in zip(found, rows):
            need(a == b, f"{name}: {a} and {b}")
            count += len(a)
    return count


def indexes_agree(tables, trees):
    """Each entry of an index is that of a live cell, and each live cell that an index covers has one."""
    count = 0
    for t in tables.values():
        for index in t.record["indexes"]:
            column = next(c for c in t.columns if c["name"] == index["column"])
            of = t.types[column["name"]]
            need(index["target"] == "Simple" or of[0] == "Set", "an index that this check does not know")
            cells = {}
            for start, part in t.parts.items():
                for place, row in part["rows"].items():
                    for key, path, cell in row["cells"].get(column["id"], []):
                        cells[start + place, path[0] if path else read_wide.value(of, cell.value)] = cell
            for key, value in trees[f"ix-{index['id']}"]:
                key, entry = bytes.fromhex(key), read_wide.Cell(bytes.fromhex(value))
                prefix, at = read_wide.component(of[1][0] if of[0] == "Set" else of, key, 0)
                need(key[at] == read_wide.END, "an entry whose prefix has no end")
                cell = cells.pop((key[at + 1 :], prefix), None)
                need(cell, "an entry without its cell")
                same = (cell.kind, cell.timestamp, cell.second, b"") == (entry.kind, entry.timestamp, entry.second, entry.value)
                need(same, "an entry with another value than its cell")
                count += 1
            need(not cells, "cells that an index lacks")
    return count


def example_agrees(trees):
    """The keys and values of the page's example are in the store."""
    with open(PAGE, encoding="utf-8") as f:
        block = f.read().split("### A CQL row by hand\n")[1].split("```text\n")[1].split("```")[0]
    number = re.search(r"(?m)^tree +(cf-\d+)$", block)[1]
    places = {name: bytes.fromhex(x) for name, x in re.findall(r"(?m)^(key|row) +((?:[0-9a-f]{2} )+)", block)}
    stored, count = {bytes.fromhex(k): bytes.fromhex(v) for k, v in trees[number]}, 0
    lines = re.findall(r"(?m)^(key|row) \+ ((?:[0-9a-f]{2} )+).*\n +→ ((?:[0-9a-f]{2}\b ?)+)", block)
    for place, end, value in lines:
        key = places["key"] + (places["row"] if place == "row" else b"") + bytes.fromhex(end)
        need(stored.get(key) == bytes.fromhex(value), f"the example's {end} is not in the store")
        count += 1
    need(count == block.count("→"), "a line of the example that cannot be read")
    return count


def main():
    folder = sys.argv[1]
    trees = reader.store_content(os.path.join(folder, "store"))
    tables = read_wide.tables(trees, int(time.time()))
    with open(os.path.join(folder, "answers.txt"), encoding="utf-8") as f:
        values = rows_agree(tables, f.read().splitlines())
    print(f"{len(tables)} CQL tables: {values} values, {indexes_agree(tables, trees)} index entries, {example_agrees(trees)} cells of the page agree")


if __name__ == "__main__":
    main()

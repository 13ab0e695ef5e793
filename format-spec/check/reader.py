"""An independent reader of Firn's files: it follows README.md, section by section, and shares nothing with the engine.

It is strict: whatever the page calls damage is refused, and everything that the page promises about sound bytes is checked.
`python3 reader.py FILE-OR-FOLDER` prints what is there.
"""

import json
import os
import re
import sys

from read_base import *
from read_log import *
from read_manifest import *
from read_table import *


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


def successor(key):
    """The next key: the manifest may tell of the last key before the end of a range deletion, the properties of the end."""
    if len(key) < MAX_KEY:
        return key + b"\0"
    stem = key.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def store_content(folder, notices=None):
    """What the trees of a store hold, with a merge operator that appends. `notices` gets what is damaged at the end of the log."""
    manifest = open_manifest(folder)
    state, trees = manifest.state, {}
    for tree in state["trees"]:
        entries, ranges, values = [], [], {}
        for told in tree["blob_files"]:
            v = values[told["id"]] = BlobFile(load(os.path.join(folder, f"{told['id']:08}.sst")), told["id"])
            need(v.identity == (told["identity"]["store"], told["identity"]["unique"]), "another blob file than the manifest tells of")
            sizes = (v.size, len(v.values), sum(size for _, size in v.places), v.properties["raw.values"])
            need(sizes == (told["size"], told["values"], told["bytes"], told["raw_bytes"]), "a blob file differs from what the manifest says")
        for meta in (t for r in tree["runs"] for t in r["tables"]):
            file = load(os.path.join(folder, f"{meta['id']:08}.sst"))
            need(len(file) == meta["size"], "a table of another length than the manifest says")
            table, lift = Table(file, meta["id"]), meta.get("ingested_seq", 0)
            need(table.identity == (meta["identity"]["store"], meta["identity"]["unique"]), "another table than the manifest tells of")
            for told, found in (("entries", "entries"), ("deletes", "deletes"), ("merges", "merges"), ("range_deletes", "range.deletes")):
                need(meta[told] == table.properties[found], f"{told} of a table differ between manifest and properties")
            need(meta["first_key"] == table.properties["keys.first"], "the first key of a table differs between manifest and properties")
            ends = {meta["last_key"]} | ({successor(meta["last_key"])} if table.tombstones else set())
            need(table.properties["keys.last"] in ends, "the last key of a table differs between manifest and properties")
            need(meta["raw_bytes"] == table.properties["raw.keys"] + table.properties["raw.values"], "raw bytes")
            need(not lift or all(seq == 0 and kind == PUT for _, seq, kind, _ in table.entries), "an ingested table's entries")
            need(meta.get("blob_uses", b"") == table.properties.get("blob.uses", b""), "blob references differ between manifest and properties")
            for k, seq, kind, v in table.entries:
                if kind == BLOB:
                    where = reference(v)
                    need(where[0] in values, "a reference to a blob file that the manifest does not tell of")
                    kind, v = PUT, values[where[0]].get(k, where)
                entries.append((k, lift or seq, kind, v))
            ranges += [(start, end, seq) for start, end, seqs in table.tombstones for seq in seqs]
        trees[tree["id"]] = (tree, entries, ranges)
    segments = log_folder(folder)
    need(segments or manifest.number == 1 and len(manifest.frames) == 1, "a store that has lost its log")
    flushed = max((t["flushed"] for t in state["trees"]), default=0)
    for first, ops, end in read_log(segments, state["wal_floor"], state["writers"], flushed if segments else 0, notices):
        for seq, (op, tree, key, value) in enumerate(ops, first):
            if tree in trees and end > trees[tree][0]["flushed"]:
                trees[tree][2 if op == DELETE_RANGE else 1].append((key, value, seq) if op == DELETE_RANGE else (key, seq, op, value))
    return {t["name"]: [[k.hex(), v.hex()] for k, v in visible(e, r)] for t, e, r in trees.values()}


def is_of_values(file, number):
    """Whether a file named as a table is a blob file, which has no index."""
    return footer(file, number)[2][2] == 0


def content(path, kind, start=0):
    """What there is at a path, as `expected.jsonl` tells it."""
    if kind == "table":
        file, number = load(path), number_of(os.path.basename(path))
        return (BlobFile if is_of_values(file, number) else Table)(file, number).content()
    if kind == "log":
        return log_content(path, start)
    return open_manifest(path).content() if kind == "manifest" else store_content(path)


def main():
    path = sys.argv[1]
    kind = "table" if os.path.isfile(path) else "store" if os.path.exists(os.path.join(path, "CURRENT")) else "log"
    try:
        notices = []
        print(json.dumps(store_content(path, notices) if kind == "store" else content(path, kind), indent=1))
        for notice in notices:
            print(f"{path}: {notice}", file=sys.stderr)
    except (Damaged, Newer) as e:
        sys.exit(f"{path}: {type(e).__name__.lower()}: {e}")


if __name__ == "__main__":
    main()

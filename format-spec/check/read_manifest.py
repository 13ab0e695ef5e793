"""The manifest and CURRENT (README.md, "Manifest")."""

import re
import struct
import zlib
from pathlib import Path

from read_base import *

MESSAGES = {
    "state": {2: "store_id", 4: "created", 6: "next_file", 8: "last_seq", 10: "wal_floor", 12: "next_tree", 14: "trees", 16: "writers", 18: "parent", 20: "subscriptions"},
    "log_writer": {2: "first_segment", 4: "base", 6: "id"},
    "tree": {2: "id", 4: "name", 6: "options", 8: "flushed", 10: "runs", 12: "blob_files"},
    "run": {2: "level", 4: "number", 6: "tables"},
    "table": {
        2: "id", 4: "size", 6: "entries", 8: "deletes", 10: "merges", 12: "range_deletes", 14: "raw_bytes", 16: "first_key",
        18: "last_key", 20: "min_seq", 22: "max_seq", 24: "created", 26: "newest", 28: "oldest_tombstone", 30: "ingested_seq",
        32: "identity", 34: "blob_uses",
    },
    "blob_file": {2: "id", 4: "size", 6: "values", 8: "bytes", 10: "raw_bytes", 12: "identity"},
    "create_tree": {2: "id", 4: "name", 6: "options", 8: "flushed"},
    "drop_tree": {2: "id"},
    "set_options": {2: "id", 4: "options"},
    "tables": {2: "tree", 4: "removed", 6: "added", 8: "flushed", 10: "blob_files"},
    "added": {2: "level", 4: "run", 6: "table"},
    "counters": {2: "next_file", 4: "last_seq", 6: "wal_floor"},
    "log_writers": {2: "writers"},
    "subscription": {2: "name", 4: "seq", 6: "position", 8: "max_log_bytes", 10: "snapshot_due"},
    "drop_subscription": {2: "name"},
    "options": {
        2: "compression", 4: "filter", 6: "block_size", 8: "table_size", 10: "memtable_size", 12: "policy", 14: "tombstone_age_secs",
        16: "merge_operator", 18: "compaction_filter", 20: "summary", 22: "filter_prefix", 24: "blob_threshold", 26: "blob_gc_percent",
        28: "filter_allocation",
    },
    "policy": {2: "name", 4: "parameters"},
    "parameter": {2: "name", 4: "value"},
}  # fmt: skip
EDITS = {2: "snapshot", 4: "create_tree", 6: "drop_tree", 8: "set_options", 10: "tables", 12: "counters", 14: "log_writers", 16: "set_subscription", 18: "drop_subscription"}
REPEATED = {"state.trees", "state.writers", "tree.runs", "run.tables", "tables.removed", "tables.added", "policy.parameters"}
REPEATED |= {"state.subscriptions", "log_writers.writers", "tree.blob_files", "tables.blob_files"}
OPTIONAL = {"table.oldest_tombstone", "table.ingested_seq", "tables.flushed", "options.merge_operator", "options.compaction_filter", "options.summary"}
OPTIONAL |= {"options.filter_prefix", "options.blob_threshold", "options.blob_gc_percent", "options.filter_allocation", "state.parent", "table.blob_uses"}
INNER = {"trees": "tree", "runs": "run", "tables": "table", "added": "added", "table": "table", "options": "options"}
INNER |= {"subscriptions": "subscription", "writers": "log_writer", "policy": "policy", "parameters": "parameter"}
BYTES = {"first_key", "last_key", "compression", "filter", "value"}
NAMES = {"name", "merge_operator", "compaction_filter", "summary", "filter_prefix"}
BITS = {"blob_gc_percent": 8, "level": 8, "next_tree": 32, "tree": 32, "tree.id": 32, "create_tree.id": 32, "drop_tree.id": 32, "set_options.id": 32}


def policies():
    """The table of README.md: of each policy its parameters, and of each parameter its kind: number, double, zigzags, or how many choices."""
    lines = (Path(__file__).parent.parent / "README.md").read_text("utf-8").splitlines()
    out = {}
    for line in lines[lines.index("| policy | parameters |") + 2 :]:
        if not line:
            return out
        name, rest = re.fullmatch(r"\| `(.+?)` \| (.*) \|", line).groups()
        params = re.findall(r"`(\w+)`( `\?`)?(?: \((.*?)\))?", rest)
        out[name] = {p: len(note.split(",")) if choice else note or "number" for p, choice, note in params}


POLICIES = policies()
KINDS_OF_PARAMETERS = {name: kind for params in POLICIES.values() for name, kind in params.items()}


def uses(b):
    """What a table refers to in blob files: lists of number, values, bytes."""
    c, out = Cursor(b), []
    while not c.done():
        out.append([c.varint(), c.varint(), c.varint()])
    need(all(u[1] for u in out) and all(a[0] < b[0] for a, b in zip(out, out[1:])), "references to blob files that are not sound")
    return out


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
        elif name == "blob_files" and kind in ("tree", "tables"):
            v = message("blob_file", value)
        elif kind == "table" and name == "blob_uses":
            v = value
            need(uses(value), "blob references to nothing")
        elif name in INNER and not (kind == "tables" and name == "removed"):
            v = message(INNER[name], value)
        elif name == "identity":
            need(len(value) == 16, "an identity of another length")
            v = {"store": u64(value, 0), "unique": u64(value, 8)}
        elif kind == "log_writer" and name == "id":
            need(len(value) == 8, "a writer's number of another length")
            v = u64(value, 0)
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
        if any(b > 2 for b in out["compression"]) or any(b > 2 for b in out["filter"]):
            raise Newer("unknown compression or filter")
        if out.get("filter_allocation", 0) > 1:
            raise Newer("unknown allocation of filters")
    return decoded_policy(out) if kind == "policy" else out


def decoded_policy(p):
    if p["name"] not in POLICIES:
        raise Newer("an unknown compaction policy")
    known, values = POLICIES[p["name"]], {}
    for x in p["parameters"]:
        name, b = x["name"], x["value"]
        kind = known.get(name)
        if kind is None:
            raise Newer("an unknown parameter of a compaction policy")
        if kind == "double":
            need(len(b) == 8, "a double of another length")
            values[name] = struct.unpack("<d", b)[0]
        elif kind == "zigzags":
            c, values[name] = Cursor(b), []
            while not c.done():
                v = c.varint(32)
                values[name].append(v >> 1 ^ -(v & 1))
        else:
            values[name] = number(b)
            if isinstance(kind, int) and values[name] >= kind:
                raise Newer("an unknown choice of a compaction policy")
    missing = {name for name, kind in known.items() if not isinstance(kind, int)} - set(values)
    need(not missing, f"a policy lacks {missing}")
    return {"name": p["name"], "parameters": values}


def edits(payload):
    out = []
    for tag, value in fields(payload):
        if tag in EDITS:
            kind = {2: "state", 16: "subscription"}.get(tag, EDITS[tag])
            out.append((EDITS[tag], message(kind, value)))
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
            s["trees"].append(dict(edit, runs=[], blob_files=[]))
            s["next_tree"] = edit["id"] + 1
        elif name == "counters":
            for counter in ("next_file", "last_seq", "wal_floor"):
                s[counter] = max(s[counter], edit[counter])
        elif name == "log_writers":
            s["writers"] = edit["writers"]
            self.check()
        elif name == "set_subscription":
            s["subscriptions"] = [other for other in s["subscriptions"] if other["name"] != edit["name"]] + [edit]
            self.check()
        elif name == "drop_subscription":
            left = [other for other in s["subscriptions"] if other["name"] != edit["name"]]
            need(len(left) < len(s["subscriptions"]), "a drop of a subscription that is not there")
            s["subscriptions"] = left
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
        there = {t["id"] for other in self.state["trees"] for t in other["blob_files"]}
        for v in edit["blob_files"]:
            need(v["id"] not in there, "a blob file that is added and there already")
            self.state["next_file"] = max(self.state["next_file"], v["id"] + 1)
        tree["blob_files"] = sorted(tree["blob_files"] + edit["blob_files"], key=lambda v: v["id"])
        used = {file for r in tree["runs"] for t in r["tables"] for file, _, _ in uses(t.get("blob_uses", b""))}
        tree["blob_files"] = [v for v in tree["blob_files"] if v["id"] in used]
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
        writers = [(w["first_segment"], w["base"]) for w in s["writers"]]
        need(all(0 < f <= MAX_NUMBER and b <= MAX_NUMBER for f, b in writers), "a log writer out of bounds")
        need(all(a[0] < b[0] and a[1] <= b[1] for a, b in zip(writers, writers[1:])), "log writers out of order")
        subscriptions = s["subscriptions"]
        subscriptions.sort(key=lambda x: x["name"].encode())
        need(len(subscriptions) <= 256, "too many subscriptions")
        need(len({x["name"] for x in subscriptions}) == len(subscriptions), "a subscription that is there twice")
        for x in subscriptions:
            need(0 < len(x["name"].encode()) < 256, "the name of a subscription")
            need(x["seq"] <= MAX_SEQ and x["position"] <= MAX_NUMBER and x["snapshot_due"] <= 2, "the position of a subscription")
        tables = []
        for tree in s["trees"]:
            places = [(r["level"], -r["number"]) for r in tree["runs"]]
            need(places == sorted(set(places)), "runs out of order")
            for r in tree["runs"]:
                need(r["tables"], "an empty run")
                for t in r["tables"]:
                    need(t["first_key"] <= t["last_key"] and t["min_seq"] <= t["max_seq"] <= s["last_seq"], "a table's bounds")
                    lift = t.get("ingested_seq", 0)
                    need(not lift or t["min_seq"] == t["max_seq"] == lift, "the numbers of an ingested table")
                for a, b in zip(r["tables"], r["tables"][1:]):
                    need(a["last_key"] < b["first_key"], "tables of a run that overlap")
                tables += [t["id"] for t in r["tables"]]
            self.check_values(tree)
            tables += [v["id"] for v in tree["blob_files"]]
        need(len(set(tables)) == len(tables) and all(t < s["next_file"] for t in tables), "a table that is there twice, or its id")

    def check_values(self, tree):
        there, sums = {v["id"]: v for v in tree["blob_files"]}, {}
        need(len(there) == len(tree["blob_files"]), "a blob file that is there twice")
        for t in (t for r in tree["runs"] for t in r["tables"]):
            for file, values, size in uses(t.get("blob_uses", b"")):
                a, b = sums.get(file, (0, 0))
                sums[file] = a + values, b + size
        need(sums.keys() == there.keys(), "blob files that are not those that tables refer to")
        for v in there.values():
            need(v["bytes"] <= v["size"] and max(v["size"], v["raw_bytes"]) <= MAX_NUMBER, "sizes of a blob file")
        for file, (values, size) in sums.items():
            need(values <= there[file]["values"] and size <= there[file]["bytes"], "tables refer to more than a blob file has")

    def content(self):
        names = [n for n in MESSAGES["table"].values()]
        table = lambda t: {n: t[n].hex() if n in BYTES else t[n] for n in names if n in t} | {
            "ingested_seq": t.get("ingested_seq", 0), "oldest_tombstone": t.get("oldest_tombstone"), "blob_uses": uses(t.get("blob_uses", b""))
        }  # fmt: skip
        run = lambda r: {"level": r["level"], "number": r["number"], "tables": [table(t) for t in r["tables"]]}
        tree = lambda t: {"id": t["id"], "name": t["name"], "flushed": t["flushed"], "runs": [run(r) for r in t["runs"]], "blob_files": t["blob_files"]}
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

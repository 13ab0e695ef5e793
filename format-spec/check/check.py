"""Compares three readers of Firn's files: the one that Kaitai Struct generates from the .ksy files, `sstable-dump raw --json`, which uses
the engine's decoders, and reader.py, which follows README.md.

Usage: check.py --classes FOLDER --dump COMMAND [--mutants N] FOLDER...

Each FOLDER was written by the engine's example `golden` and has an `expected.jsonl`. Checked:
  * of every sound file, that the generated reader and `sstable-dump` give the same fields with the same values;
  * of every sound table, log, manifest and store, that reader.py reads exactly what was written;
  * of every damaged or newer one, that all three refuse it;
  * of N files with changed bytes under sound checksums, that reader.py and `sstable-dump` find the same of them sound: of tables
    `sstable-dump check`, which like reader.py compares the parts of a table with each other; and that the generated reader takes whatever
    `sstable-dump raw` takes. It knows nothing of order, so it may take more.
Exit codes: 0 all agree, 1 some do not, 2 could not run.
"""

import argparse
import collections
import enum
import importlib
import io
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time

import mutants
import reader
from xxh3 import xxh3_64

try:
    from kaitaistruct import KaitaiStream, KaitaiStruct, KaitaiStructError
except ImportError:
    sys.exit("check.py: the Python package kaitaistruct is missing: install it, or run .ci/run, which does")

# Constants, checked by the generated reader itself, and lengths that the value beside them has too.
NOT_COMPARED = {"magic", "reserved", "reserved1", "reserved2", "no_gap", "no_rest", "len_name", "len_value", "code", "intro", "crc", "newline"}
UNWRAPPED = {"Number": "number", "Text": "text", "Raw": "raw", "Double": "number", "Fixed": "number", "Varint": "value", "Blob": "content"}
INSTANCES = {"Entry": ["code_number", "seq_number", "kind"]}
REFUSALS = (KaitaiStructError, EOFError, ValueError, reader.Damaged, reader.Newer)
classes = {}


def parse(name, b, part=None):
    """An object of a generated class over bytes."""
    made = classes[name] if part is None else getattr(classes[name], part)
    o = made(KaitaiStream(io.BytesIO(b)))
    o._read()
    return o


def snake(name):
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


def plain(v):
    """A generated object as dicts, lists, numbers and texts."""
    if isinstance(v, bytes):
        return v.hex()
    if isinstance(v, enum.Enum):
        return v.name if type(v).__name__ in ("BlockKind", "Codec", "Op") else v.value
    if isinstance(v, list):
        return [plain(x) for x in v]
    if not isinstance(v, KaitaiStruct):
        return v
    kind = type(v).__name__
    if kind in UNWRAPPED:
        return plain(getattr(v, UNWRAPPED[kind]))
    if v.SEQ_FIELDS == ["fields"]:
        return message(snake(kind), v.fields)
    names = [n for n in v.SEQ_FIELDS if n not in NOT_COMPARED] + INSTANCES.get(kind, [])
    return {n: plain(getattr(v, n)) for n in names if getattr(v, n, None) is not None}


def message(kind, fields):
    """The fields of a manifest's message by name; edits are a list of one each."""
    if kind == "edits":
        return [{f.name.name: plain(f.value)} for f in fields if isinstance(f.name, enum.Enum)]
    out = {name: [] for name in reader.MESSAGES[kind].values() if f"{kind}.{name}" in reader.REPEATED}
    for f in fields:
        if isinstance(f.name, enum.Enum):
            name = f.name.name
            if isinstance(out.get(name), list):
                out[name].append(plain(f.value))
            else:
                out[name] = plain(f.value)
    if kind == "policy":
        out["parameters"] = {p["name"]: parameter(p["name"], bytes.fromhex(p["value"])) for p in out["parameters"]}
    return out


def parameter(name, b):
    kind = reader.KINDS_OF_PARAMETERS.get(name)
    if kind == "zigzags":
        return [n.value >> 1 ^ -(n.value & 1) for n in parse("edits", b, "Zigzags").numbers]
    return plain(parse("edits", b, "Double" if kind == "double" else "Number"))


# ---- Files as the generated reader gives them; checksums and decompression are reader.py's


CONTENT = {"data": "data_block", "index": "index_block", "filter": "filter_block", "tombstones": "tombstone_block"}
CONTENT["properties"] = "properties_block"
CONTENT["blob"] = "blob_block"
KINDS = {"data": reader.DATA, "index": reader.INDEX, "filter": reader.FILTER, "tombstones": reader.TOMBSTONES}
KINDS["properties"] = reader.PROPERTIES
KINDS["blob"] = reader.BLOB_BLOCK


def block(file, at, b, part, file_id):
    raw, _ = reader.physical_block(file, at, 24 + b.len_stored, KINDS[part], file_id)
    return dict(plain(b), at=at, content=plain(parse(CONTENT[part], raw)))


def kaitai_table(file, number):
    t = parse("table", file)
    reader.footer(file, number)
    out = {}
    places = t.data._debug["blocks"]["arr"] if t.data.blocks else []
    what = "data" if t.footer.len_index else "blob"
    out["data"] = {"blocks": [block(file, p["start"], b, what, number) for p, b in zip(places, t.data.blocks)]}
    for part in ("filter", "tombstones", "index", "properties"):
        b = getattr(t, part, None)
        if b is not None:
            out[part] = block(file, t._debug[part]["start"], b, part, number)
    out["footer"] = dict(plain(t.footer), at=len(file) - 72)
    if what == "blob":
        return out
    for row, b in zip(out["index"]["content"]["rows"], out["data"]["blocks"]):
        reader.need(row["len_block"] == 24 + b["len_stored"], "the index and a block tell of two lengths")
    return out


def kaitai_log(file, number):
    t = parse("log", file)
    reader.need(reader.Segment(file, number).header is not None, "the segment's header")
    records = []
    for slot, place in zip(t.slots, t._debug["slots"]["arr"]) if hasattr(t, "slots") else []:
        at = place["start"]
        if not slot.is_record or reader.crc(number, at, file[at + 4 : at + 32], slot.payload) != slot.checksum:
            break
        if slot.kind not in (1, 2):
            raise reader.Newer("a log record of unknown kind")
        fields = {n: getattr(slot, n) for n in slot.SEQ_FIELDS if n not in ("payload", "padding")}
        records.append(dict(fields, at=at, operations=plain(parse("operations", slot.payload).operations)))
    return {"header": plain(t.header), "records": records}


def kaitai_manifest(file, number):
    t = parse("manifest", file)
    m = reader.Manifest(file, number)
    frames = []
    for f, place in zip(t.frames, t._debug["frames"]["arr"]):
        at = place["start"]
        if f.is_whole and m.payload(at) is not None:
            fields = {"at": at, "len_payload": f.len_payload, "checksum": f.checksum}
            frames.append(dict(fields, edits=plain(parse("edits", f.payload))))
        elif not (frames and frames[-1]["len_payload"] and m.payload(at + 8)):
            break
    end = max(f["at"] + 8 + f["len_payload"] for f in frames)
    return {"header": plain(t.header), "frames": frames, "end": end}


def kaitai_current(file, _):
    reader.current(file)
    return plain(parse("current", file))


READERS = {"table": kaitai_table, "log": kaitai_log, "manifest": kaitai_manifest, "current": kaitai_current}


def kind_of(name):
    ends = {".sst": "table", ".wal": "log"}
    return ends.get(name[-4:]) or {"CURRENT": "current"}.get(name) or ("manifest" if name.startswith("MANIFEST-") else None)


# ---- Comparison


def difference(a, b, at=""):
    """The number of values compared, and the first place where two trees differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():
            return 0, f"{at}: fields {sorted(a.keys() ^ b.keys())} are on one side only"
        pairs = [(a[k], b[k], f"{at}.{k}") for k in a]
    elif isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return 0, f"{at}: {len(a)} and {len(b)} items"
        pairs = [(x, y, f"{at}[{i}]") for i, (x, y) in enumerate(zip(a, b))]
    else:
        return 1, None if a == b and type(a) is type(b) else f"{at}: {a!r} and {b!r}"
    count = 0
    for x, y, place in pairs:
        n, found = difference(x, y, place)
        count += n
        if found:
            return count, found
    return count, None


def dumped(command, paths):
    """What `sstable-dump` says of each file."""
    out = {}
    for i in range(0, len(paths), 200):
        made = subprocess.run(command.split() + ["raw", "--json"] + paths[i : i + 200], capture_output=True, text=True)
        if made.returncode not in (0, 1):
            sys.exit(f"check.py: {command} raw: {made.stderr}")
        for line in made.stdout.splitlines():
            o = json.loads(line)
            out[o.pop("path")] = o
    return out


def checked(command, paths):
    """Of which tables `sstable-dump check` finds nothing wrong."""
    out = set()
    for i in range(0, len(paths), 200):
        made = subprocess.run(command.split() + ["check", "--json"] + paths[i : i + 200], capture_output=True, text=True)
        if made.returncode not in (0, 1):
            sys.exit(f"check.py: {command} check: {made.stderr}")
        out |= {o["path"] for o in json.loads(made.stdout) if o["sound"]}
    return out


# What the processes that are forked off have to do: a method of Check, and its arguments.
shared = None


def part(which):
    """Every nth of the shared tasks, in a process of its own."""
    (first, step), (what, tasks) = which, shared
    check = Check()
    for task in tasks[first::step]:
        what(check, *task)
    return check.wrong, check.counts


class Check:
    def __init__(self):
        self.wrong, self.counts = [], collections.Counter()

    def need(self, sound, path, what):
        if not sound:
            self.wrong.append(f"{path}: {what}")
        return sound

    def fields(self, path, said):
        """The generated reader against `sstable-dump`, on one file that both must take or both refuse."""
        kind, file = kind_of(os.path.basename(path)), reader.load(path)
        try:
            got = READERS[kind](file, reader.number_of(os.path.basename(path)))
        except REFUSALS as e:
            ok = "error" in said or said.get("damage")
            self.need(ok, path, f"the generated reader refuses it ({type(e).__name__}: {e}), sstable-dump does not")
            return False
        if not self.need("error" not in said, path, f"sstable-dump refuses it ({said.get('error')}), the generated reader does not"):
            return False
        said = dict(said)
        damage = said.pop("damage", [])
        if damage:
            said["records"] = [r for r in said["records"] if r["at"] < damage[0]["at"]]
        self.need((said.pop("kind"), said.pop("len")) == (kind, len(file)), path, "another kind or length")
        count, found = difference(got, said)
        self.counts["files compared field by field"] += 1
        self.counts["values compared"] += count
        self.need(found is None, path, f"generated reader and sstable-dump differ at {found}")
        return not damage

    def told(self, root, line, said):
        """One line of `expected.jsonl`."""
        path = os.path.join(root, line["path"])
        start = line.get("from", (line.get("content") or {}).get("from", 0))
        content, reason = None, ""
        try:
            content, verdict = reader.content(path, line["kind"], start), "sound"
        except reader.Damaged as e:
            verdict, reason = "damaged", str(e)
        except reader.Newer as e:
            verdict, reason = "newer", str(e)
        self.need(verdict == line["verdict"], path, f"{line['what']}: must be {line['verdict']}, reader.py says {verdict} {reason}")
        files = [path] if os.path.isfile(path) else sorted(os.path.join(path, n) for n in os.listdir(path) if kind_of(n))
        taken = [self.fields(f, said[f]) for f in files]
        self.counts[f"{line['kind']}s, {line['verdict']}"] += 1
        if line["verdict"] == "sound":
            if "content" in line:
                self.need(content == line["content"], path, f"{line['what']}: reader.py read something else than was written")
            else:
                text = json.dumps(content, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
                self.need(f"{xxh3_64(text.encode()):016x}" == line["hash"], path, "reader.py read something else than was written")
            return
        refused = any("error" in said[f] or said[f].get("damage") for f in files)
        self.need(refused, path, f"{line['what']}: sstable-dump takes it")
        self.need(not all(taken), path, f"{line['what']}: the generated reader takes it")
        if line["verdict"] == "newer":
            kinds = {said[f].get("error_kind") for f in files}
            self.need("incompatible" in {str(k).lower() for k in kinds}, path, f"{line['what']}: sstable-dump says {kinds}, not newer")

    def mutant(self, path, said, found_sound):
        """A file with changed bytes under sound checksums; `found_sound` is what `sstable-dump check` says of a table."""
        kind, name = kind_of(os.path.basename(path)), os.path.basename(path)
        sound, taken = mutants.is_sound(path, kind), "error" not in said
        try:
            READERS[kind](reader.load(path), reader.number_of(name))
            parsed, why = True, ""
        except REFUSALS as e:
            parsed, why = False, f"{type(e).__name__}: {e}"
        self.counts["changed files, of which sound"] += sound
        self.counts["changed files, of which refused"] += not taken
        self.need(parsed or not taken, path, f"the generated reader refuses it ({why}), sstable-dump does not")
        self.need(taken or not sound, path, f"sstable-dump refuses it ({said.get('error')}), reader.py does not")
        verdict = found_sound if kind == "table" else taken
        self.need(verdict == sound, path, f"sound for reader.py: {sound}, for sstable-dump: {verdict}")

    def share(self, what, tasks):
        """Does `what` for each of the tasks, on all processors."""
        global shared
        shared = what, tasks
        n = os.cpu_count() or 1
        with multiprocessing.get_context("fork").Pool(n) as pool:
            for wrong, counts in pool.map(part, [(i, n) for i in range(n)]):
                self.wrong += wrong
                self.counts += counts

    def folder(self, root, command, changed):
        with open(os.path.join(root, "expected.jsonl"), encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        paths = [os.path.join(d, n) for d, _, names in os.walk(root) for n in names if kind_of(n)]
        said = dumped(command, sorted(paths))
        self.need(len(said) == len(paths), root, f"sstable-dump told of {len(said)} of {len(paths)} files")
        self.counts["files"] += len(paths)
        self.share(Check.told, [(root, line, said) for line in lines])
        if changed:
            good = [line["path"] for line in lines if line["verdict"] == "sound"]
            sources = [p for p in paths if any(os.path.relpath(p, root).startswith(g) for g in good)]
            with tempfile.TemporaryDirectory() as folder:
                made = mutants.make(sources, kind_of, changed, 1, folder)
                said, good = dumped(command, made), checked(command, [p for p in made if kind_of(os.path.basename(p)) == "table"])
                self.share(Check.mutant, [(path, said[path], path in good) for path in made])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--classes", required=True, help="where compile.js put the generated classes")
    p.add_argument("--dump", required=True, help="the command sstable-dump")
    p.add_argument("--mutants", type=int, default=0, metavar="N", help="how many changed files to make of each folder's")
    p.add_argument("folders", nargs="+")
    args = p.parse_args()
    sys.path.insert(0, args.classes)
    for name in "table log operations manifest edits current".split() + list(CONTENT.values()):
        classes[name] = getattr(importlib.import_module(name), "".join(w.title() for w in name.split("_")))
    check, start = Check(), time.monotonic()
    for folder in args.folders:
        check.folder(folder, args.dump, args.mutants)
    for name, count in check.counts.items():
        print(f"{count:>9}  {name}")
    for line in check.wrong[:50]:
        print(f"WRONG  {line}")
    print(f"{len(check.wrong)} disagreements, {time.monotonic() - start:.1f} s")
    sys.exit(1 if check.wrong else 0)


if __name__ == "__main__":
    main()

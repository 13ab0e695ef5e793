"""Files whose bytes were changed and whose checksums were made sound again: what is left to find is structure, and all readers must find
the same. The same seed gives the same files.
"""

import os
import random
import zlib

import reader
from reader import crc, u32


def _change(rng, b, low, high):
    """Changes one to four bytes from `low` to `high`."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        i = rng.randrange(low, high)
        b[i] = rng.choice([b[i] ^ 1 << rng.randrange(8), 0, 255, b[i] + 1 & 255, b[i] - 1 & 255])


def _seal(b, at, number, offset, *parts):
    b[at : at + 4] = crc(number, offset, *(bytes(b[low:high]) for low, high in parts)).to_bytes(4, "little")


def _table(rng, b, number):
    """Changes the content of a block that is stored as it is; of every kind as often."""
    at, blocks = 0, {}
    if not bytes(b).endswith(b"FirnSST\n"):
        return False
    while at < len(b) - 72:
        size = 24 + u32(b, at + 8)
        if b[at + 5] == 0 and size > 24:
            blocks.setdefault(b[at + 4], []).append((at, size))
        at += size
    if not blocks:
        return False
    at, size = rng.choice(blocks[rng.choice(sorted(blocks))])
    _change(rng, b, at + 24, at + (size if rng.random() < 0.5 else min(size, 64)))
    _seal(b, at + 20, number, at, (at, at + 20), (at + 24, at + size))
    return True


def _log(rng, b, number):
    if len(b) < 80:
        return False
    records, at = [], 80
    generation = (reader.u64(b, 64) + number) & 0xFFFFFFFF
    while at + 32 <= len(b) and u32(b, at + 8) == generation and u32(b, at + 12):
        records.append((at, at + 32 + u32(b, at + 4)))
        at = (records[-1][1] + 7) // 8 * 8
    if not records or rng.random() < 0.2:
        _change(rng, b, 8, 72)
        _seal(b, 76, number, 0, (0, 76))
    else:
        at, end = rng.choice(records)
        _change(rng, b, at + 8, end)
        _seal(b, at, number, at, (at + 4, end))
    return True


def _manifest(rng, b, number):
    frames, at = [], 16
    while at + 8 <= len(b):
        end = at + 8 + u32(b, at)
        if at + 8 < end <= len(b):
            frames.append((at, end))
        at = end
    if rng.random() < 0.1:
        _change(rng, b, 8, 12)
        _seal(b, 12, number, 0, (0, 12))
    else:
        at, end = rng.choice(frames)
        _change(rng, b, at + 8, end)
        _seal(b, at + 4, number, at, (at, at + 4), (at + 8, end))
    return True


def _current(rng, b, _):
    del b[-13:]
    for _ in range(rng.choice([1, 2])):
        i = rng.randrange(len(b))
        b[i : i + rng.choice([0, 1, 1])] = bytes([rng.choice(b"\n\r +-0123M ")])
    b += b"crc %08x\n" % zlib.crc32(bytes(b))
    return True


HOW = {"table": _table, "log": _log, "manifest": _manifest, "current": _current}


def make(sources, kind_of, n, seed, folder):
    """Writes `n` changed copies of the sound files `sources`, each in a folder of its own; gives their paths."""
    rng, out = random.Random(seed), []
    by_kind = {}
    for path in sorted(sources):
        if os.path.getsize(path) < 60_000:
            by_kind.setdefault(kind_of(os.path.basename(path)), []).append(path)
    while len(out) < n:
        kind = rng.choice(["table", "table", "table", "log", "manifest", "manifest", "current"])
        source = rng.choice(by_kind[kind])
        name, b = os.path.basename(source), bytearray(reader.load(source))
        if HOW[kind](rng, b, reader.number_of(name)):
            path = os.path.join(folder, f"{len(out):05}", name)
            os.makedirs(os.path.dirname(path))
            with open(path, "wb") as f:
                f.write(b)
            out.append(path)
    return out


def is_sound(path, kind):
    """Whether reader.py takes a file by itself, without knowing hooks."""
    name, file = os.path.basename(path), reader.load(path)
    try:
        if kind == "table":
            number = reader.number_of(name)
            if reader.is_of_values(file, number):
                reader.BlobFile(file, number)
            else:
                reader.Table(file, number, hooks=False)
        elif kind == "manifest":
            reader.Manifest(file, reader.number_of(name))
        elif kind == "current":
            reader.current(file)
        else:
            s = reader.Segment(file, reader.number_of(name))
            reader.need(s.header, "a segment without a header")
            for _, record in s.records_from(80):
                reader.operations(record[4])
        return True
    except (reader.Damaged, reader.Newer):
        return False

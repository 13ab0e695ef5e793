"""Options of trees, merge operands, loads, copies, flushes and compactions."""

import importlib.util
import subprocess
import sys
import threading

import pytest

import firn


def add(key, base, operands):
    if key == b"bad":
        raise ValueError("not this one")
    total = int(base or b"0") + sum(map(int, operands))
    return b"%d" % total if total else None


def runs(db, name="t"):
    return len(next(t for t in db.stats()["trees"] if t["name"] == name)["runs"])


def test_operands_are_folded_by_a_function(tmp_path):
    with firn.Db(tmp_path / "db") as db:
        t = db.tree("t", merge=("add", add), memtable_size="1m")
        t.merge(b"n", b"1")
        t.flush()
        t.put(b"p", b"10")
        batch = firn.Batch()
        batch.merge(t, b"n", b"2")
        batch.merge(t, b"p", b"-10")
        db.write(batch)
        assert t[b"n"] == b"3" and b"p" not in t
        t.merge(b"bad", b"1")
        with pytest.raises(firn.InvalidArgumentError, match="merge function add: ValueError: not this one"):
            t[b"bad"]
        t.delete(b"bad")
        t.compact()
        assert list(t.items()) == [(b"n", b"3")] and runs(db) == 1
        with pytest.raises(firn.InvalidArgumentError):
            db.tree("plain").merge(b"n", b"1")
    with firn.Db(tmp_path / "db") as db:
        with pytest.raises(firn.InvalidArgumentError, match="no merge operator"):
            db.tree("t").merge(b"n", b"1")
        with pytest.raises(firn.IncompatibleError):
            db.tree("t", merge=("another", add))
        t = db.tree("t", merge=("add", add))
        t.merge(b"n", b"4")
        assert t[b"n"] == b"7"


def test_an_interrupt_in_a_merge_function_is_raised_by_the_call(tmp_path):
    came = KeyboardInterrupt("now")
    asked = []

    def fold(key, base, operands):
        if came and key >= b"2":
            asked.append(key)
            raise came
        return b"".join(operands)

    with firn.Db(tmp_path / "db", background_threads=0) as db:
        t = db.tree("t", merge=("join", fold), policy="tiered:32:64")

        def calls(function):
            asked.clear()
            with pytest.raises(BaseException) as raised:
                function()
            assert raised.value is came and len(asked) == 1

        for operand in (b"a", b"b"):
            for i in range(5):
                t.merge(b"%d" % i, operand)
        keys = [b"%d" % i for i in range(5)]
        calls(lambda: t[b"2"])
        calls(lambda: len(t))
        calls(lambda: list(t.items()))
        calls(lambda: t[b"2":].popitem(last=False))
        calls(lambda: list(t._arrow_reader()))
        if importlib.util.find_spec("pyarrow"):
            calls(t.to_arrow)
        calls(lambda: db.snapshot().get(t, b"3"))
        calls(lambda: db.transaction().get(t, b"3"))
        # Pairs before the interrupt are returned once; iteration continues after it.
        walk, got = iter(t.items()), []
        for _ in range(3):
            try:
                for key, _ in walk:
                    got.append(key)
            except KeyboardInterrupt:
                pass
        assert got == keys[:2]
        # Work that keeps operands unmerged if the merge function fails.
        calls(t.compact)
        came = SystemExit(3)
        calls(t.compact)
        came = None
        t[b"5"] = b"ab"
        assert list(t.items()) == [(key, b"ab") for key in keys + [b"5"]]
        t.compact()
        assert list(t.items()) == [(key, b"ab") for key in keys + [b"5"]]


def test_an_interrupt_by_the_keyboard_ends_a_compaction(tmp_path):
    script = f"""
import signal

import firn

# SIGINT may be ignored when these tests run in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)

def fold(key, base, operands):
    signal.raise_signal(signal.SIGINT)
    return b"".join(operands)

t = firn.Db({str(tmp_path / "db")!r}).tree("t", merge=("join", fold))
for i in range(10):
    t.merge(b"%d" % i, b"a")
try:
    t.compact()
    print("swallowed")
except KeyboardInterrupt:
    print("raised")
t[b"k"] = b"v"
print(t[b"k"])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "raised\nb'v'\n", "")


def test_threads_and_workers_fold_at_once(tmp_path):
    with firn.Db(tmp_path / "db") as db:
        t = db.tree("t", merge=("add", add), policy="tiered:2")

        def work():
            for i in range(200):
                t.merge(b"n", b"1")
                if i % 50 == 0:
                    t.flush()
                t[b"n"]

        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        db.wait_idle()
        assert t[b"n"] == b"800"


def test_loads_are_of_all_pairs_or_none():
    db = firn.Db.in_memory()
    t = db.tree("t")

    def pairs(fails_at=None):
        for i in range(2000):
            if i == fails_at:
                raise RuntimeError("enough")
            yield b"%05d" % i, b"v"

    with pytest.raises(RuntimeError, match="enough"):
        t.ingest(pairs(1500))
    with pytest.raises(TypeError):
        t.ingest([(b"a", b"1"), (b"b", "text")])
    with pytest.raises(firn.InvalidArgumentError):
        t.ingest([(b"b", b"1"), (b"a", b"1")])
    assert len(t) == 0
    assert t.ingest(pairs()) == 2000 and t.ingest([]) == 0
    assert len(t) == 2000 and t[b"01999"] == b"v"


def test_a_checkpoint_is_a_store_of_its_own(tmp_path):
    with firn.Db(tmp_path / "db") as db:
        t = db.tree("t")
        t[b"k"] = b"old"
        db.checkpoint(tmp_path / "copy")
        t[b"k"] = b"new"
        with pytest.raises(firn.InvalidArgumentError):
            db.checkpoint(tmp_path / "copy")
    with firn.Db(tmp_path / "copy") as copy:
        assert copy.tree("t")[b"k"] == b"old"


def test_options_stay_as_they_were_given():
    db = firn.Db.in_memory()
    t = db.tree("t", policy="tiered:32:64", compression="none", memtable_size=1 << 20)
    for i in range(4):
        t[b"%d" % i] = b"v"
        t.flush()
    db.tree("t", table_size="1m")
    db.wait_idle()
    assert runs(db) == 4
    t.compact(b"0", b"9")
    assert runs(db) == 1
    for wrong in ({"policy": "none"}, {"colour": "red"}, {"memtable_size": 1}):
        with pytest.raises(firn.InvalidArgumentError):
            db.tree("t", **wrong)


def test_a_script_that_does_not_close_its_store_ends(tmp_path):
    script = f"""
import firn

def fold(key, base, operands):
    return b"%d" % (int(base or b"0") + sum(map(int, operands)))

db = firn.Db({str(tmp_path / "db")!r})
t = db.tree("t", merge=("add", fold), memtable_size="1m")
for i in range(60_000):
    t.merge(b"n%d" % (i % 100), b"1")
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
    with firn.Db(tmp_path / "db") as db:
        t = db.tree("t", merge=("add", add))
        assert sum(int(v) for v in t.values()) == 60_000

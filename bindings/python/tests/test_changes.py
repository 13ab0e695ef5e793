"""Subscriptions: a consumer outside the store that applies each change once."""

import json

import pytest

import firn


def apply(change, held):
    for op, tree, key, *rest in change.ops:
        assert tree == "t"
        if op == "put":
            held[key] = rest[0]
        elif op == "delete":
            held.pop(key, None)
        elif op == "delete_range":
            for gone in [k for k in held if k >= key and (rest[0] is None or k < rest[0])]:
                del held[gone]


def test_a_consumer_continues_after_restarts(tmp_path):
    """Its state is a file that is replaced with its position."""
    state = tmp_path / "index.json"
    for round in range(4):
        with firn.Db(tmp_path / "db") as db:
            t = db.tree("t")
            t[b"key%d" % round] = b"value%d" % round
            with db.subscribe("index", max_log_bytes=64 << 20) as changes:
                if state.exists():
                    position, held = json.loads(state.read_text())
                    held = {k.encode(): v.encode() for k, v in held.items()}
                    changes.resume(position)
                else:
                    assert changes.snapshot_due
                    with changes.snapshot() as snapshot:
                        held = dict(snapshot[t])
                    changes.acknowledge()
                assert not changes.snapshot_due and changes.name == "index"
                t.delete(b"key%d" % (round - 2))
                with db.batch() as batch:
                    batch[t][b"a"] = b"%d" % round
                    batch[t][b"b"] = b"%d" % round
                for change in changes:
                    apply(change, held)
                assert held == dict(t)
                text = {k.decode(): v.decode() for k, v in held.items()}
                state.write_text(json.dumps([changes.position, text]))
                changes.acknowledge()
                info = db.subscriptions()
                assert [s["name"] for s in info] == ["index"] and info[0]["behind"] == 0


def test_what_a_subscription_refuses():
    db = firn.Db.in_memory()
    t = db.tree("t")
    changes = db.subscribe("one")
    with pytest.raises(firn.LockedError):
        db.subscribe("one")
    t[b"k"] = b"v"
    change = changes.next(timeout=1)
    assert repr(change) == f"<firn.Change {change.position}>" and not change.loaded
    assert change.ops == [("put", "t", b"k", b"v", None)]
    assert changes.next() is None
    t.delete_range(b"a", b"b")
    assert next(changes).ops == [("delete_range", "t", b"a", b"b")]
    for bad in ["", "12", "zz-1"]:
        with pytest.raises(ValueError):
            changes.resume(bad)
    store = change.position.partition("-")[0]
    with pytest.raises(firn.InvalidArgumentError):
        changes.resume(f"{store}-1000")
    changes.acknowledge(change.position)
    changes.persist()
    db.drop_subscription("one")
    with pytest.raises(firn.NotFoundError):
        changes.next()
    changes.close()
    with pytest.raises(firn.ClosedError):
        changes.next()
    with pytest.raises(ValueError):
        db.subscribe("two").next(timeout=-1)


def test_a_consumer_that_is_too_late():
    db = firn.Db.in_memory()
    t = db.tree("t", memtable_size="1m")
    changes = db.subscribe("late", max_log_bytes=1 << 20)
    for n in range(4000):
        t[b"%d" % n] = bytes(1000)
    t.flush()
    with pytest.raises(firn.LaggedError):
        changes.next()
    with changes.snapshot() as snapshot:
        assert len(snapshot[t]) == 4000
    changes.acknowledge()
    assert changes.next() is None

"""Trees, ranges, snapshots and transactions as mappings."""

import collections.abc
import random

import pytest

import firn


@pytest.fixture
def db():
    return firn.Db.in_memory()


@pytest.fixture
def tree(db):
    tree = db.tree("t")
    tree.update((b"%02d" % n, b"v%d" % n) for n in range(20))
    return tree


def keys(first, end):
    return [b"%02d" % n for n in range(first, end)]


def test_a_tree_is_a_mutable_mapping(db):
    tree = db.tree("t")
    assert isinstance(tree, collections.abc.MutableMapping)
    model = {}
    for mapping in (tree, model):
        mapping[b"a"] = b"1"
        mapping.update({b"b": b"2", b"c": b"3"})
        mapping.update([(b"d", b"4"), (b"a", b"5")])
        assert mapping.setdefault(b"a", b"6") == b"5" and mapping.setdefault(b"e", b"7") == b"7"
        assert mapping.pop(b"b") == b"2" and mapping.pop(b"b", None) is None
        assert mapping.popitem() == (b"e", b"7")
        with pytest.raises(KeyError):
            mapping.pop(b"b")
        with pytest.raises(KeyError):
            mapping[b"b"]
        assert mapping.get(b"b") is None and mapping.get(b"b", 1) == 1
    assert tree == model and model == tree and dict(tree) == model and {**tree} == model
    assert tree != {**model, b"a": b"0"} and tree != {**model, b"z": b""} and tree != {} and tree != 7
    assert tree.popitem(last=False) == (b"a", b"5")
    tree.clear()
    assert tree == {} and not tree
    with pytest.raises(KeyError):
        tree.popitem()
    with pytest.raises(TypeError):
        tree.pop(b"a", 1, 2)
    with pytest.raises(TypeError):
        hash(tree)


def test_views_are_lazy_ordered_and_sets(tree):
    assert list(tree.keys()) == list(tree) == keys(0, 20)
    assert list(reversed(tree)) == list(reversed(tree.keys())) == keys(0, 20)[::-1]
    assert list(reversed(tree.values()))[0] == b"v19" and list(reversed(tree.items()))[-1] == (b"00", b"v0")
    items, values = tree.items(prefix=b"1"), tree.values(b"18")
    assert len(items) == 10 and (b"10", b"v10") in items and (b"00", b"v0") not in items
    assert b"v19" in values and b"v1" not in values
    tree[b"195"] = b"new"
    assert list(items)[-1] == (b"195", b"new") and list(values) == [b"v18", b"v19", b"new"]
    assert list(tree.keys(b"18", reverse=True)) == [b"195", b"19", b"18"]
    assert list(reversed(tree.keys(b"18", reverse=True))) == [b"18", b"19", b"195"]
    assert tree.keys() & {b"00", b"zz"} == {b"00"} and tree.keys(end=b"01") == {b"00"}
    assert tree.items(end=b"01") | {1} == {(b"00", b"v0"), 1}
    assert repr(tree.keys(end=b"01")) == """KeysView(<firn.TreeRange "t"[:b'01']>)"""
    for view in (tree.keys(), tree.values(), tree.items()):
        assert isinstance(view, collections.abc.MappingView)
        with pytest.raises(TypeError):
            next(view)


def test_slices_are_ranges(tree):
    part = tree[b"05":b"10"]
    assert isinstance(part, firn.MutableTreeRange) and isinstance(part, collections.abc.MutableMapping)
    assert list(part) == keys(5, 10) and len(part) == 5 and part and b"05" in part and b"10" not in part
    assert part[b"05"] == b"v5" and part.get(b"10") is None
    assert part.first() == (b"05", b"v5") and part.last() == (b"09", b"v9")
    assert part == dict(part.items()) == tree[b"05":b"10"] and part != tree[b"05":b"09"]
    # Parts of a part are in both.
    assert list(part[b"08":]) == keys(8, 10) and list(part[:b"06"]) == keys(5, 6)
    assert list(part[b"00":b"99"]) == keys(5, 10) and list(part[b"10":b"05"]) == []
    assert list(part.items(b"08", reverse=True)) == [(b"09", b"v9"), (b"08", b"v8")]
    assert list(tree.prefix(b"1")) == keys(10, 20) and list(tree.prefix(b"1").prefix(b"19")) == keys(19, 20)
    # The first key at or after one, and the last before one.
    assert tree[b"055":].first()[0] == b"06" and tree[:b"055"].last()[0] == b"05"
    for key in (b"04", b"10"):
        with pytest.raises(KeyError):
            part[key]
        with pytest.raises(KeyError):
            del part[key]
        for call in (lambda: part.__setitem__(key, b""), lambda: part.setdefault(key, b""), lambda: part.update({key: b""})):
            with pytest.raises(ValueError, match="outside the range"):
                call()
    part[b"055"] = b"new"
    assert part.popitem() == (b"09", b"v9") and part.popitem(last=False) == (b"05", b"v5")
    assert list(part) == [b"055", *keys(6, 9)]
    del part[b"07":]
    assert list(part) == [b"055", b"06"] and b"10" in tree
    part.clear()
    assert not part and len(tree) == 15
    del tree[:b"10"]
    assert list(tree) == keys(10, 20)
    with pytest.raises(ValueError, match="step"):
        tree[b"a":b"b":2]
    with pytest.raises(TypeError, match="update"):
        tree[b"a":b"b"] = b""
    with pytest.raises(TypeError):
        tree[1:2]


def test_large_updates_are_written_in_parts(db):
    tree = db.tree("t")

    def pairs(fails):
        for n in range(40):
            yield b"%02d" % n, bytes(100_000)
        if fails:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        tree.update(pairs(True))
    assert 0 < len(tree) < 40
    tree.update(pairs(False))
    assert len(tree) == 40


def test_iterators_return_parts_of_a_range(tree):
    walk = iter(tree.items())
    assert walk.take(2) == [(b"00", b"v0"), (b"01", b"v1")] and next(walk) == (b"02", b"v2")
    assert len(walk.take(1000)) == 17 and walk.take(1) == [] and next(walk, None) is None
    tree.update((b"x%02d" % n, bytes(200_000)) for n in range(20))
    walk = iter(tree.values(prefix=b"x"))
    # Bytes bound a part, too.
    assert len(walk.take(1000)) == 6 and sum(1 for _ in walk) == 14


def test_several_keys_are_read_at_once(tree):
    assert tree.multi_get([b"01", b"zz", bytearray(b"02")]) == [b"v1", None, b"v2"] and tree.multi_get([]) == []
    assert tree.pop_last() == (b"19", b"v19") and tree.pop_first() == (b"00", b"v0")


def test_snapshots_are_mappings(db, tree):
    with db.snapshot() as snapshot:
        before = snapshot[tree]
        assert isinstance(before, collections.abc.Mapping)
        assert not isinstance(before, collections.abc.MutableMapping)
        model = dict(tree.items())
        tree.clear()
        assert before == model and before[b"05"] == b"v5" and len(before) == 20 and list(reversed(before)) == keys(0, 20)[::-1]
        assert type(before[b"05":]) is firn.TreeRange and before[b"05":b"07"].last() == (b"06", b"v6")
        assert list(snapshot.items(tree, b"05", b"07")) == [(b"05", b"v5"), (b"06", b"v6")]
        assert b"05" in before and b"zz" not in before and before.get(b"zz", 1) == 1
        with pytest.raises(TypeError):
            before[b"05"] = b""
        assert not hasattr(before, "clear")
    for call in (lambda: before[b"05"], lambda: len(before), lambda: list(before.items())):
        with pytest.raises(firn.ClosedError):
            call()


def test_transactions_are_mappings(db, tree):
    with db.transaction() as tx:
        own = tx[tree]
        own[b"new"] = b"1"
        assert own[b"new"] == b"1" and b"new" not in tree
        assert own.pop(b"00") == b"v0" and own.popitem() == (b"new", b"1") and own.setdefault(b"a", b"b") == b"b"
        own.update({b"c": b"d"})
        del own[b"05":b"10"]
        own[b"11":b"12"].clear()
        own.delete(b"none")
        with pytest.raises(KeyError):
            del own[b"none"]
        assert len(own) == 15 and isinstance(own, collections.abc.MutableMapping)
    assert list(tree) == keys(1, 5) + keys(10, 11) + keys(12, 20) + [b"a", b"c"]
    with pytest.raises(firn.ClosedError):
        own[b"a"]


def test_batches_are_written_at_the_end_of_their_block(db, tree):
    other = db.tree("other")
    with db.batch(durability="power") as batch:
        batch[tree][b"00"] = b"new"
        del batch[tree][b"10":]
        del batch[tree][b"none"]
        batch[other].update({b"a": b"1", b"b": b"2"})
        batch[other].update([(b"c", b"3")])
        assert len(batch) == 6 and tree[b"00"] == b"v0" and not other
    assert len(batch) == 0 and tree[b"00"] == b"new" and len(tree) == 10 and len(other) == 3
    with pytest.raises(RuntimeError):
        with db.batch() as batch:
            batch[tree].clear()
            raise RuntimeError
    assert len(tree) == 10 and len(batch) == 0
    with batch:
        batch[other].clear()
        batch.put(other, b"d", b"4")
    assert other == {b"d": b"4"}
    with pytest.raises(TypeError):
        batch[tree][b"a":b"b"] = b""
    with pytest.raises(ValueError, match="no durability"):
        db.batch(durability="maybe")
    with pytest.raises(ValueError, match="db.batch"):
        with firn.Batch():
            pass
    with pytest.raises(firn.InvalidArgumentError):
        with db.batch() as batch:
            batch[tree].merge(b"n", b"1")
    added = db.tree("added", merge=("join", lambda key, base, operands: b"".join([base or b"", *operands])))
    with db.batch() as batch:
        batch[added].merge(b"n", b"1")
        batch[added].merge(b"n", b"2")
    assert added[b"n"] == b"12"


def test_a_batch_of_a_closed_store_fails(tmp_path):
    with firn.Db(tmp_path / "db") as db:
        tree = db.tree("t")
        batch = db.batch()
    with pytest.raises(firn.ClosedError):
        with batch:
            batch[tree][b"a"] = b"1"


def test_savepoints_undo_a_part_of_a_transaction(db, tree):
    with db.transaction(durability="power") as tx:
        tx[tree][b"order"] = b"1"
        with pytest.raises(RuntimeError):
            with tx.savepoint():
                tx[tree][b"coupon"] = b"spring"
                raise RuntimeError
        with tx.savepoint() as first:
            tx[tree][b"gift"] = b"yes"
        tx[tree][b"late"] = b"1"
        again = tx.savepoint()
        tx.rollback_to(first)
        assert b"gift" not in tx[tree]
        tx.rollback_to(again)
    assert tree[b"order"] == b"1" and b"coupon" not in tree and tree[b"gift"] == b"yes" and b"late" in tree
    with pytest.raises(firn.InvalidArgumentError, match="another transaction"):
        db.transaction().rollback_to(first)
    # An exception stays the one that was raised, also after the end of the transaction.
    with pytest.raises(RuntimeError):
        with db.transaction() as tx:
            with tx.savepoint():
                tx.rollback()
                raise RuntimeError


def test_locks_exclude_other_transactions(db, tree):
    with db.transaction() as tx:
        tx.lock(tree, b"00")
        with db.transaction() as other:
            with pytest.raises(firn.LockedError):
                other.lock(tree, b"00", timeout=0)
            other.lock(tree, b"01", timeout=0.001)
        tx[tree][b"00"] = b"locked"
    with db.transaction() as tx:
        tx.lock(tree, b"00", timeout=0)
        for wrong in (-1.0, float("nan"), float("inf")):
            with pytest.raises(ValueError, match="timeout"):
                tx.lock(tree, b"00", timeout=wrong)
    assert tree[b"00"] == b"locked"


@pytest.mark.parametrize("seed", range(20))
def test_random_calls_do_to_a_range_what_they_do_to_a_dict(db, seed):
    chance = random.Random(seed)
    tree = db.tree("t", memtable_size="1m")
    model = {}

    def key():
        return bytes([chance.randrange(8) for _ in range(chance.randrange(1, 3))])

    def bound():
        return chance.choice([None, key()])

    def inside(start, end, k):
        return (start is None or start <= k) and (end is None or k < end)

    def call(function):
        try:
            return function()
        except KeyError as e:
            return KeyError, e.args

    for step in range(300):
        if step % 60 == 59:
            tree.flush()
        start, end = bound(), bound()
        tx = db.transaction() if chance.random() < 0.3 else None
        part = (tree if tx is None else tx[tree])[start:end]
        own = {k: v for k, v in sorted(model.items()) if inside(start, end, k)}
        for _ in range(chance.randrange(1, 4)):
            k, v, kind = key(), b"%d" % step, chance.randrange(9)
            if kind < 3 and not inside(start, end, k):
                with pytest.raises(ValueError):
                    [lambda: part.__setitem__(k, v), lambda: part.setdefault(k, v), lambda: part.update({k: v})][kind]()
                assert k not in part
                continue
            if kind == 0:
                part[k] = own[k] = v
            elif kind == 1:
                assert part.setdefault(k, v) == own.setdefault(k, v)
            elif kind == 2:
                part.update({k: v})
                own.update({k: v})
            elif kind == 3:
                assert call(lambda: part.__delitem__(k)) == call(lambda: own.__delitem__(k))
            elif kind == 4:
                assert part.pop(k, 7) == own.pop(k, 7)
            elif kind == 5 and chance.random() < 0.3:
                part[:k].clear()
                own = {o: v for o, v in own.items() if not o < k}
            elif kind == 6:
                last = chance.random() < 0.5
                expected = (max(own.items()) if last else min(own.items())) if own else None
                if expected:
                    assert part.popitem(last) == expected == (expected[0], own.pop(expected[0]))
                else:
                    with pytest.raises(KeyError):
                        part.popitem(last)
            elif kind == 7:
                assert part.get(k) == own.get(k) and (k in part) == (k in own)
            else:
                del part[k:]
                own = {o: v for o, v in own.items() if o < k}
        own = dict(sorted(own.items()))
        assert part == own and len(part) == len(own) and bool(part) == bool(own)
        assert list(part.items()) == list(own.items()) and list(reversed(part.keys())) == list(reversed(own))
        assert list(part.values(reverse=True)) == list(own.values())[::-1]
        assert part.first() == next(iter(own.items()), None) and part.last() == next(reversed(own.items()), None)
        lower, upper = bound(), bound()
        assert list(part[lower:upper]) == [k for k in own if inside(lower, upper, k)]
        if tx is not None and chance.random() < 0.3:
            tx.rollback()
            continue
        if tx is not None:
            tx.commit()
        model = {k: v for k, v in model.items() if not inside(start, end, k)}
        model.update(own)
    assert tree == model

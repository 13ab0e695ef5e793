"""Trees, iterators, snapshots, transactions."""

import threading

import pytest

import firn


@pytest.fixture
def db():
    return firn.Db.in_memory()


def test_a_tree_is_used_like_a_dict(db):
    t = db.tree("t")
    t[b"a"] = b"1"
    t[bytearray(b"b")] = bytearray(b"2")
    assert t[b"a"] == b"1" and t.get(b"b") == b"2"
    assert b"a" in t and b"x" not in t
    assert t.get(b"x") is None and t.get(b"x", 7) == 7
    assert len(t) == 2 and t and list(t) == [b"a", b"b"]
    del t[b"a"]
    with pytest.raises(KeyError):
        t[b"a"]
    with pytest.raises(KeyError):
        del t[b"a"]
    t.delete(b"a")
    assert t.setdefault(b"b", b"3") == b"2" and t.setdefault(b"c", b"3") == b"3"
    assert not t.compare_and_swap(b"c", b"4", b"5") and t.compare_and_swap(b"c", b"3", None)
    t.put(b"d", b"", durability="power")
    assert t[b"d"] == b"" and t.first() == (b"b", b"2") and t.last() == (b"d", b"")
    assert t.pop_first() == (b"b", b"2")
    assert repr(t) == '<firn.Tree "t">' and t.name == "t"
    t.delete_range()
    assert not t and t.first() is None and t.pop_first() is None
    with pytest.raises(TypeError):
        t["text"] = b""
    with pytest.raises(ValueError, match="no durability"):
        t.put(b"a", b"", durability="maybe")


def test_walks_have_limits_and_directions(db):
    t = db.tree("t")
    keys = [b"%03d" % n for n in range(300)]
    for key in keys:
        t[key] = key[::-1]
    assert list(t.keys()) == keys
    assert list(t.keys(reverse=True)) == keys[::-1]
    assert list(t.items(b"010", b"012")) == [(b"010", b"010"), (b"011", b"110")]
    assert list(t.values(b"298")) == [b"892", b"992"]
    assert list(t.keys(prefix=b"12", reverse=True)) == keys[129:119:-1]
    t[b"\xff\xff"] = b"last"
    assert list(t.keys(prefix=b"\xff")) == [b"\xff\xff"]
    with pytest.raises(ValueError):
        t.keys(b"a", prefix=b"b")
    # An iterator shows the state at its creation.
    walk = iter(t.keys())
    assert next(walk) == b"000"
    t.delete_range()
    assert len(list(walk)) == 300


def test_batches_and_snapshots(db):
    one, two = db.tree("one"), db.tree("two")
    one[b"k"] = b"old"
    batch = firn.Batch()
    batch.put(one, b"k", b"new")
    batch.put(two, b"k", b"2")
    batch.delete(two, b"none")
    batch.delete_range(two, b"x", None)
    assert len(batch) == 4
    with db.snapshot() as before:
        db.write(batch, durability="process")
        assert len(batch) == 0
        assert before.get(one, b"k") == b"old" and before.get(two, b"k") is None
        assert list(before.items(one)) == [(b"k", b"old")]
    with pytest.raises(firn.ClosedError):
        before.get(one, b"k")
    assert one[b"k"] == b"new" and two[b"k"] == b"2"
    batch.put(one, b"lost", b"")
    with pytest.raises(ValueError, match="no durability"):
        db.write(batch, durability="maybe")
    assert len(batch) == 0


def test_transactions_commit_at_the_end_of_their_block(db):
    t = db.tree("t")
    with db.transaction() as tx:
        tx.put(t, b"a", b"1")
        assert tx.get(t, b"a") == b"1" and t.get(b"a") is None
        assert list(tx.items(t)) == [(b"a", b"1")]
    assert t[b"a"] == b"1"
    with pytest.raises(RuntimeError):
        with db.transaction() as tx:
            tx.delete(t, b"a")
            raise RuntimeError
    assert t[b"a"] == b"1"
    with db.transaction() as tx:
        tx.delete_range(t)
        tx.rollback()
    assert t[b"a"] == b"1"
    with pytest.raises(firn.ConflictError):
        with db.transaction() as tx:
            tx.get(t, b"a")
            t[b"a"] = b"2"
            tx.put(t, b"a", b"3")
    with pytest.raises(firn.ClosedError):
        tx.get(t, b"a")


def test_threads_count_right_in_transactions(db):
    t = db.tree("t")
    t[b"n"] = b"0"

    def add():
        for _ in range(50):
            db.transact(lambda tx: tx.put(t, b"n", b"%d" % (int(tx.get(t, b"n")) + 1)), attempts=10_000)

    threads = [threading.Thread(target=add) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert t[b"n"] == b"200"


def test_a_store_is_closed_with_what_was_got_from_it(tmp_path):
    path = tmp_path / "db"
    with firn.Db(path, memory_budget=16 << 20, durability="power") as db:
        t = db.tree("t")
        t[b"k"] = b"v"
        assert db.tree_names() == ["t"] and db.stats()["trees"][0]["name"] == "t"
        db.sync()
    with pytest.raises(firn.ClosedError):
        db.tree("t")
    with pytest.raises(firn.ClosedError):
        t[b"k"] = b"w"
    db.close()
    with firn.Db(path):
        with pytest.raises(firn.LockedError):
            firn.Db(path)
    with firn.Db(str(path), read_only=True) as db:
        assert db.tree("t")[b"k"] == b"v"
        with pytest.raises(firn.ReadOnlyError):
            db.tree("t")[b"k"] = b"w"


def test_errors_have_their_classes(tmp_path):
    with pytest.raises(firn.NotFoundError):
        firn.Db(tmp_path / "none", create=False)
    with pytest.raises(firn.InvalidArgumentError):
        firn.Db(tmp_path / "small", memory_budget=1)
    db = firn.Db.in_memory()
    t = db.tree("t")
    db.drop_tree("t")
    with pytest.raises(firn.ClosedError):
        t[b"k"]
    assert issubclass(firn.ClosedError, firn.Error) and issubclass(firn.InvalidRequest, firn.CqlError)
    with pytest.raises(firn.InvalidArgumentError):
        firn.Db.in_memory().tree("t")[b"k" * (1 << 20)] = b""

"""Stores and sessions for asyncio."""

import asyncio
import threading

import pytest

import firn
import firn.aio


def run(work):
    asyncio.run(asyncio.wait_for(work(), 60))


def test_a_store_is_used_with_await(tmp_path):
    async def work():
        async with firn.aio.open(tmp_path / "db", memory_budget=16 << 20) as db:
            tree = await db.tree("t")
            assert tree.name == "t" and await db.tree_names() == ["t"]
            await tree.put(b"a", b"1", durability="power")
            await tree.update((b"%03d" % n, b"v") for n in range(600))
            assert await tree.get(b"a") == b"1" and await tree.get(b"z") is None and await tree.get(b"z", 7) == 7
            assert await tree.contains(b"a") and await tree.multi_get([b"a", b"z"]) == [b"1", None]
            assert await tree.setdefault(b"a", b"2") == b"1" and await tree.compare_and_swap(b"a", b"1", b"3")
            assert await tree.pop(b"a") == b"3" and await tree.pop(b"a") is None
            assert await tree.first() == (b"000", b"v") and await tree.last() == (b"599", b"v")
            assert await tree.count() == 600 and await tree[b"1":b"2"].count() == 100
            assert [key async for key in tree.keys(prefix=b"1", reverse=True)][:2] == [b"199", b"198"]
            assert len([value async for value in tree.values(b"5")]) == 100
            assert len([entry async for entry in tree.items()]) == len([key async for key in tree]) == 600
            assert [key async for key in tree.prefix(b"59")[b"598":]] == [b"598", b"599"]
            assert await tree.pop_first() == (b"000", b"v") and await tree.pop_last() == (b"599", b"v")
            await tree.delete(b"001")
            await tree.delete_range(b"1", b"6")
            await tree.flush()
            await tree.compact()
            assert await tree.count() == 98
            with pytest.raises(TypeError, match="await"):
                tree[b"a"]
            with pytest.raises(firn.InvalidArgumentError):
                await tree.merge(b"a", b"1")
            assert await (await db.tree("load")).ingest([(b"a", b"1")]) == 1
            await db.drop_tree("load")
            await db.checkpoint(tmp_path / "copy")
            await db.sync()
            await db.wait_idle()
            assert (await db.stats())["trees"][0]["name"] == "t"
        for call in (tree.get(b"a"), db.tree("t")):
            with pytest.raises(firn.ClosedError):
                await call
        await db.close()
        db = await firn.aio.open(tmp_path / "copy")
        assert await (await db.tree("t")).count() == 98
        await db.close()

    run(work)


def test_batches_snapshots_and_transactions():
    async def work():
        async with firn.aio.open() as db:
            tree = await db.tree("t")
            async with db.batch(durability="process") as batch:
                batch[tree][b"a"] = b"1"
                batch[tree].update({b"b": b"2"})
                assert len(batch) == 2
            with pytest.raises(RuntimeError):
                async with db.batch() as batch:
                    batch[tree].clear()
                    raise RuntimeError
            async with db.snapshot() as before:
                await tree.put(b"c", b"3")
                assert await before[tree].count() == 2 and await before[tree].get(b"c") is None
            with pytest.raises(firn.ClosedError):
                await before[tree].get(b"a")
            async with db.transaction() as tx:
                await tx.lock(tree, b"a")
                await tx.put(tree, b"d", b"4")
                saved = await tx.savepoint()
                await tx.delete(tree, b"a")
                await tx.delete_range(tree, b"b")
                assert await tx.get(tree, b"d") is None
                await tx.rollback_to(saved)
                assert [key async for key in tx[tree]] == [b"a", b"b", b"c", b"d"]
            assert await tree.get(b"d") == b"4"
            with pytest.raises(firn.ConflictError):
                async with db.transaction() as tx:
                    await tx.get(tree, b"a")
                    await tree.put(b"a", b"other")
                    await tx.put(tree, b"a", b"mine")
            with pytest.raises(RuntimeError):
                async with db.transaction() as tx:
                    await tx.put(tree, b"a", b"mine")
                    raise RuntimeError
            async with db.transaction() as tx:
                await tx.put(tree, b"a", b"mine")
                await tx.rollback()
            assert await tree.get(b"a") == b"other"
            with pytest.raises(firn.ClosedError, match="async with"):
                await db.transaction().commit()

    run(work)


def test_tasks_count_right_in_transactions():
    async def work():
        async with firn.aio.open(threads=2, queue=4) as db:
            tree = await db.tree("t")
            await tree.put(b"n", b"0")

            async def add(tx):
                await tx.put(tree, b"n", b"%d" % (int(await tx.get(tree, b"n")) + 1))

            async def locked(tx):
                await tx.lock(tree, b"n", timeout=30)
                await add(tx)

            await asyncio.gather(*(db.transact(locked, attempts=1000) for _ in range(50)))
            await asyncio.gather(*(db.transact(add, attempts=100_000) for _ in range(20)))
            assert await tree.get(b"n") == b"70"

    run(work)


def test_calls_are_bounded_and_do_not_block_the_loop():
    started, go = threading.Semaphore(0), threading.Event()

    def slow(key, base, operands):
        started.release()
        go.wait(30)
        return b"".join(operands)

    async def work():
        async with firn.aio.open(threads=2, queue=3) as db:
            tree = await db.tree("t", merge=("slow", slow))
            for n in range(6):
                await tree.merge(b"%d" % n, b"v")
            tasks = [asyncio.create_task(tree.get(b"%d" % n)) for n in range(6)]
            await asyncio.to_thread(lambda: [started.acquire(timeout=30) for _ in range(2)])
            # Two run, one waits for a thread, three wait for the queue.
            assert tree._pool._threads._work_queue.qsize() == 1 and tree._pool._free.locked()
            # Of those that have not begun, cancelled ones never begin.
            tasks[2].cancel()
            tasks[5].cancel()
            # One that has begun finishes on its thread.
            tasks[0].cancel()
            await asyncio.sleep(0)
            go.set()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(d) for d in done] == [asyncio.CancelledError, bytes, asyncio.CancelledError, bytes, bytes, asyncio.CancelledError]
            assert await tree.get(b"5") == b"v"

    run(work)


def test_a_cancelled_iteration_loses_no_entries():
    started, go = threading.Semaphore(0), threading.Event()

    def slow(key, base, operands):
        started.release()
        go.wait(30)
        return b"".join(operands)

    async def work():
        async with firn.aio.open() as db:
            tree = await db.tree("t", merge=("slow", slow))
            for n in range(10):
                await tree.merge(b"%d" % n, b"v")
            entries = tree.items()
            task = asyncio.create_task(entries.__anext__())
            await asyncio.to_thread(started.acquire, timeout=30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            go.set()
            assert [key async for key, _ in entries] == [b"%d" % n for n in range(10)]

    run(work)


def test_closing_waits_for_calls_that_have_begun(tmp_path):
    started, go = threading.Semaphore(0), threading.Event()

    def slow(key, base, operands):
        started.release()
        go.wait(30)
        return b"".join(operands)

    async def work():
        db = await firn.aio.open(tmp_path / "db")
        tree = await db.tree("t", merge=("slow", slow))
        await tree.merge(b"a", b"v")
        await tree.put(b"b", b"v")
        reading = asyncio.create_task(tree.get(b"a"))
        await asyncio.to_thread(started.acquire, timeout=30)
        # A cancelled close goes on, and others wait for its end.
        closing = asyncio.create_task(db.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(firn.ClosedError):
            await tree.get(b"b")
        go.set()
        await db.close()
        assert await reading == b"v"
        # It is closed: another handle can open it.
        async with firn.aio.open(tmp_path / "db", create=False) as db:
            assert await (await db.tree("t")).get(b"b") == b"v"

    run(work)


def test_a_cancelled_transaction_is_aborted_or_committed_as_a_whole():
    async def work():
        async with firn.aio.open() as db:
            tree = await db.tree("t")

            async def write(n):
                async with db.transaction() as tx:
                    await tx.put(tree, b"a%d" % n, b"v")
                    await tx.put(tree, b"b%d" % n, b"v")

            for n in range(200):
                task = asyncio.create_task(write(n))
                for _ in range(n % 20):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await db.sync()
            kinds = {(await tree.contains(b"a%d" % n)) + (await tree.contains(b"b%d" % n)) for n in range(200)}
            assert kinds <= {0, 2}

    run(work)


def test_sessions_run_statements(tmp_path):
    async def work():
        async with firn.aio.connect(tmp_path / "db") as session:
            await session.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
            await session.execute("USE k")
            assert session.keyspace == "k"
            await session.execute("CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))")
            insert = await session.prepare("INSERT INTO t (k, c) VALUES (?, ?)")
            await asyncio.gather(*(insert((1, c)) for c in range(600)))
            rows = await session.execute("SELECT c FROM t WHERE k = ?", (1,), page_size=50)
            assert rows.columns == ["c"] and rows.types == ["int"] and (await rows.one()).c == 0
            assert [row.c async for row in rows] == list(range(1, 600)) and await rows.one() is None
            assert len(await (await session.execute("SELECT c FROM t")).all()) == 600
            other = await session.clone()
            assert len(await (await other.execute("SELECT c FROM t LIMIT 5")).all()) == 5
            with pytest.raises(firn.SyntaxException):
                await session.execute("SELEC")
        with pytest.raises(firn.ClosedError):
            await session.execute("SELECT c FROM t")

    run(work)


def test_results_as_tables():
    pytest.importorskip("pyarrow")

    async def work():
        async with firn.aio.connect() as session:
            rows = await session.execute("SELECT key FROM system.local")
            assert (await rows.to_arrow()).to_pydict() == {"key": ["local"]}
        async with firn.aio.open() as db:
            tree = await db.tree("t")
            await tree.put(b"a", b"b")
            assert (await tree.to_arrow()).to_pydict() == {"key": [b"a"], "value": [b"b"]}

    run(work)


def test_wrong_options_open_nothing(tmp_path):
    async def work():
        for options in ({"threads": 0}, {"threads": 4, "queue": 3}):
            with pytest.raises(ValueError):
                await firn.aio.open(tmp_path / "db", **options)
        with pytest.raises(firn.NotFoundError):
            await firn.aio.open(tmp_path / "db", create=False)
        with pytest.raises(TypeError):
            await firn.aio.open(create=False)
        with pytest.raises(TypeError):
            await firn.aio.connect(create=False)

    run(work)

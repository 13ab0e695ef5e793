"""Stores and CQL sessions for asyncio.

    import firn.aio

    async with firn.aio.open("data") as db:
        fruit = await db.tree("fruit")
        await fruit.put(b"apple", b"red")
        async for key, value in fruit.items(b"a", b"b"):
            print(key, value)

Calls run on threads of the store: `threads` of them, and at most `queue` calls wait or run; further
callers wait in the event loop. A call that was cancelled before it began has no effect; one that
has begun finishes on its thread, so a cancelled write happens as a whole or not at all. Closing
waits for the calls that threads have accepted, and refuses others.

An object belongs to the event loop in which it was opened. Objects other than iterators and
transactions may be used by several tasks at once.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from os import PathLike
from types import TracebackType
from typing import (
    Any,
    AsyncIterator,
    Awaitable,
    Callable,
    Deque,
    Generator,
    Generic,
    Iterable,
    List,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
)

import firn
from firn import Bytes, Durability, Pairs, Values

Path = Union[str, "PathLike[str]"]
Pair = Tuple[bytes, bytes]
T = TypeVar("T")

# Entries or rows that an iterator fetches in one call. They are also bounded in bytes.
_FETCH = 256
# Transactions that may wait for locks at once.
_LOCK_THREADS = 32


class _Pool:
    """Threads with a bound on the calls that wait or run."""

    def __init__(self, threads: int, queue: int) -> None:
        if threads < 1 or queue < threads:
            raise ValueError("threads is at least 1, and queue at least threads")
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(threads, "firn")
        # Waits for locks have threads of their own: the call that releases a lock always has one.
        self._lock_threads = ThreadPoolExecutor(_LOCK_THREADS, "firn-lock")
        self._free = asyncio.Semaphore(queue)
        self._free_locks = asyncio.Semaphore(_LOCK_THREADS)
        self._closing: Optional["asyncio.Future[None]"] = None

    def _submit(
        self, threads: ThreadPoolExecutor, free: asyncio.Semaphore, function: Callable[[], T]
    ) -> "asyncio.Future[T]":
        if self._closing is not None:
            free.release()
            raise firn.ClosedError("the store is closed")
        call: "Future[T]" = threads.submit(function)
        call.add_done_callback(lambda _: self._release(free))
        return asyncio.wrap_future(call, loop=self._loop)

    def _release(self, free: asyncio.Semaphore) -> None:
        try:
            self._loop.call_soon_threadsafe(free.release)
        except RuntimeError:
            pass  # The loop has ended, and nobody waits.

    async def call(self, function: Callable[..., T], *args: Any, **options: Any) -> T:
        """Run a function on a thread, and return its result."""
        return await (await self.begin(function, *args, **options))

    async def begin(
        self, function: Callable[..., T], *args: Any, **options: Any
    ) -> "asyncio.Future[T]":
        """Hand a function to a thread, and return the future of its result."""
        await self._free.acquire()
        return self._submit(self._threads, self._free, functools.partial(function, *args, **options))

    async def lock(self, function: Callable[..., T], *args: Any, **options: Any) -> T:
        """Run a function that waits for a lock."""
        await self._free_locks.acquire()
        work = functools.partial(function, *args, **options)
        return await self._submit(self._lock_threads, self._free_locks, work)

    async def close(self, function: Callable[[], None]) -> None:
        """Refuse further calls, wait for those that have begun, and call the function.

        A caller that is cancelled meanwhile does not stop it; other callers wait for its end.
        """
        if self._closing is None:

            def work() -> None:
                self._threads.shutdown(wait=True)
                # A closed store ends the waits for locks.
                try:
                    function()
                finally:
                    self._lock_threads.shutdown(wait=True)

            self._closing = self._loop.run_in_executor(None, work)
        await asyncio.shield(self._closing)


class _Opening(Generic[T]):
    """The result of an `open`: to be awaited, or used by `async with`, which closes the store."""

    def __init__(self, begin: Callable[[], Awaitable[T]]) -> None:
        self._begin = begin
        self._opened: Optional[Any] = None

    def __await__(self) -> Generator[Any, None, T]:
        return self._begin().__await__()

    async def __aenter__(self) -> T:
        self._opened = opened = await self._begin()
        return opened

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._opened is not None:
            await self._opened.close()


async def _start(
    threads: int, queue: int, function: Callable[[], T], made: Callable[[_Pool, T], Any]
) -> Any:
    pool = _Pool(threads, queue)
    opening = await pool.begin(function)
    try:
        return made(pool, await asyncio.shield(opening))
    except BaseException:
        # Whatever was opened meanwhile is closed with its last handle.
        await pool.close(lambda: None)
        raise


def open(  # noqa: A001 (used as firn.aio.open)
    path: Optional[Path] = None, *, threads: int = 4, queue: int = 1024, **options: Any
) -> _Opening[Db]:
    """Open a store, in memory without a path. Options are those of `firn.Db`."""

    def opened() -> firn.Db:
        return firn.Db(path, **options) if path is not None else firn.Db.in_memory(**options)

    return _Opening(lambda: _start(threads, queue, opened, Db))


def connect(
    path: Optional[Path] = None, *, threads: int = 4, queue: int = 1024, **options: Any
) -> _Opening[Session]:
    """Open a CQL session, in memory without a path. Options are those of `firn.Session`."""

    def opened() -> firn.Session:
        if path is None:
            return firn.Session.in_memory(**options)
        return firn.Session(path, **options)

    return _Opening(lambda: _start(threads, queue, opened, Session))


class _Fetching(Generic[T]):
    """An asynchronous iterator that fetches several items in one call.

    A fetch whose caller was cancelled continues, and the next caller gets its items: none is lost.
    """

    def __init__(self, pool: _Pool, fetch: Callable[[], Sequence[T]]) -> None:
        self._pool = pool
        self._fetch = fetch
        self._ready: Deque[T] = deque()
        self._pending: Optional["asyncio.Future[Sequence[T]]"] = None
        self._is_over = False

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        while not self._ready:
            if self._is_over:
                raise StopAsyncIteration
            if self._pending is None:
                self._pending = await self._pool.begin(self._fetch)
            try:
                items = await asyncio.shield(self._pending)
            except asyncio.CancelledError:
                if self._pending.cancelled():
                    self._pending = None
                raise
            except BaseException:
                self._pending = None
                raise
            self._pending = None
            self._ready.extend(items)
            self._is_over = not items
        return self._ready.popleft()


class Entries(_Fetching[T]):
    """The entries of a range, in the state in which the first one is fetched."""

    def __init__(self, pool: _Pool, begin: Callable[[], Iterable[T]], count: int = _FETCH) -> None:
        found: List[Any] = []

        def fetch() -> Sequence[T]:
            if not found:
                found.append(iter(begin()))
            items: Sequence[T] = found[0].take(count)
            return items

        super().__init__(pool, fetch)


class Rows(_Fetching[firn.Row]):
    """The rows of a statement, fetched page by page."""

    def __init__(self, pool: _Pool, rows: firn.Rows) -> None:
        super().__init__(pool, lambda: rows.take(_FETCH))
        self._rows = rows

    @property
    def columns(self) -> List[str]:
        """Names of the columns."""
        return self._rows.columns

    @property
    def types(self) -> List[str]:
        """Types of the columns, in CQL."""
        return self._rows.types

    async def one(self) -> Optional[firn.Row]:
        """Return the next row, or None."""
        async for row in self:
            return row
        return None

    async def all(self) -> List[firn.Row]:
        """Return all remaining rows."""
        return [row async for row in self]

    async def to_arrow(self, *, decimal_scale: int = 10) -> Any:
        """Return the rows as a `pyarrow.Table`, before any is iterated over."""
        return await self._pool.call(self._rows.to_arrow, decimal_scale=decimal_scale)

    async def to_pandas(self, *, decimal_scale: int = 10) -> Any:
        """Return the rows as a `pandas.DataFrame`, before any is iterated over."""
        return await self._pool.call(self._rows.to_pandas, decimal_scale=decimal_scale)


class TreeRange:
    """The keys in a range of a tree, of a snapshot or of a transaction."""

    def __init__(self, pool: _Pool, mapping: firn.TreeRange, count: int = _FETCH) -> None:
        self._pool = pool
        self._range = mapping
        # Entries of a fetch.
        self._count = count

    def __getitem__(self, keys: slice) -> TreeRange:
        """Return a part: `tree[b"a":b"m"]`. Single keys are read by `get`."""
        if not isinstance(keys, slice):
            raise TypeError("a key is read by `await tree.get(key)`")
        return TreeRange(self._pool, self._range[keys], self._count)

    def prefix(self, prefix: Bytes) -> TreeRange:
        """Return the keys that begin with a prefix."""
        return TreeRange(self._pool, self._range.prefix(prefix), self._count)

    async def get(self, key: Bytes, default: Optional[T] = None) -> Union[bytes, T, None]:
        """Return the value of a key, or the default."""
        return await self._pool.call(self._range.get, key, default)

    async def contains(self, key: Bytes) -> bool:
        """Report whether a key exists."""
        return await self._pool.call(self._range.__contains__, key)

    async def count(self) -> int:
        """Count the keys one by one."""
        return await self._pool.call(self._range.__len__)

    async def first(self) -> Optional[Pair]:
        """Return the entry with the smallest key, or None."""
        return await self._pool.call(self._range.first)

    async def last(self) -> Optional[Pair]:
        """Return the entry with the largest key, or None."""
        return await self._pool.call(self._range.last)

    def items(
        self,
        start: Optional[Bytes] = None,
        end: Optional[Bytes] = None,
        *,
        prefix: Optional[Bytes] = None,
        reverse: bool = False,
    ) -> Entries[Pair]:
        """Iterate over keys and values."""
        view = functools.partial(self._range.items, start, end, prefix=prefix, reverse=reverse)
        return Entries(self._pool, view, self._count)

    def keys(
        self,
        start: Optional[Bytes] = None,
        end: Optional[Bytes] = None,
        *,
        prefix: Optional[Bytes] = None,
        reverse: bool = False,
    ) -> Entries[bytes]:
        """Iterate over keys."""
        view = functools.partial(self._range.keys, start, end, prefix=prefix, reverse=reverse)
        return Entries(self._pool, view, self._count)

    def values(
        self,
        start: Optional[Bytes] = None,
        end: Optional[Bytes] = None,
        *,
        prefix: Optional[Bytes] = None,
        reverse: bool = False,
    ) -> Entries[bytes]:
        """Iterate over values, in the order of their keys."""
        view = functools.partial(self._range.values, start, end, prefix=prefix, reverse=reverse)
        return Entries(self._pool, view, self._count)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.keys()

    async def to_arrow(self) -> Any:
        """Return the entries as a `pyarrow.Table` of the binary columns `key` and `value`."""
        return await self._pool.call(self._range.to_arrow)


class Tree(TreeRange):
    """A tree of a store."""

    def __init__(self, pool: _Pool, tree: firn.Tree) -> None:
        super().__init__(pool, tree)
        self.tree = tree

    @property
    def name(self) -> str:
        """The name of the tree."""
        return self.tree.name

    async def put(
        self, key: Bytes, value: Bytes, *, durability: Optional[Durability] = None
    ) -> None:
        """Set a key to a value."""
        await self._pool.call(self.tree.put, key, value, durability=durability)

    async def delete(self, key: Bytes, *, durability: Optional[Durability] = None) -> None:
        """Delete a key, whether it exists or not."""
        await self._pool.call(self.tree.delete, key, durability=durability)

    async def delete_range(
        self,
        start: Optional[Bytes] = None,
        end: Optional[Bytes] = None,
        *,
        durability: Optional[Durability] = None,
    ) -> None:
        """Delete all keys from `start` on, before `end`."""
        await self._pool.call(self.tree.delete_range, start, end, durability=durability)

    async def merge(
        self, key: Bytes, operand: Bytes, *, durability: Optional[Durability] = None
    ) -> None:
        """Add an operand to a key."""
        await self._pool.call(self.tree.merge, key, operand, durability=durability)

    async def multi_get(self, keys: Sequence[Bytes]) -> List[Optional[bytes]]:
        """Return the values of keys in one call, None for a missing one."""
        return await self._pool.call(self.tree.multi_get, keys)

    async def setdefault(self, key: Bytes, default: Bytes) -> bytes:
        """Set a missing key atomically; return the resulting value."""
        return await self._pool.call(self.tree.setdefault, key, default)

    async def compare_and_swap(
        self, key: Bytes, old: Optional[Bytes], new: Optional[Bytes]
    ) -> bool:
        """Set a key to `new` if its value is `old`; None means no value."""
        return await self._pool.call(self.tree.compare_and_swap, key, old, new)

    async def pop(self, key: Bytes, default: Optional[T] = None) -> Union[bytes, T, None]:
        """Remove a key atomically and return its value, or the default."""
        return await self._pool.call(self.tree.pop, key, default)

    async def pop_first(self) -> Optional[Pair]:
        """Remove the first entry atomically and return it, or None."""
        return await self._pool.call(self.tree.pop_first)

    async def pop_last(self) -> Optional[Pair]:
        """Remove the last entry atomically and return it, or None."""
        return await self._pool.call(self.tree.pop_last)

    async def update(self, other: Pairs) -> None:
        """Set the keys of a mapping, or of an iterable of pairs."""
        await self._pool.call(self.tree.update, other)

    async def ingest(self, pairs: Iterable[Tuple[Bytes, Bytes]]) -> int:
        """Load sorted pairs straight into tables, all or none."""
        return await self._pool.call(self.tree.ingest, pairs)

    async def flush(self) -> None:
        """Flush the memtable."""
        await self._pool.call(self.tree.flush)

    async def compact(self, start: Optional[Bytes] = None, end: Optional[Bytes] = None) -> None:
        """Compact the tables with keys from `start` on, before `end`."""
        await self._pool.call(self.tree.compact, start, end)


class Batch:
    """Writes that the end of `async with db.batch()` executes atomically."""

    def __init__(self, pool: _Pool, db: firn.Db, durability: Optional[Durability]) -> None:
        self._pool = pool
        self._db = db
        self._durability = durability
        self._batch = firn.Batch()

    def __getitem__(self, tree: Tree) -> firn.BatchTree:
        """Return the writes of a tree, which need no `await`."""
        return self._batch[tree.tree]

    def __len__(self) -> int:
        return len(self._batch)

    async def __aenter__(self) -> Batch:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if kind is None:
            await self._pool.call(self._db.write, self._batch, durability=self._durability)
        else:
            self._batch.clear()


class Snapshot:
    """The state of a store at one moment. The end of `async with` releases it."""

    def __init__(self, pool: _Pool, begin: Callable[[], firn.Snapshot]) -> None:
        self._pool = pool
        self._begin = begin
        self._snapshot: Optional[firn.Snapshot] = None

    def __getitem__(self, tree: Tree) -> TreeRange:
        """Return the tree as it was."""
        if self._snapshot is None:
            raise firn.ClosedError("the snapshot is used by `async with db.snapshot()`")
        return TreeRange(self._pool, self._snapshot[tree.tree])

    async def __aenter__(self) -> Snapshot:
        self._snapshot = await self._pool.call(self._begin)
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._snapshot is not None:
            self._snapshot.close()


class Transaction:
    """Atomic reads and writes. The end of `async with` commits, unless an exception leaves it."""

    def __init__(self, pool: _Pool, begin: Callable[[], firn.Transaction]) -> None:
        self._pool = pool
        self._begin = begin
        self._transaction: Optional[firn.Transaction] = None

    @property
    def _open(self) -> firn.Transaction:
        if self._transaction is None:
            raise firn.ClosedError("the transaction is used by `async with db.transaction()`")
        return self._transaction

    def __getitem__(self, tree: Tree) -> TreeRange:
        """Return the tree as the transaction sees it. Entries count as read one by one."""
        return TreeRange(self._pool, self._open[tree.tree], 1)

    async def get(self, tree: Tree, key: Bytes, default: Optional[T] = None) -> Union[bytes, T, None]:
        """Return the value of a key, or the default."""
        return await self._pool.call(self._open.get, tree.tree, key, default)

    async def put(self, tree: Tree, key: Bytes, value: Bytes) -> None:
        """Set a key to a value."""
        await self._pool.call(self._open.put, tree.tree, key, value)

    async def delete(self, tree: Tree, key: Bytes) -> None:
        """Delete a key, whether it exists or not."""
        await self._pool.call(self._open.delete, tree.tree, key)

    async def delete_range(
        self, tree: Tree, start: Optional[Bytes] = None, end: Optional[Bytes] = None
    ) -> None:
        """Delete all keys from `start` on, before `end`."""
        await self._pool.call(self._open.delete_range, tree.tree, start, end)

    async def lock(self, tree: Tree, key: Bytes, *, timeout: float = 10.0) -> None:
        """Lock a key until the transaction ends; wait for at most `timeout` seconds."""
        await self._pool.lock(self._open.lock, tree.tree, key, timeout=timeout)

    async def savepoint(self) -> firn.Savepoint:
        """Return the pending writes, for `rollback_to`."""
        return await self._pool.call(self._open.savepoint)

    async def rollback_to(self, savepoint: firn.Savepoint) -> None:
        """Restore the pending writes of a savepoint."""
        await self._pool.call(self._open.rollback_to, savepoint)

    async def commit(self) -> None:
        """Execute all writes, or none. The transaction is over in any case."""
        await self._pool.call(self._open.commit)

    async def rollback(self) -> None:
        """Abort the transaction."""
        await self._pool.call(self._open.rollback)

    async def __aenter__(self) -> Transaction:
        self._transaction = await self._pool.call(self._begin)
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        transaction = self._transaction
        if transaction is None:
            return
        try:
            await self._pool.call(transaction.__exit__, kind, value, trace)
        except asyncio.CancelledError:
            # A commit that has begun finishes first; one that has not is aborted.
            await asyncio.shield(self._pool.call(transaction.rollback))
            raise
        except firn.ClosedError:
            # In a closed store an aborted transaction has no more to abort.
            if kind is None:
                raise


class Db:
    """A store: `async with firn.aio.open(path) as db`."""

    def __init__(self, pool: _Pool, db: firn.Db) -> None:
        self._pool = pool
        self.db = db

    async def tree(self, name: str, **options: Any) -> Tree:
        """Open the tree of this name; create it if missing. Options are those of `firn.Db.tree`."""
        return Tree(self._pool, await self._pool.call(self.db.tree, name, **options))

    async def tree_names(self) -> List[str]:
        """Return the names of the trees."""
        return await self._pool.call(self.db.tree_names)

    async def drop_tree(self, name: str) -> None:
        """Drop a tree."""
        await self._pool.call(self.db.drop_tree, name)

    def batch(self, *, durability: Optional[Durability] = None) -> Batch:
        """Begin a batch: `async with db.batch() as batch: batch[tree][key] = value`."""
        return Batch(self._pool, self.db, durability)

    def snapshot(self) -> Snapshot:
        """Take a snapshot: `async with db.snapshot() as before`."""
        return Snapshot(self._pool, self.db.snapshot)

    def transaction(self, *, durability: Optional[Durability] = None) -> Transaction:
        """Begin a transaction: `async with db.transaction() as tx`."""
        begin = functools.partial(self.db.transaction, durability=durability)
        return Transaction(self._pool, begin)

    async def transact(
        self,
        work: Callable[[Transaction], Awaitable[T]],
        *,
        attempts: int = 32,
        durability: Optional[Durability] = None,
    ) -> T:
        """Await `work(tx)` and commit. On a conflict retry, at most `attempts` times."""
        for attempt in range(1, max(attempts, 1) + 1):
            try:
                async with self.transaction(durability=durability) as tx:
                    done = await work(tx)
                return done
            except firn.ConflictError:
                if attempt >= attempts:
                    raise
                # Random, so that two tasks do not collide again; longer after each conflict.
                await asyncio.sleep(random.uniform(0, min(50e-6 * 2 ** min(attempt, 8), 10e-3)))
        raise AssertionError("the last attempt returns or raises")

    async def checkpoint(self, path: Path) -> None:
        """Create a copy of the store by hard links."""
        await self._pool.call(self.db.checkpoint, path)

    async def sync(self) -> None:
        """Wait until all earlier writes are on the device."""
        await self._pool.call(self.db.sync)

    async def wait_idle(self) -> None:
        """Wait until no flush and no compaction is due."""
        await self._pool.call(self.db.wait_idle)

    async def stats(self) -> Any:
        """Return the statistics, as in `firn stats --json`."""
        return await self._pool.call(self.db.stats)

    async def close(self) -> None:
        """Close the store: wait for calls that have begun; all writes are durable afterwards."""
        await self._pool.close(self.db.close)

    async def __aenter__(self) -> Db:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()


class Statement:
    """A prepared statement: `rows = await statement(values)`."""

    def __init__(self, pool: _Pool, statement: firn.Statement) -> None:
        self._pool = pool
        self.statement = statement

    async def __call__(
        self,
        values: Optional[Values] = None,
        *,
        page_size: Optional[int] = None,
        timestamp: Optional[int] = None,
    ) -> Rows:
        """Run it with these values."""
        rows = await self._pool.call(
            self.statement, values, page_size=page_size, timestamp=timestamp
        )
        return Rows(self._pool, rows)


class Session:
    """A CQL session: `async with firn.aio.connect(path) as session`."""

    def __init__(self, pool: _Pool, session: firn.Session) -> None:
        self._pool = pool
        self.session = session

    @property
    def keyspace(self) -> Optional[str]:
        """The current keyspace."""
        return self.session.keyspace

    async def execute(
        self,
        cql: str,
        values: Optional[Values] = None,
        *,
        page_size: Optional[int] = None,
        timestamp: Optional[int] = None,
    ) -> Rows:
        """Run a statement, with values for its markers."""
        rows = await self._pool.call(
            self.session.execute, cql, values, page_size=page_size, timestamp=timestamp
        )
        return Rows(self._pool, rows)

    async def prepare(self, cql: str) -> Statement:
        """Prepare a statement about rows."""
        return Statement(self._pool, await self._pool.call(self.session.prepare, cql))

    async def clone(self) -> Session:
        """Return another session with the same database, with its own keyspace."""
        return Session(self._pool, await self._pool.call(self.session.clone))

    async def close(self) -> None:
        """Close the database: wait for calls that have begun; all writes are durable afterwards."""
        await self._pool.close(self.session.close)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

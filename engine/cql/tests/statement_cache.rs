//! Memory of compiled statements: the estimate is near the allocator's count, and the cache of a
//! database stays below its bound whatever clients send.
#![allow(unsafe_code, reason = "the counting allocator of this test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use firn_cql::{Prepared, Session};

/// Counts the bytes that this thread has allocated and not freed.
struct CountingAllocator;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // At the end of a thread the counter no longer exists.
    let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Returns the bytes of a statement, counted by the allocator.
fn counted(session: &Session, text: &str) -> (Prepared, usize) {
    // Memory allocated once for all statements is not counted.
    drop(session.prepare(text).unwrap());
    let other = format!("{text} ");
    let before = LIVE.get();
    let prepared = session.prepare(&other).unwrap();
    let after = LIVE.get();
    (prepared, usize::try_from(after - before).unwrap())
}

fn database() -> Session {
    let session = Session::in_memory().unwrap();
    session
        .execute(
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            (),
        )
        .unwrap();
    session.execute("USE k", ()).unwrap();
    session
        .execute(
            "CREATE TABLE t (a int, b int, v text, w blob, l list<int>, m map<int, text>, s set<text>, PRIMARY KEY (a, b))",
            (),
        )
        .unwrap();
    session
}

fn ints(from: i64, count: i64) -> String {
    (from..from + count).map(|n| n.to_string()).collect::<Vec<_>>().join(",")
}

#[test]
fn the_estimate_of_a_statement_is_near_what_an_allocator_counts() {
    let body = "x".repeat(100_000);
    let markers = vec!["?"; 5_000].join(",");
    let pairs = (0..3_000).map(|n| format!("{n}: 'value {n}'")).collect::<Vec<_>>().join(",");
    let inserts: String =
        (0..500).map(|n| format!("INSERT INTO t (a, b, v) VALUES ({n}, {n}, 'v{n}');")).collect();
    let bound = "INSERT INTO t (a, b, v) VALUES (?, ?, ?);".repeat(500);
    let conditions = ints(0, 5_000);
    let tuples = (0..3_000).map(|n| format!("({n})")).collect::<Vec<_>>().join(",");
    let names = (0..500).map(|n| format!("v AS name{n}")).collect::<Vec<_>>().join(",");
    let calls = (0..200).map(|n| format!("blobastext(w) AS n{n}")).collect::<Vec<_>>().join(",");
    for text in [
        "SELECT * FROM t".to_owned(),
        "SELECT v FROM t WHERE a = ? AND b > ?".to_owned(),
        format!("INSERT INTO t (a, b, v) VALUES (1, 2, '{body}')"),
        format!("INSERT INTO t (a, b, w) VALUES (1, 2, 0x{})", "ab".repeat(50_000)),
        format!("INSERT INTO t (a, b, l) VALUES (1, 2, [{}])", ints(0, 5_000)),
        format!("INSERT INTO t (a, b, m) VALUES (1, 2, {{{pairs}}})"),
        format!("SELECT v FROM t WHERE a IN ({})", ints(0, 10_000)),
        format!("SELECT v FROM t WHERE a IN (7, {markers})"),
        format!("SELECT v FROM t WHERE a = 1 AND (b) IN ({tuples})"),
        format!("UPDATE t SET v = 'x' WHERE a = 1 AND b = 1 IF v IN ({})", quoted(3_000)),
        format!("DELETE FROM t WHERE a IN ({conditions}) AND b = 1"),
        format!("BEGIN BATCH {inserts} APPLY BATCH"),
        format!("BEGIN BATCH {bound} APPLY BATCH"),
        format!("SELECT {names} FROM t"),
        format!("SELECT {calls} FROM t"),
    ] {
        // A separate cache, from which nothing is evicted.
        let (prepared, counted) = counted(&database(), &text);
        let estimate = prepared.heap_bytes();
        let shown = text.chars().take(60).collect::<String>();
        println!("{shown}: text {}, counted {counted}, estimate {estimate}", text.len());
        assert!(estimate * 5 >= counted * 4, "{shown}: {estimate} for {counted}");
        assert!(estimate <= counted * 3 + 2_000, "{shown}: {estimate} for {counted}");
    }
}

fn quoted(count: usize) -> String {
    (0..count).map(|n| format!("'{n}'")).collect::<Vec<_>>().join(",")
}

#[test]
fn the_constants_of_a_list_take_little_more_than_their_text() {
    let session = database();
    let text = format!("SELECT v FROM t WHERE a IN ({})", ints(100_000, 20_000));
    let prepared = session.prepare(&text).unwrap();
    assert!(prepared.heap_bytes() < 3 * text.len(), "{} of {}", prepared.heap_bytes(), text.len());
}

#[test]
fn the_cache_of_statements_is_bounded_in_bytes() {
    // The minimum budget: a cache of 1 MiB.
    const MOST: usize = 1 << 20;
    let mut options = firn_wide::Options::default();
    options.store.db.event_log = false;
    options.store.db.memory_budget = 1 << 20;
    let env = std::sync::Arc::new(firn_kv::MemEnv::plain());
    let wide = firn_wide::Wide::open_in(env, "/", options).unwrap();
    let session = Session::new(wide).unwrap();
    session
        .execute(
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            (),
        )
        .unwrap();
    session.execute("CREATE TABLE k.t (a int PRIMARY KEY, v text)", ()).unwrap();

    // Large statements that were not prepared are not cached.
    let before = LIVE.get();
    let body = "x".repeat(100_000);
    for n in 0..30 {
        session
            .compile_once(None, &format!("INSERT INTO k.t (a, v) VALUES ({n}, '{body}')"))
            .unwrap();
        session
            .execute(&format!("SELECT v FROM k.t WHERE a IN ({})", ints(n, 10_000)), ())
            .unwrap();
        let text = format!("INSERT INTO k.t (a, v) VALUES ({n}, '{body}{body}')");
        assert!(session.prepare(&text).unwrap().heap_bytes() > 200_000);
        let (_, bytes) = session.cached_statements();
        assert!(bytes <= MOST, "{bytes}");
    }
    let grown = LIVE.get() - before;
    assert!(grown < 2 * MOST as isize, "{grown} bytes are held by compiled statements");

    // Small ones fill it, and the most recently used ones stay.
    let frequent = "SELECT v FROM k.t WHERE a = 7";
    let mut most = 0;
    for n in 0..2_000 {
        session.execute(&format!("SELECT v FROM k.t WHERE a = {n}"), ()).unwrap();
        session.execute(frequent, ()).unwrap();
        let (count, bytes) = session.cached_statements();
        assert!(bytes <= MOST && bytes >= count * 1_000, "{count}, {bytes}");
        most = most.max(count);
    }
    assert!(most > 100, "{most}");
    assert!(session.prepared(&session.prepare(frequent).unwrap().id()).is_ok());
}

//! The measured steps.

use firn_kv::{Batch, Durability, Tree};
use firn_wide::internals::store::{StoreFamily, StoreMutation, StoreSlice};
use firn_wide::{
    Column, ColumnOrSuperColumn, ColumnParent, ColumnPath, SlicePredicate, SliceRange,
};
use firn_workload::process::Usage;

use super::store::{
    COLUMNS, VALUE, WideBench, cell_key, column_name, failure, place, row_key, stored,
};
use firn_bench::duel::{DuelMeter, DuelReport, EACH, NOISE, ROUNDS};
use firn_tools::io::Stopwatch;
use firn_tools::output::{Done, Failure, Progress, bytes, count, nanos, rate};

/// Minimum number of rows for a measurement.
pub const LEAST_ROWS: u64 = 100;
/// Minimum number of columns; see [`LEAST_ROWS`].
pub const LEAST_COLUMNS: u64 = 1000;

/// Read rounds of a store so small that it only tests the bench, the size of such a store, and the
/// factor of rounds for short reads whose target is close.
const TRIAL_ROUNDS: u64 = 3;
const TRIAL_ROWS: u64 = 10_000;
const MORE: u64 = 5;
/// Columns of a slice that measures the cost per column.
const SLICE: u64 = 1000;
/// Keys of the widest row, and of a row of 100 columns.
const WIDEST: &[u8] = b"the widest row";
const NARROW: &[u8] = b"a row of 100 columns";
const NARROW_COLUMNS: u64 = 100;
/// Key of a row of one column.
const SINGLE: &[u8] = b"a row of one column";
/// Threads and counters of the counter benchmark.
const THREADS: u64 = 8;
const COUNTERS: u64 = 16;

const WHOLE_ROW: &str = "read a row of 10 columns";
const NAMED_ROW: &str = "get_slice() of it";
const CURSOR_STEP: &str = "kv cursor step";
const SLICE_STEP: &str = "kv cursor step of a slice";

fn rounds(b: &WideBench) -> u64 {
    if b.rows < TRIAL_ROWS { TRIAL_ROUNDS } else { ROUNDS }
}

/// Reads every cache line of a value. Lookups alone do not read it.
fn touch(bytes: &[u8]) {
    std::hint::black_box(
        bytes.iter().step_by(64).fold(0, |sum: u64, &b| sum.wrapping_add(b.into())),
    );
}

fn expect(what: &str, found: u64, expected: u64) -> Done {
    if found == expected {
        return Ok(());
    }
    Err(Failure::new(format!("{what}: found {}, and not {}", count(found), count(expected))))
}

/// A column to write, with all its encodings computed before the measurement.
struct PreparedStep {
    key: Vec<u8>,
    name: Vec<u8>,
    place: Vec<u8>,
    value: [u8; VALUE],
    timestamp: i64,
    full: Vec<u8>,
    stored: Vec<u8>,
}

fn prepare(
    b: &WideBench,
    f: &StoreFamily,
    row: u64,
    column: u64,
    timestamp: i64,
) -> Done<PreparedStep> {
    let (key, name) = (row_key(row), column_name(column));
    let value = b.value(row * COLUMNS + column);
    let (place, full) = (place(f, &name)?, cell_key(f, &key, &name)?);
    Ok(PreparedStep { stored: stored(timestamp, &value), key, name, place, value, timestamp, full })
}

/// Returns a timestamp of a step. Later steps have newer timestamps; otherwise all of their writes
/// would be late writes.
fn timestamp(step: i64, n: u64) -> i64 {
    (step << 32) + n as i64 + 1
}

fn columns_of(
    b: &WideBench,
    f: &StoreFamily,
    step: i64,
    from: u64,
    until: u64,
) -> Done<Vec<PreparedStep>> {
    (from..until).map(|n| prepare(b, f, n / COLUMNS, n % COLUMNS, timestamp(step, n))).collect()
}

/// Inserts columns one by one, through the store and through the operations, and whole rows at
/// once.
pub fn inserts(b: &WideBench, report: &mut DuelReport) -> Done {
    let (rows, kv) = (b.family("Rows")?, b.tree("rows")?);
    let all = b.rows * COLUMNS;
    let mut meter = DuelMeter::new("insert columns", all.div_ceil(EACH), EACH);
    let mut m = StoreMutation::new(b"");
    for from in (0..all).step_by(EACH as usize) {
        let columns = columns_of(b, &rows, 0, from, all.min(from + EACH))?;
        let ours = || {
            columns.iter().try_for_each(|c| {
                m.reset(&c.key);
                m.put(&rows, &c.place, c.timestamp, &c.value);
                b.store.apply(std::slice::from_ref(&m), Durability::Process).map_err(failure)
            })
        };
        meter.round(ours, || put_all(&kv, &columns))?;
    }
    report.add("insert a column", "kv put", meter.done(), Some(1.3));

    let (family, kv, parent) =
        (b.family("Inserts")?, b.tree("inserts")?, ColumnParent::new("Inserts"));
    let tenth = all / 10;
    let mut meter = DuelMeter::new("insert() columns", tenth.div_ceil(EACH), EACH);
    for from in (0..tenth).step_by(EACH as usize) {
        let columns = columns_of(b, &family, 1, from, tenth.min(from + EACH))?;
        let named: Vec<Column> =
            columns.iter().map(|c| Column::new(c.name.clone(), c.value, c.timestamp)).collect();
        let ours = || {
            let mut both = columns.iter().zip(&named);
            both.try_for_each(|(c, column)| {
                b.keyspace.insert(&c.key, &parent, column).map_err(failure)
            })
        };
        meter.round(ours, || put_all(&kv, &columns))?;
    }
    report.add("insert() a column by name", "kv put", meter.done(), Some(1.3));
    batches(b, report)
}

fn put_all(kv: &Tree, columns: &[PreparedStep]) -> Done {
    Ok(columns.iter().try_for_each(|c| kv.put(&c.full, &c.stored))?)
}

fn batches(b: &WideBench, report: &mut DuelReport) -> Done {
    let (family, kv) = (b.family("Batches")?, b.tree("batches")?);
    let rows = (b.rows / 10).max(1);
    let each = EACH / COLUMNS;
    let mut meter = DuelMeter::new("insert rows", rows.div_ceil(each), each);
    let mut m = StoreMutation::new(b"");
    for from in (0..rows).step_by(each as usize) {
        let columns = columns_of(b, &family, 2, from * COLUMNS, rows.min(from + each) * COLUMNS)?;
        let ours = || {
            columns.chunks(COLUMNS as usize).try_for_each(|row| {
                m.reset(&row[0].key);
                for c in row {
                    m.put(&family, &c.place, c.timestamp, &c.value);
                }
                b.store.apply(std::slice::from_ref(&m), Durability::Process).map_err(failure)
            })
        };
        let beside = || {
            Ok(columns.chunks(COLUMNS as usize).try_for_each(|row| {
                let mut batch = Batch::new();
                row.iter().try_for_each(|c| batch.put(&kv, &c.full, &c.stored))?;
                b.store.db().with_durability(Durability::Process).write(batch)
            })?)
        };
        meter.round(ours, beside)?;
    }
    report.add("insert a row of 10 at once", "kv batch of 10", meter.done(), Some(1.3));
    let values = b.tree("values")?;
    let progress = Progress::operations("load the kv values", Some(b.rows));
    for row in 0..b.rows {
        let columns = columns_of(b, &family, 2, row * COLUMNS, (row + 1) * COLUMNS)?;
        let mut value = vec![];
        for c in &columns {
            value.extend_from_slice(&c.place);
            value.extend_from_slice(&c.stored);
        }
        values.put(&row_key(row), &value)?;
        progress.at(row);
    }
    Ok(b.store.db().wait_idle()?)
}

fn cells_of_row(
    b: &WideBench,
    f: &StoreFamily,
    key: &[u8],
    slice: &StoreSlice,
    limit: u64,
) -> Done<u64> {
    let mut reader = b.store.read(f, key, slice).map_err(failure)?;
    let (mut cells, mut bytes) = (0, 0);
    while cells < limit
        && let Some(item) = reader.next().map_err(failure)?
    {
        cells += 1;
        let value = item.cell().map_or(&[][..], |c| c.value());
        touch(value);
        bytes += value.len();
    }
    expect("bytes of the values read", bytes as u64, cells * VALUE as u64)?;
    Ok(cells)
}

/// Reads whole rows at random.
pub fn row_reads(b: &WideBench, state: &str, report: &mut DuelReport) -> Done {
    let (family, values, parent) =
        (b.family("Rows")?, b.tree("values")?, ColumnParent::new("Rows"));
    let all = StoreSlice::all();
    let predicate = SlicePredicate::all();
    // Reads all rows once before the measurement, so that the order of the measurements has no
    // effect.
    for row in 0..b.rows {
        cells_of_row(b, &family, &row_key(row), &all, u64::MAX)?;
        values.get(&row_key(row))?;
    }
    let rounds = rounds(b);
    let mut meter = DuelMeter::new(WHOLE_ROW, rounds, EACH);
    let mut named = DuelMeter::new(NAMED_ROW, rounds, EACH);
    for round in 0..rounds {
        // Each side reads different rows, because rows just read are in the processor's cache.
        let keys = |of: u64| -> Vec<_> {
            (0..EACH).map(|i| row_key(b.random(of << 40 | (round * EACH + i)) % b.rows)).collect()
        };
        let get = |k: &Vec<u8>| {
            let value = values.get(k)?;
            value.as_deref().into_iter().for_each(touch);
            expect("rows", value.is_some().into(), 1)
        };
        let of = keys(1);
        let ours = || {
            of.iter().try_for_each(|k| {
                expect("cells of a row", cells_of_row(b, &family, k, &all, u64::MAX)?, COLUMNS)
            })
        };
        meter.round(ours, || of.iter().try_for_each(get))?;
        let of = keys(2);
        let ours = || of.iter().try_for_each(|k| named_slice(b, k, &parent, &predicate, COLUMNS));
        named.round(ours, || of.iter().try_for_each(get))?;
    }
    report.add(format!("{WHOLE_ROW}, {state}"), "kv get of its bytes", meter.done(), None);
    report.add(format!("{NAMED_ROW}, {state}"), "kv get of its bytes", named.done(), None);
    Ok(())
}

fn named_slice(
    b: &WideBench,
    key: &[u8],
    parent: &ColumnParent,
    predicate: &SlicePredicate,
    expected: u64,
) -> Done {
    let columns = b.keyspace.get_slice(key, parent, predicate).map_err(failure)?;
    for c in &columns {
        if let ColumnOrSuperColumn::Column(c) = c {
            touch(&c.value);
        }
    }
    expect("columns of a row", columns.len() as u64, expected)
}

/// Sets the target for reads of rows: 1.5 times a get plus the decoding of 10 cells. Decoding is
/// taken as 10 steps of the scan; for `get_slice()`, which creates columns, as 10 columns of a long
/// slice.
pub fn judge_row_reads(report: &mut DuelReport) {
    let each = |beside: &str| {
        report.lines.iter().find(|l| l.beside == beside).map_or(f64::NAN, |l| l.duel.ours)
    };
    let [cells, columns] = [each(CURSOR_STEP), each(SLICE_STEP)].map(|ns| COLUMNS as f64 * ns);
    for l in report.lines.iter_mut().filter(|l| l.beside == "kv get of its bytes") {
        let decoding = if l.what.starts_with(NAMED_ROW) { columns } else { cells };
        l.aim = Some(1.5 + decoding / l.duel.beside);
    }
    let [walk, slice] = [cells, columns].map(|ns| nanos(ns.round() as u64));
    report.notes.push(format!(
        "The target for reading a row is 1.5 gets plus its decoding: {walk}, the time of 10 scan steps, and for get_slice() {slice}, the time of 10 \
         columns of a slice of {}.",
        count(SLICE)
    ));
}

/// Reads one column at random.
pub fn point_reads(b: &WideBench, report: &mut DuelReport) -> Done {
    let (family, kv) = (b.family("Rows")?, b.tree("rows")?);
    let rounds = rounds(b);
    let mut meter = DuelMeter::new("read columns", rounds, EACH);
    let mut named = DuelMeter::new("get() of them", rounds, EACH);
    for round in 0..rounds {
        let columns = |of: u64| -> Done<Vec<_>> {
            let n = |i: u64| b.random(of << 40 | (round * EACH + i)) % (b.rows * COLUMNS);
            (0..EACH).map(|i| prepare(b, &family, n(i) / COLUMNS, n(i) % COLUMNS, 1)).collect()
        };
        let get = |c: &PreparedStep| {
            let value = kv.get(&c.full)?;
            value.as_deref().into_iter().for_each(touch);
            expect("columns", value.is_some().into(), 1)
        };
        let of = columns(3)?;
        let ours = || {
            of.iter().try_for_each(|c| {
                let found = b.store.get(&family, &c.key, &c.place).map_err(failure)?;
                let value = found.as_ref().map_or(&[][..], |v| v.value());
                touch(value);
                expect("bytes of a value", value.len() as u64, VALUE as u64)
            })
        };
        meter.round(ours, || of.iter().try_for_each(get))?;
        let of = columns(4)?;
        let paths: Vec<_> =
            of.iter().map(|c| ColumnPath::new("Rows").column(c.name.clone())).collect();
        let ours = || {
            of.iter().zip(&paths).try_for_each(|(c, path)| {
                match b.keyspace.get(&c.key, path).map_err(failure)? {
                    ColumnOrSuperColumn::Column(c) => {
                        touch(&c.value);
                        Ok(())
                    }
                    other => Err(Failure::new(format!("a column was read as {other:?}"))),
                }
            })
        };
        named.round(ours, || of.iter().try_for_each(get))?;
    }
    report.add("read one column", "kv get", meter.done(), None);
    report.add("get() of it", "kv get", named.done(), None);
    Ok(())
}

fn load_row(b: &WideBench, family: &StoreFamily, key: &[u8], columns: u64) -> Done {
    let progress = Progress::operations("load a wide row", Some(columns));
    let mut m = StoreMutation::new(key);
    let mut at = vec![];
    for n in 0..columns {
        at.clear();
        family.layout().put_cell(&[], &n.to_be_bytes(), &mut at).map_err(failure)?;
        m.put(family, &at, timestamp(3, n), &b.value(n));
        if n % 1000 == 999 || n + 1 == columns {
            b.store.apply(std::slice::from_ref(&m), Durability::Process).map_err(failure)?;
            m.reset(key);
            progress.at(n);
        }
    }
    Ok(())
}

/// Writes a row of very many columns and a row of 100 columns.
pub fn load_wide_row(b: &WideBench, report: &mut DuelReport) -> Done {
    let family = b.family("Wide")?;
    let watch = Stopwatch::start();
    load_row(b, &family, WIDEST, b.columns)?;
    let per_second = b.columns as f64 / watch.seconds();
    report.notes.push(format!(
        "The wide row was written with {} columns a second, 1,000 in a batch.",
        rate(per_second)
    ));
    load_row(b, &family, NARROW, NARROW_COLUMNS)?;
    load_row(b, &family, SINGLE, 1)?;
    family.tree().compact()?;
    Ok(b.store.db().wait_idle()?)
}

/// Reads the last ten columns.
pub fn last_ten(b: &WideBench, report: &mut DuelReport) -> Done {
    let family = b.family("Wide")?;
    let slice = StoreSlice::all().reversed();
    let ten = |key: &[u8]| {
        (0..EACH)
            .try_for_each(|_| expect("columns", cells_of_row(b, &family, key, &slice, 10)?, 10))
    };
    let rounds = MORE * rounds(b);
    let mut meter = DuelMeter::new("last 10 columns", rounds, EACH);
    let mut below = DuelMeter::new("last 10 columns", rounds, EACH);
    let [mut from, mut until] = [cell_key(&family, WIDEST, b"")?, vec![]];
    family.layout().put_partition(WIDEST, &mut until).map_err(failure)?;
    from.truncate(until.len());
    until.push(0x42);
    let cursor = || {
        (0..EACH).try_for_each(|_| {
            let mut c = family.tree().cursor(&*from..&*until)?;
            c.last()?;
            let mut n = 0;
            while c.is_valid() && n < 10 {
                n += 1;
                c.prev()?;
            }
            expect("entries", n, 10)
        })
    };
    for _ in 0..rounds {
        meter.round(|| ten(WIDEST), || ten(NARROW))?;
        below.round(|| ten(WIDEST), cursor)?;
    }
    report.add("last 10 of the wide row", "last 10 of a row of 100", meter.done(), Some(NOISE));
    report.add("last 10 of the wide row", "kv cursor, 10 back", below.done(), None);
    Ok(())
}

/// Reads all of the wide row, cell by cell.
pub fn walk(b: &WideBench, what: &str, report: &mut DuelReport) -> Done {
    let family = b.family("Wide")?;
    let mut meter = DuelMeter::new(what, 3, b.columns);
    let rss = || Usage::now().map_or(0, |u| u.rss_anon);
    let (before, mut most) = (rss(), 0);
    let all = StoreSlice::all();
    for _ in 0..3 {
        let ours = || {
            expect(
                "columns of the wide row",
                cells_of_row(b, &family, WIDEST, &all, u64::MAX)?,
                b.columns,
            )
        };
        let beside = || {
            let mut c = family.tree().cursor(..)?;
            c.first()?;
            let mut n = 0;
            while c.is_valid() {
                n += 1;
                c.next()?;
            }
            expect("entries", n, b.columns + NARROW_COLUMNS + 1)
        };
        meter.round(ours, beside)?;
        most = most.max(rss());
    }
    report.add(what, CURSOR_STEP, meter.done(), None);
    let size = family
        .tree()
        .cursor(..)
        .and_then(|mut c| c.first().map(|()| c.key().len() + c.value().len()))?;
    let row = bytes(size as u64 * b.columns);
    let more = bytes(most.saturating_sub(before));
    report.notes.push(format!(
        "{what}: a row of {row}; the process had {} of memory before, {more} more after.",
        bytes(before)
    ));
    Ok(())
}

/// Reads slices of the wide row from random columns: the cost per column of long slices.
pub fn long_slices(b: &WideBench, report: &mut DuelReport) -> Done {
    let (family, parent) = (b.family("Wide")?, ColumnParent::new("Wide"));
    let rounds = rounds(b);
    let each = 10;
    let mut meter = DuelMeter::new("slices", rounds, each * SLICE);
    for round in 0..rounds {
        let starts = |of: u64| -> Vec<_> {
            let n = |i: u64| b.random(of << 40 | (round * each + i)) % (b.columns - SLICE + 1);
            (0..each).map(|i| n(i).to_be_bytes()).collect()
        };
        let of = starts(5);
        let ours = || {
            of.iter().try_for_each(|start| {
                let range = SliceRange {
                    start: start.to_vec(),
                    count: SLICE as i32,
                    ..SliceRange::default()
                };
                named_slice(b, WIDEST, &parent, &range.into(), SLICE)
            })
        };
        let of = starts(6);
        let beside = || {
            of.iter().try_for_each(|start| {
                let mut c = family.tree().cursor(&*cell_key(&family, WIDEST, start)?..)?;
                c.first()?;
                let mut n = 0;
                while c.is_valid() && n < SLICE {
                    touch(c.value());
                    n += 1;
                    c.next()?;
                }
                expect("entries", n, SLICE)
            })
        };
        meter.round(ours, beside)?;
    }
    report.add("a column of a get_slice() of 1,000", SLICE_STEP, meter.done(), None);
    Ok(())
}

/// Increments the same counters from several threads.
pub fn counters(b: &WideBench, report: &mut DuelReport) -> Done {
    let (family, kv) = (b.family("Counters")?, b.tree("counters")?);
    let per_thread = EACH * 4;
    let rounds = 5;
    let places: Done<Vec<_>> = (0..COUNTERS).map(|n| place(&family, &column_name(n))).collect();
    let places = places?;
    let mut meter = DuelMeter::new("count", rounds, THREADS * per_thread);
    let increment = |n: u64| -> Done {
        let mut m = StoreMutation::new(&row_key(n % 4));
        m.add(&family, &places[(n % COUNTERS) as usize], 1);
        b.store.apply(&[m], Durability::Process).map_err(failure)
    };
    let put = |n: u64| -> Done { Ok(kv.put(&row_key(n % COUNTERS), &[0; 17])?) };
    for _ in 0..rounds {
        meter.round(|| on_threads(per_thread, &increment), || on_threads(per_thread, &put))?;
    }
    report.add("increment from 8 threads", "kv put from 8 threads", meter.done(), None);
    let mut sum = 0;
    for row in 0..4 {
        let mut reader =
            b.store.read(&family, &row_key(row), &StoreSlice::all()).map_err(failure)?;
        while let Some(item) = reader.next().map_err(failure)? {
            sum += item.cell().and_then(|c| c.counter()).unwrap_or(0);
        }
    }
    let all = rounds * THREADS * per_thread;
    expect("the sum of the counters", sum.try_into().unwrap_or(0), all)?;
    report.notes.push(format!("{} increments from {THREADS} threads: none was lost.", count(all)));
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "they stand for an application's clients")]
fn on_threads(each: u64, work: &(impl Fn(u64) -> Done + Sync)) -> Done {
    std::thread::scope(|s| {
        let threads: Vec<_> = (0..THREADS)
            .map(|t| s.spawn(move || (0..each).try_for_each(|i| work(t * each + i))))
            .collect();
        threads.into_iter().try_for_each(|t| {
            t.join().unwrap_or_else(|_| Err(Failure::new("a thread has panicked")))
        })
    })
}

/// Writes columns older than the newest timestamp of their stripe: each is compared with the stored
/// cell.
pub fn late_writes(b: &WideBench, report: &mut DuelReport) -> Done {
    let (family, kv) = (b.family("Batches")?, b.tree("batches")?);
    // Gives every stripe its newest timestamp.
    for n in 0..4096 {
        let mut m = StoreMutation::new(&row_key(n));
        m.put(&family, &place(&family, b"newest")?, timestamp(5, 0), b"");
        b.store.apply(&[m], Durability::Process).map_err(failure)?;
    }
    let rounds = rounds(b);
    let mut meter = DuelMeter::new("late writes", rounds, EACH);
    let mut m = StoreMutation::new(b"");
    for round in 0..rounds {
        let n = |i: u64| b.random(2 << 32 | (round * EACH + i)) % ((b.rows / 10).max(1) * COLUMNS);
        let late = timestamp(4, round);
        let columns: Done<Vec<_>> =
            (0..EACH).map(|i| prepare(b, &family, n(i) / COLUMNS, n(i) % COLUMNS, late)).collect();
        let columns = columns?;
        let ours = || {
            columns.iter().try_for_each(|c| {
                m.reset(&c.key);
                m.put(&family, &c.place, c.timestamp, &c.value);
                b.store.apply(std::slice::from_ref(&m), Durability::Process).map_err(failure)
            })
        };
        let beside = || {
            columns.iter().try_for_each(|c| {
                kv.get(&c.full)?;
                Ok(kv.put(&c.full, &c.stored)?)
            })
        };
        meter.round(ours, beside)?;
    }
    report.add("write a column late", "kv get and put", meter.done(), None);
    Ok(())
}

/// Deletes the wide row, and reads the deleted row.
pub fn deletion(b: &WideBench, report: &mut DuelReport) -> Done {
    let family = b.family("Wide")?;
    let delete = |key: &[u8]| {
        let mut m = StoreMutation::new(key);
        m.delete_partition(&family, timestamp(6, 0));
        b.store.apply(&[m], Durability::Process).map_err(failure)
    };
    // The store has just been opened. The first read opens tables, and the first deletion of its
    // kind records the kind in the manifest.
    for key in [WIDEST, NARROW] {
        cells_of_row(b, &family, key, &StoreSlice::all(), 1)?;
    }
    delete(SINGLE)?;
    let mut meter = DuelMeter::new("delete rows", 1, 1);
    meter.round(|| delete(WIDEST), || delete(NARROW))?;
    report.add("delete the wide row", "delete a row of 100", meter.done(), None);
    let all = StoreSlice::all();
    let none = |key: &[u8]| {
        (0..EACH).try_for_each(|_| expect("columns", cells_of_row(b, &family, key, &all, 1)?, 0))
    };
    let rounds = MORE * rounds(b);
    let mut read = |what: &str| -> Done {
        for (key, beside, aim) in [
            (SINGLE, "read a deleted row of 1", Some(NOISE)),
            (b"a row that never was", "read a row that never was", None),
        ] {
            let mut meter = DuelMeter::new("read what is deleted", rounds, EACH);
            for _ in 0..rounds {
                meter.round(|| none(WIDEST), || none(key))?;
            }
            report.add(what, beside, meter.done(), aim);
        }
        Ok(())
    };
    read("read it afterwards")?;
    family.tree().flush()?;
    b.store.db().wait_idle()?;
    read("read it after a flush")?;
    family.tree().compact()?;
    b.store.db().wait_idle()?;
    read("read it after a compaction")
}

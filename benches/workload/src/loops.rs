//! Loops of db_bench's workloads and of mixgraph, compiled once per store.

use crate::dist::Chooser;
use crate::keys::{KeyBuf, Permutation};
use crate::meter::{MeterTally, ReadMeter, TouchedBytes};
use crate::mixgraph::MixKeys;
use crate::outcome::OpKind;
use crate::rng::{Rng, mix};
use crate::runner::RunnerWorker;
use crate::spec::Workload;
use crate::store::{Direction, OPERAND, Result, Store, StoreBatch};
use crate::ycsb;

/// Runs one thread's part of a phase.
pub(crate) fn run<S: Store>(store: &S, w: &mut RunnerWorker<'_>) -> Result<MeterTally> {
    let config = w.job.config;
    let n = config.num;
    let distribution = config.distribution.unwrap_or_else(|| w.job.workload.distribution());
    let mut chooser = Chooser::new(&distribution, n);
    let random = move |rng: &mut Rng, _: u64| chooser.next(rng, n);
    match w.job.workload {
        Workload::FillSeq => write_each(store, w, false, |_, i| i),
        Workload::FillUniqueRandom => {
            let order = Permutation::new(n, mix(config.seed));
            write_each(store, w, false, |_, i| order.at(i % n))
        }
        Workload::FillRandom | Workload::Overwrite => write_each(store, w, false, random),
        Workload::FillSync => write_each(store, w, true, random),
        Workload::FillBatch => write_batches(store, w, random),
        Workload::ReadRandom => read_each(store, w, config.key_size, random),
        // One byte longer than any existing key, and so directly after one.
        Workload::ReadMissing => read_each(store, w, config.key_size + 1, random),
        Workload::ReadSeq => scan_all(store, w, Direction::Forward),
        Workload::ReadReverse => scan_all(store, w, Direction::Reverse),
        Workload::SeekRandom => seek_each(store, w, random),
        Workload::ReadWhileWriting if w.index < w.job.threads => {
            read_each(store, w, config.key_size, random)
        }
        Workload::ReadWhileWriting => write_on(store, w, random),
        Workload::DeleteSeq => delete_each(store, w, |_, i| i),
        Workload::DeleteRandom => delete_each(store, w, random),
        Workload::MergeRandom => merge_each(store, w, random),
        Workload::DeleteRange => delete_ranges(store, w, random),
        Workload::Mixgraph => mixgraph(store, w),
        Workload::YcsbLoad => ycsb::load(store, w),
        Workload::YcsbA
        | Workload::YcsbB
        | Workload::YcsbC
        | Workload::YcsbD
        | Workload::YcsbE
        | Workload::YcsbF => ycsb::run(store, w, &distribution),
    }
}

/// Reads `key` and counts a hit.
#[inline(always)]
pub(crate) fn read_one<S: Store>(
    store: &S,
    meter: &mut ReadMeter<'_>,
    kind: OpKind,
    key: &[u8],
) -> Result<()> {
    let mut touched = TouchedBytes::default();
    meter.op(kind, 1, || store.get(key, |value| touched.value(value)))?;
    meter.read(&touched);
    Ok(())
}

/// Scans `limit` entries from `key` and counts a hit.
#[inline(always)]
pub(crate) fn scan_one<S: Store>(
    store: &S,
    meter: &mut ReadMeter<'_>,
    key: &[u8],
    limit: u64,
) -> Result<()> {
    let mut touched = TouchedBytes::default();
    meter.op(OpKind::Scan, 1, || {
        store.scan(Some(key), Direction::Forward, limit, |key, value| touched.entry(key, value))
    })?;
    meter.read(&touched);
    Ok(())
}

/// Puts an entry and counts it.
#[inline(always)]
pub(crate) fn write_one<S: Store>(
    store: &S,
    meter: &mut ReadMeter<'_>,
    kind: OpKind,
    key: &[u8],
    value: &[u8],
    sync: bool,
) -> Result<()> {
    meter.wrote(key.len() + value.len());
    meter.op(kind, 1, || store.put(key, value, sync))
}

fn write_each<S: Store>(
    store: &S,
    w: &mut RunnerWorker<'_>,
    sync: bool,
    mut number: impl FnMut(&mut Rng, u64) -> u64,
) -> Result<MeterTally> {
    let (first, count) = w.share();
    let size = w.job.config.value;
    let mut meter = w.start()?;
    for i in first..first + count {
        let key = w.key.set(number(&mut w.rng, i));
        let value = w.values.take(size.sample(&mut w.rng));
        write_one(store, &mut meter, OpKind::Write, key, value, sync)?;
        if meter.stopped() {
            break;
        }
    }
    Ok(meter.finish())
}

/// Writes until stopped.
fn write_on<S: Store>(
    store: &S,
    w: &mut RunnerWorker<'_>,
    mut number: impl FnMut(&mut Rng, u64) -> u64,
) -> Result<MeterTally> {
    let size = w.job.config.value;
    let mut meter = w.start()?;
    while !meter.stopped() {
        let key = w.key.set(number(&mut w.rng, 0));
        let value = w.values.take(size.sample(&mut w.rng));
        write_one(store, &mut meter, OpKind::Write, key, value, false)?;
    }
    Ok(meter.finish())
}

fn write_batches<S: Store>(
    store: &S,
    w: &mut RunnerWorker<'_>,
    mut number: impl FnMut(&mut Rng, u64) -> u64,
) -> Result<MeterTally> {
    let (first, count) = w.share();
    let (size, most) = (w.job.config.value, w.job.config.batch as u64);
    let mut batch = StoreBatch::default();
    let mut meter = w.start()?;
    let mut done = 0;
    while done < count && !meter.stopped() {
        let entries = most.min(count - done);
        batch.clear();
        for i in done..done + entries {
            let key = w.key.set(number(&mut w.rng, first + i));
            let value = w.values.take(size.sample(&mut w.rng));
            meter.wrote(key.len() + value.len());
            batch.push(key, value);
        }
        meter.op(OpKind::Batch, entries, || store.write_batch(&batch))?;
        done += entries;
    }
    Ok(meter.finish())
}

fn read_each<S: Store>(
    store: &S,
    w: &mut RunnerWorker<'_>,
    key_size: usize,
    mut number: impl FnMut(&mut Rng, u64) -> u64,
) -> Result<MeterTally> {
    let (first, count) = w.share();
    let mut key = KeyBuf::new(key_size);
    let mut meter = w.start()?;
    for i in first..first + count {
        let key = key.set(number(&mut w.rng, i));
        read_one(store, &mut meter, OpKind::Read, key)?;
        if meter.stopped() {
            break;
        }
    }
    Ok(meter.finish())
}

fn delete_each<S: Store>(
    store: &S,
    w: &mut RunnerWorker<'_>,
    mut number: impl FnMut(&mut Rng, u64) -> u64,
) -> Result<MeterTally> {
    let (first, count) = w.share();
    let mut meter = w.start()?;
    for i in first..first + count {
        let key = w.key.set(number(&mut w.rng, i));
        meter.wrote(key.len());
        meter.op(OpKind::Delete, 1, || store.delete(key))?;
        if meter.stopped() {
            break;
        }
    }
    Ok(meter.finish())
}

fn merge_each<S: Store>(
    store: &S,
    w: &mut RunnerWorker<'_>,
    mut number: impl FnMut(&mut Rng, u64) -> u64,
) -> Result<MeterTally> {
    let (first, count) = w.share();
    let mut meter = w.start()?;
    for i in first..first + count {
        let key = w.key.set(number(&mut w.rng, i));
        meter.wrote(key.len() + OPERAND.len());
        meter.op(OpKind::Merge, 1, || store.merge(key, &OPERAND))?;
        if meter.stopped() {
            break;
        }
    }
    Ok(meter.finish())
}

fn delete_ranges<S: Store>(
    store: &S,
    w: &mut RunnerWorker<'_>,
    mut number: impl FnMut(&mut Rng, u64) -> u64,
) -> Result<MeterTally> {
    let (first, count) = w.share();
    let mut until = KeyBuf::new(w.job.config.key_size);
    let mut meter = w.start()?;
    for i in first..first + count {
        let from = number(&mut w.rng, i);
        let (key, until) = (w.key.set(from), until.set(from.saturating_add(w.job.config.range)));
        meter.wrote(key.len() + until.len());
        meter.op(OpKind::DeleteRange, 1, || store.delete_range(key, until))?;
        if meter.stopped() {
            break;
        }
    }
    Ok(meter.finish())
}

fn scan_all<S: Store>(
    store: &S,
    w: &mut RunnerWorker<'_>,
    direction: Direction,
) -> Result<MeterTally> {
    const PUBLISH_EVERY: u64 = 4096;
    let mut meter = w.start()?;
    let lane = meter.lane();
    let mut touched = TouchedBytes::default();
    let entries = store.scan(None, direction, w.job.total, |key, value| {
        touched.entry(key, value);
        if touched.entries % PUBLISH_EVERY == 0 {
            lane.publish(touched.entries);
        }
    })?;
    meter.count(OpKind::Entry, entries);
    meter.read(&touched);
    Ok(meter.finish())
}

fn seek_each<S: Store>(
    store: &S,
    w: &mut RunnerWorker<'_>,
    mut number: impl FnMut(&mut Rng, u64) -> u64,
) -> Result<MeterTally> {
    let (first, count) = w.share();
    let limit = w.job.config.seek_nexts;
    let mut meter = w.start()?;
    for i in first..first + count {
        let key = w.key.set(number(&mut w.rng, i));
        scan_one(store, &mut meter, key, limit)?;
        if meter.stopped() {
            break;
        }
    }
    Ok(meter.finish())
}

fn mixgraph<S: Store>(store: &S, w: &mut RunnerWorker<'_>) -> Result<MeterTally> {
    let mix = &w.job.config.mix;
    let keys = MixKeys::new(mix, w.job.config.num);
    let sum = mix.mix_get_ratio + mix.mix_put_ratio + mix.mix_seek_ratio;
    let (gets, puts) = (mix.mix_get_ratio / sum, (mix.mix_get_ratio + mix.mix_put_ratio) / sum);
    let (_, count) = w.share();
    let mut meter = w.start()?;
    for _ in 0..count {
        let key = w.key.set(keys.sample(&mut w.rng));
        let kind = w.rng.unit();
        if kind < gets {
            read_one(store, &mut meter, OpKind::Read, key)?;
        } else if kind < puts {
            let value = w.values.take(mix.value.sample(&mut w.rng) as usize);
            write_one(store, &mut meter, OpKind::Write, key, value, false)?;
        } else {
            scan_one(store, &mut meter, key, mix.iter.sample(&mut w.rng))?;
        }
        if meter.stopped() {
            break;
        }
    }
    Ok(meter.finish())
}

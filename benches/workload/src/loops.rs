//! The loops of phases, compiled once per store.

use crate::keys::KeyBuf;
use crate::meter::{MeterTally, ReadMeter, TouchedBytes};
use crate::outcome::OpKind;
use crate::runner::RunnerWorker;
use crate::store::{Direction, OPERAND, Result, Store, StoreBatch};
use crate::stream::key_number;

/// Runs one thread's part of a phase.
pub(crate) fn run<S: Store>(store: &S, w: &mut RunnerWorker<'_>) -> Result<MeterTally> {
    let mix = &w.job.phase.mix;
    match mix.full_scan {
        _ if w.index >= w.job.phase.threads => write_on(store, w),
        Some(direction) => scan_all(store, w, direction),
        None if mix.batch > 1 => write_batches(store, w),
        None => operate(store, w),
    }
}

/// Reads `key` and counts a hit.
#[inline(always)]
fn get<S: Store>(store: &S, meter: &mut ReadMeter<'_>, kind: OpKind, key: &[u8]) -> Result<()> {
    let mut touched = TouchedBytes::default();
    meter.op(kind, 1, || store.get(key, |value| touched.value(value)))?;
    meter.read(&touched);
    Ok(())
}

/// Runs the operations of a mix.
fn operate<S: Store>(store: &S, w: &mut RunnerWorker<'_>) -> Result<MeterTally> {
    let (job, mix) = (w.job, &w.job.phase.mix);
    let mut stream = job.stream(job.seed);
    let grows = stream.has_inserts();
    let size = mix.value_size(job.config.value_size);
    let longest = size.max();
    let key_size = job.config.key_size;
    let (mut longer, mut until) = (KeyBuf::new(key_size + 1), KeyBuf::new(key_size));
    let (first, count) = w.share();
    let mut meter = w.start()?;
    for i in first..first.saturating_add(count) {
        let items = if grows { job.inserts.complete() } else { job.items };
        let mut op = stream.at(i, items);
        if op.kind == OpKind::Insert {
            op.item = job.inserts.begin(w.index);
        }
        let number = key_number(op.item, mix.hashed);
        let key = w.key.set(number);
        match op.kind {
            OpKind::Read => get(store, &mut meter, op.kind, key)?,
            // One byte longer than any existing key, and so directly after one.
            OpKind::MissingRead => get(store, &mut meter, op.kind, longer.set(number))?,
            OpKind::Scan => {
                let limit = mix.scan_length.sample(&mut op.draws) as u64;
                let mut touched = TouchedBytes::default();
                meter.op(op.kind, 1, || {
                    store.scan(Some(key), Direction::Forward, limit, |key, value| {
                        touched.entry(key, value)
                    })
                })?;
                meter.read(&touched);
            }
            OpKind::ReadModifyWrite => {
                let value = w.pool.value(i, longest, size.sample(&mut op.draws));
                let mut touched = TouchedBytes::default();
                meter.wrote(key.len() + value.len());
                meter.op(op.kind, 1, || {
                    store.get(key, |old| touched.value(old))?;
                    store.put(key, value, mix.sync)
                })?;
                meter.read(&touched);
            }
            OpKind::Delete => {
                meter.wrote(key.len());
                meter.op(op.kind, 1, || store.delete(key))?;
            }
            OpKind::Merge => {
                meter.wrote(key.len() + OPERAND.len());
                meter.op(op.kind, 1, || store.merge(key, &OPERAND))?;
            }
            OpKind::DeleteRange => {
                let until = until.set(number.saturating_add(mix.range));
                meter.wrote(key.len() + until.len());
                meter.op(op.kind, 1, || store.delete_range(key, until))?;
            }
            OpKind::Write | OpKind::Insert | OpKind::Batch | OpKind::Entry => {
                let value = w.pool.value(i, longest, size.sample(&mut op.draws));
                meter.wrote(key.len() + value.len());
                meter.op(op.kind, 1, || store.put(key, value, mix.sync))?;
                if grows {
                    job.inserts.end(w.index);
                }
            }
        }
        if meter.stopped() {
            break;
        }
    }
    Ok(meter.finish())
}

/// Puts random keys until stopped.
fn write_on<S: Store>(store: &S, w: &mut RunnerWorker<'_>) -> Result<MeterTally> {
    let (job, mix) = (w.job, &w.job.phase.mix);
    let mut stream = job.stream(job.seed.wrapping_add(1));
    let size = mix.value_size(job.config.value_size);
    let longest = size.max();
    let mut meter = w.start()?;
    for i in 0.. {
        if meter.stopped() {
            break;
        }
        let mut op = stream.at(i, job.items);
        let key = w.key.set(key_number(op.item, mix.hashed));
        let value = w.pool.value(i, longest, size.sample(&mut op.draws));
        meter.wrote(key.len() + value.len());
        meter.op(OpKind::Write, 1, || store.put(key, value, false))?;
    }
    Ok(meter.finish())
}

fn write_batches<S: Store>(store: &S, w: &mut RunnerWorker<'_>) -> Result<MeterTally> {
    let (job, mix) = (w.job, &w.job.phase.mix);
    let mut stream = job.stream(job.seed);
    let size = mix.value_size(job.config.value_size);
    let (longest, most) = (size.max(), mix.batch as u64);
    let (first, count) = w.share();
    let mut batch = StoreBatch::default();
    let mut meter = w.start()?;
    let mut done = 0;
    while done < count && !meter.stopped() {
        let entries = most.min(count - done);
        batch.clear();
        for i in first + done..first + done + entries {
            let mut op = stream.at(i, job.items);
            let key = w.key.set(key_number(op.item, mix.hashed));
            let value = w.pool.value(i, longest, size.sample(&mut op.draws));
            meter.wrote(key.len() + value.len());
            batch.push(key, value);
        }
        meter.op(OpKind::Batch, entries, || store.write_batch(&batch))?;
        done += entries;
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

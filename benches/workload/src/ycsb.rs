//! YCSB's core workloads: the load phase and the mixes A to F.
//!
//! Records are numbered; a record's key is its scrambled number, so that neighbouring numbers are
//! far from each other in key order, as with YCSB's `insertorder=hashed`. An update writes the
//! whole value. Inserts continue after those of the last phase.

use crate::dist::{Chooser, Distribution};
use crate::loops::{read_one, scan_one, write_one};
use crate::meter::{MeterTally, TouchedBytes};
use crate::outcome::OpKind;
use crate::rng::mix;
use crate::runner::RunnerWorker;
use crate::spec::Workload;
use crate::store::{Result, Store};

/// Inserts the first records.
pub(crate) fn load<S: Store>(store: &S, w: &mut RunnerWorker<'_>) -> Result<MeterTally> {
    let (first, count) = w.share();
    let size = w.job.config.ycsb_value;
    let mut meter = w.start()?;
    for record in first..first + count {
        let key = w.key.set(mix(record));
        let value = w.values.take(size.sample(&mut w.rng));
        write_one(store, &mut meter, OpKind::Insert, key, value, false)?;
        if meter.stopped() {
            break;
        }
    }
    Ok(meter.finish())
}

/// Returns the types of operations: the second with the given share, otherwise the first.
fn mixture(workload: Workload) -> (OpKind, OpKind, f64) {
    match workload {
        Workload::YcsbA => (OpKind::Read, OpKind::Update, 0.5),
        Workload::YcsbB => (OpKind::Read, OpKind::Update, 0.05),
        Workload::YcsbD => (OpKind::Read, OpKind::Insert, 0.05),
        Workload::YcsbE => (OpKind::Scan, OpKind::Insert, 0.05),
        Workload::YcsbF => (OpKind::Read, OpKind::ReadModifyWrite, 0.5),
        _ => (OpKind::Read, OpKind::Read, 0.0),
    }
}

/// Runs one of the mixes.
pub(crate) fn run<S: Store>(
    store: &S,
    w: &mut RunnerWorker<'_>,
    distribution: &Distribution,
) -> Result<MeterTally> {
    let (common, other, share) = mixture(w.job.workload);
    let (size, longest) = (w.job.config.ycsb_value, w.job.config.scan_max);
    let inserts = &w.job.inserts;
    let mut chooser = Chooser::new(distribution, inserts.complete());
    let (_, count) = w.share();
    let mut meter = w.start()?;
    for _ in 0..count {
        let kind = if w.rng.unit() < share { other } else { common };
        let record = match kind {
            OpKind::Insert => inserts.begin(w.index),
            _ => chooser.next(&mut w.rng, inserts.complete()),
        };
        let key = w.key.set(mix(record));
        match kind {
            OpKind::Read => read_one(store, &mut meter, kind, key)?,
            OpKind::Scan => scan_one(store, &mut meter, key, 1 + w.rng.below(longest))?,
            OpKind::ReadModifyWrite => {
                let value = w.values.take(size.sample(&mut w.rng));
                let mut touched = TouchedBytes::default();
                meter.wrote(key.len() + value.len());
                meter.op(kind, 1, || {
                    store.get(key, |old| touched.value(old))?;
                    store.put(key, value, false)
                })?;
                meter.read(&touched);
            }
            _ => {
                let value = w.values.take(size.sample(&mut w.rng));
                write_one(store, &mut meter, kind, key, value, false)?;
                inserts.end(w.index);
            }
        }
        if meter.stopped() {
            break;
        }
    }
    Ok(meter.finish())
}

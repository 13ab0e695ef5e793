//! The history of a tree in runs and bytes, from a log or from a simulation, in one form: a
//! [`CourseMoment`] after each flush. Its phases can be compared.

use firn_tools::output::Done;
use serde_json::Value;

use crate::model::meter::{MeterPoint, SimOutcome};

/// State of a tree right after a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CourseMoment {
    /// Amount written so far: in a log the versions in memtables (entries flushed if it lacks
    /// them), in a simulation the operations.
    pub done: u64,
    /// Number of runs.
    pub runs: usize,
    /// Bytes of tables.
    pub bytes: u64,
    /// Peak bytes since the previous moment, including unfinished outputs.
    pub peak: u64,
    /// Bytes written to tables so far.
    pub written: u64,
}

impl CourseMoment {
    /// Returns it as a point of a curve, with the fields that a log has.
    pub fn point(&self) -> MeterPoint {
        MeterPoint {
            ops: self.done,
            runs: self.runs,
            bytes: self.bytes,
            peak: self.peak,
            merged: self.written,
            ..MeterPoint::default()
        }
    }
}

/// Figures of a part of a course, or of all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct CoursePhase {
    /// Average number of runs after a flush.
    pub mean_runs: f64,
    /// Bytes of tables at its end.
    pub bytes: u64,
    /// Peak bytes, including unfinished outputs.
    pub peak: u64,
    /// Bytes written to tables.
    pub written: u64,
}

/// A flush or a compaction in a log: start and end in microseconds, and bytes written.
struct LoggedJob {
    begun: u64,
    ended: u64,
    out: u64,
    /// Amount that the flush has written; `None` for a compaction.
    flushed: Option<u64>,
    /// Runs of the tree after it.
    runs: usize,
    bytes: u64,
}

impl LoggedJob {
    /// Returns `None` for other events, and for logs without the size of the tree.
    fn of(e: &Value) -> Option<LoggedJob> {
        let n = |field: &str| e[field].as_u64();
        let flushed = match e["event"].as_str()? {
            "flush" => Some(n("versions").or_else(|| n("entries"))?),
            "compaction" => None,
            _ => return None,
        };
        let ended = n("at")?;
        Some(LoggedJob {
            begun: ended.saturating_sub(n("micros")?),
            ended,
            out: n("bytes_out")?,
            flushed,
            runs: n("runs")? as usize,
            bytes: n("bytes")?,
        })
    }

    /// Returns the bytes that it had written at a time.
    fn made(&self, at: u64) -> u64 {
        let whole = self.ended.saturating_sub(self.begun).max(1) as f64;
        (self.out as f64 * (at.saturating_sub(self.begun) as f64 / whole).min(1.0)) as u64
    }
}

/// Returns the course of one tree's events; empty for a log of an older version. Unfinished outputs
/// are assumed to grow evenly.
pub fn of_events<'a>(events: impl Iterator<Item = &'a Value>) -> Vec<CourseMoment> {
    let jobs: Vec<LoggedJob> = events.filter_map(LoggedJob::of).collect();
    let mut by_begin: Vec<usize> = (0..jobs.len()).collect();
    by_begin.sort_by_key(|&i| jobs[i].begun);
    let mut coming = by_begin.into_iter().peekable();
    let mut open: Vec<usize> = vec![];
    let (mut moments, mut before) = (vec![], 0);
    let mut now = CourseMoment::default();
    for (i, job) in jobs.iter().enumerate() {
        while let Some(next) = coming.next_if(|&k| jobs[k].begun < job.ended) {
            open.push(next);
        }
        open.retain(|&k| k > i);
        let making: u64 = open.iter().map(|&k| jobs[k].made(job.ended)).sum();
        now.peak = now.peak.max(before + job.out + making).max(job.bytes + making);
        before = job.bytes;
        now.written += job.out;
        if let Some(entries) = job.flushed {
            now =
                CourseMoment { done: now.done + entries, runs: job.runs, bytes: job.bytes, ..now };
            moments.push(now);
            now.peak = 0;
        }
    }
    // Events after the last flush.
    if let Some(last) = moments.last_mut() {
        (last.peak, last.written) = (last.peak.max(now.peak), now.written);
        last.bytes = before;
    }
    moments
}

/// Returns the course of a simulation.
pub fn of_outcome(o: &SimOutcome) -> Vec<CourseMoment> {
    let moment = |p: &MeterPoint| CourseMoment {
        done: p.ops,
        runs: p.runs,
        bytes: p.bytes,
        peak: p.peak,
        written: p.flushed + p.merged,
    };
    o.points.iter().map(moment).collect()
}

/// Returns `n` phases of equal work, and the whole as the last; nothing for an empty course.
pub fn phases(course: &[CourseMoment], n: u64) -> Vec<CoursePhase> {
    let Some(end) = course.last() else { return vec![] };
    let part = |from: u64, to: u64| {
        let at = |share: u64| course.partition_point(|m| m.done * n < end.done * share);
        let (a, b) = (at(from), if to == n { course.len() } else { at(to) });
        let moments = &course[a.min(b)..b];
        let written = |i: usize| i.checked_sub(1).map_or(0, |i| course[i].written);
        CoursePhase {
            mean_runs: moments.iter().map(|m| m.runs as f64).sum::<f64>()
                / moments.len().max(1) as f64,
            bytes: moments.last().map_or(0, |m| m.bytes),
            peak: moments.iter().map(|m| m.peak).max().unwrap_or(0),
            written: written(b) - written(a.min(b)),
        }
    };
    (0..n).map(|i| part(i, i + 1)).chain([part(0, n)]).collect()
}

/// Returns the figures of a whole course.
///
/// # Errors
/// If the course is empty.
pub fn whole(course: &[CourseMoment]) -> Done<CoursePhase> {
    phases(course, 1).pop().ok_or_else(|| {
        firn_tools::output::Failure::with_next(
            "the log lacks the size of the tree",
            "record one with this version of the engine",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_log_is_a_course_of_runs_and_bytes() {
        let flush = |at: u64, runs: u64, bytes: u64| json!({"event": "flush", "at": at, "micros": 10, "entries": 5, "bytes_out": 100, "runs": runs, "bytes": bytes});
        let merge = json!({"event": "compaction", "at": 400, "micros": 200, "bytes_in": 300, "bytes_out": 250, "runs": 2, "bytes": 350});
        let events =
            [flush(100, 1, 100), flush(150, 2, 200), flush(200, 3, 300), flush(300, 4, 400), merge];
        let course = of_events(events.iter());
        let peaks: Vec<u64> = course.iter().map(|m| m.peak).collect();
        assert_eq!(peaks, [100, 200, 300, 650], "half of the merge beside the fourth flush: 525");
        let all = whole(&course).unwrap();
        assert_eq!(all, CoursePhase { mean_runs: 2.5, bytes: 350, peak: 650, written: 650 });
        let halves = phases(&course, 2);
        assert_eq!((halves[0].written, halves[1].written), (100, 550));
        assert!(whole(&[]).is_err() && of_events([json!({"event": "flush"})].iter()).is_empty());
    }
}

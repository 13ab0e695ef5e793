//! Imports: reads rows of a source, and writes them to a target in chunks.

use std::ops::ControlFlow;

use firn_tools::io::Stopwatch;
use firn_tools::output::{Done, Failure, Progress, rate, things};

use crate::source::{RowPlace, RowSource, RowVisitor, SourceCell, SourceLength, VisitFlow};
use crate::target::{RowRefusal, RowTarget};

/// Bytes after which a chunk ends early.
const CHUNK_BYTES: usize = 4 << 20;
/// Maximum number of refused rows that a report lists.
const SHOWN: usize = 20;

/// Settings of an import.
#[derive(Clone, Copy, Debug)]
pub struct ImportSettings {
    /// Rows of a chunk, which is written atomically.
    pub chunk: usize,
    /// Maximum number of rows to read, including those before a resumed import.
    pub limit: Option<u64>,
    /// Whether rows that cannot be imported are counted and left out.
    pub skips_bad: bool,
    /// Whether an interrupted import is continued.
    pub resume: bool,
}

/// Reason why an import ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportEnd {
    /// The source was read to its end, or to the limit.
    Complete,
    /// A row cannot be imported; it is the last of [`ImportReport::refused`].
    BadRow,
    /// The caller stopped it.
    Interrupted,
}

/// Result of an import.
#[derive(Debug)]
pub struct ImportReport {
    /// Reason of its end.
    pub end: ImportEnd,
    /// Number of rows of the source that an earlier import had written.
    pub resumed: u64,
    /// Number of written rows.
    pub rows: u64,
    /// Number of the source's rows up to the end.
    pub read: u64,
    /// Number of rows that were left out.
    pub skipped: u64,
    /// The first refused rows, and the one that ended the import.
    pub refused: Vec<(RowPlace, String)>,
    /// Duration in seconds.
    pub seconds: f64,
}

struct ImportRun<'a> {
    target: &'a mut dyn RowTarget,
    settings: ImportSettings,
    is_stopped: &'a dyn Fn() -> bool,
    progress: Progress,
    watch: Stopwatch,
    report: ImportReport,
    /// Rows of the source up to the last chunk's end.
    committed: u64,
}

impl ImportRun<'_> {
    /// Records a refused row. Reports whether the import goes on.
    fn refuse(&mut self, place: RowPlace, why: String) -> ControlFlow<()> {
        if self.settings.skips_bad {
            self.report.skipped += 1;
            if self.report.refused.len() < SHOWN {
                self.progress.line(&format!("{place}: {why}"));
                self.report.refused.push((place, why));
            }
            return ControlFlow::Continue(());
        }
        self.report.refused.push((place, why));
        self.report.end = ImportEnd::BadRow;
        ControlFlow::Break(())
    }

    /// Writes the current chunk, which ends after this number of rows of the source.
    fn commit(&mut self, read: u64) -> VisitFlow {
        let chunk = self.target.commit(read)?;
        self.committed = chunk.read;
        self.report.rows += chunk.rows;
        for row in chunk.refused {
            if self.refuse(row.place, row.why).is_break() {
                self.report.read = chunk.read;
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Ends a row. Writes the chunk if it is full.
    fn end_of_row(&mut self, done: u64) -> VisitFlow {
        let (rows, bytes) = self.target.pending();
        // Rows that were left out advance the position too.
        let is_full = rows >= self.settings.chunk || bytes >= CHUNK_BYTES;
        if is_full && self.commit(self.report.read)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if is_full {
            self.progress.at(done);
            let speed = rate(self.report.rows as f64 / self.watch.seconds().max(1e-9));
            self.progress.say(format!("{} at {speed}/s", things(self.report.rows, "row", "rows")));
            if (self.is_stopped)() {
                self.report.end = ImportEnd::Interrupted;
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Reports whether the limit is reached.
    fn is_over(&self) -> bool {
        self.settings.limit.is_some_and(|limit| self.report.read >= limit)
    }
}

impl RowVisitor for ImportRun<'_> {
    fn row(&mut self, place: RowPlace, done: u64, cells: &mut [SourceCell]) -> VisitFlow {
        if self.is_over() {
            return Ok(ControlFlow::Break(()));
        }
        let read = self.report.read + 1;
        match self.target.add(place, read, cells) {
            Ok(()) => {}
            Err(RowRefusal::Row(why)) => {
                if self.refuse(place, why).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Err(RowRefusal::Store(failure)) => return Err(failure),
        }
        self.report.read = read;
        self.end_of_row(done)
    }

    fn bad(&mut self, place: RowPlace, done: u64, why: String) -> VisitFlow {
        if self.is_over() || self.refuse(place, why).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.report.read += 1;
        self.end_of_row(done)
    }
}

/// Imports the rows of a source into a target. `is_stopped` is called after each chunk.
///
/// # Errors
/// The source is unreadable or damaged; errors of the store. Whole chunks before are written, and
/// can be resumed.
pub fn import(
    source: &mut dyn RowSource,
    target: &mut dyn RowTarget,
    settings: ImportSettings,
    is_stopped: &dyn Fn() -> bool,
) -> Done<ImportReport> {
    let found = if settings.resume { target.resume()? } else { None };
    if settings.resume && found.is_none() {
        return Err(Failure::with_next(
            "there is no interrupted import into this target: it is complete, or has not begun",
            "leave --resume out to begin one",
        ));
    }
    let resumed = found.unwrap_or(0);
    if found.is_none() {
        target.begin()?;
    }
    let progress = match source.length() {
        SourceLength::Bytes(len) => Progress::bytes("import", len),
        SourceLength::Rows(rows) => Progress::operations("import", rows),
    };
    let mut run = ImportRun {
        target,
        settings,
        is_stopped,
        progress,
        watch: Stopwatch::start(),
        report: ImportReport {
            end: ImportEnd::Complete,
            resumed,
            rows: 0,
            read: resumed,
            skipped: 0,
            refused: vec![],
            seconds: 0.0,
        },
        committed: resumed,
    };
    let read = source.read(resumed, &mut run);
    // Rows before a bad one, or before damage, are imported.
    if run.committed < run.report.read {
        let flow = run.commit(run.report.read);
        read.and(flow.map(drop))?;
    } else {
        read?;
    }
    let ImportRun { target, mut report, watch, .. } = run;
    if report.end == ImportEnd::Complete {
        target.finish()?;
    }
    report.seconds = watch.seconds();
    Ok(report)
}

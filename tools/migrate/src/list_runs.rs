//! A list as runs of elements, each of which is one statement: the first sets the list, the others
//! append to it in the same batch.
//!
//! Invariants:
//! - Timestamps rise from run to run. The first statement deletes what is older than it, so a list
//!   that is sent again is above all that was sent before.
//! - No run is older than the oldest element: a deletion may be right below that.

use firn_table_events::MOST_LIST_RUNS;

/// A list is sent no more often than this within one run of the migration, and is above itself each
/// time.
const MOST_SENT: i64 = 16;

/// When cells were written, and until when they live.
pub(crate) type SentTimes = (i64, Option<i64>);
/// An element with its times.
pub(crate) type TimedElement<'a> = (SentTimes, &'a Vec<u8>);

/// Elements that are written together.
#[derive(Debug)]
pub(crate) struct ListRun<'a> {
    pub times: SentTimes,
    pub elements: &'a [TimedElement<'a>],
}

/// What a list loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListLoss {
    /// Elements get other write times.
    WriteTimes,
    /// Elements live longer.
    Lives,
}

/// The runs of a list that has elements. `newest`: the highest timestamp of what is stored of it.
/// `attempt`: how often it may have been sent before. `follows`: it is as it is now, and `newest` is
/// above what was sent of it.
pub(crate) fn list_runs<'a>(
    elements: &'a [TimedElement<'a>],
    newest: i64,
    attempt: i64,
    follows: bool,
) -> (Vec<ListRun<'a>>, Option<ListLoss>) {
    let exact: Vec<ListRun<'a>> = elements
        .chunk_by(|a, b| a.0 == b.0)
        .map(|run| ListRun { times: run[0].0, elements: run })
        .collect();
    let rises = exact.windows(2).all(|two| two[0].times.0 < two[1].times.0);
    if attempt == 0 && !follows && rises && exact.len() <= MOST_LIST_RUNS {
        return (exact, None);
    }
    // What follows may be deleted soon after it was written, so it is raised no more than it must be.
    let raised = |count: i64| {
        let each = match (follows, count) {
            (true, count) => count,
            (false, 1) => MOST_SENT,
            (false, _) => MOST_SENT * MOST_LIST_RUNS as i64,
        };
        attempt.saturating_mul(each)
    };
    let lives: Vec<&[TimedElement<'_>]> = elements.chunk_by(|a, b| a.0.1 == b.0.1).collect();
    if lives.len() > MOST_LIST_RUNS {
        // One that lives for good outlives all that end.
        let lasting = elements.iter().any(|e| e.0.1.is_none());
        let longest = elements.iter().filter_map(|e| e.0.1).max().filter(|_| !lasting);
        let times = (newest.saturating_add(raised(1)), longest);
        return (vec![ListRun { times, elements }], Some(ListLoss::Lives));
    }
    let count = lives.len() as i64;
    let oldest = elements.iter().map(|e| e.0.0).min().unwrap_or(newest);
    let newest = newest.max(oldest.saturating_add(count - 1)).saturating_add(raised(count));
    let run = |(n, elements): (i64, &'a [TimedElement<'a>])| {
        let timestamp = newest.saturating_sub(count - n);
        ListRun { times: (timestamp, elements[0].0.1), elements }
    };
    let runs = (1..).zip(lives).map(run).collect();
    let loss = (exact.len() > 1).then_some(ListLoss::WriteTimes);
    (runs, loss)
}

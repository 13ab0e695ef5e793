//! Splits a list into runs of elements, each written by one statement: the first sets the list, the
//! others append to it in the same batch.
//!
//! Invariants:
//! - Timestamps rise from run to run. The first statement deletes everything older, so a list that
//!   is sent again is newer than everything sent before.
//! - No run is older than the oldest element: a deletion may be directly below that.

use firn_table_events::MOST_LIST_RUNS;

/// Maximum number of times that one run of the migration sends a list; each time its timestamps are
/// higher.
const MOST_SENT: i64 = 16;

/// Write time and expiration of cells.
pub(crate) type SentTimes = (i64, Option<i64>);
/// An element with its times.
pub(crate) type TimedElement<'a> = (SentTimes, &'a Vec<u8>);

/// Elements that are written together.
#[derive(Debug)]
pub(crate) struct ListRun<'a> {
    pub times: SentTimes,
    pub elements: &'a [TimedElement<'a>],
}

/// A loss of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListLoss {
    /// Elements get other write times.
    WriteTimes,
    /// Elements live longer.
    Lives,
}

/// Returns the runs of a non-empty list. `newest`: its highest stored timestamp. `attempt`: how
/// often it may have been sent before. `follows`: it is a current state, and `newest` is above all
/// timestamps that were sent of it.
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
    // A followed list may be deleted soon after its write, so its timestamps rise as little as
    // possible.
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
        // An element without TTL outlives all others.
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

//! Linearizability checker: whether the results of concurrent calls fit one order, in which each
//! call takes effect at one moment between its start and its end (Herlihy and Wing; the search is
//! Wing and Gong's, with Lowe's memoization).
//!
//! Invariants:
//! - The checker does not depend on the tested store. Keys are small numbers, values are lists of
//!   the numbers of their writes, and trees are named by numbers. A caller's reference to a tree is
//!   a *handle*, bound when the call that returned it takes effect.
//! - All reads of one snapshot, iterator or copy are one look: it must be the state at one moment,
//!   that of the call which created it.
//! - A write refused because its tree was dropped requires that the tree had been dropped. A
//!   successful write concurrent with a drop of its tree may have had no effect.
//! - A call that never returned may have taken effect or not.

use std::collections::{HashMap, HashSet};

/// A key.
pub type LinearKey = u8;
/// The number of a write; values consist of these; 0 is none.
pub type WriteNumber = u16;
/// Handle of a tree.
pub type LinearHandle = usize;
/// Index of a tree's name.
pub type TreeNumber = u8;

/// Maximum number of keys.
pub const KEYS: usize = 16;

/// A change of one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinearChange {
    /// Sets the value of a key.
    Put(LinearKey, WriteNumber),
    /// Sets the value of a key to pieces that others wrote.
    Set(LinearKey, Vec<WriteNumber>),
    /// Deletes a key.
    Delete(LinearKey),
    /// Appends a piece to the key's value.
    Append(LinearKey, WriteNumber),
    /// Deletes the keys from the first to before the second.
    DeleteRange(LinearKey, LinearKey),
    /// Sets the key to the value of the last piece (none: deletes it) if it had the value of the
    /// list (none: no value).
    Swap(LinearKey, Option<Vec<WriteNumber>>, Option<WriteNumber>),
    /// Deletes the smallest key (or, if true, the greatest) with a value.
    Pop(bool),
}

/// Pairs of keys and values, ascending.
pub type LinearPairs = Vec<(LinearKey, Vec<WriteNumber>)>;

/// Data read at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinearRead {
    /// The value of a key.
    Get(LinearHandle, LinearKey, Option<Vec<WriteNumber>>),
    /// Whether a key has a value.
    Contains(LinearHandle, LinearKey, bool),
    /// The pairs of a range, its last key excluded.
    Range(LinearHandle, LinearKey, LinearKey, LinearPairs),
    /// The trees had been dropped.
    Closed(Vec<LinearHandle>),
    /// All trees in order of creation.
    Names(Vec<TreeNumber>),
    /// All contents.
    Whole(Vec<(TreeNumber, LinearPairs)>),
}

impl LinearRead {
    /// Returns the handle of the single tree that was read, if any.
    pub fn handle(&self) -> Option<LinearHandle> {
        match self {
            LinearRead::Get(h, ..) | LinearRead::Contains(h, ..) | LinearRead::Range(h, ..) => {
                Some(*h)
            }
            LinearRead::Closed(_) | LinearRead::Names(_) | LinearRead::Whole(_) => None,
        }
    }
}

/// The effect of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// No effect visible to others.
    Nothing,
    /// Created the tree if missing, and returned a handle.
    Create(TreeNumber, LinearHandle),
    /// Opened a tree.
    Open(TreeNumber, LinearHandle),
    /// Found no tree of that name.
    Missing(TreeNumber),
    /// Dropped a tree.
    Drop(TreeNumber),
    /// Wrote atomically.
    Write(Vec<(LinearHandle, LinearChange)>),
    /// Read, at one moment.
    Read(Vec<LinearRead>),
    /// Its reads were still current, and it wrote at that moment.
    Commit(Vec<LinearRead>, Vec<(LinearHandle, LinearChange)>),
}

/// One call.
#[derive(Clone, Debug)]
pub struct LinearCall {
    /// The calling thread; calls of one thread do not overlap.
    pub thread: usize,
    /// Start time; numbers increase and are unique.
    pub start: u64,
    /// End time, if it returned.
    pub end: Option<u64>,
    /// Its effect.
    pub what: CallKind,
    /// The call as text.
    pub words: String,
    /// Time from which on it is guaranteed to survive a power cut.
    pub durable: Option<u64>,
}

/// State found after a crash.
#[derive(Clone, Debug)]
pub struct RecoveredState {
    /// Lower bound of the crash time: calls that had returned by then have taken effect.
    pub from: u64,
    /// Upper bound of the crash time: calls that began later have not taken effect.
    pub until: u64,
    /// Whether only writes guaranteed to survive a power cut must be present.
    pub power: bool,
    /// All contents.
    pub whole: Vec<(TreeNumber, LinearPairs)>,
}

const ABSENT: u32 = 0;

/// Contents of one incarnation of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LinearTree {
    name: TreeNumber,
    /// Time at which the call that dropped it returned.
    dropped: Option<u64>,
    values: [u32; KEYS],
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct LinearState {
    trees: Vec<LinearTree>,
    handles: Vec<(LinearHandle, usize)>,
}

/// Values by number, so that states are small.
#[derive(Default)]
struct LinearValues {
    lists: Vec<Vec<WriteNumber>>,
    numbers: HashMap<Vec<WriteNumber>, u32>,
}

impl LinearValues {
    fn number(&mut self, list: &[WriteNumber]) -> u32 {
        if let Some(n) = self.numbers.get(list) {
            return *n;
        }
        self.lists.push(list.to_vec());
        let n = self.lists.len() as u32;
        self.numbers.insert(list.to_vec(), n);
        n
    }

    fn appended(&mut self, to: u32, piece: WriteNumber) -> u32 {
        let mut list = if to == ABSENT { vec![] } else { self.lists[to as usize - 1].clone() };
        list.push(piece);
        self.number(&list)
    }

    fn list(&self, n: u32) -> Option<&[WriteNumber]> {
        (n != ABSENT).then(|| self.lists[n as usize - 1].as_slice())
    }
}

impl LinearState {
    fn live(&self, name: TreeNumber) -> Option<usize> {
        self.trees.iter().position(|t| t.name == name && t.dropped.is_none())
    }

    fn of(&self, handle: LinearHandle) -> Option<usize> {
        self.handles.iter().find(|(h, _)| *h == handle).map(|(_, t)| *t)
    }

    fn bind(&mut self, handle: LinearHandle, tree: usize) {
        self.handles.push((handle, tree));
    }
}

struct LinearSearch<'a> {
    values: LinearValues,
    /// The calls of each thread, in order.
    threads: Vec<Vec<&'a LinearCall>>,
    tried: HashSet<(Vec<u16>, LinearState)>,
    recovered: Option<&'a RecoveredState>,
    /// Number of calls that must have taken effect.
    needed: usize,
    /// The longest matching prefix so far, with the position of each thread.
    best: (usize, Vec<u16>),
    steps: usize,
}

/// Maximum number of search states; beyond it the calls count as linearizable.
const MOST: usize = 2_000_000;

impl LinearSearch<'_> {
    fn fits(&self, state: &LinearState, look: &LinearRead) -> bool {
        match look {
            LinearRead::Get(h, k, v) => self
                .open(state, *h)
                .is_some_and(|t| self.values.list(t.values[*k as usize]) == v.as_deref()),
            LinearRead::Contains(h, k, yes) => {
                self.open(state, *h).is_some_and(|t| (t.values[*k as usize] != ABSENT) == *yes)
            }
            LinearRead::Range(h, from, to, pairs) => {
                self.open(state, *h).is_some_and(|t| self.holds(t, *from, *to, pairs))
            }
            LinearRead::Closed(handles) => handles
                .iter()
                .any(|h| state.of(*h).is_some_and(|t| state.trees[t].dropped.is_some())),
            LinearRead::Names(names) => {
                let live = state.trees.iter().filter(|t| t.dropped.is_none()).map(|t| t.name);
                live.eq(names.iter().copied())
            }
            LinearRead::Whole(trees) => self.is_all(state, trees),
        }
    }

    fn is_all(&self, state: &LinearState, trees: &[(TreeNumber, LinearPairs)]) -> bool {
        let mut live = state.trees.iter().filter(|t| t.dropped.is_none());
        let same = |(name, pairs): &(TreeNumber, LinearPairs)| {
            live.next()
                .is_some_and(|t| t.name == *name && self.holds(t, 0, KEYS as LinearKey, pairs))
        };
        trees.iter().all(same) && live.next().is_none()
    }

    fn open<'s>(&self, state: &'s LinearState, handle: LinearHandle) -> Option<&'s LinearTree> {
        state.of(handle).map(|t| &state.trees[t]).filter(|t| t.dropped.is_none())
    }

    fn holds(
        &self,
        tree: &LinearTree,
        from: LinearKey,
        to: LinearKey,
        pairs: &LinearPairs,
    ) -> bool {
        let mut all = pairs.iter();
        (from..to).all(|k| match self.values.list(tree.values[k as usize]) {
            None => true,
            Some(v) => all.next().is_some_and(|(key, value)| *key == k && value == v),
        }) && all.next().is_none()
    }

    fn write(
        &mut self,
        state: &mut LinearState,
        call: &LinearCall,
        changes: &[(LinearHandle, LinearChange)],
    ) -> bool {
        for (h, change) in changes {
            if matches!(change, LinearChange::DeleteRange(a, z) if a >= z) {
                continue;
            }
            let Some(tree) = state.of(*h) else { return false };
            match state.trees[tree].dropped {
                Some(end) if call.start < end => continue,
                Some(_) => return false,
                None => {}
            }
            let values = &mut state.trees[tree].values;
            match change {
                LinearChange::Put(k, p) => values[*k as usize] = self.values.number(&[*p]),
                LinearChange::Set(k, pieces) => values[*k as usize] = self.values.number(pieces),
                LinearChange::Delete(k) => values[*k as usize] = ABSENT,
                LinearChange::Append(k, p) => {
                    values[*k as usize] = self.values.appended(values[*k as usize], *p)
                }
                LinearChange::DeleteRange(a, z) => values[*a as usize..*z as usize].fill(ABSENT),
                LinearChange::Swap(k, old, new) => {
                    if self.values.list(values[*k as usize]) == old.as_deref() {
                        values[*k as usize] = new.map_or(ABSENT, |p| self.values.number(&[p]));
                    }
                }
                LinearChange::Pop(greatest) => {
                    let there = |v: &u32| *v != ABSENT;
                    let at = if *greatest {
                        values.iter().rposition(there)
                    } else {
                        values.iter().position(there)
                    };
                    at.into_iter().for_each(|at| values[at] = ABSENT);
                }
            }
        }
        true
    }

    /// Returns the state after a call, if it matches here.
    fn after(&mut self, state: &LinearState, call: &LinearCall) -> Option<LinearState> {
        let mut next = state.clone();
        let fits = match &call.what {
            CallKind::Nothing => true,
            CallKind::Create(name, handle) => {
                let tree = next.live(*name).unwrap_or_else(|| {
                    next.trees.push(LinearTree {
                        name: *name,
                        dropped: None,
                        values: [ABSENT; KEYS],
                    });
                    next.trees.len() - 1
                });
                next.bind(*handle, tree);
                true
            }
            CallKind::Open(name, handle) => match next.live(*name) {
                Some(tree) => {
                    next.bind(*handle, tree);
                    true
                }
                None => false,
            },
            CallKind::Missing(name) => next.live(*name).is_none(),
            CallKind::Drop(name) => match next.live(*name) {
                Some(tree) => {
                    next.trees[tree].dropped = Some(call.end.unwrap_or(u64::MAX));
                    true
                }
                None => false,
            },
            CallKind::Write(changes) => self.write(&mut next, call, changes),
            CallKind::Read(looks) => looks.iter().all(|l| self.fits(state, l)),
            CallKind::Commit(looks, changes) => {
                looks.iter().all(|l| self.fits(state, l)) && self.write(&mut next, call, changes)
            }
        };
        fits.then_some(next)
    }

    /// Reports whether the state matches the one after the crash, with all required calls.
    fn is_recovered(&self, at: &[u16], state: &LinearState) -> bool {
        let Some(r) = self.recovered else { return true };
        let wrote_nothing =
            |c: &LinearCall| matches!(&c.what, CallKind::Write(changes) if changes.is_empty());
        let promised =
            |c: &LinearCall| if r.power { c.durable } else { c.end }.is_some_and(|t| t <= r.from);
        let needed = |c: &LinearCall| promised(c) && !wrote_nothing(c);
        let rest = |(calls, at): (&Vec<&LinearCall>, &u16)| {
            !calls[*at as usize..].iter().any(|c| needed(c))
        };
        self.threads.iter().zip(at).all(rest) && self.is_all(state, &r.whole)
    }

    fn search(&mut self, at: &mut Vec<u16>, state: &LinearState, done: usize) -> bool {
        if self.recovered.is_some() && self.is_recovered(at, state) {
            return true;
        }
        if done == self.needed && self.recovered.is_none() {
            return true;
        }
        self.steps += 1;
        if self.steps > MOST {
            return true;
        }
        if done > self.best.0 || self.best.1.is_empty() {
            self.best = (done, at.clone());
        }
        if !self.tried.insert((at.clone(), state.clone())) {
            return false;
        }
        let ends = |j: &Self, t: usize, at: &[u16]| {
            j.threads[t].get(at[t] as usize).and_then(|c| c.end).unwrap_or(u64::MAX)
        };
        // In order of their starts: most calls take effect in that order.
        let mut next: Vec<(u64, usize)> = (0..self.threads.len())
            .filter_map(|t| self.threads[t].get(at[t] as usize).map(|c| (c.start, t)))
            .filter(|(start, t)| {
                (0..self.threads.len()).all(|o| o == *t || ends(self, o, at) > *start)
            })
            .collect();
        next.sort_unstable();
        for (_, t) in next {
            let call = self.threads[t][at[t] as usize];
            if self.recovered.is_some_and(|r| call.start > r.until) {
                continue;
            }
            let Some(after) = self.after(state, call) else { continue };
            at[t] += 1;
            let counts = usize::from(call.end.is_some());
            if self.search(at, &after, done + counts) {
                return true;
            }
            at[t] -= 1;
        }
        false
    }
}

/// Checks whether the calls fit one order; with a recovered state, whether that is the state at
/// some position of such an order.
///
/// # Errors
/// The calls around the position at which no order continues.
pub fn check(calls: &[LinearCall], recovered: Option<&RecoveredState>) -> Result<(), String> {
    let n = calls.iter().map(|c| c.thread + 1).max().unwrap_or(0);
    let mut threads: Vec<Vec<&LinearCall>> = vec![vec![]; n];
    calls.iter().for_each(|c| threads[c.thread].push(c));
    threads.iter_mut().for_each(|t| t.sort_unstable_by_key(|c| c.start));
    let needed = calls.iter().filter(|c| c.end.is_some()).count();
    let mut values = LinearValues::default();
    // Values that were only read have numbers, too, to distinguish them from written ones.
    values.number(&[]);
    let mut judge = LinearSearch {
        values,
        threads,
        tried: HashSet::new(),
        recovered,
        needed,
        best: (0, vec![]),
        steps: 0,
    };
    let mut at = vec![0; n];
    if judge.search(&mut at, &LinearState::default(), 0) {
        return Ok(());
    }
    let (done, best) = &judge.best;
    let mut words = format!(
        "no order of the calls gives these answers; {done} of {needed} fit, and then none of these:\n"
    );
    for (calls, at) in judge.threads.iter().zip(best) {
        for (i, c) in calls.iter().enumerate().skip(*at as usize).take(2) {
            let next = if i == *at as usize { "next " } else { "later" };
            words += &format!(
                "  {next} thread {}, {}..{}: {}: {:?}\n",
                c.thread,
                c.start,
                time(c.end),
                c.words,
                c.what
            );
        }
    }
    if let Some(r) = recovered {
        words +=
            &format!("found after the crash at {} (power {}): {:?}\n", r.from, r.power, r.whole);
    }
    words += "all calls:\n";
    let mut all: Vec<&LinearCall> = calls.iter().collect();
    all.sort_unstable_by_key(|c| c.start);
    for c in all {
        words += &format!(
            "  {:>5}..{:<5} thread {}: {}: {:?}\n",
            c.start,
            time(c.end),
            c.thread,
            c.words,
            c.what
        );
    }
    Err(words)
}

fn time(end: Option<u64>) -> String {
    end.map_or("never".into(), |e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(thread: usize, start: u64, end: u64, what: CallKind) -> LinearCall {
        LinearCall { thread, start, end: Some(end), what, words: String::new(), durable: Some(end) }
    }

    fn put(k: LinearKey, p: WriteNumber) -> CallKind {
        CallKind::Write(vec![(0, LinearChange::Put(k, p))])
    }

    fn get(k: LinearKey, p: Option<WriteNumber>) -> CallKind {
        CallKind::Read(vec![LinearRead::Get(0, k, p.map(|p| vec![p]))])
    }

    fn with_tree(mut calls: Vec<LinearCall>) -> Vec<LinearCall> {
        calls.push(call(9, 0, 1, CallKind::Create(0, 0)));
        calls
    }

    #[test]
    fn a_read_beside_a_write_may_see_either_but_never_goes_back() {
        for (first, second, fine) in [
            (None, None, true),
            (None, Some(1), true),
            (Some(1), Some(1), true),
            (Some(1), None, false),
        ] {
            let calls = with_tree(vec![
                call(0, 2, 9, put(3, 1)),
                call(1, 3, 4, get(3, first)),
                call(1, 5, 6, get(3, second)),
            ]);
            assert_eq!(check(&calls, None).is_ok(), fine, "{first:?} {second:?}");
        }
        let late = with_tree(vec![call(0, 2, 3, put(3, 1)), call(1, 4, 5, get(3, None))]);
        assert!(check(&late, None).unwrap_err().contains("no order"));
    }

    #[test]
    fn reads_of_one_call_are_of_one_moment() {
        let looks = |a, b| CallKind::Read(vec![LinearRead::Get(0, 1, a), LinearRead::Get(0, 2, b)]);
        let both = vec![(0, LinearChange::Put(1, 7)), (0, LinearChange::Append(2, 7))];
        for (a, b, fine) in
            [(None, None, true), (Some(vec![7]), Some(vec![7]), true), (Some(vec![7]), None, false)]
        {
            let calls = with_tree(vec![
                call(0, 2, 9, CallKind::Write(both.clone())),
                call(1, 3, 4, looks(a, b)),
            ]);
            assert_eq!(check(&calls, None).is_ok(), fine);
        }
    }

    #[test]
    fn a_dropped_tree_is_closed_or_was_there() {
        let dropped = |end| call(0, 4, end, CallKind::Drop(0));
        let closed = CallKind::Read(vec![LinearRead::Closed(vec![0])]);
        assert!(check(&with_tree(vec![dropped(6), call(1, 5, 8, closed.clone())]), None).is_ok());
        assert!(check(&with_tree(vec![dropped(6), call(1, 2, 3, closed)]), None).is_err());
        let before = call(1, 2, 3, put(1, 1));
        assert!(
            check(&with_tree(vec![before.clone(), dropped(6), call(1, 5, 7, get(1, None))]), None)
                .is_err()
        );
        assert!(
            check(&with_tree(vec![before, dropped(6), call(1, 5, 7, get(1, Some(1)))]), None)
                .is_ok()
        );
        assert!(check(&with_tree(vec![dropped(6), call(1, 7, 8, put(1, 1))]), None).is_err());
    }

    #[test]
    fn a_commit_requires_unchanged_reads() {
        let commit =
            CallKind::Commit(vec![LinearRead::Get(0, 1, None)], vec![(0, LinearChange::Put(2, 2))]);
        let fine = |at| {
            check(
                &with_tree(vec![call(0, 2, 3, put(1, 1)), call(1, at, at + 8, commit.clone())]),
                None,
            )
            .is_ok()
        };
        assert!(!fine(4));
        let beside = with_tree(vec![call(0, 5, 6, put(1, 1)), call(1, 4, 8, commit)]);
        assert!(check(&beside, None).is_ok());
    }

    #[test]
    fn a_crash_keeps_what_returned_and_whole_calls() {
        let never = LinearCall {
            end: None,
            durable: None,
            ..call(
                1,
                4,
                0,
                CallKind::Write(vec![(0, LinearChange::Put(2, 2)), (0, LinearChange::Put(3, 2))]),
            )
        };
        let calls =
            with_tree(vec![LinearCall { durable: None, ..call(0, 2, 3, put(1, 1)) }, never]);
        let found = |power, keys: &[LinearKey]| {
            let pairs = keys.iter().map(|k| (*k, vec![if *k == 1 { 1 } else { 2 }])).collect();
            check(
                &calls,
                Some(&RecoveredState { from: 5, until: 6, power, whole: vec![(0, pairs)] }),
            )
            .is_ok()
        };
        assert!(found(false, &[1]) && found(false, &[1, 2, 3]));
        assert!(!found(false, &[]) && !found(false, &[1, 2]) && !found(false, &[2, 3]));
        assert!(
            found(true, &[]) && found(true, &[1]) && !found(true, &[2]) && !found(true, &[2, 3]),
            "a prefix"
        );
    }
}

//! Finds the lines that move in operations of one type, and the locks held at that time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use serde_json::{Value, json};

use super::coherence::{Coherence, LineUse, MemoryAccess};
use super::places::{CodePlace, LockStep, places};
use super::trace::RunTrace;

/// Minimum moves per operation of a contended line. A line below this is data that several threads
/// happen to access.
const CONTENDED: f64 = 0.25;

/// A line that moves in many operations.
pub struct ContendedLine {
    /// Code places that access the line, in order.
    pub places: Vec<String>,
    /// Moves per operation.
    pub moves: f64,
    /// Moves per operation that happen under a lock whose line moves too.
    pub locked: f64,
    /// Share of the moves that no other layout would avoid.
    pub is_true: f64,
}

/// A lock whose line moves.
pub struct ContendedLock {
    /// Code place that takes the lock.
    pub place: String,
    /// Instructions per operation while the lock is held.
    pub instructions: f64,
    /// Moves per operation while the lock is held, including those of the lock itself.
    pub moves: f64,
}

/// Costs of an operation.
pub struct OperationCount {
    /// Name of the operation.
    pub name: String,
    /// Instructions per operation.
    pub instructions: f64,
    /// Contended lines, those with most moves first.
    pub lines: Vec<ContendedLine>,
    /// Contended locks.
    pub locks: Vec<ContendedLock>,
    /// Moves of all other lines per operation.
    pub elsewhere: f64,
}

#[derive(Default)]
struct LineSum {
    operations: u32,
    moves: u32,
    locked: u32,
    true_ones: u32,
    places: Vec<String>,
}

#[derive(Default)]
struct LockSum {
    operations: u32,
    instructions: u64,
    moves: u32,
}

/// Period in which an operation holds a lock.
struct HeldLock<'a> {
    place: &'a str,
    at: u64,
    from: u32,
    to: u32,
}

/// Returns the locks that an operation holds, with each period in instruction counts.
fn held<'a>(
    accesses: &[MemoryAccess],
    places: &'a HashMap<u64, CodePlace>,
    end: u32,
) -> Vec<HeldLock<'a>> {
    let mut held: Vec<HeldLock<'a>> = vec![];
    for access in accesses.iter().filter(|a| a.writes) {
        let Some(CodePlace { label, lock: Some(step) }) = places.get(&access.code) else {
            continue;
        };
        let open = held.iter_mut().rev().find(|h| h.at == access.at && h.to == end);
        match (step, open) {
            (LockStep::Takes, None) => {
                held.push(HeldLock { place: label, at: access.at, from: access.after, to: end });
            }
            (LockStep::Gives, Some(open)) => open.to = access.after,
            _ => {}
        }
    }
    held
}

/// Counts the second half of a run's operations, for the threads from `first` on. The first half
/// fills the caches.
///
/// # Errors
/// Errors of finding code places.
pub fn count(
    program: &Path,
    name: &str,
    run: &RunTrace,
    first: usize,
) -> Result<OperationCount, String> {
    let codes: BTreeSet<u64> =
        run.operations.iter().flat_map(|o| o.accesses.iter().map(|a| a.code)).collect();
    let places = places(program, &codes, run.base)?;
    let mut caches = Coherence::default();
    let (mut lines, mut locks) = (HashMap::<u64, LineSum>::new(), BTreeMap::default());
    let (mut instructions, mut counted) = (0_u64, 0_u32);
    for (i, o) in run.operations.iter().enumerate() {
        let uses = caches.operation(o.thread, &o.accesses);
        if i < run.operations.len() / 2 || o.thread < first {
            continue;
        }
        counted += 1;
        instructions += u64::from(o.instructions);
        let held = held(&o.accesses, &places, o.instructions);
        sum_locks(&mut locks, &held, &uses);
        sum_lines(&mut lines, &held, &uses, &places);
    }
    let per = |n: u32| f64::from(n) / f64::from(counted.max(1));
    let (met, others): (Vec<_>, Vec<_>) =
        lines.into_values().partition(|l| per(l.operations) >= CONTENDED);
    let mut lines: Vec<ContendedLine> = met
        .into_iter()
        .map(|l| ContendedLine {
            moves: per(l.moves),
            locked: per(l.locked),
            is_true: f64::from(l.true_ones) / f64::from(l.operations.max(1)),
            places: l.places,
        })
        .collect();
    lines.sort_by(|a, b| b.moves.total_cmp(&a.moves).then_with(|| a.places.cmp(&b.places)));
    let locks = locks
        .into_iter()
        .filter(|(_, l)| per(l.operations) >= CONTENDED)
        .map(|((place, _), l)| ContendedLock {
            place: place.to_owned(),
            instructions: l.instructions as f64 / f64::from(counted),
            moves: per(l.moves),
        })
        .collect();
    Ok(OperationCount {
        name: name.to_owned(),
        instructions: instructions as f64 / f64::from(counted.max(1)),
        lines,
        locks,
        elsewhere: per(others.iter().map(|l| l.moves).sum()),
    })
}

/// Sums up the locks whose own line has moved, because no thread waits for other locks.
fn sum_locks<'a>(
    locks: &mut BTreeMap<(&'a str, u64), LockSum>,
    held: &[HeldLock<'a>],
    uses: &BTreeMap<u64, LineUse>,
) {
    let mut met = BTreeSet::new();
    for h in held.iter().filter(|h| moves_itself(h, uses)) {
        // One code place may take several locks, one inside the other.
        let lock = (h.place, h.at);
        let sum = locks.entry(lock).or_default();
        sum.operations += u32::from(met.insert(lock));
        sum.instructions += u64::from(h.to - h.from);
        let moved = uses.values().flat_map(|u| &u.moved_by);
        sum.moves += moved.filter(|a| (h.from..=h.to).contains(&a.after)).count() as u32;
    }
}

fn moves_itself(held: &HeldLock<'_>, uses: &BTreeMap<u64, LineUse>) -> bool {
    uses.get(&(held.at / super::coherence::LINE)).is_some_and(|u| u.moves > 0)
}

fn sum_lines(
    lines: &mut HashMap<u64, LineSum>,
    held: &[HeldLock<'_>],
    uses: &BTreeMap<u64, LineUse>,
    places: &HashMap<u64, CodePlace>,
) {
    let locked = |a: &&MemoryAccess| {
        held.iter().any(|h| moves_itself(h, uses) && (h.from..=h.to).contains(&a.after))
    };
    for (number, of) in uses.iter().filter(|(_, of)| of.moves > 0) {
        let sum = lines.entry(*number).or_default();
        sum.operations += 1;
        sum.moves += of.moves;
        sum.locked += of.moved_by.iter().filter(locked).count() as u32;
        sum.true_ones += u32::from(of.is_true);
        for (code, writes) in &of.touched_by {
            let Some(place) = places.get(code) else { continue };
            let place = format!("{} {}", if *writes { "w" } else { "r" }, place.label);
            if !sum.places.contains(&place) {
                sum.places.push(place);
            }
        }
    }
}

impl OperationCount {
    /// Returns the moves per operation of all contended lines.
    pub fn moves(&self) -> f64 {
        self.lines.iter().map(|l| l.moves).sum()
    }

    /// Formats the counts as text.
    pub fn text(&self) -> String {
        let mut out = format!(
            "{}: {:.0} instructions; {:.1} moves of {} lines, {:.1} of others\n",
            self.name,
            self.instructions,
            self.moves(),
            self.lines.len(),
            self.elsewhere
        );
        for l in &self.lines {
            let false_share = match 1.0 - l.is_true {
                f if f >= 0.5 => ", falsely shared",
                _ => "",
            };
            out += &format!("  {:.2} ({:.2} locked{false_share})", l.moves, l.locked);
            out += &format!("  {}\n", l.places.join("; "));
        }
        for l in &self.locks {
            out += &format!(
                "  lock of {}: {:.0} instructions, {:.1} moves\n",
                l.place, l.instructions, l.moves
            );
        }
        out
    }

    /// Returns the counts as JSON, which [`from_json`](OperationCount::from_json) parses.
    pub fn json(&self) -> Value {
        let lines = self.lines.iter().map(|l| {
            json!({ "moves": l.moves, "locked": l.locked, "true": l.is_true, "places": l.places })
        });
        let locks = self
            .locks
            .iter()
            .map(|l| json!({ "place": l.place, "instructions": l.instructions, "moves": l.moves }));
        json!({
            "operation": self.name,
            "instructions": self.instructions,
            "lines": lines.collect::<Vec<_>>(),
            "locks": locks.collect::<Vec<_>>(),
            "elsewhere": self.elsewhere,
        })
    }

    /// Parses the output of [`json`](OperationCount::json). Returns `None` for any other value.
    pub fn from_json(of: &Value) -> Option<OperationCount> {
        let text = |v: &Value| v.as_str().map(str::to_owned);
        let line = |l: &Value| {
            Some(ContendedLine {
                places: l["places"].as_array()?.iter().map(text).collect::<Option<_>>()?,
                moves: l["moves"].as_f64()?,
                locked: l["locked"].as_f64()?,
                is_true: l["true"].as_f64()?,
            })
        };
        let lock = |l: &Value| {
            Some(ContendedLock {
                place: text(&l["place"])?,
                instructions: l["instructions"].as_f64()?,
                moves: l["moves"].as_f64()?,
            })
        };
        Some(OperationCount {
            name: text(&of["operation"])?,
            instructions: of["instructions"].as_f64()?,
            lines: of["lines"].as_array()?.iter().map(line).collect::<Option<_>>()?,
            locks: of["locks"].as_array()?.iter().map(lock).collect::<Option<_>>()?,
            elsewhere: of["elsewhere"].as_f64()?,
        })
    }
}

//! The hooks of the model's trees: three ways to fold, filters of prefixes, summaries, and a purge
//! that nobody can see.

use firn_kv::internals::base::key::Kind;
use firn_kv::{
    CompactionFilter, CompactionFilterContext, CompactionFilterPass, FilterDecision, FilterPrefix,
    Folded, MergeOperator, Result, Summary, SummaryPass,
};

/// The last 300 bytes of all that was put and merged. Operands combine.
pub struct Tail;

pub fn tail(base: Option<&[u8]>, operands: &[&[u8]]) -> Vec<u8> {
    let all = [base.unwrap_or_default(), &operands.concat()].concat();
    all[all.len().saturating_sub(300)..].to_vec()
}

impl MergeOperator for Tail {
    fn name(&self) -> &str {
        "tail"
    }
    fn fold(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Folded> {
        Ok(Folded::Value(tail(base, operands)))
    }
    fn combine(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(tail(Some(older), &[newer]))
    }
}

/// The sum of all bytes modulo 16, as so many bytes; a key whose sum is 0 has no value. Operands do
/// not combine.
pub struct Sum;

pub fn sum(base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
    let bytes = operands.iter().flat_map(|o| o.iter()).chain(base.unwrap_or_default());
    let n = bytes.map(|b| usize::from(*b)).sum::<usize>() % 16;
    (n > 0).then(|| vec![1; n])
}

impl MergeOperator for Sum {
    fn name(&self) -> &str {
        "sum"
    }
    fn fold(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Folded> {
        Ok(sum(base, operands).map_or(Folded::Absent, Folded::Value))
    }
}

/// Filters hold the first four bytes of keys.
pub struct First4;

impl FilterPrefix for First4 {
    fn name(&self) -> &str {
        "first4"
    }
    fn prefix_len(&self, key: &[u8]) -> usize {
        key.len().min(4)
    }
}

/// Counts entries.
pub struct Count;

struct Counting(u64);

impl Summary for Count {
    fn name(&self) -> &str {
        "count"
    }
    fn start(&self) -> Box<dyn SummaryPass> {
        Box::new(Counting(0))
    }
}

impl SummaryPass for Counting {
    fn add(&mut self, _: &[u8], _: Kind, _: &[u8]) {
        self.0 += 1;
    }
    fn finish(self: Box<Self>) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }
}

/// The largest of all that was put and merged: the one hook here that can tell that older tables do
/// not matter.
pub struct Largest;

pub fn largest(base: Option<&[u8]>, operands: &[&[u8]]) -> Vec<u8> {
    operands.iter().copied().chain(base).max().unwrap_or_default().to_vec()
}

/// As much of a value as a summary keeps.
const SHOWN: usize = 64;

fn shown(value: &[u8]) -> &[u8] {
    &value[..value.len().min(SHOWN)]
}

impl MergeOperator for Largest {
    fn name(&self) -> &str {
        "largest"
    }
    fn fold(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Folded> {
        Ok(Folded::Value(largest(base, operands)))
    }
    fn combine(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(older.max(newer).to_vec())
    }
    fn decided(&self, _: &[u8], newest: &[&[u8]], older_summary: &[u8]) -> bool {
        // A table that holds puts or deletes ends the fold, so it must be looked into, small as
        // they may be.
        let [1, most @ ..] = older_summary else { return false };
        newest.iter().any(|v| shown(v) > most)
    }
}

/// Whether a table has operands only, and the largest of them, cut short.
pub struct LargestHere;

struct LargestSoFar(bool, Vec<u8>);

impl Summary for LargestHere {
    fn name(&self) -> &str {
        "largest here"
    }
    fn start(&self) -> Box<dyn SummaryPass> {
        Box::new(LargestSoFar(true, vec![]))
    }
}

impl SummaryPass for LargestSoFar {
    fn add(&mut self, _: &[u8], kind: Kind, value: &[u8]) {
        self.0 &= kind == Kind::Merge;
        if shown(value) > self.1.as_slice() {
            self.1 = shown(value).to_vec();
        }
    }
    fn finish(self: Box<Self>) -> Vec<u8> {
        [&[u8::from(self.0)], self.1.as_slice()].concat()
    }
}

/// Purges what no reader can tell from what was there: deletes with nothing beneath, and puts
/// replaced by themselves. (What expires and does vanish: `tests/hooks.rs`.)
pub struct Unseen;

impl CompactionFilter for Unseen {
    fn name(&self) -> &str {
        "unseen"
    }
    fn start(&self, _: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        Box::new(UnseenPass(vec![]))
    }
}

/// Holds the last key judged: keys come in order.
struct UnseenPass(Vec<u8>);

impl CompactionFilterPass for UnseenPass {
    fn judge(&mut self, key: &[u8], kind: Kind, value: &[u8], alone: bool) -> FilterDecision {
        assert!(self.0.as_slice() <= key, "keys are shown in order");
        self.0 = key.to_vec();
        match kind {
            Kind::Delete if alone => FilterDecision::Drop,
            Kind::Put if value.len().is_multiple_of(2) => FilterDecision::Replace(value.to_vec()),
            _ => FilterDecision::Keep,
        }
    }
}

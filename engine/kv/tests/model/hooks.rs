//! Hooks of the model's trees: three merge operators, filters of prefixes, summaries, and a
//! compaction filter whose effect no reader can see.

use firn_kv::internals::base::key::Kind;
use firn_kv::{
    CompactionFilter, CompactionFilterContext, CompactionFilterPass, FilterDecision, FilterPrefix,
    MergeOperator, MergeResult, Result, Summary, SummaryPass,
};

/// Merge operator that preserves the last 300 bytes of all values and operands. Operands combine.
pub struct Tail;

pub fn tail(base: Option<&[u8]>, operands: &[&[u8]]) -> Vec<u8> {
    let all = [base.unwrap_or_default(), &operands.concat()].concat();
    all[all.len().saturating_sub(300)..].to_vec()
}

impl MergeOperator for Tail {
    fn name(&self) -> &str {
        "tail"
    }
    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<MergeResult> {
        Ok(MergeResult::Value(tail(base, operands)))
    }
    fn partial_merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(tail(Some(older), &[newer]))
    }
}

/// Merge operator whose value has as many bytes as the sum of all bytes modulo 16. A key with sum 0
/// has no value. Operands do not combine.
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
    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<MergeResult> {
        Ok(sum(base, operands).map_or(MergeResult::Absent, MergeResult::Value))
    }
}

/// Filter prefix of the first four bytes of a key.
pub struct First4;

impl FilterPrefix for First4 {
    fn name(&self) -> &str {
        "first4"
    }
    fn prefix_len(&self, key: &[u8]) -> usize {
        key.len().min(4)
    }
}

/// Summary that counts entries.
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

/// Merge operator that returns the largest value or operand. It is the only hook here that can
/// report that older tables do not matter.
pub struct Largest;

pub fn largest(base: Option<&[u8]>, operands: &[&[u8]]) -> Vec<u8> {
    operands.iter().copied().chain(base).max().unwrap_or_default().to_vec()
}

/// Maximum number of bytes of a value in a summary.
const SHOWN: usize = 64;

fn shown(value: &[u8]) -> &[u8] {
    &value[..value.len().min(SHOWN)]
}

impl MergeOperator for Largest {
    fn name(&self) -> &str {
        "largest"
    }
    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<MergeResult> {
        Ok(MergeResult::Value(largest(base, operands)))
    }
    fn partial_merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(older.max(newer).to_vec())
    }
    fn is_decided(&self, _: &[u8], newest: &[&[u8]], older_summary: &[u8]) -> bool {
        // A table with puts or deletes ends the fold. Reads must search it even if its values are
        // small.
        let [1, most @ ..] = older_summary else { return false };
        newest.iter().any(|v| shown(v) > most)
    }
}

/// Summary with the largest operand of a table, truncated, and whether the table has only operands.
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

/// Compaction filter that drops only entries whose absence no reader notices. These are deletes
/// with no older entries below them. It also replaces some puts by the same value.
/// (`tests/hooks.rs` tests entries that expire and really vanish.)
pub struct Unseen;

impl CompactionFilter for Unseen {
    fn name(&self) -> &str {
        "unseen"
    }
    fn start(&self, _: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        Box::new(UnseenPass(vec![]))
    }
}

/// State of a pass: the last key seen. Keys arrive in order.
struct UnseenPass(Vec<u8>);

impl CompactionFilterPass for UnseenPass {
    fn filter(&mut self, key: &[u8], kind: Kind, value: &[u8], alone: bool) -> FilterDecision {
        assert!(self.0.as_slice() <= key, "the filter must see keys in order");
        self.0 = key.to_vec();
        match kind {
            Kind::Delete if alone => FilterDecision::Drop,
            Kind::Put if value.len().is_multiple_of(2) => FilterDecision::Replace(value.to_vec()),
            _ => FilterDecision::Keep,
        }
    }
}

//! What was found in the text of a statement.

use firn_cql::internals::syntax::ast::BatchKind;

use super::finding::{CheckFinding, FindingGravity};
use super::target::{FeatureSupport, TargetTable};

/// Something that is to be said of a statement.
#[derive(Clone, Debug)]
pub struct StatementHit {
    /// What is said, but for the statement's text.
    pub finding: CheckFinding,
    /// The values of `IN` that it depends on, if it does.
    pub values: Option<InAmount>,
}

/// How many values an `IN` has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InAmount {
    /// So many.
    Written(u64),
    /// As many as are bound to this marker.
    Bound(u16),
}

/// A statement by its text.
#[derive(Clone, Debug, Default)]
pub struct JudgedText {
    /// What is to be said of it.
    pub hits: Vec<StatementHit>,
    /// The table that it writes to, if it does: its size is bounded.
    pub writes: Option<String>,
    /// The kind of the batch that it is.
    pub batch: Option<BatchKind>,
}

impl JudgedText {
    /// Says something of the statement, once.
    pub fn said(
        &mut self,
        gravity: FindingGravity,
        rule: &'static str,
        place: &str,
        what: &str,
        next: &str,
    ) {
        // A statement that does a thing twice is told of once.
        if !self.hits.iter().any(|hit| hit.finding.rule == rule && hit.finding.place == place) {
            let finding = CheckFinding::new(gravity, rule, place, what, next);
            self.hits.push(StatementHit { finding, values: None });
        }
    }

    /// Says why the statement can't be judged.
    pub fn unjudged(&mut self, place: &str, rule: &'static str, what: String) {
        let next = "if an application still runs it, run it against the target";
        self.said(FindingGravity::Unjudged, rule, place, &what, next);
    }

    /// Says that it needs a feature, where the target does not simply have that.
    pub fn feature(
        &mut self,
        target: &TargetTable,
        support: FeatureSupport,
        rule: &'static str,
        place: &str,
        what: &str,
        next: &str,
    ) {
        let finding = CheckFinding::of_feature(target, support, rule, place, what, next);
        self.hits.extend(finding.map(|finding| StatementHit { finding, values: None }));
    }
}

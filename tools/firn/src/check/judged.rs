//! Findings in the text of a statement.

use firn_cql::internals::syntax::ast::BatchKind;

use super::finding::{CheckFinding, FindingSeverity};
use super::target::{FeatureSupport, TargetTable};

/// A finding about a statement.
#[derive(Clone, Debug)]
pub struct StatementHit {
    /// The finding, without the statement's text.
    pub finding: CheckFinding,
    /// Number of `IN` values that it depends on, if any.
    pub values: Option<InValueCount>,
}

/// Number of values of an `IN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InValueCount {
    /// Number of values in the text.
    Written(u64),
    /// Number of values bound to this marker.
    Bound(u16),
}

/// A judged statement text.
#[derive(Clone, Debug, Default)]
pub struct JudgedText {
    /// Findings about the statement.
    pub hits: Vec<StatementHit>,
    /// Table that the statement writes to, if any: the size of writes is bounded.
    pub writes: Option<String>,
    /// Kind of the batch, if it is one.
    pub batch: Option<BatchKind>,
}

impl JudgedText {
    /// Adds a finding about the statement, unless it already has one of this rule and location.
    pub fn report(
        &mut self,
        severity: FindingSeverity,
        rule: &'static str,
        place: &str,
        what: &str,
        next: &str,
    ) {
        // Each rule is reported once for a statement.
        if !self.hits.iter().any(|hit| hit.finding.rule == rule && hit.finding.place == place) {
            let finding = CheckFinding::new(severity, rule, place, what, next);
            self.hits.push(StatementHit { finding, values: None });
        }
    }

    /// Adds the reason why the statement cannot be judged.
    pub fn unjudged(&mut self, place: &str, rule: &'static str, what: String) {
        let next = "if an application still runs it, run it against the target";
        self.report(FindingSeverity::Unjudged, rule, place, &what, next);
    }

    /// Adds a finding if the target does not fully support a feature.
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

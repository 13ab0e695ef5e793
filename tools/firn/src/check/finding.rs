//! Findings of a check: severity, location, measured figure and its bound, advice.

use std::fmt::Write as _;

use firn_tools::output::{Style, bytes, count};
use firn_wide::{Type, Wording};
use serde_json::{Value, json};

use super::target::{FeatureSupport, TargetBound, TargetTable};

/// Severity of a finding, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingSeverity {
    /// The target refuses it.
    Refused,
    /// The target handles it badly.
    Badly,
    /// The behaviour of the target is unknown.
    Unjudged,
    /// The target behaves differently from the store.
    Differs,
}

impl FindingSeverity {
    /// All severities, the worst first.
    pub const ALL: [FindingSeverity; 4] = [
        FindingSeverity::Refused,
        FindingSeverity::Badly,
        FindingSeverity::Unjudged,
        FindingSeverity::Differs,
    ];

    /// Returns its word, for people and programs.
    pub fn word(self) -> &'static str {
        match self {
            FindingSeverity::Refused => "refused",
            FindingSeverity::Badly => "does badly",
            FindingSeverity::Unjudged => "not judged",
            FindingSeverity::Differs => "differs",
        }
    }

    /// Returns the word that follows a number of findings.
    pub fn summary(self) -> &'static str {
        match self {
            FindingSeverity::Badly => "done badly",
            FindingSeverity::Differs => "different",
            other => other.word(),
        }
    }
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureUnit {
    Bytes,
    Things,
    /// Seconds since 1970.
    Second,
}

impl FigureUnit {
    fn show(self, n: u64) -> String {
        match self {
            FigureUnit::Bytes => bytes(n),
            FigureUnit::Things => count(n),
            FigureUnit::Second => {
                let millis = i64::try_from(n).unwrap_or(i64::MAX).saturating_mul(1000);
                Type::Timestamp.to_text(&millis.to_be_bytes(), Wording::Cql)
            }
        }
    }
}

/// A measured figure, and the bound that it exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FindingFigure {
    pub unit: FigureUnit,
    pub measured: u64,
    pub limit: u64,
    /// Source of the bound.
    pub source: &'static str,
}

/// A finding of the check.
#[derive(Clone, Debug)]
pub struct CheckFinding {
    pub severity: FindingSeverity,
    /// Stable name, for programs.
    pub rule: &'static str,
    /// Keyspace, `keyspace.table`, or another location.
    pub place: String,
    /// Key of the partition, or text of a statement.
    pub at: Option<String>,
    pub figure: Option<FindingFigure>,
    /// Number of occurrences of a statement.
    pub times: Option<u64>,
    pub what: String,
    pub next: String,
}

impl CheckFinding {
    /// Creates a finding without a figure.
    pub fn new(
        severity: FindingSeverity,
        rule: &'static str,
        place: impl Into<String>,
        what: impl Into<String>,
        next: impl Into<String>,
    ) -> CheckFinding {
        let (place, what, next) = (place.into(), what.into(), next.into());
        CheckFinding { severity, rule, place, at: None, figure: None, times: None, what, next }
    }

    /// Creates a finding about a feature; `None` if the target has it.
    pub fn of_feature(
        target: &TargetTable,
        support: FeatureSupport,
        rule: &'static str,
        place: impl Into<String>,
        what: &str,
        next: &str,
    ) -> Option<CheckFinding> {
        let title = target.title;
        let (severity, words, next) = match support {
            FeatureSupport::There => return None,
            FeatureSupport::Missing => (
                FindingSeverity::Refused,
                format!("{what}: {title} does not have it"),
                next.to_owned(),
            ),
            FeatureSupport::Off(setting) => (
                FindingSeverity::Refused,
                format!("{what}: {title} refuses it while {setting} is off, the default"),
                format!("set {setting}: true on every node, or {next}"),
            ),
            FeatureSupport::Unsure => (
                FindingSeverity::Unjudged,
                format!("{what}: whether {title} supports it depends on its version and settings"),
                format!("try it there; else {next}"),
            ),
        };
        Some(CheckFinding::new(severity, rule, place, words, next))
    }

    /// Returns the finding as JSON.
    pub fn json(&self) -> Value {
        let unit = |unit| match unit {
            FigureUnit::Bytes => "bytes",
            FigureUnit::Things => "count",
            FigureUnit::Second => "second",
        };
        json!({
            "gravity": self.severity.word(), "rule": self.rule, "place": self.place, "at": self.at, "times": self.times,
            "unit": self.figure.map(|f| unit(f.unit)), "measured": self.figure.map(|f| f.measured),
            "limit": self.figure.map(|f| f.limit), "source": self.figure.map(|f| f.source),
            "what": self.what, "next": self.next,
        })
    }

    /// Returns the finding as text.
    pub fn text(&self, style: Style) -> String {
        let word = format!("{}:", self.severity.word());
        let word = match self.severity {
            FindingSeverity::Refused | FindingSeverity::Badly => style.bad(&word),
            FindingSeverity::Unjudged | FindingSeverity::Differs => style.bold(&word),
        };
        let mut out = format!("{word} {}: {}", self.place, self.what);
        if let Some(f) = self.figure {
            let (measured, limit) = (f.unit.show(f.measured), f.unit.show(f.limit));
            // Close numbers may look equal.
            let exact =
                if measured == limit { format!(" ({})", f.measured) } else { String::new() };
            let _ = write!(out, ": {measured}{exact}, the bound is {limit} ({})", f.source);
        }
        if let Some(times) = self.times.filter(|times| *times > 1) {
            let _ = write!(out, "; seen {} times", count(times));
        }
        if let Some(at) = &self.at {
            let _ = write!(out, "\n    at: {at}");
        }
        let _ = writeln!(out, "\n    do: {}", self.next);
        out
    }
}

/// Compares a figure with a bound; `None` if it is within the bound.
pub fn beyond(
    bound: TargetBound,
    unit: FigureUnit,
    measured: u64,
) -> Option<(FindingSeverity, FindingFigure)> {
    let (severity, limit) = match (bound.warn, bound.fail) {
        (_, Some(fail)) if measured > fail => (FindingSeverity::Refused, fail),
        (Some(warn), _) if measured > warn => (FindingSeverity::Badly, warn),
        _ => return None,
    };
    Some((severity, FindingFigure { unit, measured, limit, source: bound.source }))
}

/// Shortens a text to one line of at most `most` characters.
pub fn shortened(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_within_a_bound_or_beyond_it() {
        let bound = TargetBound { warn: Some(5), fail: Some(50), source: "a page" };
        let severity = |n| beyond(bound, FigureUnit::Things, n).map(|(g, f)| (g, f.limit));
        assert_eq!(severity(5), None);
        assert_eq!(severity(6), Some((FindingSeverity::Badly, 5)));
        assert_eq!(severity(51), Some((FindingSeverity::Refused, 50)));
        let none = TargetBound { warn: None, fail: None, source: "" };
        assert_eq!(beyond(none, FigureUnit::Bytes, u64::MAX), None);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(shortened("a\n  b", 9), "a b");
        assert_eq!(shortened("äöü", 2), "äö…");
    }
}

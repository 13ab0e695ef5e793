//! What a check finds: how grave it is, where, which figure beside which bound, what to do.

use std::fmt::Write as _;

use firn_tools::output::{Style, bytes, count};
use firn_wide::{Type, Wording};
use serde_json::{Value, json};

use super::target::{FeatureSupport, TargetBound, TargetTable};

/// How grave a finding is, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingGravity {
    /// The target refuses it.
    Refused,
    /// The target does it badly.
    Badly,
    /// It cannot be said here what the target does.
    Unjudged,
    /// The target does it, otherwise than the store.
    Differs,
}

impl FindingGravity {
    /// All of them, the worst first.
    pub const ALL: [FindingGravity; 4] = [
        FindingGravity::Refused,
        FindingGravity::Badly,
        FindingGravity::Unjudged,
        FindingGravity::Differs,
    ];

    /// The word for it, for people and programs.
    pub fn word(self) -> &'static str {
        match self {
            FindingGravity::Refused => "refused",
            FindingGravity::Badly => "does badly",
            FindingGravity::Unjudged => "not judged",
            FindingGravity::Differs => "differs",
        }
    }

    /// The word behind a number of them.
    pub fn summed(self) -> &'static str {
        match self {
            FindingGravity::Badly => "done badly",
            FindingGravity::Differs => "different",
            other => other.word(),
        }
    }
}

/// What a figure counts.
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

/// A figure that was measured, and the bound that it is beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FindingFigure {
    pub unit: FigureUnit,
    pub measured: u64,
    pub limit: u64,
    /// Where the bound is from.
    pub source: &'static str,
}

/// One thing that was found.
#[derive(Clone, Debug)]
pub struct CheckFinding {
    pub gravity: FindingGravity,
    /// A name that stays the same, for programs.
    pub rule: &'static str,
    /// The keyspace, `keyspace.table`, or what else it is about.
    pub place: String,
    /// The key of the partition, or the text of a statement.
    pub at: Option<String>,
    pub figure: Option<FindingFigure>,
    /// How often it was seen, of a statement.
    pub times: Option<u64>,
    pub what: String,
    pub next: String,
}

impl CheckFinding {
    /// One without a figure.
    pub fn new(
        gravity: FindingGravity,
        rule: &'static str,
        place: impl Into<String>,
        what: impl Into<String>,
        next: impl Into<String>,
    ) -> CheckFinding {
        let (place, what, next) = (place.into(), what.into(), next.into());
        CheckFinding { gravity, rule, place, at: None, figure: None, times: None, what, next }
    }

    /// One of a feature of the target; none where the target simply has it.
    pub fn of_feature(
        target: &TargetTable,
        support: FeatureSupport,
        rule: &'static str,
        place: impl Into<String>,
        what: &str,
        next: &str,
    ) -> Option<CheckFinding> {
        let title = target.title;
        let (gravity, words, next) = match support {
            FeatureSupport::There => return None,
            FeatureSupport::Missing => (
                FindingGravity::Refused,
                format!("{what}: {title} does not have it"),
                next.to_owned(),
            ),
            FeatureSupport::Off(setting) => (
                FindingGravity::Refused,
                format!("{what}: {title} refuses it while {setting} is off, as it is at first"),
                format!("set {setting}: true on every node, or {next}"),
            ),
            FeatureSupport::Unsure => (
                FindingGravity::Unjudged,
                format!("{what}: whether {title} takes it depends on its version and settings"),
                format!("try it there; else {next}"),
            ),
        };
        Some(CheckFinding::new(gravity, rule, place, words, next))
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let unit = |unit| match unit {
            FigureUnit::Bytes => "bytes",
            FigureUnit::Things => "count",
            FigureUnit::Second => "second",
        };
        json!({
            "gravity": self.gravity.word(), "rule": self.rule, "place": self.place, "at": self.at, "times": self.times,
            "unit": self.figure.map(|f| unit(f.unit)), "measured": self.figure.map(|f| f.measured),
            "limit": self.figure.map(|f| f.limit), "source": self.figure.map(|f| f.source),
            "what": self.what, "next": self.next,
        })
    }

    /// For people.
    pub fn text(&self, style: Style) -> String {
        let word = format!("{}:", self.gravity.word());
        let word = match self.gravity {
            FindingGravity::Refused | FindingGravity::Badly => style.bad(&word),
            FindingGravity::Unjudged | FindingGravity::Differs => style.bold(&word),
        };
        let mut out = format!("{word} {}: {}", self.place, self.what);
        if let Some(f) = self.figure {
            let (measured, limit) = (f.unit.show(f.measured), f.unit.show(f.limit));
            // Numbers near each other may look alike.
            let exact =
                if measured == limit { format!(" ({})", f.measured) } else { String::new() };
            let _ = write!(out, ": {measured}{exact}, and {limit} is the bound ({})", f.source);
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

/// How a figure stands to a bound; `None` where it is within.
pub fn beyond(
    bound: TargetBound,
    unit: FigureUnit,
    measured: u64,
) -> Option<(FindingGravity, FindingFigure)> {
    let (gravity, limit) = match (bound.warn, bound.fail) {
        (_, Some(fail)) if measured > fail => (FindingGravity::Refused, fail),
        (Some(warn), _) if measured > warn => (FindingGravity::Badly, warn),
        _ => return None,
    };
    Some((gravity, FindingFigure { unit, measured, limit, source: bound.source }))
}

/// A text for a line, not without end.
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
        let gravity = |n| beyond(bound, FigureUnit::Things, n).map(|(g, f)| (g, f.limit));
        assert_eq!(gravity(5), None);
        assert_eq!(gravity(6), Some((FindingGravity::Badly, 5)));
        assert_eq!(gravity(51), Some((FindingGravity::Refused, 50)));
        let none = TargetBound { warn: None, fail: None, source: "" };
        assert_eq!(beyond(none, FigureUnit::Bytes, u64::MAX), None);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(shortened("a\n  b", 9), "a b");
        assert_eq!(shortened("äöü", 2), "äö…");
    }
}

//! Times as text.

use firn_tools::output::{Style, nanos};

use crate::model::latency::Percentiles;

/// Returns seconds as text.
pub fn seconds(s: f64) -> String {
    match s {
        s if s <= 0.0 => "0".to_owned(),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6000.0 => format!("{:.1} min", s / 60.0),
        s if s < 360_000.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// Returns a time as text, down to nanoseconds.
pub fn time(s: f64) -> String {
    if s < 1.0 { nanos((s * 1e9) as u64) } else { seconds(s) }
}

/// Returns percentiles as text.
pub fn percentiles(p: &Percentiles) -> String {
    let Percentiles { p50, p99, p999, most } = *p;
    format!("{}, {}, {}, {}", time(p50), time(p99), time(p999), time(most))
}

/// Lines of text, each with a heading.
pub struct HeadedLines {
    style: Style,
    /// The lines so far.
    pub text: String,
}

impl HeadedLines {
    /// Creates it without lines.
    pub fn new(style: Style) -> HeadedLines {
        HeadedLines { style, text: String::new() }
    }

    /// Adds a line.
    pub fn line(&mut self, head: &str, body: impl AsRef<str>) {
        let head = self.style.heading(format_args!("{head:<9}"));
        self.text += &format!("{head}  {}\n", body.as_ref());
    }
}

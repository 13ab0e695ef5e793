//! Output of a command: failures with a next step, exit codes, human-readable numbers, tables,
//! progress.
//!
//! Invariants: data goes to standard output and messages to standard error. Colour and progress are
//! used only on a terminal. If the reader closes the pipe, the command ends without a message.

use std::fmt::{self, Display};
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
pub use comfy_table::Table;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, presets};
use firn_kv::Error;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::io::{screen, stderr_is_terminal, stdout_is_terminal};

/// The reason why a command did not complete.
#[derive(Debug)]
pub enum Failure {
    /// It found and printed something (damage, a bad line, a missing key). Exit code 1.
    Found,
    /// It could not run. Exit code 2.
    Failed {
        /// The problem and its location.
        what: String,
        /// Advice for the user.
        next: Option<String>,
    },
    /// The engine returned an error. Exit code 2.
    Engine(Error),
    /// The reader closed the pipe. Exit code 0.
    PipeClosed,
    /// Ctrl-C stopped it, and it printed how far it came. Exit code 130.
    Interrupted,
}

/// Result of a command.
pub type Done<T = ()> = Result<T, Failure>;

impl Failure {
    /// Returns a failure without advice.
    pub fn new(what: impl Into<String>) -> Failure {
        Failure::Failed { what: what.into(), next: None }
    }

    /// Returns a failure with advice.
    pub fn with_next(what: impl Into<String>, next: impl Into<String>) -> Failure {
        Failure::Failed { what: what.into(), next: Some(next.into()) }
    }

    /// Returns the problem in words, without the advice.
    pub fn words(&self) -> String {
        match self {
            Failure::Failed { what, .. } => what.clone(),
            Failure::Engine(e) => e.to_string(),
            e => format!("{e:?}"),
        }
    }

    /// Returns the advice for the user.
    pub fn next(&self) -> Option<&str> {
        match self {
            Failure::Failed { next, .. } => next.as_deref(),
            _ => None,
        }
    }

    /// Returns the failure of an operation on a user's file.
    pub fn file(doing: &str, path: &Path, e: &io::Error) -> Failure {
        Failure::new(format!("cannot {doing} {}: {e}", path.display()))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Found => f.write_str("there are findings"),
            Failure::Failed { what, .. } => f.write_str(what),
            Failure::Engine(e) => e.fmt(f),
            Failure::PipeClosed => f.write_str("the reader of the output is gone"),
            Failure::Interrupted => f.write_str("it was interrupted"),
        }
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        Failure::Engine(e)
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        match e.kind() {
            io::ErrorKind::BrokenPipe => Failure::PipeClosed,
            _ => Failure::new(format!("cannot read or write: {e}")),
        }
    }
}

/// Returns the result of a command with a verdict, given the result of printing it. The exit code
/// is the verdict's even if the reader closed the pipe early.
pub fn judged(printed: Done, is_sound: bool) -> Done {
    match printed {
        Ok(()) | Err(Failure::PipeClosed) if !is_sound => Err(Failure::Found),
        printed => printed,
    }
}

/// Ends the command: prints the failure and returns the exit code. `advice` returns advice for an
/// error of the engine.
pub fn finish(done: Done, style: Style, advice: fn(&Error) -> Option<&'static str>) -> ExitCode {
    match done {
        Ok(()) | Err(Failure::PipeClosed) => ExitCode::SUCCESS,
        Err(Failure::Found) => ExitCode::from(1),
        Err(Failure::Interrupted) => ExitCode::from(130),
        Err(Failure::Engine(e)) => complain(&e.to_string(), advice(&e), style),
        Err(Failure::Failed { what, next }) => complain(&what, next.as_deref(), style),
    }
}

fn complain(what: &str, next: Option<&str>, style: Style) -> ExitCode {
    eprintln!("{} {what}", style.error("error:"));
    if let Some(next) = next {
        eprintln!("{} {next}", style.bold(" next:"));
    }
    ExitCode::from(2)
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Colours of standard output and standard error, or none.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    out: bool,
    err: bool,
}

impl Style {
    /// Decides colours for the current terminals.
    pub fn new(when: Color) -> Style {
        let allowed = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        let on =
            |terminal: bool| when == Color::Always || (when == Color::Auto && terminal && allowed);
        Style { out: on(stdout_is_terminal()), err: on(stderr_is_terminal()) }
    }

    fn paint(on: bool, code: &str, text: impl Display) -> String {
        if on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// Reports whether standard error is coloured.
    pub fn colours_errors(self) -> bool {
        self.err
    }

    /// Formats an error word for standard error.
    pub fn error(self, text: impl Display) -> String {
        Style::paint(self.err, "1;31", text)
    }

    /// Formats an emphasized word for standard error.
    pub fn bold(self, text: impl Display) -> String {
        Style::paint(self.err, "1", text)
    }

    /// Formats a heading for standard output.
    pub fn heading(self, text: impl Display) -> String {
        Style::paint(self.out, "1", text)
    }

    /// Formats a problem for standard output.
    pub fn bad(self, text: impl Display) -> String {
        Style::paint(self.out, "1;31", text)
    }

    /// Formats a success for standard output.
    pub fn good(self, text: impl Display) -> String {
        Style::paint(self.out, "32", text)
    }
}

/// Formats a number with separated thousands.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Formats `n` with the singular or the plural.
pub fn things(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// Formats a number with three digits and a unit.
fn scaled(n: f64, step: f64, units: &[&str]) -> String {
    let mut n = n;
    let mut unit = 0;
    while n >= step * 0.9995 && unit + 1 < units.len() {
        n /= step;
        unit += 1;
    }
    let digits = match n {
        _ if unit == 0 && n.fract() == 0.0 => 0,
        n if n < 9.995 => 2,
        n if n < 99.95 => 1,
        _ => 0,
    };
    format!("{n:.digits$}{}", units[unit])
}

/// Formats bytes.
pub fn bytes(n: u64) -> String {
    scaled(n as f64, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB"])
}

/// Formats a rate.
pub fn rate(n: f64) -> String {
    scaled(n, 1000.0, &["", " k", " M", " G"])
}

/// Formats nanoseconds.
pub fn nanos(n: u64) -> String {
    scaled(n as f64, 1000.0, &[" ns", " us", " ms", " s"])
}

/// Returns a table without lines, with the first column left-aligned and the others right-aligned.
pub fn table(header: &[&str]) -> Table {
    let mut t = Table::new();
    t.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    t.set_header(header.iter().enumerate().map(|(i, h)| aligned(i, *h)));
    t
}

/// Returns a table without lines whose columns are aligned by the letters of `sides`: `l` left,
/// others right. [`Table::add_row`] adds rows.
pub fn listing(header: &[&str], sides: &str) -> Table {
    let mut t = Table::new();
    t.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    t.set_header(header);
    for (column, side) in t.column_iter_mut().zip(sides.chars()) {
        column.set_cell_alignment(if side == 'l' {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        });
    }
    t
}

/// Adds a row to a [`table`].
pub fn row(t: &mut Table, cells: impl IntoIterator<Item = String>) {
    t.add_row(cells.into_iter().enumerate().map(|(i, c)| aligned(i, c)).collect::<Vec<_>>());
}

fn aligned(column: usize, text: impl ToString) -> Cell {
    let side = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
    Cell::new(text).set_alignment(side)
}

/// Formats a [`table`] without trailing blanks and with a coloured heading.
pub fn print_table(t: &Table, style: Style) -> String {
    let lines: Vec<String> =
        t.lines().map(|l| l.strip_prefix(' ').unwrap_or(&l).trim_end().to_owned()).collect();
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        out.push_str(&if i == 0 { style.heading(line) } else { line.clone() });
        out.push('\n');
    }
    out
}

/// Formats a [`table`] for the terminal: hides the columns with these numbers, one after the other,
/// until its lines fit.
pub fn print_fitting(t: &mut Table, dispensable: &[usize], style: Style) -> String {
    let most = if stdout_is_terminal() { screen().1 } else { usize::MAX };
    for column in dispensable {
        let fits = t.lines().all(|line| line.trim().chars().count() <= most);
        match t.column_mut(*column) {
            Some(column) if !fits => drop(column.set_constraint(ColumnConstraint::Hidden)),
            _ => break,
        }
    }
    print_table(t, style)
}

/// Progress on standard error, only on a terminal.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Creates a progress bar of bytes, or a byte counter without a known end.
    pub fn bytes(what: &str, len: Option<u64>) -> Progress {
        let end = " {binary_bytes:>11} of {binary_total_bytes}  {wide_msg}";
        Progress::new(what, len, end, " {binary_bytes:>11}  {wide_msg}")
    }

    /// Creates a progress bar of operations, or a spinner.
    pub fn operations(what: &str, len: Option<u64>) -> Progress {
        Progress::new(what, len, " {human_pos:>11} of {human_len}  {wide_msg}", " {wide_msg}")
    }

    fn new(what: &str, len: Option<u64>, bar_end: &str, spinner_end: &str) -> Progress {
        if !stderr_is_terminal() {
            return Progress { bar: ProgressBar::hidden() };
        }
        let bar = ProgressBar::with_draw_target(len, ProgressDrawTarget::stderr_with_hz(10))
            .with_prefix(what.to_owned());
        let template = match len {
            Some(_) => format!("{{prefix:<18}} {{bar:28}}{bar_end}"),
            None => format!("{{prefix:<18}} {{spinner}}{spinner_end}"),
        };
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Progress { bar }
    }

    /// Sets the position.
    pub fn at(&self, position: u64) {
        self.bar.set_position(position);
    }

    /// Sets the message after the bar.
    pub fn say(&self, words: String) {
        self.bar.set_message(words);
    }

    /// Prints a line above the bar.
    pub fn line(&self, words: &str) {
        self.bar.suspend(|| eprintln!("{words}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(
            [count(0), count(999), count(1000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [bytes(0), bytes(1023), bytes(1024), bytes(1536 << 20)],
            ["0 B", "1023 B", "1.00 KiB", "1.50 GiB"]
        );
        assert_eq!(
            [nanos(17), nanos(1_234), nanos(99_960), nanos(2_500_000_000)],
            ["17 ns", "1.23 us", "100 us", "2.50 s"]
        );
        assert_eq!([rate(950.0), rate(12_345.0), rate(1_000_000.0)], ["950", "12.3 k", "1.00 M"]);
        assert_eq!([things(1, "line", "lines"), things(2, "line", "lines")], ["1 line", "2 lines"]);
    }
}

//! Judges the statements of an application: lines of a log, or a CQL script.
//!
//! Memory does not grow with the file. For each kind of finding and table, one finding is in
//! memory, with its number of occurrences, its maximum figure and its first text. Judged texts are
//! cached up to a bound, because applications repeat theirs.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use firn_cql::internals::syntax::ast::{BatchKind, Statement};
use firn_cql::{LoggedSize, LoggedStatement, Script, Session};
use firn_tools::io::Input;
use firn_tools::output::{Done, Failure, Progress};

use super::clauses::ClauseJudge;
use super::finding::{CheckFinding, FigureUnit, FindingFigure, FindingSeverity, beyond, shortened};
use super::judged::{InValueCount, JudgedText};
use super::target::{TargetBound, TargetTable};

/// Maximum number of cached texts.
const MAX_CACHED: usize = 4096;
/// Maximum length of a cached text; longer ones are judged each time.
const MAX_CACHED_TEXT: usize = 4096;
/// Maximum length of a line or script.
const MAX_LINE: u64 = 64 << 20;
/// Shown characters of a statement.
const MAX_SHOWN_CHARS: usize = 200;
/// Error classes of statements that Cassandra would refuse as well.
const REFUSALS: [&str; 2] = ["SyntaxException", "InvalidRequest"];
/// Bytes that a value adds to a batch besides its own: approximately Cassandra's overhead.
const CELL: u64 = 20;

const APART: &str =
    "batch only statements of one partition, and send the others separately and concurrently";

/// Findings with the same severity, rule, table and text are one finding.
type FindingKey = (FindingSeverity, &'static str, String, String);

/// Judges statements and aggregates the findings.
pub struct StatementJudge<'a> {
    clauses: ClauseJudge<'a>,
    target: &'static TargetTable,
    seen: HashMap<(Option<String>, String), Rc<JudgedText>>,
    found: BTreeMap<FindingKey, CheckFinding>,
    /// Number of judged statements, including those in batches.
    pub judged: u64,
    /// Number of statements skipped because the store refused them.
    pub failed: u64,
}

impl<'a> StatementJudge<'a> {
    pub fn new(session: &'a Session, target: &'static TargetTable, now: u64) -> StatementJudge<'a> {
        StatementJudge {
            clauses: ClauseJudge::new(session, target, now),
            target,
            seen: HashMap::new(),
            found: BTreeMap::new(),
            judged: 0,
            failed: 0,
        }
    }

    /// Returns the findings.
    pub fn findings(self) -> Vec<CheckFinding> {
        self.found.into_values().collect()
    }

    /// Judges all of a file: a log of statements, or a script.
    pub fn file(&mut self, file: &Path) -> Done {
        let failed = |e: std::io::Error| Failure::file("read", file, &e);
        let input = Input::open(file).map_err(failed)?;
        let read_bytes = input.counter();
        let mut lines = BufReader::with_capacity(64 << 10, input);
        let progress = Progress::bytes("statements", None);
        let is_log = lines.fill_buf().map_err(failed)?.trim_ascii_start().starts_with(b"{");
        if !is_log {
            let mut text = String::new();
            let read = lines.take(MAX_LINE + 1).read_to_string(&mut text).map_err(failed)?;
            if read as u64 > MAX_LINE {
                let what = format!("{}: a script has at most 64 MiB", file.display());
                return Err(Failure::with_next(
                    what,
                    "give it in parts, each with its own --statements",
                ));
            }
            self.script(&text);
            return Ok(());
        }
        let mut line = vec![];
        for number in 1_u64.. {
            line.clear();
            let read = (&mut lines).take(MAX_LINE).read_until(b'\n', &mut line).map_err(failed)?;
            if read == 0 {
                break;
            }
            if number.is_multiple_of(1024) {
                progress.at(read_bytes.get());
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            match LoggedStatement::parse(text) {
                Ok(logged) => self.line(&logged),
                Err(e) => {
                    let what = format!("line {number}: {}", e.text());
                    let next = "a line that was cut off when its writer was killed may be left out; anything else was not written by Firn";
                    let place = file.display().to_string();
                    let of = CheckFinding::new(
                        FindingSeverity::Unjudged,
                        "no-line",
                        place,
                        "it is not a line of a statement log",
                        next,
                    );
                    self.add(of, &what);
                }
            }
        }
        Ok(())
    }

    /// Judges a script without shell commands.
    fn script(&mut self, text: &str) {
        let mut keyspace = None;
        for piece in Script::new(text) {
            if let Ok(parsed) = piece.parse()
                && let Statement::Use(name) = &parsed.statement
            {
                keyspace = Some(name.text.to_string());
            }
            let mut written = LoggedStatement::default();
            written.keyspace.clone_from(&keyspace);
            written.statement = Some(piece.text().to_owned());
            self.line(&written);
        }
    }

    /// Judges an executed statement or batch.
    pub fn line(&mut self, logged: &LoggedStatement) {
        if logged.error.as_deref().is_some_and(|class| REFUSALS.contains(&class)) {
            self.failed += 1;
            return;
        }
        let alone = std::slice::from_ref(logged);
        let is_batch = !logged.members.is_empty();
        let members = if is_batch { &logged.members } else { alone };
        let mut one_partition = false;
        let (mut written, mut cells) = (0_u64, 0_u64);
        let (mut place, mut kind, mut shown) = (None, None, None);
        for member in members {
            self.judged += 1;
            let Some(text) = &member.statement else {
                let what = "a statement whose text the log does not have: it was too long, or may have had a password in it";
                let next = "run it against the target by hand";
                let of = CheckFinding::new(
                    FindingSeverity::Unjudged,
                    "no-text",
                    "a statement",
                    what,
                    next,
                );
                self.add(of, "");
                continue;
            };
            let judged = self.judge(member.keyspace.as_deref(), text);
            shown = shown.or_else(|| Some(text.clone()));
            for hit in &judged.hits {
                let mut finding = hit.finding.clone();
                if let Some(amount) = hit.values {
                    let Some(exceeded) = self.in_values(finding, amount, member) else { continue };
                    finding = exceeded;
                }
                self.add(finding, text);
            }
            if let Some(table) = &judged.writes {
                let bound = member.values.iter().flatten();
                let sum =
                    |(b, n): (u64, u64), size: &LoggedSize| (b.saturating_add(size.bytes()), n + 1);
                let (bytes, count) = bound.fold((0, 0), sum);
                // Bound values are not in the text; literals are.
                let in_text = if member.values.is_empty() { text.len() as u64 } else { 0 };
                // The numbers of a line may be arbitrarily large.
                written = written.saturating_add(bytes).saturating_add(in_text);
                cells += count;
                place = place.or_else(|| Some(table.clone()));
                for size in member.values.iter().flatten() {
                    self.value(size.bytes(), size.elements(), table, text);
                }
            }
            kind = kind.or(judged.batch);
            // A condition applies to one partition, so all statements of the batch do.
            one_partition |= judged.hits.iter().any(|hit| hit.finding.rule == "condition");
        }
        let (Some(place), Some(shown)) = (place, shown) else { return };
        let partitions = logged.partitions.or(one_partition.then_some(1));
        let word = logged.batch.as_deref();
        let kind = kind.map(|kind| format!("{kind:?}").to_uppercase()).or(word.map(str::to_owned));
        self.written(&place, &shown, written, (kind.as_deref(), cells), partitions);
    }

    fn judge(&mut self, keyspace: Option<&str>, text: &str) -> Rc<JudgedText> {
        let key = (keyspace.map(str::to_owned), text.to_owned());
        if let Some(known) = self.seen.get(&key) {
            return known.clone();
        }
        let judged = Rc::new(self.clauses.text(keyspace, text));
        if self.seen.len() >= MAX_CACHED {
            self.seen.clear();
        }
        if text.len() <= MAX_CACHED_TEXT {
            self.seen.insert(key, judged.clone());
        }
        judged
    }

    /// Returns the finding of an `IN` with this many values; `None` if there are few enough.
    fn in_values(
        &self,
        mut finding: CheckFinding,
        amount: InValueCount,
        member: &LoggedStatement,
    ) -> Option<CheckFinding> {
        let measured = match amount {
            InValueCount::Written(count) => Some(count),
            InValueCount::Bound(marker) => {
                let size = member.values.get(usize::from(marker)).copied().flatten();
                size.and_then(|size| size.elements())
            }
        };
        match beyond(self.target.in_values, FigureUnit::Things, measured.unwrap_or(0)) {
            Some((severity, figure)) => {
                (finding.severity, finding.figure) = (severity, Some(figure));
                finding.what.push_str(": its values");
                Some(finding)
            }
            // The application may bind any number of values.
            None if matches!(amount, InValueCount::Bound(_)) => {
                finding.rule = "in-unbounded";
                finding.what.push_str(", with any number of bound values");
                Some(finding)
            }
            None => None,
        }
    }

    /// Judges the size of a bound value of a write.
    fn value(&mut self, bytes: u64, elements: Option<u64>, place: &str, text: &str) {
        let (cell, collection) = (self.target.cell_bytes, self.target.collection_elements);
        let next =
            "store such values elsewhere with a reference here, or split them over several rows";
        self.bound(
            cell,
            (FigureUnit::Bytes, bytes),
            "value-bytes",
            (place, "a value that was written"),
            next,
            text,
        );
        let next = "make a row of each element, in a table with a clustering column for it";
        let what = "elements of a collection that was written";
        let elements = elements.unwrap_or(0);
        self.bound(
            collection,
            (FigureUnit::Things, elements),
            "value-elements",
            (place, what),
            next,
            text,
        );
    }

    /// Judges the size of a write, and its number of partitions.
    fn written(
        &mut self,
        place: &str,
        text: &str,
        bytes: u64,
        (batch, cells): (Option<&str>, u64),
        partitions: Option<u64>,
    ) {
        let next = "write less at once: split the value, or write it in several statements";
        let what = "bytes that a statement writes at once";
        self.bound(
            self.target.write_bytes,
            (FigureUnit::Bytes, bytes),
            "write-bytes",
            (place, what),
            next,
            text,
        );
        let Some(kind) = batch else { return };
        // An unknown number of partitions may be more than one.
        if partitions.is_some_and(|n| n < 2) {
            return;
        }
        let weight = bytes.saturating_add(cells * CELL);
        let what = "a batch over several partitions weighs about";
        self.bound(
            self.target.batch_bytes,
            (FigureUnit::Bytes, weight),
            "batch-bytes",
            (place, what),
            APART,
            text,
        );
        if kind != format!("{:?}", BatchKind::Logged).to_uppercase() {
            let what = "partitions of a batch that is not logged";
            let count = partitions.unwrap_or(0);
            let bound = self.target.batch_partitions;
            self.bound(
                bound,
                (FigureUnit::Things, count),
                "batch-partitions",
                (place, what),
                APART,
                text,
            );
        }
    }

    fn bound(
        &mut self,
        bound: TargetBound,
        (unit, measured): (FigureUnit, u64),
        rule: &'static str,
        (place, what): (&str, &str),
        next: &str,
        text: &str,
    ) {
        let Some((severity, figure)) = beyond(bound, unit, measured) else { return };
        let mut finding = CheckFinding::new(severity, rule, place, what, next);
        finding.figure = Some(figure);
        self.add(finding, text);
    }

    /// Adds a finding to those of its kind.
    fn add(&mut self, mut finding: CheckFinding, text: &str) {
        // The reason of an unjudged statement names its details. The first one represents all.
        let is_judged = finding.severity != FindingSeverity::Unjudged;
        let what = finding.what.clone();
        let what = Some(what).filter(|_| is_judged).unwrap_or_default();
        let key = (finding.severity, finding.rule, finding.place.clone(), what);
        let at = Some(shortened(text, MAX_SHOWN_CHARS)).filter(|text| !text.is_empty());
        let Some(known) = self.found.get_mut(&key) else {
            (finding.at, finding.times) = (at, Some(1));
            self.found.insert(key, finding);
            return;
        };
        known.times = known.times.map(|times| times + 1);
        let more = |f: &FindingFigure| known.figure.is_none_or(|k| f.measured > k.measured);
        if finding.figure.as_ref().is_some_and(more) {
            (known.figure, known.at) = (finding.figure, at);
        }
    }
}

//! Losses: data that could not be saved, as text and as JSON.
//!
//! Invariant: printed numbers count all losses; only lines are omitted, and the output says so.

use std::path::{Path, PathBuf};

use firn_kv::Error;
use firn_kv::internals::base::ops::TreeId;
use firn_kv::internals::manifest::TableMeta;
use firn_tools::escape;
use firn_tools::output::{Done, things};
use serde_json::{Value, json};

use crate::Screen;
use crate::check::findings::{FindingTree, MAX_LINES};
use crate::dump::text;

/// Data that could not be saved.
#[derive(Clone, Debug)]
pub struct Loss {
    /// Tree of the data, if known.
    pub tree: Option<TreeId>,
    /// Tree by name, with its definition, once known.
    pub place: Option<FindingTree>,
    /// File that contained the data.
    pub file: PathBuf,
    /// Offset in the file, if known.
    pub offset: Option<u64>,
    /// Number of bytes of the file.
    pub len: u64,
    /// Kind of the data: `data`, `tombstones`, `log`, `table`, `value`.
    pub what: &'static str,
    /// Reason for the loss.
    pub reason: String,
    /// Number of entries, operations or range deletions, if known.
    pub entries: Option<u64>,
    /// Widest range of keys that it can have contained, if known.
    pub keys: Option<(Vec<u8>, Vec<u8>)>,
}

impl Loss {
    /// Creates a loss of unknown extent.
    pub fn new(what: &'static str, file: impl Into<PathBuf>, reason: impl Into<String>) -> Loss {
        Loss {
            tree: None,
            place: None,
            file: file.into(),
            offset: None,
            len: 0,
            what,
            reason: reason.into(),
            entries: None,
            keys: None,
        }
    }

    /// Creates the loss of a part of the log.
    pub fn log(file: impl Into<PathBuf>, offset: u64, len: u64, reason: String) -> Loss {
        Loss { offset: Some(offset), len, ..Loss::new("log", file, reason) }
    }

    /// Creates the loss of a table, with the metadata that the manifest has of it.
    pub fn table(file: impl Into<PathBuf>, reason: &str, m: Option<&TableMeta>) -> Loss {
        Loss {
            len: m.map_or(0, |m| m.size),
            entries: m.map(|m| m.entries),
            keys: m.map(|m| (m.first_key.clone(), m.last_key.clone())),
            ..Loss::new("table", file, reason)
        }
    }

    /// Creates the loss of a file that the system cannot read.
    pub fn unreadable(e: &Error, file: &Path) -> Loss {
        let reason = format!(
            "{}; make the file readable, or copy what can be read of it to a place that is, and try again",
            e.message()
        );
        Loss { offset: e.offset(), ..Loss::new("table", file, reason) }
    }

    /// Returns the loss as a line of text.
    pub fn text(&self) -> String {
        let mut s = match self.offset {
            Some(o) => format!(
                "{}, offset {o}, {}",
                self.file.display(),
                things(self.len, "byte", "bytes")
            ),
            None => self.file.display().to_string(),
        };
        s += &format!(", {}: {}", self.what, self.reason);
        let one =
            if self.what == "log" { ("operation", "operations") } else { ("entry", "entries") };
        match self.entries {
            Some(n) => s += &format!("; {}", things(n, one.0, one.1)),
            None => s += &format!("; {} not known how many", one.1),
        }
        if let Some(p) = &self.place {
            s += &format!(", of {}", p.words());
        }
        if let Some(k) = &self.keys {
            let typed = self.place.as_ref().and_then(|p| p.typed_keys((&k.0, &k.1)));
            s += &match typed {
                Some((a, b)) if a == b => format!(", keys of {a}"),
                Some((a, b)) => format!(", keys {a} to {b}"),
                None => format!(", keys {}", text::keys(k)),
            };
        }
        s
    }

    /// Returns the loss as JSON.
    pub fn json(&self) -> Value {
        let mut v = json!({
            "file": self.file.display().to_string(), "offset": self.offset, "bytes": self.len, "what": self.what, "reason": self.reason,
            "entries": self.entries, "keys": self.keys.as_ref().map(|(a, b)| json!([escape::words(a), escape::words(b)])),
        });
        if let Some(place) = &self.place {
            place.put(&mut v);
            if let Some((a, b)) = self.keys.as_ref().and_then(|k| place.typed_keys((&k.0, &k.1))) {
                v["typed_keys"] = json!([a, b]);
            }
        }
        v
    }
}

/// Prints lines of losses; consecutive losses of the same kind in one file share a line.
fn print_lines(screen: &mut Screen<'_>, losses: &[Loss]) -> Done {
    let follows = |a: &Loss, b: &Loss| {
        let end = a.offset.map(|o| o + a.len);
        a.file == b.file
            && a.what == b.what
            && a.reason == b.reason
            && end.is_some()
            && end == b.offset
    };
    for of_file in losses.chunk_by(|a, b| a.file == b.file) {
        let rows: Vec<&[Loss]> = of_file.chunk_by(follows).collect();
        for row in rows.iter().take(MAX_LINES) {
            let (first, last) = (&row[0], &row[row.len() - 1]);
            let all = Loss {
                len: row.iter().map(|l| l.len).sum(),
                entries: row.iter().map(|l| l.entries).sum(),
                keys: first.keys.clone().zip(last.keys.clone()).map(|(a, b)| (a.0, b.1)),
                ..first.clone()
            };
            let blocks = if row.len() > 1 {
                format!("; {} blocks in a row", row.len())
            } else {
                String::new()
            };
            writeln!(screen.out, "  {}{blocks}", all.text())?;
        }
        if rows.len() > MAX_LINES {
            writeln!(
                screen.out,
                "  and {} more in this file (--json lists all)",
                rows.len() - MAX_LINES
            )?;
        }
    }
    Ok(())
}

/// Prints losses and their meaning.
///
/// # Errors
/// If the output cannot be written.
pub fn print_losses(screen: &mut Screen<'_>, losses: &[Loss]) -> Done {
    if losses.is_empty() {
        return Ok(writeln!(screen.out, "{}", screen.style.good("nothing is lost"))?);
    }
    let known: u64 = losses.iter().filter(|l| l.what != "log").filter_map(|l| l.entries).sum();
    let all_known = losses.iter().all(|l| l.entries.is_some());
    let ops: u64 = losses.iter().filter(|l| l.what == "log").filter_map(|l| l.entries).sum();
    let mut parts = vec![];
    if known > 0 {
        parts.push(things(known, "entry", "entries"));
    }
    if ops > 0 {
        parts.push(format!("{} of the log", things(ops, "operation", "operations")));
    }
    if !all_known {
        parts.push("an unknown number more".into());
    }
    writeln!(
        screen.out,
        "{} {}",
        screen.style.bad("lost:"),
        if parts.is_empty() { "nothing that counts".into() } else { parts.join(" and ") }
    )?;
    print_lines(screen, losses)?;
    if losses.iter().any(|l| l.keys.is_some()) {
        writeln!(
            screen.out,
            "  a read of these keys now finds the entries of older tables, even if the lost entry had deleted or replaced them"
        )?;
    }
    Ok(())
}

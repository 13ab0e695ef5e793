//! Damage as text for people: blocks in a row in one line, and no more lines of one file than a person reads.
//!
//! Invariant: numbers in what is printed count everything; only lines are left out, and it says so.

use std::path::Path;

use firn_kv::Error;
use firn_tools::escape;
use firn_tools::output::{Done, things};

use crate::Screen;
use crate::rescue::Loss;

/// Most lines about one file.
const MOST: usize = 20;

/// Errors in a row about blocks that follow each other in one file.
struct Row<'a> {
    first: &'a Error,
    last: &'a Error,
    blocks: usize,
}

/// Whether `b` is of the block behind that of `a`, and says the same: its keys begin where those of `a` end.
fn follows(a: &Error, b: &Error) -> bool {
    let same = a.block_kind() == b.block_kind() && a.message() == b.message() && a.offset() < b.offset();
    same && a.key_range().is_some_and(|(_, end)| b.key_range().is_some_and(|(start, _)| start == end))
}

fn rows(errors: &[Error]) -> Vec<Row<'_>> {
    let rows = errors.chunk_by(follows).filter_map(|c| Some(Row { first: c.first()?, last: c.last()?, blocks: c.len() }));
    rows.collect()
}

/// Prints errors found in `path`; `advice` knows what to do about each.
///
/// # Errors
/// When the output cannot be written.
pub fn print_errors(screen: &mut Screen<'_>, path: &Path, errors: &[Error], advice: &dyn Fn(&Error) -> String) -> Done {
    let mut advised = String::new();
    for of_file in errors.chunk_by(|a, b| a.file() == b.file()) {
        let rows = rows(of_file);
        for r in rows.iter().take(MOST) {
            writeln!(screen.out, "{} {}", screen.style.bad("damaged:"), text(r, path))?;
            let words = advice(r.first);
            if words != advised {
                writeln!(screen.out, "         {words}")?;
                advised = words;
            }
        }
        let rest: usize = rows.iter().skip(MOST).map(|r| r.blocks).sum();
        if rest > 0 {
            writeln!(screen.out, "         and {rest} more in this file (--json lists all)")?;
        }
    }
    Ok(())
}

fn text(r: &Row<'_>, path: &Path) -> String {
    let mut line = r.first.file().unwrap_or(path).display().to_string();
    if let Some(o) = r.first.offset() {
        line += &format!(", offset {o}");
        if let Some(to) = r.last.offset().filter(|_| r.blocks > 1) {
            line += &format!(" to {to}, {}", things(r.blocks as u64, "block", "blocks"));
        }
    }
    if let Some(b) = r.first.block_kind() {
        line += &format!(", {b}");
    }
    line += &format!(": {}", r.first.message());
    if let (Some((a, _)), Some((_, b))) = (r.first.key_range(), r.last.key_range()) {
        line += &format!("\n         keys {} to {}", escape::words(a), escape::words(b));
    }
    line
}

/// Prints losses: those that follow each other in a file and are of one kind in one line.
///
/// # Errors
/// When the output cannot be written.
pub fn print_losses(screen: &mut Screen<'_>, losses: &[Loss]) -> Done {
    let follows = |a: &Loss, b: &Loss| {
        let end = a.offset.map(|o| o + a.len);
        a.file == b.file && a.what == b.what && a.reason == b.reason && end.is_some() && end == b.offset
    };
    for of_file in losses.chunk_by(|a, b| a.file == b.file) {
        let rows: Vec<&[Loss]> = of_file.chunk_by(follows).collect();
        for row in rows.iter().take(MOST) {
            let (first, last) = (&row[0], &row[row.len() - 1]);
            let all = Loss {
                len: row.iter().map(|l| l.len).sum(),
                entries: row.iter().map(|l| l.entries).sum(),
                keys: first.keys.clone().zip(last.keys.clone()).map(|(a, b)| (a.0, b.1)),
                ..first.clone()
            };
            let blocks = if row.len() > 1 { format!("; {} blocks in a row", row.len()) } else { String::new() };
            writeln!(screen.out, "  {}{blocks}", all.text())?;
        }
        if rows.len() > MOST {
            writeln!(screen.out, "  and {} more in this file (--json lists all)", rows.len() - MOST)?;
        }
    }
    Ok(())
}

//! `reproduce`: compares the claims of papers with simulations of their set-ups.
//!
//! Each paper has a file below. If the agreement with a claim differs from the known one, that is a
//! fault of the simulator or of a policy.

mod cidr17;
mod dostoevsky;
mod fast16;
mod ics;
mod lethe;
mod monkey;
mod paper;
mod spooky;
mod table;
mod ucs;
mod vldb21;

use std::io::Write;

use firn_tools::output::{Done, Failure};

use crate::cli::ReproduceArgs;
use paper::{ClaimFinding, Paper};
use table::ClaimRow;

/// The papers that can be reproduced.
pub const PAPERS: [&Paper; 9] = [
    &vldb21::PAPER,
    &dostoevsky::PAPER,
    &monkey::PAPER,
    &spooky::PAPER,
    &lethe::PAPER,
    &ucs::PAPER,
    &ics::PAPER,
    &cidr17::PAPER,
    &fast16::PAPER,
];

/// Runs `reproduce`, also for `firn bench papers`.
///
/// # Errors
/// [`Failure::Found`] if the agreement with a claim differs from the known one.
pub fn run(args: &ReproduceArgs, as_json: bool, out: &mut dyn Write) -> Done {
    let wanted =
        |paper: &&Paper| args.papers.is_empty() || args.papers.iter().any(|p| p == paper.name);
    let mut rows = vec![];
    let mut good = true;
    for paper in PAPERS.into_iter().filter(wanted) {
        let found = paper.reproduce()?;
        good &= found.iter().all(|f| f.known);
        if !as_json {
            write!(out, "{}", paper_text(paper, &found))?;
        }
        let row = |(claim, finding)| ClaimRow::new(paper, claim, finding);
        rows.extend(paper.claims.iter().zip(&found).map(row));
    }
    if as_json {
        writeln!(out, "{}", table::json(&rows))?;
    }
    let files = [
        (&args.csv, table::csv as fn(&[ClaimRow]) -> Done<String>),
        (&args.markdown, |rows| Ok(table::markdown(rows))),
        (&args.html, |rows| Ok(table::html(rows))),
    ];
    for (path, text) in files {
        if let Some(path) = path {
            firn_tools::io::write(path, text(&rows)?.as_bytes())
                .map_err(|e| Failure::file("write", path, &e))?;
        }
    }
    if good { Ok(()) } else { Err(Failure::Found) }
}

/// Returns a paper as text: set-up, command lines, and each claim.
fn paper_text(paper: &Paper, found: &[ClaimFinding]) -> String {
    let mut text = format!("{}\n\n", paper.title);
    let mut part = |head: &str, body: &str| {
        for (i, line) in wrap(body, 92).into_iter().enumerate() {
            let line = format!("{:<10}{line}", if i == 0 { head } else { "" });
            text.push_str(line.trim_end());
            text.push('\n');
        }
    };
    part("set-up", paper.setup);
    for (name, case) in paper.cases {
        part("", &format!("{name}: {}", paper.command(case)));
    }
    for (c, f) in paper.claims.iter().zip(found) {
        part("", "");
        part(if f.agrees { "agrees" } else { "differs" }, &format!("{} ({})", c.text, c.section));
        part("  paper", c.figure);
        part("  ours", &f.ours);
        match (f.agrees, f.known) {
            (false, true) => part("  because", c.differs),
            (true, false) => {
                part("  NEW", &format!("it was known to differ, because {}", c.differs))
            }
            (false, false) => {
                part("  NEW", "it was known to agree: the simulator or a policy has changed")
            }
            (true, true) => {}
        }
    }
    let agree = found.iter().filter(|f| f.agrees).count();
    text += &format!("\n{agree} of {} claims agree\n\n", found.len());
    text
}

/// Breaks text between words into lines of at most `width` characters; at least one line.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].chars().count() + word.chars().count() >= width {
            lines.push(word.to_owned());
        } else {
            if !lines[last].is_empty() {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
        }
    }
    lines
}

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
mod ucs;
mod vldb21;

use std::io::Write;

use firn_tools::output::{Done, Failure};
use serde_json::json;

use crate::cli::{ReproduceArgs, SimCli};
use paper::{ClaimFinding, Paper, PaperClaim};

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

/// Runs `reproduce`.
///
/// # Errors
/// [`Failure::Found`] if the agreement with a claim differs from the known one.
pub fn run(args: &ReproduceArgs, cli: &SimCli, out: &mut dyn Write) -> Done {
    let wanted =
        |paper: &&Paper| args.papers.is_empty() || args.papers.iter().any(|p| p == paper.name);
    let mut rows = vec![];
    let mut good = true;
    for paper in PAPERS.into_iter().filter(wanted) {
        let found = paper.reproduce()?;
        good &= found.iter().all(|f| f.known);
        if cli.json {
            let claim = |(c, f): (&PaperClaim, &ClaimFinding)| {
                json!({
                    "paper": paper.name, "section": c.section, "claim": c.text,
                    "figure": c.figure, "ours": f.ours, "agrees": f.agrees, "why": c.differs,
                })
            };
            rows.extend(paper.claims.iter().zip(&found).map(claim));
        } else {
            write!(out, "{}", paper_text(paper, &found))?;
        }
    }
    if cli.json {
        writeln!(out, "{}", json!(rows))?;
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

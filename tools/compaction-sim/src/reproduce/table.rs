//! The table of all claims, for a paper: CSV, Markdown, HTML and JSON.

use firn_tools::output::{Done, Failure};
use firn_tools::page::escaped;
use serde_json::{Value, json};

use crate::reproduce::paper::{ClaimFinding, Paper, PaperClaim};

/// A claim with both findings.
pub(super) struct ClaimRow {
    paper: &'static str,
    title: &'static str,
    section: &'static str,
    claim: &'static str,
    theirs: &'static str,
    ours: String,
    agrees: bool,
    reason: &'static str,
}

const HEAD: [&str; 7] =
    ["paper", "section", "claim", "paper's number", "ours", "verdict", "reason"];

impl ClaimRow {
    pub(super) fn new(paper: &Paper, claim: &PaperClaim, finding: &ClaimFinding) -> ClaimRow {
        ClaimRow {
            paper: paper.name,
            title: paper.title,
            section: claim.section,
            claim: claim.text,
            theirs: claim.figure,
            ours: finding.ours.clone(),
            agrees: finding.agrees,
            reason: if finding.agrees { "" } else { claim.differs },
        }
    }

    fn verdict(&self) -> &'static str {
        if self.agrees { "agrees" } else { "differs" }
    }

    fn cells(&self) -> [&str; 7] {
        let ClaimRow { paper, section, claim, theirs, ours, reason, .. } = self;
        [paper, section, claim, theirs, ours, self.verdict(), reason]
    }
}

/// Returns the number of claims that agree, and of all, as a sentence.
fn total(rows: &[ClaimRow]) -> String {
    let agree = rows.iter().filter(|row| row.agrees).count();
    format!("{agree} of {} claims agree.", rows.len())
}

pub(super) fn json(rows: &[ClaimRow]) -> Value {
    let claim = |row: &ClaimRow| {
        json!({
            "paper": row.paper, "section": row.section, "claim": row.claim, "figure": row.theirs,
            "ours": row.ours, "agrees": row.agrees, "why": row.reason,
        })
    };
    Value::Array(rows.iter().map(claim).collect())
}

pub(super) fn csv(rows: &[ClaimRow]) -> Done<String> {
    let write = || -> Result<Vec<u8>, csv::Error> {
        let mut w = csv::Writer::from_writer(vec![]);
        w.write_record(HEAD)?;
        rows.iter().try_for_each(|row| w.write_record(row.cells()))?;
        w.into_inner().map_err(|e| e.into_error().into())
    };
    let bytes = write().map_err(|e| Failure::new(format!("cannot write the table: {e}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) fn markdown(rows: &[ClaimRow]) -> String {
    let line = |cells: &[&str]| {
        let cells: Vec<String> = cells.iter().map(|c| c.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = [line(&HEAD), line(&["---"; HEAD.len()])].concat();
    text.extend(rows.iter().map(|row| line(&row.cells())));
    format!("{text}\n{}\n", total(rows))
}

const STYLE: &str = "\
:root{color-scheme:light}body{font:15px/1.45 system-ui,sans-serif;color:#1e2228;background:#fff;\
max-width:1180px;margin:2rem auto;padding:0 1rem}table{border-collapse:collapse;margin:1rem 0}\
th,td{padding:.35rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid #d5d9de}\
td.agrees{color:#006b4f}td.differs{color:#b03a00}";

pub(super) fn html(rows: &[ClaimRow]) -> String {
    let mut text = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta \
         http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'\"><meta name=\"viewport\" content=\"width=device-width\"><title>Claims \
         of papers</title><style>{STYLE}</style></head><body><h1>Claims of papers, \
         simulated</h1><p>{}</p>",
        total(rows)
    );
    for paper in rows.chunk_by(|a, b| a.paper == b.paper) {
        text += &format!("<h2>{}</h2><p>{}</p>", escaped(paper[0].paper), escaped(paper[0].title));
        let head = HEAD[1..].iter().map(|h| format!("<th>{h}</th>")).collect::<String>();
        text += &format!("<table><thead><tr>{head}</tr></thead><tbody>");
        for row in paper {
            let verdict = row.verdict();
            let cell = |text: &&str| match *text {
                text if text == verdict => format!("<td class=\"{verdict}\">{verdict}</td>"),
                text => format!("<td>{}</td>", escaped(text)),
            };
            text += &format!("<tr>{}</tr>", row.cells()[1..].iter().map(cell).collect::<String>());
        }
        text += "</tbody></table>";
    }
    text + "</body></html>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_every_claim() {
        let row = |claim, agrees| ClaimRow {
            paper: "p",
            title: "A <paper>",
            section: "4.2",
            claim,
            theirs: "2 | 3",
            ours: "2, 4".to_owned(),
            agrees,
            reason: if agrees { "" } else { "it is larger" },
        };
        let rows = [row("writes less", true), row("reads \"more\"", false)];
        assert_eq!(
            csv(&rows).unwrap().lines().last(),
            Some("p,4.2,\"reads \"\"more\"\"\",2 | 3,\"2, 4\",differs,it is larger")
        );
        let text = markdown(&rows);
        assert!(text.contains("| p | 4.2 | writes less | 2 \\| 3 | 2, 4 | agrees |  |"), "{text}");
        assert!(text.ends_with("1 of 2 claims agree.\n"));
        let page = html(&rows);
        assert!(page.contains("A &lt;paper&gt;") && page.contains("<td class=\"differs\">"));
        assert_eq!(
            (page.matches("<tr>").count(), json(&rows).as_array().map(Vec::len)),
            (3, Some(2))
        );
    }
}

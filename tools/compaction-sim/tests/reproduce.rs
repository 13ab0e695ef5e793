//! The claims of papers: each agrees, or is known not to, with the reason. Each case is a command
//! line that a reader can run.

use clap::Parser;
use compaction_sim::cli::SimCli;
use compaction_sim::cli::commands::execute;
use compaction_sim::reproduce::PAPERS;

#[test]
fn papers_come_out_as_they_are_known_to() {
    for paper in PAPERS {
        let found = paper.reproduce().unwrap();
        assert_eq!(found.len(), paper.claims.len());
        for (claim, f) in paper.claims.iter().zip(&found) {
            let said = if claim.differs.is_empty() { "agrees" } else { "differs" };
            assert!(f.known, "{}: \"{}\" {said} no more: {}", paper.name, claim.text, f.ours);
            // Zero has no sign, and nothing is undefined.
            let mut words = f.ours.split([' ', '[', ']', ',']);
            let is_odd = |w: &str| {
                w.contains("NaN") || w.contains("inf") || w.parse() == Ok(0.0) && w.starts_with('-')
            };
            assert!(!words.any(is_odd), "{}: {}", paper.name, f.ours);
        }
        for (name, case) in paper.cases {
            let line = paper.command(case);
            assert!(SimCli::try_parse_from(line.split_whitespace()).is_ok(), "{name}: {line}");
        }
    }
}

#[test]
fn a_paper_is_printed_as_text_and_as_json() {
    let print = |args: &[&str]| {
        let cli = SimCli::try_parse_from([&["compaction-sim"], args].concat()).unwrap();
        let mut out = vec![];
        execute(&cli, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let text = print(&["reproduce", "lethe"]);
    assert!(text.contains("agrees    Every delete is persistent by the threshold (4.1)"), "{text}");
    assert!(text.contains("  because "), "{text}");
    assert!(text.contains("  ours    ") && text.contains(" against "), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&print(&["reproduce", "lethe", "--json"])).unwrap();
    let rows = json.as_array().unwrap();
    assert_eq!(rows.len(), PAPERS.iter().find(|p| p.name == "lethe").unwrap().claims.len());
    assert!(rows.iter().all(|r| r["paper"] == "lethe" && r["agrees"].is_boolean()));
}

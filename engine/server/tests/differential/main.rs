//! The same random statements before two who answer them: a client must see the same.
//!
//! Without more, a session in this process and a server are compared, which shows that the server
//! adds nothing and loses nothing. With `FIRN_CASSANDRA=127.0.0.1:9042` Firn's server is compared
//! with the server of Cassandra 5.0 that listens there, in keyspaces `firn_diff_…`.
//! `FIRN_DIFF_STATEMENTS` says how many statements, `FIRN_DIFF_SEED` which seed is the first. What
//! differs is shrunk (with as many tries as `FIRN_DIFF_TRIES` says), and stands in a file which
//! `FIRN_DIFF_SCRIPT=FILE` plays again. Differences that are allowed stand in `allowed.txt` with
//! their reasons. Texts of errors are compared where `FIRN_DIFF_WORDS` is set; their classes always
//! are.

#![allow(clippy::disallowed_methods, reason = "it writes reports, and nothing of a store")]

mod changes;
mod compare;
mod draft;
mod history;
mod schema;
mod selects;
mod sides;
mod statement;
mod types;

use std::collections::BTreeSet;
use std::path::PathBuf;

use compare::{Allowance, allowances, is_same, parts_ways, shown, signature};
use firn_server::{Options, Server};
use firn_testkit::shrink::shrink;
use history::draw_history;
use sides::{Answered, DiffAnswer, Side};
use statement::DiffStatement;

/// How many statements a history has behind its definitions.
const LENGTH: usize = 200;
/// How many shorter histories are tried.
const TRIES: usize = 90;

/// Of the keyspaces.
const REPLICATION: &str = "{'class': 'SimpleStrategy', 'replication_factor': 1}";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Something that differs: the statement, and both answers.
#[derive(Clone)]
struct Difference {
    statement: DiffStatement,
    here: Answered,
    there: Answered,
}

impl Difference {
    fn signature(&self) -> String {
        signature(&self.statement, &self.here, &self.there)
    }
}

/// Two who are compared.
struct Pair {
    here: Side,
    there: Side,
    allowed: Vec<Allowance>,
    /// How many keyspaces have been made.
    keyspaces: usize,
    /// How many statements were answered.
    asked: usize,
    /// How many of those by both with anything but an error.
    sound: usize,
    prefix: &'static str,
    /// Whether texts of errors are compared.
    words: bool,
}

impl Pair {
    /// Plays a history in a keyspace of its own, and gives what differs and is not allowed. It ends
    /// where the data might not be the same any more.
    fn play(&mut self, history: &[DiffStatement]) -> Vec<Difference> {
        self.keyspaces += 1;
        let keyspace = format!("{}{}", self.prefix, self.keyspaces);
        for side in [&mut self.here, &mut self.there] {
            side.must(&format!("DROP KEYSPACE IF EXISTS {keyspace}"));
            side.must(&format!("CREATE KEYSPACE {keyspace} WITH replication = {REPLICATION}"));
            side.must(&format!("USE {keyspace}"));
        }
        let mut found = vec![];
        for statement in history {
            let here = self.here.answer(statement);
            let there = self.there.answer(statement);
            self.asked += 1;
            let refused = |a: &Answered| matches!(a.answer, DiffAnswer::Refused { .. });
            self.sound += usize::from(!refused(&here) && !refused(&there));
            if let Some(index) = statement.cql.strip_prefix("CREATE INDEX ")
                && let Some((index, _)) = index.split_once(' ')
                && !refused(&there)
            {
                self.there.await_index(&keyspace, index);
            }
            if is_same(&here, &there, self.words) {
                continue;
            }
            let ends = parts_ways(statement, &here, &there);
            if !self.allowed.iter().any(|a| a.allows(statement, &here, &there)) {
                found.push(Difference { statement: statement.clone(), here, there });
            }
            if ends {
                break;
            }
        }
        for side in [&mut self.here, &mut self.there] {
            side.must(&format!("DROP KEYSPACE {keyspace}"));
        }
        found
    }

    /// Plays histories from this seed on until so many statements were answered; the reports of what
    /// differs, one of each kind.
    fn compare(&mut self, seed: u64, statements: usize) -> Vec<String> {
        let (mut known, mut reports) = (BTreeSet::new(), vec![]);
        let mut counted = 0;
        for seed in seed.. {
            if counted >= statements {
                break;
            }
            let history = draw_history(seed, LENGTH);
            let before = self.asked;
            let found = self.play(&history);
            counted += self.asked - before;
            for difference in found {
                let kind = difference.signature();
                if known.insert(kind.clone()) {
                    let (here, there) = (shown(&difference.here), shown(&difference.there));
                    println!("seed {seed}: {}", difference.statement.line());
                    println!("  here:  {here}\n  there: {there}");
                    if difference.here.markers != difference.there.markers {
                        println!("  markers here:  {:?}", difference.here.markers);
                        println!("  markers there: {:?}", difference.there.markers);
                    }
                    reports.push(self.report(seed, &history, &difference, &kind));
                }
            }
        }
        reports
    }

    /// Makes the history shorter, keeps it in a file, and tells of it.
    fn report(
        &mut self,
        seed: u64,
        history: &[DiffStatement],
        found: &Difference,
        kind: &str,
    ) -> String {
        let at = history.iter().position(|s| *s == found.statement).unwrap_or(history.len() - 1);
        let mut last = found.clone();
        let tries = number("FIRN_DIFF_TRIES").map_or(TRIES, |n| n as usize);
        let short = shrink(history[..=at].to_vec(), tries, |history| {
            let found = self.play(history).into_iter().find(|d| d.signature() == kind);
            let fails = found.is_some();
            last = found.unwrap_or_else(|| last.clone());
            fails
        });
        let lines: Vec<_> = short.iter().map(DiffStatement::line).collect();
        let hash = kind.bytes().fold(seed, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b)));
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("differs-{hash:016x}"));
        let _ = std::fs::write(&file, lines.join("\n"));
        let mut report = format!("seed {seed}, {}: {kind}\n", file.display());
        for statement in short.iter().take(30) {
            report.push_str(&format!("    {}\n", statement.line()));
        }
        if last.here.markers != last.there.markers {
            report.push_str(&format!("  here:  {:?}\n", last.here.markers));
            report.push_str(&format!("  there: {:?}\n", last.there.markers));
        }
        report.push_str(&format!("  here:  {}\n", shown(&last.here)));
        report.push_str(&format!("  there: {}\n", shown(&last.there)));
        println!("{report}");
        report
    }

    /// Compares as many statements as the variables say, or this many, and tells what was found.
    fn compare_many(&mut self, statements: usize) {
        if let Ok(file) = std::env::var("FIRN_DIFF_SCRIPT") {
            let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
            let history: Vec<_> = text.lines().filter_map(DiffStatement::read).collect();
            for d in self.play(&history) {
                let (here, there) = (shown(&d.here), shown(&d.there));
                println!("{}\n  here:  {here}\n  there: {there}", d.statement.line());
            }
            return;
        }
        let statements = number("FIRN_DIFF_STATEMENTS").map_or(statements, |n| n as usize);
        let reports = self.compare(number("FIRN_DIFF_SEED").unwrap_or(1), statements);
        println!("{} statements, {} without an error", self.asked, self.sound);
        assert!(reports.is_empty(), "{} kinds of differences, see above", reports.len());
        assert!(self.sound * 2 > self.asked, "most statements are wrong");
    }
}

#[test]
fn a_session_and_a_server_answer_the_same() {
    let alone = Server::start(Options::ephemeral()).unwrap();
    let server = Server::start(Options::ephemeral()).unwrap();
    let mut pair = Pair {
        here: Side::Session(alone.session()),
        there: Side::connect(&server.address().to_string()),
        allowed: vec![],
        keyspaces: 0,
        asked: 0,
        sound: 0,
        prefix: "firn_same_",
        words: true,
    };
    pair.compare_many(1_000);
}

#[test]
fn cassandra_answers_the_same() {
    let Ok(address) = std::env::var("FIRN_CASSANDRA") else {
        println!("passed over: FIRN_CASSANDRA names no server");
        return;
    };
    let server = Server::start(Options::ephemeral()).unwrap();
    let mut pair = Pair {
        here: Side::connect(&server.address().to_string()),
        there: Side::connect(&address),
        allowed: allowances(include_str!("allowed.txt")),
        keyspaces: 0,
        asked: 0,
        sound: 0,
        prefix: "firn_diff_",
        words: std::env::var_os("FIRN_DIFF_WORDS").is_some(),
    };
    pair.compare_many(2_000);
}

/// What stands in a file is what was played.
#[test]
fn a_history_is_read_as_it_was_written() {
    for seed in 0..20 {
        for statement in draw_history(seed, 100) {
            assert_eq!(DiffStatement::read(&statement.line()), Some(statement));
        }
    }
}

//! Runs the same random statements on two sides: a client must see the same.
//!
//! By default it compares a session in this process with a server, which shows that the server
//! neither adds nor loses anything. With `FIRN_CASSANDRA=127.0.0.1:9042` it compares Firn's server
//! with the Cassandra 5.0 server at that address, in keyspaces `firn_diff_…`.
//! `FIRN_DIFF_STATEMENTS` is the number of statements, `FIRN_DIFF_SEED` the first seed,
//! `FIRN_DIFF_THREADS` the number of parallel histories. A difference is shrunk (with at most
//! `FIRN_DIFF_TRIES` tries) and written to a file, which `FIRN_DIFF_SCRIPT=FILE` replays.
//! `allowed.txt` has the allowed differences with their reasons. Error texts are compared if
//! `FIRN_DIFF_WORDS` is set; error classes always.

#![allow(clippy::disallowed_methods, reason = "it writes reports, and nothing of a store")]

mod changes;
mod compare;
mod draft;
mod functions;
mod history;
mod schema;
mod selects;
mod sides;
mod statement;
mod types;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use compare::{Allowance, allowances, is_same, parts_ways, shown, signature};
use firn_server::{Options, Server};
use firn_testkit::shrink::shrink;
use history::draw_history;
use sides::{Answered, DiffAnswer, Side};
use statement::DiffStatement;

/// Maximum number of shorter histories to try.
const TRIES: usize = 40;
/// Maximum reported differences of one history: later ones mostly have the same cause.
const FOUND: usize = 3;
/// Maximum statements in a report: the last ones.
const SHOWN: usize = 12;

/// Replication of the keyspaces.
const REPLICATION: &str = "{'class': 'SimpleStrategy', 'replication_factor': 1}";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// A difference: the statement, and both answers.
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

    /// Formats both answers in lines.
    fn answers(&self) -> String {
        let (here, there) = (shown(&self.here), shown(&self.there));
        let answers = format!("  here:  {here}\n  there: {there}\n");
        let markers = match self.here.markers == self.there.markers {
            true => String::new(),
            false => {
                format!("  here:  {:?}\n  there: {:?}\n", self.here.markers, self.there.markers)
            }
        };
        markers + answers.as_str()
    }
}

/// A comparison, shared by all threads.
struct Comparison<'a> {
    /// Creates the two sides.
    pair: &'a (dyn Fn() -> [Side; 2] + Sync),
    allowed: Vec<Allowance>,
    /// Number of statements of a history after its definitions: a server with a disk is slow at
    /// those.
    length: usize,
    prefix: &'static str,
    /// Whether error texts are compared.
    words: bool,
    /// Whether the other side has functions in Java.
    java: bool,
    /// Number of created keyspaces.
    keyspaces: AtomicUsize,
    /// Number of answered statements of drawn histories.
    asked: AtomicUsize,
    /// Number of those without an error on both sides.
    sound: AtomicUsize,
    /// Number of statements that the other side alone answered differently the second time.
    fickle: AtomicUsize,
    /// Groups of differences that have a report.
    known: Mutex<BTreeSet<String>>,
}

/// Result of a history.
#[derive(Default)]
struct Played {
    asked: usize,
    sound: usize,
    /// Differences that are not allowed.
    found: Vec<Difference>,
}

impl<'a> Comparison<'a> {
    fn new(pair: &'a (dyn Fn() -> [Side; 2] + Sync), prefix: &'static str) -> Comparison<'a> {
        Comparison {
            pair,
            allowed: vec![],
            length: 200,
            prefix,
            words: true,
            java: false,
            keyspaces: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            sound: AtomicUsize::new(0),
            fickle: AtomicUsize::new(0),
            known: Mutex::new(BTreeSet::new()),
        }
    }

    /// Plays a history in its own keyspace. It ends when the data may differ, and after enough
    /// differences.
    fn play(&self, [one, other]: &mut [Side; 2], history: &[DiffStatement]) -> Played {
        let keyspace = self.keyspaces.fetch_add(1, Ordering::Relaxed) + 1;
        let keyspace = format!("{}{keyspace}", self.prefix);
        for side in [&mut *one, &mut *other] {
            side.must(&format!("DROP KEYSPACE IF EXISTS {keyspace}"));
            side.must(&format!("CREATE KEYSPACE {keyspace} WITH replication = {REPLICATION}"));
            side.must(&format!("USE {keyspace}"));
        }
        let mut played = Played::default();
        for statement in history {
            let here = one.answer(statement);
            let there = match self.java {
                true => other.answer(&statement.in_java()),
                false => other.answer(statement),
            };
            played.asked += 1;
            let refused = |a: &Answered| matches!(a.answer, DiffAnswer::Refused { .. });
            played.sound += usize::from(!refused(&here) && !refused(&there));
            if let Some(index) = statement.index()
                && !refused(&there)
            {
                other.await_index(&keyspace, index);
            }
            if is_same(statement, &here, &there, self.words) {
                continue;
            }
            // Under load Cassandra sometimes ends a scan too early.
            if statement.asks() && is_same(statement, &here, &other.answer(statement), self.words) {
                self.fickle.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let ends = parts_ways(statement, &here, &there);
            if !self.allowed.iter().any(|a| a.allows(statement, &here, &there)) {
                played.found.push(Difference { statement: statement.clone(), here, there });
            }
            if ends || played.found.len() == FOUND {
                break;
            }
        }
        for side in [one, other] {
            side.must(&format!("DROP KEYSPACE {keyspace}"));
        }
        played
    }

    /// Plays histories of increasing seeds until this many statements were answered. Returns
    /// reports of the differences, one of each group.
    fn compare(&self, seeds: &AtomicU64, statements: usize) -> Vec<String> {
        let mut pair = (self.pair)();
        let mut reports = vec![];
        while self.asked.load(Ordering::Relaxed) < statements {
            let seed = seeds.fetch_add(1, Ordering::Relaxed);
            let history = draw_history(seed, self.length);
            let played = self.play(&mut pair, &history);
            self.asked.fetch_add(played.asked, Ordering::Relaxed);
            self.sound.fetch_add(played.sound, Ordering::Relaxed);
            for difference in played.found {
                let kind = difference.signature();
                if self.known.lock().unwrap().insert(kind.clone()) {
                    reports.push(self.report(&mut pair, seed, &history, &difference, &kind));
                }
            }
        }
        reports
    }

    /// Shrinks the history, writes it to a file, and reports it.
    fn report(
        &self,
        pair: &mut [Side; 2],
        seed: u64,
        history: &[DiffStatement],
        found: &Difference,
        kind: &str,
    ) -> String {
        let at = history.iter().position(|s| *s == found.statement).unwrap_or(history.len() - 1);
        // Earlier reads have no effect.
        let before = history[..at].iter().filter(|s| !s.asks());
        let history = before.chain([&history[at]]).cloned().collect();
        let mut last = found.clone();
        let tries = number("FIRN_DIFF_TRIES").map_or(TRIES, |n| n as usize);
        let short = shrink(history, tries, |history| {
            let found = self.play(pair, history).found;
            let found = found.into_iter().find(|d| d.signature() == kind);
            let fails = found.is_some();
            last = found.unwrap_or_else(|| last.clone());
            fails
        });
        let lines: Vec<_> = short.iter().map(DiffStatement::line).collect();
        let hash = kind.bytes().fold(seed, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b)));
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("differs-{hash:016x}"));
        let _ = std::fs::write(&file, lines.join("\n"));
        let mut report = format!("seed {seed}, {}: {kind}\n", file.display());
        for line in &lines[lines.len().saturating_sub(SHOWN)..] {
            report.push_str(&format!("    {line}\n"));
        }
        report.push_str(&last.answers());
        println!("{report}");
        report
    }

    /// Compares this many statements, unless the variables have another number, and prints the
    /// result.
    fn compare_many(&self, statements: usize) {
        if let Ok(file) = std::env::var("FIRN_DIFF_SCRIPT") {
            let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
            let history: Vec<_> = text.lines().filter_map(DiffStatement::read).collect();
            for d in self.play(&mut (self.pair)(), &history).found {
                println!("{}\n{}", d.statement.line(), d.answers());
            }
            return;
        }
        let statements = number("FIRN_DIFF_STATEMENTS").map_or(statements, |n| n as usize);
        let threads = number("FIRN_DIFF_THREADS").unwrap_or(1);
        let seeds = AtomicU64::new(number("FIRN_DIFF_SEED").unwrap_or(1));
        let reports = thread::scope(|scope| {
            let compare = || self.compare(&seeds, statements);
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(compare)).collect();
            all.into_iter().flat_map(|thread| thread.join().unwrap()).count()
        });
        let (asked, sound) =
            (self.asked.load(Ordering::Relaxed), self.sound.load(Ordering::Relaxed));
        let fickle = self.fickle.load(Ordering::Relaxed);
        self.allowed.iter().for_each(|a| println!("{}", a.tally()));
        println!("{asked} statements, {sound} without an error, {fickle} answered otherwise again");
        assert!(reports == 0, "{reports} kinds of differences, see above");
        assert!(sound * 2 > asked, "most statements are wrong");
    }
}

#[test]
fn a_session_and_a_server_answer_the_same() {
    let alone = Server::start(Options::ephemeral()).unwrap();
    let server = Server::start(Options::ephemeral()).unwrap();
    let address = server.address().to_string();
    let pair = || [Side::Session(alone.session()), Side::connect(&address)];
    Comparison::new(&pair, "firn_same_").compare_many(1_000);
}

#[test]
fn cassandra_answers_the_same() {
    let Ok(there) = std::env::var("FIRN_CASSANDRA") else {
        println!("passed over: FIRN_CASSANDRA names no server");
        return;
    };
    let server = Server::start(Options::ephemeral()).unwrap();
    let here = server.address().to_string();
    let pair = || [&here, &there].map(|address| Side::connect(address));
    let comparison = Comparison {
        allowed: allowances(include_str!("allowed.txt")),
        length: 1_000,
        words: std::env::var_os("FIRN_DIFF_WORDS").is_some(),
        java: true,
        ..Comparison::new(&pair, "firn_diff_")
    };
    comparison.compare_many(2_000);
}

/// A written history can be replayed.
#[test]
fn a_history_is_read_as_it_was_written() {
    for seed in 0..20 {
        for statement in draw_history(seed, 100) {
            assert_eq!(DiffStatement::read(&statement.line()), Some(statement));
        }
    }
}

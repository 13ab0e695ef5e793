//! Sessions of cassandra-cli's language with a store: the recorded transcript of the real command,
//! statement by statement, and sessions as text files in `cli_sessions/`.

#![allow(clippy::disallowed_methods)]

use super::transcript;

use std::fmt::Write as _;
use std::sync::Arc;

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_testkit::datadriven::{files, walk};
use firn_wide::{Options, Wide};
use firn_wide_text::cli::{CliAnswer, CliSession, CliSource, split};
use proptest::prelude::*;
use transcript::exchanges;

fn session(strict: bool) -> CliSession {
    let env: Arc<dyn Env> = Arc::new(MemEnv::new(1));
    let options =
        Options { partitioner: Some("ByteOrderedPartitioner".to_owned()), ..Options::default() };
    let wide = Wide::open_in(env.clone(), "/store", options).unwrap();
    CliSession::new(wide, env, strict)
}

/// Returns the output for the user; parts that vary from run to run are masked as in the
/// transcript.
fn shown(session: &CliSession, answer: &CliAnswer) -> String {
    let mut text = answer.text.clone();
    if let Some(failure) = &answer.failure {
        writeln!(text, "{}", session.say(failure)).unwrap();
    }
    mask(&text)
}

fn mask(text: &str) -> String {
    let lines = text.lines().map(|line| {
        if uuid::Uuid::parse_str(line).is_ok() {
            return "<schema-id>".to_owned();
        }
        let line = digits_after(line, "timestamp=", "<us>");
        digits_after(&line, "Elapsed time: ", "<n>")
    });
    lines.fold(String::new(), |all, line| all + &line + "\n")
}

/// Replaces the digits that follow `before`.
fn digits_after(line: &str, before: &str, by: &str) -> String {
    let Some((head, tail)) = line.split_once(before) else { return line.to_owned() };
    let rest = tail.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == tail.len() { line.to_owned() } else { format!("{head}{before}{by}{rest}") }
}

/// Returns the lines of `show schema`, with the columns of each family sorted: the server 1.1.12
/// printed them in hash table order.
fn columns_in_order(text: &str) -> String {
    let mut out = String::new();
    for family in text.split(";\n\n") {
        let mut parts: Vec<&str> = family.split("    {").collect();
        let tail =
            parts.last().and_then(|last| last.split_once("}]")).map(|(_, tail)| tail.to_owned());
        let columns = parts.split_off(1);
        let mut columns: Vec<&str> =
            columns.iter().map(|c| c.split_once('}').map_or(*c, |(column, _)| column)).collect();
        columns.sort_unstable();
        writeln!(out, "{}{columns:?}{}", parts[0], tail.unwrap_or_default()).unwrap();
    }
    out
}

/// Intended differences: the number of the exchange, its statement, Firn's answer.
const KEPT: [(usize, &str, &str); 1] = [
    // Deleting counters removes them from the store, so a list does not show a row of deleted
    // counters.
    (
        84,
        "list song_data;",
        "Using default limit of 100\nUsing default column limit of 100\n\n0 Row Returned.\nElapsed time: <n> msec(s).\n",
    ),
];

#[test]
fn the_recorded_transcript_is_answered_alike() {
    let mut session = session(true);
    let (mut differences, mut alike) = (String::new(), 0);
    for (number, (prompt, statement, recorded)) in exchanges().into_iter().enumerate() {
        assert_eq!(session.prompt(), prompt, "{statement}");
        let answer = session.run(&CliSource::new(statement.clone()));
        let answered = shown(&session, &answer);
        let kept = KEPT.iter().find(|(n, ..)| *n == number);
        let same = if let Some((_, ours, answer)) = kept {
            assert_eq!(
                (&statement[..], &answered[..], answered == recorded),
                (*ours, *answer, false)
            );
            true
        } else if statement.starts_with("show schema") {
            columns_in_order(&answered) == columns_in_order(&recorded)
        } else {
            answered == recorded
        };
        if same {
            alike += 1;
        } else {
            writeln!(
                differences,
                "{number}: {statement}\n--- recorded\n{recorded}--- answered\n{answered}"
            )
            .unwrap();
        }
    }
    assert!(differences.is_empty(), "{alike} alike; these differ:\n{differences}");
    assert_eq!(alike, 178);
}

#[test]
fn conversations() {
    for file in files(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli_sessions").as_ref()) {
        let (mut lenient, mut strict) = (session(false), session(true));
        walk(&file, |case| {
            let session = match case.directive.as_str() {
                "lenient" => &mut lenient,
                "strict" => &mut strict,
                other => panic!("{}:{}: no directive {other}", file.display(), case.line),
            };
            split::split(&case.input).iter().fold(String::new(), |all, source| {
                let answer = session.run(source);
                let mark = if answer.failure.is_some() { "refused: " } else { "" };
                all + mark + &shown(session, &answer)
            })
        });
    }
}

#[test]
fn fresh_values_are_fresh() {
    let mut session = session(false);
    done(&mut session, "create keyspace K;");
    done(&mut session, "use K;");
    done(
        &mut session,
        "create column family log with comparator = TimeUUIDType and default_validation_class = UTF8Type;",
    );
    for i in 0..50 {
        done(&mut session, &format!("set log[k][timeuuid()] = '{i}';"));
        done(&mut session, &format!("set log[k][now] = '{i}';"));
    }
    assert_eq!(done(&mut session, "count log[k];"), "100 columns\n");
    // In time order, so in writing order.
    let values: Vec<String> = done(&mut session, "get log[k];")
        .lines()
        .filter_map(|l| Some(l.split_once("value=")?.1.split_once(',')?.0.to_owned()))
        .collect();
    let written: Vec<String> = (0..50).flat_map(|i| [i.to_string(), i.to_string()]).collect();
    assert_eq!(values, written);
    done(&mut session, "create column family u with comparator = LexicalUUIDType;");
    for _ in 0..50 {
        done(&mut session, "set u[k][lexicaluuid()] = bytes();");
    }
    assert_eq!(done(&mut session, "count u[k];"), "50 columns\n");
}

#[test]
fn completion_knows_the_schema() {
    let mut session = session(false);
    for statement in [
        "create keyspace K;",
        "use K;",
        "create column family users with column_metadata=[{column_name: name}];",
    ] {
        done(&mut session, statement);
    }
    let names = session.names();
    assert_eq!(
        (&names.keyspaces[..], &names.families[..]),
        (&["K".to_owned()][..], &[("users".to_owned(), vec!["name".to_owned()])][..])
    );
}

/// Runs a statement that must succeed.
fn done(session: &mut CliSession, statement: &str) -> String {
    let answer = session.run(&CliSource::new(statement));
    assert_eq!(answer.failure, None, "{statement}");
    answer.text
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// In lenient mode, bytes are shown as a text that reads back as these bytes.
    #[test]
    fn bytes_that_are_shown_can_be_written(name in prop_oneof![
        prop::collection::vec(any::<u8>(), 1..9),
        "[a-f0-9]{1,8}".prop_map(String::into_bytes),
        "\\PC{1,6}".prop_map(String::into_bytes),
    ]) {
        let mut session = session(false);
        for statement in ["create keyspace K;", "use K;", "create column family Raw;"] {
            done(&mut session, statement);
        }
        done(&mut session, &format!("set Raw[k][bytes('{}')] = 'v';", hexadecimal(&name)));
        let got = done(&mut session, "get Raw[k];");
        let shown = got.strip_prefix("=> (column=").and_then(|s| s.rsplit_once(", value=")).unwrap().0;
        let quoted = shown.replace('\\', "\\\\").replace('\'', "\\'");
        let again = done(&mut session, &format!("get Raw['k']['{quoted}'];"));
        prop_assert!(again.starts_with(&format!("=> (column={shown}, value=")), "{shown}: {again}");
    }

    /// Recorded statements in any order, with exchanged words, get an answer in both modes.
    #[test]
    fn statements_in_disorder_are_answered(
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4u8), 1..40),
        strict in any::<bool>(),
    ) {
        let statements: Vec<String> = exchanges().into_iter().map(|(_, statement, _)| statement).collect();
        let mut session = session(strict);
        for statement in &statements[..9] {
            session.run(&CliSource::new(statement.clone()));
        }
        for (one, other, place, exchanged) in picks {
            let mut words: Vec<&str> = one.get(&statements).split(' ').collect();
            let others: Vec<&str> = other.get(&statements).split(' ').collect();
            if exchanged == 0 {
                let at = place.index(words.len());
                words[at] = others[place.index(others.len())];
            }
            let statement = words.join(" ");
            let answer = session.run(&CliSource::new(statement.clone()));
            prop_assert!(answer.text.is_empty() || answer.text.ends_with('\n'), "{statement}");
            if let Some(failure) = answer.failure {
                prop_assert!(!failure.plain.is_empty() && !failure.historical.is_empty(), "{statement}");
            }
        }
    }
}

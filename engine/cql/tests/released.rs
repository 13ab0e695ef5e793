//! Replays answers of a released server byte for byte: statements with bound bytes, executed
//! through a session. `vectors/README.md` describes `vectors/cql-5.0.jsonl`. Accepted differences
//! are listed with their reasons in `vectors/differences-5.0.txt`; a listed difference that does
//! not occur is an error.

use super::common;

use std::sync::Arc;

use firn_cql::internals::values::literal;
use firn_cql::{BoundValue, Result, ResultKind, Rows, RunOptions, Session, TombstoneLimits};
use firn_kv::MemEnv;
use firn_wide::internals::types::hex_to_bytes;
use firn_wide::{ManualClock, Options, StoreOptions, Wide};
use serde_json::Value as Json;

use common::{differences, ours};

/// The role of the recordings, which may do everything: here no role is logged in for it.
const SUPERUSER: &str = "cassandra";
const DIFFERENCES: &str = include_str!("vectors/differences-5.0.txt");

fn open(env: &MemEnv, clock: &Arc<ManualClock>, partitioner: &str) -> Session {
    let store = StoreOptions { clock: Some(clock.clone()), ..Default::default() };
    let options =
        Options { partitioner: Some(partitioner.to_owned()), store, ..Options::default() };
    Session::new(Wide::open_in(Arc::new(env.clone()), "db", options).unwrap()).unwrap()
}

fn bound(param: &Json) -> BoundValue {
    match param {
        Json::Null => BoundValue::Null,
        Json::String(text) if text == "(unset)" => BoundValue::Unset,
        Json::String(hex) => BoundValue::Bytes(hex_to_bytes(hex).unwrap()),
        other => panic!("{other} is never bound"),
    }
}

fn ask(
    session: &Session,
    line: &Json,
    tombstone_limits: Option<TombstoneLimits>,
) -> Result<Vec<Rows>> {
    let statement = line["stmt"].as_str().unwrap();
    let page_size = line["page_size"].as_u64().map(|n| n as usize);
    let mut how = RunOptions { page_size, tombstone_limits, ..RunOptions::default() };
    let mut pages = vec![];
    loop {
        let page = match line["params"].as_array() {
            Some(params) => session.run(
                &session.prepare(statement)?,
                params.iter().map(bound).collect::<Vec<_>>(),
                &how,
            )?,
            None => session.execute_with(statement, (), &how)?,
        };
        how.paging = page.paging().cloned();
        pages.push(page);
        if how.paging.is_none() {
            return Ok(pages);
        }
        assert!(pages.len() < 10_000, "{statement}: pages without end");
    }
}

fn theirs(line: &Json) -> Json {
    let mut out = line.clone();
    for asked in ["stmt", "params", "page_size"] {
        out.as_object_mut().unwrap().remove(asked);
    }
    out
}

/// The texts of syntax errors differ between parsers; an error for which the driver has a class has
/// no code in the file.
fn same(theirs: &Json, ours: &Json) -> bool {
    let error = |answer: &Json, field: &str| answer["error"][field].as_str().map(str::to_owned);
    match error(theirs, "class").as_deref() {
        Some("SyntaxException") => error(ours, "code").as_deref() == Some("0x2000"),
        Some("AlreadyExists") => error(ours, "code").as_deref() == Some("0x2400"),
        Some(other) => panic!("the class {other} is not known"),
        // The texts of failed functions differ.
        None => {
            // Functions with one name are listed in no order.
            let front = |answer: &Json| {
                let text = error(answer, "message")?;
                text.split_once("following signatures: ").map(|(front, _)| front.to_owned())
            };
            theirs == ours
                || front(theirs).is_some() && front(theirs) == front(ours)
                || [theirs, ours].into_iter().all(|e| error(e, "code").as_deref() == Some("0x1400"))
        }
    }
}

/// Formats an answer for people.
fn shown(answer: &Json, pages: &Result<Vec<Rows>>) -> String {
    match pages {
        Ok(pages) if *pages[0].kind() == ResultKind::Rows => {
            let row = |row: firn_cql::Row<'_>| {
                let value = |(i, c): (usize, &firn_cql::ColumnSpec)| {
                    literal(&c.column_type.value_type, row.bytes(i))
                };
                row.columns().iter().enumerate().map(value).collect::<Vec<_>>().join(" | ")
            };
            format!(
                "{answer}\n        {}",
                pages.iter().flat_map(Rows::iter).map(row).collect::<Vec<_>>().join("\n        ")
            )
        }
        _ => answer.to_string(),
    }
}

/// Returns the statement and its bound values.
fn asked(line: &Json) -> String {
    let statement = line["stmt"].as_str().unwrap();
    if line["params"].is_null() {
        statement.to_owned()
    } else {
        format!("{statement} {}", line["params"])
    }
}

/// Replays the file; `rough`: at headings all tables are compacted and the database is reopened.
fn replay(recorded: &str, differing: &str, partitioner: &str, rough: bool) {
    let (env, clock) = (MemEnv::new(11), Arc::new(ManualClock::new(1_763_800_000_000_000)));
    let mut session = open(&env, &clock, partitioner);
    let run = |session: &Session, text: &str| drop(session.execute(text, ()).unwrap());
    run(
        &session,
        "CREATE KEYSPACE rec WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run(&session, "USE rec");
    let known = differences(differing);
    let (mut used, mut wrong, mut section, mut count) = (vec![], vec![], String::new(), 0);
    let (mut as_role, mut limits): (Option<Session>, _) = (None, None);
    for line in recorded.lines() {
        let line: Json = serde_json::from_str(line).unwrap();
        clock.advance(1000);
        if let Some(name) = line["section"].as_str() {
            section = name.to_owned();
            as_role = None;
            if rough {
                let db = session.engine().store().db();
                db.tree_names()
                    .iter()
                    .for_each(|tree| db.existing_tree(tree).unwrap().compact().unwrap());
                drop(session);
                session = open(&env, &clock, partitioner);
                run(&session, "USE rec");
            }
            continue;
        }
        if let Some(millis) = line["sleep_ms"].as_i64() {
            clock.advance(millis * 1000);
            continue;
        }
        if let Some([warn, fail]) = line["tombstone_limits"].as_array().map(Vec::as_slice) {
            let number = |n: &Json| n.as_u64().unwrap();
            limits = Some(TombstoneLimits {
                warn: number(warn),
                fail: number(fail),
                ..TombstoneLimits::default()
            });
            continue;
        }
        if let Some(name) = line["role"].as_str() {
            as_role = None;
            if name != SUPERUSER {
                let own = session.clone();
                own.log_in(name, name).unwrap();
                as_role = Some(own);
            }
            continue;
        }
        count += 1;
        let answer = ask(as_role.as_ref().unwrap_or(&session), &line, limits);
        let (theirs, ours, asked) = (theirs(&line), ours(&answer), asked(&line));
        let told = ours.to_string();
        match known.get(&asked) {
            Some(answer) if *answer == told && !same(&theirs, &ours) => used.push(asked),
            Some(_) if same(&theirs, &ours) => {
                wrong.push(format!("{asked}\n  is a difference no more"))
            }
            None if same(&theirs, &ours) => {}
            _ => wrong.push(format!(
                "{asked}\n  [{section}]\n  there {theirs}\n  here  {}",
                shown(&ours, &answer)
            )),
        }
    }
    let unused: Vec<_> = known.keys().filter(|k| !used.contains(k)).collect();
    assert!(wrong.is_empty(), "{} of {count} differ\n{}", wrong.len(), wrong.join("\n"));
    assert!(unused.is_empty(), "differences that did not occur: {unused:?}");
}

/// Replays the file, with and without compactions and reopening.
fn replay_both(recorded: &str, differing: &str) {
    for rough in [false, true] {
        replay(recorded, differing, "Murmur3Partitioner", rough);
    }
}

const CQL: &str = include_str!("vectors/cql-5.0.jsonl");

#[test]
fn a_released_server_is_answered_like() {
    replay(CQL, DIFFERENCES, "Murmur3Partitioner", false);
}

#[test]
fn a_released_server_is_answered_like_after_merges_and_reopenings() {
    replay(CQL, DIFFERENCES, "Murmur3Partitioner", true);
}

/// Answers of a server that differed from ours in random statements.
#[test]
fn what_was_compared_is_answered_like() {
    let differing = include_str!("vectors/differences-compared-5.0.txt");
    replay_both(include_str!("vectors/compared-5.0.jsonl"), differing);
}

/// Answers of a server about compact tables.
#[test]
fn compact_tables_are_answered_like() {
    let differing = include_str!("vectors/differences-compact-5.0.txt");
    replay_both(include_str!("vectors/compact-5.0.jsonl"), differing);
}

/// Answers of a server about vectors.
#[test]
fn vectors_are_answered_like() {
    let differing = include_str!("vectors/differences-vector-5.0.txt");
    replay_both(include_str!("vectors/vector-5.0.jsonl"), differing);
}

/// Answers of a server about index classes: storage-attached indexes, nearest vectors, patterns in
/// texts.
#[test]
fn classes_of_indexes_are_answered_like() {
    let differing = include_str!("vectors/differences-indexes-5.0.txt");
    replay_both(include_str!("vectors/indexes-5.0.jsonl"), differing);
}

/// Answers of a server about materialized views: valid definitions, and their rows.
#[test]
fn materialized_views_are_answered_like() {
    let differing = include_str!("vectors/differences-views-5.0.txt");
    let of_rows = include_str!("vectors/differences-views-rows-5.0.txt");
    replay_both(include_str!("vectors/views-5.0.jsonl"), differing);
    replay_both(include_str!("vectors/views-rows-5.0.jsonl"), of_rows);
}

/// Answers of a server about fields added to types of keys and elements.
#[test]
fn types_that_grow_are_answered_like() {
    let differing = include_str!("vectors/differences-growing-5.0.txt");
    replay_both(include_str!("vectors/growing-5.0.jsonl"), differing);
}

/// Answers of a server about cases that were once wrong, missing or accepted here.
#[test]
fn what_was_found_once_is_answered_like() {
    let differing = include_str!("vectors/differences-findings-5.0.txt");
    replay_both(include_str!("vectors/findings-5.0.jsonl"), differing);
}

/// Answers of a server about tombstones that it read, with a warning limit of 5 and a failure limit
/// of 20.
#[test]
fn tombstones_are_warned_of_and_bounded() {
    let differing = include_str!("vectors/differences-tombstones-5.0.txt");
    replay(include_str!("vectors/tombstones-5.0.jsonl"), differing, "Murmur3Partitioner", false);
}

/// Answers of a server about exponentials and logarithms of decimals.
#[test]
fn logarithms_are_answered_like() {
    let differing = include_str!("vectors/differences-numbers-5.0.txt");
    replay(include_str!("vectors/numbers-5.0.jsonl"), differing, "Murmur3Partitioner", false);
}

/// Answers of a server about column masks, for roles with and without permission to see the values;
/// bodies of functions are equivalent ones in rhai.
#[cfg(all(feature = "passwords", feature = "rhai"))]
#[test]
fn masks_are_answered_like() {
    let differing = include_str!("vectors/differences-masks-5.0.txt");
    let recorded =
        include_str!("vectors/masks-5.0.jsonl").replace("LANGUAGE java", "LANGUAGE rhai");
    replay_both(&recorded, differing);
}

/// The same queries of tokens, answered by a server with each partitioner.
#[test]
fn tokens_are_those_of_the_partitioner() {
    let differing = include_str!("vectors/differences-tokens-5.0.txt");
    for (partitioner, recorded) in [
        ("Murmur3Partitioner", include_str!("vectors/tokens-murmur3-5.0.jsonl")),
        ("RandomPartitioner", include_str!("vectors/tokens-random-5.0.jsonl")),
        ("ByteOrderedPartitioner", include_str!("vectors/tokens-byteordered-5.0.jsonl")),
        ("OrderPreservingPartitioner", include_str!("vectors/tokens-orderpreserving-5.0.jsonl")),
    ] {
        let own = differing
            .split("== ")
            .find_map(|part| part.strip_prefix(partitioner))
            .unwrap_or_default();
        replay(recorded, own, partitioner, false);
    }
}

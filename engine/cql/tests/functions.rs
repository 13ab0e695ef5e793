//! User-defined functions and aggregates: data-driven tests in `data/functions/*.txt`, with one
//! database for each file, and answers of a server to such statements
//! (`vectors/functions-5.0.jsonl`).
//!
//! - `cql`: the statements of the input, each ended by `;`. Rows are shown as CQL literals below
//!   the names and types of their columns, a definition as the schema change that clients receive,
//!   an error with its class;
//! - `bound VALUE | VALUE | …`: one statement with these values bound to its markers, as plain
//!   texts;
//! - `reopen`: closes the database and opens it again.

use super::common;

use std::path::Path;
use std::sync::Arc;

use firn_cql::internals::values::{from_plain, literal};
use firn_cql::{BoundValue, Error, ResultKind, Rows, RunOptions, Script, Session, Value};
use firn_kv::MemEnv;
use firn_testkit::datadriven::{Case, files, walk};
use firn_wide::{Options, Wide};
use serde_json::{Value as Json, json};

use common::type_name;

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

struct World {
    env: MemEnv,
    session: Option<Session>,
}

fn open(env: &MemEnv) -> Session {
    let wide = Wide::open_in(Arc::new(env.clone()), "db", Options::default()).unwrap();
    let session = Session::new(wide).unwrap();
    if session.execute("USE ks", ()).is_err() {
        session.execute(KEYSPACE, ()).unwrap();
        session.execute("USE ks", ()).unwrap();
    }
    session
}

fn shown(answer: firn_cql::Result<Rows>) -> String {
    let rows = match answer {
        Ok(rows) => rows,
        Err(e) => return format!("{}: {e}", e.class().name()),
    };
    match rows.kind() {
        ResultKind::Rows => {
            let column = |c: &firn_cql::ColumnSpec| format!("{} {}", c.name, c.column_type);
            let all = rows.columns();
            let mut lines = vec![all.iter().map(column).collect::<Vec<_>>().join(" | ")];
            lines.extend(rows.iter().map(|row| {
                let each = all
                    .iter()
                    .enumerate()
                    .map(|(i, c)| literal(&c.column_type.value_type, row.bytes(i)));
                each.collect::<Vec<_>>().join(" | ")
            }));
            lines.join("\n")
        }
        ResultKind::Schema(change) => format!(
            "{} {} {}.{}({})",
            change.change,
            change.target,
            change.keyspace,
            change.name.as_deref().unwrap_or_default(),
            change.arguments.join(", ")
        ),
        _ => "ok".into(),
    }
}

impl World {
    fn session(&self) -> &Session {
        self.session.as_ref().unwrap()
    }

    fn run(&mut self, case: &Case) -> String {
        match case.directive.as_str() {
            "cql" => {
                let pieces = Script::new(&case.input);
                let run = |p: firn_cql::Piece<'_>| {
                    shown(self.session().execute(&case.input[p.start..p.end], ()))
                };
                pieces.map(run).collect::<Vec<_>>().join("\n")
            }
            "bound" => {
                let words = case.words().collect::<Vec<_>>().join(" ");
                let run = || {
                    let prepared = self.session().prepare(&case.input)?;
                    let values = words.split(" | ").zip(prepared.markers());
                    let values: Vec<BoundValue> = values
                        .map(|(text, marker)| match text {
                            "null" => BoundValue::Null,
                            text => BoundValue::Bytes(
                                from_plain(&marker.column_type.value_type, text).unwrap(),
                            ),
                        })
                        .collect();
                    self.session().run(&prepared, values, &RunOptions::default())
                };
                shown(run())
            }
            "reopen" => {
                self.session = None;
                self.session = Some(open(&self.env));
                String::new()
            }
            other => panic!("{}:{}: unknown directive {other}", case.file.display(), case.line),
        }
    }
}

#[test]
fn conversations() {
    for file in files(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/functions").as_path())
    {
        let env = MemEnv::new(1);
        let session = Some(open(&env));
        let mut world = World { env, session };
        walk(&file, |case| world.run(case));
    }
}

/// Returns a value in the notation of the file.
fn to_json(value: &Value) -> Json {
    let all = |values: &[Value]| Json::from(values.iter().map(to_json).collect::<Vec<_>>());
    match value {
        Value::Null => Json::Null,
        Value::Boolean(b) => json!(b),
        Value::Int(n) => json!(n),
        Value::BigInt(n) => json!(n),
        Value::Text(text) => json!(text),
        Value::List(values) | Value::Set(values) | Value::Tuple(values) => all(values),
        Value::User(fields) => fields
            .iter()
            .map(|(n, v)| (n.clone(), to_json(v)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => panic!("{other:?} is in no answer"),
    }
}

fn ours(answer: Result<Rows, Error>) -> Json {
    match answer {
        Err(e) => json!({"error": {"class": e.class().name(), "message": e.text()}}),
        Ok(rows) if *rows.kind() == ResultKind::Rows => {
            let column =
                |c: &firn_cql::ColumnSpec| json!([c.name, type_name(&c.column_type.value_type)]);
            let columns: Vec<Json> = rows.columns().iter().map(column).collect();
            let row = |row: firn_cql::Row<'_>| -> Json {
                (0..columns.len()).map(|i| to_json(&row.at::<Value>(i).unwrap())).collect()
            };
            json!({"columns": columns, "rows": rows.iter().map(row).collect::<Vec<_>>()})
        }
        Ok(_) => json!({"rows": null}),
    }
}

/// Statements with other answers here, with the reasons.
const DIFFERENCES: [(&str, &str); 2] = [
    (
        "INSERT INTO ks.t (k, c, v) VALUES (2, 5, nosuch(1))",
        "there the error for an unknown name differs from that in a selection",
    ),
    ("DESCRIBE ONLY KEYSPACE ks", "there are two blanks before AND"),
];

/// Answers of a server about functions in Java, with equivalent bodies in rhai.
#[test]
fn definitions_are_answered_as_recorded() {
    let session = Session::in_memory().unwrap();
    let (mut wrong, mut differing) = (vec![], vec![]);
    let recorded = include_str!("vectors/functions-5.0.jsonl");
    for line in recorded.replace("LANGUAGE java", "LANGUAGE rhai").lines() {
        let line: Json = serde_json::from_str(&line.replace("\"java\"", "\"rhai\"")).unwrap();
        let statement = line["stmt"].as_str().unwrap();
        let mut theirs = line.clone();
        theirs.as_object_mut().unwrap().remove("stmt");
        let ours = ours(session.execute(statement, ()));
        // The texts of syntax errors and of failed bodies differ.
        let class = |answer: &Json| answer["error"]["class"].as_str().map(str::to_owned);
        let own_words = ["SyntaxException", "FunctionFailure"];
        // Functions with one name are listed in no order.
        let front = |answer: &Json| {
            let text = answer["error"]["message"].as_str()?;
            text.split_once("signatures: ").map(|(front, _)| front.to_owned())
        };
        let same = theirs == ours
            || front(&theirs).is_some() && front(&theirs) == front(&ours)
            || class(&theirs) == class(&ours)
                && class(&ours).is_some_and(|class| own_words.contains(&&*class));
        match DIFFERENCES.iter().find(|(differs, _)| *differs == statement) {
            Some(_) if !same => differing.push(statement.to_owned()),
            None if same => {}
            _ => wrong.push(format!("{statement}\n  there {theirs}\n  here  {ours}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(differing.len(), DIFFERENCES.len());
    assert!(recorded.lines().count() > 140);
}

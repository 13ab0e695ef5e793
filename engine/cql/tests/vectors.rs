//! Replays a recorded conversation with a server through a session, and converts its constants to
//! bytes. `vectors/README.md` describes the files. Accepted differences are listed with their
//! reasons in `vectors/differences.txt`; a listed difference that does not occur is an error.

use super::common;

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_cql::ColumnType;
use firn_cql::internals::catalog::Catalog;
use firn_cql::internals::syntax::ast::{Inserted, Statement};
use firn_cql::internals::syntax::{ast, parse};
use firn_cql::internals::values::{BoundTerm, Context, EvalEnv, Markers, Receiver};
use firn_cql::{BoundValue, Error, Result, ResultKind, Row, Rows, RunOptions, Session, Value};
use firn_kv::MemEnv;
use firn_wide::{ManualClock, Options, StoreOptions, Type, Wide};
use serde_json::{Value as Json, json};

use common::type_name;

fn lines(text: &str) -> impl Iterator<Item = Json> + '_ {
    text.lines().map(|l| serde_json::from_str(l).unwrap())
}

/// An answer in the notation of the file.
#[derive(Clone, PartialEq)]
enum Answer {
    /// No result.
    Done,
    Rows {
        columns: Json,
        rows: Vec<Json>,
        warnings: Json,
    },
    Refused {
        class: String,
        text: String,
    },
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Answer::Done => f.write_str("done"),
            Answer::Refused { class, text } => write!(f, "{class}: {text}"),
            Answer::Rows { columns, rows, warnings } => {
                write!(f, "{} {}", columns, Json::from(rows.clone()))?;
                if *warnings == json!([]) { Ok(()) } else { write!(f, " {warnings}") }
            }
        }
    }
}

/// Returns the server's answer.
fn theirs(line: &Json) -> Answer {
    match (&line["error"], &line["rows"]) {
        (Json::Object(error), _) => {
            let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
            Answer::Refused { class: text("class"), text: text("message") }
        }
        (_, Json::Array(rows)) => {
            let warnings = line.get("warnings").cloned().unwrap_or(json!([]));
            Answer::Rows { columns: line["columns"].clone(), rows: rows.clone(), warnings }
        }
        _ => Answer::Done,
    }
}

fn to_json(value: &Value) -> Json {
    let number = |n: f64, text: String| {
        serde_json::Number::from_f64(n).map_or(Json::from(text), Json::Number)
    };
    let all = |values: &[Value]| Json::from(values.iter().map(to_json).collect::<Vec<_>>());
    match value {
        Value::Null => Json::Null,
        Value::Empty => json!("(empty)"),
        Value::Boolean(b) => json!(b),
        Value::TinyInt(n) => json!(n),
        Value::SmallInt(n) => json!(n),
        Value::Int(n) => json!(n),
        Value::BigInt(n)
        | Value::Counter(n)
        | Value::Timestamp(n)
        | Value::Time(n)
        | Value::Date(n) => json!(n),
        Value::VarInt(n) => i64::try_from(n).map_or_else(|_| json!(n.to_string()), |n| json!(n)),
        Value::Float(n) => number(f64::from(*n), n.to_string()),
        Value::Double(n) => number(*n, n.to_string()),
        Value::Decimal(text) | Value::Text(text) | Value::Duration(text) => json!(text),
        Value::Blob(bytes) => json!(format!("0x{}", hex(bytes))),
        Value::Uuid(uuid) => json!(uuid.to_string()),
        Value::Inet(address) => json!(address.to_string()),
        Value::List(values) | Value::Set(values) | Value::Tuple(values) => all(values),
        Value::Map(pairs) => {
            pairs.iter().map(|(k, v)| json!([to_json(k), to_json(v)])).collect::<Vec<_>>().into()
        }
        Value::User(fields) => fields
            .iter()
            .map(|(n, v)| (n.clone(), to_json(v)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => panic!("{other:?} is in no answer"),
    }
}

/// Returns a bound value of the file. The driver reads keys of maps from texts.
fn to_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::String(text) if text == "(unset)" => Value::Unset,
        Json::String(text) => Value::Text(text.clone()),
        Json::Number(n) => Value::Int(n.as_i64().unwrap().try_into().unwrap()),
        Json::Array(all) => Value::List(all.iter().map(to_value).collect()),
        Json::Object(pairs) => Value::Map(
            pairs.iter().map(|(k, v)| (Value::Int(k.parse().unwrap()), to_value(v))).collect(),
        ),
        other => panic!("{other} is never bound"),
    }
}

fn row_to_json(row: Row<'_>) -> Json {
    (0..row.columns().len())
        .map(|i| to_json(&row.at::<Value>(i).unwrap()))
        .collect::<Vec<_>>()
        .into()
}

/// Returns all pages of an answer.
fn ask(session: &Session, line: &Json, page_size: Option<usize>) -> Result<Vec<Rows>> {
    let statement = line["stmt"].as_str().unwrap();
    let mut how = RunOptions { page_size, ..RunOptions::default() };
    let mut pages = vec![];
    let params = line["params"].as_array().map(|all| all.iter().map(to_value).collect::<Vec<_>>());
    loop {
        let page = match &params {
            Some(params) => session.run(&session.prepare(statement)?, params, &how)?,
            None => session.execute_with(statement, (), &how)?,
        };
        how.paging = page.paging().cloned();
        assert!(
            how.paging.is_none() || page_size.is_some_and(|size| page.len() <= size),
            "{statement}: a page too long"
        );
        pages.push(page);
        if how.paging.is_none() {
            return Ok(pages);
        }
        assert!(pages.len() < 10_000, "{statement}: pages without end");
    }
}

/// Returns our answer.
fn ours(pages: std::result::Result<Vec<Rows>, Error>) -> Answer {
    match pages {
        Err(e) => {
            Answer::Refused { class: e.class().name().to_owned(), text: e.text().into_owned() }
        }
        Ok(pages) if *pages[0].kind() == ResultKind::Rows => {
            let columns = pages[0]
                .columns()
                .iter()
                .map(|c| json!([c.name, type_name(&c.column_type.value_type)]))
                .collect::<Vec<_>>()
                .into();
            let rows = pages.iter().flat_map(Rows::iter).map(row_to_json).collect();
            Answer::Rows { columns, rows, warnings: json!(pages[0].warnings()) }
        }
        Ok(_) => Answer::Done,
    }
}

/// Reports whether both are the same, except for parts that the file leaves open.
fn same(line: &Json, theirs: &Answer, ours: &Answer) -> bool {
    match (theirs, ours) {
        (Answer::Refused { class, text }, Answer::Refused { class: class2, text: text2 }) => {
            // Syntax errors with positions have different texts; lists in no order are masked; the
            // driver hides one text.
            let has_place = |t: &str| t.starts_with("line ");
            let masked = text
                .split_once("(known type signatures: ")
                .is_some_and(|(front, _)| text2.starts_with(front));
            class == class2
                && (text == text2
                    || (has_place(text) && has_place(text2))
                    || masked
                    || class == "AlreadyExists")
        }
        (
            Answer::Rows { columns, rows, warnings },
            Answer::Rows { columns: columns2, rows: rows2, warnings: warnings2 },
        ) => {
            let running: Vec<&Json> =
                line["ttl_le"].as_array().map_or(vec![], |all| all.iter().collect());
            let cell = |(i, (a, b)): (usize, (&Json, &Json))| {
                let runs = columns[i].get(0).is_some_and(|name| running.contains(&name));
                a == b
                    || runs
                        && a.as_i64().zip(b.as_i64()).is_some_and(|(a, b)| (a - 3..=a).contains(&b))
            };
            let row = |(a, b): (&Json, &Json)| {
                let (a, b) = (a.as_array().unwrap(), b.as_array().unwrap());
                a.len() == b.len() && a.iter().zip(b).enumerate().all(cell)
            };
            columns == columns2
                && warnings == warnings2
                && rows.len() == rows2.len()
                && rows.iter().zip(rows2).all(row)
        }
        (a, b) => a == b,
    }
}

/// Returns the accepted differences: by line of the file, the statement, our answer and the reason.
fn differences() -> BTreeMap<usize, (&'static str, &'static str)> {
    let blocks = include_str!("vectors/differences.txt")
        .split("\n\n")
        .filter(|b| !b.trim().is_empty() && !b.starts_with('#'));
    let read = |block: &'static str| {
        let (first, rest) = block.split_once("\nhere: ").unwrap_or_else(|| panic!("{block}"));
        let (number, statement) =
            first.trim().strip_prefix("line ").and_then(|f| f.split_once(": ")).unwrap();
        let (answer, why) = rest.split_once("\nwhy: ").unwrap_or_else(|| panic!("{block}"));
        assert!(why.trim().len() > 10, "{block}");
        (number.parse().unwrap(), (statement, answer))
    };
    blocks.map(read).collect()
}

fn open(env: &MemEnv, clock: &Arc<ManualClock>) -> Session {
    let options = Options {
        store: StoreOptions { clock: Some(clock.clone()), ..Default::default() },
        ..Options::default()
    };
    Session::new(Wide::open_in(Arc::new(env.clone()), "db", options).unwrap()).unwrap()
}

/// Replays the file with pages of this size; `rough`: at headings all tables are compacted and the
/// database is reopened.
fn replay(page_size: usize, rough: bool) {
    let (env, clock) = (MemEnv::new(7), Arc::new(ManualClock::new(1_534_800_000_000_000)));
    let mut session = open(&env, &clock);
    let mut known = differences();
    let (mut asked, mut rows, mut wrong, mut section) = (0, 0, vec![], String::new());
    for (at, line) in lines(include_str!("vectors/cql.jsonl")).enumerate() {
        let number = at + 1;
        clock.advance(1000);
        if let Some(name) = line["section"].as_str() {
            section = name.to_owned();
            // The random sections are similar: the first one is sufficient.
            if let Some(keyspace) = session
                .keyspace()
                .filter(|_| rough && (!name.starts_with("random") || name == "random 1"))
            {
                let db = session.engine().store().db();
                db.tree_names()
                    .iter()
                    .for_each(|tree| db.existing_tree(tree).unwrap().compact().unwrap());
                drop(session);
                session = open(&env, &clock);
                session.execute(&format!("USE {keyspace}"), ()).unwrap();
            }
        }
        if let Some(millis) = line["sleep_ms"].as_i64() {
            clock.advance(millis * 1000);
        }
        let Some(statement) = line["stmt"].as_str() else { continue };
        // If null is written, the recording used no paging.
        let size = line.get("page_size").is_none().then_some(page_size);
        let (theirs, ours) = (theirs(&line), ours(ask(&session, &line, size)));
        asked += 1;
        rows += usize::from(matches!(ours, Answer::Rows { .. }));
        match (known.remove(&number), same(&line, &theirs, &ours)) {
            (None, true) => {}
            (Some((text, answer)), false)
                if answer == ours.to_string() && statement.starts_with(text) => {}
            (Some(_), true) => {
                wrong.push(format!("line {number}: {statement}\n  is a difference no more"))
            }
            (_, false) => wrong.push(format!(
                "line {number}: {statement}\n  [{section}]\n  there {theirs}\n  here  {ours}"
            )),
        }
    }
    assert!(known.is_empty(), "differences in lines that ask nothing: {known:?}");
    assert!(wrong.is_empty(), "{} of {asked}, {rows} with rows\n{}", wrong.len(), wrong.join("\n"));
    assert!(asked == 1248 && rows > 350, "{asked} asked, {rows} with rows");
}

#[test]
fn the_conversation_is_answered_as_recorded() {
    replay(5000, false);
}

#[test]
fn the_conversation_is_answered_as_recorded_in_small_pages_and_after_merges() {
    replay(2, true);
}

/// Returns the bytes of the value in `INSERT INTO t (pk, v) VALUES (1, …)`.
fn stored(literal: &str, of: &Type) -> Result<Option<Vec<u8>>> {
    let statement = format!("INSERT INTO t (pk, v) VALUES (1, {literal})");
    let parsed = parse(&statement)?;
    let Statement::Change(ast::ChangeClause::Insert(insert)) = &parsed.statement else {
        panic!("{statement}")
    };
    let Inserted::Values { values, .. } = &insert.what else { panic!("{statement}") };
    let catalog = Catalog::default();
    let mut context = Context {
        catalog: &catalog,
        keyspace: "ks",
        partition: vec![],
        partitioner: Default::default(),
        markers: Markers::default(),
        calls: vec![],
    };
    let of = ColumnType::frozen(of.clone());
    let receiver = Receiver { name: "v".into(), of, keyspace: "ks".into(), table: "t".into() };
    let term = BoundTerm::prepare(&values[1], &receiver, &mut context)?;
    let env = EvalEnv { bound: &[], now: 0, random: &|| 0 };
    match term.eval(&env)? {
        BoundValue::Bytes(bytes) => Ok(Some(bytes)),
        _ => Ok(None),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Constants with other answers, with the reasons.
const OTHER_CONSTANTS: [(&str, &str, &str); 2] = [
    ("decimal", "1e400", "there the number passes through a double on its way"),
    (
        "double",
        "1e309",
        "there the number passes through a decimal on its way; here it is infinite",
    ),
];

#[test]
fn constants_are_the_recorded_bytes() {
    let (mut wrong, mut good) = (vec![], 0);
    for line in lines(include_str!("vectors/literals.jsonl")) {
        let (name, literal) = (line["type"].as_str().unwrap(), line["literal"].as_str().unwrap());
        if OTHER_CONSTANTS.iter().any(|o| (o.0, o.1) == (name, literal)) {
            continue;
        }
        let of = Type::from_cql_word(name).unwrap();
        let ours = match stored(literal, &of) {
            Ok(bytes) => bytes.as_deref().map_or("null".to_owned(), hex),
            Err(e) => format!("{}: {e}", e.class().name()),
        };
        let theirs = match line["error"]["class"].as_str() {
            Some(class) => {
                format!("{class}: {}", line["error"]["message"].as_str().unwrap_or_default())
            }
            None => line["hex"].as_str().unwrap_or("null").to_owned(),
        };
        let place = ": line ";
        if ours != theirs && !(ours.contains(place) && theirs.contains(place)) {
            wrong.push(format!("{name} {literal}\n  there {theirs}\n  here  {ours}"));
            continue;
        }
        good += 1;
        // The stored bytes are restored from their literal and from their value.
        let Ok(Some(bytes)) = stored(literal, &of) else { continue };
        let text = firn_cql::internals::values::literal(&of, Some(&bytes));
        assert_eq!(
            stored(&text, &of).unwrap().as_deref(),
            Some(&*bytes),
            "{name} {literal} {text}"
        );
        let value = Value::decode(&of, Some(&bytes)).unwrap();
        assert_eq!(
            value.encode(&of).unwrap(),
            BoundValue::Bytes(bytes),
            "{name} {literal} {value:?}"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(good > 60, "{good}");
}

//! What a real server answered: its definitions replayed through a session, its constants made into bytes. `vectors/README.md` says what
//! the files hold. Where we differ, the difference is listed with its reason, and a difference that is none any more is an error.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_cql::catalog::{Catalog, ColumnType};
use firn_cql::syntax::ast::{Inserted, Statement};
use firn_cql::syntax::{ast, parse};
use firn_cql::values::{Bound, Context, Env, Markers, Receiver, Term};
use firn_cql::{Result, Session, Value};
use firn_kv::env::mem::MemEnv;
use firn_wide::types::Type;
use firn_wide::{Options, Wide};
use serde_json::Value as Json;

/// Statements whose answer differs, and why.
const DIFFERENCES: [(&str, &str); 1] = [(
    "CREATE KEYSPACE k1 => line 0:-1 mismatched input '<EOF>' expecting K_WITH",
    "the words of a syntax error with a place are our own",
)];

fn lines(text: &str) -> impl Iterator<Item = Json> + '_ {
    text.lines().map(|l| serde_json::from_str(l).unwrap())
}

fn is_definition(statement: &str) -> bool {
    match parse(statement) {
        Ok(parsed) => !matches!(parsed.statement, Statement::Change(_) | Statement::Batch(_) | Statement::Select(_)),
        Err(_) => ["CREATE", "ALTER", "DROP"].iter().any(|w| statement.trim_start().starts_with(w)),
    }
}

/// The statement was refused for its syntax, with a place, by both.
fn both_point_at_a_place(theirs: &str, ours: &str) -> bool {
    theirs.starts_with("line ") && ours.starts_with("line ")
}

#[test]
fn definitions_are_answered_as_recorded() {
    let wide = Wide::open_in(Arc::new(MemEnv::new(7)), "db", Options::default()).unwrap();
    let session = Session::new(wide).unwrap();
    let (mut asked, mut refused, mut wrong, mut known) = (0, 0, vec![], BTreeSet::new());
    for line in lines(include_str!("vectors/cql.jsonl")) {
        let Some(statement) = line["stmt"].as_str().filter(|s| is_definition(s)) else { continue };
        asked += 1;
        let answer = session.execute(statement, ());
        let error = &line["error"];
        let difference = match (&answer, error["class"].as_str()) {
            (Ok(_), None) => None,
            (Err(e), Some(class)) if e.class().name() == class => {
                refused += 1;
                // The driver hides the text of AlreadyExists.
                let theirs = error["message"].as_str().unwrap_or_default();
                let ours = e.to_string();
                (ours != theirs && class != "AlreadyExists").then(|| (theirs.to_owned(), ours))
            }
            (Ok(_), Some(_)) => Some((error["message"].to_string(), "done".into())),
            (Err(e), theirs) => {
                let text = theirs.map_or("done".to_owned(), |t| format!("{t}: {}", error["message"]));
                Some((text, format!("{}: {e}", e.class().name())))
            }
        };
        let Some((theirs, ours)) = difference else { continue };
        let name = format!("{statement} => {theirs}");
        if DIFFERENCES.iter().any(|d| d.0 == name) {
            known.insert(name);
        } else if !both_point_at_a_place(&theirs, &ours) {
            wrong.push(format!("{statement}\n  there {theirs}\n  here  {ours}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(asked > 80 && refused > 35, "{asked} asked, {refused} refused");
    assert_eq!(known.len(), DIFFERENCES.len(), "differences that are none any more");
}

/// The value in `INSERT INTO t (pk, v) VALUES (1, …)` as bytes of this type.
fn stored(literal: &str, of: &Type) -> Result<Option<Vec<u8>>> {
    let statement = format!("INSERT INTO t (pk, v) VALUES (1, {literal})");
    let parsed = parse(&statement)?;
    let Statement::Change(ast::Change::Insert(insert)) = &parsed.statement else { panic!("{statement}") };
    let Inserted::Values { values, .. } = &insert.what else { panic!("{statement}") };
    let catalog = Catalog::default();
    let mut context = Context { catalog: &catalog, keyspace: "ks", partition: vec![], markers: Markers::default() };
    let of = ColumnType::frozen(of.clone());
    let receiver = Receiver { name: "v".into(), of, keyspace: "ks".into(), table: "t".into() };
    let term = Term::prepare(&values[1], &receiver, &mut context)?;
    let env = Env { bound: &[], now: 0, partitioner: Default::default(), random: &|| 0 };
    match term.eval(&env)? {
        Bound::Bytes(bytes) => Ok(Some(bytes)),
        _ => Ok(None),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Constants whose answer differs, and why.
const OTHER_CONSTANTS: [(&str, &str, &str); 2] = [
    ("decimal", "1e400", "there the number passes through a double on its way"),
    ("double", "1e309", "there the number passes through a decimal on its way; here it is infinite"),
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
            Some(class) => format!("{class}: {}", line["error"]["message"].as_str().unwrap_or_default()),
            None => line["hex"].as_str().unwrap_or("null").to_owned(),
        };
        let place = ": line ";
        if ours != theirs && !(ours.contains(place) && theirs.contains(place)) {
            wrong.push(format!("{name} {literal}\n  there {theirs}\n  here  {ours}"));
            continue;
        }
        good += 1;
        // What is stored comes back from its literal and from its value.
        let Ok(Some(bytes)) = stored(literal, &of) else { continue };
        let text = firn_cql::values::literal(&of, Some(&bytes));
        assert_eq!(stored(&text, &of).unwrap().as_deref(), Some(&*bytes), "{name} {literal} {text}");
        let value = Value::decode(&of, Some(&bytes)).unwrap();
        assert_eq!(value.encode(&of).unwrap(), Bound::Bytes(bytes), "{name} {literal} {value:?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(good > 60, "{good}");
}

//! Data-driven tests of changes: statements and their results, in `data/changes/*.txt`, with one
//! database for each file.
//!
//! - `cql`: the statements of the input, each ended by `;`. Rows are shown as CQL literals, columns
//!   in the order of the result, `[applied]` with the names of the columns; errors with their
//!   class;
//! - `bind`: a statement in the first line, then in each line its bound values, separated by `;`:
//!   plain texts of values, `null`, `unset`;
//! - `wait <seconds>`: advances the clock.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn_cql::internals::values::{from_plain, literal};
use firn_cql::{BoundValue, ErrorClass, ResultKind, Rows, RunOptions, Script, Session};
use firn_kv::MemEnv;
use firn_testkit::datadriven::{Case, files, walk};
use firn_wide::{Options, Wide};

struct World {
    env: MemEnv,
    session: Session,
}

fn shown(rows: &Rows) -> String {
    if *rows.kind() != ResultKind::Rows {
        return "ok".into();
    }
    let columns = rows.columns();
    let conditional = columns.first().is_some_and(|c| c.name == "[applied]");
    let line = |row: firn_cql::Row<'_>| {
        let each = columns.iter().enumerate().map(|(i, c)| {
            let text = literal(&c.column_type.value_type, row.bytes(i));
            if conditional && i > 0 { format!("{} {text}", c.name) } else { text }
        });
        each.collect::<Vec<_>>().join(" | ")
    };
    if rows.is_empty() {
        "no rows".into()
    } else {
        rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

impl World {
    fn bind(&self, input: &str) -> String {
        let mut lines = input.lines();
        let prepared = self.session.prepare(lines.next().unwrap()).unwrap();
        let each = lines.map(|line| {
            let values =
                line.split(';').map(str::trim).zip(prepared.markers()).map(|(text, marker)| {
                    match text {
                        "null" => BoundValue::Null,
                        "unset" => BoundValue::Unset,
                        text => BoundValue::Bytes(
                            from_plain(&marker.column_type.value_type, text).unwrap(),
                        ),
                    }
                });
            match self.session.run(&prepared, values.collect::<Vec<_>>(), &RunOptions::default()) {
                Ok(rows) => shown(&rows),
                Err(e) => format!("{}: {e}", e.class().name()),
            }
        });
        each.collect::<Vec<_>>().join("\n")
    }

    fn run(&mut self, case: &Case) -> String {
        match case.directive.as_str() {
            "cql" => {
                let each = Script::new(&case.input).map(|piece| {
                    match self.session.execute(&case.input[piece.start..piece.end], ()) {
                        Ok(rows) => shown(&rows),
                        Err(e) => format!("{}: {e}", e.class().name()),
                    }
                });
                each.collect::<Vec<_>>().join("\n")
            }
            "bind" => self.bind(&case.input),
            "wait" => {
                let seconds = case.words().next().and_then(|w| w.parse().ok()).unwrap();
                self.env.advance(Duration::from_secs(seconds));
                String::new()
            }
            other => panic!("{}:{}: unknown directive {other}", case.file.display(), case.line),
        }
    }
}

fn session(env: &MemEnv) -> Session {
    let session =
        Session::new(Wide::open_in(Arc::new(env.clone()), "db", Options::default()).unwrap())
            .unwrap();
    session.execute("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", ()).unwrap();
    session.execute("USE ks", ()).unwrap();
    session
}

#[test]
fn changes() {
    for file in files(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/changes").as_path()) {
        let env = MemEnv::new(1);
        let session = session(&env);
        let mut world = World { env, session };
        walk(&file, |case| world.run(case));
    }
}

#[test]
fn an_element_that_is_too_long_is_refused_in_words_of_the_language() {
    let session = Session::in_memory().unwrap();
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.e (k text PRIMARY KEY, s set<text>, m map<text, int>, l list<text>)",
    ] {
        session.execute(cql, ()).unwrap();
    }
    let run = |cql: &str, long: &str| {
        let run = session.execute(cql, (long,));
        run.map(drop).map_err(|e| (e.class().name(), e.to_string()))
    };
    let long = "x".repeat(600 << 10);
    for cql in [
        "UPDATE ks.e SET s = s + ? WHERE k = 'a'".replace('?', "{?}"),
        "UPDATE ks.e SET m[?] = 1 WHERE k = 'a'".to_owned(),
        "DELETE m[?] FROM ks.e WHERE k = 'a'".to_owned(),
    ] {
        let cql = cql.replace("{?}", &format!("{{'{long}'}}"));
        let done = match cql.contains('?') {
            true => run(&cql, &long),
            false => {
                session.execute(&cql, ()).map(drop).map_err(|e| (e.class().name(), e.to_string()))
            }
        };
        let (class, text) = done.unwrap_err();
        assert_eq!(class, "InvalidRequest");
        assert!(text.contains("614400 bytes") && text.contains("the key of a map"), "{text}");
    }
    // Values, and elements of lists, may be longer.
    session
        .execute(
            "UPDATE ks.e SET l = [?] WHERE k = 'a'".replace('?', &format!("'{long}'")).as_str(),
            (),
        )
        .unwrap();
    run("UPDATE ks.e SET m[?] = 1 WHERE k = 'a'", &long[..500 << 10]).unwrap();
}

#[test]
fn what_is_too_long_is_refused() {
    let session = session(&MemEnv::new(1));
    session
        .execute("CREATE TABLE t (k text, c text, s set<text>, PRIMARY KEY (k, c))", ())
        .unwrap();
    let (long, element) = ("x".repeat(70_000), "x".repeat(600_000));
    let insert = "INSERT INTO t (k, c, s) VALUES (?, ?, ?)";
    let conditional = format!("{insert} IF NOT EXISTS");
    for (text, k, c, s) in [
        (insert, &*long, "c", vec![]),
        (insert, "k", &*long, vec![]),
        (insert, "k", "c", vec!["short".to_owned(), element.clone()]),
        (&*conditional, "k", "c", vec![element.clone()]),
    ] {
        let e = session.execute(text, (k, c, s)).unwrap_err();
        assert_eq!(e.class(), ErrorClass::Invalid, "{e}");
    }
    assert!(session.execute("SELECT * FROM t", ()).unwrap().is_empty());
}

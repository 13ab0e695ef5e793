//! Tests `firn` at a pseudo-terminal: Ctrl-C, the pager, rows wider than the terminal, questions.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, missing_docs)] // the tests make the files that a user would name

use super::common;

use common::{Ran, Temp};
use rexpect::session::{PtySession, spawn_command};
use std::fs;
use std::process::Command;

/// Rows of the queried table: counting them takes a moment.
const ROWS: usize = 2000;
/// Time limit of an answer.
const PATIENCE: Option<u64> = Some(120_000);

impl Temp {
    /// Creates a store with a table.
    fn with_table(name: &str) -> Temp {
        let t = Temp::new("terminal", name);
        let rows: String = (0..ROWS).map(|i| format!("{i},name of {i}\n")).collect();
        fs::write(t.path("items.csv"), rows).unwrap();
        let make = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; USE shop;
            CREATE TABLE items (id int PRIMARY KEY, name text); COPY items (id, name) FROM 'items.csv';";
        Ran::of(t.run("db", &["cql", "-e", make], b"")).good();
        t
    }

    /// Starts a terminal of this size, in which a shell runs `line`; `firn` is the command under
    /// test.
    fn terminal(&self, lines: u16, columns: u16, line: &str) -> PtySession {
        // If the tests run in the background, their processes ignore Ctrl-C.
        let mut shell = Command::new(if cfg!(target_os = "linux") { "env" } else { "sh" });
        if cfg!(target_os = "linux") {
            shell.args(["--default-signal=INT", "sh"]);
        }
        let set = format!(
            "stty rows {lines} cols {columns}; firn() {{ {} \"$@\"; }}; {line}",
            env!("CARGO_BIN_EXE_firn")
        );
        shell
            .args(["-c", &set])
            .current_dir(&self.0)
            .env_remove("PAGER")
            .env("FIRN_HISTORY", self.path("history"));
        shell.env("TERM", "xterm").env("NO_COLOR", "1");
        spawn_command(shell, PATIENCE).unwrap()
    }

    /// Writes a script of slow statements; the first one prints at once.
    fn slow(&self) {
        let first = "SELECT name FROM shop.items WHERE id = 77;\n".to_owned();
        fs::write(
            self.path("slow.cql"),
            first + "SELECT count(*) FROM shop.items;\n".repeat(5000).as_str(),
        )
        .unwrap();
    }
}

#[test]
fn ctrl_c_stops_the_statement_and_not_the_shell() {
    let t = Temp::with_table("stop");
    t.slow();
    let mut p = t.terminal(24, 80, "firn --db db cql");
    p.exp_string("cql> ").unwrap();
    p.send("SOURCE 'slow.cql'\r").unwrap();
    p.flush().unwrap();
    p.exp_string("name of 77").unwrap();
    p.send_control('c').unwrap();
    p.exp_string("stopped").unwrap();
    p.exp_string("cql> ").unwrap();
    p.send("SELECT name FROM shop.items WHERE id = 5;\r").unwrap();
    p.flush().unwrap();
    p.exp_string("name of 5").unwrap();
    // Input is in the history before it runs, however the shell ends.
    let history = fs::read_to_string(t.path("history")).unwrap();
    assert!(
        history.contains("SOURCE 'slow.cql'") && history.contains("WHERE id = 5;"),
        "{history}"
    );
    p.exp_string("cql> ").unwrap();
    // A statement over several lines is one entry.
    p.send("CREATE ROLE ann WITH PASSWORD = 'hunter3'\r").unwrap();
    p.flush().unwrap();
    p.exp_string("... ").unwrap();
    p.send("AND LOGIN = true;\r").unwrap();
    p.flush().unwrap();
    p.exp_string("cql> ").unwrap();
    p.send("LIST USERS;\r").unwrap();
    p.flush().unwrap();
    p.exp_string("(1 rows)").unwrap();
    let history = fs::read_to_string(t.path("history")).unwrap();
    assert!(!history.contains("hunter3") && history.contains("WHERE id = 5;"), "{history}");
    p.exp_string("cql> ").unwrap();
    p.send("EXIT\r").unwrap();
    p.flush().unwrap();
    p.exp_eof().unwrap();
}

/// Enters a line that prints and then runs for long, presses Ctrl-C after the output, runs another
/// statement, and exits the shell.
fn stopped(mut p: PtySession, prompt: &str, line: &str, shown: &str, then: &str, answer: &str) {
    let type_line = |p: &mut PtySession, line: &str| {
        p.exp_string(prompt).unwrap();
        p.send(&format!("{line}\r")).unwrap();
        p.flush().unwrap();
    };
    type_line(&mut p, line);
    p.exp_string(shown).unwrap();
    p.send_control('c').unwrap();
    p.exp_string("stopped").unwrap();
    type_line(&mut p, then);
    p.exp_string(answer).unwrap();
    // The shell accepts the next statement.
    type_line(&mut p, "exit;");
    p.exp_eof().unwrap();
}

#[test]
fn ctrl_c_stops_the_building_of_an_index() {
    let t = Temp::new("terminal", "index");
    let long = 40_000;
    let rows: String = (0..long).map(|i| format!("{i},name of {i}\n")).collect();
    fs::write(t.path("items.csv"), rows).unwrap();
    let make = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; USE shop;
        CREATE TABLE items (id int PRIMARY KEY, name text); COPY items (id, name) FROM 'items.csv';";
    Ran::of(t.run("db", &["cql", "-e", make], b"")).good();
    let p = t.terminal(24, 200, "firn --db db cql -k shop");
    let line = "SELECT name FROM items WHERE id = 77; CREATE INDEX ON items (name);";
    stopped(
        p,
        "cql:shop> ",
        line,
        "name of 77",
        "SELECT id FROM items WHERE name = 'name of 5';",
        "ALLOW FILTERING",
    );
}

#[test]
fn ctrl_c_stops_statements_of_cassandra_cli() {
    let t = Temp::new("terminal", "cli");
    let make =
        "create keyspace K; use K; create column family items with comparator = UTF8Type and key_validation_class = UTF8Type
        and default_validation_class = UTF8Type;";
    let rows: String =
        (0..30_000).map(|i| format!("set items['k{i}']['name'] = 'name of {i}';\n")).collect();
    fs::write(t.path("items.txt"), format!("{make}\n{rows}")).unwrap();
    Ran::of(t.run("db", &["cli", "-f", t.path("items.txt").to_str().unwrap()], b"")).good();
    let p = t.terminal(24, 200, "firn --db db cli -k K");
    let prompt = "[default@K] ";
    let line = "get items['k77']['name']; update column family items with column_metadata = \
                [{column_name: name, validation_class: UTF8Type, index_type: KEYS}];";
    stopped(
        p,
        prompt,
        line,
        "name of 77",
        "get items where name = 'name of 5';",
        "No indexed columns present",
    );
    // All rows, none of which is shown.
    let p = t.terminal(24, 200, "PAGER=cat firn --db db cli -k K");
    let line = "get items['k77']['name']; list items limit 1000000;";
    stopped(p, prompt, line, "name of 77", "get items['k5']['name'];", "name of 5");
}

#[test]
fn ctrl_c_ends_a_script() {
    let t = Temp::with_table("script");
    t.slow();
    // The shell waits for its command, and then prints its exit code.
    let mut p = t.terminal(24, 80, "trap : INT; firn --db db cql -f slow.cql; echo code $?");
    p.exp_string("name of 77").unwrap();
    p.send_control('c').unwrap();
    p.exp_string("code 130").unwrap();
    p.exp_eof().unwrap();
}

#[test]
fn the_pager_takes_keys() {
    let t = Temp::with_table("pager");
    let mut p = t.terminal(8, 80, "firn --db db cql");
    let ask = |p: &mut PtySession| {
        p.exp_string("cql> ").unwrap();
        p.send("SELECT id FROM shop.items;\r").unwrap();
        p.flush().unwrap();
        p.exp_string("--More--").unwrap();
    };
    let press = |p: &mut PtySession, key: &str| {
        p.send(key).unwrap();
        p.flush().unwrap();
    };
    ask(&mut p);
    press(&mut p, " ");
    assert_eq!(p.exp_string("--More--").unwrap().matches('\n').count(), 7);
    press(&mut p, "\r");
    assert_eq!(p.exp_string("--More--").unwrap().matches('\n').count(), 1);
    press(&mut p, "q");
    ask(&mut p);
    p.send_control('c').unwrap();
    p.exp_string("stopped").unwrap();
    p.exp_string("cql> ").unwrap();
    p.send("EXIT\r").unwrap();
    p.flush().unwrap();
    p.exp_eof().unwrap();
    let mut p = t.terminal(8, 80, "PAGER='sed s/^/paged:/' firn --db db cql");
    p.exp_string("cql> ").unwrap();
    p.send("SELECT name FROM shop.items WHERE id = 5;\r").unwrap();
    p.flush().unwrap();
    p.exp_string("paged: name of 5").unwrap();
    p.exp_string("cql> ").unwrap();
}

#[test]
fn rows_are_cut_or_expanded_to_the_width_of_a_terminal() {
    let t = Temp::new("terminal", "wide");
    let long = "x".repeat(100);
    let columns: Vec<String> = (0..8).map(|i| format!("c{i}")).collect();
    let make = format!(
        "CREATE KEYSPACE shop WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}; USE shop;
        CREATE TABLE long (id int PRIMARY KEY, name text); INSERT INTO long (id, name) VALUES (1, '{long}');
        CREATE TABLE many (id int PRIMARY KEY, {} text); INSERT INTO many (id, {}) VALUES (1{});",
        columns.join(" text, "),
        columns.join(", "),
        ", 'a value of a column'".repeat(8)
    );
    Ran::of(t.run("db", &["cql", "-e", &make], b"")).good();
    let mut p =
        t.terminal(24, 40, "firn --db db cql -k shop -e 'SELECT * FROM long; SELECT * FROM many;'");
    p.exp_string(&format!("  1 | {}", "x".repeat(33))).unwrap();
    // The three bytes of the ellipsis, which the test terminal counts as characters.
    assert_eq!(p.exp_string("\r\n").unwrap().chars().count(), 3);
    p.exp_string("(1 rows, cut to the terminal's width: EXPAND ON shows all of them)").unwrap();
    p.exp_string("@ Row 1").unwrap();
    p.exp_string(" c7 | a value of a column").unwrap();
    p.exp_eof().unwrap();
    let mut p = t.terminal(24, 40, "firn --db db cql -k shop -e 'EXPAND ON; SELECT * FROM long;'");
    // All of the value, wrapped by the terminal.
    p.exp_string(&long).unwrap();
    p.exp_eof().unwrap();
    let piped = Ran::of(t.run(
        "db",
        &["cql", "-k", "shop", "-e", "SELECT * FROM long; SELECT * FROM many;"],
        b"",
    ))
    .good();
    assert!(piped.contains(&long) && !piped.contains("@ Row") && !piped.contains('…'), "{piped}");
}

#[test]
fn a_range_is_deleted_after_a_question() {
    let t = Temp::new("terminal", "delete");
    let firn = |args: &[&str]| Ran::of(t.run("db", args, b""));
    firn(&["put", "a1", "x", "a2", "x", "b", "x"]).good();
    for (answer, left) in [("n", "a1\na2\nb\n"), ("", "a1\na2\nb\n"), ("y", "b\n")] {
        let mut p = t.terminal(24, 100, "firn --db db delete --prefix a; echo code $?");
        p.exp_string("from a1 to a2? [y/N] ").unwrap();
        p.send_line(answer).unwrap();
        p.exp_string("code 0").unwrap();
        p.exp_eof().unwrap();
        assert_eq!(firn(&["scan", "--keys-only"]).good(), left, "{answer:?}");
    }
}

//! Tests `firn cql` from the command line: scripts, positions of errors, COPY, and the applications
//! of the source texts with their complete output. Tests that do not depend on it run on a store
//! and on a server, with the same answers.
#![allow(clippy::disallowed_methods, missing_docs)] // the tests make the files that a user would name

use super::common;

use common::{Ran, Temp};
use firn_server::{Options, Server};
use std::fs;

/// Store or server on which the statements of a test run.
struct Home {
    temp: Temp,
    /// `None`: on a store.
    server: Option<Server>,
}

impl std::ops::Deref for Home {
    type Target = Temp;

    fn deref(&self) -> &Temp {
        &self.temp
    }
}

impl Home {
    /// Returns a store, and a server.
    fn both(name: &str) -> [Home; 2] {
        let server = Server::start(Options::ephemeral()).unwrap();
        [
            Home { temp: Temp::new("cql", name), server: None },
            Home { temp: Temp::new("cql-remote", name), server: Some(server) },
        ]
    }

    fn is_store(&self) -> bool {
        self.server.is_none()
    }

    /// Runs `firn cql ARGS` in this directory, on the store or the server.
    fn cql_with(&self, args: &[&str], input: &str) -> Ran {
        let Some(server) = &self.server else { return self.temp.cql_with(args, input) };
        let address = server.address().to_string();
        let all = [&["cql", "--connect", &address], args].concat();
        Ran::of(self.temp.firn_with(&all, input.as_bytes()))
    }

    fn cql(&self, args: &[&str]) -> Ran {
        self.cql_with(args, "")
    }
}

impl Temp {
    fn write(&self, name: &str, content: &str) {
        fs::write(self.0.join(name), content).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    /// Runs `firn --db db cql ARGS` in this directory.
    fn cql_with(&self, args: &[&str], input: &str) -> Ran {
        Ran::of(self.run("db", &[&["cql"], args].concat(), input.as_bytes()))
    }

    fn cql(&self, args: &[&str]) -> Ran {
        self.cql_with(args, "")
    }
}

const KEYSPACE: &str =
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};";

/// Runs a script of the examples and compares its complete output.
fn example(name: &str, printed: &str) {
    for t in Home::both(name) {
        let script = format!("{}/../../engine/cql/examples/{name}.cql", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(t.cql(&["-f", &script]).good(), printed);
    }
}

#[test]
fn the_text_about_collections() {
    example("collections", include_str!("data/cql/collections.txt"));
}

#[test]
fn the_music_site() {
    example("songs", include_str!("data/cql/songs.txt"));
}

#[test]
fn the_blog() {
    example("bloggy", include_str!("data/cql/bloggy.txt"));
}

#[test]
fn scripts_come_from_files_pipes_and_the_command_line() {
    for t in Home::both("scripts") {
        t.write(
        "schema.cql",
        &format!("// The shop\n{KEYSPACE} USE shop;\nCREATE TABLE items (id int PRIMARY KEY,\n  name text);\n"),
    );
        assert_eq!(t.cql(&["-f", "schema.cql"]).good(), "");
        assert_eq!(
            t.cql_with(&["-k", "shop"], "INSERT INTO items (id, name) VALUES (1, 'it''s');").good(),
            ""
        );
        let table = "\n id | name\n----+------\n  1 | it's\n\n(1 rows)\n";
        assert_eq!(t.cql(&["-k", "shop", "-e", "SELECT * FROM items; exit; SELECT"]).good(), table);
        t.write("ask.cql", "SELECT * FROM shop.items;");
        assert_eq!(t.cql(&["-e", "SOURCE 'ask.cql'; expand on; SOURCE 'ask.cql'"]).good(), {
            format!("{table}\n@ Row 1\n------+------\n id   | 1\n name | it's\n\n(1 rows)\n")
        });
        assert_eq!(t.cql(&["--json", "-f", "ask.cql"]).good(), "{\"id\": 1, \"name\": \"it's\"}\n");
        assert_eq!(
            t.cql(&["--echo", "-e", "USE\n shop; desc tables"]).good(),
            "USE\n shop;\ndesc tables;\n\nKeyspace shop\n-------------\nitems\n"
        );
        let version = t.cql_with(&[], "show version\n").good();
        assert!(version.starts_with("[firn ") && version.contains("CQL"), "{version}");
        // Results are appended to the file.
        let asked = "SELECT name FROM shop.items";
        let script = format!(
            "CAPTURE 'out.txt'; {asked}; CAPTURE; CAPTURE OFF; CAPTURE 'out.txt'; {asked}; CAPTURE OFF; UNICODE"
        );
        assert_eq!(t.cql(&["-e", &script]).good(), "Encoding: UTF-8\n");
        let table = "\n name\n------\n it's\n\n(1 rows)\n";
        assert_eq!(t.read("out.txt"), format!("{table}{table}"));
        t.cql(&["-e", "CAPTURE 'no/such/out.txt'"]).said(1, &["cannot write no/such/out.txt"]);
        t.cql(&["-e", &format!("ELAPSED ON; {asked}")]).said(0, &["elapsed times are on", " ms)"]);
        let host = t.cql(&["-e", "show host"]).good();
        let is_host = if t.is_store() { "the store " } else { "Connected to Firn at 127.0.0.1:" };
        assert!(host.starts_with(is_host), "{host}");
        let session = "SHOW SESSION 5f2c0f60-7a30-11f0-8d5e-8b5b1f2b6a55";
        t.cql(&["-e", session]).said(1, &["5f2c0f60-7a30-11f0-8d5e-8b5b1f2b6a55"]);
        t.cql(&["-e", "LOGIN ann"]).said(1, &["LOGIN ann 'password'"]);
        t.cql(&["-e", "SHOW TABLES"]).said(1, &["DESCRIBE TABLES"]);
        t.cql(&["-e", "nonsense"]).said(1, &["HELP lists the commands of the shell"]);
        t.write("loop.cql", "SOURCE 'loop.cql'");
        t.cql(&["-f", "loop.cql"]).said(1, &["loop.cql:1: ", "16 deep"]);
    }
}

#[test]
fn errors_have_their_place() {
    for t in Home::both("errors") {
        let script = format!(
            "{KEYSPACE}\nUSE shop; CREATE TABLE t (k int PRIMARY KEY, v int);\n  SELECT nope\n FROM t;\nSELECT v FORM t;\nDESC TABLES\n"
        );
        t.write("s.cql", &script);
        let out = t.cql(&["-f", "s.cql", "--stop-on-error"]).said(
        1,
        &["s.cql:3:10: InvalidRequest: Undefined column name nope in table shop.t\n  SELECT nope\n         ^^^^\n"],
    );
        assert_eq!(out, "");
        let again =
            script.replace(KEYSPACE, "").replace("CREATE TABLE t (k int PRIMARY KEY, v int);", "");
        t.write("again.cql", &again);
        let out = t
            .cql(&["-f", "again.cql"])
            .said(1, &["again.cql:3:10: ", "again.cql:5:10: SyntaxException: met FORM, expected"]);
        assert!(out.ends_with("\nt\n"), "{out}");
        // Errors in the middle are counted at the end; all other statements have an effect.
        t.write(
            "java.cql",
            "USE shop;\nCREATE TABLE before (k int PRIMARY KEY);\nCREATE FUNCTION f(a int) CALLED ON NULL INPUT\n  RETURNS int LANGUAGE java AS 'return a;';\nCREATE TABLE after (k int PRIMARY KEY);\nSOURCE 'more.cql'\nDESC TABLES\n",
        );
        t.write("more.cql", "-- of its own\nDROP TABLE nowhere;\nDROP TABLE before;");
        let out = t.cql(&["-f", "java.cql"]).said(
            1,
            &[
                "java.cql:3",
                "CREATE FUNCTION f(a int) CALLED ON NULL INPUT",
                "more.cql:2",
                "failed: 2 of 8 statements failed, the first at java.cql:3\n",
            ],
        );
        assert!(out.contains("after") && !out.contains("before"), "{out}");
        t.cql(&["--json", "-e", "bad; USE shop; bad"])
            .said(1, &["{\"summary\":{\"failed\":2,\"statements\":3}}"]);
        t.cql(&["-e", "COPY nowhere FROM 'x'"]).said(1, &["-e:1: ", "no keyspace is chosen"]);
        t.cql(&["-k", "nope"]).said(2, &["nope", "CREATE KEYSPACE"]);
        t.cql(&["-f", "absent.cql"]).said(2, &["cannot read absent.cql"]);
        t.cql(&["-e", "PAGING maybe"]).said(1, &["PAGING takes ON, OFF or"]);
        t.cql(&["--json", "-e", "bad"]).said(
        1,
        &[
            "{\"error\":{\"class\":\"SyntaxException\",\"column\":1,\"file\":\"-e\",\"hint\":\"a statement begins with one of ",
            "\"line\":1,",
        ],
    );
        // The hint, if there is one, follows the error.
        if !t.is_store() {
            continue;
        }
        let index = "an index would find these rows: CREATE INDEX ON shop.t (v)";
        t.cql(&["-k", "shop", "-e", "SELECT * FROM t WHERE v = 1"])
            .said(1, &["use ALLOW FILTERING\n  SELECT * FROM t WHERE v = 1\nhint: ", index]);
        t.cql(&["--json", "-k", "shop", "-e", "SELECT * FROM t WHERE v = 1"])
            .said(1, &[&format!("\"hint\":\"{index}\"")]);
    }
}

const KINDS: &str = "CREATE TABLE kinds (k int PRIMARY KEY, t text, b blob, d double, f float, ts timestamp, da date, ti time, u uuid, i inet, \
     de decimal, v varint, bo boolean, du duration, l list<int>, s set<text>, m map<text, frozen<list<int>>>, tu tuple<int, text>);";

#[test]
fn values_look_as_in_cqlsh() {
    for t in Home::both("values") {
        let rows = "INSERT INTO kinds (k, t, b, d, f, ts, da, ti, bo, i, l, s, m, tu) VALUES (1, 'a\nb', 0xcafe, 0.1, 3.14159265, '2009-08-18 01:13:24+0000', \
         '2009-08-18', '08:12:54.1', true, '::1', [1, 2], {'b', 'a'}, {'x': [1]}, (1, 'y')); INSERT INTO kinds (k) VALUES (2);";
        t.cql(&["-e", &format!("{KEYSPACE} USE shop; {KINDS} {rows}")]).good();
        let ask = "SELECT t, b, d, f, ts, da FROM kinds WHERE k = 1; SELECT ti, bo, i, l, s, m, tu FROM kinds WHERE k = 1; SELECT k, t, l FROM kinds WHERE k = 2";
        let wanted = concat!(
            "\n t    | b      | d   | f      | ts                              | da\n",
            "------+--------+-----+--------+---------------------------------+------------\n",
            " a\\nb | 0xcafe | 0.1 | 3.14159 | 2009-08-18 01:13:24.000000+0000 | 2009-08-18\n\n(1 rows)\n",
        );
        let got = t.cql(&["-k", "shop", "-e", ask]).good();
        assert_eq!(
            got.split("(1 rows)\n").next().unwrap().replace(' ', ""),
            wanted
                .split("(1 rows)\n")
                .next()
                .unwrap()
                .replace(' ', "")
                .replace("+--------+-----+--------+", "+--------+-----+---------+")
        );
        assert!(
            got.contains(
                " 08:12:54.100000000 | True | ::1 | [1, 2] | {'a', 'b'} | {'x': [1]} | (1, 'y')\n"
            ),
            "{got}"
        );
        assert!(got.contains("\n 2 | null | null\n"), "{got}");
    }
}

#[test]
fn copied_rows_come_back_as_they_were() {
    for t in Home::both("copy") {
        let columns = "k, t, b, d, f, ts, da, ti, u, i, de, v, bo, du, l, s, m, tu";
        let rows = [
            "1, 'a,\"b\"\nc', 0x00ff, 0.1, 1.5e-7, '2009-08-18 01:13:24.007+0000', '1969-12-31', '08:12:54.1', \
         550e8400-e29b-41d4-a716-446655440000, '::1', -1.50, 123456789012345678901234567890, true, 1mo2d3h, [3, 1], {'it''s', ''}, {'x': [1], 'y': []}, \
         (1, null)",
            "2, '', 0x, 1e300, 0.1, '1969-12-31 23:59:59.999+0000', '2009-08-18', '00:00:00', 00000000-0000-4000-8000-000000000001, '10.0.0.1', 1e3, -1, \
         false, -5ns, null, null, null, (null, '\\N?')",
            "3, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null",
            "-4, 'null', 0xff, NaN, -Infinity, 0, '0001-01-01', '23:59:59.999999999', 00000000-0000-4000-8000-000000000002, '1.2.3.4', 0, 0, true, 1y, \
         [0], {'{', ','}, {'': [2, 3]}, (-1, 'ü')",
        ];
        let inserts: String =
            rows.iter().map(|r| format!("INSERT INTO kinds ({columns}) VALUES ({r});\n")).collect();
        let again = KINDS.replace("kinds", "again");
        t.cql(&["-e", &format!("{KEYSPACE} USE shop; {KINDS} {again} {inserts}")]).good();
        for options in [
            "HEADER = true AND NULL = '\\N'",
            "DELIMITER = '\\t' AND NULL = '\\N'",
            "QUOTE = '|' AND ESCAPE = '\\' AND NULL = '<null>' AND CHUNKSIZE = 2",
        ] {
            let script = format!(
                "TRUNCATE again; COPY kinds ({columns}) TO 'k.csv' WITH {options}; COPY again ({columns}) FROM 'k.csv' WITH {options};"
            );
            let Ran(code, out, err) = t.cql(&["-k", "shop", "-e", &script]);
            assert_eq!(
                (code, out.as_str(), err.matches("copied 4 rows in ").count()),
                (0, "", 2),
                "{err}\n{}",
                t.read("k.csv")
            );
            let ask = |table: &str| {
                t.cql(&["--json", "-k", "shop", "-e", &format!("SELECT * FROM {table}")]).good()
            };
            assert_eq!(ask("kinds"), ask("again"), "{options}");
            assert_eq!(ask("again").lines().count(), 4);
            let once_more = t.cql(&[
                "-k",
                "shop",
                "-e",
                &format!("COPY again ({columns}) TO 'again.csv' WITH {options}"),
            ]);
            once_more.good();
            assert_eq!(t.read("k.csv"), t.read("again.csv"));
        }
        let piped = t
            .cql(&["-k", "shop", "-e", "COPY kinds (k, t) TO STDOUT WITH NULL = '-'"])
            .said(0, &["copied 4 rows"]);
        assert!(
            piped.contains("3,-\n") && piped.contains("2,\"\"\n") || piped.contains("2,\n"),
            "{piped}"
        );
        t.cql(&["-k", "shop", "-e", "COPY kinds (k, t) TO STDOUT"])
            .said(0, &["warning: 1 value is written as null is"]);
    }
}

#[test]
fn a_bad_line_is_named() {
    for t in Home::both("bad-lines") {
        t.cql(&[
        "-e",
        &format!(
            "{KEYSPACE} CREATE TABLE shop.t (k int PRIMARY KEY, v int); CREATE TABLE shop.c (k int PRIMARY KEY, n counter)"
        ),
    ])
    .good();
        let copy = |args: &str| t.cql(&["-k", "shop", "-e", &format!("COPY {args}")]);
        t.write("a.csv", "1,1\n2,2\n3,x\n4,4\n");
        copy("t FROM 'a.csv' WITH CHUNKSIZE = 2")
            .said(1, &["a.csv:3: column v: ", "2 rows are written"]);
        t.write("b.csv", "k,v\n5,5\n,6\n7,7\n");
        copy("t FROM 'b.csv' WITH HEADER = true").said(1, &["b.csv:3: ", "1 row is written"]);
        t.write("c.csv", "1,2,3\n");
        copy("t FROM 'c.csv'").said(1, &["c.csv:1: 3 cells, but 2 columns"]);
        copy("t FROM 'c.csv' WITH HEADER = true").said(1, &["c.csv:1: the head names \"1\""]);
        copy("t FROM 'absent.csv'").said(1, &["cannot read absent.csv"]);
        copy("t FROM 'a.csv' WITH SPEED = 9").said(1, &["there is no option SPEED"]);
        copy("t (k, w) FROM 'a.csv'").said(1, &["there is no column w"]);
        copy("t FROM 'a.csv' WITH SKIPROWS = 1 AND MAXROWS = 1").said(0, &["copied 1 row "]);
        // Counters are added to.
        t.write("n.csv", "1,5\n2,-7\n");
        copy("c FROM 'n.csv'").said(0, &["copied 2 rows"]);
        copy("c FROM 'n.csv'").said(0, &["copied 2 rows"]);
        let counted = t.cql(&["--json", "-k", "shop", "-e", "SELECT * FROM c"]).good();
        assert!(
            counted.contains("{\"k\": 1, \"n\": 10}\n")
                && counted.contains("{\"k\": 2, \"n\": -14}\n"),
            "{counted}"
        );
        t.write("d.json", "{\"k\": 8, \"v\": 80}\n{\"K\": 9, \"w\": 1}\n");
        copy("t FROM 'd.json' WITH FORMAT = json")
            .said(0, &["copied 2 rows", "fields without a column: w"]);
        let got =
            t.cql(&["--json", "-k", "shop", "-e", "SELECT * FROM t WHERE k IN (8, 9)"]).good();
        assert_eq!(got, "{\"k\": 8, \"v\": 80}\n{\"k\": 9, \"v\": null}\n");
    }
}

#[test]
fn copy_has_the_options_of_cqlsh() {
    for t in Home::both("copy-options") {
        let table = "(k int PRIMARY KEY, n bigint, d decimal, f double, b boolean, at timestamp, note text)";
        t.cql(&["-e", &format!("{KEYSPACE} CREATE TABLE shop.t {table}; CREATE TABLE shop.u {table}; CREATE TABLE shop.c (k int PRIMARY KEY, n counter)")])
            .good();
        let copy = |args: &str| t.cql(&["-k", "shop", "-e", &format!("COPY {args}")]);
        let select =
            |what: &str| t.cql(&["--json", "-k", "shop", "-e", &format!("SELECT {what}")]).good();
        // Options for the tuning of cqlsh are accepted.
        let tuning = "NUMPROCESSES = 4 AND INGESTRATE = 1000 AND MAXBATCHSIZE = 20 AND MINBATCHSIZE = 2 AND MAXATTEMPTS = 5 AND REPORTFREQUENCY = 0.5 AND PREPAREDSTATEMENTS = true AND ENCODING = 'UTF-8' AND MAXREQUESTS = 6 AND PAGETIMEOUT = 10";
        let forms = "DATETIMEFORMAT = '%d.%m.%Y %H:%M:%S' AND BOOLSTYLE = 'Ja,Nein' AND THOUSANDSSEP = '.' AND DECIMALSEP = ',' AND DELIMITER = ';'";
        t.write(
            "a.csv",
            "1;1.234.567;-1.234,50;0,5;ja;31.12.2020 23:59:58;1.5\n2;12;0,1;1e3;Nein;2021-01-01 10:00+0100;\n3;;;;;;\n",
        );
        copy(&format!("t (k, n, d, f, b, at, note) FROM 'a.csv' WITH {forms} AND {tuning}"))
            .said(0, &["copied 3 rows"]);
        assert_eq!(
            select("n, d, f, b, at, note FROM t WHERE k IN (1, 2)"),
            "{\"n\": 1234567, \"d\": -1234.50, \"f\": 0.5, \"b\": true, \"at\": \"2020-12-31 23:59:58.000Z\", \"note\": \"1.5\"}\n\
             {\"n\": 12, \"d\": 0.1, \"f\": 1000.0, \"b\": false, \"at\": \"2021-01-01 09:00:00.000Z\", \"note\": null}\n"
        );
        let columns = "(k, n, d, f, b, at, note)";
        let written =
            copy(&format!("t {columns} TO STDOUT WITH {forms} AND {tuning} AND PAGESIZE = 1"))
                .good();
        assert!(
            written.contains("1;1.234.567;-1.234,50;0,5;Ja;31.12.2020 23:59:58;1.5\n"),
            "{written}"
        );
        t.write("b.csv", &written);
        copy(&format!("u {columns} FROM 'b.csv' WITH {forms}")).said(0, &["copied 3 rows"]);
        assert_eq!(select("* FROM t"), select("* FROM u"));
        // Precision, tokens and several files.
        t.cql(&["-k", "shop", "-e", "TRUNCATE u; INSERT INTO u (k, f) VALUES (1, 0.123456789)"])
            .good();
        let digits = copy("u (f) TO STDOUT WITH DOUBLEPRECISION = 3 AND FLOATPRECISION = 2").good();
        assert_eq!(digits, "0.123\n");
        let all = select("k, token(k) AS at FROM t");
        let middle = all.lines().nth(1).unwrap().rsplit(' ').next().unwrap().trim_end_matches('}');
        let count =
            |with: &str| copy(&format!("t (k) TO STDOUT WITH {with}")).good().lines().count();
        let both =
            [count(&format!("BEGINTOKEN = '{middle}'")), count(&format!("ENDTOKEN = {middle}"))];
        assert_eq!(both, [1, 2]);
        copy("t (k) TO 'k.csv' WITH MAXOUTPUTSIZE = 2 AND HEADER = true")
            .said(0, &["copied 3 rows"]);
        assert_eq!([t.read("k.csv").lines().count(), t.read("k.csv.1").lines().count()], [3, 2]);
        // Skipped columns, times to live.
        t.write("s.csv", "k,extra,note\n7,x,seven\n");
        copy("u FROM 's.csv' WITH HEADER = true AND SKIPCOLS = 'extra' AND TTL = 1000")
            .said(0, &["copied 1 row"]);
        let left = select("ttl(note) AS left FROM u WHERE k = 7");
        assert!(left.starts_with("{\"left\": 9") || left.contains("1000"), "{left}");
        copy("c FROM 's.csv' WITH HEADER = true AND TTL = 5")
            .said(1, &["counters have no time to live"]);
        // Refused rows are left out, up to a limit, and written to a file.
        t.write("bad.csv", "1,one\n2\nx,two\n3,three\n,null\n4,four\n");
        copy("u (k, note) FROM 'bad.csv' WITH ERRFILE = 'bad.err' AND CHUNKSIZE = 2").said(
            1,
            &[
                "bad.csv:2: 1 cells",
                "bad.csv:3: column k",
                "bad.csv:5: ",
                "copied 3 rows",
                "3 rows were refused, and written to bad.err",
            ],
        );
        assert_eq!(t.read("bad.err"), "2\nx,two\n,null\n");
        copy("u (k, note) FROM 'bad.csv' WITH ERRFILE = 'bad.err'")
            .said(1, &["bad.err exists already"]);
        copy("u (k, note) FROM 'bad.csv' WITH MAXPARSEERRORS = 1")
            .said(1, &["bad.csv:3: column k", "the number of refused rows exceeds MAXPARSEERRORS"]);
        assert_eq!(t.read("import_shop_u.err"), "2\n");
        copy("u (k, note) FROM 'bad.csv' WITH MAXINSERTERRORS = 0 AND ERRFILE = 'c.err'")
            .said(1, &["the number of refused rows exceeds MAXINSERTERRORS"]);
        // A line of names is recognized.
        let head = "the first line names the columns: COPY … WITH HEADER = true";
        copy("u (k, note) FROM 's.csv'").said(1, &["s.csv:1: 3 cells, but 2 columns"]);
        t.write("head.csv", "k,note\n8,eight\n");
        copy("u (k, note) FROM 'head.csv'").said(1, &["head.csv:1: column k", head]);
        copy("u FROM 'head.csv'").said(1, &["head.csv:1: 2 cells, but 7 columns", head]);
        for (args, words) in [
            ("t FROM 'a.csv' WITH ENDTOKEN = 5", "ENDTOKEN is an option of COPY TO"),
            ("t TO 'x.csv' WITH TTL = 5", "TTL is an option of COPY FROM"),
            ("t TO 'x.csv' WITH FORMAT = json", "FORMAT is an option of COPY FROM"),
            ("t FROM 'a.csv' WITH BOOLSTYLE = 'x'", "BOOLSTYLE is two words"),
            ("t FROM 'a.csv' WITH DECIMALSEP = ',' AND THOUSANDSSEP = ','", "different characters"),
            ("t FROM 'a.csv' WITH ENCODING = 'latin1'", "ENCODING is utf8"),
            ("t FROM 'a.csv' WITH SKIPCOLS = 'nope'", "SKIPCOLS names nope"),
            ("t TO 'x.csv' WITH BEGINTOKEN = 'abc'", "BEGINTOKEN is a token"),
            ("t TO STDOUT WITH MAXOUTPUTSIZE = 5", "MAXOUTPUTSIZE works only with files"),
            ("t FROM 'a.csv' WITH CONFIGFILE = 'x'", "there is no option CONFIGFILE"),
        ] {
            copy(args).said(1, &[words]);
        }
    }
}

#[test]
fn rows_as_json_are_copied_back_as_they_were() {
    for t in Home::both("json") {
        let columns = "k text PRIMARY KEY, d decimal, v varint, n double, t timestamp, bl blob, l list<text>, m map<int, frozen<set<text>>>, \
                   u frozen<pair>, tu tuple<int, text>, \"Mixed\" boolean";
        let insert = "INSERT INTO a (k, d, v, n, t, bl, l, m, u, tu, \"Mixed\") VALUES ('it''s \"1\"', 1.50, 123456789012345678901234567890, 0.1, \
                  '2020-01-01', 0xcafe, ['a', 'b \"c\"', '1'], {1: {'x', 'y'}}, {x: 1, \"Y\": 'z'}, (1, null), true)";
        t.cql(&[
        "-e",
        &format!("{KEYSPACE} USE shop; CREATE TYPE pair (x int, \"Y\" text); CREATE TABLE a ({columns}); CREATE TABLE b ({columns}); {insert};"),
    ])
    .good();
        t.cql(&[
        "-k",
        "shop",
        "-e",
        "INSERT INTO a (k, d, l) VALUES ('two', -1E+5, []); INSERT INTO a (k, u) VALUES ('', null)",
    ])
    .said(1, &["Key may not be empty"]);
        t.cql(&["-k", "shop", "-e", "INSERT INTO a (k, tu) VALUES ('three', (2, ''))"]).good();
        let rows = t.cql(&["--json", "-k", "shop", "-e", "SELECT * FROM a"]).good();
        assert_eq!(rows.lines().count(), 3);
        t.write("a.jsonl", &rows);
        t.cql(&["-k", "shop", "-e", "COPY b FROM 'a.jsonl' WITH FORMAT = json"])
            .said(0, &["copied 3 rows"]);
        assert_eq!(t.cql(&["--json", "-k", "shop", "-e", "SELECT * FROM b"]).good(), rows);
        // Cells may be literals too; other texts are reported as JSON errors.
        t.write(
        "b.jsonl",
        "{\"k\": \"four\", \"l\": \"['q']\", \"bl\": \"0x\"}\n{\"k\": \"five\", \"l\": [[1]]}\n",
    );
        t.cql(&["-k", "shop", "-e", "COPY b FROM 'b.jsonl' WITH FORMAT = json AND CHUNKSIZE = 1"])
            .said(
                1,
                &[
                    "b.jsonl:2: column l: Expected a UTF-8 string, but got a ArrayList: [1]",
                    "1 row is written",
                ],
            );
        let got =
            t.cql(&["--json", "-k", "shop", "-e", "SELECT l, bl FROM b WHERE k = 'four'"]).good();
        assert_eq!(got, "{\"l\": [\"q\"], \"bl\": \"0x\"}\n");
    }
}

/// Types, each with the bytes of its extreme values, of empty values, and of values whose usual
/// text is that of another value.
const ENDS: &[(&str, &[&str])] = &[
    ("ascii", &["", "3078", "6e756c6c", "2c22275c"]),
    ("text", &["", "22", "0d0a00", "c3a9", "5b315d"]),
    ("blob", &["", "00", "ff2c"]),
    ("bigint", &["", "8000000000000000", "7fffffffffffffff", "ffffffffffffffff"]),
    ("int", &["", "80000000", "7fffffff"]),
    ("smallint", &["8000", "7fff"]),
    ("tinyint", &["80", "7f"]),
    ("varint", &["", "00", "0001", "80000000000000000000", "7fffffffffffffffffff"]),
    ("decimal", &["", "0000000200", "7fffffff01", "8000000001", "000000030001", "00000001"]),
    (
        "timestamp",
        &[
            "",
            "8000000000000000",
            "7fffffffffffffff",
            "ffffc76e394a7400", // -62198755200000
            "ffffc77cedd32800", // the year 1
            "ffffc77cedd327ff",
            "0000e677d21fdbff", // 9999
            "0000e677d21fdc00",
        ],
    ),
    ("date", &["00000000", "ffffffff", "80000000", "7ff50554"]),
    ("time", &["0000000000000000", "00004e94914effff", "ffffffffffffffff"]),
    ("boolean", &["", "00", "01", "02"]),
    ("float", &["", "7fc00000", "7fc00001", "ff800000", "80000000", "7f7fffff", "00000001"]),
    ("double", &["", "7ff8000000000000", "fff0000000000000", "0000000000000001"]),
    ("uuid", &["", "00000000000000000000000000000000", "550e8400e29b41d4a716446655440000"]),
    ("timeuuid", &["", "00000000000010000000000000000000", "ffffffffffff1fffffffffffffffffff"]),
    (
        "inet",
        &["", "00000000", "00000000000000000000ffff01020304", "ffffffffffffffffffffffffffffffff"],
    ),
    (
        "duration",
        &["000000", "f0fffffffef0fffffffefffffffffffffffffe", "01030500", "f0ffffffff0000"],
    ),
];

#[test]
fn both_ends_of_every_type_are_copied_back_as_the_same_bytes() {
    for t in Home::both("ends") {
        let each = |of: &dyn Fn(&str) -> String, between: &str| {
            ENDS.iter().map(|(name, _)| of(name)).collect::<Vec<_>>().join(between)
        };
        let parts = "\"A\" int, a int, u frozen<parts>, l list<frozen<parts>>, m map<timestamp, double>, \
             s set<date>, v vector<float, 2>";
        let columns =
            format!("k int PRIMARY KEY, {}, {parts}", each(&|n| format!("c_{n} {n}"), ", "));
        let fields = each(&|n| format!("f_{n} {n}"), ", ");
        let mut script = format!(
            "{KEYSPACE} USE shop; CREATE TYPE parts ({fields}, tu tuple<timestamp, duration>); \
             CREATE TABLE a ({columns}); CREATE TABLE b ({columns});\n"
        );
        let most = ENDS.iter().map(|(_, values)| values.len()).max().unwrap();
        for row in 0..most {
            let of = |name: &str| {
                let values = ENDS.iter().find(|(n, _)| *n == name).unwrap().1;
                let bytes = values[row % values.len()];
                if name == "blob" {
                    format!("0x{bytes}")
                } else {
                    format!("blobas{name}(0x{bytes})")
                }
            };
            let time = of("timestamp");
            let udt = format!(
                "{{{}, tu: ({time}, {})}}",
                each(&|n| format!("f_{n}: {}", of(n)), ", "),
                of("duration")
            );
            script += &format!(
                "INSERT INTO a (k, {}, \"A\", a, u, l, m, s) VALUES ({row}, {}, 1, {row}, {udt}, [{udt}, {udt}], {{{time}: {}}}, {{{}}});\n",
                each(&|n| format!("c_{n}"), ", "),
                each(&of, ", "),
                of("double"),
                of("date"),
            );
        }
        script += "UPDATE a SET v = [NaN, -Infinity] WHERE k = 0; INSERT INTO a (k) VALUES (-1);";
        t.write("ends.cql", &script);
        t.cql(&["-f", "ends.cql"]).good();
        let run = |script: &str| t.cql(&["-k", "shop", "-e", script]);
        // The bytes themselves, and those of the parts of other types.
        let output = |table: &str| {
            let bytes = each(
                &|n| if n == "blob" { "c_blob".into() } else { format!("{n}asblob(c_{n})") },
                ", ",
            );
            let parts =
                format!("COPY {table} (k, \"A\", a, u, l, m, s, v) TO STDOUT WITH NULL = '\\N'");
            run(&format!("SELECT k, {bytes} FROM {table}; {parts}")).good()
        };
        let wanted = output("a");
        assert!(wanted.matches("0x").count() > 100, "{wanted}");
        for options in
            ["NULL = '\\N'", "HEADER = true AND QUOTE = '|' AND ESCAPE = '\\' AND NULL = '\\N'"]
        {
            let Ran(code, _, err) = run(&format!(
                "COPY a TO 'a.csv' WITH {options}; COPY b FROM 'a.csv' WITH {options}"
            ));
            assert_eq!((code, err.contains("warning")), (0, false), "{err}");
            assert_eq!(output("b"), wanted, "{options}");
            run("TRUNCATE b").good();
        }
        t.write("a.jsonl", &t.cql(&["--json", "-k", "shop", "-e", "SELECT * FROM a"]).good());
        run("COPY b FROM 'a.jsonl' WITH FORMAT = json").said(0, &["copied 9 rows"]);
        assert_eq!(output("b"), wanted, "{}", t.read("a.jsonl"));
        // Empty values of types other than text are distinguished from null without an option too.
        let numbers = "k, c_int, c_bigint, c_timestamp, c_duration, c_inet, c_decimal, c_double";
        let Ran(code, _, err) = run(&format!(
            "TRUNCATE b; COPY a ({numbers}) TO 'n.csv'; COPY b ({numbers}) FROM 'n.csv'"
        ));
        assert_eq!((code, err.contains("warning")), (0, false), "{err}");
        let counted = |table: &str| run(&format!("SELECT {numbers} FROM {table}")).good();
        assert_eq!(counted("b"), counted("a"));
    }
}

#[test]
fn long_results_come_in_pages() {
    for t in Home::both("pages") {
        t.cql(&[
            "-e",
            &format!("{KEYSPACE} CREATE TABLE shop.t (k int, c int, PRIMARY KEY (k, c))"),
        ])
        .good();
        t.write("t.csv", &(0..2500).map(|n| format!("1,{n}\n")).collect::<String>());
        t.cql(&["-e", "COPY shop.t FROM 't.csv'"]).said(0, &["copied 2,500 rows"]);
        let shown = t.cql(&["-e", "SELECT * FROM shop.t"]).good();
        assert_eq!((shown.matches("---+-----\n").count(), shown.lines().count()), (1, 2505));
        assert!(shown.ends_with(" 1 | 2499\n\n(2500 rows)\n"), "{}", &shown[shown.len() - 100..]);
        let paged = t.cql_with(&[], "PAGING 7\nSELECT * FROM shop.t;").good();
        assert_eq!(paged.lines().count(), 2505);
        // Partitions that are sorted together have no pages, so the query has an answer only
        // without pages.
        let sorted = "SELECT c FROM shop.t WHERE k IN (1, 2) ORDER BY c DESC";
        t.cql(&["-e", sorted])
            .said(1, &["Cannot page queries with both ORDER BY and a IN restriction"]);
        let all = t.cql(&["-e", &format!("PAGING OFF; {sorted}")]).said(0, &["paging is off"]);
        assert!(
            all.contains("------\n 2499\n 2498\n") && all.ends_with("(2500 rows)\n"),
            "{}",
            &all[all.len() - 100..]
        );
    }
}

#[test]
fn many_short_runs_keep_small_logs() {
    let temp = Temp::new("cql", "logs");
    let keyspace =
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    assert_eq!(
        temp.cql(&["-e", &format!("{keyspace}; CREATE TABLE k.t (p int PRIMARY KEY)")]).0,
        0
    );
    for p in 0..4 {
        assert_eq!(temp.cql(&["-e", &format!("INSERT INTO k.t (p) VALUES ({p})")]).0, 0);
    }
    let sizes =
        fs::read_dir(temp.0.join("db")).unwrap().map(|f| f.unwrap().metadata().unwrap().len());
    assert!(sizes.sum::<u64>() < 16 << 20);
    // A statement that is larger than a segment.
    let large = format!(
        "CREATE TABLE k.b (p int PRIMARY KEY, v blob); INSERT INTO k.b (p, v) VALUES (1, 0x{})",
        "ab".repeat(60_000)
    );
    assert_eq!(temp.cql(&["-e", &large]).0, 0);
    assert!(temp.cql(&["-e", "SELECT count(*) FROM k.t"]).1.contains("4"));
}

#[test]
fn compact_and_purge_report_know_tables() {
    let t = Temp::new("cql", "compact");
    let firn = |args: &[&str]| {
        let done = t.run("db", args, b"");
        assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
        done.stdout
    };
    let json =
        |args: &[&str]| -> serde_json::Value { serde_json::from_slice(&firn(args)).unwrap() };
    t.cql(&["-e", KEYSPACE]).good();
    let tables = "CREATE TABLE items (id int PRIMARY KEY, name text) WITH gc_grace_seconds = 0; CREATE INDEX ON items (name);
        CREATE TABLE hits (id int PRIMARY KEY, n counter)";
    t.cql(&["-k", "shop", "-e", tables]).good();
    for i in 0..3 {
        let rows = format!(
            "INSERT INTO items (id, name) VALUES ({i}, 'n{i}'); DELETE FROM items WHERE id = 0; UPDATE hits SET n = n + 1 WHERE id = 1"
        );
        t.cql(&["-k", "shop", "-e", &rows]).good();
        firn(&["compact"]);
    }
    let stats = json(&["stats", "--json"]);
    for tree in stats["trees"].as_array().unwrap() {
        assert_eq!(tree["runs"].as_array().unwrap().len(), 1, "{tree}");
    }
    // The tables were written with the hooks: each has statistics, and the increments of a counter
    // are one value.
    let report = json(&["purge-report", "-k", "shop", "--json"]);
    let entries = |name: &str| {
        let of = report.as_array().unwrap().iter().find(|r| r["family"] == name).unwrap();
        of["tables"].as_array().unwrap().iter().map(|t| t["entries"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(entries("hits"), 1, "{report}");
    assert!(entries("items") >= 4, "{report}");
    let one = String::from_utf8(firn(&["purge-report", "-k", "shop", "--table", "items"])).unwrap();
    assert!(one.contains("items: 1 table in the tree cf-"), "{one}");
    let none = t.run("db", &["purge-report", "-k", "shop", "--table", "nope"], b"");
    assert!(
        none.status.code() == Some(2)
            && String::from_utf8_lossy(&none.stderr).contains("shop has hits, items")
    );
    assert!(t.cql(&["-k", "shop", "-e", "SELECT n FROM hits"]).good().contains(" 3\n"));
}

#[test]
fn trees_of_tables_are_not_written_by_hand() {
    let t = Temp::new("cql", "by-hand");
    t.cql(&["-e", KEYSPACE]).good();
    t.cql(&["-k", "shop", "-e", "CREATE TABLE items (id int PRIMARY KEY, name text)"]).good();
    t.cql(&["-k", "shop", "-e", "INSERT INTO items (id, name) VALUES (1, 'one')"]).good();
    let trees = String::from_utf8(t.run("db", &["trees"], b"").stdout).unwrap();
    let cells = trees.split_whitespace().find(|w| w.starts_with("cf-")).unwrap().to_owned();
    for tree in [&*cells, "system.schema"] {
        for args in [&["load", "-", "--tree", tree][..], &["delete", "k", "--tree", tree]] {
            let done = t.run("db", args, b"k\tv\n");
            let err = String::from_utf8(done.stderr).unwrap();
            assert_eq!(done.status.code(), Some(2), "{err}");
            assert!(
                err.contains("belongs to the keyspaces of this store")
                    && err.contains("`firn cql`"),
                "{err}"
            );
        }
    }
    // A tree of the user may exist in the same store.
    for args in [
        &["load", "-", "--tree", "own"][..],
        &["delete", "k", "--tree", "own"],
        &["compact"],
        &["checkpoint", "copy"],
    ] {
        let done = t.run("db", args, b"k\tv\n");
        assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    }
    assert!(t.cql(&["-k", "shop", "-e", "SELECT name FROM items"]).good().contains("one"));
    // Commands for keyspaces do not convert a store of keys.
    t.run("keys", &["load", "-"], b"k\tv\n");
    for args in [
        &["import", "--keyspace", "shop", "-"][..],
        &["export", "--keyspace", "shop"],
        &["purge-report", "-k", "shop"],
    ] {
        let done = t.run("keys", args, b"{}");
        let err = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.code() == Some(2) && err.contains("it has no keyspaces"), "{err}");
    }
    assert!(
        !String::from_utf8(t.run("keys", &["trees"], b"").stdout)
            .unwrap()
            .contains("system.schema")
    );
}

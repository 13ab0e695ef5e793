//! The language of `cassandra-cli`: text-driven cases in `cli/`, the recorded transcript of the
//! real command in `vectors/cli.txt`, and arbitrary text.

#![allow(clippy::disallowed_methods)]

use super::transcript;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use firn_testkit::datadriven::{Case, walk};
use firn_wide::{CfDef, ColumnDef, KsDef};
use firn_wide_text::cli::attributes::{FamilyChange, KeyspaceChange};
use firn_wide_text::cli::complete::{CompletionNames, complete};
use firn_wide_text::cli::format;
use firn_wide_text::cli::{CliSource, CliStatement, Splitter, help, lex, parse, split};
use proptest::prelude::*;
use transcript::{TRANSCRIPT, exchanges};

#[test]
fn text_driven() {
    walk(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli"), run);
}

fn run(case: &Case) -> String {
    let mut out = String::new();
    let input = case.input.trim_end_matches('\n');
    match case.directive.as_str() {
        "lex" => match lex::lex(&CliSource::new(input)) {
            Ok(tokens) => {
                tokens.iter().for_each(|t| writeln!(out, "{:?} {:?}", t.kind, t.text).unwrap())
            }
            Err(e) => writeln!(out, "{e}\n{}", e.historical()).unwrap(),
        },
        "split" => {
            for s in split::split(input) {
                writeln!(out, "{}:{} {:?}", s.line, s.column, s.text).unwrap();
            }
        }
        "parse" => {
            for s in split::split(input) {
                match parse(&s) {
                    Ok(statement) => writeln!(out, "{statement:?}").unwrap(),
                    Err(e) => writeln!(out, "{e}\n{}", e.historical()).unwrap(),
                }
            }
        }
        "attributes" => match parse(&CliSource::new(input)) {
            Ok(CliStatement::CreateKeyspace(d) | CliStatement::UpdateKeyspace(d)) => {
                answer(&mut out, KeyspaceChange::new(&d.attributes))
            }
            Ok(CliStatement::CreateFamily(d) | CliStatement::UpdateFamily(d)) => {
                answer(&mut out, FamilyChange::new(&d.attributes))
            }
            other => panic!("{other:?}"),
        },
        "complete" => {
            // `|` is the cursor.
            let (before, _) = input.split_once('|').expect("a cursor");
            let names = CompletionNames {
                keyspaces: vec!["Music".into(), "Blog".into()],
                families: vec![
                    ("users".into(), vec!["user_name".into(), "json_data".into()]),
                    ("user_likes".into(), vec![]),
                    ("songs".into(), vec!["title".into()]),
                ],
            };
            let done = complete(before, &names);
            writeln!(out, "{:?}: {}", &before[done.start..], done.candidates.join(" ")).unwrap();
        }
        "help" => match parse(&CliSource::new(input)) {
            Ok(CliStatement::Help(topic)) => out = help::help(topic),
            other => panic!("{other:?}"),
        },
        other => panic!("{}:{}: no directive {other}", case.file.display(), case.line),
    }
    out
}

fn answer<T: std::fmt::Debug>(
    out: &mut String,
    change: Result<T, firn_wide_text::cli::SyntaxFailure>,
) {
    match change {
        Ok(change) => {
            let all = format!("{change:#?}");
            let said = all.lines().filter(|l| !l.ends_with(": None,"));
            said.for_each(|l| writeln!(out, "{l}").unwrap());
        }
        Err(e) => writeln!(out, "{}\n{}", e.plain, e.historical).unwrap(),
    }
}

#[test]
fn every_recorded_statement_parses_or_fails_as_it_did() {
    let (mut parsed, mut failed) = (0, 0);
    for (_, statement, answer) in exchanges() {
        let got = parse(&CliSource::new(statement.clone()));
        if answer.starts_with("Syntax error") {
            failed += 1;
            assert_eq!(got.expect_err(&statement).historical(), answer.trim_end(), "{statement}");
        } else {
            parsed += 1;
            got.unwrap_or_else(|e| panic!("{statement}: {e}"));
        }
    }
    assert_eq!((parsed, failed), (171, 7));
}

fn long(class: &str) -> String {
    if class.contains('.') {
        class.to_owned()
    } else {
        format!("org.apache.cassandra.db.marshal.{class}")
    }
}

/// Returns a column family from a statement of `show schema`, with the text of names as their
/// bytes.
fn family(name: &str, change: FamilyChange) -> CfDef {
    let columns = change.column_metadata.unwrap_or_default().into_iter().map(|c| ColumnDef {
        name: c.name.into_bytes(),
        validation_class: long(&c.validation_class.unwrap()),
        index_type: c.index,
        index_name: c.index_name,
        index_options: c.index_options.unwrap_or_default(),
    });
    CfDef {
        column_type: change.column_type.unwrap(),
        subcomparator_type: change.subcomparator.map(|c| long(&c)),
        comparator_type: long(&change.comparator.unwrap()),
        default_validation_class: long(&change.default_validation_class.unwrap()),
        key_validation_class: long(&change.key_validation_class.unwrap()),
        comment: change.comment.unwrap_or_default(),
        read_repair_chance: change.read_repair_chance.unwrap(),
        dclocal_read_repair_chance: change.dclocal_read_repair_chance.unwrap(),
        gc_grace_seconds: change.gc_grace.unwrap(),
        min_compaction_threshold: change.min_compaction_threshold.unwrap(),
        max_compaction_threshold: change.max_compaction_threshold.unwrap(),
        replicate_on_write: change.replicate_on_write.unwrap(),
        compaction_strategy: change.compaction_strategy.unwrap(),
        compaction_strategy_options: change.compaction_strategy_options.unwrap_or_default(),
        caching: change.caching.unwrap(),
        bloom_filter_fp_chance: change.bloom_filter_fp_chance,
        compression_options: change.compression_options.unwrap_or_default(),
        column_metadata: columns.collect(),
        ..CfDef::new("", name)
    }
}

fn namer(_: &CfDef, name: &[u8]) -> String {
    String::from_utf8(name.to_owned()).unwrap()
}

/// Parses the output of `show schema`.
fn read_schema(text: &str) -> Vec<KsDef> {
    let mut keyspaces: Vec<KsDef> = Vec::new();
    for source in split::split(text) {
        match parse(&source).unwrap_or_else(|e| panic!("{e}: {}", source.text)) {
            CliStatement::CreateKeyspace(d) => {
                let change = KeyspaceChange::new(&d.attributes).unwrap();
                keyspaces.push(KsDef {
                    name: d.name,
                    strategy_class: format!(
                        "org.apache.cassandra.locator.{}",
                        change.placement_strategy.unwrap()
                    ),
                    strategy_options: change.strategy_options.unwrap_or_default(),
                    durable_writes: change.durable_writes.unwrap(),
                    cf_defs: Vec::new(),
                });
            }
            CliStatement::Use { keyspace, .. } => {
                assert_eq!(keyspace, keyspaces.last().unwrap().name)
            }
            CliStatement::CreateFamily(d) => {
                let family = family(&d.name, FamilyChange::new(&d.attributes).unwrap());
                keyspaces.last_mut().unwrap().cf_defs.push(family);
            }
            other => panic!("{other:?}"),
        }
    }
    keyspaces
}

#[test]
fn the_recorded_schema_is_read_and_printed_alike() {
    let recorded = exchanges().into_iter().find(|(_, s, _)| s == "show schema Music;").unwrap().2;
    let mut printed = String::new();
    format::schema(&mut printed, &read_schema(&recorded), &namer);
    assert_eq!(printed, recorded);
}

#[test]
fn results_look_as_recorded() {
    use format::{CliCell, CliColumn, CliRow};
    let column = |name: &str, value: &str, ttl| CliColumn {
        name: name.into(),
        value: value.into(),
        timestamp: 77,
        ttl,
    };
    let recorded = |printed: &str| {
        let masked = printed
            .replace("timestamp=77", "timestamp=<us>")
            .replace("time: 5 msec", "time: <n> msec");
        assert!(TRANSCRIPT.contains(&masked), "{masked}");
    };
    let print = |f: &dyn Fn(&mut String)| {
        let mut out = String::new();
        f(&mut out);
        format::elapsed(&mut out, 5);
        recorded(&out);
    };
    print(&|out| format::cell(out, &CliCell::Column(column("user_name", "ann", None))));
    print(&|out| format::slice(out, &[CliCell::Column(column("user_name", "temp", Some(5000)))]));
    print(&|out| format::slice(out, &[]));
    let counters = [
        CliCell::Counter("likes".into(), -6),
        CliCell::Counter("unlisted".into(), 1),
        CliCell::Counter("views".into(), -1),
    ];
    print(&|out| format::slice(out, &counters));
    let john = vec![column("street", "Howard street", None), column("zip", "94404", None)];
    let book = [
        CliCell::Super("Bob".into(), vec![column("street", "Q Blvd", None)]),
        CliCell::Super("John".into(), john),
    ];
    print(&|out| format::slice(out, &book));
    let user = |key: &str, name: &str| CliRow {
        key: key.into(),
        cells: vec![CliCell::Column(column("user_name", name, None))],
    };
    print(&|out| format::rows(out, &[]));
    print(&|out| format::rows(out, &[user("bob-key", "bob")]));
    print(&|out| {
        format::default_limits(out, true, true);
        format::rows(out, &[CliRow { key: "s1".into(), cells: vec![] }]);
    });
    let mut out = String::new();
    format::schema_changed(&mut out, "<schema-id>");
    recorded(&format!("{}use Music;", format::prompt(None)));
    recorded(&format!(
        "{}create column family users with comparator=UTF8Type\n{}",
        format::prompt(Some("Music")),
        format::MORE
    ));
    recorded(&out);
}

#[test]
fn descriptions_name_everything() {
    let recorded = exchanges().into_iter().find(|(_, s, _)| s == "show schema Music;").unwrap().2;
    let mut keyspace = read_schema(&recorded).remove(0);
    keyspace.cf_defs.retain(|f| f.name == "comments" || f.name == "AddressBook");
    keyspace.cf_defs[0].comment = "people".to_owned();
    let mut out = String::new();
    format::describe_keyspace(&mut out, &keyspace, &namer);
    format::cluster(
        &mut out,
        "S",
        "P",
        &BTreeMap::from([("id".to_owned(), vec!["127.0.0.1".to_owned()])]),
    );
    assert_eq!(out, include_str!("cli/describe.expected"));
}

#[test]
fn a_schema_with_everything_odd_in_it_is_read_back() {
    let odd = CfDef {
        column_type: "Super".to_owned(),
        subcomparator_type: Some(long("LongType")),
        comparator_type: long("DateType"),
        default_validation_class: long("UTF8Type"),
        key_validation_class: long("CompositeType(UTF8Type,LongType)"),
        comment: "a 'quote', a \\, a \n\t\u{1}, snow ☃ and 雪".to_owned(),
        read_repair_chance: 1.0,
        bloom_filter_fp_chance: Some(0.01),
        compaction_strategy: "X".to_owned(),
        compaction_strategy_options: BTreeMap::from([("a b".to_owned(), "'".to_owned())]),
        column_metadata: vec![ColumnDef {
            index_name: Some("i".to_owned()),
            ..ColumnDef::new("\u{7f}]}", long("com.example.Odd(UTF8Type)")).indexed()
        }],
        ..CfDef::new("", "it's")
    };
    let uncompressed = CfDef { compression_options: BTreeMap::new(), ..CfDef::new("", "plain") };
    let uncompressed = CfDef {
        comparator_type: long(&uncompressed.comparator_type),
        default_validation_class: long(&uncompressed.default_validation_class),
        key_validation_class: long(&uncompressed.key_validation_class),
        ..uncompressed
    };
    let keyspace =
        KsDef { durable_writes: false, cf_defs: vec![odd, uncompressed], ..KsDef::new("k-1") };
    let mut printed = String::new();
    format::schema(&mut printed, std::slice::from_ref(&keyspace), &namer);
    let read = read_schema(&printed);
    let mut again = String::new();
    format::schema(&mut again, &read, &namer);
    assert_eq!(again, printed);
    assert_eq!(read, [keyspace]);
}

#[test]
fn every_page_of_the_help_is_reachable_and_its_example_works() {
    for topic in help::CliTopic::all() {
        let words = topic.words().join(" ");
        let asked = parse(&CliSource::new(format!("HELP {words};"))).unwrap();
        assert_eq!(asked, CliStatement::Help(Some(topic)), "{words}");
        let text = help::help(Some(topic));
        assert!(
            text.contains(topic.page().form)
                && text.ends_with('\n')
                && text.lines().all(|l| l.chars().count() <= 120),
            "{text}"
        );
        for source in split::split(topic.page().example) {
            parse(&source).unwrap_or_else(|e| panic!("help {words}: {e}"));
        }
    }
    for line in help::help(None).lines() {
        assert!(line.len() <= 120, "{line}");
    }
}

/// Draws text that resembles the language.
fn nearly() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "get", "set", "list", "create", "column", "family", "keyspace", "users", "where", "and", "with", "limit", "as", "help", "show",
            "schema", "describe", "incr", "by", "=", "[", "]", "{", "}", "(", ")", ":", ",", ".", "/", "?", ";", ">=", "<", "'a'", "\"b\"",
            "12", "-3", "1.5", "1.2.3.4", "1.2.3", "column_metadata", "comparator", "ttl", "utf8", "--", "/*", "*/", "\n", "'", "\\", "-",
        ]).prop_map(str::to_owned),
        1 => ".{0,6}",
    ];
    prop::collection::vec((piece, prop::bool::weighted(0.7)), 0..24).prop_map(|pieces| {
        pieces.into_iter().map(|(p, blank)| if blank { p + " " } else { p }).collect()
    })
}

fn check(text: &str, cuts: &[usize]) {
    let whole = split::split(text);
    // The split of a text into pieces does not matter.
    let mut splitter = Splitter::new();
    let (mut piecewise, mut from) = (Vec::new(), 0);
    let mut cuts: Vec<usize> =
        cuts.iter().map(|c| c % (text.len() + 1)).filter(|c| text.is_char_boundary(*c)).collect();
    cuts.sort_unstable();
    cuts.push(text.len());
    for cut in cuts {
        splitter.feed(&text[from..cut]);
        from = cut;
        piecewise.extend(std::iter::from_fn(|| splitter.next_statement()));
    }
    piecewise.extend(splitter.finish());
    assert_eq!(piecewise, whole, "{text:?}");
    for source in &whole {
        // The reported position of a statement is its start.
        let line = text.split('\n').nth(source.line as usize - 1).unwrap();
        let begins: String = line.chars().skip(source.column as usize - 1).collect();
        assert!(
            begins.starts_with(source.text.split('\n').next().unwrap()),
            "{text:?}: {source:?}"
        );
        // Lexer and splitter agree on the ends of statements.
        if let Ok(tokens) = lex::lex(source) {
            let ends = tokens
                .iter()
                .filter(|t| t.kind == lex::TokenKind::Sign && t.text == ";")
                .map(|t| t.end);
            assert!(
                ends.clone().all(|end| end == source.text.len()) && ends.count() <= 1,
                "{text:?}: {source:?}"
            );
        }
        if let Err(e) = parse(source) {
            assert!(
                e.line >= source.line
                    && !e.expected.is_empty()
                    && e.historical().starts_with("Syntax error at position ")
            );
            let last = source.position(source.text.len());
            assert!((e.line, e.column) <= last, "{text:?}: {e}");
        }
    }
    let names = CompletionNames {
        keyspaces: vec!["k".into()],
        families: vec![("users".into(), vec!["雪".into()])],
    };
    let done = complete(text, &names);
    assert!(text.is_char_boundary(done.start) && done.start <= text.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_text_is_answered(text in "\\PC{0,60}|[ -~\n]{0,80}", cuts in prop::collection::vec(any::<usize>(), 0..4)) {
        check(&text, &cuts);
    }

    #[test]
    fn nearly_right_text_is_answered(text in nearly(), cuts in prop::collection::vec(any::<usize>(), 0..4)) {
        check(&text, &cuts);
    }

    #[test]
    fn strings_are_read_back(text in "\\PC{0,20}") {
        let escaped: String = text.chars().flat_map(|c| if c == '\'' || c == '\\' { vec!['\\', c] } else { vec![c] }).collect();
        let tokens = lex::lex(&CliSource::new(format!("'{escaped}'"))).unwrap();
        prop_assert_eq!(&tokens[0].text, &text);
    }
}

#[test]
fn too_deep_or_too_long_input_is_refused() {
    let deep = format!(
        "create column family f with compression_options = {}1{};",
        "{a:".repeat(100_000),
        "}".repeat(100_000)
    );
    assert!(parse(&CliSource::new(deep)).unwrap_err().to_string().contains("nested"));
    let long = format!("set a[b][c] = '{}';", "x".repeat(firn_wide_text::cli::MAX_STATEMENT));
    assert!(parse(&CliSource::new(long)).unwrap_err().to_string().contains("at most"));
}

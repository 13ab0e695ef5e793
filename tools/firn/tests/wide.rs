//! Tests families through the `firn` binary: loading records as rows, export and import.
#![allow(clippy::disallowed_methods, missing_docs)] // the tests make the files that a user would name

use super::common;

use common::{Ran, Temp};
use std::collections::BTreeMap;
use std::fs;

use firn_wide::{
    CfDef, ColumnOrSuperColumn, ColumnParent, IndexClause, IndexExpression, IndexOperator,
    KeyRange, Keyspace, KsDef, SlicePredicate, SliceRange, Wide,
};

impl Temp {
    fn file_here(&self, name: &str, content: &[u8]) -> String {
        fs::write(self.0.join(name), content).unwrap();
        name.to_owned()
    }

    /// Runs `firn --db DB ARGS` in this directory; returns the exit code, standard output and
    /// standard error.
    fn firn_parts(&self, db: &str, args: &[&str]) -> (i32, String, String) {
        let done = self.run(db, args, b"");
        let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
        (done.status.code().unwrap_or(-1), text(done.stdout), text(done.stderr))
    }

    fn good(&self, db: &str, args: &[&str]) -> (String, String) {
        let (code, out, err) = self.firn_parts(db, args);
        assert_eq!(code, 0, "{args:?}: {err}");
        (out, err)
    }

    fn open(&self, db: &str, keyspace: &str) -> Keyspace {
        Wide::open(self.0.join(db)).unwrap().keyspace(keyspace).unwrap()
    }
}

fn packages() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/packages.deb822")).unwrap()
}

/// Returns name and value of each field of a stanza, without those that name the row.
fn stanza(text: &str, without: &[&str]) -> BTreeMap<String, String> {
    let mut fields: Vec<String> = vec![];
    for line in text.lines() {
        match (line.starts_with(' '), fields.last_mut()) {
            (true, Some(last)) => *last += &format!("\n{line}"),
            _ => fields.push(line.to_owned()),
        }
    }
    let pair = |f: String| {
        let (name, value) = f.split_once(':').unwrap();
        (name.to_owned(), value.strip_prefix(' ').unwrap_or(value).to_owned())
    };
    fields.into_iter().map(pair).filter(|(n, _)| !without.contains(&&**n)).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn row(columns: &[ColumnOrSuperColumn]) -> BTreeMap<String, String> {
    columns
        .iter()
        .filter_map(ColumnOrSuperColumn::column)
        .map(|c| (text(&c.name), text(&c.value)))
        .collect()
}

const DEB: [&str; 6] = ["--format", "deb822", "--keyspace", "Debian", "--family", "packages"];

#[test]
fn a_package_index_is_rows_of_columns() {
    let t = Temp::new("wide", "packages");
    let file = t.file_here("packages", packages().as_bytes());
    let (_, err) = t.good("db", &[&["load", &file, "--index", "Section"][..], &DEB].concat());
    assert!(err.contains("loaded 4 rows with 26 columns into Debian.packages"), "{err}");
    let k = t.open("db", "Debian");
    let all = k
        .get_range_slices(
            &ColumnParent::new("packages"),
            &SlicePredicate::all(),
            &KeyRange::default(),
        )
        .unwrap();
    let read: BTreeMap<String, _> = all.iter().map(|r| (text(&r.key), row(&r.columns))).collect();
    let mut expected: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for s in packages().split("\n\n") {
        // The later record of a package adds to the columns of the earlier one.
        let name = stanza(s, &[])["Package"].clone();
        expected.entry(name).or_default().extend(stanza(s, &["Package"]));
    }
    assert_eq!(read, expected);
    // By the index, and a slice.
    let clause =
        IndexClause::new(vec![IndexExpression::new("Section", IndexOperator::Eq, "games")]);
    let games = k
        .get_indexed_slices(
            &ColumnParent::new("packages"),
            &clause,
            &SlicePredicate::names(["Size"]),
        )
        .unwrap();
    let sizes: BTreeMap<_, _> =
        games.iter().map(|r| (text(&r.key), row(&r.columns)["Size"].clone())).collect();
    assert_eq!(
        sizes,
        BTreeMap::from([
            ("0ad".into(), "7891488".into()),
            ("0ad-data".into(), "1377557908".into())
        ])
    );
    let slice = SliceRange { start: b"S".to_vec(), finish: b"T".to_vec(), ..SliceRange::default() };
    let some = k.get_slice(b"0ad", &ColumnParent::new("packages"), &slice.into()).unwrap();
    assert_eq!(row(&some).into_keys().collect::<Vec<_>>(), ["Section", "Size"]);
    // An index requested later is built over the existing rows.
    drop(k);
    t.good("db", &[&["load", &file, "--index", "Architecture"][..], &DEB].concat());
    let clause =
        IndexClause::new(vec![IndexExpression::new("Architecture", IndexOperator::Eq, "all")]);
    let k = t.open("db", "Debian");
    let found = k
        .get_indexed_slices(
            &ColumnParent::new("packages"),
            &clause,
            &SlicePredicate::names(["Size"]),
        )
        .unwrap();
    assert_eq!(found.iter().map(|r| text(&r.key)).collect::<Vec<_>>(), ["0ad-data"]);
}

#[test]
fn versions_are_super_columns() {
    let t = Temp::new("wide", "versions");
    let file = t.file_here("packages.deb822", packages().as_bytes());
    let to = ["--keyspace", "Debian", "--family", "versions", "--super", "Version"];
    t.good("db", &[&["load", &file][..], &to].concat());
    let (code, _, err) =
        t.firn_parts("db", &["load", &file, "--keyspace", "Debian", "--family", "versions"]);
    assert_eq!(code, 2);
    assert!(
        err.contains(
            "versions is a Super family\n next: name the field of the super columns with --super"
        ),
        "{err}"
    );
    let k = t.open("db", "Debian");
    let zzuf =
        k.get_slice(b"zzuf", &ColumnParent::new("versions"), &SlicePredicate::all()).unwrap();
    let stanzas = packages();
    let stanzas: Vec<_> = stanzas.split("\n\n").skip(2).collect();
    for (got, s) in zzuf.iter().zip(&stanzas) {
        let got = got.super_column().unwrap();
        let columns: BTreeMap<_, _> =
            got.columns.iter().map(|c| (text(&c.name), text(&c.value))).collect();
        assert_eq!(
            (text(&got.name), columns),
            (stanza(s, &[])["Version"].clone(), stanza(s, &["Package", "Version"]))
        );
    }
    assert_eq!(zzuf.len(), stanzas.len());
}

#[test]
fn tables_and_json_lines_are_rows_too() {
    let t = Temp::new("wide", "tables");
    let tsv = t.file_here("p.tsv", b"id\tname\ttown\n1\tann\\tb\tOslo\n2\t\tRome\n");
    t.good("db", &["load", &tsv, "--header", "yes", "--keyspace", "K", "--family", "t"]);
    let csv = t.file_here("p.csv", b"name,id\n\"x,y\",7\n");
    t.good("db", &["load", &csv, "--key", "id", "--keyspace", "K", "--family", "c"]);
    let jsonl = t.file_here(
        "p.jsonl",
        b"{\"id\":\"1\",\"n\":5,\"gone\":null}\n{\"no\":1}\n{\"id\":\"2\",\"n\":\"\"}\n",
    );
    let (_, err) = t.good(
        "db",
        &["load", &jsonl, "--key", "id", "--keyspace", "K", "--family", "j", "--bad", "skip"],
    );
    assert!(
        err.contains("skipped 1 bad line; the first is line 2: it has no field \"id\""),
        "{err}"
    );
    let (code, _, err) =
        t.firn_parts("db", &["load", &jsonl, "--key", "id", "--keyspace", "K", "--family", "j2"]);
    assert_eq!(code, 1);
    assert!(err.contains("error: p.jsonl, line 2: it has no field \"id\""), "{err}");
    let (out, _) = t.good("db", &["export", "--keyspace", "K", "--notation", "short"]);
    let got: serde_json::Value = serde_json::from_str(&out).unwrap();
    let expected = serde_json::json!({
        "t": {"1": {"name": "ann\tb", "town": "Oslo"}, "2": {"town": "Rome"}},
        "c": {"7": {"name": "x,y"}},
        "j": {"1": {"n": "5"}, "2": {"n": ""}},
        "j2": {},
    });
    assert_eq!(got, expected);
}

#[test]
fn a_family_with_types_takes_texts_of_them() {
    let t = Temp::new("wide", "types");
    let wide = Wide::open(t.0.join("db")).unwrap();
    let long = || "LongType".to_owned();
    let def =
        CfDef { comparator_type: long(), default_validation_class: long(), ..CfDef::new("K", "n") };
    wide.system_add_keyspace(&KsDef { cf_defs: vec![def], ..KsDef::new("K") }).unwrap();
    drop(wide);
    let csv = t.file_here("n.csv", b"key,3,20\nr,5,-6\ns,x,1\n");
    let (code, _, err) = t.firn_parts("db", &["load", &csv, "--keyspace", "K", "--family", "n"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("error: n.csv, line 3: Unable to make long from 'x'"), "{err}");
    t.good("db", &["load", &csv, "--keyspace", "K", "--family", "n", "--bad", "skip"]);
    let (out, _) =
        t.good("db", &["export", "--keyspace", "K", "--family", "n", "--notation", "short"]);
    assert_eq!(
        out,
        "{\n  \"n\": {\n    \"r\": {\n      \"3\": 5,\n      \"20\": -6\n    }\n  }\n}\n"
    );
}

#[test]
fn exports_are_imported() {
    let t = Temp::new("wide", "copy");
    let file = t.file_here("packages", packages().as_bytes());
    t.good("db", &[&["load", &file][..], &DEB].concat());
    let (full, err) = t.good("db", &["export", "--keyspace", "Debian"]);
    assert!(err.contains("exported 3 rows with 21 columns"), "{err}");
    let json = t.file_here("full.json", full.as_bytes());
    let empty = t.file_here("empty", b"");
    t.good("copy", &[&["load", &empty][..], &DEB].concat());
    let (out, err) = t.good("copy", &["--json", "import", "--keyspace", "Debian", &json]);
    assert!(out.starts_with("{\"columns\":21,\"rows\":3,"), "{out}");
    assert!(err.contains("imported 3 rows with 21 columns into Debian"), "{err}");
    assert_eq!(t.good("copy", &["export", "--keyspace", "Debian"]).0, full);
    let (dump, _) = t.good(
        "copy",
        &["export", "--keyspace", "Debian", "--family", "packages", "--notation", "sstabledump"],
    );
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&dump).unwrap().as_array().unwrap().len(),
        3
    );
}

/// The article's storage-conf.xml as printed, with misplaced blanks.
const ARTICLE: &str =
    include_str!("../../../engine/wide-text/tests/data/storage-conf/bloggyappy-ja.xml");

#[test]
fn a_storage_conf_defines_keyspaces() {
    let t = Temp::new("wide", "define");
    let conf = t.file_here("storage-conf.xml", ARTICLE.as_bytes());
    let (out, _) = t.good("blog", &["define", &conf]);
    let made = "keyspace BloggyAppy\n  Authors      Standard  columns sorted by BytesType\n  BlogEntries  Standard  columns sorted by BytesType\n  \
                TaggedPosts  Standard  columns sorted by TimeUUIDType\n  \
                Comments     Super     super columns sorted by TimeUUIDType, their columns by BytesType\n";
    assert_eq!(out, made);
    t.good(
        "blog",
        &["cli", "-k", "BloggyAppy", "-e", "set Authors['Arin Sarkissian'][twitter] = phatduckk;"],
    );

    // Repeated, with additions: existing definitions remain, new ones are created.
    let more = ARTICLE.replace(
        "</ Keyspace >",
        "< ColumnFamily Name =\"Numbers\" CompareWith =\"LongType\" KeysCached=\"1\" /></ Keyspace >",
    );
    let more = t.file_here("more.xml", more.as_bytes());
    let (out, err) = t.good("blog", &["define", &more]);
    assert!(
        out.contains("keyspace BloggyAppy (there already)\n")
            && out.contains("sorted by LongType\n"),
        "{out}"
    );
    assert!(
        out.contains("Authors      Standard  columns sorted by BytesType (there already)\n"),
        "{out}"
    );
    assert!(
        err.contains("more.xml, line ")
            && err.contains("KeysCached of ColumnFamily Numbers has no effect on Firn"),
        "{err}"
    );
    let (out, _) =
        t.good("blog", &["cli", "-k", "BloggyAppy", "-e", "get Authors['Arin Sarkissian'];"]);
    assert!(out.contains("value=phatduckk"), "{out}");

    // Families alone, as the article prints them too.
    let families = t.file_here(
        "families.xml",
        b"< ColumnFamily CompareWith =\"LongType\" Name =\"CF_NAME_HERE\" />",
    );
    let (out, _) = t.good("blog", &["--json", "define", &families, "--keyspace", "Other"]);
    let expected = serde_json::json!({"keyspaces": [{"name": "Other", "made": true, "families": [{
        "name": "CF_NAME_HERE", "made": true, "column_type": "Standard", "comparator": "LongType", "subcomparator": null}]}]});
    assert_eq!(serde_json::from_str::<serde_json::Value>(&out).unwrap(), expected);

    // Settings of a new store.
    let settings = "<Storage><ClusterName>Blogs</ClusterName><Partitioner>ByteOrderedPartitioner</Partitioner></Storage>";
    let settings = t.file_here("settings.xml", settings.as_bytes());
    t.good("new", &["define", &settings]);
    let (out, _) = t.good("new", &["cli", "-e", "show cluster name; describe cluster;"]);
    assert!(
        out.starts_with("Blogs\n")
            && out.contains("Partitioner: org.apache.cassandra.dht.ByteOrderedPartitioner"),
        "{out}"
    );
}

#[test]
fn a_storage_conf_that_cannot_be_defines_nothing() {
    let t = Temp::new("wide", "undefined");
    let conf = |name: &str, text: &str| t.file_here(name, text.as_bytes());
    let refused = |db: &str, args: &[&str], parts: &[&str]| {
        let (code, out, err) = t.firn_parts(db, args);
        assert_eq!((code, &*out), (2, ""), "{args:?}: {err}");
        parts.iter().for_each(|part| assert!(err.contains(part), "{part} in {err}"));
    };
    let broken =
        conf("broken.xml", "<Keyspace Name=\"K\">\n  <ColumnFamily Name=\"F\">\n</Keyspace>");
    refused("db", &["define", &broken], &["broken.xml:3:1: expected 'ColumnFamily' tag"]);
    let unknown = conf(
        "unknown.xml",
        "<Keyspace Name=\"K\"><ColumnFamily Name=\"F\" CompareWith=\"ITypes\"/></Keyspace>",
    );
    refused(
        "db",
        &["define", &unknown],
        &["Unable to load class org.apache.cassandra.db.marshal.ITypes", "there are BytesType"],
    );
    let alone = conf("alone.xml", "<ColumnFamily Name=\"F\"/>");
    refused(
        "db",
        &["define", &alone],
        &["not ColumnFamily", "next: ColumnFamily elements alone need --keyspace NAME"],
    );
    let odd = conf("odd.xml", "<Storage><Partitioner>NopePartitioner</Partitioner></Storage>");
    refused("db", &["define", &odd], &["odd.xml: Partitioner: "]);
    refused("db", &["define", "nowhere.xml"], &["cannot open nowhere.xml"]);
    assert!(!t.0.join("db").exists());

    // A different order than that of the existing data, next to a new family.
    let first = conf(
        "first.xml",
        "<Keyspace Name=\"K\"><ColumnFamily Name=\"F\" CompareWith=\"LongType\"/></Keyspace>",
    );
    t.good("db", &["define", &first]);
    let other = "<Keyspaces><Keyspace Name=\"New\"/><Keyspace Name=\"K\"><ColumnFamily Name=\"G\"/>\
                 <ColumnFamily Name=\"F\" CompareWith=\"UTF8Type\"/></Keyspace></Keyspaces>";
    let other = conf("other.xml", other);
    refused(
        "db",
        &["define", &other],
        &[
            "K.F has columns sorted by LongType, not columns sorted by UTF8Type",
            "nothing was defined",
        ],
    );
    let random =
        conf("random.xml", "<Storage><Partitioner>RandomPartitioner</Partitioner></Storage>");
    refused(
        "db",
        &["define", &random],
        &["can't be changed", "next: name another directory with --db"],
    );
    let (out, _) = t.good("db", &["cli", "-e", "show schema;"]);
    assert!(
        out.contains("create column family F")
            && !out.contains("New")
            && !out.contains("create column family G"),
        "{out}"
    );
}

#[test]
fn columns_alone_are_imported_into_a_row() {
    let t = Temp::new("wide", "alone");
    let conf =
        t.file_here("families.xml", b"<ColumnFamily CompareWith=\"LongType\" Name=\"Numbers\"/>");
    t.good("db", &["define", &conf, "--keyspace", "Article"]);
    let listing = t.file_here(
        "listing",
        b"{name: 123, value: \"hello there\" },\n\n{name: 3, value: \"101010101010\" }\n",
    );
    let to = ["import", "--keyspace", "Article", "--family", "Numbers", "--row", "row"];
    let (_, err) = t.good("db", &[&to[..], &[&listing]].concat());
    assert!(err.contains("imported 1 row with 2 columns"), "{err}");
    let (out, _) = t.good("db", &["cli", "-k", "Article", "-e", "get Numbers['row'];"]);
    let names: Vec<&str> =
        out.lines().filter_map(|l| l.strip_prefix("=> (column=")?.split(',').next()).collect();
    assert_eq!(names, ["3", "123"]);
    let (code, _, err) =
        t.firn_parts("db", &["import", "--keyspace", "Article", "--row", "row", &listing]);
    assert!(code == 2 && err.contains("--family"), "{err}");
}

#[test]
fn mistakes_say_what_to_do() {
    let t = Temp::new("wide", "mistakes");
    let file = t.file_here("p.deb822", packages().as_bytes());
    let (code, _, err) = t.firn_parts("db", &["load", &file]);
    assert!(
        code == 2 && err.contains("load them into a family, with --keyspace and --family"),
        "{err}"
    );
    t.good("db", &[&["load", &file][..], &DEB].concat());
    let (code, _, err) = t.firn_parts("db", &["export", "--keyspace", "Debain"]);
    assert!(
        code == 2
            && err.contains("Keyspace Debain does not exist")
            && err.contains("it has Debian"),
        "{err}"
    );
    let (code, _, err) = t.firn_parts("db", &["export", "--keyspace", "Debian", "--family", "x"]);
    assert!(
        code == 2 && err.contains("unconfigured columnfamily x\n next: Debian has packages"),
        "{err}"
    );
    let (code, _, err) =
        t.firn_parts("db", &["purge-report", "--keyspace", "Debian", "--family", "x"]);
    assert!(
        code == 2 && err.contains("error: unconfigured columnfamily x\n next: Debian has packages"),
        "{err}"
    );
    let (code, _, err) = t.firn_parts("db", &["purge-report", "--keyspace", "Debain"]);
    assert!(
        code == 2 && err.contains("error: Keyspace Debain does not exist\n next: it has Debian"),
        "{err}"
    );
    let bad = t.file_here("bad.json", b"packages: {\n  a: {b: c d: e}}");
    let (code, _, err) = t.firn_parts("db", &["import", "--keyspace", "Debian", &bad]);
    assert_eq!(code, 2);
    assert!(err.contains("bad.json, line 2, column "), "{err}");
    let (code, _, err) = t.firn_parts("nowhere", &["export", "--keyspace", "Debian"]);
    assert!(code == 2 && err.contains("nowhere"), "{err}");
}

#[test]
fn importing_again_warns_about_counters() {
    let t = Temp::new("wide", "counters");
    let define = "create keyspace K; use K;
        create column family N with comparator=UTF8Type and default_validation_class=CounterColumnType
            and key_validation_class=UTF8Type;
        create column family U with comparator=UTF8Type and key_validation_class=UTF8Type;";
    let define = t.file_here("define.cli", define.as_bytes());
    t.good("db", &["cli", "-f", &define]);
    let bad = t.file_here("bad.json", b"N: {a: {c: {counter: 7}}}\nU: {a: {b: c d: e}}");
    let rows = t.file_here("rows.json", b"{b: c d: e}");
    for (args, counts) in
        [(&[bad.as_str()][..], true), (&["--family", "U", "--row", "r", &rows], false)]
    {
        let (code, _, err) =
            t.firn_parts("db", &[&["import", "--keyspace", "K", "--chunk", "1"], args].concat());
        assert!(code == 2 && err.contains("import the file again"), "{err}");
        assert_eq!(err.contains("remove the imported counters"), counts, "{err}");
    }
    let (out, _) = t.good("db", &["export", "--keyspace", "K", "--notation", "short"]);
    assert!(out.contains("\"c\": 7"), "the counter is imported: {out}");
}

#[test]
fn a_small_bench_of_rows_measures_everything() {
    let temp = Temp::new("wide", "bench");
    let args = [
        "bench",
        "--model",
        "wide",
        "--rows",
        "200",
        "--columns",
        "1000",
        "--memory-budget",
        "64m",
        "--json",
    ];
    let (out, _) = temp.good("db", &args);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["options"]["rows"], 200);
    let lines = report["lines"].as_array().unwrap();
    for l in lines {
        assert!(l["ns"].as_f64().unwrap() > 0.0 && l["beside_ns"].as_f64().unwrap() > 0.0, "{l}");
        assert_eq!(l["aim"].is_null(), l["good"].is_null(), "{l}");
    }
    let has_aim = |what: &str| {
        lines
            .iter()
            .any(|l| l["operation"].as_str().unwrap().starts_with(what) && !l["aim"].is_null())
    };
    for what in [
        "insert a column",
        "insert() ",
        "read a row",
        "get_slice() ",
        "last 10",
        "read it after a compaction",
    ] {
        assert!(has_aim(what), "{what}");
    }
    let (code, _, err) = temp.firn_parts("db2", &["bench", "--model", "wide", "--rows", "5"]);
    assert_eq!(code, 2, "{err}");
    // The next bench replaces its store, unless it has a user's keyspace.
    let next = ["bench", "fillseq", "--keys", "100"];
    temp.good("db", &["cli", "-e", "create keyspace Music;"]);
    let (code, _, err) = temp.firn_parts("db", &next);
    assert!(
        code == 2 && err.contains("holds the keyspace \"Music\", which no bench has made"),
        "{err}"
    );
    temp.good("db", &["cli", "-e", "drop keyspace Music;"]);
    temp.good("db", &next);
}

/// An export that would be empty must fail: it names the CQL tables.
#[test]
fn an_export_says_that_tables_of_cql_are_not_in_it() {
    let t = Temp::new("wide", "tables");
    let cql = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; \
               CREATE TABLE k.p (id int PRIMARY KEY, name text);";
    t.firn(&["cql", "-e", cql]).good();
    for args in
        [&["export", "--keyspace", "k"][..], &["export", "--keyspace", "k", "--family", "p"]]
    {
        let Ran(code, out, err) = t.firn(args);
        assert!(code == 2 && out.is_empty(), "{args:?}: {code} {out}");
        assert!(err.contains("k.p is a table of CQL") && err.contains("COPY k.p TO"), "{err}");
    }
    t.firn(&["cli", "-k", "k", "-e", "create column family Songs;"]).good();
    let Ran(code, out, err) = t.firn(&["export", "--keyspace", "k"]);
    assert!(code == 1 && out.contains("Songs") && err.contains("left out"), "{code} {out} {err}");
}

//! `json::import` reads every listing of the article exactly as printed into the article's column
//! families. The rows and columns come out in the stated order.

use std::sync::Arc;

use firn_kv::DbOptions;
use firn_kv::MemEnv;
use firn_wide::KsDef;
use firn_wide::internals::api::Counts;
use firn_wide::*;
use firn_wide_text::json::{ImportOptions, JsonFailure, Notation, export, import};
use firn_wide_text::storage_conf::StorageConf;
use serde_json::{Value, json};

/// The column families of the article, and those assumed by its examples.
const FAMILIES: &str = r#"
    <ColumnFamily CompareWith="UTF8Type" Name="Columns"/>
    <ColumnFamily CompareWith="UTF8Type" ColumnType="Super" CompareSubcolumnsWith="UTF8Type" Name="People"/>
    <ColumnFamily CompareWith="UTF8Type" Name="UserProfile"/>
    <ColumnFamily CompareWith="UTF8Type" ColumnType="Super" CompareSubcolumnsWith="UTF8Type" Name="AddressBook"/>
    < ColumnFamily CompareWith ="LongType" Name ="Longs" />
    < ColumnFamily CompareWith ="UTF8Type" Name ="Texts" />
    < ColumnFamily CompareWith ="BytesType" Name ="Authors" />
    < ColumnFamily CompareWith ="BytesType" Name ="BlogEntries" />
    < ColumnFamily CompareWith ="TimeUUIDType" Name ="TaggedPosts" />
    < ColumnFamily CompareWith ="TimeUUIDType" ColumnType ="Super"
    CompareSubcolumnsWith ="BytesType" Name ="Comments" />"#;

fn open() -> Keyspace {
    let db = DbOptions {
        background_threads: 0,
        memory_budget: 8 << 20,
        wal_segment: 256 << 10,
        ..DbOptions::default()
    };
    let options = Options {
        store: StoreOptions { db, clock: None, ..StoreOptions::default() },
        ..Options::default()
    };
    let wide = Wide::open_in(Arc::new(MemEnv::new(1)), "/wide", options).unwrap();
    let families = StorageConf::parse_families(FAMILIES, "K", &wide.registry()).unwrap();
    wide.system_add_keyspace(&KsDef { cf_defs: families, ..KsDef::new("K") }).unwrap();
    wide.keyspace("K").unwrap()
}

fn read(
    keyspace: &Keyspace,
    text: &str,
    options: &ImportOptions,
) -> std::result::Result<Counts, JsonFailure> {
    import(keyspace, text.as_bytes(), options, &mut |_, _| {}).map(|report| report.counts)
}

/// Reads a listing of whole column families.
fn document(keyspace: &Keyspace, text: &str) {
    read(keyspace, text, &ImportOptions::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
}

fn row_of(family: &str) -> ImportOptions {
    ImportOptions {
        family: Some(family.into()),
        row: Some("row".into()),
        ..ImportOptions::default()
    }
}

/// Reads a listing of columns alone.
fn columns(keyspace: &Keyspace, family: &str, text: &str) {
    read(keyspace, text, &row_of(family)).unwrap_or_else(|e| panic!("{e}\n{text}"));
}

/// Returns a column family in one of the notations; names keep the printed order.
fn shown(keyspace: &Keyspace, family: &str, notation: Notation) -> Value {
    let mut out = vec![];
    export(keyspace.wide(), "K", &[family.to_owned()], notation, &mut out).unwrap();
    serde_json::from_slice::<Value>(&out).unwrap()[family].take()
}

/// Returns the positions of names in the short notation.
fn order(keyspace: &Keyspace, family: &str, names: &[&str]) -> Vec<usize> {
    let mut out = vec![];
    export(keyspace.wide(), "K", &[family.to_owned()], Notation::Short, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    names
        .iter()
        .map(|name| {
            text.find(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{name} in {text}"))
        })
        .collect()
}

#[test]
fn a_column_and_a_super_column() {
    let k = open();
    columns(
        &k,
        "Columns",
        r#"{

name: "emailAddress" , //

value: "arin@example.com" , //

timestamp: 123456789 //

}"#,
    );
    let column =
        json!({"name": "emailAddress", "value": "arin@example.com", "timestamp": 123456789});
    assert_eq!(shown(&k, "Columns", Notation::Full), json!({"row": {"emailAddress": column}}));
    columns(
        &k,
        "People",
        r#"{

name: "homeAddress" ,

// :

value: {

// -

street: {name: "street" , value: "1234 x street" , timestamp: 123456789},

city: {name: "city" , value: "san francisco" , timestamp: 123456789},

zip: {name: "zip" , value: "94107" , timestamp: 123456789},

}

}"#,
    );
    let at =
        |name: &str, value: &str| json!({"name": name, "value": value, "timestamp": 123456789});
    let address = json!({"street": at("street", "1234 x street"), "city": at("city", "san francisco"), "zip": at("zip", "94107")});
    let expected = json!({"row": {"homeAddress": {"name": "homeAddress", "value": address}}});
    assert_eq!(shown(&k, "People", Notation::Full), expected);

    // The short notation has the same contents without the timestamps.
    let short = open();
    columns(
        &short,
        "People",
        r#"homeAddress: {

street: "1234 x street" ,

city: "san francisco" ,

zip: "94107" ,

}"#,
    );
    assert_eq!(shown(&short, "People", Notation::Short), shown(&k, "People", Notation::Short));
}

#[test]
fn families() {
    let k = open();
    document(
        &k,
        r#"UserProfile = {

phatduckk: { //

//

username: "phatduckk" ,

email: "phatduckk@example.com" ,

phone: "(900) 976-6666"

}, //

ieure: { //

//

username: "ieure" ,

email: "ieure@example.com" ,

phone: "(888) 555-1212"

age: "66" ,

gender: "undecided"

},

}

AddressBook = {

phatduckk: { //

// -

friend1: {street: "8th street" , zip: "90210" , city: "Beverley Hills" , state: "CA" },

// John' phatduckk'

John: {street: "Howard street" , zip: "94404" , city: "FC" , state: "CA" },

Kim: {street: "X street" , zip: "87876" , city: "Balls" , state: "VA" },

Tod: {street: "Jerry street" , zip: "54556" , city: "Cartoon" , state: "CO" },

Bob: {street: "Q Blvd" , zip: "24252" , city: "Nowhere" , state: "MN" },

...

//

}, //

ieure: { //

joey: {street: "A ave" , zip: "55485" , city: "Hell" , state: "NV" },

William: {street: "Armpit Dr" , zip: "93301" , city: "Bakersfield" , state: "CA" },

},

}"#,
    );
    assert_eq!(
        shown(&k, "UserProfile", Notation::Short),
        json!({
            "phatduckk": {"username": "phatduckk", "email": "phatduckk@example.com", "phone": "(900) 976-6666"},
            "ieure": {"username": "ieure", "email": "ieure@example.com", "phone": "(888) 555-1212", "age": "66", "gender": "undecided"},
        })
    );
    assert!(order(&k, "AddressBook", &["Bob", "John", "Kim", "Tod", "friend1"]).is_sorted());
    assert!(order(&k, "AddressBook", &["William", "joey"]).is_sorted());
    let bob = json!({"street": "Q Blvd", "zip": "24252", "city": "Nowhere", "state": "MN"});
    assert_eq!(shown(&k, "AddressBook", Notation::Short)["phatduckk"]["Bob"], bob);
}

#[test]
fn columns_are_sorted_by_name() {
    let k = open();
    let listing = r#"// ,

{name: 123, value: "hello there" },

{name: 832416, value: "kjjkbcjkcbbd" },

{name: 3, value: "101010101010" },

{name: 976, value: "kjjkbcjkcbbd" }"#;
    columns(&k, "Longs", listing);
    columns(&k, "Texts", listing);
    assert!(order(&k, "Longs", &["3", "123", "976", "832416"]).is_sorted());
    assert!(order(&k, "Texts", &["123", "3", "832416", "976"]).is_sorted());
    let expected = json!({"row": {"3": "101010101010", "123": "hello there", "976": "kjjkbcjkcbbd", "832416": "kjjkbcjkcbbd"}});
    assert_eq!(shown(&k, "Longs", Notation::Short), expected);
    // With brackets it is a list, which is a valid row of a document.
    let list = open();
    columns(&list, "Longs", &format!("[{listing},]"));
    document(&list, &format!("Texts: {{row: [{listing}]}}"));
    assert_eq!(shown(&list, "Longs", Notation::Short), expected);
    assert_eq!(shown(&list, "Texts", Notation::Short), expected);
}

#[test]
fn super_columns_and_their_columns_are_sorted() {
    let k = open();
    columns(
        &k,
        "People",
        r#"//

{ //

name: "workAddress" ,

//

value: {

street: {name: "street" , value: "1234 x street" },

city: {name: "city" , value: "san francisco" },

zip: {name: "zip" , value: "94107" }

}

},

{ //

name: "homeAddress" ,

//

value: {

street: {name: "street" , value: "1234 x street" },

city: {name: "city" , value: "san francisco" },

zip: {name: "zip" , value: "94107" }

}

}"#,
    );
    assert!(
        order(&k, "People", &["homeAddress", "city", "street", "zip", "workAddress"]).is_sorted()
    );
    let address = json!({"city": "san francisco", "street": "1234 x street", "zip": "94107"});
    assert_eq!(
        shown(&k, "People", Notation::Short),
        json!({"row": {"homeAddress": address, "workAddress": address}})
    );
}

#[test]
fn the_blog() {
    let k = open();
    document(
        &k,
        r#"Authors : { //

Arin Sarkissian : { //

// ,

numPosts: 11,

twitter: phatduckk,

email: arin@example.com,

bio: "bla bla bla"

},

//

Author 2 {

...

}

}

BlogEntries : { //

i-got-a-new-guitar : { // - (slug)

title: This is a blog entry about my new, awesome guitar,

body: this is a cool entry. etc etc yada yada

author: Arin Sarkissian // Authors

tags: life,guitar,music

pubDate: 1250558004 // unixtime

slug: i-got-a-new-guitar

},

//

another-cool-guitar : {

...

tags: guitar,

slug: another-cool-guitar

},

scream-is-the-best-movie-ever : {

...

tags: movie,horror,

slug: scream-is-the-best-movie-ever

}

}"#,
    );
    assert_eq!(
        shown(&k, "Authors", Notation::Short),
        json!({"Arin Sarkissian": {"numPosts": "11", "twitter": "phatduckk", "email": "arin@example.com", "bio": "bla bla bla"}})
    );
    assert_eq!(
        shown(&k, "BlogEntries", Notation::Short),
        json!({
            "i-got-a-new-guitar": {
                "title": "This is a blog entry about my new, awesome guitar",
                "body": "this is a cool entry. etc etc yada yada",
                "author": "Arin Sarkissian",
                "tags": "life,guitar,music",
                "pubDate": "1250558004",
                "slug": "i-got-a-new-guitar",
            },
            "another-cool-guitar": {"tags": "guitar", "slug": "another-cool-guitar"},
            "scream-is-the-best-movie-ever": {"tags": "movie,horror", "slug": "scream-is-the-best-movie-ever"},
        })
    );
}

#[test]
fn tags_and_comments() {
    let k = open();
    let text = r#"
    TaggedPosts : { // CF
        // 打上了“guitar”标签的blog
        guitar : {  // tag的名称是这一行的key
            // column的name是 TimeUUIDType, value 是 BlogEntries的key
            timeuuid_1 : i-got-a-new-guitar,
            timeuuid_2 : another-cool-guitar,
        },
        // 这儿是所有的blog
        __notag__ : {
            timeuuid_1b : i-got-a-new-guitar,

            // 这篇blog在“guitar”那行也有
            timeuuid_2b : another-cool-guitar,

            // 这篇blog在“movie”那行也有
            timeuuid_2b : scream-is-the-best-movie-ever,
        },
        // blog entries tagged "movie"
        movie: {
            timeuuid_1c: scream-is-the-best-movie-ever
        }
    }
    Comments : {
        // scream-is-the-best-movie-ever这篇blog的所有评论
        scream-is-the-best-movie-ever : { // row key = row key of BlogEntry
            // 最早的评论排在最前面
            timeuuid_1 : { // SC Name
                // Columns对应评论的属性
                commenter: Joe Blow,
                email: joeb@example.com,
                comment: you're a dumb douche, the godfather is the best movie ever
                commentTime: 1250438004
            },

            ... scream-is-the-best-movie-ever的更多评论

            // 最新的评论排在最后
            timeuuid_2 : {
                commenter: Some Dude,
                email: sd@example.com,
                comment: be nice Joe Blow this isnt youtube
                commentTime: 1250557004
            },
        },

        // i-got-a-new-guitar这篇blog的所有评论
        i-got-a-new-guitar : {
            timeuuid_1 : { // SC Name
                // Columns对应评论的属性
                commenter: Johnny Guitar,
                email: guitardude@example.com,
                comment: nice axe dawg...
                commentTime: 1250438004
            },
        }

        ..
        // 其它blog对应的SuperColumn
    }"#;
    let report = import(&k, text.as_bytes(), &ImportOptions::default(), &mut |_, _| {}).unwrap();
    let words: Vec<&str> = report.stand_ins.iter().map(|(text, _)| text.as_str()).collect();
    let noted = ["timeuuid_1", "timeuuid_2", "timeuuid_1b", "timeuuid_2b", "timeuuid_2b"];
    assert_eq!(words, [&noted[..], &["timeuuid_1c"]].concat());
    assert_eq!(
        report.repeated,
        [
            "line 17: the word timeuuid_2b stands twice in one row (first in line 14): here it stands for another new UUID"
        ]
    );
    assert_eq!(report.counts, Counts { rows: 5, columns: 18 });
    let tagged = shown(&k, "TaggedPosts", Notation::Short);
    let sizes = ["guitar", "__notag__", "movie"].map(|tag| tagged[tag].as_object().unwrap().len());
    assert_eq!(sizes, [2, 3, 1]);
    // The newest of the row of all posts is its last column.
    let newest = k
        .family("TaggedPosts")
        .unwrap()
        .row("__notag__")
        .slice()
        .reversed()
        .limit(10)
        .columns()
        .unwrap();
    let newest: Vec<String> = newest.map(|c| c.unwrap().value_as().unwrap()).collect();
    assert_eq!(
        newest,
        ["scream-is-the-best-movie-ever", "another-cool-guitar", "i-got-a-new-guitar"]
    );
    let comments = k
        .family("Comments")
        .unwrap()
        .row("scream-is-the-best-movie-ever")
        .slice()
        .super_columns()
        .unwrap();
    let value = |s: &SuperColumn, name: &str| -> String {
        s.columns.iter().find(|c| c.name == name.as_bytes()).unwrap().value_as().unwrap()
    };
    let told: Vec<_> = comments
        .iter()
        .map(|s| (value(s, "commenter"), value(s, "comment"), value(s, "commentTime")))
        .collect();
    let told: Vec<_> = told.iter().map(|(who, said, when)| (&**who, &**said, &**when)).collect();
    let godfather = "you're a dumb douche, the godfather is the best movie ever";
    let expected = [
        ("Joe Blow", godfather, "1250438004"),
        ("Some Dude", "be nice Joe Blow this isnt youtube", "1250557004"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_comma_in_a_value_without_quotes_is_text_unless_a_name_or_nothing_follows() {
    let k = open();
    let cases = [
        ("a: x, y, b: z", json!({"a": "x, y", "b": "z"})),
        ("a: x,y", json!({"a": "x,y"})),
        ("a: x,", json!({"a": "x"})),
        ("a: x, // y", json!({"a": "x"})),
        ("a: x, y // z", json!({"a": "x, y"})),
        ("a: x, /* y */ b: z", json!({"a": "x", "b": "z"})),
        ("a: x, \"b\": z", json!({"a": "x", "b": "z"})),
        ("a: x, 'b': z", json!({"a": "x", "b": "z"})),
        ("a: x, b = z", json!({"a": "x", "b": "z"})),
        ("a: x, the \"y\"\nb: z", json!({"a": "x, the \"y\"", "b": "z"})),
        ("a: 1,\nb: 2", json!({"a": "1", "b": "2"})),
        ("a: x, ... and so on", json!({"a": "x"})),
        (
            "a: https://example.com/?b=c, b: 12:30",
            json!({"a": "https://example.com/?b=c", "b": "12:30"}),
        ),
        ("a:b:c,b:2", json!({"a": "b:c", "b": "2"})),
        ("a=b=c, b=2", json!({"a": "b=c", "b": "2"})),
    ];
    for (text, expected) in cases {
        k.family("Columns").unwrap().row("row").delete_all().unwrap();
        columns(&k, "Columns", text);
        assert_eq!(shown(&k, "Columns", Notation::Short)["row"], expected, "{text}");
    }
    // For any length of the text.
    for len in [62, 63, 64, 65, 511, 512, 513, (256 << 10) + 7] {
        let long = "y".repeat(len);
        for (text, a) in [
            (format!("a: x,{long}"), format!("x,{long}")),
            (format!("a: x,{long}: z"), "x".to_owned()),
        ] {
            k.family("Columns").unwrap().row("row").delete_all().unwrap();
            let done = read(&k, &text, &row_of("Columns"));
            match len {
                0..65_536 => assert_eq!(
                    shown(&k, "Columns", Notation::Short)["row"]["a"],
                    a,
                    "{len}: {done:?}"
                ),
                // A name cannot be this long.
                _ => assert_eq!(done.is_ok(), text.ends_with('y'), "{len}: {done:?}"),
            }
        }
    }
}

#[test]
fn errors_of_single_columns_are_reported() {
    let k = open();
    let cases = [
        (
            "Columns",
            "[{name: a, value: b}",
            "line 1, column 21: a column that has no name before it is an object",
        ),
        (
            "Columns",
            "{value: b, name: a}",
            "line 1, column 2: a column that has no name before it is an object",
        ),
        ("Columns", "{name: {}}", "line 1, column 8: here should be a name"),
        ("Columns", "{name: a}", "line 1, column 9: a column has a value"),
        ("Columns", "[] x", "line 1, column 4: something follows the list"),
        ("Columns", "a: b}", "line 1, column 5: here should be a name, not '}'"),
        ("Longs", "{name: a, value: b}", "line 1, column 8: name: Unable to make long from 'a'"),
        (
            "People",
            "{name: a, value: b}",
            "line 1, column 18: the value of a super column is an object",
        ),
        (
            "People",
            "{name: a}",
            "line 1, column 9: a super column has a name and a value, and nothing else",
        ),
        (
            "People",
            "{name: a, value: {}, x: y}",
            "line 1, column 23: a super column has a name and a value",
        ),
        ("Nope", "a: b", "unconfigured columnfamily Nope"),
    ];
    for (family, text, why) in cases {
        let said = read(&k, text, &row_of(family)).unwrap_err().to_string();
        assert!(said.starts_with(why), "{text}: {said}");
    }
    let no_family = ImportOptions { row: Some("r".into()), ..ImportOptions::default() };
    assert_eq!(
        read(&k, "a: b", &no_family).unwrap_err().to_string(),
        "columns of a row need the name of their family"
    );
    assert_eq!(shown(&k, "Columns", Notation::Short), json!({}));
}

/// A repeated name is reported with its line, and the later value wins, as is usual in JSON; empty
/// rows do not exist.
#[test]
fn duplicates_are_reported() {
    let k = open();
    let text = "Columns = {
        r: { a: \"zzz\", b: \"1\", a: \"bbb\",
             c: {value: x, timestamp: 5}, c: {value: y, timestamp: 4} },
        empty: { },
        r: { b: \"0\" },
    }
    People = { p: { s: { x: 1, x: 2 }, t: { x: 3 } }, q: { } }";
    for timestamp in [None, Some(7)] {
        let options = ImportOptions { timestamp, ..ImportOptions::default() };
        let report = import(&k, text.as_bytes(), &options, &mut |_, _| {}).unwrap();
        assert_eq!(
            report.repeated,
            [
                "line 2: the name \"a\" stands twice in one row (first in line 2): the later value counts",
                "line 5: the row \"r\" stands twice (first in line 2): its columns are put together, and of two with one name the \
                 later one counts",
                "line 7: the name \"x\" stands twice in one row (first in line 7): the later value counts",
            ]
        );
        assert_eq!(report.counts, Counts { rows: 3, columns: 7 });
        let columns = shown(&k, "Columns", Notation::Short);
        assert_eq!(columns, json!({"r": {"a": "bbb", "b": "0", "c": "x"}}));
        let people = shown(&k, "People", Notation::Short);
        assert_eq!(people, json!({"p": {"s": {"x": "2"}, "t": {"x": "3"}}}));
        for family in ["Columns", "People"] {
            k.truncate(family).unwrap();
        }
    }
    let number = read(&k, "TaggedPosts = { t: {\n3: x } }", &ImportOptions::default());
    assert_eq!(
        number.unwrap_err().to_string(),
        "line 2, column 1: name: 3 is no UUID: write one in full, or a word such as timeuuid_3, which stands for a new one"
    );
    let date = "TaggedPosts = { t: { \"2009-08-16\": x } }";
    let report = import(&k, date.as_bytes(), &ImportOptions::default(), &mut |_, _| {}).unwrap();
    let [(text, id)] = &report.stand_ins[..] else { panic!("{report:?}") };
    assert_eq!((&**text, id.get_version_num()), ("2009-08-16", 1));
}

//! Tests all of the article: the data of every example and every stated order, and the flow of
//! likes of the third source text, through the idiomatic interface where it can express them.

use std::sync::Arc;

use firn_kv::DbOptions;
use firn_kv::MemEnv;
use firn_wide::uuids::time_uuid;
use firn_wide::*;
use firn_wide::{CfDef, ColumnDef, Comparator, KsDef, Malformed, Registry, TypeError};
use firn_wide_text::storage_conf::StorageConf;

fn open() -> Wide {
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
    Wide::open_in(Arc::new(MemEnv::new(1)), "/wide", options).unwrap()
}

/// Opens a database with a keyspace of these column families.
fn with(families: &[CfDef]) -> Keyspace {
    let wide = open();
    wide.system_add_keyspace(&KsDef { cf_defs: families.to_vec(), ..KsDef::new("Article") })
        .unwrap();
    wide.keyspace("Article").unwrap()
}

fn standard(name: &str, compare_with: &str) -> CfDef {
    CfDef { comparator_type: compare_with.into(), ..CfDef::new("Article", name) }
}

fn super_family(name: &str, compare_with: &str, compare_subcolumns_with: &str) -> CfDef {
    CfDef {
        column_type: "Super".into(),
        subcomparator_type: Some(compare_subcolumns_with.into()),
        ..standard(name, compare_with)
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Returns names and values of a row as text.
fn columns(row: &Row) -> Vec<(String, String)> {
    let pair = |c: Result<Column>| {
        let c = c.unwrap();
        (text(&c.name).to_owned(), text(&c.value).to_owned())
    };
    row.slice().columns().unwrap().map(pair).collect()
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec()
}

fn insert_all(row: &Row, columns: &[(&str, &str)]) {
    columns.iter().for_each(|(name, value)| row.insert(*name, *value).unwrap());
}

/// Returns a time UUID of this second in the article's days.
fn uuid(second: i64) -> [u8; 16] {
    time_uuid(second * 1_000_000, 0, 1, 2)
}

#[test]
fn a1_a_column_is_a_name_a_value_and_a_timestamp() {
    let ks = with(&[standard("Any", "BytesType")]);
    let column = Column::new("emailAddress", "arin@example.com", 123456789);
    ks.insert(b"row", &ColumnParent::new("Any"), &column).unwrap();
    let back = ks.get(b"row", &ColumnPath::new("Any").column("emailAddress")).unwrap();
    assert_eq!(back, ColumnOrSuperColumn::Column(column));

    // Names and values are bytes of any length.
    let row = ks.family("Any").unwrap().row([0_u8, 255]);
    row.insert(vec![0_u8; 40_000], vec![255_u8; 1 << 20]).unwrap();
    assert_eq!(row.value::<Vec<u8>>(vec![0_u8; 40_000]).unwrap().unwrap().len(), 1 << 20);
}

#[test]
fn a2_a_super_column_is_a_name_and_columns() {
    let ks = with(&[super_family("People", "UTF8Type", "UTF8Type")]);
    let street = Column::new("street", "1234 x street", 123456789);
    let city = Column::new("city", "san francisco", 123456789);
    let zip = Column::new("zip", "94107", 123456789);
    let home = SuperColumn::new("homeAddress", [street.clone(), city.clone(), zip.clone()]);
    ks.batch_mutate(&[RowMutation::new("arin", "People", [home])]).unwrap();
    let back = ks.get(b"arin", &ColumnPath::new("People").super_column("homeAddress")).unwrap();
    assert_eq!(back, SuperColumn::new("homeAddress", [city, street, zip]).into());
}

#[test]
fn a5_and_a6_rows_of_a_family_have_columns_of_their_own() {
    let ks = with(&[standard("UserProfile", "UTF8Type")]);
    let profiles = ks.family("UserProfile").unwrap();
    let (phatduckk, ieure) = (profiles.row("phatduckk"), profiles.row("ieure"));
    insert_all(
        &phatduckk,
        &[
            ("username", "phatduckk"),
            ("email", "phatduckk@example.com"),
            ("phone", "(900) 976-6666"),
        ],
    );
    insert_all(
        &ieure,
        &[
            ("username", "ieure"),
            ("email", "ieure@example.com"),
            ("phone", "(888) 555-1212"),
            ("age", "66"),
            ("gender", "undecided"),
        ],
    );
    assert_eq!(
        columns(&phatduckk),
        pairs([
            ("email", "phatduckk@example.com"),
            ("phone", "(900) 976-6666"),
            ("username", "phatduckk")
        ])
    );
    assert_eq!(ieure.slice().count().unwrap(), 5);
    assert_eq!(phatduckk.get("age").unwrap(), None);

    // One row with 1989 columns, another with 2.
    let wide = profiles.row("wide");
    let mut batch = ks.batch();
    for i in 0..1989 {
        batch.insert(&wide, format!("column {i}"), "x");
    }
    batch.commit().unwrap();
    insert_all(&profiles.row("narrow"), &[("foo", "bar"), ("one", "more")]);
    assert_eq!(
        (wide.slice().count().unwrap(), profiles.row("narrow").slice().count().unwrap()),
        (1989, 2)
    );
    assert_eq!(profiles.rows().iter().unwrap().count(), 4);
}

#[test]
fn a7_a_super_family_contains_no_plain_columns() {
    let ks =
        with(&[standard("Standard", "UTF8Type"), super_family("Super", "UTF8Type", "UTF8Type")]);
    let refused = |r: Result<()>| match r {
        Err(Error::InvalidRequest(why)) => why,
        other => panic!("{other:?}"),
    };
    let plain = ks.family("Super").unwrap().row("k").insert("name", "value");
    assert_eq!(refused(plain), "missing mandatory super column name for super CF Super");
    let nested = ks.family("Standard").unwrap().row("k").super_column("s").insert("name", "value");
    assert_eq!(refused(nested), "columnfamily alone is required for standard CF Standard");
    assert_eq!(ks.family("Super").unwrap().rows().iter().unwrap().count(), 0);
}

/// A name; street, zip, city, state.
type Friend = (&'static str, [&'static str; 4]);

/// The address book as in the article.
const ADDRESS_BOOK: &[(&str, &[Friend])] = &[
    (
        "phatduckk",
        &[
            ("friend1", ["8th street", "90210", "Beverley Hills", "CA"]),
            ("John", ["Howard street", "94404", "FC", "CA"]),
            ("Kim", ["X street", "87876", "Balls", "VA"]),
            ("Tod", ["Jerry street", "54556", "Cartoon", "CO"]),
            ("Bob", ["Q Blvd", "24252", "Nowhere", "MN"]),
        ],
    ),
    (
        "ieure",
        &[
            ("joey", ["A ave", "55485", "Hell", "NV"]),
            ("William", ["Armpit Dr", "93301", "Bakersfield", "CA"]),
        ],
    ),
];

#[test]
fn a8_the_address_book() {
    let ks = with(&[super_family("AddressBook", "UTF8Type", "UTF8Type")]);
    let book = ks.family("AddressBook").unwrap();
    for (owner, friends) in ADDRESS_BOOK {
        for (friend, [street, zip, city, state]) in *friends {
            let address = [("street", *street), ("zip", zip), ("city", city), ("state", state)];
            insert_all(&book.row(*owner).super_column(*friend), &address);
        }
    }
    let names = |owner: &str| -> Vec<String> {
        book.row(owner)
            .slice()
            .super_columns()
            .unwrap()
            .iter()
            .map(|s| text(&s.name).to_owned())
            .collect()
    };
    assert_eq!(names("phatduckk"), ["Bob", "John", "Kim", "Tod", "friend1"]);
    assert_eq!(names("ieure"), ["William", "joey"]);
    let kim = book.row("phatduckk").super_column("Kim");
    assert_eq!(
        columns(&kim),
        pairs([("city", "Balls"), ("state", "VA"), ("street", "X street"), ("zip", "87876")])
    );
}

#[test]
fn a9_the_same_key_in_two_families_is_two_rows() {
    let ks = with(&[standard("One", "UTF8Type"), standard("Two", "UTF8Type")]);
    ks.family("One").unwrap().row("key").insert("a", "1").unwrap();
    assert_eq!(ks.family("Two").unwrap().row("key").slice().count().unwrap(), 0);
    ks.wide()
        .system_add_keyspace(&KsDef { cf_defs: vec![CfDef::new("", "One")], ..KsDef::new("Other") })
        .unwrap();
    assert_eq!(
        ks.wide()
            .keyspace("Other")
            .unwrap()
            .family("One")
            .unwrap()
            .row("key")
            .slice()
            .count()
            .unwrap(),
        0
    );
}

#[test]
fn a13_and_a14_columns_are_sorted_as_compare_with_says() {
    let ks = with(&[standard("Long", "LongType"), standard("Utf8", "UTF8Type")]);
    let data = [
        (123, "hello there"),
        (832416, "kjjkbcjkcbbd"),
        (3, "101010101010"),
        (976, "kjjkbcjkcbbd"),
    ];
    let (long, utf8) =
        (ks.family("Long").unwrap().row("row"), ks.family("Utf8").unwrap().row("row"));
    for (name, value) in data {
        long.insert(name as i64, value).unwrap();
        utf8.insert(name.to_string(), value).unwrap();
    }
    let numbers: Vec<i64> =
        long.slice().columns().unwrap().map(|c| c.unwrap().name_as().unwrap()).collect();
    assert_eq!(numbers, [3, 123, 976, 832416]);
    let texts: Vec<String> =
        utf8.slice().columns().unwrap().map(|c| c.unwrap().name_as().unwrap()).collect();
    assert_eq!(texts, ["123", "3", "832416", "976"]);
    assert_eq!(long.value::<String>(3_i64).unwrap().unwrap(), "101010101010");
}

#[test]
fn a15_sub_columns_are_sorted_as_compare_subcolumns_with_says() {
    let ks = with(&[super_family("People", "UTF8Type", "UTF8Type")]);
    let row = ks.family("People").unwrap().row("row");
    insert_all(
        &row.super_column("workAddress"),
        &[("street", "5th street"), ("city", "san francisco"), ("zip", "94103")],
    );
    insert_all(
        &row.super_column("homeAddress"),
        &[("street", "1234 x street"), ("city", "san francisco"), ("zip", "94107")],
    );
    let shape = |s: &SuperColumn| {
        (
            text(&s.name).to_owned(),
            s.columns.iter().map(|c| text(&c.name).to_owned()).collect::<Vec<_>>(),
        )
    };
    let all: Vec<_> = row.slice().super_columns().unwrap().iter().map(shape).collect();
    let inner = ["city", "street", "zip"].map(str::to_owned).to_vec();
    assert_eq!(all, [("homeAddress".to_owned(), inner.clone()), ("workAddress".to_owned(), inner)]);
}

/// Names for each of the article's comparators, in the stated order.
const IN_ORDER: [(&str, [&[u8]; 3]); 6] = [
    ("BytesType", [b"\x01", b"\x01\x00", b"\xff"]),
    ("UTF8Type", ["Z".as_bytes(), "a".as_bytes(), "é".as_bytes()]),
    // As signed numbers, so those that begin with 80 come first.
    (
        "LexicalUUIDType",
        [
            &[0x80, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0; 16],
            &[0x7f, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ],
    ),
    // By time; the first bytes are the low part of the time.
    (
        "TimeUUIDType",
        [
            &[0xff, 0xff, 0xff, 0xff, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0, 0, 0, 0, 0, 1, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0, 0, 0, 0, 0, 0, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        ],
    ),
    ("AsciiType", [b"123", b"3", b"832416"]),
    ("LongType", [&[0xff; 8], &[0, 0, 0, 0, 0, 0, 0, 3], &[0, 0, 0, 0, 0, 0, 0, 123]]),
];

#[test]
fn a15_the_two_orders_are_mixed_freely() {
    let all = || IN_ORDER.iter().flat_map(|outer| IN_ORDER.iter().map(move |inner| (outer, inner)));
    let name = |outer: &str, inner: &str| format!("{outer}_{inner}");
    let families: Vec<CfDef> =
        all().map(|((o, _), (i, _))| super_family(&name(o, i), o, i)).collect();
    assert_eq!(families.len(), 36);
    let ks = with(&families);
    for ((outer, supers), (inner, columns)) in all() {
        let row = ks.family(&name(outer, inner)).unwrap().row("row");
        // Written in another order than they are read.
        for s in [2, 0, 1] {
            for c in [1, 2, 0] {
                row.super_column(supers[s].to_vec()).insert(columns[c].to_vec(), "x").unwrap();
            }
        }
        let read = row.slice().super_columns().unwrap();
        let names: Vec<&[u8]> = read.iter().map(|s| &*s.name).collect();
        assert_eq!(names, *supers, "{outer} of {inner}");
        for s in &read {
            let names: Vec<&[u8]> = s.columns.iter().map(|c| &*c.name).collect();
            assert_eq!(names, *columns, "{inner} in {outer}");
        }
        // And backward.
        let last = row.slice().reversed().limit(1).super_columns().unwrap();
        assert_eq!(last[0].name, supers[2], "{outer} of {inner}");
        let last = row
            .super_column(supers[0].to_vec())
            .slice()
            .reversed()
            .limit(1)
            .columns()
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(last.name, columns[2], "{inner} in {outer}");
    }
}

/// Orders text by length, then by bytes.
struct ShortestFirst;

impl Comparator for ShortestFirst {
    fn name(&self) -> &str {
        "com.example.ShortestFirst"
    }

    fn validate(&self, value: &[u8]) -> std::result::Result<(), TypeError> {
        if value.len() < 256 { Ok(()) } else { Err(TypeError("at most 255 bytes".into())) }
    }

    fn encode(&self, value: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), TypeError> {
        self.validate(value)?;
        out.push(value.len() as u8);
        out.extend_from_slice(value);
        Ok(())
    }

    fn decode(&self, form: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), Malformed> {
        out.extend_from_slice(form.get(1..).ok_or(Malformed)?);
        Ok(())
    }

    fn from_text(&self, text: &str, out: &mut Vec<u8>) -> std::result::Result<(), TypeError> {
        out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn to_text(&self, value: &[u8]) -> String {
        String::from_utf8_lossy(value).into_owned()
    }
}

#[test]
fn a16_a_comparator_of_ones_own() {
    let env = MemEnv::new(1);
    let open = |registry: Registry| {
        let db = DbOptions {
            background_threads: 0,
            memory_budget: 8 << 20,
            wal_segment: 256 << 10,
            ..DbOptions::default()
        };
        let options = Options {
            store: StoreOptions { db, clock: None, ..StoreOptions::default() },
            registry: Arc::new(registry),
            ..Options::default()
        };
        Wide::open_in(Arc::new(env.clone()), "/wide", options)
    };
    let mut registry = Registry::new();
    registry.register(Arc::new(ShortestFirst));
    let wide = open(registry.clone()).unwrap();
    let xml = r#"<ColumnFamily CompareWith="com.example.ShortestFirst" Name="Own"/>"#;
    let families = StorageConf::parse_families(xml, "K", &wide.registry()).unwrap();
    wide.system_add_keyspace(&KsDef { cf_defs: families, ..KsDef::new("K") }).unwrap();
    let row = wide.keyspace("K").unwrap().family("Own").unwrap().row("row");
    insert_all(&row, &[("ccc", "3"), ("a", "1"), ("bb", "2"), ("b", "1")]);
    assert_eq!(columns(&row), pairs([("a", "1"), ("b", "1"), ("bb", "2"), ("ccc", "3")]));
    assert_eq!(row.insert([0_u8; 256], "x").unwrap_err().to_string(), "at most 255 bytes");

    // cassandra-cli's language supports it, too.
    let mut session =
        firn_wide_text::cli::CliSession::new(wide.clone(), Arc::new(env.clone()), false);
    let mut say = |statement: &str| {
        let answer = session.run(&firn_wide_text::cli::CliSource::new(statement));
        assert_eq!(answer.failure, None, "{statement}");
        answer.text
    };
    say("use K;");
    say(
        "create column family Said with comparator = 'com.example.ShortestFirst' and default_validation_class = UTF8Type;",
    );
    for name in ["ccc", "a", "bb"] {
        say(&format!("set Said['row'][{name}] = x;"));
    }
    let told = say("get Said['row'];");
    let names: Vec<&str> =
        told.lines().filter_map(|l| l.strip_prefix("=> (column=")?.split(',').next()).collect();
    assert_eq!(names, ["a", "bb", "ccc"]);
    drop((wide, row, session));

    // A database opened without the comparator can use all other column families.
    let wide = open(Registry::new()).unwrap();
    let Err(Error::Configuration(why)) = wide.keyspace("K").unwrap().family("Own") else {
        panic!("used without the comparator")
    };
    assert!(why.contains("com.example.ShortestFirst") && why.contains("types::Registry"), "{why}");
    drop(wide);
    let wide = open(registry).unwrap();
    assert_eq!(
        wide.keyspace("K").unwrap().family("Own").unwrap().row("row").slice().count().unwrap(),
        4
    );
}

/// A post of the article.
struct Post {
    slug: &'static str,
    title: &'static str,
    body: &'static str,
    tags: &'static str,
    published: i64,
}

const POSTS: [Post; 3] = [
    Post {
        slug: "i-got-a-new-guitar",
        title: "This is a blog entry about my new, awesome guitar",
        body: "this is a cool entry. etc etc yada yada",
        tags: "life,guitar,music",
        published: 1_250_558_004,
    },
    Post {
        slug: "another-cool-guitar",
        title: "Another cool guitar",
        body: "I saw another cool guitar",
        tags: "guitar,",
        published: 1_250_558_104,
    },
    Post {
        slug: "scream-is-the-best-movie-ever",
        title: "Scream is the best movie ever",
        body: "It simply is",
        tags: "movie,horror,",
        published: 1_250_558_204,
    },
];

/// Splits a comma-separated list of tags; the last may be empty.
fn tags(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|tag| !tag.is_empty())
}

/// Returns the blog with its storage-conf.xml, authors, posts and tags.
fn bloggy() -> Keyspace {
    let wide = open();
    let conf =
        StorageConf::parse(include_str!("data/storage-conf/bloggyappy-zh.xml"), &wide.registry())
            .unwrap();
    for ks in &conf.keyspaces {
        wide.system_add_keyspace(ks).unwrap();
    }
    let ks = wide.keyspace("BloggyAppy").unwrap();
    insert_all(
        &ks.family("Authors").unwrap().row("Arin Sarkissian"),
        &[
            ("numPosts", "11"),
            ("twitter", "phatduckk"),
            ("email", "arin@example.com"),
            ("bio", "bla bla bla"),
        ],
    );
    let (entries, tagged) = (ks.family("BlogEntries").unwrap(), ks.family("TaggedPosts").unwrap());
    for post in &POSTS {
        let mut batch = ks.batch();
        let row = entries.row(post.slug);
        batch.insert(&row, "title", post.title).insert(&row, "body", post.body).insert(
            &row,
            "author",
            "Arin Sarkissian",
        );
        batch
            .insert(&row, "tags", post.tags)
            .insert(&row, "pubDate", post.published.to_string())
            .insert(&row, "slug", post.slug);
        for tag in tags(post.tags).chain(["__notag__"]) {
            batch.insert(&tagged.row(tag), uuid(post.published), post.slug);
        }
        batch.commit().unwrap();
    }
    ks
}

/// Runs the eight steps of the article: posts with a tag, newest first, each with its author, tags
/// and body.
fn last_posts(ks: &Keyspace, tag: &str) -> Vec<(String, String, Vec<String>)> {
    let (entries, authors) = (ks.family("BlogEntries").unwrap(), ks.family("Authors").unwrap());
    let newest = ks.family("TaggedPosts").unwrap().row(tag).slice().reversed().limit(10);
    let mut posts = vec![];
    for column in newest.columns().unwrap() {
        let slug: String = column.unwrap().value_as().unwrap();
        let entry = entries.row(&slug);
        let author: String = entry.value("author").unwrap().unwrap();
        let twitter: String = authors.row(author).value("twitter").unwrap().unwrap();
        let list: String = entry.value("tags").unwrap().unwrap();
        posts.push((slug, twitter, tags(&list).map(str::to_owned).collect()));
    }
    posts
}

#[test]
fn a19_to_a22_the_blog_shows_its_last_posts() {
    let ks = bloggy();
    let arin = ks.family("Authors").unwrap().row("Arin Sarkissian");
    assert_eq!(
        columns(&arin),
        pairs([
            ("bio", "bla bla bla"),
            ("email", "arin@example.com"),
            ("numPosts", "11"),
            ("twitter", "phatduckk")
        ])
    );
    // One column for each tag of each post, plus one for each post.
    assert_eq!(
        ks.family("TaggedPosts")
            .unwrap()
            .rows()
            .iter()
            .unwrap()
            .map(|r| r.unwrap().columns.len())
            .sum::<usize>(),
        3 + 1 + 2 + 3
    );
    let post = |slug: &str, tags: &[&str]| {
        (
            slug.to_owned(),
            "phatduckk".to_owned(),
            tags.iter().map(|&t| t.to_owned()).collect::<Vec<_>>(),
        )
    };
    let (guitar, another) = (
        post("i-got-a-new-guitar", &["life", "guitar", "music"]),
        post("another-cool-guitar", &["guitar"]),
    );
    let scream = post("scream-is-the-best-movie-ever", &["movie", "horror"]);
    assert_eq!(last_posts(&ks, "__notag__"), [scream.clone(), another.clone(), guitar.clone()]);
    assert_eq!(last_posts(&ks, "guitar"), [another, guitar]);
    assert_eq!(last_posts(&ks, "movie"), [scream]);
    assert_eq!(last_posts(&ks, "none"), []);
}

#[test]
fn a23_comments_are_read_oldest_first() {
    let ks = bloggy();
    let comments = ks.family("Comments").unwrap();
    let comment = |slug: &str, second: i64, who: &str, said: &str| {
        let email = format!("{}@example.com", who.to_lowercase().replace(' ', "."));
        let row = comments.row(slug).super_column(uuid(second));
        insert_all(
            &row,
            &[
                ("commenter", who),
                ("email", &email),
                ("comment", said),
                ("commentTime", &second.to_string()),
            ],
        );
    };
    comment("scream-is-the-best-movie-ever", 1_250_557_004, "Some Dude", "be quiet");
    comment("scream-is-the-best-movie-ever", 1_250_438_004, "Joe Blow", "dumb article");
    comment("i-got-a-new-guitar", 1_250_438_004, "Johnny Guitar", "what kind of guitar is it?");
    let who = |slug: &str| -> Vec<String> {
        let found = comments.row(slug).slice().super_columns().unwrap();
        let commenter = |s: &SuperColumn| {
            s.columns.iter().find(|c| c.name == b"commenter").unwrap().value_as().unwrap()
        };
        found.iter().map(commenter).collect()
    };
    assert_eq!(who("scream-is-the-best-movie-ever"), ["Joe Blow", "Some Dude"]);
    assert_eq!(who("i-got-a-new-guitar"), ["Johnny Guitar"]);
    // BytesType sorts the columns of a comment.
    let first = &comments.row("i-got-a-new-guitar").slice().super_columns().unwrap()[0];
    assert_eq!(
        first.columns.iter().map(|c| text(&c.name)).collect::<Vec<_>>(),
        ["comment", "commentTime", "commenter", "email"]
    );
}

#[test]
fn a24_the_configuration_files_of_all_translations_load() {
    for (text, keyspace) in [
        (include_str!("data/storage-conf/bloggyappy-ja-long.xml"), "BloggyAppy"),
        (include_str!("data/storage-conf/bloggyappy-ja.xml"), "BloggyAppy"),
        (include_str!("data/storage-conf/bloggyappy-zh.xml"), "BloggyAppy"),
    ] {
        let wide = open();
        let conf = StorageConf::parse(text, &wide.registry()).unwrap();
        for ks in &conf.keyspaces {
            wide.system_add_keyspace(ks).unwrap();
        }
        let def = wide.describe_keyspace(keyspace).unwrap();
        let shape = |cf: &CfDef| {
            let short = |class: &str| class.rsplit('.').next().unwrap().to_owned();
            (
                cf.name.clone(),
                cf.column_type.clone(),
                short(&cf.comparator_type),
                cf.subcomparator_type.as_deref().map(short),
            )
        };
        let expected = [
            ("Authors", "Standard", "BytesType", None),
            ("BlogEntries", "Standard", "BytesType", None),
            ("Comments", "Super", "TimeUUIDType", Some("BytesType")),
            ("TaggedPosts", "Standard", "TimeUUIDType", None),
        ]
        .map(|(n, t, c, s)| (n.to_owned(), t.to_owned(), c.to_owned(), s.map(str::to_owned)));
        assert_eq!(def.cf_defs.iter().map(shape).collect::<Vec<_>>(), expected);
    }
}

// ---- the third source text

const DISLIKE: [u8; 1] = [1];
const LIKE: [u8; 1] = [2];

fn music() -> Keyspace {
    let counted = ["likes", "dislikes", "favorites", "views", "downloads"];
    with(&[
        CfDef {
            column_metadata: vec![
                ColumnDef::new("user_name", "UTF8Type").indexed(),
                ColumnDef::new("json_data", "UTF8Type"),
            ],
            ..standard("users", "UTF8Type")
        },
        CfDef {
            default_validation_class: "IntegerType".into(),
            ..standard("user_likes", "UUIDType")
        },
        CfDef {
            default_validation_class: "CounterColumnType".into(),
            column_metadata: counted.map(|c| ColumnDef::new(c, "CounterColumnType")).to_vec(),
            ..standard("song_data", "UTF8Type")
        },
    ])
}

/// Runs the seven steps of liking a song. Returns false if the user liked it before. A concurrent
/// like of the same user comes before or after, so nothing is counted twice.
fn like(ks: &Keyspace, user: [u8; 16], song: [u8; 16]) -> bool {
    let (likes, data) =
        (ks.family("user_likes").unwrap().row(user), ks.family("song_data").unwrap().row(song));
    let liked = ks.update(&[user, song], |batch| {
        let before: Option<Vec<u8>> = likes.value(song)?;
        if before.as_deref() == Some(&LIKE) {
            return Ok(false);
        }
        if before.as_deref() == Some(&DISLIKE) {
            batch.add(&data, "dislikes", -1);
        }
        batch.add(&data, "likes", 1).insert(&likes, song, LIKE);
        Ok(true)
    });
    liked.unwrap()
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn l3_likes_are_counted_once() {
    let ks = music();
    let (user, other, song) = (uuid(1), uuid(2), uuid(3));
    let data = ks.family("song_data").unwrap().row(song);
    let (likes, counted) = (ks.family("user_likes").unwrap(), || {
        (data.counter("likes").unwrap(), data.counter("dislikes").unwrap())
    });

    let mut dislike = ks.batch();
    dislike.insert(&likes.row(user), song, DISLIKE).add(&data, "dislikes", 1);
    dislike.commit().unwrap();
    assert_eq!(counted(), (0, 1));
    assert!(like(&ks, user, song));
    assert!(!like(&ks, user, song));
    assert!(like(&ks, other, song));
    assert_eq!(counted(), (2, 0));
    assert_eq!(likes.row(user).value::<Vec<u8>>(song).unwrap().unwrap(), LIKE);

    // All at once, each of three users from two threads.
    let before = counted().0;
    let liked = std::sync::atomic::AtomicI64::new(0);
    std::thread::scope(|s| {
        for i in 0..6 {
            let (ks, liked) = (&ks, &liked);
            s.spawn(move || {
                liked.fetch_add(
                    like(ks, uuid(10 + i % 3), song).into(),
                    std::sync::atomic::Ordering::Relaxed,
                )
            });
        }
    });
    assert_eq!((liked.into_inner(), counted().0 - before), (3, 3));

    // L9: the row of a user by name; L10: a removed counter starts from 0 again.
    ks.family("users").unwrap().row(user).insert("user_name", "bob").unwrap();
    let found = ks.family("users").unwrap().find().eq("user_name", "bob").rows().unwrap();
    assert_eq!(found.iter().map(|r| r.key.clone()).collect::<Vec<_>>(), [user]);
    data.delete("likes").unwrap();
    data.add("likes", 1).unwrap();
    assert_eq!(data.counter("likes").unwrap(), 1);
}

//! `storage-conf.xml`: the article's file, every element and every error. `data/storage_conf.txt`
//! has the cases; `data/storage-conf/` has the article's XML as printed in its translations.

use super::common;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::registry;
use firn_kv::Durability;
use firn_kv::MemEnv;
use firn_testkit::datadriven::{Case, walk};
use firn_wide::internals::schema::Schema;
use firn_wide::{CfDef, Error, Options, Wide};
use firn_wide_text::storage_conf::{ConfSettings, StorageConf};
use proptest::prelude::*;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn family(out: &mut String, def: &CfDef) {
    let _ = write!(out, "  {} {} {}", def.column_type, def.name, def.comparator_type);
    def.subcomparator_type.iter().for_each(|sub| write!(out, " / {sub}").expect("a string"));
    let default = CfDef::new("", "");
    if def.gc_grace_seconds != default.gc_grace_seconds {
        let _ = write!(out, " gc_grace={}", def.gc_grace_seconds);
    }
    if !def.comment.is_empty() {
        let _ = write!(out, " ({})", def.comment);
    }
    out.push('\n');
}

/// Formats the result, and checks that it is a valid schema.
fn show(conf: &Result<StorageConf, Error>) -> String {
    let conf = match conf {
        Ok(conf) => conf,
        Err(Error::Configuration(why)) => return why.clone(),
        Err(other) => panic!("what is wrong with a configuration is Configuration, not {other:?}"),
    };
    let mut out = String::new();
    let mut schema = Schema::new(registry());
    for keyspace in &conf.keyspaces {
        schema = schema.add_keyspace(keyspace).expect("a schema that can be");
        let strategy = keyspace.strategy_class.rsplit('.').next().unwrap_or("");
        let _ = writeln!(out, "{} {strategy} {:?}", keyspace.name, keyspace.strategy_options);
        keyspace.cf_defs.iter().for_each(|def| family(&mut out, def));
    }
    if conf.settings != ConfSettings::default() {
        let _ = writeln!(out, "{:#?}", conf.settings);
        let _ = writeln!(
            out,
            "{:?}, memtables of {} bytes",
            conf.settings.durability(),
            conf.settings.memtable_bytes()
        );
    }
    conf.notes.iter().for_each(|n| writeln!(out, "line {}: {}", n.line, n.text).expect("a string"));
    out
}

fn families(text: &str, keyspace: &str) -> String {
    match StorageConf::parse_families(text, keyspace, &registry()) {
        Ok(defs) => {
            assert!(defs.iter().all(|def| def.keyspace == keyspace));
            defs.iter().fold(String::new(), |mut out, def| {
                family(&mut out, def);
                out
            })
        }
        Err(Error::Configuration(why)) => why,
        Err(other) => panic!("what is wrong with a configuration is Configuration, not {other:?}"),
    }
}

#[allow(clippy::disallowed_methods)]
fn file(case: &Case) -> String {
    let name = case.words().next().expect("a file");
    std::fs::read_to_string(data().join("storage-conf").join(name)).expect("a file of the article")
}

#[test]
fn files_are_read_and_refused_with_words() {
    walk(data().join("storage_conf.txt"), |case| match case.directive.as_str() {
        "conf" => show(&StorageConf::parse(&case.input, &registry())),
        "conf-file" => show(&StorageConf::parse(&file(case), &registry())),
        "families" => families(&case.input, case.get("keyspace").unwrap_or("Keyspace1")),
        "families-file" => families(&file(case), "BloggyAppy"),
        other => panic!("no such directive: {other}"),
    });
}

#[test]
fn settings_of_a_storage_conf_say_how_the_database_is_opened() {
    let text = "<Storage><ClusterName>Blogs</ClusterName><Partitioner>ByteOrderedPartitioner</Partitioner>\
                <CommitLogSync>batch</CommitLogSync><CommitLogSyncBatchWindowInMS>1</CommitLogSyncBatchWindowInMS>\
                <MemtableSizeInMB>16</MemtableSizeInMB>\
                <Keyspaces><Keyspace Name='K'><ColumnFamily Name='F'/></Keyspace></Keyspaces></Storage>";
    let conf = StorageConf::parse(text, &registry()).unwrap();
    let wide =
        Wide::open_in(Arc::new(MemEnv::new(1)), "/wide", conf.settings.options(Options::default()))
            .unwrap();
    wide.system_add_keyspace(&conf.keyspaces[0]).unwrap();
    assert_eq!((wide.describe_cluster_name(), wide.durability()), ("Blogs", Durability::Power));
    assert_eq!(wide.describe_partitioner(), "org.apache.cassandra.dht.ByteOrderedPartitioner");
    let id = wide.schema().family("K", "F").unwrap().id();
    assert_eq!(wide.store().family(id).unwrap().tree().options().memtable_size, 16 << 20);
}

/// Any text is either a schema or an error of the right type; nothing panics or takes long.
fn whatever(text: &str) {
    show(&StorageConf::parse(text, &registry()));
    families(text, "Keyspace1");
}

#[test]
fn depth_and_length_are_bounded() {
    whatever(&"< A>".repeat(50_000));
    whatever(&format!("{}{}", "<Keyspace Name='K'>".repeat(20_000), "</Keyspace>".repeat(20_000)));
    whatever(&"<".repeat(100_000));
    whatever(&"<A/ ".repeat(100_000));
    whatever(&format!("<Keyspaces>{}</Keyspaces>", "<x/>".repeat(1 << 20)));
    let long = " ".repeat((16 << 20) + 1);
    assert!(show(&StorageConf::parse(&long, &registry())).contains("at most"));
}

const WORDS: &[&str] = &[
    "<",
    ">",
    "/",
    "</",
    "/>",
    " ",
    "\n",
    "=",
    "\"",
    "'",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<?",
    "?>",
    "<!DOCTYPE a>",
    "&amp;",
    "&x;",
    "Storage",
    "Keyspaces",
    "Keyspace",
    "ColumnFamily",
    "Name=\"A\"",
    " Name=\"B\"",
    " ColumnType=\"Super\"",
    " CompareWith=\"LongType\"",
    " CompareSubcolumnsWith='UTF8Type'",
    "ReplicationFactor",
    "3",
    "-1",
    "\u{20ac}",
    "<Keyspace Name=\"K\">",
    "</Keyspace>",
    "<ColumnFamily Name=\"F\"/>",
    "< ColumnFamily Name =\"G\" / >",
    "<Storage>",
    "</Storage>",
    "<Keyspaces>",
    "</Keyspaces>",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        whatever(&text);
    }

    #[test]
    fn any_markup_is_read_or_refused(words in prop::collection::vec(prop::sample::select(WORDS), 0..40)) {
        whatever(&words.concat());
    }

    #[test]
    fn any_damage_is_read_or_refused(at in any::<prop::sample::Index>(), len in 0..9_usize, with in prop::sample::select(WORDS)) {
        let text = "< Storage><Keyspaces>\n< Keyspace Name =\"BloggyAppy\" >\n<!-- < -->\n< ColumnFamily CompareWith =\"LongType\" Name =\"A\" />\n\
                    <ColumnFamily ColumnType='Super' CompareSubcolumnsWith =\"BytesType\" Name='B'/ >\n</ Keyspace ></Keyspaces>\
                    <MemtableSizeInMB>64</MemtableSizeInMB></Storage>";
        let at = at.index(text.len() + 1);
        let end = (at + len).min(text.len());
        whatever(&format!("{}{with}{}", &text[..at], &text[end..]));
    }

    /// Blanks as in the printed copies have no effect.
    #[test]
    fn blanks_mean_nothing(blanks in prop::collection::vec(prop::sample::select(&["", " ", "\n", "\t "][..]), 12)) {
        let mut with = blanks.iter();
        let mut next = || *with.next().expect("enough blanks");
        let text = format!(
            "<{}Keyspace Name{}={}'K / >'{}><{}ColumnFamily Name='a / >'{}/{}><!-- < / > --><{}ColumnFamily Name{}=\"b\"{}/{}></{}Keyspace>",
            next(), next(), next(), next(), next(), next(), next(), next(), next(), next(), next(), next(),
        );
        // The names are unchanged, and are refused as invalid.
        prop_assert!(show(&StorageConf::parse(&text, &registry())).contains("(got \"K / >\")"), "{text}");
        let text = text.replace("K / >", "K").replace("a / >", "a");
        let conf = StorageConf::parse(&text, &registry()).expect(&text);
        let names: Vec<&str> = conf.keyspaces[0].cf_defs.iter().map(|def| &*def.name).collect();
        prop_assert_eq!(names, ["a", "b"]);
    }
}

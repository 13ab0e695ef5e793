//! Comparators that are missing in some programs: a store opens without them. Scripts that are
//! stored with the schema.

use std::sync::Arc;

use firn_kv::DbOptions;
use firn_kv::MemEnv;
use firn_testkit::rng::Rng;
use firn_wide::*;

use super::common;

/// A language in which a script is the index, from the end, of the byte by which values are sorted.
struct ByNumber;

struct Numbered(usize);

impl ComparatorLanguage for ByNumber {
    fn name(&self) -> &str {
        "number"
    }

    fn compile(&self, script: &str) -> std::result::Result<Arc<dyn OrderFunction>, TypeError> {
        let number = script.trim().parse().map_err(|_| TypeError("no number".into()))?;
        Ok(Arc::new(Numbered(number)))
    }
}

impl OrderFunction for Numbered {
    fn key(&self, value: &[u8]) -> std::result::Result<Vec<u8>, TypeError> {
        let at = value.len().checked_sub(self.0 + 1);
        let byte = at.map(|at| value[at]).ok_or_else(|| TypeError("it is too short".into()))?;
        Ok(vec![byte, 0, byte])
    }
}

fn options(knows_language: bool) -> Options {
    let db = DbOptions { background_threads: 0, ..DbOptions::default() };
    let languages: Vec<Arc<dyn ComparatorLanguage>> =
        if knows_language { vec![Arc::new(ByNumber)] } else { vec![] };
    Options {
        store: StoreOptions { db, clock: None, ..StoreOptions::default() },
        languages: Languages(languages),
        ..Options::default()
    }
}

fn open(env: &MemEnv, options: Options) -> Wide {
    Wide::open_in(Arc::new(env.clone()), "/wide", options).unwrap()
}

fn why<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result {
        Err(Error::InvalidRequest(why) | Error::Configuration(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn family(name: &str, comparator: &str) -> CfDef {
    CfDef { comparator_type: comparator.into(), ..CfDef::new("K", name) }
}

fn names(ks: &Keyspace, family: &str) -> Vec<String> {
    let all = ks.get_slice(b"r", &ColumnParent::new(family), &SlicePredicate::all()).unwrap();
    all.iter().map(|c| String::from_utf8_lossy(c.name()).into_owned()).collect()
}

#[test]
fn a_store_with_a_type_that_is_not_known_opens_for_all_else() {
    let env = MemEnv::new(1);
    let known = || Options { registry: common::registry(), ..options(false) };
    {
        let wide = open(&env, known());
        wide.system_add_keyspace(&KsDef::new("K")).unwrap();
        wide.system_add_column_family(&family("Plain", "UTF8Type")).unwrap();
        let own = family("Own", "CompositeType(com.example.AnyCase,LongType)");
        wide.system_add_column_family(&own).unwrap();
        let value = CfDef {
            key_validation_class: "com.example.AnyCase".into(),
            ..family("Keys", "UTF8Type")
        };
        wide.system_add_column_family(&value).unwrap();
        let ks = wide.keyspace("K").unwrap();
        ks.insert(b"r", &ColumnParent::new("Plain"), &Column::new("c", "v", 1)).unwrap();
        let name = b"\0\x01B\0".to_vec();
        ks.insert(b"r", &ColumnParent::new("Own"), &Column::new(name, "v", 1)).unwrap();
    }
    {
        let wide = open(&env, options(false));
        let ks = wide.keyspace("K").unwrap();
        assert_eq!(names(&ks, "Plain"), ["c"]);
        ks.insert(b"r", &ColumnParent::new("Plain"), &Column::new("d", "v", 1)).unwrap();
        let text = "column family Own of keyspace K is of the type com.example.AnyCase, which is unknown here: open the store with \
                    the program that registers it (types::Registry); other families can be used";
        let own = ColumnParent::new("Own");
        assert_eq!(why(ks.get_slice(b"r", &own, &SlicePredicate::all())), text);
        assert_eq!(why(ks.insert(b"r", &own, &Column::new("c", "v", 1))), text);
        assert_eq!(why(ks.truncate("Own")), text);
        assert!(why(ks.family("Keys").and_then(|f| f.row("r").slice().count())).contains("Keys"));
        // All definitions exist, and others can be created and dropped.
        let described = wide.describe_keyspace("K").unwrap();
        let of_own = described.cf_defs.iter().find(|def| def.name == "Own").unwrap();
        assert!(of_own.comparator_type.contains("com.example.AnyCase"), "{of_own:?}");
        wide.system_add_column_family(&family("More", "UTF8Type")).unwrap();
        assert!(
            why(wide.system_add_column_family(&family("X", "com.example.AnyCase")))
                .starts_with("Unable to find")
        );
        // A script does not replace the type by which existing families are sorted.
        let taken = wide.define_comparator("com.example.AnyCase", "number", "0");
        assert!(why(taken).contains("is that of a program already"));
        wide.system_drop_column_family("K", "Keys").unwrap();
    }
    let wide = open(&env, known());
    let ks = wide.keyspace("K").unwrap();
    assert_eq!(names(&ks, "Plain"), ["c", "d"]);
    assert_eq!(names(&ks, "Own").len(), 1);
    assert_eq!(wide.describe_keyspace("K").unwrap().cf_defs.len(), 3);
}

#[test]
fn a_script_sorts_a_family_wherever_its_store_is_opened() {
    let env = MemEnv::new(2);
    let class = "com.example.BySecond";
    let mut rng = Rng::new(7);
    let letter = |rng: &mut Rng| b'a' + rng.below(4) as u8;
    let mut all: Vec<String> = (0..60)
        .map(|_| {
            let name: Vec<u8> = (0..2 + rng.below(3)).map(|_| letter(&mut rng)).collect();
            String::from_utf8(name).unwrap()
        })
        .collect();
    {
        let wide = open(&env, options(true));
        wide.system_add_keyspace(&KsDef::new("K")).unwrap();
        assert!(why(wide.system_add_column_family(&family("F", class))).starts_with("Unable"));
        for (class, language, script, text) in [
            (class, "other", "1", "this program has no language other"),
            (class, "number", "x", "the script of com.example.BySecond: no number"),
            ("UTF8Type", "number", "1", "the type UTF8Type is built in: give another name"),
            (
                "com.example/X",
                "number",
                "1",
                "'com.example/X' is not a class name: use letters, digits, dots and underscores",
            ),
        ] {
            assert_eq!(why(wide.define_comparator(class, language, script)), text);
        }
        wide.define_comparator(class, "number", "1").unwrap();
        wide.define_comparator(class, "number", "1").unwrap();
        assert_eq!(
            why(wide.define_comparator(class, "number", "2")),
            "the comparator com.example.BySecond is there with another script: give the new one another name"
        );
        wide.system_add_column_family(&family("F", class)).unwrap();
        // One damaged block loses no definition: each has a copy elsewhere.
        let tree = wide.db().existing_tree("system.schema").unwrap();
        let records: Vec<_> = tree.iter().map(|record| record.unwrap()).collect();
        for (key, value) in records.iter().filter(|(key, _)| !matches!(key[0], 0 | 0xff)) {
            let copy = tree.get([&[0xff, 0xff], &key[..]].concat()).unwrap();
            assert_eq!(copy.as_deref(), Some(&value[..]), "{}", String::from_utf8_lossy(key));
        }
        assert!(records.iter().any(|(key, _)| key.starts_with(b"wide/comparator/")));
        let reversed = format!("{class}(reversed=true)");
        wide.system_add_column_family(&family("R", &reversed)).unwrap();
        let ks = wide.keyspace("K").unwrap();
        for (i, name) in all.iter().enumerate() {
            for family in ["F", "R"] {
                let column = Column::new(name.as_str(), i.to_string(), i as i64);
                ks.insert(b"r", &ColumnParent::new(family), &column).unwrap();
            }
        }
        let short = ks.insert(b"r", &ColumnParent::new("F"), &Column::new("x", "v", 1));
        assert_eq!(why(short), "the script of com.example.BySecond failed: it is too short");
    }
    let second = |name: &str| name.as_bytes()[name.len() - 2];
    all.sort_by_key(|name| (second(name), name.clone()));
    all.dedup();
    let wide = open(&env, options(true));
    let ks = wide.keyspace("K").unwrap();
    assert_eq!(names(&ks, "F"), all);
    let from = all.iter().position(|name| second(name) == b'b').unwrap();
    let slice = SliceRange { start: all[from].as_str().into(), count: 5, ..SliceRange::default() };
    let found = ks.get_slice(b"r", &ColumnParent::new("F"), &slice.into()).unwrap();
    let found: Vec<&[u8]> = found.iter().map(|c| c.name()).collect();
    assert_eq!(found, all[from..from + 5].iter().map(|n| n.as_bytes()).collect::<Vec<_>>());
    let backwards: Vec<String> = all.iter().rev().cloned().collect();
    assert_eq!(names(&ks, "R"), backwards);
    drop((ks, wide));
    // Without the language, existing data can be read.
    let wide = open(&env, options(false));
    let ks = wide.keyspace("K").unwrap();
    assert_eq!(names(&ks, "F"), all);
    let write = ks.insert(b"r", &ColumnParent::new("F"), &Column::new("xyz", "v", 1));
    assert_eq!(
        why(write),
        "the script of com.example.BySecond failed: this program has no such language"
    );
}

//! Data-driven tests of the schema: definitions, their resolved form, and refusals, in
//! `data/schema/*.txt`, with one store for each file.
//!
//! Every accepted change is read back from its records: applying the diff to the previous records
//! must give the new schema.

use super::common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use common::registry;
use firn_testkit::datadriven::{Arg, Case, files, walk};
use firn_wide::internals::schema::{Family, Schema};
use firn_wide::{CfDef, ColumnDef, Error, IndexType, KsDef, Registry};
use proptest::prelude::*;

struct World {
    schema: Schema,
    stored: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn load(stored: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<Schema, Error> {
    Schema::from_records(registry(), stored.iter().map(|(k, v)| (&k[..], &v[..])))
}

/// Parses bytes in the notation of a test file: text, or hexadecimal digits after `0x`.
fn bytes(text: &str) -> Vec<u8> {
    match text.strip_prefix("0x") {
        Some(digits) => (0..digits.len() / 2)
            .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("hexadecimal"))
            .collect(),
        None => text.as_bytes().to_vec(),
    }
}

fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.bytes().all(|b| b.is_ascii_graphic()) => text.to_owned(),
        _ => bytes.iter().fold("0x".into(), |s, b| s + &format!("{b:02x}")),
    }
}

/// Parses `k:v` pairs.
fn map(arg: &Arg) -> BTreeMap<String, String> {
    let pairs = arg.values.iter().map(|v| v.split_once(':').expect("key:value"));
    pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn set_keyspace(def: &mut KsDef, arg: &Arg) {
    let value = arg.values.first().cloned().unwrap_or_default();
    match arg.key.as_str() {
        "strategy" => def.strategy_class = value,
        "options" => def.strategy_options = map(arg),
        "durable" => def.durable_writes = value == "true",
        "family" => def.cf_defs.extend(arg.values.iter().map(|name| {
            let (keyspace, name) = name.split_once('.').unwrap_or(("", name));
            CfDef::new(keyspace, name)
        })),
        other => panic!("no such attribute: {other}"),
    }
}

fn set_family(def: &mut CfDef, arg: &Arg) {
    let value = arg.values.first().cloned().unwrap_or_default();
    let number = || value.parse::<f64>().expect("a number");
    match arg.key.as_str() {
        "type" => def.column_type = value,
        "comparator" => def.comparator_type = value,
        "subcomparator" => def.subcomparator_type = Some(value),
        "comment" => def.comment = value,
        "default" => def.default_validation_class = value,
        "key" => def.key_validation_class = value,
        "key_alias" => def.key_alias = Some(bytes(&value)),
        "id" => def.id = Some(number() as u32),
        "gc_grace" => def.gc_grace_seconds = number() as i32,
        "read_repair_chance" => def.read_repair_chance = number(),
        "dclocal_read_repair_chance" => def.dclocal_read_repair_chance = number(),
        "min" => def.min_compaction_threshold = number() as i32,
        "max" => def.max_compaction_threshold = number() as i32,
        "compaction" => def.compaction_strategy = value,
        "compression" => def.compression_options = map(arg),
        "bloom_filter_fp_chance" => def.bloom_filter_fp_chance = Some(number()),
        "caching" => def.caching = value,
        other => panic!("no such attribute: {other}"),
    }
}

/// Applies `NAME VALIDATOR [INDEX [INDEX_NAME [class_name]]]`, or `-NAME` to remove a column.
fn set_columns(def: &mut CfDef, input: &str) {
    for line in input.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(name) = words[0].strip_prefix('-') {
            def.column_metadata.retain(|c| c.name != bytes(name));
            continue;
        }
        let mut column = ColumnDef::new(bytes(words[0]), words[1]);
        column.index_type = words
            .get(2)
            .filter(|w| **w != "none")
            .map(|w| IndexType::from_name(w).expect("a kind of index"));
        column.index_name = words.get(3).filter(|w| **w != "unnamed").map(|w| (*w).to_owned());
        column.index_options.extend(words.get(4).map(|w| ("class_name".into(), (*w).to_owned())));
        def.column_metadata.push(column);
    }
}

fn show_family(family: &Family) -> String {
    let mut out = String::new();
    let def = family.def();
    let short = |t: &str| t.rsplit('.').next().unwrap_or(t).to_owned();
    let _ =
        write!(out, "{} {} {}.{}", family.id(), def.column_type, family.keyspace(), family.name());
    let _ = write!(out, " comparator={}", short(&def.comparator_type));
    if let Some(sub) = &def.subcomparator_type {
        let _ = write!(out, " subcomparator={}", short(sub));
    }
    let _ = write!(
        out,
        " default={} key={}",
        short(&def.default_validation_class),
        short(&def.key_validation_class)
    );
    let _ = writeln!(
        out,
        " gc_grace={}{}",
        family.gc_grace(),
        if family.is_counter() { " counters" } else { "" }
    );
    for column in &def.column_metadata {
        let _ = write!(out, "  {} {}", shown(&column.name), short(&column.validation_class));
        if let Some(kind) = column.index_type {
            let _ = write!(out, " {} {}", kind.name(), column.index_name.as_deref().unwrap_or("?"));
        }
        match family.column(&column.name).expect("a column of the definition").index() {
            Some(index) => writeln!(out, " = {}", index.id),
            None => writeln!(out),
        }
        .expect("a string");
    }
    out
}

impl World {
    fn new() -> World {
        World { schema: Schema::new(registry()), stored: BTreeMap::new() }
    }

    /// Applies the change, or returns its error.
    fn change(&mut self, changed: Result<Schema, Error>) -> String {
        let newer = match changed {
            Ok(newer) => newer,
            Err(Error::InvalidRequest(why)) => return why,
            Err(other) => panic!("a change is refused by InvalidRequest, not {other:?}"),
        };
        let diff = self.schema.diff(&newer);
        assert_eq!(
            diff.records.is_empty(),
            self.schema.version() == newer.version(),
            "equal schemas have equal versions, and only those"
        );
        for (key, value) in diff.records {
            match value {
                Some(value) => self.stored.insert(key, value),
                None => Some(self.stored.remove(&key).expect("only what is there is deleted")),
            };
        }
        assert_eq!(
            self.stored,
            newer.records().into_iter().collect(),
            "the diff leads to the records"
        );
        let read = load(&self.stored).expect("written records can be read");
        assert_eq!(read.records(), newer.records());
        assert!(read.keyspaces().eq(newer.keyspaces()), "the keyspaces are read back");
        self.schema = newer;
        let mut out = String::new();
        let mut say = |what: &str, families: &[Arc<Family>]| {
            families.iter().for_each(|f| {
                writeln!(out, "{what} {} {}.{}", f.id(), f.keyspace(), f.name()).expect("a string")
            });
        };
        say("family gone:", &diff.dropped_families);
        say("new family:", &diff.added_families);
        say("family changed:", &diff.changed_families);
        diff.dropped_indexes
            .iter()
            .for_each(|id| writeln!(out, "index gone: {id}").expect("a string"));
        for (family, id) in &diff.added_indexes {
            let (_, index) = family
                .indexes()
                .find(|(_, index)| index.id == *id)
                .expect("an index of its family");
            writeln!(out, "new index: {id} {}", index.name).expect("a string");
        }
        if out.is_empty() { "ok".into() } else { out }
    }

    fn run(&mut self, case: &Case) -> String {
        let words: Vec<&str> = case.words().collect();
        let attributes = || case.args.iter().filter(|a| !a.values.is_empty());
        let schema = self.schema.clone();
        match case.directive.as_str() {
            "create-keyspace" | "update-keyspace" => {
                let mut def = KsDef::new(words.first().copied().unwrap_or(""));
                attributes().for_each(|a| set_keyspace(&mut def, a));
                let create = case.directive == "create-keyspace";
                self.change(if create {
                    schema.add_keyspace(&def)
                } else {
                    schema.update_keyspace(&def)
                })
            }
            "drop-keyspace" => self.change(schema.drop_keyspace(words[0])),
            "create-family" => {
                let mut def = CfDef::new(words[0], words.get(1).copied().unwrap_or(""));
                attributes().for_each(|a| set_family(&mut def, a));
                set_columns(&mut def, &case.input);
                self.change(schema.add_family(&def))
            }
            "update-family" => {
                let present = schema.family(words[0], words[1]);
                let mut def = present.map_or(CfDef::new(words[0], words[1]), |f| f.def().clone());
                attributes().for_each(|a| set_family(&mut def, a));
                set_columns(&mut def, &case.input);
                self.change(schema.update_family(&def))
            }
            "drop-family" => self.change(schema.drop_family(words[0], words[1])),
            "show" => schema.families().map(|f| show_family(f)).collect(),
            "find" => match schema.family(words[0], words.get(1).copied().unwrap_or("")) {
                Ok(family) => show_family(family),
                Err(e) => e.to_string(),
            },
            "validator" => schema
                .family(words[0], words[1])
                .expect("a family")
                .validator(&bytes(words[2]))
                .name(),
            "records" => lines(&self.stored),
            "load" => self.load(case),
            other => panic!("no such directive: {other}"),
        }
    }

    /// Loads the records with those of the input instead; a line is `KEY VALUE`, or `-KEY`.
    fn load(&self, case: &Case) -> String {
        let mut stored = self.stored.clone();
        for line in case.input.lines() {
            match (line.strip_prefix('-'), line.split_once(' ')) {
                (Some(key), _) => drop(stored.remove(key.as_bytes()).expect("a record")),
                (None, Some((key, value))) => drop(stored.insert(key.into(), value.into())),
                (None, None) => drop(stored.insert(line.into(), Vec::new())),
            }
        }
        match load(&stored) {
            Ok(schema) => format!("{} keyspaces", schema.keyspaces().count()),
            Err(e @ (Error::Corrupt(_) | Error::Configuration(_))) => e.to_string(),
            Err(other) => panic!("broken records are Corrupt, not {other:?}"),
        }
    }
}

fn lines(records: &BTreeMap<Vec<u8>, Vec<u8>>) -> String {
    records.iter().fold(String::new(), |s, (k, v)| {
        s + &format!("{} {}\n", String::from_utf8_lossy(k), String::from_utf8_lossy(v))
    })
}

#[test]
fn definitions_are_accepted_changed_and_refused() {
    for file in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/schema")) {
        let mut world = World::new();
        walk(file, |case| world.run(case));
    }
}

/// Generates a change: its kind, keyspace and family, and a number for its details.
fn any_change() -> impl Strategy<Value = (u8, usize, usize, u8)> {
    (0..7_u8, 0..3_usize, 0..3_usize, any::<u8>())
}

fn make(
    schema: &Schema,
    (what, keyspace, family, details): (u8, usize, usize, u8),
) -> Result<Schema, Error> {
    let (keyspace, family) = (["Ka", "Kb", "ka"][keyspace], ["Fa", "Fb", "Fc"][family]);
    let bit = |i: u8| details >> i & 1 == 1;
    let mut def =
        schema.family(keyspace, family).map_or(CfDef::new(keyspace, family), |f| f.def().clone());
    def.id = None;
    def.gc_grace_seconds = i32::from(details);
    def.read_repair_chance = f64::from(details) / 300.0;
    if bit(0) {
        def.column_metadata.clear();
    }
    for (i, name) in ["a", "b"].into_iter().enumerate().filter(|(i, _)| bit(1 + *i as u8)) {
        let column = ColumnDef::new(name, if bit(3 + i as u8) { "UTF8Type" } else { "LongType" });
        def.column_metadata.push(if bit(5 + i as u8) { column.indexed() } else { column });
    }
    match what {
        0 => schema.add_keyspace(&KsDef {
            cf_defs: if bit(7) { vec![def] } else { Vec::new() },
            ..KsDef::new(keyspace)
        }),
        1 => schema.update_keyspace(&KsDef { durable_writes: bit(7), ..KsDef::new(keyspace) }),
        2 => schema.drop_keyspace(keyspace),
        3 | 4 => schema.add_family(&def),
        5 => schema.update_family(&def),
        _ => schema.drop_family(keyspace, family),
    }
}

fn numbers(schema: &Schema) -> Vec<u32> {
    schema.families().flat_map(|f| f.indexes().map(|(_, index)| index.id).chain([f.id()])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// After any changes, ids are unique and never reused, and the stored form is consistent
    /// ([`World::change`]).
    #[test]
    fn numbers_never_come_back(changes in prop::collection::vec(any_change(), 1..60)) {
        let mut world = World::new();
        let mut gone = BTreeSet::new();
        for change in changes {
            let before = numbers(&world.schema);
            world.change(make(&world.schema, change));
            let after = numbers(&world.schema);
            let unique: BTreeSet<u32> = after.iter().copied().collect();
            prop_assert_eq!(unique.len(), after.len());
            gone.extend(before.into_iter().filter(|id| !unique.contains(id)));
            prop_assert!(gone.is_disjoint(&unique));
        }
    }

    /// Records with any damage are loaded or refused.
    #[test]
    fn damaged_records_are_refused(
        changes in prop::collection::vec(any_change(), 1..12),
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        with in prop::collection::vec(prop::sample::select(&b"0123456789abcdefKF{}[]\",:.-\\ntrue\0\xff"[..]), 0..4),
        len in 0..4_usize,
    ) {
        let mut world = World::new();
        world.change(make(&world.schema, (0, 0, 0, 0xff)));
        for change in changes {
            world.change(make(&world.schema, change));
        }
        let mut records: Vec<(Vec<u8>, Vec<u8>)> = world.stored.into_iter().collect();
        if !records.is_empty() {
            let which = which.index(records.len());
            let value = &mut records[which].1;
            let at = at.index(value.len());
            let end = (at + len).min(value.len());
            value.splice(at..end, with);
        }
        match load(&records.into_iter().collect()) {
            Ok(_) | Err(Error::Corrupt(_) | Error::Configuration(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Aliases and properties are not classes; all other words in the types of families are.
#[test]
fn classes_are_found_in_records() {
    let schema = Schema::new(Arc::new(Registry::new())).add_keyspace(&KsDef::new("K")).unwrap();
    let def = CfDef {
        comparator_type: "DynamicCompositeType(a=>AsciiType,L=>LongType(reversed=true))".into(),
        default_validation_class: "UserType(ks,6e,66:ListType(UTF8Type))".into(),
        ..CfDef::new("K", "F")
    };
    let schema = schema.add_family(&def).unwrap();
    let records = schema.records();
    let names = Schema::class_names(records.iter().map(|(k, v)| (&**k, &**v))).unwrap();
    let short: Vec<&str> = names.iter().filter_map(|name| name.rsplit('.').next()).collect();
    for class in
        ["AsciiType", "DynamicCompositeType", "ListType", "LongType", "ReversedType", "UTF8Type"]
    {
        assert!(short.contains(&class), "{class}: {names:?}");
    }
    assert!(!names.contains("a") && !names.contains("L") && !names.contains("66"), "{names:?}");
}

//! Column families and tables are the same cells: each interface reads the other's writes. Tests
//! replay a server with both interfaces (`vectors/families-3.11.jsonl`), random histories,
//! concurrent threads, and reopening.

use super::both;
use super::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_cql::{Rows, RunOptions};
use firn_testkit::rng::Rng;
use firn_wide::internals::types::hex_to_bytes;
use firn_wide::{CfDef, ColumnDef, IndexType};
use serde_json::{Value as Json, json};

use both::{Both, Did, Ends, check, composite, family_tree, long, pages, shapes, values};
use common::{Heard, differences, ours};

fn bytes(json: &Json) -> Vec<u8> {
    hex_to_bytes(json.as_str().unwrap()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn definition(given: &Json) -> CfDef {
    let mut def = CfDef::new("rec", given["name"].as_str().unwrap());
    for (field, value) in given.as_object().unwrap() {
        let text = || value.as_str().unwrap().to_owned();
        match field.as_str() {
            "name" => {}
            "column_type" => def.column_type = text(),
            "comparator_type" => def.comparator_type = text(),
            "subcomparator_type" => def.subcomparator_type = Some(text()),
            "default_validation_class" => def.default_validation_class = text(),
            "key_validation_class" => def.key_validation_class = text(),
            "key_alias" => def.key_alias = Some(bytes(value)),
            "column_metadata" => {
                for column in value.as_array().unwrap() {
                    let of = column["validation_class"].as_str().unwrap();
                    let mut known = ColumnDef::new(bytes(&column["name"]), of);
                    known.index_type = column["index_type"].as_i64().map(|_| IndexType::Keys);
                    def.column_metadata.push(known);
                }
            }
            other => panic!("{other} is in no definition"),
        }
    }
    def
}

/// Returns the parts of a definition that clients need to read a family, by its name.
fn described(def: &CfDef) -> (String, Json) {
    let column = |c: &ColumnDef| json!([hex(&c.name), c.validation_class]);
    let told = json!({
        "comparator": def.comparator_type,
        "default": def.default_validation_class,
        "key": def.key_validation_class,
        "alias": def.key_alias.as_deref().map(hex),
        "type": def.column_type,
        "metadata": def.column_metadata.iter().map(column).collect::<Vec<_>>(),
    });
    (def.name.clone(), told)
}

/// Executes a call that is not a statement, and returns its result.
fn call(both: &Both, line: &Json) -> firn_wide::Result<Json> {
    if let Some(def) = line.get("family") {
        both.wide.system_add_column_family(&definition(def))?;
        return Ok(json!({}));
    }
    if let Some(families) = line["describe"].as_object() {
        let defs = both.wide.describe_keyspace("rec")?.cf_defs;
        let found = families.keys().filter_map(|name| defs.iter().find(|d| d.name == *name));
        return Ok(json!({"describe": found.map(described).collect::<serde_json::Map<_, _>>()}));
    }
    let family = |field: &str| line[field].as_str();
    let name = ["insert", "add", "remove", "slice"].into_iter().find_map(family).unwrap();
    let mut row = both.wide.keyspace("rec")?.family(name)?.row(bytes(&line["key"]));
    if let Some(name) = line.get("super") {
        row = row.super_column(bytes(name));
    }
    if let Some(timestamp) = line["timestamp"].as_i64() {
        row = row.at(timestamp);
    }
    if line.get("insert").is_some() {
        row.insert(bytes(&line["name"]), bytes(&line["value"]))?;
    } else if line.get("add").is_some() {
        row.add(bytes(&line["name"]), line["value"].as_i64().unwrap())?;
    } else if line.get("remove").is_some() {
        match line.get("name") {
            Some(name) => row.delete(bytes(name))?,
            None => row.delete_all()?,
        }
    } else {
        return Ok(json!({"columns": columns(both, name, row)?}));
    }
    Ok(json!({}))
}

fn columns(both: &Both, name: &str, row: firn_wide::Row) -> firn_wide::Result<Json> {
    let def = both.wide.describe_keyspace("rec")?.cf_defs.into_iter().find(|f| f.name == name);
    let def = def.unwrap();
    let is_counter = def.default_validation_class.ends_with("CounterColumnType");
    let cell = |c: &firn_wide::Column| json!([hex(&c.name), hex(&c.value), c.timestamp]);
    Ok(match (def.column_type.as_str(), is_counter) {
        ("Super", false) => {
            let supers = row.slice().super_columns()?;
            let all = |s: &firn_wide::SuperColumn| s.columns.iter().map(cell).collect::<Vec<_>>();
            supers.iter().map(|s| json!([hex(&s.name), all(s)])).collect()
        }
        ("Super", true) => {
            let counters = row.super_column("s").slice().counters()?;
            let all: Vec<_> = counters.iter().map(|c| json!([hex(&c.name), c.value])).collect();
            json!([[hex(b"s"), all]])
        }
        (_, false) => row.slice().columns()?.map(|c| cell(&c.unwrap())).collect(),
        (_, true) => {
            row.slice().counters()?.iter().map(|c| json!([hex(&c.name), c.value])).collect()
        }
    })
}

fn replay(rough: bool) {
    let mut both = Both::new(11);
    let known = differences(include_str!("vectors/differences-families-3.11.txt"));
    let (mut used, mut wrong, mut count) = (vec![], vec![], 0);
    for line in include_str!("vectors/families-3.11.jsonl").lines() {
        let line: Json = serde_json::from_str(line).unwrap();
        both.clock.advance(1000);
        if line.get("section").is_some() {
            if rough {
                both.reopen();
            }
            continue;
        }
        count += 1;
        let mut theirs = line.clone();
        let (asked, here) = match line["stmt"].as_str() {
            Some(statement) => {
                theirs.as_object_mut().unwrap().remove("stmt");
                let answer = pages(&both.session, statement, rough.then_some(2));
                let mut here = ours(&answer);
                // Warnings were not recorded.
                here.as_object_mut().unwrap().remove("warnings");
                (statement.to_owned(), here)
            }
            None => {
                let fields = theirs.as_object_mut().unwrap();
                let told = ["columns", "error", "describe"];
                fields.retain(|name, _| told.contains(&&**name));
                let here = call(&both, &line);
                // The texts for a missing family are tested elsewhere.
                let refused = |e: firn_wide::Error| match &theirs["error"] {
                    Json::Null => json!({"error": e.to_string()}),
                    there => json!({"error": there}),
                };
                (line.to_string(), here.unwrap_or_else(refused))
            }
        };
        let told = here.to_string();
        match known.get(&asked) {
            Some(answer) if *answer == told && here != theirs => used.push(asked),
            None if here == theirs => {}
            _ => wrong.push(format!("{asked}\n  there {theirs}\n  here  {here}")),
        }
    }
    let unused: Vec<_> = known.keys().filter(|k| !used.contains(k)).collect();
    assert!(wrong.is_empty(), "{} of {count} differ\n{}", wrong.len(), wrong.join("\n"));
    assert!(unused.is_empty(), "differences that did not occur: {unused:?}");
    assert!(count > 180, "{count}");
}

#[test]
fn the_conversation_over_both_interfaces_is_answered_as_recorded() {
    replay(false);
}

#[test]
fn the_conversation_is_answered_as_recorded_in_small_pages_after_merges_and_reopenings() {
    replay(true);
}

#[test]
fn random_histories_over_both_interfaces_are_as_a_model_says() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut both = Both::new(seed);
        let shapes = shapes();
        let mut done = vec![vec![]; shapes.len()];
        shapes.iter().for_each(|shape| shape.make(&both));
        for step in 0..240 {
            let n = rng.below(shapes.len() as u64) as usize;
            let timestamp = 1 + rng.below(60) as i64;
            let did = shapes[n].random(&mut rng, timestamp);
            let family = both.family(&shapes[n].def.name);
            shapes[n].carry_out(&family, &both.session, &did, rng.below(2) == 0);
            done[n].push(did);
            if step % 16 == 15 {
                match rng.below(4) {
                    0 => both.reopen(),
                    1 => family_tree(&both, &shapes[n].def.name).flush().unwrap(),
                    _ => {}
                }
                check(&both, &shapes[n], &done[n], &mut rng);
            }
        }
        shapes.iter().zip(&done).for_each(|(shape, done)| check(&both, shape, done, &mut rng));
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn threads_that_write_with_both_interfaces_leave_what_the_operations_say() {
    let both = Both::new(5);
    for shape in shapes() {
        shape.make(&both);
        let family = both.family(&shape.def.name);
        let (shape, family, session, wide) = (&shape, &family, &both.session, &both.wide);
        let is_over = &AtomicBool::new(false);
        let done: Vec<Did> = std::thread::scope(|scope| {
            let ends = Ends(is_over);
            let writers: Vec<_> = (0..4u64)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut rng = Rng::new(thread);
                        let one = |i| {
                            let timestamp = 1 + rng.below(400) as i64 * 4 + thread as i64;
                            let did = shape.random(&mut rng, timestamp);
                            shape.carry_out(family, session, &did, (thread + i) % 2 == 0);
                            did
                        };
                        (0..300).map(one).collect::<Vec<_>>()
                    })
                })
                .collect();
            let reader = scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    session.execute(&format!("SELECT * FROM {}", shape.def.name), ()).unwrap();
                    wide.keyspace("rec")
                        .unwrap()
                        .family(&shape.def.name)
                        .unwrap()
                        .rows()
                        .iter()
                        .unwrap()
                        .count();
                }
            });
            let done = writers.into_iter().flat_map(|w| w.join().unwrap()).collect();
            drop(ends);
            reader.join().unwrap();
            done
        });
        check(&both, shape, &done, &mut Rng::new(1));
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn a_family_may_be_dropped_by_one_interface_while_the_other_reads() {
    let both = Both::new(7);
    let shape = &shapes()[0];
    let heard = Arc::new(Heard::default());
    both.session.engine().add_listener(heard.clone());
    let (session, wide) = (&both.session, &both.wide);
    let is_over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(is_over);
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                // Concurrent reads fail when it is dropped.
                let is_gone = |text: String, word: &str| {
                    assert!(text == word || text.ends_with("has been dropped"), "{text}");
                };
                if let Err(e) = session.execute("SELECT * FROM flat", ()) {
                    is_gone(e.to_string(), "table flat does not exist");
                }
                let read =
                    wide.keyspace("rec").and_then(|k| k.family("flat")?.row("k").slice().count());
                if let Err(e) = read {
                    is_gone(e.to_string(), "unconfigured columnfamily flat");
                }
            }
        });
        for round in 0..30 {
            wide.system_add_column_family(&shape.def).unwrap();
            both.ask("INSERT INTO flat (key, column1, value) VALUES ('k', 'a', 'v')");
            assert_eq!(both.rows("SELECT count(*) FROM flat"), [[Some(long(1))]]);
            match round % 2 {
                0 => drop(both.ask("DROP TABLE flat")),
                _ => drop(wide.system_drop_column_family("rec", "flat").unwrap()),
            }
            assert_eq!(both.refusal("SELECT * FROM flat"), "table flat does not exist");
        }
    });
    let told = heard.take();
    let count =
        |word: &str| told.iter().filter(|t| **t == format!("{word} TABLE rec flat")).count();
    assert_eq!((count("CREATED"), count("DROPPED"), told.len()), (30, 30, 60), "{told:?}");
}

// ----------------------------------------------------------------------------------------------
// definitions

fn users() -> CfDef {
    CfDef {
        comparator_type: "UTF8Type".into(),
        key_validation_class: "UTF8Type".into(),
        column_metadata: vec![
            ColumnDef::new("name", "UTF8Type").indexed(),
            ColumnDef::new("age", "LongType"),
        ],
        ..CfDef::new("rec", "users")
    }
}

#[test]
fn an_index_of_a_family_follows_what_statements_write() {
    let mut both = Both::new(3);
    both.wide.system_add_column_family(&users()).unwrap();
    both.ask("INSERT INTO users (key, name, age) VALUES ('u1', 'bob', 7)");
    both.family("users").row("u2").insert("name", "bob").unwrap();
    both.family("users").row("u3").insert("name", "eve").unwrap();
    for _ in 0..2 {
        let keys = |both: &Both| {
            let found = both.family("users").find().eq("name", "bob").rows().unwrap();
            found.into_iter().map(|r| Some(r.key)).collect::<Vec<_>>()
        };
        let asked = both.rows("SELECT key FROM users WHERE name = 'bob'");
        assert_eq!(asked.concat(), keys(&both));
        assert_eq!(asked.len(), 2);
        let filtered = "SELECT key FROM users WHERE name = 'bob' AND age > 5 ALLOW FILTERING";
        assert_eq!(both.rows(filtered), [[Some(b"u1".to_vec())]]);
        both.reopen();
    }
    both.ask("UPDATE users SET name = 'eve' WHERE key = 'u1'");
    assert_eq!(both.family("users").find().eq("name", "eve").rows().unwrap().len(), 2);
    both.ask("DELETE FROM users WHERE key = 'u1'");
    assert_eq!(both.family("users").find().eq("name", "eve").rows().unwrap().len(), 1);
}

#[test]
fn what_a_condition_lets_happen_shows_whatever_was_deleted_by_the_other_interface() {
    let both = Both::new(9);
    let shapes = shapes();
    let late = 9_000_000_000_000_000;
    for shape in &shapes {
        shape.make(&both);
        let name = &shape.def.name;
        let row = both.family(name).row("k").at(late);
        match shape.is_super() {
            true => row.super_column("a").delete_all().unwrap(),
            false => row.delete_all().unwrap(),
        }
        let columns = if shape.group.is_some() { "column1, column2" } else { "column1" };
        let values = match (shape.is_reversed(), shape.group) {
            (true, _) => "7",
            (false, None) => "'a'",
            (false, Some(_)) => "'a', 0",
        };
        let insert = format!(
            "INSERT INTO {name} (key, {columns}, value) VALUES ('k', {values}, 'v') IF NOT EXISTS"
        );
        for applied in [1, 0] {
            assert_eq!(both.rows(&insert)[0][0], Some(vec![applied]), "{insert}");
        }
        assert_eq!(both.rows(&format!("SELECT * FROM {name}")).len(), 1);
    }
}

#[test]
fn names_alone_are_rows_and_a_key_of_one_component_is_one_column() {
    let both = Both::new(12);
    let def = CfDef {
        comparator_type: "CompositeType(UTF8Type)".into(),
        default_validation_class: "EmptyType".into(),
        key_validation_class: "CompositeType(UTF8Type)".into(),
        ..CfDef::new("rec", "names")
    };
    both.wide.system_add_column_family(&def).unwrap();
    let (key, name) = (composite(&[b"k".to_vec()]), composite(&[b"n".to_vec()]));
    both.family("names").row(key.clone()).insert(name.clone(), "").unwrap();
    let row = [Some(key.clone()), Some(b"n".to_vec())];
    assert_eq!(both.rows("SELECT * FROM names"), [row]);
    let insert = both.session.prepare("INSERT INTO names (key, column1) VALUES (?, 'm')").unwrap();
    both.session
        .run(&insert, (firn_cql::Value::Blob(key.clone()),), &RunOptions::default())
        .unwrap();
    assert_eq!(
        both.rows("SELECT column1 FROM names").concat(),
        [Some(b"m".to_vec()), Some(b"n".to_vec())]
    );
    let delete = both.session.prepare("DELETE FROM names WHERE key = ? AND column1 = 'n'").unwrap();
    both.session
        .run(&delete, (firn_cql::Value::Blob(key.clone()),), &RunOptions::default())
        .unwrap();
    let left: Vec<_> =
        both.family("names").row(key).slice().columns().unwrap().map(|c| c.unwrap().name).collect();
    assert_eq!(left, [composite(&[b"m".to_vec()])]);
}

#[test]
fn times_to_live_are_the_same_cells() {
    let both = Both::new(4);
    both.wide.system_add_column_family(&shapes()[0].def).unwrap();
    both.ask("INSERT INTO flat (key, column1, value) VALUES ('k', 'a', 'v') USING TTL 100");
    both.family("flat").row("k").ttl(50).insert("b", "w").unwrap();
    both.clock.advance(20_000_000);
    let left = both.rows("SELECT column1, ttl(value) FROM flat WHERE key = 'k'");
    let seconds = |n: i32| Some(n.to_be_bytes().to_vec());
    assert_eq!(left[0][1], seconds(80));
    assert_eq!(left[1][1], seconds(30));
    both.clock.advance(40_000_000);
    let found = both.family("flat").row("k").get("a").unwrap().unwrap();
    assert_eq!(found.ttl, Some(100));
    assert_eq!(both.rows("SELECT column1 FROM flat WHERE key = 'k'").len(), 1);
    both.clock.advance(60_000_000);
    assert_eq!(both.family("flat").row("k").slice().count().unwrap(), 0);
}

/// A table's default TTL applies to calls, and a family's to statements, also after a change.
#[test]
fn a_default_time_to_live_counts_for_both_interfaces() {
    let both = Both::new(5);
    both.ask(
        "CREATE TABLE brief (k text PRIMARY KEY, v text) WITH COMPACT STORAGE AND default_time_to_live = 20",
    );
    let flat = firn_wide::CfDef { default_time_to_live: 20, ..shapes()[0].def.clone() };
    both.wide.system_add_column_family(&flat).unwrap();
    let ttl_of = |family: &str, name: &str| {
        both.family(family).row("k").get(name).unwrap().map(|column| column.ttl)
    };
    both.family("brief").row("k").insert("v", "by a call").unwrap();
    both.ask("INSERT INTO flat (key, column1, value) VALUES ('k', 'v', 'by a statement')");
    assert_eq!([ttl_of("brief", "v"), ttl_of("flat", "v")], [Some(Some(20)); 2]);
    both.clock.advance(21_000_000);
    assert_eq!([ttl_of("brief", "v"), ttl_of("flat", "v")], [None; 2]);
    both.ask("ALTER TABLE brief WITH default_time_to_live = 0");
    both.family("brief").row("k").insert("v", "for ever").unwrap();
    assert_eq!(ttl_of("brief", "v"), Some(None));
}

#[test]
fn definitions_of_one_interface_are_seen_by_the_other_and_have_one_name() {
    let mut both = Both::new(6);
    both.wide.system_add_column_family(&users()).unwrap();
    let select = both.session.prepare("SELECT * FROM users WHERE key = 'u'").unwrap();
    both.ask("INSERT INTO users (key, name) VALUES ('u', 'bob')");
    let mut def = both.wide.describe_keyspace("rec").unwrap().cf_defs.remove(0);
    def.column_metadata.push(ColumnDef::new("city", "UTF8Type"));
    def.comment = "people".into();
    both.wide.system_update_column_family(&def).unwrap();
    both.family("users").row("u").insert("city", "Rome").unwrap();
    let rows = both.session.run(&select, (), &RunOptions::default()).unwrap();
    let names: Vec<_> = rows.columns().iter().map(|c| &*c.name).collect();
    assert_eq!(names, ["key", "age", "city", "name"]);
    assert_eq!(values(&rows)[0][2], Some(b"Rome".to_vec()));
    let shown = both.rows("DESCRIBE TABLE users").concat();
    let shown = String::from_utf8(shown[3].clone().unwrap()).unwrap();
    assert!(shown.contains("comment = 'people'") && shown.contains("COMPACT STORAGE"), "{shown}");

    let taken = both.refusal("CREATE TABLE users (k int PRIMARY KEY)");
    assert_eq!(taken, "Cannot add already existing table \"users\" to keyspace \"rec\"");
    both.ask("CREATE TABLE own (k int PRIMARY KEY, v int)");
    let taken = both.wide.system_add_column_family(&CfDef::new("rec", "own")).unwrap_err();
    let text = "Cannot add already existing column family 'own' to keyspace 'rec'.";
    assert_eq!(taken.to_string(), text);
    assert!(both.wide.keyspace("rec").unwrap().family("own").is_err());
    for statement in [
        "ALTER TABLE users ADD x int",
        "ALTER TABLE users WITH comment = ''",
        "CREATE INDEX ON users (age)",
        "DROP INDEX users_name_idx",
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM users WHERE key IS NOT NULL AND age IS NOT NULL PRIMARY KEY (age, key)",
    ] {
        let text = both.refusal(statement);
        assert!(text.starts_with("rec.users is a column family"), "{statement}: {text}");
    }
    let version = both.session.engine().schema_version();
    both.reopen();
    assert_eq!(both.session.engine().schema_version(), version);
    both.ask("TRUNCATE users");
    assert_eq!(both.family("users").row("u").slice().count().unwrap(), 0);
    both.ask("DROP KEYSPACE rec");
    assert!(both.wide.keyspace("rec").is_err());
}

#[test]
fn keys_and_names_that_no_statement_writes_are_shown_as_far_as_they_go() {
    let both = Both::new(8);
    let def = CfDef {
        comparator_type: "CompositeType(UTF8Type, LongType)".into(),
        default_validation_class: "UTF8Type".into(),
        key_validation_class: "CompositeType(UTF8Type, Int32Type)".into(),
        ..CfDef::new("rec", "odd")
    };
    both.wide.system_add_column_family(&def).unwrap();
    let name = composite(&[b"c".to_vec(), long(5)]);
    // A key of one component, one that is not a composite, and names that end before or after all
    // that begin like them.
    for key in [
        composite(&[b"a".to_vec()]),
        b"\xff\xff\xff".to_vec(),
        composite(&[b"a".to_vec(), vec![0, 0, 0, 1]]),
    ] {
        let row = both.family("odd").row(key.clone());
        for end in [0u8, 1, 0xFF] {
            let mut name = name.clone();
            *name.last_mut().unwrap() = end;
            // Refusing invalid keys is correct too.
            row.insert(name, "v").ok();
        }
    }
    let rows = both.rows("SELECT key, key2, column1, column2, value FROM odd");
    assert!(rows.len() >= 3, "{rows:?}");
    assert!(rows.iter().all(|r| r[2] == Some(b"c".to_vec()) && r[3] == Some(long(5))), "{rows:?}");
    assert_eq!(
        rows.len(),
        pages(&both.session, "SELECT * FROM odd", Some(1))
            .unwrap()
            .iter()
            .map(Rows::len)
            .sum::<usize>()
    );
}

#[test]
fn bytes_that_are_no_values_of_their_types_are_answered_or_refused() {
    let both = Both::new(10);
    for of in ["LongType", "UTF8Type", "DecimalType", "UUIDType", "BooleanType", "InetAddressType"]
    {
        let name = of.to_lowercase();
        let bytes_only = CfDef::new("rec", &*name);
        both.wide.system_add_column_family(&bytes_only).unwrap();
        for key in [&b"abc"[..], b"\xff", b"12345678"] {
            both.family(&name).row(key).insert(key, key).unwrap();
        }
        // Keys and values are not validated when their type changes.
        let mut def = both.wide.describe_keyspace("rec").unwrap().cf_defs;
        let mut def = def.swap_remove(def.iter().position(|f| f.name == name).unwrap());
        def.key_validation_class = of.into();
        def.default_validation_class = of.into();
        both.wide.system_update_column_family(&def).unwrap();
        for selection in [
            "*",
            "JSON *",
            "count(*), max(key), min(value)",
            "CAST(key AS text), toJson(value), token(key)",
            "key + 1, -value",
            "sum(value), avg(value)",
            "DISTINCT key",
        ] {
            for rest in
                ["", "WHERE value = null ALLOW FILTERING", "WHERE value > 1 ALLOW FILTERING"]
            {
                let statement = format!("SELECT {selection} FROM {name} {rest}");
                let answer = pages(&both.session, &statement, Some(1));
                let rows = answer.iter().flatten().flat_map(Rows::iter);
                // Values are decoded, or refused as invalid.
                rows.for_each(|row| {
                    (0..row.columns().len()).for_each(|i| drop(row.at::<firn_cql::Value>(i)));
                });
            }
        }
        assert_eq!(both.rows(&format!("SELECT key FROM {name}")).len(), 3);
    }
}

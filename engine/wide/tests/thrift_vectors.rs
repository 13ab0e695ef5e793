//! Replays answers of a Cassandra 1.1.12 server, step by step, from `vectors/thrift.jsonl`.
//! Accepted differences are listed with their reasons in `vectors/thrift_kept.jsonl`.
//! `vectors/README.md` describes the format.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_kv::DbOptions;
use firn_kv::MemEnv;
use firn_wide::*;
use firn_wide::{CfDef, ColumnDef, IndexType, KsDef, ManualClock};
use serde_json::{Value, json};

const VECTORS: &str = include_str!("vectors/thrift.jsonl");

/// Accepted differences: scenario, step, reason, and our answer.
const KEPT: &str = include_str!("vectors/thrift_kept.jsonl");

/// Scenarios that are not replayed, with the reasons.
const LEFT_OUT: &[(&str, &str)] = &[(
    "CollatingOrderPreservingPartitioner_row_order",
    "its order is that of one Java version's English collation tables; the partitioner is known by name and refused",
)];

/// State of a server at the start of a scenario.
struct Server {
    wide: Wide,
    clock: Arc<ManualClock>,
    keyspace: String,
}

fn partitioner(scenario: &str) -> &str {
    match scenario {
        "random_partitioner_ranges" => "RandomPartitioner",
        "OrderPreservingPartitioner_row_order" => "OrderPreservingPartitioner",
        _ => "ByteOrderedPartitioner",
    }
}

impl Server {
    fn new(scenario: &str) -> Server {
        let clock = Arc::new(ManualClock::new(1_700_000_000_000_000));
        let db = DbOptions {
            background_threads: 0,
            memory_budget: 8 << 20,
            wal_segment: 256 << 10,
            ..DbOptions::default()
        };
        let options = Options {
            partitioner: Some(partitioner(scenario).into()),
            store: StoreOptions { db, clock: Some(clock.clone()), ..StoreOptions::default() },
            ..Options::default()
        };
        let wide = Wide::open_in(Arc::new(MemEnv::new(1)), "/wide", options).unwrap();
        Server { wide, clock, keyspace: String::new() }
    }

    fn run(&mut self, op: &str, args: &Value) -> Result<Value> {
        match op {
            "create_keyspace" => {
                self.keyspace = text(&args["name"]);
                return self
                    .wide
                    .system_add_keyspace(&KsDef::new(&*self.keyspace))
                    .map(|_| Value::Null);
            }
            "create_cf" => {
                return self
                    .wide
                    .system_add_column_family(&cf_def(&self.keyspace, args))
                    .map(|_| Value::Null);
            }
            "set_keyspace" => return self.wide.keyspace(&text(&args["name"])).map(|_| Value::Null),
            "sleep" => {
                self.clock.advance(args["ms"].as_i64().unwrap() * 1000);
                return Ok(Value::Null);
            }
            _ => {}
        }
        let ks = self.wide.keyspace(&self.keyspace)?;
        let key = bytes(&args["key"]);
        let (parent, path) = (parent(args), path(args));
        match op {
            "insert" => {
                let column = column(args)?;
                ks.insert(&key, &parent, &column)?;
            }
            "add" => ks.add(
                &key,
                &parent,
                &CounterColumn::new(bytes(&args["name"]), args["delta"].as_i64().unwrap()),
            )?,
            "remove" => ks.remove(&key, &path, args["ts"].as_i64().unwrap())?,
            "remove_counter" => ks.remove_counter(&key, &path)?,
            "truncate" => ks.truncate(&text(&args["cf"]))?,
            "batch_mutate" => {
                let rows = args["mutations"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(row_mutation)
                    .collect::<Result<Vec<_>>>()?;
                ks.batch_mutate(&rows)?;
            }
            "get" => return ks.get(&key, &path).map(|c| shown(&c)),
            "get_slice" => {
                return ks.get_slice(&key, &parent, &predicate(args)?).map(|c| all_shown(&c));
            }
            "get_count" => return ks.get_count(&key, &parent, &predicate(args)?).map(|n| json!(n)),
            "multiget_slice" => {
                let rows = ks.multiget_slice(&keys(args), &parent, &predicate(args)?)?;
                return Ok(rows.iter().map(|(k, c)| json!([hex(k), all_shown(c)])).collect());
            }
            "multiget_count" => {
                let rows = ks.multiget_count(&keys(args), &parent, &predicate(args)?)?;
                return Ok(rows.iter().map(|(k, n)| json!([hex(k), n])).collect());
            }
            "get_range_slices" => {
                let rows = ks.get_range_slices(&parent, &predicate(args)?, &key_range(args)?)?;
                return Ok(rows_shown(&rows));
            }
            "get_indexed_slices" => {
                let clause = IndexClause {
                    expressions: expressions(&args["expressions"]),
                    start_key: bytes(&args["start_key"]),
                    count: args["count"].as_i64().unwrap_or(100) as i32,
                };
                return ks
                    .get_indexed_slices(&parent, &clause, &predicate(args)?)
                    .map(|r| rows_shown(&r));
            }
            other => panic!("unknown operation {other}"),
        }
        Ok(Value::Null)
    }
}

// ---- the notation of the file

/// Returns the bytes of a value; empty if there is no value.
fn bytes(v: &Value) -> Vec<u8> {
    match v {
        Value::Null => vec![],
        Value::String(s) => match s.strip_prefix("0x") {
            Some(digits) => {
                let digit = |i: usize| u8::from_str_radix(&digits[i..i + 2], 16).unwrap();
                (0..digits.len()).step_by(2).map(digit).collect()
            }
            None => s.as_bytes().to_vec(),
        },
        Value::Object(o) => {
            o["repeat"].as_str().unwrap().repeat(o["times"].as_u64().unwrap() as usize).into_bytes()
        }
        other => panic!("no bytes: {other}"),
    }
}

fn given(v: &Value) -> Option<Vec<u8>> {
    (!v.is_null()).then(|| bytes(v))
}

fn text(v: &Value) -> String {
    String::from_utf8(bytes(v)).unwrap()
}

fn hex(b: &[u8]) -> Value {
    let plain = b.iter().all(|c| (0x20..0x7F).contains(c)) && !b.starts_with(b"0x");
    json!(if plain {
        String::from_utf8(b.to_vec()).unwrap()
    } else {
        format!("0x{}", b.iter().map(|c| format!("{c:02x}")).collect::<String>())
    })
}

fn list<T>(v: &Value, each: impl Fn(&Value) -> T) -> Vec<T> {
    v.as_array().map(|a| a.iter().map(each).collect()).unwrap_or_default()
}

fn parent(args: &Value) -> ColumnParent {
    ColumnParent { column_family: text(&args["cf"]), super_column: given(&args["super"]) }
}

fn path(args: &Value) -> ColumnPath {
    ColumnPath {
        column_family: text(&args["cf"]),
        super_column: given(&args["super"]),
        column: given(&args["name"]),
    }
}

fn keys(args: &Value) -> Vec<Vec<u8>> {
    list(&args["keys"], bytes)
}

fn slice_range(v: &Value) -> Option<SliceRange> {
    v.is_object().then(|| SliceRange {
        start: bytes(&v["start"]),
        finish: bytes(&v["finish"]),
        reversed: v["reversed"].as_bool().unwrap_or(false),
        count: v["count"].as_i64().unwrap_or(100) as i32,
    })
}

fn names(v: &Value) -> Option<Vec<Vec<u8>>> {
    v.is_array().then(|| list(v, bytes))
}

fn predicate(args: &Value) -> Result<SlicePredicate> {
    SlicePredicate::from_parts(names(&args["names"]), slice_range(&args["slice"]))
}

fn column(v: &Value) -> Result<Column> {
    let ttl = v["ttl"].as_i64().map(|ttl| ttl as i32);
    Column::from_parts(bytes(&v["name"]), given(&v["value"]), v["ts"].as_i64(), ttl)
}

fn row_mutation(v: &Value) -> Result<RowMutation> {
    let mutations = v[2].as_array().unwrap().iter().map(mutation).collect::<Result<Vec<_>>>()?;
    Ok(RowMutation { key: bytes(&v[0]), column_family: text(&v[1]), mutations })
}

fn mutation(v: &Value) -> Result<Mutation> {
    let (mut write, mut deletion) = (None, None);
    if let Some(d) = v.get("delete") {
        let predicate = (d.get("names").is_some() || d.get("slice").is_some())
            .then(|| (names(&d["names"]), slice_range(&d["slice"])));
        deletion = Some(Deletion::from_parts(d["ts"].as_i64(), given(&d["super"]), predicate)?);
    } else if v.get("super").is_some() {
        let columns =
            v["columns"].as_array().unwrap().iter().map(column).collect::<Result<Vec<_>>>()?;
        write = Some(SuperColumn { name: bytes(&v["super"]), columns }.into());
    } else if let Some(delta) = v.get("delta") {
        write = Some(CounterColumn::new(bytes(&v["name"]), delta.as_i64().unwrap()).into());
    } else if v.get("empty").is_none() {
        write = Some(column(v)?.into());
    }
    Mutation::from_parts(write, deletion)
}

fn expressions(v: &Value) -> Vec<IndexExpression> {
    list(v, |e| {
        let op = match e[1].as_str().unwrap() {
            "EQ" => IndexOperator::Eq,
            "GTE" => IndexOperator::Gte,
            "GT" => IndexOperator::Gt,
            "LTE" => IndexOperator::Lte,
            "LT" => IndexOperator::Lt,
            other => panic!("unknown operator {other}"),
        };
        IndexExpression::new(bytes(&e[0]), op, bytes(&e[2]))
    })
}

fn key_range(args: &Value) -> Result<KeyRange> {
    let token = |name: &str| args[name].as_str().map(str::to_owned);
    let count = args["count"].as_i64().unwrap_or(100) as i32;
    let filter = expressions(&args["row_filter"]);
    KeyRange::from_parts(
        given(&args["start_key"]),
        given(&args["end_key"]),
        token("start_token"),
        token("end_token"),
        count,
        filter,
    )
}

fn cf_def(keyspace: &str, args: &Value) -> CfDef {
    let or = |name: &str, default: &str| args[name].as_str().unwrap_or(default).to_owned();
    let metadata = list(&args["column_metadata"], |c| ColumnDef {
        index_type: c["index_type"].as_str().map(|t| IndexType::from_name(t).unwrap()),
        index_name: c["index_name"].as_str().map(str::to_owned),
        ..ColumnDef::new(bytes(&c["name"]), c["validation_class"].as_str().unwrap())
    });
    CfDef {
        column_type: or("type", "Standard"),
        comparator_type: or("comparator", "BytesType"),
        subcomparator_type: args["subcomparator"].as_str().map(str::to_owned),
        default_validation_class: or("default_validation_class", "BytesType"),
        column_metadata: metadata,
        ..CfDef::new(keyspace, text(&args["name"]))
    }
}

fn column_shown(c: &Column) -> Value {
    let mut v = json!({"name": hex(&c.name), "value": hex(&c.value), "ts": c.timestamp});
    if let Some(ttl) = c.ttl {
        v["ttl"] = json!(ttl);
    }
    v
}

fn counter_shown(c: &CounterColumn) -> Value {
    json!({"name": hex(&c.name), "counter": c.value})
}

fn shown(c: &ColumnOrSuperColumn) -> Value {
    match c {
        ColumnOrSuperColumn::Column(c) => column_shown(c),
        ColumnOrSuperColumn::CounterColumn(c) => counter_shown(c),
        ColumnOrSuperColumn::SuperColumn(s) => {
            json!({"super": hex(&s.name), "columns": s.columns.iter().map(column_shown).collect::<Vec<_>>()})
        }
        ColumnOrSuperColumn::CounterSuperColumn(s) => {
            json!({"super": hex(&s.name), "columns": s.columns.iter().map(counter_shown).collect::<Vec<_>>()})
        }
    }
}

fn all_shown(columns: &[ColumnOrSuperColumn]) -> Value {
    columns.iter().map(shown).collect()
}

fn rows_shown(rows: &[KeySlice]) -> Value {
    rows.iter().map(|r| json!([hex(&r.key), all_shown(&r.columns)])).collect()
}

/// Formats an answer in the notation of the file.
fn answer(result: Result<Value>) -> Value {
    match result {
        Ok(v) => json!({ "result": v }),
        Err(Error::NotFound) => json!({"error": {"class": "NotFoundException"}}),
        Err(Error::InvalidRequest(why)) => {
            let why = match why.split_once(" Deletion=") {
                Some((head, _)) => format!("{head} Deletion=<dump of the struct>)"),
                None => why,
            };
            json!({"error": {"class": "InvalidRequestException", "message": why}})
        }
        Err(e) => json!({"error": {"class": "other", "message": e.to_string()}}),
    }
}

#[test]
fn answers_are_those_of_the_server() {
    let mut scenarios: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in VECTORS.lines() {
        let step: Value = serde_json::from_str(line).unwrap();
        scenarios.entry(step["scenario"].as_str().unwrap().to_owned()).or_default().push(step);
    }
    let kept: Vec<Value> = KEPT.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (mut wrong, mut met, mut steps) = (vec![], 0, 0);
    for (scenario, lines) in &scenarios {
        if LEFT_OUT.iter().any(|(name, _)| name == scenario) {
            continue;
        }
        let mut server = Server::new(scenario);
        for line in lines {
            let op = line["op"].as_str().unwrap();
            let got = answer(server.run(op, &line["args"]));
            let mut expected = answered(line);
            if let Some(kept) =
                kept.iter().find(|k| k["scenario"] == **scenario && k["step"] == line["step"])
            {
                assert_ne!(got, expected, "{scenario} {} is no difference any more", line["step"]);
                expected = answered(kept);
                met += 1;
            }
            steps += 1;
            if got != expected {
                let mut difference =
                    json!({"scenario": scenario, "step": line["step"], "why": "?"});
                difference.as_object_mut().unwrap().extend(got.as_object().unwrap().clone());
                wrong.push(format!(
                    "{op} {}\n  expected {expected}\n  got      {difference}",
                    line["args"]
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {steps} steps differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(met, kept.len(), "an accepted difference did not occur");
}

/// Returns the answer in a line of the file.
fn answered(line: &Value) -> Value {
    match line.get("error") {
        Some(error) => json!({ "error": error }),
        None => json!({ "result": line["result"] }),
    }
}

//! Records of functions and aggregates.

use std::sync::Arc;

use firn_wide::internals::types::{hex, hex_to_bytes};
use serde::{Deserialize, Serialize};

use super::parts::{FORMAT, json, parse};
use crate::catalog::{ColumnType, KeyspaceEntry, StoredAggregate, StoredFunction};
use crate::error::{Result, corrupt};
use crate::script::ScriptProgram;

const FUNCTION: &str = "cql/function/";
const AGGREGATE: &str = "cql/aggregate/";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FunctionRecord {
    format: u32,
    name: String,
    arguments: Vec<(String, ColumnType)>,
    called_on_null: bool,
    result: ColumnType,
    language: String,
    body: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AggregateRecord {
    format: u32,
    name: String,
    arguments: Vec<ColumnType>,
    state_function: String,
    state: ColumnType,
    final_function: Option<String>,
    result: ColumnType,
    /// In hexadecimal.
    initial: Option<String>,
}

/// Content of a record.
pub(super) enum LoadedFunction {
    Function(StoredFunction),
    Aggregate(StoredAggregate),
}

impl LoadedFunction {
    pub(super) fn keyspace(&self) -> &str {
        match self {
            LoadedFunction::Function(f) => &f.keyspace,
            LoadedFunction::Aggregate(a) => &a.keyspace,
        }
    }

    pub(super) fn put(self, keyspace: &mut KeyspaceEntry) {
        match self {
            LoadedFunction::Function(f) => {
                keyspace.functions.insert(f.signature(), Arc::new(f));
            }
            LoadedFunction::Aggregate(a) => {
                keyspace.aggregates.insert(a.signature(), Arc::new(a));
            }
        }
    }

    fn key(&self) -> String {
        match self {
            LoadedFunction::Function(f) => function_key(f),
            LoadedFunction::Aggregate(a) => aggregate_key(a),
        }
    }
}

fn function_key(function: &StoredFunction) -> String {
    let (name, types) = function.signature();
    format!("{FUNCTION}{}/{name}({})", function.keyspace, types.join(", "))
}

fn aggregate_key(aggregate: &StoredAggregate) -> String {
    let (name, types) = aggregate.signature();
    format!("{AGGREGATE}{}/{name}({})", aggregate.keyspace, types.join(", "))
}

/// Loads a record; returns `None` for a record of another kind.
pub(super) fn load(key: &str, value: &[u8]) -> Result<Option<LoadedFunction>> {
    let home = |prefix| key.strip_prefix(prefix).and_then(|rest: &str| rest.split_once('/'));
    let wrong = |what: &str| corrupt!("system.schema, record {key}: {what}");
    let found = if let Some((keyspace, _)) = home(FUNCTION) {
        let record: FunctionRecord = parse(key, value)?;
        let (names, arguments) = record.arguments.into_iter().unzip();
        LoadedFunction::Function(StoredFunction {
            keyspace: keyspace.to_owned(),
            name: record.name,
            arguments,
            called_on_null: record.called_on_null,
            result: record.result,
            language: record.language,
            program: ScriptProgram::new(names, record.body),
        })
    } else if let Some((keyspace, _)) = home(AGGREGATE) {
        let record: AggregateRecord = parse(key, value)?;
        let initial = record.initial.as_deref().map(hex_to_bytes).transpose();
        LoadedFunction::Aggregate(StoredAggregate {
            keyspace: keyspace.to_owned(),
            name: record.name,
            arguments: record.arguments,
            state_function: record.state_function,
            state: record.state,
            final_function: record.final_function,
            result: record.result,
            initial: initial.map_err(|_| wrong("an initial state that is not hexadecimal"))?,
        })
    } else {
        return Ok(None);
    };
    if found.key() != key {
        return Err(wrong("it is of another function than its key says"));
    }
    Ok(Some(found))
}

/// Checks that the functions of aggregates exist.
pub(super) fn check(keyspace: &KeyspaceEntry) -> Result<()> {
    for aggregate in keyspace.aggregates() {
        let parts = [Some(aggregate.state_signature()), aggregate.final_signature()];
        if let Some(lost) = parts.into_iter().flatten().find(|key| keyspace.function(key).is_none())
        {
            return Err(corrupt!(
                "system.schema, record {}: its function {} is not there",
                aggregate_key(aggregate),
                lost.0
            ));
        }
    }
    Ok(())
}

/// Returns the records of a keyspace's functions and aggregates.
pub(super) fn records(keyspace: &KeyspaceEntry) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let functions = keyspace.functions().map(move |f| {
        let record = FunctionRecord {
            format: FORMAT,
            name: f.name.clone(),
            arguments: f.program.arguments().iter().cloned().zip(f.arguments.clone()).collect(),
            called_on_null: f.called_on_null,
            result: f.result.clone(),
            language: f.language.clone(),
            body: f.program.body().to_owned(),
        };
        (function_key(f).into_bytes(), json(&record))
    });
    let aggregates = keyspace.aggregates().map(move |a| {
        let record = AggregateRecord {
            format: FORMAT,
            name: a.name.clone(),
            arguments: a.arguments.clone(),
            state_function: a.state_function.clone(),
            state: a.state.clone(),
            final_function: a.final_function.clone(),
            result: a.result.clone(),
            initial: a.initial.as_deref().map(hex),
        };
        (aggregate_key(a).into_bytes(), json(&record))
    });
    functions.chain(aggregates)
}

//! Calls of Cassandra 0.4, whose first argument is the keyspace, mapped to current calls. Enabled
//! by [`crate::Options::thrift_0_4`]; a call that 0.4 does not have is a current one.

use firn_wide::{Column, ColumnPath};

use super::binary::{ThriftValue, element};
use super::fault::{ThriftError, invalid};
use super::fields::{Result, ThriftFields, ToThrift};
use super::session::{Answer, ThriftSession, texts};

type OldArguments<'v> = Vec<(i16, ThriftValue<'v>)>;

/// Returns the arguments from the second one on, with numbers reduced by one.
fn without_keyspace<'v>(f: &ThriftFields<'v>, last: i16) -> OldArguments<'v> {
    (2..=last).filter_map(|n| Some((n - 1, f.value(n)?.clone()))).collect()
}

fn structure<'v>(fields: OldArguments<'v>) -> ThriftValue<'v> {
    ThriftValue::Struct(fields)
}

/// Returns a predicate for all columns.
fn all() -> ThriftValue<'static> {
    let whole = || ThriftValue::bytes(vec![]);
    let most = ThriftValue::I32(i32::MAX);
    let range = vec![(1, whole()), (2, whole()), (3, ThriftValue::Bool(false)), (4, most)];
    structure(vec![(2, structure(range))])
}

impl ThriftSession {
    /// Executes a call of 0.4.
    ///
    /// # Errors
    /// As [`call`](ThriftSession::call).
    pub fn call_of_0_4(&mut self, method: &str, f: ThriftFields<'_>) -> Answer {
        let (current, arguments) = match method {
            "get" | "get_slice" | "multiget_slice" | "remove" => (method, without_keyspace(&f, 5)),
            "get_count" => {
                let mut arguments = without_keyspace(&f, 3);
                arguments.push((3, all()));
                arguments.extend(f.value(4).map(|level| (4, level.clone())));
                (method, arguments)
            }
            "insert" => ("insert", insertion(&f)?),
            "batch_insert" => ("batch_mutate", batch(&f)?),
            "login" => ("login", without_keyspace(&f, 2)),
            "multiget" => return self.columns_of_keys(f),
            "get_key_range" => return self.keys(f),
            "get_string_property" => return self.property(&f.read::<String>(1, "property")?),
            "get_string_list_property" => {
                return self.properties(&f.read::<String>(1, "property")?);
            }
            "describe_keyspace" => return self.families_of(&f.read::<String>(1, "keyspace")?),
            _ => return self.call(method, f),
        };
        if current != "login" {
            self.use_first_argument(f)?;
        }
        let arguments = structure(arguments);
        self.call(current, ThriftFields::of("arguments", &arguments)?)
    }

    /// Sets the current keyspace to the first argument.
    fn use_first_argument(&mut self, f: ThriftFields<'_>) -> Result<()> {
        let name = structure(vec![(1, ThriftValue::text(f.read::<String>(1, "keyspace")?))]);
        self.call("set_keyspace", ThriftFields::of("arguments", &name)?).map(|_| ())
    }

    /// Reads one column, or super column, of several rows: `get` for each row that has it.
    fn columns_of_keys(&mut self, f: ThriftFields<'_>) -> Answer {
        self.use_first_argument(f)?;
        let mut found = vec![];
        for key in f.read_or::<Vec<Vec<u8>>>(2, "keys", vec![])? {
            let mut arguments = vec![(1, ThriftValue::bytes(key.clone()))];
            arguments.extend((3..=4).filter_map(|n| Some((n - 1, f.value(n)?.clone()))));
            let arguments = structure(arguments);
            match self.call("get", ThriftFields::of("arguments", &arguments)?) {
                Ok(Some(column)) => found.push((ThriftValue::bytes(key), column)),
                Ok(None) | Err(ThriftError::NotFound) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Some(ThriftValue::map(element::BYTES, element::STRUCT, found)))
    }

    /// Returns the keys of rows in a range.
    fn keys(&mut self, f: ThriftFields<'_>) -> Answer {
        self.use_first_argument(f)?;
        let family: String = f.read(2, "column_family")?;
        let start: Vec<u8> = f.read_or(3, "start", vec![])?;
        let finish: Vec<u8> = f.read_or(4, "finish", vec![])?;
        let count = f.read_or(5, "count", 100)?;
        let keyspace = self.reading(&family, f.read(6, "consistency_level")?)?;
        let keys = keyspace.get_key_range(&family, &start, &finish, count)?;
        Ok(Some(ThriftValue::list(element::BYTES, keys.into_iter().map(ThriftValue::bytes))))
    }

    fn property(&mut self, name: &str) -> Answer {
        let current = match name {
            "cluster name" => "describe_cluster_name",
            "version" => "describe_version",
            "token map" => return Ok(Some(ThriftValue::text("{}"))),
            other => return Err(invalid(format!("there is no property {other:?}"))),
        };
        self.call(current, ThriftFields::of("arguments", &structure(vec![]))?)
    }

    fn properties(&mut self, name: &str) -> Answer {
        match name {
            "keyspaces" | "tables" => {
                let all = self.wide().describe_keyspaces().into_iter().map(|k| k.name);
                Ok(Some(texts(all)))
            }
            other => Err(invalid(format!("there is no list of the name {other:?}"))),
        }
    }

    /// Returns the column families by name, each with the properties that 0.4 reports.
    fn families_of(&mut self, name: &str) -> Answer {
        let def = self.wide().describe_keyspace(name)?;
        let families = def.cf_defs.into_iter().map(|f| {
            let mut properties = vec![("Type", f.column_type), ("CompareWith", f.comparator_type)];
            properties.extend(f.subcomparator_type.map(|of| ("CompareSubcolumnsWith", of)));
            properties.push(("Desc", f.comment));
            let pair = |(k, v): (&str, String)| (ThriftValue::text(k), ThriftValue::text(v));
            let properties =
                ThriftValue::map(element::BYTES, element::BYTES, properties.into_iter().map(pair));
            (ThriftValue::text(f.name), properties)
        });
        Ok(Some(ThriftValue::map(element::BYTES, element::MAP, families)))
    }
}

/// Maps `insert(keyspace, key, column_path, value, timestamp, level)`.
fn insertion<'v>(f: &ThriftFields<'v>) -> Result<OldArguments<'v>> {
    let path: ColumnPath = f.read(3, "column_path")?;
    let name = path.column.ok_or_else(|| invalid("column name must not be empty"))?;
    let timestamp = f.read_or(5, "timestamp", 0)?;
    let column = Column::new(name, f.read::<Vec<u8>>(4, "value")?, timestamp);
    let mut parent = vec![(3, ThriftValue::text(path.column_family))];
    parent.extend(path.super_column.map(|name| (4, ThriftValue::bytes(name))));
    let mut arguments = vec![
        (1, ThriftValue::bytes(f.read::<Vec<u8>>(2, "key")?)),
        (2, structure(parent)),
        (3, column.to_thrift()),
    ];
    arguments.extend(f.value(6).map(|level| (4, level.clone())));
    Ok(arguments)
}

/// Maps `batch_insert(keyspace, key, columns by family, level)`.
fn batch<'v>(f: &ThriftFields<'v>) -> Result<OldArguments<'v>> {
    let wrong = || ThriftError::protocol("cfmap is a map of families to columns");
    let Some(ThriftValue::Map(families)) = f.value(3) else { return Err(wrong()) };
    let mut mutations = vec![];
    for (family, columns) in families {
        let ThriftValue::List(columns) = columns else { return Err(wrong()) };
        let writes = columns.iter().map(|column| structure(vec![(1, column.clone())]));
        mutations.push((family.clone(), ThriftValue::list(element::STRUCT, writes)));
    }
    let key = ThriftValue::bytes(f.read::<Vec<u8>>(2, "key")?);
    let rows = vec![(key, ThriftValue::map(element::BYTES, element::LIST, mutations))];
    let mut arguments = vec![(1, ThriftValue::map(element::BYTES, element::MAP, rows))];
    arguments.extend(f.value(4).map(|level| (2, level.clone())));
    Ok(arguments)
}

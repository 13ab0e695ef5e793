//! Calls of Cassandra 0.4, whose first argument is the keyspace, mapped to current calls. Enabled
//! by [`crate::Options::thrift_0_4`]; a call that 0.4 does not have is a current one.

use firn_wide::{
    Column, ColumnOrSuperColumn, ColumnParent, ColumnPath, Mutation, RowMutation, SliceRange,
};

use super::binary::{EncodedFields, EncodedValue};
use super::calls::{LevelUse, check_level};
use super::fault::{ThriftError, invalid};
use super::fields::{FromThrift, ReadField, Result, ThriftFields};
use super::session::ThriftSession;
use super::writer::Pairs;

/// Returns the arguments from the second one on, with numbers reduced by one.
fn without_keyspace<'v>(f: &ThriftFields<'v>, last: i16) -> ThriftFields<'v> {
    let fields = (2..=last).filter_map(|n| Some((n - 1, f.value(n)?)));
    ThriftFields::new("arguments", fields.collect())
}

impl ThriftSession {
    /// Executes a call of 0.4.
    ///
    /// # Errors
    /// As [`call`](ThriftSession::call).
    pub fn call_of_0_4(
        &mut self,
        method: &str,
        f: &ThriftFields<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match method {
            "get" | "get_slice" | "multiget_slice" | "remove" => {
                self.use_first_argument(f)?;
                self.call(method, &without_keyspace(f, 5), out)
            }
            "login" => self.call(method, &without_keyspace(f, 2), out),
            "get_count" => self.count(f, out),
            "insert" => self.insert_column(f),
            "batch_insert" => self.insert_batch(f),
            "multiget" => self.columns_of_keys(f, out),
            "get_key_range" => self.keys(f, out),
            "get_string_property" => self.property(f.read(1, "property")?, out),
            "get_string_list_property" => self.properties(f.read(1, "property")?, out),
            "describe_keyspace" => self.families_of(f.read(1, "keyspace")?, out),
            _ => self.call(method, f, out),
        }
    }

    /// Sets the current keyspace to the first argument.
    fn use_first_argument(&mut self, f: &ThriftFields<'_>) -> Result<()> {
        f.read::<&str>(1, "keyspace")?;
        self.call("set_keyspace", f, &mut vec![])
    }

    /// Counts all columns of a row: `get_count(keyspace, key, column_parent, level)`.
    fn count(&mut self, f: &ThriftFields<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.use_first_argument(f)?;
        let parent: ColumnParent = f.read(3, "column_parent")?;
        let keyspace = self.reading(&parent.column_family, f.read(4, "consistency_level")?)?;
        let all = SliceRange { count: i32::MAX, ..SliceRange::default() }.into();
        let count = keyspace.get_count(f.read(2, "key")?, &parent, &all)?;
        self.reply(out, &count)
    }

    /// Executes `insert(keyspace, key, column_path, value, timestamp, level)`.
    fn insert_column(&mut self, f: &ThriftFields<'_>) -> Result<()> {
        let ColumnPath { column_family, super_column, column, .. } = f.read(3, "column_path")?;
        let name = column.ok_or_else(|| invalid("column name must not be empty"))?;
        let timestamp = f.read_or(5, "timestamp", 0)?;
        let column = Column::new(name, f.read::<Vec<u8>>(4, "value")?, timestamp);
        let key = f.read(2, "key")?;
        self.use_first_argument(f)?;
        let parent = ColumnParent { super_column, ..ColumnParent::new(column_family) };
        let level = f.read(6, "consistency_level")?;
        let keyspace = self.writing(&parent.column_family, level, LevelUse::Write)?;
        Ok(keyspace.insert(key, &parent, &column)?)
    }

    /// Executes `batch_insert(keyspace, key, columns by family, level)`.
    fn insert_batch(&mut self, f: &ThriftFields<'_>) -> Result<()> {
        let wrong = || ThriftError::protocol("cfmap is a map of families to columns");
        let mut families = f.value(3).and_then(EncodedValue::pairs).ok_or_else(wrong)?;
        if families.any(|(_, columns)| columns.elements().is_none()) {
            return Err(wrong());
        }
        let key: &[u8] = f.read(2, "key")?;
        self.use_first_argument(f)?;
        check_level(f.read(4, "consistency_level")?, LevelUse::Write)?;
        let Pairs(families): Pairs<String, Vec<OldWrite>> = f.read(3, "mutation_map")?;
        let of_family = |(family, writes): (String, Vec<OldWrite>)| {
            RowMutation::new(key, family, writes.into_iter().map(|write| write.0))
        };
        self.mutate(&families.into_iter().map(of_family).collect::<Vec<_>>(), false)
    }

    /// Reads one column, or super column, of several rows: `get` for each row that has it.
    fn columns_of_keys(&mut self, f: &ThriftFields<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.use_first_argument(f)?;
        let mut found: Vec<(&[u8], ColumnOrSuperColumn)> = vec![];
        for key in f.read_or(2, "keys", vec![])? {
            let path: ColumnPath = f.read(3, "column_path")?;
            let keyspace = self.reading(&path.column_family, f.read(4, "consistency_level")?)?;
            match keyspace.get(key, &path).map_err(ThriftError::from) {
                Ok(column) => found.push((key, column)),
                Err(ThriftError::NotFound) => {}
                Err(e) => return Err(e),
            }
        }
        self.reply(out, &Pairs(found))
    }

    /// Returns the keys of rows in a range.
    fn keys(&mut self, f: &ThriftFields<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.use_first_argument(f)?;
        let family: &str = f.read(2, "column_family")?;
        let start: &[u8] = f.read_or(3, "start", &[][..])?;
        let finish: &[u8] = f.read_or(4, "finish", &[][..])?;
        let count = f.read_or(5, "count", 100)?;
        let keyspace = self.reading(family, f.read(6, "consistency_level")?)?;
        let keys = keyspace.get_key_range(family, start, finish, count)?;
        self.reply(out, &keys)
    }

    fn property(&mut self, name: &str, out: &mut Vec<u8>) -> Result<()> {
        let current = match name {
            "cluster name" => "describe_cluster_name",
            "version" => "describe_version",
            "token map" => return self.reply(out, "{}"),
            other => return Err(invalid(format!("there is no property {other:?}"))),
        };
        self.call(current, &ThriftFields::new("arguments", EncodedFields::new()), out)
    }

    fn properties(&mut self, name: &str, out: &mut Vec<u8>) -> Result<()> {
        match name {
            "keyspaces" | "tables" => {
                let all = self.wide().describe_keyspaces().into_iter().map(|k| k.name);
                self.reply(out, &all.collect::<Vec<_>>())
            }
            other => Err(invalid(format!("there is no list of the name {other:?}"))),
        }
    }

    /// Returns the column families by name, each with the properties that 0.4 reports.
    fn families_of(&mut self, name: &str, out: &mut Vec<u8>) -> Result<()> {
        let def = self.wide().describe_keyspace(name)?;
        let families = def.cf_defs.into_iter().map(|f| {
            let mut properties = vec![("Type", f.column_type), ("CompareWith", f.comparator_type)];
            properties.extend(f.subcomparator_type.map(|of| ("CompareSubcolumnsWith", of)));
            properties.push(("Desc", f.comment));
            (f.name, Pairs(properties))
        });
        self.reply(out, &Pairs(families.collect()))
    }
}

/// A column that `batch_insert` writes, without the structure of a mutation.
struct OldWrite(Mutation);

impl<'v> ReadField<'v> for OldWrite {
    fn read(value: EncodedValue<'v>) -> Result<Option<OldWrite>> {
        let fields = EncodedFields::from_iter([(1, value)]);
        let mutation = Mutation::from_fields(&ThriftFields::new(Mutation::NAME, fields))?;
        Ok(Some(OldWrite(mutation)))
    }
}

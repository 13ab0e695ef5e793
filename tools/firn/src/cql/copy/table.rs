//! Table of a `COPY` command.

use firn_cql::ColumnSpec;
use firn_tools::output::{Done, Failure};

use super::parts::failure;
use crate::cql::backend::{ShellBackend, every_page};

/// A table to copy.
pub struct CopyTable {
    /// Keyspace.
    pub keyspace: String,
    /// Name.
    pub name: String,
    /// Name with keyspace, as statements write it.
    pub place: String,
    /// Columns, those of the key first.
    pub columns: Vec<ColumnSpec>,
}

impl CopyTable {
    /// Returns the names of all columns.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|c| c.name.clone()).collect()
    }

    /// Returns the column of this name.
    pub fn column(&self, name: &str) -> Option<&ColumnSpec> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Fails unless all of these are columns.
    pub fn check(&self, names: &[String]) -> Done {
        match names.iter().find(|name| self.column(name).is_none()) {
            Some(name) => Err(Failure::new(format!("there is no column {name} in {}", self.name))),
            None => Ok(()),
        }
    }

    /// Reports whether it is a counter table: a table has counters, or other columns.
    pub fn is_counter(&self) -> bool {
        self.columns.iter().any(|c| c.column_type.value_type.is_counter())
    }

    /// Reports whether a column of a counter table belongs to the key.
    pub fn is_key(&self, name: &str) -> bool {
        self.column(name).is_some_and(|c| !c.column_type.value_type.is_counter())
    }

    /// Returns the columns of its partition key, in order.
    pub fn partition_key<B: ShellBackend>(&self, backend: &mut B) -> Done<Vec<String>> {
        let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let statement = format!(
            "SELECT column_name, kind, position FROM system_schema.columns WHERE keyspace_name = {} AND table_name = {}",
            text(&self.keyspace),
            text(&self.name)
        );
        let mut found: Vec<(i32, String)> = vec![];
        for page in every_page(backend, &statement).map_err(failure)? {
            for row in page.iter() {
                let column = (row.at::<String>(0), row.at::<String>(1), row.at::<i32>(2));
                if let (Ok(name), Ok(kind), Ok(position)) = column
                    && kind == "partition_key"
                {
                    found.push((position, name));
                }
            }
        }
        found.sort();
        Ok(found.into_iter().map(|f| f.1).collect())
    }
}

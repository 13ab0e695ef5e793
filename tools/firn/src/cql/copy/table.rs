//! The table that `COPY` is about.

use firn_cql::ColumnSpec;
use firn_tools::output::{Done, Failure};

use super::parts::failure;
use crate::cql::backend::{ShellBackend, every_page};

/// The table that is copied.
pub struct CopyTable {
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// With its keyspace, as statements name it.
    pub place: String,
    /// Its columns, those of the key first.
    pub columns: Vec<ColumnSpec>,
}

impl CopyTable {
    /// The names of all columns.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|c| c.name.clone()).collect()
    }

    /// A column by its name.
    pub fn column(&self, name: &str) -> Option<&ColumnSpec> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Whether all of these are columns.
    pub fn check(&self, names: &[String]) -> Done {
        match names.iter().find(|name| self.column(name).is_none()) {
            Some(name) => Err(Failure::new(format!("there is no column {name} in {}", self.name))),
            None => Ok(()),
        }
    }

    /// Whether rows are counted rather than written: a table has counters, or other columns.
    pub fn is_counter(&self) -> bool {
        self.columns.iter().any(|c| c.of.of.is_counter())
    }

    /// Whether a column of a table of counters is of the key.
    pub fn is_key(&self, name: &str) -> bool {
        self.column(name).is_some_and(|c| !c.of.of.is_counter())
    }

    /// The columns of its partition key, in order.
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

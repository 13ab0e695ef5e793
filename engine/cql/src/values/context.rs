//! Contexts for preparing and evaluating terms.

use firn_wide::{Partitioner, Type};

use super::ColumnSpec;
use crate::catalog::{Catalog, ColumnType, Resource, TableColumn, TableSchema};
use crate::error::{Result, invalid};
use crate::syntax::ast;

/// Context for preparing terms.
pub struct Context<'a> {
    /// Catalog with the user types.
    pub catalog: &'a Catalog,
    /// Keyspace of the table.
    pub keyspace: &'a str,
    /// Types of the partition key, for `token()`.
    pub partition: Vec<Type>,
    /// Partitioner, for `token()`.
    pub partitioner: Partitioner,
    /// Types of the markers.
    pub markers: Markers,
    /// User-defined functions that are called.
    pub calls: Vec<Resource>,
}

impl<'a> Context<'a> {
    /// Creates a context without markers and without a partition key.
    pub fn new(catalog: &'a Catalog, keyspace: &'a str, partitioner: Partitioner) -> Context<'a> {
        let (partition, markers, calls) = (vec![], Markers::default(), vec![]);
        Context { catalog, keyspace, partition, partitioner, markers, calls }
    }

    /// Creates the context of a statement on this table.
    pub fn of_table(
        catalog: &'a Catalog,
        table: &'a TableSchema,
        partitioner: Partitioner,
        markers: Markers,
    ) -> Context<'a> {
        let partition = table.partition().iter().map(|c| c.of.value_type.clone()).collect();
        Context { partition, markers, ..Context::new(catalog, &table.keyspace, partitioner) }
    }
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("keyspace", &self.keyspace).finish_non_exhaustive()
    }
}

/// The receiver of a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// Name for messages: `v`, `value(l)`, `key(m)`, `idx(l)`, `[limit]`.
    pub name: String,
    /// Expected type.
    pub of: ColumnType,
    /// Keyspace of the column.
    pub keyspace: String,
    /// Table of the column.
    pub table: String,
}

impl Receiver {
    /// Creates the receiver for a column.
    pub fn column(table: &TableSchema, column: &TableColumn) -> Receiver {
        Receiver {
            name: column.name.clone(),
            of: column.of.clone(),
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
        }
    }

    /// Creates a receiver in the same table that is not a column: an element, a limit.
    pub fn other(&self, name: impl Into<String>, of: Type) -> Receiver {
        Receiver { name: name.into(), of: ColumnType::frozen(of), ..self.clone() }
    }

    /// Creates the receiver of a key of this map.
    pub fn key(&self, of: &Type) -> Receiver {
        self.other(format!("key({})", self.name), of.clone())
    }

    /// Creates the receiver of an element or a value of this collection.
    pub fn value(&self, of: &Type) -> Receiver {
        self.other(format!("value({})", self.name), of.clone())
    }

    /// Creates the receiver of an index of this list.
    pub fn index(&self) -> Receiver {
        self.other(format!("idx({})", self.name), Type::Int32)
    }

    /// Creates a receiver of a table that is not a column.
    pub fn new(table: &TableSchema, name: &str, of: Type) -> Receiver {
        Receiver::without_table(name, of).of_table(&table.keyspace, &table.name)
    }

    /// Creates a receiver that belongs to no table.
    pub fn without_table(name: &str, of: Type) -> Receiver {
        let of = ColumnType::frozen(of);
        Receiver { name: name.to_owned(), of, keyspace: String::new(), table: String::new() }
    }

    /// Returns the receiver with this table.
    pub fn of_table(self, keyspace: &str, table: &str) -> Receiver {
        Receiver { keyspace: keyspace.to_owned(), table: table.to_owned(), ..self }
    }
}

/// Types of a statement's markers, collected while its terms are prepared.
#[derive(Clone, Debug, Default)]
pub struct Markers(Vec<Option<MarkerUse>>);

/// Use of a marker.
#[derive(Clone, Debug)]
struct MarkerUse {
    spec: ColumnSpec,
    /// Name of the receiver. The spec has the name of the marker, if it has one.
    receiver: String,
}

impl Markers {
    /// Creates the list for a statement with this number of markers.
    pub fn new(count: u16) -> Markers {
        Markers(vec![None; usize::from(count)])
    }

    /// Sets the expected type of a marker.
    pub fn set(&mut self, marker: &ast::Marker<'_>, receiver: &Receiver) {
        if let Some(slot) = self.0.get_mut(usize::from(marker.index)) {
            let spec = ColumnSpec {
                keyspace: receiver.keyspace.clone(),
                table: receiver.table.clone(),
                name: marker.name.as_ref().map_or_else(|| receiver.name.clone(), |n| n.to_string()),
                column_type: receiver.of.clone(),
            };
            *slot = Some(MarkerUse { spec, receiver: receiver.name.clone() });
        }
    }

    /// Returns the markers bound to the columns of the table's partition key, in their order;
    /// clients locate the partition by them. Empty if a column is bound to no marker, or to
    /// several.
    pub fn of_partition_key(&self, table: &TableSchema) -> Vec<u16> {
        let is_of = |used: &Option<MarkerUse>, column: &TableColumn| {
            used.as_ref().is_some_and(|MarkerUse { spec, receiver }| {
                (&spec.keyspace, &spec.table) == (&table.keyspace, &table.name)
                    && *receiver == column.name
                    && spec.column_type == column.of
            })
        };
        let marker = |column: &TableColumn| {
            let mut all = (0..).zip(&self.0).filter(|(_, used)| is_of(used, column));
            all.next().map(|(at, _)| at).filter(|_| all.next().is_none())
        };
        table.partition().iter().map(marker).collect::<Option<_>>().unwrap_or_default()
    }

    /// Returns the types of the markers, by number.
    ///
    /// # Errors
    /// `Invalid` for a marker of unknown type.
    pub fn into_specs(self) -> Result<Vec<ColumnSpec>> {
        let unknown = |i| {
            invalid!(
                "the type of bind marker {i} is not known; put a type in parentheses before it"
            )
        };
        let spec = |(i, used): (usize, Option<MarkerUse>)| {
            used.map(|used| used.spec).ok_or_else(|| unknown(i))
        };
        self.0.into_iter().enumerate().map(spec).collect()
    }
}

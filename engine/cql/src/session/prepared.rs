//! A compiled statement with the context that it was compiled for.

use std::sync::Arc;

use super::log::RanStatement;
use crate::exec::{ChangeKind, StatementPlan, TableAccess};
use crate::values::{BoundValue, ColumnSpec};

/// A compiled statement. Cheap to clone. It is recompiled automatically after the schema has
/// changed.
#[derive(Clone)]
pub struct Prepared(pub(super) Arc<Compiled>);

pub struct Compiled {
    /// Key in the session's cache.
    pub key: [u8; 16],
    pub id: [u8; 16],
    pub text: String,
    /// Text with `***` in place of a password, if it contains one.
    pub masked: Option<String>,
    pub keyspace: Option<Arc<str>>,
    pub is_qualified: bool,
    pub version: u64,
    /// Bytes charged to caches.
    pub heap_bytes: usize,
    pub plan: Box<dyn StatementPlan>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Prepared").field(&self.shown_text()).finish()
    }
}

impl Prepared {
    /// Returns the log entry of an execution with these values.
    pub(super) fn as_ran<'a>(&'a self, values: &'a [BoundValue]) -> RanStatement<'a> {
        RanStatement {
            keyspace: self.0.keyspace.as_deref(),
            text: self.shown_text(),
            markers: self.markers(),
            values,
        }
    }

    /// Returns the id in the native protocol: a digest of the text, and of the keyspace if the
    /// statement depends on it. Cassandra computes the same.
    pub fn id(&self) -> [u8; 16] {
        self.0.id
    }

    /// Estimates its memory in bytes: its text, and its plan with all constants.
    #[doc(hidden)]
    pub fn heap_bytes(&self) -> usize {
        self.0.heap_bytes
    }

    /// Returns the text of the statement.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Returns the text with `***` in place of a password, for display.
    #[doc(hidden)]
    pub fn shown_text(&self) -> &str {
        self.0.masked.as_deref().unwrap_or(&self.0.text)
    }

    /// Returns the types of its bind markers.
    pub fn markers(&self) -> &[ColumnSpec] {
        self.0.plan.markers()
    }

    /// Returns the keyspace that was current when it was compiled.
    pub fn keyspace(&self) -> Option<&Arc<str>> {
        self.0.keyspace.as_ref()
    }

    /// Reports whether all its table names have a keyspace, so that it does not depend on the
    /// current keyspace.
    #[doc(hidden)]
    pub fn is_qualified(&self) -> bool {
        self.0.is_qualified
    }

    /// Returns the indexes of the markers that are bound to the columns of the partition key, in
    /// the order of the key. Clients compute the token, which locates the partition, from their
    /// values. Empty if a column has no marker.
    pub fn partition_key(&self) -> &[u16] {
        self.0.plan.partition_key()
    }

    /// Returns the keyspaces and tables whose rows it reads or writes, once for each part of the
    /// statement. Definitions and system tables have none.
    #[doc(hidden)]
    pub fn accesses(&self) -> Vec<(TableAccess, &str, &str)> {
        let all = self.0.plan.accesses().into_iter();
        let named = all.filter(|(_, table)| !table.is_system());
        named.map(|(access, table)| (access, &*table.keyspace, &*table.name)).collect()
    }

    /// Returns how it changes rows; `None` if it reads or is a definition.
    #[doc(hidden)]
    pub fn change_kind(&self) -> Option<ChangeKind<'_>> {
        self.0.plan.change_kind()
    }

    /// Reports whether it reads or writes only one row or a few rows that its values name.
    #[doc(hidden)]
    pub fn is_quick(&self) -> bool {
        self.0.plan.is_quick()
    }

    /// Returns the columns of its result, if they are known before it runs.
    pub fn columns(&self) -> Option<&Arc<[ColumnSpec]>> {
        self.0.plan.columns()
    }
}

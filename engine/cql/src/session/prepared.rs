//! A statement, compiled, with what it was compiled for.

use std::sync::Arc;

use super::log::RanStatement;
use crate::exec::{ChangeKind, StatementPlan, TableAccess};
use crate::values::{Bound, ColumnSpec};

/// A statement, compiled. Cheap to clone. It is compiled again by itself when definitions have
/// changed.
#[derive(Clone)]
pub struct Prepared(pub(super) Arc<Compiled>);

pub struct Compiled {
    /// By which the session keeps it.
    pub key: [u8; 16],
    pub id: [u8; 16],
    pub text: String,
    /// The text with `***` in place of a password, where it gives one.
    pub masked: Option<String>,
    pub keyspace: Option<Arc<str>>,
    pub is_qualified: bool,
    pub version: u64,
    /// What caches charge for it.
    pub heap_bytes: usize,
    pub plan: Box<dyn StatementPlan>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Prepared").field(&self.shown_text()).finish()
    }
}

impl Prepared {
    /// What a log is told of it when it has run with these values.
    pub(super) fn as_ran<'a>(&'a self, values: &'a [Bound]) -> RanStatement<'a> {
        RanStatement {
            keyspace: self.0.keyspace.as_deref(),
            text: self.shown_text(),
            markers: self.markers(),
            values,
        }
    }

    /// What the native protocol calls it: a digest of the text, and of the keyspace where that makes
    /// a difference. Servers make the same.
    pub fn id(&self) -> [u8; 16] {
        self.0.id
    }

    /// Estimates the bytes of memory that it takes: its text, and its plan with all constants.
    pub fn heap_bytes(&self) -> usize {
        self.0.heap_bytes
    }

    /// The statement.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The statement as others may see it: with `***` in place of a password.
    pub fn shown_text(&self) -> &str {
        self.0.masked.as_deref().unwrap_or(&self.0.text)
    }

    /// The types of its bind markers.
    pub fn markers(&self) -> &[ColumnSpec] {
        self.0.plan.markers()
    }

    /// The keyspace that was chosen when it was compiled.
    pub fn keyspace(&self) -> Option<&Arc<str>> {
        self.0.keyspace.as_ref()
    }

    /// Whether it names each table whose rows it is about with its keyspace: it means the same
    /// whatever keyspace is chosen.
    pub fn is_qualified(&self) -> bool {
        self.0.is_qualified
    }

    /// The numbers of the markers that are bound to the columns of the partition key, in their
    /// order: of them a client makes the token that says where the partition is. Empty when one of
    /// the columns is bound to none.
    pub fn partition_key(&self) -> &[u16] {
        self.0.plan.partition_key()
    }

    /// The keyspaces and tables whose rows it reads or writes, once for each part of the statement.
    /// Of a definition, and of system tables, there are none.
    pub fn accesses(&self) -> Vec<(TableAccess, &str, &str)> {
        let all = self.0.plan.accesses().into_iter();
        let named = all.filter(|(_, table)| !table.is_system());
        named.map(|(access, table)| (access, &*table.keyspace, &*table.name)).collect()
    }

    /// How it changes rows; `None`: it reads, or is a definition.
    pub fn change_kind(&self) -> Option<ChangeKind<'_>> {
        self.0.plan.change_kind()
    }

    /// Whether it takes no longer than to read or write one row that its values name, or few.
    pub fn is_quick(&self) -> bool {
        self.0.plan.is_quick()
    }

    /// The columns of its result, where that is known before it is run.
    pub fn columns(&self) -> Option<&Arc<[ColumnSpec]>> {
        self.0.plan.columns()
    }
}

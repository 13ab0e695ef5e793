//! A prepared statement, at a cluster or in a directory.

use std::sync::Arc;

use firn_cql::ColumnSpec;
use scylla::statement::prepared::PreparedStatement;

/// A statement prepared by a cluster.
#[derive(Debug)]
pub(crate) struct ClusterStatement {
    pub keyspace: Option<Arc<str>>,
    pub markers: Arc<[ColumnSpec]>,
    pub columns: Arc<[ColumnSpec]>,
    pub statement: PreparedStatement,
}

#[derive(Clone, Debug)]
pub(crate) enum PreparedPlace {
    Folder(firn_cql::Prepared),
    Cluster(Arc<ClusterStatement>),
}

/// A prepared statement. Cheap to clone. It runs in sessions with the database that prepared it.
#[derive(Clone, Debug)]
pub struct Prepared(pub(crate) PreparedPlace);

impl Prepared {
    /// Returns the text.
    pub fn text(&self) -> &str {
        match &self.0 {
            PreparedPlace::Folder(prepared) => prepared.text(),
            PreparedPlace::Cluster(prepared) => prepared.statement.get_statement(),
        }
    }

    /// Returns the types of its bind markers.
    pub fn markers(&self) -> &[ColumnSpec] {
        match &self.0 {
            PreparedPlace::Folder(prepared) => prepared.markers(),
            PreparedPlace::Cluster(prepared) => &prepared.markers,
        }
    }

    /// Returns the current keyspace at its preparation.
    pub fn keyspace(&self) -> Option<&Arc<str>> {
        match &self.0 {
            PreparedPlace::Folder(prepared) => prepared.keyspace(),
            PreparedPlace::Cluster(prepared) => prepared.keyspace.as_ref(),
        }
    }

    /// Returns the columns of its result, if known before it runs.
    pub fn columns(&self) -> Option<&Arc<[ColumnSpec]>> {
        match &self.0 {
            PreparedPlace::Folder(prepared) => prepared.columns(),
            PreparedPlace::Cluster(prepared) => {
                Some(&prepared.columns).filter(|columns| !columns.is_empty())
            }
        }
    }
}

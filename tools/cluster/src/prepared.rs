//! A statement that is prepared, at a cluster or in a folder.

use std::sync::Arc;

use firn_cql::ColumnSpec;
use scylla::statement::prepared::PreparedStatement;

/// One that a cluster has prepared.
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

/// A statement, prepared. Cheap to clone. It runs in sessions with the database that it was prepared
/// at.
#[derive(Clone, Debug)]
pub struct Prepared(pub(crate) PreparedPlace);

impl Prepared {
    /// The statement.
    pub fn text(&self) -> &str {
        match &self.0 {
            PreparedPlace::Folder(prepared) => prepared.text(),
            PreparedPlace::Cluster(prepared) => prepared.statement.get_statement(),
        }
    }

    /// The types of its bind markers.
    pub fn markers(&self) -> &[ColumnSpec] {
        match &self.0 {
            PreparedPlace::Folder(prepared) => prepared.markers(),
            PreparedPlace::Cluster(prepared) => &prepared.markers,
        }
    }

    /// The keyspace that was chosen when it was prepared.
    pub fn keyspace(&self) -> Option<&Arc<str>> {
        match &self.0 {
            PreparedPlace::Folder(prepared) => prepared.keyspace(),
            PreparedPlace::Cluster(prepared) => prepared.keyspace.as_ref(),
        }
    }

    /// The columns of its result, where that is known before it is run.
    pub fn columns(&self) -> Option<&Arc<[ColumnSpec]>> {
        match &self.0 {
            PreparedPlace::Folder(prepared) => prepared.columns(),
            PreparedPlace::Cluster(prepared) => {
                Some(&prepared.columns).filter(|columns| !columns.is_empty())
            }
        }
    }
}

//! Keyspaces and tables of CQL as a catalog of DataFusion.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::TableType;
use firn_cql::Session;
use firn_cql::internals::catalog::TableSchema;

use crate::exec::failure;
use crate::{FirnTable, QuerySnapshots, SqlScanOptions};

/// The keyspaces of a database as a catalog; its schemas are keyspaces. Names are matched exactly:
/// SQL needs quotes for a name with capitals, as CQL does.
///
/// The current definitions are used. System keyspaces are included, but not listed. Other schemas,
/// such as one with trees, can be [registered](CatalogProvider::register_schema) beside keyspaces.
#[derive(Clone)]
pub struct FirnCatalog {
    session: Session,
    snapshots: QuerySnapshots,
    options: SqlScanOptions,
    others: Arc<RwLock<BTreeMap<String, Arc<dyn SchemaProvider>>>>,
}

impl fmt::Debug for FirnCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirnCatalog").field("options", &self.options).finish_non_exhaustive()
    }
}

impl FirnCatalog {
    /// Creates a catalog of a session's database. Queries have the permissions of the session's
    /// role.
    pub fn new(session: &Session) -> FirnCatalog {
        let snapshots = QuerySnapshots::new(session.engine().store().db());
        let options = SqlScanOptions::default();
        FirnCatalog { session: session.clone(), snapshots, options, others: Arc::default() }
    }

    /// Sets the options of scans.
    pub fn with_options(self, options: SqlScanOptions) -> FirnCatalog {
        FirnCatalog { options, ..self }
    }

    /// Sets the snapshots that queries read.
    pub fn with_snapshots(self, snapshots: QuerySnapshots) -> FirnCatalog {
        FirnCatalog { snapshots, ..self }
    }

    /// Returns the snapshots that queries read. Trees that share them agree with the tables.
    pub fn snapshots(&self) -> &QuerySnapshots {
        &self.snapshots
    }
}

impl CatalogProvider for FirnCatalog {
    fn schema_names(&self) -> Vec<String> {
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        let catalog = self.session.engine().catalog();
        catalog.keyspaces().map(|k| k.name.clone()).chain(others.keys().cloned()).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if self.session.engine().catalog().any_keyspace(name).is_some() {
            return Some(Arc::new(FirnSchema { catalog: self.clone(), keyspace: name.to_owned() }));
        }
        self.others.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        if self.session.engine().catalog().any_keyspace(name).is_some() {
            return exec_err!("the schema {name} is a keyspace: choose another name");
        }
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        Ok(others.insert(name.to_owned(), schema))
    }
}

/// The tables of a keyspace, materialized views included.
#[derive(Clone, Debug)]
pub struct FirnSchema {
    catalog: FirnCatalog,
    keyspace: String,
}

impl FirnSchema {
    /// Returns the current definition of a table.
    fn definition(&self, name: &str) -> Result<Option<Arc<TableSchema>>> {
        let catalog = self.catalog.session.engine().fresh_catalog();
        let catalog = catalog.map_err(|e| failure(&format!("{}.{name}", self.keyspace), e))?;
        Ok(catalog.any_keyspace(&self.keyspace).and_then(|k| k.table(name)).cloned())
    }
}

#[async_trait]
impl SchemaProvider for FirnSchema {
    fn table_names(&self) -> Vec<String> {
        let catalog = self.catalog.session.engine().catalog();
        let keyspace = catalog.any_keyspace(&self.keyspace);
        keyspace.map_or(vec![], |k| k.tables().map(|t| t.name.clone()).collect())
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let FirnCatalog { session, snapshots, options, .. } = &self.catalog;
        let table = self.definition(name)?;
        Ok(table.map(|table| {
            Arc::new(FirnTable::new(session.clone(), snapshots.clone(), *options, table)) as _
        }))
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        Ok(self.definition(name)?.map(|_| TableType::Base))
    }

    fn table_exist(&self, name: &str) -> bool {
        matches!(self.definition(name), Ok(Some(_)))
    }
}

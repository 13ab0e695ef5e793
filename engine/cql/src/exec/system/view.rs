//! Context for computing the rows of system tables.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::exec::engine::Engine;

/// Context for computing the rows of system tables.
pub struct SystemView<'a> {
    pub engine: &'a Engine,
    pub catalog: Arc<Catalog>,
    /// Address at which the client reached the database.
    pub endpoint: SocketAddr,
}

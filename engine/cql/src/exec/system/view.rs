//! What the rows of system tables are made of.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::exec::engine::Engine;

/// What the rows of system tables are made of.
pub struct SystemView<'a> {
    pub engine: &'a Engine,
    pub catalog: Arc<Catalog>,
    /// The address that the client has reached the database at.
    pub endpoint: SocketAddr,
}

//! Rows of the system tables, computed when they are read.
//!
//! `auth`: `system_auth`; `node`: `system.local`, other tables of `system`, and
//! `system_distributed`; `schema`: `system_schema` and `system_virtual_schema`; `views`:
//! `system_views`.
//!
//! Invariants: reading a system table changes nothing, except that it may refresh the catalog after
//! changes made through the Thrift interface. A table without content is empty.

mod auth;
mod node;
mod schema;
mod view;
mod views;

use std::net::{Ipv4Addr, SocketAddr};

use super::engine::Engine;
use super::source::{SystemPartition, SystemRows};
use crate::catalog::TableSchema;
use crate::error::Result;
use view::SystemView;

/// Address at which a session's client reached the database, unless a server sets another.
pub const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9042);

/// Returns the rows of a table. `keys`: the only partitions that the statement reads, if it names
/// them.
pub(super) fn rows_of<'a>(
    engine: &Engine,
    endpoint: SocketAddr,
    table: &'a TableSchema,
    keys: Option<&'a [Vec<u8>]>,
) -> Result<Vec<SystemPartition>> {
    let view = SystemView { engine, catalog: engine.fresh_catalog()?, endpoint };
    let mut rows = SystemRows::new(table, keys);
    match &*table.keyspace {
        "system" => node::fill(&view, &mut rows)?,
        "system_distributed" => node::fill_distributed(&view, &mut rows),
        "system_schema" | "system_virtual_schema" => schema::fill(&view, &mut rows),
        "system_auth" => auth::fill(&view, &mut rows),
        "system_views" => views::fill(&view, &mut rows)?,
        _ => {}
    }
    for source in engine.sources() {
        source.fill(&mut rows);
    }
    rows.finish(engine.partitioner())
}

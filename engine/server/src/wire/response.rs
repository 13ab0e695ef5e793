//! Response bodies, written by servers (section 4.2).

use std::net::SocketAddr;

use firn_cql::{ColumnSpec, Error, Prepared, Rows, SchemaChange};
use firn_wide::internals::types::hex;
use md5::{Digest, Md5};

use super::error::WireError;
use super::frame::Version;
use super::types::put_type;
use super::write::{
    put_bytes, put_count, put_inet, put_int, put_short, put_short_bytes, put_short_count,
    put_string, put_string_list,
};

pub(super) const GLOBAL_TABLE: i32 = 0x01;
pub(super) const HAS_MORE: i32 = 0x02;
pub(super) const NO_METADATA: i32 = 0x04;
pub(super) const METADATA_CHANGED: i32 = 0x08;

/// Metadata flags of a result.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowsFlags {
    /// Omit the metadata: the client has cached it.
    pub skip_metadata: bool,
    /// The metadata differs from the client's, and this is its id; version 5.
    pub new_metadata_id: Option<[u8; 16]>,
}

/// Builder of a response's body.
#[derive(Debug)]
pub struct ResponseBody<'o> {
    out: &'o mut Vec<u8>,
    version: Version,
}

/// Appends the columns; with `global`, the table is named once for all.
fn put_columns(out: &mut Vec<u8>, columns: &[ColumnSpec], version: Version, global: bool) {
    if let Some(first) = columns.first().filter(|_| global) {
        put_string(out, &first.keyspace);
        put_string(out, &first.table);
    }
    for column in columns {
        if !global {
            put_string(out, &column.keyspace);
            put_string(out, &column.table);
        }
        put_string(out, &column.name);
        put_type(out, &column.column_type.value_type, version);
    }
}

fn is_of_one_table(columns: &[ColumnSpec]) -> bool {
    let Some(first) = columns.first() else { return false };
    columns.iter().all(|c| c.table == first.table && c.keyspace == first.keyspace)
}

/// Returns the id of a result's metadata: version 5 clients send it to identify their cached
/// columns.
pub fn metadata_id(columns: &[ColumnSpec]) -> [u8; 16] {
    let mut bytes = vec![];
    put_columns(&mut bytes, columns, Version::V5, false);
    Md5::digest(&bytes).into()
}

impl<'o> ResponseBody<'o> {
    /// Creates a builder that appends to these bytes.
    pub fn new(out: &'o mut Vec<u8>, version: Version) -> ResponseBody<'o> {
        ResponseBody { out, version }
    }

    /// Appends SUPPORTED.
    pub fn supported(&mut self, options: &[(&str, &[&str])]) {
        put_short_count(self.out, options.len());
        for (name, values) in options {
            put_string(self.out, name);
            put_string_list(self.out, values.iter().copied());
        }
    }

    /// Appends AUTHENTICATE: the class determines the client's response.
    pub fn authenticate(&mut self, class: &str) {
        put_string(self.out, class);
    }

    /// Appends AUTH_SUCCESS without a token.
    pub fn auth_success(&mut self) {
        put_bytes(self.out, None);
    }

    /// Appends ERROR for a request that was refused before a statement ran.
    pub fn refused(&mut self, error: &WireError) {
        put_int(self.out, error.code as i32);
        put_string(self.out, &error.text);
    }

    /// Appends ERROR for a statement. Advice follows Cassandra's message, which clients look for.
    pub fn error(&mut self, error: &Error) {
        let code = error.code();
        // Version 3 has no codes for failures of functions and reads.
        let known = match code {
            0x1400 if self.version < Version::V4 => 0x2200,
            0x1300 if self.version < Version::V4 => 0x0000,
            code => code,
        };
        put_int(self.out, i32::from(known));
        match error.help() {
            Some(help) => put_string(self.out, &format!("{}; {help}", error.text())),
            None => put_string(self.out, &error.text()),
        }
        if let Error::AlreadyExists { keyspace, table } = error {
            put_string(self.out, keyspace);
            put_string(self.out, table.as_deref().unwrap_or_default());
        } else if known == 0x1300 {
            // Consistency ONE; no replica of one has answered.
            self.out.extend_from_slice(&1u16.to_be_bytes());
            put_int(self.out, 0);
            put_int(self.out, 1);
            put_int(self.out, 1);
            if self.version >= Version::V5 {
                // The replica, with the code of too many tombstones.
                self.out.extend_from_slice(&[4, 127, 0, 0, 1]);
                self.out.extend_from_slice(&1u16.to_be_bytes());
            }
            self.out.push(0);
        } else if known == 0x1400 {
            let (keyspace, name, arguments) = match error {
                Error::FunctionFailed { keyspace, name, arguments, .. } => {
                    (&**keyspace, &**name, &arguments[..])
                }
                _ => ("system", "", &[][..]),
            };
            put_string(self.out, keyspace);
            put_string(self.out, name);
            put_string_list(self.out, arguments.iter().map(String::as_str));
        }
    }

    /// Appends ERROR for an unknown prepared statement.
    pub fn unprepared(&mut self, id: &[u8]) {
        put_int(self.out, 0x2500);
        let text = "(either the query was not prepared on this host (maybe the host has been restarted?) or you have prepared \
                    too many queries and it has been evicted from the internal cache)";
        put_string(self.out, &format!("Prepared query with ID {} not found {text}", hex(id)));
        put_short_bytes(self.out, id);
    }

    /// Appends RESULT of type void.
    pub fn void(&mut self) {
        put_int(self.out, 0x0001);
    }

    /// Appends RESULT of type set_keyspace.
    pub fn set_keyspace(&mut self, keyspace: &str) {
        put_int(self.out, 0x0003);
        put_string(self.out, keyspace);
    }

    fn change(&mut self, change: &SchemaChange) {
        let is_function = matches!(change.target, "FUNCTION" | "AGGREGATE");
        // Version 3 does not know functions: report a change of their keyspace.
        if is_function && self.version < Version::V4 {
            put_string(self.out, "UPDATED");
            put_string(self.out, "KEYSPACE");
            put_string(self.out, &change.keyspace);
            return;
        }
        put_string(self.out, change.change);
        put_string(self.out, change.target);
        put_string(self.out, &change.keyspace);
        if let Some(name) = &change.name {
            put_string(self.out, name);
        }
        if is_function {
            put_string_list(self.out, change.arguments.iter().map(String::as_str));
        }
    }

    /// Appends RESULT of type schema_change.
    pub fn schema_change(&mut self, change: &SchemaChange) {
        put_int(self.out, 0x0005);
        self.change(change);
    }

    /// Appends EVENT of a schema change.
    pub fn schema_event(&mut self, change: &SchemaChange) {
        put_string(self.out, "SCHEMA_CHANGE");
        self.change(change);
    }

    /// Appends EVENT of a node that came up or went down.
    pub fn status_event(&mut self, what: &str, node: SocketAddr) {
        put_string(self.out, "STATUS_CHANGE");
        put_string(self.out, what);
        put_inet(self.out, node.ip(), node.port());
    }

    fn rows_metadata(&mut self, columns: &[ColumnSpec], paging: Option<&[u8]>, how: RowsFlags) {
        let global = is_of_one_table(columns);
        let skip = how.skip_metadata && how.new_metadata_id.is_none();
        let mut flags = if skip { NO_METADATA } else { 0 };
        if global && !skip {
            flags |= GLOBAL_TABLE;
        }
        if paging.is_some() {
            flags |= HAS_MORE;
        }
        if how.new_metadata_id.is_some() {
            flags |= METADATA_CHANGED;
        }
        put_int(self.out, flags);
        put_count(self.out, columns.len());
        if paging.is_some() {
            put_bytes(self.out, paging);
        }
        if let Some(id) = &how.new_metadata_id {
            put_short_bytes(self.out, id);
        }
        if !skip {
            put_columns(self.out, columns, self.version, global);
        }
    }

    /// Appends RESULT of type rows.
    pub fn rows(&mut self, rows: &Rows, how: RowsFlags) {
        put_int(self.out, 0x0002);
        let columns = rows.columns();
        self.rows_metadata(columns, rows.paging().map(|p| &*p.0), how);
        put_count(self.out, rows.len());
        for row in rows.iter() {
            for column in 0..columns.len() {
                put_bytes(self.out, row.bytes(column));
            }
        }
    }

    /// Appends RESULT of type prepared.
    pub fn prepared(&mut self, prepared: &Prepared) {
        put_int(self.out, 0x0004);
        put_short_bytes(self.out, &prepared.id());
        let columns = prepared.columns().map_or(&[][..], |c| &**c);
        if self.version == Version::V5 {
            put_short_bytes(self.out, &metadata_id(columns));
        }
        let markers = prepared.markers();
        let global = is_of_one_table(markers);
        put_int(self.out, if global { GLOBAL_TABLE } else { 0 });
        put_count(self.out, markers.len());
        if self.version >= Version::V4 {
            let key = prepared.partition_key();
            put_count(self.out, key.len());
            key.iter().for_each(|at| put_short(self.out, *at));
        }
        put_columns(self.out, markers, self.version, global);
        let none = RowsFlags { skip_metadata: columns.is_empty(), new_metadata_id: None };
        self.rows_metadata(columns, None, none);
    }
}

//! Response parser for clients (section 4.2).
//!
//! Invariant: parsed data is bounded by the length of the body, or by the bounds below.

use std::sync::Arc;

use firn_cql::internals::catalog::ColumnType;
use firn_cql::{ColumnSpec, PagingState, Rows, SchemaChange};

use super::error::WireError;
use super::frame::{FrameHeader, Opcode, Version};
use super::read::WireReader;
use super::response::{GLOBAL_TABLE, HAS_MORE, METADATA_CHANGED, NO_METADATA};
use super::types::TypeReader;

type Result<T> = std::result::Result<T, WireError>;

/// Maximum columns of a result, and markers of a statement.
const MAX_COLUMNS: usize = 65_535;
/// Maximum types of all columns, including nested ones.
const MAX_TYPES: usize = 1 << 18;
/// Maximum bytes of a table's and its keyspace's name.
const MAX_NAMES: usize = 1 << 10;

/// A prepared statement as described by the server.
#[derive(Clone, Debug)]
pub struct WirePrepared {
    /// Id of the statement.
    pub id: Vec<u8>,
    /// Id of the result metadata; version 5.
    pub metadata_id: Option<Vec<u8>>,
    /// The types of its bind markers.
    pub markers: Arc<[ColumnSpec]>,
    /// Columns of its result; none if the server knows them only after execution.
    pub columns: Arc<[ColumnSpec]>,
}

/// A response.
#[derive(Clone, Debug)]
pub enum WireResponse {
    /// An error: code and message.
    Error(i32, String),
    /// STARTUP or login has succeeded.
    Ready,
    /// The server requires a login with this authenticator class.
    Authenticate(String),
    /// The login continues.
    AuthChallenge,
    /// The login has succeeded.
    AuthSuccess,
    /// Options of the server.
    Supported(Vec<(String, Vec<String>)>),
    /// The result of a statement.
    Rows(Rows),
    /// The result of PREPARE.
    Prepared(WirePrepared),
    /// An event that a client has registered for.
    Event,
}

/// A response with its trace id.
#[derive(Clone, Debug)]
pub struct WireReply {
    /// Session id of the trace, if requested.
    pub trace: Option<[u8; 16]>,
    /// The response.
    pub answer: WireResponse,
}

impl WireReply {
    /// Parses the response with this header and this uncompressed body.
    ///
    /// # Errors
    /// A malformed body.
    pub fn read(header: &FrameHeader, body: &[u8]) -> Result<WireReply> {
        let (version, opcode) = header.response()?;
        let mut reader = WireReader::new(body);
        let reader = &mut reader;
        let trace = if header.is_traced() { Some(reader.uuid()?) } else { None };
        let mut warnings = vec![];
        if header.has_warnings() {
            warnings.extend(reader.string_list()?.into_iter().map(str::to_owned));
        }
        if header.has_payload() {
            for _ in 0..reader.short()? {
                reader.string()?;
                reader.bytes()?;
            }
        }
        let answer = match opcode {
            Opcode::Error => WireResponse::Error(reader.int()?, reader.string()?.to_owned()),
            Opcode::Ready => WireResponse::Ready,
            Opcode::Authenticate => WireResponse::Authenticate(reader.string()?.to_owned()),
            Opcode::AuthChallenge => WireResponse::AuthChallenge,
            Opcode::AuthSuccess => WireResponse::AuthSuccess,
            Opcode::Event => WireResponse::Event,
            Opcode::Supported => {
                let count = reader.short()?;
                let option = |_| {
                    let name = reader.string()?.to_owned();
                    let values = reader.string_list()?.into_iter().map(str::to_owned);
                    Ok((name, values.collect()))
                };
                WireResponse::Supported((0..count).map(option).collect::<Result<_>>()?)
            }
            _ => result(reader, version, warnings)?,
        };
        Ok(WireReply { trace, answer })
    }
}

fn result(
    reader: &mut WireReader<'_>,
    version: Version,
    warnings: Vec<String>,
) -> Result<WireResponse> {
    let rows = match reader.int()? {
        0x0001 => Rows::void(),
        0x0002 => rows(reader)?,
        0x0003 => Rows::set_keyspace(reader.string()?),
        0x0004 => return prepared(reader, version).map(WireResponse::Prepared),
        0x0005 => Rows::schema(schema_change(reader)?),
        other => return Err(WireError::protocol(format!("No result is of the kind {other}"))),
    };
    Ok(WireResponse::Rows(rows.with_warnings(warnings)))
}

fn schema_change(reader: &mut WireReader<'_>) -> Result<SchemaChange> {
    fn known(words: &[&'static str], word: &str) -> Result<&'static str> {
        let found = words.iter().find(|w| **w == word).copied();
        found.ok_or_else(|| WireError::protocol(format!("No change of definitions is {word:?}")))
    }
    let change = known(&["CREATED", "UPDATED", "DROPPED"], reader.string()?)?;
    let targets = ["KEYSPACE", "TABLE", "TYPE", "FUNCTION", "AGGREGATE"];
    let target = known(&targets, reader.string()?)?;
    let keyspace = reader.string()?.to_owned();
    let name = if target == "KEYSPACE" { None } else { Some(reader.string()?.to_owned()) };
    let arguments = match target {
        "FUNCTION" | "AGGREGATE" => reader.string_list()?.into_iter().map(str::to_owned).collect(),
        _ => vec![],
    };
    let mut change = SchemaChange::new(change, target, &keyspace, name.as_deref());
    change.arguments = arguments;
    Ok(change)
}

/// Reads a count of at most `most`.
fn count(reader: &mut WireReader<'_>, most: usize, what: &str) -> Result<usize> {
    let count = reader.int()?;
    let good = usize::try_from(count).ok().filter(|n| *n <= most);
    good.ok_or_else(|| WireError::protocol(format!("There are {count} {what}: at most {most} are")))
}

fn names(reader: &mut WireReader<'_>) -> Result<(String, String)> {
    let (keyspace, table) = (reader.string()?, reader.string()?);
    if keyspace.len() + table.len() > MAX_NAMES {
        return Err(WireError::protocol("The name of a table is too long"));
    }
    Ok((keyspace.to_owned(), table.to_owned()))
}

fn columns(
    reader: &mut WireReader<'_>,
    count: usize,
    is_of_one_table: bool,
) -> Result<Arc<[ColumnSpec]>> {
    let shared = if is_of_one_table { Some(names(reader)?) } else { None };
    let mut types = TypeReader::new(MAX_TYPES);
    let mut columns = vec![];
    for _ in 0..count {
        let (keyspace, table) = match &shared {
            Some(shared) => shared.clone(),
            None => names(reader)?,
        };
        let name = reader.string()?.to_owned();
        let of = ColumnType::frozen(types.read(reader)?);
        columns.push(ColumnSpec::from_parts(keyspace, table, name, of));
    }
    Ok(columns.into())
}

/// Metadata of rows; `None` if it has no columns.
struct RowsMetadata {
    columns: Option<Arc<[ColumnSpec]>>,
    paging: Option<PagingState>,
    count: usize,
}

fn metadata(reader: &mut WireReader<'_>) -> Result<RowsMetadata> {
    let flags = reader.int()?;
    let count = count(reader, MAX_COLUMNS, "columns")?;
    let paging = if flags & HAS_MORE != 0 { reader.bytes()? } else { None };
    if flags & METADATA_CHANGED != 0 {
        reader.short_bytes()?;
    }
    let columns = match flags & NO_METADATA {
        0 => Some(columns(reader, count, flags & GLOBAL_TABLE != 0)?),
        _ => None,
    };
    Ok(RowsMetadata { columns, paging: paging.map(|p| PagingState(p.to_vec())), count })
}

fn rows(reader: &mut WireReader<'_>) -> Result<Rows> {
    let RowsMetadata { columns, paging, count: width } = metadata(reader)?;
    let columns = columns.ok_or_else(|| WireError::protocol("Rows came without their columns"))?;
    let rows = count(reader, i32::MAX as usize, "rows")?;
    let mut cells = vec![];
    if width > 0 {
        for _ in 0..rows {
            for _ in 0..width {
                cells.push(reader.bytes()?);
            }
        }
    }
    Ok(Rows::from_cells(columns, cells).with_paging(paging))
}

fn prepared(reader: &mut WireReader<'_>, version: Version) -> Result<WirePrepared> {
    let id = reader.short_bytes()?.to_vec();
    let metadata_id =
        if version == Version::V5 { Some(reader.short_bytes()?.to_vec()) } else { None };
    let flags = reader.int()?;
    let markers = count(reader, MAX_COLUMNS, "bind markers")?;
    if version >= Version::V4 {
        for _ in 0..count(reader, MAX_COLUMNS, "columns of a partition key")? {
            reader.short()?;
        }
    }
    let markers = columns(reader, markers, flags & GLOBAL_TABLE != 0)?;
    let columns = metadata(reader)?.columns.unwrap_or_else(|| Arc::new([]));
    Ok(WirePrepared { id, metadata_id, markers, columns })
}

//! Requests: parsed by servers, written by clients (section 4.1).

use super::error::{ErrorCode, WireError};
use super::frame::{Opcode, Version};
use super::read::WireReader;
use super::write::{
    put_bytes, put_int, put_long_string, put_short, put_short_bytes, put_short_count, put_string,
    put_string_list,
};
use firn_cql::BatchKind;

type Result<T> = std::result::Result<T, WireError>;

/// Consistency level of a request. One node satisfies all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum WireConsistency {
    Any,
    One,
    Two,
    Three,
    Quorum,
    All,
    LocalQuorum,
    EachQuorum,
    Serial,
    LocalSerial,
    LocalOne,
}

impl WireConsistency {
    const ALL: [(WireConsistency, &'static str); 11] = [
        (WireConsistency::Any, "ANY"),
        (WireConsistency::One, "ONE"),
        (WireConsistency::Two, "TWO"),
        (WireConsistency::Three, "THREE"),
        (WireConsistency::Quorum, "QUORUM"),
        (WireConsistency::All, "ALL"),
        (WireConsistency::LocalQuorum, "LOCAL_QUORUM"),
        (WireConsistency::EachQuorum, "EACH_QUORUM"),
        (WireConsistency::Serial, "SERIAL"),
        (WireConsistency::LocalSerial, "LOCAL_SERIAL"),
        (WireConsistency::LocalOne, "LOCAL_ONE"),
    ];

    fn read(reader: &mut WireReader<'_>) -> Result<WireConsistency> {
        let code = reader.short()?;
        let unknown =
            || WireError::protocol(format!("Unknown code {code} for a consistency level"));
        WireConsistency::ALL.get(usize::from(code)).map(|c| c.0).ok_or_else(unknown)
    }

    /// Returns the level of this name, in any case.
    pub fn named(name: &str) -> Option<WireConsistency> {
        WireConsistency::ALL.iter().find(|(_, n)| n.eq_ignore_ascii_case(name)).map(|(c, _)| *c)
    }

    fn put(self, out: &mut Vec<u8>) {
        put_short(out, self as u16);
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        WireConsistency::ALL[self as usize].1
    }

    /// Reports whether it is a level for conditions.
    pub fn is_serial(self) -> bool {
        matches!(self, WireConsistency::Serial | WireConsistency::LocalSerial)
    }
}

/// A value of a bind marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireValue<'a> {
    /// The value.
    Bytes(&'a [u8]),
    /// No value.
    Null,
    /// Not set; from version 4 on.
    Unset,
}

impl<'a> WireValue<'a> {
    fn read(reader: &mut WireReader<'a>, version: Version) -> Result<WireValue<'a>> {
        let mut peek = *reader;
        match peek.int()? {
            -2 if version >= Version::V4 => {
                *reader = peek;
                Ok(WireValue::Unset)
            }
            len if len < -2 && version >= Version::V4 => {
                Err(WireError::protocol(format!("Invalid value length {len}")))
            }
            _ => Ok(reader.bytes()?.map_or(WireValue::Null, WireValue::Bytes)),
        }
    }

    fn put(self, out: &mut Vec<u8>) {
        match self {
            WireValue::Bytes(bytes) => put_bytes(out, Some(bytes)),
            WireValue::Null => put_bytes(out, None),
            WireValue::Unset => put_int(out, -2),
        }
    }
}

/// The parameters of QUERY and EXECUTE.
#[derive(Clone, Debug)]
pub struct QueryParameters<'a> {
    /// Consistency level.
    pub consistency: WireConsistency,
    /// Bound values, each with its name if the request names them.
    pub values: Vec<(Option<&'a str>, WireValue<'a>)>,
    /// Whether to omit the metadata because the client has cached it.
    pub skip_metadata: bool,
    /// Page size in rows.
    pub page_size: Option<i32>,
    /// Paging state of the previous page.
    pub paging_state: Option<&'a [u8]>,
    /// Consistency level of conditions.
    pub serial_consistency: Option<WireConsistency>,
    /// Timestamp in microseconds since 1970.
    pub timestamp: Option<i64>,
    /// Keyspace of the request; version 5.
    pub keyspace: Option<&'a str>,
    /// Current time for TTLs, in seconds since 1970; version 5.
    pub now_in_seconds: Option<u32>,
}

const VALUES: u32 = 0x01;
const SKIP_METADATA: u32 = 0x02;
const PAGE_SIZE: u32 = 0x04;
const PAGING_STATE: u32 = 0x08;
const SERIAL_CONSISTENCY: u32 = 0x10;
const TIMESTAMP: u32 = 0x20;
const NAMES: u32 = 0x40;
const KEYSPACE: u32 = 0x80;
const NOW_IN_SECONDS: u32 = 0x100;

fn flags(reader: &mut WireReader<'_>, version: Version) -> Result<u32> {
    Ok(match version {
        Version::V5 => reader.int()? as u32,
        _ => u32::from(reader.byte()?),
    })
}

fn put_flags(out: &mut Vec<u8>, version: Version, flags: u32) {
    match version {
        Version::V5 => put_int(out, flags as i32),
        _ => out.push(flags as u8),
    }
}

fn serial(reader: &mut WireReader<'_>) -> Result<WireConsistency> {
    let consistency = WireConsistency::read(reader)?;
    if !consistency.is_serial() {
        return Err(WireError::new(
            ErrorCode::Invalid,
            "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL",
        ));
    }
    Ok(consistency)
}

fn timestamp(reader: &mut WireReader<'_>) -> Result<i64> {
    match reader.long()? {
        i64::MIN => Err(WireError::protocol(format!(
            "Out of bound timestamp, must be in [{}, {}] (got {})",
            i64::MIN + 1,
            i64::MAX,
            i64::MIN
        ))),
        timestamp => Ok(timestamp),
    }
}

impl<'a> QueryParameters<'a> {
    fn read(reader: &mut WireReader<'a>, version: Version) -> Result<QueryParameters<'a>> {
        let consistency = WireConsistency::read(reader)?;
        let flags = flags(reader, version)?;
        QueryParameters::read_flagged(reader, version, consistency, flags)
    }

    /// Reads the parameters of a batch, which have no values and no paging.
    fn read_of_batch(reader: &mut WireReader<'a>, version: Version) -> Result<QueryParameters<'a>> {
        let consistency = WireConsistency::read(reader)?;
        let flags = flags(reader, version)?;
        if flags & NAMES != 0 {
            let text = "Named values are not supported in BATCH messages (CASSANDRA-10246)";
            return Err(WireError::protocol(text));
        }
        let flags = flags & (SERIAL_CONSISTENCY | TIMESTAMP | KEYSPACE | NOW_IN_SECONDS);
        QueryParameters::read_flagged(reader, version, consistency, flags)
    }

    fn read_flagged(
        reader: &mut WireReader<'a>,
        version: Version,
        consistency: WireConsistency,
        flags: u32,
    ) -> Result<QueryParameters<'a>> {
        let has = |flag: u32| flags & flag != 0;
        let mut values = vec![];
        if has(VALUES) {
            for _ in 0..reader.short()? {
                let name = if has(NAMES) { Some(reader.string()?) } else { None };
                values.push((name, WireValue::read(reader, version)?));
            }
        }
        let is_v5 = version == Version::V5;
        Ok(QueryParameters {
            consistency,
            values,
            skip_metadata: has(SKIP_METADATA),
            page_size: if has(PAGE_SIZE) { Some(reader.int()?) } else { None },
            paging_state: if has(PAGING_STATE) { reader.bytes()? } else { None },
            serial_consistency: if has(SERIAL_CONSISTENCY) { Some(serial(reader)?) } else { None },
            timestamp: if has(TIMESTAMP) { Some(timestamp(reader)?) } else { None },
            keyspace: if has(KEYSPACE) && is_v5 { Some(reader.string()?) } else { None },
            now_in_seconds: if has(NOW_IN_SECONDS) && is_v5 {
                Some(reader.int()? as u32)
            } else {
                None
            },
        })
    }
}

impl QueryParameters<'_> {
    /// Appends the parameters; omits those that the version does not have.
    fn put(&self, out: &mut Vec<u8>, version: Version) {
        let is_v5 = version == Version::V5;
        let (keyspace, now) =
            (self.keyspace.filter(|_| is_v5), self.now_in_seconds.filter(|_| is_v5));
        let named = self.values.iter().any(|(name, _)| name.is_some());
        let flags = [
            (VALUES, !self.values.is_empty()),
            (SKIP_METADATA, self.skip_metadata),
            (PAGE_SIZE, self.page_size.is_some()),
            (PAGING_STATE, self.paging_state.is_some()),
            (SERIAL_CONSISTENCY, self.serial_consistency.is_some()),
            (TIMESTAMP, self.timestamp.is_some()),
            (NAMES, named),
            (KEYSPACE, keyspace.is_some()),
            (NOW_IN_SECONDS, now.is_some()),
        ];
        let set = flags.iter().filter(|(_, is_set)| *is_set).fold(0, |all, (flag, _)| all | flag);
        self.consistency.put(out);
        put_flags(out, version, set);
        if !self.values.is_empty() {
            put_short_count(out, self.values.len());
        }
        for (name, value) in &self.values {
            if named {
                put_string(out, name.unwrap_or_default());
            }
            value.put(out);
        }
        self.page_size.iter().for_each(|n| put_int(out, *n));
        if self.paging_state.is_some() {
            put_bytes(out, self.paging_state);
        }
        self.serial_consistency.iter().for_each(|c| c.put(out));
        self.timestamp.iter().for_each(|t| out.extend_from_slice(&t.to_be_bytes()));
        keyspace.iter().for_each(|k| put_string(out, k));
        now.iter().for_each(|n| put_int(out, *n as i32));
    }
}

/// QUERY
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct QueryRequest<'a> {
    pub text: &'a str,
    pub parameters: QueryParameters<'a>,
}

/// PREPARE
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct PrepareRequest<'a> {
    pub text: &'a str,
    pub keyspace: Option<&'a str>,
}

/// EXECUTE
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct ExecuteRequest<'a> {
    pub id: &'a [u8],
    /// Id of the result metadata that the client has cached; version 5.
    pub metadata_id: Option<&'a [u8]>,
    pub parameters: QueryParameters<'a>,
}

/// A statement of a batch, as text or as the id of a prepared one.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct BatchMember<'a> {
    pub statement: std::result::Result<&'a str, &'a [u8]>,
    pub values: Vec<WireValue<'a>>,
}

/// BATCH
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct BatchRequest<'a> {
    pub kind: BatchKind,
    pub members: Vec<BatchMember<'a>>,
    /// Without values and paging.
    pub parameters: QueryParameters<'a>,
}

/// A request.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum WireRequest<'a> {
    Startup(Vec<(&'a str, &'a str)>),
    Options,
    Query(QueryRequest<'a>),
    Prepare(PrepareRequest<'a>),
    Execute(ExecuteRequest<'a>),
    Batch(BatchRequest<'a>),
    /// Event types.
    Register(Vec<&'a str>),
    /// The authentication token.
    AuthResponse(Option<&'a [u8]>),
}

impl<'a> WireRequest<'a> {
    /// Reports whether it is about statements and not about the connection.
    pub fn is_statement(&self) -> bool {
        use WireRequest::{Batch, Execute, Prepare, Query};
        matches!(self, Query(_) | Prepare(_) | Execute(_) | Batch(_))
    }

    /// Reads the request with this opcode and body. `has_payload`: a custom payload precedes it,
    /// which the server ignores.
    ///
    /// # Errors
    /// A malformed body.
    pub fn read(
        opcode: Opcode,
        version: Version,
        has_payload: bool,
        body: &'a [u8],
    ) -> Result<WireRequest<'a>> {
        let mut reader = WireReader::new(body);
        let reader = &mut reader;
        if has_payload {
            for _ in 0..reader.short()? {
                reader.string()?;
                reader.bytes()?;
            }
        }
        Ok(match opcode {
            Opcode::Startup => WireRequest::Startup(reader.string_map()?),
            Opcode::Options => WireRequest::Options,
            Opcode::Register => WireRequest::Register(reader.string_list()?),
            Opcode::AuthResponse => WireRequest::AuthResponse(reader.bytes()?),
            Opcode::Query => {
                let text = reader.long_string()?;
                let parameters = QueryParameters::read(reader, version)?;
                WireRequest::Query(QueryRequest { text, parameters })
            }
            Opcode::Prepare => {
                let text = reader.long_string()?;
                let has_keyspace = version == Version::V5 && reader.int()? & 0x01 != 0;
                let keyspace = if has_keyspace { Some(reader.string()?) } else { None };
                WireRequest::Prepare(PrepareRequest { text, keyspace })
            }
            Opcode::Execute => {
                let id = reader.short_bytes()?;
                let metadata_id =
                    if version == Version::V5 { Some(reader.short_bytes()?) } else { None };
                let parameters = QueryParameters::read(reader, version)?;
                WireRequest::Execute(ExecuteRequest { id, metadata_id, parameters })
            }
            Opcode::Batch => WireRequest::Batch(batch(reader, version)?),
            _ => return Err(WireError::protocol(format!("Unknown opcode {}", opcode as u8))),
        })
    }
}

impl WireRequest<'_> {
    /// Returns the opcode.
    pub fn opcode(&self) -> Opcode {
        match self {
            WireRequest::Startup(_) => Opcode::Startup,
            WireRequest::Options => Opcode::Options,
            WireRequest::Query(_) => Opcode::Query,
            WireRequest::Prepare(_) => Opcode::Prepare,
            WireRequest::Execute(_) => Opcode::Execute,
            WireRequest::Batch(_) => Opcode::Batch,
            WireRequest::Register(_) => Opcode::Register,
            WireRequest::AuthResponse(_) => Opcode::AuthResponse,
        }
    }

    /// Appends the body; omits fields that the version does not have.
    pub fn put(&self, out: &mut Vec<u8>, version: Version) {
        let is_v5 = version == Version::V5;
        match self {
            WireRequest::Options => {}
            WireRequest::Startup(options) => {
                put_short_count(out, options.len());
                for (name, value) in options {
                    put_string(out, name);
                    put_string(out, value);
                }
            }
            WireRequest::Register(kinds) => put_string_list(out, kinds.iter().copied()),
            WireRequest::AuthResponse(token) => put_bytes(out, *token),
            WireRequest::Query(query) => {
                put_long_string(out, query.text);
                query.parameters.put(out, version);
            }
            WireRequest::Prepare(prepare) => {
                put_long_string(out, prepare.text);
                let keyspace = prepare.keyspace.filter(|_| is_v5);
                if is_v5 {
                    put_int(out, keyspace.is_some().into());
                }
                keyspace.iter().for_each(|k| put_string(out, k));
            }
            WireRequest::Execute(execute) => {
                put_short_bytes(out, execute.id);
                if is_v5 {
                    put_short_bytes(out, execute.metadata_id.unwrap_or_default());
                }
                execute.parameters.put(out, version);
            }
            WireRequest::Batch(batch) => batch.put(out, version),
        }
    }
}

impl BatchRequest<'_> {
    fn put(&self, out: &mut Vec<u8>, version: Version) {
        out.push(match self.kind {
            BatchKind::Logged => 0,
            BatchKind::Unlogged => 1,
            BatchKind::Counter => 2,
        });
        put_short_count(out, self.members.len());
        for member in &self.members {
            match member.statement {
                Ok(text) => {
                    out.push(0);
                    put_long_string(out, text);
                }
                Err(id) => {
                    out.push(1);
                    put_short_bytes(out, id);
                }
            }
            put_short_count(out, member.values.len());
            member.values.iter().for_each(|value| value.put(out));
        }
        self.parameters.put(out, version);
    }
}

fn batch<'a>(reader: &mut WireReader<'a>, version: Version) -> Result<BatchRequest<'a>> {
    let kind = match reader.byte()? {
        0 => BatchKind::Logged,
        1 => BatchKind::Unlogged,
        2 => BatchKind::Counter,
        other => return Err(WireError::protocol(format!("Invalid BATCH message type {other}"))),
    };
    let mut members = vec![];
    for _ in 0..reader.short()? {
        let statement = match reader.byte()? {
            0 => Ok(reader.long_string()?),
            1 => Err(reader.short_bytes()?),
            other => {
                let text = "Invalid query kind in BATCH messages. Must be 0 or 1 but got";
                return Err(WireError::protocol(format!("{text} {other}")));
            }
        };
        let values = (0..reader.short()?)
            .map(|_| WireValue::read(reader, version))
            .collect::<Result<_>>()?;
        members.push(BatchMember { statement, values });
    }
    let parameters = QueryParameters::read_of_batch(reader, version)?;
    Ok(BatchRequest { kind, members, parameters })
}

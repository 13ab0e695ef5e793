//! Floor 0: encoding of CQL's native protocol, versions 3, 4 and 5, in both directions: frames and
//! segments, requests, responses. It has no connections and executes nothing.
//!
//! | file | content |
//! |---|---|
//! | `error` | errors of malformed bytes, and errors that a server sends |
//! | `read`, `write` | the notations of the specification: `[string]`, `[value]`, … |
//! | `frame` | an envelope: its header, and the prefix of a response's body |
//! | `stream` | splits the bytes of a connection into envelopes |
//! | `segment` | the outer frames of version 5, with their checksums |
//! | `compress` | LZ4 and Snappy |
//! | `request` | requests, read and written |
//! | `response`, `answer` | responses, written and read; `types`: the types of columns |
//!
//! Invariants: a claimed length allocates nothing before that many bytes have arrived. A parsed
//! request borrows from its bytes, a parsed response does not. A malformed request gives an error
//! with Cassandra's message, if Cassandra has one.
//!
//! Sources: the specifications `native_protocol_v3.spec` to `v5.spec` of Apache Cassandra; the
//! behaviour of real servers and drivers if the specifications are silent.

mod answer;
mod compress;
mod error;
mod frame;
mod read;
mod request;
mod response;
mod segment;
mod stream;
mod types;
mod write;

pub use answer::{WirePrepared, WireReply, WireResponse};
pub use compress::BodyCompression;
pub use error::{ErrorCode, WireError};
pub use frame::{
    Envelope, FRAME_HEADER, FrameHeader, Opcode, Version, is_known_version, put_request,
    unsupported_version,
};
pub use read::WireReader;
pub use request::{
    BatchMember, BatchRequest, ExecuteRequest, PrepareRequest, QueryParameters, QueryRequest,
    WireConsistency, WireRequest, WireValue,
};
pub use response::{ResponseBody, RowsFlags, metadata_id};
pub use segment::{MAX_PAYLOAD, SegmentParser, put_segments};
pub use stream::FrameStream;

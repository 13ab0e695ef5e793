//! Floor 0: the bytes of CQL's native protocol, versions 3, 4 and 5, in both directions: frames and
//! segments, requests, responses. It knows no connection and runs nothing.
//!
//! | file | what |
//! |---|---|
//! | `error` | why bytes are refused, and the errors that a server answers with |
//! | `read`, `write` | the notations of the specification: `[string]`, `[value]`, … |
//! | `frame` | an envelope: its header, what precedes a response's body |
//! | `stream` | the bytes of a connection cut into envelopes |
//! | `segment` | the outer frames of version 5, with their checksums |
//! | `compress` | LZ4 and Snappy |
//! | `request` | requests, read and written |
//! | `response`, `answer` | responses, written and read; `types`: the types of columns |
//!
//! Invariants: nothing is allocated by a length that bytes claim before that many are there; what is
//! read of a request borrows from it, what is read of a response does not; a request that can't be read is an error with the text of
//! Cassandra's, where it has one.
//!
//! Source: the specifications `native_protocol_v3.spec` to `v5.spec` of Apache Cassandra; what real
//! servers and drivers sent where those say nothing.

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

pub use answer::{WireAnswer, WirePrepared, WireReply};
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

//! Thrift messages: parsed without a panic. A parsed message has the reported length, and no prefix
//! of it is a message.
#![no_main]

use firn_server::internals::thrift::{ThriftCall, ThriftReply};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let length = ThriftCall::length(bytes);
    // A call is no reply.
    assert!(ThriftReply::read(bytes).is_err() || ThriftCall::read(bytes).is_err());
    if ThriftCall::read(bytes).is_ok() {
        assert_eq!(length, Ok(Some(bytes.len())));
    }
    let Ok(Some(length)) = length else { return };
    assert!(ThriftCall::read(&bytes[..length]).is_ok());
    for shorter in [length - 1, length / 2] {
        assert_eq!(ThriftCall::length(&bytes[..shorter]), Ok(None));
        assert!(ThriftCall::read(&bytes[..shorter]).is_err());
    }
});

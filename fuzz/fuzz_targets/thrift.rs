//! Thrift's messages: read without a panic; one that is read has the length that it is said to have,
//! and no part of it is one.
#![no_main]

use firn_server::internals::thrift::{ThriftCall, ThriftReply};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let length = ThriftCall::length(bytes);
    // What is a call is no answer.
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

//! The changes of a store as events: operations on trees, and changed rows of CQL tables.
//!
//! A [`ChangeDecoder`] converts each [`Change`](firn_kv::Change) of a subscription. A
//! [`ChangeEvent`] is printed as a line of JSON, or with the envelope of Debezium.

#![warn(missing_debug_implementations)]

mod decoder;
mod event;
mod rows;

pub use decoder::ChangeDecoder;
pub use event::{ChangeEvent, ChangeKind, ChangeSource, EventFormat};

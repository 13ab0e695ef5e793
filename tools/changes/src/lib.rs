//! The changes of a store as events: operations on trees, and changed rows of CQL tables.
//!
//! A [`ChangeDecoder`] converts each [`Change`](firn_kv::Change) of a subscription. A
//! [`ChangeEvent`] is printed as a line of JSON, or with the envelope of Debezium. A
//! [`ChangeServer`] sends them to consumers over HTTP, such as a [`ChangeClient`].

#![warn(missing_debug_implementations)]

mod client;
mod decoder;
mod event;
mod rows;
mod server;
mod stream;

pub use client::{ChangeClient, ChangeLines, ClientFailure};
pub use decoder::ChangeDecoder;
pub use event::{ChangeEvent, ChangeKind, ChangeSource, EventFormat};
pub use server::{CHANGE_DESCRIPTORS, ChangeServer, ChangeServerOptions};

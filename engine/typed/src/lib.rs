//! Typed trees for [`firn_kv`]: keys and values of Rust types instead of bytes.
//!
//! A [`TypedTree`] wraps a tree. Keys sort as their values do: numbers by size, tuples by their
//! parts. It costs no allocation beyond those of the engine for keys of up to 64 bytes.
//!
//! ```
//! use firn_kv::Db;
//! use firn_typed::TypedTree;
//! let db = Db::in_memory()?; // or Db::open("my-data")?
//! let readings: TypedTree<(String, i64), f64> = TypedTree::open(&db, "readings")?;
//! readings.put(&("roof", -60), &3.5)?;
//! readings.put(&("roof", 0), &4.25)?;
//! readings.put(&("roof", 60), &4.0)?;
//! assert_eq!(readings.get(&("roof", 0))?, Some(4.25));
//! // All of a sensor, and a part of them.
//! assert_eq!(readings.prefix(&("roof",)).count(), 3);
//! let (key, value) = readings.range(("roof", i64::MIN)..("roof", 60)).next_back().unwrap()?;
//! assert_eq!((key.1, value), (0, 4.25));
//! # Ok::<(), firn_typed::Error>(())
//! ```
//!
//! # Features
//!
//! No feature is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `derive` | `#[derive(Key)]` for structs and enums |
//! | `serde` | `Postcard<T>`: values of any type of `serde` |
//!
//! # Format
//!
//! The format is fixed. The byte order of encoded keys is the order of [`Ord`]; for floats it is the
//! order of `total_cmp`.
//!
//! | type | bytes |
//! |---|---|
//! | `u8` to `u128` | 1 to 16 bytes, big-endian |
//! | `i8` to `i128` | the same, with the first bit inverted |
//! | `bool` | 00 or 01 |
//! | `char` | its number as a `u32` |
//! | `f32`, `f64` | the bits of IEEE 754, big-endian: all inverted if the first is 1, else the first inverted |
//! | `[u8; N]` | its bytes |
//! | `String`, `Vec<u8>` as a whole key | the bytes, in UTF-8 |
//! | `String`, `Vec<u8>` as a part of a key | the bytes, each 00 as 00 FF, and then 00 00 |
//! | `Option` | 00 for `None`; 01 and the value as a part |
//! | tuple, struct | the parts one after the other |
//! | enum | one byte with the number of the variant, and its fields as parts |
//! | `()`, only as a value | none |
//!
//! "A part" means any place inside a tuple, an `Option`, a struct or an enum, the last one too. So
//! tuples nest, and a prefix of the parts is a prefix of the bytes.
//!
//! A value of these types has the bytes of a whole key. Strings and bytes are stored unchanged, so a
//! `TypedTree<String, String>` opens a tree that another program wrote with plain texts.
//!
//! `usize` and `isize` are no keys, because their length differs between systems.

#![warn(missing_debug_implementations)]

mod bounds;
mod buffer;
mod encoding;
mod error;
mod key;
#[cfg(feature = "serde")]
mod postcard;
mod read;
mod reader;
mod tree;
mod value;
mod write;

pub use bounds::{EncodedBounds, Prefix, TypedBounds};
pub use buffer::Buffer;
pub use error::{EncodeError, EntryPart, Error, Result};
pub use key::{AsKey, Key, KeyPrefix};
pub use read::{TypedKeys, TypedRange, TypedReader, TypedViews};
pub use reader::{DecodeError, KeyReader};
pub use tree::{TypedTree, TypedUpdated};
pub use value::{AsValue, Value};
pub use write::TypedWriter;

#[cfg(feature = "serde")]
pub use postcard::Postcard;

/// Derives [`trait@Key`] for a struct or an enum without type parameters; see
/// [`firn_typed_derive`].
#[cfg(feature = "derive")]
pub use firn_typed_derive::Key;

/// Runs the examples of the pages as tests.
#[cfg(all(doctest, feature = "derive", feature = "serde"))]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../docs/typed.md")]
struct TypedPages;

//! Text formats of the data model of `firn-wide`, for tools, shells and data migration:
//! cassandra-cli's language, column families as JSON, `storage-conf.xml`. An application that
//! embeds the model needs none of it.
//!
//! Creates a database from a configuration of 2009, fills it with cassandra-cli statements, and
//! exports it as JSON:
//!
//! ```
//! use firn_kv::OsEnv;
//! use firn_wide::{Options, Wide};
//! use firn_wide_text::cli::{CliSession, CliSource};
//! use firn_wide_text::json::{Notation, export};
//! use firn_wide_text::storage_conf::StorageConf;
//! # let dir = std::env::temp_dir().join(format!("firn-doc-wide-text-{}", std::process::id()));
//!
//! let conf = "<Storage><Keyspaces><Keyspace Name='BloggyAppy'>
//!     <ColumnFamily CompareWith='UTF8Type' Name='Authors'/>
//! </Keyspace></Keyspaces></Storage>";
//! let options = Options::default();
//! let conf = StorageConf::parse(conf, &options.registry)?;
//! let wide = Wide::open_with(&dir, conf.settings.options(options))?;
//! for keyspace in &conf.keyspaces {
//!     wide.system_add_keyspace(keyspace)?;
//! }
//!
//! let mut session = CliSession::new(wide.clone(), OsEnv::new(), false);
//! for statement in ["use BloggyAppy;", "set Authors[utf8('Arin')][twitter] = utf8('phatduckk');"] {
//!     assert_eq!(session.run(&CliSource::new(statement)).failure, None);
//! }
//!
//! let mut json = vec![];
//! export(&wide, "BloggyAppy", &[], Notation::Short, &mut json)?;
//! assert_eq!(String::from_utf8(json)?.split_whitespace().collect::<String>(), r#"{"Authors":{"Arin":{"twitter":"phatduckk"}}}"#);
//! # std::fs::remove_dir_all(dir).ok();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Floors
//! A module imports only lower floors: `text` (0), conversion between bytes of a type and text, <
//! [`storage_conf`], [`files`] (1) < [`json`], [`cli`] (2) < [`demo`] (3), with whole
//! applications: the article's blog, and a music site with likes.

#![warn(missing_debug_implementations)]

pub mod cli;
pub mod demo;
pub mod files;
pub mod json;
pub mod storage_conf;
mod text;

/// Runs the example of the page as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct WideTextReadme;

#[cfg(test)]
extern crate self as firn_wide_text;
#[cfg(test)]
#[path = "../tests/main.rs"]
mod integration;

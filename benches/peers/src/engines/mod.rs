//! One driver per engine, all opened under the same conditions.
//!
//! Those are: a memtable of [`Settings::memtable`] bytes, a block cache of [`Settings::cache`]
//! bytes, LZ4 on all levels, a 10-bit bloom filter or its equal, [`Settings::background`]
//! background threads, a write-ahead log that each put has been handed to the operating system
//! through when it returns, and no sync unless asked for. Everything else is as the engine's
//! authors ship it.

pub mod firn;
mod fjall;
mod lmdb;
pub mod rocksdb;

use firn_workload::{Result, Store};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// What all engines are given.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Bytes of a memtable.
    pub memtable: usize,
    /// Bytes of the block cache.
    pub cache: usize,
    /// Background threads.
    pub background: usize,
    /// Whether blocks are compressed with LZ4.
    pub lz4: bool,
}

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// This project's.
    Firn,
    /// RocksDB.
    Rocksdb,
    /// fjall.
    Fjall,
    /// LMDB. A B-tree in a shared map: no memtable, no block cache of its own, no compression, no
    /// compaction.
    Lmdb,
}

impl Engine {
    const ALL: &[(Engine, &'static str)] = &[
        (Engine::Firn, "firn"),
        (Engine::Rocksdb, "rocksdb"),
        (Engine::Fjall, "fjall"),
        (Engine::Lmdb, "lmdb"),
    ];

    /// The engine that the others are compared with, if it is among those measured.
    pub fn is_ours(self) -> bool {
        self == Engine::Firn
    }

    /// Opens a new store of this engine in the empty folder `dir` and takes `visitor` to it.
    pub fn visit<V: Visitor>(self, dir: &Path, settings: &Settings, visitor: V) -> Result<V::Out> {
        match self {
            Engine::Firn => visitor.visit(&firn::open(dir, settings)?),
            Engine::Rocksdb => visitor.visit(&rocksdb::open(dir, settings)?),
            Engine::Fjall => visitor.visit(&fjall::open(dir, settings)?),
            Engine::Lmdb => {
                let env = lmdb::open(dir)?;
                visitor.visit(&lmdb::LmdbStore::new(&env, dir)?)
            }
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Engine::ALL.iter().find(|(e, _)| e == self).map_or(Err(fmt::Error), |(_, name)| f.pad(name))
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        Engine::ALL.iter().find(|(_, name)| *name == text).map(|(e, _)| *e).ok_or_else(|| {
            let names: Vec<&str> = Engine::ALL.iter().map(|(_, name)| *name).collect();
            format!("no engine is called {text:?} here; there are {}", names.join(", "))
        })
    }
}

/// Something to be done with a store, compiled for each engine.
pub trait Visitor {
    /// What comes of it.
    type Out;
    /// Does it.
    fn visit<S: Store>(self, store: &S) -> Result<Self::Out>;
}

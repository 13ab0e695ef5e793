//! One driver per engine, all opened under the same conditions.
//!
//! The conditions, as far as an engine supports them: a memtable of [`Settings::memtable`] bytes, a
//! block cache of [`Settings::cache`] bytes, LZ4 on all levels, a 10-bit Bloom filter or an
//! equivalent, and [`Settings::background`] background threads. Each put is passed to the operating
//! system through a write-ahead log before it returns, without a sync unless requested. All other
//! options have the engine's defaults. [`Engine::terms`] returns the resulting conditions of each
//! engine.

mod bftree;
pub mod firn;
mod fjall;
#[cfg(feature = "leveldb")]
mod leveldb;
mod lmdb;
#[cfg(feature = "pebble")]
mod pebble;
mod redb;
pub mod rocksdb;
mod sled;
#[cfg(feature = "tidesdb")]
mod tidesdb;

use firn_workload::{Error, Result, Store};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

#[cfg(feature = "tidesdb")]
use ::tidesdb::SyncMode;

/// Settings of all engines.
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
    /// Size of the smallest value that is stored in a separate file, in engines that support it; 0
    /// for none.
    pub apart: usize,
}

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Firn.
    Firn,
    /// RocksDB.
    Rocksdb,
    /// fjall.
    Fjall,
    /// LMDB. A B-tree in a shared map: no memtable, no block cache of its own, no compression, no
    /// compaction.
    Lmdb,
    /// redb. A B-tree with one writer at a time: no memtable, no log, no compression.
    Redb,
    /// sled. A tree over a log that it compacts as it goes: no memtable, no LZ4.
    Sled,
    /// Bf-Tree, without a log. A B-tree over a buffer: no memtable, no compression, no compaction.
    Bftree,
    /// Bf-Tree with its log.
    #[serde(rename = "bftree-log")]
    BftreeLog,
    /// LevelDB.
    #[cfg(feature = "leveldb")]
    Leveldb,
    /// Pebble.
    #[cfg(feature = "pebble")]
    Pebble,
    /// TidesDB, which passes each put to the system.
    #[cfg(feature = "tidesdb")]
    Tidesdb,
    /// TidesDB with its default log mode, which leaves a put in the process.
    #[cfg(feature = "tidesdb")]
    #[serde(rename = "tidesdb-none")]
    TidesdbNone,
    /// TidesDB, which syncs each put.
    #[cfg(feature = "tidesdb")]
    #[serde(rename = "tidesdb-full")]
    TidesdbFull,
}

/// Conditions of an engine; `none` for unsupported ones.
#[derive(Clone, Debug, Serialize)]
pub struct Terms {
    /// The crate with its version.
    pub built: String,
    /// Memtable.
    pub memtable: String,
    /// Cache of blocks or pages.
    pub cache: String,
    /// Background threads.
    pub background: String,
    /// Compression of blocks.
    pub compression: String,
    /// Filter of a table.
    pub filter: String,
    /// Location of values.
    pub values: String,
    /// Location of a put that has returned without a sync.
    pub put: &'static str,
    /// The sync of a put.
    pub sync: &'static str,
    /// Effect of the step `compact`.
    pub compact: &'static str,
}

impl Terms {
    /// Returns the conditions with their names, in the order of a table.
    pub fn rows(&self) -> [(&'static str, &str); 10] {
        [
            ("crate", &self.built),
            ("memtable", &self.memtable),
            ("cache", &self.cache),
            ("background threads", &self.background),
            ("compression", &self.compression),
            ("filter", &self.filter),
            ("values", &self.values),
            ("a put that returned is", self.put),
            ("a synced put waits for", self.sync),
            ("compact does", self.compact),
        ]
    }
}

/// Iterates over at most `limit` entries of an engine's iterator and passes each to `f`. Returns
/// their number.
fn walk<K: AsRef<[u8]>, V: AsRef<[u8]>, E: Into<Error>>(
    entries: impl Iterator<Item = std::result::Result<(K, V), E>>,
    limit: u64,
    mut f: impl FnMut(&[u8], &[u8]),
) -> Result<u64> {
    let mut count = 0;
    for entry in entries.take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        let (key, value) = entry.map_err(Into::into)?;
        f(key.as_ref(), value.as_ref());
        count += 1;
    }
    Ok(count)
}

/// Returns a crate with its version from the lock file.
fn built(name: &str) -> Result<String> {
    let lines: Vec<&str> = include_str!("../../Cargo.lock").lines().collect();
    let of = lines.windows(2).find(|pair| pair[0] == format!("name = \"{name}\""));
    let quoted = of.and_then(|pair| pair[1].strip_prefix("version = "));
    let version = quoted.ok_or_else(|| format!("Cargo.lock has no {name}"))?;
    Ok(format!("{name} {}", version.trim_matches('"')))
}

fn mebibytes(bytes: usize) -> String {
    format!("{} MiB", bytes >> 20)
}

/// Returns the location of values of an engine with separate blob files.
fn values(settings: &Settings) -> String {
    match settings.apart {
        0 => "in the tables".to_owned(),
        least => format!("of {least} B and more in blob files"),
    }
}

fn lz4(settings: &Settings) -> String {
    if settings.lz4 { "LZ4" } else { "none" }.to_owned()
}

impl Engine {
    const ALL: &[(Engine, &'static str)] = &[
        (Engine::Firn, "firn"),
        (Engine::Rocksdb, "rocksdb"),
        (Engine::Fjall, "fjall"),
        (Engine::Lmdb, "lmdb"),
        (Engine::Redb, "redb"),
        (Engine::Sled, "sled"),
        (Engine::Bftree, "bftree"),
        (Engine::BftreeLog, "bftree-log"),
        #[cfg(feature = "leveldb")]
        (Engine::Leveldb, "leveldb"),
        #[cfg(feature = "pebble")]
        (Engine::Pebble, "pebble"),
        #[cfg(feature = "tidesdb")]
        (Engine::Tidesdb, "tidesdb"),
        #[cfg(feature = "tidesdb")]
        (Engine::TidesdbNone, "tidesdb-none"),
        #[cfg(feature = "tidesdb")]
        (Engine::TidesdbFull, "tidesdb-full"),
    ];

    /// Reports whether it is the engine that the others are compared with.
    pub fn is_ours(self) -> bool {
        self == Engine::Firn
    }

    /// Returns the mode of TidesDB's log.
    #[cfg(feature = "tidesdb")]
    fn log_mode(self) -> SyncMode {
        match self {
            Engine::TidesdbNone => SyncMode::None,
            Engine::TidesdbFull => SyncMode::Full,
            _ => SyncMode::Interval,
        }
    }

    /// Returns the engine's conditions for `settings`.
    ///
    /// # Errors
    /// The lock file of the build does not have the engine's crate.
    pub fn terms(self, settings: &Settings) -> Result<Terms> {
        match self {
            Engine::Firn => firn::terms(settings),
            Engine::Rocksdb => rocksdb::terms(settings),
            Engine::Fjall => fjall::terms(settings),
            Engine::Lmdb => lmdb::terms(),
            Engine::Redb => redb::terms(settings),
            Engine::Sled => sled::terms(settings),
            Engine::Bftree | Engine::BftreeLog => {
                bftree::terms(settings, self == Engine::BftreeLog)
            }
            #[cfg(feature = "leveldb")]
            Engine::Leveldb => Ok(leveldb::terms(settings)),
            #[cfg(feature = "pebble")]
            Engine::Pebble => pebble::terms(settings),
            #[cfg(feature = "tidesdb")]
            Engine::Tidesdb | Engine::TidesdbNone | Engine::TidesdbFull => {
                Ok(tidesdb::terms(settings, self.log_mode()))
            }
        }
    }

    /// Opens the store of this engine in `dir`, which may be empty, runs `visitor` on it and closes
    /// it.
    pub fn visit<V: Visitor>(self, dir: &Path, settings: &Settings, visitor: V) -> Result<V::Out> {
        match self {
            Engine::Firn => visitor.visit(&firn::open(dir, settings)?),
            Engine::Rocksdb => visitor.visit(&rocksdb::open(dir, settings)?),
            Engine::Fjall => visitor.visit(&fjall::open(dir, settings)?),
            Engine::Lmdb => {
                let env = lmdb::open(dir)?;
                visitor.visit(&lmdb::LmdbStore::new(&env, dir)?)
            }
            Engine::Redb => visitor.visit(&redb::open(dir, settings)?),
            Engine::Sled => visitor.visit(&sled::open(dir, settings)?),
            Engine::Bftree | Engine::BftreeLog => {
                visitor.visit(&bftree::open(dir, settings, self == Engine::BftreeLog)?)
            }
            #[cfg(feature = "leveldb")]
            Engine::Leveldb => visitor.visit(&leveldb::open(dir, settings)?),
            #[cfg(feature = "pebble")]
            Engine::Pebble => visitor.visit(&pebble::open(dir, settings)?),
            #[cfg(feature = "tidesdb")]
            Engine::Tidesdb | Engine::TidesdbNone | Engine::TidesdbFull => {
                let db = tidesdb::open(dir, settings, self.log_mode())?;
                visitor.visit(&tidesdb::TidesStore::new(&db, dir, self.log_mode())?)
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

/// An action on a store, compiled for each engine.
pub trait Visitor {
    /// Result of the action.
    type Out;
    /// Runs the action.
    fn visit<S: Store>(self, store: &S) -> Result<Self::Out>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_workload::{Direction, StoreBatch};

    /// Writes, or reads the data written before the store was closed.
    struct Asked {
        engine: Engine,
        writes: bool,
    }

    impl Asked {
        /// Reports whether the engine is Bf-Tree, which has no empty values, batches, synced puts
        /// and reverse scans.
        fn lacks_some(&self) -> bool {
            matches!(self.engine, Engine::Bftree | Engine::BftreeLog)
        }

        fn put_batch<S: Store>(&self, store: &S, batch: &StoreBatch) -> Result<()> {
            if self.lacks_some() {
                assert!(store.write_batch(batch).is_err());
                return batch.iter().try_for_each(|(key, value)| store.put(key, value, false));
            }
            store.write_batch(batch)
        }
    }

    impl Visitor for Asked {
        type Out = ();

        fn visit<S: Store>(self, store: &S) -> Result<()> {
            let empty: &[u8] = if self.lacks_some() { b"4" } else { b"" };
            if self.writes {
                let mut batch = StoreBatch::default();
                batch.push(b"b", b"2");
                batch.push(b"d", empty);
                self.put_batch(store, &batch)?;
                store.put(b"a", b"0", false)?;
                if self.lacks_some() {
                    assert!(store.put(b"a", b"1", true).is_err());
                    assert!(store.put(b"d", b"", false).is_err());
                }
                store.put(b"a", b"1", !self.lacks_some())?;
                store.put(b"c", b"3", false)?;
                store.delete(b"c")?;
                store.delete(b"nothing")?;
                store.flush()?;
                store.put(b"e", b"5", false)?;
                store.compact()?;
            }
            assert_eq!(store.get(b"a", <[u8]>::to_vec)?, Some(b"1".to_vec()));
            assert_eq!(store.get(b"d", <[u8]>::to_vec)?, Some(empty.to_vec()));
            assert_eq!(store.get(b"c", <[u8]>::len)?, None);
            let walk = |from: Option<&[u8]>, direction, limit| -> Result<String> {
                let mut seen = String::new();
                let count = store.scan(from, direction, limit, |key, value| {
                    seen.push_str(&String::from_utf8_lossy(&[key, value].concat()));
                })?;
                Ok(format!("{count} {seen}"))
            };
            let d = if self.lacks_some() { "d4" } else { "d" };
            assert_eq!(walk(None, Direction::Forward, u64::MAX)?, format!("4 a1b2{d}e5"));
            assert_eq!(walk(Some(b"c"), Direction::Forward, 1)?, format!("1 {d}"));
            assert_eq!(walk(Some(b"f"), Direction::Forward, 1)?, "0 ");
            if self.lacks_some() {
                assert!(walk(None, Direction::Reverse, 2).is_err());
            } else {
                assert_eq!(walk(None, Direction::Reverse, 2)?, "2 e5d");
                assert_eq!(walk(Some(b"c"), Direction::Reverse, 9)?, "2 b2a1");
                assert_eq!(walk(Some(b"d"), Direction::Reverse, 1)?, "1 d");
                assert_eq!(walk(Some(b"f"), Direction::Reverse, 1)?, "1 e5");
            }
            assert!(store.stats()?.disk_bytes.is_some_and(|bytes| bytes > 0));
            Ok(())
        }
    }

    #[test]
    fn all_engines_do_the_same_and_keep_it() {
        let settings =
            Settings { memtable: 8 << 20, cache: 8 << 20, background: 1, lz4: true, apart: 0 };
        for (engine, name) in Engine::ALL {
            let dir = std::env::temp_dir().join(format!("peers-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            for writes in [true, false] {
                let asked = Asked { engine: *engine, writes };
                engine.visit(&dir, &settings, asked).unwrap();
            }
            std::fs::remove_dir_all(&dir).unwrap();
        }
    }

    #[test]
    fn each_engine_has_its_terms() {
        let settings =
            Settings { memtable: 64 << 20, cache: 512 << 20, background: 2, lz4: false, apart: 0 };
        for (engine, name) in Engine::ALL {
            let terms = engine.terms(&settings).unwrap();
            assert!(terms.rows().iter().all(|(_, term)| !term.is_empty()), "{name}");
            assert!(terms.built.contains(" "), "{name}: {terms:?}");
            assert_eq!(name.parse(), Ok(*engine));
        }
    }
}

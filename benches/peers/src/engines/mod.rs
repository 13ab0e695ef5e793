//! One driver per engine, all opened under the same conditions.
//!
//! The conditions, as far as an engine supports them: a memtable of [`Settings::memtable`] bytes, a
//! block cache of [`Settings::cache`] bytes, LZ4 on all levels, a 10-bit Bloom filter or an
//! equivalent, and [`Settings::background`] background threads. Each put is passed to the operating
//! system through a write-ahead log before it returns, without a sync unless requested. All other
//! options have the engine's defaults. [`Engine::terms`] returns the resulting conditions of each
//! engine.

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

use firn_workload::{Error, Result, Store};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

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
    /// LevelDB.
    #[cfg(feature = "leveldb")]
    Leveldb,
    /// Pebble.
    #[cfg(feature = "pebble")]
    Pebble,
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
        #[cfg(feature = "leveldb")]
        (Engine::Leveldb, "leveldb"),
        #[cfg(feature = "pebble")]
        (Engine::Pebble, "pebble"),
    ];

    /// Reports whether it is the engine that the others are compared with.
    pub fn is_ours(self) -> bool {
        self == Engine::Firn
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
            #[cfg(feature = "leveldb")]
            Engine::Leveldb => Ok(leveldb::terms(settings)),
            #[cfg(feature = "pebble")]
            Engine::Pebble => pebble::terms(settings),
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
            #[cfg(feature = "leveldb")]
            Engine::Leveldb => visitor.visit(&leveldb::open(dir, settings)?),
            #[cfg(feature = "pebble")]
            Engine::Pebble => visitor.visit(&pebble::open(dir, settings)?),
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
        writes: bool,
    }

    impl Visitor for Asked {
        type Out = ();

        fn visit<S: Store>(self, store: &S) -> Result<()> {
            if self.writes {
                let mut batch = StoreBatch::default();
                batch.push(b"b", b"2");
                batch.push(b"d", b"");
                store.write_batch(&batch)?;
                store.put(b"a", b"0", false)?;
                store.put(b"a", b"1", true)?;
                store.put(b"c", b"3", false)?;
                store.delete(b"c")?;
                store.delete(b"nothing")?;
                store.flush()?;
                store.put(b"e", b"5", false)?;
                store.compact()?;
            }
            assert_eq!(store.get(b"a", <[u8]>::to_vec)?, Some(b"1".to_vec()));
            assert_eq!(store.get(b"d", <[u8]>::len)?, Some(0));
            assert_eq!(store.get(b"c", <[u8]>::len)?, None);
            let walk = |from: Option<&[u8]>, direction, limit| -> Result<String> {
                let mut seen = String::new();
                let count = store.scan(from, direction, limit, |key, value| {
                    seen.push_str(&String::from_utf8_lossy(&[key, value].concat()));
                })?;
                Ok(format!("{count} {seen}"))
            };
            assert_eq!(walk(None, Direction::Forward, u64::MAX)?, "4 a1b2de5");
            assert_eq!(walk(None, Direction::Reverse, 2)?, "2 e5d");
            assert_eq!(walk(Some(b"c"), Direction::Forward, 1)?, "1 d");
            assert_eq!(walk(Some(b"c"), Direction::Reverse, 9)?, "2 b2a1");
            assert_eq!(walk(Some(b"d"), Direction::Reverse, 1)?, "1 d");
            assert_eq!(walk(Some(b"f"), Direction::Reverse, 1)?, "1 e5");
            assert_eq!(walk(Some(b"f"), Direction::Forward, 1)?, "0 ");
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
                engine.visit(&dir, &settings, Asked { writes }).unwrap();
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

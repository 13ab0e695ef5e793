//! Directories of LevelDB: the newest version of every key, from tables and logs.
//!
//! Invariants:
//! - The directory is only read, and the store needs not be closed properly: its logs are replayed in
//!   memory, as LevelDB does when it opens it.
//! - Checksums of blocks and records are verified. A record that ends with the log was never
//!   complete and is ignored, as by LevelDB; other damage is an error.

mod bytes;
mod log;
mod table;
mod version;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use firn_tools::io;
use firn_tools::output::{Done, Failure};

use super::file::SourceFile;
use super::rows::{
    RowCounter, RowSource, RowVisitor, SourceColumn, SourceLength, damaged, pair_columns,
};
use bytes::ByteReader;
use table::TableEntries;
use version::{LevelDbVersion, TableFile, VersionedKey, versioned};

/// Name of the comparator that orders keys by their bytes.
const BYTEWISE: &str = "leveldb.BytewiseComparator";
/// Maximum bytes of the logs, which are read into memory.
const MAX_LOG_BYTES: u64 = 1 << 30;
/// Type of a stored value.
const PUT: u8 = 1;
/// Type of a deletion.
const DELETION: u8 = 0;

/// A LevelDB directory.
pub struct LevelDbSource {
    dir: PathBuf,
    version: LevelDbVersion,
    columns: Vec<SourceColumn>,
}

impl LevelDbSource {
    /// Opens a directory.
    ///
    /// # Errors
    /// It has no manifest, or one of another comparator; damage.
    pub fn open(dir: &Path) -> Done<LevelDbSource> {
        let version = LevelDbVersion::load(dir)?;
        if version.comparator != BYTEWISE {
            let what = format!("its keys have the order {:?}", version.comparator);
            return Err(Failure::with_next(
                format!("{}: {what}", dir.display()),
                "only stores whose keys are ordered by their bytes can be imported",
            ));
        }
        Ok(LevelDbSource { dir: dir.to_path_buf(), version, columns: pair_columns() })
    }

    /// Returns the path of a file, under the first of its names that exists.
    fn file(&self, number: u64, extensions: &[&str]) -> PathBuf {
        let path = |e: &&str| self.dir.join(format!("{number:06}.{e}"));
        let found = extensions.iter().map(path).find(|p| io::is_file(p));
        found.unwrap_or_else(|| path(&extensions[0]))
    }

    /// Returns the entries of the logs that no table has.
    fn logged(&self) -> Done<BTreeMap<VersionedKey, Vec<u8>>> {
        let names = io::list(&self.dir).map_err(|e| Failure::file("read", &self.dir, &e))?;
        let number = |name: &String| name.strip_suffix(".log")?.parse::<u64>().ok();
        let is_needed = |n: &u64| *n >= self.version.log || *n == self.version.previous_log;
        let mut numbers: Vec<u64> = names.iter().filter_map(number).filter(is_needed).collect();
        numbers.sort_unstable();
        let (mut all, mut total) = (BTreeMap::new(), 0);
        for number in numbers {
            let mut file = SourceFile::open(&self.file(number, &["log"]))?;
            total += file.len();
            if total > MAX_LOG_BYTES {
                return Err(Failure::with_next(
                    format!(
                        "{}: the logs have more than {MAX_LOG_BYTES} bytes",
                        self.dir.display()
                    ),
                    "open the store with its own program once, which writes them into tables",
                ));
            }
            log::records(&mut file, &mut |offset, record| {
                batch(record, &mut all).ok_or_else(|| format!("byte {offset}: a malformed batch"))
            })?;
        }
        Ok(all)
    }

    /// Returns sorted sequences of entries that together have the content.
    fn runs(&self) -> Done<Vec<Run>> {
        let mut runs = vec![Run::Logged(self.logged()?.into_iter())];
        for (level, files) in self.version.levels.iter().enumerate() {
            let mut files: Vec<&TableFile> = files.values().collect();
            files.sort_by(|a, b| a.smallest.cmp(&b.smallest));
            let paths = files.iter().map(|f| self.file(f.number, &["ldb", "sst"]));
            if level == 0 {
                // These overlap.
                runs.extend(paths.map(|path| Run::Tables(vec![path].into_iter(), None)));
            } else if !files.is_empty() {
                runs.push(Run::Tables(paths.collect::<Vec<_>>().into_iter(), None));
            }
        }
        Ok(runs)
    }
}

/// Adds the writes of a batch; `None` if it is malformed.
fn batch(record: &[u8], all: &mut BTreeMap<VersionedKey, Vec<u8>>) -> Option<()> {
    let mut bytes = ByteReader::new(record);
    let (first, count) = (bytes.fixed64()?, bytes.fixed32()?);
    for i in 0..u64::from(count) {
        let kind = bytes.byte()?;
        let key = bytes.slice()?.to_vec();
        let value = match kind {
            PUT => bytes.slice()?.to_vec(),
            DELETION => vec![],
            _ => return None,
        };
        let tag = first.checked_add(i)?.checked_mul(256)? | u64::from(kind);
        all.insert((key, std::cmp::Reverse(tag)), value);
    }
    bytes.is_empty().then_some(())
}

/// A sorted sequence of entries.
enum Run {
    Logged(std::collections::btree_map::IntoIter<VersionedKey, Vec<u8>>),
    /// Tables in the order of their keys, and the entries of the current one.
    Tables(std::vec::IntoIter<PathBuf>, Option<TableEntries>),
}

impl Run {
    fn advance(&mut self) -> Done<Option<(VersionedKey, Vec<u8>)>> {
        match self {
            Run::Logged(entries) => Ok(entries.next()),
            Run::Tables(paths, current) => loop {
                if let Some(entries) = current {
                    if let Some((key, value)) = entries.advance()? {
                        let key = versioned(&key);
                        let key = key.ok_or_else(|| damaged(entries.path(), "a malformed key"))?;
                        return Ok(Some((key, value)));
                    }
                    *current = None;
                }
                match paths.next() {
                    Some(path) => *current = Some(TableEntries::open(&path)?),
                    None => return Ok(None),
                }
            },
        }
    }
}

impl RowSource for LevelDbSource {
    fn columns(&self) -> &[SourceColumn] {
        &self.columns
    }

    fn length(&self) -> SourceLength {
        SourceLength::Rows(None)
    }

    fn read(&mut self, skip: u64, visitor: &mut dyn RowVisitor) -> Done {
        let mut counter = RowCounter::new(skip, visitor);
        let mut heads = vec![];
        for mut run in self.runs()? {
            if let Some(entry) = run.advance()? {
                heads.push((entry, run));
            }
        }
        let mut last: Option<Vec<u8>> = None;
        while let Some(at) = (0..heads.len()).min_by(|a, b| heads[*a].0.0.cmp(&heads[*b].0.0)) {
            let (entry, run) = &mut heads[at];
            let ((key, tag), value) = match run.advance()? {
                Some(next) => std::mem::replace(entry, next),
                None => heads.swap_remove(at).0,
            };
            // Further versions of a key are older.
            if last.as_ref() == Some(&key) {
                continue;
            }
            match tag.0 as u8 {
                PUT => {
                    if counter.pair(&key, &value)? == ControlFlow::Break(()) {
                        return Ok(());
                    }
                }
                DELETION => {}
                other => return Err(damaged(&self.dir, format!("an entry of type {other}"))),
            }
            last = Some(key);
        }
        Ok(())
    }
}

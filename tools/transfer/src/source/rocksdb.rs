//! RocksDB directories: the pairs of a column family, in the order of their keys.
//!
//! RocksDB opens the directory for reading only: it writes no file there but its own log of messages.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use firn_tools::output::{Done, Failure};
use rocksdb::{DB, IteratorMode, Options};

use super::rows::{
    RowCounter, RowSource, RowVisitor, SourceColumn, SourceLength, damaged, pair_columns,
};

/// Column family that every directory has.
const DEFAULT: &str = "default";

/// A column family of a RocksDB directory.
pub struct RocksDbSource {
    path: PathBuf,
    db: DB,
    family: String,
    columns: Vec<SourceColumn>,
}

impl RocksDbSource {
    /// Opens a directory.
    ///
    /// # Errors
    /// It is unreadable or damaged, or has no such column family.
    pub fn open(path: &Path, family: Option<&str>) -> Done<RocksDbSource> {
        let family = family.unwrap_or(DEFAULT).to_owned();
        let options = Options::default();
        let names = DB::list_cf(&options, path).map_err(|e| damaged(path, e))?;
        if !names.contains(&family) {
            return Err(Failure::with_next(
                format!("{} has no column family {family:?}", path.display()),
                format!("it has {}", names.join(", ")),
            ));
        }
        let db = DB::open_cf_for_read_only(&options, path, &names, false);
        let db = db.map_err(|e| damaged(path, e))?;
        Ok(RocksDbSource { path: path.to_path_buf(), db, family, columns: pair_columns() })
    }
}

impl RowSource for RocksDbSource {
    fn columns(&self) -> &[SourceColumn] {
        &self.columns
    }

    fn length(&self) -> SourceLength {
        SourceLength::Rows(None)
    }

    fn read(&mut self, skip: u64, visitor: &mut dyn RowVisitor) -> Done {
        let family = self.db.cf_handle(&self.family);
        let family = family.ok_or_else(|| damaged(&self.path, "its column family is gone"))?;
        let mut counter = RowCounter::new(skip, visitor);
        for pair in self.db.iterator_cf(&family, IteratorMode::Start) {
            let (key, value) = pair.map_err(|e| damaged(&self.path, e))?;
            if counter.pair(&key, &value)? == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}

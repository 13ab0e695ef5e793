//! Sources of rows: files, and stores of other engines.
//!
//! Invariant: a source returns the same rows in the same order as long as it does not change. So the
//! number of rows read is a position.

#[cfg(feature = "parquet")]
mod arrow_file;
mod file;
mod leveldb;
mod lmdb;
mod record_file;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod rows;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::path::Path;

use firn_tools::output::Done;

use crate::format::TransferFormat;
pub use rows::{
    RowPlace, RowSource, RowVisitor, SourceCell, SourceColumn, SourceLength, SourceOptions,
    VisitFlow,
};

/// Opens a source.
///
/// # Errors
/// It is unreadable or not of this format; the format is not in this build.
pub fn open(
    path: &Path,
    format: TransferFormat,
    options: &SourceOptions,
) -> Done<Box<dyn RowSource>> {
    Ok(match format {
        TransferFormat::Csv | TransferFormat::Tsv | TransferFormat::JsonLines => {
            record_file::open(path, format, options)?
        }
        TransferFormat::LevelDb => Box::new(leveldb::LevelDbSource::open(path)?),
        TransferFormat::Lmdb => Box::new(lmdb::LmdbSource::open(path, options.part.as_deref())?),
        #[cfg(feature = "parquet")]
        TransferFormat::Parquet => Box::new(arrow_file::ParquetSource::open(path, options.lossy)?),
        #[cfg(feature = "parquet")]
        TransferFormat::ArrowIpc => Box::new(arrow_file::IpcSource::open(path, options.lossy)?),
        #[cfg(not(feature = "parquet"))]
        TransferFormat::Parquet | TransferFormat::ArrowIpc => {
            return Err(crate::format::lacking(format, "transfer"));
        }
        #[cfg(feature = "sqlite")]
        TransferFormat::Sqlite => Box::new(sqlite::SqliteSource::open(path, options)?),
        #[cfg(not(feature = "sqlite"))]
        TransferFormat::Sqlite => return Err(crate::format::lacking(format, "transfer")),
        #[cfg(feature = "rocksdb")]
        TransferFormat::RocksDb => {
            Box::new(rocksdb::RocksDbSource::open(path, options.part.as_deref())?)
        }
        #[cfg(not(feature = "rocksdb"))]
        TransferFormat::RocksDb => return Err(crate::format::lacking(format, "rocksdb")),
    })
}

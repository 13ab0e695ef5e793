//! Formats of files and stores, and their recognition.

use std::io::Read;
use std::path::Path;

use clap::ValueEnum;
use firn_tools::io::{self, Input};
use firn_tools::output::{Done, Failure};

use crate::text::Format;

/// First bytes of a SQLite database.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// Format of data that is copied into a store or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TransferFormat {
    /// Comma-separated values with a header
    Csv,
    /// Lines of columns separated by tabs
    Tsv,
    /// One JSON object per line
    #[value(name = "jsonl", alias = "json")]
    JsonLines,
    /// Apache Parquet
    Parquet,
    /// Apache Arrow IPC (Feather version 2); import also reads streams
    #[value(name = "arrow", alias = "ipc")]
    ArrowIpc,
    /// A table or a query of a SQLite database (import)
    Sqlite,
    /// A LevelDB directory (import)
    #[value(name = "leveldb")]
    LevelDb,
    /// An LMDB environment (import)
    Lmdb,
    /// A RocksDB directory (import)
    #[value(name = "rocksdb")]
    RocksDb,
}

impl TransferFormat {
    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            TransferFormat::Csv => "csv",
            TransferFormat::Tsv => "tsv",
            TransferFormat::JsonLines => "jsonl",
            TransferFormat::Parquet => "parquet",
            TransferFormat::ArrowIpc => "arrow",
            TransferFormat::Sqlite => "sqlite",
            TransferFormat::LevelDb => "leveldb",
            TransferFormat::Lmdb => "lmdb",
            TransferFormat::RocksDb => "rocksdb",
        }
    }

    /// Returns the format of a text, if it is one.
    pub fn text(self) -> Option<Format> {
        match self {
            TransferFormat::Csv => Some(Format::Csv),
            TransferFormat::Tsv => Some(Format::Tsv),
            TransferFormat::JsonLines => Some(Format::Json),
            _ => None,
        }
    }

    /// Reports whether a store of keys and values has this format.
    pub fn has_pairs(self) -> bool {
        matches!(self, TransferFormat::LevelDb | TransferFormat::Lmdb | TransferFormat::RocksDb)
    }

    /// Returns the format of a file by the end of its name.
    pub fn of_name(path: &Path) -> Option<TransferFormat> {
        let extension = path.extension().and_then(|e| e.to_str())?;
        Some(match extension.to_ascii_lowercase().as_str() {
            "parquet" | "pq" => TransferFormat::Parquet,
            "arrow" | "arrows" | "feather" | "ipc" => TransferFormat::ArrowIpc,
            "sqlite" | "sqlite3" | "db3" => TransferFormat::Sqlite,
            "mdb" | "lmdb" => TransferFormat::Lmdb,
            other => match Format::of_extension(other)? {
                Format::Csv => TransferFormat::Csv,
                Format::Tsv => TransferFormat::Tsv,
                Format::Json => TransferFormat::JsonLines,
                Format::Deb822 => return None,
            },
        })
    }

    /// Returns the format of a source: by the files of a directory, the end of a file's name, or its
    /// first bytes.
    ///
    /// # Errors
    /// No format fits.
    pub fn of_source(path: &Path) -> Done<TransferFormat> {
        let found = match io::is_dir(path) {
            true => of_directory(path)?,
            false => TransferFormat::of_name(path).or_else(|| of_content(path)),
        };
        found.ok_or_else(|| unknown(path))
    }

    /// Returns the format of an export by the end of the file's name.
    ///
    /// # Errors
    /// No format fits.
    pub fn of_target(path: &Path) -> Done<TransferFormat> {
        TransferFormat::of_name(path).ok_or_else(|| unknown(path))
    }
}

fn of_directory(path: &Path) -> Done<Option<TransferFormat>> {
    let names = io::list(path).map_err(|e| Failure::file("read", path, &e))?;
    let has = |name: &str| names.iter().any(|n| n == name);
    let has_options = names.iter().any(|n| n.starts_with("OPTIONS-"));
    Ok(match () {
        () if has("data.mdb") => Some(TransferFormat::Lmdb),
        () if has("CURRENT") && has_options => Some(TransferFormat::RocksDb),
        () if has("CURRENT") => Some(TransferFormat::LevelDb),
        () => None,
    })
}

fn of_content(path: &Path) -> Option<TransferFormat> {
    let mut head = vec![];
    Input::open(path).ok()?.take(SQLITE.len() as u64).read_to_end(&mut head).ok()?;
    match () {
        () if head == SQLITE => Some(TransferFormat::Sqlite),
        () if head.starts_with(b"PAR1") => Some(TransferFormat::Parquet),
        () if head.starts_with(b"ARROW1") => Some(TransferFormat::ArrowIpc),
        () => None,
    }
}

fn unknown(path: &Path) -> Failure {
    let names: Vec<&str> = TransferFormat::value_variants().iter().map(|f| f.name()).collect();
    Failure::with_next(
        format!("the format of {} is unknown", path.display()),
        format!("name it with --format: {}", names.join(", ")),
    )
}

/// Returns the failure for a format that this build lacks.
pub fn lacking(format: TransferFormat, feature: &str) -> Failure {
    Failure::with_next(
        format!("this build of firn has no {}", format.name()),
        format!("build it with `cargo install firn-db --features {feature}`"),
    )
}

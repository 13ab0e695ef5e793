//! Files of exports.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use firn_tools::io;
use firn_tools::output::{Done, Failure};
use firn_wide::Type;

/// Compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportCompression {
    /// None
    None,
    /// Snappy (Parquet)
    Snappy,
    /// LZ4
    Lz4,
    /// Zstandard
    Zstd,
    /// Gzip (Parquet)
    Gzip,
}

/// Form of an exported file.
#[derive(Clone, Debug, Default)]
pub struct ExportSettings {
    /// Text that stands for null in CSV and TSV.
    pub null: String,
    /// Whether the first line of CSV and TSV names the columns.
    pub header: bool,
    /// Digits after the point of decimals in Parquet and Arrow; `None`: decimals are text.
    pub decimal_scale: Option<i8>,
    /// Compression of Parquet and Arrow files; `None`: the default of the format.
    pub compression: Option<ExportCompression>,
    /// Names and values in the metadata of Parquet files.
    pub metadata: Vec<(String, String)>,
}

/// A column of an export.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportColumn {
    /// Name of the column.
    pub name: String,
    /// Type of its values.
    pub value_type: Type,
    /// Whether bytes are written as they are, as far as the format allows, instead of as `0x…`.
    pub is_raw: bool,
}

/// Writes rows to a file.
pub trait RowSink {
    /// Writes a row; `None` is null.
    ///
    /// # Errors
    /// The reason if the format cannot represent a value; the file cannot be written.
    fn row(&mut self, values: &[Option<&[u8]>]) -> Done;

    /// Completes the file, and returns notes for the user.
    ///
    /// # Errors
    /// The file cannot be written.
    fn finish(self: Box<Self>) -> Done<Vec<String>>;
}

/// Returns the failure of a value that the format cannot represent.
pub fn refused(row: u64, column: &str, why: impl std::fmt::Display) -> Failure {
    Failure::new(format!("row {row}, column {column}: {why}"))
}

/// A file that has another name until it is complete.
pub struct UnfinishedFile {
    path: PathBuf,
    unfinished: PathBuf,
}

impl UnfinishedFile {
    /// Names a file.
    pub fn new(path: &Path) -> UnfinishedFile {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".unfinished");
        UnfinishedFile { path: path.to_path_buf(), unfinished: path.with_file_name(name) }
    }

    /// Creates the file under its other name.
    pub fn create(&self) -> Done<impl std::io::Write + Send + use<>> {
        io::create(&self.unfinished).map_err(|e| self.failure(e))
    }

    /// Returns the failure of a write.
    pub fn failure(&self, why: impl std::fmt::Display) -> Failure {
        Failure::new(format!("cannot write {}: {why}", self.unfinished.display()))
    }

    /// Gives the complete file its name.
    pub fn finish(&self) -> Done {
        io::finish_file(&self.unfinished, &self.path).map_err(|e| self.failure(e))
    }
}

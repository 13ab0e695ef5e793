//! Exports: rows of trees and of CQL, into files.
//!
//! Invariant: a file gets its name when it is complete. Until then it is `FILE.unfinished`.

#[cfg(feature = "parquet")]
mod arrow_file;
mod run;
mod sink;
mod text_file;

use std::path::Path;

use firn_tools::output::{Done, Failure};

use crate::format::TransferFormat;
pub use run::{ExportReport, ExportRun, pair_columns, query_columns};
pub use sink::{ExportColumn, ExportCompression, ExportSettings, RowSink};

/// Creates a file of an export; `-` is standard output.
///
/// # Errors
/// The file cannot be created; exports do not have this format; this build lacks it.
pub fn create(
    path: &Path,
    format: TransferFormat,
    columns: &[ExportColumn],
    settings: &ExportSettings,
) -> Done<Box<dyn RowSink>> {
    match format {
        TransferFormat::Csv | TransferFormat::Tsv | TransferFormat::JsonLines => {
            text_file::create(path, format, columns, settings)
        }
        #[cfg(feature = "parquet")]
        TransferFormat::Parquet | TransferFormat::ArrowIpc => {
            arrow_file::create(path, format, columns, settings)
        }
        #[cfg(not(feature = "parquet"))]
        TransferFormat::Parquet | TransferFormat::ArrowIpc => {
            Err(crate::format::lacking(format, "transfer"))
        }
        other => Err(Failure::with_next(
            format!("{} is a format of imports only", other.name()),
            "export to parquet, arrow, csv, tsv or jsonl",
        )),
    }
}

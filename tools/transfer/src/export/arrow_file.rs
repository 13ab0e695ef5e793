//! Files of Apache Parquet and Arrow IPC.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{Schema, SchemaRef};
use firn_tools::output::{Done, Failure};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::sink::{
    ExportColumn, ExportCompression, ExportSettings, RowSink, UnfinishedFile, refused,
};
use crate::arrow::{ArrowForms, Column, field};
use crate::format::TransferFormat;

/// Rows and bytes at which a batch ends.
const BATCH_ROWS: usize = 16 << 10;
const BATCH_BYTES: usize = 4 << 20;
/// Encoded bytes at which a row group ends; the writer has one in memory.
const GROUP_BYTES: usize = 64 << 20;

/// Creates a file.
pub fn create(
    path: &Path,
    format: TransferFormat,
    columns: &[ExportColumn],
    settings: &ExportSettings,
) -> Done<Box<dyn RowSink>> {
    if path == Path::new("-") {
        return Err(Failure::with_next(
            format!("{} is not written to standard output", format.name()),
            "name a file; csv, tsv and jsonl can be written to standard output",
        ));
    }
    let is_parquet = format == TransferFormat::Parquet;
    let forms = ArrowForms { decimal_scale: settings.decimal_scale, text_durations: is_parquet };
    let fields = columns.iter().map(|c| field(&c.name, &c.value_type, forms));
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let file = UnfinishedFile::new(path);
    let out: Box<dyn Write + Send> = Box::new(file.create()?);
    let writer = match is_parquet {
        true => {
            let entry =
                |(name, value): &(String, String)| KeyValue::new(name.clone(), Some(value.clone()));
            let properties = WriterProperties::builder()
                .set_compression(parquet_compression(settings.compression)?)
                .set_key_value_metadata(Some(settings.metadata.iter().map(entry).collect()))
                .build();
            let writer = ArrowWriter::try_new(out, schema.clone(), Some(properties));
            BatchWriter::Parquet(Box::new(writer.map_err(|e| Failure::new(e.to_string()))?))
        }
        false => {
            let options = IpcWriteOptions::default()
                .try_with_compression(ipc_compression(settings.compression)?)
                .and_then(|options| FileWriter::try_new_with_options(out, &schema, options));
            BatchWriter::Ipc(Box::new(options.map_err(|e| Failure::new(e.to_string()))?))
        }
    };
    let builders = columns.iter().map(|c| Column::new(&c.value_type, forms)).collect();
    let names = columns.iter().map(|c| c.name.clone()).collect();
    Ok(Box::new(ArrowSink { file, writer, schema, builders, names, rows: 0, bytes: 0, total: 0 }))
}

fn parquet_compression(wanted: Option<ExportCompression>) -> Done<Compression> {
    Ok(match wanted.unwrap_or(ExportCompression::Zstd) {
        ExportCompression::None => Compression::UNCOMPRESSED,
        ExportCompression::Snappy => Compression::SNAPPY,
        ExportCompression::Lz4 => Compression::LZ4_RAW,
        ExportCompression::Gzip => Compression::GZIP(GzipLevel::default()),
        ExportCompression::Zstd => Compression::ZSTD(ZstdLevel::default()),
    })
}

fn ipc_compression(wanted: Option<ExportCompression>) -> Done<Option<CompressionType>> {
    match wanted.unwrap_or(ExportCompression::None) {
        ExportCompression::None => Ok(None),
        ExportCompression::Lz4 => Ok(Some(CompressionType::LZ4_FRAME)),
        ExportCompression::Zstd => Ok(Some(CompressionType::ZSTD)),
        ExportCompression::Snappy | ExportCompression::Gzip => Err(Failure::with_next(
            "Arrow files have no such compression",
            "choose none, lz4 or zstd",
        )),
    }
}

/// Writer of a format.
enum BatchWriter {
    Parquet(Box<ArrowWriter<Box<dyn Write + Send>>>),
    Ipc(Box<FileWriter<Box<dyn Write + Send>>>),
}

/// Collects rows into batches, and writes them.
struct ArrowSink {
    file: UnfinishedFile,
    writer: BatchWriter,
    schema: SchemaRef,
    builders: Vec<Column>,
    names: Vec<String>,
    /// Rows and approximate bytes of the batch.
    rows: usize,
    bytes: usize,
    total: u64,
}

impl ArrowSink {
    fn flush(&mut self) -> Done {
        if self.rows == 0 {
            return Ok(());
        }
        let arrays = self.builders.iter_mut().map(Column::finish).collect::<Result<Vec<_>, _>>();
        let arrays = arrays.map_err(|why| self.file.failure(why))?;
        let batch = RecordBatch::try_new(self.schema.clone(), arrays);
        let batch = batch.map_err(|e| self.file.failure(e))?;
        let written = match &mut self.writer {
            BatchWriter::Parquet(writer) => writer
                .write(&batch)
                .and_then(|()| match writer.in_progress_size() >= GROUP_BYTES {
                    true => writer.flush(),
                    false => Ok(()),
                })
                .map_err(|e| e.to_string()),
            BatchWriter::Ipc(writer) => writer.write(&batch).map_err(|e| e.to_string()),
        };
        (self.rows, self.bytes) = (0, 0);
        written.map_err(|why| self.file.failure(why))
    }
}

impl RowSink for ArrowSink {
    fn row(&mut self, values: &[Option<&[u8]>]) -> Done {
        self.total += 1;
        for (i, value) in values.iter().enumerate() {
            let done = self.builders[i].append(*value, &mut self.bytes);
            done.map_err(|why| refused(self.total, &self.names[i], why))?;
        }
        self.rows += 1;
        if self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Done<Vec<String>> {
        self.flush()?;
        let ArrowSink { file, writer, .. } = *self;
        let mut out = match writer {
            BatchWriter::Parquet(writer) => (*writer).into_inner().map_err(|e| file.failure(e))?,
            BatchWriter::Ipc(mut writer) => {
                writer.finish().map_err(|e| file.failure(e))?;
                writer.into_inner().map_err(|e| file.failure(e))?
            }
        };
        out.flush().map_err(|e| file.failure(e))?;
        drop(out);
        file.finish()?;
        Ok(vec![])
    }
}

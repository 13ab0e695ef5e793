//! Files of Apache Parquet and Arrow IPC.
//!
//! Invariant: the readers of these formats may panic on damaged files. Such a panic becomes an error.

use std::io::BufReader;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, SchemaRef};
use firn_tools::io;
use firn_tools::output::{Done, Failure};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};

use super::rows::{
    RowPlace, RowSource, RowVisitor, SourceCell, SourceColumn, SourceLength, VisitFlow, damaged,
};
use crate::arrow::{column_type, flat, read};

/// Rows of a batch of Parquet.
const BATCH_ROWS: usize = 1024;
/// First bytes of an Arrow file, which a stream does not have.
const ARROW_FILE: &[u8] = b"ARROW1";

fn open(path: &Path) -> Done<std::fs::File> {
    io::open(path).map_err(|e| Failure::file("open", path, &e))
}

/// Calls a reader, whose panic is an error.
fn guarded<T, E: std::fmt::Display>(path: &Path, call: impl FnOnce() -> Result<T, E>) -> Done<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(done) => done.map_err(|e| damaged(path, e)),
        Err(_) => Err(damaged(path, "it is damaged: its reader failed")),
    }
}

/// Returns the columns of a schema.
fn columns(path: &Path, schema: &SchemaRef) -> Done<Vec<SourceColumn>> {
    let column = |field: &arrow_schema::FieldRef| {
        let of = column_type("", field.name(), field);
        let of = of.map_err(|why| damaged(path, format!("column {}: {why}", field.name())))?;
        Ok(SourceColumn { name: field.name().clone(), value_type: Some(of) })
    };
    schema.fields().iter().map(column).collect()
}

/// Rows of batches.
struct BatchRows<'s> {
    path: &'s Path,
    columns: &'s [SourceColumn],
    lossy: bool,
    /// Number of rows before the next batch.
    before: u64,
    skip: u64,
}

impl BatchRows<'_> {
    /// Passes the rows of batches on.
    fn read(
        &mut self,
        batches: &mut dyn Iterator<Item = Result<RecordBatch, ArrowError>>,
        visitor: &mut dyn RowVisitor,
    ) -> Done {
        while let Some(batch) = guarded(self.path, || batches.next().transpose())? {
            if self.visit(&batch, visitor)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn visit(&mut self, batch: &RecordBatch, visitor: &mut dyn RowVisitor) -> VisitFlow {
        let arrays = batch.columns().iter().map(flat).collect::<Result<Vec<_>, _>>();
        let arrays = arrays.map_err(|why| damaged(self.path, why))?;
        let mut cells = vec![SourceCell::Null; self.columns.len()];
        for i in 0..batch.num_rows() {
            let row = self.before + i as u64 + 1;
            if row <= self.skip {
                continue;
            }
            let mut refused = None;
            for ((column, array), cell) in self.columns.iter().zip(&arrays).zip(&mut cells) {
                let Some(of) = &column.value_type else { continue };
                let value = guarded(self.path, || Ok::<_, String>(read(array, i, of, self.lossy)))?;
                match value {
                    Ok(value) => *cell = value.map_or(SourceCell::Null, SourceCell::Value),
                    Err(why) => refused = Some(format!("column {}: {why}", column.name)),
                }
            }
            let place = RowPlace::Row(row);
            let flow = match refused {
                None => visitor.row(place, row, &mut cells)?,
                Some(why) => visitor.bad(place, row, why)?,
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        self.before += batch.num_rows() as u64;
        Ok(ControlFlow::Continue(()))
    }
}

/// A Parquet file.
pub struct ParquetSource {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    columns: Vec<SourceColumn>,
    lossy: bool,
}

impl ParquetSource {
    /// Opens a file.
    ///
    /// # Errors
    /// It is unreadable or damaged; a column has a type that CQL lacks.
    pub fn open(path: &Path, lossy: bool) -> Done<ParquetSource> {
        let file = open(path)?;
        let metadata = guarded(path, || ArrowReaderMetadata::load(&file, Default::default()))?;
        let columns = columns(path, metadata.schema())?;
        Ok(ParquetSource { path: path.to_path_buf(), metadata, columns, lossy })
    }
}

impl RowSource for ParquetSource {
    fn columns(&self) -> &[SourceColumn] {
        &self.columns
    }

    fn length(&self) -> SourceLength {
        let rows = self.metadata.metadata().file_metadata().num_rows();
        SourceLength::Rows(u64::try_from(rows).ok())
    }

    fn read(&mut self, skip: u64, visitor: &mut dyn RowVisitor) -> Done {
        let file = open(&self.path)?;
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone());
        let builder = builder.with_batch_size(BATCH_ROWS).with_offset(skip as usize);
        let mut batches = guarded(&self.path, || builder.build())?;
        let (path, columns) = (&self.path, &self.columns);
        BatchRows { path, columns, lossy: self.lossy, before: skip, skip }
            .read(&mut batches, visitor)
    }
}

/// A file or stream of Arrow IPC.
pub struct IpcSource {
    path: PathBuf,
    is_file: bool,
    columns: Vec<SourceColumn>,
    lossy: bool,
}

/// Batches of a file or stream.
type IpcBatches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

impl IpcSource {
    /// Opens a file or stream.
    ///
    /// # Errors
    /// It is unreadable or damaged; a column has a type that CQL lacks.
    pub fn open(path: &Path, lossy: bool) -> Done<IpcSource> {
        let is_file = {
            use std::io::Read;
            let mut head = vec![];
            let read = open(path)?.take(ARROW_FILE.len() as u64).read_to_end(&mut head);
            read.map_err(|e| Failure::file("read", path, &e))?;
            head == ARROW_FILE
        };
        let path = path.to_path_buf();
        let mut source = IpcSource { path, is_file, columns: vec![], lossy };
        let schema = source.batches()?.1;
        source.columns = columns(&source.path, &schema)?;
        Ok(source)
    }

    fn batches(&self) -> Done<(IpcBatches, SchemaRef)> {
        let file = open(&self.path)?;
        guarded(&self.path, || -> Result<(IpcBatches, SchemaRef), ArrowError> {
            let file = BufReader::new(file);
            if self.is_file {
                let reader = FileReader::try_new(file, None)?;
                let schema = reader.schema();
                return Ok((Box::new(reader), schema));
            }
            let reader = StreamReader::try_new(file, None)?;
            let schema = reader.schema();
            Ok((Box::new(reader), schema))
        })
    }
}

impl RowSource for IpcSource {
    fn columns(&self) -> &[SourceColumn] {
        &self.columns
    }

    fn length(&self) -> SourceLength {
        SourceLength::Rows(None)
    }

    fn read(&mut self, skip: u64, visitor: &mut dyn RowVisitor) -> Done {
        let mut batches = self.batches()?.0;
        let (path, columns) = (&self.path, &self.columns);
        BatchRows { path, columns, lossy: self.lossy, before: 0, skip }.read(&mut batches, visitor)
    }
}

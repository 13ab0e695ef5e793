//! Results as Arrow record batches, by the Arrow C data interface: the protocol methods return
//! capsules, which any Arrow library takes without a copy.
//!
//! Invariant: batches are made without the interpreter's lock, and have at most `BATCH_ROWS` rows
//! and about `BATCH_BYTES` bytes.

use std::ffi::CStr;
use std::fmt;
use std::sync::{Arc, Mutex};

use arrow_array::builder::BinaryBuilder;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchOptions, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use firn_cql::{ColumnSpec, PagedRows};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::{InvalidRequest, closed, of_cql, of_kv};
use crate::handle::Handle;
use crate::iterate::lock;
use crate::merge::call_with;
use firn_transfer::arrow::{ArrowForms, Column, field};

/// Maximum number of rows of a batch.
const BATCH_ROWS: usize = 16_384;
/// Bytes of values after which a batch ends.
const BATCH_BYTES: usize = 16 << 20;

/// An error of a batch.
#[derive(Debug)]
enum BatchError {
    Cql(firn_cql::Error),
    Store(firn_kv::Error),
    Column(String),
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchError::Cql(e) => e.fmt(f),
            BatchError::Store(e) => e.fmt(f),
            BatchError::Column(text) => text.fmt(f),
        }
    }
}

impl std::error::Error for BatchError {}

impl From<BatchError> for PyErr {
    fn from(e: BatchError) -> PyErr {
        match e {
            BatchError::Cql(e) => of_cql(e),
            BatchError::Store(e) => of_kv(e),
            BatchError::Column(text) => InvalidRequest::new_err(text),
        }
    }
}

/// The source of batches.
enum BatchSource {
    Rows(Arc<Handle<Mutex<PagedRows>>>, Arc<[ColumnSpec]>, ArrowForms),
    Entries(Box<Handle<Mutex<firn_kv::Range>>>),
}

struct Batches {
    schema: SchemaRef,
    source: BatchSource,
    is_over: bool,
}

impl Batches {
    fn rows(
        &self,
        walk: &Mutex<PagedRows>,
        specs: &[ColumnSpec],
        forms: ArrowForms,
    ) -> Result<RecordBatch, BatchError> {
        let mut columns: Vec<Column> =
            specs.iter().map(|s| Column::new(&s.column_type.value_type, forms)).collect();
        let (mut count, mut bytes) = (0, 0);
        let mut walk = lock(walk);
        while count < BATCH_ROWS && bytes < BATCH_BYTES {
            let Some(row) = walk.next().transpose().map_err(BatchError::Cql)? else { break };
            let row = row.row();
            let same = |(a, b): (&ColumnSpec, &ColumnSpec)| {
                a.name == b.name && a.column_type == b.column_type
            };
            if row.columns().len() != specs.len() || !row.columns().iter().zip(specs).all(same) {
                return Err(BatchError::Column(
                    "the columns of the table have changed: run the statement again".into(),
                ));
            }
            for (i, (column, spec)) in columns.iter_mut().zip(specs).enumerate() {
                column.append(row.bytes(i), &mut bytes).map_err(|e| {
                    BatchError::Column(format!(
                        "column {} of type {}: {e}",
                        spec.name, spec.column_type
                    ))
                })?;
            }
            count += 1;
        }
        drop(walk);
        let arrays = columns.iter_mut().zip(specs).map(|(column, spec)| {
            column.finish().map_err(|e| {
                BatchError::Column(format!(
                    "column {} of type {}: {e}",
                    spec.name, spec.column_type
                ))
            })
        });
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .map_err(|e| BatchError::Column(e.to_string()))
    }

    fn entries(&self, range: &Mutex<firn_kv::Range>) -> Result<RecordBatch, BatchError> {
        let (mut keys, mut values) = (BinaryBuilder::new(), BinaryBuilder::new());
        let (mut count, mut bytes) = (0, 0);
        let mut range = lock(range);
        while count < BATCH_ROWS && bytes < BATCH_BYTES {
            let Some((key, value)) = range.next().transpose().map_err(BatchError::Store)? else {
                break;
            };
            bytes += key.len() + value.len();
            keys.append_value(&key);
            values.append_value(&value);
            count += 1;
        }
        drop(range);
        let arrays = vec![Arc::new(keys.finish()) as _, Arc::new(values.finish()) as _];
        RecordBatch::try_new(self.schema.clone(), arrays)
            .map_err(|e| BatchError::Column(e.to_string()))
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>, BatchError> {
        if self.is_over {
            return Ok(None);
        }
        let batch = match &self.source {
            BatchSource::Rows(walk, specs, forms) => self.rows(walk, specs, *forms),
            BatchSource::Entries(range) => self.entries(range),
        };
        self.is_over = !batch.as_ref().is_ok_and(|b| b.num_rows() > 0);
        batch.map(|b| Some(b).filter(|b| b.num_rows() > 0))
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().map_err(|e| ArrowError::ExternalError(Box::new(e))).transpose()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Returns a capsule of the Arrow C data interface.
fn capsule<'py, T: 'static + Send>(
    py: Python<'py>,
    value: T,
    name: &'static CStr,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyCapsule::new_with_value(py, value, name)?.into_any())
}

fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyAny>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(column)?;
    capsule(py, schema, c"arrow_schema")
}

fn column(e: ArrowError) -> PyErr {
    BatchError::Column(e.to_string()).into()
}

/// An iterator of record batches, or a stream of the Arrow C data interface.
#[pyclass(frozen, module = "firn")]
pub struct ArrowReader {
    batches: Mutex<Option<Batches>>,
    schema: SchemaRef,
}

impl ArrowReader {
    fn new(schema: Schema, source: BatchSource) -> ArrowReader {
        let schema = Arc::new(schema);
        let batches = Batches { schema: schema.clone(), source, is_over: false };
        ArrowReader { batches: Mutex::new(Some(batches)), schema }
    }

    /// Reads the rows of a statement.
    pub fn of_rows(
        walk: Arc<Handle<Mutex<PagedRows>>>,
        specs: Arc<[ColumnSpec]>,
        scale: i8,
    ) -> ArrowReader {
        let forms = ArrowForms { decimal_scale: Some(scale), text_durations: false };
        let fields = specs.iter().map(|s| field(&s.name, &s.column_type.value_type, forms));
        ArrowReader::new(
            Schema::new(fields.collect::<Vec<_>>()),
            BatchSource::Rows(walk, specs, forms),
        )
    }

    /// Reads the entries of a range.
    pub fn of_entries(range: firn_kv::Range) -> ArrowReader {
        let field = |name: &str| Field::new(name, DataType::Binary, false);
        let schema = Schema::new(vec![field("key"), field("value")]);
        ArrowReader::new(schema, BatchSource::Entries(Box::new(Handle::new(Mutex::new(range)))))
    }

    /// Returns the batches as a stream.
    pub fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let batches = py.detach(|| lock(&self.batches).take()).ok_or_else(|| closed("stream"))?;
        capsule(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }
}

#[pymethods]
impl ArrowReader {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ArrowBatch>> {
        let batch = || lock(&self.batches).as_mut().map_or(Ok(None), Batches::batch);
        let next = call_with(py, batch, PyErr::from)?;
        Ok(next.map(ArrowBatch))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        schema_capsule(py, &self.schema)
    }
}

/// A record batch.
#[pyclass(frozen, module = "firn")]
pub struct ArrowBatch(RecordBatch);

#[pymethods]
impl ArrowBatch {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let _ = requested_schema;
        let schema = schema_capsule(py, &self.0.schema())?;
        let array = FFI_ArrowArray::new(&StructArray::from(self.0.clone()).to_data());
        Ok((schema, capsule(py, array, c"arrow_array")?))
    }
}

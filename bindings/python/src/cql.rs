//! Sessions, statements, rows.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use firn_cql::{ColumnSpec, Named, OwnedRow, PagedRows, Prepared, RunOptions, ToValue, Value};
use firn_wide::Options;
use pyo3::exceptions::{PyAttributeError, PyIndexError, PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::arrow::ArrowReader;
use crate::db::options;
use crate::error::of_cql;
use crate::handle::{Closable, Handle};
use crate::iterate::lock;
use crate::value::{of_python, to_python};

/// A CQL session with a database, in a directory or in memory.
// The session itself is shared: a clone would have its own keyspace.
#[pyclass(frozen, module = "firn")]
pub struct Session(Closable<Arc<firn_cql::Session>>);

impl Session {
    fn of(session: firn_cql::Session) -> Session {
        Session(Closable::new("session", Arc::new(session)))
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&firn_cql::Session) -> firn_cql::Result<T> + Send,
    ) -> PyResult<T> {
        let session = self.0.get()?;
        py.detach(move || work(&session)).map_err(of_cql)
    }
}

#[pymethods]
impl Session {
    #[new]
    #[pyo3(signature = (path, *, memory_budget=None, background_threads=None, durability=None, read_only=false, create=true))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        memory_budget: Option<usize>,
        background_threads: Option<usize>,
        durability: Option<&str>,
        read_only: bool,
        create: bool,
    ) -> PyResult<Session> {
        let mut with = Options::default();
        with.store.db = options(memory_budget, background_threads, durability, read_only, create)?;
        py.detach(|| firn_cql::Session::open_with(path, with)).map(Session::of).map_err(of_cql)
    }

    /// Open an empty database in memory.
    #[staticmethod]
    fn in_memory(py: Python<'_>) -> PyResult<Session> {
        py.detach(firn_cql::Session::in_memory).map(Session::of).map_err(of_cql)
    }

    /// Create another session with the same database, with its own keyspace.
    fn clone(&self) -> PyResult<Session> {
        Ok(Session::of((*self.0.get()?).clone()))
    }

    #[getter]
    fn keyspace(&self) -> PyResult<Option<String>> {
        Ok(self.0.get()?.keyspace().map(|k| (*k).to_owned()))
    }

    /// Run a statement, with values for its markers: a list or tuple in order, or a dict by name;
    /// omitted names leave the column unchanged. Rows are fetched a page at a time.
    #[pyo3(signature = (cql, values=None, *, page_size=None, timestamp=None))]
    fn execute(
        &self,
        py: Python<'_>,
        cql: &str,
        values: Option<&Bound<'_, PyAny>>,
        page_size: Option<usize>,
        timestamp: Option<i64>,
    ) -> PyResult<Rows> {
        let how = RunOptions { page_size, timestamp, ..RunOptions::default() };
        // Definitions accept no values, and are not prepared: an empty dict, list or tuple counts
        // as none.
        match values.filter(|v| !v.len().is_ok_and(|n| n == 0)) {
            None if values.is_some_and(|v| v.is_instance_of::<PyDict>()) => {
                self.with(py, |s| s.query_with(cql, Named(&[]), &how))
            }
            None => self.with(py, |s| s.query_with(cql, (), &how)),
            Some(values) => {
                let prepared = self.with(py, |s| s.prepare(cql))?;
                return run(py, &*self.0.get()?, &prepared, Some(values), &how);
            }
        }
        .map(Rows::of)
    }

    /// Prepare a statement about rows.
    fn prepare(&self, py: Python<'_>, cql: &str) -> PyResult<Statement> {
        let prepared = self.with(py, |s| s.prepare(cql))?;
        Ok(Statement { session: Handle::new((*self.0.get()?).clone()), prepared })
    }

    /// Close the database for all its sessions: all writes are durable when it returns.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.0.take();
        py.detach(|| open.map_or(Ok(()), |s| s.close())).map_err(of_cql)
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (*_why))]
    fn __exit__(&self, py: Python<'_>, _why: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

/// A prepared statement, which is called with its values.
#[pyclass(frozen, module = "firn")]
pub struct Statement {
    session: Handle<firn_cql::Session>,
    prepared: Prepared,
}

#[pymethods]
impl Statement {
    /// Name and type of each marker.
    #[getter]
    fn markers(&self) -> Vec<(String, String)> {
        self.prepared
            .markers()
            .iter()
            .map(|m| (m.name.clone(), m.column_type.to_string()))
            .collect()
    }

    /// Run it with these values, in the form of `Session.execute`.
    #[pyo3(signature = (values=None, *, page_size=None, timestamp=None))]
    fn __call__(
        &self,
        py: Python<'_>,
        values: Option<&Bound<'_, PyAny>>,
        page_size: Option<usize>,
        timestamp: Option<i64>,
    ) -> PyResult<Rows> {
        run(
            py,
            &self.session,
            &self.prepared,
            values,
            &RunOptions { page_size, timestamp, ..RunOptions::default() },
        )
    }
}

fn run(
    py: Python<'_>,
    session: &firn_cql::Session,
    prepared: &Prepared,
    values: Option<&Bound<'_, PyAny>>,
    how: &RunOptions,
) -> PyResult<Rows> {
    let markers = prepared.markers();
    if let Some(Ok(dict)) = values.map(|v| v.cast::<PyDict>()) {
        let mut named: Vec<(String, Value)> = vec![];
        for (name, value) in dict.iter() {
            let name: String = name.extract()?;
            // A name without a marker is refused by name, regardless of its value.
            let of = markers.iter().find(|m| m.name == name);
            named.push((
                name,
                of.map_or(Ok(Value::Null), |m| of_python(&value, &m.column_type.value_type))?,
            ));
        }
        let named: Vec<(&str, &(dyn ToValue + Sync))> =
            named.iter().map(|(n, v)| (n.as_str(), v as _)).collect();
        return py
            .detach(|| {
                let named: Vec<(&str, &dyn ToValue)> =
                    named.iter().map(|(n, v)| (*n, *v as &dyn ToValue)).collect();
                session.query_prepared(prepared, Named(&named), how)
            })
            .map(Rows::of)
            .map_err(of_cql);
    }
    let mut in_order: Vec<Value> = vec![];
    for (at, value) in values.map(|v| v.try_iter()).transpose()?.into_iter().flatten().enumerate() {
        // Too many values are refused by their number.
        in_order.push(
            markers
                .get(at)
                .map_or(Ok(Value::Null), |m| of_python(&value?, &m.column_type.value_type))?,
        );
    }
    py.detach(|| session.query_prepared(prepared, in_order, how)).map(Rows::of).map_err(of_cql)
}

/// Bytes of values after which `Rows.take` ends.
const TAKE_BYTES: usize = 1 << 20;

/// The rows of a statement: an iterator that fetches pages on demand.
#[pyclass(frozen, module = "firn")]
pub struct Rows {
    walk: Arc<Handle<Mutex<PagedRows>>>,
    columns: Arc<[String]>,
    specs: Arc<[ColumnSpec]>,
}

impl Rows {
    fn of(walk: PagedRows) -> Rows {
        let specs = walk.page().columns().clone();
        let columns = specs.iter().map(|c| c.name.clone()).collect();
        Rows { walk: Arc::new(Handle::new(Mutex::new(walk))), columns, specs }
    }

    fn row(&self, py: Python<'_>) -> PyResult<Option<Row>> {
        let next = py.detach(|| lock(&self.walk).next());
        next.transpose().map_err(of_cql)?.map(|row| Row::of(py, &row, &self.columns)).transpose()
    }
}

#[pymethods]
impl Rows {
    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.columns.to_vec()
    }

    /// Types of the columns, in CQL.
    #[getter]
    fn types(&self) -> Vec<String> {
        self.specs.iter().map(|c| c.column_type.to_string()).collect()
    }

    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Row>> {
        self.row(py)
    }

    /// Return the next row, or None.
    fn one(&self, py: Python<'_>) -> PyResult<Option<Row>> {
        self.row(py)
    }

    /// Return at most `count` further rows, fewer if their bytes exceed 1 MiB. An empty list is the
    /// end.
    fn take<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyList>> {
        let (rows, failed) = py.detach(|| {
            let (mut rows, mut bytes, mut walk) = (vec![], 0, lock(&self.walk));
            while rows.len() < count && bytes < TAKE_BYTES {
                match walk.next() {
                    Some(Ok(row)) => {
                        let cells = 0..row.row().columns().len();
                        bytes +=
                            cells.map(|i| row.row().bytes(i).map_or(0, <[u8]>::len)).sum::<usize>();
                        rows.push(row);
                    }
                    Some(Err(e)) => return (rows, Some(e)),
                    None => break,
                }
            }
            (rows, None)
        });
        failed.map_or(Ok(()), |e| Err(of_cql(e)))?;
        let rows = rows.iter().map(|row| Row::of(py, row, &self.columns));
        PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)
    }

    #[pyo3(signature = (decimal_scale=10))]
    fn _arrow_reader(&self, decimal_scale: i8) -> PyResult<ArrowReader> {
        if !(0..=38).contains(&decimal_scale) {
            return Err(PyValueError::new_err("decimal_scale is at least 0 and at most 38"));
        }
        Ok(ArrowReader::of_rows(self.walk.clone(), self.specs.clone(), decimal_scale))
    }

    /// Return the remaining rows as a `pyarrow.Table`. Decimals have `decimal_scale` digits after
    /// the point; one with more is refused.
    #[pyo3(signature = (*, decimal_scale=10))]
    fn to_arrow<'py>(&self, py: Python<'py>, decimal_scale: i8) -> PyResult<Bound<'py, PyAny>> {
        py.import("firn._arrow")?.call_method1("table", (self._arrow_reader(decimal_scale)?,))
    }

    /// Return the remaining rows as a `pyarrow.RecordBatchReader`, which fetches pages as needed. A
    /// batch has at most 16384 rows.
    #[pyo3(signature = (*, decimal_scale=10))]
    fn to_arrow_batches<'py>(
        &self,
        py: Python<'py>,
        decimal_scale: i8,
    ) -> PyResult<Bound<'py, PyAny>> {
        py.import("firn._arrow")?.call_method1("reader", (self._arrow_reader(decimal_scale)?,))
    }

    /// Return the remaining rows as a `pandas.DataFrame`.
    #[pyo3(signature = (*, decimal_scale=10))]
    fn to_pandas<'py>(&self, py: Python<'py>, decimal_scale: i8) -> PyResult<Bound<'py, PyAny>> {
        py.import("firn._arrow")?.call_method1("frame", (self._arrow_reader(decimal_scale)?,))
    }

    /// Return the remaining rows by the Arrow C stream protocol.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = requested_schema;
        self._arrow_reader(10)?.stream(py)
    }
}

/// A row: values by position, by name (`row["title"]`, `row.title`), and as a tuple.
#[pyclass(frozen, sequence, module = "firn")]
pub struct Row {
    columns: Arc<[String]>,
    values: Py<PyTuple>,
}

impl Row {
    fn of(py: Python<'_>, row: &OwnedRow, columns: &Arc<[String]>) -> PyResult<Row> {
        let row = row.row();
        let value = |i| to_python(py, &row.at::<Value>(i).map_err(of_cql)?, false);
        let values = (0..row.columns().len()).map(value).collect::<PyResult<Vec<_>>>()?;
        // Definitions may have changed between two pages.
        let same = row.columns().len() == columns.len()
            && row.columns().iter().zip(&**columns).all(|(c, n)| c.name == *n);
        let columns = if same {
            columns.clone()
        } else {
            row.columns().iter().map(|c| c.name.clone()).collect()
        };
        Ok(Row { columns, values: PyTuple::new(py, values)?.unbind() })
    }

    fn named<'py>(&self, py: Python<'py>, name: &str) -> Option<Bound<'py, PyAny>> {
        let at = self.columns.iter().position(|c| c == name)?;
        self.values.bind(py).get_item(at).ok()
    }
}

#[pymethods]
impl Row {
    fn __len__(&self) -> usize {
        self.columns.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.values.bind(py).try_iter()?.into_any())
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match key.cast::<PyString>() {
            Ok(name) => self
                .named(py, &name.to_cow()?)
                .ok_or_else(|| PyKeyError::new_err(key.clone().unbind())),
            Err(_) => self.values.bind(py).as_any().get_item(key).map_err(|e| {
                if e.is_instance_of::<PyIndexError>(py) {
                    PyIndexError::new_err("there is no such column")
                } else {
                    e
                }
            }),
        }
    }

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.named(py, name)
            .ok_or_else(|| PyAttributeError::new_err(format!("there is no column {name}")))
    }

    /// Names of the columns.
    fn keys(&self) -> Vec<String> {
        self.columns.to_vec()
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        match other.cast::<Row>() {
            Ok(row) => self.values.bind(py).eq(row.get().values.bind(py)),
            Err(_) => self.values.bind(py).eq(other),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let mut shown = vec![];
        for (name, value) in self.columns.iter().zip(self.values.bind(py).iter()) {
            shown.push(format!("{name}={}", value.repr()?.to_cow()?));
        }
        Ok(format!("Row({})", shown.join(", ")))
    }
}

//! Sessions, statements, rows.

use std::sync::{Arc, Mutex};

use firn_cql::{PagedRows, Prepared, RunOptions, Session};
use firn_packed::params::{self, Params};
use firn_packed::rows::RowPacker;
use firn_wide::Options;
use napi::bindgen_prelude::*;
use napi_derive::napi;

use crate::call::*;
use crate::store::NativeOptions;

/// A CQL session with a database.
#[napi]
// The session itself is shared: a clone would have its own keyspace.
pub struct NativeSession(Arc<Session>);

#[napi]
pub fn open_session(
    path: String,
    options: NativeOptions,
    wait: bool,
) -> Result<Now<NativeSession>> {
    run(wait, move || {
        let mut with = Options::default();
        with.store.db = options.read();
        Ok(NativeSession(Arc::new(Session::open_with(path, with)?)))
    })
}

#[napi]
pub fn open_session_memory() -> Result<NativeSession> {
    call(|| Ok(NativeSession(Arc::new(Session::in_memory()?))))
}

/// Options of a statement.
#[napi(object)]
pub struct NativeRun {
    pub page_size: Option<u32>,
    pub timestamp: Option<i64>,
}

impl NativeRun {
    fn read(&self) -> RunOptions {
        RunOptions {
            page_size: self.page_size.map(|n| n as usize),
            timestamp: self.timestamp,
            ..RunOptions::default()
        }
    }
}

#[napi]
impl NativeSession {
    /// Creates another session with the same database.
    #[napi]
    pub fn fork(&self) -> Result<NativeSession> {
        call(|| Ok(NativeSession(Arc::new((*self.0).clone()))))
    }

    #[napi]
    pub fn keyspace(&self) -> Option<String> {
        self.0.keyspace().map(|k| (*k).to_owned())
    }

    #[napi]
    pub fn execute(
        &self,
        cql: String,
        packed: &[u8],
        how: NativeRun,
        wait: bool,
    ) -> Result<Now<NativeRows>> {
        let (session, packed) = (self.0.clone(), packed.to_vec());
        run(wait, move || NativeRows::of(params::execute(&session, &cql, &packed, &how.read())?))
    }

    #[napi]
    pub fn prepare(&self, cql: String, wait: bool) -> Result<Now<NativeStatement>> {
        let session = self.0.clone();
        run(wait, move || {
            let prepared = session.prepare(&cql)?;
            Ok(NativeStatement { session, prepared })
        })
    }

    #[napi]
    pub fn close(&self, wait: bool) -> Result<Now<()>> {
        let session = self.0.clone();
        run(wait, move || Ok(session.close()?))
    }
}

/// A prepared statement.
#[napi]
pub struct NativeStatement {
    session: Arc<Session>,
    prepared: Prepared,
}

#[napi]
impl NativeStatement {
    /// Returns name and type of each marker.
    #[napi]
    pub fn markers(&self) -> Vec<Vec<String>> {
        let markers = params::markers(&self.prepared).into_iter();
        markers.map(|(name, of)| vec![name.to_owned(), of]).collect()
    }

    #[napi]
    pub fn execute(&self, packed: &[u8], how: NativeRun, wait: bool) -> Result<Now<NativeRows>> {
        let (session, packed) = (self.session.clone(), packed.to_vec());
        let prepared = self.prepared.clone();
        run(wait, move || {
            let params = Params::read(&packed, &prepared)?;
            NativeRows::of(params.run(&session, &prepared, &how.read())?)
        })
    }
}

/// Maximum number of rows of a chunk: JavaScript converts one without a pause.
const MAX_ROWS: usize = 1000;
/// Bytes after which a chunk ends.
const MAX_BYTES: usize = 64 << 10;

/// The rows of a statement.
#[napi]
pub struct NativeRows {
    rows: Arc<Mutex<RowPacker>>,
    /// The first chunk, which needs no further call to the pool.
    first: Mutex<Option<Vec<u8>>>,
}

impl NativeRows {
    fn of(walk: PagedRows) -> Outcome<NativeRows> {
        let mut rows = RowPacker::new(walk);
        let first = rows.next_chunk(MAX_ROWS, MAX_BYTES)?;
        Ok(NativeRows { rows: Arc::new(Mutex::new(rows)), first: Mutex::new(Some(first)) })
    }
}

#[napi]
impl NativeRows {
    /// Takes the first chunk.
    #[napi]
    pub fn first(&self) -> Bytes {
        lock(&self.first).take().map_or(Bytes::None, Bytes::Packed)
    }

    #[napi]
    pub fn next(&self, wait: bool) -> Result<Now<Bytes>> {
        let rows = self.rows.clone();
        run(wait, move || Ok(Bytes::Packed(lock(&rows).next_chunk(MAX_ROWS, MAX_BYTES)?)))
    }
}

//! [`AsyncOptions`].

/// Limits of an [`AsyncDb`](crate::AsyncDb).
///
/// ```
/// use firn_kv::Db;
/// use firn_tokio::{AsyncDb, AsyncOptions};
/// let options = AsyncOptions { max_running: 16, ..AsyncOptions::default() };
/// let db = AsyncDb::with_options(Db::in_memory()?, options);
/// # Ok::<(), firn_kv::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncOptions {
    /// Maximum number of calls that run at the same time; 0 means 1. Default 64. A call that runs
    /// occupies one of the runtime's blocking threads, of which tokio has 512 by default.
    pub max_running: u32,
    /// Maximum number of entries in a chunk of a [`RangeStream`](crate::RangeStream); 0 means 1. Default 256. A stream
    /// holds at most two chunks.
    pub chunk_entries: usize,
    /// Maximum size of a chunk, in bytes of keys and values. Default 256 KiB. A chunk ends with the
    /// entry that reaches it.
    pub chunk_bytes: usize,
    #[doc(hidden)]
    pub _non_exhaustive: (),
}

impl Default for AsyncOptions {
    fn default() -> AsyncOptions {
        AsyncOptions {
            max_running: 64,
            chunk_entries: 256,
            chunk_bytes: 256 << 10,
            _non_exhaustive: (),
        }
    }
}

//! Options of a Db. They apply to one process and are not persisted.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::base::error::{Error, Result};
use crate::base::events::Listener;
use crate::base::open_files::OpenFiles;
use crate::base::options::tree::within;

/// Guarantee that a write has when its call returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// The operating system has the bytes. They survive a crash of the process, but not one of the
    /// machine.
    #[default]
    Process,
    /// The device has the bytes. They survive a power cut. Concurrent writers share one sync (group
    /// commit).
    Power,
}

/// Method for reading table files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReadMode {
    /// The engine chooses (the default). It reads compressed blocks with `pread`; a scan reads
    /// several at once. It serves uncompressed blocks from a shared map of the file while all
    /// tables together use at most half of the memory available to the process. Above that it reads
    /// them with `pread`. Long values that are not flushed yet are read through the map of the log.
    #[default]
    Auto,
    /// Reads through a shared map of the file, without a copy or a system call. Gets of blocks that
    /// are in the page cache but not in the block cache take up to a third less time. A block that
    /// is in neither costs one device read for each of its pages. A failing device ends the process
    /// with a signal.
    Mmap,
    /// Reads with `pread`. A failing device returns an error. Memtables copy all values.
    Pread,
}

/// Memory shared by several Dbs of a process: one block cache, and one limit for the memtables of
/// all of them.
///
/// A Db that needs memory first flushes its own memtables above an equal share. Then it asks Dbs
/// above their share to flush. A Db without background threads does so at its next write.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("firn-doc-shared-{}", std::process::id()));
/// use firn_kv::{Db, DbOptions, MemoryBudget};
/// let memory = MemoryBudget::new(64 << 20);
/// let tenants: Vec<Db> = (0..3)
///     .map(|i| {
///         let options = DbOptions { shared: Some(memory.clone()), background_threads: 1, ..DbOptions::default() };
///         Db::open_with(dir.join(format!("tenant-{i}")), options)
///     })
///     .collect::<Result<_, _>>()?;
/// assert_eq!(tenants[0].stats().memory.budget, 64 << 20);
/// # drop(tenants); std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), firn_kv::Error>(())
/// ```
#[derive(Clone)]
pub struct MemoryBudget(Arc<Pot>);

struct Pot {
    bytes: usize,
    /// The shared state of the `db` module, created when the first Db is opened.
    inside: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl MemoryBudget {
    /// Creates a budget of `bytes` bytes. The minimum is 1 MiB, checked when a Db is opened.
    pub fn new(bytes: usize) -> MemoryBudget {
        MemoryBudget(Arc::new(Pot { bytes, inside: OnceLock::new() }))
    }

    /// Returns the size of the budget in bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// Returns the state common to all Dbs of this budget. The first caller creates it with `make`.
    pub(crate) fn inside<T: Any + Send + Sync>(&self, make: impl FnOnce(usize) -> T) -> Arc<T> {
        let inside = self.0.inside.get_or_init(|| Arc::new(make(self.0.bytes))).clone();
        inside.downcast().unwrap_or_else(|_| unreachable!("all callers use one type"))
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryBudget").field(&self.0.bytes).finish()
    }
}

/// Options of a process that opens a Db.
///
/// Releases may add options. Write `..DbOptions::default()` after those that you set, or assign to
/// the fields of a default.
#[derive(Clone, Debug)]
pub struct DbOptions {
    /// Memory for memtables, block cache, pinned indexes and filters, and compaction buffers, in
    /// bytes. At least 1 MiB; default 256 MiB.
    ///
    /// Each tree uses 3.5 KiB by itself; up to half of the budget is counted for that. The active
    /// memtables of all trees share three eighths of the rest. Immutable memtables may use as much
    /// again. Above these limits memtables are flushed, or writers wait. Values of 4 KiB and more count
    /// here although they are in the page cache, in the log.
    ///
    /// A flush or a compaction uses about 33 bytes for each key of the table that it is building,
    /// for its filter. That is 40 MB for a table of 64 MiB with 1.2 million keys. The block cache
    /// shrinks to make room, down to an eighth of the budget. With small entries and a budget below
    /// 256 MiB choose a smaller [`table_size`](crate::TreeOptions::table_size). Memory that the
    /// allocator retains after it was freed is not included.
    ///
    /// A tree with unflushed writes uses at least one page of 4 KiB. Each of its tables uses at
    /// least 3 KiB, however small it is. If all trees are written, plan at least 20 KiB for each:
    /// 200 MiB for 10,000 trees. With less, the engine exceeds the budget rather than flush tables
    /// of one or two puts. Memory is then the sum of these parts:
    /// - 7 KiB for each tree and its tables;
    /// - up to five eighths of the budget beyond 3.5 KiB a tree, for memtables that are larger than
    ///   a page or wait for their flush;
    /// - an eighth of the budget for the block cache.
    ///
    /// A batch is in memory as a whole while it is written. That takes its encoded bytes, and about
    /// four times as much in memtables if its operations are small. Each operation takes 30 to 120
    /// bytes beside its key and value. Batches above an eighth of the budget exceed it for that
    /// time. Recovery that reads such a batch from the log holds its encoded bytes, and flushes its
    /// operations in parts.
    pub memory_budget: usize,
    /// Memory that this Db shares with others. It replaces `memory_budget`, which then only limits
    /// the size of the log. Default: none.
    pub shared: Option<MemoryBudget>,
    /// Limit on the table files that are open at once in this Db and in those that share the limit.
    /// Default: none, which means the limit of the process. All Dbs without a limit of their own
    /// share that one.
    pub open_files: Option<OpenFiles>,
    /// Number of background threads for flushes and compactions, 0 to 64. With 0 the writing thread
    /// does that work itself, so the same history gives the same directory, byte for byte. With
    /// several threads, a large compaction is split into subcompactions, and so is a flush that
    /// writers wait for. A job runs at most this many subcompactions at once. All jobs together use
    /// at most one less than this number of extra threads. Default: 2; 0 on WebAssembly, which has
    /// no threads.
    pub background_threads: usize,
    /// Limit on the bytes that all compactions together read and write, in bytes per second. At
    /// least 64 KiB. Default: none, which means no limit. The limit holds over each second, to
    /// within one step of a compaction. A step is 1,024 entries read or 256 KiB written, whichever
    /// is reached first. Flushes are not limited, because writers wait for them. If the limit makes
    /// compactions too slow, runs accumulate and writers are slowed down. With `background_threads:
    /// 0` the writer that does the work waits.
    /// [`Db::set_background_rate`](crate::Db::set_background_rate) changes the limit.
    pub background_rate: Option<u64>,
    /// Limit on the bytes that read-triggered compactions write. Unit: percent of the bytes present
    /// at opening plus the bytes flushed since. 0 to 1,000,000; default 100. A policy may leave
    /// several runs, and seeks and scans pay for each of them. The runs are merged into one when
    /// that cost reaches a quarter of the cost of a compaction and no other job is due. With 0,
    /// each tree has the shape that its policy gives it. With `background_threads: 0` there are no
    /// read-triggered compactions.
    pub read_compaction_percent: u32,
    /// Durability of writes that do not set their own.
    pub durability: Durability,
    /// Method for reading table files.
    pub read_mode: ReadMode,
    /// Size of a write-ahead log segment in bytes, 64 KiB to 1 GiB. Default 64 MiB. The log as a
    /// whole stays below about the memory budget or four segments, whichever is larger, plus the
    /// data being flushed. Trees whose unflushed writes are older than that are flushed.
    pub wal_segment: u64,
    /// Whether opening creates a missing Db. Default true.
    pub create: bool,
    /// Whether the Db is opened without the lock and without writing. Another process may write to
    /// it at the same time. Default false. Log records that are in no table are then held in
    /// memory, whatever the memory budget is.
    pub read_only: bool,
    /// Whether flushes, compactions and stalls are logged to `EVENTS.jsonl` in the Db's directory.
    /// Default true.
    pub event_log: bool,
    /// Whether to open for writing although log damage, proven not to result from a crash, has cut
    /// off acknowledged writes. Those writes are then lost permanently. Default false: such an
    /// opening fails with `Corruption`, and `sstable-dump salvage` can still save the writes. A
    /// read-only opening continues without them ([`Db::torn_log`](crate::Db::torn_log)).
    pub accept_log_loss: bool,
    /// Permission bits of new files, on systems that have them: 0o600 to 0o666. Default 0o600: only
    /// the store's user. New directories can also be entered by users that may read or write the
    /// files. The umask of the process applies as always. Existing files retain their permissions.
    pub file_mode: u32,
    /// Whether to open on a file system that cannot sync a directory (CIFS, 9p, shared folders of a
    /// virtual machine). A power cut may then remove whole files of the store, whatever durability
    /// a write requested. A crash of the process removes nothing. Default false: such an opening
    /// fails.
    pub unsynced_dirs: bool,
    /// Receiver of events: flushes, compactions, stalls, failures and others. It works with or
    /// without the event log. It needs a thread of its own, whatever `background_threads` is. On
    /// systems without threads (`wasm32-wasip1`) opening fails with an error of kind `Io` that says
    /// "cannot start the thread" `firn-listener`. Default: none.
    pub listener: Option<Arc<dyn Listener>>,
    #[doc(hidden)]
    pub _non_exhaustive: (),
}

impl Default for DbOptions {
    fn default() -> Self {
        DbOptions {
            memory_budget: 256 << 20,
            shared: None,
            open_files: None,
            background_threads: if cfg!(target_family = "wasm") { 0 } else { 2 },
            background_rate: None,
            read_compaction_percent: 100,
            durability: Durability::Process,
            read_mode: ReadMode::Auto,
            wal_segment: 64 << 20,
            create: true,
            read_only: false,
            event_log: true,
            accept_log_loss: false,
            file_mode: 0o600,
            unsynced_dirs: false,
            listener: None,
            _non_exhaustive: (),
        }
    }
}

/// Checks that a rate of background work is within its bounds.
pub(crate) fn check_rate(rate: Option<u64>) -> Result<()> {
    rate.map_or(Ok(()), |r| within("background_rate", r, 64 << 10, u64::MAX))
}

impl DbOptions {
    /// Returns the bytes of log that an unflushed memtable may retain before it is flushed although
    /// it is not full. This is the memory budget, because memtables of trees with steady writes
    /// need less. It is at least four segments, because the log is released in whole segments.
    pub(crate) fn log_limit(&self) -> u64 {
        (self.memory_budget as u64).max(self.wal_segment.saturating_mul(4))
    }

    /// Checks that every value is within its bounds.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument), naming the option and its bounds.
    pub fn check(&self) -> Result<()> {
        let budget = self.shared.as_ref().map_or(self.memory_budget, MemoryBudget::bytes);
        within("memory_budget", budget, 1 << 20, usize::MAX)?;
        within("open_files", self.open_files.as_ref().map_or(1, OpenFiles::limit), 1, u64::MAX)?;
        within("background_threads", self.background_threads, 0, 64)?;
        check_rate(self.background_rate)?;
        within("read_compaction_percent", self.read_compaction_percent, 0, 1_000_000)?;
        within("wal_segment", self.wal_segment, 64 << 10, 1 << 30)?;
        if self.file_mode & !0o666 != 0 || self.file_mode & 0o600 != 0o600 {
            return Err(Error::invalid(format!(
                "file_mode is {:04o}; it must let the owner read and write, and nobody execute: 0600, 0640, 0660, 0644 …",
                self.file_mode
            )));
        }
        Ok(())
    }
}

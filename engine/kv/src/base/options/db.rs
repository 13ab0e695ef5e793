//! The options of a Db: they belong to a process, and are not persisted.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::tree::within;
use crate::base::error::{Error, Result};
use crate::base::events::Listener;
use crate::base::open_files::OpenFiles;

/// How far a write has got when the call returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// The bytes are the operating system's: they survive a crash of the process, not one of the
    /// machine.
    #[default]
    Process,
    /// The bytes are on the device: they survive a power cut. Concurrent writers share one sync.
    Power,
}

/// How table files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReadMode {
    /// The engine chooses (the default). Compressed blocks are read with `pread`, several at once
    /// by a walk. Blocks that are stored as they are are served from a shared map of the file while all
    /// tables together take at most half of the memory that the process may use, and are read with
    /// `pread` when they take more.
    #[default]
    Auto,
    /// Through a shared map of the file: no copy, no syscall, so gets of what the system has in memory
    /// and the cache has not take up to a third less time. A block that is in neither costs a device
    /// read for each of its pages, and a failing device ends the process with a signal.
    Mmap,
    /// With `pread`: a failing device is an error.
    Pread,
}

/// Memory that several Dbs of a process have together: one block cache, and one bound for the
/// memtables of all of them.
///
/// A Db that needs memory flushes what it has beyond an equal share, and asks those that have more
/// than theirs for it. One without background threads gives it at its next write.
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
    /// What floor 4 makes of it when the first Db is opened.
    inside: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl MemoryBudget {
    /// Of so many bytes, at least 1 MiB, which is checked when a Db is opened.
    pub fn new(bytes: usize) -> MemoryBudget {
        MemoryBudget(Arc::new(Pot { bytes, inside: OnceLock::new() }))
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// What all that share it have in common, made by whoever is first.
    pub(crate) fn inside<T: Any + Send + Sync>(&self, make: impl FnOnce(usize) -> T) -> Arc<T> {
        let inside = self.0.inside.get_or_init(|| Arc::new(make(self.0.bytes))).clone();
        inside.downcast().unwrap_or_else(|_| unreachable!("one type is made of it"))
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryBudget").field(&self.0.bytes).finish()
    }
}

/// What belongs to a process that opens a Db.
#[derive(Clone, Debug)]
pub struct DbOptions {
    /// One number for memtables, block cache, pinned indexes and filters, and compaction buffers,
    /// in bytes: at least 1 MiB. Default 256 MiB. Trees take 2.5 KiB each by themselves, which is
    /// counted up to half of it. Of the rest the memtables of all trees that take writes may have
    /// three eighths together, those that wait for their flush as much again; what is more is
    /// flushed, or waited for.
    ///
    /// A flush or a merge takes some 33 bytes for each key of the table that it is making, for its
    /// filter: 40 MB where a table of 64 MiB has 1.2 million keys. The cache makes room for that, down
    /// to an eighth of the budget; with small entries and a budget below 256 MiB choose a smaller
    /// [`table_size`](crate::TreeOptions::table_size). What the allocator keeps of memory that was
    /// given back to it comes on top.
    ///
    /// A tree that has unflushed writes takes a page of 4 KiB at least, and each of its tables 3
    /// KiB, however small. So for trees that are all written 20 KiB each is the least that makes
    /// sense: 200 MiB for 10,000. With less the budget is exceeded instead of flushing tables of a
    /// put or two: memory is 7 KiB a tree and its tables, and up to five eighths of what the budget
    /// has beyond 2.5 KiB a tree for memtables that hold more than a page or wait for their flush,
    /// and an eighth for the cache.
    ///
    /// A batch is in memory as a whole while it is written: its encoded bytes, and some four times
    /// as much in memtables if its operations are small (30 to 120 bytes beside key and value for
    /// each). Batches above an eighth of the budget exceed it for that time. An opening that reads
    /// such a batch from the log holds its encoded bytes, and flushes its operations in parts.
    pub memory_budget: usize,
    /// Memory that this Db shares with others, in place of a `memory_budget` of its own, which then
    /// only says how much log is kept. Default none.
    pub shared: Option<MemoryBudget>,
    /// How many files of tables this Db, and those with which it shares the bound, have open at
    /// once. Default none: the process's bound, which all Dbs share that name none.
    pub open_files: Option<OpenFiles>,
    /// Background threads for flushes and compactions: 0 to 64. With 0 the writing thread does that
    /// work itself, so that one history gives one directory, byte for byte. With several a large
    /// merge, or a flush that writers wait for, is done in so many pieces at once at most, by threads
    /// that come for it: all jobs together have one less than this of them. Default 2; 0 on
    /// WebAssembly, which has no threads.
    pub background_threads: usize,
    /// What compactions may read and write together, in bytes a second: at least 64 KiB. Default
    /// none: as much as they can. Held over each second to within a step of a merge, which is 1,024
    /// entries that it reads or 256 KiB that it writes, whichever comes first. Flushes are not
    /// limited, because writers wait for them; where merges fall behind for it, runs pile up and
    /// writers are slowed down. With `background_threads: 0` the writer who does the work waits.
    /// [`Db::set_background_rate`](crate::Db::set_background_rate) changes it.
    pub background_rate: Option<u64>,
    /// What compactions may write for the sake of those who read ranges, in percent of what is there
    /// when the store is opened and of what is flushed later: 0 to 1,000,000. Default 100. Where a
    /// policy is content with several runs, seeks and walks pay for each of them; when that comes to
    /// a quarter of what a merge costs, and nothing else is to be done, the runs become one. 0 leaves
    /// a tree as its policy has it. Nothing is merged for readers with `background_threads: 0`.
    pub reader_merges: u32,
    /// Durability of writes that do not name their own.
    pub durability: Durability,
    /// How table files are read.
    pub read_mode: ReadMode,
    /// Size of a WAL segment in bytes: 64 KiB to 1 GiB. Default 64 MiB. The log as a whole stays
    /// below about the memory budget or four segments, whichever is more, and what is being
    /// flushed: trees whose unflushed writes are older than that are flushed.
    pub wal_segment: u64,
    /// Whether a Db is created where there is none. Default true.
    pub create: bool,
    /// Opens without the lock and without writing anything, beside a writer too. Default false.
    /// What the log holds is kept in memory then, as far as it is in no table, whatever the memory
    /// budget is.
    pub read_only: bool,
    /// Whether flushes, compactions and stalls are written to `EVENTS.jsonl` in the Db's directory.
    /// Default true.
    pub event_log: bool,
    /// Open for writing although damage to the log, proven to be no trace of a crash, has cut off
    /// writes that were acknowledged: they are lost for good then. Default false: such an opening
    /// is refused as `Corruption`, and `sstable-dump salvage` can still save them. An opening for
    /// reading only goes on without them ([`Db::torn_log`](crate::Db::torn_log)).
    pub accept_log_loss: bool,
    /// Permission bits of new files, on systems that have such: 0o600 to 0o666. Default 0o600, the
    /// store's user alone. New directories may also be entered by those who may read or write files.
    /// The process's umask takes bits away as always, and files that are there keep theirs.
    pub file_mode: u32,
    /// Open on a file system that cannot sync a directory (CIFS, 9p, folders that a virtual machine
    /// shares). A power cut may then take whole files of the store, whatever durability a write asked
    /// for; a crash of the process takes nothing. Default false: such an opening is refused.
    pub unsynced_dirs: bool,
    /// Is told what happens: flushes, compactions, stalls, failures and so on, beside the event log
    /// or without it. It costs a thread, whatever `background_threads` says: where the system has
    /// none (`wasm32-wasip1`), opening fails with an error of kind `Io` that says "cannot start the
    /// thread" `firn-listener`. Default none.
    pub listener: Option<Arc<dyn Listener>>,
}

impl Default for DbOptions {
    fn default() -> Self {
        DbOptions {
            memory_budget: 256 << 20,
            shared: None,
            open_files: None,
            background_threads: if cfg!(target_family = "wasm") { 0 } else { 2 },
            background_rate: None,
            reader_merges: 100,
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
        }
    }
}

/// Whether a rate of background work lies within its bounds.
pub(crate) fn check_rate(rate: Option<u64>) -> Result<()> {
    rate.map_or(Ok(()), |r| within("background_rate", r, 64 << 10, u64::MAX))
}

impl DbOptions {
    /// How much log a memtable may need before it is flushed though it isn't full, bytes: the
    /// memory budget, as the memtables of trees that are written all the time need less; four
    /// segments at least, as whole segments are given up.
    pub(crate) fn log_limit(&self) -> u64 {
        (self.memory_budget as u64).max(self.wal_segment.saturating_mul(4))
    }

    /// Whether every value lies within its bounds.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument), naming the option and its bounds.
    pub fn check(&self) -> Result<()> {
        let budget = self.shared.as_ref().map_or(self.memory_budget, MemoryBudget::bytes);
        within("memory_budget", budget, 1 << 20, usize::MAX)?;
        within("open_files", self.open_files.as_ref().map_or(1, OpenFiles::most), 1, u64::MAX)?;
        within("background_threads", self.background_threads, 0, 64)?;
        check_rate(self.background_rate)?;
        within("reader_merges", self.reader_merges, 0, 1_000_000)?;
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

//! The options of a tree: they are persisted in the manifest, and checked at open.

use std::fmt;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hooks::{FilterPrefix, Merge, Purge, Summary};
use crate::base::key::MAX_VALUE_LEN;
use crate::compaction::policy::{Policy, PolicyError};

/// What a build says that cannot read what another one has written, or is asked to write.
pub(crate) const NO_ZSTD: &str =
    "compression zstd, which this build does not have: it takes the feature `zstd` of firn-kv";

/// That there is no memory for zstd's own work.
pub(crate) const NO_MEMORY: &str = "there is no memory for zstd";

/// How the blocks of a table are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compression {
    /// As they are; they may be served straight from a map of the file
    /// ([`ReadMode`](super::ReadMode)).
    None = 0,
    /// LZ4 block format. A block that does not shrink by an eighth is stored as it is.
    #[default]
    Lz4 = 1,
    /// Zstandard, at its level 3: a third smaller than LZ4, a third as fast to decode, and slower
    /// still to compress. For levels that hold most of the data and are seldom read. Only with the
    /// crate's feature `zstd`: a build without it refuses such options and such tables with
    /// [`Incompatible`](crate::ErrorKind::Incompatible). Blocks are stored as LZ4 has them where
    /// that is right.
    Zstd = 2,
}

impl Compression {
    /// All of them.
    pub const ALL: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

    /// Its name: `none`, `lz4`, `zstd`.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    /// Whether this build of the crate has it.
    pub fn is_available(self) -> bool {
        self != Compression::Zstd || cfg!(feature = "zstd")
    }

    /// The one that this byte stands for in files.
    pub(crate) fn from_u8(byte: u8) -> Option<Compression> {
        Compression::ALL.into_iter().find(|&c| c as u8 == byte)
    }
}

/// The filter of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FilterKind {
    /// No filter.
    None = 0,
    /// Binary fuse, 8-bit fingerprints: 9 bits a key, 0.39 % false positives.
    #[default]
    Fuse8 = 1,
    /// Binary fuse, 16-bit fingerprints: 18 bits a key, 0.0015 % false positives.
    Fuse16 = 2,
}

impl FilterKind {
    /// Bits of a fingerprint, 0, 8 or 16; 0 for no filter.
    #[inline]
    pub fn bits(self) -> u8 {
        self as u8 * 8
    }

    /// The kind with the shortest fingerprints of at least so many bits (at most 16), and how many
    /// of theirs are more than that.
    pub fn holding(bits: u8) -> (FilterKind, u8) {
        let kind = match bits {
            0 => FilterKind::None,
            1..=8 => FilterKind::Fuse8,
            _ => FilterKind::Fuse16,
        };
        (kind, kind.bits().saturating_sub(bits))
    }
}

/// How the memory of a tree's filters is shared out among its tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FilterAllocation {
    /// Each table has what [`TreeOptions::filter`] says of its level.
    #[default]
    ByLevel = 0,
    /// The runs share what [`TreeOptions::filter`] gives them together, so that a look for a key
    /// that is not there meets the fewest false positives: small runs get more bits for a key, the
    /// largest fewer, 1 to 16 each, or none. The idea is Monkey's (Dayan, Athanassoulis and Idreos,
    /// SIGMOD '17). A table keeps what it was written with, so a tree follows as it is merged.
    Monkey = 1,
}

impl From<PolicyError> for Error {
    fn from(e: PolicyError) -> Error {
        Error::invalid(e.to_string())
    }
}

/// What belongs to one tree and its files.
///
/// ```
/// use firn_kv::policy::LazyLeveled;
/// use firn_kv::{Compression, TreeOptions};
/// let options = TreeOptions {
///     compression: vec![Compression::None, Compression::Lz4], // flushed tables raw, merged ones LZ4
///     policy: LazyLeveled { ratio: 4 }.into(),
///     ..TreeOptions::default()
/// };
/// assert!(options.check().is_ok());
/// ```
#[derive(Clone)]
pub struct TreeOptions {
    /// Compression per level; the last one repeats. Default: LZ4 everywhere.
    pub compression: Vec<Compression>,
    /// Filter per level; the last one repeats. Default: [`FilterKind::Fuse8`] everywhere.
    pub filter: Vec<FilterKind>,
    /// How their memory is shared out. Default: [`FilterAllocation::ByLevel`].
    ///
    /// ```
    /// use firn_kv::{FilterAllocation, FilterKind, TreeOptions};
    /// let options = TreeOptions {
    ///     filter: vec![FilterKind::Fuse8], // 9 bits a key over all runs, and more in small ones
    ///     filter_allocation: FilterAllocation::Monkey,
    ///     ..TreeOptions::default()
    /// };
    /// assert!(options.check().is_ok());
    /// ```
    pub filter_allocation: FilterAllocation,
    /// Aim for the decoded size of a block in bytes, 512 to 65,536. Default 4,096 less the cache's
    /// header.
    pub block_size: usize,
    /// Aim for the size of a merged table file in bytes, at least 64 KiB. Default 64 MiB. Tables
    /// whose first and last key are long get at least eight times their length, because the
    /// manifest repeats these keys.
    pub table_size: u64,
    /// Memory that a memtable may fill before it is flushed, 64 KiB to 2 GiB. Default 64 MiB.
    pub memtable_size: usize,
    /// Values of so many bytes or more lie apart from their keys, in value files, which merges do
    /// not write again; 0 (the default) for none, else at least 16. Not in trees with a
    /// [`merge`](TreeOptions::merge), [`purge`](TreeOptions::purge) or
    /// [`summary`](TreeOptions::summary) hook, which look at values.
    ///
    /// The idea is WiscKey's (Lu and others, FAST '16): a long value is written once to the log and
    /// once to a value file. Reading a range of them then reads two files.
    pub blob_threshold: usize,
    /// Percent of a tree's value files that may be of values that no table refers to any more, 1 to
    /// 90; merges win the rest back. Default 30.
    pub blob_gc_percent: u8,
    /// When to compact what.
    pub policy: Policy,
    /// Longest time in seconds that a delete may stay without having been merged down; 0 for no
    /// bound (the default). `TimeWindow` keeps it within a window only, `Fifo` not at all. What a
    /// snapshot needs stays until it goes. What a [`Purge`] hook keeps is tried again, each time after
    /// as long again as it has been overdue, and at the earliest after a quarter of the bound.
    pub tombstone_age_secs: u64,
    /// Folds versions.
    pub merge: Option<Arc<dyn Merge>>,
    /// Drops what nobody can miss.
    pub purge: Option<Arc<dyn Purge>>,
    /// Facts per table.
    pub summary: Option<Arc<dyn Summary>>,
    /// Filters hold key prefixes instead of whole keys.
    pub filter_prefix: Option<Arc<dyn FilterPrefix>>,
}

/// The default of [`TreeOptions::block_size`]: with its header a decoded block fills one 4 KiB
/// frame of the cache.
pub const DEFAULT_BLOCK_SIZE: usize = 4096 - 64;

impl Default for TreeOptions {
    fn default() -> Self {
        TreeOptions {
            compression: vec![Compression::Lz4],
            filter: vec![FilterKind::Fuse8],
            filter_allocation: FilterAllocation::ByLevel,
            block_size: DEFAULT_BLOCK_SIZE,
            table_size: 64 << 20,
            memtable_size: 64 << 20,
            blob_threshold: 0,
            blob_gc_percent: 30,
            policy: Policy::default(),
            tombstone_age_secs: 0,
            merge: None,
            purge: None,
            summary: None,
            filter_prefix: None,
        }
    }
}

impl fmt::Debug for TreeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeOptions")
            .field("compression", &self.compression)
            .field("filter", &self.filter)
            .field("filter_allocation", &self.filter_allocation)
            .field("block_size", &self.block_size)
            .field("table_size", &self.table_size)
            .field("memtable_size", &self.memtable_size)
            .field("blob_threshold", &self.blob_threshold)
            .field("blob_gc_percent", &self.blob_gc_percent)
            .field("policy", &self.policy)
            .field("tombstone_age_secs", &self.tombstone_age_secs)
            .field("merge", &self.merge.as_ref().map(|h| h.name().to_owned()))
            .field("purge", &self.purge.as_ref().map(|h| h.name().to_owned()))
            .field("summary", &self.summary.as_ref().map(|h| h.name().to_owned()))
            .field("filter_prefix", &self.filter_prefix.as_ref().map(|h| h.name().to_owned()))
            .finish()
    }
}

/// An error when a value is out of bounds.
pub(super) fn within<T: PartialOrd + fmt::Display>(name: &str, v: T, lo: T, hi: T) -> Result<()> {
    if v >= lo && v <= hi {
        Ok(())
    } else {
        Err(Error::invalid(format!("{name} is {v}; it must be {lo} to {hi}")))
    }
}

impl TreeOptions {
    /// The compression of tables at `level`.
    pub fn compression_at(&self, level: usize) -> Compression {
        self.compression.get(level).or(self.compression.last()).copied().unwrap_or_default()
    }

    /// How long a value is, in bytes, that goes to a value file; `usize::MAX` where none does.
    pub fn blob_from(&self) -> usize {
        let looked_at = self.merge.is_some() || self.purge.is_some() || self.summary.is_some();
        if self.blob_threshold == 0 || looked_at { usize::MAX } else { self.blob_threshold }
    }

    /// The filter of tables at `level`.
    pub fn filter_at(&self, level: usize) -> FilterKind {
        self.filter.get(level).or(self.filter.last()).copied().unwrap_or_default()
    }

    /// Whether every value lies within its bounds.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument), naming the option and its bounds.
    pub fn check(&self) -> Result<()> {
        within("the number of compression levels", self.compression.len(), 1, 64)?;
        within("the number of filter levels", self.filter.len(), 1, 64)?;
        within("block_size", self.block_size, 512, 65_536)?;
        within("table_size", self.table_size, 64 << 10, 1 << 40)?;
        within("memtable_size", self.memtable_size, 64 << 10, 2 << 30)?;
        if self.blob_threshold > 0 {
            within("blob_threshold", self.blob_threshold, 16, MAX_VALUE_LEN)?;
        }
        within("blob_gc_percent", self.blob_gc_percent, 1, 90)?;
        if !self.compression.iter().all(|c| c.is_available()) {
            return Err(Error::new(ErrorKind::Incompatible, NO_ZSTD));
        }
        Ok(self.policy.check()?)
    }
}

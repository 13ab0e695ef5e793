//! Options of a tree. They are persisted in the manifest, and checked when the tree is opened.

use std::fmt;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hooks::{CompactionFilter, FilterPrefix, MergeOperator, Summary};
use crate::base::key::MAX_VALUE_LEN;
use crate::compaction::ActivePolicy;
use crate::compaction::policy::{CustomPolicy, Policy, PolicyError};

/// Error text of a build without zstd that must read or write zstd blocks.
pub(crate) const NO_ZSTD: &str =
    "compression zstd, which this build does not have: it takes the feature `zstd` of firn-kv";

/// Error text for an allocation failure of zstd.
pub(crate) const NO_MEMORY: &str = "there is no memory for zstd";

/// Compression of the blocks of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Compression {
    /// No compression. Blocks may be served straight from a map of the file
    /// ([`ReadMode`](crate::base::options::ReadMode)).
    None = 0,
    /// LZ4 block format. A block that does not shrink by an eighth is stored uncompressed.
    #[default]
    Lz4 = 1,
    /// Zstandard at level 3. It is a third smaller than LZ4, decodes at a third of the speed, and
    /// compresses even more slowly. Use it for levels that hold most of the data and are seldom
    /// read. It needs the crate's feature `zstd`: a build without it refuses such options and such
    /// tables with [`Incompatible`](crate::ErrorKind::Incompatible). A block that shrinks by more
    /// than a factor of 255 is stored as LZ4.
    Zstd = 2,
}

impl Compression {
    /// All compressions.
    pub const ALL: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

    /// Returns the name: `none`, `lz4` or `zstd`.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    /// Reports whether this build of the crate supports the compression.
    pub fn is_available(self) -> bool {
        self != Compression::Zstd || cfg!(feature = "zstd")
    }

    /// Decodes the byte that files store.
    pub(crate) fn from_u8(byte: u8) -> Option<Compression> {
        Compression::ALL.into_iter().find(|&c| c as u8 == byte)
    }
}

/// Type of a table's filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum FilterKind {
    /// No filter.
    None = 0,
    /// Binary fuse filter with 8-bit fingerprints: 9 bits a key, 0.39 % false positives.
    #[default]
    Fuse8 = 1,
    /// Binary fuse filter with 16-bit fingerprints: 18 bits a key, 0.0015 % false positives.
    Fuse16 = 2,
}

impl FilterKind {
    /// Returns the bits of a fingerprint: 8, 16, or 0 for no filter.
    #[inline]
    pub fn bits(self) -> u8 {
        self as u8 * 8
    }

    /// Returns the kind with the shortest fingerprints of at least `bits` bits (at most 16), and
    /// the number of surplus bits.
    #[doc(hidden)]
    pub fn holding(bits: u8) -> (FilterKind, u8) {
        let kind = match bits {
            0 => FilterKind::None,
            1..=8 => FilterKind::Fuse8,
            _ => FilterKind::Fuse16,
        };
        (kind, kind.bits().saturating_sub(bits))
    }
}

/// Allocation of the filter memory of a tree among its tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum FilterAllocation {
    /// Each table has the filter that [`TreeOptions::filter`] sets for its level.
    #[default]
    ByLevel = 0,
    /// The runs share the total that [`TreeOptions::filter`] gives them, so that a lookup of a
    /// missing key meets the fewest false positives. Small runs get more bits a key and the largest
    /// run fewer: 1 to 16 each, or none. The idea is Monkey's (Dayan, Athanassoulis and Idreos,
    /// SIGMOD '17). A table keeps the filter that it was written with, so a tree adapts as it is
    /// compacted.
    Monkey = 1,
}

impl From<PolicyError> for Error {
    fn from(e: PolicyError) -> Error {
        Error::invalid(e.to_string())
    }
}

/// Options of one tree and its files.
///
/// Releases may add options. Write `..TreeOptions::default()` after those that you set, or assign
/// to the fields of a default.
///
/// ```
/// use firn_kv::policy::LazyLeveled;
/// use firn_kv::{Compression, TreeOptions};
/// let options = TreeOptions {
///     compression: vec![Compression::None, Compression::Lz4], // flushed tables raw, merged ones LZ4
///     policy: LazyLeveled { ratio: 4, ..LazyLeveled::default() }.into(),
///     ..TreeOptions::default()
/// };
/// assert!(options.check().is_ok());
/// ```
#[derive(Clone)]
pub struct TreeOptions {
    /// Compression for each level; the last one repeats. Default: LZ4 everywhere.
    pub compression: Vec<Compression>,
    /// Filter for each level; the last one repeats. Default: [`FilterKind::Fuse8`] everywhere.
    pub filter: Vec<FilterKind>,
    /// Allocation of the filter memory among tables. Default: [`FilterAllocation::ByLevel`].
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
    /// Target size of a decoded block in bytes, 512 to 65,536. Default: 4,096 less the header of
    /// the block cache.
    pub block_size: usize,
    /// Target size in bytes of a table file written by a compaction. At least 64 KiB; default 64
    /// MiB. Tables with a long first and last key get at least eight times the length of these
    /// keys, because the manifest repeats them.
    pub table_size: u64,
    /// Size of a memtable in bytes at which it is flushed, 64 KiB to 2 GiB. Default 64 MiB.
    pub memtable_size: usize,
    /// Size in bytes from which values are stored in blob files, separate from their keys.
    /// Compactions do not rewrite blobs. 0 (the default) disables blob files; otherwise at least
    /// 16. Ignored in trees with a [`merge_operator`](TreeOptions::merge_operator),
    ///     [`compaction_filter`](TreeOptions::compaction_filter) or
    /// [`summary`](TreeOptions::summary) hook, because these read values.
    ///
    /// The idea is WiscKey's (Lu and others, FAST '16): a long value is written once to the log and
    /// once to a blob file. A range read of such values then reads two files.
    pub blob_threshold: usize,
    /// Limit on the garbage in a tree's blob files, 1 to 90 percent. Garbage is blobs that no table
    /// refers to any more. Compactions reclaim the excess. Default 30.
    pub blob_gc_percent: u8,
    /// Compaction policy.
    pub policy: Policy,
    /// Compaction policy outside the engine, which decides instead of [`policy`]. Default: none.
    ///
    /// The manifest does not store it. `policy` decides if a program opens the tree without it, or
    /// if it fails ([`CustomPolicy::failure`]). On an open tree, [`Db::tree`] without it changes
    /// nothing, and [`Tree::set_options`] without it removes it.
    ///
    /// [`policy`]: TreeOptions::policy
    /// [`Db::tree`]: crate::Db::tree
    /// [`Tree::set_options`]: crate::Tree::set_options
    pub custom_policy: Option<CustomPolicy>,
    /// Maximum age of a tombstone in seconds before it must be compacted to the bottom level. 0
    /// (the default) sets no limit. `TimeWindow` observes it within a window only, `Fifo` not at
    /// all. A tombstone that a snapshot needs stays until the snapshot is released. If a
    /// [`CompactionFilter`] hook retains a tombstone, the compaction is retried when its overdue
    /// time has doubled. The wait is at least a quarter of the limit.
    pub tombstone_age_secs: u64,
    /// Merge operator. Folds the versions of a key.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// Compaction filter. Drops entries that no reader needs.
    pub compaction_filter: Option<Arc<dyn CompactionFilter>>,
    /// Summary hook. Collects facts about each table.
    pub summary: Option<Arc<dyn Summary>>,
    /// Prefix extractor. Filters hold key prefixes instead of whole keys.
    pub filter_prefix: Option<Arc<dyn FilterPrefix>>,
    #[doc(hidden)]
    pub _non_exhaustive: (),
}

/// Default of [`TreeOptions::block_size`] in bytes. With its header, a decoded block fills one 4
/// KiB frame of the cache.
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
            custom_policy: None,
            tombstone_age_secs: 0,
            merge_operator: None,
            compaction_filter: None,
            summary: None,
            filter_prefix: None,
            _non_exhaustive: (),
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
            .field("custom_policy", &self.custom_policy)
            .field("tombstone_age_secs", &self.tombstone_age_secs)
            .field("merge_operator", &self.merge_operator.as_ref().map(|h| h.name().to_owned()))
            .field(
                "compaction_filter",
                &self.compaction_filter.as_ref().map(|h| h.name().to_owned()),
            )
            .field("summary", &self.summary.as_ref().map(|h| h.name().to_owned()))
            .field("filter_prefix", &self.filter_prefix.as_ref().map(|h| h.name().to_owned()))
            .finish()
    }
}

/// Returns an error if a value is out of bounds.
pub(super) fn within<T: PartialOrd + fmt::Display>(name: &str, v: T, lo: T, hi: T) -> Result<()> {
    if v >= lo && v <= hi {
        Ok(())
    } else {
        Err(Error::invalid(format!("{name} is {v}; it must be {lo} to {hi}")))
    }
}

impl TreeOptions {
    /// Returns the policy that decides: the custom one, or else the stored one.
    #[doc(hidden)]
    pub fn active_policy(&self) -> ActivePolicy<'_> {
        ActivePolicy::new(&self.policy, self.custom_policy.as_ref())
    }

    /// Returns the compression of tables at `level`.
    #[doc(hidden)]
    pub fn compression_at(&self, level: usize) -> Compression {
        self.compression.get(level).or(self.compression.last()).copied().unwrap_or_default()
    }

    /// Returns the size in bytes from which values go to blob files; `usize::MAX` if none do.
    #[doc(hidden)]
    pub fn blob_from(&self) -> usize {
        let looked_at = self.merge_operator.is_some()
            || self.compaction_filter.is_some()
            || self.summary.is_some();
        if self.blob_threshold == 0 || looked_at { usize::MAX } else { self.blob_threshold }
    }

    /// Returns the filter of tables at `level`.
    #[doc(hidden)]
    pub fn filter_at(&self, level: usize) -> FilterKind {
        self.filter.get(level).or(self.filter.last()).copied().unwrap_or_default()
    }

    /// Checks that every value is within its bounds.
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

//! Options of scans.

use firn_transfer::arrow::ArrowForms;

/// Upper limit of the bytes of a batch: offsets of Arrow's text have 31 bits, and a value of a tree
/// has up to 256 MiB.
const MAX_BATCH_BYTES: usize = 1 << 30;

/// Options of the scans of a catalog's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqlScanOptions {
    /// Digits after the point of decimals, which then are numbers (`decimal128`), as varints are. A
    /// value with more digits fails the query. `None`, the default: decimals and varints are text,
    /// which is exact.
    pub decimal_scale: Option<i8>,
    /// Maximum bytes of a batch. A batch ends at a quarter of it, so this bounds the bytes of a row
    /// as well. The default is 64 MiB, and the upper limit 1 GiB.
    pub max_batch_bytes: usize,
    /// Minimum bytes of files for a further partition of a scan, which DataFusion scans in parallel,
    /// up to its `target_partitions`. The default is 1 MiB.
    pub min_partition_bytes: u64,
}

impl Default for SqlScanOptions {
    fn default() -> SqlScanOptions {
        SqlScanOptions {
            decimal_scale: None,
            max_batch_bytes: 64 << 20,
            min_partition_bytes: 1 << 20,
        }
    }
}

impl SqlScanOptions {
    /// Returns the Arrow types of CQL's types without a single counterpart.
    pub(crate) fn forms(&self) -> ArrowForms {
        ArrowForms { decimal_scale: self.decimal_scale, text_durations: false }
    }

    /// Returns the maximum bytes of a batch.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.max_batch_bytes.min(MAX_BATCH_BYTES)
    }

    /// Returns the number of partitions for a scan of this many bytes.
    pub(crate) fn partitions(&self, bytes: u64, target: usize) -> usize {
        let wanted = bytes / self.min_partition_bytes.max(1);
        usize::try_from(wanted).unwrap_or(usize::MAX).clamp(1, target.max(1))
    }
}

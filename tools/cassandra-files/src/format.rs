//! Constants of readers and writers: names of parts, flags, types of bounds, and the epochs of
//! times (`FORMAT.md`).

use crate::rows::NodeDeletion;

/// Names of a table's parts.
pub(crate) const DATA: &str = "Data.db";
pub(crate) const STATISTICS: &str = "Statistics.db";
pub(crate) const COMPRESSION: &str = "CompressionInfo.db";
pub(crate) const CHECKSUMS: &str = "CRC.db";
pub(crate) const DIGEST: &str = "Digest.crc32";
pub(crate) const INDEX: &str = "Index.db";
pub(crate) const SUMMARY: &str = "Summary.db";
pub(crate) const FILTER: &str = "Filter.db";
pub(crate) const CONTENTS: &str = "TOC.txt";

/// Compression of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// Uncompressed.
    None,
    Lz4,
    Snappy,
    Deflate,
    Zstd,
}

impl Codec {
    /// The codecs with their class names.
    const NAMES: [(Codec, &str); 5] = [
        (Codec::Lz4, "LZ4Compressor"),
        (Codec::Snappy, "SnappyCompressor"),
        (Codec::Deflate, "DeflateCompressor"),
        (Codec::Zstd, "ZstdCompressor"),
        (Codec::None, "NoopCompressor"),
    ];

    /// Returns the codec of a class name, with or without package.
    pub(crate) fn named(class: &str) -> Option<Codec> {
        let last = class.rsplit('.').next();
        Codec::NAMES.iter().find(|n| last == Some(n.1)).map(|n| n.0)
    }

    /// Returns the class name.
    pub(crate) fn class(self) -> &'static str {
        Codec::NAMES.iter().find(|n| n.0 == self).map_or("", |n| n.1)
    }
}

/// Types of the parts of `Statistics.db`.
pub(crate) const VALIDATION: u32 = 0;
pub(crate) const COMPACTION: u32 = 1;
pub(crate) const MEASURES: u32 = 2;
pub(crate) const HEADER: u32 = 3;

/// Epoch of a file's minimum times: 22 September 2015, 0:00 UTC.
pub(crate) const EPOCH_SECONDS: i64 = 1_442_880_000;
pub(crate) const EPOCH_MICROS: i64 = EPOCH_SECONDS * 1_000_000;

/// Encoding of no deletion, before `oa`.
pub(crate) const NO_DELETION: NodeDeletion =
    NodeDeletion { timestamp: i64::MIN, local: i32::MAX as i64 };

/// Flags of a row or marker.
pub(crate) const END_OF_PARTITION: u8 = 0x01;
pub(crate) const IS_MARKER: u8 = 0x02;
pub(crate) const HAS_TIMESTAMP: u8 = 0x04;
pub(crate) const HAS_TTL: u8 = 0x08;
pub(crate) const HAS_DELETION: u8 = 0x10;
pub(crate) const HAS_ALL_COLUMNS: u8 = 0x20;
pub(crate) const HAS_COMPLEX_DELETION: u8 = 0x40;
pub(crate) const HAS_MORE_FLAGS: u8 = 0x80;
/// Flags of the second byte.
pub(crate) const IS_STATIC: u8 = 0x01;
/// A shadowable deletion of a view's row, which a newer row of the same key revokes. It is not
/// written since 3.11.
pub(crate) const IS_SHADOWABLE: u8 = 0x02;

/// Flags of a cell.
pub(crate) const CELL_DELETED: u8 = 0x01;
pub(crate) const CELL_EXPIRES: u8 = 0x02;
pub(crate) const CELL_EMPTY: u8 = 0x04;
pub(crate) const CELL_ROW_TIMESTAMP: u8 = 0x08;
pub(crate) const CELL_ROW_TTL: u8 = 0x10;

/// Number of columns from which on a row lists its columns by number.
pub(crate) const MANY_COLUMNS: usize = 64;

/// Reports whether a row with `count` of `of` columns lists the present ones instead of the missing
/// ones.
pub(crate) fn lists_present(count: usize, of: usize) -> bool {
    count < of / 2
}

/// Number of clustering values whose flags share a number, and their two-bit flags; the other value
/// means null.
pub(crate) const FLAGGED: usize = 32;
pub(crate) const VALUE_FOLLOWS: u64 = 0;
pub(crate) const VALUE_EMPTY: u64 = 1;
pub(crate) const VALUE_NULL: u64 = 2;

/// The code of a complete clustering in indexes, where a bound is possible, too.
pub(crate) const CLUSTERING: u8 = 4;

/// Codes of bounds. For each: whether the closed range, and the opened range, includes its prefix.
pub(crate) const BOUNDS: [(u8, Option<bool>, Option<bool>); 6] = [
    (0, Some(false), None),
    (1, None, Some(true)),
    (2, Some(false), Some(true)),
    (5, Some(true), Some(false)),
    (6, Some(true), None),
    (7, None, Some(false)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_are_found_by_their_classes() {
        for (codec, name) in Codec::NAMES {
            assert_eq!(
                (codec.class(), Codec::named(&format!("org.x.{name}"))),
                (name, Some(codec))
            );
        }
        assert_eq!(Codec::named("org.x.Other"), None);
    }
}

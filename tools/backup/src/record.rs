//! Record of a backup: lines of text. The first is `firn backup 1`, the second the [`BackupHead`]
//! as JSON. Then follows a [`TableCopy`] as JSON for each table, in order of numbers, and finally
//! `crc ` with eight lower-case hexadecimal digits, the CRC-32 of all lines before. Each line ends
//! with 0x0a.
//!
//! Spec: `format-spec/README.md`, "Backups".

use firn_kv::{Error, Result};
use serde::{Deserialize, Serialize};

const FIRST_LINE: &str = "firn backup 1";
const VERSION: u32 = 1;
/// Largest record to read: more than two million tables.
pub const MAX_RECORD: u64 = 512 << 20;

/// Header of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BackupHead {
    /// Name of the backup.
    pub id: String,
    /// Time of its creation, in microseconds since 1970.
    pub made_micros: u64,
    /// Id of its store ([`Db::identity`](firn_kv::Db::identity)), as 16 hexadecimal digits.
    pub store: String,
    /// Upper bound of the sequence numbers of its writes.
    pub seq: u64,
    /// Number of trees.
    pub trees: u64,
    /// Number of tables.
    pub tables: u64,
    /// Bytes of those tables.
    pub bytes: u64,
    /// Name of its manifest in the repository; the hash follows the last `-`.
    pub manifest: String,
    /// File number of the manifest in a store.
    pub manifest_number: u64,
    /// Length of the manifest in bytes.
    pub manifest_size: u64,
}

/// A table of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TableCopy {
    /// Its number in the store.
    pub number: u64,
    /// Its name in the repository; the hash follows the last `-`.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
}

/// Record of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupRecord {
    /// The header.
    pub head: BackupHead,
    /// The tables, in order of numbers.
    pub tables: Vec<TableCopy>,
}

impl BackupRecord {
    /// Encodes the record as text.
    ///
    /// # Errors
    /// Errors of the JSON encoder, which do not occur in practice.
    #[doc(hidden)]
    pub fn encode(&self) -> Result<String> {
        let line = |e: serde_json::Error| Error::invalid(format!("no record can be made: {e}"));
        let mut text = format!("{FIRST_LINE}\n");
        text += &serde_json::to_string(&self.head).map_err(line)?;
        text.push('\n');
        for table in &self.tables {
            text += &serde_json::to_string(table).map_err(line)?;
            text.push('\n');
        }
        let crc = crc32fast::hash(text.as_bytes());
        text += &format!("crc {crc:08x}\n");
        Ok(text)
    }

    /// Decodes and verifies the record of the backup `id`.
    ///
    /// # Errors
    /// `Corruption` for a damaged record, `Incompatible` for a newer version.
    #[doc(hidden)]
    pub fn decode(id: &str, bytes: &[u8]) -> Result<BackupRecord> {
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is no text"))?;
        let version = text.lines().next().and_then(|l| l.strip_prefix("firn backup "));
        if let Some(newer) = version.and_then(|v| v.parse::<u32>().ok()).filter(|v| *v > VERSION) {
            return Err(Error::newer("the record of a backup", newer, VERSION));
        }
        let end =
            text.len().checked_sub("crc 00000000\n".len()).ok_or_else(|| damaged("too short"))?;
        let (lines, crc) = text.split_at_checked(end).ok_or_else(|| damaged("no checksum"))?;
        if crc != format!("crc {:08x}\n", crc32fast::hash(lines.as_bytes())) {
            return Err(damaged("its checksum is another one"));
        }
        let mut lines = lines.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err(damaged("it begins otherwise"));
        }
        let unfit = |e: serde_json::Error| damaged(&e.to_string());
        let head: BackupHead = serde_json::from_str(lines.next().unwrap_or("")).map_err(unfit)?;
        let tables: Vec<TableCopy> =
            lines.map(|l| serde_json::from_str(l).map_err(unfit)).collect::<Result<_>>()?;
        let bytes = tables.iter().try_fold(0u64, |sum, t| sum.checked_add(t.size));
        if head.id != id {
            return Err(damaged(&format!("it is of the backup {}", head.id)));
        }
        if (head.tables, Some(head.bytes)) != (tables.len() as u64, bytes) {
            return Err(damaged("its counts are others"));
        }
        if tables.windows(2).any(|w| w[0].number >= w[1].number) {
            return Err(damaged("its tables are not in order"));
        }
        let plain = |name: &String| !name.is_empty() && !name.contains(['/', '\\', '.']);
        if !tables.iter().map(|t| &t.name).chain([&head.manifest]).all(plain) {
            return Err(damaged("a name leads elsewhere"));
        }
        Ok(BackupRecord { head, tables })
    }
}

fn damaged(what: &str) -> Error {
    Error::corruption(format!(
        "the record of a backup is damaged ({what}): this backup can't be restored; copy the record from another copy of the repository, \
         or remove it to give the backup up"
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(tables: &[(u64, u64)]) -> BackupRecord {
        let tables: Vec<TableCopy> = tables
            .iter()
            .map(|&(number, size)| TableCopy { number, size, name: format!("t-{number}") })
            .collect();
        let head = BackupHead {
            id: "one".to_owned(),
            made_micros: 7,
            store: format!("{:016x}", 5),
            seq: 9,
            trees: 2,
            tables: tables.len() as u64,
            bytes: tables.iter().map(|t| t.size).sum(),
            manifest: "m".to_owned(),
            manifest_number: 1,
            manifest_size: 8,
        };
        BackupRecord { head, tables }
    }

    #[test]
    fn what_is_written_is_read_and_what_is_not_is_refused() {
        let good = record(&[(3, 10), (4, 20)]);
        let text = good.encode().unwrap();
        assert_eq!(BackupRecord::decode("one", text.as_bytes()).unwrap(), good);
        let refused = |id: &str, text: &str| BackupRecord::decode(id, text.as_bytes()).unwrap_err();
        assert!(refused("two", &text).to_string().contains("of the backup one"));
        assert!(refused("one", "firn backup 9\n").to_string().contains("use a newer build"));
        for (tables, what) in
            [(vec![(4, 1), (3, 1)], "in order"), (vec![(1, 1)], "leads elsewhere")]
        {
            let mut bad = record(&tables);
            if what == "leads elsewhere" {
                bad.tables[0].name = "../x".to_owned();
            }
            let e = refused("one", &bad.encode().unwrap());
            assert!(e.to_string().contains(what), "{e}");
        }
        let mut bad = record(&[(1, 1)]);
        bad.head.bytes = 2;
        assert!(refused("one", &bad.encode().unwrap()).to_string().contains("counts"));
    }

    proptest! {
        #[test]
        fn any_flipped_or_lost_byte_is_found(at in 0usize..400, bit in 0u8..8, cut: bool) {
            let mut bytes = record(&[(3, 10), (4, 20)]).encode().unwrap().into_bytes();
            let at = at % bytes.len();
            if cut { bytes.truncate(at) } else { bytes[at] ^= 1 << bit }
            prop_assert!(BackupRecord::decode("one", &bytes).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            prop_assert!(BackupRecord::decode("one", &bytes).is_err());
        }
    }
}

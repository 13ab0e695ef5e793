//! Damaged files: every changed byte is detected or harmless.

use std::collections::BTreeMap;
use std::io::{self, Cursor};
use std::path::PathBuf;

use proptest::prelude::*;

use crate::content::ContentReader;
use crate::trip::comes_back;
use crate::{FileVersion, NodeFault, NodeFaultKind, NodeFiles, NodeFolder, NodePart, NodeTable};

/// Files in memory.
#[derive(Clone)]
struct LoadedFiles {
    version: String,
    parts: BTreeMap<&'static str, Vec<u8>>,
}

impl NodeFiles for LoadedFiles {
    fn version(&self) -> &str {
        &self.version
    }

    fn path(&self, part: &str) -> PathBuf {
        part.into()
    }

    fn open(&self, part: &str) -> io::Result<Option<NodePart>> {
        Ok(self.parts.get(part).map(|bytes| NodePart {
            reader: Box::new(Cursor::new(bytes.clone())),
            len: bytes.len() as u64,
        }))
    }
}

const PARTS: [&str; 5] =
    ["Data.db", "Statistics.db", "CompressionInfo.db", "CRC.db", "Digest.crc32"];
const TABLES: [&str; 10] = [
    "me/collections/me-1-big",
    "nb/types/nb-1-big",
    "nb/collections/nb-1-big",
    "nb/ranges/nb-1-big",
    "nb/counters/nb-1-big",
    "nb/many/nb-1-big",
    "nb/chunks/nb-1-big",
    "oa/ranges/oa-2-big",
    "da/collections/da-1-bti",
    "da/ranges/da-1-bti",
];

fn held(table: &str) -> LoadedFiles {
    let file = format!("{}/tests/data/{table}-Data.db", env!("CARGO_MANIFEST_DIR"));
    let folder = NodeFolder::of(file.as_ref()).unwrap();
    let mut parts = BTreeMap::new();
    for part in PARTS {
        if let Some(mut found) = folder.open(part).unwrap() {
            let mut bytes = vec![];
            found.reader.read_to_end(&mut bytes).unwrap();
            parts.insert(part, bytes);
        }
    }
    LoadedFiles { version: folder.version().to_owned(), parts }
}

/// Returns the number of events.
fn read(files: &LoadedFiles) -> Result<usize, NodeFault> {
    let table = NodeTable::open(files)?;
    let mut reader = table.read(files)?;
    let mut events = 0;
    while reader.advance()?.is_some() {
        events += 1;
    }
    Ok(events)
}

/// Returns the same table as written without compression and checksums.
fn plain(table: &str) -> LoadedFiles {
    let mut files = held(table);
    let version = FileVersion::parse(&files.version).unwrap();
    let mut content = ContentReader::open(&files, version).unwrap();
    let len = content.len();
    let bytes = content.take(len, "all").unwrap().take(len as usize, "all").unwrap().to_vec();
    files.parts.retain(|part, _| *part == "Statistics.db");
    files.parts.insert("Data.db", bytes);
    files
}

#[test]
fn what_real_nodes_wrote_comes_back() {
    for table in TABLES {
        assert!(comes_back(&held(table)), "{table}");
    }
}

#[test]
fn another_byte_of_the_data_or_the_statistics_is_found() {
    for table in TABLES {
        let sound = held(table);
        let events = read(&sound).unwrap();
        assert!(events > 0);
        for part in ["Data.db", "Statistics.db"] {
            for at in 0..sound.parts[part].len() {
                let mut files = sound.clone();
                files.parts.get_mut(part).unwrap()[at] ^= 0x10;
                let done = read(&files);
                // Before 4.0 statistics have no checksums: any contents are possible.
                if part == "Statistics.db" && sound.version.as_str() < "na" {
                    continue;
                }
                let fault = done.expect_err(&format!("{table} {part} {at}"));
                assert_eq!(fault.kind(), NodeFaultKind::Damaged, "{table} {part} {at}: {fault}");
                assert_eq!(fault.file(), PathBuf::from(part));
            }
        }
    }
}

#[test]
fn a_file_that_was_cut_is_found() {
    for table in TABLES {
        for sound in [held(table), plain(table)] {
            for part in ["Data.db", "Statistics.db", "CompressionInfo.db"] {
                let len = sound.parts.get(part).map_or(0, Vec::len);
                // In uncompressed data without checksums, the end of a partition is a valid end of
                // the file.
                let few = (0..len).step_by(len / 97 + 1).filter(|n| *n > 0);
                for keep in few {
                    let mut files = sound.clone();
                    files.parts.get_mut(part).unwrap().truncate(keep);
                    let whole = part == "Data.db" && !files.parts.contains_key("Digest.crc32");
                    match read(&files) {
                        Ok(_) => assert!(whole, "{table} {part} {keep}"),
                        Err(fault) => assert_eq!(fault.kind(), NodeFaultKind::Damaged, "{fault}"),
                    }
                }
            }
        }
    }
}

#[test]
fn faults_name_file_and_place() {
    let mut files = held("nb/ranges/nb-1-big");
    files.parts.get_mut("Data.db").unwrap()[5] ^= 1;
    let said = read(&files).unwrap_err().to_string();
    assert_eq!(said, "Data.db, byte 0: the checksum of this chunk is another one");
    let mut files = plain("nb/ranges/nb-1-big");
    let data = files.parts.get_mut("Data.db").unwrap();
    data.truncate(data.len() - 1);
    let fault = read(&files).unwrap_err();
    let len = files.parts["Data.db"].len() as u64;
    assert_eq!(fault.offset(), Some(len));
    let said = format!(
        "Data.db, decompressed byte {len}: the flags of a row takes 1 bytes, and 0 are left"
    );
    assert_eq!(fault.to_string(), said);
    let mut files = held("nb/many/nb-1-big");
    files.parts.get_mut("Digest.crc32").unwrap()[0] ^= 1;
    assert!(read(&files).unwrap_err().to_string().contains("Digest.crc32 says"));
}

/// A compaction of 5.0.9 has left this at the end of a file.
#[test]
fn an_empty_chunk_at_the_end_is_no_damage() {
    let mut files = held("nb/types/nb-1-big");
    let events = read(&files).unwrap();
    let data = files.parts.get_mut("Data.db").unwrap();
    let end = data.len() as u64;
    data.extend([0, 0, 0, 0, 0, 0xc6, 0x22, 0xf7, 0x1d]);
    let digest = crc32fast::hash(data).to_string();
    let at = data.len() - 1;
    files.parts.insert("Digest.crc32", digest.into_bytes());
    let chunks = files.parts.get_mut("CompressionInfo.db").unwrap();
    let count = chunks.len() - 9;
    assert_eq!(chunks[count], 1);
    chunks[count] = 2;
    chunks.extend(end.to_be_bytes());
    assert_eq!(read(&files).unwrap(), events);
    files.parts.get_mut("Data.db").unwrap()[at] ^= 1;
    assert_eq!(read(&files).unwrap_err().offset(), Some(end));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    /// Even with correct checksums, any contents are read or refused, and so is writing.
    #[test]
    fn damage_under_sound_checksums_is_an_error(
        table in 0..TABLES.len(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        old in any::<bool>(),
        whole in any::<bool>(),
    ) {
        let mut files = if whole { held(TABLES[table]) } else { plain(TABLES[table]) };
        if old {
            // These versions have no checksums in their statistics.
            files.version = "me".to_owned();
        }
        let parts: Vec<&str> = files.parts.keys().copied().collect();
        for (index, byte) in flips {
            let part = parts[index.index(parts.len())];
            let bytes = files.parts.get_mut(part).unwrap();
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        comes_back(&files);
    }

    #[test]
    fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut files = plain("nb/collections/nb-1-big");
        files.parts.insert("Data.db", bytes);
        comes_back(&files);
    }
}

//! The files of a Cassandra table with arbitrary bytes: after the header of a real one, and without
//! a header.
#![no_main]

use std::io::{self, Cursor};
use std::path::PathBuf;

use firn_cassandra::{NodeFiles, NodePart, NodeTable};
use libfuzzer_sys::{arbitrary, fuzz_target};

/// A header with every type of column.
const HEADER: &[u8] =
    include_bytes!("../../tools/cassandra-files/tests/data/nb/collections/nb-1-big-Statistics.db");

#[derive(arbitrary::Arbitrary, Debug)]
struct NodeBytes {
    version: u8,
    statistics: Option<Vec<u8>>,
    compression: Option<Vec<u8>>,
    checksums: Option<Vec<u8>>,
    data: Vec<u8>,
}

impl NodeFiles for NodeBytes {
    fn version(&self) -> &str {
        ["nb", "me", "oa", "da"][usize::from(self.version % 4)]
    }

    fn path(&self, part: &str) -> PathBuf {
        part.into()
    }

    fn open(&self, part: &str) -> io::Result<Option<NodePart>> {
        let bytes = match part {
            "Data.db" => Some(self.data.clone()),
            "Statistics.db" => Some(self.statistics.clone().unwrap_or_else(|| HEADER.to_vec())),
            "CompressionInfo.db" => self.compression.clone(),
            "CRC.db" => self.checksums.clone(),
            _ => None,
        };
        Ok(bytes.map(|b| NodePart { len: b.len() as u64, reader: Box::new(Cursor::new(b)) }))
    }
}

fuzz_target!(|files: NodeBytes| {
    let Ok(table) = NodeTable::open(&files) else { return };
    let Ok(mut reader) = table.read(&files) else { return };
    while let Ok(Some(_)) = reader.advance() {
        assert!(reader.position() <= reader.data_length());
    }
});

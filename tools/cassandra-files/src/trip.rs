//! Written files are read back: files of real nodes, and random ones.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Cursor, Write};
use std::path::PathBuf;
use std::rc::Rc;

use proptest::prelude::*;

use crate::content::ContentReader;
use crate::cursor::ByteCursor;
use crate::format::{CONTENTS, FILTER, INDEX, STATISTICS, SUMMARY};
use crate::header::HeaderColumn;
use crate::rows::*;
use crate::{
    FileVersion, LeastTimes, MarshalClass, NodeFault, NodeFaultKind, NodeFiles, NodeFolder,
    NodeHeader, NodePart, NodePartWriter, NodeSink, NodeTable, NodeTableWriter, WriteOptions,
};

type Shared = Rc<RefCell<BTreeMap<String, Vec<u8>>>>;

/// Parts in memory, by name.
#[derive(Clone, Default)]
struct MemoryFiles {
    parts: Shared,
    /// Names of the finished parts, in order.
    ended: Rc<RefCell<Vec<String>>>,
}

struct MemoryPart(String, Vec<u8>, MemoryFiles);

impl Write for MemoryPart {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl NodePartWriter for MemoryPart {
    fn finish(self: Box<Self>) -> io::Result<()> {
        let MemoryPart(name, bytes, kept) = *self;
        kept.parts.borrow_mut().insert(name.clone(), bytes);
        kept.ended.borrow_mut().push(name);
        Ok(())
    }
}

impl NodeSink for MemoryFiles {
    fn part_path(&self, part: &str) -> PathBuf {
        part.into()
    }

    fn create(&self, part: &str) -> io::Result<Box<dyn NodePartWriter>> {
        Ok(Box::new(MemoryPart(part.to_owned(), vec![], self.clone())))
    }
}

impl NodeFiles for MemoryFiles {
    fn version(&self) -> &str {
        "nb"
    }

    fn path(&self, part: &str) -> PathBuf {
        part.into()
    }

    fn open(&self, part: &str) -> io::Result<Option<NodePart>> {
        let bytes = self.parts.borrow().get(part).cloned();
        Ok(bytes.map(|b| NodePart { len: b.len() as u64, reader: Box::new(Cursor::new(b)) }))
    }
}

fn options(compressed: bool) -> WriteOptions {
    let hash = |key: &[u8]| [u64::from(crc32fast::hash(key)), key.len() as u64];
    WriteOptions { compressed, filter_chance: 0.01, index_interval: 128, hash }
}

fn try_events(files: &dyn NodeFiles) -> Result<(NodeHeader, Vec<NodeEvent>), NodeFault> {
    let table = NodeTable::open(files)?;
    let mut reader = table.read(files)?;
    let mut all = vec![];
    while let Some(mut event) = reader.advance()? {
        match &mut event {
            NodeEvent::Partition(p) => p.position = 0,
            NodeEvent::Row(r) => r.position = 0,
            NodeEvent::Marker(m) => m.position = 0,
        }
        all.push(event);
    }
    Ok((table.header, all))
}

fn events(files: &dyn NodeFiles) -> (NodeHeader, Vec<NodeEvent>) {
    try_events(files).unwrap()
}

/// Writes the readable contents of these files and reads them back unchanged, or the writer
/// refuses. Returns whether it wrote them.
pub(crate) fn comes_back(files: &dyn NodeFiles) -> bool {
    let Ok((header, all)) = try_events(files) else { return false };
    let kept = MemoryFiles::default();
    let mut writer = NodeTableWriter::create(kept.clone(), header.clone(), options(true)).unwrap();
    let written = all.iter().try_for_each(|e| writer.event(e)).and_then(|()| writer.finish());
    match written {
        Ok(()) => assert_eq!(events(&kept), (header, all)),
        Err(ref e) => assert_eq!(e.kind(), NodeFaultKind::Unwritable),
    }
    written.is_ok()
}

fn write(header: &NodeHeader, all: &[NodeEvent], compressed: bool) -> MemoryFiles {
    let kept = MemoryFiles::default();
    let mut writer =
        NodeTableWriter::create(kept.clone(), header.clone(), options(compressed)).unwrap();
    all.iter().for_each(|e| writer.event(e).unwrap());
    writer.finish().unwrap();
    kept
}

fn content(files: &dyn NodeFiles) -> Vec<u8> {
    let version = FileVersion::parse("nb").unwrap();
    let mut reader = ContentReader::open(files, version).unwrap();
    let mut cursor = reader.take(reader.len(), "all").unwrap();
    cursor.take(cursor.left(), "all").unwrap().to_vec()
}

/// Returns the parts of `Statistics.db` by type.
fn statistics(files: &dyn NodeFiles) -> BTreeMap<u32, Vec<u8>> {
    let mut bytes = vec![];
    files.open(STATISTICS).unwrap().unwrap().reader.read_to_end(&mut bytes).unwrap();
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let places: Vec<(u32, usize)> =
        (0..4).map(|i| (word(8 + i * 8), word(12 + i * 8) as usize)).collect();
    let end = |i: usize| places.get(i + 1).map_or(bytes.len(), |p| p.1) - 4;
    places.iter().enumerate().map(|(i, p)| (p.0, bytes[p.1..end(i)].to_vec())).collect()
}

const TABLES: [&str; 11] = [
    "types/nb-1",
    "collections/nb-1",
    "ranges/nb-1",
    "ranges/nb-2",
    "counters/nb-1",
    "many/nb-1",
    "chunks/nb-1",
    "keys/nb-1",
    "paths/nb-1",
    "blocks/nb-1",
    "blocks/nb-2",
];

#[test]
fn the_content_is_byte_for_byte_that_of_the_node() {
    let mut indexes = 0;
    for table in TABLES {
        let file = format!("{}/tests/data/nb/{table}-big-Data.db", env!("CARGO_MANIFEST_DIR"));
        let real = NodeFolder::of(file.as_ref()).unwrap();
        let (header, all) = events(&real);
        for compressed in [true, false] {
            let ours = write(&header, &all, compressed);
            assert_eq!(events(&ours), (header.clone(), all.clone()), "{table}");
            assert_eq!(content(&ours), content(&real), "{table}");
            let (here, there) = (statistics(&ours), statistics(&real));
            // Partitioner and false-positive rate of the filter, and the header.
            assert_eq!((&here[&0], &here[&3]), (&there[&0], &there[&3]), "{table}");
            // Histograms of partition sizes and cell counts.
            let counts = 4 + 156 * 16 + 4 + 119 * 16;
            assert_eq!(here[&2][..counts], there[&2][..counts], "{table}");
            // After a position in a log of the node: the minimum and maximum times.
            let times = counts + 12..counts + 12 + 32;
            assert_eq!(here[&2][times.clone()], there[&2][times], "{table}");
            for part in [INDEX, SUMMARY] {
                // Some tables have them stored.
                if let Some(mut kept) = real.open(part).unwrap() {
                    let mut bytes = vec![];
                    kept.reader.read_to_end(&mut bytes).unwrap();
                    assert_eq!(ours.parts.borrow()[part], bytes, "{table} {part}");
                    indexes += 1;
                }
            }
        }
    }
    assert_eq!(indexes, 8);
}

/// A random table: numbers that select its features.
#[derive(Clone, Debug)]
struct Draw(Vec<u8>, usize);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.1 += 1;
        let at = |i: usize| usize::from(self.0[i % self.0.len()]);
        (at(self.1) + 7 * at(self.1 * 31 + 3)) % n
    }

    fn value(&mut self, class: &MarshalClass) -> Vec<u8> {
        let len =
            if self.below(4) == 0 { 0 } else { class.fixed_length().unwrap_or(self.below(9)) };
        vec![self.below(256) as u8; len]
    }

    fn timestamp(&mut self) -> i64 {
        [i64::MIN + 1, -5, 0, 1_700_000_000_000_000, i64::MAX][self.below(5)]
            - (self.below(2) as i64).min(1)
    }

    fn expiry(&mut self) -> NodeExpiry {
        NodeExpiry { ttl: 10 + self.below(1000) as u32, expires: self.second() }
    }

    fn second(&mut self) -> i64 {
        [10_000, 1_700_000_000, 2_147_483_646][self.below(3)] - self.below(60) as i64
    }

    fn deletion(&mut self) -> NodeDeletion {
        NodeDeletion { timestamp: self.timestamp().max(i64::MIN + 1), local: self.second() }
    }

    fn state(&mut self, class: &MarshalClass) -> NodeCellState {
        match self.below(3) {
            0 => NodeCellState::Live(self.value(class)),
            1 => NodeCellState::Expiring(self.value(class), self.expiry()),
            _ => NodeCellState::Deleted(self.second()),
        }
    }

    fn row(
        &mut self,
        header: &NodeHeader,
        clustering: Vec<Option<Vec<u8>>>,
        is_static: bool,
    ) -> NodeRow {
        let liveness = (!is_static && self.below(2) == 0).then(|| {
            let expiry = (self.below(3) == 0).then(|| self.expiry());
            NodeLiveness { timestamp: self.timestamp(), expiry }
        });
        let mut columns = vec![];
        for (column, of) in header.columns(is_static).iter().enumerate() {
            if self.below(3) == 0 {
                continue;
            }
            let many = of.class.is_multi_cell();
            let deletion = (many && self.below(3) == 0).then(|| self.deletion());
            let count = if many { self.below(4) } else { 1 };
            let cell = |draw: &mut Draw, i: usize| {
                let mut state = draw.state(&of.class);
                let mut timestamp = draw.timestamp();
                if let Some(l) = liveness.filter(|_| draw.below(2) == 0) {
                    timestamp = l.timestamp;
                    if let (NodeCellState::Expiring(_, e), Some(of_row)) = (&mut state, l.expiry) {
                        *e = of_row;
                    }
                }
                NodeCell { path: many.then(|| vec![i as u8; draw.below(3)]), timestamp, state }
            };
            let cells = (0..count).map(|i| cell(self, i)).collect();
            columns.push(NodeColumn { column, deletion, cells });
        }
        let deletion = (!is_static && self.below(4) == 0).then(|| self.deletion());
        // A static row without columns is the empty one of each partition.
        NodeRow { is_static, clustering, liveness, deletion, columns, position: 0 }
    }

    fn header(&mut self) -> NodeHeader {
        let classes = ["Int32Type", "UTF8Type", "ReversedType(LongType)", "UUIDType"];
        let cells = ["ListType(Int32Type)", "Int32Type", "UTF8Type", "MapType(UTF8Type,Int32Type)"];
        let class = |name: &str| MarshalClass::parse(name).unwrap();
        let clustering = (0..self.below(40)).map(|i| class(classes[i % 4])).collect();
        let mut columns = |most: usize| -> Vec<HeaderColumn> {
            let count = self.below(most);
            let name = |i: usize| format!("c{i}").into_bytes();
            (0..count).map(|i| HeaderColumn { name: name(i), class: class(cells[i % 4]) }).collect()
        };
        let (statics, regulars) = (columns(4), columns(90));
        let least =
            LeastTimes { timestamp: self.timestamp(), second: 40, ttl: self.below(10) as u32 };
        NodeHeader::new("p.P".into(), class("BytesType"), clustering, statics, regulars, least)
    }

    fn partition(&mut self, header: &NodeHeader, number: u16, out: &mut Vec<NodeEvent>) {
        let deletion = (self.below(4) == 0).then(|| self.deletion());
        let key = number.to_be_bytes().to_vec();
        out.push(NodeEvent::Partition(NodePartition { key, deletion, position: 0 }));
        let row = self.row(header, vec![], true);
        if !row.columns.is_empty() {
            out.push(NodeEvent::Row(row));
        }
        let mut open: Option<(NodeBound, NodeDeletion)> = None;
        for i in 0..self.below(12) {
            let clustering: Vec<_> =
                header.clustering.iter().map(|of| Some(self.value(of))).collect();
            if self.below(3) > 0 {
                out.push(NodeEvent::Row(self.row(header, clustering, false)));
                continue;
            }
            let count = self.below(clustering.len() + 1);
            let inclusive = i % 2 == 0;
            let bound =
                |inclusive| NodeBound { clustering: clustering[..count].to_vec(), inclusive };
            let close = open.take().map(|o| (bound(inclusive), o.1));
            let opens = close.is_none() || self.below(2) == 0;
            open = opens.then(|| (bound(!inclusive), self.deletion()));
            out.push(NodeEvent::Marker(NodeMarker { close, open: open.clone(), position: 0 }));
        }
        if let Some((_, d)) = open {
            let bound = NodeBound { clustering: vec![], inclusive: true };
            out.push(NodeEvent::Marker(NodeMarker {
                close: Some((bound, d)),
                open: None,
                position: 0,
            }));
        }
    }
}

/// Returns keys and offsets of the index, in order.
fn index(files: &MemoryFiles) -> Vec<(Vec<u8>, u64)> {
    let bytes = files.parts.borrow()[INDEX].clone();
    let mut c = ByteCursor::new(&bytes, 0);
    let mut all = vec![];
    while c.left() > 0 {
        let len = c.u16("key").unwrap();
        let key = c.take(len.into(), "key").unwrap().to_vec();
        all.push((key, c.vint("place").unwrap()));
        c.sized("blocks").unwrap();
    }
    all
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        draws in prop::collection::vec(any::<u8>(), 64..512), compressed in any::<bool>(), count in 1u16..20,
    ) {
        let mut draw = Draw(draws, 0);
        let header = draw.header();
        let mut all = vec![];
        (0..count).for_each(|number| draw.partition(&header, number, &mut all));
        let ours = write(&header, &all, compressed);
        let (read, found) = events(&ours);
        prop_assert_eq!(&read, &header);
        prop_assert_eq!(&found, &all);
        // The last part marks the table as complete.
        let last = ours.ended.borrow().last().cloned();
        prop_assert_eq!(last.as_deref(), Some(CONTENTS));
        let parts: String = ours.parts.borrow().keys().map(|p| format!("{p}\n")).collect();
        prop_assert_eq!(&parts.into_bytes(), &ours.parts.borrow()[CONTENTS]);
        let mut reader = NodeTable::open(&ours).unwrap().read(&ours).unwrap();
        let mut places = vec![];
        while let Some(event) = reader.advance().unwrap() {
            if let NodeEvent::Partition(p) = event {
                places.push((p.key, p.position));
            }
        }
        prop_assert_eq!(&index(&ours), &places);
        let filter = ours.parts.borrow()[FILTER].clone();
        let (bits, hashes) = (8 * (filter.len() as i64 - 8), i64::from(filter[3]));
        for (key, _) in places {
            let [first, second] = (options(compressed).hash)(&key).map(|h| h as i64);
            for i in 0..hashes {
                let bit = (second.wrapping_add(i * first) % bits).unsigned_abs() as usize;
                prop_assert!(filter[8 + bit / 8] & 1 << (bit % 8) != 0);
            }
        }
    }

    #[test]
    fn files_that_are_no_tables_are_refused_without_a_panic(
        draws in prop::collection::vec(any::<u8>(), 64..256), order in prop::collection::vec(0usize..200, 1..60),
    ) {
        let mut draw = Draw(draws, 0);
        let (header, other) = (draw.header(), draw.header());
        let mut all = vec![];
        (0..3).for_each(|number| draw.partition(&header, number, &mut all));
        (3..6).for_each(|number| draw.partition(&other, number, &mut all));
        let kept = MemoryFiles::default();
        let mut writer = NodeTableWriter::create(kept.clone(), header, options(false)).unwrap();
        for i in order {
            if let Err(e) = writer.event(&all[i % all.len()]) {
                prop_assert_eq!(e.kind(), NodeFaultKind::Unwritable);
                prop_assert!(!kept.parts.borrow().contains_key(CONTENTS));
                return Ok(());
            }
        }
        if writer.finish().is_ok() {
            events(&kept);
        }
    }
}

#[test]
fn a_large_partition_has_an_index_of_its_own() {
    let class = |name: &str| MarshalClass::parse(name).unwrap();
    let column = |name: &str, of: &str| HeaderColumn { name: name.into(), class: class(of) };
    let columns = vec![column("m", "ListType(Int32Type)"), column("v", "BytesType")];
    let clustering = vec![class("Int32Type")];
    let least = LeastTimes::default();
    let header =
        NodeHeader::new("p.P".into(), class("BytesType"), clustering, vec![], columns, least);
    // The column with one cell comes first.
    assert_eq!(header.regulars[0].name, b"v");
    let mut all = vec![];
    for rows in [3, 40] {
        let p = NodePartition { key: vec![rows], deletion: None, position: 0 };
        all.push(NodeEvent::Partition(p));
        for i in 0..rows {
            let state = NodeCellState::Live(vec![i; 8 << 10]);
            let cells = vec![NodeCell { path: None, timestamp: 1, state }];
            all.push(NodeEvent::Row(NodeRow {
                is_static: false,
                clustering: vec![Some(u32::from(i).to_be_bytes().to_vec())],
                liveness: None,
                deletion: None,
                columns: vec![NodeColumn { column: 0, deletion: None, cells }],
                position: 0,
            }));
        }
    }
    let ours = write(&header, &all, true);
    let bytes = ours.parts.borrow()[INDEX].clone();
    let mut c = ByteCursor::new(&bytes, 0);
    let mut blocks = vec![];
    while c.left() > 0 {
        c.take(3, "key").unwrap();
        c.vint("place").unwrap();
        let mut of_partition = ByteCursor::new(c.sized("blocks").unwrap(), 0);
        if of_partition.left() > 0 {
            let header = of_partition.vint("header").unwrap();
            assert_eq!(header, 2 + 1 + 12);
            of_partition.take(12, "deletion").unwrap();
            blocks.push(of_partition.vint("blocks").unwrap());
            let mut end = header;
            for _ in 0..blocks[0] {
                let bound = of_partition.take(2 * 6, "prefixes").unwrap();
                assert_eq!((bound[0], bound[6]), (4, 4));
                assert_eq!(of_partition.vint("start").unwrap(), end);
                let width = of_partition.vint("width").unwrap();
                end += ((width >> 1) as i64 ^ -((width & 1) as i64)).wrapping_add(64 << 10) as u64;
                assert_eq!(of_partition.u8("open").unwrap(), 0);
            }
            assert_eq!(of_partition.left() as u64, 4 * blocks[0]);
        }
    }
    assert_eq!(blocks, [5]);
}

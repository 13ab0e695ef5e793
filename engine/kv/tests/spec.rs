//! Checks that the engine writes and reads the worked example of `format-spec/README.md`.

use std::path::Path;
use std::sync::Arc;

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::internals::base::cursor::Cursor;
use firn_kv::internals::base::format_version::FormatVersion;
use firn_kv::internals::base::identity::TableIdentity;
use firn_kv::internals::base::key::{Kind, Trailer};
use firn_kv::internals::base::ops::{Op, OpReader, encode};
use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::manifest::{Edit, Manifest, ManifestState};
use firn_kv::internals::range_del::tombstone::{Fragments, RangeTombstone};
use firn_kv::internals::sstable::format::FOOTER;
use firn_kv::internals::sstable::{Table, TableWriter, WriterOptions};
use firn_kv::internals::util::coding::u32_at;
use firn_kv::internals::util::hash::key_hash;
use firn_kv::internals::wal::{LogItem, SegmentReader, Wal, recover};
use firn_kv::{Compression, FilterKind};

const SPEC: &str = include_str!("../../../format-spec/README.md");
const TABLE: &str = "/db/00000007.sst";

/// Returns the bytes of the hex dump after this line of the specification.
fn dump(after: &str) -> Vec<u8> {
    let text =
        SPEC.split_once(after).and_then(|(_, t)| t.split_once("```text\n")).map_or("", |(_, t)| t);
    let lines = text.lines().take_while(|l| !l.starts_with("```"));
    let hex = lines.flat_map(|l| {
        l.split_once(": ").map_or("", |(_, h)| h).split_once("  ").map_or("", |(h, _)| h).split(' ')
    });
    hex.map(|h| u8::from_str_radix(h, 16).unwrap()).collect()
}

fn show(bytes: &[u8]) -> String {
    let line = |(i, l): (usize, &[u8])| {
        let hex: Vec<_> = l.iter().map(|b| format!("{b:02x}")).collect();
        let text: String =
            l.iter().map(|&b| if (0x20..0x7f).contains(&b) { b as char } else { '.' }).collect();
        format!("{:04x}: {}  {text}\n", 16 * i, hex.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect()
}

fn ops() -> Vec<u8> {
    let mut ops = vec![];
    encode(&mut ops, 1, Op::Point { kind: Kind::Put, key: b"k", value: b"v" });
    ops
}

#[test]
fn the_log_of_the_example() {
    let (env, dir) = (MemEnv::new(0), Path::new("/db"));
    env.create_dir_all(dir).unwrap();
    let end = recover(&env, dir, 0, &mut |_, _, _| Ok(())).unwrap();
    Wal::create(Arc::new(env.clone()), dir, 300, FormatVersion::OLDEST, &end, 64 << 10)
        .unwrap()
        .append(5, &[&ops()])
        .unwrap();
    let bytes = env.read_file(&dir.join("00000001.wal")).unwrap();
    assert_eq!(dump("### A log segment"), &bytes[..120], "\n{}", show(&bytes[..120]));
    let mut r = SegmentReader::open(&env, dir, 1).unwrap();
    let Some(LogItem::Record(record)) = r.next().unwrap() else { panic!("no record") };
    assert_eq!(
        (record.seq, record.lsn, record.size, OpReader::new(record.payload).count()),
        (5, Some(0), 40, 1)
    );
}

/// A mark follows the last record when the log is sealed.
#[test]
fn the_mark_of_the_example() {
    let (env, dir) = (MemEnv::new(0), Path::new("/db"));
    env.create_dir_all(dir).unwrap();
    let end = recover(&env, dir, 0, &mut |_, _, _| Ok(())).unwrap();
    let mut wal =
        Wal::create(Arc::new(env.clone()), dir, 300, FormatVersion::OLDEST, &end, 64 << 10)
            .unwrap();
    wal.append(5, &[&ops()]).unwrap();
    wal.close().unwrap();
    let bytes = env.read_file(&dir.join("00000001.wal")).unwrap();
    let told = dump("#### A mark");
    assert_eq!(told, &bytes[120..], "\n{}", show(&bytes[120..]));
}

/// Checks the filter block and the tombstone block of table 8.
#[test]
fn the_filter_and_the_tombstones_of_the_example() {
    let env = MemEnv::new(0);
    env.create_dir_all(Path::new("/db")).unwrap();
    let path = Path::new("/db/00000008.sst");
    let options = WriterOptions {
        tree: 1,
        compression: Compression::None,
        filter: FilterKind::Fuse8,
        ..WriterOptions::default()
    };
    let mut w = TableWriter::new(env.create(path).unwrap(), path, 8, options);
    w.add(b"k", Trailer::new(5, Kind::Put), b"v").unwrap();
    let range = |start: &[u8], end: &[u8], seq| RangeTombstone {
        start: start.to_vec(),
        end: end.to_vec(),
        seq,
    };
    let fragments = Fragments::build(vec![range(b"a", b"m", 3), range(b"c", b"m", 9)]);
    w.set_tombstones(&fragments, Some(0));
    w.finish().unwrap();
    let written = env.read_file(path).unwrap();
    let filter_at = 24 + 31;
    let told = dump("### A filter block");
    assert_eq!(
        told,
        &written[filter_at..filter_at + told.len()],
        "\n{}",
        show(&written[filter_at..])
    );
    let tombstones_at = filter_at + told.len();
    let told = dump("### A tombstone block");
    assert_eq!(
        told,
        &written[tombstones_at..tombstones_at + told.len()],
        "\n{}",
        show(&written[tombstones_at..])
    );
    assert_eq!(u32_at(&written, written.len() - FOOTER + 20) as usize, told.len());
    let table =
        Table::open(env.open_read(path, false).unwrap(), path, 8, Cache::new(1 << 20)).unwrap();
    assert!(table.may_contain(key_hash(b"k")) && !table.may_contain(key_hash(b"l")));
    assert_eq!(**table.tombstones(), fragments);
}

#[test]
fn the_manifest_of_the_example() {
    let (env, dir) = (MemEnv::new(0), Path::new("/db"));
    env.create_dir_all(dir).unwrap();
    let state = ManifestState {
        id: 300,
        created_micros: 1,
        next_file: 2,
        next_tree: 1,
        ..ManifestState::default()
    };
    let mut m = Manifest::create(&env, dir, 1, &state).unwrap();
    m.append(&[Edit::Counters { next_file: 9, last_seq: 5, wal_floor: 40 }]).unwrap();
    let bytes = env.read_file(&dir.join("MANIFEST-000001")).unwrap();
    assert_eq!(dump("### A manifest"), bytes, "\n{}", show(&bytes));
    let current = env.read_file(&dir.join("CURRENT")).unwrap();
    assert_eq!(dump("#### CURRENT"), current, "\n{}", show(&current));
    let (state, _) = Manifest::load(&env, dir).unwrap().unwrap();
    assert_eq!((state.id, state.next_file, state.last_seq, state.wal_floor), (300, 9, 5, 40));
}

#[test]
fn the_table_of_the_example() {
    let env = MemEnv::new(0);
    env.create_dir_all(Path::new("/db")).unwrap();
    let path = Path::new(TABLE);
    let identity = TableIdentity { store: 300, unique: 0xe220_a839_7b1d_cdaf };
    let options = WriterOptions {
        identity,
        tree: 1,
        compression: Compression::None,
        filter: FilterKind::None,
        ..WriterOptions::default()
    };
    let mut w = TableWriter::new(env.create(path).unwrap(), path, 7, options);
    w.add(b"k", Trailer::new(5, Kind::Put), b"v").unwrap();
    w.finish().unwrap();
    let written = env.read_file(path).unwrap();
    let (told, data) = (dump("### A table"), 24 + 31);
    assert_eq!(told.get(..data), Some(&written[..data]), "\n{}", show(&written));
    // The rest names the version of the writing program, so the test reads it without comparing it.
    env.write_file(path, &told).unwrap();
    let t = Table::open(env.open_read(path, false).unwrap(), path, 7, Cache::new(1 << 20)).unwrap();
    assert_eq!((t.verify(None, |_| ()).unwrap().entries, t.identity()), (1, identity));
    assert_eq!(
        told[told.len() - FOOTER + 32..][..24],
        written[written.len() - FOOTER + 32..][..24]
    );
    let mut c = t.cursor(false);
    c.first().unwrap();
    assert_eq!(
        (c.key(), c.trailer(), c.value()),
        (&b"k"[..], Trailer::new(5, Kind::Put), &b"v"[..])
    );
}

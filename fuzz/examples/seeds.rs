//! Writes the seed corpora: small files created by the engine. Run `cargo run --example seeds` in
//! `fuzz/` before fuzzing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_fuzz::Sink;
use firn_kv::MemEnv;
use firn_kv::internals::base::key::{Kind, Trailer};
use firn_kv::internals::base::ops::{Op, encode};
use firn_kv::internals::range_del::tombstone::{Fragments, RangeTombstone};
use firn_kv::internals::sstable::format::{BlockHeader, BlockKind, StoredBlock};
use firn_kv::internals::sstable::{TableWriter, WriterOptions};
use firn_kv::{Compression, Db, DbOptions, Error, FilterKind, Result, TreeOptions};

fn put(target: &str, name: &str, how: Option<u8>, bytes: &[u8]) -> std::io::Result<()> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&dir)?;
    std::fs::write(dir.join(name), [how.as_slice(), bytes].concat())
}

fn table(
    compression: Compression,
    filter: FilterKind,
    entries: u32,
    with_tombstones: bool,
) -> Result<Vec<u8>> {
    let sink = Sink::default();
    let options =
        WriterOptions { block_size: 512, compression, filter, ..WriterOptions::default() };
    let mut w = TableWriter::new(Box::new(sink.clone()), Path::new("/seed"), 1, options);
    for i in 0..entries {
        let kind = [Kind::Put, Kind::Put, Kind::Delete, Kind::Merge][i as usize % 4];
        let value = vec![i as u8; if kind == Kind::Delete { 0 } else { 10 }];
        w.add(format!("key{:05}", i / 3).as_bytes(), Trailer::new(1000 - i as u64, kind), &value)?;
    }
    if with_tombstones {
        let t =
            |a: &[u8], b: &[u8], seq| RangeTombstone { start: a.to_vec(), end: b.to_vec(), seq };
        w.set_tombstones(
            &Fragments::build(vec![t(b"key1", b"key3", 5), t(b"key2", b"key4", 7)]),
            Some(9),
        );
    }
    w.finish()?;
    Ok(sink.content())
}

fn store() -> Result<MemEnv> {
    let env = MemEnv::new(1);
    let options = DbOptions {
        memory_budget: 2 << 20,
        background_threads: 0,
        wal_segment: 64 << 10,
        ..DbOptions::default()
    };
    let db = Db::open_in(Arc::new(env.clone()), "/db", options)?;
    for name in ["a", "b"] {
        let t = db.tree(
            name,
            TreeOptions { memtable_size: 64 << 10, table_size: 64 << 10, ..TreeOptions::default() },
        )?;
        for i in 0..20u32 {
            t.put(&i.to_be_bytes(), b"value")?;
        }
        t.delete_range(b"\0"..b"\x01")?;
        t.flush()?;
        t.put(b"later", b"value")?;
    }
    db.sync()?;
    Ok(env)
}

fn files() -> Result<(), Box<dyn std::error::Error>> {
    let env = store()?;
    for path in env.files() {
        let mut bytes = env.read_file(&path)?;
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if name.ends_with(".wal") {
            bytes.truncate(8 << 10);
            put("wal", "sealed", Some(4), &[&[0][..], &bytes].concat())?;
            put("wal", "raw", Some(0), &[&[0][..], &bytes].concat())?;
            put(
                "wal",
                "three",
                Some(7),
                &[&[0][..], &bytes[..1024], &bytes[..1024], &bytes[..1024]].concat(),
            )?;
        } else if name == "CURRENT" {
            put("current", "text", None, &bytes)?;
            put("current", "lines", None, b"firn format 1\nMANIFEST-000001\n")?;
        } else if name.starts_with("MANIFEST-") {
            put("manifest", "file", None, &bytes)?;
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    files()?;
    for (i, (c, f)) in
        [(Compression::None, FilterKind::Fuse8), (Compression::Lz4, FilterKind::Fuse16)]
            .into_iter()
            .enumerate()
    {
        for (entries, tombstones) in [(1, false), (30, true), (200, false)] {
            let file = table(c, f, entries, tombstones)?;
            for how in [0, 1, 3] {
                put("table", &format!("{i}-{entries}-{how}"), Some(how), &file)?;
            }
            let header = BlockHeader::read(&file).map_err(Error::corruption)?;
            let block = StoredBlock::check(&file[..24 + header.stored_len], BlockKind::Data, 1, 0)
                .and_then(|s| s.to_vec());
            put("block", &format!("{i}-{entries}"), None, &block.map_err(Error::corruption)?)?;
        }
    }
    let mut ops = vec![];
    encode(&mut ops, 1, Op::Point { kind: Kind::Put, key: b"key", value: b"value" });
    encode(&mut ops, 300, Op::Point { kind: Kind::Delete, key: b"key", value: b"" });
    encode(&mut ops, 2, Op::DeleteRange { start: b"a", end: b"b" });
    put("ops", "three", None, &ops)?;
    // Recorded statements, one file for each.
    let statements =
        include_str!("../../engine/cql/tests/data/statements.txt").split("\n== ").skip(1);
    for (i, statement) in statements.filter_map(|case| Some(case.split_once('\n')?.1)).enumerate() {
        put("cql", &format!("{i}"), None, statement.as_bytes())?;
    }
    let mut script = String::new();
    for line in include_str!("../../engine/wide-text/tests/vectors/cli.txt").lines() {
        if let Some((_, said)) =
            line.split_once("] ").filter(|(prompt, _)| prompt.starts_with("[default@"))
        {
            script.push_str(said);
            script.push('\n');
        } else if let Some(more) = line.strip_prefix("...\t") {
            script.push_str(more);
            script.push('\n');
        }
    }
    for (i, part) in script.split_inclusive("use ").enumerate() {
        put("cli", &format!("{i}"), Some((i % 2) as u8), part.as_bytes())?;
    }
    put("cli", "all", Some(0), script.as_bytes())?;
    Ok(())
}

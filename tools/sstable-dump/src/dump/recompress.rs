//! `sstable-dump recompress`: prints the size of a table and the decoding work of a read for other
//! codecs and block sizes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use firn_kv::fs::{FileMap, ReadFile, WriteFile};
use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::sstable::walk::{TablePiece, TableWalk};
use firn_kv::internals::sstable::{Table, TableWriter, WriterOptions};
use firn_kv::{Compression, Result};
use firn_tools::io::Stopwatch;
use firn_tools::output::{Done, Failure, bytes, count, listing, nanos, print_table};
use serde_json::json;

use crate::Screen;
use crate::dump::text;
use crate::store::target::{TargetKind, kind, open_table};

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Writes nothing. `decoded` is the number of bytes that a read of an uncached key decodes; `takes` is the time for that on this machine: per
block the minimum of five passes, then the mean over the first blocks. The minimum excludes most other load of the machine. An
uncompressed block is read in place and only verified the first time.

Examples:
  sstable-dump recompress firn-data/00000012.sst
  sstable-dump recompress firn-data/00000012.sst --blocks 4096,32768 --limit 1000000";

/// Number of bytes of each variant that are used to measure decoding.
const SAMPLE: usize = 8 << 20;

/// Number of times that each block is decoded; the shortest time counts.
const PASSES: usize = 5;

/// Arguments of `recompress`.
#[derive(Args, Clone, Debug)]
pub struct RecompressArgs {
    /// The table
    #[arg(value_name = "TABLE")]
    pub table: PathBuf,
    /// Block sizes to try, in bytes
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_values_t = [2048, 4096, 8192, 16384, 32768, 65536])]
    pub blocks: Vec<u32>,
    /// Use only this many entries, from the first
    #[arg(long, value_name = "ENTRIES", default_value_t = u64::MAX, hide_default_value = true)]
    pub limit: u64,
    /// Omit the times, so that the output is reproducible
    #[arg(long)]
    pub no_times: bool,
}

/// Counts the bytes of a file, and retains the first ones.
struct SampleSink {
    sample: Arc<Mutex<Vec<u8>>>,
    len: u64,
}

impl WriteFile for SampleSink {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut sample = self.sample.lock().unwrap_or_else(PoisonError::into_inner);
        let room = SAMPLE - sample.len().min(SAMPLE);
        // Retain only bytes without a gap: they are the beginning of the file.
        if sample.len() as u64 == self.len {
            sample.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }
}

/// The beginning of a file in memory.
struct SampleFile(Vec<u8>);

impl ReadFile for SampleFile {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let there =
            usize::try_from(offset).ok().and_then(|at| self.0.get(at..at.checked_add(buf.len())?));
        let bytes = there.ok_or_else(|| firn_kv::Error::corruption("the sample ends here"))?;
        buf.copy_from_slice(bytes);
        Ok(())
    }

    fn map(&self) -> Option<Arc<dyn FileMap>> {
        None
    }
}

struct RecompressVariant {
    codec: Compression,
    block_size: u32,
    size: u64,
    blocks: u64,
    /// Number of decoded bytes of a block: the mean over the sample.
    decoded: u64,
    /// Nanoseconds to verify and decode a block: the minimum of [`PASSES`], then the mean over the
    /// sample.
    nanos: u64,
}

fn variant(
    t: &Arc<Table>,
    codec: Compression,
    block_size: u32,
    limit: u64,
) -> Done<RecompressVariant> {
    let p = t.properties();
    let sample = Arc::new(Mutex::new(vec![]));
    let options = WriterOptions {
        tree: p.tree,
        block_size: block_size as usize,
        compression: codec,
        filter: if p.filter_prefix.is_empty() { p.filter } else { firn_kv::FilterKind::None },
        filter_dropped: p.filter_dropped,
        ..WriterOptions::default()
    };
    let name = Path::new("what if");
    let mut w = TableWriter::new(
        Box::new(SampleSink { sample: sample.clone(), len: 0 }),
        name,
        t.id(),
        options,
    );
    let mut c = t.cursor(false);
    c.first()?;
    let mut n = 0;
    while c.valid() && n < limit {
        w.add(c.key(), c.trailer(), c.value())?;
        n += 1;
        c.next()?;
    }
    w.set_tombstones(t.tombstones(), p.oldest_tombstone_micros);
    let facts = w.finish()?;
    let sample = std::mem::take(&mut *sample.lock().unwrap_or_else(PoisonError::into_inner));
    let mut walk = TableWalk::new(Arc::new(SampleFile(sample)), name, t.id())?;
    let (mut blocks, mut raw, mut stored, mut time) = (0u64, 0, 0, 0);
    loop {
        match walk.next()? {
            Some(TablePiece::Block { offset, header })
                if header.kind == firn_kv::internals::sstable::format::BlockKind::Data =>
            {
                let mut least = u64::MAX;
                for _ in 0..PASSES {
                    let watch = Stopwatch::start();
                    walk.raw(offset, header)?;
                    least = least.min(watch.nanos());
                }
                time += least;
                blocks += 1;
                raw += header.raw_len as u64;
                stored += header.stored_len as u64;
            }
            _ => break,
        }
    }
    let mean = |sum: u64| sum / blocks.max(1);
    let data_share = stored.max(1);
    let all_blocks = if facts.size > SAMPLE as u64 {
        (facts.size as u128 * blocks as u128 / data_share as u128) as u64
    } else {
        blocks
    };
    Ok(RecompressVariant {
        codec,
        block_size,
        size: facts.size,
        blocks: all_blocks,
        decoded: mean(raw),
        nanos: mean(time),
    })
}

/// Runs `recompress`.
pub fn run(screen: &mut Screen<'_>, args: &RecompressArgs) -> Done {
    if !matches!(kind(&args.table)?, TargetKind::Table(_)) {
        return Err(Failure::with_next("this is no table", "name one of a store's .sst files"));
    }
    if let Some(bad) = args.blocks.iter().find(|b| !(512..=65_536).contains(*b)) {
        return Err(Failure::new(format!("a block size of {bad}: it must be 512 to 65,536 bytes")));
    }
    let t = open_table(&args.table)?;
    let p = t.properties();
    let mut all = vec![];
    for codec in Compression::ALL.into_iter().filter(|c| c.is_available()) {
        for &size in &args.blocks {
            all.push(variant(&t, codec, size, args.limit)?);
        }
    }
    let is_now =
        |v: &RecompressVariant| v.codec == p.compression && v.block_size as u64 == p.block_size;
    if screen.json {
        let one = |v: &RecompressVariant| {
            let mut j = json!({
                "compression": v.codec.name(), "block_size": v.block_size, "size": v.size, "blocks": v.blocks, "decoded": v.decoded,
                "now": is_now(v),
            });
            if !args.no_times {
                j["decode_nanos"] = v.nanos.into();
            }
            j
        };
        writeln!(screen.out, "{:#}", all.iter().map(one).collect::<serde_json::Value>())?;
        return Ok(());
    }
    let entries = count(p.entries.min(args.limit));
    let now = format!("{} in blocks of {}", p.compression.name(), bytes(p.block_size));
    writeln!(
        screen.out,
        "{}: {}, {entries} entries, {now}\n",
        args.table.display(),
        bytes(t.size())
    )?;
    let mut header = vec!["codec", "blocks of", "size", "of now", "blocks", "decoded"];
    if !args.no_times {
        header.push("takes");
    }
    let mut out = listing(&header, "lrrrrrrl");
    for v in &all {
        let mut cells = vec![
            format!("{}{}", v.codec.name(), if is_now(v) { " (now)" } else { "" }),
            bytes(v.block_size as u64),
            bytes(v.size),
            if args.limit < p.entries { "-".into() } else { text::share(v.size, t.size()) },
            count(v.blocks),
            bytes(v.decoded),
        ];
        if !args.no_times {
            cells.push(nanos(v.nanos));
        }
        out.add_row(cells);
    }
    Ok(write!(screen.out, "{}", print_table(&out, screen.style))?)
}

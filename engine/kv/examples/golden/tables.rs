//! Tables of every shape with every option.

use std::path::Path;
use std::sync::Arc;

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::base::format_version::FormatVersion;
use firn_kv::internals::base::identity::TableIdentity;
use firn_kv::internals::base::key::{Kind, MAX_KEY_LEN, MAX_SEQ, Trailer, compare};
use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::range_del::tombstone::{Fragments, RangeTombstone};
use firn_kv::internals::sstable::{Table, TableWriter, WriterOptions};
use firn_kv::{Compression, FilterKind, FilterPrefix, Result, Summary, SummaryPass};
use firn_testkit::rng::Rng;
use serde_json::{Value, json};

use super::made::{Made, hex};

/// Kinds of table content.
pub const SHAPES: [&str; 20] = [
    "empty",
    "one empty entry",
    "puts",
    "one sequence number",
    "long chains of versions",
    "deletes",
    "merge operands",
    "all kinds",
    "large values",
    "large keys",
    "more keys than a block may gather",
    "equal heads",
    "trailing zeros",
    "empty values",
    "range deletions alone",
    "range deletions and entries",
    "random bytes",
    "far sequence numbers",
    "a wide block",
    "longest keys",
];

/// Recipe of one table.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    pub id: u64,
    pub shape: &'static str,
    pub compression: Compression,
    pub filter: FilterKind,
    /// Number of bits dropped from the filter's fingerprints.
    pub filter_dropped: u8,
    /// Length in bytes of the key prefix in the filter; `None` for whole keys.
    pub prefix: Option<usize>,
    pub block_size: usize,
    pub summary: bool,
    pub level: u8,
}

/// A key, its trailer, its value.
pub type Entry = (Vec<u8>, Trailer, Vec<u8>);

struct First(usize, String);

impl FilterPrefix for First {
    fn name(&self) -> &str {
        &self.1
    }

    fn prefix_len(&self, key: &[u8]) -> usize {
        key.len().min(self.0)
    }
}

/// A summary hook: returns the number of entries and the length of the last key, as text.
pub struct Facts;

impl Summary for Facts {
    fn name(&self) -> &str {
        "facts"
    }

    fn start(&self) -> Box<dyn SummaryPass> {
        Box::new(Pass(0, 0))
    }
}

struct Pass(u64, usize);

impl SummaryPass for Pass {
    fn add(&mut self, key: &[u8], _: Kind, _: &[u8]) {
        *self = Pass(self.0 + 1, key.len());
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        format!("{} entries, the last key has {} bytes", self.0, self.1).into_bytes()
    }
}

fn text(rng: &mut Rng, len: usize) -> Vec<u8> {
    let words = ["snow ", "ice ", "firn ", "layer ", "press ", "melt "];
    let mut out = vec![];
    while out.len() < len {
        out.extend_from_slice(rng.choose(&words).map_or(&[], |w| w.as_bytes()));
    }
    out.truncate(len);
    out
}

fn random(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    rng.fill(&mut out);
    out
}

/// Returns `n` versions of each key, newest first, of the kinds that `kind` draws.
fn versions(rng: &mut Rng, keys: u64, n: u64, kind: impl Fn(&mut Rng) -> Kind) -> Vec<Entry> {
    let mut all = vec![];
    for i in 0..keys {
        let key = format!("tree/row{:05}/column", i * 3).into_bytes();
        let mut seq = 1_000_000 + rng.below(50_000);
        for _ in 0..n {
            let kind = kind(rng);
            let len = rng.range(1..40) as usize;
            let value = if kind == Kind::Delete { vec![] } else { text(rng, len) };
            all.push((key.clone(), Trailer::new(seq, kind), value));
            seq -= 1 + rng.below(300);
        }
    }
    all
}

fn puts(
    keys: impl IntoIterator<Item = Vec<u8>>,
    seq: u64,
    rng: &mut Rng,
    value: impl Fn(&mut Rng) -> Vec<u8>,
) -> Vec<Entry> {
    keys.into_iter()
        .map(|k| (k, Trailer::new(seq + rng.below(900), Kind::Put), value(rng)))
        .collect()
}

fn number(i: u64) -> Vec<u8> {
    format!("user{i:08}").into_bytes()
}

fn entries(shape: &str, rng: &mut Rng) -> Vec<Entry> {
    let short = |rng: &mut Rng| text(rng, 24);
    let any = |rng: &mut Rng| {
        rng.choose(&[Kind::Put, Kind::Put, Kind::Put, Kind::Delete, Kind::Merge])
            .copied()
            .unwrap_or(Kind::Put)
    };
    match shape {
        "one empty entry" => vec![(vec![], Trailer::new(0, Kind::Put), vec![])],
        "puts" => puts((0..150).map(number), 77, rng, short),
        "one sequence number" => {
            (0..90).map(|i| (number(i), Trailer::new(0, Kind::Put), text(rng, 30))).collect()
        }
        "long chains of versions" => versions(rng, 3, 70, |_| Kind::Put),
        "deletes" => {
            versions(rng, 60, 1, |rng| if rng.one_in(3) { Kind::Put } else { Kind::Delete })
        }
        "merge operands" => {
            versions(rng, 12, 9, |rng| if rng.one_in(9) { Kind::Put } else { Kind::Merge })
        }
        "all kinds" | "range deletions and entries" => versions(rng, 40, 3, any),
        "large values" => {
            let len = [5, 300, 4096, 9000, 70_000];
            let value = |rng: &mut Rng| {
                let n = rng.choose(&len).copied().unwrap_or(1);
                if rng.one_in(2) { random(rng, n.min(9000)) } else { text(rng, n) }
            };
            puts((0..14).map(number), 5, rng, value)
        }
        "large keys" => {
            let key = |i: u8| {
                [vec![b'k'; 200 * i as usize], random(&mut Rng::new(i.into()), 3000)].concat()
            };
            let longest = [vec![b'k'; 65_534], vec![b'z']].concat();
            puts([(0..6).rev().map(key).collect(), vec![longest]].concat(), 5, rng, short)
        }
        "more keys than a block may gather" => {
            puts((0..18u8).map(|i| [vec![b'k'; 65_530], vec![i]].concat()), 5, rng, short)
        }
        "equal heads" => puts(
            (0..120).map(|i| format!("same/8/bytes/{}/{i:04}", i / 40).into_bytes()),
            1 << 40,
            rng,
            short,
        ),
        "trailing zeros" => {
            let keys =
                (0..40usize).map(|i| [&b"zeros/"[..], &[0, 0, 1][..i % 3], &vec![0; i]].concat());
            puts(keys, 9, rng, short)
        }
        "empty values" => puts((0..200).map(number), 300, rng, |_| vec![]),
        "random bytes" => puts(
            (0..120).map(|_| random(&mut rng.fork(), 20)).collect::<Vec<_>>(),
            4,
            &mut rng.fork(),
            |r| random(r, 60),
        ),
        "far sequence numbers" => {
            let seqs = [MAX_SEQ, MAX_SEQ - 1, 1 << 50, 1 << 40, 1 << 33, 65_537, 255, 1, 0];
            let key = |i: usize| format!("key{:02}", i / 9).into_bytes();
            (0..63).map(|i| (key(i), Trailer::new(seqs[i % 9], any(rng)), vec![])).collect()
        }
        "longest keys" => {
            // Keys around the maximum length of a prefix, which has 16 bits, and around the heads
            // after it. Then a key that occurs twice, and its neighbours.
            let prefixes = [65_534, 65_535, 65_536, 65_543, 65_544].map(|n| vec![b'k'; n]);
            let longest = [&b"j"[..], b"k", b"k", b"l"]
                .map(|end| [&vec![b'k'; MAX_KEY_LEN - 1], end].concat());
            puts([&prefixes[..], &longest].concat(), 5, rng, short)
        }
        "a wide block" => puts((0..3).map(number), 8, rng, |rng| text(rng, 70).repeat(1000)),
        _ => vec![],
    }
}

fn tombstones(shape: &str, rng: &mut Rng) -> Fragments {
    let n = if shape.starts_with("range deletions") { 12 } else { 0 };
    let key = |i: u64| format!("tree/row{i:05}").into_bytes();
    if shape == "longest keys" {
        let [start, end] =
            [b'i', b'm'].map(|end| [&vec![b'k'; MAX_KEY_LEN - 1][..], &[end]].concat());
        return Fragments::build(vec![RangeTombstone { start, end, seq: 4 }]);
    }
    let any = |rng: &mut Rng| {
        let start = rng.below(120);
        RangeTombstone {
            start: key(start),
            end: key(start + 1 + rng.below(60)),
            seq: rng.below(2_000_000),
        }
    };
    Fragments::build((0..n).map(|_| any(rng)).collect())
}

impl Recipe {
    fn rng(&self) -> Rng {
        let shape = SHAPES.iter().position(|s| *s == self.shape).unwrap_or_default();
        Rng::new(self.id << 8 | shape as u64)
    }

    /// Returns the content of the table.
    pub fn content(&self) -> (Vec<Entry>, Fragments) {
        let mut rng = self.rng();
        let mut entries = entries(self.shape, &mut rng);
        entries.sort_by(|a, b| compare(&a.0, a.1, &b.0, b.1));
        entries.dedup_by(|a, b| (&a.0, a.1) == (&b.0, b.1));
        (entries, tombstones(self.shape, &mut rng))
    }

    /// Returns the bytes of the table.
    pub fn table(&self) -> Result<Vec<u8>> {
        let (env, path) = (MemEnv::new(0), Path::new("/table"));
        let options = WriterOptions {
            version: FormatVersion::OLDEST,
            identity: TableIdentity { store: 1 << 63 | 5, unique: self.id },
            tree: 3,
            // Some tables do not have these values.
            tree_name: if self.id % 2 == 1 { "früchte".into() } else { String::new() },
            log_end: if !self.id.is_multiple_of(3) { self.id << 20 } else { 0 },
            log_writer: if !self.id.is_multiple_of(3) { u64::MAX - self.id } else { 0 },
            level: self.level,
            block_size: self.block_size,
            compression: self.compression,
            filter: self.filter,
            filter_dropped: self.filter_dropped,
            filter_prefix: self
                .prefix
                .map(|n| Arc::new(First(n, format!("first {n}"))) as Arc<dyn FilterPrefix>),
            summary: self.summary.then(|| Arc::new(Facts) as Arc<dyn Summary>),
            merge_operator: if self.shape == "merge operands" {
                "append".into()
            } else {
                String::new()
            },
            created_micros: 1_600_000_000_000_000 + self.id,
            ..WriterOptions::default()
        };
        let (entries, tombstones) = self.content();
        let mut w = TableWriter::new(env.create(path)?, path, self.id, options);
        for (key, trailer, value) in &entries {
            w.add(key, *trailer, value)?;
        }
        if !tombstones.is_empty() {
            w.set_tombstones(&tombstones, Some(1_500_000_000_000_000));
        }
        w.finish()?;
        env.read_file(path)
    }

    /// Adds the table.
    pub fn make(&self, made: &mut Made) -> Result<()> {
        let (entries, tombstones) = self.content();
        let path = format!("tables/{:08}.sst", self.id);
        made.file(&path, self.table()?);
        made.sound(path, "table", self.shape, told(&entries, &tombstones));
        Ok(())
    }
}

/// Converts a table's content to its expected JSON.
pub fn told(entries: &[Entry], tombstones: &Fragments) -> Value {
    let entry = |(key, trailer, value): &Entry| {
        json!([hex(key), trailer.seq(), trailer.kind().map(|k| k as u8), hex(value)])
    };
    let fragment = |f: &firn_kv::internals::range_del::tombstone::Fragment| {
        json!([hex(&f.start), hex(&f.end), f.seqs])
    };
    json!({
        "entries": entries.iter().map(entry).collect::<Vec<_>>(),
        "tombstones": tombstones.as_slice().iter().map(fragment).collect::<Vec<_>>(),
    })
}

/// Returns a table's content as the engine reads it, after verifying the whole table.
#[allow(dead_code)] // only the test of the golden files reads; the generator only writes
pub fn read(env: &dyn Env, path: &Path, id: u64) -> Result<Value> {
    let table = Table::open(env.open_read(path, false)?, path, id, Cache::new(1 << 20))?;
    let prefix =
        table.properties().filter_prefix.strip_prefix("first ").and_then(|n| n.parse().ok());
    let prefix = prefix.map(|n| First(n, table.properties().filter_prefix.clone()));
    let report = table.verify(prefix.as_ref().map(|p| p as &dyn FilterPrefix), |_| ())?;
    let mut entries = vec![];
    let mut c = table.cursor(false);
    c.first()?;
    while c.valid() {
        entries.push((c.key().to_vec(), c.trailer(), c.value().to_vec()));
        c.next()?;
    }
    assert_eq!(report.entries as usize, entries.len());
    Ok(told(&entries, table.tombstones()))
}

/// Returns recipes for every shape with every option.
pub fn all() -> Vec<Recipe> {
    let filters = [
        (FilterKind::None, None),
        (FilterKind::Fuse8, None),
        (FilterKind::Fuse16, None),
        (FilterKind::Fuse8, Some(10)),
    ];
    let mut out = vec![];
    for shape in SHAPES {
        for compression in [Compression::None, Compression::Lz4] {
            for (i, (filter, prefix)) in filters.into_iter().enumerate() {
                for (j, block_size) in [512, 4032, 65_536].into_iter().enumerate() {
                    let id = out.len() as u64 + 1;
                    let heavy =
                        ["more keys than a block may gather", "longest keys"].contains(&shape);
                    if heavy && (i + j != 3 || compression == Compression::None) {
                        continue;
                    }
                    let (summary, level) = ((i + j) % 2 == 1, (id % 7) as u8);
                    out.push(Recipe {
                        id,
                        shape,
                        compression,
                        filter,
                        filter_dropped: 0,
                        prefix,
                        block_size,
                        summary,
                        level,
                    });
                }
            }
        }
    }
    let plain = out[0];
    for filter in [FilterKind::Fuse8, FilterKind::Fuse16] {
        for filter_dropped in 1..8 {
            let (id, block_size) = (out.len() as u64 + 1, 4032);
            out.push(Recipe { id, filter, filter_dropped, block_size, ..plain });
        }
    }
    out
}

/// Number of the first table that is compressed with zstd.
pub const FIRST_ZSTD: u64 = 100_001;

/// Returns recipes for zstd-compressed tables, or none if this build has no zstd.
pub fn zstd() -> Vec<Recipe> {
    let shapes = ["puts", "long chains of versions", "range deletions and entries", "a wide block"];
    let recipe = |(i, shape): (usize, &'static str)| Recipe {
        id: FIRST_ZSTD + i as u64,
        shape,
        compression: Compression::Zstd,
        filter: FilterKind::Fuse8,
        filter_dropped: 0,
        prefix: None,
        block_size: 4032,
        summary: i % 2 == 1,
        level: i as u8,
    };
    let available = Compression::Zstd.is_available();
    shapes.into_iter().enumerate().map(recipe).filter(|_| available).collect()
}

/// Returns a recipe for each shape that stays small, cycling through the options. Two more have
/// filters whose fingerprints have lost bits.
pub fn few() -> Vec<Recipe> {
    let large = ["large keys", "large values", "more keys than a block may gather"];
    let mut out: Vec<Recipe> = vec![];
    for (i, shape) in SHAPES.into_iter().enumerate().filter(|(_, s)| !large.contains(s)) {
        let lz4 = |r: &Recipe| shape != "a wide block" || r.compression == Compression::Lz4;
        let of: Vec<Recipe> = all()
            .into_iter()
            .filter(|r| r.shape == shape && r.block_size < 65_536 && lz4(r))
            .filter(|r| r.filter_dropped == 0)
            .collect();
        out.push(of[7 * i % of.len()]);
    }
    out.extend(all().into_iter().filter(|r| r.filter_dropped == 3));
    out
}

//! Manifests: snapshots and version edits of every kind, every policy, every option.

use std::path::Path;
use std::sync::Arc;

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::internals::base::blob_ref::{BlobFileMeta, BlobUse};
use firn_kv::internals::base::facts::TableFacts;
use firn_kv::internals::base::format_version::FormatVersion;
use firn_kv::internals::base::identity::{LogWriter, TableIdentity};
use firn_kv::internals::manifest::{
    AddedTable, Edit, Manifest, ManifestState, PersistedOptions, SnapshotDue, SubscriptionState,
    TableMeta, TreeState, manifest_name,
};
use firn_kv::internals::util::checksum::checksum;
use firn_kv::policy::Movement;
use firn_kv::policy::{Fifo, LazyLeveled, Leveled, Tiered, TimeWindow, Unified};
use firn_kv::{Compression, FilterAllocation, FilterKind, Policy, Result, TreeOptions};
use firn_testkit::rng::Rng;
use serde_json::{Value, json};

use super::made::{Made, hex, slug};

/// Draws one of the first six policies, with one of the first six movements. The golden files
/// depend on these draws, so they must not change. [`every_policy`] covers all policies.
fn policy(rng: &mut Rng) -> Policy {
    let n = rng.range(2..64) as u32;
    match rng.below(6) {
        0 => Policy::Tiered(Tiered {
            min_runs: 2,
            max_runs: n,
            bucket: 1.1 + rng.unit(),
            ..Tiered::default()
        }),
        1 => Policy::Leveled(Leveled {
            level0_runs: n,
            ratio: n,
            base: rng.range(64 << 10..1 << 50),
            movement: Movement::ALL[n as usize % 6],
            ..Leveled::default()
        }),
        2 => Policy::LazyLeveled(LazyLeveled { ratio: n, ..LazyLeveled::default() }),
        3 => Policy::Unified(Unified {
            scaling: (0..n).take(32).map(|_| rng.range(0..125) as i32 - 62).collect(),
            target_table: rng.range(64 << 10..1 << 40),
            base_shards: n,
            ..Unified::default()
        }),
        4 => Policy::TimeWindow(TimeWindow {
            window_secs: rng.range(1..1 << 40),
            min_runs: n,
            ..TimeWindow::default()
        }),
        _ => Policy::Fifo(Fifo {
            max_bytes: rng.next_u64(),
            max_age_secs: rng.next_u64(),
            ..Fifo::default()
        }),
    }
}

fn options(rng: &mut Rng) -> PersistedOptions {
    let mut o =
        PersistedOptions::of(&TreeOptions { policy: policy(rng), ..TreeOptions::default() });
    let levels = rng.range(1..9);
    o.compression = (0..levels)
        .map(|_| if rng.one_in(2) { Compression::None } else { Compression::Lz4 })
        .collect();
    let filters = [FilterKind::None, FilterKind::Fuse8, FilterKind::Fuse16];
    o.filter = (0..levels).map(|_| rng.choose(&filters).copied().unwrap_or_default()).collect();
    o.tombstone_age_secs = rng.below(1 << 30);
    if o.tombstone_age_secs.is_multiple_of(3) {
        o.filter_allocation = FilterAllocation::Monkey;
    }
    (o.block_size, o.table_size, o.memtable_size) =
        (rng.range(512..65_537), rng.below(1 << 40), rng.below(1 << 31));
    let mut name = |what: &str| rng.one_in(2).then(|| format!("{what} hook ❄"));
    (o.merge_operator, o.compaction_filter, o.summary, o.filter_prefix) =
        (name("merge"), name("purge"), name("summary"), name("prefix"));
    o
}

/// Returns writers of a log, `number % 4` of them.
fn writers(number: u64) -> Vec<LogWriter> {
    (0..number % 4)
        .map(|i| LogWriter { from: 3 * i + 1, id: u64::MAX / 7 * (i + 1), base: 4096 * i })
        .collect()
}

fn table(rng: &mut Rng, id: u64, first: u64) -> TableMeta {
    let (key, min_seq) = (|i: u64| i.to_be_bytes().to_vec(), rng.below(1 << 40));
    let ingested = rng.one_in(4) && min_seq > 0;
    TableMeta {
        facts: TableFacts {
            id,
            identity: TableIdentity {
                store: 1 << 63 | id,
                unique: id.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            },
            size: rng.below(1 << 40),
            entries: rng.below(1 << 30),
            deletes: rng.below(100),
            merges: rng.below(100),
            range_deletes: rng.below(3),
            raw_bytes: rng.next_u64(),
            first_key: key(first),
            last_key: key(first + rng.below(1000)),
            min_seq,
            max_seq: min_seq + if ingested { 0 } else { rng.below(1 << 20) },
            oldest_tombstone_micros: rng.one_in(2).then_some(1_500_000_000_000_000),
            values: vec![],
        },
        created_micros: 1_600_000_000_000_000 + id,
        newest_micros: 1_600_000_000_000_000,
        ingested_seq: if ingested { min_seq } else { 0 },
    }
}

fn blob_file(rng: &mut Rng, id: u64) -> BlobFileMeta {
    let (values, bytes) = (1 + rng.below(1000), rng.below(1 << 40));
    BlobFileMeta {
        id,
        identity: TableIdentity { store: 1 << 63 | id, unique: rng.next_u64() },
        size: bytes + 300,
        values,
        bytes,
        raw_bytes: 2 * bytes,
    }
}

fn subscription(rng: &mut Rng) -> SubscriptionState {
    SubscriptionState {
        name: format!("consumer {} ❄", rng.below(4)),
        seq: rng.below(1 << 45),
        position: 8 * rng.below(1 << 40),
        max_log_bytes: rng.next_u64(),
        snapshot_due: *rng
            .choose(&[SnapshotDue::No, SnapshotDue::New, SnapshotDue::Lost])
            .unwrap_or(&SnapshotDue::No),
    }
}

/// Draws an edit that is valid for the state.
fn edit(rng: &mut Rng, state: &ManifestState) -> Edit {
    let tree = state.trees.keys().copied().collect::<Vec<_>>();
    let Some(&tree) = rng.choose(&tree).filter(|_| !rng.one_in(8)) else {
        let (id, flushed) = (state.next_tree + rng.below(2) as u32, rng.below(1 << 50));
        return Edit::CreateTree {
            id,
            name: format!("tree {id} ❄"),
            options: options(rng),
            flushed,
        };
    };
    let t = &state.trees[&tree];
    match rng.below(15) {
        13 => Edit::SetSubscription(subscription(rng)),
        14 => match state.subscriptions.keys().next() {
            Some(name) => Edit::DropSubscription { name: name.clone() },
            None => Edit::SetSubscription(subscription(rng)),
        },
        12 => {
            let mut writers = state.writers.clone();
            let (from, base) = writers
                .last()
                .map_or((1, 0), |w| (w.from + 1 + rng.below(9), w.base + 8 * rng.below(1 << 20)));
            // Some earlier writers have no segment left.
            writers.drain(..rng.below(1 + writers.len() as u64) as usize);
            writers.push(LogWriter { from, id: rng.next_u64(), base });
            Edit::LogWriters { writers }
        }
        0 => Edit::DropTree { id: tree },
        1 => Edit::SetOptions { id: tree, options: options(rng) },
        2 | 3 => Edit::Counters {
            next_file: state.next_file + rng.below(9),
            last_seq: rng.below(1 << 45),
            wal_floor: state.wal_floor + 8 * rng.below(1 << 20),
        },
        4 | 5 if !t.runs.is_empty() => {
            // Compaction: two tables replace the oldest run, one level further down.
            let last = &t.runs[t.runs.len() - 1];
            let removed = last.tables.iter().map(|t| t.id).collect();
            let (level, run) = (last.level.saturating_add(1), last.number);
            let added = (0..2).map(|i| {
                let table = Arc::new(table(rng, state.next_file + i, 5000 * i));
                AddedTable { level, run, table }
            });
            Edit::Tables { tree, removed, added: added.collect(), flushed: None, values: vec![] }
        }
        6 if !t.runs.is_empty() => {
            let from = &t.runs[0];
            let moved = from.tables[0].clone();
            let level = t.runs[t.runs.len() - 1].level.saturating_add(1);
            let added = vec![AddedTable { level, run: from.number, table: moved.clone() }];
            Edit::Tables { tree, removed: vec![moved.id], added, flushed: None, values: vec![] }
        }
        _ => {
            let id = state.next_file;
            let added = vec![AddedTable { level: 0, run: id, table: Arc::new(table(rng, id, 0)) }];
            Edit::Tables {
                tree,
                removed: vec![],
                added,
                flushed: Some(t.flushed + 8 * rng.below(1000)),
                values: vec![],
            }
        }
    }
}

/// A manifest in the making.
struct Case {
    env: MemEnv,
    manifest: Manifest,
    number: u64,
    state: ManifestState,
    /// For each frame: its offset, and the state before it.
    frames: Vec<(usize, ManifestState)>,
    rng: Rng,
}

impl Case {
    fn new(seed: u64, frames: u64) -> Result<Case> {
        let (env, mut rng) = (MemEnv::new(seed), Rng::new(seed));
        let (dir, number) = (Path::new("/man"), 1 + rng.below(2_000_000));
        env.create_dir_all(dir)?;
        let mut state = ManifestState {
            format: FormatVersion::OLDEST,
            id: rng.next_u64(),
            parent: number.is_multiple_of(2).then_some(1 << 63 | number),
            writers: writers(number),
            created_micros: 1_577_836_800_000_000,
            next_file: number + 1,
            next_tree: 1,
            ..ManifestState::default()
        };
        if seed % 2 == 1 {
            // Half of the manifests begin with a state that earlier edits left.
            (0..40).try_for_each(|_| state.apply(&edit(&mut rng, &state.clone())))?;
        }
        let manifest = Manifest::create(&env, dir, number, &state)?;
        let mut case = Case { env, manifest, number, state, frames: vec![], rng };
        (0..frames).try_for_each(|_| case.append())?;
        Ok(case)
    }

    fn append(&mut self) -> Result<()> {
        let before = (self.manifest.size() as usize, self.state.clone());
        let mut edits = vec![];
        for _ in 0..1 + self.rng.below(3) {
            let e = edit(&mut self.rng, &self.state);
            self.state.apply(&e)?;
            edits.push(e);
        }
        self.manifest.append(&edits)?;
        self.frames.push(before);
        Ok(())
    }

    fn bytes(&self) -> Result<Vec<u8>> {
        self.env.read_file(&Path::new("/man").join(manifest_name(self.number)))
    }

    fn put(
        &self,
        made: &mut Made,
        name: &str,
        manifest: Vec<u8>,
        current: Option<Vec<u8>>,
    ) -> Result<()> {
        made.file(format!("{name}/{}", manifest_name(self.number)), manifest);
        let current = current.map_or_else(|| self.env.read_file(Path::new("/man/CURRENT")), Ok)?;
        made.file(format!("{name}/CURRENT"), current);
        Ok(())
    }
}

/// Adds sound manifests: whole, with a torn last frame, with a torn mark.
pub fn sound(seed: u64, frames: u64, made: &mut Made) -> Result<()> {
    let case = Case::new(seed, frames)?;
    let bytes = case.bytes()?;
    let mut tell = |what: &str, bytes: Vec<u8>, state: &ManifestState| {
        let name = format!("manifests/{seed:03}-{}", slug(what));
        made.sound(&name, "manifest", what, told(state));
        case.put(made, &name, bytes, None)
    };
    tell("whole", bytes.clone(), &case.state)?;
    tell("the last mark is missing", bytes[..bytes.len() - 8].to_vec(), &case.state)?;
    if let Some((at, before)) = case.frames.last() {
        let mut torn = bytes[..bytes.len() - 8].to_vec();
        torn[*at + 10..].fill(0);
        tell("the last frame is torn", torn, before)?;
        tell("the last frame is cut", bytes[..at + 9].to_vec(), before)?;
        let mut bad_mark = bytes.clone();
        bad_mark[at - 3] ^= 1;
        tell("a mark is torn and a frame follows", bad_mark, &case.state)?;
    }
    Ok(())
}

/// Adds a manifest with trees of every policy.
pub fn every_policy(seed: u64, made: &mut Made) -> Result<()> {
    let mut case = Case::new(2 * seed, 0)?;
    for description in Policy::ALL {
        let mut values = vec![description.defaults()];
        values.extend((0..3).map(|_| {
            description.params.iter().map(|p| p.kind.draw(&mut |n| case.rng.below(n))).collect()
        }));
        for policy in values.iter().filter_map(|values| Policy::of(description.name, values)) {
            let options = PersistedOptions::of(&TreeOptions { policy, ..TreeOptions::default() });
            let id = case.state.next_tree;
            let edit = Edit::CreateTree {
                id,
                name: format!("{} {id}", description.name),
                options,
                flushed: 0,
            };
            case.state.apply(&edit)?;
            case.manifest.append(&[edit])?;
        }
    }
    let name = format!("manifests/{seed:03}-every-policy");
    made.sound(&name, "manifest", "every policy", told(&case.state));
    case.put(made, &name, case.bytes()?, None)
}

/// Adds a manifest with blob files. They are added with their tables; a compaction output then
/// refers to two of them, and the third is removed with its last table.
pub fn blob_files(seed: u64, made: &mut Made) -> Result<()> {
    let mut case = Case::new(2 * seed, 0)?;
    let options =
        TreeOptions { blob_threshold: 4096, blob_gc_percent: 50, ..TreeOptions::default() };
    let tree = case.state.next_tree;
    let mut edits = vec![Edit::CreateTree {
        id: tree,
        name: "long values".to_owned(),
        options: PersistedOptions::of(&options),
        flushed: 0,
    }];
    let (first, rng) = (case.state.next_file, &mut case.rng);
    let share = |v: &BlobFileMeta, n: u64| BlobUse {
        file: v.id,
        values: v.values.div_ceil(n),
        bytes: v.bytes / n,
    };
    let files: Vec<BlobFileMeta> = (0..3).map(|i| blob_file(rng, first + 10 + i)).collect();
    let mut tables = |i: u64, values: Vec<BlobUse>| {
        let mut t = table(rng, first + i, 2000 * i);
        t.values = values;
        AddedTable { level: 0, run: first + i, table: Arc::new(t) }
    };
    let own = files.iter().map(|v| share(v, 1)).collect::<Vec<_>>();
    let change =
        |removed: Vec<u64>, added: Vec<AddedTable>, values: &[BlobFileMeta]| Edit::Tables {
            tree,
            removed,
            added,
            flushed: None,
            values: values.iter().cloned().map(Arc::new).collect(),
        };
    edits.push(change(vec![], vec![tables(0, own[..1].to_vec())], &files[..1]));
    edits.push(change(vec![], vec![tables(1, own[1..].to_vec())], &files[1..]));
    // From now on half of the first file is garbage, and the third file is removed.
    let merged = vec![share(&files[0], 2), share(&files[1], 3)];
    edits.push(change(vec![first, first + 1], vec![tables(2, merged)], &[]));
    for edit in edits {
        case.state.apply(&edit)?;
        case.manifest.append(&[edit])?;
    }
    let name = format!("manifests/{seed:03}-blob-files");
    made.sound(&name, "manifest", "blob files", told(&case.state));
    case.put(made, &name, case.bytes()?, None)
}

/// Adds manifests and `CURRENT` files that a reader must reject.
pub fn damaged(seed: u64, made: &mut Made) -> Result<()> {
    let case = Case::new(seed, 4)?;
    let mut rng = Rng::new(seed);
    let (number, sound) = (case.number, case.bytes()?);
    let current = case.env.read_file(Path::new("/man/CURRENT"))?;
    let mut tell = |what: &str, verdict: &str, bytes: Vec<u8>, text: Option<Vec<u8>>| {
        let name = format!("damaged/manifest-{seed:03}-{}", slug(what));
        made.refused(&name, "manifest", what, verdict);
        case.put(made, &name, bytes, text)
    };
    let (last, second) = (case.frames[3].0, case.frames[1].0);
    let (at, bit) = (16 + rng.below(last as u64 - 16 - 8) as usize, 1u8 << rng.below(8));
    let in_mark = case.frames.iter().any(|(f, _)| (f - 8..*f).contains(&at));
    let flipped = |at: usize, bit: u8| {
        let mut b = sound.clone();
        b[at] ^= bit;
        b
    };
    if !in_mark {
        tell("a flipped bit", "damaged", flipped(at, bit), None)?;
    }
    tell("a flipped bit in the header", "damaged", flipped(seed as usize % 16, bit), None)?;
    tell("a cut header", "damaged", sound[..seed as usize % 16].to_vec(), None)?;
    let mut zeroed = sound.clone();
    zeroed[second..second + 16].fill(0);
    tell("a zeroed frame", "damaged", zeroed, None)?;
    let mut text = current.clone();
    let place = rng.below(text.len() as u64) as usize;
    text[place] ^= 1 << rng.below(7);
    tell("a flipped bit in CURRENT", "damaged", sound.clone(), Some(text))?;
    tell("a cut CURRENT", "damaged", sound.clone(), Some(current[..place].to_vec()))?;
    let newer = String::from_utf8_lossy(&current).replacen("format 1", "format 2", 1);
    let lines = newer.split_inclusive('\n').take(2).collect::<String>();
    let text = format!("{lines}crc {:08x}\n", crc32fast::hash(lines.as_bytes()));
    tell("a newer CURRENT", "newer", sound.clone(), Some(text.into_bytes()))?;

    let mut b = sound.clone();
    b[8] = 2;
    let crc = checksum(number, 0, &[&b[..12]]);
    b[12..16].copy_from_slice(&crc.to_le_bytes());
    tell("version 2", "newer", b, None)?;
    let frame = |payload: &[u8]| {
        let (len, mut b) = ((payload.len() as u32).to_le_bytes(), sound.clone());
        let crc = checksum(number, b.len() as u64, &[&len, payload]).to_le_bytes();
        [&len[..], &crc, payload].iter().for_each(|p| b.extend_from_slice(p));
        b
    };
    tell("an unknown edit", "newer", frame(&[40, 1, 7]), None)?;
    tell("an unknown required field", "newer", frame(&[12, 3, 40, 1, 7]), None)?;
    tell("a field that breaks off", "damaged", frame(&[12, 9, 2]), None)?;
    tell("a number that does not fill its field", "damaged", frame(&[6, 4, 2, 2, 1, 0]), None)?;
    tell("log writers that are not in order", "damaged", frame(&twice(5)), None)?;
    tell("a tree that is not there", "damaged", frame(&[6, 4, 2, 2, 0xff, 1]), None)?;
    tell("fields that are missing", "damaged", frame(&[12, 3, 2, 1, 7]), None)
}

/// Encodes an edit that contains the same log writer twice.
fn twice(from: u8) -> Vec<u8> {
    let writer = [&[2, 16, 2, 1, from, 4, 1, 8, 6, 8][..], &[7; 8]].concat();
    [&[14, 2 * writer.len() as u8][..], &writer, &writer].concat()
}

/// Converts a state to its expected JSON: everything but the options, which are compared field by
/// field.
pub fn told(state: &ManifestState) -> Value {
    let table = |t: &TableMeta| {
        json!({
            "id": t.id, "size": t.size, "entries": t.entries, "deletes": t.deletes, "merges": t.merges, "range_deletes": t.range_deletes,
            "raw_bytes": t.raw_bytes, "first_key": hex(&t.first_key), "last_key": hex(&t.last_key), "min_seq": t.min_seq,
            "max_seq": t.max_seq, "created": t.created_micros, "newest": t.newest_micros,
            "oldest_tombstone": t.oldest_tombstone_micros, "ingested_seq": t.ingested_seq,
            "identity": {"store": t.identity.store, "unique": t.identity.unique},
            "blob_uses": t.values.iter().map(|u| json!([u.file, u.values, u.bytes])).collect::<Vec<_>>(),
        })
    };
    let values = |v: &BlobFileMeta| {
        json!({
            "id": v.id, "size": v.size, "values": v.values, "bytes": v.bytes, "raw_bytes": v.raw_bytes,
            "identity": {"store": v.identity.store, "unique": v.identity.unique},
        })
    };
    let run = |r: &Arc<firn_kv::internals::manifest::RunState>| json!({"level": r.level, "number": r.number, "tables": r.tables.iter().map(|t| table(t)).collect::<Vec<_>>()});
    let tree = |t: &TreeState| json!({"id": t.id, "name": t.name, "flushed": t.flushed, "runs": t.runs.iter().map(run).collect::<Vec<_>>(), "blob_files": t.values.values().map(|v| values(v)).collect::<Vec<_>>()});
    let writers =
        state.writers.iter().map(|w| json!({"first_segment": w.from, "base": w.base, "id": w.id}));
    let subscriptions = state.subscriptions.values().map(|s| {
        json!({
            "name": s.name, "seq": s.seq, "position": s.position,
            "max_log_bytes": s.max_log_bytes, "snapshot_due": s.snapshot_due as u8,
        })
    });
    let mut told = json!({
        "store_id": state.id, "created": state.created_micros, "next_file": state.next_file, "last_seq": state.last_seq,
        "wal_floor": state.wal_floor, "next_tree": state.next_tree, "trees": state.trees.values().map(tree).collect::<Vec<_>>(),
        "writers": writers.collect::<Vec<_>>(), "subscriptions": subscriptions.collect::<Vec<_>>(),
    });
    state.parent.iter().for_each(|id| told["parent"] = (*id).into());
    told
}

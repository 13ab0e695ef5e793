//! Bit-rot test: flips every single bit of every file of a small store, then opens and reads the
//! store.
//!
//! Each flip must be *detected* or *harmless*. A detected flip causes an error that names the file
//! and the offset. After a harmless flip everything reads as before.
//!
//! The log alone has a third outcome. Recovery may discard bytes that nothing proves to have been
//! durable, as if a power cut had torn them (`format-spec`, "Write-ahead log"). The contents must
//! then be exactly those that were written before these bytes.
//!
//! The same rules apply to larger damage: files swapped, emptied, truncated, or with pages of
//! zeros. Run with `--nocapture` to see the counts.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use firn_crash::CrashEnv;
use firn_kv::Env as _;
use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::base::key::Trailer;
use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::manifest::{Manifest, ManifestState, TableMeta};
use firn_kv::internals::sstable::Table;
use firn_kv::internals::sstable::format::{BLOCK_HEADER, BlockHeader, FOOTER};
use firn_kv::internals::wal::{KnownSegments, recover_known};
use firn_kv::{Error, ErrorKind, ReadMode};

mod store;

use store::{Contents, DIR, LogRecord, Sound, TREES, build, is_log, open, proven, read};

/// Returns an error with a formatted message unless a condition holds.
macro_rules! ensure {
    ($holds:expr, $($words:tt)*) => {
        if !$holds {
            return Err(format!($($words)*));
        }
    };
}

/// Outcome of opening and reading a damaged store.
enum Fate {
    AtOpen(Error),
    AtRead(Error),
    AtVerify(Error),
    Read(Contents),
}

impl Fate {
    fn error(&self) -> Option<&Error> {
        match self {
            Fate::AtOpen(e) | Fate::AtRead(e) | Fate::AtVerify(e) => Some(e),
            Fate::Read(_) => None,
        }
    }
}

/// Opens a store and reads `trees` in the given read mode. If `verify` is set and no error was
/// found, it also verifies the tables.
fn examine(env: &CrashEnv, trees: &[&str], known: &Contents, mode: ReadMode, verify: bool) -> Fate {
    let db = match open(env, mode) {
        Ok(db) => db,
        Err(e) => return Fate::AtOpen(e),
    };
    let contents = match read(&db, trees, known) {
        Ok(c) => c,
        Err(e) => return Fate::AtRead(e),
    };
    if verify {
        match db.verify(|_, _| {}) {
            Ok(v) => {
                if let Some(e) = v.errors.into_iter().next() {
                    return Fate::AtVerify(e);
                }
            }
            Err(e) => return Fate::AtVerify(e),
        }
    }
    Fate::Read(contents)
}

/// Numbers of outcomes, by kind of damaged bytes and then by outcome; and the failures.
#[derive(Default)]
struct Tally {
    fates: Mutex<BTreeMap<String, BTreeMap<&'static str, usize>>>,
    failures: Mutex<Vec<String>>,
}

impl Tally {
    fn count(&self, part: &str, fate: &'static str) {
        *self.fates.lock().unwrap().entry(part.to_owned()).or_default().entry(fate).or_default() +=
            1;
    }

    fn print(&self, title: &str) {
        println!("{title}");
        for (part, fates) in &*self.fates.lock().unwrap() {
            let all: usize = fates.values().sum();
            let fates: Vec<_> = fates.iter().map(|(fate, n)| format!("{n} {fate}")).collect();
            println!("  {part:<34} {all:>7} tried: {}", fates.join(", "));
        }
    }

    fn fail(&self, words: String) {
        self.failures.lock().unwrap().push(words);
    }

    fn check(&self) {
        let mut failures = self.failures.lock().unwrap();
        failures.sort();
        assert!(
            failures.is_empty(),
            "{} failures:\n{}",
            failures.len(),
            failures[..failures.len().min(20)].join("\n")
        );
    }
}

/// Returns the byte range and the kind of each block of a table file.
fn blocks(bytes: &[u8]) -> Vec<(std::ops::Range<usize>, &'static str)> {
    let (mut all, mut at) = (vec![], 0);
    while at < bytes.len() - FOOTER {
        let h = BlockHeader::read(&bytes[at..]).unwrap();
        let end = at + BLOCK_HEADER + h.stored_len;
        all.push((at..end, h.kind.name()));
        at = end;
    }
    all.push((at..bytes.len(), "footer"));
    all
}

/// Reports whether a byte of a manifest is in a mark. A mark is a frame without payload; it only
/// states that the previous frame was durable.
fn is_mark(manifest: &[u8], at: usize) -> bool {
    let mut frame = 16;
    loop {
        let len = u32::from_le_bytes(manifest[frame..frame + 4].try_into().unwrap()) as usize;
        if at < frame + 8 + len {
            return at >= frame && len == 0;
        }
        frame += 8 + len;
    }
}

/// One damaged store to judge. `at` is the first byte that differs.
struct Damage<'a> {
    sound: &'a Sound,
    file: &'a Path,
    at: usize,
}

impl Damage<'_> {
    /// Checks that the error names the damaged file, block and offset.
    fn check_place(&self, e: &Error) -> Result<(), String> {
        ensure!(
            matches!(e.kind(), ErrorKind::Corruption | ErrorKind::Incompatible),
            "unexpected error kind: {e}"
        );
        ensure!(e.file() == Some(self.file), "error names another file: {e}");
        let Some(offset) = e.offset().map(|o| o as usize) else {
            return Err(format!("no offset: {e}"));
        };
        ensure!(offset <= self.at, "reported offset is after the damage: {e}");
        ensure!(e.block_kind().is_some(), "no block kind: {e}");
        if is_table(self.file) {
            let blocks = blocks(&self.sound.files[self.file]);
            let (place, name) =
                blocks.into_iter().find(|(place, _)| place.contains(&self.at)).unwrap();
            ensure!(
                (offset, e.block_kind()) == (place.start, Some(name)),
                "error names another block: {e}"
            );
        }
        Ok(())
    }

    /// Returns the first record of the log that has changed. Damage to a segment's header counts as
    /// damage to all of its records.
    fn record(&self, image: &CrashEnv) -> Option<&LogRecord> {
        self.sound.log.iter().find(|r| {
            let (was, is) =
                (&self.sound.files[&r.file], image.read_file(&r.file).unwrap_or_default());
            was[..80] != is[..is.len().min(80)]
                || is.get(r.bytes.clone()) != Some(&was[r.bytes.clone()])
        })
    }

    /// Judges damage to the log.
    fn judge_log(&self, image: &CrashEnv, fate: &Fate) -> Result<&'static str, String> {
        let record = self.record(image);
        let Some(e) = fate.error() else {
            let Fate::Read(contents) = fate else { return Err("no error and no contents".into()) };
            let proven = proven(image);
            ensure!(
                record.is_none_or(|r| r.lsn >= proven),
                "discarded although known to be durable up to {proven}"
            );
            ensure!(
                contents == self.sound.contents(record),
                "contents differ from those written before the damage"
            );
            return Ok(match record {
                None => "harmless: not part of a record that is needed",
                Some(r) if r.mark => "harmless: a mark at the end",
                Some(_) => "discarded as torn",
            });
        };
        ensure!(record.is_some(), "error although no needed record is damaged: {e}");
        ensure!(
            matches!(e.kind(), ErrorKind::Corruption | ErrorKind::Incompatible),
            "unexpected error kind: {e}"
        );
        ensure!(
            e.file() == Some(self.file) && e.offset().is_some_and(|o| o as usize <= self.at),
            "error names another place: {e}"
        );
        Ok("found at open")
    }

    fn judge(&self, image: &CrashEnv, fate: &Fate) -> Result<&'static str, String> {
        if is_log(self.file) {
            return self.judge_log(image, fate);
        }
        let Some(e) = fate.error() else {
            let Fate::Read(contents) = fate else { return Err("no error and no contents".into()) };
            let whole = self.sound.contents(None);
            ensure!(contents.iter().all(|(tree, keys)| whole[tree] == *keys), "wrong data");
            if self.file.to_string_lossy().contains("MANIFEST-") {
                ensure!(
                    is_mark(&self.sound.files[self.file], self.at),
                    "damage to a frame was not detected"
                );
                return Ok("harmless: in a mark");
            }
            return Ok("harmless: nothing reads it");
        };
        self.check_place(e)?;
        Ok(match fate {
            Fate::AtOpen(_) => "found at open",
            Fate::AtRead(_) => "found at read",
            _ => "found by verify only",
        })
    }
}

/// Names the part of a file that a byte belongs to.
fn part(sound: &Sound, file: &Path, at: usize) -> String {
    let bytes = &sound.files[file];
    let name = file.file_name().unwrap().to_str().unwrap();
    if is_table(file) {
        let (_, name) = blocks(bytes).into_iter().find(|(place, _)| place.contains(&at)).unwrap();
        return format!("table: {name}");
    }
    if is_log(file) {
        let mut here = sound.log.iter().filter(|r| r.file == file).peekable();
        if here.peek().is_none() {
            return "log: segment that is not needed".into();
        }
        return match here.find(|r| (r.bytes.start..r.bytes.end.next_multiple_of(8)).contains(&at)) {
            _ if at < 80 => "log: segment header".into(),
            Some(r) if at >= r.bytes.end => "log: padding".into(),
            Some(r) if r.mark => "log: mark".into(),
            Some(r) if at < r.bytes.start + 32 => "log: record header".into(),
            Some(_) => "log: payload".into(),
            None if at
                < sound
                    .log
                    .iter()
                    .filter(|r| r.file == file)
                    .map(|r| r.bytes.start)
                    .min()
                    .unwrap() =>
            {
                "log: records that are in tables".into()
            }
            None => "log: zeros after the end".into(),
        };
    }
    if name.starts_with("MANIFEST-") {
        return if at < 16 { "manifest: header".into() } else { "manifest: frames".into() };
    }
    name.to_owned()
}

fn is_table(file: &Path) -> bool {
    file.extension().is_some_and(|x| x == "sst")
}

/// Returns the name of the tree that owns a table, and the table's metadata.
fn owner_of(sound: &Sound, file: &Path) -> (String, Arc<TableMeta>) {
    let (state, _) = Manifest::load(&sound.env, Path::new(DIR)).unwrap().unwrap();
    let id = file.file_stem().and_then(|s| s.to_str()?.parse::<u64>().ok());
    let tables = state
        .trees
        .values()
        .flat_map(|t| t.runs.iter().flat_map(|r| &r.tables).map(|m| (t.name.clone(), m.clone())));
    tables.into_iter().find(|(_, m)| Some(m.id) == id).unwrap()
}

/// Returns the trees that a file can affect. Only its own tree reads a table; an opening reads all
/// other files.
fn trees_of(sound: &Sound, file: &Path) -> Vec<&'static str> {
    if !is_table(file) {
        return TREES.to_vec();
    }
    let own = owner_of(sound, file).0;
    TREES.into_iter().filter(|t| *t == own).collect()
}

/// Calls `work` for each of `n` numbers, on all processors (at most 8).
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn each(n: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get()).min(8);
    std::thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= n {
                        break;
                    }
                    work(i);
                }
            });
        }
    });
}

/// Returns how often a flip is tested through a whole `Db` where a shorter path reads the same
/// bytes. Every 101st flip is; since 101 is odd, these cover all bits of a byte. `FIRN_ROT=1` tests
/// all of them this way.
fn through_db() -> usize {
    if std::env::var_os("FIRN_ROT").is_some() { 1 } else { 101 }
}

/// Flips every bit of a file through a whole `Db`. If the file is read at all, the first step of
/// opening reads it, so failures are immediate.
fn flip_whole(sound: &Sound, file: &Path, tally: &Tally) {
    // Only people read the event log, so about one bit in seven bytes is enough.
    let step = if file.ends_with("EVENTS.jsonl") { 8 * 7 + 1 } else { 1 };
    each(8 * sound.files[file].len() / step, |i| judge_whole(sound, file, i * step, tally));
}

fn flipped(sound: &Sound, file: &Path, bit: usize) -> CrashEnv {
    let (image, mut damaged) = (sound.env.fork(), sound.files[file].clone());
    damaged[bit / 8] ^= 1 << (bit % 8);
    image.write_file(file, &damaged).unwrap();
    image
}

fn mode_of(bit: usize) -> ReadMode {
    if bit.is_multiple_of(2) { ReadMode::Mmap } else { ReadMode::Pread }
}

/// Records a verdict; a panic counts as a failure.
fn note(
    sound: &Sound,
    file: &Path,
    bit: usize,
    tally: &Tally,
    judge: impl FnOnce() -> Result<&'static str, String>,
) {
    let part = part(sound, file, bit / 8);
    match catch_unwind(AssertUnwindSafe(judge)).unwrap_or_else(|_| Err("a panic".into())) {
        Ok(fate) => tally.count(&part, fate),
        Err(e) => tally.fail(format!(
            "{}, byte {}, bit {} ({part}): {e}",
            file.display(),
            bit / 8,
            bit % 8
        )),
    }
}

fn judge_whole(sound: &Sound, file: &Path, bit: usize, tally: &Tally) {
    note(sound, file, bit, tally, || {
        let image = flipped(sound, file, bit);
        let fate = examine(
            &image,
            &trees_of(sound, file),
            sound.contents(None),
            mode_of(bit),
            is_table(file),
        );
        Damage { sound, file, at: bit / 8 }.judge(&image, &fate)
    });
}

/// Key, trailer and value.
type TableEntry = (Vec<u8>, Trailer, Vec<u8>);

/// Returns all entries of a table, and checks that all ways of reading them agree.
fn read_table(
    env: &CrashEnv,
    file: &Path,
    (tree, meta): &(String, Arc<TableMeta>),
    mode: ReadMode,
) -> Result<Vec<TableEntry>, Fate> {
    let open = env.open_read(file, mode == ReadMode::Mmap).map_err(Fate::AtOpen)?;
    let cache = Cache::new(64 << 10);
    let table = Table::open_ingested(open, file, meta.id, cache, meta.ingested_seq)
        .map_err(Fate::AtRead)?;
    let read = || {
        let (mut all, mut back) = (vec![], vec![]);
        let mut c = table.cursor(true);
        c.first()?;
        while c.valid() {
            all.push((c.key().to_vec(), c.trailer(), c.value().to_vec()));
            c.next()?;
        }
        c.last()?;
        while c.valid() {
            back.push((c.key().to_vec(), c.trailer(), c.value().to_vec()));
            c.prev()?;
        }
        assert!(all.iter().eq(back.iter().rev()), "a backward scan differs from a forward scan");
        for (key, trailer, value) in &all {
            c.seek(key, *trailer)?;
            assert!(
                c.valid() && c.key() == key && c.value() == value,
                "a seek does not find an entry that a scan finds"
            );
        }
        Ok(all)
    };
    let all = read().map_err(Fate::AtRead)?;
    let prefix = store::tree_options(tree).filter_prefix;
    table.verify(prefix.as_deref(), |_| {}).map_err(Fate::AtVerify)?;
    Ok(all)
}

/// Flips every bit of a table. Opening a `Db` looks only at a table's length; all later reads of
/// the file go through the functions called here. So only some of the flips are tested through a
/// `Db` as well.
fn flip_table(sound: &Sound, file: &Path, tally: &Tally) {
    let owner = owner_of(sound, file);
    let Ok(whole) = read_table(&sound.env, file, &owner, ReadMode::Mmap) else {
        panic!("{}: not sound", file.display())
    };
    each(8 * sound.files[file].len(), |bit| {
        note(sound, file, bit, tally, || {
            let image = flipped(sound, file, bit);
            let fate = match read_table(&image, file, &owner, mode_of(bit)) {
                Ok(entries) if entries == whole => Fate::Read(Contents::new()),
                Ok(_) => return Err("wrong data".into()),
                Err(fate) => fate,
            };
            Damage { sound, file, at: bit / 8 }.judge(&image, &fate)
        });
        if bit.is_multiple_of(through_db()) {
            judge_whole(sound, file, bit, tally);
        }
    });
}

/// Returns the records that recovery passes to a `Db`.
fn recovered(
    env: &CrashEnv,
    state: &ManifestState,
    durable: u64,
) -> Result<Vec<(u64, Vec<u8>)>, Error> {
    let mut all = vec![];
    let known = KnownSegments { store: state.id, durable, writers: Some(&state.writers) };
    recover_known(env, Path::new(DIR), state.wal_floor, &known, &mut |seq, _, payload| {
        all.push((seq, payload.to_vec()));
        Ok(())
    })?;
    Ok(all)
}

/// Flips every bit of a log segment. A `Db` gets from the log only the records that `recover`
/// passes to it. These must be the same records, or a prefix of them. Some of the flips are also
/// tested through a `Db`.
fn flip_log(sound: &Sound, file: &Path, tally: &Tally) {
    let state = Manifest::load(&sound.env, Path::new(DIR)).unwrap().unwrap().0;
    let durable = store::flushed(&sound.env);
    let whole = recovered(&sound.env, &state, durable).unwrap();
    // For a segment that is no longer needed, one bit of each byte is enough. Recovery looks only
    // at its header and its length.
    let step = if sound.log.iter().any(|r| r.file == file) { 1 } else { 9 };
    each(8 * sound.files[file].len() / step, |i| {
        let bit = i * step;
        note(sound, file, bit, tally, || {
            let image = flipped(sound, file, bit);
            let damage = Damage { sound, file, at: bit / 8 };
            let fate = match recovered(&image, &state, durable) {
                Err(e) => Fate::AtOpen(e),
                Ok(records) => {
                    let lost =
                        damage.record(&image).filter(|r| !r.mark).map_or(u64::MAX, |r| r.seq);
                    let kept = whole.iter().filter(|(seq, _)| *seq < lost);
                    ensure!(kept.eq(&records), "the records are not those before the damage");
                    Fate::Read(sound.contents(damage.record(&image)).clone())
                }
            };
            damage.judge(&image, &fate)
        });
        if bit.is_multiple_of(through_db()) {
            judge_whole(sound, file, bit, tally);
        }
    });
}

/// A change to files: its description, and the files with their new content.
type Changed = (String, Vec<(PathBuf, Vec<u8>)>);

/// Returns larger damage: each file emptied, truncated at many lengths, and with pages of zeros;
/// and each pair of files swapped.
fn larger(sound: &Sound) -> Vec<Changed> {
    let mut all = vec![];
    let files: Vec<_> =
        sound.files.iter().filter(|(f, b)| !b.is_empty() && !f.ends_with("EVENTS.jsonl")).collect();
    for (i, (file, bytes)) in files.iter().enumerate() {
        for len in (0..bytes.len()).step_by(64) {
            all.push((
                format!("{} cut off at {len}", file.display()),
                vec![((*file).clone(), bytes[..len].to_vec())],
            ));
        }
        for page in (0..bytes.len()).step_by(4096) {
            let mut zeros = (*bytes).clone();
            zeros[page..].iter_mut().take(4096).for_each(|b| *b = 0);
            all.push((
                format!("{} with zeros from {page} on", file.display()),
                vec![((*file).clone(), zeros)],
            ));
        }
        for (other, others) in &files[..i] {
            let swapped =
                vec![((*file).clone(), (*others).clone()), ((*other).clone(), (*bytes).clone())];
            all.push((format!("{} and {} swapped", file.display(), other.display()), swapped));
        }
    }
    all
}

/// Judges larger damage. It must be detected in one of the damaged files, be harmless, or cost only
/// the end of the log that nothing proves durable.
fn judge_larger(
    sound: &Sound,
    image: &CrashEnv,
    changed: &Changed,
) -> Result<&'static str, String> {
    match examine(image, &TREES, sound.contents(None), ReadMode::Mmap, true) {
        Fate::Read(contents) => {
            let (file, _) = &changed.1[0];
            let damage = Damage { sound, file, at: 0 };
            let record = damage.record(image);
            let logs = changed.1.iter().all(|(f, _)| is_log(f));
            ensure!(logs || contents == *sound.contents(None), "wrong data");
            ensure!(
                record.is_none_or(|r| r.lsn >= proven(image)),
                "discarded although known to be durable"
            );
            ensure!(
                contents == *sound.contents(record),
                "contents differ from those written before the damage"
            );
            Ok(if record.is_none_or(|r| r.mark) { "harmless" } else { "discarded as torn" })
        }
        fate => {
            let Some(e) = fate.error() else { return Err("no error and no contents".into()) };
            ensure!(e.kind() == ErrorKind::Corruption, "unexpected error kind: {e}");
            ensure!(e.offset().is_some(), "no offset: {e}");
            // If a segment looks as if it had never been used, the error names the segment before
            // it, at its end.
            let near = |f: &Path| {
                e.file() == Some(f) || (is_log(f) && e.file().is_some_and(|e| is_log(e) && e < f))
            };
            ensure!(changed.1.iter().any(|(f, _)| near(f)), "error names another file: {e}");
            Ok("found")
        }
    }
}

fn damage_all(sound: &Sound, tally: &Tally, which: impl Fn(&Path) -> bool) {
    let all: Vec<_> =
        larger(sound).into_iter().filter(|(_, c)| c.iter().all(|(f, _)| which(f))).collect();
    each(all.len(), |i| {
        let image = sound.env.fork();
        all[i].1.iter().for_each(|(f, b)| image.write_file(f, b).unwrap());
        let judged = catch_unwind(AssertUnwindSafe(|| judge_larger(sound, &image, &all[i])));
        match judged.unwrap_or_else(|_| Err("a panic".into())) {
            Ok(fate) => {
                tally.count(if all[i].1.len() > 1 { "swapped" } else { "cut off, or zeros" }, fate)
            }
            Err(e) => tally.fail(format!("{}: {e}", all[i].0)),
        }
    });
}

#[test]
fn swapped_cut_off_and_zeroed_files() {
    let (died, closed) = build();
    let tally = Tally::default();
    damage_all(&closed, &tally, |_| true);
    tally.print("a store that was closed, files damaged:");
    tally.check();
    let tally = Tally::default();
    damage_all(&died, &tally, is_log);
    tally.print("the log of a store whose process died, files damaged:");
    tally.check();
}

#[test]
fn every_bit_of_every_file() {
    let (died, closed) = build();
    let tally = Tally::default();
    for file in closed.files.keys() {
        match () {
            () if is_table(file) => flip_table(&closed, file, &tally),
            () if is_log(file) => flip_log(&closed, file, &tally),
            () => flip_whole(&closed, file, &tally),
        }
    }
    tally.print("a store that was closed, every bit flipped:");
    tally.check();
    let tally = Tally::default();
    // Closing the store releases the reserved segments.
    let differs = |f: &Path| is_log(f) && closed.files.get(f) != Some(&died.files[f]);
    died.files.keys().filter(|f| differs(f)).for_each(|f| flip_log(&died, f, &tally));
    tally.print("the log of a store whose process died, every bit flipped:");
    tally.check();
}

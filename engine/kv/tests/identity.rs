//! Every file has the identity of its store. The engine recognizes files of another store, of a
//! clone and of an earlier state. It never reads them as its own, even if their names, numbers,
//! lengths and checksums are valid.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_crash::CrashEnv;
use firn_kv::Env as _;
use firn_kv::internals::base::format_version::FormatVersion;
use firn_kv::internals::base::identity::LogWriter;
use firn_kv::internals::manifest::{Manifest, ManifestState};
use firn_kv::internals::sstable::format::FOOTER;
use firn_kv::internals::util::checksum::checksum;
use firn_kv::internals::wal::format::SEGMENT_HEADER;
use firn_kv::internals::wal::{
    KnownSegments, SegmentReader, Wal, recover, recover_known, segment_name, writers,
};
use firn_kv::{Db, DbOptions, Error, ErrorKind, Tree, TreeOptions};

const DIR: &str = "/db";

fn options() -> DbOptions {
    DbOptions {
        background_threads: 0,
        wal_segment: 64 << 10,
        event_log: false,
        ..DbOptions::default()
    }
}

fn open(env: &CrashEnv) -> Result<(Db, Tree), Error> {
    let db = Db::open_in(Arc::new(env.clone()), DIR, options())?;
    let tree = db.tree("t", TreeOptions::default())?;
    Ok((db, tree))
}

fn read_only(env: &CrashEnv) -> Result<Db, Error> {
    Db::open_in(Arc::new(env.clone()), DIR, DbOptions { read_only: true, ..options() })
}

fn error_of<T>(result: Result<T, Error>) -> Error {
    let Err(e) = result else { panic!("the file was accepted") };
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    e
}

fn state(env: &CrashEnv) -> ManifestState {
    Manifest::load(env, Path::new(DIR)).unwrap().unwrap().0
}

fn segment(number: u64) -> PathBuf {
    Path::new(DIR).join(segment_name(number))
}

/// Returns the disk of a killed process that opened a store in `env` and wrote these pairs.
fn killed(env: &CrashEnv, pairs: &[(&str, &str)]) -> CrashEnv {
    let (db, tree) = open(env).unwrap();
    pairs.iter().for_each(|(k, v)| tree.put(k.as_bytes(), v.as_bytes()).unwrap());
    let image = env.fork();
    drop((tree, db));
    image
}

fn value(env: &CrashEnv, key: &str) -> Option<Vec<u8>> {
    let (_db, tree) = open(env).unwrap();
    tree.get(key.as_bytes()).unwrap().map(|v| v.to_vec())
}

/// Returns two clones of one store, which then continue independently.
fn clones() -> (CrashEnv, CrashEnv) {
    let store = CrashEnv::new(1);
    let (db, tree) = open(&store).unwrap();
    tree.put(b"a", b"1").unwrap();
    drop((tree, db));
    // A copy of a directory draws other random numbers from then on; forks of one environment would
    // draw the same.
    let copy = |seed: u64| {
        let env = CrashEnv::new(seed);
        env.create_dir_all(Path::new(DIR)).unwrap();
        for file in store.files() {
            env.write_file(&file, &store.read_file(&file).unwrap()).unwrap();
        }
        env
    };
    (copy(2), copy(3))
}

fn newest_segment(env: &CrashEnv) -> u64 {
    state(env).writers.last().unwrap().from
}

#[test]
fn a_log_segment_of_a_clone_is_refused_and_named() {
    let (one, two) = clones();
    let one = killed(&one, &[("a", "balance=100"), ("c", "mine")]);
    let two = killed(&two, &[("a", "balance=999"), ("d", "foreign")]);
    let number = newest_segment(&one);
    assert_eq!((number, state(&one).id), (newest_segment(&two), state(&two).id));
    let mixed = one.fork();
    mixed.write_file(&segment(number), &two.read_file(&segment(number)).unwrap()).unwrap();
    for e in [error_of(open(&mixed)), error_of(read_only(&mixed))] {
        assert_eq!(
            (e.file(), e.block_kind()),
            (Some(segment(number).as_path()), Some("wal segment header")),
            "{e}"
        );
        assert!(e.to_string().contains("a clone"), "{e}");
    }
    // The clone's segment is also refused under a number that the store has not used yet.
    let beside = one.fork();
    let (db, tree) = open(&two).unwrap();
    drop((tree, db));
    let later = newest_segment(&two);
    beside.write_file(&segment(later), &two.read_file(&segment(later)).unwrap()).unwrap();
    assert!(error_of(open(&beside)).to_string().contains("a clone"));
    assert_eq!(value(&one, "c").as_deref(), Some(&b"mine"[..]));
}

#[test]
fn a_part_of_a_clones_segment_is_noticed_within_a_segment() {
    let (one, two) = clones();
    let one = killed(&one, &[("a", "balance=100"), ("c", "mine")]);
    let two = killed(&two, &[("a", "balance=999"), ("d", "foreign")]);
    let path = segment(newest_segment(&one));
    let (mut bytes, other) = (one.read_file(&path).unwrap(), two.read_file(&path).unwrap());
    let at = SEGMENT_HEADER as usize;
    bytes[at..].copy_from_slice(&other[at..]);
    one.write_file(&path, &bytes).unwrap();
    let e = error_of(open(&one));
    assert_eq!((e.file(), e.offset()), (Some(path.as_path()), Some(SEGMENT_HEADER)), "{e}");
    assert!(e.to_string().contains("another writer"), "{e}");
}

#[test]
fn a_log_segment_of_another_store_is_refused_and_named() {
    let one = killed(&CrashEnv::new(1), &[("a", "1")]);
    let two = killed(&CrashEnv::new(2), &[("b", "2")]);
    one.write_file(&segment(1), &two.read_file(&segment(1)).unwrap()).unwrap();
    let e = error_of(open(&one));
    assert!(e.to_string().contains(&format!("another store (id {:016x}", state(&two).id)), "{e}");
}

#[test]
fn an_empty_segment_of_a_clone_takes_nothing_away() {
    let (one, two) = clones();
    let one = killed(&one, &[("b", "more"), ("c", "mine")]);
    // The second opening finds a log that was not closed, and begins a segment at once.
    let two = killed(&killed(&two, &[("b", "less")]), &[]);
    let number = newest_segment(&two);
    assert!(number > newest_segment(&one));
    // Its base is before this store's last record, and it would void that record if it counted.
    one.write_file(&segment(number), &two.read_file(&segment(number)).unwrap()).unwrap();
    assert_eq!(value(&one, "c").as_deref(), Some(&b"mine"[..]));
}

#[test]
fn an_opening_that_came_to_nothing_leaves_a_segment_that_does_not_count() {
    let env = killed(&CrashEnv::new(1), &[("a", "1"), ("b", "2")]);
    let known = state(&env);
    for round in 0..3 {
        let found = recover(&env, Path::new(DIR), known.wal_floor, &mut |_, _, _| Ok(())).unwrap();
        // The process dies between the new segment and the new manifest.
        drop(
            Wal::create(
                Arc::new(env.clone()),
                Path::new(DIR),
                known.id,
                FormatVersion::OLDEST,
                &found,
                64 << 10,
            )
            .unwrap(),
        );
        assert_eq!(value(&env.fork(), "b").as_deref(), Some(&b"2"[..]), "{round}");
    }
    let env = killed(&env, &[("c", "3")]);
    assert_eq!([value(&env, "a"), value(&env, "c")], [Some(b"1".to_vec()), Some(b"3".to_vec())]);
}

#[test]
fn the_segment_that_the_newest_writer_began_with_must_be_there() {
    let env = killed(&killed(&CrashEnv::new(1), &[("a", "1")]), &[("b", "2")]);
    let path = segment(newest_segment(&env));
    let gone = env.fork();
    gone.remove(&path).unwrap();
    let e = error_of(open(&gone));
    assert!(e.file() == Some(&path) && e.to_string().contains("is missing"), "{e}");
    let mut bytes = env.read_file(&path).unwrap();
    bytes[30] ^= 1;
    env.write_file(&path, &bytes).unwrap();
    let e = error_of(open(&env));
    assert!(e.file() == Some(&path) && e.to_string().contains("damaged header"), "{e}");
}

#[test]
fn writers_are_listed_as_long_as_their_segments_are_there() {
    let env = CrashEnv::new(1);
    for round in 0..6u8 {
        let (_db, tree) = open(&env).unwrap();
        tree.put(&[round], b"v").unwrap();
        let state = state(&env);
        let of_files = writers(&env, Path::new(DIR)).unwrap();
        assert!(
            of_files.iter().all(|w| state.writers.contains(w)),
            "{of_files:?} {:?}",
            state.writers
        );
        let header =
            SegmentReader::open(&env, Path::new(DIR), state.writers.last().unwrap().from).unwrap();
        let header = header.header().unwrap().clone();
        let last = LogWriter { from: header.number, id: header.writer, base: header.base };
        assert_eq!((state.writers.last(), header.store), (Some(&last), state.id));
        if round == 4 {
            tree.flush().unwrap();
        }
    }
    // The log begins after the flushed records. Earlier records and their writers have been
    // released.
    assert!(state(&env).writers.len() <= 4, "{:?}", state(&env).writers);
}

/// Writes a table; two such tables have equal id, size, counts, sequence numbers and bounds.
fn with_table(env: &CrashEnv, value: &str) -> PathBuf {
    let (_db, tree) = open(env).unwrap();
    tree.put(b"a", value.as_bytes()).unwrap();
    tree.compact().unwrap();
    let tables = state(env)
        .trees
        .values()
        .flat_map(|t| t.tables().map(|t| t.id).collect::<Vec<_>>())
        .collect::<Vec<_>>();
    Path::new(DIR).join(format!("{:08}.sst", tables[0]))
}

fn read(env: &CrashEnv) -> (Error, Vec<String>) {
    let db = read_only(env).map_err(|e| (e.clone(), vec![e.to_string()]));
    match db {
        Err(e) => e,
        Ok(db) => {
            let e = error_of(db.tree("t", TreeOptions::default()).unwrap().get(b"a").map(|_| ()));
            (e, db.verify(|_, _| ()).unwrap().errors.iter().map(Error::to_string).collect())
        }
    }
}

#[test]
fn a_table_of_another_store_or_of_a_clone_is_refused_and_named() {
    let (one, two) = (CrashEnv::new(1), CrashEnv::new(2));
    let (path, other) = (with_table(&one, "balance=111"), with_table(&two, "balance=222"));
    let foreign = two.read_file(&other).unwrap();
    assert_eq!((&path, one.read_file(&path).unwrap().len()), (&other, foreign.len()));
    one.write_file(&path, &foreign).unwrap();
    let (e, told) = read(&one);
    assert!(
        e.file() == Some(&path) && e.to_string().contains("a table of another store (id"),
        "{e}"
    );
    assert!(told.iter().any(|t| t.contains("another store")), "{told:?}");
    // A read-write opening reports it when the table is first read.
    let e = match open(&one) {
        Ok((_db, tree)) => error_of(tree.get(b"a").map(|_| ())),
        Err(e) => e,
    };
    assert!(e.to_string().contains("another store"), "{e}");

    let (one, two) = clones();
    let (path, other) = (with_table(&one, "balance=111"), with_table(&two, "balance=222"));
    assert_eq!(path, other);
    one.write_file(&path, &two.read_file(&other).unwrap()).unwrap();
    let (e, _) = read(&one);
    assert!(e.to_string().contains("another table of this store, or of a clone"), "{e}");
}

#[test]
fn a_checkpoint_is_an_independent_store_whose_tables_name_their_writer() {
    let env = CrashEnv::new(1);
    let (db, tree) = open(&env).unwrap();
    tree.put(b"a", b"1").unwrap();
    db.checkpoint("/copy").unwrap();
    let (own, copy) = (state(&env), Manifest::load(&env, Path::new("/copy")).unwrap().unwrap().0);
    assert_eq!((copy.parent, own.parent), (Some(own.id), None));
    assert!(copy.id != own.id && copy.writers.is_empty());
    let stores = |s: &ManifestState| {
        s.trees
            .values()
            .flat_map(|t| t.tables().map(|t| t.identity.store).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    assert_eq!(stores(&copy), [own.id]);
    // The copy continues independently, and reads its initial contents.
    let copied = Db::open_in(Arc::new(env.clone()), "/copy", options()).unwrap();
    let t = copied.tree("t", TreeOptions::default()).unwrap();
    t.put(b"b", b"2").unwrap();
    t.flush().unwrap();
    assert_eq!(t.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    drop((t, copied));
    let copied = Manifest::load(&env, Path::new("/copy")).unwrap().unwrap().0;
    let mut all = stores(&copied);
    all.sort_unstable();
    let mut expected = [own.id, copy.id];
    expected.sort_unstable();
    assert_eq!((all.as_slice(), copied.parent), (&expected[..], Some(own.id)));
}

#[test]
fn the_log_alone_names_its_writer() {
    let env = killed(&killed(&CrashEnv::new(1), &[("a", "1")]), &[("b", "2")]);
    let (known, of_files) = (state(&env), writers(&env, Path::new(DIR)).unwrap());
    assert_eq!(known.writers, of_files);
    let all = KnownSegments { store: known.id, durable: 0, writers: Some(&of_files) };
    let found =
        recover_known(&env, Path::new(DIR), known.wal_floor, &all, &mut |_, _, _| Ok(())).unwrap();
    assert_eq!(found.records, 2);
}

#[test]
fn a_table_of_a_newer_version_stops_an_opening_for_writing_before_it_writes() {
    let env = CrashEnv::new(1);
    let path = with_table(&env, "v");
    let mut bytes = env.read_file(&path).unwrap();
    let footer = bytes.len() - FOOTER;
    bytes[footer + 60] = 2;
    let crc = checksum(2, footer as u64, &[&bytes[footer..footer + 56], &bytes[footer + 60..]]);
    bytes[footer + 56..footer + 60].copy_from_slice(&crc.to_le_bytes());
    env.write_file(&path, &bytes).unwrap();
    let content = || {
        env.files().into_iter().map(|f| (f.clone(), env.read_file(&f).unwrap())).collect::<Vec<_>>()
    };
    let before = content();
    let options = DbOptions { event_log: true, ..options() };
    let e = Db::open_in(Arc::new(env.clone()), DIR, options).err().unwrap();
    assert_eq!((e.kind(), e.file()), (ErrorKind::Incompatible, Some(path.as_path())), "{e}");
    assert!(e.to_string().contains("version 2"), "{e}");
    assert!(content() == before, "something was written");
}

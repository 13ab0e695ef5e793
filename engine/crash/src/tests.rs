//! Tests crash images, case by case, and against a simple oracle.

use proptest::prelude::*;

use super::*;
use crate::content;

fn p(path: &str) -> &Path {
    Path::new(path)
}

fn text(mem: &CrashEnv, file: &str) -> Option<String> {
    mem.read_file(p(file)).ok().map(|b| String::from_utf8(b).unwrap())
}

/// Returns all images of all crash points, by the crasher and one by one; both must agree.
fn images(mem: &CrashEnv, cut: Cut) -> Vec<CrashEnv> {
    let mut crasher = mem.crasher();
    let mut all = vec![crasher.image(&cut)];
    while crasher.advance() {
        all.push(crasher.image(&cut));
    }
    assert_eq!((all.len(), crasher.at()), (mem.journal_len() + 1, mem.journal_len()));
    for (at, image) in all.iter().enumerate() {
        assert_eq!(dump(image), dump(&mem.crash_image(at, &cut)), "at {at}");
    }
    all
}

fn dump(mem: &CrashEnv) -> Vec<(PathBuf, Vec<u8>)> {
    mem.files().into_iter().map(|f| (f.clone(), mem.read_file(&f).unwrap())).collect()
}

#[test]
fn unsynced_data_and_unsynced_names_are_lost_separately() {
    let mem = CrashEnv::new(1);
    mem.start_journal();
    let mut f = mem.create(p("/f")).unwrap(); // 1
    f.append(b"one").unwrap(); // 2
    f.sync().unwrap(); // 3
    f.append(b"two").unwrap(); // 4
    mem.sync_dir(p("/")).unwrap(); // 5
    f.sync().unwrap(); // 6
    let shown = |cut| images(&mem, cut).iter().map(|i| text(i, "/f")).collect::<Vec<_>>();
    let some = |s: &str| Some(s.to_string());
    let all =
        [None, some(""), some("one"), some("one"), some("onetwo"), some("onetwo"), some("onetwo")];
    assert_eq!(shown(Cut::Process), all);
    assert_eq!(shown(Cut::PowerAll), all);
    assert_eq!(shown(Cut::PowerNone), [None, None, None, None, None, some("one"), some("onetwo")]);
    let names_only = Cut::PowerData { keep_entries: true, keep_data: false };
    assert_eq!(
        shown(names_only),
        [None, some(""), some(""), some("one"), some("one"), some("one"), some("onetwo")]
    );
    let data_only = Cut::PowerData { keep_entries: false, keep_data: true };
    assert_eq!(shown(data_only), [None, None, None, None, None, some("onetwo"), some("onetwo")]);
    assert_eq!(mem.journal_op(1).unwrap(), "write /f at 0, 3 bytes");
    assert_eq!(mem.journal_op(6), None);
}

#[test]
fn a_process_crash_keeps_the_unsynced_unsynced() {
    let mem = CrashEnv::new(1);
    mem.create(p("/f")).unwrap().append(b"x").unwrap();
    let after = mem.crash_image(0, &Cut::Process);
    assert_eq!(text(&after, "/f").unwrap(), "x");
    assert_eq!(text(&after.crash_image(0, &Cut::PowerNone), "/f"), None);
    let after = mem.crash_image(0, &Cut::PowerAll);
    assert_eq!(text(&after.crash_image(0, &Cut::PowerNone), "/f").unwrap(), "x");
}

#[test]
fn renames_links_and_removals_revert_until_the_directory_is_synced() {
    let mem = CrashEnv::new(1);
    for name in ["/a", "/b", "/c"] {
        mem.write_file(p(name), name.as_bytes()).unwrap();
    }
    mem.sync_dir(p("/")).unwrap();
    let before = dump(&mem);
    mem.rename(p("/a"), p("/b")).unwrap();
    mem.hard_link(p("/c"), p("/d")).unwrap();
    mem.remove(p("/c")).unwrap();
    let after = dump(&mem);
    assert_eq!(mem.files(), [p("/b"), p("/d")]);
    assert_eq!(dump(&mem.crash_image(0, &Cut::PowerNone)), before);
    assert_eq!(dump(&mem.crash_image(0, &Cut::PowerAll)), after);
    mem.sync_dir(p("/")).unwrap();
    assert_eq!(dump(&mem.crash_image(0, &Cut::PowerNone)), after);
}

#[test]
fn a_directory_is_lost_with_all_it_holds_until_its_parent_is_synced() {
    let mem = CrashEnv::new(1);
    mem.create_dir_all(p("/a/b")).unwrap();
    mem.write_file(p("/a/b/f"), b"x").unwrap();
    mem.sync_dir(p("/a/b")).unwrap();
    let files = || mem.crash_image(0, &Cut::PowerNone).files();
    assert!(files().is_empty());
    mem.sync_dir(p("/")).unwrap();
    assert!(files().is_empty());
    mem.sync_dir(p("/a")).unwrap();
    assert_eq!(files(), [p("/a/b/f")]);
}

#[test]
fn a_rename_never_loses_the_file() {
    for seed in 0..400 {
        let mem = CrashEnv::new(1);
        mem.write_file(p("/a"), b"A").unwrap();
        mem.write_file(p("/c"), b"old").unwrap();
        mem.sync_dir(p("/")).unwrap();
        mem.rename(p("/a"), p("/b")).unwrap();
        mem.rename(p("/b"), p("/c")).unwrap();
        mem.write_file(p("/a"), b"new").unwrap();
        let image = mem.crash_image(0, &Cut::PowerRandom(seed));
        assert!(
            ["/a", "/b", "/c"].iter().any(|f| text(&image, f).as_deref() == Some("A")),
            "{:?}",
            dump(&image)
        );
        assert!(text(&image, "/c").is_some());
    }
}

#[test]
fn a_log_s_length_is_durable_after_its_sync() {
    let mem = CrashEnv::new(1);
    let log = mem.create_log(p("/log"), 2048).unwrap();
    mem.sync_dir(p("/")).unwrap();
    let len = || mem.crash_image(0, &Cut::PowerNone).file_len(p("/log")).unwrap();
    assert_eq!(len(), 0);
    log.sync().unwrap();
    assert_eq!(len(), 2048);
    log.write_at(100, b"stale").unwrap();
    assert_eq!(mem.crash_image(0, &Cut::PowerNone).read_file(p("/log")).unwrap(), [0; 2048]);
    assert_eq!(
        mem.crash_image(0, &Cut::Process).read_file(p("/log")).unwrap()[100..105],
        *b"stale"
    );
}

#[test]
fn a_torn_write_keeps_its_first_bytes() {
    let mem = CrashEnv::new(1);
    mem.start_journal();
    let mut f = mem.create(p("/f")).unwrap();
    f.append(b"head").unwrap();
    f.append(b"tail").unwrap();
    let mut crasher = mem.crasher();
    assert_eq!((crasher.last_write(), crasher.last_op()), (None, None));
    while crasher.advance() {}
    assert_eq!(
        (crasher.last_write(), crasher.last_op().unwrap()),
        (Some(4), "write /f at 4, 4 bytes".to_string())
    );
    for (bytes, want) in
        [(0, "head"), (1, "headt"), (3, "headtai"), (4, "headtail"), (u64::MAX, "headtail")]
    {
        assert_eq!(text(&crasher.image(&Cut::Torn { bytes }), "/f").unwrap(), want);
    }
    drop(f);
    mem.remove(p("/f")).unwrap();
    assert_eq!(text(&mem.crash_image(4, &Cut::Torn { bytes: 0 }), "/f"), None);
}

#[test]
fn random_cuts_show_every_mixture_and_nothing_else() {
    let mem = CrashEnv::new(1);
    mem.write_file(p("/f"), &[b'o'; 1024]).unwrap();
    mem.sync_dir(p("/")).unwrap();
    let log = mem.reuse_log(p("/f")).unwrap();
    log.write_at(0, &[b'n'; 1024]).unwrap();
    let mut f = mem.append(p("/f")).unwrap();
    f.append(&[b'n'; 700]).unwrap();
    let mut seen = BTreeSet::new();
    let mut lengths = BTreeSet::new();
    for seed in 0..2000 {
        let got = mem.crash_image(0, &Cut::PowerRandom(seed)).read_file(p("/f")).unwrap();
        assert!((1024..=1724).contains(&got.len()));
        lengths.insert(got.len());
        let states: Vec<u8> = got.chunks(512).map(|c| c[0]).collect();
        for (i, chunk) in got.chunks(512).enumerate() {
            let old = if i < 2 { b'o' } else { 0 };
            assert!(chunk.iter().all(|b| *b == chunk[0]) && (chunk[0] == old || chunk[0] == b'n'));
        }
        seen.insert(states);
        assert_eq!(
            dump(&mem.crash_image(0, &Cut::PowerRandom(seed))),
            [(PathBuf::from("/f"), got)]
        );
    }
    assert!([1024, 1536, 1724].iter().all(|n| lengths.contains(n)) && lengths.len() > 100);
    assert_eq!(seen.iter().filter(|s| s.len() == 4).count(), 16);
}

#[test]
fn emptying_a_file_is_undone_by_a_power_cut() {
    let mem = CrashEnv::new(1);
    mem.write_file(p("/f"), &[b'x'; 5000]).unwrap();
    mem.sync_dir(p("/")).unwrap();
    let mut f = mem.create(p("/f")).unwrap();
    f.append(b"new").unwrap();
    assert_eq!(mem.crash_image(0, &Cut::PowerNone).read_file(p("/f")).unwrap(), [b'x'; 5000]);
    f.sync().unwrap();
    assert_eq!(text(&mem.crash_image(0, &Cut::PowerNone), "/f").unwrap(), "new");
    mem.write_file(p("/f"), &[0; 10]).unwrap();
    assert_eq!(mem.read_file(p("/f")).unwrap(), [0; 10]);
}

#[test]
fn files_without_name_or_handle_are_forgotten() {
    let mem = CrashEnv::new(1);
    mem.write_file(p("/f"), b"x").unwrap();
    mem.sync_dir(p("/")).unwrap();
    let ino = mem.state.lock().file("open", p("/f")).unwrap();
    let reader = mem.open_read(p("/f"), false).unwrap();
    mem.remove(p("/f")).unwrap();
    mem.sync_dir(p("/")).unwrap();
    assert!(mem.state.lock().disk.file(ino).is_some());
    assert!(mem.fork().state.lock().disk.file(ino).is_none());
    drop(reader);
    assert!(mem.state.lock().disk.file(ino).is_none());
}

#[test]
fn images_and_forks_are_worlds_of_their_own() {
    let mem = CrashEnv::new(7);
    mem.write_file(p("/f"), b"one").unwrap();
    let _lock = mem.lock(p("/LOCK")).unwrap();
    mem.advance(Duration::from_secs(5));
    let fork = mem.fork();
    assert_eq!(fork.monotonic_nanos(), 5_000_000_000);
    assert_eq!(fork.random(), mem.random());
    drop(fork.lock(p("/LOCK")).unwrap());
    fork.append(p("/f")).unwrap().append(b"two").unwrap();
    mem.advance(Duration::from_secs(1));
    assert_eq!(
        (text(&mem, "/f").unwrap(), text(&fork, "/f").unwrap()),
        ("one".to_string(), "onetwo".to_string())
    );
    assert_eq!(fork.monotonic_nanos(), 5_000_000_000);
}

#[test]
fn checkpoints_of_a_long_journal_do_not_show() {
    let mem = CrashEnv::new(1);
    mem.start_journal();
    let mut f = mem.create(p("/f")).unwrap();
    mem.sync_dir(p("/")).unwrap();
    for i in 0..CHECKPOINT_EVERY as u32 * 2 {
        f.append(&i.to_le_bytes()).unwrap();
        if i % 5 == 0 {
            f.sync().unwrap();
        }
    }
    let all = images(&mem, Cut::PowerNone);
    assert_eq!(
        all.last().unwrap().file_len(p("/f")).unwrap(),
        (CHECKPOINT_EVERY as u64 * 2 - 1).div_euclid(5) * 20 + 4
    );
    images(&mem, Cut::PowerRandom(3));
}

/// One operation on a file.
#[derive(Clone, Debug)]
enum Step {
    Write(u64, usize),
    SetLen(u64),
    Sync,
    SyncFails,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u64..20_000, 0usize..9000).prop_map(|(at, n)| Step::Write(at, n)),
        2 => (0u64..20_000).prop_map(Step::SetLen),
        2 => Just(Step::Sync),
        1 => Just(Step::SyncFails),
    ]
}

/// A byte-by-byte model of a file.
#[derive(Default)]
struct Oracle {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// For each byte offset ever used: whether the next sync writes it.
    dirty: Vec<bool>,
}

impl Oracle {
    fn touch(&mut self, start: usize, end: usize) {
        if self.dirty.len() < end {
            self.dirty.resize(end, false);
        }
        self.dirty[start..end].fill(true);
    }

    fn run(&mut self, step: &Step, fill: u8) {
        match *step {
            Step::Write(at, n) => {
                let (at, end) = (at as usize, at as usize + n);
                if n > 0 {
                    self.now.resize(self.now.len().max(end), 0);
                    self.now[at..end].fill(fill);
                    self.touch(at, end);
                }
            }
            Step::SetLen(len) => {
                let (short, long) =
                    (self.now.len().min(len as usize), self.now.len().max(len as usize));
                self.touch(short, long);
                self.now.resize(len as usize, 0);
            }
            Step::Sync => {
                self.durable.resize(self.now.len(), 0);
                for i in (0..self.now.len()).filter(|i| self.dirty.get(*i) == Some(&true)) {
                    self.durable[i] = self.now[i];
                }
                self.dirty.clear();
            }
            Step::SyncFails => self.dirty.clear(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn files_agree_with_the_oracle(steps in prop::collection::vec(step(), 1..40)) {
        let mut oracle = Oracle::default();
        let mut file = content::CrashFile::default();
        for (i, step) in steps.iter().enumerate() {
            let fill = i as u8 + 1;
            oracle.run(step, fill);
            match *step {
                Step::Write(at, n) if n > 0 => file.write(at, &vec![fill; n]),
                Step::Write(..) => {}
                Step::SetLen(len) => file.set_len(len),
                Step::Sync => file.sync(),
                Step::SyncFails => file.sync_failed(),
            }
            prop_assert!(file.now().to_vec() == oracle.now);
            let mut cut = file.clone();
            cut.keep_synced();
            prop_assert!(cut.now().to_vec() == oracle.durable, "after step {}", i);
            prop_assert!(cut.is_durable());
        }
    }
}

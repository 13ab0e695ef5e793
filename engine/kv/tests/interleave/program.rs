//! Programs of a few threads with a few calls each, as data that can be printed, parsed and shrunk.
//!
//! A seed determines a program and its options. Each program also draws which kinds of calls it
//! contains, so that rare kinds meet often in some programs ("swarm testing", Groce et al.).

use std::fmt;

use firn_kv::{DbOptions, OpenFiles, TreeOptions};
use firn_testkit::linear::KEYS;
use firn_testkit::rng::Rng;

use crate::draw;

/// Possible names of trees. The first three exist at the start, and the third has a merge operator.
pub const NAMES: [&str; 5] = ["a", "b", "folds", "d", "e"];
/// Number of trees at the start.
pub const AT_START: usize = 3;
/// Index of the tree with a merge operator.
pub const FOLDS: u32 = 2;
/// Slots of a thread for snapshots, for iterators and for transactions.
pub const SLOTS: usize = 2;

/// Meaning of an argument of a call.
#[derive(Clone, Copy)]
enum Arg {
    Tree,
    LinearKey,
    Len,
    Slot,
    Small,
}

macro_rules! ops {
    ($($weight:literal $kind:ident $word:literal ($($arg:ident)*);)*) => {
        /// Kind of a call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $($kind),* }

        const KINDS: &[(Kind, &str, u64, &[Arg])] = &[$((Kind::$kind, $word, $weight, &[$(Arg::$arg),*])),*];
    };
}

ops! {
    12 Put "put" (Tree LinearKey Len);
    2 PutPower "put_power" (Tree LinearKey Len);
    4 Delete "delete" (Tree LinearKey);
    5 Merge "merge" (LinearKey Len);
    4 DeleteRange "delete_range" (Tree LinearKey LinearKey);
    5 DropRange "drop_range" (Tree LinearKey LinearKey);
    5 Batch "batch" (Tree LinearKey Tree LinearKey);
    3 BatchDelete "batch_delete" (Tree LinearKey Tree LinearKey LinearKey);
    4 PopFirst "pop_first" (Tree);
    2 PopLast "pop_last" (Tree);
    3 InsertIfAbsent "insert_if_absent" (Tree LinearKey);
    4 Swap "swap" (Tree LinearKey Small);
    4 Update "update" (Tree LinearKey);
    1 Clear "clear" (Tree);
    2 First "first" (Tree);
    2 Last "last" (Tree);
    2 Len "len" (Tree);
    6 Get "get" (Tree LinearKey);
    2 Contains "contains" (Tree LinearKey);
    4 MultiGet "multi_get" (Tree LinearKey LinearKey);
    5 Range "range" (Tree LinearKey LinearKey);
    3 RangeBack "range_back" (Tree LinearKey LinearKey);
    3 Prefix "prefix" (Tree LinearKey);
    3 Iter "iter" (Tree);
    4 Cursor "cursor" (Tree LinearKey LinearKey);
    3 Snapshot "snapshot" (Slot);
    2 SnapshotNamed "snapshot_named" (Slot);
    4 SnapshotGet "snapshot_get" (Slot Tree LinearKey);
    2 SnapshotContains "snapshot_contains" (Slot Tree LinearKey);
    3 SnapshotRange "snapshot_range" (Slot Tree LinearKey LinearKey);
    2 SnapshotPrefix "snapshot_prefix" (Slot Tree LinearKey);
    2 SnapshotCursor "snapshot_cursor" (Slot Tree LinearKey LinearKey);
    2 SnapshotDrop "snapshot_drop" (Slot);
    3 IterOpen "iter_open" (Slot Tree);
    4 IterStep "iter_step" (Slot Small);
    1 IterClose "iter_close" (Slot);
    3 Begin "begin" (Slot);
    4 TxGet "tx_get" (Slot Tree LinearKey);
    3 TxRange "tx_range" (Slot Tree LinearKey LinearKey);
    4 TxPut "tx_put" (Slot Tree LinearKey);
    2 TxDelete "tx_delete" (Slot Tree LinearKey);
    4 Commit "commit" (Slot);
    1 Abort "abort" (Slot);
    3 Transact "transact" (Tree LinearKey);
    6 Flush "flush" (Tree);
    4 Compact "compact" (Tree);
    4 CompactRange "compact_range" (Tree LinearKey LinearKey);
    2 WaitIdle "wait_idle" ();
    2 Pause "pause" (Small);
    2 Sync "sync" ();
    2 Stats "stats" ();
    1 Verify "verify" ();
    4 Checkpoint "checkpoint" ();
    5 Ingest "ingest" (Tree LinearKey Small);
    3 Export "export" (Tree LinearKey LinearKey);
    3 Import "import" (Tree);
    2 Tables "tables" (Tree);
    2 Size "size" (Tree LinearKey LinearKey);
    5 Create "create" (Tree);
    4 Drop "drop" (Tree);
    2 Open "open" (Tree);
    2 Names "names" ();
    3 Options "options" (Tree Small);
    2 Crash "crash" (Small);
    1 Close "close" ();
}

/// A call with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    pub kind: Kind,
    pub args: Vec<u32>,
}

impl Op {
    fn draw(rng: &mut Rng, (kind, _, _, args): &(Kind, &str, u64, &[Arg]), narrow: bool) -> Op {
        let arg = |a: &Arg| match a {
            Arg::Tree | Arg::Slot if narrow => 0,
            Arg::Tree => [0, 0, 0, 1, 1, FOLDS, FOLDS, 3, 3, 4][rng.below(10) as usize],
            Arg::LinearKey => rng.below(KEYS as u64) as u32,
            Arg::Len => [8, 8, 40, 40, 700, 24_000, 24_000][rng.below(7) as usize],
            Arg::Slot => rng.below(SLOTS as u64) as u32,
            Arg::Small => 1 + rng.below(5) as u32,
        };
        Op { kind: *kind, args: args.iter().map(arg).collect() }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = KINDS.iter().find(|k| k.0 == self.kind).map_or("?", |k| k.1);
        write!(f, "{word}")?;
        self.args.iter().try_for_each(|a| write!(f, " {a}"))
    }
}

/// Threads of calls on one store.
#[derive(Clone)]
pub struct Program {
    /// Seed of the options.
    pub seed: u64,
    /// Calls that run, and perhaps flush, before the threads start.
    pub before: Vec<Op>,
    pub threads: Vec<Vec<Op>>,
    pub db: DbOptions,
    pub trees: Vec<TreeOptions>,
}

impl Program {
    /// Returns the program of a seed. Every third program is narrow: a few kinds of calls on one
    /// tree. Such calls conflict far more often than many kinds of calls on many trees.
    pub fn of(seed: u64) -> Program {
        let mut rng = Rng::new(seed ^ 0x0f1f_2f3f);
        let narrow = seed % 3 == 0;
        let share = if narrow { 1 } else { rng.range(2..7) };
        let kinds: Vec<_> = KINDS
            .iter()
            .filter(|k| matches!(k.0, Kind::Put | Kind::Get) || rng.below(10) < share)
            .collect();
        let mut drawn = |n: u64| -> Vec<Op> {
            let sum = kinds.iter().map(|k| k.2).sum();
            let one = |rng: &mut Rng| {
                let mut at = rng.below(sum);
                let kind = kinds.iter().find(|k| {
                    let here = at < k.2;
                    at = at.saturating_sub(k.2);
                    here
                });
                Op::draw(rng, kind.unwrap(), narrow)
            };
            (0..n).map(|_| one(&mut rng)).collect()
        };
        let before = drawn(6);
        let before = before
            .into_iter()
            .filter(|o| matches!(o.kind, Kind::Put | Kind::Merge | Kind::Flush | Kind::Ingest));
        let before =
            before.filter(|o| o.args.first().is_none_or(|t| (*t as usize) < AT_START)).collect();
        let mut lengths = Rng::new(seed);
        let threads = (0..lengths.range(2..5)).map(|_| drawn(lengths.range(3..11))).collect();
        Program::with(seed, before, threads)
    }

    /// Returns a program with the options of a seed.
    pub fn with(seed: u64, before: Vec<Op>, threads: Vec<Vec<Op>>) -> Program {
        let mut rng = Rng::new(seed ^ 0x77);
        let mut db = draw::db(&mut rng);
        let mut files = Rng::new(seed ^ 0xf11e);
        db.open_files = files.one_in(2).then(|| OpenFiles::new(files.range(1..5)));
        let trees = NAMES.iter().map(|_| draw::tree(&mut rng)).collect();
        Program { seed, before, threads, db, trees }
    }

    /// Parses the output of [`Display`](fmt::Display).
    pub fn parse(text: &str) -> Program {
        let (mut seed, mut before, mut threads) = (0, vec![], vec![]);
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let (head, rest) =
                line.split_once(':').unwrap_or_else(|| panic!("no colon in {line:?}"));
            let ops =
                || rest.split(',').map(str::trim).filter(|o| !o.is_empty()).map(parse_op).collect();
            match head {
                "seed" => seed = rest.trim().parse().unwrap_or_else(|e| panic!("{line:?}: {e}")),
                "before" => before = ops(),
                "thread" => threads.push(ops()),
                _ => panic!("a line begins with seed, before or thread, not {head:?}"),
            }
        }
        Program::with(seed, before, threads)
    }

    /// Returns the programs with one call less, then those with simpler arguments.
    pub fn smaller(&self) -> Vec<Program> {
        let mut all = vec![];
        for i in 0..self.threads.len() {
            let mut p = self.clone();
            p.threads.remove(i);
            all.push(p);
        }
        for i in (0..self.threads.len()).rev() {
            for n in (0..self.threads[i].len()).rev() {
                let mut p = self.clone();
                p.threads[i].remove(n);
                all.push(p);
            }
        }
        for n in (0..self.before.len()).rev() {
            let mut p = self.clone();
            p.before.remove(n);
            all.push(p);
        }
        for i in 0..self.threads.len() {
            for n in 0..self.threads[i].len() {
                if let Kind::Put | Kind::Merge | Kind::PutPower = self.threads[i][n].kind
                    && self.threads[i][n].args.last().is_some_and(|l| *l > 8)
                {
                    let mut p = self.clone();
                    *p.threads[i][n].args.last_mut().unwrap() = 8;
                    all.push(p);
                }
            }
        }
        all
    }
}

fn parse_op(text: &str) -> Op {
    let mut words = text.split_whitespace();
    let word = words.next().unwrap_or_default();
    let (kind, _, _, args) =
        KINDS.iter().find(|k| k.1 == word).unwrap_or_else(|| panic!("there is no call {word:?}"));
    let given: Vec<u32> =
        words.map(|w| w.parse().unwrap_or_else(|e| panic!("{text:?}: {e}"))).collect();
    assert!(
        given.len() == args.len(),
        "{text:?} has {} arguments instead of {}",
        given.len(),
        args.len()
    );
    Op { kind: *kind, args: given }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |ops: &[Op]| ops.iter().map(Op::to_string).collect::<Vec<_>>().join(", ");
        writeln!(f, "seed: {}", self.seed)?;
        writeln!(f, "before: {}", line(&self.before))?;
        self.threads.iter().try_for_each(|t| writeln!(f, "thread: {}", line(t)))
    }
}

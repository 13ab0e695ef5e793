//! The scheduler: threads as coroutines, and the choice of the next one.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::Location;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Once;
use std::time::Duration;

use generator::{Generator, Gn};
use parking_lot::Mutex;

/// Words of a coroutine's stack.
const STACK: usize = 96 << 10;
/// Virtual nanoseconds of a point.
const STEP_NANOS: u64 = 200;
/// Maximum number of idle coroutines cached for later runs.
const MAX_IDLE: usize = 16;

type ThreadWork = Box<dyn FnOnce() + Send>;

/// Choice of the next thread at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// At one in `stay` points a uniformly random thread is chosen.
    Random {
        /// 1 chooses at each point.
        stay: u32,
    },
    /// Threads have random priorities, and the first runnable one runs. At `changes` random points
    /// among the first `length`, the running thread gets the lowest priority (Burckhardt et al., "A
    /// randomized scheduler with probabilistic guarantees of finding bugs").
    Priorities {
        /// Number of priority changes.
        changes: u32,
        /// Number of points among which the changes are.
        length: u32,
    },
}

/// Parameters that determine a schedule.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Random seed of every choice.
    pub seed: u64,
    /// Strategy of the choices.
    pub strategy: Strategy,
    /// Maximum number of points; more are a hang.
    pub max_steps: u64,
}

impl Plan {
    /// Returns a plan with a random strategy from the seed.
    pub fn of(seed: u64, max_steps: u64) -> Plan {
        let mut rng = ScheduleRng(seed ^ 0x5eed);
        let strategy = match rng.below(8) {
            0 => Strategy::Random { stay: 1 },
            n @ 1..5 => Strategy::Random { stay: [4, 16, 64, 256][n as usize - 1] },
            _ => Strategy::Priorities { changes: 1 + rng.below(5), length: 200 << rng.below(6) },
        };
        Plan { seed, strategy, max_steps }
    }
}

/// Statistics of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Number of points.
    pub steps: u64,
    /// Points at which another thread continued.
    pub switches: u64,
    /// Number of threads, including the first.
    pub threads: usize,
    /// A hash of all decisions.
    pub trace: u64,
}

/// The failure of a schedule.
#[derive(Clone, Debug)]
pub enum Failure {
    /// A thread panicked, with its message.
    Panic(String),
    /// No thread can run: the waiting threads.
    Deadlock(String),
    /// More points than the plan allows: the threads with their positions.
    Hang(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Panic(words) => write!(f, "a panic: {words}"),
            Failure::Deadlock(words) => write!(f, "a deadlock: {words}"),
            Failure::Hang(words) => write!(f, "a hang: {words}"),
        }
    }
}

/// SplitMix64 generator.
struct ScheduleRng(u64);

impl ScheduleRng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.next() as u32) * u64::from(n)) >> 32) as u32
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ready,
    /// Waits for a wakeup of this key, or for the deadline.
    Waits {
        key: usize,
        deadline: Option<u64>,
    },
    Done,
}

struct ThreadTask {
    name: String,
    status: Status,
    priority: u64,
    /// Whether its last wait timed out.
    timed_out: bool,
    coroutine: Option<Coroutine>,
    /// Its last point.
    at: Option<&'static Location<'static>>,
}

struct Exec {
    plan: Plan,
    rng: ScheduleRng,
    tasks: Vec<ThreadTask>,
    current: usize,
    steps: u64,
    switches: u64,
    trace: u64,
    clock: u64,
    /// Points at which a priority changes, the next one last.
    changes: Vec<u64>,
    lowest: u64,
    failure: Option<Failure>,
    epoch: super::epoch::EpochState,
}

type Coroutine = Generator<'static, (), ()>;

thread_local! {
    static EXEC: RefCell<Option<Exec>> = const { RefCell::new(None) };
    /// Work for the coroutine that is resumed next.
    static WORK: RefCell<Option<ThreadWork>> = const { RefCell::new(None) };
    static IDLE: RefCell<Vec<Coroutine>> = const { RefCell::new(vec![]) };
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
    static IN_RUN: Cell<bool> = const { Cell::new(false) };
}

/// Reports whether the caller is a thread of a [`run`].
#[inline]
pub fn in_run() -> bool {
    IN_RUN.get()
}

fn with<T>(f: impl FnOnce(&mut Exec) -> T) -> T {
    EXEC.with_borrow_mut(|e| {
        f(e.as_mut().unwrap_or_else(|| unreachable!("IN_RUN says that there is one")))
    })
}

pub(crate) fn epoch<T>(f: impl FnOnce(&mut super::epoch::EpochState) -> T) -> T {
    with(|e| f(&mut e.epoch))
}

impl Exec {
    fn new(plan: Plan) -> Exec {
        let mut rng = ScheduleRng(plan.seed);
        let mut changes = vec![];
        if let Strategy::Priorities { changes: n, length } = plan.strategy {
            changes.extend((0..n).map(|_| u64::from(rng.below(length.max(1)))));
            changes.sort_unstable_by(|a, b| b.cmp(a));
        }
        Exec {
            plan,
            rng,
            tasks: vec![],
            current: 0,
            steps: 0,
            switches: 0,
            trace: 0,
            clock: 0,
            changes,
            lowest: u64::MAX / 2,
            failure: None,
            epoch: Default::default(),
        }
    }

    fn add(&mut self, name: &str, coroutine: Coroutine) -> usize {
        let priority = u64::MAX / 2 + u64::from(self.rng.next() as u32);
        let name = name.to_owned();
        self.tasks.push(ThreadTask {
            name,
            status: Status::Ready,
            priority,
            timed_out: false,
            coroutine: Some(coroutine),
            at: None,
        });
        self.tasks.len() - 1
    }

    /// Resumes a waiting task whose deadline has come.
    fn fire(&mut self, i: usize) {
        if let Status::Waits { deadline: Some(at), .. } = self.tasks[i].status {
            self.clock = self.clock.max(at);
            self.tasks[i].status = Status::Ready;
            self.tasks[i].timed_out = true;
        }
    }

    fn earliest(&self) -> Option<(u64, usize)> {
        let deadline = |(i, t): (usize, &ThreadTask)| match t.status {
            Status::Waits { deadline: Some(at), .. } => Some((at, i)),
            _ => None,
        };
        self.tasks.iter().enumerate().filter_map(deadline).min()
    }

    fn ready(&self) -> impl Iterator<Item = usize> + '_ {
        self.tasks.iter().enumerate().filter(|(_, t)| t.status == Status::Ready).map(|(i, _)| i)
    }

    /// Counts a point and chooses the next thread: `None` if none can run.
    fn next(&mut self, gives_way: bool) -> Option<usize> {
        self.steps += 1;
        self.clock += STEP_NANOS;
        if self.steps > self.plan.max_steps {
            self.fail(Failure::Hang(self.words()));
            return None;
        }
        let can = self.tasks[self.current].status == Status::Ready;
        let chosen = match self.plan.strategy {
            Strategy::Random { stay } => {
                if can && !gives_way && stay > 1 && self.rng.below(stay) != 0 {
                    return Some(self.current);
                }
                self.let_time_pass(64);
                self.draw(gives_way)
            }
            Strategy::Priorities { .. } => {
                let changes = self.changes.last().is_some_and(|at| *at <= self.steps);
                if changes {
                    self.changes.pop();
                }
                if changes || gives_way {
                    self.lowest -= 1;
                    self.tasks[self.current].priority = self.lowest;
                }
                self.let_time_pass(4096);
                self.ready().max_by_key(|&i| self.tasks[i].priority)
            }
        };
        // A thread that spins for others must not stop time.
        let chosen =
            chosen.filter(|i| !(gives_way && *i == self.current && self.earliest().is_some()));
        let chosen = chosen.or_else(|| {
            let (_, i) = self.earliest()?;
            self.fire(i);
            Some(i)
        });
        match chosen {
            None => {
                self.fail(Failure::Deadlock(self.words()));
                None
            }
            Some(i) => {
                if i != self.current {
                    self.switches += 1;
                }
                self.trace = (self.trace ^ (self.steps << 8 | i as u64))
                    .wrapping_mul(0x0100_0000_01b3)
                    .rotate_left(23);
                Some(i)
            }
        }
    }

    /// Fires expired deadlines; with a chance of 1 in `odds` also the next future one, as if all
    /// threads had been slow.
    fn let_time_pass(&mut self, odds: u32) {
        let Some((at, i)) = self.earliest() else { return };
        if at <= self.clock || self.rng.below(odds) == 0 {
            self.fire(i);
        }
    }

    fn draw(&mut self, not_current: bool) -> Option<usize> {
        let current = self.current;
        let n = self.ready().filter(|i| !(not_current && *i == current)).count();
        if n == 0 {
            return self.ready().next();
        }
        let k = self.rng.below(n as u32) as usize;
        self.ready().filter(|i| !(not_current && *i == current)).nth(k)
    }

    fn fail(&mut self, failure: Failure) {
        if self.failure.is_none() {
            self.failure = Some(failure);
        }
    }

    fn words(&self) -> String {
        let words = self.tasks.iter().filter(|t| t.status != Status::Done).map(|t| {
            let status = match t.status {
                Status::Waits { deadline: None, .. } => "waits",
                Status::Waits { deadline: Some(_), .. } => "waits for a while",
                _ => "can run",
            };
            let at = t.at.map_or_else(String::new, |at| format!(" at {at}"));
            format!("{} {status}{at}", t.name)
        });
        words.collect::<Vec<_>>().join("; ")
    }
}

/// Returns to the loop of [`run`], which resumes the current thread.
fn leave() {
    #[allow(deprecated)]
    // the scope that should be used instead cannot be reached from within locks
    generator::yield_with(());
}

#[track_caller]
fn go_on(gives_way: bool) {
    let at = Location::caller();
    let moved = with(|e| {
        let before = e.current;
        e.tasks[before].at = Some(at);
        match e.next(gives_way) {
            Some(i) => {
                e.current = i;
                i != before
            }
            None => true,
        }
    });
    if moved {
        leave();
    }
}

/// A scheduling point: another thread may continue here.
#[inline]
#[track_caller]
pub fn point() {
    if in_run() && !std::thread::panicking() {
        go_on(false);
    }
}

/// Lets other threads run first, because the caller cannot continue without them.
#[track_caller]
pub fn yield_now() {
    if !in_run() {
        std::thread::yield_now();
    } else if !std::thread::panicking() {
        go_on(true);
    }
}

/// Waits until [`wake`] names the key. Returns false after a timeout.
#[track_caller]
pub(crate) fn wait(key: usize, time: Option<Duration>) -> bool {
    let nanos = time.map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX));
    if std::thread::panicking() {
        // A panicking thread has to wait for others: the schedule has failed already, and must not
        // continue.
        with(|e| e.fail(Failure::Panic(last_panic())));
        leave();
    }
    with(|e| {
        let deadline = nanos.map(|n| e.clock.saturating_add(n));
        let i = e.current;
        e.tasks[i].timed_out = false;
        e.tasks[i].status = Status::Waits { key, deadline };
    });
    go_on(false);
    with(|e| !e.tasks[e.current].timed_out)
}

/// Wakes the threads that wait for the key: all of them, or a random one.
pub(crate) fn wake(key: usize, all: bool) {
    if !in_run() {
        return;
    }
    with(|e| {
        let waits = |t: &ThreadTask| matches!(t.status, Status::Waits { key: k, .. } if k == key);
        let n = e.tasks.iter().filter(|t| waits(t)).count();
        if n == 0 {
            return;
        }
        let one = if all || n == 1 { 0 } else { e.rng.below(n as u32) as usize };
        let count = if all { n } else { 1 };
        for t in e.tasks.iter_mut().filter(|t| waits(t)).skip(one).take(count) {
            t.status = Status::Ready;
        }
    });
}

/// Sleeps in virtual time; does nothing outside of a run.
#[track_caller]
pub fn sleep(time: Duration) {
    if in_run() && !std::thread::panicking() {
        wait(0, Some(time));
    }
}

/// Returns the virtual time since the start of the run; 0 outside of one.
pub fn now_nanos() -> u64 {
    if in_run() { with(|e| e.clock) } else { 0 }
}

/// Returns the number of points so far: a position in the schedule.
pub fn step() -> u64 {
    if in_run() { with(|e| e.steps) } else { 0 }
}

fn last_panic() -> String {
    LAST_PANIC.with_borrow(Clone::clone)
}

fn words_of(panic: Box<dyn Any + Send>) -> String {
    let last = last_panic();
    if !last.is_empty() {
        return last;
    }
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()
}

/// Returns a coroutine that executes work items in sequence.
fn coroutine(work: ThreadWork) -> Coroutine {
    let idle = IDLE.with_borrow_mut(Vec::pop);
    let mut c = idle.unwrap_or_else(|| {
        Gn::<()>::new_opt(STACK, || {
            loop {
                // The first resumption only passes the work; it is taken here, so that none is lost
                // in `Gn`.
                let Some(work) = WORK.with_borrow_mut(Option::take) else {
                    leave();
                    continue;
                };
                leave();
                if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                    let words = words_of(panic);
                    with(|e| e.fail(Failure::Panic(words)));
                }
                with(|e| {
                    let i = e.current;
                    e.tasks[i].status = Status::Done;
                });
                leave();
            }
        })
    });
    WORK.set(Some(work));
    c.resume();
    c
}

/// Handle of a thread started by [`spawn`].
pub struct JoinHandle<T>(Arc<Mutex<Option<T>>>, Option<std::thread::JoinHandle<()>>);

impl<T> JoinHandle<T> {
    fn key(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Waits for the thread and returns its result; `None` if it panicked.
    #[track_caller]
    pub fn join(mut self) -> Option<T> {
        if let Some(real) = self.1.take() {
            let _ = real.join();
            return self.0.lock().take();
        }
        loop {
            point();
            if let Some(result) = self.0.lock().take() {
                return Some(result);
            }
            wait(self.key(), None);
        }
    }
}

/// Starts a thread: one of the run, or outside of a run, of the operating system.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let slot = Arc::new(Mutex::new(None));
    let mut handle = JoinHandle(slot.clone(), None);
    let key = handle.key();
    let work = move || {
        let result = work();
        *slot.lock() = Some(result);
        wake(key, true);
    };
    if in_run() {
        let c = coroutine(Box::new(work));
        with(|e| e.add(name, c));
        point();
    } else {
        #[allow(clippy::disallowed_methods)] // the door itself
        let real = std::thread::spawn(work);
        handle.1 = Some(real);
    }
    handle
}

fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if in_run() {
                LAST_PANIC.set(info.to_string());
            } else {
                before(info);
            }
        }));
    });
}

/// Runs `main`, and the threads that it starts, by the plan, until all have ended.
///
/// After a failure, the memory of the threads is leaked, and the calling thread may be in the
/// middle of a panic: end it.
///
/// # Errors
/// Panics, deadlocks and hangs.
pub fn run(plan: Plan, main: impl FnOnce() + Send + 'static) -> Result<Report, Failure> {
    assert!(!in_run(), "a run within a run");
    quiet_panics();
    LAST_PANIC.take();
    let first = coroutine(Box::new(main));
    let mut exec = Exec::new(plan);
    exec.add("main", first);
    EXEC.set(Some(exec));
    IN_RUN.set(true);
    let failure = loop {
        let c = with(|e| e.tasks[e.current].coroutine.take());
        let Some(mut c) = c else {
            break Some(Failure::Deadlock("the coroutine of the current thread is gone".into()));
        };
        c.resume();
        let failed = with(|e| {
            let resumed =
                e.tasks.iter().position(|t| t.coroutine.is_none() && t.status != Status::Done);
            if e.failure.is_some() {
                std::mem::forget(c);
                return true;
            }
            // The resumed one is the only one without its coroutine, unless it is done.
            match resumed {
                Some(i) => e.tasks[i].coroutine = Some(c),
                None => IDLE.with_borrow_mut(|idle| {
                    if idle.len() < MAX_IDLE {
                        idle.push(c)
                    }
                }),
            }
            false
        });
        if failed {
            break with(|e| e.failure.take());
        }
        // A thread that has ended leaves the choice to this loop.
        let done = with(|e| {
            if e.tasks[e.current].status != Status::Done {
                return false;
            }
            if e.tasks.iter().all(|t| t.status == Status::Done) {
                return true;
            }
            if let Some(i) = e.next(false) {
                e.current = i;
            }
            false
        });
        if done {
            break None;
        }
        if with(|e| e.failure.is_some()) {
            break with(|e| e.failure.take());
        }
    };
    IN_RUN.set(false);
    let Some(exec) = EXEC.take() else { unreachable!("it was set above") };
    match failure {
        None => Ok(Report {
            steps: exec.steps,
            switches: exec.switches,
            threads: exec.tasks.len(),
            trace: exec.trace,
        }),
        Some(failure) => {
            // Its threads are in the middle of their work: unwinding would run code of theirs.
            std::mem::forget(exec);
            Err(failure)
        }
    }
}

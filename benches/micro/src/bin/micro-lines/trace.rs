//! Runs this program under valgrind's `lackey` and reads the memory accesses of each operation.
//!
//! The threads of the run take turns, one operation each, so that all accesses between the marks of
//! an operation belong to it. A mark is a store to a byte. The run prints the byte's address before
//! it continues.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use firn_kv::Result;

use super::coherence::{MemoryAccess, THREADS};
use super::operations::{LineOperation, LineStep};

#[repr(align(128))]
struct Marks([AtomicU8; THREADS]);

static BEGINS: Marks = Marks([const { AtomicU8::new(0) }; THREADS]);
static ENDS: Marks = Marks([const { AtomicU8::new(0) }; THREADS]);
static TURN: AtomicUsize = AtomicUsize::new(0);

/// Addresses that a run prints before it begins.
#[derive(Clone, Copy)]
struct RunPlaces {
    begins: u64,
    ends: u64,
    /// Load address of the program's code.
    base: u64,
}

/// One traced operation.
pub struct TracedOperation {
    /// Number of the thread that performed it.
    pub thread: usize,
    /// Number of instructions.
    pub instructions: u32,
    /// Memory accesses, in order.
    pub accesses: Vec<MemoryAccess>,
}

/// Operations of a run, in order.
pub struct RunTrace {
    /// Operations of all threads.
    pub operations: Vec<TracedOperation>,
    /// Offset to subtract from an instruction's address to find it in the program.
    pub base: u64,
}

/// Performs `n` operations per thread, in turns, and prints the addresses of the marks. This is the
/// traced program.
///
/// # Errors
/// Errors of the operations.
pub fn be_traced(operation: &LineOperation, threads: usize, n: usize) -> Result<()> {
    let store = (operation.store)()?;
    let base = own_base().unwrap_or(0);
    println!("{} {} {base}", BEGINS.0.as_ptr().addr(), ENDS.0.as_ptr().addr());
    // The tracing process answers when it knows the marks.
    let _ = std::io::stdin().read_line(&mut String::new());
    let store = &store;
    std::thread::scope(|scope| {
        let work = |thread| {
            move || {
                let mut step: LineStep<'_> = (operation.steps)(store, thread, threads);
                let mut outcome = Ok(());
                for i in 0..n {
                    while TURN.load(Ordering::SeqCst) != i * threads + thread {
                        std::thread::yield_now();
                    }
                    if outcome.is_ok() {
                        BEGINS.0[thread].store(1, Ordering::SeqCst);
                        outcome = step(i);
                        ENDS.0[thread].store(1, Ordering::SeqCst);
                    }
                    // The other threads get their turns even if this one failed.
                    TURN.fetch_add(1, Ordering::SeqCst);
                }
                outcome
            }
        };
        let running: Vec<_> = (0..threads).map(|t| scope.spawn(work(t))).collect();
        running
            .into_iter()
            .try_for_each(|r| r.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
    })
}

/// Returns the load address of this program's first segment.
fn own_base() -> Option<u64> {
    let own = std::env::current_exe().ok()?;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let first = maps.lines().find(|l| l.ends_with(own.to_str().unwrap_or("\0")))?;
    u64::from_str_radix(first.split('-').next()?, 16).ok()
}

/// Traces `n` operations per thread of the named operation. `program` performs them: this program,
/// or another build of it.
///
/// # Errors
/// Errors of valgrind, or its absence.
pub fn trace(
    program: &Path,
    name: &str,
    threads: usize,
    n: usize,
) -> std::result::Result<RunTrace, String> {
    let mut run = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(program)
        .args(["trace", name, "--threads", &threads.to_string()])
        .args(["--operations", &n.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("valgrind could not be started: {e}; install it and try again"))?;
    let (Some(mut answer), Some(told), Some(lines)) =
        (run.stdin.take(), run.stdout.take(), run.stderr.take())
    else {
        return Err("the run has no pipes".into());
    };
    let places: Arc<OnceLock<RunPlaces>> = Arc::default();
    let known = places.clone();
    let listener = std::thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(told).read_line(&mut line);
        let mut numbers = line.split_whitespace().map_while(|n| n.parse().ok());
        if let (Some(begins), Some(ends), Some(base)) =
            (numbers.next(), numbers.next(), numbers.next())
        {
            let _ = known.set(RunPlaces { begins, ends, base });
            let _ = answer.write_all(b"go\n");
        }
    });
    let mut reader = LackeyReader::of(&places);
    reader.read(BufReader::with_capacity(1 << 20, lines)).map_err(|e| format!("{name}: {e}"))?;
    let status = run.wait().map_err(|e| format!("{name}: {e}"))?;
    let _ = listener.join();
    let LackeyReader { done, talk, .. } = reader;
    match places.get() {
        Some(places) if status.success() && done.len() == threads * n => {
            Ok(RunTrace { operations: done, base: places.base })
        }
        _ => Err(format!("{name}: {} operations were traced ({status}):\n{talk}", done.len())),
    }
}

struct LackeyReader<'a> {
    places: &'a OnceLock<RunPlaces>,
    /// Instruction of the accesses that follow.
    code: u64,
    open: Option<TracedOperation>,
    done: Vec<TracedOperation>,
    /// Last output other than the trace.
    talk: String,
}

impl<'a> LackeyReader<'a> {
    fn of(places: &'a OnceLock<RunPlaces>) -> LackeyReader<'a> {
        LackeyReader { places, code: 0, open: None, done: vec![], talk: String::new() }
    }

    fn read(&mut self, mut from: impl BufRead) -> std::io::Result<()> {
        let mut line = vec![];
        while from.read_until(b'\n', &mut line)? > 0 {
            match parsed(&line) {
                Some((kind, at, size)) => self.event(kind, at, size),
                None if self.talk.len() < 4096 => {
                    self.talk.push_str(&String::from_utf8_lossy(&line));
                }
                None => {}
            }
            line.clear();
        }
        Ok(())
    }

    fn event(&mut self, kind: u8, at: u64, size: u8) {
        if kind == b'I' {
            self.code = at;
            if let Some(open) = &mut self.open {
                open.instructions += 1;
            }
            return;
        }
        let writes = kind != b'L';
        if writes && let Some(places) = self.places.get() {
            if let Some(thread) = mark(places.begins, at) {
                self.open = Some(TracedOperation { thread, instructions: 0, accesses: vec![] });
                return;
            }
            if mark(places.ends, at).is_some() {
                self.done.extend(self.open.take());
                return;
            }
        }
        if let Some(open) = &mut self.open {
            let (code, after) = (self.code, open.instructions);
            // Valgrind reports an atomic operation as a load and a store, but it fetches its line
            // once.
            if let Some(last) = open.accesses.last_mut()
                && writes
                && (last.code, last.at, last.after) == (code, at, after)
            {
                last.writes = true;
                return;
            }
            open.accesses.push(MemoryAccess { code, at, size, writes, after });
        }
    }
}

fn mark(marks: u64, at: u64) -> Option<usize> {
    let thread = at.checked_sub(marks)? as usize;
    (thread < THREADS).then_some(thread)
}

/// Parses a line of the trace: `I`, `L`, `S` or `M`, an address in hexadecimal, a size.
fn parsed(line: &[u8]) -> Option<(u8, u64, u8)> {
    let kind = *line.iter().take(2).find(|b| **b != b' ')?;
    if !b"ILSM".contains(&kind) || line.get(2) != Some(&b' ') {
        return None;
    }
    let rest = std::str::from_utf8(line.get(3..)?).ok()?.trim();
    let (at, size) = rest.split_once(',')?;
    Some((kind, u64::from_str_radix(at, 16).ok()?, size.parse().unwrap_or(u8::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_lackey_are_read_and_others_are_talk() {
        assert_eq!(parsed(b"I  04001090,3\n"), Some((b'I', 0x400_1090, 3)));
        assert_eq!(parsed(b" S 1ffefff808,8\n"), Some((b'S', 0x1f_feff_f808, 8)));
        assert_eq!(parsed(b" M 10,1\n"), Some((b'M', 0x10, 1)));
        assert_eq!(parsed(b"==12== Lackey, an example\n"), None);
        assert_eq!(parsed(b"\n"), None);
    }
}

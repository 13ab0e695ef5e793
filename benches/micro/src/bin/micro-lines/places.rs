//! Finds the source place of an instruction and of the calls inlined around it, with `addr2line`.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Files of wrappers only. Their callers are reported instead.
const WRAPPERS: [&str; 2] = ["util/lock.rs", "util/sync.rs"];

/// A function and its file, as the compiler names them.
struct CodeFrame {
    function: String,
    file: String,
}

/// Effect of an instruction on a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockStep {
    /// The instruction acquires the lock.
    Takes,
    /// The instruction releases the lock.
    Gives,
}

/// Source place of an instruction.
pub struct CodePlace {
    /// File and function of the engine that contain the instruction, for display.
    pub label: String,
    /// Effect on a lock, if the instruction writes.
    pub lock: Option<LockStep>,
}

/// Finds the source places of instructions in a program.
///
/// # Errors
/// Returns an error if `addr2line` is missing, or if the program was built without line numbers.
pub fn places(
    program: &Path,
    codes: &BTreeSet<u64>,
    base: u64,
) -> Result<HashMap<u64, CodePlace>, String> {
    let mut run = Command::new("addr2line")
        .args(["-a", "-f", "-C", "-i", "-e"])
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("addr2line could not be started: {e}; install binutils"))?;
    let asked: String = codes.iter().map(|c| format!("{:#x}\n", c.wrapping_sub(base))).collect();
    let mut input = run.stdin.take();
    let writer = std::thread::spawn(move || {
        input.as_mut().map_or(Ok(()), |input| input.write_all(asked.as_bytes()))
    });
    let told = run.wait_with_output().map_err(|e| format!("addr2line: {e}"))?;
    let _ = writer.join();
    let told = String::from_utf8_lossy(&told.stdout);
    let mut found = HashMap::new();
    let mut codes = codes.iter();
    let mut frames: Vec<CodeFrame> = vec![];
    let mut code = None;
    let mut lines = told.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            found.extend(code.map(|c| (c, place(&frames))));
            frames.clear();
            code = codes.next().copied();
        } else {
            let file = lines.next().unwrap_or_default();
            let file = file.rsplit_once(':').map_or(file, |(file, _)| file);
            frames.push(CodeFrame { function: line.to_owned(), file: file.to_owned() });
        }
    }
    found.extend(code.map(|c| (c, place(&frames))));
    if found.values().any(|p| p.label.contains(".rs ")) {
        return Ok(found);
    }
    Err(format!("{} has no line numbers: build it with --profile profiling", program.display()))
}

fn place(frames: &[CodeFrame]) -> CodePlace {
    let own = |f: &&CodeFrame| engine_file(&f.file).is_some_and(|file| !WRAPPERS.contains(&file));
    let named = |f: &CodeFrame| {
        format!("{} {}", engine_file(&f.file).unwrap_or_default(), short(&f.function))
    };
    let mut owners = frames.iter().filter(own);
    let label = match (owners.next(), owners.next()) {
        // Code in `base` and `util` is used everywhere, so the label includes the caller.
        (Some(f), Some(by)) if engine_file(&f.file).is_some_and(is_common) => {
            format!("{} ← {}", named(f), named(by))
        }
        (Some(f), _) => named(f),
        (None, _) => frames.last().map_or("?".to_owned(), |f| short(&f.function)),
    };
    CodePlace { label, lock: frames.iter().find_map(lock_step) }
}

/// Reports whether a file has code that is used everywhere.
fn is_common(file: &str) -> bool {
    file.starts_with("base/") || file.starts_with("util/")
}

/// Returns the path of a file of the engine, relative to the engine's sources.
fn engine_file(path: &str) -> Option<&str> {
    Some(path.split_once("engine/kv/src/")?.1)
}

/// Returns the name of a function without its path and generic parameters.
fn short(function: &str) -> String {
    let (mut depth, mut plain) = (0_u32, String::new());
    for c in function.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let parts = plain.split("::").filter(|p| !p.is_empty() && !p.starts_with('{'));
    parts.filter(|p| !(p.len() == 17 && p.starts_with('h'))).last().unwrap_or(&plain).to_owned()
}

fn lock_step(frame: &CodeFrame) -> Option<LockStep> {
    // Line tables name functions without their types.
    if !frame.file.ends_with("/raw_mutex.rs") && !frame.file.ends_with("/raw_rwlock.rs") {
        return None;
    }
    match short(&frame.function).as_str() {
        "lock" | "try_lock" | "lock_shared" | "try_lock_shared" | "lock_exclusive" => {
            Some(LockStep::Takes)
        }
        "unlock" | "unlock_shared" | "unlock_exclusive" => Some(LockStep::Gives),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str) -> CodeFrame {
        CodeFrame { function: function.into(), file: file.into() }
    }

    #[test]
    fn a_lock_is_named_by_its_holder() {
        let frames = [
            frame("core::sync::atomic::atomic_compare_exchange<u8>", "/rustc/atomic.rs"),
            frame("lock", "/x/parking_lot-0.12.5/src/raw_mutex.rs"),
            frame("firn_kv::util::lock::Mutex<T,R>::lock", "/x/engine/kv/src/util/lock.rs"),
            frame("firn_kv::db::write::Core::write_point", "/x/engine/kv/src/db/write/mod.rs"),
        ];
        let place = place(&frames);
        assert_eq!(
            (&*place.label, place.lock),
            ("db/write/mod.rs write_point", Some(LockStep::Takes))
        );
    }

    #[test]
    fn names_are_without_their_paths_and_what_they_are_generic_over() {
        assert_eq!(short("<a::B<C> as d::E>::f::h0123456789abcdef"), "f");
        assert_eq!(short("a::b::{{closure}}"), "b");
        assert_eq!(short("memcpy"), "memcpy");
    }
}

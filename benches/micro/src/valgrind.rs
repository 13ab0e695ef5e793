//! Runs a benchmark program under valgrind. Its counts are the same on a busy machine.

use std::process::Command;

/// Runs this program with `arguments` under a tool of valgrind. Returns valgrind's report.
fn report(tool: &[&str], arguments: &[&str]) -> Result<String, String> {
    let own = std::env::current_exe().map_err(|e| format!("the path of this program: {e}"))?;
    let out = Command::new("valgrind")
        .args(tool)
        .arg(own)
        .args(arguments)
        .output()
        .map_err(|e| format!("valgrind could not be started: {e}; install it and try again"))?;
    let report = String::from_utf8_lossy(&out.stderr).into_owned();
    match out.status.success() {
        true => Ok(report),
        false => Err(format!("{}: valgrind failed:\n{report}", arguments.join(" "))),
    }
}

/// Returns the number of instructions that this program executes with these arguments. `within`:
/// counts only calls of the functions that match this pattern.
///
/// # Errors
/// A failure of valgrind or of the program, as a text.
pub fn instructions(within: Option<&str>, arguments: &[&str]) -> Result<u64, String> {
    let toggle = within.map(|pattern| format!("--toggle-collect={pattern}"));
    let mut tool = vec!["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    tool.extend(toggle.as_deref());
    let report = report(&tool, arguments)?;
    let number = report.lines().find_map(|l| l.split("Collected : ").nth(1)?.trim().parse().ok());
    number.ok_or_else(|| format!("{}: no count of instructions in:\n{report}", arguments.join(" ")))
}

/// Memory operations of a program.
#[derive(Clone, Copy, Debug)]
pub enum MemoryUse {
    /// Allocations on the heap.
    Heap,
    /// Copies by `memcpy` and its relatives. The compiler inlines some short ones.
    Copy,
}

/// Returns the number of memory operations that this program executes with these arguments, and
/// their bytes.
///
/// # Errors
/// As [`instructions`].
pub fn memory(of: MemoryUse, arguments: &[&str]) -> Result<(u64, u64), String> {
    let mode = match of {
        MemoryUse::Heap => "--mode=heap",
        MemoryUse::Copy => "--mode=copy",
    };
    let report = report(&["--tool=dhat", "--dhat-out-file=/dev/null", mode], arguments)?;
    let number = |text: &str| text.split(' ').next()?.replace(',', "").parse::<u64>().ok();
    let total = report.lines().find_map(|line| {
        let (bytes, count) = line.split("Total:").nth(1)?.trim().split_once(" bytes in ")?;
        Some((number(count)?, number(bytes)?))
    });
    total.ok_or_else(|| format!("{}: no total in:\n{report}", arguments.join(" ")))
}

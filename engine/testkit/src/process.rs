//! Runs a test in its own process by running the test program again.
//!
//! All integration tests of a crate are one program, whose threads run tests concurrently. A test
//! that measures the memory of the process, counts files or cache frames that the epoch retains, or
//! forks, begins with [`own_process!`](crate::own_process).

use std::process::Command;

/// Set in the second process, to the name of its test.
const TEST: &str = "FIRN_TEST_PROCESS";

/// Returns a command that runs one test of this program again: `module::name`, as `cargo test`
/// prints it.
pub fn command(test: &str) -> Command {
    let program = std::env::current_exe().expect("the path of the test program");
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture"]).env(TEST, test);
    command
}

/// Reports whether this process was started by [`command`] for this test.
pub fn is_own_process(test: &str) -> bool {
    std::env::var_os(TEST).is_some_and(|t| t == test)
}

/// Runs the command of a test; panics with its output unless the test ran and passed.
pub fn check(command: &mut Command) {
    let done = command.output().expect("the test program runs again");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

/// Runs the rest of a test in a new process: in the first process the test returns here, and fails
/// if it failed in the second.
///
/// ```no_run
/// # fn main() {}
/// #[test]
/// fn measures_memory() {
///     firn_testkit::own_process!();
///     // Nothing else has allocated in this process.
/// }
/// ```
#[macro_export]
macro_rules! own_process {
    () => {
        fn here() {}
        // `program::module::test::here`
        let path = std::any::type_name_of_val(&here);
        let test = path.split_once("::").map_or(path, |(_, rest)| rest);
        let test = test.strip_suffix("::here").unwrap_or(test);
        if !$crate::process::is_own_process(test) {
            return $crate::process::check(&mut $crate::process::command(test));
        }
    };
}

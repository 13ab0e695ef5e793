//! What every command does first, so that a limit of the system or a reader that has gone is an error
//! with a name, and no death by a signal or a panic.

use std::process;

/// Prepares the process; called once, at the beginning of `main`.
///
/// - A write beyond the limit of file sizes (`ulimit -f`) fails with an error instead of ending the
///   process by SIGXFSZ. A handler that does nothing is enough, and programs that are started from
///   here do not inherit it.
/// - What is printed for a reader that has gone, as `head` does, ends the process without a word.
pub fn prepare() {
    #[cfg(unix)]
    {
        let noted = std::sync::Arc::default();
        // Without it the limit ends the process, as it does any other.
        let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noted);
    }
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let words = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        if is_closed_pipe(words) {
            process::exit(0);
        }
        report(panic);
    }));
}

/// Whether a panic with these words is that of `print!` or `eprint!` on a closed pipe.
fn is_closed_pipe(words: &str) -> bool {
    words.starts_with("failed printing to std")
        && (words.contains("Broken pipe") || words.contains("pipe is being closed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_closed_pipe_is_passed_over() {
        assert!(is_closed_pipe("failed printing to stdout: Broken pipe (os error 32)"));
        assert!(!is_closed_pipe(
            "failed printing to stdout: No space left on device (os error 28)"
        ));
        assert!(!is_closed_pipe("index out of bounds: Broken pipe"));
    }
}

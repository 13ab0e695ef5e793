//! First step of every command: turns exceeded system limits and closed pipes into errors, instead
//! of death by a signal or a panic.

use std::process;

/// Prepares the process; called once, at the start of `main`.
///
/// - A write beyond the file size limit (`ulimit -f`) fails with an error instead of ending the
///   process by SIGXFSZ. An empty handler is sufficient, and child processes do not inherit it.
/// - Printing to a closed pipe, as with `head`, ends the process without a message.
pub fn prepare() {
    #[cfg(unix)]
    {
        let noted = std::sync::Arc::default();
        // If this fails, the limit ends the process, as in any other program.
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

/// Reports whether this is the panic message of `print!` or `eprint!` on a closed pipe.
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

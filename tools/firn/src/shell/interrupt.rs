//! Ctrl-C: in a shell it stops the running statement, and the shell continues. It stops `firn load`
//! after the current chunk. In scripts it ends the program, with the usual exit code of the system
//! (130 in a shell).
//!
//! Invariant: the flag is set only after [`watch`] or [`watch_first`]. A statement clears it at its
//! begin.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

/// Signals belong to the process.
static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Makes Ctrl-C only set the flag from now on.
pub fn watch() -> std::io::Result<()> {
    signal_hook::flag::register(signal_hook::consts::SIGINT, STOP.clone()).map(drop)
}

/// Makes the first Ctrl-C only set the flag from now on; a second one ends the process.
pub fn watch_first() -> std::io::Result<()> {
    use signal_hook::{consts::SIGINT, flag};
    flag::register_conditional_default(SIGINT, STOP.clone())?;
    watch()
}

/// Returns the flag, for operations that it stops.
pub fn flag() -> Arc<AtomicBool> {
    STOP.clone()
}

/// Reports whether Ctrl-C was pressed since the flag was cleared.
pub fn is_set() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Sets the flag like Ctrl-C, for code that read it as a key.
pub fn set() {
    STOP.store(true, Ordering::Relaxed);
}

/// Clears the flag at the begin of a statement.
pub fn clear() {
    STOP.store(false, Ordering::Relaxed);
}

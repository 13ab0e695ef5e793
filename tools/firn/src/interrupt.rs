//! Ctrl-C in a shell: it stops what runs, and the shell goes on. In scripts it ends the program, as
//! the system does it (130 to a shell).
//!
//! Invariant: the flag is set only where a shell has asked for it; whoever begins a statement
//! clears it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

/// Signals belong to the process.
static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on Ctrl-C only sets the flag.
pub fn watch() -> std::io::Result<()> {
    signal_hook::flag::register(signal_hook::consts::SIGINT, STOP.clone()).map(drop)
}

/// The flag, for what is to stop.
pub fn flag() -> Arc<AtomicBool> {
    STOP.clone()
}

/// Whether Ctrl-C was pressed since the flag was cleared.
pub fn is_set() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Sets the flag, as Ctrl-C does: for who read it as a key.
pub fn set() {
    STOP.store(true, Ordering::Relaxed);
}

/// A statement begins.
pub fn clear() {
    STOP.store(false, Ordering::Relaxed);
}

//! Test environments for programs that use `firn-kv`: a disk that shows the effect of a crash, and
//! injection of I/O errors.
//!
//! - [`CrashEnv`] is a deterministic in-memory [`Env`](firn_kv::Env) that records every operation.
//!   It makes the disk after a process crash or a power cut at any point of the recorded history.
//! - [`FaultEnv`] wraps another environment and makes its nth operation fail.
//!
//! Both use only the public `Env` interface of `firn-kv`.
//!
//! ```
//! use std::sync::Arc;
//!
//! use firn_crash::{CrashEnv, Cut};
//! use firn_kv::{Db, DbOptions, TreeOptions};
//!
//! let disk = CrashEnv::new(1);
//! let db = Db::open_in(Arc::new(disk.clone()), "/db", DbOptions::default())?;
//! db.tree("t", TreeOptions::default())?.put("key", "value")?;
//! db.sync()?;
//! let after = disk.crash_image(0, &Cut::PowerNone);
//! let db = Db::open_in(Arc::new(after), "/db", DbOptions::default())?;
//! assert_eq!(db.tree("t", TreeOptions::default())?.get("key")?.as_deref(), Some(&b"value"[..]));
//! # Ok::<(), firn_kv::Error>(())
//! ```

#![warn(missing_debug_implementations)]

mod content;
mod disk;
mod env;
mod fault;
mod rng;
mod time;

pub use disk::Cut;
pub use env::{CrashEnv, Crasher};
pub use fault::{Fault, FaultEnv, OpClass};

/// Runs the example of the page as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct CrashReadme;

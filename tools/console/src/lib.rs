//! A web console for a store: rates and latencies, the shape of its trees, its tables, explained
//! reads, CQL, and simulations of other policies. `firn serve --console` and `firn console` serve
//! it.
//!
//! ```
//! use std::sync::Arc;
//! use firn_console::{Console, ConsoleOptions, ConsoleStore};
//! let session = firn_cql::Session::in_memory()?;
//! let store = Arc::new(ConsoleStore::own(&session));
//! let options = ConsoleOptions::at("127.0.0.1:0".parse()?);
//! let console = Console::start(store, options).map_err(|e| format!("{e:?}"))?;
//! println!("open http://{}/", console.address());
//! console.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The pages are static files in the program. Their data is JSON below `/api`, and live data are
//! server-sent events.
//!
//! Invariants:
//! - Nothing but a POST request has an effect, and a POST needs the token of the page.
//! - Samples, events, streams, results, running statements and logins are bounded in bytes or
//!   number.
//! - A store of another process is only read.
//!
//! [`names`] and [`explain`] are shared with the command `firn`.
//!
//! Floors: `assets`, `events`, [`names`], `sample` (0) < [`explain`], `shape`, `store` (1) <
//! `monitor`, `simulate`, `statements` (2) < `access` (3) < `api` (4) < `console` (5).

#![warn(missing_debug_implementations)]

mod access;
mod api;
mod assets;
mod console;
mod events;
pub mod explain;
mod monitor;
pub mod names;
mod sample;
mod shape;
mod simulate;
mod statements;
mod store;

pub use console::{Console, ConsoleOptions};
pub use firn_server::http::HttpLogin;
pub use store::{ConsoleStore, OpenedStore};

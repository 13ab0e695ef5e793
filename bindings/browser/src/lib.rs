//! Firn in browsers: the engine, CQL and the simulator of compactions as WebAssembly.
//!
//! - [`store`]: trees of bytes. [`session`]: CQL. [`simulator`]: predictions of compaction policies.
//! - `files`, `opfs`: the files of a store, a pool of open files ([`firn_browser_pool`]) in memory or in
//!   the origin private file system of a browser.
//!
//! There are no threads: a call does all of its work, flushes and compactions included. Therefore a
//! page uses the module in a worker.

pub mod session;
pub mod simulator;
pub mod store;

mod convert;
mod errors;
mod files;
mod opfs;
mod types;

use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = console, js_name = error)]
    fn console_error(message: &str);
}

/// Shows panics, which end the module, in the console.
#[wasm_bindgen(start)]
fn show_panics() {
    std::panic::set_hook(Box::new(|panic| console_error(&panic.to_string())));
}

//! `advise`: recommends a policy for a store, with its cost and the first limit that breaks.
//!
//! It simulates the candidates ([`profile`](crate::advise::profile)) and compares bytes written,
//! space, and blocks read: the three costs that a policy can trade. It discards candidates that
//! another one beats in all three. The others must keep up, and fit the disk and the latency bound.
//! It recommends the policy among these whose most used resource is used the least. Space is a
//! resource if the disk size is given. Otherwise space counts only among policies with about equal
//! use of device and processor. A store of few memtables keeps its policy, or has the default, if
//! no other is much better.
//!
//! Reads are calculated, not simulated ([`latency`](crate::model::latency)). The time of the device
//! per block grows with its load, which includes these reads, as in a queue with one server.

pub mod candidates;
mod cost;
pub mod profile;
mod reason;
mod recommend;
mod seen;
mod text;

use std::io::Write;
use std::path::Path;

use firn_tools::output::{Done, Failure, Progress, Style};
use firn_tools::shell;

pub use cost::{AdvisedResource, PolicyCost, ResourceUse};
pub use reason::DecidingUse;
pub use recommend::{Advice, recommend};
pub use seen::{SeenLoad, SetPolicy};
pub use text::advice_text;

use crate::advise::profile::RecordedStore;
use crate::cli::AdviseArgs;
use crate::history::{RecordedHistory, replay};

/// Returns the directory of a store that is named by its directory or its event log.
pub fn directory(store: &Path) -> &Path {
    let is_log = store.file_name().is_some_and(|name| name == "EVENTS.jsonl");
    match store.parent().filter(|_| is_log) {
        Some(dir) if dir.as_os_str().is_empty() => Path::new("."),
        Some(dir) => dir,
        None => store,
    }
}

/// Returns the command of `firn` that sets the policy of a tree of the store in `dir`.
pub fn set_policy(dir: &Path, tree: &str, policy: &str) -> String {
    let (dir, tree) = (shell::path(dir), shell::quote(tree));
    format!("firn --db {dir} set-options {tree} {}", shell::quote(&format!("policy={policy}")))
}

/// Returns the facts in a log, with progress: a few simulations find the keys of its writes.
fn recorded(history: &RecordedHistory, key_size: usize) -> Done<RecordedStore> {
    let bar = Progress::operations("log", None);
    bar.say("finding the keys of the recorded writes".to_owned());
    history.known(key_size)
}

/// Runs `advise`, with the log of the store at a path if one is given.
///
/// # Errors
/// A log that cannot be read, a question without enough information, and errors of the simulator.
/// [`Failure::Found`] if no policy fits.
pub fn run(
    args: &AdviseArgs,
    store: Option<&Path>,
    by: &SetPolicy<'_>,
    (json, style): (bool, Style),
    out: &mut dyn Write,
) -> Done {
    if store.is_none() && args.tree.is_some() {
        return Err(Failure::with_next("--tree needs a store", "name the store's directory"));
    }
    let history = store.map(|path| replay::load(path, args.tree.as_deref())).transpose()?;
    let known = history.as_ref().map(|h| recorded(h, args.key_size)).transpose()?;
    let q = args.profile(known)?;
    let advice = recommend(&q)?;
    let seen = history.as_ref().map(|h| SeenLoad::of(h, &q));
    if json {
        let mut answer = serde_json::json!(advice);
        answer["seen"] = serde_json::json!(seen);
        writeln!(out, "{answer}")?;
    } else {
        let seen = seen.map_or_else(String::new, |seen| seen.words(by, &advice, style));
        write!(out, "{seen}{}", advice_text(&advice, &q, style))?;
    }
    if advice.costs[advice.chosen].unfit.is_empty() { Ok(()) } else { Err(Failure::Found) }
}

//! `firn migrate`: copies tables to or from a cluster, or compares both.

mod from;
mod to;
mod verify;

use firn_tools::output::Done;

use crate::shell::connect::cluster_url;
use crate::store::Global;

pub use to::{EXAMPLES, MigrateArgs};

/// Runs `firn migrate`.
pub fn run(global: &Global, args: &MigrateArgs) -> Done {
    let url = args.to.as_deref().or(args.from.as_deref()).unwrap_or_default();
    let url = cluster_url(url, args.user.as_deref(), args.password_file.as_deref())?;
    match &args.from {
        _ if args.verify => verify::run(global, args, url),
        Some(_) => from::run(global, args, url),
        None => to::run(global, args, url),
    }
}

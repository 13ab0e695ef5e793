//! `firn migrate`: selects the direction.

use firn_tools::output::Done;

use crate::connect::cluster_url;
use crate::migrate::{self, MigrateArgs};
use crate::store::Global;
use crate::{migrate_from, migrate_verify};

/// Runs `firn migrate`.
pub fn run(global: &Global, args: &MigrateArgs) -> Done {
    let url = args.to.as_deref().or(args.from.as_deref()).unwrap_or_default();
    let url = cluster_url(url, args.user.as_deref(), args.password_file.as_deref())?;
    match &args.from {
        _ if args.verify => migrate_verify::run(global, args, url),
        Some(_) => migrate_from::run(global, args, url),
        None => migrate::run(global, args, url),
    }
}

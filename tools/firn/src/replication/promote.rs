//! `firn promote`: makes a replica an independent store.

use clap::Args;
use firn_replication::promote as promote_store;
use firn_tools::output::{Done, count};
use serde_json::json;

use crate::store::Global;

pub const EXAMPLES: &str = "\
Makes a replica an independent store, which can be written to. Stop its `firn replicate` or `firn serve` first, and make sure that the old
primary accepts no more writes: both would go their own ways. Writes that the replica had not received are not in it. The old primary can
become a replica of the new one in an empty directory.

Examples:
  firn --db standby replicate --status     how far the replica is
  firn --db standby promote
  firn --db standby serve --replicas 9043  the new primary";

/// Arguments of `firn promote`.
#[derive(Args, Clone, Debug)]
pub struct PromoteArgs {}

/// Runs `firn promote`.
pub fn promote(global: &Global, _: &PromoteArgs) -> Done {
    let position = promote_store(global.env(), &global.store.db, global.to_write(false, 0))?;
    global.print_json(json!({ "position": position.to_string() }))?;
    eprintln!(
        "{} is an independent store now; it has the changes of the primary up to {}",
        global.store.db.display(),
        count(position.seq)
    );
    Ok(())
}

//! `firn advise`: recommends a compaction policy for a store. The simulator derives the advice from
//! the store's event log.

use clap::Args;
use compaction_sim::advise;
use compaction_sim::cli::AdviseArgs;
use firn_tools::io::stdout;
use firn_tools::output::Done;

use crate::store::Global;

pub const EXAMPLES: &str = "\
The event log of the store records its writes and compactions. The command simulates a dozen policies under that load, and the current
policy for comparison. The log does not record reads, so give their rates with options. The report has the observed load, the current
costs, the costs of other policies, and the command that changes the policy. Exit code 1 if no policy fits. A program may write to the
store meanwhile.

Examples:
  firn advise firn-data
  firn advise firn-data --tree shop.orders --reads 5k/s --scans 200/s --p99 10ms --cache 4G
  firn advise --db firn-data --json | jq '.costs[.chosen].options'";

/// Arguments of `firn advise`.
#[derive(Args, Clone, Debug)]
pub struct StoreAdviseArgs {
    #[command(flatten)]
    question: AdviseArgs,
}

/// Runs `firn advise`.
pub fn run(global: &Global, args: &StoreAdviseArgs) -> Done {
    let store = args.question.events.as_deref().unwrap_or(&global.store.db);
    let dir = advise::directory(store);
    let mut there = global.clone();
    there.store.db = dir.to_owned();
    let mut question = args.question.clone();
    question.tree = question.tree.map(|tree| there.path_to_tree(&tree));
    let by = |tree: &str, policy: &str| match there.is_own_tree(tree) {
        Ok(true) => {
            let firn = there.firn();
            format!("its definition: ALTER TABLE … WITH compaction = … in `{firn} cql`")
        }
        _ => advise::set_policy(dir, tree, policy),
    };
    let how = (global.store.json, global.style());
    advise::run(&question, Some(store), &by, how, &mut stdout())
}

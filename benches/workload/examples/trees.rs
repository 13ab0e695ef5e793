//! Puts scattered over many trees: `trees DIR TREES PUTS` prints the results of
//! [`firn_workload::embedding::trees`], and the number of flushes. `firn bench trees` is the same
//! as a command; this builds much faster.

use firn_kv::{DbOptions, TreeOptions};
use firn_workload::embedding::trees;
use firn_workload::firn::FirnEmbedded;

fn main() -> firn_workload::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, n, puts] = &args[..] else { return Err("trees DIR TREES PUTS".into()) };
    let open = |dir: &std::path::Path| {
        FirnEmbedded::open(dir, DbOptions::default(), TreeOptions::default())
    };
    let (costs, store) = trees(dir.as_ref(), n.parse()?, puts.parse()?, 1, open)?;
    println!("{costs:?}, {} flushes", store.db.stats().flushes);
    Ok(())
}

//! A command on a store in the style of `firn`: it has the options of every command, prints a table
//! or JSON, and gives advice when it fails.
//!
//! ```text
//! cargo run -p firn-tools --example store_trees -- --db DIR
//! ```

use std::process::ExitCode;

use clap::Parser;
use firn_kv::{Db, DbOptions};
use firn_tools::options::StoreArgs;
use firn_tools::output::{Done, count, finish, print_table, row, table};

/// List the trees of a store with their numbers of tables
#[derive(Parser)]
struct Command {
    #[command(flatten)]
    store: StoreArgs,
}

fn run(store: &StoreArgs) -> Done {
    let options = DbOptions { create: false, read_only: true, ..DbOptions::default() };
    let db = Db::open_with(&store.db, options)?;
    let mut trees = table(&["tree", "tables"]);
    let mut json = serde_json::Map::new();
    for tree in db.stats().trees {
        let tables: u64 = tree.runs.iter().map(|run| run.tables as u64).sum();
        row(&mut trees, [tree.name.clone(), count(tables)]);
        json.insert(tree.name, tables.into());
    }
    if store.json {
        println!("{}", serde_json::Value::Object(json));
    } else {
        print!("{}", print_table(&trees, store.style()));
    }
    Ok(())
}

fn main() -> ExitCode {
    let command = Command::parse();
    finish(run(&command.store), command.store.style(), |_| {
        Some("`firn put KEY VALUE` makes a store in ./firn-data")
    })
}

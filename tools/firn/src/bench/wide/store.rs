//! Store of the benchmarks: column families, trees of the engine with the same data, and generated
//! rows.

use std::path::{Path, PathBuf};

use firn_kv::{Durability, Tree, TreeOptions};
use firn_wide::internals::store::{CellStore, StoreFamily};
use firn_wide::{CfDef, Error, Keyspace, KsDef};

use crate::bench::ModelBenchArgs;
use firn_bench::duel::scattered;
use firn_tools::output::{Done, Failure, Progress};

/// Columns of a row.
pub const COLUMNS: u64 = 10;
/// Bytes of a value.
pub const VALUE: usize = 100;
/// Keyspace of a benchmark of columns.
pub const KEYSPACE: &str = "Bench";
/// Prefix of the names of the engine's trees.
pub const BESIDE: &str = "beside-";

/// Converts an error of the model to a failure of the command.
pub fn failure(e: Error) -> Failure {
    match e {
        Error::Store(e) => Failure::Engine(e),
        other => Failure::new(other.to_string()),
    }
}

/// The open store.
pub struct WideBench {
    /// Number of rows.
    pub rows: u64,
    /// Columns of the widest row.
    pub columns: u64,
    /// Random seed.
    pub seed: u64,
    /// The operations of the data model.
    pub keyspace: Keyspace,
    /// The store under these operations.
    pub store: CellStore,
    dir: PathBuf,
}

impl WideBench {
    /// Opens the store in `dir`; creates its families if they do not exist.
    pub fn open(dir: &Path, args: &ModelBenchArgs, budget: u64) -> Done<WideBench> {
        let wide = args.open_wide(dir, budget)?;
        if wide.describe_keyspaces().is_empty() {
            let family = |name: &str| CfDef::new(KEYSPACE, name);
            let counters = CfDef {
                default_validation_class: "CounterColumnType".into(),
                ..family("Counters")
            };
            let cf_defs = vec![
                family("Rows"),
                family("Inserts"),
                family("Batches"),
                family("Wide"),
                counters,
            ];
            wide.system_add_keyspace(&KsDef { cf_defs, ..KsDef::new(KEYSPACE) })
                .map_err(failure)?;
        }
        let keyspace = wide.keyspace(KEYSPACE).map_err(failure)?;
        let store = wide.store().clone();
        let (rows, columns, seed) = (args.rows, args.columns, args.engine.seed());
        Ok(WideBench { rows, columns, seed, keyspace, store, dir: dir.to_owned() })
    }

    /// Returns the family of this name.
    pub fn family(&self, name: &str) -> Done<StoreFamily> {
        let schema = self.keyspace.wide().describe_keyspace(KEYSPACE).map_err(failure)?;
        let id = schema.cf_defs.iter().find(|d| d.name == name).and_then(|d| d.id);
        let family = id.and_then(|id| self.store.family(id));
        family.ok_or_else(|| {
            Failure::new(format!("the store in {} has no family {name}", self.dir.display()))
        })
    }

    /// Returns the engine's tree of this name.
    pub fn tree(&self, name: &str) -> Done<Tree> {
        Ok(self
            .store
            .db()
            .with_durability(Durability::Process)
            .tree(&format!("{BESIDE}{name}"), TreeOptions::default())?)
    }

    /// Compacts each tree into one run.
    pub fn compact(&self) -> Done {
        let db = self.store.db();
        for name in db.tree_names() {
            let progress = Progress::operations("compact", None);
            progress.say(name.clone());
            db.existing_tree(&name)?.compact()?;
        }
        Ok(db.wait_idle()?)
    }

    /// Returns a pseudorandom number.
    pub fn random(&self, n: u64) -> u64 {
        scattered(n.wrapping_add(self.seed.wrapping_mul(0xD1B5_4A32_D192_ED03)))
    }

    /// Returns a value that compresses to about half its size.
    pub fn value(&self, n: u64) -> [u8; VALUE] {
        let mut value = [b'.'; VALUE];
        for (i, chunk) in value[..VALUE / 2].chunks_mut(8).enumerate() {
            let random = self.random(n.wrapping_mul(8).wrapping_add(i as u64)).to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
        value
    }
}

/// Returns the key of a row.
pub fn row_key(row: u64) -> Vec<u8> {
    format!("row-{row:012}").into_bytes()
}

/// Returns the name of a column of a narrow row.
pub fn column_name(column: u64) -> Vec<u8> {
    format!("column-{column}").into_bytes()
}

/// Returns the key of a cell.
pub fn cell_key(family: &StoreFamily, key: &[u8], name: &[u8]) -> Done<Vec<u8>> {
    let mut full = vec![];
    family.layout().put_partition(key, &mut full).map_err(failure)?;
    family.layout().put_cell(&[], name, &mut full).map_err(failure)?;
    Ok(full)
}

/// Returns the suffix of a cell's key, without its partition.
pub fn place(family: &StoreFamily, name: &[u8]) -> Done<Vec<u8>> {
    let mut place = vec![];
    family.layout().put_cell(&[], name, &mut place).map_err(failure)?;
    Ok(place)
}

/// Returns the stored encoding of a live cell.
pub fn stored(timestamp: i64, value: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    firn_wide::internals::cell::Cell {
        timestamp,
        state: firn_wide::internals::cell::CellState::Live(value),
    }
    .encode(&mut out);
    out
}

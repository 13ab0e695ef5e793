//! The blob files of a simulated tree. The engine's own rule ([`gc_files`]) selects the files to
//! collect. Each table has the number of bytes that a compaction of it would rewrite.
//!
//! References are counted by table and blob file: exactly in the exact model, as an expectation in
//! the other. A file is removed with its last reference.

use std::collections::{BTreeMap, HashMap};

use firn_kv::internals::util::sorted_map::SortedSet;
use std::sync::Arc;

use firn_kv::TreeOptions;
use firn_kv::internals::compaction::{BlobFileShape, LsmShape, gc_files};

/// A blob file that a flush or a compaction has written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimBlobOutput {
    /// Number of the file.
    pub id: u64,
    /// Length of the file in bytes.
    pub size: u64,
    /// Bytes of the blocks of its values.
    pub bytes: f64,
}

/// References of a table to one blob file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlobShare {
    /// Number of the file.
    pub file: u64,
    /// Number of referenced values.
    pub values: f64,
    /// Bytes of their blocks.
    pub bytes: f64,
}

/// See the module.
pub struct SimBlobFiles {
    options: Arc<TreeOptions>,
    files: BTreeMap<u64, SimBlobOutput>,
    uses: BTreeMap<u64, Vec<BlobShare>>,
    gc_files: Arc<SortedSet<u64>>,
    bytes: u64,
}

impl SimBlobFiles {
    /// Creates it without tables.
    pub fn new(options: Arc<TreeOptions>) -> SimBlobFiles {
        SimBlobFiles {
            options,
            files: BTreeMap::new(),
            uses: BTreeMap::new(),
            gc_files: Arc::default(),
            bytes: 0,
        }
    }

    /// Returns the bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of files.
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// Returns the files whose live values any compaction rewrites.
    pub fn gc_files(&self) -> &Arc<SortedSet<u64>> {
        &self.gc_files
    }

    /// Returns the references of a table.
    pub fn of_table(&self, table: u64) -> &[BlobShare] {
        self.uses.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Returns the bytes that a compaction of these tables rewrites from collected files.
    pub fn stale(&self, tables: impl Iterator<Item = u64>) -> u64 {
        if self.gc_files.is_empty() {
            return 0;
        }
        let uses = tables.flat_map(|table| self.of_table(table));
        let stale = uses.filter(|u| self.gc_files.contains(&u.file));
        stale.map(|u| u.bytes).sum::<f64>() as u64
    }

    /// Applies a job that has written the files `made` and the references `uses`, and has removed
    /// the tables `gone`. Returns the files that are removed with them.
    pub fn change(
        &mut self,
        made: Vec<SimBlobOutput>,
        uses: Vec<(u64, Vec<BlobShare>)>,
        gone: impl Iterator<Item = u64>,
    ) -> Vec<u64> {
        gone.for_each(|table| _ = self.uses.remove(&table));
        self.uses.extend(uses.into_iter().filter(|(_, uses)| !uses.is_empty()));
        self.files.extend(made.into_iter().map(|v| (v.id, v)));
        if self.files.is_empty() {
            return vec![];
        }
        let mut live: HashMap<u64, (f64, f64)> = HashMap::new();
        for u in self.uses.values().flatten() {
            let sum = live.entry(u.file).or_default();
            *sum = (sum.0 + u.values, sum.1 + u.bytes);
        }
        // Less than half a value is none, if values are an expectation.
        let is_held = |id: &u64| live.get(id).is_some_and(|(values, _)| *values >= 0.5);
        let (held, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.files).into_iter().partition(|(id, _)| is_held(id));
        self.files = held;
        self.bytes = self.files.values().map(|v| v.size).sum();
        let shape = |v: &SimBlobOutput| BlobFileShape {
            id: v.id,
            bytes: v.bytes as u64,
            live: live.get(&v.id).map_or(0, |(_, bytes)| bytes.round() as u64),
        };
        let files = self.files.values().map(shape).collect();
        self.gc_files =
            Arc::new(gc_files(&self.options.policy, self.options.blob_gc_percent, files));
        gone.into_keys().collect()
    }

    /// Sets in the shape the bytes that a compaction of each table would rewrite.
    pub fn mark(&self, shape: &mut LsmShape) {
        let of = |id: u64| self.stale(std::iter::once(id));
        shape.change(
            |t| t.blob_relocation_bytes != of(t.id),
            |t| t.blob_relocation_bytes = of(t.id),
        );
    }
}

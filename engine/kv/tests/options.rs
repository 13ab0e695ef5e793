//! Options of a tree that change while it is open. Changes apply at once and survive reopening.
//! Changes of options that cannot change are refused.

use std::sync::Arc;

use firn_kv::MemEnv;
use firn_kv::policy::{LazyLeveled, Tiered};
use firn_kv::{
    CompactionFilter, CompactionFilterContext, CompactionFilterPass, Compression, Db, DbOptions,
    ErrorKind, FilterDecision, FilterKind, Policy, Tree, TreeOptions,
};

struct Keep(&'static str);

impl CompactionFilter for Keep {
    fn name(&self) -> &str {
        self.0
    }

    fn start(&self, _: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        Box::new(Keep(self.0))
    }
}

impl CompactionFilterPass for Keep {
    fn filter(
        &mut self,
        _: &[u8],
        _: firn_kv::internals::base::key::Kind,
        _: &[u8],
        _: bool,
    ) -> FilterDecision {
        FilterDecision::Keep
    }
}

fn open(env: &Arc<MemEnv>) -> Db {
    Db::open_in(env.clone(), "db", DbOptions { background_threads: 0, ..DbOptions::default() })
        .unwrap()
}

fn fill(tree: &Tree, keys: u32) {
    (0..keys).for_each(|n| tree.put(n.to_be_bytes(), [b'v'; 100]).unwrap());
}

#[test]
fn what_is_changed_counts_at_once_and_for_good() {
    let env = Arc::new(MemEnv::new(0));
    let db = open(&env);
    let piling =
        Policy::Tiered(Tiered { min_runs: 32, max_runs: 64, bucket: 3.0, ..Tiered::default() });
    let tree = db.tree("t", TreeOptions { policy: piling, ..TreeOptions::default() }).unwrap();
    let other = db.existing_tree("t").unwrap();
    for _ in 0..4 {
        fill(&tree, 2000);
        tree.flush().unwrap();
    }
    db.wait_idle().unwrap();
    let packed = db.stats();
    assert_eq!((packed.trees[0].runs.len(), packed.compactions), (4, 0));
    let changed = TreeOptions {
        policy: Policy::LazyLeveled(LazyLeveled { ratio: 2, ..LazyLeveled::default() }),
        compression: vec![Compression::None],
        filter: vec![FilterKind::None],
        block_size: 1024,
        memtable_size: 64 << 10,
        ..tree.options()
    };
    tree.set_options(changed.clone()).unwrap();
    assert_eq!(
        format!("{:?}", other.options()),
        format!("{changed:?}"),
        "all handles must show the new options"
    );
    // The new policy picks compactions that the old one did not. Their outputs use the new options.
    db.wait_idle().unwrap();
    let merged = db.stats();
    assert!(merged.compactions > 0 && merged.trees[0].runs.len() < 4, "{merged:?}");
    assert!(
        merged.table_bytes() > packed.table_bytes(),
        "{} {}",
        merged.table_bytes(),
        packed.table_bytes()
    );
    // Memtables have the new size. The data would not have filled one memtable of the old size.
    fill(&tree, 2000);
    assert!(db.stats().flushes > merged.flushes);
    assert_eq!(tree.iter().count(), 2000);
    drop((tree, other, db));
    let db = open(&env);
    assert_eq!(format!("{:?}", db.existing_tree("t").unwrap().options()), format!("{changed:?}"));
}

#[test]
fn what_cannot_be_changed_is_refused_and_nothing_changes() {
    let env = Arc::new(MemEnv::new(0));
    let db = open(&env);
    let tree = db
        .tree(
            "t",
            TreeOptions {
                compaction_filter: Some(Arc::new(Keep("keep"))),
                ..TreeOptions::default()
            },
        )
        .unwrap();
    let before = format!("{:?}", tree.options());
    let refused = |options: TreeOptions| tree.set_options(options).unwrap_err();
    assert_eq!(
        refused(TreeOptions { block_size: 1, ..tree.options() }).kind(),
        ErrorKind::InvalidArgument
    );
    for purge in [None, Some(Arc::new(Keep("another")) as Arc<dyn CompactionFilter>)] {
        let e = refused(TreeOptions {
            compaction_filter: purge,
            table_size: 1 << 20,
            ..tree.options()
        });
        assert!(
            e.kind() == ErrorKind::Incompatible
                && e.to_string().contains("compaction filter \"keep\""),
            "{e}"
        );
    }
    assert_eq!(format!("{:?}", tree.options()), before);
    fill(&tree, 10);
    tree.flush().unwrap();
    drop((tree, db));

    // The tree is opened without its hooks. Other options may change, the hooks stay the same, and
    // no compaction runs without them.
    let db = open(&env);
    let tree = db.existing_tree("t").unwrap();
    tree.set_options(TreeOptions { table_size: 1 << 20, ..tree.options() }).unwrap();
    assert_eq!(tree.options().table_size, 1 << 20);
    assert_eq!(tree.compact().unwrap_err().kind(), ErrorKind::Incompatible);
    drop((tree, db));
    let read = DbOptions { read_only: true, ..DbOptions::default() };
    let db = Db::open_in(env.clone(), "db", read).unwrap();
    let tree = db.existing_tree("t").unwrap();
    assert_eq!(tree.set_options(tree.options()).unwrap_err().kind(), ErrorKind::ReadOnly);
    drop((tree, db));

    let db = open(&env);
    assert_eq!(db.tree("t", TreeOptions::default()).unwrap_err().kind(), ErrorKind::Incompatible);
    let tree = db.existing_tree("t").unwrap();
    assert_eq!(tree.options().table_size, 1 << 20);
    tree.set_options(TreeOptions {
        compaction_filter: Some(Arc::new(Keep("keep"))),
        ..tree.options()
    })
    .unwrap();
    tree.compact().unwrap();
    db.drop_tree("t").unwrap();
    assert_eq!(tree.set_options(tree.options()).unwrap_err().kind(), ErrorKind::Closed);
}

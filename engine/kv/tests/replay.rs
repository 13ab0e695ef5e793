//! A log that several threads put into memtables gives the same as one thread does.

use std::sync::Arc;

use firn_kv::env::mem::MemEnv;
use firn_kv::{Batch, Db, DbOptions, Tree, TreeOptions};
use firn_testkit::rng::Rng;

const TREES: u64 = 7;

fn open(env: &MemEnv, background_threads: usize, read_only: bool) -> (Db, Vec<Tree>) {
    let options =
        DbOptions { background_threads, read_only, memory_budget: 64 << 20, wal_segment: 256 << 10, ..DbOptions::default() };
    let db = Db::open_in(Arc::new(env.clone()), "/db", options).unwrap();
    let small = TreeOptions { memtable_size: 64 << 10, ..TreeOptions::default() };
    let tree = |i| {
        let name = format!("tree {i}");
        if read_only { db.existing_tree(&name) } else { db.tree(&name, small.clone()) }.unwrap()
    };
    let trees = (0..TREES).map(tree).collect();
    (db, trees)
}

type Content = Vec<Vec<(Vec<u8>, Vec<u8>)>>;

fn content(trees: &[Tree]) -> Content {
    let pairs = |t: &Tree| t.iter().map(|i| i.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect();
    trees.iter().map(pairs).collect()
}

#[test]
fn threads_replay_what_one_thread_does() {
    for seed in 0..3 {
        let env = MemEnv::new(seed);
        let mut rng = Rng::new(seed);
        let (db, trees) = open(&env, 0, false);
        for step in 0..2_000u64 {
            // Some trees are written much, some hardly, some by batches over several.
            let mut batch = Batch::new();
            for _ in 0..1 + rng.below(4) {
                let tree = &trees[(rng.below(TREES) * rng.below(TREES) / TREES) as usize];
                let key = format!("{:04}", rng.below(500)).into_bytes();
                match rng.below(10) {
                    0..2 => batch.delete(tree, &key).unwrap(),
                    2 if step % 7 == 0 => batch.delete_range(tree, &key[..]..&[&key[..2], b"99"].concat()).unwrap(),
                    _ => batch.put(tree, &key, &step.to_le_bytes().repeat(rng.below(12) as usize)).unwrap(),
                }
            }
            db.write(batch).unwrap();
            if step == 300 {
                trees[1].flush().unwrap();
            }
        }
        let want = content(&trees);
        let seq = db.stats().seq;
        drop((db, trees));
        // A reader leaves all as it is: by how many threads it was put there must not be seen in anything.
        let mut told = vec![];
        for threads in [0, 1, 3, 16] {
            let (db, trees) = open(&env, threads, true);
            assert_eq!(content(&trees), want, "seed {seed}, {threads} threads");
            let memory: Vec<_> = db.stats().trees.iter().map(|t| (t.sealed, t.memtable_bytes)).collect();
            told.push((memory, db.stats().seq));
            assert_eq!(db.stats().seq, seq);
        }
        assert!(told.windows(2).all(|w| w[0] == w[1]), "{told:?}");
        let (db, trees) = open(&env, 3, false);
        assert_eq!(content(&trees), want);
        db.verify(|_, _| ()).unwrap();
    }
}

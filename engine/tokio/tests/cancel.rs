//! Futures that are dropped at random: no permit is lost, and each write happens entirely or not at
//! all.

use std::sync::{Arc, Barrier};

use firn_kv::Batch;
use firn_testkit::effort::times_effort;
use firn_testkit::rng::Rng;
use firn_tokio::{AsyncDb, AsyncOptions};
use futures_util::StreamExt;
use futures_util::future::join_all;

use crate::{at_most, on_both, poll_times, store};

/// Checks that as many calls as allowed run at the same time: they wait for each other.
async fn has_all_permits(db: &AsyncDb, max_running: usize) -> firn_kv::Result<()> {
    let barrier = Arc::new(Barrier::new(max_running));
    let meet = |_| {
        let barrier = barrier.clone();
        db.call(move |_| Ok(barrier.wait()))
    };
    join_all((0..max_running).map(meet)).await.into_iter().try_for_each(|done| done.map(|_| ()))
}

#[test]
fn dropped_writes_are_whole_or_absent_and_lose_no_permit() {
    on_both(|| async {
        for seed in 0..times_effort(8) {
            let mut rng = Rng::new(seed);
            let (db, tree) = store(at_most(2)).await?;
            let mut writes = vec![];
            for n in 0..100u8 {
                let (db, tree, times) = (db.clone(), tree.clone(), rng.below(8) as usize);
                writes.push(async move {
                    let mut batch = Batch::new();
                    batch.put(tree.tree(), [n, 0], [n; 100])?;
                    batch.put(tree.tree(), [n, 1], [n; 100])?;
                    let done = match n % 3 {
                        0 => poll_times(db.write(batch), times).await,
                        1 => poll_times(tree.update([n, 2], move |_| Some([n; 100])), times)
                            .await
                            .map(|done| done.map(|_| ())),
                        _ => poll_times(tree.get([n, 0]), times).await.map(|done| done.map(|_| ())),
                    };
                    done.transpose().map(|done| (n, done.is_some()))
                });
            }
            let done = join_all(writes).await.into_iter().collect::<firn_kv::Result<Vec<_>>>()?;
            // Calls that were started without a future end before this one.
            has_all_permits(&db, 2).await?;
            has_all_permits(&db, 2).await?;
            for (n, is_done) in done {
                let found = tree.multi_get([[n, 0], [n, 1], [n, 2]]).await?;
                let is_there: Vec<bool> = found.iter().map(|value| value.is_some()).collect();
                assert_eq!(is_there[0], is_there[1], "a batch is atomic");
                let is_written = is_there[0] || is_there[2];
                assert!(
                    n % 3 == 2 || !is_done || is_written,
                    "write {n} was reported, and is missing"
                );
                assert!(found.iter().flatten().all(|value| *value == [n; 100]));
            }
            db.close().await?;
        }
        Ok(())
    });
}

#[test]
fn dropped_streams_lose_no_permit() {
    on_both(|| async {
        for seed in 0..times_effort(8) {
            let mut rng = Rng::new(seed);
            let limits = AsyncOptions { chunk_entries: 3, ..at_most(2) };
            let (db, tree) = store(limits).await?;
            for n in 0..100u8 {
                tree.put([n], [n]).await?;
            }
            let mut streams = vec![];
            for _ in 0..30 {
                let (mut stream, polls) = (tree.range(..), rng.below(60) as usize);
                streams.push(async move {
                    poll_times(
                        async {
                            let mut n = 0;
                            while let Some(item) = stream.next().await {
                                assert_eq!(item.unwrap().0, [n]);
                                n += 1;
                            }
                            assert_eq!(n, 100);
                        },
                        polls,
                    )
                    .await
                });
            }
            join_all(streams).await;
            has_all_permits(&db, 2).await?;
        }
        Ok(())
    });
}

#[test]
fn a_cancelled_call_that_waits_has_no_effect() {
    on_both(|| async {
        let (db, tree) = store(at_most(1)).await?;
        let (open, gate) = tokio::sync::oneshot::channel::<()>();
        let mut blocking = Box::pin(db.call(move |_| Ok(gate.blocking_recv().is_ok())));
        assert!(futures_util::poll!(&mut blocking).is_pending());
        assert!(poll_times(tree.put("k", "v"), 20).await.is_none());
        open.send(()).unwrap();
        assert!(blocking.await?);
        has_all_permits(&db, 1).await?;
        assert!(tree.get("k").await?.is_none());
        Ok(())
    });
}

#[test]
fn a_cancelled_call_that_runs_completes() {
    on_both(|| async {
        let (db, tree) = store(at_most(1)).await?;
        let (began, is_running) = tokio::sync::oneshot::channel();
        let (open, gate) = tokio::sync::oneshot::channel::<()>();
        let write = tree.call(move |tree| {
            began.send(()).unwrap();
            gate.blocking_recv().unwrap();
            tree.put("k", "v")
        });
        tokio::select! {
            _ = write => unreachable!("the gate is closed"),
            _ = is_running => {}
        }
        open.send(()).unwrap();
        has_all_permits(&db, 1).await?;
        assert_eq!(tree.get("k").await?.unwrap(), "v");
        Ok(())
    });
}

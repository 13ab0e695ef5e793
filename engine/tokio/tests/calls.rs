//! Every call, the bound of running calls, panics, and the end of the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use firn_kv::{Batch, Db, DbOptions, Durability, ErrorKind, MemEnv, Retry, TreeOptions};
use firn_tokio::{AsyncDb, AsyncOptions};
use futures_util::future::join_all;
use tokio::sync::{oneshot, watch};

use crate::{at_most, on_both, poll_times, store};

#[test]
fn calls_do_what_the_engine_does() {
    on_both(|| async {
        let (db, tree) = store(AsyncOptions::default()).await?;
        tree.put("a", "1").await?;
        tree.put(b"b", vec![2]).await?;
        assert_eq!(tree.get("a").await?.unwrap(), "1");
        assert_eq!(tree.multi_get(["a", "x"]).await?, [tree.get("a").await?, None]);
        tree.delete("a").await?;
        assert!(tree.get("a").await?.is_none());
        let updated = tree.update("b", |old| Some([old.unwrap(), b"!"].concat())).await?;
        assert_eq!(updated.new.unwrap(), [2, b'!']);

        let mut batch = Batch::new();
        batch.put(tree.tree(), "c", "3")?;
        db.with_durability(Durability::Power).write(batch).await?;
        db.sync().await?;
        assert_eq!(db.call(|db| db.existing_tree("t")?.len()).await?, 2);
        assert_eq!(tree.call(|tree| tree.first()).await?.unwrap().0, "b");
        assert_eq!(db.db().tree_names(), ["t"]);
        db.close().await
    });
}

#[test]
#[allow(clippy::disallowed_methods, reason = "it removes the folder of the test")]
fn a_store_on_disk_is_opened_and_closed() {
    let dir = std::env::temp_dir().join(format!("firn-tokio-open-{}", std::process::id()));
    on_both(|| async {
        let db = AsyncDb::open(dir.clone()).await?;
        db.tree("t", TreeOptions::default()).await?.put("k", "v").await?;
        let locked = AsyncDb::open_with(dir.clone(), DbOptions::default(), at_most(0)).await;
        assert_eq!(locked.unwrap_err().kind(), ErrorKind::Locked);
        db.close().await?;
        let read_only = DbOptions { read_only: true, ..DbOptions::default() };
        let again = AsyncDb::open_with(dir.clone(), read_only, at_most(0)).await?;
        let tree = again.wrap(again.db().existing_tree("t")?);
        assert_eq!(tree.get("k").await?.unwrap(), "v");
        again.close().await
    });
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn transactions_retry_conflicts() {
    on_both(|| async {
        let (db, tree) = store(at_most(8)).await?;
        let one = || {
            let raw = tree.tree().clone();
            db.transact(move |tx| {
                let n = tx.get(&raw, "n")?.map_or(0, |v| v[0]);
                tx.put(&raw, "n", [n + 1])
            })
        };
        for done in join_all((0..50).map(|_| one())).await {
            done?;
        }
        assert_eq!(tree.get("n").await?.unwrap(), [50]);

        let (raw, mut attempts) = (tree.tree().clone(), 0);
        let once = Retry { attempts: 1, ..Retry::default() };
        let conflict = db.transact_with(once, move |tx| {
            attempts += 1;
            tx.get(&raw, "n")?;
            raw.put("n", [0])?;
            tx.put(&raw, "n", [attempts])
        });
        assert_eq!(conflict.await.unwrap_err().kind(), ErrorKind::Conflict);
        Ok(())
    });
}

#[test]
fn no_more_calls_run_than_allowed() {
    on_both(|| async {
        let (db, _) = store(at_most(3)).await?;
        let (running, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (open, gate) = watch::channel(false);
        let call = |n: u32| {
            let (running, most, gate) = (running.clone(), most.clone(), gate.clone());
            db.call(move |_| {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                while !*gate.borrow() {
                    std::thread::yield_now();
                }
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(n)
            })
        };
        let all = async { join_all((0..20).map(call)).await };
        let opened = async {
            while running.load(Ordering::SeqCst) < 3 {
                tokio::task::yield_now().await;
            }
            // Others could begin now if they were allowed to.
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            open.send(true).unwrap();
        };
        let (done, ()) = tokio::join!(all, opened);
        assert!(done.into_iter().map(Result::unwrap).eq(0..20));
        assert_eq!(most.load(Ordering::SeqCst), 3);
        Ok(())
    });
}

#[test]
fn a_future_that_nobody_polls_delays_no_other() {
    on_both(|| async {
        let (db, tree) = store(at_most(1)).await?;
        let (open, gate) = oneshot::channel::<()>();
        let mut blocking = Box::pin(db.call(move |_| Ok(gate.blocking_recv().is_ok())));
        assert!(futures_util::poll!(&mut blocking).is_pending());
        // It waits for the permit; then nobody polls it while others run.
        let mut waiting = Box::pin(tree.get("k"));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        open.send(()).unwrap();
        tree.put("k", "v").await?;
        assert!(blocking.await?);
        waiting.await?;
        Ok(())
    });
}

#[test]
fn a_panic_reaches_the_caller_and_returns_its_permit() {
    on_both(|| async {
        let (db, tree) = store(at_most(1)).await?;
        let panicking = tokio::spawn({
            let db = db.clone();
            async move { db.call(|_| -> firn_kv::Result<()> { panic!("a bug of the caller") }).await }
        });
        let panic = panicking.await.unwrap_err().into_panic();
        assert_eq!(panic.downcast_ref(), Some(&"a bug of the caller"));
        tree.put("k", "v").await
    });
}

#[test]
fn a_runtime_that_ends_closes_calls() {
    let db = Db::open_in(Arc::new(MemEnv::plain()), "/store", DbOptions::default()).unwrap();
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    let tree = AsyncDb::new(db).wrap(tree);
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    let error = handle.block_on(tree.put("k", "v")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(tree.tree().is_empty().unwrap());
}

#[test]
fn futures_do_nothing_before_they_are_polled() {
    on_both(|| async {
        let (_, tree) = store(at_most(1)).await?;
        drop(tree.put("k", "v"));
        assert!(poll_times(tree.put("k", "v"), 0).await.is_none());
        assert!(tree.get("k").await?.is_none());
        Ok(())
    });
}

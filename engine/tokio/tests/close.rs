//! Closing: earlier calls complete, later ones fail.

use firn_kv::ErrorKind;
use firn_tokio::AsyncOptions;
use futures_util::future::join_all;
use futures_util::{StreamExt, poll};
use tokio::sync::oneshot;

use crate::{at_most, on_both, poll_times, store};

#[test]
fn close_waits_for_earlier_calls_and_refuses_later_ones() {
    on_both(|| async {
        let (db, tree) = store(at_most(2)).await?;
        let (mut gates, mut running) = (vec![], vec![]);
        for n in 0..2u8 {
            let (open, gate) = oneshot::channel::<()>();
            let write = tree.call(move |tree| {
                gate.blocking_recv().unwrap();
                tree.put([n], [n])
            });
            gates.push(open);
            running.push(Box::pin(write));
            assert!(poll!(&mut running[usize::from(n)]).is_pending());
        }
        let mut queued = Box::pin(tree.put("queued", "v"));
        let (mut closing, mut closing_too) = (Box::pin(db.close()), Box::pin(db.close()));
        let mut late = Box::pin(tree.put("late", "v"));
        assert!(poll!(&mut queued).is_pending());
        assert!(poll!(&mut closing).is_pending() && poll!(&mut closing_too).is_pending());
        assert!(poll!(&mut late).is_pending());
        gates.into_iter().for_each(|open| open.send(()).unwrap());
        closing_too.await?;
        closing.await?;
        assert_eq!(late.await.unwrap_err().kind(), ErrorKind::Closed);
        join_all(running).await.into_iter().collect::<firn_kv::Result<()>>()?;
        queued.await?;
        assert_eq!(tree.get("queued").await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(db.call(|_| Ok(())).await.unwrap_err().kind(), ErrorKind::Closed);
        db.close().await
    });
}

#[test]
fn a_cancelled_close_leaves_the_store_open() {
    on_both(|| async {
        let (db, tree) = store(at_most(2)).await?;
        let (open, gate) = oneshot::channel::<()>();
        let mut blocking = Box::pin(db.call(move |_| Ok(gate.blocking_recv().is_ok())));
        assert!(poll!(&mut blocking).is_pending());
        assert!(poll_times(db.close(), 20).await.is_none());
        tree.put("k", "v").await?;
        open.send(()).unwrap();
        assert!(blocking.await?);
        db.close().await
    });
}

#[test]
fn a_stream_ends_with_an_error_after_the_close() {
    on_both(|| async {
        let limits = AsyncOptions { chunk_entries: 2, ..AsyncOptions::default() };
        let (db, tree) = store(limits).await?;
        for n in 0..100u8 {
            tree.put([n], [n]).await?;
        }
        let mut stream = tree.range(..);
        assert_eq!(stream.next().await.unwrap()?.0, [0]);
        db.close().await?;
        let rest: Vec<_> = stream.by_ref().collect().await;
        let error = rest.last().unwrap().as_ref().unwrap_err();
        assert!(error.kind() == ErrorKind::Closed && rest.len() < 6, "{rest:?}");
        assert!(stream.next().await.is_none());
        Ok(())
    });
}

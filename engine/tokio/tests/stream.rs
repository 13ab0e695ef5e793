//! Streams: order, chunks, backpressure, early ends and errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use firn_kv::{Db, ErrorKind, MergeOperator, MergeResult, TreeOptions};
use firn_tokio::{AsyncDb, AsyncOptions, AsyncTree, RangeStream};
use futures_core::stream::FusedStream;
use futures_util::{StreamExt, TryStreamExt};

use crate::{at_most, on_both, store};

async fn filled(limits: AsyncOptions) -> firn_kv::Result<(AsyncDb, AsyncTree)> {
    let (db, tree) = store(limits).await?;
    for n in 0..100u8 {
        tree.put([n / 10, n % 10], [n]).await?;
    }
    Ok((db, tree))
}

async fn values(stream: RangeStream) -> firn_kv::Result<Vec<u8>> {
    stream.map_ok(|(_, value)| value[0]).try_collect().await
}

#[test]
fn a_stream_has_the_entries_of_its_range_in_order() {
    on_both(|| async {
        for (chunk_entries, chunk_bytes) in [(0, 0), (1, 1000), (7, 1000), (1000, 10), (100, 1000)]
        {
            let limits = AsyncOptions { chunk_entries, chunk_bytes, ..AsyncOptions::default() };
            let (db, tree) = filled(limits).await?;
            assert!(values(tree.range(..)).await?.into_iter().eq(0..100));
            assert!(values(tree.range(..).rev()).await?.into_iter().eq((0..100).rev()));
            assert!(values(tree.range([3]..[5])).await?.into_iter().eq(30..50));
            assert!(values(tree.prefix([9])).await?.into_iter().eq(90..100));
            assert!(values(tree.range("z"..)).await?.is_empty());
            let before = db.db().snapshot();
            tree.delete([0, 0]).await?;
            assert_eq!(values(db.stream(before.iter(tree.tree()))).await?.len(), 100);
            assert_eq!(values(tree.range(..)).await?.len(), 99);
        }
        Ok(())
    });
}

#[test]
fn a_stream_reads_the_state_of_its_creation() {
    on_both(|| async {
        let (_, tree) =
            filled(AsyncOptions { chunk_entries: 5, ..AsyncOptions::default() }).await?;
        let mut stream = tree.range(..);
        tree.delete([0, 0]).await?;
        assert_eq!(stream.next().await.unwrap()?.0, [0, 0]);
        tree.delete([9, 9]).await?;
        assert_eq!(values(stream).await?.len(), 99);
        Ok(())
    });
}

/// Counts the entries that are read: each has an operand, which the read folds.
struct Counting(Arc<AtomicUsize>);

impl MergeOperator for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn full_merge(
        &self,
        _: &[u8],
        _: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> firn_kv::Result<MergeResult> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(MergeResult::Value(operands.concat()))
    }
}

#[test]
fn a_slow_consumer_stops_the_reading_and_delays_nobody() {
    on_both(|| async {
        let count = Arc::new(AtomicUsize::new(0));
        let limits = AsyncOptions { chunk_entries: 10, ..at_most(1) };
        let db = AsyncDb::with_options(Db::in_memory()?, limits);
        let operator: Arc<dyn MergeOperator> = Arc::new(Counting(count.clone()));
        let options = TreeOptions { merge_operator: Some(operator), ..TreeOptions::default() };
        let tree = db.tree("t", options).await?;
        tree.call(|tree| (0..100u8).try_for_each(|n| tree.merge([n], [n]))).await?;
        count.store(0, Ordering::SeqCst);

        let mut stream = tree.range(..);
        tokio::task::yield_now().await;
        assert_eq!(count.load(Ordering::SeqCst), 0, "it begins with the first poll");
        for chunk in 0..10 {
            for n in 0..10u8 {
                assert_eq!(stream.next().await.unwrap()?.1, [chunk * 10 + n]);
            }
            // One permit only: it is free between chunks.
            for _ in 0..5 {
                tree.put("x", "y").await?;
            }
            let read = count.load(Ordering::SeqCst);
            let most = 10 * (usize::from(chunk) + 2);
            assert!(read <= most, "{read} entries were read, at most {most} are allowed");
        }
        assert!(stream.next().await.is_none() && stream.is_terminated());
        Ok(())
    });
}

#[test]
fn dropping_a_stream_closes_its_iterator() {
    on_both(|| async {
        let (db, tree) =
            filled(AsyncOptions { chunk_entries: 2, ..AsyncOptions::default() }).await?;
        for taken in 0..9 {
            let mut stream = db.stream(db.db().snapshot().iter(tree.tree()));
            assert_eq!(db.db().stats().snapshots.len(), 1);
            for _ in 0..taken {
                stream.next().await.unwrap()?;
            }
            drop(stream);
            // A chunk that is being read comes first.
            while !db.db().stats().snapshots.is_empty() {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    });
}

#[test]
fn an_error_ends_the_stream() {
    on_both(|| async {
        let (db, tree) = filled(AsyncOptions::default()).await?;
        db.call(|db| db.drop_tree("t")).await?;
        let mut stream = tree.range(..);
        assert_eq!(stream.next().await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
        assert!(stream.next().await.is_none() && stream.is_terminated());
        Ok(())
    });
}

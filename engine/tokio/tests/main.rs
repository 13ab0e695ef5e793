//! Tests of the async interface.

mod calls;
mod cancel;
mod close;
mod files;
mod service;
mod stream;

use std::future::Future;

use firn_kv::{Db, TreeOptions};
use firn_tokio::{AsyncDb, AsyncOptions, AsyncTree};
use tokio::runtime::Builder;

/// Runs a test on a multi-thread and on a current-thread runtime.
fn on_both<F: Future<Output = firn_kv::Result<()>>>(test: impl Fn() -> F) {
    let threads = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    threads.block_on(test()).unwrap();
    let current = Builder::new_current_thread().enable_all().build().unwrap();
    current.block_on(test()).unwrap();
}

/// Returns a store in memory and a tree of it.
async fn store(options: AsyncOptions) -> firn_kv::Result<(AsyncDb, AsyncTree)> {
    let db = AsyncDb::with_options(Db::in_memory()?, options);
    let tree = db.tree("t", TreeOptions::default()).await?;
    Ok((db, tree))
}

/// Returns limits with this maximum of running calls.
fn at_most(max_running: u32) -> AsyncOptions {
    AsyncOptions { max_running, ..AsyncOptions::default() }
}

/// Polls a future this often, and returns its output if it completes.
async fn poll_times<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = Box::pin(future);
    for _ in 0..times {
        if let std::task::Poll::Ready(done) = futures_util::poll!(&mut future) {
            return Some(done);
        }
        tokio::task::yield_now().await;
    }
    None
}

//! Users, songs, comments, likes and dislikes: what the answer about a music site designs, with
//! counters and indexes, and users who like and dislike at the same time without anything being
//! counted twice. The application itself is in `src/demo/music.rs`.
//!
//! `cargo run -p firn-wide-text --example songs DIRECTORY`

use firn_kv::OsEnv;
use firn_wide::{Result, Wide};
use firn_wide_text::demo;

fn main() -> Result<()> {
    let dir = std::env::args_os().nth(1).unwrap_or_else(|| "songs-data".into());
    print!("{}", demo::songs(&Wide::open(dir)?, OsEnv::new())?);
    Ok(())
}

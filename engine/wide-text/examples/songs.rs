//! Users, songs, comments, likes and dislikes: the music site of the answer, with counters and
//! indexes. Users like and dislike concurrently, and nothing is counted twice. `src/demo/music.rs`
//! has the application.
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

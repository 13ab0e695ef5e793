//! The article's blog: its storage-conf.xml, its authors, posts, tags and comments; the last 10
//! posts, the last 10 posts with a tag, and a post's comments, oldest first. `src/demo/blog.rs` has
//! the application.
//!
//! `cargo run -p firn-wide-text --example bloggy DIRECTORY`

use firn_wide::{Result, Wide};
use firn_wide_text::demo;

fn main() -> Result<()> {
    let dir = std::env::args_os().nth(1).unwrap_or_else(|| "bloggy-data".into());
    print!("{}", demo::bloggy(&Wide::open(dir)?)?);
    Ok(())
}

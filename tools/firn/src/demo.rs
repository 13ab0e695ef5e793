//! `firn demo`: the applications of the source texts, made in a store and told while they run. The
//! stories are `firn_wide_text::demo`'s.

use std::io::Write;

use clap::{Args, ValueEnum};
use firn_cql::with_scripts;
use firn_kv::OsEnv;
use firn_tools::io;
use firn_tools::output::{Done, Failure};
use firn_wide::{Options, Wide};
use firn_wide_text::demo;

use crate::store::{Global, wide_failure};

pub const EXAMPLES: &str = "\
The store stays, to be looked at with `firn cli`.

Examples:
  firn --db blog demo bloggy
  firn --db blog cli -k BloggyAppy -e \"list Authors;\"
  firn --db music demo songs
  firn --db music cli -k Music -e \"list song_data;\"";

/// What `firn demo` takes.
#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// Which one
    #[arg(value_enum)]
    which: Which,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    /// A blog: its storage-conf.xml, authors, posts, tags and comments, and the last 10 posts in
    /// eight steps
    Bloggy,
    /// A music site: users, songs, comments, likes in seven steps, and many users at once
    Songs,
}

impl Which {
    fn keyspace(self) -> &'static str {
        match self {
            Which::Bloggy => "BloggyAppy",
            Which::Songs => "Music",
        }
    }
}

/// Runs `firn demo`.
pub fn run(global: &Global, args: &DemoArgs) -> Done {
    if global.store.json {
        return Err(Failure::with_next(
            "demo tells a story, which has no JSON",
            "leave --json out",
        ));
    }
    let (dir, firn) = (&global.store.db, global.firn());
    let wide =
        Wide::open_with(dir, with_scripts(Options::default())).map_err(|e| wide_failure(e, dir))?;
    let keyspace = args.which.keyspace();
    if wide.keyspace(keyspace).is_ok() {
        return Err(Failure::with_next(
            format!("{} has the keyspace {keyspace} already", dir.display()),
            format!(
                "look at it with `{firn} cli -k {keyspace}`, or name another directory with --db"
            ),
        ));
    }
    let told = match args.which {
        Which::Bloggy => demo::bloggy(&wide),
        Which::Songs => demo::songs(&wide, OsEnv::new()),
    };
    let mut out = io::stdout();
    out.write_all(told.map_err(|e| wide_failure(e, dir))?.as_bytes())?;
    out.flush()?;
    eprintln!("\nit is in {}: `{firn} cli -k {keyspace}` speaks with it", dir.display());
    Ok(())
}

//! `firn demo`: creates the applications of the source texts in a store, with a commentary. The
//! demos are in `firn_wide_text::demo`.

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
The store remains and can be examined with `firn cli`.

Examples:
  firn --db blog demo bloggy
  firn --db blog cli -k BloggyAppy -e \"list Authors;\"
  firn --db music demo songs
  firn --db music cli -k Music -e \"list song_data;\"";

/// Arguments of `firn demo`.
#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// Create this example
    #[arg(value_enum)]
    which: Which,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    /// A blog: its storage-conf.xml, authors, posts, tags and comments, and the last 10 posts in
    /// eight steps
    Bloggy,
    /// A music site: users, songs, comments, likes in seven steps, and many concurrent users
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
            "demo prints a commentary, which has no JSON form",
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
    let commentary = match args.which {
        Which::Bloggy => demo::bloggy(&wide),
        Which::Songs => demo::songs(&wide, OsEnv::new()),
    };
    let mut out = io::stdout();
    out.write_all(commentary.map_err(|e| wide_failure(e, dir))?.as_bytes())?;
    out.flush()?;
    eprintln!("\nit is in {}: open it with `{firn} cli -k {keyspace}`", dir.display());
    Ok(())
}

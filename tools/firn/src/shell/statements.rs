//! Sources of a command's statements: a file, the command line, a terminal or a pipe.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;
use firn_tools::io::{self, Input};
use firn_tools::output::{Done, Failure};

/// Arguments shared by these commands.
#[derive(Args, Clone, Debug)]
pub struct Statements {
    /// Run the statements of a file; - is standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "execute")]
    file: Option<PathBuf>,
    /// Run these statements
    #[arg(short, long, value_name = "STATEMENTS")]
    pub execute: Option<String>,
    /// Begin in this keyspace
    #[arg(short, long, value_name = "NAME")]
    pub keyspace: Option<String>,
}

/// Source of statements.
pub enum StatementOrigin<'a> {
    /// A user at a terminal.
    Terminal,
    /// A text, with its name in messages.
    Text(&'a Path, Box<dyn BufRead + 'a>),
}

impl Statements {
    /// Opens the source.
    pub fn origin(&self) -> Done<StatementOrigin<'_>> {
        let file = match (&self.file, &self.execute) {
            (Some(file), _) => file.as_path(),
            (None, Some(text)) => {
                return Ok(StatementOrigin::Text(Path::new("-e"), Box::new(text.as_bytes())));
            }
            (None, None) if io::stdin_is_terminal() && io::stdout_is_terminal() => {
                return Ok(StatementOrigin::Terminal);
            }
            (None, None) => Path::new("-"),
        };
        let input = Input::open(file).map_err(|e| Failure::file("read", file, &e))?;
        Ok(StatementOrigin::Text(file, Box::new(BufReader::with_capacity(64 << 10, input))))
    }
}

//! Test tools for Firn, for dev-dependencies only: [`browser`] opens pages, [`datadriven`] runs
//! tests in text files, [`effort`] scales randomized tests, [`floors`] checks imports, [`history`]
//! generates random operations and [`oracle`] has their expected results, [`inside`] delegates
//! methods of an environment, [`linear`] checks concurrent calls for linearizability, [`names`]
//! finds duplicate type names and uncalled functions, [`process`] runs a test in its own process,
//! [`public_api`] finds public methods without test coverage, [`rng`] is a reproducible random
//! number generator, [`shell`] tests shell completions, [`shrink`] shrinks failing inputs.

pub mod browser;
pub mod datadriven;
pub mod effort;
pub mod floors;
pub mod history;
pub mod inside;
pub mod linear;
pub mod modules;
pub mod names;
pub mod oracle;
pub mod process;
pub mod public_api;
pub mod rings;
pub mod rng;
pub mod shell;
pub mod shrink;
pub mod words;

#[cfg(test)]
extern crate self as firn_testkit;
#[cfg(test)]
#[path = "../tests/workspace.rs"]
mod integration;

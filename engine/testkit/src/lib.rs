//! Test tools for Firn, for dev-dependencies only: [`browser`] opens pages, [`datadriven`] runs tests
//! that are text files, [`effort`] multiplies how long random tests run, [`floors`] sees what imports what, [`history`] makes histories of
//! operations and [`oracle`] knows what they must answer, [`inside`] leaves what an environment
//! does to another, [`linear`] judges calls that were made at the same time, [`names`] finds those
//! that two types have and those that nobody calls, [`process`] runs a test in a process of its own,
//! [`public_api`] tells what is public and in no
//! run of tests, [`rng`] is a small generator of repeatable randomness, [`shell`] asks a shell
//! about its completions, [`shrink`] makes what fails smaller.

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

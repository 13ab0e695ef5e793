//! Common code of Firn's commands: bytes as text ([`escape`]), help texts
//! ([`help`]), completions and manual pages
//! ([`install`]), keys and ranges of a command line ([`keys`]), JSON of keys and errors ([`json`]),
//! failures, exit codes, colours, tables, progress and human-readable numbers ([`output`]), the
//! user's files ([`io`]), sizes, policies and tree options ([`options`]), a page of levels and
//! rates over time ([`page`]), shell quoting ([`shell`]), the first step of a command ([`start`]),
//! statistics as JSON ([`stats`]), trees by name ([`trees`]), a workload and its store
//! ([`workload`]).
//!
//! Conventions of every command: data on standard output, messages on standard error. The exit code
//! is 0 on success, 1 if something was found, 2 if the command could not run. A command writes only
//! if its name says so.

pub mod escape;
pub mod help;
pub mod install;
pub mod io;
pub mod json;
pub mod keys;
pub mod options;
pub mod output;
pub mod page;
pub mod shell;
pub mod start;
pub mod stats;
pub mod trees;
pub mod workload;

/// Runs the example of the page as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ToolsReadme;

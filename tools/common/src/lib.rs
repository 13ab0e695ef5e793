//! The code that Firn's commands share: bytes as text ([`escape`]), completions and manual pages
//! ([`install`]), keys and ranges from a command line ([`keys`]), JSON of both ([`json`]),
//! failures, exit codes, colours, tables, progress and numbers for people ([`output`]), the user's
//! own files ([`io`]), sizes, policies and options of trees ([`options`]), a page of levels and
//! rates over time ([`page`]), words that a shell reads back ([`shell`]), the first step of a command ([`start`]), statistics as JSON
//! ([`stats`]), trees by their names ([`trees`]).
//!
//! Conventions of every command: data on standard output, talk on standard error; exit code 0 when
//! all is well, 1 when something was found, 2 when it could not run; nothing is written unless the
//! command's name says so.

pub mod escape;
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

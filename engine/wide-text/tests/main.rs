//! Integration tests of the text formats, one module for each subject.

mod article;
mod cli;
mod cli_session;
#[path = "../../wide/tests/common/mod.rs"]
mod common;
mod demo;
mod floors;
mod json;
mod listings;
mod longest;
mod ranges;
mod storage_conf;
mod transcript;

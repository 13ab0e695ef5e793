//! Integration tests of the console, one module for each subject.

mod chrome;
mod client;
mod floors;
mod http;
mod pages;

//! Integration tests of the change server, one module for each subject.

mod consumer;
mod server;

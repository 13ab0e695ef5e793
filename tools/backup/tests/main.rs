//! Integration tests of backups, one module a subject.

mod common;
mod faults;
mod floors;
mod golden;
mod histories;

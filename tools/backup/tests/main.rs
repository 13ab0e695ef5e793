//! Integration tests of backups, one module for each subject.

mod common;
mod faults;
mod floors;
mod golden;
mod histories;

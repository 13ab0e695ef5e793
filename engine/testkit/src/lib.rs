//! Test tools for Firn, for dev-dependencies only: [`datadriven`] runs tests that are text files, [`history`] makes histories of
//! operations and [`oracle`] knows what they must answer, [`rng`] is a small generator of repeatable randomness.

pub mod datadriven;
pub mod history;
pub mod oracle;
pub mod rng;

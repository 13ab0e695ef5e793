//! Floor 3: counters of reads, and the debt that reads over several sources add up.

pub mod read_debt;
pub mod reads;

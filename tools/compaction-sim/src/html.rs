//! x
use crate::meter::Outcome;
/// x
pub fn page(_all: &[(String, Outcome)]) -> String {
    String::new()
}

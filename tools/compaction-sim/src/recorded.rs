//! x
use crate::cli::*;
use firn_tools::output::Done;
/// x
pub fn replay(_a: &ReplayArgs, _c: &Cli, _o: &mut dyn std::io::Write) -> Done {
    Ok(())
}
/// x
pub fn compare(_a: &CompareArgs, _c: &Cli, _o: &mut dyn std::io::Write) -> Done {
    Ok(())
}

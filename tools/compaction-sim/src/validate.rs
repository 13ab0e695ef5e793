//! x
use crate::cli::*;
use firn_tools::output::Done;
/// x
pub fn run(_a: &ValidateArgs, _c: &Cli, _o: &mut dyn std::io::Write) -> Done {
    Ok(())
}

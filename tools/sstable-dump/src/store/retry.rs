//! Reading a store that another program has open. A file may be removed between listing and
//! reading; that is not damage.
//!
//! Invariants: this module writes nothing and holds no lock. An error counts only if two
//! consecutive readings report the same one.

use std::path::Path;

use firn_kv::{Error, ErrorKind};
use firn_tools::io;
use firn_tools::output::{Done, Failure};

use crate::store::target::env;

/// Maximum number of readings of a store whose files change meanwhile.
pub const TRIES: usize = 10;

/// Returns the result of `read`. Repeats it while it fails because a program removed a file
/// meanwhile.
///
/// # Errors
/// - An error that two consecutive readings report.
/// - An error that the store keeps changing, if each reading reports a different error.
pub fn retry_while_changing<T>(mut read: impl FnMut() -> Done<T>) -> Done<T> {
    let mut before: Option<Error> = None;
    for _ in 0..TRIES {
        match read() {
            Err(Failure::Engine(e))
                if before.as_ref().map(Error::to_string) != Some(e.to_string()) =>
            {
                before = Some(e);
            }
            done => return done,
        }
    }
    let last = before.map_or_else(String::new, |e| format!("; the last error: {e}"));
    Err(Failure::with_next(
        format!("files of the store change faster than they can be read{last}"),
        "run this again while less is written, or on a checkpoint of the store",
    ))
}

/// Refuses a store that a program has open for writing. A file that the program removes meanwhile
/// would count as lost.
///
/// # Errors
/// If another program holds the store's lock. A lock file that cannot be opened is no error.
pub fn refuse_open(dir: &Path) -> Done {
    let lock = dir.join("LOCK");
    // Locking a missing file would create it.
    if !io::is_file(&lock) {
        return Ok(());
    }
    match env().lock(&lock) {
        Err(e) if e.kind() == ErrorKind::Locked => Err(open_failure(&e)),
        _ => Ok(()),
    }
}

/// Returns the failure that a program has the store open, with advice.
pub fn open_failure(e: &Error) -> Failure {
    Failure::with_next(
        e.to_string(),
        "end the program that has the store open, then run this again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(n: u32) -> Failure {
        Error::new(ErrorKind::NotFound, format!("file {n} is missing")).into()
    }

    #[test]
    fn an_error_counts_if_it_repeats() {
        let mut n = 0;
        let mut moving = |most: u32| {
            retry_while_changing(|| {
                n += 1;
                if n < most { Err(missing(n)) } else { Ok(n) }
            })
        };
        assert_eq!(moving(3).unwrap(), 3);
        let Err(Failure::Failed { what, next: Some(_) }) = moving(u32::MAX) else { panic!() };
        assert!(what.contains("change faster") && what.contains("file 13 is missing"), "{what}");
        let mut n = 0;
        let stays = retry_while_changing(|| {
            n += 1;
            Err::<(), _>(missing(1))
        });
        assert!(n == 2 && matches!(stays, Err(Failure::Engine(_))));
    }
}

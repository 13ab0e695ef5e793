//! Beside a program that has the store open: what a tool reads may be gone in the next moment, and
//! that is no damage.
//!
//! Invariants: nothing is written, and no lock is kept; an error counts only when two readings in a
//! row meet it alike.

use std::path::Path;

use firn_kv::{Error, ErrorKind};
use firn_tools::io;
use firn_tools::output::{Done, Failure};

use crate::target::env;

/// How often a store is read again when its files change underneath.
pub const TRIES: usize = 10;

/// What `read` gives, at last without an error that comes of a file that a program has removed
/// meanwhile.
///
/// # Errors
/// An error that two readings in a row have met; that the store moves on, where each has met
/// another.
pub fn settled<T>(mut read: impl FnMut() -> Done<T>) -> Done<T> {
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

/// Refuses a store that a program has open for writing: of one that moves on, a file that has gone
/// meanwhile would count as lost.
///
/// # Errors
/// When the store's lock is held. A lock that cannot be asked for says nothing.
pub fn refuse_open(dir: &Path) -> Done {
    let lock = dir.join("LOCK");
    // To ask for one that is not there would make it.
    if !io::is_file(&lock) {
        return Ok(());
    }
    match env().lock(&lock) {
        Err(e) if e.kind() == ErrorKind::Locked => Err(is_open(&e)),
        _ => Ok(()),
    }
}

/// That a program has the store open, and what to do.
pub fn is_open(e: &Error) -> Failure {
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
    fn an_error_counts_when_it_is_met_twice() {
        let mut n = 0;
        let mut moving = |most: u32| {
            settled(|| {
                n += 1;
                if n < most { Err(missing(n)) } else { Ok(n) }
            })
        };
        assert_eq!(moving(3).unwrap(), 3);
        let Err(Failure::Failed { what, next: Some(_) }) = moving(u32::MAX) else { panic!() };
        assert!(what.contains("change faster") && what.contains("file 13 is missing"), "{what}");
        let mut n = 0;
        let stays = settled(|| {
            n += 1;
            Err::<(), _>(missing(1))
        });
        assert!(n == 2 && matches!(stays, Err(Failure::Engine(_))));
    }
}

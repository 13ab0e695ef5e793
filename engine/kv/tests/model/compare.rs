//! Compares actual results with expected ones.

use firn_kv::{Error, ErrorKind, Value};

/// Reason of a history's failure.
#[derive(Debug)]
pub struct Failure(pub String);

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        Failure(format!("an error: {e}"))
    }
}

pub type Outcome<T = ()> = std::result::Result<T, Failure>;

pub fn ensure(fine: bool, words: impl FnOnce() -> String) -> Outcome {
    if fine { Ok(()) } else { Err(Failure(words())) }
}

pub fn show(bytes: Option<&[u8]>) -> String {
    match bytes {
        None => "nothing".into(),
        Some(b) if b.len() <= 40 => format!("\"{}\"", b.escape_ascii()),
        Some(b) => format!(
            "\"{}…{}\" ({} bytes)",
            b[..16].escape_ascii(),
            b[b.len() - 8..].escape_ascii(),
            b.len()
        ),
    }
}

pub fn same(what: &str, got: Option<&[u8]>, want: Option<&[u8]>) -> Outcome {
    ensure(got == want, || format!("{what}: expected {}, got {}", show(want), show(got)))
}

pub type Pair<'a> = (&'a [u8], &'a [u8]);

pub fn same_pair(what: &str, got: Option<Pair<'_>>, want: Option<Pair<'_>>) -> Outcome {
    same(&format!("{what}, key"), got.map(|p| p.0), want.map(|p| p.0))?;
    same(
        &format!("{what}, value of {}", show(want.map(|p| p.0))),
        got.map(|p| p.1),
        want.map(|p| p.1),
    )
}

pub fn same_item(
    what: &str,
    got: Option<firn_kv::Result<(Value, Value)>>,
    want: Option<Pair<'_>>,
) -> Outcome {
    let got = got.transpose()?;
    same_pair(what, got.as_ref().map(|(k, v)| (&**k, &**v)), want)
}

pub fn refused<T>(what: &str, got: firn_kv::Result<T>, kind: ErrorKind) -> Outcome {
    match got {
        Ok(_) => Err(Failure(format!("{what} was not refused"))),
        Err(e) => ensure(e.kind() == kind, || {
            format!("{what}: expected an error of kind {kind:?}, got {e}")
        }),
    }
}

//! How a call goes: what C lends, what it is given, what goes wrong.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use firn_cql::Class;
use firn_kv::{ErrorKind, Value};

/// What came of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirnCode {
    /// Done.
    Ok = 0,
    /// Done, and there is nothing: no such key, no further entry or row, null.
    None = 1,
    /// Bytes on disk are not what was written; the message names the place.
    Corruption = 2,
    /// The operating system refused.
    Io = 3,
    /// The device or a quota is full. Nothing was written.
    NoSpace = 4,
    /// No file descriptors or no memory are left. Nothing was written.
    Exhausted = 5,
    /// The store takes no writes.
    ReadOnly = 6,
    /// Somebody else has the store open.
    Locked = 7,
    /// A transaction read something that has changed since; run it again.
    Conflict = 8,
    /// An argument is null or out of its bounds. Nothing was changed.
    InvalidArgument = 9,
    /// The files were written by a newer version, or with other hooks or options.
    Incompatible = 10,
    /// No such store, tree or file.
    NotFound = 11,
    /// The store or the tree was closed or dropped.
    Closed = 12,
    /// The text is no CQL.
    Syntax = 20,
    /// The statement can't be right.
    InvalidRequest = 21,
    /// What the system keeps may not be changed.
    Unauthorized = 22,
    /// A strategy or an option can't be used.
    Configuration = 23,
    /// The keyspace or table is there.
    AlreadyExists = 24,
    /// A function failed over its arguments.
    FunctionFailure = 25,
    /// CQL failed otherwise.
    Server = 26,
    /// Firn has a bug, which was caught here. Handles that the call had are to be freed.
    Panic = 99,
}

/// Why a call gives another code than `Ok`.
pub struct Failure {
    code: FirnCode,
    text: String,
}

/// What a call's work gives.
pub type Outcome<T = FirnCode> = Result<T, Failure>;

impl Failure {
    /// An argument that can't be.
    pub fn argument(text: impl Into<String>) -> Failure {
        Failure { code: FirnCode::InvalidArgument, text: text.into() }
    }

    /// What is said of it.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl From<firn_kv::Error> for Failure {
    fn from(e: firn_kv::Error) -> Failure {
        let code = match e.kind() {
            ErrorKind::Corruption => FirnCode::Corruption,
            ErrorKind::NoSpace => FirnCode::NoSpace,
            ErrorKind::Exhausted => FirnCode::Exhausted,
            ErrorKind::ReadOnly => FirnCode::ReadOnly,
            ErrorKind::Locked => FirnCode::Locked,
            ErrorKind::Conflict => FirnCode::Conflict,
            ErrorKind::InvalidArgument => FirnCode::InvalidArgument,
            ErrorKind::Incompatible => FirnCode::Incompatible,
            ErrorKind::NotFound => FirnCode::NotFound,
            ErrorKind::Closed => FirnCode::Closed,
            _ => FirnCode::Io,
        };
        Failure { code, text: e.to_string() }
    }
}

impl From<firn_cql::Error> for Failure {
    fn from(e: firn_cql::Error) -> Failure {
        let code = match e.class() {
            Class::Syntax => FirnCode::Syntax,
            Class::Invalid => FirnCode::InvalidRequest,
            Class::Unauthorized => FirnCode::Unauthorized,
            Class::Configuration => FirnCode::Configuration,
            Class::AlreadyExists => FirnCode::AlreadyExists,
            Class::FunctionFailure => FirnCode::FunctionFailure,
            _ => FirnCode::Server,
        };
        match e {
            firn_cql::Error::Wide(firn_wide::Error::Store(e)) => Failure::from(e),
            e => Failure { code, text: e.to_string() },
        }
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

fn remember(text: &str) {
    let text = CString::new(text.replace('\0', "\\0")).unwrap_or_default();
    // A thread that ends has no place for it any more.
    MESSAGE.try_with(|m| m.replace(text)).ok();
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

/// Does the work of a call: what goes wrong becomes a code, and its words are remembered for the
/// thread.
pub fn call(work: impl FnOnce() -> Outcome) -> FirnCode {
    // What a panic leaves half done is behind handles whose own invariants hold (locks of the
    // engine are not poisoned), and C is told to free them.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => {
            remember(&failure.text);
            failure.code
        }
        Err(panic) => {
            remember(words(&*panic));
            FirnCode::Panic
        }
    }
}

/// Why the last call failed that failed on this thread: UTF-8, never NULL, good until the next one
/// fails.
#[unsafe(no_mangle)]
pub extern "C" fn firn_error_message() -> *const c_char {
    MESSAGE.try_with(|m| m.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn firn_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// A handle that C must not leave out.
pub fn there<T>(handle: Option<T>, what: &str) -> Outcome<T> {
    handle.ok_or_else(|| Failure::argument(format!("{what} is NULL")))
}

/// Writes what a call has made.
pub fn give<T>(out: Option<&mut MaybeUninit<T>>, made: impl FnOnce() -> Outcome<T>) -> Outcome {
    let out = there(out, "the place of the result")?;
    out.write(made()?);
    Ok(FirnCode::Ok)
}

/// As [`give`], of something that may not be there.
pub fn give_some<T>(
    out: Option<&mut MaybeUninit<T>>,
    made: impl FnOnce() -> Outcome<Option<T>>,
) -> Outcome {
    let out = there(out, "the place of the result")?;
    match made()? {
        Some(made) => {
            out.write(made);
            Ok(FirnCode::Ok)
        }
        None => Ok(FirnCode::None),
    }
}

/// Bytes that are lent for a call, or until the next call on the same handle. NULL with length 0 is
/// nothing at all: an open end of a range, no value; where bytes must be, it is no bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FirnSlice {
    data: *const u8,
    len: usize,
}

impl FirnSlice {
    /// Nothing at all.
    pub const NOTHING: FirnSlice = FirnSlice { data: std::ptr::null(), len: 0 };

    /// Bytes for C to look at.
    pub fn lend(bytes: &[u8]) -> FirnSlice {
        FirnSlice { data: bytes.as_ptr(), len: bytes.len() }
    }

    /// The bytes; `None` for nothing at all.
    pub fn some(&self) -> Outcome<Option<&[u8]>> {
        match (self.data.is_null(), self.len) {
            (true, 0) => Ok(None),
            (true, _) => Err(Failure::argument("bytes with a length are NULL")),
            (false, len) if isize::try_from(len).is_err() => {
                Err(Failure::argument("a length is larger than memory"))
            }
            // SAFETY: it is not null, its length is one that a slice may have, and the header has C
            // promise that so many bytes are there, and stay as they are, until the call is over;
            // what is borrowed here lives no longer than the argument of that call.
            (false, len) => Ok(Some(unsafe { std::slice::from_raw_parts(self.data, len) })),
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> Outcome<&[u8]> {
        self.some().map(Option::unwrap_or_default)
    }

    /// The bytes as text.
    pub fn text(&self) -> Outcome<&str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Failure::argument("a text is not UTF-8"))
    }
}

/// What keeps bytes in memory.
pub enum FirnOwner {
    /// A value of a store, which is not copied.
    Value(Value),
    /// Bytes of their own.
    Bytes(Vec<u8>),
}

/// Bytes that are the caller's, until they are given back with `firn_bytes_free`.
#[repr(C)]
pub struct FirnBytes {
    data: *const u8,
    len: usize,
    owner: Option<Box<FirnOwner>>,
}

impl From<FirnOwner> for FirnBytes {
    fn from(owner: FirnOwner) -> FirnBytes {
        let owner = Box::new(owner);
        let bytes: &[u8] = match &*owner {
            FirnOwner::Value(value) => value,
            FirnOwner::Bytes(bytes) => bytes,
        };
        FirnBytes { data: bytes.as_ptr(), len: bytes.len(), owner: Some(owner) }
    }
}

impl From<Value> for FirnBytes {
    fn from(value: Value) -> FirnBytes {
        FirnBytes::from(FirnOwner::Value(value))
    }
}

impl From<String> for FirnBytes {
    fn from(text: String) -> FirnBytes {
        FirnBytes::from(FirnOwner::Bytes(text.into_bytes()))
    }
}

/// Gives bytes back.
#[unsafe(no_mangle)]
pub extern "C" fn firn_bytes_free(bytes: FirnBytes) {
    free(bytes);
}

/// Drops what C gives back.
pub fn free<T>(handle: T) {
    call(|| {
        drop(handle);
        Ok(FirnCode::Ok)
    });
}

//! Calls from C: borrowed bytes, results, errors.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

use firn_cql::ErrorClass;
use firn_kv::{ErrorKind, Value};

/// Result of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirnCode {
    /// Success.
    Ok = 0,
    /// Success without a result: no such key, no further entry or row, null.
    None = 1,
    /// Bytes on disk are damaged; the message has the location.
    Corruption = 2,
    /// The operating system returned an error.
    Io = 3,
    /// The device or a quota is full. Nothing was written.
    NoSpace = 4,
    /// File descriptors or memory are exhausted. Nothing was written.
    Exhausted = 5,
    /// The store accepts no writes.
    ReadOnly = 6,
    /// Another process or handle has the store open.
    Locked = 7,
    /// Data read by a transaction has changed since; run it again.
    Conflict = 8,
    /// An argument is null or out of range. Nothing was changed.
    InvalidArgument = 9,
    /// The files were written by a newer version, or with other hooks or options.
    Incompatible = 10,
    /// No such store, tree or file.
    NotFound = 11,
    /// The store or the tree was closed or dropped.
    Closed = 12,
    /// The log no longer has the changes; copy a snapshot.
    Lagged = 13,
    /// The text is not valid CQL.
    Syntax = 20,
    /// The statement is invalid.
    InvalidRequest = 21,
    /// The operation is not permitted.
    Unauthorized = 22,
    /// A replication strategy or an option is invalid.
    Configuration = 23,
    /// The keyspace or table exists already.
    AlreadyExists = 24,
    /// A user-defined function failed.
    FunctionFailure = 25,
    /// Another error of CQL.
    Server = 26,
    /// A bug in Firn, which was caught. The handles of the call must be freed.
    Panic = 99,
}

/// An error of a call.
pub struct Failure {
    code: FirnCode,
    text: String,
}

/// Result of a call's work.
pub type Outcome<T = FirnCode> = Result<T, Failure>;

impl Failure {
    /// Returns an error for an invalid argument.
    pub fn argument(text: impl Into<String>) -> Failure {
        Failure { code: FirnCode::InvalidArgument, text: text.into() }
    }

    /// Returns the message.
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
            ErrorKind::Lagged => FirnCode::Lagged,
            _ => FirnCode::Io,
        };
        Failure { code, text: e.to_string() }
    }
}

impl From<firn_cql::Error> for Failure {
    fn from(e: firn_cql::Error) -> Failure {
        let code = match e.class() {
            ErrorClass::Syntax => FirnCode::Syntax,
            ErrorClass::Invalid => FirnCode::InvalidRequest,
            ErrorClass::Unauthorized => FirnCode::Unauthorized,
            ErrorClass::Configuration => FirnCode::Configuration,
            ErrorClass::AlreadyExists => FirnCode::AlreadyExists,
            ErrorClass::FunctionFailure => FirnCode::FunctionFailure,
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
    // A thread that is ending has no message any more.
    MESSAGE.try_with(|m| m.replace(text)).ok();
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

/// Runs the work of a call: converts an error to a code, and stores its message for the thread.
pub fn call(work: impl FnOnce() -> Outcome) -> FirnCode {
    // State that a panic leaves incomplete is inside handles whose own invariants hold (locks of
    // the engine are not poisoned), and the code tells C to free them.
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

/// Returns the message of the last failed call on this thread: UTF-8, never NULL, valid until the
/// next failure.
#[unsafe(no_mangle)]
pub extern "C" fn firn_error_message() -> *const c_char {
    MESSAGE.try_with(|m| m.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Returns the version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn firn_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// Runs the work of a call without a result.
pub fn done(work: impl FnOnce() -> Outcome<()>) -> FirnCode {
    call(|| work().map(|()| FirnCode::Ok))
}

/// Runs the work of a call, and writes its result.
pub fn result<T>(out: Option<&mut MaybeUninit<T>>, work: impl FnOnce() -> Outcome<T>) -> FirnCode {
    optional_result(out, || work().map(Some))
}

/// As [`result`], for an optional result.
pub fn optional_result<T>(
    out: Option<&mut MaybeUninit<T>>,
    work: impl FnOnce() -> Outcome<Option<T>>,
) -> FirnCode {
    call(|| {
        let out = required(out, "the place of the result")?;
        Ok(done_if(work()?.map(|value| out.write(value)).is_some()))
    })
}

/// Returns the code of a call that may have no effect or no result.
pub fn done_if(is_done: bool) -> FirnCode {
    if is_done { FirnCode::Ok } else { FirnCode::None }
}

/// Checks a required argument.
pub fn required<T>(argument: Option<T>, what: &str) -> Outcome<T> {
    argument.ok_or_else(|| Failure::argument(format!("{what} is NULL")))
}

/// Checks a handle.
pub fn handle<T: Deref<Target: Handle>>(handle: Option<T>) -> Outcome<T> {
    required(handle, T::Target::NAME)
}

/// A type of handles, with its name in messages.
pub trait Handle {
    /// The name.
    const NAME: &'static str;
}

/// Names types of handles.
macro_rules! handles {
    ($($of:ident $name:literal),+) => {$(
        impl Handle for $of {
            const NAME: &'static str = $name;
        }
    )+};
}

pub(crate) use handles;

/// Borrowed bytes, valid during the call, or until the next call on the same handle. NULL with
/// length 0 means an unbounded end of a range, or no value; where bytes are required, no bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FirnSlice {
    data: *const u8,
    len: usize,
}

impl FirnSlice {
    /// None.
    pub const NOTHING: FirnSlice = FirnSlice { data: std::ptr::null(), len: 0 };

    /// Lends bytes to C.
    pub fn lend(bytes: &[u8]) -> FirnSlice {
        FirnSlice { data: bytes.as_ptr(), len: bytes.len() }
    }

    /// Returns the bytes; `None` for NULL with length 0.
    pub fn some(&self) -> Outcome<Option<&[u8]>> {
        match (self.data.is_null(), self.len) {
            (true, 0) => Ok(None),
            (true, _) => Err(Failure::argument("bytes with a length are NULL")),
            (false, len) if isize::try_from(len).is_err() => {
                Err(Failure::argument("a length is larger than memory"))
            }
            // SAFETY: it is not null, its length is valid for a slice, and the header requires C to
            // provide this many bytes, unchanged until the call returns. The borrow here does not
            // outlive the argument of that call.
            (false, len) => Ok(Some(unsafe { std::slice::from_raw_parts(self.data, len) })),
        }
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> Outcome<&[u8]> {
        self.some().map(Option::unwrap_or_default)
    }

    /// Returns the bytes as text.
    pub fn text(&self) -> Outcome<&str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Failure::argument("a text is not UTF-8"))
    }
}

/// Copies bytes into memory of the caller, if they fit into `capacity`.
///
/// # Errors
/// `buffer` is null, and the capacity is not 0.
pub fn copy_out(bytes: &[u8], buffer: *mut u8, capacity: usize) -> Outcome<()> {
    if buffer.is_null() && capacity > 0 {
        return Err(Failure::argument("a buffer with a capacity is NULL"));
    }
    if !bytes.is_empty() && bytes.len() <= capacity {
        // SAFETY: it is not null, as the capacity is not 0, and the header requires C to provide
        // `capacity` writable bytes. They cannot overlap bytes that the library owns.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer, bytes.len()) };
    }
    Ok(())
}

/// Owner of bytes in memory.
pub enum FirnOwner {
    /// A value of a store, which is not copied.
    Value(Value),
    /// Copied bytes.
    Bytes(Vec<u8>),
}

/// Bytes owned by the caller, to be freed with `firn_bytes_free`.
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

/// Frees bytes.
#[unsafe(no_mangle)]
pub extern "C" fn firn_bytes_free(bytes: FirnBytes) {
    free(bytes);
}

/// Drops a handle that C returns.
pub fn free<T>(handle: T) {
    done(|| {
        drop(handle);
        Ok(())
    });
}

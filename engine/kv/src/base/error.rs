//! The error type of the engine.
//!
//! Invariants:
//! - An error has a kind ([`ErrorKind`]). Kinds differ where a caller would act differently.
//! - A corruption always carries its location: file, offset and block kind. It carries the key
//!   range where that is known.
//! - Errors are cheap to clone, because the first failure is returned to every later caller.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::key::ShownKey;
use crate::util::panics::panic_text;

/// Result type of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of an [`Error`]. Kinds differ where a caller would act differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Bytes on disk differ from the bytes that were written. The error gives their location. `firn
    /// verify` and `sstable-dump check` find all corruptions. `sstable-dump salvage` and
    /// `sstable-dump repair` save the readable data.
    Corruption,
    /// The operating system refused an operation. [`Error::io_error`] gives the reason.
    Io,
    /// The device or a quota is full. Nothing was written; free space and try again.
    NoSpace,
    /// The process or the system has no file descriptors or memory left. Nothing was written; raise
    /// the limit (`ulimit -n`, `ulimit -v`) or free some, and try again.
    Exhausted,
    /// The store accepts no writes. It was opened read-only, or an earlier write or sync failed and
    /// made it read-only.
    ReadOnly,
    /// Another process, or another handle in this process, holds the store.
    Locked,
    /// A transaction read data that has changed since; run it again.
    Conflict,
    /// The caller passed an argument outside the documented bounds. Nothing was changed.
    InvalidArgument,
    /// A newer version wrote the files, or they were written with other hooks or options than those
    /// of this call.
    Incompatible,
    /// A named object (file, tree, checkpoint) does not exist.
    NotFound,
    /// The store or the tree has been closed or dropped.
    Closed,
    /// A change feed asks for records that the log no longer has. Start again from the current
    /// state.
    Lagged,
    /// Work of the store panicked, most likely in a hook ([`MergeOperator`](crate::MergeOperator),
    /// [`CompactionFilter`](crate::CompactionFilter), [`Summary`](crate::Summary),
    /// [`FilterPrefix`](crate::FilterPrefix)). A flush or a compaction then changed nothing. A
    /// panic in the background or in the work that follows a write makes the store read-only. So
    /// does one in an operation that must not remain half done. Correct the hook and open the store
    /// again.
    Panicked,
}

impl ErrorKind {
    /// Returns the name of the kind in lower case, as printed in messages and JSON.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Corruption => "corruption",
            ErrorKind::Io => "io",
            ErrorKind::NoSpace => "no space",
            ErrorKind::Exhausted => "exhausted",
            ErrorKind::ReadOnly => "read-only",
            ErrorKind::Locked => "locked",
            ErrorKind::Conflict => "conflict",
            ErrorKind::InvalidArgument => "invalid argument",
            ErrorKind::Incompatible => "incompatible",
            ErrorKind::NotFound => "not found",
            ErrorKind::Closed => "closed",
            ErrorKind::Lagged => "lagged",
            ErrorKind::Panicked => "panicked",
        }
    }
}

/// Reports whether the system refused for lack of file descriptors or memory. It compares numbers,
/// because the standard library has no kinds for all of these errors.
fn is_exhausted(e: &std::io::Error) -> bool {
    #[cfg(unix)]
    let full = {
        use rustix::io::Errno;
        [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN].map(Errno::raw_os_error)
    };
    // ERROR_TOO_MANY_OPEN_FILES, ERROR_NO_SYSTEM_RESOURCES, ERROR_COMMITMENT_LIMIT. Memory errors
    // have a kind of their own.
    #[cfg(windows)]
    let full = [4, 1450, 1455];
    #[cfg(not(any(unix, windows)))]
    let full: [i32; 0] = [];
    e.kind() == std::io::ErrorKind::OutOfMemory
        || e.raw_os_error().is_some_and(|n| full.contains(&n))
}

/// Error of the engine: a [kind](ErrorKind), a message, and a location.
///
/// ```
/// use firn_kv::{Error, ErrorKind};
/// let e = Error::corruption("checksum mismatch").at("000007.sst", 4096).block("data");
/// assert_eq!(e.kind(), ErrorKind::Corruption);
/// assert_eq!(e.to_string(), "corruption: checksum mismatch (file 000007.sst, offset 4096, data block)");
/// ```
#[derive(Clone)]
pub struct Error(Arc<ErrorInner>);

#[derive(Clone)]
struct ErrorInner {
    kind: ErrorKind,
    message: String,
    tree: Option<String>,
    file: Option<PathBuf>,
    offset: Option<u64>,
    block: Option<&'static str>,
    keys: Option<(Vec<u8>, Vec<u8>)>,
    source: Option<Arc<std::io::Error>>,
}

impl Error {
    /// Creates an error of `kind` with a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Arc::new(ErrorInner {
            kind,
            message: message.into(),
            tree: None,
            file: None,
            offset: None,
            block: None,
            keys: None,
            source: None,
        }))
    }

    /// Creates a corruption error.
    pub fn corruption(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corruption, message)
    }

    /// Creates an error for an argument outside its bounds.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// Returns the result of `work`, or an error of kind [`ErrorKind::Panicked`] if it panics. Use
    /// it for jobs that leave no half-done state.
    pub(crate) fn catch<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
            Ok(done) => done,
            Err(panic) => Err(Error::panicked(what, &*panic)),
        }
    }

    fn panicked(what: &str, panic: &(dyn std::any::Any + Send)) -> Error {
        Error::new(ErrorKind::Panicked, format!("{what} panicked: {}", panic_text(panic)))
    }

    /// Creates an error for a file whose format version is newer than this program. `what` begins
    /// the message, for example "the manifest".
    #[doc(hidden)]
    pub fn newer(what: &str, found: u32, newest: u32) -> Self {
        let words = format!(
            "{what} has format version {found}, of a newer version; this build reads version {newest}: use a newer build"
        );
        Self::new(ErrorKind::Incompatible, words)
    }

    /// Creates an error from an operating-system error while doing `what` to `file`. A full device
    /// or quota, or a limit of the process on the size of files, becomes [`ErrorKind::NoSpace`].
    /// Lack of file descriptors or memory becomes [`ErrorKind::Exhausted`]. A missing file becomes
    /// [`ErrorKind::NotFound`].
    pub fn io(what: &str, file: impl AsRef<Path>, source: std::io::Error) -> Self {
        let kind = match source.kind() {
            std::io::ErrorKind::StorageFull
            | std::io::ErrorKind::QuotaExceeded
            | std::io::ErrorKind::FileTooLarge => ErrorKind::NoSpace,
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ if is_exhausted(&source) => ErrorKind::Exhausted,
            _ => ErrorKind::Io,
        };
        let next = match kind {
            ErrorKind::NoSpace if source.kind() == std::io::ErrorKind::FileTooLarge => {
                "; raise the limit on the size of files (`ulimit -f`), and try again"
            }
            ErrorKind::NoSpace => "; free some and try again",
            ErrorKind::Exhausted => "; raise the limit or free some, and try again",
            _ if source.kind() == std::io::ErrorKind::CrossesDevices => {
                "; name a place on the same file system"
            }
            _ => "",
        };
        let mut e = Self::new(kind, format!("cannot {what}: {source}{next}"));
        let inner = Arc::make_mut(&mut e.0);
        inner.file = Some(file.as_ref().to_path_buf());
        inner.source = Some(Arc::new(source));
        e
    }

    fn edit(mut self, f: impl FnOnce(&mut ErrorInner)) -> Self {
        f(Arc::make_mut(&mut self.0));
        self
    }

    /// Adds the location: a file and a byte offset in it.
    pub fn at(self, file: impl AsRef<Path>, offset: u64) -> Self {
        self.edit(|i| {
            i.file = Some(file.as_ref().to_path_buf());
            i.offset = Some(offset);
        })
    }

    /// Adds the file only.
    pub fn in_file(self, file: impl AsRef<Path>) -> Self {
        self.edit(|i| i.file = Some(file.as_ref().to_path_buf()))
    }

    /// Adds the name of the affected tree.
    #[doc(hidden)]
    pub fn of_tree(self, name: &str) -> Self {
        self.edit(|i| i.tree = Some(name.to_owned()))
    }

    /// Adds the kind of block ("data", "index", "filter", …).
    #[doc(hidden)]
    pub fn block(self, kind: &'static str) -> Self {
        self.edit(|i| i.block = Some(kind))
    }

    /// Adds the affected range of user keys, both ends inclusive.
    #[doc(hidden)]
    pub fn keys(self, first: &[u8], last: &[u8]) -> Self {
        self.edit(|i| i.keys = Some((first.to_vec(), last.to_vec())))
    }

    /// Prefixes the message with the operation that failed.
    pub fn context(self, what: impl fmt::Display) -> Self {
        self.edit(|i| i.message = format!("{what}: {}", i.message))
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Reports whether the same call may succeed later, because only space, file descriptors or
    /// memory were missing. The engine never repeats a failed *sync*, whatever this returns.
    pub fn is_transient(&self) -> bool {
        matches!(self.0.kind, ErrorKind::NoSpace | ErrorKind::Exhausted)
    }

    /// Returns the message alone, without kind and location.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the name of the tree, if known.
    pub fn tree(&self) -> Option<&str> {
        self.0.tree.as_deref()
    }

    /// Returns the file, if any.
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// Returns the byte offset in the file, if any.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Returns the kind of block, if any.
    pub fn block_kind(&self) -> Option<&'static str> {
        self.0.block
    }

    /// Returns the error of the operating system that caused this one, if any.
    ///
    /// ```
    /// use firn_kv::{Db, DbOptions};
    /// let options = DbOptions { create: false, ..DbOptions::default() };
    /// let missing = std::env::temp_dir().join("firn-doc-missing/store");
    /// let e = Db::open_with(missing, options).unwrap_err();
    /// println!("{e}; the system's error number: {:?}", e.io_error().and_then(|e| e.raw_os_error()));
    /// ```
    pub fn io_error(&self) -> Option<&std::io::Error> {
        self.0.source.as_deref()
    }

    /// Returns the affected range of user keys, if known, both ends inclusive.
    pub fn key_range(&self) -> Option<(&[u8], &[u8])> {
        self.0.keys.as_ref().map(|(a, b)| (a.as_slice(), b.as_slice()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let i = &*self.0;
        write!(f, "{}: {}", i.kind.name(), i.message)?;
        let mut sep = " (";
        if let Some(tree) = &i.tree {
            write!(f, "{sep}tree {tree:?}")?;
            sep = ", ";
        }
        if let Some(file) = &i.file {
            write!(f, "{sep}file {}", file.display())?;
            sep = ", ";
        }
        if let Some(o) = i.offset {
            write!(f, "{sep}offset {o}")?;
            sep = ", ";
        }
        if let Some(b) = i.block {
            write!(f, "{sep}{b} block")?;
            sep = ", ";
        }
        if let Some((a, b)) = &i.keys {
            write!(f, "{sep}keys {} to {}", ShownKey(a), ShownKey(b))?;
            sep = ", ";
        }
        if sep == ", " {
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

/// An error has no [`source`](std::error::Error::source), because its text includes that of the
/// operating system; a program that prints the whole chain shows it once. See
/// [`io_error`](Error::io_error).
impl std::error::Error for Error {}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_lacks_has_its_own_kind_and_advice() {
        use rustix::io::Errno;
        for (n, kind, advice) in [
            (Errno::NOSPC, ErrorKind::NoSpace, "free some and try again"),
            (Errno::DQUOT, ErrorKind::NoSpace, "free some and try again"),
            (Errno::FBIG, ErrorKind::NoSpace, "raise the limit on the size of files"),
            (Errno::MFILE, ErrorKind::Exhausted, "raise the limit or free some"),
            (Errno::NOENT, ErrorKind::NotFound, "cannot write"),
            (Errno::IO, ErrorKind::Io, "cannot write"),
        ] {
            let source = std::io::Error::from_raw_os_error(n.raw_os_error());
            let e = Error::io("write", "f", source);
            assert!(e.kind() == kind && e.message().contains(advice), "{e}");
            assert_eq!(e.is_transient(), advice != "cannot write", "{e}");
        }
        let e = Error::io("link as g", "f", std::io::ErrorKind::CrossesDevices.into());
        assert!(e.message().contains("on the same file system") && !e.is_transient(), "{e}");
    }
}

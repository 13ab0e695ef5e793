//! The one error type of the engine.
//!
//! Invariants: an error says what kind of trouble it is ([`ErrorKind`], chosen by what a caller
//! would do about it), and a corruption always carries its place: file, offset and block kind, and
//! the key range where it is known. Errors are cheap to clone, because a latched error is handed to
//! every later caller.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::key::ShownKey;

/// The engine's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of trouble an [`Error`] is: kinds differ where a caller would act differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Bytes on disk are not what was written; the error names the place. `firn verify` and
    /// `sstable-dump check` find all of them, `sstable-dump salvage` and `sstable-dump repair` save
    /// what can be saved.
    Corruption,
    /// The operating system refused an operation. The source says why.
    Io,
    /// The device or a quota is full. Nothing was written; free space and try again.
    NoSpace,
    /// The process or the system has no file descriptors or no memory left to give. Nothing was
    /// written; raise the limit (`ulimit -n`, `ulimit -v`) or free some, and try again.
    Exhausted,
    /// The store takes no writes: it was opened read-only, or an earlier write or sync failed and
    /// latched it.
    ReadOnly,
    /// Another process (or another handle in this process) holds the store.
    Locked,
    /// A transaction read something that has changed since; run it again.
    Conflict,
    /// The caller passed something outside the documented bounds. Nothing was changed.
    InvalidArgument,
    /// The files were written by a newer version, or with other hooks or options than those given
    /// now.
    Incompatible,
    /// A named thing (file, tree, checkpoint) is not there.
    NotFound,
    /// The store or the tree has been closed or dropped.
    Closed,
    /// A feed of changes asks for what the log does not have any more: begin again with what a reader
    /// sees now.
    Lagged,
    /// Work of the store panicked, most likely in a hook ([`Merge`](crate::Merge),
    /// [`Purge`](crate::Purge), [`Summary`](crate::Summary), [`FilterPrefix`](crate::FilterPrefix)). A
    /// flush or a merge has changed nothing then. In the background, in the work behind a write, and
    /// where something has begun that must not be left half done, it makes the store read-only: correct
    /// the hook and open the store again.
    Panicked,
}

impl ErrorKind {
    /// The kind's name in lower case, as printed in messages and JSON.
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

/// Whether the system refused for want of file descriptors or memory. By number: the standard
/// library has no kinds for all of these.
fn is_exhausted(e: &std::io::Error) -> bool {
    #[cfg(unix)]
    let full = {
        use rustix::io::Errno;
        [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN].map(Errno::raw_os_error)
    };
    // ERROR_TOO_MANY_OPEN_FILES, ERROR_NO_SYSTEM_RESOURCES, ERROR_COMMITMENT_LIMIT; those of memory
    // are a kind.
    #[cfg(windows)]
    let full = [4, 1450, 1455];
    #[cfg(not(any(unix, windows)))]
    let full: [i32; 0] = [];
    e.kind() == std::io::ErrorKind::OutOfMemory
        || e.raw_os_error().is_some_and(|n| full.contains(&n))
}

/// An error of the engine: a [kind](ErrorKind), a message, and the place where it happened.
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
    /// An error of `kind` with a message.
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

    /// Bytes that are not what was written.
    pub fn corruption(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corruption, message)
    }

    /// An argument outside its bounds.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// What `work` gives, also where it panics: for jobs that leave nothing behind that is half done.
    pub(crate) fn catch<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| panic.downcast_ref().copied());
            let words = words.unwrap_or("it does not say why");
            Err(Error::new(ErrorKind::Panicked, format!("{what} panicked: {words}")))
        })
    }

    /// A file of a format version that a newer version of the program wrote. `what` begins the
    /// message: "the manifest".
    pub fn newer(what: &str, found: u32, known: u32) -> Self {
        let words = format!(
            "{what} has format version {found}, of a newer version; this build reads version {known}: use a newer build"
        );
        Self::new(ErrorKind::Incompatible, words)
    }

    /// An operating-system error while doing `what` to `file`. A full device or quota, or a limit of
    /// the process on the size of files, becomes [`ErrorKind::NoSpace`], want of file descriptors or
    /// memory [`ErrorKind::Exhausted`], a missing file [`ErrorKind::NotFound`].
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

    /// Adds the place: a file and a byte offset in it.
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

    /// Adds the tree that is concerned.
    pub fn of_tree(self, name: &str) -> Self {
        self.edit(|i| i.tree = Some(name.to_owned()))
    }

    /// Adds the kind of block ("data", "index", "filter", …).
    pub fn block(self, kind: &'static str) -> Self {
        self.edit(|i| i.block = Some(kind))
    }

    /// Adds the range of user keys that is affected, both ends inclusive.
    pub fn keys(self, first: &[u8], last: &[u8]) -> Self {
        self.edit(|i| i.keys = Some((first.to_vec(), last.to_vec())))
    }

    /// Puts words before the message: what was being done.
    pub fn context(self, what: impl fmt::Display) -> Self {
        self.edit(|i| i.message = format!("{what}: {}", i.message))
    }

    /// What kind of trouble it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call may succeed later, because all that was missing is space, file
    /// descriptors or memory. A failed *sync* is never repeated, whatever it says.
    pub fn is_transient(&self) -> bool {
        matches!(self.0.kind, ErrorKind::NoSpace | ErrorKind::Exhausted)
    }

    /// The message alone, without kind and place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The tree, where it is known.
    pub fn tree(&self) -> Option<&str> {
        self.0.tree.as_deref()
    }

    /// The file, where one is concerned.
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// The byte offset in the file.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The kind of block.
    pub fn block_kind(&self) -> Option<&'static str> {
        self.0.block
    }

    /// The range of user keys that is affected, both ends inclusive.
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

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}

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

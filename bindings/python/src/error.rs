//! The exceptions: `Error` is the class of all.

use firn_cql::Class;
use firn_kv::ErrorKind;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

macro_rules! exceptions {
    ($($name:ident of $base:ty: $text:literal;)+) => {
        $(create_exception!(firn, $name, $base, $text);)+

        /// Puts them into the module.
        pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add(stringify!($name), module.py().get_type::<$name>())?;)+
            Ok(())
        }
    };
}

exceptions! {
    Error of PyException: "What Firn could not do.";
    CorruptionError of Error: "Bytes on disk are not what was written; the text names the place.";
    IoError of Error: "The operating system refused.";
    NoSpaceError of IoError: "The device or a quota is full. Nothing was written.";
    ExhaustedError of IoError: "No file descriptors or no memory are left. Nothing was written.";
    ReadOnlyError of Error: "The store takes no writes.";
    LockedError of Error: "Somebody else has the store open.";
    ConflictError of Error: "A transaction read something that has changed since; run it again.";
    InvalidArgumentError of Error: "An argument is out of its bounds. Nothing was changed.";
    IncompatibleError of Error: "The files were written by a newer version, or with other hooks or options.";
    NotFoundError of Error: "No such store, tree or file.";
    ClosedError of Error: "The store or the tree was closed or dropped.";
    CqlError of Error: "A statement did nothing.";
    SyntaxException of CqlError: "The text is no CQL.";
    InvalidRequest of CqlError: "The statement can't be right; the text says what would do.";
    Unauthorized of CqlError: "What the system keeps may not be changed.";
    ConfigurationException of CqlError: "A strategy or an option can't be used.";
    AlreadyExists of CqlError: "The keyspace or table is there.";
    FunctionFailure of CqlError: "A function failed over its arguments.";
    ServerError of CqlError: "CQL failed otherwise.";
}

/// The exception of an engine's error.
pub fn of_kv(e: firn_kv::Error) -> PyErr {
    let text = e.to_string();
    match e.kind() {
        ErrorKind::Corruption => CorruptionError::new_err(text),
        ErrorKind::NoSpace => NoSpaceError::new_err(text),
        ErrorKind::Exhausted => ExhaustedError::new_err(text),
        ErrorKind::ReadOnly => ReadOnlyError::new_err(text),
        ErrorKind::Locked => LockedError::new_err(text),
        ErrorKind::Conflict => ConflictError::new_err(text),
        ErrorKind::InvalidArgument => InvalidArgumentError::new_err(text),
        ErrorKind::Incompatible => IncompatibleError::new_err(text),
        ErrorKind::NotFound => NotFoundError::new_err(text),
        ErrorKind::Closed => ClosedError::new_err(text),
        _ => IoError::new_err(text),
    }
}

/// The exception of a statement's error.
pub fn of_cql(e: firn_cql::Error) -> PyErr {
    let text = match &e {
        firn_cql::Error::Syntax(e) => e.pretty(),
        other => other.to_string(),
    };
    match (e.class(), e) {
        (_, firn_cql::Error::Wide(firn_wide::Error::Store(e))) => of_kv(e),
        (Class::Syntax, _) => SyntaxException::new_err(text),
        (Class::Invalid, _) => InvalidRequest::new_err(text),
        (Class::Unauthorized, _) => Unauthorized::new_err(text),
        (Class::Configuration, _) => ConfigurationException::new_err(text),
        (Class::AlreadyExists, _) => AlreadyExists::new_err(text),
        (Class::FunctionFailure, _) => FunctionFailure::new_err(text),
        _ => ServerError::new_err(text),
    }
}

/// What is said of a handle that was closed.
pub fn closed(what: &str) -> PyErr {
    ClosedError::new_err(format!("the {what} is closed"))
}

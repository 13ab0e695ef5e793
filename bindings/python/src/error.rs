//! The exceptions; `Error` is the base class.

use firn_cql::ErrorClass;
use firn_kv::ErrorKind;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

macro_rules! exceptions {
    ($($name:ident of $base:ty: $text:literal;)+) => {
        $(create_exception!(firn, $name, $base, $text);)+

        /// Adds them to the module.
        pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add(stringify!($name), module.py().get_type::<$name>())?;)+
            Ok(())
        }
    };
}

exceptions! {
    Error of PyException: "Base class of Firn's exceptions.";
    CorruptionError of Error: "Bytes on disk are damaged; the message has the location.";
    IoError of Error: "The operating system returned an error.";
    NoSpaceError of IoError: "The device or a quota is full. Nothing was written.";
    ExhaustedError of IoError: "File descriptors or memory are exhausted. Nothing was written.";
    ReadOnlyError of Error: "The store accepts no writes.";
    LockedError of Error: "Another process or handle has the store open.";
    ConflictError of Error: "Data read by a transaction has changed since; run it again.";
    InvalidArgumentError of Error: "An argument is out of range. Nothing was changed.";
    IncompatibleError of Error: "The files were written by a newer version, or with other hooks or options.";
    NotFoundError of Error: "No such store, tree or file.";
    LaggedError of Error: "The log no longer has the changes: copy a snapshot.";
    ClosedError of Error: "The store or the tree was closed or dropped.";
    CqlError of Error: "A statement failed without effect.";
    SyntaxException of CqlError: "The text is not valid CQL.";
    InvalidRequest of CqlError: "The statement is invalid; the message has the valid alternative.";
    Unauthorized of CqlError: "The operation is not permitted.";
    ConfigurationException of CqlError: "A replication strategy or an option is invalid.";
    AlreadyExists of CqlError: "The keyspace or table exists already.";
    FunctionFailure of CqlError: "A user-defined function failed.";
    ServerError of CqlError: "Another error of CQL.";
}

/// Converts an error of the engine to an exception.
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
        ErrorKind::Lagged => LaggedError::new_err(text),
        ErrorKind::Closed => ClosedError::new_err(text),
        _ => IoError::new_err(text),
    }
}

/// Converts an error of a statement to an exception.
pub fn of_cql(e: firn_cql::Error) -> PyErr {
    let text = match &e {
        firn_cql::Error::Syntax(e) => e.pretty(),
        other => other.to_string(),
    };
    match (e.class(), e) {
        (_, firn_cql::Error::Wide(firn_wide::Error::Store(e))) => of_kv(e),
        (ErrorClass::Syntax, _) => SyntaxException::new_err(text),
        (ErrorClass::Invalid, _) => InvalidRequest::new_err(text),
        (ErrorClass::Unauthorized, _) => Unauthorized::new_err(text),
        (ErrorClass::Configuration, _) => ConfigurationException::new_err(text),
        (ErrorClass::AlreadyExists, _) => AlreadyExists::new_err(text),
        (ErrorClass::FunctionFailure, _) => FunctionFailure::new_err(text),
        _ => ServerError::new_err(text),
    }
}

/// Returns the exception for a closed handle.
pub fn closed(what: &str) -> PyErr {
    ClosedError::new_err(format!("the {what} is closed"))
}

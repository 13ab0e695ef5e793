//! Floor 0: the errors of statements: the error classes of the native protocol with their codes,
//! and Cassandra's error texts (model 3.5).

use std::borrow::Cow;
use std::fmt;

use firn_kv::ErrorKind;
use firn_wide::TypeError;

use crate::syntax::SyntaxError;

pub(crate) use macros::{bail, bail_if, configuration, corrupt, invalid, unauthorized};

/// Result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Class of an error.
///
/// The classes in [`ALL`](ErrorClass::ALL) are those of the native protocol. An embedded database
/// returns the first ten; a cluster can fail in more ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The store failed, or holds bytes that cannot be decoded.
    Server,
    /// A read passes more tombstones than its limit allows.
    ReadFailure,
    /// A function failed on its arguments.
    FunctionFailure,
    /// No role has this name and password.
    BadCredentials,
    /// The text is not valid CQL.
    Syntax,
    /// The role has no permission, or the statement changes a system table.
    Unauthorized,
    /// The request is invalid.
    Invalid,
    /// A strategy or an option cannot be used.
    Configuration,
    /// The keyspace or table exists already.
    AlreadyExists,
    /// The prepared statement is not known.
    Unprepared,
    /// A message violates the protocol. Sent by servers only, like all classes below.
    Protocol,
    /// Too few replicas are up for the consistency level. The statement was not executed.
    Unavailable,
    /// The server is overloaded. The statement was not executed.
    Overloaded,
    /// The server is still starting. The statement was not executed.
    IsBootstrapping,
    /// `TRUNCATE` failed on a replica.
    Truncate,
    /// Too few replicas acknowledged a write in time. The write may have been executed.
    WriteTimeout,
    /// Too few replicas answered a read in time.
    ReadTimeout,
    /// A write failed on a replica. Other replicas may have executed it.
    WriteFailure,
    /// The change data capture log has no space.
    CdcWriteFailure,
    /// It is not known whether the condition was met and the change was applied.
    CasWriteUnknown,
    /// No answer arrived: no server was reachable, the connection broke, or the time limit passed.
    /// It is not known whether the statement was executed. No server sends this class; its code is
    /// that of [`Server`](ErrorClass::Server).
    Unanswered,
}

impl ErrorClass {
    /// All classes that servers send.
    pub const ALL: [ErrorClass; 20] = [
        ErrorClass::Server,
        ErrorClass::Protocol,
        ErrorClass::BadCredentials,
        ErrorClass::Unavailable,
        ErrorClass::Overloaded,
        ErrorClass::IsBootstrapping,
        ErrorClass::Truncate,
        ErrorClass::WriteTimeout,
        ErrorClass::ReadTimeout,
        ErrorClass::ReadFailure,
        ErrorClass::FunctionFailure,
        ErrorClass::WriteFailure,
        ErrorClass::CdcWriteFailure,
        ErrorClass::CasWriteUnknown,
        ErrorClass::Syntax,
        ErrorClass::Unauthorized,
        ErrorClass::Invalid,
        ErrorClass::Configuration,
        ErrorClass::AlreadyExists,
        ErrorClass::Unprepared,
    ];

    /// Returns the class with this code of the native protocol.
    ///
    /// ```
    /// use firn_cql::ErrorClass;
    /// assert_eq!(ErrorClass::of_code(0x2200), Some(ErrorClass::Invalid));
    /// assert!(ErrorClass::ALL.iter().all(|c| ErrorClass::of_code(c.code().into()) == Some(*c)));
    /// ```
    pub fn of_code(code: i32) -> Option<ErrorClass> {
        ErrorClass::ALL.into_iter().find(|class| i32::from(class.code()) == code)
    }

    /// Returns the code of the native protocol.
    pub const fn code(self) -> u16 {
        match self {
            ErrorClass::Server | ErrorClass::Unanswered => 0x0000,
            ErrorClass::Protocol => 0x000a,
            ErrorClass::BadCredentials => 0x0100,
            ErrorClass::Unavailable => 0x1000,
            ErrorClass::Overloaded => 0x1001,
            ErrorClass::IsBootstrapping => 0x1002,
            ErrorClass::Truncate => 0x1003,
            ErrorClass::WriteTimeout => 0x1100,
            ErrorClass::ReadTimeout => 0x1200,
            ErrorClass::ReadFailure => 0x1300,
            ErrorClass::FunctionFailure => 0x1400,
            ErrorClass::WriteFailure => 0x1500,
            ErrorClass::CdcWriteFailure => 0x1600,
            ErrorClass::CasWriteUnknown => 0x1700,
            ErrorClass::Syntax => 0x2000,
            ErrorClass::Unauthorized => 0x2100,
            ErrorClass::Invalid => 0x2200,
            ErrorClass::Configuration => 0x2300,
            ErrorClass::AlreadyExists => 0x2400,
            ErrorClass::Unprepared => 0x2500,
        }
    }

    /// Returns the name that drivers show.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorClass::Server => "ServerError",
            ErrorClass::Protocol => "ProtocolException",
            ErrorClass::BadCredentials => "BadCredentials",
            ErrorClass::Unavailable => "Unavailable",
            ErrorClass::Overloaded => "Overloaded",
            ErrorClass::IsBootstrapping => "IsBootstrapping",
            ErrorClass::Truncate => "TruncateError",
            ErrorClass::WriteTimeout => "WriteTimeout",
            ErrorClass::ReadTimeout => "ReadTimeout",
            ErrorClass::ReadFailure => "ReadFailure",
            ErrorClass::FunctionFailure => "FunctionFailure",
            ErrorClass::WriteFailure => "WriteFailure",
            ErrorClass::CdcWriteFailure => "CDCWriteFailure",
            ErrorClass::CasWriteUnknown => "CASWriteUnknown",
            ErrorClass::Syntax => "SyntaxException",
            ErrorClass::Unauthorized => "Unauthorized",
            ErrorClass::Invalid => "InvalidRequest",
            ErrorClass::Configuration => "ConfigurationException",
            ErrorClass::AlreadyExists => "AlreadyExists",
            ErrorClass::Unprepared => "Unprepared",
            ErrorClass::Unanswered => "Unanswered",
        }
    }
}

/// Error of a statement, which had no effect. `Display` shows the text and, after a semicolon, the
/// help. For a syntax error it shows the text alone; [`pretty`](SyntaxError::pretty) shows its
/// help.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The text is not valid CQL. Has the position of the error.
    Syntax(Box<SyntaxError>),
    /// Any other error.
    #[allow(missing_docs)]
    Refused {
        class: ErrorClass,
        /// Error message. It is Cassandra's, if Cassandra refuses the statement too.
        text: String,
        /// How to correct it, if that is known.
        help: Option<String>,
    },
    /// The keyspace or the table exists already.
    #[allow(missing_docs)]
    AlreadyExists { keyspace: String, table: Option<String> },
    /// A user-defined function failed.
    #[allow(missing_docs)]
    FunctionFailed {
        keyspace: String,
        name: String,
        /// Types of its arguments, in CQL syntax.
        arguments: Vec<String>,
        why: String,
    },
    /// Error of the data model or of the engine.
    Wide(firn_wide::Error),
    /// Another thread stopped the statement ([`RunOptions::stop`](crate::session::RunOptions::stop)).
    Stopped,
}

impl Error {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Syntax(_) => ErrorClass::Syntax,
            Error::Refused { class, .. } => *class,
            Error::AlreadyExists { .. } => ErrorClass::AlreadyExists,
            Error::FunctionFailed { .. } => ErrorClass::FunctionFailure,
            Error::Wide(firn_wide::Error::InvalidRequest(_)) => ErrorClass::Invalid,
            Error::Wide(firn_wide::Error::Configuration(_)) => ErrorClass::Configuration,
            // A key or a value is too long for the engine.
            Error::Wide(firn_wide::Error::Store(e)) if e.kind() == ErrorKind::InvalidArgument => {
                ErrorClass::Invalid
            }
            Error::Wide(_) | Error::Stopped => ErrorClass::Server,
        }
    }

    /// Returns the code of the native protocol.
    pub fn code(&self) -> u16 {
        self.class().code()
    }

    /// Returns the error message without the help. It is the text that a server sends, if it sends
    /// one.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Error::Refused { text, .. } => Cow::Borrowed(text),
            other => Cow::Owned(other.to_string()),
        }
    }

    /// Returns how to correct the error, if that is known: for example the expected values, or the
    /// index that would find the rows.
    pub fn help(&self) -> Option<&str> {
        match self {
            Error::Syntax(e) => e.hint.as_deref(),
            Error::Refused { help, .. } => help.as_deref(),
            Error::AlreadyExists { .. }
            | Error::FunctionFailed { .. }
            | Error::Wide(_)
            | Error::Stopped => None,
        }
    }

    /// Creates an error of this class, without help.
    pub fn refused(class: ErrorClass, text: impl Into<String>) -> Error {
        Error::Refused { class, text: text.into(), help: None }
    }

    /// Adds this help to an error of the kind `Refused`.
    pub(crate) fn with_help(self, help: impl Into<String>) -> Error {
        match self {
            Error::Refused { class, text, .. } => {
                Error::Refused { class, text, help: Some(help.into()) }
            }
            other => other,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Syntax(e) => e.fmt(f),
            Error::Refused { text, help: None, .. } => f.write_str(text),
            Error::Refused { text, help: Some(help), .. } => write!(f, "{text}; {help}"),
            Error::AlreadyExists { keyspace, table: None } => {
                write!(f, "Cannot add existing keyspace \"{keyspace}\"")
            }
            Error::AlreadyExists { keyspace, table: Some(table) } => {
                let text = "Cannot add already existing table";
                write!(f, "{text} \"{table}\" to keyspace \"{keyspace}\"")
            }
            Error::FunctionFailed { keyspace, name, arguments, why } => {
                let arguments = arguments.join(", ");
                write!(f, "execution of '{keyspace}.{name}[{arguments}]' failed: {why}")
            }
            Error::Wide(e) => e.fmt(f),
            Error::Stopped => f.write_str("the statement was stopped"),
        }
    }
}

/// It has no source: its text includes that of its cause, so a printed chain repeats nothing.
impl std::error::Error for Error {}

impl From<Box<SyntaxError>> for Error {
    fn from(e: Box<SyntaxError>) -> Error {
        Error::Syntax(e)
    }
}

impl From<firn_wide::Error> for Error {
    fn from(e: firn_wide::Error) -> Error {
        match e {
            firn_wide::Error::Stopped => Error::Stopped,
            e => Error::Wide(e),
        }
    }
}

impl From<firn_kv::Error> for Error {
    fn from(e: firn_kv::Error) -> Error {
        Error::Wide(e.into())
    }
}

impl From<TypeError> for Error {
    fn from(e: TypeError) -> Error {
        invalid(e.0)
    }
}

/// Creates an error of the class [`ErrorClass::Invalid`].
pub fn invalid(text: impl Into<String>) -> Error {
    Error::refused(ErrorClass::Invalid, text)
}

/// Creates an error of the class [`ErrorClass::Configuration`].
pub fn configuration(text: impl Into<String>) -> Error {
    Error::refused(ErrorClass::Configuration, text)
}

/// Creates an error of the class [`ErrorClass::Server`] for stored bytes that cannot be decoded.
pub fn corrupt(text: impl Into<String>) -> Error {
    Error::Wide(firn_wide::Error::Corrupt(text.into()))
}

/// Creates an error of the class [`ErrorClass::Unauthorized`].
pub fn unauthorized(text: impl Into<String>) -> Error {
    Error::refused(ErrorClass::Unauthorized, text)
}

/// Returns nothing if the statement allows it (`IF EXISTS`, `IF NOT EXISTS`), and else the error.
pub fn skip_if<T: Default>(allowed: bool, error: impl FnOnce() -> Error) -> Result<T> {
    if allowed { Ok(T::default()) } else { Err(error()) }
}

/// Macros that create an error with a formatted text.
mod macros {
    /// Creates an error of the class `Invalid` with a formatted text.
    macro_rules! invalid {
    ($($text:tt)+) => { $crate::error::invalid(format!($($text)+)) };
}

    /// Creates an error of the class `Configuration` with a formatted text.
    macro_rules! configuration {
    ($($text:tt)+) => { $crate::error::configuration(format!($($text)+)) };
}

    /// Creates an error for stored bytes that cannot be decoded, with a formatted text.
    macro_rules! corrupt {
    ($($text:tt)+) => { $crate::error::corrupt(format!($($text)+)) };
}

    /// Creates an error of the class `Unauthorized` with a formatted text.
    macro_rules! unauthorized {
    ($($text:tt)+) => { $crate::error::unauthorized(format!($($text)+)) };
}

    /// Returns an error of the class `Invalid` with a formatted text.
    macro_rules! bail {
    ($($text:tt)+) => { return Err($crate::error::invalid(format!($($text)+))) };
}

    /// Returns an error of the class `Invalid` with a formatted text if the condition holds.
    macro_rules! bail_if {
    ($condition:expr, $($text:tt)+) => {
        if $condition {
            return Err($crate::error::invalid(format!($($text)+)));
        }
    };
}

    pub(crate) use {bail, bail_if, configuration, corrupt, invalid, unauthorized};
}

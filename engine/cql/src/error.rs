//! Floor 0: why a statement did nothing: the classes of the native protocol with their codes, and
//! the servers' texts (model 3.5).

use std::borrow::Cow;
use std::fmt;

use firn_kv::ErrorKind;
use firn_wide::TypeError;

use crate::syntax::SyntaxError;

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What kind of error it is.
///
/// Those of [`ALL`](Class::ALL) are the native protocol's. A database in this process gives the
/// first ten; a cluster has more ways to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// The store beneath failed, or holds bytes that can't be understood.
    Server,
    /// A read steps over more than it may.
    ReadFailure,
    /// A function failed over its arguments.
    FunctionFailure,
    /// A name or a password that nobody has.
    BadCredentials,
    /// The text is no CQL.
    Syntax,
    /// What the system keeps may not be changed.
    Unauthorized,
    /// The request can't be right.
    Invalid,
    /// A strategy or an option can't be used.
    Configuration,
    /// The keyspace or table is there.
    AlreadyExists,
    /// The prepared statement isn't known.
    Unprepared,
    /// A message breaks the rules of the protocol. From servers only, as all below.
    Protocol,
    /// Too few replicas are up for the consistency: nothing was done.
    Unavailable,
    /// The server has too much to do: nothing was done.
    Overloaded,
    /// The server is still starting: nothing was done.
    IsBootstrapping,
    /// `TRUNCATE` failed on a replica.
    Truncate,
    /// Too few replicas have answered a write in time. It may have been done.
    WriteTimeout,
    /// Too few replicas have answered a read in time.
    ReadTimeout,
    /// A write failed on a replica. It may have been done on others.
    WriteFailure,
    /// The log of changes for others has no room.
    CdcWriteFailure,
    /// Whether a condition was met, and its change made, is not known.
    CasWriteUnknown,
    /// No answer came: nobody was reached, the connection broke, or the time was up. Whether the
    /// statement was carried out is not known. No server sends it; its code is that of
    /// [`Server`](Class::Server).
    Unanswered,
}

impl Class {
    /// The classes that servers send.
    pub const ALL: [Class; 20] = [
        Class::Server,
        Class::Protocol,
        Class::BadCredentials,
        Class::Unavailable,
        Class::Overloaded,
        Class::IsBootstrapping,
        Class::Truncate,
        Class::WriteTimeout,
        Class::ReadTimeout,
        Class::ReadFailure,
        Class::FunctionFailure,
        Class::WriteFailure,
        Class::CdcWriteFailure,
        Class::CasWriteUnknown,
        Class::Syntax,
        Class::Unauthorized,
        Class::Invalid,
        Class::Configuration,
        Class::AlreadyExists,
        Class::Unprepared,
    ];

    /// The class with this code of the native protocol.
    ///
    /// ```
    /// use firn_cql::Class;
    /// assert_eq!(Class::of_code(0x2200), Some(Class::Invalid));
    /// assert!(Class::ALL.iter().all(|c| Class::of_code(c.code().into()) == Some(*c)));
    /// ```
    pub fn of_code(code: i32) -> Option<Class> {
        Class::ALL.into_iter().find(|class| i32::from(class.code()) == code)
    }

    /// The code of the native protocol.
    pub const fn code(self) -> u16 {
        match self {
            Class::Server | Class::Unanswered => 0x0000,
            Class::Protocol => 0x000a,
            Class::BadCredentials => 0x0100,
            Class::Unavailable => 0x1000,
            Class::Overloaded => 0x1001,
            Class::IsBootstrapping => 0x1002,
            Class::Truncate => 0x1003,
            Class::WriteTimeout => 0x1100,
            Class::ReadTimeout => 0x1200,
            Class::ReadFailure => 0x1300,
            Class::FunctionFailure => 0x1400,
            Class::WriteFailure => 0x1500,
            Class::CdcWriteFailure => 0x1600,
            Class::CasWriteUnknown => 0x1700,
            Class::Syntax => 0x2000,
            Class::Unauthorized => 0x2100,
            Class::Invalid => 0x2200,
            Class::Configuration => 0x2300,
            Class::AlreadyExists => 0x2400,
            Class::Unprepared => 0x2500,
        }
    }

    /// The name that drivers show.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Server => "ServerError",
            Class::Protocol => "ProtocolException",
            Class::BadCredentials => "BadCredentials",
            Class::Unavailable => "Unavailable",
            Class::Overloaded => "Overloaded",
            Class::IsBootstrapping => "IsBootstrapping",
            Class::Truncate => "TruncateError",
            Class::WriteTimeout => "WriteTimeout",
            Class::ReadTimeout => "ReadTimeout",
            Class::ReadFailure => "ReadFailure",
            Class::FunctionFailure => "FunctionFailure",
            Class::WriteFailure => "WriteFailure",
            Class::CdcWriteFailure => "CDCWriteFailure",
            Class::CasWriteUnknown => "CASWriteUnknown",
            Class::Syntax => "SyntaxException",
            Class::Unauthorized => "Unauthorized",
            Class::Invalid => "InvalidRequest",
            Class::Configuration => "ConfigurationException",
            Class::AlreadyExists => "AlreadyExists",
            Class::Unprepared => "Unprepared",
            Class::Unanswered => "Unanswered",
        }
    }
}

/// Why a statement did nothing. `Display` is the text and, behind a semicolon, the help; of an
/// error of syntax the text alone, whose help [`pretty`](SyntaxError::pretty) shows.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The text is no CQL; with its place.
    Syntax(Box<SyntaxError>),
    /// Another error.
    #[allow(missing_docs)]
    Refused {
        class: Class,
        /// In the servers' words, where they refuse it too.
        text: String,
        /// What to do about it, where that is known.
        help: Option<String>,
    },
    /// The keyspace is there already, or the table.
    #[allow(missing_docs)]
    AlreadyExists { keyspace: String, table: Option<String> },
    /// A function of a user failed.
    #[allow(missing_docs)]
    FunctionFailed {
        keyspace: String,
        name: String,
        /// The types of its arguments, as CQL writes them.
        arguments: Vec<String>,
        why: String,
    },
    /// The data model or the engine beneath failed.
    Wide(firn_wide::Error),
    /// Somebody stopped it ([`Run::stop`](crate::session::Run::stop)).
    Stopped,
}

impl Error {
    /// The class.
    pub fn class(&self) -> Class {
        match self {
            Error::Syntax(_) => Class::Syntax,
            Error::Refused { class, .. } => *class,
            Error::AlreadyExists { .. } => Class::AlreadyExists,
            Error::FunctionFailed { .. } => Class::FunctionFailure,
            Error::Wide(firn_wide::Error::InvalidRequest(_)) => Class::Invalid,
            Error::Wide(firn_wide::Error::Configuration(_)) => Class::Configuration,
            // A key or value that is too long for the engine.
            Error::Wide(firn_wide::Error::Store(e)) if e.kind() == ErrorKind::InvalidArgument => {
                Class::Invalid
            }
            Error::Wide(_) | Error::Stopped => Class::Server,
        }
    }

    /// The code of the native protocol.
    pub fn code(&self) -> u16 {
        self.class().code()
    }

    /// What is wrong, without the help: the text that a server sends, where there is one.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Error::Refused { text, .. } => Cow::Borrowed(text),
            other => Cow::Owned(other.to_string()),
        }
    }

    /// What to do about it, where that is known: the values that are wanted, the index that would
    /// find the rows.
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

    /// An error of this class, without help.
    pub fn refused(class: Class, text: impl Into<String>) -> Error {
        Error::Refused { class, text: text.into(), help: None }
    }

    /// With this help, where a statement was refused.
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

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Syntax(e) => Some(&**e),
            Error::Wide(e) => Some(e),
            Error::Refused { .. }
            | Error::AlreadyExists { .. }
            | Error::FunctionFailed { .. }
            | Error::Stopped => None,
        }
    }
}

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

/// An error of the class [`Class::Invalid`].
pub fn invalid(text: impl Into<String>) -> Error {
    Error::refused(Class::Invalid, text)
}

/// An error of the class [`Class::Configuration`].
pub fn configuration(text: impl Into<String>) -> Error {
    Error::refused(Class::Configuration, text)
}

/// An error of the class [`Class::Server`]: stored bytes that can't be understood.
pub fn corrupt(text: impl Into<String>) -> Error {
    Error::Wide(firn_wide::Error::Corrupt(text.into()))
}

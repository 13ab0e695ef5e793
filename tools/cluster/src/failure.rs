//! Converts the driver's errors to those of `firn-cql`, with the classes that servers send.

use std::time::Duration;

use firn_cql::{Error, ErrorClass};
use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, ExecutionError,
    MetadataError, NewSessionError, PrepareError, RequestAttemptError, SchemaAgreementError,
    UseKeyspaceError,
};
use scylla::frame::protocol_features::ProtocolFeatures;

fn helped(class: ErrorClass, text: impl ToString, help: &str) -> Error {
    Error::Refused { class, text: text.to_string(), help: Some(help.to_owned()) }
}

/// Returns the error of an unreadable response.
pub(crate) fn unreadable(why: impl ToString) -> Error {
    Error::refused(ErrorClass::Server, why.to_string())
}

fn not_reached(why: impl ToString) -> Error {
    helped(
        ErrorClass::Unanswered,
        why,
        "see whether a node listens at one of the URL's addresses, at the port of the native \
         protocol",
    )
}

fn too_late(after: Duration) -> Error {
    helped(
        ErrorClass::Unanswered,
        format!("no answer has come within {after:?}"),
        "whether it was carried out is not known; request_timeout=SECONDS in the URL waits longer",
    )
}

/// Converts an error response.
fn said(error: DbError, text: String) -> Error {
    let code = error.code(&ProtocolFeatures::default());
    match error {
        DbError::AlreadyExists { keyspace, table } => {
            Error::AlreadyExists { keyspace, table: Some(table).filter(|t| !t.is_empty()) }
        }
        DbError::FunctionFailure { keyspace, function, arg_types } => Error::FunctionFailed {
            keyspace,
            name: function,
            arguments: arg_types,
            // The server's text begins like this error's own.
            why: text.split_once("failed: ").map_or(text.clone(), |(_, why)| why.to_owned()),
        },
        DbError::RateLimitReached { .. } => Error::refused(ErrorClass::Overloaded, text),
        _ => Error::refused(ErrorClass::of_code(code).unwrap_or(ErrorClass::Server), text),
    }
}

fn attempt(e: RequestAttemptError) -> Error {
    match e {
        RequestAttemptError::DbError(error, text) => said(error, text),
        RequestAttemptError::SerializationError(_)
        | RequestAttemptError::CqlRequestSerialization(_) => {
            Error::refused(ErrorClass::Invalid, e.to_string())
        }
        RequestAttemptError::BrokenConnectionError(_)
        | RequestAttemptError::UnableToAllocStreamId => {
            helped(ErrorClass::Unanswered, e, "whether it was carried out is not known")
        }
        other => unreadable(other),
    }
}

fn connection(e: ConnectionError) -> Error {
    match e {
        ConnectionError::ConnectionSetupRequestError(e) => match e.error {
            ConnectionSetupRequestErrorKind::DbError(error, text) => said(error, text),
            ConnectionSetupRequestErrorKind::MissingAuthentication => helped(
                ErrorClass::BadCredentials,
                "the server wants a login",
                "write the URL with USER:PASSWORD@ before the host",
            ),
            other => not_reached(other),
        },
        ConnectionError::UseKeyspaceError(e) => keyspace(e),
        other => not_reached(other),
    }
}

fn pool(e: ConnectionPoolError) -> Error {
    match e {
        ConnectionPoolError::Broken { last_connection_error } => connection(last_connection_error),
        other => not_reached(other),
    }
}

fn keyspace(e: UseKeyspaceError) -> Error {
    match e {
        UseKeyspaceError::RequestError(e) => attempt(e),
        UseKeyspaceError::RequestTimeout(after) => too_late(after),
        other => Error::refused(ErrorClass::Invalid, other.to_string()),
    }
}

fn metadata(e: MetadataError) -> Error {
    match e {
        MetadataError::ConnectionPoolError(e) => pool(e),
        other => unreadable(other),
    }
}

/// Returns advice for a failed TLS handshake.
fn tls_help(text: &str) -> &'static str {
    if text.contains("not valid for name") || text.contains("NotValidForName") {
        return "let the node have a certificate for the address by which the cluster names it, or write \
                tls_hostname=false in the URL";
    }
    if text.contains("UnknownIssuer") || text.contains("BadSignature") {
        return "tls_ca names the authority that has signed the certificates of the nodes";
    }
    if text.contains("CertificateRequired") {
        return "the nodes want a certificate of the client: tls_certificate and tls_key name it";
    }
    "see whether a node listens there, and speaks TLS at that port"
}

/// Converts an error of connecting to these nodes.
pub(crate) fn of_connect(e: NewSessionError, hosts: &[String], is_tls: bool) -> Error {
    let error = match e {
        NewSessionError::MetadataError(e) => metadata(e),
        NewSessionError::UseKeyspaceError(e) => keyspace(e),
        NewSessionError::IllegalConfig(why) => Error::refused(ErrorClass::Configuration, why),
        other => not_reached(other),
    };
    match error {
        Error::Refused { class: class @ ErrorClass::Unanswered, text, help } => {
            let help = match is_tls {
                true => Some(tls_help(&text).to_owned()),
                false => {
                    help.map(|help| format!("{help}; with TLS where it wants that (tls=true)"))
                }
            };
            let text = format!("cannot connect to {}: {text}", hosts.join(", "));
            Error::Refused { class, text, help }
        }
        other => other,
    }
}

/// Converts an error of preparing a statement.
pub(crate) fn of_prepare(e: PrepareError) -> Error {
    match e {
        PrepareError::AllAttemptsFailed { first_attempt } => attempt(first_attempt),
        PrepareError::ConnectionPoolError(e) => pool(e),
        other => unreadable(other),
    }
}

/// Converts an error of executing a statement.
pub(crate) fn of_execution(e: ExecutionError) -> Error {
    match e {
        ExecutionError::LastAttemptError(e) => attempt(e),
        ExecutionError::PrepareError(e) => of_prepare(e),
        ExecutionError::UseKeyspaceError(e) => keyspace(e),
        ExecutionError::ConnectionPoolError(e) => pool(e),
        ExecutionError::RequestTimeout(after) => too_late(after),
        ExecutionError::BadQuery(e) => Error::refused(ErrorClass::Invalid, e.to_string()),
        ExecutionError::MetadataError(e) => metadata(e),
        ExecutionError::SchemaAgreementError(SchemaAgreementError::Timeout(_)) => helped(
            ErrorClass::Unanswered,
            e,
            "the definition was made; the nodes have not agreed on it yet",
        ),
        other => not_reached(other),
    }
}

#[cfg(test)]
mod tests {
    use scylla::errors::WriteType;
    use scylla::frame::types::Consistency;

    use super::*;

    fn reported(error: DbError) -> Error {
        let text = "execution of 'k.f[int]' failed: it is odd".to_owned();
        of_execution(RequestAttemptError::DbError(error, text).into())
    }

    #[test]
    fn server_errors_keep_their_class() {
        let (consistency, required, received) = (Consistency::Quorum, 2, 1);
        let write_type = WriteType::Simple;
        for (error, class) in [
            (DbError::Unavailable { consistency, required, alive: 1 }, ErrorClass::Unavailable),
            (
                DbError::WriteTimeout { consistency, received, required, write_type },
                ErrorClass::WriteTimeout,
            ),
            (
                DbError::ReadTimeout { consistency, received, required, data_present: true },
                ErrorClass::ReadTimeout,
            ),
            (DbError::Overloaded, ErrorClass::Overloaded),
            (DbError::IsBootstrapping, ErrorClass::IsBootstrapping),
            (DbError::TruncateError, ErrorClass::Truncate),
            (DbError::ProtocolError, ErrorClass::Protocol),
            (DbError::Unauthorized, ErrorClass::Unauthorized),
            (DbError::Other(0x1600), ErrorClass::CdcWriteFailure),
            (DbError::Other(0x1700), ErrorClass::CasWriteUnknown),
            (DbError::Other(0x7777), ErrorClass::Server),
        ] {
            let name = format!("{error:?}");
            assert_eq!(reported(error).class(), class, "{name}");
        }
        let failed = DbError::FunctionFailure {
            keyspace: "k".to_owned(),
            function: "f".to_owned(),
            arg_types: vec!["int".to_owned()],
        };
        let failed = reported(failed);
        assert_eq!(failed.class(), ErrorClass::FunctionFailure);
        assert_eq!(failed.to_string(), "execution of 'k.f[int]' failed: it is odd");
        let there = DbError::AlreadyExists { keyspace: "k".to_owned(), table: String::new() };
        assert!(matches!(reported(there), Error::AlreadyExists { table: None, .. }));
    }

    #[test]
    fn after_a_timeout_the_outcome_is_unknown() {
        let late = of_execution(ExecutionError::RequestTimeout(Duration::from_millis(500)));
        assert_eq!(late.class(), ErrorClass::Unanswered);
        assert!(late.to_string().contains("500ms") && late.help().unwrap().contains("not known"));
    }
}

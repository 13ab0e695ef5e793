//! Errors as exceptions of JavaScript: an `Error` with a `code`, as in Firn for Node.js.

use firn_cql::ErrorClass;
use firn_kv::ErrorKind;
use firn_tools::output::Failure;
use wasm_bindgen::prelude::*;

/// Result of a call.
pub(crate) type JsOutcome<T> = Result<T, JsValue>;

/// Creates an exception with this code and message.
pub(crate) fn exception(code: &str, message: &str) -> JsValue {
    let error = js_sys::Error::new(message);
    error.set_name("FirnError");
    // Only a frozen object refuses a field.
    let _ = js_sys::Reflect::set(&error, &"code".into(), &format!("FIRN_{code}").into());
    error.into()
}

/// Creates the exception of an argument with a wrong type.
pub(crate) fn wrong_type(message: &str) -> JsValue {
    js_sys::TypeError::new(message).into()
}

/// Converts an error of the engine.
pub(crate) fn kv(e: firn_kv::Error) -> JsValue {
    let code = match e.kind() {
        ErrorKind::Corruption => "CORRUPTION",
        ErrorKind::NoSpace => "NO_SPACE",
        ErrorKind::Exhausted => "EXHAUSTED",
        ErrorKind::ReadOnly => "READ_ONLY",
        ErrorKind::Locked => "LOCKED",
        ErrorKind::Conflict => "CONFLICT",
        ErrorKind::InvalidArgument => "INVALID_ARGUMENT",
        ErrorKind::Incompatible => "INCOMPATIBLE",
        ErrorKind::NotFound => "NOT_FOUND",
        ErrorKind::Closed => "CLOSED",
        _ => "IO",
    };
    exception(code, &e.to_string())
}

/// Converts an error of a statement. A syntax error shows its place.
pub(crate) fn cql(e: firn_cql::Error) -> JsValue {
    let code = match e.class() {
        ErrorClass::Syntax => "SYNTAX",
        ErrorClass::Invalid => "INVALID_REQUEST",
        ErrorClass::Unauthorized => "UNAUTHORIZED",
        ErrorClass::Configuration => "CONFIGURATION",
        ErrorClass::AlreadyExists => "ALREADY_EXISTS",
        ErrorClass::FunctionFailure => "FUNCTION_FAILURE",
        _ => "SERVER",
    };
    match e {
        firn_cql::Error::Wide(firn_wide::Error::Store(e)) => kv(e),
        firn_cql::Error::Syntax(e) => exception(code, &e.pretty()),
        e => exception(code, &e.to_string()),
    }
}

/// Converts an error of the simulator.
pub(crate) fn simulator(e: Failure) -> JsValue {
    match e {
        Failure::Engine(e) => kv(e),
        Failure::Failed { what, next: Some(next) } => {
            exception("INVALID_ARGUMENT", &format!("{what}: {next}"))
        }
        Failure::Failed { what, next: None } => exception("INVALID_ARGUMENT", &what),
        Failure::Found | Failure::PipeClosed | Failure::Interrupted => {
            exception("IO", "the simulator stopped")
        }
    }
}

//! Results, errors, work on the pool.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use firn_cql::ErrorClass;
use firn_kv::{ErrorKind, Value};
use napi::bindgen_prelude::*;
use napi::{Env, Task, ValueType, sys};

/// An error: its code, and its message.
pub struct Failure(&'static str, String);

/// Result of a call's work.
pub type Outcome<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Returns the error for a handle that is closed.
    pub fn closed(what: &str) -> Failure {
        Failure("CLOSED", format!("the {what} is closed"))
    }
}

impl From<firn_kv::Error> for Failure {
    fn from(e: firn_kv::Error) -> Failure {
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
            ErrorKind::Lagged => "LAGGED",
            ErrorKind::Closed => "CLOSED",
            _ => "IO",
        };
        Failure(code, e.to_string())
    }
}

impl From<firn_cql::Error> for Failure {
    fn from(e: firn_cql::Error) -> Failure {
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
            firn_cql::Error::Wide(firn_wide::Error::Store(e)) => Failure::from(e),
            firn_cql::Error::Syntax(e) => Failure(code, e.pretty()),
            e => Failure(code, e.to_string()),
        }
    }
}

/// Runs the work of a call: converts an error or a panic to an error of the module.
pub fn call<T>(work: impl FnOnce() -> Outcome<T>) -> Result<T> {
    // Handles keep their own invariants if the engine panics: its locks are not poisoned.
    let Failure(code, text) = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Failure("PANIC", text.unwrap_or("a panic without a message").to_owned())
        }
    };
    Err(Error::from_reason(format!("{code}\n{text}")))
}

type Work<T> = Box<dyn FnOnce() -> Outcome<T> + Send>;

/// Work for libuv's pool.
pub struct Job<T>(Option<Work<T>>);

impl<T: ToNapiValue + TypeName + Send + 'static> Task for Job<T> {
    type Output = T;
    type JsValue = T;

    fn compute(&mut self) -> Result<T> {
        let work = self.0.take();
        call(|| work.ok_or_else(|| Failure::closed("call"))?())
    }

    fn resolve(&mut self, _env: Env, output: T) -> Result<T> {
        Ok(output)
    }
}

/// The result of a call that waits, or a promise.
pub type Now<T> = Either<T, AsyncTask<Job<T>>>;

/// Runs work now if `wait` is set, and on the pool otherwise.
pub fn run<T: ToNapiValue + TypeName + Send + 'static>(
    wait: bool,
    work: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Result<Now<T>> {
    match wait {
        true => call(work).map(Either::A),
        false => Ok(Either::B(AsyncTask::new(Job(Some(Box::new(work)))))),
    }
}

/// Locks a mutex, also after a panic.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that become a `Buffer`; none become `undefined`.
pub enum Bytes {
    /// None.
    None,
    /// A value of a store.
    Value(Value),
    /// Packed bytes.
    Packed(Vec<u8>),
}

impl From<Option<Value>> for Bytes {
    fn from(value: Option<Value>) -> Bytes {
        value.map_or(Bytes::None, Bytes::Value)
    }
}

impl TypeName for Bytes {
    fn type_name() -> &'static str {
        "Buffer"
    }

    fn value_type() -> ValueType {
        ValueType::Object
    }
}

impl ToNapiValue for Bytes {
    unsafe fn to_napi_value(env: sys::napi_env, bytes: Bytes) -> Result<sys::napi_value> {
        let bytes: &[u8] = match &bytes {
            // SAFETY: the caller provides the environment of the current call.
            Bytes::None => return unsafe { Undefined::to_napi_value(env, ()) },
            Bytes::Value(value) => value,
            Bytes::Packed(packed) => packed,
        };
        // A copy: memory outside V8's heap needs a finalizer, which costs more for small values.
        let buffer = BufferSlice::copy_from(&Env::from_raw(env), bytes)?;
        // SAFETY: as before.
        unsafe { BufferSlice::to_napi_value(env, buffer) }
    }
}

//! A function body that is compiled once.

use std::sync::OnceLock;

use super::value::ScriptValue;

/// Body of a function, compiled at first use.
#[derive(Debug, Default)]
pub struct ScriptProgram {
    arguments: Vec<String>,
    body: String,
    compiled: OnceLock<Result<ScriptCode, String>>,
}

#[cfg(feature = "rhai")]
type ScriptCode = std::sync::Arc<super::engine::CompiledBody>;
#[cfg(not(feature = "rhai"))]
type ScriptCode = std::convert::Infallible;

/// Programs are equal if their texts are.
impl PartialEq for ScriptProgram {
    fn eq(&self, other: &ScriptProgram) -> bool {
        (&self.arguments, &self.body) == (&other.arguments, &other.body)
    }
}

impl ScriptProgram {
    /// Creates a program from a body and the names of its arguments.
    pub fn new(arguments: Vec<String>, body: String) -> ScriptProgram {
        ScriptProgram { arguments, body, compiled: OnceLock::new() }
    }

    /// Returns the text.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// Returns the names of the arguments.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    fn compiled(&self) -> Result<&ScriptCode, String> {
        self.compiled
            .get_or_init(|| compile(&self.arguments, &self.body))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Compiles it.
    ///
    /// # Errors
    /// The position and kind of an error in the body.
    pub fn check(&self) -> Result<(), String> {
        self.compiled().map(|_| ())
    }

    /// Calls it with these arguments, one for each name.
    ///
    /// # Errors
    /// Errors of the call, including exceeded limits.
    pub fn call(&self, arguments: Vec<ScriptValue>) -> Result<ScriptValue, String> {
        run(self.compiled()?, arguments)
    }
}

#[cfg(feature = "rhai")]
fn compile(arguments: &[String], body: &str) -> Result<ScriptCode, String> {
    super::engine::CompiledBody::new(arguments, body).map(std::sync::Arc::new)
}

#[cfg(feature = "rhai")]
fn run(compiled: &ScriptCode, arguments: Vec<ScriptValue>) -> Result<ScriptValue, String> {
    let compiled = compiled.clone();
    super::thread::run(move || compiled.call(arguments))
}

#[cfg(not(feature = "rhai"))]
fn compile(_: &[String], _: &str) -> Result<ScriptCode, String> {
    Err("this build has no functions in rhai (the feature `rhai` of firn-cql)".to_owned())
}

#[cfg(not(feature = "rhai"))]
fn run(compiled: &ScriptCode, _: Vec<ScriptValue>) -> Result<ScriptValue, String> {
    match *compiled {}
}

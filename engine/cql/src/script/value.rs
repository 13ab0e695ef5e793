//! Values of the language.

/// A value of the language.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptValue {
    /// `()`
    Nothing,
    /// `true`, `false`
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a point.
    Real(f64),
    /// A text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
    /// An array.
    Array(Vec<ScriptValue>),
    /// An object map.
    Map(Vec<(String, ScriptValue)>),
}

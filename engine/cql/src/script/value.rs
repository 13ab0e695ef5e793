//! Values of the language.

/// A value of the script language.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptValue {
    /// `()`
    Nothing,
    /// `true` or `false`.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A floating-point number.
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

//! The Rhai engine with limits.
//!
//! One engine is shared by all bodies. A body cannot reach outside: keywords that evaluate texts,
//! load modules or name functions by texts are disabled, `print` has no effect, and `sleep` fails.

use std::sync::LazyLock;

use rhai::{AST, Array, Blob, Dynamic, Engine, EvalAltResult, ImmutableString, Map, Scope};

use super::limits::{
    MAX_CALLS, MAX_DEPTH, MAX_ELEMENTS, MAX_ENTRIES, MAX_NAMES, MAX_NESTING, MAX_OPERATIONS,
    MAX_TEXT,
};
use super::value::ScriptValue;

/// Keywords that would let a body reach outside.
const WITHHELD: [&str; 4] = ["eval", "Fn", "import", "export"];

fn no_sleep() -> Result<(), Box<EvalAltResult>> {
    Err("sleep is not available".into())
}

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let mut engine = Engine::new();
    for word in WITHHELD {
        engine.disable_symbol(word);
    }
    engine
        .on_print(|_| {})
        .on_debug(|_, _, _| {})
        // These override the functions of the language.
        .register_fn("sleep", |_: i64| no_sleep())
        .register_fn("sleep", |_: f64| no_sleep())
        .set_strict_variables(true)
        .set_max_operations(MAX_OPERATIONS)
        .set_max_call_levels(MAX_CALLS)
        .set_max_expr_depths(MAX_NESTING, MAX_NESTING)
        .set_max_string_size(MAX_TEXT)
        .set_max_array_size(MAX_ELEMENTS)
        .set_max_map_size(MAX_ENTRIES)
        .set_max_variables(MAX_NAMES)
        .set_max_functions(MAX_NAMES);
    engine
});

/// A compiled body.
#[derive(Debug)]
pub(super) struct CompiledBody {
    arguments: Vec<String>,
    tree: AST,
}

fn is_name(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        // Keywords of the language are not valid names.
        && ENGINE.compile(format!("let {word} = 1;")).is_ok()
}

impl CompiledBody {
    /// Compiles a body with these argument names.
    pub(super) fn new(arguments: &[String], body: &str) -> Result<CompiledBody, String> {
        if let Some(odd) = arguments.iter().find(|name| !is_name(name)) {
            return Err(format!("an argument can't have the name {odd}"));
        }
        let mut scope = Scope::new();
        for name in arguments {
            scope.push_dynamic(name.clone(), Dynamic::UNIT);
        }
        let tree = ENGINE.compile_with_scope(&scope, body).map_err(|e| e.to_string())?;
        Ok(CompiledBody { arguments: arguments.to_vec(), tree })
    }

    /// Calls the body. Requires a thread with a large stack.
    pub(super) fn call(&self, arguments: Vec<ScriptValue>) -> Result<ScriptValue, String> {
        let mut scope = Scope::new();
        for (name, value) in self.arguments.iter().zip(arguments) {
            scope.push_dynamic(name.clone(), dynamic(value));
        }
        let result: Result<Dynamic, Box<EvalAltResult>> =
            ENGINE.eval_ast_with_scope(&mut scope, &self.tree);
        script_value(result.map_err(|e| e.to_string())?, MAX_DEPTH)
    }
}

fn dynamic(value: ScriptValue) -> Dynamic {
    match value {
        ScriptValue::Nothing => Dynamic::UNIT,
        ScriptValue::Boolean(b) => b.into(),
        ScriptValue::Integer(n) => n.into(),
        ScriptValue::Real(n) => n.into(),
        ScriptValue::Text(text) => text.into(),
        ScriptValue::Blob(bytes) => Dynamic::from_blob(bytes),
        ScriptValue::Array(values) => {
            Dynamic::from_array(values.into_iter().map(dynamic).collect())
        }
        ScriptValue::Map(entries) => {
            let entry = |(name, value): (String, ScriptValue)| (name.into(), dynamic(value));
            Dynamic::from_map(entries.into_iter().map(entry).collect())
        }
    }
}

fn script_value(value: Dynamic, depth: usize) -> Result<ScriptValue, String> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(format!("the result is nested more than {MAX_DEPTH} deep"));
    };
    Ok(if value.is_unit() {
        ScriptValue::Nothing
    } else if let Ok(b) = value.as_bool() {
        ScriptValue::Boolean(b)
    } else if let Ok(n) = value.as_int() {
        ScriptValue::Integer(n)
    } else if let Ok(n) = value.as_float() {
        ScriptValue::Real(n)
    } else if let Ok(c) = value.as_char() {
        ScriptValue::Text(c.into())
    } else if value.is_string() {
        let text: ImmutableString = value.cast();
        ScriptValue::Text(text.into_owned())
    } else if value.is_blob() {
        ScriptValue::Blob(value.cast::<Blob>())
    } else if value.is_array() {
        let each = value.cast::<Array>().into_iter().map(|v| script_value(v, depth));
        ScriptValue::Array(each.collect::<Result<_, _>>()?)
    } else if value.is_map() {
        let entry = |(name, value): (_, Dynamic)| {
            Ok::<_, String>((ToString::to_string(&name), script_value(value, depth)?))
        };
        ScriptValue::Map(value.cast::<Map>().into_iter().map(entry).collect::<Result<_, _>>()?)
    } else {
        return Err(format!("the result is a {}, which is not a CQL value", value.type_name()));
    })
}

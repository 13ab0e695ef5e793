//! Comparators of column families as scripts: `fn encode(value)` returns the sort key of a name or
//! key.

use std::sync::Arc;

use firn_wide::{ComparatorLanguage, Options, OrderFunction, TypeError};

use super::limits::LANGUAGE;
use super::program::ScriptProgram;
use super::value::ScriptValue;

/// Name of the function that a script must define.
const FUNCTION: &str = "encode";

/// Adds the script language of comparators to these options. Use it to open the `firn-wide`
/// database before creating a session with it.
///
/// ```
/// use firn_cql::{Session, with_scripts};
/// use firn_wide::{CfDef, KsDef, Options, Wide};
/// # let dir = std::env::temp_dir().join(format!("firn-doc-cql-scripts-{}", std::process::id()));
/// let wide = Wide::open_with(&dir, with_scripts(Options::default()))?;
/// # if cfg!(feature = "rhai") {
/// wide.define_comparator("com.example.ByLength", "rhai", "fn encode(value) { value.len() }")?;
/// wide.system_add_keyspace(&KsDef::new("K"))?;
/// let comparator_type = "com.example.ByLength".to_owned();
/// wide.system_add_column_family(&CfDef { comparator_type, ..CfDef::new("K", "F") })?;
/// let row = wide.keyspace("K")?.family("F")?.row("r");
/// for name in ["three", "four", "one"] {
///     row.insert(name, "v")?;
/// }
/// let names: Vec<_> = row.slice().columns()?.map(|c| c.unwrap().name).collect();
/// assert_eq!(names, [&b"one"[..], b"four", b"three"]);
/// # }
/// let session = Session::new(wide)?;
/// # drop(session); std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn with_scripts(mut options: Options) -> Options {
    options.languages.0.push(Arc::new(ScriptOrders));
    options
}

/// The script language for comparators.
struct ScriptOrders;

/// A script that defines the function.
struct ScriptOrder(ScriptProgram);

impl ComparatorLanguage for ScriptOrders {
    fn name(&self) -> &str {
        LANGUAGE
    }

    fn compile(&self, script: &str) -> Result<Arc<dyn OrderFunction>, TypeError> {
        let body = format!("{script}\n;{FUNCTION}(value)");
        let program = ScriptProgram::new(vec!["value".to_owned()], body);
        program.check().map_err(TypeError)?;
        let order = ScriptOrder(program);
        // It may refuse the value, but it must exist.
        match order.key(b"a") {
            Err(e) if e.0.contains(&format!("Function not found: {FUNCTION}")) => {
                Err(TypeError(format!("it defines no function `fn {FUNCTION}(value) {{ … }}`")))
            }
            _ => Ok(Arc::new(order)),
        }
    }
}

impl OrderFunction for ScriptOrder {
    fn key(&self, value: &[u8]) -> Result<Vec<u8>, TypeError> {
        let given = self.0.call(vec![ScriptValue::Blob(value.to_vec())]).map_err(TypeError)?;
        Ok(match given {
            ScriptValue::Blob(bytes) => bytes,
            ScriptValue::Text(text) => text.into_bytes(),
            // Larger integers have larger encodings.
            ScriptValue::Integer(n) => (n.cast_unsigned() ^ (1 << 63)).to_be_bytes().to_vec(),
            _ => {
                let what = format!("{FUNCTION} must return a blob, a text or an integer");
                return Err(TypeError(what));
            }
        })
    }
}

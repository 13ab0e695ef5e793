//! A policy as a script in rhai, to try one without a compiler.
//!
//! The script has a function `compactions(runs, tree)` that returns an array of compactions, the most
//! urgent first. `runs` are the sorted runs, newest first. Each is a map of `level`, `size` and
//! `entries`, and `tables`, an array of maps of `size`, `entries`, `deletes` and `age` (seconds
//! since its newest entry was flushed). `tree` is a map of `memtable`, `table` (sizes in bytes),
//! `size` and `now` (seconds). A compaction is a map:
//!
//! | entry | meaning |
//! |---|---|
//! | `from`, `to` | indexes of the first and the last of the adjacent runs to merge |
//! | `level` | level of the output; by default one below run `to` |
//! | `tables` | `[first, last]`: only these tables of run `from`, with what they overlap in the others |
//!
//! An optional function `most_runs(tree)` returns the number of runs at which writers are slowed.
//! Scripts cannot do anything else: no files, no clock, no other code. A script that takes too many
//! steps or too much memory is stopped.

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::Mutex;

use firn_kv::policy::{CompactionPolicy, CompactionRequest, LsmShape, RunShape, TableShape};
use rhai::{AST, Array, Dynamic, Engine, Map, Scope};

/// Maximum steps of one call.
const MAX_STEPS: u64 = 5_000_000;
/// Maximum elements of an array, such as the tables of a run. The interpreter checks all of them
/// whenever one is added.
const MAX_SCRIPT_ELEMENTS: usize = 1 << 13;
/// Maximum bytes of a script.
pub const MAX_SCRIPT_BYTES: usize = 1 << 20;

/// A script that chooses compactions.
pub struct ScriptPolicy {
    engine: Engine,
    script: AST,
    name: String,
    failure: Mutex<Option<String>>,
}

impl fmt::Debug for ScriptPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptPolicy")
    }
}

impl ScriptPolicy {
    /// Parses a script.
    ///
    /// # Errors
    /// The error, with its position.
    ///
    /// ```
    /// use compaction_sim::policy::script::ScriptPolicy;
    /// ScriptPolicy::read("fn compactions(runs, tree) { [] }").unwrap();
    /// assert!(ScriptPolicy::read("fn compactions(runs) { [] }").is_err());
    /// ```
    pub fn read(text: &str) -> Result<ScriptPolicy, String> {
        if text.len() > MAX_SCRIPT_BYTES {
            return Err(format!("a script has at most {MAX_SCRIPT_BYTES} bytes"));
        }
        let mut engine = Engine::new();
        for word in ["eval", "Fn", "import", "export"] {
            engine.disable_symbol(word);
        }
        engine
            .on_print(|_| {})
            .on_debug(|_, _, _| {})
            .set_strict_variables(true)
            .set_max_operations(MAX_STEPS)
            .set_max_call_levels(64)
            .set_max_expr_depths(64, 64)
            .set_max_string_size(1 << 16)
            .set_max_array_size(MAX_SCRIPT_ELEMENTS)
            .set_max_map_size(1 << 12)
            .set_max_variables(1 << 10)
            .set_max_functions(256);
        let script = engine.compile(text).map_err(|e| e.to_string())?;
        let script = script.clone_functions_only();
        let has = |name: &str, params: usize| {
            script.iter_functions().any(|f| f.name == name && f.params.len() == params)
        };
        if !has("compactions", 2) {
            return Err("there is no function `compactions(runs, tree)`".to_owned());
        }
        if !has("most_runs", 1) && script.iter_functions().any(|f| f.name == "most_runs") {
            return Err("most_runs takes one argument, most_runs(tree)".to_owned());
        }
        Ok(ScriptPolicy { engine, script, name: "script".to_owned(), failure: Mutex::new(None) })
    }

    /// Parses a script in a file. The policy has the name of the file without its extension.
    ///
    /// # Errors
    /// The file, and the reason why it cannot be read, or the error in it with its position.
    pub fn of_file(path: &Path) -> Result<ScriptPolicy, String> {
        let mut text = String::new();
        let most = MAX_SCRIPT_BYTES as u64 + 1;
        firn_tools::io::Input::open(path)
            .and_then(|file| file.take(most).read_to_string(&mut text))
            .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        let policy = ScriptPolicy::read(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        let name = path.file_stem().map_or(policy.name, |stem| stem.to_string_lossy().into_owned());
        Ok(ScriptPolicy { name, ..policy })
    }

    fn has_limit(&self) -> bool {
        self.script.iter_functions().any(|f| f.name == "most_runs")
    }

    fn call<T: Clone + Send + Sync + 'static>(
        &self,
        name: &str,
        arguments: Vec<Dynamic>,
    ) -> Result<T, String> {
        let mut scope = Scope::new();
        let done = match <[Dynamic; 2]>::try_from(arguments) {
            Ok([a, b]) => self.engine.call_fn(&mut scope, &self.script, name, (a, b)),
            Err(one) => {
                let one = one.into_iter().next().unwrap_or(Dynamic::UNIT);
                self.engine.call_fn(&mut scope, &self.script, name, (one,))
            }
        };
        done.map_err(|e| format!("{name}: {e}"))
    }

    fn read_requests(&self, shape: &LsmShape) -> Result<Vec<CompactionRequest>, String> {
        if shape.runs.iter().any(|run| run.tables.len() > MAX_SCRIPT_ELEMENTS) {
            return Err(format!(
                "a run has more than {MAX_SCRIPT_ELEMENTS} tables: give a larger --table-size"
            ));
        }
        let runs: Array = shape.runs.iter().map(|run| run_map(run, shape.now_micros)).collect();
        let requests: Array =
            self.call("compactions", vec![runs.into(), tree_map(shape).into()])?;
        let read = |(i, request): (usize, Dynamic)| {
            let map = request.try_cast::<Map>().ok_or_else(|| format!("entry {i} is no map"))?;
            request_of(&map).map_err(|e| format!("entry {i}: {e}"))
        };
        requests.into_iter().enumerate().map(read).collect()
    }

    fn fail(&self, why: String) {
        let mut failure = self.failure.lock().unwrap_or_else(|e| e.into_inner());
        failure.get_or_insert(why);
    }
}

impl CompactionPolicy for ScriptPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn requests(&self, shape: &LsmShape) -> Vec<CompactionRequest> {
        self.read_requests(shape).unwrap_or_else(|why| {
            self.fail(why);
            Vec::new()
        })
    }

    fn max_runs(&self, shape: &LsmShape) -> Option<usize> {
        if !self.has_limit() {
            return None;
        }
        match self.call::<i64>("most_runs", vec![tree_map(shape).into()]) {
            Ok(most) => Some(usize::try_from(most).unwrap_or(0)),
            Err(why) => {
                self.fail(why);
                None
            }
        }
    }

    fn is_time_dependent(&self) -> bool {
        true
    }

    fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
}

/// Converts a number for scripts.
fn whole(n: u64) -> Dynamic {
    Dynamic::from(i64::try_from(n).unwrap_or(i64::MAX))
}

fn map(entries: &[(&str, Dynamic)]) -> Map {
    entries.iter().map(|(name, value)| ((*name).into(), value.clone())).collect()
}

fn run_map(run: &RunShape, now: u64) -> Dynamic {
    let table = |t: &TableShape| {
        let age = now.saturating_sub(t.newest_micros) / 1_000_000;
        let (size, entries, deletes) = (whole(t.size), whole(t.entries), whole(t.deletes));
        let entries =
            [("size", size), ("entries", entries), ("deletes", deletes), ("age", whole(age))];
        Dynamic::from(map(&entries))
    };
    let tables: Array = run.tables.iter().map(table).collect();
    let entries = whole(run.tables.iter().map(|t| t.entries).sum());
    map(&[
        ("level", whole(u64::from(run.level))),
        ("size", whole(run.size())),
        ("entries", entries),
        ("tables", tables.into()),
    ])
    .into()
}

fn tree_map(shape: &LsmShape) -> Map {
    map(&[
        ("memtable", whole(shape.memtable_size)),
        ("table", whole(shape.table_size)),
        ("size", whole(shape.size())),
        ("now", whole(shape.now_micros / 1_000_000)),
    ])
}

fn request_of(request: &Map) -> Result<CompactionRequest, String> {
    let index = |value: &Dynamic, name: &str| {
        let n = value.as_int().ok().and_then(|n| usize::try_from(n).ok());
        n.ok_or_else(|| format!("{name} is {value}, which is no index"))
    };
    let entry = |name: &str| request.get(name);
    let needed = |name: &str| {
        entry(name).ok_or_else(|| format!("there is no {name}")).and_then(|v| index(v, name))
    };
    if let Some(odd) =
        request.keys().find(|k| !["from", "to", "level", "tables"].contains(&k.as_str()))
    {
        return Err(format!("{odd:?} is no entry of a merge"));
    }
    let level = match entry("level") {
        None => None,
        Some(level) => {
            let level = index(level, "level")?;
            Some(u8::try_from(level).map_err(|_| format!("level {level} is too deep"))?)
        }
    };
    let tables = match entry("tables") {
        None => None,
        Some(pair) => {
            let pair = pair.clone().try_cast::<Array>().unwrap_or_default();
            let [first, last] = pair.as_slice() else {
                return Err("tables is no [first, last]".to_owned());
            };
            let (first, last) = (index(first, "tables")?, index(last, "tables")?);
            Some(first..last.saturating_add(1))
        }
    };
    Ok(CompactionRequest { runs: needed("from")?..=needed("to")?, tables, level })
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_kv::TreeOptions;
    use firn_kv::internals::compaction::pick;
    use firn_kv::policy::CustomPolicy;

    #[test]
    fn what_is_wrong_with_a_script_is_said() {
        for (text, said) in [
            ("fn compactions(runs, tree) { [", "(line 1, position 31)"),
            ("fn other(runs, tree) { [] }", "there is no function `compactions"),
            ("fn compactions(runs, tree) { [] } fn most_runs() { 3 }", "most_runs takes one"),
            ("import \"x\" as x; fn compactions(runs, tree) { [] }", "import"),
        ] {
            let refused = ScriptPolicy::read(text).err().unwrap_or_default();
            assert!(refused.contains(said), "{text}: {refused}");
        }
        assert!(ScriptPolicy::read(&" ".repeat(MAX_SCRIPT_BYTES + 1)).is_err());
        for (body, said) in [
            ("loop {}", "Too many operations"),
            ("[1]", "entry 0 is no map"),
            ("[#{ from: 0 }]", "entry 0: there is no to"),
            ("[#{ from: 0, to: 0, level: 300 }]", "entry 0: level 300 is too deep"),
            ("[#{ from: 0, to: -1 }]", "entry 0: to is -1"),
            ("[#{ from: 0, to: 1, mode: 2 }]", "is no entry of a merge"),
            ("[#{ from: 0, to: 1 }]", "request 0: runs 0 to 1 of 0 do not exist"),
            ("runs[9]", "compactions: "),
            ("let a = []; loop { a.push(1) }", "compactions: "),
        ] {
            let script = format!("fn compactions(runs, tree) {{ {body} }}");
            let policy = CustomPolicy::new(ScriptPolicy::read(&script).unwrap());
            let options =
                TreeOptions { custom_policy: Some(policy.clone()), ..TreeOptions::default() };
            assert_eq!(pick(options.active_policy(), &LsmShape::default()), None);
            let failed = policy.failure().unwrap_or_default();
            assert!(failed.contains(said), "{body}: {failed}");
        }
    }
}

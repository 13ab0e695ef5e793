//! Checks the layering of a crate from its sources: a module imports only lower floors, files of a
//! module form no cycles, and every file has documentation.
//!
//! Invariants:
//! - Every top-level module of a crate (a file or directory directly below its root) has
//!   a floor. A missing floor is an error, and so is a file that no module declares.
//! - An import is every path in non-test code (see [`modules`](crate::modules)), resolved to its
//!   definition. All modules on the way count, so re-exports cannot hide an import. A name of the
//!   crate's root, `crate::Name`, hides its module and is an error.
//! - Within a module a file depends on the files whose names it uses, even through re-exports, and
//!   on files with methods that it calls on a type of another file. A `pub use` alone is no
//!   dependency. A cycle of files is called a *ring*.
//! - Existing rings are listed exactly: a new one is an error, and so is a listed one that is gone
//!   or has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::modules::{Crate, ReferenceKind, files_below};
use crate::rings::rings;

/// The layering of a crate.
#[derive(Clone, Copy, Debug, Default)]
pub struct FloorPlan<'a> {
    /// The top-level modules with their floors. Without any the crate is one module, and its root
    /// is above it.
    pub floors: &'a [(&'a str, u32)],
    /// Permitted imports (importer, import) of the same or a higher floor.
    pub neighbours: &'a [(&'a str, &'a str)],
    /// Existing rings of files: a line for each file below `src`, an empty one between rings; `#`
    /// begins a comment.
    pub rings: &'a str,
}

/// Method names of the standard library's types: the target of a call of these is unknown.
const STD_METHODS: [&str; 32] = [
    "add", "clear", "clone", "contains", "count", "extend", "filter", "find", "first", "flush",
    "get", "insert", "is_empty", "iter", "join", "last", "len", "lock", "map", "max", "min",
    "next", "pop", "push", "read", "remove", "replace", "send", "set", "swap", "take", "write",
];

/// Checks all sources below `src`, of a library and of programs. Returns the number of files and of
/// imports of other modules.
///
/// # Errors
/// All violations, and files that cannot be read or parsed.
pub fn check(src: &Path, plan: &FloorPlan<'_>) -> Result<(usize, usize), String> {
    let below: Vec<PathBuf> =
        files_below(src)?.iter().map(|f| f.strip_prefix(src).unwrap_or(f).to_path_buf()).collect();
    let roots: Vec<&PathBuf> = below.iter().filter(|f| is_root(f)).collect();
    let mut checked = FloorCheck::default();
    for root in roots {
        checked.check_crate(&Crate::read(&src.join(root))?, plan);
    }
    let mut wrong: Vec<String> = checked.wrong.into_iter().collect();
    let lost = below.iter().filter(|f| !checked.files.contains(*f));
    wrong.extend(lost.map(|f| format!("{}: no module leads to this file", f.display())));
    let empty =
        plan.floors.iter().filter(|(top_module, _)| !checked.top_modules.contains(*top_module));
    wrong.extend(empty.map(|(top_module, _)| format!("there is no module {top_module}")));
    wrong.extend(compare(&checked.uses, plan.rings));
    if wrong.is_empty() {
        Ok((checked.files.len(), checked.imports))
    } else {
        Err(wrong.join("\n"))
    }
}

fn is_root(file: &Path) -> bool {
    let names: Vec<_> = file.iter().filter_map(|n| n.to_str()).collect();
    matches!(names[..], ["lib.rs" | "main.rs"] | ["bin", _] | ["bin", _, "main.rs"])
}

#[derive(Default)]
struct FloorCheck {
    files: BTreeSet<PathBuf>,
    top_modules: BTreeSet<String>,
    imports: usize,
    /// Dependencies between files of a module, with an example name.
    uses: BTreeMap<PathBuf, BTreeMap<PathBuf, String>>,
    wrong: BTreeSet<String>,
}

impl FloorCheck {
    fn check_crate(&mut self, of: &Crate, plan: &FloorPlan<'_>) {
        let floors: BTreeMap<&str, u32> = plan.floors.iter().copied().collect();
        self.files.extend(of.files.iter().cloned());
        self.wrong.extend(
            of.silent
                .iter()
                .map(|f| format!("{}: it does not open with //! and what it is", f.display())),
        );
        let in_files =
            || of.modules.iter().filter(|m| m.file != 0 && m.path.len() == 1 && !floors.is_empty());
        let top_modules: BTreeSet<&str> = in_files().map(|m| &*m.path[0]).collect();
        for module in in_files() {
            if floors.contains_key(&*module.path[0]) {
                self.top_modules.insert(module.path[0].clone());
            } else if !module.is_test {
                let (file, top_module) = (of.files[module.file].display(), &module.path[0]);
                self.wrong.insert(format!("{file}: the module {top_module} has no floor"));
            }
        }
        for r in &of.references {
            let Some(top_module) = top_module(of, r.from) else { continue };
            let (found, path) = (of.find(r.from, &r.path), r.path.join("::"));
            if r.how != ReferenceKind::ReExport {
                found.owners.iter().for_each(|owner| self.depend(of, plan, r.from, *owner, &path));
            }
            let Some(own) = floors.get(top_module) else { continue };
            let name = of.files[of.modules[r.from].file].display();
            let mut met: BTreeSet<Option<&str>> =
                found.passed.iter().map(|m| self::top_module(of, *m)).collect();
            if r.path[0] == "crate"
                && r.path.get(1).is_none_or(|first| !top_modules.contains(&**first))
            {
                met.insert(None);
            }
            for import in met {
                match import {
                    Some(import) if import == top_module => {}
                    Some(import) => {
                        self.imports += 1;
                        let lower = floors.get(import).is_some_and(|floor| floor < own);
                        if !lower && !plan.neighbours.contains(&(top_module, import)) {
                            self.wrong
                                .insert(format!("{name}: {top_module} imports {import} ({path}), which is not on a lower floor"));
                        }
                    }
                    None => {
                        self.wrong.insert(format!(
                            "{name}: {path} is in no top-level module; name the module that defines it"
                        ));
                    }
                }
            }
        }
        self.check_methods(of, plan);
    }

    /// Finds dependencies by methods that are in other files than their type: their callers do not
    /// name that file.
    fn check_methods(&mut self, of: &Crate, plan: &FloorPlan<'_>) {
        let mut places: BTreeMap<(&str, usize), BTreeSet<usize>> = BTreeMap::new();
        let mut foreign = BTreeSet::new();
        for m in of.methods.iter().filter(|m| !STD_METHODS.contains(&&*m.name)) {
            places.entry((&m.name, m.arguments)).or_default().insert(m.module);
            let file = of.modules[m.module].file;
            if of.find(m.module, &m.of).owners.iter().any(|owner| of.modules[*owner].file != file) {
                foreign.insert((m.module, &*m.name));
            }
        }
        for (from, name, arguments) in &of.calls {
            // Without type information a method is known only if its name and number of arguments
            // are unique.
            if let Some(only) = places
                .get(&(&**name, *arguments))
                .filter(|p| p.len() == 1)
                .and_then(BTreeSet::first)
                && foreign.contains(&(*only, &**name))
            {
                self.depend(of, plan, *from, *only, &format!(".{name}()"));
            }
        }
    }

    fn depend(&mut self, of: &Crate, plan: &FloorPlan<'_>, from: usize, on: usize, name: &str) {
        let file = |module: usize| &of.files[of.modules[module].file];
        let (from_module, on_module) = (top_module(of, from), top_module(of, on));
        let is_inside = from_module.is_some()
            && on_module.is_some()
            && (plan.floors.is_empty() || from_module == on_module);
        if is_inside && file(from) != file(on) {
            let on = self.uses.entry(file(from).clone()).or_default().entry(file(on).clone());
            on.or_insert_with(|| name.to_owned());
        }
    }
}

/// Returns the top-level module of a module; `None` for the root and the contents of the root's
/// file.
fn top_module(of: &Crate, module: usize) -> Option<&str> {
    (of.modules[module].file != 0)
        .then(|| of.modules[module].path.first().map(String::as_str))
        .flatten()
}

/// Returns the differences between the rings and the list.
fn compare(uses: &BTreeMap<PathBuf, BTreeMap<PathBuf, String>>, listed: &str) -> Vec<String> {
    let graph =
        uses.iter().map(|(file, on)| (file.clone(), on.keys().cloned().collect())).collect();
    let found: BTreeSet<BTreeSet<PathBuf>> = rings(&graph).into_iter().collect();
    let lines = listed.lines().map(str::trim).filter(|l| !l.starts_with('#')).collect::<Vec<_>>();
    let known: BTreeSet<BTreeSet<PathBuf>> = lines
        .split(|l| l.is_empty())
        .filter(|r| !r.is_empty())
        .map(|r| r.iter().map(PathBuf::from).collect())
        .collect();
    let shown = |ring: &BTreeSet<PathBuf>| {
        ring.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join("\n")
    };
    let mut wrong = vec![];
    for ring in found.difference(&known) {
        let edges = uses.iter().filter(|(file, _)| ring.contains(*file)).flat_map(|(file, on)| {
            let inside = on.iter().filter(|(on, _)| ring.contains(*on));
            inside.map(move |(on, name)| {
                format!("  {} uses {name} of {}", file.display(), on.display())
            })
        });
        let edges: Vec<String> = edges.collect();
        wrong.push(format!(
            "a ring that is not in the list:\n{}\n{}",
            shown(ring),
            edges.join("\n")
        ));
    }
    wrong.extend(
        known
            .difference(&found)
            .map(|ring| format!("a ring in the list is gone or another:\n{}", shown(ring))),
    );
    wrong
}

#[cfg(test)]
mod tests;

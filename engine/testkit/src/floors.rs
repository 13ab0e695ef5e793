//! A room imports only lower floors, files of a room make no rings, and every file says what it is:
//! read from the sources.
//!
//! Invariants:
//! - Every room of a crate, a file or folder right below its root, has a floor; a room without one
//!   is wrong, and so is a file that no module leads to.
//! - What is imported is every path in code that is not only for tests (see
//!   [`modules`](crate::modules)), followed to where its name is from: the rooms on the way count,
//!   so nothing is carried up by a re-export. A name of the crate's root, `crate::Name`, hides the
//!   room that it is from and is wrong.
//! - Within a room a file depends on the files whose names it uses, wherever they are re-exported,
//!   and on those that have a method that it calls of a type of another file. A `pub use` alone is
//!   a door and no dependency. Files that depend on each other in a circle are a *ring*.
//! - Rings that are still there are listed exactly: a new one is wrong, and so is one in the list
//!   that is gone or has become another.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::modules::{Crate, ReferenceKind, files_below};
use crate::rings::rings;

/// The rooms of a crate.
#[derive(Clone, Copy, Debug, Default)]
pub struct FloorPlan<'a> {
    /// Each with its floor. Without any the crate is one room, and its root above it.
    pub floors: &'a [(&'a str, u32)],
    /// Importer and import of one floor, or upwards, that are right.
    pub neighbours: &'a [(&'a str, &'a str)],
    /// Rings of files that are still there: a line for each file below `src`, an empty one between
    /// rings; `#` begins a remark.
    pub rings: &'a str,
}

/// Names that the standard library's types have, too: of a call of one nobody knows whose it is.
const EVERYBODYS: [&str; 32] = [
    "add", "clear", "clone", "contains", "count", "extend", "filter", "find", "first", "flush",
    "get", "insert", "is_empty", "iter", "join", "last", "len", "lock", "map", "max", "min",
    "next", "pop", "push", "read", "remove", "replace", "send", "set", "swap", "take", "write",
];

/// Looks at all sources below `src`, of a library and of programs. Gives how many files and how
/// many imports of other rooms there are.
///
/// # Errors
/// All that is wrong, and files that cannot be read or parsed.
pub fn check(src: &Path, plan: &FloorPlan<'_>) -> Result<(usize, usize), String> {
    let below: Vec<PathBuf> =
        files_below(src)?.iter().map(|f| f.strip_prefix(src).unwrap_or(f).to_path_buf()).collect();
    let roots: Vec<&PathBuf> = below.iter().filter(|f| is_root(f)).collect();
    let mut house = House::default();
    for root in roots {
        house.look(&Crate::read(&src.join(root))?, plan);
    }
    let mut wrong: Vec<String> = house.wrong.into_iter().collect();
    let lost = below.iter().filter(|f| !house.files.contains(*f));
    wrong.extend(lost.map(|f| format!("{}: no module leads to this file", f.display())));
    let empty = plan.floors.iter().filter(|(room, _)| !house.rooms.contains(*room));
    wrong.extend(empty.map(|(room, _)| format!("there is no room {room}")));
    wrong.extend(compare(&house.uses, plan.rings));
    if wrong.is_empty() { Ok((house.files.len(), house.imports)) } else { Err(wrong.join("\n")) }
}

fn is_root(file: &Path) -> bool {
    let names: Vec<_> = file.iter().filter_map(|n| n.to_str()).collect();
    matches!(names[..], ["lib.rs" | "main.rs"] | ["bin", _] | ["bin", _, "main.rs"])
}

#[derive(Default)]
struct House {
    files: BTreeSet<PathBuf>,
    rooms: BTreeSet<String>,
    imports: usize,
    /// What files of a room depend on, with a name that shows it.
    uses: BTreeMap<PathBuf, BTreeMap<PathBuf, String>>,
    wrong: BTreeSet<String>,
}

impl House {
    fn look(&mut self, of: &Crate, plan: &FloorPlan<'_>) {
        let floors: BTreeMap<&str, u32> = plan.floors.iter().copied().collect();
        self.files.extend(of.files.iter().cloned());
        self.wrong.extend(
            of.silent
                .iter()
                .map(|f| format!("{}: it does not open with //! and what it is", f.display())),
        );
        let in_files =
            || of.modules.iter().filter(|m| m.file != 0 && m.path.len() == 1 && !floors.is_empty());
        let rooms: BTreeSet<&str> = in_files().map(|m| &*m.path[0]).collect();
        for module in in_files() {
            if floors.contains_key(&*module.path[0]) {
                self.rooms.insert(module.path[0].clone());
            } else if !module.is_test {
                let (file, room) = (of.files[module.file].display(), &module.path[0]);
                self.wrong.insert(format!("{file}: the room {room} has no floor"));
            }
        }
        for r in &of.references {
            let Some(room) = room(of, r.from) else { continue };
            let (found, path) = (of.find(r.from, &r.path), r.path.join("::"));
            if r.how != ReferenceKind::ReExport {
                found.owners.iter().for_each(|owner| self.depend(of, plan, r.from, *owner, &path));
            }
            let Some(own) = floors.get(room) else { continue };
            let name = of.files[of.modules[r.from].file].display();
            let mut met: BTreeSet<Option<&str>> =
                found.passed.iter().map(|m| self::room(of, *m)).collect();
            if r.path[0] == "crate" && r.path.get(1).is_none_or(|first| !rooms.contains(&**first)) {
                met.insert(None);
            }
            for import in met {
                match import {
                    Some(import) if import == room => {}
                    Some(import) => {
                        self.imports += 1;
                        let lower = floors.get(import).is_some_and(|floor| floor < own);
                        if !lower && !plan.neighbours.contains(&(room, import)) {
                            self.wrong
                                .insert(format!("{name}: {room} imports {import} ({path}), which is not on a lower floor"));
                        }
                    }
                    None => {
                        self.wrong.insert(format!(
                            "{name}: {path} is of no room; name the room that it is from"
                        ));
                    }
                }
            }
        }
        self.look_at_methods(of, plan);
    }

    /// Where a type's methods are in other files than the type, no name of such a file is in what
    /// calls them.
    fn look_at_methods(&mut self, of: &Crate, plan: &FloorPlan<'_>) {
        let mut places: BTreeMap<(&str, usize), BTreeSet<usize>> = BTreeMap::new();
        let mut apart = BTreeSet::new();
        for m in of.methods.iter().filter(|m| !EVERYBODYS.contains(&&*m.name)) {
            places.entry((&m.name, m.arguments)).or_default().insert(m.module);
            let file = of.modules[m.module].file;
            if of.find(m.module, &m.of).owners.iter().any(|owner| of.modules[*owner].file != file) {
                apart.insert((m.module, &*m.name));
            }
        }
        for (from, name, arguments) in &of.calls {
            // Without types a method is known only where there is one of its name and arguments.
            if let Some(only) = places
                .get(&(&**name, *arguments))
                .filter(|p| p.len() == 1)
                .and_then(BTreeSet::first)
                && apart.contains(&(*only, &**name))
            {
                self.depend(of, plan, *from, *only, &format!(".{name}()"));
            }
        }
    }

    fn depend(&mut self, of: &Crate, plan: &FloorPlan<'_>, from: usize, on: usize, name: &str) {
        let file = |module: usize| &of.files[of.modules[module].file];
        let (from_room, on_room) = (room(of, from), room(of, on));
        let is_inside = from_room.is_some()
            && on_room.is_some()
            && (plan.floors.is_empty() || from_room == on_room);
        if is_inside && file(from) != file(on) {
            let on = self.uses.entry(file(from).clone()).or_default().entry(file(on).clone());
            on.or_insert_with(|| name.to_owned());
        }
    }
}

/// The room that a module is in; none for the root and what is in the root's file.
fn room(of: &Crate, module: usize) -> Option<&str> {
    (of.modules[module].file != 0)
        .then(|| of.modules[module].path.first().map(String::as_str))
        .flatten()
}

/// What is wrong with the rings, against the list of those that may be.
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

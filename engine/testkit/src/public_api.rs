//! Finds public methods that lack a test run of some type, from the sources, so that a new method
//! without one is detected.
//!
//! A method that is correct on one thread may fail beside other threads, and its effect may be lost
//! in a crash. So runs have types, and each method has to be in a run of each type.
//!
//! Invariants:
//! - Public methods are parsed from the crate's sources: `pub fn` in `impl Type`, and the methods
//!   of a trait, outside of tests.
//! - Calls of a run are parsed from its source: `.name(` for methods, `Type::name` for all; in
//!   macros, too, but not in comments and strings. A method of the same name of another type
//!   counts, too, because there is no type information.
//! - A reason for a missing run is an error if such a run calls the method, if there is no such
//!   method or type, and if it has no text.

#![allow(clippy::disallowed_methods, reason = "it reads sources, and nothing of a store")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::Visit;

use crate::modules::{files_below, is_test};

/// A public method: its type, its name, and whether it takes `self`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Method {
    /// The type.
    pub of: String,
    /// The name.
    pub name: String,
    /// Whether it takes `self`.
    pub takes_self: bool,
}

struct Methods<'a> {
    types: &'a [&'a str],
    found: BTreeSet<Method>,
}

impl<'ast> Visit<'ast> for Methods<'_> {
    fn visit_item_mod(&mut self, m: &'ast syn::ItemMod) {
        if !is_test(&m.attrs) {
            syn::visit::visit_item_mod(self, m);
        }
    }

    fn visit_item_trait(&mut self, t: &'ast syn::ItemTrait) {
        let of = t.ident.to_string();
        if !self.types.contains(&format!("trait {of}").as_str()) || is_test(&t.attrs) {
            return;
        }
        for item in &t.items {
            if let syn::TraitItem::Fn(f) = item {
                let (name, takes_self) = (f.sig.ident.to_string(), f.sig.receiver().is_some());
                self.found.insert(Method { of: of.clone(), name, takes_self });
            }
        }
    }

    fn visit_item_impl(&mut self, i: &'ast syn::ItemImpl) {
        let syn::Type::Path(path) = &*i.self_ty else { return };
        let of = path.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
        if i.trait_.is_some() || !self.types.contains(&of.as_str()) || is_test(&i.attrs) {
            return;
        }
        for item in &i.items {
            if let syn::ImplItem::Fn(f) = item
                && matches!(f.vis, syn::Visibility::Public(_))
                && !is_test(&f.attrs)
            {
                let (name, takes_self) = (f.sig.ident.to_string(), f.sig.receiver().is_some());
                self.found.insert(Method { of: of.clone(), name, takes_self });
            }
        }
    }
}

/// Returns a file, or the sources below a directory.
fn sources(path: &Path) -> Result<Vec<PathBuf>, String> {
    if path.is_dir() { files_below(path) } else { Ok(vec![path.to_path_buf()]) }
}

fn text(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}

fn parse(file: &Path) -> Result<syn::File, String> {
    syn::parse_file(&text(file)?).map_err(|e| format!("{}: {e}", file.display()))
}

/// Returns the public methods of these types, and of the traits named `trait Name`, in the sources
/// below `src`.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn methods(src: &Path, types: &[&str]) -> Result<BTreeSet<Method>, String> {
    let mut all = Methods { types, found: BTreeSet::new() };
    for file in sources(src)? {
        all.visit_file(&parse(&file)?);
    }
    Ok(all.found)
}

/// Calls of a source.
#[derive(Debug, Default)]
struct RunCalls {
    /// Names after a dot.
    on_values: BTreeSet<String>,
    /// `Type::name`.
    by_path: BTreeSet<String>,
}

impl RunCalls {
    fn scan(&mut self, tokens: TokenStream) {
        let all: Vec<TokenTree> = tokens.into_iter().collect();
        let punct =
            |i: usize, c: char| matches!(all.get(i), Some(TokenTree::Punct(p)) if p.as_char() == c);
        let ident = |i: usize| match all.get(i) {
            Some(TokenTree::Ident(name)) => Some(name.to_string()),
            _ => None,
        };
        for i in 0..all.len() {
            if let TokenTree::Group(g) = &all[i] {
                self.scan(g.stream());
            }
            let called = |at: usize| {
                matches!(all.get(at), Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Parenthesis)
                    || punct(at, ':')
            };
            if punct(i, '.')
                && let Some(name) = ident(i + 1)
                && called(i + 2)
            {
                self.on_values.insert(name);
            }
            if let (Some(of), Some(name)) = (ident(i), ident(i + 3))
                && punct(i + 1, ':')
                && punct(i + 2, ':')
            {
                self.by_path.insert(format!("{of}::{name}"));
            }
        }
    }
}

/// Test runs of one type.
pub struct Runs {
    /// The type, in one word.
    pub kind: &'static str,
    /// Their sources: files or directories.
    pub sources: Vec<PathBuf>,
}

/// Parses the reasons in a file, by method and type. A line is `Type::name Type::other | kind other
/// | text`; empty lines and those that begin with `#` are ignored.
fn reasons(text: &str) -> Result<BTreeMap<(String, String), &str>, String> {
    let mut all = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        let &[methods, kinds, words] = &parts[..] else {
            return Err(format!("{line}: not of three parts"));
        };
        for method in methods.split_whitespace() {
            for kind in kinds.split_whitespace() {
                if all.insert((method.to_owned(), kind.to_owned()), words).is_some() {
                    return Err(format!("{method}: two reasons for {kind}"));
                }
            }
        }
    }
    Ok(all)
}

/// Checks that every public method of `types` in the sources below `src` is called by a run of each
/// type, or has a reason in the file `reasons`. Returns the number of methods, and the number that
/// the runs of each type call.
///
/// # Errors
/// Methods without a run and without a reason, unnecessary reasons, and files that cannot be read
/// or parsed.
pub fn check(
    src: &Path,
    types: &[&str],
    runs: &[Runs],
    given: &Path,
) -> Result<(usize, Vec<usize>), String> {
    let methods = methods(src, types)?;
    let text_of_reasons = text(given)?;
    let mut given = reasons(&text_of_reasons)?;
    let (mut wrong, mut called) = (vec![], vec![]);
    for Runs { kind, sources: places } in runs {
        let mut calls = RunCalls::default();
        for place in places {
            for file in sources(place)? {
                let tokens = text(&file)?.parse();
                calls.scan(tokens.map_err(|e| format!("{}: {e}", file.display()))?);
            }
        }
        let mut n = 0;
        for m in &methods {
            let path = format!("{}::{}", m.of, m.name);
            let is_called = calls.by_path.contains(&path)
                || (m.takes_self && calls.on_values.contains(&m.name));
            n += usize::from(is_called);
            match (is_called, given.remove(&(path.clone(), (*kind).to_owned()))) {
                (true, Some(_)) => {
                    wrong.push(format!("{path}: a run of {kind} calls it, so its reason must go"))
                }
                (false, None) => {
                    wrong.push(format!("{path}: in no run of {kind}, and no reason why not"))
                }
                (false, Some("")) => {
                    wrong.push(format!("{path}: its reason for {kind} has no words"))
                }
                _ => {}
            }
        }
        called.push(n);
    }
    wrong.extend(
        given
            .keys()
            .map(|(path, kind)| format!("{path}: there is no such method, or no kind {kind:?}")),
    );
    if wrong.is_empty() { Ok((methods.len(), called)) } else { Err(wrong.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
        pub struct Tree;
        impl Tree {
            /// Never calls `.hidden(` though it is written here.
            pub fn open() {}
            pub fn put(&self) {}
            pub fn merge(&self) {}
            pub(crate) fn inner(&self) {}
            fn own(&self) {}
        }
        impl Clone for Tree { fn clone(&self) -> Tree { Tree } }
        pub trait Other { fn passed_over(&self); }
        #[cfg(test)]
        mod tests { impl super::Tree { pub fn only_here(&self) {} } }
    ";

    fn checked(model: &str, threads: &str, reasons: &str) -> Result<(usize, Vec<usize>), String> {
        let hash = [model, threads, reasons]
            .concat()
            .bytes()
            .fold(7u64, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
        let dir =
            std::env::temp_dir().join(format!("firn-public-api-{}-{hash:x}", std::process::id()));
        std::fs::create_dir_all(dir.join("src")).unwrap();
        std::fs::write(dir.join("src/lib.rs"), SOURCE).unwrap();
        std::fs::write(dir.join("model.rs"), model).unwrap();
        std::fs::write(dir.join("threads.rs"), threads).unwrap();
        std::fs::write(dir.join("reasons.txt"), reasons).unwrap();
        let runs = ["model", "threads"]
            .map(|kind| Runs { kind, sources: vec![dir.join(format!("{kind}.rs"))] });
        let done = check(&dir.join("src"), &["Tree"], &runs, &dir.join("reasons.txt"));
        std::fs::remove_dir_all(dir).unwrap();
        done
    }

    const ALL: &str = "fn f() { let t = Tree::open(); t.put(); assert!(t.merge::<u8>()); }";

    #[test]
    fn uncalled_methods_need_a_reason() {
        assert_eq!(checked(ALL, ALL, ""), Ok((3, vec![3, 3])));
        let some = "fn f() { Tree::open(); /* t.put() */ let s = \"t.merge()\"; t.put() }";
        assert_eq!(
            checked(ALL, some, "").unwrap_err(),
            "Tree::merge: in no run of threads, and no reason why not"
        );
        assert_eq!(
            checked(some, ALL, "").unwrap_err(),
            "Tree::merge: in no run of model, and no reason why not"
        );
        assert_eq!(
            checked(ALL, some, "# why\nTree::merge | threads | it folds nothing yet"),
            Ok((3, vec![3, 2]))
        );
        assert_eq!(
            checked("", "", "Tree::open Tree::put Tree::merge | model threads | to come"),
            Ok((3, vec![0, 0]))
        );
        assert!(checked(ALL, some, "Tree::merge | threads |").unwrap_err().contains("no words"));
        assert!(checked(ALL, some, "Tree::merge threads").unwrap_err().contains("three parts"));
    }

    #[test]
    fn methods_of_traits_are_public() {
        let dir = std::env::temp_dir().join(format!("firn-public-trait-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(
            dir.join("lib.rs"),
            "pub trait Readable { fn get(&self); } pub trait Other { fn put(&self); }",
        )
        .unwrap();
        let found = methods(&dir, &["trait Readable"]).unwrap();
        std::fs::remove_dir_all(dir).unwrap();
        assert_eq!(found.into_iter().map(|m| m.name).collect::<Vec<_>>(), ["get"]);
    }

    #[test]
    fn reasons_that_are_not_needed_are_wrong() {
        assert!(
            checked(ALL, ALL, "Tree::put | threads | because").unwrap_err().contains("must go")
        );
        assert!(
            checked(ALL, ALL, "Tree::only_here | model | because")
                .unwrap_err()
                .contains("no such method")
        );
        assert!(
            checked(ALL, ALL, "Tree::put | sleep | because")
                .unwrap_err()
                .contains("no kind \"sleep\"")
        );
        assert!(
            checked(ALL, "", "Tree::put | threads | a\nTree::put | threads | b")
                .unwrap_err()
                .contains("two reasons")
        );
        assert!(
            checked(ALL, "fn f() { t.open(); t.put(); t.merge(); }", "")
                .unwrap_err()
                .contains("Tree::open"),
            "no method"
        );
    }
}

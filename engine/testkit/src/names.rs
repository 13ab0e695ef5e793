//! Names in the sources of a workspace: types that share a name, and public functions that are
//! never called.
//!
//! Invariants:
//! - Test-only code declares nothing here, but its calls count.
//! - A name is called if it occurs in code, except after `fn`; code blocks in comments and pages
//!   count, too. Without type information, a function counts as called if any function of its name
//!   is called.

#![allow(clippy::disallowed_methods, reason = "it reads sources, and nothing of a store")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::modules::{Crate, is_test};

/// Names with the files that declare them.
pub type Declared = BTreeMap<String, BTreeSet<PathBuf>>;

/// Declarations in the files of a crate.
#[derive(Debug, Default)]
pub struct Names {
    /// Structs, enums, unions, traits and type aliases, except those in functions.
    pub types: Declared,
    /// Public functions and methods.
    pub functions: Declared,
}

struct Declarations<'a> {
    file: &'a Path,
    names: &'a mut Names,
}

impl Declarations<'_> {
    fn of_type(&mut self, name: &syn::Ident, attributes: &[syn::Attribute]) {
        if !is_test(attributes) {
            self.names.types.entry(name.to_string()).or_default().insert(self.file.to_path_buf());
        }
    }

    fn of_function(
        &mut self,
        seen: &syn::Visibility,
        name: &syn::Ident,
        attributes: &[syn::Attribute],
    ) {
        if matches!(seen, syn::Visibility::Public(_)) && !is_test(attributes) {
            self.names.functions.entry(name.to_string()).or_default().insert(self.file.into());
        }
    }
}

impl<'ast> Visit<'ast> for Declarations<'_> {
    fn visit_item_mod(&mut self, m: &'ast syn::ItemMod) {
        if !is_test(&m.attrs) {
            visit::visit_item_mod(self, m);
        }
    }

    fn visit_block(&mut self, _: &'ast syn::Block) {}

    fn visit_item_struct(&mut self, i: &'ast syn::ItemStruct) {
        self.of_type(&i.ident, &i.attrs);
    }

    fn visit_item_enum(&mut self, i: &'ast syn::ItemEnum) {
        self.of_type(&i.ident, &i.attrs);
    }

    fn visit_item_union(&mut self, i: &'ast syn::ItemUnion) {
        self.of_type(&i.ident, &i.attrs);
    }

    fn visit_item_trait(&mut self, i: &'ast syn::ItemTrait) {
        self.of_type(&i.ident, &i.attrs);
    }

    fn visit_item_type(&mut self, i: &'ast syn::ItemType) {
        self.of_type(&i.ident, &i.attrs);
    }

    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        self.of_function(&f.vis, &f.sig.ident, &f.attrs);
    }

    fn visit_item_impl(&mut self, i: &'ast syn::ItemImpl) {
        if i.trait_.is_none() && !is_test(&i.attrs) {
            visit::visit_item_impl(self, i);
        }
    }

    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        self.of_function(&f.vis, &f.sig.ident, &f.attrs);
    }
}

fn text(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}

impl Names {
    /// Adds the declarations of a crate, from its root: a `lib.rs` or a program's file.
    ///
    /// # Errors
    /// A file that cannot be read or parsed.
    pub fn read(&mut self, root: &Path) -> Result<(), String> {
        let all = Crate::read(root)?;
        let selected: BTreeSet<usize> =
            all.modules.iter().filter(|m| !m.is_test).map(|m| m.file).collect();
        let dir = root.parent().unwrap_or(root);
        for file in selected.into_iter().filter_map(|at| all.files.get(at)) {
            let path = dir.join(file);
            self.declare(&path, &text(&path)?)?;
        }
        Ok(())
    }

    /// Adds the declarations of a source.
    ///
    /// # Errors
    /// A source that cannot be parsed.
    pub fn declare(&mut self, file: &Path, source: &str) -> Result<(), String> {
        let parsed = syn::parse_file(source).map_err(|e| format!("{}: {e}", file.display()))?;
        Declarations { file, names: self }.visit_file(&parsed);
        Ok(())
    }
}

/// The names used in code, except in declarations of functions.
#[derive(Debug, Default)]
pub struct Calls(BTreeSet<String>);

impl Calls {
    /// Adds a file: a source, or a page of text.
    ///
    /// # Errors
    /// A file that cannot be read, or a source that cannot be tokenized.
    pub fn read(&mut self, file: &Path) -> Result<(), String> {
        let text = text(file)?;
        if file.extension().is_some_and(|e| e == "rs") {
            self.source(&text).map_err(|e| format!("{}: {e}", file.display()))
        } else {
            self.fenced(text.lines());
            Ok(())
        }
    }

    /// Adds a source, with the code in its comments.
    ///
    /// # Errors
    /// A source that cannot be tokenized.
    pub fn source(&mut self, text: &str) -> Result<(), String> {
        self.tokens(text.parse::<TokenStream>().map_err(|e| e.to_string())?);
        let comment =
            |line: &str| line.strip_prefix("///").or(line.strip_prefix("//!")).map(str::to_owned);
        let comments: Vec<String> = text.lines().map(str::trim).filter_map(comment).collect();
        self.fenced(comments.iter().map(String::as_str));
        Ok(())
    }

    fn tokens(&mut self, tokens: TokenStream) {
        let mut declares = false;
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(name) => {
                    let name = name.to_string();
                    if !std::mem::replace(&mut declares, name == "fn") {
                        self.0.insert(name);
                    }
                    continue;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            declares = false;
        }
    }

    fn fenced<'t>(&mut self, lines: impl Iterator<Item = &'t str>) {
        let mut inside = false;
        for line in lines {
            if line.trim_start().starts_with("```") {
                inside = !inside;
            } else if inside {
                let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
                self.0.extend(words.map(str::to_owned));
            }
        }
    }

    /// Reports whether some code uses this name.
    #[must_use]
    pub fn say(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(source: &str) -> Names {
        let mut names = Names::default();
        names.declare(Path::new("a.rs"), source).unwrap();
        names
    }

    #[test]
    fn types_are_those_that_others_could_meet() {
        let found = names(
            "struct A; mod m { enum B { C } } trait D { type E; fn f(); } type G = u8; union H { a: u8 }
             fn f() { struct Local; }
             impl D for A { type E = u8; fn f() {} }
             #[cfg(test)] struct T; #[cfg(test)] mod tests { struct U; }",
        );
        let found: Vec<_> = found.types.keys().map(String::as_str).collect();
        assert_eq!(found, ["A", "B", "D", "G", "H"]);
    }

    #[test]
    fn functions_are_the_public_ones_that_are_no_traits() {
        let found = names(
            "pub fn a() {} pub(crate) fn b() {} fn c() {} impl S { pub fn d(&self) {} fn e() {} }
             impl T for S { fn f() {} } #[cfg(test)] pub fn g() {} #[cfg(test)] impl S { pub fn h() {} }",
        );
        let found: Vec<_> = found.functions.keys().map(String::as_str).collect();
        assert_eq!(found, ["a", "d"]);
    }

    #[test]
    fn declarations_and_comments_are_not_calls() {
        let mut calls = Calls::default();
        calls
            .source(
                "//! [`linked`] is a link.\n//!\n//! ```\n//! shown();\n//! ```\n
                 /// As linked.\npub fn declared() { called(); value.method(); \"literal\";
                 given!(in_macro()) }",
            )
            .unwrap();
        for name in ["shown", "called", "method", "in_macro"] {
            assert!(calls.say(name), "{name}");
        }
        for name in ["linked", "declared", "literal"] {
            assert!(!calls.say(name), "{name}");
        }
    }
}

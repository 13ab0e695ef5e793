//! The module tree of a crate from its sources: the names that each module uses, and their
//! definitions.
//!
//! Invariants:
//! - Whole files are parsed, including all files of `mod` declarations: in another file, with
//!   `#[path]`, or for tests only.
//! - A *reference* is a path in non-test code: in a `use` with groups, renames and globs, in an
//!   expression, a type, a pattern, an attribute and its strings, and in macro arguments. Macro
//!   arguments are only tokens, so every sequence that looks like a path counts.
//! - A path is resolved through re-exports and globs to the module that defines its name. An
//!   unresolved path belongs to another crate or is a local.
//! - Namespaces are not distinguished: if a module and a function have the same name, a path may
//!   resolve to both.

#![allow(clippy::disallowed_methods, reason = "it reads sources, and nothing of a store")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};

/// The meaning of a name in a module.
enum NamedItem {
    Module(usize),
    /// Defined in the module itself.
    Own,
    /// A path imported under the name by a `use`.
    Import(Vec<String>),
}

impl NamedItem {
    fn is_module(&self) -> bool {
        matches!(self, NamedItem::Module(_))
    }
}

/// A module, in its own file or inline.
pub struct Module {
    /// The path from the root.
    pub path: Vec<String>,
    /// Index of its file in [`Crate::files`].
    pub file: usize,
    /// Whether it is only compiled for tests.
    pub is_test: bool,
    parent: Option<usize>,
    names: BTreeMap<String, Vec<NamedItem>>,
    globs: Vec<Vec<String>>,
}

/// The context of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// In code.
    Code,
    /// In a private `use`.
    Use,
    /// In a public `use`.
    ReExport,
}

/// A use of a path.
pub struct Reference {
    /// The module that uses it.
    pub from: usize,
    /// The context.
    pub how: ReferenceKind,
    /// The segments.
    pub path: Vec<String>,
}

/// An inherent method.
pub struct ModuleMethod {
    /// The module of the `impl`.
    pub module: usize,
    /// The type, as written in the `impl`.
    pub of: Vec<String>,
    /// Its name.
    pub name: String,
    /// Number of arguments in addition to `self`.
    pub arguments: usize,
}

/// A crate: all modules reachable from its root.
#[derive(Default)]
pub struct Crate {
    /// Files below the directory of the root; the first is the root.
    pub files: Vec<PathBuf>,
    /// Modules; the first is the root.
    pub modules: Vec<Module>,
    /// References outside of tests.
    pub references: Vec<Reference>,
    /// Methods in `impl Type`, outside of tests.
    pub methods: Vec<ModuleMethod>,
    /// Method calls outside of tests: calling module, method name, number of arguments.
    pub calls: BTreeSet<(usize, String, usize)>,
    /// Files that do not begin with `//!`.
    pub silent: Vec<PathBuf>,
}

/// Result of resolving a path.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The modules that define the name.
    pub owners: BTreeSet<usize>,
    /// The modules that are named themselves.
    pub named: BTreeSet<usize>,
    /// All modules on the way, including these.
    pub passed: BTreeSet<usize>,
}

/// Returns all `.rs` files below a directory, sorted.
///
/// # Errors
/// An unreadable directory.
pub fn files_below(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let said = |e: std::io::Error| format!("{}: {e}", dir.display());
    let mut entries = vec![];
    for entry in std::fs::read_dir(dir).map_err(said)? {
        entries.push(entry.map_err(said)?.path());
    }
    entries.sort();
    let mut files = vec![];
    for path in entries {
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Reports whether an item is only compiled for tests: `cfg(test)`, possibly with more conditions;
/// `any(test, …)` and `not(test)` are compiled otherwise, too.
#[must_use]
pub fn is_test(attributes: &[syn::Attribute]) -> bool {
    fn asks(meta: &syn::Meta) -> bool {
        let inner = |l: &syn::MetaList| {
            l.parse_args_with(Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated)
                .unwrap_or_default()
        };
        match meta {
            syn::Meta::Path(p) => p.is_ident("test"),
            syn::Meta::List(l) if l.path.is_ident("all") => inner(l).iter().any(asks),
            syn::Meta::List(l) if l.path.is_ident("any") => {
                !inner(l).is_empty() && inner(l).iter().all(asks)
            }
            _ => false,
        }
    }
    let is_cfg = |a: &syn::Attribute| {
        a.path().is_ident("cfg") && a.parse_args().is_ok_and(|m: syn::Meta| asks(&m))
    };
    attributes.iter().any(|a| a.path().is_ident("test") || is_cfg(a))
}

impl Crate {
    /// Reads a crate from its root, a `lib.rs` or a program's file.
    ///
    /// # Errors
    /// A file that cannot be read or parsed, and a module without a file.
    pub fn read(root: &Path) -> Result<Crate, String> {
        let mut all = Crate::default();
        let src = root.parent().unwrap_or(Path::new(""));
        all.add_module(None, String::new(), 0, false);
        all.read_file(src, root, 0)?;
        Ok(all)
    }

    fn add_module(
        &mut self,
        parent: Option<usize>,
        name: String,
        file: usize,
        is_test: bool,
    ) -> usize {
        let id = self.modules.len();
        let mut path = vec![];
        if let Some(parent) = parent {
            path.clone_from(&self.modules[parent].path);
            path.push(name.clone());
            self.modules[parent].names.entry(name).or_default().push(NamedItem::Module(id));
        }
        self.modules.push(Module {
            path,
            file,
            is_test,
            parent,
            names: BTreeMap::new(),
            globs: vec![],
        });
        id
    }

    fn read_file(&mut self, src: &Path, file: &Path, module: usize) -> Result<(), String> {
        let said = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
        let text = std::fs::read_to_string(file).map_err(|e| said(&e))?;
        let parsed = syn::parse_file(&text).map_err(|e| said(&e))?;
        let path = file.strip_prefix(src).unwrap_or(file).to_path_buf();
        if !text.starts_with("//!") {
            self.silent.push(path.clone());
        }
        self.modules[module].file = self.files.len();
        self.files.push(path);
        let parent = file.parent().unwrap_or(Path::new("")).to_path_buf();
        let stem = file.file_stem().unwrap_or_default();
        let owns_folder = module == 0 || stem == "mod";
        let folder = if owns_folder { parent.clone() } else { parent.join(stem) };
        let mut reader = ModuleReader {
            all: self,
            module,
            folder,
            beside: Some(parent),
            to_read: vec![],
            wrong: vec![],
        };
        reader.visit_file(&parsed);
        let (to_read, wrong) = (reader.to_read, reader.wrong);
        if let Some(first) = wrong.first() {
            return Err(said(first));
        }
        to_read.iter().try_for_each(|(module, file)| self.read_file(src, file, *module))
    }

    /// Resolves a path used in a module.
    #[must_use]
    pub fn find(&self, from: usize, path: &[String]) -> Found {
        let mut walk =
            ModuleWalk { all: self, globs: true, found: Found::default(), seen: BTreeSet::new() };
        walk.follow(from, path);
        walk.found
    }
}

struct ModuleWalk<'a> {
    all: &'a Crate,
    /// Whether to search globs; the path of a glob itself is resolved without globs.
    globs: bool,
    found: Found,
    seen: BTreeSet<(usize, Vec<String>)>,
}

impl ModuleWalk<'_> {
    fn follow(&mut self, from: usize, path: &[String]) -> bool {
        let (mut at, mut rest) = (from, path);
        while let [first, more @ ..] = rest {
            at = match &**first {
                "crate" => 0,
                "self" => at,
                "super" => self.all.modules[at].parent.unwrap_or(0),
                _ => break,
            };
            rest = more;
        }
        self.look(at, rest)
    }

    /// Searches for a name.
    fn look(&mut self, at: usize, rest: &[String]) -> bool {
        // Cyclic definitions are impossible in a valid program.
        if rest.len() > 32 || !self.seen.insert((at, rest.to_vec())) {
            return false;
        }
        let [first, more @ ..] = rest else {
            self.found.passed.insert(at);
            self.found.named.insert(at);
            return true;
        };
        let mut is_there = false;
        let module = &self.all.modules[at];
        for named in module.names.get(first).into_iter().flatten() {
            is_there = true;
            match named {
                NamedItem::Module(inner) => self.enter(*inner, more),
                NamedItem::Own => {
                    self.found.owners.insert(at);
                    self.found.passed.insert(at);
                }
                // Before `::` a module takes precedence over other items of the same name.
                NamedItem::Import(_)
                    if !more.is_empty() && module.names[first].iter().any(NamedItem::is_module) => {
                }
                // `use x::x` refers to a module x or a crate, not to itself.
                NamedItem::Import(path) if path.first() == Some(first) => {
                    let path: Vec<String> = path[1..].iter().chain(more).cloned().collect();
                    for named in &module.names[first] {
                        if let NamedItem::Module(inner) = named {
                            self.found.passed.insert(at);
                            self.enter(*inner, &path);
                        }
                    }
                }
                NamedItem::Import(path) => {
                    self.found.passed.insert(at);
                    self.follow(at, &path.iter().chain(more).cloned().collect::<Vec<_>>());
                }
            }
        }
        for glob in if self.globs { &module.globs[..] } else { &[] } {
            let mut walk = ModuleWalk {
                all: self.all,
                globs: false,
                found: Found::default(),
                seen: BTreeSet::new(),
            };
            walk.follow(at, glob);
            for inner in walk.found.named {
                is_there |= self.look(inner, rest);
            }
        }
        is_there
    }

    /// Enters a module. A name that it lacks was defined by a macro there.
    fn enter(&mut self, inner: usize, rest: &[String]) {
        self.found.passed.insert(inner);
        if !self.look(inner, rest) {
            self.found.owners.insert(inner);
        }
    }
}

/// Fills a crate from one file.
struct ModuleReader<'a> {
    all: &'a mut Crate,
    module: usize,
    /// Directory of the files of inner modules.
    folder: PathBuf,
    /// Base directory of a `#[path]`; inside an inline module that is `folder`.
    beside: Option<PathBuf>,
    to_read: Vec<(usize, PathBuf)>,
    wrong: Vec<String>,
}

impl ModuleReader<'_> {
    fn own(&mut self, name: &syn::Ident) {
        self.all.modules[self.module]
            .names
            .entry(name.to_string())
            .or_default()
            .push(NamedItem::Own);
    }

    fn refer(&mut self, how: ReferenceKind, path: Vec<String>) {
        if !self.all.modules[self.module].is_test {
            self.all.references.push(Reference { from: self.module, how, path });
        }
    }

    fn call(&mut self, method: &syn::Ident, arguments: usize) {
        if !self.all.modules[self.module].is_test {
            self.all.calls.insert((self.module, method.to_string(), arguments));
        }
    }

    fn read_use(&mut self, tree: &syn::UseTree, how: ReferenceKind, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(p) => {
                before.push(p.ident.to_string());
                self.read_use(&p.tree, how, before);
                before.pop();
            }
            syn::UseTree::Group(g) => g.items.iter().for_each(|t| self.read_use(t, how, before)),
            syn::UseTree::Name(n) => self.import(before, &n.ident, &n.ident, how),
            syn::UseTree::Rename(r) => self.import(before, &r.ident, &r.rename, how),
            syn::UseTree::Glob(_) => {
                self.refer(how, before.clone());
                self.all.modules[self.module].globs.push(before.clone());
            }
        }
    }

    fn import(
        &mut self,
        before: &[String],
        name: &syn::Ident,
        called: &syn::Ident,
        how: ReferenceKind,
    ) {
        let mut path = before.to_vec();
        let mut called = called.to_string();
        if name == "self" {
            called =
                if called == "self" { before.last().cloned().unwrap_or_default() } else { called };
        } else {
            path.push(name.to_string());
        }
        self.refer(how, path.clone());
        self.all.modules[self.module]
            .names
            .entry(called)
            .or_default()
            .push(NamedItem::Import(path));
    }

    /// Finds paths in tokens with unknown grammar.
    fn scan(&mut self, tokens: TokenStream) {
        self.scan_behind(tokens, &[]);
    }

    /// `before` is the path before a group, which the first path in the group continues.
    fn scan_behind(&mut self, tokens: TokenStream, before: &[String]) {
        let all: Vec<TokenTree> = tokens.into_iter().collect();
        let punct = |at: usize, c: char| matches!(all.get(at), Some(TokenTree::Punct(p)) if p.as_char() == c);
        let joined = |at: usize| punct(at, ':') && punct(at + 1, ':');
        let mut at = 0;
        while at < all.len() {
            let starts = before.is_empty() || at == 0 || punct(at - 1, ',');
            match &all[at] {
                TokenTree::Ident(first) if starts => {
                    let is_method = at > 0 && punct(at - 1, '.') && !(at > 1 && punct(at - 2, '.'));
                    let elsewhere = at >= 2 && joined(at - 2) && before.is_empty();
                    let mut path = before.to_vec();
                    path.push(first.to_string());
                    while joined(at + 1)
                        && let Some(TokenTree::Ident(next)) = all.get(at + 3)
                    {
                        path.push(next.to_string());
                        at += 3;
                    }
                    match all.get(at + 3) {
                        _ if is_method => {
                            let group = all[at + 1..].iter().find_map(|t| match t {
                                TokenTree::Group(g) => Some(g.stream()),
                                _ => None,
                            });
                            let arguments =
                                Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated;
                            if let Some(Ok(arguments)) = group.map(|g| arguments.parse2(g)) {
                                self.call(first, arguments.len());
                            }
                        }
                        _ if elsewhere => {}
                        Some(TokenTree::Group(g)) if joined(at + 1) => {
                            self.scan_behind(g.stream(), &path);
                            at += 3;
                        }
                        // `pub(crate)`: a visibility is no import.
                        _ if path.len() == 1 && ["crate", "self", "super"].contains(&&*path[0]) => {
                        }
                        _ => self.refer(ReferenceKind::Code, path),
                    }
                }
                TokenTree::Group(g) => self.scan(g.stream()),
                _ => {}
            }
            at += 1;
        }
    }
}

fn attributes_of(e: &syn::Expr) -> &[syn::Attribute] {
    match e {
        syn::Expr::Assign(e) => &e.attrs,
        syn::Expr::Block(e) => &e.attrs,
        syn::Expr::Call(e) => &e.attrs,
        syn::Expr::ForLoop(e) => &e.attrs,
        syn::Expr::If(e) => &e.attrs,
        syn::Expr::Macro(e) => &e.attrs,
        syn::Expr::Match(e) => &e.attrs,
        syn::Expr::MethodCall(e) => &e.attrs,
        _ => &[],
    }
}

fn attributes_of_item(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(i) => &i.attrs,
        syn::Item::Enum(i) => &i.attrs,
        syn::Item::Fn(i) => &i.attrs,
        syn::Item::ForeignMod(i) => &i.attrs,
        syn::Item::Impl(i) => &i.attrs,
        syn::Item::Macro(i) => &i.attrs,
        syn::Item::Mod(i) => &i.attrs,
        syn::Item::Static(i) => &i.attrs,
        syn::Item::Struct(i) => &i.attrs,
        syn::Item::Trait(i) => &i.attrs,
        syn::Item::Type(i) => &i.attrs,
        syn::Item::Union(i) => &i.attrs,
        syn::Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for ModuleReader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test(attributes_of_item(item)) && !matches!(item, syn::Item::Mod(_)) {
            return;
        }
        match item {
            syn::Item::Const(i) => self.own(&i.ident),
            syn::Item::Enum(i) => self.own(&i.ident),
            syn::Item::Fn(i) => self.own(&i.sig.ident),
            syn::Item::Macro(i) => i.ident.iter().for_each(|name| self.own(name)),
            syn::Item::Static(i) => self.own(&i.ident),
            syn::Item::Struct(i) => self.own(&i.ident),
            syn::Item::Trait(i) => self.own(&i.ident),
            syn::Item::Type(i) => self.own(&i.ident),
            syn::Item::Union(i) => self.own(&i.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, m: &'ast syn::ItemMod) {
        let is_test = is_test(&m.attrs) || self.all.modules[self.module].is_test;
        let (name, file) = (m.ident.to_string(), self.all.modules[self.module].file);
        let module = self.all.add_module(Some(self.module), name.clone(), file, is_test);
        m.attrs.iter().for_each(|a| self.visit_attribute(a));
        let given = m.attrs.iter().find_map(|a| match &a.meta {
            syn::Meta::NameValue(v) if v.path.is_ident("path") => match &v.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(s), .. }) => Some(s.value()),
                _ => None,
            },
            _ => None,
        });
        if let Some((_, items)) = &m.content {
            let outer = (self.module, self.folder.clone(), self.beside.take());
            (self.module, self.folder) = (module, self.folder.join(given.unwrap_or(name)));
            items.iter().for_each(|i| self.visit_item(i));
            (self.module, self.folder, self.beside) = outer;
            return;
        }
        // Integration tests that are a module of the library (`../tests/main.rs`) are not files of
        // it.
        if is_test && given.as_ref().is_some_and(|path| path.starts_with("../")) {
            return;
        }
        let file = match given {
            Some(path) => Some(self.beside.as_ref().unwrap_or(&self.folder).join(path)),
            None => [format!("{name}.rs"), format!("{name}/mod.rs")]
                .iter()
                .map(|f| self.folder.join(f))
                .find(|f| f.is_file()),
        };
        match file {
            Some(file) => self.to_read.push((module, file)),
            None => self.wrong.push(format!("mod {name} has no file")),
        }
    }

    fn visit_item_use(&mut self, u: &'ast syn::ItemUse) {
        let how = if matches!(u.vis, syn::Visibility::Inherited) {
            ReferenceKind::Use
        } else {
            ReferenceKind::ReExport
        };
        if u.leading_colon.is_none() {
            self.read_use(&u.tree, how, &mut vec![]);
        }
    }

    fn visit_item_impl(&mut self, i: &'ast syn::ItemImpl) {
        if let (None, syn::Type::Path(of)) = (&i.trait_, &*i.self_ty) {
            let of: Vec<String> = of.path.segments.iter().map(|s| s.ident.to_string()).collect();
            for item in &i.items {
                if let syn::ImplItem::Fn(f) = item
                    && f.sig.receiver().is_some()
                    && !is_test(&f.attrs)
                    && !self.all.modules[self.module].is_test
                {
                    let (of, name, arguments) =
                        (of.clone(), f.sig.ident.to_string(), f.sig.inputs.len() - 1);
                    self.all.methods.push(ModuleMethod {
                        module: self.module,
                        of,
                        name,
                        arguments,
                    });
                }
            }
        }
        visit::visit_item_impl(self, i);
    }

    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        if !is_test(&f.attrs) {
            visit::visit_impl_item_fn(self, f);
        }
    }

    fn visit_field(&mut self, f: &'ast syn::Field) {
        if !is_test(&f.attrs) {
            visit::visit_field(self, f);
        }
    }

    fn visit_field_value(&mut self, f: &'ast syn::FieldValue) {
        if !is_test(&f.attrs) {
            visit::visit_field_value(self, f);
        }
    }

    fn visit_variant(&mut self, v: &'ast syn::Variant) {
        if !is_test(&v.attrs) {
            visit::visit_variant(self, v);
        }
    }

    fn visit_arm(&mut self, a: &'ast syn::Arm) {
        if !is_test(&a.attrs) {
            visit::visit_arm(self, a);
        }
    }

    fn visit_local(&mut self, l: &'ast syn::Local) {
        if !is_test(&l.attrs) {
            visit::visit_local(self, l);
        }
    }

    fn visit_expr(&mut self, e: &'ast syn::Expr) {
        if !is_test(attributes_of(e)) {
            visit::visit_expr(self, e);
        }
    }

    fn visit_expr_method_call(&mut self, c: &'ast syn::ExprMethodCall) {
        self.call(&c.method, c.args.len());
        visit::visit_expr_method_call(self, c);
    }

    fn visit_path(&mut self, p: &'ast syn::Path) {
        if p.leading_colon.is_none() {
            self.refer(
                ReferenceKind::Code,
                p.segments.iter().map(|s| s.ident.to_string()).collect(),
            );
        }
        visit::visit_path(self, p);
    }

    fn visit_macro(&mut self, m: &'ast syn::Macro) {
        self.visit_path(&m.path);
        self.scan(m.tokens.clone());
    }

    fn visit_attribute(&mut self, a: &'ast syn::Attribute) {
        if a.path().is_ident("doc") {
            return;
        }
        match &a.meta {
            syn::Meta::Path(_) => {}
            syn::Meta::List(l) => {
                self.scan(l.tokens.clone());
                self.scan_strings(l.tokens.clone());
            }
            syn::Meta::NameValue(v) => visit::visit_expr(self, &v.value),
        }
    }

    // A visibility is no import.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

impl ModuleReader<'_> {
    /// Some attributes name a function in a string: `with = "crate::hex"`.
    fn scan_strings(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(g) => self.scan_strings(g.stream()),
                TokenTree::Literal(l) => {
                    let text: Option<syn::LitStr> = syn::parse_str(&l.to_string()).ok();
                    if let Some(path) =
                        text.and_then(|t| t.parse_with(syn::Path::parse_mod_style).ok())
                    {
                        self.visit_path(&path);
                    }
                }
                _ => {}
            }
        }
    }
}

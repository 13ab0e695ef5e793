//! Creates each type of violation in temporary sources, and checks that it is found.

#![allow(clippy::disallowed_methods, reason = "temporary directories")]

use super::*;

use std::sync::atomic::{AtomicU32, Ordering};

const PLAN: FloorPlan<'_> = FloorPlan {
    floors: &[("base", 0), ("env", 1), ("wal", 1), ("db", 2)],
    neighbours: &[("wal", "env")],
    rings: "",
};

fn checked_with(plan: &FloorPlan<'_>, files: &[(&str, &str)]) -> Result<(usize, usize), String> {
    static N: AtomicU32 = AtomicU32::new(0);
    let name = format!("firn-floors-{}-{}", std::process::id(), N.fetch_add(1, Ordering::Relaxed));
    let dir = std::env::temp_dir().join(name);
    let lib = "mod base; mod env; mod wal; mod db; pub use db::Db;";
    let top_modules = [
        ("lib.rs", lib),
        ("base/mod.rs", "pub fn x() {} mod key;"),
        ("base/key.rs", ""),
        ("env.rs", "pub fn y() {}"),
        ("wal/mod.rs", "pub fn g() {}"),
        ("db/mod.rs", "pub struct Db; pub fn go() {}"),
    ];
    for (file, text) in top_modules.iter().chain(files) {
        let path = dir.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let head = if text.starts_with("no words") { "" } else { "//! What it is.\n" };
        std::fs::write(path, format!("{head}{}", text.trim_start_matches("no words"))).unwrap();
    }
    let done = check(&dir, plan);
    std::fs::remove_dir_all(dir).unwrap();
    done
}

fn checked(files: &[(&str, &str)]) -> Result<(usize, usize), String> {
    checked_with(&PLAN, files)
}

#[test]
fn downwards_is_right() {
    let files = [
        (
            "db/mod.rs",
            "use crate::{base::x, env::{self, y}}; fn f() { crate::wal::g(); m!(crate::base::x) } mod own; use super::base; pub struct Db;",
        ),
        ("db/own.rs", "use super::super::wal as log; use super::f; use crate::db::f as again; thread_local! { pub(crate) static T: u8 = 0; pub(super) static U: u8 = 0; } fn h(at: log::Place) {}"),
        (
            "wal/mod.rs",
            "use crate::env; #[cfg(test)] mod far { use crate::db; } #[cfg(all(test, loom))] mod tests; mod inner { use super::env; use super::super::base; }
             #[cfg(test)] use crate::Db; struct S { #[cfg(test)] at: crate::db::Db, n: u32 }
             fn f() { #[cfg(test)] crate::db::go(); #[cfg(test)] let a = crate::db::go(); let crate_ = 1; }",
        ),
        ("wal/tests.rs", "use crate::db; use crate::Db; mod deep;"),
        ("wal/tests/deep.rs", "use crate::db::Db;"),
    ];
    assert_eq!(checked(&files), Ok((9, 11)));
}

/// In every syntax.
#[test]
fn upwards_and_sideways_is_wrong() {
    for text in [
        "use crate::db::Snapshot;",
        "use crate::{db::Snapshot};",
        "use crate::{base, db};",
        "use crate::{base::{x, key}, db::{self as d, go as h}};",
        "use crate::db::*;",
        "use crate::db as low;",
        "pub use crate::db::Db;",
        "pub(crate) use super::super::db::Db;",
        "fn f() { crate::db::go() }",
        "fn f(db: &crate::db::Db) {}",
        "fn f() -> impl Into<crate::db::Db> { }",
        "fn f() { use crate::db as d; d::go() }",
        "fn f() { use super::super as root; root::db::go() }",
        "impl From<crate::db::Db> for u8 {}",
        "m!(crate::db::go());",
        "m!({ use crate::{base, db}; });",
        "fn f() { println!(\"{}\", crate::db::go()) }",
        "macro_rules! m { () => { $crate::db::go() } }",
        "#[serde(with = \"crate::db\")] struct S;",
        "#[derive(crate::db::Derive)] struct S;",
        "use super::super::db;",
        "mod inner { use super::super::super::db; }",
        "mod inner { pub mod deep { fn f() { crate::db::go() } } }",
        "#[cfg(test)] mod tests { } use crate::db;",
        "#[cfg(any(test, fuzzing))] use crate::db;",
        "#[cfg(not(test))] use crate::db;",
        "use crate::wal;",
        "fn a() {}\n\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\n\nfn c() { crate::db::go() }",
    ] {
        let e = checked(&[("base/key.rs", text)]).expect_err(text);
        assert!(
            e.contains("base/key.rs: base imports") && e.contains("lower floor"),
            "{text}: {e}"
        );
    }
    assert!(checked(&[("env.rs", "use super::db;")]).unwrap_err().contains("env imports db"));
    assert!(checked(&[("env.rs", "use crate::wal;")]).unwrap_err().contains("env imports wal"));
    let elsewhere = [
        ("base/mod.rs", "#[path = \"../deep/odd.rs\"] mod key;"),
        ("deep/odd.rs", "use crate::db;"),
        ("base/key.rs", ""),
    ];
    assert!(checked(&elsewhere).unwrap_err().contains("deep/odd.rs: base imports db"));
}

#[test]
fn a_reexport_carries_nothing_up() {
    // `base` may use `wal` if it is a neighbour; re-exports of `db` in `wal` still count as `db`.
    let plan = FloorPlan { neighbours: &[("base", "wal"), ("wal", "db")], ..PLAN };
    let files = [
        ("wal/mod.rs", "pub use crate::db::Db; pub fn g() {}"),
        ("base/key.rs", "use crate::wal::Db;"),
    ];
    let e = checked_with(&plan, &files).unwrap_err();
    assert!(e.contains("base/key.rs: base imports db (crate::wal::Db)"), "{e}");
    let globs = [
        ("wal/mod.rs", "pub use crate::db::*;"),
        ("base/key.rs", "use crate::wal; fn f(db: &wal::Db) {}"),
    ];
    assert!(checked_with(&plan, &globs).unwrap_err().contains("base imports db (wal::Db)"));
}

#[test]
fn modules_without_floors_and_names_without_modules_are_wrong() {
    let rogue = |text| {
        checked(&[
            ("lib.rs", "mod base; mod env; mod wal; mod db; mod rogue;"),
            ("rogue/mod.rs", text),
        ])
    };
    assert!(rogue("use crate::db;").unwrap_err().contains("the module rogue has no floor"));
    assert!(rogue("").unwrap_err().contains("rogue/mod.rs: the module rogue has no floor"));
    assert!(
        checked(&[("rogue.rs", "")])
            .unwrap_err()
            .contains("rogue.rs: no module leads to this file")
    );
    assert!(
        checked(&[("rogue/deep/file.rs", "")])
            .unwrap_err()
            .contains("rogue/deep/file.rs: no module leads")
    );
    assert!(checked(&[("base/a.rs", "")]).unwrap_err().contains("base/a.rs: no module leads"));
    assert!(
        checked(&[("base/key.rs", "use crate::Db;")])
            .unwrap_err()
            .contains("crate::Db is in no top-level module")
    );
    assert!(
        checked(&[("base/key.rs", "use super::super::Db;")])
            .unwrap_err()
            .contains("super::super::Db is in no top-level module")
    );
    assert!(
        checked(&[("base/key.rs", "use crate::*;")])
            .unwrap_err()
            .contains("crate is in no top-level module")
    );
    assert!(
        checked(&[("base/key.rs", "use crate::other::item;")])
            .unwrap_err()
            .contains("crate::other::item is in no top-level module")
    );
    assert!(
        checked(&[("base/key.rs", "no words")])
            .unwrap_err()
            .contains("base/key.rs: it does not open")
    );
    assert!(checked(&[("base/mod.rs", "mod away;")]).unwrap_err().contains("mod away has no file"));
    assert!(checked(&[("base/key.rs", "fn {")]).unwrap_err().contains("base/key.rs: "));
    let e = check(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").as_path(), &PLAN).unwrap_err();
    assert!(e.contains("there is no module wal"), "{e}");
}

/// Checks the files of `base`, which declares `a`, `b` and `c`, with a list of rings.
fn base(door: &str, a: &str, b: &str, c: &str, rings: &str) -> Result<(usize, usize), String> {
    let door = format!("mod a; mod b; mod c; mod key; {door}");
    let files = [("base/mod.rs", &*door), ("base/a.rs", a), ("base/b.rs", b), ("base/c.rs", c)];
    checked_with(&FloorPlan { rings, ..PLAN }, &files)
}

#[test]
fn files_of_a_module_that_use_each_other_are_a_ring() {
    let (a, b) = ("pub struct A; fn f() { super::b::g() }", "pub fn g(a: super::a::A) {}");
    let e = base("", a, b, "", "").unwrap_err();
    assert!(
        e.starts_with("a ring that is not in the list:\nbase/a.rs\nbase/b.rs\n  base/a.rs uses super::b::g of base/b.rs\n"),
        "{e}"
    );
    assert_eq!(base("", a, b, "", "# why\nbase/a.rs\nbase/b.rs\n"), Ok((9, 0)));
    let e = base("", a, "pub fn g() {}", "", "base/a.rs\nbase/b.rs").unwrap_err();
    assert_eq!(e, "a ring in the list is gone or another:\nbase/a.rs\nbase/b.rs");
    let e = base("", a, b, "use super::a::A; pub struct C;", "base/a.rs\nbase/b.rs\nbase/c.rs")
        .unwrap_err();
    assert!(
        e.contains("not in the list:\nbase/a.rs\nbase/b.rs\n ") && e.contains("gone or another"),
        "{e}"
    );
    assert_eq!(
        base("", "pub struct A;", b, "use super::b::g; use super::a::A;", ""),
        Ok((9, 0)),
        "an order"
    );
    assert_eq!(
        base("", a, "pub fn g() {} #[cfg(test)] mod tests { use crate::base::a::A; }", "", ""),
        Ok((9, 0)),
        "of tests"
    );
}

#[test]
fn a_door_hides_no_ring_and_makes_none() {
    let door = "pub use a::A; pub use b::*;";
    assert_eq!(
        base(door, "pub struct A;", "pub fn g(a: super::A) {}", "", ""),
        Ok((9, 0)),
        "only what is behind the door counts"
    );
    let e =
        base(door, "pub struct A; fn f() { crate::base::g() }", "pub fn g(a: super::A) {}", "", "")
            .unwrap_err();
    assert!(
        e.contains("base/a.rs uses crate::base::g of base/b.rs")
            && e.contains("base/b.rs uses super::A of base/a.rs"),
        "{e}"
    );
    let e = base(
        "pub use a::A; pub struct Own(A);",
        "pub struct A; fn f(own: super::Own) {}",
        "",
        "",
        "",
    )
    .unwrap_err();
    assert!(
        e.contains("base/a.rs uses super::Own of base/mod.rs")
            && e.contains("base/mod.rs uses A of base/a.rs"),
        "{e}"
    );
}

#[test]
fn methods_of_a_type_in_other_files_count() {
    let a = "pub struct A; impl A { pub fn start(&self) { self.go_on() } }";
    let b = "use super::a::A; impl A { pub fn go_on(&self) {} }";
    assert!(base("", a, b, "", "").unwrap_err().contains("base/a.rs uses .go_on() of base/b.rs"));
    assert!(
        base("", &a.replace("self.go_on()", "print!(\"{}\", self.go_on())"), b, "", "").is_err()
    );
    assert_eq!(base("", &a.replace("go_on", "other"), b, "", ""), Ok((9, 0)));
    assert_eq!(
        base("", &a.replace("go_on()", "go_on(1)"), b, "", ""),
        Ok((9, 0)),
        "of other arguments"
    );
    assert_eq!(
        base("", a, b, "pub struct C; impl C { fn go_on(&self) {} }", ""),
        Ok((9, 0)),
        "of two nobody knows which"
    );
}

#[test]
fn without_floors_all_files_are_of_one_module() {
    let plan = FloorPlan::default();
    let files = |env| {
        [
            ("env.rs", env),
            ("db/mod.rs", "use crate::env::y; pub struct Db;"),
            ("base/key.rs", "use crate::Db;"),
        ]
    };
    assert_eq!(checked_with(&plan, &files("pub fn y() {}")), Ok((6, 0)));
    let e = checked_with(&plan, &files("pub fn y() { crate::db::Db; }")).unwrap_err();
    assert!(e.starts_with("a ring that is not in the list:\ndb/mod.rs\nenv.rs\n"), "{e}");
    assert!(checked_with(&plan, &[("rogue.rs", "")]).unwrap_err().contains("no module leads"));
}

#[test]
fn a_module_goes_before_a_function_of_its_name() {
    let files = [
        ("lib.rs", "mod base; mod env; mod wal; mod db; pub use wal::wal;"),
        ("db/mod.rs", "use crate::wal::g; pub struct Db;"),
    ];
    assert_eq!(checked(&files), Ok((6, 1)));
}

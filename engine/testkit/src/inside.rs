//! Wrapper environments: delegates methods of a test's `Env` to an inner one by name. This crate
//! does not depend on the engine: the types are those of the test's `firn-kv`.

/// Methods of an `Env` that only call the one in the field `$inner`.
///
/// ```text
/// impl Env for Watching {
///     as_inside! { inner: list sync_dir file_len }
///     …
/// }
/// ```
#[macro_export]
macro_rules! as_inside {
    ($inner:ident: $($name:ident)*) => { $($crate::as_inside!(@ $inner $name);)* };
    (@ $inner:ident create_dir_all) => { $crate::as_inside!(= $inner create_dir_all(dir: &::std::path::Path) -> ::firn_kv::Result<()>); };
    (@ $inner:ident list) => { $crate::as_inside!(= $inner list(dir: &::std::path::Path) -> ::firn_kv::Result<Vec<String>>); };
    (@ $inner:ident sync_dir) => { $crate::as_inside!(= $inner sync_dir(dir: &::std::path::Path) -> ::firn_kv::Result<()>); };
    (@ $inner:ident file_len) => { $crate::as_inside!(= $inner file_len(file: &::std::path::Path) -> ::firn_kv::Result<u64>); };
    (@ $inner:ident open_read) => {
        $crate::as_inside!(= $inner open_read(file: &::std::path::Path, map: bool)
            -> ::firn_kv::Result<::std::sync::Arc<dyn ::firn_kv::fs::ReadFile>>);
    };
    (@ $inner:ident read_all) => {
        $crate::as_inside!(= $inner read_all(file: &::std::path::Path, cap: u64) -> ::firn_kv::Result<Vec<u8>>);
    };
    (@ $inner:ident create) => {
        $crate::as_inside!(= $inner create(file: &::std::path::Path) -> ::firn_kv::Result<Box<dyn ::firn_kv::fs::WriteFile>>);
    };
    (@ $inner:ident append) => {
        $crate::as_inside!(= $inner append(file: &::std::path::Path) -> ::firn_kv::Result<Box<dyn ::firn_kv::fs::WriteFile>>);
    };
    (@ $inner:ident create_log) => {
        $crate::as_inside!(= $inner create_log(file: &::std::path::Path, capacity: u64) -> ::firn_kv::Result<Box<dyn ::firn_kv::fs::LogFile>>);
    };
    (@ $inner:ident reuse_log) => {
        $crate::as_inside!(= $inner reuse_log(file: &::std::path::Path) -> ::firn_kv::Result<Box<dyn ::firn_kv::fs::LogFile>>);
    };
    (@ $inner:ident rename) => {
        $crate::as_inside!(= $inner rename(from: &::std::path::Path, to: &::std::path::Path) -> ::firn_kv::Result<()>);
    };
    (@ $inner:ident hard_link) => {
        $crate::as_inside!(= $inner hard_link(from: &::std::path::Path, to: &::std::path::Path) -> ::firn_kv::Result<()>);
    };
    (@ $inner:ident remove) => { $crate::as_inside!(= $inner remove(file: &::std::path::Path) -> ::firn_kv::Result<()>); };
    (@ $inner:ident remove_dir) => { $crate::as_inside!(= $inner remove_dir(dir: &::std::path::Path) -> ::firn_kv::Result<()>); };
    (@ $inner:ident lock) => {
        $crate::as_inside!(= $inner lock(file: &::std::path::Path) -> ::firn_kv::Result<Box<dyn ::firn_kv::fs::FileLock>>);
    };
    (@ $inner:ident free_space) => { $crate::as_inside!(= $inner free_space(dir: &::std::path::Path) -> Option<u64>); };
    (@ $inner:ident memory) => { $crate::as_inside!(= $inner memory() -> Option<u64>); };
    (@ $inner:ident wall_micros) => { $crate::as_inside!(= $inner wall_micros() -> u64); };
    (@ $inner:ident monotonic_nanos) => { $crate::as_inside!(= $inner monotonic_nanos() -> u64); };
    (@ $inner:ident sleep) => { $crate::as_inside!(= $inner sleep(time: ::std::time::Duration) -> ()); };
    (@ $inner:ident spawn) => {
        $crate::as_inside!(= $inner spawn(name: &str, work: Box<dyn FnOnce() + Send>) -> ::firn_kv::Result<Box<dyn ::firn_kv::fs::Thread>>);
    };
    (@ $inner:ident random) => { $crate::as_inside!(= $inner random() -> u64); };
    (= $inner:ident $name:ident($($arg:ident: $of:ty),*) -> $gives:ty) => {
        fn $name(&self, $($arg: $of),*) -> $gives { self.$inner.$name($($arg),*) }
    };
}

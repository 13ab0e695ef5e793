//! Firn behind the interfaces of other stores, so that the tests that those publish for anybody's
//! implementation run over it.
//!
//! Nothing of the suites is copied: their tests come from the registry's packages. A workspace of
//! its own, so that nobody who builds Firn builds these.

pub mod kvdb;

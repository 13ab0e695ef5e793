//! Test tools for Firn: a text-driven test runner, an operation generator and an oracle. A dev-dependency only.

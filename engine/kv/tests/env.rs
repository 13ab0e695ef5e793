//! The test environments of `firn-crash` keep the contract of every environment.

use std::path::Path;
use std::sync::Arc;

use firn_crash::{CrashEnv, FaultEnv};
use firn_kv::{Env, ErrorKind};

#[path = "../src/env/tests/contract.rs"]
#[allow(clippy::disallowed_methods, reason = "many threads write one log")]
mod contract;

fn with_every_env(test: impl Fn(&Arc<dyn Env>, &Path)) {
    let crash: Arc<dyn Env> = Arc::new(CrashEnv::new(1));
    let fault: Arc<dyn Env> = Arc::new(FaultEnv::new(Arc::new(CrashEnv::new(2))));
    for env in [crash, fault] {
        env.create_dir_all(Path::new("/tmp/test")).unwrap();
        test(&env, Path::new("/tmp/test"));
    }
}

//! Public types can be sent to and shared by threads, and errors fit into `Box<dyn Error>`. A field that takes
//! this away fails to compile here.

use firn_kv::stats::Stats;
use firn_kv::*;

const fn shared<T: Send + Sync + 'static>() {}
const fn sent<T: Send + 'static>() {}
const fn error<T: std::error::Error + Send + Sync + 'static>() {}

const _: () = {
    shared::<Db>();
    shared::<Tree>();
    shared::<TtlTree>();
    shared::<Snapshot>();
    shared::<Batch>();
    shared::<Value>();
    shared::<TtlValue>();
    shared::<DbOptions>();
    shared::<TreeOptions>();
    shared::<MemoryBudget>();
    shared::<OpenFiles>();
    shared::<Event>();
    shared::<Change>();
    shared::<Stats>();
    shared::<MemEnv>();
    sent::<Transaction>();
    sent::<Savepoint>();
    sent::<Cursor>();
    sent::<Range>();
    sent::<Keys>();
    sent::<TtlRange>();
    sent::<ChangeFeed>();
    sent::<Pause>();
    error::<Error>();
    error::<policy::PolicyError>();
};

#[test]
fn an_error_is_one_sentence_without_a_final_stop() {
    for e in [
        Db::open("").unwrap_err(),
        Db::in_memory().unwrap().existing_tree("missing").unwrap_err(),
        "leveled:ratio=1000000000000".parse::<Policy>().unwrap_err().into(),
    ] {
        let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(e);
        let text = boxed.to_string();
        assert!(!text.is_empty() && !text.ends_with(['.', '!', '\n']), "{text}");
    }
}

//! Spans and events of flushes and compactions that `tracing` receives. The test installs its own
//! subscriber.

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use firn_kv::{DbOptions, TracingListener};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::{key, options, piling};

/// Subscriber that records all spans and events.
#[derive(Clone, Default)]
struct Told {
    lines: Arc<Mutex<Vec<String>>>,
    next: Arc<AtomicU64>,
}

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Told {
    fn note(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }
}

impl Subscriber for Told {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "firn"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let mut words = Words(format!("new {id} {}", span.metadata().name()));
        span.record(&mut words);
        self.note(words.0);
        Id::from_u64(id)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = Words(event.metadata().level().to_string());
        event.record(&mut words);
        self.note(words.0);
    }

    fn enter(&self, id: &Id) {
        self.note(format!("enter {}", id.into_u64()));
    }

    fn exit(&self, id: &Id) {
        self.note(format!("exit {}", id.into_u64()));
    }

    fn try_close(&self, id: Id) -> bool {
        self.note(format!("close {}", id.into_u64()));
        true
    }
}

#[test]
fn flushes_and_compactions_are_spans() {
    let told = Told::default();
    tracing::subscriber::set_global_default(told.clone()).unwrap();
    let (_env, db) = super::open(DbOptions {
        listener: Some(Arc::new(TracingListener::default())),
        ..options()
    });
    let tree = db.tree("t", piling()).unwrap();
    for round in 0..2 {
        (0..100).for_each(|n| tree.put(key(2 * n + round), "value").unwrap());
        tree.flush().unwrap();
    }
    tree.compact().unwrap();
    drop((tree, db));
    let lines = told.lines.lock().unwrap();
    let starts = |at: usize, words: &str| assert!(lines[at].starts_with(words), "{at}: {lines:#?}");
    starts(0, "INFO message=the store has been opened seq=0");
    starts(1, "INFO message=a tree has been created tree=\"t\" id=1");
    starts(2, "DEBUG message=a tree has been opened tree=\"t\"");
    let mut at = 3;
    for (id, name, came) in [
        (1, "flush", "flushed entries=100"),
        (2, "flush", "flushed entries=100"),
        (3, "compaction", "compacted"),
    ] {
        starts(at, &format!("new {id} {name} tree=\"t\""));
        starts(at + 1, &format!("enter {id}"));
        starts(at + 2, &format!("INFO message={came}"));
        starts(at + 3, &format!("exit {id}"));
        starts(at + 4, &format!("close {id}"));
        at += 5;
    }
    assert_eq!(lines.len(), at, "{lines:#?}");
}

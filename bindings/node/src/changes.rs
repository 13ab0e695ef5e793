//! Subscriptions: durable change feeds.

use std::sync::{Arc, Mutex};

use firn_kv::{BatchOp, ChangePosition, DecodedOp};
use napi::bindgen_prelude::*;
use napi_derive::napi;

use crate::call::*;
use crate::read::NativeSnapshot;
use crate::store::NativeDb;

/// A subscription of a store.
#[napi]
pub struct NativeSubscription(Arc<Mutex<Option<firn_kv::Subscription>>>);

/// State of a subscription.
#[napi(object)]
pub struct NativeSubscriptionInfo {
    pub name: String,
    pub seq: i64,
    pub behind: i64,
    pub retained_bytes: i64,
    pub max_log_bytes: i64,
    pub snapshot_due: bool,
}

/// A change.
#[napi]
pub struct NativeChange {
    change: firn_kv::Change,
    position: ChangePosition,
}

/// An operation of a change. The value is that of a put, the operand of a merge, or the end of a
/// range.
#[napi(object, object_from_js = false)]
pub struct NativeOp {
    pub op: &'static str,
    pub tree: String,
    pub key: Bytes,
    pub value: Bytes,
    pub expires_micros: Option<f64>,
}

/// Converts a number that JavaScript has checked; it saturates.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[napi]
impl NativeDb {
    #[napi]
    pub fn subscribe(
        &self,
        name: String,
        max_log_bytes: f64,
        wait: bool,
    ) -> Result<Now<NativeSubscription>> {
        let db = self.0.clone();
        run(wait, move || {
            let subscription = db.subscribe(&name, max_log_bytes as u64)?;
            Ok(NativeSubscription(Arc::new(Mutex::new(Some(subscription)))))
        })
    }

    #[napi]
    pub fn subscriptions(&self) -> Result<Vec<NativeSubscriptionInfo>> {
        let info = |s: firn_kv::SubscriptionInfo| NativeSubscriptionInfo {
            name: s.name,
            seq: signed(s.seq),
            behind: signed(s.behind),
            retained_bytes: signed(s.retained_bytes),
            max_log_bytes: signed(s.max_log_bytes),
            snapshot_due: s.is_snapshot_due,
        };
        call(|| Ok(self.0.subscriptions().into_iter().map(info).collect()))
    }

    #[napi]
    pub fn drop_subscription(&self, name: String, wait: bool) -> Result<Now<()>> {
        let db = self.0.clone();
        run(wait, move || Ok(db.drop_subscription(&name)?))
    }
}

impl NativeSubscription {
    fn with<T: ToNapiValue + TypeName + Send + 'static>(
        &self,
        wait: bool,
        work: impl FnOnce(&mut firn_kv::Subscription) -> firn_kv::Result<T> + Send + 'static,
    ) -> Result<Now<T>> {
        let open = self.0.clone();
        run(wait, move || {
            let mut open = lock(&open);
            Ok(work(open.as_mut().ok_or_else(|| Failure::closed("subscription"))?)?)
        })
    }

    fn now<T>(&self, read: impl FnOnce(&firn_kv::Subscription) -> T) -> Result<T> {
        call(|| {
            let open = lock(&self.0);
            Ok(read(open.as_ref().ok_or_else(|| Failure::closed("subscription"))?))
        })
    }
}

#[napi]
impl NativeSubscription {
    #[napi]
    pub fn name(&self) -> Result<String> {
        self.now(|s| s.name().to_owned())
    }

    #[napi]
    pub fn snapshot_due(&self) -> Result<bool> {
        self.now(firn_kv::Subscription::is_snapshot_due)
    }

    #[napi]
    pub fn position(&self) -> Result<String> {
        self.now(|s| s.position().to_string())
    }

    #[napi]
    pub fn snapshot(&self, wait: bool) -> Result<Now<NativeSnapshot>> {
        self.with(wait, |s| s.snapshot().map(NativeSnapshot::new))
    }

    /// Returns the next change, or nothing if there is none yet.
    #[napi]
    pub fn next(&self, wait: bool) -> Result<Now<Option<NativeChange>>> {
        self.with(wait, |s| {
            let change = s.next(std::time::Duration::ZERO)?;
            Ok(change.map(|change| NativeChange { change, position: s.position() }))
        })
    }

    /// Acknowledges the changes up to a position; without one, up to the last reported change.
    #[napi]
    pub fn acknowledge(&self, position: Option<String>, wait: bool) -> Result<Now<()>> {
        self.with(wait, move |s| {
            let position = position.map_or_else(|| Ok(s.position()), |text| text.parse())?;
            s.acknowledge(position.seq)
        })
    }

    #[napi]
    pub fn resume(&self, position: String, wait: bool) -> Result<Now<()>> {
        self.with(wait, move |s| s.resume(position.parse()?))
    }

    #[napi]
    pub fn close(&self) {
        *lock(&self.0) = None;
    }
}

#[napi]
impl NativeChange {
    #[napi]
    pub fn position(&self) -> String {
        self.position.to_string()
    }

    #[napi]
    pub fn loaded(&self) -> bool {
        self.change.is_loaded() || self.change.is_drop()
    }

    #[napi]
    pub fn ops(&self) -> Vec<NativeOp> {
        let copy = |bytes: &[u8]| Bytes::Packed(bytes.to_vec());
        let packed = |DecodedOp { op, expires_micros }: DecodedOp<'_>| {
            let (op, tree, key, value) = match op {
                BatchOp::Put { tree, key, value } => ("put", tree, key, copy(value)),
                BatchOp::Delete { tree, key } => ("delete", tree, key, Bytes::None),
                BatchOp::DeleteRange { tree, start, end } => {
                    ("deleteRange", tree, start, end.map_or(Bytes::None, copy))
                }
                BatchOp::Merge { tree, key, operand } => ("merge", tree, key, copy(operand)),
                _ => return None,
            };
            let expires_micros = expires_micros.map(|n| n as f64);
            Some(NativeOp { op, tree: tree.to_owned(), key: copy(key), value, expires_micros })
        };
        self.change.decoded_ops().filter_map(packed).collect()
    }
}

//! Stores of trees for JavaScript.

use std::cell::RefCell;
use std::ops::Bound;

use firn_kv::internals::base::key::prefix_end;
use firn_kv::{Batch, Db, DbOptions, Durability, Tree};
use js_sys::{Array, Object, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;

use crate::convert::{bytes, json};
use crate::errors::{JsOutcome, kv, wrong_type};
use crate::files::StoreFiles;

/// Directory of a store in its pool of files.
pub(crate) const DIRECTORY: &str = "/store";

/// Memory of a store, unless the caller gives another size.
const MEMORY_BUDGET: usize = 64 << 20;
/// Bytes of a log segment: an empty store takes few of them.
const LOG_SEGMENT: u64 = 4 << 20;

/// Returns a field of an object of options; `None` if it is not there.
fn option(options: &JsValue, name: &str) -> JsOutcome<Option<JsValue>> {
    if options.is_undefined() || options.is_null() {
        return Ok(None);
    }
    if !options.is_object() {
        return Err(wrong_type("options are an object"));
    }
    let value = Reflect::get(options, &name.into())?;
    Ok((!value.is_undefined()).then_some(value))
}

fn durability(value: &JsValue) -> JsOutcome<Durability> {
    match value.as_string().as_deref() {
        Some("process") => Ok(Durability::Process),
        Some("power") => Ok(Durability::Power),
        _ => Err(wrong_type("the durability is 'process' or 'power'")),
    }
}

/// Reads the options of a store: `memoryBudget`, `durability`, `create`.
pub(crate) fn store_options(options: &JsValue) -> JsOutcome<DbOptions> {
    let mut out = DbOptions {
        memory_budget: MEMORY_BUDGET,
        wal_segment: LOG_SEGMENT,
        background_threads: 0,
        // No program reads the log of events in a browser.
        event_log: false,
        ..DbOptions::default()
    };
    if let Some(bytes) = option(options, "memoryBudget")? {
        let bytes =
            bytes.as_f64().ok_or_else(|| wrong_type("memoryBudget is a number of bytes"))?;
        out.memory_budget = bytes as usize;
    }
    if let Some(value) = option(options, "durability")? {
        out.durability = durability(&value)?;
    }
    if let Some(create) = option(options, "create")? {
        out.create = create.as_bool().ok_or_else(|| wrong_type("create is true or false"))?;
    }
    Ok(out)
}

/// Returns the name of an option, as `firn set-options` has it: `memtableSize` is `memtable_size`.
fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// Reads the options of a tree as names and texts.
fn tree_options(options: &JsValue) -> JsOutcome<Vec<(String, String)>> {
    if options.is_undefined() || options.is_null() {
        return Ok(vec![]);
    }
    let mut out = vec![];
    for entry in Object::entries(&Object::from(options.clone())).iter() {
        let entry = Array::from(&entry);
        let (name, value) = (entry.get(0).as_string().unwrap_or_default(), entry.get(1));
        if !value.is_undefined() {
            let text = match value.as_string() {
                Some(text) => text,
                None => String::from(Object::from(value).to_string()),
            };
            out.push((snake_case(&name), text));
        }
    }
    Ok(out)
}

type KeyEnds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Reads a range of keys: `gt`, `gte`, `lt`, `lte`, `prefix`. Returns `None` for an empty range.
fn ends(range: &JsValue) -> JsOutcome<Option<KeyEnds>> {
    let key = |name: &str| option(range, name)?.map(|key| bytes(&key, "key")).transpose();
    let mut from = match (key("gte")?, key("gt")?) {
        (Some(_), Some(_)) => return Err(wrong_type("a range has gt or gte, not both")),
        (Some(key), None) => Bound::Included(key),
        (None, Some(key)) => Bound::Excluded(key),
        (None, None) => Bound::Unbounded,
    };
    let mut to = match (key("lte")?, key("lt")?) {
        (Some(_), Some(_)) => return Err(wrong_type("a range has lt or lte, not both")),
        (Some(key), None) => Bound::Included(key),
        (None, Some(key)) => Bound::Excluded(key),
        (None, None) => Bound::Unbounded,
    };
    if let Some(prefix) = key("prefix")? {
        let is_before = match &from {
            Bound::Unbounded => true,
            Bound::Included(key) | Bound::Excluded(key) => *key < prefix,
        };
        if let Some(end) = prefix_end(&prefix) {
            let is_after = match &to {
                Bound::Unbounded => true,
                Bound::Included(key) | Bound::Excluded(key) => *key >= end,
            };
            if is_after {
                to = Bound::Excluded(end);
            }
        }
        if is_before {
            from = Bound::Included(prefix);
        }
    }
    let is_empty = match (&from, &to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(to) | Bound::Excluded(to),
        ) => from >= to,
        _ => false,
    };
    Ok((!is_empty).then_some((from, to)))
}

/// A store: trees of bytes in memory, or in the origin private file system.
#[derive(Debug)]
#[wasm_bindgen(js_name = Store)]
pub struct BrowserStore {
    db: Db,
    files: StoreFiles,
}

impl BrowserStore {
    fn new(files: StoreFiles, options: &JsValue) -> JsOutcome<BrowserStore> {
        let db = Db::open_in(files.env(), DIRECTORY, store_options(options)?).map_err(kv)?;
        Ok(BrowserStore { db, files })
    }
}

#[wasm_bindgen(js_class = Store)]
impl BrowserStore {
    /// Opens an empty store in memory.
    pub fn memory(
        #[wasm_bindgen(unchecked_optional_param_type = "StoreOptions")] options: JsValue,
    ) -> JsOutcome<BrowserStore> {
        BrowserStore::new(StoreFiles::memory().map_err(kv)?, &options)
    }

    /// Opens the store of this name in the origin private file system, and creates it if it is
    /// missing. Only a dedicated worker can do so. The code of the error is `FIRN_LOCKED` if another
    /// tab or worker has the store open.
    pub async fn opfs(
        name: String,
        #[wasm_bindgen(unchecked_optional_param_type = "StoreOptions")] options: JsValue,
    ) -> JsOutcome<BrowserStore> {
        BrowserStore::new(StoreFiles::opfs(&name).await.map_err(kv)?, &options)
    }

    /// Opens the tree of this name, and creates it if it is missing. The options are those of `firn
    /// set-options`, also in camel case: `{ policy: 'leveled:8', memtableSize: '1m' }`.
    pub fn tree(
        &self,
        name: &str,
        #[wasm_bindgen(unchecked_optional_param_type = "TreeOptions")] options: JsValue,
    ) -> JsOutcome<BrowserTree> {
        let options = tree_options(&options)?;
        let options: Vec<(&str, &str)> = options.iter().map(|(n, v)| (&**n, &**v)).collect();
        firn_tools::trees::with_options(&self.db, name, &options, None).map(BrowserTree).map_err(kv)
    }

    /// Returns the names of all trees.
    #[wasm_bindgen(js_name = treeNames)]
    pub fn tree_names(&self) -> Vec<String> {
        self.db.tree_names()
    }

    /// Drops a tree with its contents.
    #[wasm_bindgen(js_name = dropTree)]
    pub fn drop_tree(&self, name: &str) -> JsOutcome<()> {
        self.db.drop_tree(name).map_err(kv)
    }

    /// Creates an empty batch.
    pub fn batch(&self) -> BrowserBatch {
        BrowserBatch { db: self.db.clone(), ops: RefCell::default() }
    }

    /// Makes all earlier writes durable.
    pub fn sync(&self) -> JsOutcome<()> {
        self.db.sync().map_err(kv)
    }

    /// Opens files in advance, so that the next writes find them: await it between large amounts of
    /// writes. Does nothing in memory.
    pub async fn reserve(&self) -> JsOutcome<()> {
        self.files.reserve().await.map_err(kv)
    }

    /// Returns the statistics, as in `firn stats --json`.
    #[wasm_bindgen(unchecked_return_type = "Record<string, any>")]
    pub fn stats(&self) -> JsOutcome<JsValue> {
        json(&firn_tools::stats::stats_json(&self.db.stats()))
    }

    /// Closes the store: all writes are durable afterwards, and other tabs can open it.
    pub fn close(&self) -> JsOutcome<()> {
        let closed = self.db.close().map_err(kv);
        self.files.close();
        closed
    }
}

/// A tree of a store: an ordered map from bytes to bytes. Keys and values are strings, for their
/// UTF-8 bytes, or arrays of bytes.
#[derive(Debug)]
#[wasm_bindgen(js_name = Tree)]
pub struct BrowserTree(Tree);

impl BrowserTree {
    fn with(&self, options: &JsValue) -> JsOutcome<Tree> {
        let given = option(options, "durability")?;
        given.map_or_else(
            || Ok(self.0.clone()),
            |value| Ok(self.0.with_durability(durability(&value)?)),
        )
    }
}

#[wasm_bindgen(js_class = Tree)]
impl BrowserTree {
    /// Returns the value of a key; `undefined` if it has none.
    pub fn get(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] key: &JsValue,
    ) -> JsOutcome<Option<Uint8Array>> {
        let value = self.0.get(bytes(key, "key")?).map_err(kv)?;
        Ok(value.map(|value| Uint8Array::from(&value[..])))
    }

    /// Reports whether a key has a value.
    pub fn has(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] key: &JsValue,
    ) -> JsOutcome<bool> {
        self.0.contains(bytes(key, "key")?).map_err(kv)
    }

    /// Sets the value of a key. The options may have a `durability`.
    pub fn put(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] key: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] value: &JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "WriteOptions")] options: JsValue,
    ) -> JsOutcome<()> {
        let (key, value) = (bytes(key, "key")?, bytes(value, "value")?);
        if options.is_undefined() {
            return self.0.put(key, value).map_err(kv);
        }
        self.with(&options)?.put(key, value).map_err(kv)
    }

    /// Deletes a key, whether it exists or not.
    pub fn delete(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] key: &JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "WriteOptions")] options: JsValue,
    ) -> JsOutcome<()> {
        self.with(&options)?.delete(bytes(key, "key")?).map_err(kv)
    }

    /// Deletes all keys of a range with one operation; without bounds, all keys.
    #[wasm_bindgen(js_name = deleteRange)]
    pub fn delete_range(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "KeyRange")] range: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "WriteOptions")] options: JsValue,
    ) -> JsOutcome<()> {
        match ends(&range)? {
            Some(range) => self.with(&options)?.delete_range(range).map_err(kv),
            None => Ok(()),
        }
    }

    /// Returns the entries of a range of keys as pairs: at most `limit`, the last ones first with
    /// `reverse`. Without a limit all of them are in memory at once.
    #[wasm_bindgen(unchecked_return_type = "Entry[]")]
    pub fn range(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "RangeOptions")] range: JsValue,
    ) -> JsOutcome<Array> {
        let out = Array::new();
        let Some(keys) = ends(&range)? else { return Ok(out) };
        let limit = option(&range, "limit")?.and_then(|n| n.as_f64()).unwrap_or(f64::INFINITY);
        let is_reverse = option(&range, "reverse")?.is_some_and(|value| value.is_truthy());
        let mut entries = self.0.range(keys);
        while f64::from(out.length()) < limit {
            let next = if is_reverse { entries.next_back() } else { entries.next() };
            let Some(entry) = next else { break };
            let (key, value) = entry.map_err(kv)?;
            let pair = [Uint8Array::from(&key[..]), Uint8Array::from(&value[..])];
            out.push(&pair.iter().collect::<Array>());
        }
        Ok(out)
    }

    /// Flushes the memtable.
    pub fn flush(&self) -> JsOutcome<()> {
        self.0.flush().map_err(kv)
    }

    /// Compacts all tables into one run.
    pub fn compact(&self) -> JsOutcome<()> {
        self.0.compact().map_err(kv)
    }
}

/// Writes to trees of a store that happen atomically.
#[derive(Debug)]
#[wasm_bindgen(js_name = Batch)]
pub struct BrowserBatch {
    db: Db,
    ops: RefCell<Batch>,
}

#[wasm_bindgen(js_class = Batch)]
impl BrowserBatch {
    /// Adds a put.
    pub fn put(
        &self,
        tree: &BrowserTree,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] key: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] value: &JsValue,
    ) -> JsOutcome<()> {
        let (key, value) = (bytes(key, "key")?, bytes(value, "value")?);
        self.ops.borrow_mut().put(&tree.0, key, value).map_err(kv)
    }

    /// Adds a delete.
    pub fn delete(
        &self,
        tree: &BrowserTree,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] key: &JsValue,
    ) -> JsOutcome<()> {
        self.ops.borrow_mut().delete(&tree.0, bytes(key, "key")?).map_err(kv)
    }

    /// Executes the operations. The batch is empty afterwards, also after an error.
    pub fn write(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "WriteOptions")] options: JsValue,
    ) -> JsOutcome<()> {
        let ops = self.ops.take();
        match option(&options, "durability")? {
            Some(value) => self.db.with_durability(durability(&value)?).write(ops),
            None => self.db.write(ops),
        }
        .map_err(kv)
    }
}

/// Deletes the store of this name in the origin private file system, if it is there. It must not be
/// open.
#[wasm_bindgen(js_name = deleteStore)]
pub async fn delete_store(name: String) -> JsOutcome<()> {
    StoreFiles::delete(&name).await.map_err(kv)
}

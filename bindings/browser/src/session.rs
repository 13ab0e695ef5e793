//! Sessions of CQL for JavaScript.

use std::collections::BTreeMap;

use firn_cql::{PagedRows, Prepared, ResultKind, RunOptions, Script, Session, Value};
use firn_packed::params::{self, Params};
use firn_wide::internals::store::TreeName;
use firn_wide::{Options, Wide};
use js_sys::Array;
use serde_json::json;
use wasm_bindgen::prelude::*;

use crate::convert::{self, object, parameters, value};
use crate::errors::{JsOutcome, cql, kv};
use crate::files::StoreFiles;
use crate::store::{DIRECTORY, store_options};

#[wasm_bindgen(module = "/src/result.js")]
extern "C" {
    #[wasm_bindgen(js_name = newResult)]
    fn new_result(
        kind: &str,
        columns: &Array,
        rows: &Array,
        is_complete: bool,
        warnings: &Array,
    ) -> JsValue;
    #[wasm_bindgen(js_name = newColumn)]
    fn new_column(name: &str, of: &str) -> JsValue;
}

/// Rows of a result unless the caller gives another limit: they are in memory at once.
const MAX_ROWS: u32 = 10_000;

/// A CQL database in memory, or in the origin private file system.
#[derive(Debug)]
#[wasm_bindgen(js_name = Session)]
pub struct BrowserSession {
    session: Session,
    files: StoreFiles,
}

impl BrowserSession {
    fn new(files: StoreFiles, options: &JsValue) -> JsOutcome<BrowserSession> {
        let mut with = Options::default();
        with.store.db = store_options(options)?;
        let wide = Wide::open_in(files.env(), DIRECTORY, with).map_err(|e| cql(e.into()))?;
        Ok(BrowserSession { session: Session::new(wide).map_err(cql)?, files })
    }
}

#[wasm_bindgen(js_class = Session)]
impl BrowserSession {
    /// Opens an empty database in memory.
    pub fn memory(
        #[wasm_bindgen(unchecked_optional_param_type = "StoreOptions")] options: JsValue,
    ) -> JsOutcome<BrowserSession> {
        BrowserSession::new(StoreFiles::memory().map_err(kv)?, &options)
    }

    /// Opens the database of this name in the origin private file system, as `Store.opfs`.
    pub async fn opfs(
        name: String,
        #[wasm_bindgen(unchecked_optional_param_type = "StoreOptions")] options: JsValue,
    ) -> JsOutcome<BrowserSession> {
        BrowserSession::new(StoreFiles::opfs(&name).await.map_err(kv)?, &options)
    }

    /// Executes a statement. The parameters are an array in order, or an object with their names.
    #[wasm_bindgen(unchecked_return_type = "CqlResult")]
    pub fn execute(
        &self,
        text: &str,
        #[wasm_bindgen(unchecked_optional_param_type = "Parameters")] values: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "number")] limit: Option<u32>,
    ) -> JsOutcome<JsValue> {
        let packed = parameters(&values)?;
        let rows = params::execute(&self.session, text, &packed, &RunOptions::default());
        result(rows.map_err(cql)?, limit)
    }

    /// Compiles a statement.
    pub fn prepare(&self, text: &str) -> JsOutcome<BrowserStatement> {
        let prepared = self.session.prepare(text).map_err(cql)?;
        Ok(BrowserStatement { session: self.session.clone(), prepared })
    }

    /// Returns the current keyspace, which `USE` sets.
    #[wasm_bindgen(getter)]
    pub fn keyspace(&self) -> Option<String> {
        self.session.keyspace().map(|name| (*name).to_owned())
    }

    /// Opens files in advance, as `Store.reserve`.
    pub async fn reserve(&self) -> JsOutcome<()> {
        self.files.reserve().await.map_err(kv)
    }

    /// Flushes all memtables.
    pub fn flush(&self) -> JsOutcome<()> {
        let db = self.session.engine().wide().db();
        db.tree_names().iter().try_for_each(|name| db.existing_tree(name)?.flush()).map_err(kv)
    }

    /// Returns the statistics of the store, as in `firn stats --json`. A tree of a table has the
    /// table's name as `table`, that of an index also has `index`.
    #[wasm_bindgen(unchecked_return_type = "Record<string, any>")]
    pub fn stats(&self) -> JsOutcome<JsValue> {
        let engine = self.session.engine();
        let mut stats = firn_tools::stats::stats_json(&engine.wide().db().stats());
        let mut names = BTreeMap::new();
        for table in engine.catalog().own_tables() {
            let name = format!("{}.{}", table.keyspace, table.name);
            for index in table.indexes() {
                let index_name = Some(index.name.to_string());
                names.insert(TreeName::Index(index.id).to_string(), (name.clone(), index_name));
            }
            names.insert(TreeName::Family(table.id).to_string(), (name, None));
        }
        for tree in stats["trees"].as_array_mut().into_iter().flatten() {
            if let Some((table, index)) = tree["name"].as_str().and_then(|name| names.get(name)) {
                (tree["table"], tree["index"]) = (json!(table), json!(index));
            }
        }
        convert::json(&stats)
    }

    /// Closes the database, as `Store.close`.
    pub fn close(&self) -> JsOutcome<()> {
        let closed = self.session.close().map_err(cql);
        self.files.close();
        closed
    }
}

/// A compiled statement.
#[derive(Debug)]
#[wasm_bindgen(js_name = Statement)]
pub struct BrowserStatement {
    session: Session,
    prepared: Prepared,
}

#[wasm_bindgen(js_class = Statement)]
impl BrowserStatement {
    /// Executes the statement with these parameters.
    #[wasm_bindgen(unchecked_return_type = "CqlResult")]
    pub fn execute(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "Parameters")] values: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "number")] limit: Option<u32>,
    ) -> JsOutcome<JsValue> {
        let packed = parameters(&values)?;
        let params = Params::read(&packed, &self.prepared).map_err(cql)?;
        let rows = params.run(&self.session, &self.prepared, &RunOptions::default());
        result(rows.map_err(cql)?, limit)
    }
}

/// Creates the result of a statement: `kind`, `columns` with names and types, `rows` as arrays in
/// the order of the columns, `isComplete`, `warnings`.
fn result(paged: PagedRows, limit: Option<u32>) -> JsOutcome<JsValue> {
    let limit = limit.unwrap_or(MAX_ROWS);
    let page = paged.page();
    let kind = match page.kind() {
        ResultKind::Void => "void",
        ResultKind::Rows => "rows",
        ResultKind::SetKeyspace(_) => "keyspace",
        ResultKind::Schema(_) => "schema",
    };
    let warnings: Array = page.warnings().iter().map(JsValue::from).collect();
    let specs = page.columns().clone();
    let columns: Array = specs
        .iter()
        .map(|column| new_column(&column.name, &column.column_type.to_string()))
        .collect();
    let rows = Array::new();
    let mut is_complete = true;
    for row in paged {
        if rows.length() >= limit {
            is_complete = false;
            break;
        }
        let row = row.map_err(cql)?;
        let values = Array::new();
        for at in 0..specs.len() {
            values.push(&value(&row.row().at::<Value>(at).map_err(cql)?)?);
        }
        rows.push(&values);
    }
    Ok(new_result(kind, &columns, &rows, is_complete, &warnings))
}

/// Splits a text into its statements: objects with `text`, and `isClosed` if a semicolon ends it.
#[wasm_bindgen(unchecked_return_type = "{ text: string, isClosed: boolean }[]")]
pub fn statements(text: &str) -> JsOutcome<Array> {
    let one = |text: &str, is_closed: bool| {
        object(&[("text", text.into()), ("isClosed", is_closed.into())])
    };
    Script::new(text).map(|piece| one(piece.text(), piece.closed)).collect()
}

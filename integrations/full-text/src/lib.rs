//! A full-text index (Tantivy) of a tree, which follows the changes of the tree.
//!
//! Invariant: a commit of the index has the position of its last change as payload. So after a kill
//! at any moment the index continues behind that change: it misses none, and applies none twice.

use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_kv::{BatchOp, Change, ChangePosition, Db, ErrorKind, Subscription, Tree};
use tantivy::collector::TopDocs;
use tantivy::directory::MmapDirectory;
use tantivy::query::{AllQuery, QueryParser, RangeQuery};
use tantivy::schema::{Field, INDEXED, STORED, Schema, TEXT, Value};
use tantivy::{Index, IndexWriter, TantivyDocument, Term, doc};

/// Name of the subscription.
const NAME: &str = "full-text";
/// Memory of documents before they are written, in bytes.
const WRITER_BYTES: usize = 20_000_000;
/// Operations after which the index commits.
const COMMIT_OPS: usize = 1000;
/// Longest wait for a change.
const WAIT: Duration = Duration::from_millis(100);

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Index of the keys and values of a tree. Values are text.
pub struct TextIndex {
    index: Index,
    writer: IndexWriter,
    key: Field,
    text: Field,
    /// Position behind the last change in the index; `None`: the tree was not copied yet.
    position: Option<ChangePosition>,
    /// Operations since the last commit.
    pending: usize,
}

impl TextIndex {
    /// Opens the index in a directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// Errors of the index.
    pub fn open(dir: &Path) -> Result<TextIndex, AnyError> {
        let mut schema = Schema::builder();
        let key = schema.add_bytes_field("key", INDEXED | STORED);
        let text = schema.add_text_field("text", TEXT | STORED);
        let index = Index::open_or_create(MmapDirectory::open(dir)?, schema.build())?;
        let writer = index.writer_with_num_threads(1, WRITER_BYTES)?;
        // An interrupted commit has left files with names that the next commit may need.
        writer.garbage_collect_files().wait()?;
        let payload = index.load_metas()?.payload;
        let position = payload.map(|text| text.parse()).transpose()?;
        Ok(TextIndex { index, writer, key, text, position, pending: 0 })
    }

    /// Follows the changes of a tree until `is_over` is set and no change is left. `hold_log` is
    /// the maximum of log, in bytes, that the store retains for the index.
    ///
    /// # Errors
    /// Errors of the store and of the index.
    pub fn follow(
        &mut self,
        db: &Db,
        tree: &Tree,
        hold_log: u64,
        is_over: &AtomicBool,
    ) -> Result<(), AnyError> {
        let mut changes = db.subscribe(NAME, hold_log)?;
        match self.position.map(|position| changes.resume(position)) {
            Some(Ok(())) => {}
            // The log is gone, or the index belongs to another store.
            Some(Err(e)) if !must_copy(&e) => return Err(e.into()),
            _ => self.copy(&mut changes, tree)?,
        }
        loop {
            // Read first: then the last call of `next` sees all earlier writes.
            let is_last = is_over.load(Ordering::Acquire);
            match changes.next(WAIT) {
                Ok(Some(change)) if change.is_loaded() || change.is_drop() => {
                    self.copy(&mut changes, tree)?;
                }
                Ok(Some(change)) => {
                    self.apply(&change, tree)?;
                    self.position = Some(changes.position());
                    if self.pending >= COMMIT_OPS {
                        self.commit(&mut changes)?;
                    }
                }
                Ok(None) if self.pending > 0 => self.commit(&mut changes)?,
                Ok(None) if is_last => return Ok(()),
                Ok(None) => {}
                Err(e) if must_copy(&e) => self.copy(&mut changes, tree)?,
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Replaces all documents by the present contents of the tree.
    fn copy(&mut self, changes: &mut Subscription, tree: &Tree) -> Result<(), AnyError> {
        let snapshot = changes.snapshot()?;
        self.writer.rollback()?;
        self.writer.delete_query(Box::new(AllQuery))?;
        for entry in snapshot.iter(tree) {
            let (key, value) = entry?;
            self.add(&key, &value)?;
        }
        self.position = Some(changes.position());
        self.commit(changes)
    }

    fn add(&self, key: &[u8], value: &[u8]) -> Result<(), AnyError> {
        let text = String::from_utf8_lossy(value);
        self.writer.add_document(doc!(self.key => key, self.text => &*text))?;
        Ok(())
    }

    /// Applies the operations of a change to the index.
    fn apply(&mut self, change: &Change, tree: &Tree) -> Result<(), AnyError> {
        let term = |key: &[u8]| Term::from_field_bytes(self.key, key);
        for op in change.ops() {
            let (BatchOp::Put { tree: of, .. }
            | BatchOp::Delete { tree: of, .. }
            | BatchOp::Merge { tree: of, .. }
            | BatchOp::DeleteRange { tree: of, .. }) = op
            else {
                return Err(format!("an operation that this program does not know: {op:?}").into());
            };
            if of != tree.name() {
                continue;
            }
            match op {
                BatchOp::Put { key, value, .. } => {
                    self.writer.delete_term(term(key));
                    self.add(key, value)?;
                }
                BatchOp::Delete { key, .. } => {
                    self.writer.delete_term(term(key));
                }
                // The log has the operand only. A newer value is indexed again by its own change.
                BatchOp::Merge { key, .. } => {
                    self.writer.delete_term(term(key));
                    if let Some(value) = tree.get(key)? {
                        self.add(key, &value)?;
                    }
                }
                BatchOp::DeleteRange { start, end, .. } => {
                    let end = end.map_or(Bound::Unbounded, |end| Bound::Excluded(term(end)));
                    let keys = RangeQuery::new(Bound::Included(term(start)), end);
                    self.writer.delete_query(Box::new(keys))?;
                }
                _ => {}
            }
            self.pending += 1;
        }
        Ok(())
    }

    /// Makes the changes and their position durable in one step, then releases the log.
    fn commit(&mut self, changes: &mut Subscription) -> Result<(), AnyError> {
        let Some(position) = self.position else { return Ok(()) };
        let mut commit = self.writer.prepare_commit()?;
        commit.set_payload(&position.to_string());
        commit.commit()?;
        self.pending = 0;
        Ok(changes.acknowledge(position.seq)?)
    }

    /// Returns the keys and texts of the best matches of a query, in Tantivy's language.
    ///
    /// # Errors
    /// The query is invalid; errors of the index.
    pub fn search(&self, query: &str, limit: usize) -> Result<Vec<(Vec<u8>, String)>, AnyError> {
        let query = QueryParser::for_index(&self.index, vec![self.text]).parse_query(query)?;
        let searcher = self.index.reader()?.searcher();
        let found = searcher.search(&query, &TopDocs::with_limit(limit.max(1)).order_by_score())?;
        let document = |address| {
            let document: TantivyDocument = searcher.doc(address)?;
            let key = document.get_first(self.key).and_then(|v| v.as_bytes()).unwrap_or_default();
            let text = document.get_first(self.text).and_then(|v| v.as_str()).unwrap_or_default();
            Ok((key.to_vec(), text.to_owned()))
        };
        found.into_iter().map(|(_, address)| document(address)).collect()
    }
}

/// Reports whether the tree must be copied: the log has lost changes, or the position is not one of
/// this store.
fn must_copy(e: &firn_kv::Error) -> bool {
    matches!(e.kind(), ErrorKind::Lagged | ErrorKind::InvalidArgument)
}

//! Iterators that fetch rows one page at a time.
//!
//! Invariants:
//! - Besides rows that the caller holds, an iterator holds one page.
//! - After an error of the database it has ended.

use std::marker::PhantomData;
use std::sync::Arc;

use super::prepared::Prepared;
use super::{Session, StatementOutcome, Values};
use crate::error::Result;
use crate::exec::RunOptions;
use crate::exec::{FromRow, PagingState, Row, Rows};
use crate::values::FromValue;

/// Fetches the page that begins at a paging state.
type PageSource = Box<dyn FnMut(PagingState) -> Result<Rows> + Send + Sync>;

/// An iterator over the rows of a statement, which fetches the next page at the end of each.
///
/// It holds one page in memory. Each row that the caller holds also holds its page. If a page
/// cannot be fetched, the error is the last item.
///
/// Each page is read when it is fetched, so the iterator has no single snapshot, as one page has.
/// Rows come in the order of their keys, or of the index, and each key comes once. Writes of others
/// are seen if they are ahead of the iterator's position; rows deleted ahead of it are not
/// returned. A row that a change moves out of the statement's condition, or into it, counts as
/// deleted or written. Each page uses its own time for `now()` and expiration. If the schema
/// changes, later pages have the new columns. If the table is dropped, the iterator ends with an
/// error.
///
/// ```
/// use firn_cql::Session;
/// # let dir = std::env::temp_dir().join(format!("firn-doc-cql-walk-{}", std::process::id()));
/// let session = Session::open(&dir)?;
/// session.execute("CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", ())?;
/// session.execute("CREATE TABLE shop.items (id int PRIMARY KEY, price int)", ())?;
/// for id in 0..5000 {
///     session.execute("INSERT INTO shop.items (id, price) VALUES (?, ?)", (id, 2))?;
/// }
/// let mut sum = 0;
/// for row in session.query("SELECT price FROM shop.items", ())? {
///     sum += row?.get::<i32>("price")?;
/// }
/// assert_eq!(sum, 10_000);
/// for row in session.query("SELECT id, price FROM shop.items", ())?.typed::<(i32, i32)>() {
///     let (id, price) = row?;
///     assert!(id < 5000 && price == 2);
/// }
/// # std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), firn_cql::Error>(())
/// ```
pub struct PagedRows {
    source: PageSource,
    page: Arc<Rows>,
    /// Index of the next row in the page.
    next: usize,
}

impl std::fmt::Debug for PagedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let PagedRows { source: _, page, next } = self;
        f.debug_struct("Walk").field("page", page).field("next", next).finish_non_exhaustive()
    }
}

impl Session {
    /// Executes a statement and iterates over its rows, one page at a time.
    ///
    /// # Errors
    /// Those of [`execute`](Session::execute) for the first page; errors of later pages are items.
    pub fn query(&self, cql: &str, values: impl Values) -> Result<PagedRows> {
        self.query_with(cql, values, &RunOptions::default())
    }

    /// Like [`query`](Session::query), with these options. The default page size is
    /// [`PAGE`](PagedRows::PAGE) rows.
    ///
    /// # Errors
    /// Those of [`query`](Session::query).
    pub fn query_with(
        &self,
        cql: &str,
        values: impl Values,
        how: &RunOptions,
    ) -> Result<PagedRows> {
        match self.begin(cql, &values, how)? {
            StatementOutcome::Done(rows) => Ok(PagedRows::over_pages(*rows, |_| Ok(Rows::void()))),
            StatementOutcome::Compiled(prepared) => self.query_prepared(&prepared, values, how),
        }
    }

    /// Executes a compiled statement and iterates over its rows, one page at a time.
    ///
    /// # Errors
    /// Those of [`query`](Session::query).
    pub fn query_prepared(
        &self,
        prepared: &Prepared,
        values: impl Values,
        how: &RunOptions,
    ) -> Result<PagedRows> {
        let prepared = self.present(prepared)?.into_owned();
        let bound = values.bind(prepared.markers())?;
        let mut how = how.clone();
        how.page_size = how.page_size.or(Some(PagedRows::PAGE));
        let first = self.run(&prepared, &bound, &how)?;
        let session = self.clone();
        Ok(PagedRows::over_pages(first, move |from| {
            how.paging = Some(from);
            session.run(&prepared, &bound, &how)
        }))
    }
}

impl PagedRows {
    /// Default number of rows of a page.
    pub const PAGE: usize = 1000;

    /// Iterates over this page and those after it. `next` fetches the page that begins at the
    /// paging state of the page before. For sessions with remote databases.
    #[doc(hidden)]
    pub fn over_pages(
        first: Rows,
        next: impl FnMut(PagingState) -> Result<Rows> + Send + Sync + 'static,
    ) -> PagedRows {
        PagedRows { source: Box::new(next), page: Arc::new(first), next: 0 }
    }

    /// Returns the current page: its columns, its warnings and its paging state.
    pub fn page(&self) -> &Rows {
        &self.page
    }

    /// Iterates over the rows as tuples or other Rust types. A row that cannot be converted is an
    /// error item, and the iteration continues.
    pub fn typed<T: FromRow>(self) -> Typed<T> {
        Typed { walk: self, of: PhantomData }
    }

    /// Returns the index of the next row in its page, and fetches the page if necessary.
    fn step(&mut self) -> Option<Result<usize>> {
        while self.next == self.page.len() {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(e) => return Some(Err(e)),
            }
        }
        self.next += 1;
        Some(Ok(self.next - 1))
    }

    /// Fetches the next page, if there is one.
    fn turn(&mut self) -> Result<bool> {
        let Some(from) = self.page.paging().cloned() else { return Ok(false) };
        // Drop the old page first, so that there are never two, and so that an error ends the
        // iteration.
        self.page = Arc::new(Rows::void());
        self.next = 0;
        self.page = Arc::new((self.source)(from)?);
        Ok(true)
    }
}

impl Iterator for PagedRows {
    type Item = Result<OwnedRow>;

    fn next(&mut self) -> Option<Result<OwnedRow>> {
        let at = self.step()?;
        Some(at.map(|at| OwnedRow { page: self.page.clone(), at }))
    }
}

/// A row that holds its page.
#[derive(Clone, Debug)]
pub struct OwnedRow {
    page: Arc<Rows>,
    at: usize,
}

impl OwnedRow {
    /// Returns the row.
    pub fn row(&self) -> Row<'_> {
        self.page.at(self.at)
    }

    /// Returns the value of the column with this name.
    ///
    /// # Errors
    /// Those of [`Row::at`].
    pub fn get<T: FromValue>(&self, name: &str) -> Result<T> {
        self.row().get(name)
    }
}

/// An iterator whose rows are converted to a Rust type.
#[derive(Debug)]
pub struct Typed<T> {
    walk: PagedRows,
    of: PhantomData<fn() -> T>,
}

impl<T: FromRow> Iterator for Typed<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let at = self.walk.step()?;
        Some(at.and_then(|at| T::from_row(self.walk.page.at(at))))
    }
}

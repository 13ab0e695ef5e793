//! Rows that are fetched a page at a time, as somebody walks through them.
//!
//! Invariants: besides what the caller keeps, a walk holds one page; behind an error of the
//! database it has ended.

use std::marker::PhantomData;
use std::sync::Arc;

use super::prepared::Prepared;
use super::run::Run;
use super::{Begun, Session, Values};
use crate::error::Result;
use crate::exec::{FromRow, PagingState, Row, Rows};
use crate::values::FromValue;

/// What fetches the page that begins there.
type PageSource = Box<dyn FnMut(PagingState) -> Result<Rows> + Send + Sync>;

/// A walk through the rows of a statement, which fetches the next page when it has come to the end
/// of one.
///
/// Memory is that of one page, and of the rows that are kept: each keeps its page. A page that
/// can't be had is an item, the last one.
///
/// Each page is read when it is fetched, so the walk is not of one moment, as one page is. Rows
/// come in the order of their keys, or of the index, each key once: what others write behind the
/// place that the walk has come to is not seen, what they write ahead of it is, and what they
/// delete ahead is not. A row whose change takes it out of the walk's condition, or into it, counts
/// as deleted or written. `now()` and what has expired are of each page's own time. Definitions may
/// change in the middle: pages from then on have the columns that there are then, and a table that
/// is dropped ends the walk with an error.
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
pub struct Walk {
    source: PageSource,
    page: Arc<Rows>,
    /// The row of the page that comes next.
    next: usize,
}

impl std::fmt::Debug for Walk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Walk { source: _, page, next } = self;
        f.debug_struct("Walk").field("page", page).field("next", next).finish_non_exhaustive()
    }
}

impl Session {
    /// Runs a statement and walks through its rows, a page at a time.
    ///
    /// # Errors
    /// As [`execute`](Session::execute), of the first page; those of others are items of the walk.
    pub fn query(&self, cql: &str, values: impl Values) -> Result<Walk> {
        self.query_as(cql, values, &Run::default())
    }

    /// As [`query`](Session::query), in this way. Without a page size, pages have
    /// [`PAGE`](Walk::PAGE) rows.
    ///
    /// # Errors
    /// As [`query`](Session::query).
    pub fn query_as(&self, cql: &str, values: impl Values, how: &Run) -> Result<Walk> {
        match self.begin(cql, &values, how)? {
            Begun::Done(rows) => Ok(Walk::over_pages(*rows, |_| Ok(Rows::void()))),
            Begun::Compiled(prepared) => self.walk(&prepared, values, how),
        }
    }

    /// Runs a compiled statement and walks through its rows, a page at a time.
    ///
    /// # Errors
    /// As [`query`](Session::query).
    pub fn walk(&self, prepared: &Prepared, values: impl Values, how: &Run) -> Result<Walk> {
        let prepared = self.present(prepared)?.into_owned();
        let bound = values.bind(prepared.markers())?;
        let mut how = how.clone();
        how.page_size = how.page_size.or(Some(Walk::PAGE));
        let first = self.run(&prepared, &bound, &how)?;
        let session = self.clone();
        Ok(Walk::over_pages(first, move |from| {
            how.paging = Some(from);
            session.run(&prepared, &bound, &how)
        }))
    }
}

impl Walk {
    /// Rows that a page has where no other number is asked for.
    pub const PAGE: usize = 1000;

    /// Through this page and those behind it: `next` fetches the page that begins at a place, which
    /// the page before it has told. For sessions with databases elsewhere.
    pub fn over_pages(
        first: Rows,
        next: impl FnMut(PagingState) -> Result<Rows> + Send + Sync + 'static,
    ) -> Walk {
        Walk { source: Box::new(next), page: Arc::new(first), next: 0 }
    }

    /// The page that the walk is in: its columns, its warnings, where the next one begins.
    pub fn page(&self) -> &Rows {
        &self.page
    }

    /// The rows as tuples or other types of Rust. A row that is none is an error among the items,
    /// and the walk goes on behind it.
    pub fn typed<T: FromRow>(self) -> Typed<T> {
        Typed { walk: self, of: PhantomData }
    }

    /// The number of the next row in its page, which is fetched if need be.
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
        // The old page goes first, so that there are never two, and an error is the end.
        self.page = Arc::new(Rows::void());
        self.next = 0;
        self.page = Arc::new((self.source)(from)?);
        Ok(true)
    }
}

impl Iterator for Walk {
    type Item = Result<OwnedRow>;

    fn next(&mut self) -> Option<Result<OwnedRow>> {
        let at = self.step()?;
        Some(at.map(|at| OwnedRow { page: self.page.clone(), at }))
    }
}

/// A row that keeps its page.
#[derive(Clone, Debug)]
pub struct OwnedRow {
    page: Arc<Rows>,
    at: usize,
}

impl OwnedRow {
    /// The row.
    pub fn row(&self) -> Row<'_> {
        self.page.at(self.at)
    }

    /// The value of the column of this name.
    ///
    /// # Errors
    /// As [`Row::at`].
    pub fn get<T: FromValue>(&self, name: &str) -> Result<T> {
        self.row().get(name)
    }
}

/// A walk whose rows are read as a type of Rust.
#[derive(Debug)]
pub struct Typed<T> {
    walk: Walk,
    of: PhantomData<fn() -> T>,
}

impl<T: FromRow> Iterator for Typed<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let at = self.walk.step()?;
        Some(at.and_then(|at| T::from_row(self.walk.page.at(at))))
    }
}

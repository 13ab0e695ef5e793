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
use crate::exec::{FromRow, Row, Rows};
use crate::values::{Bound, FromValue};

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
#[derive(Debug)]
pub struct Walk {
    session: Session,
    /// What fetches pages; `None` when there is no other one.
    source: Option<(Prepared, Vec<Bound>, Run)>,
    page: Arc<Rows>,
    /// The row of the page that comes next.
    next: usize,
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
            Begun::Done(rows) => Ok(Walk::whole(self.clone(), *rows)),
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
        Walk::over(self.clone(), prepared, bound, how.clone())
    }
}

impl Walk {
    /// Rows that a page has where no other number is asked for.
    pub const PAGE: usize = 1000;

    /// Through a result that is whole.
    pub(super) fn whole(session: Session, rows: Rows) -> Walk {
        Walk { session, source: None, page: Arc::new(rows), next: 0 }
    }

    /// Through the result of a statement.
    pub(super) fn over(
        session: Session,
        prepared: Prepared,
        bound: Vec<Bound>,
        mut how: Run,
    ) -> Result<Walk> {
        how.page_size = how.page_size.or(Some(Walk::PAGE));
        let page = session.run(&prepared, &bound, &how)?;
        Ok(Walk { session, source: Some((prepared, bound, how)), page: Arc::new(page), next: 0 })
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
                Err(e) => {
                    self.source = None;
                    return Some(Err(e));
                }
            }
        }
        self.next += 1;
        Some(Ok(self.next - 1))
    }

    /// Fetches the next page, if there is one.
    fn turn(&mut self) -> Result<bool> {
        let Some((prepared, bound, how)) = &mut self.source else { return Ok(false) };
        how.paging = self.page.paging().cloned();
        if how.paging.is_none() {
            return Ok(false);
        }
        // The old page goes first, so that there are never two.
        self.page = Arc::new(Rows::void());
        self.next = 0;
        self.page = Arc::new(self.session.run(prepared, &*bound, how)?);
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

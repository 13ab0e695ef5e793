//! The API for applications: a [`Session`] with the database of a URL.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_cql::{
    BatchKind, BoundValue, Error, ErrorClass, PagedRows, Result, ResultKind, Rows, RunOptions,
    Values, quote_if_needed,
};
use parking_lot::RwLock;

use crate::address::ClusterUrl;
use crate::cluster::Cluster;
use crate::cluster_session::ClusterSession;
use crate::prepared::{Prepared, PreparedPlace};

/// Scheme of a directory's URL.
const FOLDER: &str = "firn:";
/// Separator between directory and keyspace.
const KEYSPACE: &str = "?keyspace=";

#[derive(Clone, Debug)]
enum SessionPlace {
    Folder(firn_cql::Session),
    Cluster(ClusterSession),
}

/// A session with a database: the calls of [`firn_cql::Session`]. Cheap to clone; clones share the
/// database or the connections, and each has its own keyspace.
///
/// Calls block their thread until the response. Tasks of an asynchronous program use
/// `spawn_blocking`. Several threads may use one session at once.
#[derive(Clone, Debug)]
pub struct Session {
    place: SessionPlace,
}

/// Wraps a session with an open database.
impl From<firn_cql::Session> for Session {
    fn from(session: firn_cql::Session) -> Session {
        Session { place: SessionPlace::Folder(session) }
    }
}

fn strange() -> Error {
    Error::Refused {
        class: ErrorClass::Invalid,
        text: "the statement was prepared for a database elsewhere".to_owned(),
        help: Some("prepare it in this session".to_owned()),
    }
}

impl Session {
    /// Connects to a cluster (`cassandra://…`, see [`ClusterUrl`]), or opens the directory of a
    /// database (`firn:DIR[?keyspace=NAME]`, created if missing).
    ///
    /// ```
    /// use firn_cluster::Session;
    /// # let dir = std::env::temp_dir().join(format!("firn-doc-cluster-{}", std::process::id()));
    /// # let url = format!("firn:{}", dir.display());
    /// // let url = "firn:shop", or "cassandra://10.0.0.1,10.0.0.2/shop"
    /// let session = Session::connect(&url)?;
    /// session.execute("CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", ())?;
    /// session.execute("CREATE TABLE shop.items (id int PRIMARY KEY, name text)", ())?;
    /// session.execute("INSERT INTO shop.items (id, name) VALUES (?, ?)", (1, "snow"))?;
    /// let names: Vec<(String,)> = session.execute("SELECT name FROM shop.items", ())?.typed()?;
    /// assert_eq!(names, [("snow".to_owned(),)]);
    /// # drop(session); std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), firn_cql::Error>(())
    /// ```
    ///
    /// # Errors `Configuration` for an invalid URL. For a cluster: `Unanswered` if no node is
    /// reached, `BadCredentials` for a wrong or missing login, `Invalid` for a missing keyspace.
    /// For a directory: errors of [`firn_cql::Session::open`].
    pub fn connect(url: &str) -> Result<Session> {
        let Some(folder) = url.strip_prefix(FOLDER) else {
            return Session::connect_to(ClusterUrl::parse(url)?);
        };
        let (folder, keyspace) = match folder.rsplit_once(KEYSPACE) {
            Some((folder, keyspace)) => (folder, Some(keyspace)),
            None => (folder, None),
        };
        let session = firn_cql::Session::open(folder)?;
        if let Some(keyspace) = keyspace {
            session.execute(&format!("USE {}", quote_if_needed(keyspace)), ())?;
        }
        Ok(session.into())
    }

    /// Connects to the cluster at this address.
    ///
    /// # Errors
    /// As [`connect`](Session::connect).
    pub fn connect_to(url: ClusterUrl) -> Result<Session> {
        let (keyspace, levels) = (url.keyspace.as_deref().map(Arc::from), url.levels);
        let cluster = Arc::new(Cluster::new(url)?);
        cluster.pool(keyspace.as_ref())?;
        let keyspace = RwLock::new(keyspace);
        let place = SessionPlace::Cluster(ClusterSession { cluster, keyspace, levels });
        Ok(Session { place })
    }

    /// Returns the session with another consistency level of reads and writes, by name. In a
    /// directory every level is the same, because there is one replica.
    ///
    /// # Errors
    /// `Configuration` for an unknown level, at a cluster.
    pub fn with_consistency(&self, name: &str) -> Result<Session> {
        let mut session = self.clone();
        if let SessionPlace::Cluster(cluster) = &mut session.place {
            cluster.levels = cluster.levels.with_consistency(name)?;
        }
        Ok(session)
    }

    /// Returns the session with another consistency level of conditions: `SERIAL` or
    /// `LOCAL_SERIAL`.
    ///
    /// # Errors
    /// As [`with_consistency`](Session::with_consistency).
    pub fn with_serial_consistency(&self, name: &str) -> Result<Session> {
        let mut session = self.clone();
        if let SessionPlace::Cluster(cluster) = &mut session.place {
            cluster.levels = cluster.levels.with_serial(name)?;
        }
        Ok(session)
    }

    /// Returns the names of both levels; `None` in a directory.
    pub fn consistencies(&self) -> Option<(&'static str, &'static str)> {
        match &self.place {
            SessionPlace::Folder(_) => None,
            SessionPlace::Cluster(cluster) => Some(cluster.levels.names()),
        }
    }

    /// Returns the number of nodes by data centre, including nodes that are down; `None` in a
    /// directory.
    ///
    /// # Errors
    /// Errors of connecting, if the session has no connections yet.
    pub fn nodes_by_datacenter(&self) -> Result<Option<BTreeMap<String, usize>>> {
        match &self.place {
            SessionPlace::Folder(_) => Ok(None),
            SessionPlace::Cluster(cluster) => cluster.nodes_by_datacenter().map(Some),
        }
    }

    /// Closes the session for all clones: closes connections, or the directory
    /// ([`firn_cql::Session::close`]). Later statements fail with the class `Server`.
    ///
    /// # Errors
    /// For a directory, errors of [`firn_cql::Session::close`].
    pub fn close(&self) -> Result<()> {
        match &self.place {
            SessionPlace::Folder(session) => session.close(),
            SessionPlace::Cluster(cluster) => {
                cluster.cluster.close();
                Ok(())
            }
        }
    }

    /// Returns the current keyspace.
    pub fn keyspace(&self) -> Option<Arc<str>> {
        match &self.place {
            SessionPlace::Folder(session) => session.keyspace(),
            SessionPlace::Cluster(cluster) => cluster.keyspace.read().clone(),
        }
    }

    /// Returns the role of the login, from the URL.
    pub fn role(&self) -> Option<&str> {
        match &self.place {
            SessionPlace::Folder(session) => session.role(),
            SessionPlace::Cluster(cluster) => cluster.cluster.url.user(),
        }
    }

    /// Runs a statement. A statement with values is prepared once and cached.
    ///
    /// # Errors
    /// Errors of the statement, by the classes of [`ErrorClass`]. It had no effect then, unless the
    /// class says that this is unknown.
    pub fn execute(&self, cql: &str, values: impl Values) -> Result<Rows> {
        self.execute_with(cql, values, &RunOptions::default())
    }

    /// Runs a statement with these options.
    ///
    /// # Errors
    /// As [`execute`](Session::execute).
    pub fn execute_with(&self, cql: &str, values: impl Values, how: &RunOptions) -> Result<Rows> {
        match &self.place {
            SessionPlace::Folder(session) => session.execute_with(cql, values, how),
            SessionPlace::Cluster(cluster) => cluster.execute_with(cql, values, how),
        }
    }

    /// Prepares a statement, or returns the cached one.
    ///
    /// # Errors
    /// Errors of the statement.
    pub fn prepare(&self, cql: &str) -> Result<Prepared> {
        self.prepare_in(None, cql)
    }

    /// As [`prepare`](Session::prepare), in this keyspace. `None`: that of the session.
    ///
    /// # Errors
    /// As [`prepare`](Session::prepare).
    pub fn prepare_in(&self, keyspace: Option<&Arc<str>>, cql: &str) -> Result<Prepared> {
        Ok(Prepared(match &self.place {
            SessionPlace::Folder(session) => {
                PreparedPlace::Folder(session.prepare_in(keyspace, cql)?)
            }
            SessionPlace::Cluster(cluster) => {
                PreparedPlace::Cluster(cluster.prepare_in(keyspace, cql)?)
            }
        }))
    }

    /// Runs a prepared statement.
    ///
    /// # Errors
    /// As [`execute`](Session::execute).
    pub fn run(&self, prepared: &Prepared, values: impl Values, how: &RunOptions) -> Result<Rows> {
        match (&self.place, &prepared.0) {
            (SessionPlace::Folder(session), PreparedPlace::Folder(p)) => {
                session.run(p, values, how)
            }
            (SessionPlace::Cluster(cluster), PreparedPlace::Cluster(p)) => {
                cluster.run(p, values, how)
            }
            _ => Err(strange()),
        }
    }

    /// Runs prepared changes as one batch, as [`firn_cql::Session::batch`]. At a cluster a logged
    /// batch is eventually complete; an unlogged one is atomic only within a partition.
    ///
    /// # Errors
    /// As [`firn_cql::Session::batch`].
    pub fn batch<'m>(
        &self,
        kind: BatchKind,
        members: &'m [(&'m Prepared, Vec<BoundValue>)],
        how: &RunOptions,
    ) -> Result<Rows> {
        match &self.place {
            SessionPlace::Folder(session) => {
                let member = |(prepared, bound): &(&'m Prepared, Vec<BoundValue>)| match &prepared.0
                {
                    PreparedPlace::Folder(p) => Ok((p, bound.clone())),
                    PreparedPlace::Cluster(_) => Err(strange()),
                };
                session.batch(kind, &members.iter().map(member).collect::<Result<Vec<_>>>()?, how)
            }
            SessionPlace::Cluster(cluster) => {
                let member = |(prepared, bound): &'m (&Prepared, Vec<BoundValue>)| match &prepared.0
                {
                    PreparedPlace::Cluster(p) => Ok((&**p, &**bound)),
                    PreparedPlace::Folder(_) => Err(strange()),
                };
                cluster.batch(kind, &members.iter().map(member).collect::<Result<Vec<_>>>()?, how)
            }
        }
    }

    /// Runs a statement and iterates over its rows, a page at a time.
    ///
    /// # Errors
    /// Errors of the first page. Errors of later pages are items of the iterator.
    pub fn query(&self, cql: &str, values: impl Values) -> Result<PagedRows> {
        self.query_with(cql, values, &RunOptions::default())
    }

    /// As [`query`](Session::query), with these options. The default page size is [`PagedRows::PAGE`]
    /// rows.
    ///
    /// # Errors
    /// As [`query`](Session::query).
    pub fn query_with(
        &self,
        cql: &str,
        values: impl Values,
        how: &RunOptions,
    ) -> Result<PagedRows> {
        if let SessionPlace::Folder(session) = &self.place {
            return session.query_with(cql, values, how);
        }
        let how = &RunOptions { page_size: how.page_size.or(Some(PagedRows::PAGE)), ..how.clone() };
        if values.bind(&[]).is_ok_and(|none| none.is_empty()) {
            let first = self.execute_with(cql, (), how)?;
            if *first.kind() != ResultKind::Rows || first.paging().is_none() {
                return Ok(PagedRows::over_pages(first, |_| Ok(Rows::void())));
            }
            let (session, cql, mut how) = (self.clone(), cql.to_owned(), how.clone());
            return Ok(PagedRows::over_pages(first, move |from| {
                how.paging = Some(from);
                session.execute_with(&cql, (), &how)
            }));
        }
        self.query_prepared(&self.prepare_in(how.keyspace.as_ref(), cql)?, values, how)
    }

    /// Runs a prepared statement and iterates over its rows, a page at a time.
    ///
    /// # Errors
    /// As [`query`](Session::query).
    pub fn query_prepared(
        &self,
        prepared: &Prepared,
        values: impl Values,
        how: &RunOptions,
    ) -> Result<PagedRows> {
        let bound = values.bind(prepared.markers())?;
        let mut how =
            RunOptions { page_size: how.page_size.or(Some(PagedRows::PAGE)), ..how.clone() };
        let first = self.run(prepared, &bound, &how)?;
        let (session, prepared) = (self.clone(), prepared.clone());
        Ok(PagedRows::over_pages(first, move |from| {
            how.paging = Some(from);
            session.run(&prepared, &bound, &how)
        }))
    }
}

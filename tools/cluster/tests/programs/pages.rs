//! Results in pages, and iteration over them.

use firn_cql::{PagedRows, ResultKind, RunOptions};

use super::Session;
use super::done;

fn filled(session: &Session, rows: i32) {
    done(session, "CREATE TABLE t (p int, c int, v text, PRIMARY KEY (p, c))");
    let insert = session.prepare("INSERT INTO t (p, c, v) VALUES (?, ?, ?)").unwrap();
    for c in 0..rows {
        session.run(&insert, (1, c, format!("row {c}")), &RunOptions::default()).unwrap();
    }
}

pub fn pages_of_rows(session: &Session) {
    filled(session, 250);
    let select = session.prepare("SELECT c FROM t WHERE p = ?").unwrap();
    let mut how = RunOptions { page_size: Some(100), ..RunOptions::default() };
    let (mut found, mut sizes): (Vec<i32>, Vec<usize>) = (vec![], vec![]);
    loop {
        let page = session.run(&select, (1,), &how).unwrap();
        sizes.push(page.len());
        found.extend(page.typed::<(i32,)>().unwrap().into_iter().map(|(c,)| c));
        how.paging = page.paging().cloned();
        if how.paging.is_none() {
            break;
        }
    }
    assert_eq!(sizes, [100, 100, 50]);
    assert_eq!(found, (0..250).collect::<Vec<_>>());
    // A page may be requested again, and texts have pages, too.
    let text = "SELECT c FROM t WHERE p = 1";
    let first = session
        .execute_with(text, (), &RunOptions { page_size: Some(7), ..RunOptions::default() })
        .unwrap();
    assert_eq!(first.len(), 7);
    let behind =
        RunOptions { page_size: Some(7), paging: first.paging().cloned(), ..RunOptions::default() };
    for _ in 0..2 {
        let second = session.execute_with(text, (), &behind).unwrap();
        assert_eq!(second.row(0).unwrap().at::<i32>(0).unwrap(), 7);
    }
    let rest = RunOptions { paging: first.paging().cloned(), ..RunOptions::default() };
    let rest = session.execute_with(text, (), &rest).unwrap();
    assert_eq!((rest.len(), rest.paging()), (243, None));
    // Without a page size a result is complete.
    let whole = session.execute_with(text, (), &RunOptions::default()).unwrap();
    assert_eq!((whole.len(), whole.paging()), (250, None));
    assert_eq!(session.run(&select, (1,), &RunOptions::default()).unwrap().len(), 250);
}

pub fn walks(session: &Session) {
    filled(session, 250);
    let how = RunOptions { page_size: Some(40), ..RunOptions::default() };
    let walk = session.query_with("SELECT c, v FROM t WHERE p = ?", (1,), &how).unwrap();
    assert_eq!(walk.page().len(), 40);
    let rows: Vec<(i32, String)> = walk.typed().collect::<firn_cql::Result<_>>().unwrap();
    assert_eq!(rows.len(), 250);
    assert!(rows.iter().enumerate().all(|(n, (c, v))| *c == n as i32 && *v == format!("row {n}")));
    let mut count = 0;
    for row in session.query("SELECT c FROM t", ()).unwrap() {
        assert_eq!(row.unwrap().get::<i32>("c").unwrap(), count);
        count += 1;
    }
    assert_eq!(count, 250);
    let prepared = session.prepare("SELECT v FROM t WHERE p = ? AND c >= ?").unwrap();
    let walk: PagedRows = session.query_prepared(&prepared, (1, 200), &how).unwrap();
    assert_eq!(walk.count(), 50);
    let nothing = session.query("INSERT INTO t (p, c) VALUES (2, 2)", ()).unwrap();
    assert_eq!(*nothing.page().kind(), ResultKind::Void);
    assert_eq!(nothing.count(), 0);
}

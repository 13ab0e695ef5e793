//! The pages in a real browser: each page, narrow and wide, light and dark, with an empty store and
//! while a program writes. Skipped with a message if there is no browser.
#![allow(clippy::disallowed_methods, reason = "a thread that writes")]

use std::sync::atomic::{AtomicBool, Ordering};

use firn_console::{ConsoleStore, HttpLogin, OpenedStore};
use firn_cql::Session;
use firn_kv::{Db, DbOptions, TreeOptions};

use super::chrome::ChromePage;
use super::client::{TestDir, fill, start};

const PAGES: [&str; 6] = ["overview", "shape", "trees", "reads", "cql", "simulate"];

#[test]
fn pages_follow_a_store_that_is_written_to() {
    let Some(mut page) = ChromePage::open(1200, false) else { return };
    let dir = TestDir::new("pages");
    let options = DbOptions { memory_budget: 32 << 20, ..DbOptions::default() };
    let db = Db::open_with(&dir.0, options).unwrap();
    let small = TreeOptions {
        policy: "leveled:4:base=1m".parse().unwrap(),
        memtable_size: 64 << 10,
        table_size: 64 << 10,
        ..TreeOptions::default()
    };
    let tree = db.tree("t", small).unwrap();
    let console =
        start(ConsoleStore::opened(OpenedStore { db, session: None }), HttpLogin::Open, false);
    let base = format!("http://{}/", console.address());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            let mut n = 1u64;
            while !stop.load(Ordering::Relaxed) {
                n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                tree.put(format!("key{:08}", n >> 40), [n as u8; 100]).unwrap();
                tree.get(format!("key{:08}", n >> 41)).unwrap();
            }
        });
        // A failing test must not wait for the writer.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            watch_a_load(&mut page, &base);
            let mut narrow = ChromePage::open(640, true).unwrap();
            watch_a_load(&mut narrow, &base);
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
}

fn watch_a_load(page: &mut ChromePage, base: &str) {
    page.go(&format!("{base}#overview"));
    page.wait_for("document.querySelectorAll('.chart path').length > 10 && document.querySelector('.tile b').textContent !== '0'");
    page.wait_for(
        "[...document.querySelectorAll('td')].some(td => td.textContent === 'compaction')",
    );
    page.check("load-overview");
    page.go(&format!("{base}#shape"));
    page.wait_for("document.querySelectorAll('.shape .table').length > 10");
    // Tables move while the page is open.
    page.wait_for("document.querySelectorAll('.shape .table.new').length > 0");
    page.check("load-shape");
    page.eval("[...document.querySelectorAll('button')].find(b => b.textContent.startsWith('Record')).click()");
    page.wait_for("document.querySelector('a[href=\"/api/recording\"]') !== null");
    page.go(&format!("{base}#reads"));
    page.wait_for("document.querySelector('[name=tree]').options.length > 0");
    page.eval("document.querySelector('[name=key]').value = 'key00000001'; document.querySelector('form').requestSubmit(); null");
    page.wait_for("document.querySelectorAll('.tree li').length > 0");
    page.check("load-reads");
    page.go(&format!("{base}#trees"));
    page.wait_for("document.querySelector('td a').textContent === 't'");
    page.check("load-trees");
    page.go(&format!("{base}#simulate"));
    page.wait_for("document.querySelector('[name=tree]').options.length > 0");
    page.eval("document.querySelector('[name=policies]').value = 'tiered:4'; document.querySelector('form').requestSubmit(); null");
    page.wait_for("document.querySelector('progress') !== null || document.querySelectorAll('th.name').length === 3");
    page.check("load-simulate");
}

#[test]
fn a_browser_runs_statements_with_the_keyboard() {
    let Some(mut page) = ChromePage::open(640, false) else { return };
    let session = Session::in_memory().unwrap();
    fill(&session);
    let console = start(ConsoleStore::own(&session), HttpLogin::Open, false);
    page.go(&format!("http://{}/", console.address()));
    let press = |key: &str, more: &str| {
        format!(
            "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true, cancelable: true, {more} }})); null"
        )
    };
    page.wait_for("document.querySelectorAll('nav a').length === 7");
    page.eval(&press("?", ""));
    page.wait_for("document.getElementById('keys').open");
    page.eval("document.getElementById('keys').close(); null");
    page.eval(&press("/", ""));
    page.wait_for("document.activeElement.id === 'prompt'");
    page.eval("document.activeElement.value = 'SELECT id, name, tags FROM shop.items'; null");
    page.eval(&press("Enter", "ctrlKey: true"));
    page.wait_for("document.querySelectorAll('tbody tr').length === 100");
    assert_eq!(page.eval("document.querySelector('.null').textContent"), "null");
    page.eval("document.querySelector('#more button').click()");
    page.wait_for("document.querySelectorAll('tbody tr').length === 200");
    page.check("cql");
    page.eval("document.getElementById('prompt').value = 'DROP TABLE shop.items'; document.querySelector('form').requestSubmit(); null");
    page.wait_for("document.querySelector('.error').textContent.includes('read-only')");
    page.eval("document.getElementById('prompt').focus(); null");
    page.eval(&press("ArrowUp", "altKey: true"));
    page.eval(&press("ArrowUp", "altKey: true"));
    assert_eq!(
        page.eval("document.getElementById('prompt').value"),
        "SELECT id, name, tags FROM shop.items"
    );
    page.eval(&press("Escape", ""));
    page.eval(&press("3", ""));
    page.wait_for("document.querySelector('summary b')?.textContent === 'shop'");
    page.check("trees");
    page.eval(&press("4", ""));
    page.wait_for("document.querySelector('[name=statement]') !== null");
    page.eval("document.querySelector('[name=statement]').value = 'SELECT * FROM shop.items WHERE id = 7'; document.querySelector('form').requestSubmit(); null");
    page.wait_for("document.querySelector('.tree h3')?.textContent.includes('partition id = 7')");
    page.check("reads");
}

#[test]
fn every_page_shows_an_empty_store() {
    for (width, dark) in [(640, true), (1200, false)] {
        let Some(mut page) = ChromePage::open(width, dark) else { return };
        let session = Session::in_memory().unwrap();
        let console = start(ConsoleStore::own(&session), HttpLogin::Open, false);
        for name in PAGES {
            page.go(&format!("http://{}/#{name}", console.address()));
            page.wait_for("document.querySelector('#page').innerText.length > 20 && document.querySelector('#state').textContent.startsWith('live')");
            assert_eq!(page.eval("document.querySelectorAll('.error').length"), 0, "{name}");
            page.check(&format!("empty-{name}"));
        }
    }
}

//! The dashboard in `docs/grafana` and the metrics: each query names metrics and labels that exist,
//! and the dashboard shows every metric except for the listed ones.

use std::collections::{BTreeMap, BTreeSet};

use firn_cql::Session;
use firn_server::{Options, Server};
use serde_json::Value;

/// Metrics that the dashboard does not show: they explain others, or only matter to few.
const NOT_SHOWN: [&str; 5] = [
    "firn_cache_blocks",
    "firn_sequence_number",
    "firn_server_prepared_bytes",
    "firn_server_prepared_evicted_total",
    "firn_server_prepared_statements",
];

const DASHBOARD: &str = include_str!("../../../docs/grafana/firn.json");

/// Returns the names of all series with their labels, by family.
fn families() -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
    let session = Session::in_memory().unwrap();
    for text in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (id int PRIMARY KEY)",
    ] {
        session.execute(text, ()).unwrap();
    }
    let server = Server::start_with_session(session, Options::ephemeral()).unwrap();
    let text = server.metrics();
    server.stop().unwrap();
    let mut all: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            rest.split(' ').next().unwrap().clone_into(&mut family);
            all.entry(family.clone()).or_default();
        } else if !line.starts_with('#') {
            let (name, rest) = line.split_once(['{', ' ']).unwrap();
            let labels = rest.split("=\"").map(|part| part.rsplit([',', '"']).next().unwrap());
            let of = all.get_mut(&family).unwrap().entry(name.to_owned()).or_default();
            of.extend(labels.map(str::to_owned));
        }
    }
    // Nothing has read or written a table yet.
    for end in ["", "_sum", "_count"] {
        let labels = ["keyspace", "table", "access", "quantile"].map(str::to_owned).into();
        let family = all.get_mut("firn_server_table_seconds").unwrap();
        family.insert(format!("firn_server_table_seconds{end}"), labels);
    }
    // A store in memory has no disk.
    let disk = all.entry("firn_disk_free_bytes".to_owned()).or_default();
    disk.insert("firn_disk_free_bytes".to_owned(), BTreeSet::new());
    all
}

/// Returns the selectors of a query: metrics with their labels.
fn selectors(query: &str) -> Vec<(String, Vec<String>)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut all = vec![];
    for (at, _) in query.match_indices("firn_") {
        let name: String = query[at..].chars().take_while(|c| is_name(*c)).collect();
        let rest = &query[at + name.len()..];
        let labels = rest.strip_prefix('{').and_then(|r| r.split_once('}')).map_or("", |(l, _)| l);
        let label = |l: &str| l.split(['=', '!']).next().unwrap().trim().to_owned();
        all.push((name, labels.split(',').filter(|l| !l.is_empty()).map(label).collect()));
    }
    all
}

#[test]
fn the_dashboard_shows_the_metrics_that_exist() {
    let families = families();
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut queries: Vec<String> = vec![];
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            queries.push(target["expr"].as_str().unwrap().to_owned());
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        queries.extend(variable["definition"].as_str().map(str::to_owned));
    }
    assert!(queries.len() > 60, "{} queries", queries.len());
    let mut shown = BTreeSet::new();
    for query in &queries {
        for (name, labels) in selectors(query) {
            let found = families.iter().find_map(|(family, all)| Some((family, all.get(&name)?)));
            let (family, known) = found.unwrap_or_else(|| panic!("no metric {name}: {query}"));
            shown.insert(family.clone());
            // Prometheus adds the address of the server.
            for label in labels.iter().filter(|l| *l != "instance") {
                assert!(known.contains(label), "{name} has no label {label}: {query}");
            }
        }
        assert_eq!(query.matches(['(', '{', '[']).count(), query.matches([')', '}', ']']).count());
    }
    let missing: Vec<_> =
        families.keys().filter(|f| !shown.contains(*f) && !NOT_SHOWN.contains(&&***f)).collect();
    assert!(missing.is_empty(), "the dashboard shows none of {missing:?}");
}

#[test]
fn panels_have_a_description_and_a_place_of_their_own() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut taken = BTreeSet::new();
    for panel in panels {
        let at = |field: &str| panel["gridPos"][field].as_u64().unwrap();
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(x < 24 && taken.insert((x, y)), "{} overlaps at {x}, {y}", panel["title"]);
            }
        }
        assert!(panel["type"] == "row" || panel["description"].is_string(), "{}", panel["title"]);
    }
    let ids: BTreeSet<_> = panels.iter().map(|p| p["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len());
}

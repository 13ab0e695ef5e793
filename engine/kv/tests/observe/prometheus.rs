//! The statistics in Prometheus format. A checker of the text format's rules parses them.

use std::collections::{BTreeMap, BTreeSet};

use firn_kv::TreeOptions;

use firn_kv::stats::Latency;

use super::{key, open, options, piling};

/// Name and labels of a sample.
type Series = (String, BTreeMap<String, String>);

/// Parses a sample's line and unescapes its labels.
fn sample(line: &str) -> (Series, f64) {
    let end = line.find(['{', ' ']).expect("a sample has a value");
    let (name, mut rest) = (line[..end].to_owned(), &line[end..]);
    assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            rest = rest.strip_prefix(',').unwrap_or(rest);
            let (label, text) = rest.split_once("=\"").expect("a label has a text");
            let (mut value, mut chars) = (String::new(), text.char_indices());
            let end = loop {
                match chars.next().expect("a label text ends") {
                    (i, '"') => break i,
                    (_, '\\') => {
                        value.push(match chars.next().expect("a backslash escapes a character").1 {
                            'n' => '\n',
                            c @ ('\\' | '"') => c,
                            c => panic!("\\{c} in {line}"),
                        })
                    }
                    (_, c) => value.push(c),
                }
            };
            assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
            rest = &text[end + 1..];
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').expect("a blank before the value");
    ((name, labels), value.parse().expect(line))
}

/// Parses all samples of a text. Panics if the text violates the format.
fn read(text: &str) -> BTreeMap<Series, f64> {
    assert!(text.ends_with('\n'));
    let (mut all, mut families, mut now) =
        (BTreeMap::new(), BTreeSet::new(), (String::new(), String::new()));
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a help line has a text");
            let kind = lines
                .next()
                .and_then(|l| l.strip_prefix("# TYPE "))
                .expect("the type follows the help");
            let kind = kind.strip_prefix(name).expect("the type belongs to the same family").trim();
            assert!(
                ["counter", "gauge", "histogram"].contains(&kind) && !help.is_empty(),
                "{line}"
            );
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            assert!(
                name.starts_with("firn_") && families.insert(name.to_owned()),
                "{name} is repeated"
            );
            now = (name.to_owned(), kind.to_owned());
            continue;
        }
        let (series, value) = sample(line);
        let own = series
            .0
            .strip_prefix(&now.0)
            .unwrap_or_else(|| panic!("{line} is not in the family {}", now.0));
        let parts: &[&str] =
            if now.1 == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        assert!(parts.contains(&own) && value >= 0.0, "{line}");
        assert!(all.insert(series, value).is_none(), "{line} is repeated");
    }
    all
}

fn series(name: &str, labels: &[(&str, &str)]) -> Series {
    (name.to_owned(), labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
}

#[test]
fn the_text_keeps_to_the_format_and_says_what_the_statistics_say() {
    let (_env, db) = open(options());
    let odd = "a \"quoted\\name\"\nover two lines, with {braces}";
    let tree = db.tree(odd, piling()).unwrap();
    db.tree("plain", TreeOptions::default()).unwrap().put("k", "v").unwrap();
    for round in 0..3 {
        (0..1000).for_each(|n| tree.put(key(n + 1000 * round), "value").unwrap());
        tree.flush().unwrap();
    }
    tree.compact().unwrap();
    (0..3000).for_each(|n| {
        drop((tree.get(key(n)).unwrap(), tree.get([key(n), key(n)].concat()).unwrap()))
    });
    // The engine deletes the input files when no thread of the process reads, and other tests do
    // read.
    assert!((0..1_000_000).any(|_| {
        drop(tree.get("k").unwrap());
        std::thread::yield_now();
        db.stats().files.open == 1
    }));
    let stats = db.stats();
    let all = read(&stats.prometheus());
    let is = |name: &str, labels: &[(&str, &str)], value: f64| {
        assert_eq!(all[&series(name, labels)], value, "{name}")
    };
    is("firn_operations_written_total", &[], stats.ops_written as f64);
    is("firn_flushes_total", &[], 3.0);
    is("firn_compactions_total", &[("action", "merge")], 1.0);
    is("firn_tree_entries", &[("tree", odd)], 3000.0);
    is("firn_tree_entries", &[("tree", "plain")], 0.0);
    is("firn_gets_total", &[("tree", odd)], stats.reads.gets as f64);
    assert!(stats.reads.filter_negatives > 0 && stats.latencies.get.timed > 0);
    is("firn_filter_negatives_total", &[("tree", odd)], stats.reads.filter_negatives as f64);
    is("firn_space_bytes", &[("state", "live")], stats.space.live as f64);
    is("firn_open_files", &[("of", "store")], 1.0);
    is("firn_open_files_bound", &[], 64.0);
    is("firn_files_reopened_total", &[], 0.0);
    is("firn_latency_seconds_count", &[("operation", "flush")], 3.0);
}

#[test]
fn histograms_are_cumulative_and_agree_with_the_quantiles() {
    let (env, db) = open(options());
    let tree = db.tree("t", piling()).unwrap();
    for _ in 0..20 {
        (0..500).for_each(|n| tree.put(key(n), "value").unwrap());
        env.advance(std::time::Duration::from_millis(1));
        tree.flush().unwrap();
        tree.first().unwrap();
    }
    let stats = db.stats();
    let all = read(&stats.prometheus());
    for (operation, l) in stats.latencies.named() {
        let at = |le: &str| {
            all[&series("firn_latency_seconds_bucket", &[("operation", operation), ("le", le)])]
                as u64
        };
        let counts: Vec<u64> =
            Latency::BOUNDS.iter().map(|b| at(&(*b as f64 / 1e9).to_string())).collect();
        assert!(
            counts.is_sorted() && counts.iter().all(|c| *c <= l.timed),
            "{operation}: {counts:?} of {}",
            l.timed
        );
        assert_eq!(at("+Inf"), l.timed);
        assert_eq!(
            all[&series("firn_latency_seconds_count", &[("operation", operation)])] as u64,
            l.timed
        );
        for (bound, count) in Latency::BOUNDS.iter().zip(&counts) {
            let half = l.timed.div_ceil(2);
            assert!(
                l.timed == 0 || l.p50 > *bound || *count >= half,
                "{operation}: half took {} ns; {counts:?}",
                l.p50
            );
            assert!(
                l.max > *bound || *count == l.timed,
                "{operation}: all took at most {} ns; {counts:?}",
                l.max
            );
        }
        assert!(
            l.sum <= l.max.saturating_mul(l.timed) && (l.sum > 0) == (l.max > 0),
            "{operation}: {l:?}"
        );
    }
    assert!(Latency::BOUNDS.is_sorted_by(|a, b| a < b));
}

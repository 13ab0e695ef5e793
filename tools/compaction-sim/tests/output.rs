//! Output of the command: the exact table, the same for the same seed; and a real store's log
//! against the prediction.

use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};
use compaction_sim::cli::SimCli;
use compaction_sim::cli::commands::execute;
use compaction_sim::history::parse;
use compaction_sim::model::size::ContentSize;
use compaction_sim::report::metric::{METRICS, MetricFigure};
use compaction_sim::validate::engine::run_in_memory;
use compaction_sim::workload::{SimWorkload, WorkloadName};
use firn_kv::policy::LazyLeveled;
use firn_kv::{Compression, Policy, TreeOptions};
use firn_workload::WorkloadDescription;

fn print(args: &[&str]) -> String {
    let cli =
        SimCli::try_parse_from([&["compaction-sim", "--color", "never"], args].concat()).unwrap();
    let mut out = vec![];
    execute(&cli, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

const RUN: [&str; 11] = [
    "run",
    "--policy",
    "lazy-leveled:3",
    "--workload",
    "deletes:0.2",
    "--data",
    "200M",
    "--memtable-size",
    "2M",
    "--table-size",
    "2M",
];

#[test]
fn the_table_is_as_it_was_and_the_same_each_time() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run.txt");
    let text = print(&RUN);
    assert_eq!(text, print(&RUN));
    if std::env::var_os("FIRN_REWRITE").is_some() {
        firn_tools::io::write(&golden, text.as_bytes()).unwrap();
    }
    assert_eq!(
        text,
        include_str!("run.txt"),
        "FIRN_REWRITE=1 makes the actual output the expected one"
    );
}

/// A newcomer's first sweep shows that strategies differ: the commands of the README and the page.
#[test]
fn the_sweeps_of_the_pages_have_lines_that_differ() {
    let pages = [include_str!("../../../README.md"), include_str!("../../../docs/simulate.md")];
    for page in pages {
        let sweep = page.lines().find(|l| l.starts_with("compaction-sim sweep --data")).unwrap();
        let args = sweep.split(" --svg").next().unwrap().split(' ').skip(1);
        let text = print(&args.collect::<Vec<_>>());
        let lines = text.lines().skip(1).filter_map(|l| l.split_once("  "));
        let different: std::collections::BTreeSet<&str> = lines.map(|l| l.1.trim()).collect();
        assert!(different.len() >= 8, "{sweep}: {text}");
    }
}

/// The course of any simulation has as many points as a figure needs.
#[test]
fn a_course_stays_short() {
    let args = "--json run --policy tiered --data 6G --memtable-size 1M --background-threads 0";
    let v: serde_json::Value =
        serde_json::from_str(&print(&args.split(' ').collect::<Vec<_>>())).unwrap();
    let flushes = v[0]["flushes"].as_f64().unwrap();
    let points = v[0]["points"].as_array().unwrap().len();
    assert!(flushes > 4096.0 && (512..=1024).contains(&points), "{points} of {flushes}");
}

#[test]
fn seeds_are_an_interval() {
    let text = print(&[&RUN[..], &["--ingest", "0", "--seeds", "3"]].concat());
    assert!(text.contains("3 seeds") && text.contains("median"), "{text}");
    let text = print(&[&["--json"], &RUN[..], &["--ingest", "0", "--seeds", "3"]].concat());
    let v: serde_json::Value = serde_json::from_str(&text).unwrap();
    let held_up: Vec<f64> =
        v.as_array().unwrap().iter().map(|o| o["slowdown_seconds"].as_f64().unwrap()).collect();
    assert!(held_up.len() == 3 && held_up[0] != held_up[1], "{held_up:?}");
}

/// `--live` is one copy of a domain of keys, or all written data.
#[test]
fn data_are_said_as_held_or_as_written() {
    let sizes = ["--memtable-size=1M", "--table-size=1M", "--value-size=84", "--compression=none"];
    let run = |args: &[&str]| {
        let text = print(&[&["--json", "run", "--live", "20M"], args, &sizes[..]].concat());
        let v: serde_json::Value = serde_json::from_str(&text).unwrap();
        (v[0]["user_bytes"].as_f64().unwrap() / 2f64.powi(20), v[0]["live_bytes"].as_f64().unwrap())
    };
    let (written, live) = run(&["--workload", "uniform"]);
    assert!((written - 80.0).abs() < 0.1 && live > 20e6 && live < 25e6, "{written} {live}");
    let (written, live) = run(&["--workload", "insert"]);
    assert!((written - 20.0).abs() < 0.1 && live > 20e6, "{written} {live}");
}

#[test]
fn json_csv_and_pages_hold_every_case() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (csv, html) = (dir.join("sweep.csv"), dir.join("sweep.html"));
    let args = [
        "--json",
        "sweep",
        "--policies",
        "tiered,lazy-leveled",
        "--ratios",
        "3,4",
        "--data",
        "50M",
        "--memtable-size",
        "1M",
    ];
    let files = [
        "--csv",
        csv.to_str().unwrap(),
        "--html",
        html.to_str().unwrap(),
        "--svg",
        dir.to_str().unwrap(),
    ];
    let text = print(&[&args[..], &files[..]].concat());
    let v: serde_json::Value = serde_json::from_str(&text).unwrap();
    let cases: Vec<&str> =
        v.as_array().unwrap().iter().map(|o| o["case"].as_str().unwrap()).collect();
    assert_eq!(cases, ["tiered:3", "tiered:4", "lazy-leveled:3", "lazy-leveled:4"]);
    let csv = String::from_utf8(compaction_sim::cli::read(&csv).unwrap()).unwrap();
    assert_eq!(csv.lines().count(), 5);
    let page = String::from_utf8(compaction_sim::cli::read(&html).unwrap()).unwrap();
    assert!(cases.iter().all(|c| page.contains(&format!("\"case\":\"{c}\""))));
    for figure in ["trade-off", "over-ratio", "runs", "space", "written", "rate"] {
        let file = |ending: &str| {
            compaction_sim::cli::read(&dir.join(format!("{figure}.{ending}"))).unwrap()
        };
        assert!(file("svg").starts_with(b"<svg"), "{figure}");
        assert!(file("csv").starts_with(b"case,"), "{figure}");
    }
    // The peak in the course of space is that of the table.
    let space =
        String::from_utf8(compaction_sim::cli::read(&dir.join("space.csv")).unwrap()).unwrap();
    for o in v.as_array().unwrap() {
        let of_case = format!("{},", o["case"].as_str().unwrap());
        let peaks = space.lines().filter(|l| l.starts_with(&of_case));
        let highest = peaks.map(|l| l.rsplit(',').next().unwrap().parse().unwrap());
        let value = o["max_space_amplification"].as_f64().unwrap();
        assert!((highest.fold(0.0, f64::max) / value - 1.0).abs() < 1e-12, "{of_case} {value}");
    }
    // By default the machine sustains the write rate easily: the course of the rate is flat to its
    // end.
    let rates =
        String::from_utf8(compaction_sim::cli::read(&dir.join("rate.csv")).unwrap()).unwrap();
    let rates: Vec<f64> =
        rates.lines().skip(1).map(|l| l.rsplit(',').next().unwrap().parse().unwrap()).collect();
    assert!(rates.iter().all(|r| (r / rates[0] - 1.0).abs() < 0.01), "{rates:?}");
}

/// A metric is one entry of a list, and appears wherever metrics do.
#[test]
fn every_metric_is_printed_everywhere() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("metrics");
    let csv = dir.join("run.csv");
    let device = ["--ssd", "600M", "--erase-block", "8M", "--endurance", "1T"];
    let files = ["--csv", csv.to_str().unwrap(), "--svg", dir.to_str().unwrap()];
    firn_tools::io::make_dirs(&dir).unwrap();
    let blob = ["--blob-threshold", "64"];
    let all = [&RUN[..], &device, &blob, &files].concat();
    let table = print(&all);
    let json: serde_json::Value =
        serde_json::from_str(&print(&[&["--json"], &all[..]].concat())).unwrap();
    let file = |path: &Path| String::from_utf8(compaction_sim::cli::read(path).unwrap()).unwrap();
    let (csv, drawn) = (file(&csv), file(&dir.join("trade-off.csv")));
    let columns: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let listed = print(&["metrics"]);
    for m in METRICS {
        assert!(json[0][m.name].is_number(), "{} in JSON", m.name);
        let at = columns.iter().position(|c| *c == m.name).unwrap();
        let value = csv.lines().nth(1).unwrap().split(',').nth(at).unwrap();
        assert_eq!(value.parse::<f64>().ok(), json[0][m.name].as_f64(), "{} in CSV", m.name);
        assert!(table.lines().any(|l| l.starts_with(m.line().0)), "{} in the table", m.name);
        assert!(listed.contains(m.name) && listed.contains(m.unit.name()));
        let is_drawn = drawn.lines().next().unwrap().split(',').any(|c| c == m.name);
        assert_eq!(is_drawn, m.figure != MetricFigure::None, "{} in figures", m.name);
    }
}

/// A named workload is one entry, and help and errors contain it.
#[test]
fn every_workload_is_in_the_help() {
    let help = SimCli::command().render_help().to_string();
    let refused = WorkloadDescription::standard("none").unwrap_err();
    for (name, _) in firn_workload::description::STANDARD {
        let syntax = WorkloadDescription::syntax(name);
        assert!(help.contains(&format!("  {syntax} ")) && refused.contains(&syntax), "{syntax}");
    }
}

#[test]
fn seeds_are_listed_one_by_one_and_drawn_as_one_case() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("seeds");
    let (svg, html) = (dir.to_str().unwrap(), dir.join("seeds.html"));
    let args = ["--policies", "tiered", "--data", "20M", "--memtable-size", "1M", "--seeds", "3"];
    let files = ["--svg", svg, "--html", html.to_str().unwrap()];
    let text = print(&[&["--json", "sweep", "--seed", "7"], &args[..], &files].concat());
    let v: serde_json::Value = serde_json::from_str(&text).unwrap();
    let seeds: Vec<u64> =
        v.as_array().unwrap().iter().map(|o| o["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [7, 8, 9]);
    let file = |path: &Path| String::from_utf8(compaction_sim::cli::read(path).unwrap()).unwrap();
    assert!(file(&dir.join("trade-off.csv")).contains("\ntiered,tiered,,3,"));
    assert_eq!(file(&html).matches("\"case\":\"tiered\"").count(), 1);
    assert_eq!(print(&[&["sweep"], &args[..]].concat()).lines().count(), 2);
}

#[test]
fn a_ratio_of_nothing_is_refused() {
    assert!(SimCli::try_parse_from(["compaction-sim", "sweep", "--ratios", "4,0"]).is_err());
}

#[test]
fn a_recorded_history_is_predicted() {
    let options = TreeOptions {
        policy: Policy::LazyLeveled(LazyLeveled { ratio: 3, ..LazyLeveled::default() }),
        compression: vec![Compression::None],
        memtable_size: 64 << 10,
        table_size: 64 << 10,
        ..TreeOptions::default()
    };
    let (keys, phases) = "uniform".parse::<WorkloadName>().unwrap().phases(15_000, 5_000);
    let content = ContentSize::default();
    let workload =
        SimWorkload { keys, phases, content, ttl_micros: 0, seed: 3, per_memtable: None };
    let (stats, log) = run_in_memory(&options, &workload, 1000).unwrap();
    let h = parse(&log, None).unwrap();
    assert_eq!(h.policy, Some(options.policy));
    assert_eq!(
        (h.flushes, h.flushed[2], h.jobs),
        (stats.flushes, stats.flush_bytes, [stats.compactions, stats.moves, stats.drops])
    );
    assert_eq!(h.merged[..2], [stats.compaction_read, stats.compaction_written]);
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("events.jsonl");
    firn_tools::io::write(&file, log.as_bytes()).unwrap();
    let text = print(&["compare", file.to_str().unwrap(), "--tolerance", "15"]);
    assert!(text.contains("written by compactions"), "{text}");
    let text = print(&["replay", file.to_str().unwrap(), "--policies", "tiered:3,full:4"]);
    assert!(text.contains("full:4"), "{text}");
    assert!(parse("nothing\n", None).is_err());
    // A line with impossible numbers is skipped.
    let most = u64::MAX;
    let huge = format!(
        "{log}{{\"event\": \"flush\", \"tree\": \"sim\", \"at\": 1, \"entries\": {most}, \
         \"versions\": {most}, \"bytes_out\": {most}, \"raw_bytes\": {most}, \"micros\": {most}, \
         \"runs\": 1, \"bytes\": 1}}\n"
    );
    assert_eq!(parse(&huge, None).unwrap().flushes, h.flushes);
}

#[test]
fn options_beyond_their_bounds_are_refused() {
    let tried = |args: &str| {
        let all = ["compaction-sim", "run", "--data", "1M"].into_iter().chain(args.split(' '));
        let cli = SimCli::try_parse_from(all).map_err(|e| e.to_string())?;
        execute(&cli, &mut vec![]).map_err(|e| format!("{e:?}"))
    };
    for (args, said) in [
        ("--key-size 7", "8 to 524287"),
        ("--key-size 524288", "8 to 524287"),
        ("--key-size 18446744073709551615", "8 to 524287"),
        ("--value-size 16777217", "exceeds 16777216"),
        ("--random-share 1.1", "random share"),
        ("--random-share NaN", "random share"),
        ("--cores 0", "from 0.1"),
        ("--background-threads 65", "0 to 64"),
        ("--max-sealed 0", "1..=3"),
        ("--max-sealed 4", "1..=3"),
        ("--write-cpu inf", "from 1 to"),
        ("--merge-cpu inf", "from 0 to"),
        ("--blob-threshold 1k --ttl-secs 5", "cannot be in blob files"),
    ] {
        let refused = tried(args).unwrap_err();
        assert!(refused.contains(said), "{args}: {refused}");
    }
    let most = "--write-cpu 1e9 --merge-cpu 1e9 --cores 0.1 --memtable-size 64k --random-share 1";
    for args in [
        "--key-size 8",
        "--key-size 524287",
        "--background-threads 0",
        "--background-threads 64",
        most,
    ] {
        tried(args).unwrap();
    }
}

#[test]
fn completions_and_pages() {
    firn_testkit::shell::completes(
        &print(&["completions", "bash"]),
        "compaction-sim",
        &["run", "sweep", "replay", "compare", "trace", "validate", "completions", "man"],
    );
    assert!(print(&["man", "sweep"]).contains("  compaction\\-sim sweep "));
}

//! Turns criterion's results in `target/criterion` into a table with one line for each benchmark.
//! A line has the time per operation with its interval, the rate, and the instructions that
//! `micro-count` counted.
//!
//! An operation is one of criterion's elements, or one iteration if the throughput is in bytes. The
//! table shows ratios if the same run measured `firn` and a comparison library.

#![allow(clippy::disallowed_methods, reason = "the tool reads criterion's result files")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use serde_json::{Value, json};

const EXAMPLES: &str = "\
Examples:
  micro-table                              results of the last `cargo bench -p firn-micro`, as Markdown
  micro-table --baseline before            results saved by `cargo bench ... -- --save-baseline before`
  micro-table --counts counts.tsv          with the instructions that `micro-count > counts.tsv` counted
  micro-table --json                       the same for programs

Exit codes: 0 printed a table, 2 found no results.";

/// Criterion's estimates as a Markdown table.
#[derive(Parser)]
#[command(name = "micro-table", after_help = EXAMPLES)]
struct TableCli {
    /// Directory of criterion's results [default: target/criterion in $CARGO_TARGET_DIR or here]
    #[arg(long, value_name = "DIR")]
    criterion: Option<PathBuf>,
    /// Baseline to read; "new" is the last run
    #[arg(long, value_name = "NAME", default_value = "new")]
    baseline: String,
    /// Instructions per operation: lines with a benchmark's name, a tab, a number
    #[arg(long, value_name = "FILE")]
    counts: Option<PathBuf>,
    /// Print an array of objects instead of Markdown
    #[arg(long)]
    json: bool,
}

/// Result of one benchmark.
#[derive(Debug, PartialEq)]
struct BenchLine {
    name: String,
    /// Nanoseconds per operation: estimate, lower bound and upper bound.
    nanos: [f64; 3],
    /// Bytes per operation, if the throughput is in bytes.
    bytes: Option<f64>,
}

/// Returns the result of one benchmark, or `None` if the files have an unexpected format.
fn line(benchmark: &Value, estimates: &Value) -> Option<BenchLine> {
    // Criterion fits a slope if the iteration counts differ between samples. Otherwise it uses the
    // mean.
    let of = ["slope", "mean"].iter().find_map(|k| estimates.get(k).filter(|e| !e.is_null()))?;
    let interval = &of["confidence_interval"];
    let iteration = [
        of["point_estimate"].as_f64()?,
        interval["lower_bound"].as_f64()?,
        interval["upper_bound"].as_f64()?,
    ];
    let throughput = &benchmark["throughput"];
    let operations = throughput["Elements"].as_f64().unwrap_or(1.0);
    Some(BenchLine {
        name: benchmark["full_id"].as_str()?.to_owned(),
        nanos: iteration.map(|n| n / operations),
        bytes: throughput["Bytes"].as_f64(),
    })
}

/// Collects the results below `dir` by name.
fn collect(
    dir: &Path,
    baseline: &str,
    lines: &mut BTreeMap<String, BenchLine>,
) -> Result<(), String> {
    let entries = std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if !path.is_dir() {
            continue;
        }
        if entry.file_name() != baseline {
            collect(&path, baseline, lines)?;
            continue;
        }
        let read = |name: &str| -> Result<Value, String> {
            let file = path.join(name);
            let text =
                std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))
        };
        let (benchmark, estimates) = (read("benchmark.json")?, read("estimates.json")?);
        let line = line(&benchmark, &estimates)
            .ok_or_else(|| format!("{}: not what this criterion writes", path.display()))?;
        lines.insert(line.name.clone(), line);
    }
    Ok(())
}

/// Reads the instruction counts by name.
fn counts(file: &Path) -> Result<BTreeMap<String, f64>, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let one = |(i, line): (usize, &str)| {
        let parsed = line
            .split_once('\t')
            .and_then(|(name, n)| Some((name.to_owned(), n.trim().parse().ok()?)));
        parsed.ok_or_else(|| {
            format!("{}, line {}: not a name, a tab and a number: {line:?}", file.display(), i + 1)
        })
    };
    text.lines().enumerate().map(one).collect()
}

/// Formats a time with three significant digits.
fn time(nanos: f64) -> String {
    let (n, unit) = match nanos {
        n if n < 1e3 => (n, "ns"),
        n if n < 1e6 => (n / 1e3, "us"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    format!("{} {unit}", digits(n))
}

fn digits(n: f64) -> String {
    let decimals = if n < 9.995 {
        2
    } else if n < 99.95 {
        1
    } else {
        0
    };
    format!("{n:.decimals$}")
}

/// Formats the rate in operations or bytes per second.
fn rate(line: &BenchLine) -> String {
    match line.bytes {
        Some(bytes) => format!("{} MB/s", digits(bytes * 1e3 / line.nanos[0])),
        None => match 1e9 / line.nanos[0] {
            n if n >= 1e6 => format!("{} M/s", digits(n / 1e6)),
            n if n >= 1e3 => format!("{} k/s", digits(n / 1e3)),
            n => format!("{} /s", digits(n)),
        },
    }
}

/// Compares Firn with the other libraries of each group. Returns the group, the library, and how
/// many times faster Firn is.
fn ratios(lines: &BTreeMap<String, BenchLine>) -> Vec<(String, String, f64)> {
    let mut out = vec![];
    for peer in lines.values().filter(|l| l.name.ends_with("/crossbeam-skiplist")) {
        let Some((group, yardstick)) = peer.name.rsplit_once('/') else { continue };
        let own = lines
            .values()
            .filter(|l| l.name.strip_prefix(group).is_some_and(|n| n.starts_with("/firn")));
        out.extend(own.map(|l| (l.name.clone(), yardstick.to_owned(), peer.nanos[0] / l.nanos[0])));
    }
    out
}

fn markdown(lines: &BTreeMap<String, BenchLine>, counts: &BTreeMap<String, f64>) -> String {
    let counted = lines.keys().any(|name| counts.contains_key(name));
    let mut out = String::from("| benchmark | time per operation | 95 % interval | rate |");
    out.push_str(if counted {
        " instructions |\n|---|---:|---:|---:|---:|\n"
    } else {
        "\n|---|---:|---:|---:|\n"
    });
    for l in lines.values() {
        let [estimate, low, high] = l.nanos.map(time);
        let _ = write!(out, "| {} | {estimate} | {low} to {high} | {} |", l.name, rate(l));
        if counted {
            let _ = write!(
                out,
                " {} |",
                counts.get(&l.name).map_or(String::new(), |n| format!("{n:.0}"))
            );
        }
        out.push('\n');
    }
    let ratios = ratios(lines);
    if !ratios.is_empty() {
        out.push_str("\n| beside a yardstick | yardstick | times faster |\n|---|---|---:|\n");
        for (name, yardstick, times) in ratios {
            let _ = writeln!(out, "| {name} | {yardstick} | {times:.2} |");
        }
    }
    out
}

fn json(lines: &BTreeMap<String, BenchLine>, counts: &BTreeMap<String, f64>) -> String {
    let one = |l: &BenchLine| {
        json!({
            "benchmark": l.name,
            "nanos": l.nanos[0],
            "nanos_low": l.nanos[1],
            "nanos_high": l.nanos[2],
            "bytes": l.bytes,
            "instructions": counts.get(&l.name),
        })
    };
    format!("{:#}\n", Value::Array(lines.values().map(one).collect()))
}

/// Returns the directory where criterion stores its results when it is run from here.
fn default_dir() -> PathBuf {
    match std::env::var_os("CRITERION_HOME") {
        Some(home) => home.into(),
        None => {
            PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
                .join("criterion")
        }
    }
}

fn run(cli: &TableCli) -> Result<String, String> {
    let dir = cli.criterion.clone().unwrap_or_else(default_dir);
    let mut lines = BTreeMap::new();
    if dir.is_dir() {
        collect(&dir, &cli.baseline, &mut lines)?;
    }
    if lines.is_empty() {
        let hint =
            "run `cargo bench -p firn-micro` first, or name another --criterion or --baseline";
        return Err(format!("{}: no results named {:?}; {hint}", dir.display(), cli.baseline));
    }
    let counts = cli.counts.as_deref().map(counts).transpose()?.unwrap_or_default();
    Ok(if cli.json { json(&lines, &counts) } else { markdown(&lines, &counts) })
}

fn main() -> ExitCode {
    match run(&TableCli::parse()) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(words) => {
            eprintln!("micro-table: {words}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimates(slope: Option<f64>, mean: f64) -> Value {
        let of = |n: f64| {
            json!({
                "confidence_interval": {"confidence_level": 0.95, "lower_bound": n * 0.9, "upper_bound": n * 1.1},
                "point_estimate": n,
                "standard_error": 1.0,
            })
        };
        json!({"mean": of(mean), "slope": slope.map(of)})
    }

    fn made(name: &str, throughput: Value, slope: Option<f64>, mean: f64) -> BenchLine {
        line(&json!({"full_id": name, "throughput": throughput}), &estimates(slope, mean)).unwrap()
    }

    #[test]
    fn a_line_is_per_element_and_prefers_the_slope() {
        let l = made("a/b", json!({"Elements": 10}), Some(50.0), 70.0);
        assert_eq!((l.nanos[0], l.bytes), (5.0, None));
        assert_eq!(rate(&l), "200 M/s");
        let l = made("a/b", json!({"Bytes": 4096}), None, 1024.0);
        assert_eq!((l.nanos[0], rate(&l).as_str()), (1024.0, "4000 MB/s"));
        assert_eq!(rate(&made("a", Value::Null, None, 2e9)), "0.50 /s");
        assert!(line(&json!({}), &estimates(None, 1.0)).is_none());
        assert!(line(&json!({"full_id": "a"}), &json!({"mean": {"point_estimate": 1}})).is_none());
    }

    #[test]
    fn times_have_three_digits() {
        let texts = [0.5, 9.996, 99.96, 1234.0, 2.5e6, 3e9].map(time);
        assert_eq!(texts, ["0.50 ns", "10.0 ns", "100 ns", "1.23 us", "2.50 ms", "3.00 s"]);
    }

    #[test]
    fn a_table_has_ratios_and_counts_where_there_are_some() {
        let of =
            |name: &str, nanos| (name.to_owned(), made(name, json!({"Elements": 1}), None, nanos));
        let lines = BTreeMap::from([of("m/get/firn", 10.0), of("m/get/crossbeam-skiplist", 25.0)]);
        let counts = BTreeMap::from([("m/get/firn".to_owned(), 123.4)]);
        let text = markdown(&lines, &counts);
        assert!(
            text.contains("| m/get/firn | 10.0 ns | 9.00 ns to 11.0 ns | 100 M/s | 123 |\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "| m/get/crossbeam-skiplist | 25.0 ns | 22.5 ns to 27.5 ns | 40.0 M/s |  |\n"
            ),
            "{text}"
        );
        assert!(text.contains("| m/get/firn | crossbeam-skiplist | 2.50 |\n"), "{text}");
        assert!(!markdown(&lines, &BTreeMap::new()).contains("instructions"));
        let parsed: Value = serde_json::from_str(&json(&lines, &counts)).unwrap();
        assert_eq!(parsed[1]["instructions"], 123.4);
    }

    #[test]
    fn nothing_to_read_is_an_error_that_says_what_to_do() {
        let cli = TableCli::parse_from([
            "micro-table",
            "--criterion",
            env!("CARGO_MANIFEST_DIR"),
            "--baseline",
            "none such",
        ]);
        assert!(run(&cli).unwrap_err().contains("cargo bench -p firn-micro"));
    }
}

//! Medians with their spread, one row per step, one column per engine, and the ratios of the first
//! engine to the others.

use firn_workload::OpKind;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

use crate::child::{Failure, StepReport, StepResult};
use crate::engines::{Engine, Terms};

/// One engine's repetition of one stage.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Repetition {
    /// The engine.
    pub engine: Engine,
    /// Number of the repetition, from 0.
    pub rep: usize,
    /// Results of its steps.
    pub steps: Vec<StepResult>,
    /// Steps without a result.
    #[serde(default)]
    pub failures: Vec<Failure>,
}

impl Repetition {
    /// Creates it from the reports of its steps.
    pub fn new(engine: Engine, rep: usize, reports: Vec<StepReport>) -> Self {
        let mut one = Repetition { engine, rep, steps: Vec::new(), failures: Vec::new() };
        for report in reports {
            match report {
                Ok(step) => one.steps.push(step),
                Err(failure) => one.failures.push(failure),
            }
        }
        one
    }
}

/// Median, minimum and maximum of some values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of `figures`; `None` if there are none.
    pub fn of(mut figures: Vec<f64>) -> Option<Spread> {
        figures.sort_by(f64::total_cmp);
        let (min, max) = (*figures.first()?, *figures.last()?);
        let n = figures.len();
        let median = (figures[(n - 1) / 2] + figures[n / 2]) / 2.0;
        Some(Spread { median, min, max })
    }
}

fn spread(
    all: &[Repetition],
    engine: Engine,
    label: &str,
    figure: impl Fn(&StepResult) -> Option<f64>,
) -> Option<Spread> {
    let steps = all.iter().filter(|r| r.engine == engine).flat_map(|r| &r.steps);
    Spread::of(steps.filter(|s| s.label == label).filter_map(figure).collect())
}

/// Formats a number with thousands or millions as unit.
fn short(n: f64) -> String {
    match n {
        n if n >= 9.995e6 => format!("{:.1} M", n / 1e6),
        n if n >= 0.9995e6 => format!("{:.2} M", n / 1e6),
        n if n >= 99_950.0 => format!("{:.0} k", n / 1e3),
        n if n >= 999.5 => format!("{:.1} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// Formats seconds, or milliseconds if they are few.
fn duration(seconds: f64) -> String {
    if seconds < 0.1 { format!("{:.2} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

/// Formats a ratio; a small one has more digits, so that none is all zeros.
fn times(ratio: f64) -> String {
    let digits = if ratio < 0.1 { (1.0 - ratio.log10().floor()).clamp(2.0, 12.0) } else { 2.0 };
    format!("{ratio:.*}", digits as usize)
}

fn row(out: &mut String, cells: &[String]) {
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

fn head(out: &mut String, cells: &[String]) {
    row(out, cells);
    let _ = writeln!(out, "|---|{}", "---:|".repeat(cells.len() - 1));
}

fn rate(step: &StepResult) -> Option<f64> {
    step.outcome.as_ref().map(|o| o.ops_per_second)
}

/// Results of one step of all engines.
struct Compared<'a> {
    label: &'a str,
    /// A step without a rate, such as a compaction, is compared by time: less is better.
    timed: bool,
    figures: Vec<Option<Spread>>,
    /// The first engine's speed divided by each of the others'.
    ratios: Vec<Option<f64>>,
}

impl Compared<'_> {
    /// Returns `None` if no engine has run the step.
    fn new<'a>(all: &[Repetition], engines: &[Engine], label: &'a str) -> Option<Compared<'a>> {
        let of = |figure: fn(&StepResult) -> Option<f64>| -> Vec<Option<Spread>> {
            engines.iter().map(|&e| spread(all, e, label, figure)).collect()
        };
        let rates = of(rate);
        let timed = rates.iter().all(Option::is_none);
        let figures = if timed { of(|s| Some(s.seconds)) } else { rates };
        let (first, others) = figures.split_first()?;
        let ratio = |other: &Option<Spread>| match (first, other) {
            // An engine without work finishes at once, which is no speed.
            (Some(a), Some(b)) if timed => {
                (a.median.min(b.median) > 1e-4).then(|| b.median / a.median)
            }
            (Some(a), Some(b)) => Some(a.median / b.median),
            _ => None,
        };
        let ratios = others.iter().map(ratio).collect();
        figures.iter().any(Option::is_some).then_some(Compared { label, timed, figures, ratios })
    }
}

fn compared<'a>(
    all: &[Repetition],
    engines: &[Engine],
    labels: &'a [String],
) -> impl Iterator<Item = Compared<'a>> {
    labels.iter().filter_map(|label| Compared::new(all, engines, label))
}

/// Returns the geometric mean of the ratios of rates to each other engine. Rows that are compared by
/// time do not count.
fn geometric_means(all: &[Repetition], engines: &[Engine], labels: &[String]) -> Vec<Option<f64>> {
    let mut logs = vec![Vec::new(); engines.len().saturating_sub(1)];
    for step in compared(all, engines, labels).filter(|step| !step.timed) {
        for (ratio, log) in step.ratios.iter().zip(&mut logs) {
            log.extend(ratio.map(f64::ln));
        }
    }
    let mean = |log: &Vec<f64>| {
        (!log.is_empty()).then(|| (log.iter().sum::<f64>() / log.len() as f64).exp())
    };
    logs.iter().map(mean).collect()
}

/// Formats the geometric means of [`render`] for `results/plot.py`: a title, the columns, then a
/// line for each engine.
pub fn means(all: &[Repetition], engines: &[Engine], labels: &[String]) -> String {
    let Some((first, others)) = engines.split_first() else { return String::new() };
    let mut out = format!("# {first}'s speed over each other's, geometric mean\nengine\tmean");
    for (engine, mean) in others.iter().zip(geometric_means(all, engines, labels)) {
        if let Some(mean) = mean {
            let _ = write!(out, "\n{engine}\t{mean:.2}");
        }
    }
    out.push('\n');
    out
}

/// Formats tables in Markdown: rates, entries found by scans, latencies, CPU time, memory and disk. Ratios
/// are the first engine's rate divided by the other's; above 1 the first is faster.
pub fn render(all: &[Repetition], engines: &[Engine], labels: &[String]) -> String {
    let mut out = String::new();
    let Some((first, others)) = engines.split_first() else { return out };
    let mut cells = vec!["operations a second".to_owned()];
    cells.extend(engines.iter().map(Engine::to_string));
    cells.extend(others.iter().map(|e| format!("{first}/{e}")));
    head(&mut out, &cells);
    for step in compared(all, engines, labels) {
        let show = |n: f64| if step.timed { duration(n) } else { short(n) };
        let mut cells = vec![step.label.to_owned()];
        cells.extend(step.figures.iter().map(|s| match s {
            None => "-".to_owned(),
            Some(s) if s.min == s.max => show(s.median),
            Some(s) => format!("{} ({}..{})", show(s.median), show(s.min), show(s.max)),
        }));
        cells.extend(step.ratios.iter().map(|ratio| ratio.map_or("-".to_owned(), times)));
        row(&mut out, &cells);
    }
    let mut cells = vec!["geometric mean of rates".to_owned()];
    cells.extend(engines.iter().map(|_| String::new()));
    let means = geometric_means(all, engines, labels);
    cells.extend(means.iter().map(|mean| mean.map_or("-".to_owned(), |m| format!("{m:.2}"))));
    row(&mut out, &cells);
    failures(&mut out, all, engines);
    walks(&mut out, all, engines, labels);
    latencies(&mut out, all, engines, labels);
    resources(&mut out, all, engines, labels);
    out
}

/// Formats the conditions of each engine: a table with one column for each.
pub fn settings(given: &[(Engine, Terms)]) -> String {
    let mut out = String::new();
    let mut cells = vec!["given".to_owned()];
    cells.extend(given.iter().map(|(engine, _)| engine.to_string()));
    head(&mut out, &cells);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (_, terms) in given {
        for (i, (name, term)) in terms.rows().into_iter().enumerate() {
            if rows.len() == i {
                rows.push(vec![name.to_owned()]);
            }
            rows[i].push(term.to_owned());
        }
    }
    rows.iter().for_each(|cells| row(&mut out, cells));
    out
}

/// Formats the ratios of [`render`] for `results/plot.py`: a title, the columns, then a line for
/// each step; a missing ratio is empty.
pub fn ratios(all: &[Repetition], engines: &[Engine], labels: &[String]) -> String {
    let mut out = String::new();
    let Some((first, others)) = engines.split_first() else { return out };
    let _ = write!(out, "# {first}'s speed over each other's\nstep");
    others.iter().for_each(|e| {
        let _ = write!(out, "\t{first}/{e}");
    });
    for step in compared(all, engines, labels) {
        if step.ratios.iter().all(Option::is_none) {
            continue;
        }
        let _ = write!(out, "\n{}", step.label);
        for ratio in &step.ratios {
            let _ = write!(out, "\t{}", ratio.map_or(String::new(), times));
        }
    }
    out.push('\n');
    out
}

/// Formats the reason of each missing figure, once for all steps with the same one.
fn failures(out: &mut String, all: &[Repetition], engines: &[Engine]) {
    let mut reasons: Vec<(Engine, &Failure, Vec<&str>)> = Vec::new();
    for &engine in engines {
        let of_engine = all.iter().filter(|r| r.engine == engine).flat_map(|r| &r.failures);
        for failure in of_engine {
            let same = |(e, f, _): &&mut (Engine, &Failure, Vec<&str>)| {
                *e == engine && f.reason == failure.reason && f.ends_stage == failure.ends_stage
            };
            match reasons.iter_mut().find(same) {
                Some((_, _, labels)) if labels.contains(&&failure.label[..]) => {}
                Some((_, _, labels)) => labels.push(&failure.label),
                None => reasons.push((engine, failure, vec![&failure.label])),
            }
        }
    }
    if !reasons.is_empty() {
        let _ = writeln!(out, "\nWithout a figure (`-`):\n");
    }
    for (engine, failure, labels) in reasons {
        let rest = if failure.ends_stage { "; later steps of the stage did not run" } else { "" };
        let _ = writeln!(out, "- {engine}: {}: {}{rest}", labels.join("; "), failure.reason);
    }
}

/// Formats the number of entries that scans found, if the engines differ: an engine that has lost
/// data has less to open and to scan.
fn walks(out: &mut String, all: &[Repetition], engines: &[Engine], labels: &[String]) {
    let walked = |step: &StepResult| {
        let outcome = step.outcome.as_ref()?;
        outcome.classes.iter().find(|c| c.kind == OpKind::Entry).map(|c| c.ops as f64)
    };
    let mut begun = false;
    for label in labels {
        let found: Vec<Option<f64>> = engines
            .iter()
            .map(|&e| spread(all, e, label, walked).map(|entries| entries.median))
            .collect();
        let mut numbers = found.iter().flatten();
        if numbers.next().is_none_or(|first| numbers.all(|n| n == first)) {
            continue;
        }
        if !begun {
            let _ = writeln!(out);
            let mut cells = vec!["entries found".to_owned()];
            cells.extend(engines.iter().map(Engine::to_string));
            head(out, &cells);
            begun = true;
        }
        let mut cells = vec![label.clone()];
        cells.extend(found.iter().map(|n| n.map_or("-".to_owned(), |n| format!("{n:.0}"))));
        row(out, &cells);
    }
}

fn latencies(out: &mut String, all: &[Repetition], engines: &[Engine], labels: &[String]) {
    let _ = writeln!(out);
    let mut cells = vec!["latency in us: p50 / p99 / p99.9 / no operation longer than".to_owned()];
    cells.extend(engines.iter().map(Engine::to_string));
    head(out, &cells);
    for label in labels {
        let mut cells = vec![label.clone()];
        for &engine in engines {
            let of = |figure: fn(&StepResult) -> Option<u64>| {
                spread(all, engine, label, |s| figure(s).map(|ns| ns as f64 / 1e3))
                    .map(|s| format!("{:.2}", s.median))
            };
            let parts = [
                of(|s| s.outcome.as_ref()?.latency.map(|l| l.p50_ns)),
                of(|s| s.outcome.as_ref()?.latency.map(|l| l.p99_ns)),
                of(|s| s.outcome.as_ref()?.latency.map(|l| l.p999_ns)),
                of(|s| s.outcome.as_ref()?.latency.and(s.outcome.as_ref()).map(|o| o.ceiling_ns)),
            ];
            let all_there: Option<Vec<String>> = parts.into_iter().collect();
            cells.push(all_there.map_or("-".to_owned(), |p| p.join(" / ")));
        }
        if cells[1..].iter().any(|c| c != "-") {
            row(out, &cells);
        }
    }
}

fn resources(out: &mut String, all: &[Repetition], engines: &[Engine], labels: &[String]) {
    let _ = writeln!(out);
    let mut cells = vec![
        "CPU s / MB: peak anonymous memory / peak mapped files / written / on disk".to_owned(),
    ];
    cells.extend(engines.iter().map(Engine::to_string));
    head(out, &cells);
    // Sums of CPU time and of bytes written.
    let mut sums = vec![(0.0, 0.0); engines.len()];
    for label in labels {
        let mut cells = vec![label.clone()];
        for (&engine, sum) in engines.iter().zip(&mut sums) {
            let of = |figure: fn(&StepResult) -> Option<f64>| {
                spread(all, engine, label, figure).map(|s| s.median)
            };
            let cpu = of(|s| Some(s.cpu_seconds));
            let written = of(|s| Some(s.device_written as f64 / 1e6));
            sum.0 += cpu.unwrap_or(0.0);
            sum.1 += written.unwrap_or(0.0);
            let megabytes = [
                of(|s| Some(s.peak_rss_anon as f64 / 1e6)),
                of(|s| Some(s.peak_rss_file as f64 / 1e6)),
                written,
                of(|s| s.disk_bytes.map(|b| b as f64 / 1e6)),
            ];
            let shown = megabytes.map(|mb| mb.map_or("-".to_owned(), |mb| format!("{mb:.0}")));
            cells.push(cpu.map_or("-".to_owned(), |s| format!("{s:.2} / {}", shown.join(" / "))));
        }
        row(out, &cells);
    }
    let mut cells = vec!["sum".to_owned()];
    cells.extend(sums.iter().map(|(cpu, mb)| format!("{cpu:.2} / - / - / {mb:.0} / -")));
    row(out, &cells);
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_workload::{Outcome, OutcomeClass};

    fn rep(engine: Engine, rep: usize, seconds: f64) -> Repetition {
        let step = StepResult {
            label: "compact".into(),
            seconds,
            cpu_seconds: 0.5,
            outcome: None,
            peak_rss_anon: 1_000_000,
            peak_rss_file: 2_000_000,
            device_written: 3_000_000,
            device_read: 0,
            disk_bytes: None,
        };
        Repetition::new(engine, rep, vec![Ok(step)])
    }

    #[test]
    fn settings_have_a_column_for_each_engine() {
        let terms = Terms {
            built: "firn-kv 1".into(),
            memtable: "64 MiB".into(),
            cache: "none".into(),
            background: "2".into(),
            compression: "none".into(),
            filter: "none".into(),
            values: "in the tables".into(),
            put: "somewhere",
            sync: "on the device",
            compact: "nothing",
        };
        let other = Terms { memtable: "none".into(), ..terms.clone() };
        let text = settings(&[(Engine::Firn, terms), (Engine::Lmdb, other)]);
        assert!(text.starts_with(
            "| given | firn | lmdb |\n|---|---:|---:|\n| crate | firn-kv 1 | firn-kv 1 |\n"
        ));
        assert!(text.contains("| memtable | 64 MiB | none |"), "{text}");
    }

    #[test]
    fn spreads() {
        assert_eq!(
            Spread::of(vec![3.0, 1.0, 2.0]),
            Some(Spread { median: 2.0, min: 1.0, max: 3.0 })
        );
        assert_eq!(Spread::of(vec![1.0, 2.0]), Some(Spread { median: 1.5, min: 1.0, max: 2.0 }));
        assert_eq!(Spread::of(vec![]), None);
    }

    #[test]
    fn numbers_are_short() {
        let shown: Vec<String> =
            [0.0, 999.0, 4_400.0, 350_000.0, 999_900.0, 1_100_000.0, 16_600_000.0]
                .map(short)
                .into();
        assert_eq!(shown, ["0", "999", "4.4 k", "350 k", "1.00 M", "1.10 M", "16.6 M"]);
        let shown: Vec<String> = [0.0, 0.004_56, 0.25, 12.0].map(duration).into();
        assert_eq!(shown, ["0.00 ms", "4.56 ms", "0.25 s", "12.00 s"]);
        let shown: Vec<String> = [26.418, 0.5, 0.099, 0.003_14, 0.0].map(times).into();
        assert_eq!(shown, ["26.42", "0.50", "0.099", "0.0031", "0.000000000000"]);
    }

    /// Returns a repetition with a scan of this many entries in a second.
    fn walk(engine: Engine, entries: u64) -> Repetition {
        let class = OutcomeClass {
            kind: OpKind::Entry,
            ops: entries,
            ops_per_second: entries as f64,
            latency: None,
        };
        let outcome = Outcome {
            workload: "readseq".into(),
            threads: 1,
            ops: entries,
            seconds: 1.0,
            ops_per_second: entries as f64,
            bytes: 0,
            found: entries,
            latency: None,
            ceiling_ns: 0,
            classes: vec![class],
            series: Vec::new(),
        };
        let mut one = rep(engine, 0, 1.0);
        one.steps[0].outcome = Some(outcome);
        one
    }

    #[test]
    fn means_are_geometric() {
        let mut all = vec![walk(Engine::Firn, 800), walk(Engine::Redb, 100)];
        for (engine, entries) in [(Engine::Firn, 200), (Engine::Redb, 100), (Engine::Lmdb, 400)] {
            let mut second = walk(engine, entries);
            second.steps[0].label = "second".into();
            all.push(second);
        }
        all.push(rep(Engine::Sled, 0, 1.0));
        let engines = [Engine::Firn, Engine::Redb, Engine::Lmdb, Engine::Sled];
        assert_eq!(
            means(&all, &engines, &["compact".into(), "second".into()]),
            "# firn's speed over each other's, geometric mean\nengine\tmean\nredb\t4.00\nlmdb\t0.50\n"
        );
    }

    #[test]
    fn what_an_engine_has_lost_is_said() {
        let engines = [Engine::Firn, Engine::Redb];
        let of = |lost: u64| {
            let all = [walk(Engine::Firn, 500), walk(Engine::Redb, 500 - lost)];
            render(&all, &engines, &["compact".into()])
        };
        assert!(
            of(1).contains(
                "| entries found | firn | redb |\n|---|---:|---:|\n| compact | 500 | 499 |"
            )
        );
        assert!(!of(0).contains("entries found"));
        let one = [walk(Engine::Firn, 500)];
        assert!(!render(&one, &engines, &["compact".into()]).contains("entries found"));
    }

    #[test]
    fn a_failed_step_has_its_reason() {
        let failed = |label: &str, ends_stage| {
            Err(Failure { label: label.into(), reason: "cannot".into(), ends_stage })
        };
        let mut some = Repetition::new(
            Engine::Lmdb,
            0,
            vec![failed("compact", false), failed("later", false), failed("last", true)],
        );
        some.failures.push(some.failures[0].clone());
        let all = [rep(Engine::Firn, 0, 1.0), some];
        let text = render(&all, &[Engine::Firn, Engine::Lmdb], &["compact".into()]);
        assert!(text.contains("| compact | 1.00 s | - | - |"), "{text}");
        let notes = "\nWithout a figure (`-`):\n\n\
                     - lmdb: compact; later: cannot\n\
                     - lmdb: last: cannot; later steps of the stage did not run\n";
        assert!(text.contains(notes), "{text}");
        assert!(!render(&all[..1], &[Engine::Firn], &["compact".into()]).contains("Without"));
    }

    #[test]
    fn a_shorter_time_is_a_ratio_above_one() {
        let all =
            [rep(Engine::Rocksdb, 0, 1.0), rep(Engine::Fjall, 0, 2.0), rep(Engine::Fjall, 1, 4.0)];
        let text = render(&all, &[Engine::Rocksdb, Engine::Fjall], &["compact".into()]);
        assert!(text.contains("| compact | 1.00 s | 3.00 s (2.00 s..4.00 s) | 3.00 |"), "{text}");
        assert!(text.contains("| compact | 0.50 / 1 / 2 / 3 / - |"), "{text}");
        assert!(
            text.ends_with("| sum | 0.50 / - / - / 3 / - | 0.50 / - / - / 3 / - |\n"),
            "{text}"
        );
        let drawn = ratios(
            &all,
            &[Engine::Rocksdb, Engine::Fjall, Engine::Lmdb],
            &["compact".into(), "never".into()],
        );
        assert_eq!(
            drawn,
            "# rocksdb's speed over each other's\nstep\trocksdb/fjall\trocksdb/lmdb\n\
             compact\t3.00\t\n"
        );
    }
}

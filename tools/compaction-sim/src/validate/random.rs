//! Tests the simulator on random configurations of all policies: the engine runs each on files with
//! its threads, three times, and the simulator predicts the result ([`measured`]).

use std::path::Path;

use firn_kv::{OsEnv, Policy};
use firn_tools::output::{Done, Failure, Progress, Style, print_table, row, table};
use firn_workload::rng::Rng;
use firn_workload::{Distribution, OperationMix, ValueSize, WorkloadDescription};

use crate::validate::measured::{self, AIMS, MeasurePlan, Measured, NAMES, figure_text};

/// Runs of the engine for each configuration.
const RUNS: u64 = 3;

/// Most bytes of keys and values that a configuration writes.
const MOST_DATA: f64 = 192e6;

/// Returns a random element.
fn any<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

/// Returns a random policy with parameters for memtables of this size.
fn any_policy(rng: &mut Rng, memtable: u64) -> String {
    let names: Vec<&str> = Policy::ALL
        .iter()
        .map(|d| d.name)
        .filter(|n| !["fifo", "time-window"].contains(n))
        .collect();
    let name = any(rng, &names);
    let base = (memtable >> 20).max(1) * (2 + rng.below(6));
    let ratio = 3 + rng.below(8);
    match name {
        "tiered" => format!("tiered:{}", 2 + rng.below(5)),
        "lazy-leveled" => format!("lazy-leveled:{}", 2 + rng.below(7)),
        "leveled" => format!("leveled:{ratio}:{}:{base}m", 1 + rng.below(4)),
        "ics" | "incremental" => format!("{name}:{}", 2 + rng.below(4)),
        "universal" => format!("universal:{}", 4 + rng.below(8)),
        "unified" => format!("unified:{}", any(rng, &["2", "-2", "-8", "4"])),
        "dynamic-leveled" | "tiered-leveled" | "spooky" => {
            format!("{name}:{ratio}:base={base}m")
        }
        "fluid" => format!("fluid:{}:{}:{}", 4 + rng.below(4), 1 + rng.below(3), 1 + rng.below(2)),
        other => other.to_owned(),
    }
}

/// Returns the configuration with this number.
///
/// # Errors
/// Values out of bounds, as text.
pub fn draw(number: u64) -> Done<(String, WorkloadDescription)> {
    let mut rng = Rng::new(number, 46);
    let memtable = any(&mut rng, &[1u64, 2, 4]) << 20;
    // From a few flushes to some hundred: evenly on a logarithmic scale.
    let flushes = 6.0 * (200.0f64 / 6.0).powf(rng.unit());
    let mut d = WorkloadDescription { seed: number, ..WorkloadDescription::default() };
    let (name, from) = (
        any(&mut rng, &["insert", "uniform", "zipfian", "deletes", "timeseries", "sequential"]),
        any(&mut rng, &[30usize, 60, 100, 200, 400, 800]),
    );
    d.value_size = Some(match rng.below(2) {
        0 => ValueSize::Fixed(from),
        _ => ValueSize::Uniform(from, 2 * from),
    });
    d.random_share = any(&mut rng, &[0.25, 0.5, 0.75]);
    d.store.compression = any(&mut rng, &["none", "lz4"]).to_owned();
    d.store.memtable_size = memtable;
    d.store.table_size = any(&mut rng, &[1u64, 2, 4, 8]) << 20;
    d.store.policy = any_policy(&mut rng, memtable);
    d.store.background_threads = 1 + rng.below(4) as usize;
    d.store.memory_budget = 64 << 20;
    let load = any(&mut rng, &["filluniquerandom", "fillseq"]);
    let churn = 100 * (1 + rng.below(6));
    let mix = OperationMix { puts: 1.0, ..OperationMix::default() };
    let (steps, mix) = match name {
        "insert" => ("filluniquerandom".to_owned(), None),
        "sequential" => ("fillseq".to_owned(), None),
        "timeseries" => {
            let series = any(&mut rng, &[10u64, 100, 1000]);
            (
                "churn".to_owned(),
                Some(OperationMix { distribution: Distribution::Series(series), ..mix }),
            )
        }
        "zipfian" => {
            let distribution =
                Distribution::Zipfian { theta: any(&mut rng, &[0.6, 0.8, 0.9, 0.99]) };
            (format!("{load}, churn@{churn}%"), Some(OperationMix { distribution, ..mix }))
        }
        "deletes" => {
            let deletes = any(&mut rng, &[0.05, 0.1, 0.2, 0.4]);
            let mix = OperationMix { puts: 1.0 - deletes, deletes, ..mix };
            (format!("{load}, churn@{churn}%"), Some(mix))
        }
        _ => (format!("{load}, churn@{churn}%"), Some(mix)),
    };
    d.steps = steps;
    d.phase.extend(mix.map(|mix| ("churn".to_owned(), mix)));
    // An entry takes about 60 bytes more in a memtable.
    let put = d.key_size as f64 + d.value_size.map_or(100.0, |v| v.mean());
    let data = (flushes * memtable as f64 * put / (put + 60.0)).min(MOST_DATA);
    d.scale_to(data as u64).map_err(Failure::new)?;
    let pace = any(&mut rng, &[0.0, 0.0, 10e6, 20e6]);
    d.rate = (pace > 0.0).then(|| (pace / put).round());
    d.check().map_err(Failure::new)?;
    let rate = d.rate.map_or_else(|| "flat out".to_owned(), |_| format!("{:.0} MB/s", pace / 1e6));
    let about = format!(
        "{name} {} {} m={}m t={}m v={} {} threads={} {rate}",
        d.steps,
        d.store.policy,
        memtable >> 20,
        d.store.table_size >> 20,
        d.value_size.unwrap_or(ValueSize::Fixed(100)),
        d.store.compression,
        d.store.background_threads,
    );
    Ok((about, d))
}

/// Draws `draws` configurations, starting at `seed`, and measures and predicts each. Uses the logs
/// in `logs` instead of running the engine, and stores new ones there.
///
/// # Errors
/// Errors of the engine and the simulator.
pub fn results(seed: u64, draws: u64, logs: Option<&Path>) -> Done<Vec<(String, Measured)>> {
    if let Some(dir) = logs {
        OsEnv::new().create_dir_all(dir)?;
    }
    let plan = MeasurePlan { logs, ..MeasurePlan::new(RUNS) };
    let bar = Progress::operations("configurations", Some(draws));
    let mut all = vec![];
    for i in 0..draws {
        let number = seed.wrapping_mul(1000).wrapping_add(i);
        let (about, d) = draw(number)?;
        bar.at(i);
        bar.say(about.clone());
        if let Some(dir) = logs {
            let path = dir.join(format!("{number}.toml"));
            let text = d.to_string();
            firn_tools::io::write(&path, text.as_bytes())
                .map_err(|e| Failure::file("write", &path, &e))?;
        }
        all.push((about, measured::measure(&d, &number.to_string(), &plan)?));
    }
    Ok(all)
}

/// Returns the table, and whether enough predictions are within their aims.
pub fn table_of(all: &[(String, Measured)], style: Style) -> (String, bool) {
    let mut t =
        table(&["configuration", "jobs", "written", "", "runs", "tables", "", "held up", ""]);
    for (about, m) in all {
        let mut cells =
            vec![format!("{}: {about}", m.name), format!("{} + {}", m.jobs[0], m.jobs[1])];
        for i in 0..AIMS.len() {
            let f = &m.figures[i];
            let text = |v: f64| figure_text(i, v);
            cells.push(format!(
                "{} ({}..{}) | {} ({}..{})",
                text(f.engine[1]),
                text(f.engine[0]),
                text(f.engine[2]),
                text(f.predicted[1]),
                text(f.predicted[0]),
                text(f.predicted[2]),
            ));
            let mark = match m.is_within(i) {
                (true, _) => "",
                (false, true) => " in the spread",
                (false, false) => " !",
            };
            match i {
                1 => cells.last_mut().into_iter().for_each(|cell| cell.push_str(mark)),
                _ => cells.push(format!("{:+.1} %{mark}", f.percent())),
            }
        }
        row(&mut t, cells);
    }
    let mut text = print_table(&t, style);
    let mut good = true;
    for (i, (name, aim)) in NAMES.iter().zip(AIMS).enumerate() {
        let within = |(_, m): &&(String, Measured)| m.is_within(i).0;
        let either = |(_, m): &&(String, Measured)| {
            let (aim, spread) = m.is_within(i);
            aim || spread
        };
        let (aimed, of) = (all.iter().filter(within).count(), all.iter().filter(either).count());
        let share = if i == 3 { 0.8 } else { 0.9 };
        good &= of as f64 >= share * all.len() as f64;
        let unit = if i == 1 { "" } else { " %" };
        text += &format!(
            "{name}: {aimed} of {} within {aim}{unit}, {of} within that or the spread of the engine\n",
            all.len()
        );
    }
    (text, good)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::machine::Machine;
    use std::collections::HashSet;

    #[test]
    fn what_is_drawn_is_sound_and_repeatable() {
        let (mut names, mut policies) = (HashSet::new(), HashSet::new());
        for number in 0..300 {
            let (about, d) = draw(number).unwrap();
            assert_eq!(about, draw(number).unwrap().0);
            let setup =
                measured::setup_of(&d, &MeasurePlan::new(RUNS), Machine::default()).unwrap();
            setup.options.check().unwrap();
            assert!(setup.workload.ops() > 3000, "{about}");
            assert_eq!(d.to_string().parse(), Ok(d.clone()), "{about}");
            policies.insert(setup.options.policy.to_string().split(':').next().map(str::to_owned));
            names.insert(about);
        }
        assert!(names.len() > 295 && policies.len() >= 8, "{policies:?}");
    }
}

//! Plan of the measurement: steps, divided into stages that each begin with an empty store.

use firn_workload::phase::parse_count;
use firn_workload::{Config, Phase, ValueSize, WorkloadDescription};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;

/// Named lists of steps. [`RACE`] runs all of them in this order.
///
/// Lists with values larger than 100 bytes have fewer keys, so that the written bytes are similar.
pub const PRESETS: &[(&str, &str)] = &[
    ("fills", "fillseq,fresh,fillbatch,fresh,filluniquerandom,wait,deleterandom,fresh,fillsync"),
    ("sync", "fillsync,fresh,fillsync:4,fresh,fillsync:16"),
    ("order", "fillseq,wait,compact,readrandom,readseq,readreverse,seekrandom"),
    (
        "core",
        "fillrandom,overwrite,wait,readrandom,readrandom:2,readmissing,readseq,readreverse,\
         seekrandom,readwhilewriting,\
         compact,readrandom,readrandom:2,readmissing,readseq,readreverse,seekrandom",
    ),
    (
        "values10k",
        "keys=1%,values=10k,fillrandom,overwrite,wait,readrandom,readseq,seekrandom,\
         compact,readrandom,readseq",
    ),
    (
        "values100k",
        "keys=0.1%,values=100k,fillrandom,overwrite,wait,readrandom,readseq,seekrandom,\
         compact,readrandom,readseq",
    ),
    ("mix", "filluniquerandom,wait,mixgraph,mixgraph:2"),
    (
        "ycsb",
        "keys=20%,ycsb-load,wait,ycsb-a,ycsb-a:2,ycsb-b,ycsb-b:2,ycsb-c,ycsb-c:2,\
         ycsb-f,ycsb-f:2,ycsb-d,ycsb-d:2,fresh,\
         keys=20%,ycsb-load,wait,ycsb-e,ycsb-e:2",
    ),
    (
        "tombstones",
        "keys=200k,fillseq,flush,deleteseq@100k,readseq,seekrandom@1k,flush,readseq,seekrandom@1k,\
         compact,readseq,seekrandom@1k",
    ),
    ("open", "fillrandom,reopen,readseq,overwrite,crash,readseq"),
];

/// Steps other than workloads, with their effects.
pub const STEPS: &[(&str, &str)] = &[
    ("flush", "brings what is in memory to the tables"),
    ("compact", "compacts everything"),
    ("wait", "waits until the background threads are idle"),
    ("reopen", "closes the store and opens it in a new process; two rows"),
    ("crash", "kills the process and opens the store in a new one"),
    ("fresh", "begins a stage with an empty store"),
    ("keys=", "before a stage's first step: its keys, as a number or as a share of --keys (`10%`)"),
    ("values=", "before a stage's first step: bytes of its values"),
];

/// The name for all presets.
pub const RACE: &str = "race";

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// A workload.
    Run(Phase),
    /// Flush the memtables.
    Flush,
    /// Compact everything; timed.
    Compact,
    /// Wait until the engine's background threads are idle.
    Wait,
    /// Close the store and end the process; timed. Always before [`Step::Reopen`].
    Close,
    /// Open the closed store in a new process; timed.
    Reopen,
    /// Open in a new process the store of a process that was killed after its steps; timed.
    Crash,
}

impl Step {
    /// Reports whether this step starts a new process.
    pub fn opens(&self) -> bool {
        matches!(self, Step::Reopen | Step::Crash)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Run(phase) => phase.fmt(f),
            Step::Flush => f.write_str("flush"),
            Step::Compact => f.write_str("compact"),
            Step::Wait => f.write_str("wait"),
            Step::Close => f.write_str("close"),
            Step::Reopen => f.write_str("reopen"),
            Step::Crash => f.write_str("crash"),
        }
    }
}

/// A step with the name of its row in the table; the names are unique.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Labelled {
    /// The row's name.
    pub label: String,
    /// The step.
    pub step: Step,
}

/// Number of keys of a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
enum StageKeys {
    /// This number.
    Count(u64),
    /// A share of [`Config::keys`].
    Share(f64),
}

/// Steps that start with an empty store.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    keys: StageKeys,
    value: Option<ValueSize>,
    /// The steps. The first one never opens an existing store.
    pub steps: Vec<Labelled>,
}

impl Stage {
    /// Returns `config` with the keys and values of this stage.
    pub fn config(&self, config: &Config) -> Config {
        let keys = match self.keys {
            StageKeys::Count(keys) => keys,
            StageKeys::Share(share) => ((config.keys as f64 * share) as u64).max(1),
        };
        Config { keys, value_size: self.value.or(config.value_size), ..config.clone() }
    }

    /// Returns the stage of a description.
    pub fn described(d: &WorkloadDescription) -> Result<Stage, String> {
        let mut steps: Vec<Labelled> = vec![];
        for step in d.steps()? {
            let step = match step {
                firn_workload::WorkloadStep::Run(phase) => Step::Run(phase),
                firn_workload::WorkloadStep::Flush => Step::Flush,
                firn_workload::WorkloadStep::Compact => Step::Compact,
                firn_workload::WorkloadStep::Wait => Step::Wait,
            };
            let times = steps.iter().filter(|l| l.step == step).count();
            let label = if times > 0 { format!("{step} #{}", times + 1) } else { step.to_string() };
            steps.push(Labelled { label, step });
        }
        if steps.is_empty() {
            return Err("the description has no steps".to_owned());
        }
        Ok(Stage { keys: StageKeys::Share(1.0), value: None, steps })
    }

    /// Returns the steps of each process, in order.
    pub fn lives(&self) -> impl Iterator<Item = &[Labelled]> {
        self.steps.chunk_by(|_, next| !next.step.opens())
    }

    /// Applies a setting, such as `keys=10%`.
    fn set(&mut self, name: &str, setting: &str) -> Result<(), String> {
        match (name, setting.strip_suffix('%')) {
            ("keys", Some(percent)) => {
                let percent: f64 = percent.parse().map_err(|e| format!("keys={setting}: {e}"))?;
                if !(percent > 0.0 && percent <= 100.0) {
                    return Err(format!("keys={setting}: give a share above 0 % and up to 100 %"));
                }
                self.keys = StageKeys::Share(percent / 100.0);
            }
            ("keys", None) => self.keys = StageKeys::Count(parse_count(setting)?),
            ("values", _) => self.value = Some(setting.parse()?),
            _ => return Err(format!("{name}={setting}: there are keys= and values=")),
        }
        Ok(())
    }
}

/// A list of names as given, or the contents of a preset.
type Names<'a> = (Option<&'static str>, Vec<&'a str>);

/// Splits a list of names; each preset is a separate list.
fn expand(text: &str) -> Vec<Names<'_>> {
    let mut lists: Vec<Names<'_>> = Vec::new();
    for name in text.split(',').map(str::trim) {
        let presets: Vec<_> =
            PRESETS.iter().filter(|(preset, _)| name == RACE || name == *preset).collect();
        match lists.last_mut() {
            _ if !presets.is_empty() => lists.extend(
                presets.iter().map(|(preset, steps)| (Some(*preset), steps.split(',').collect())),
            ),
            Some((None, names)) => names.push(name),
            _ => lists.push((None, vec![name])),
        }
    }
    lists
}

/// Parses steps and presets separated by commas into stages; `fresh` begins the next stage, and so
/// does each preset. With several presets, rows have their names.
pub fn parse(text: &str) -> Result<Vec<Stage>, String> {
    let lists = expand(text);
    let several = lists.iter().filter(|(preset, _)| preset.is_some()).count() > 1;
    let mut seen: HashMap<String, u32> = HashMap::new();
    let mut stages = Vec::new();
    for (preset, names) in &lists {
        let prefix = preset.filter(|_| several).map_or(String::new(), |name| format!("{name}: "));
        for names in names.split(|name| *name == "fresh").filter(|names| !names.is_empty()) {
            stages.push(parse_stage(&prefix, names, &mut seen)?);
        }
    }
    if stages.is_empty() { Err("no workloads were named".into()) } else { Ok(stages) }
}

fn parse_stage(
    prefix: &str,
    names: &[&str],
    seen: &mut HashMap<String, u32>,
) -> Result<Stage, String> {
    let mut stage = Stage { keys: StageKeys::Share(1.0), value: None, steps: Vec::new() };
    let mut state = "";
    for name in names {
        if let Some((what, setting)) = name.split_once('=') {
            if !stage.steps.is_empty() {
                return Err(format!("{name} is for a whole stage: name it before the first step"));
            }
            stage.set(what, setting)?;
            continue;
        }
        let steps = match *name {
            "flush" => vec![Step::Flush],
            "compact" => vec![Step::Compact],
            "wait" => vec![Step::Wait],
            "reopen" => vec![Step::Close, Step::Reopen],
            "crash" => vec![Step::Crash],
            phase => vec![Step::Run(phase.parse()?)],
        };
        if stage.steps.is_empty() && steps.iter().any(Step::opens) {
            return Err(format!("{name} opens an existing store: name a fill before it"));
        }
        for step in steps {
            let name = format!("{prefix}{step}{state}");
            match step {
                Step::Compact => state = ", compacted",
                Step::Reopen => state = ", reopened",
                Step::Crash => state = ", after the crash",
                Step::Run(_) | Step::Flush | Step::Wait | Step::Close => {}
            }
            let times = seen.entry(name.clone()).or_insert(0);
            *times += 1;
            let label = if *times > 1 { format!("{name} #{times}") } else { name };
            stage.steps.push(Labelled { label, step });
        }
    }
    if stage.steps.is_empty() {
        return Err(format!("{} has no steps behind it", names.join(",")));
    }
    Ok(stage)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(stages: &[Stage]) -> Vec<Vec<&str>> {
        stages.iter().map(|s| s.steps.iter().map(|l| &l.label[..]).collect()).collect()
    }

    #[test]
    fn stages_and_labels() {
        let stages =
            parse("fillrandom,readrandom,compact,readrandom,readrandom, fresh,fillrandom@5k:2")
                .unwrap();
        assert_eq!(
            labels(&stages),
            [
                vec![
                    "fillrandom",
                    "readrandom",
                    "compact",
                    "readrandom, compacted",
                    "readrandom, compacted #2"
                ],
                vec!["fillrandom@5000:2"]
            ]
        );
        for bad in ["fresh", "nothing", "crash,fillseq", "reopen", "keys=5"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_opening_begins_a_process() {
        let stages = parse("fillseq,reopen,readseq,overwrite,crash,crash,readseq").unwrap();
        let lives: Vec<Vec<&str>> =
            stages[0].lives().map(|l| l.iter().map(|l| &l.label[..]).collect()).collect();
        assert_eq!(
            lives,
            [
                vec!["fillseq", "close"],
                vec!["reopen", "readseq, reopened", "overwrite, reopened"],
                vec!["crash, reopened"],
                vec!["crash, after the crash", "readseq, after the crash"]
            ]
        );
    }

    #[test]
    fn a_stage_has_keys_and_values_of_its_own() {
        let config = Config { keys: 5000, ..Config::default() };
        let of = |text: &str| parse(text).map(|stages| stages[0].config(&config));
        assert_eq!(of("fillseq"), Ok(config.clone()));
        let few = of("keys=0.1%,values=10k,fillseq").unwrap();
        let large = ValueSize::Fixed(10_000);
        assert_eq!((few.keys, few.value_size), (5, Some(large)));
        assert_eq!(of("keys=200k,fillseq").unwrap().keys, 200_000);
        for bad in ["keys=101%", "keys=0%", "keys=-1", "values=x", "threads=2"] {
            assert!(of(&format!("{bad},fillseq")).is_err(), "{bad}");
        }
        assert!(of("fillseq,keys=5").is_err());
    }

    #[test]
    fn presets_parse() {
        for (name, _) in PRESETS {
            assert!(parse(name).is_ok_and(|s| !s.is_empty()), "{name}");
        }
        let two = parse("fills,mix").unwrap();
        assert_eq!(two.len(), 5);
        assert_eq!(
            labels(&two)[4],
            ["mix: filluniquerandom", "mix: wait", "mix: mixgraph", "mix: mixgraph:2"]
        );
        let all = parse(RACE).unwrap();
        for (name, _) in PRESETS {
            let begins = |label: &&str| label.starts_with(&format!("{name}: "));
            assert!(labels(&all).concat().iter().any(begins), "{name}");
        }
    }
}

//! What is to be measured: steps, cut into stages that each begin with an empty store.

use firn_workload::Phase;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;

/// Lists of steps that have names of their own.
pub const PRESETS: &[(&str, &str)] = &[
    (
        "core",
        "fillrandom,overwrite,wait,readrandom,readrandom:2,readmissing,readseq,readreverse,seekrandom,readwhilewriting,\
         compact,readrandom,readrandom:2,readmissing,readseq,readreverse,seekrandom",
    ),
    ("fills", "fillseq,fresh,fillbatch,fresh,filluniquerandom,wait,deleterandom,fresh,fillsync"),
    (
        "ycsb",
        "ycsb-load,wait,ycsb-a,ycsb-a:2,ycsb-b,ycsb-b:2,ycsb-c,ycsb-c:2,ycsb-f,ycsb-f:2,ycsb-d,ycsb-d:2,fresh,\
         ycsb-load,wait,ycsb-e,ycsb-e:2",
    ),
    ("mix", "filluniquerandom,wait,mixgraph,mixgraph:2"),
];

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// A workload.
    Run(Phase),
    /// Bring what is in memory to the tables.
    Flush,
    /// Compact everything; timed.
    Compact,
    /// Wait until the engine's background threads are idle.
    Wait,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Run(phase) => phase.fmt(f),
            Step::Flush => f.write_str("flush"),
            Step::Compact => f.write_str("compact"),
            Step::Wait => f.write_str("wait"),
        }
    }
}

/// A step with the name of its row in the table: unlike [`Step`]'s, it is the only one of that
/// name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labelled {
    /// The row's name.
    pub label: String,
    /// The step.
    pub step: Step,
}

/// Parses steps and presets separated by commas into stages; `fresh` begins the next stage, and so
/// does each preset.
pub fn parse(text: &str) -> Result<Vec<Vec<Labelled>>, String> {
    let expanded: Vec<&str> = text
        .split(',')
        .map(str::trim)
        .flat_map(|name| match PRESETS.iter().find(|(preset, _)| *preset == name) {
            Some((_, steps)) => std::iter::once("fresh")
                .chain(steps.split(','))
                .chain(std::iter::once("fresh"))
                .collect(),
            None => vec![name],
        })
        .collect();
    let mut seen: HashMap<String, u32> = HashMap::new();
    let mut stages = Vec::new();
    for stage in expanded.split(|name| *name == "fresh").filter(|steps| !steps.is_empty()) {
        let mut compacted = false;
        let mut steps = Vec::new();
        for name in stage {
            let step = match *name {
                "flush" => Step::Flush,
                "compact" => Step::Compact,
                "wait" => Step::Wait,
                phase => Step::Run(phase.parse()?),
            };
            let name = if compacted { format!("{step}, compacted") } else { step.to_string() };
            compacted |= step == Step::Compact;
            let times = seen.entry(name.clone()).or_insert(0);
            *times += 1;
            steps.push(Labelled {
                label: if *times > 1 { format!("{name} #{times}") } else { name },
                step,
            });
        }
        stages.push(steps);
    }
    if stages.is_empty() { Err("no workloads were named".into()) } else { Ok(stages) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_and_labels() {
        let stages =
            parse("fillrandom,readrandom,compact,readrandom,readrandom, fresh,fillrandom@5k:2")
                .unwrap();
        let labels: Vec<Vec<&str>> =
            stages.iter().map(|s| s.iter().map(|l| &l.label[..]).collect()).collect();
        assert_eq!(
            labels,
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
        assert!(parse("fresh").is_err() && parse("nothing").is_err());
    }

    #[test]
    fn presets_parse() {
        for (name, _) in PRESETS {
            assert!(parse(name).is_ok_and(|s| !s.is_empty()), "{name}");
        }
        assert_eq!(parse("fills,mix").unwrap().len(), 5);
    }
}

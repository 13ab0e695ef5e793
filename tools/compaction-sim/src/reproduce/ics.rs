//! ScyllaDB's posts on its incremental compaction strategy, and on its space-amplification goal.

use crate::paper::{Paper, PaperClaim};

pub(super) const PAPER: Paper = Paper {
    name: "ics",
    title: "Maximizing Disk Utilization with Incremental Compaction, and Incremental Compaction 2.0 \
            (ScyllaDB's blog, January 2020 and April 2021)",
    setup: "Size-tiered and incremental merges of four runs, once of inserts in random order, so that \
            all space beyond the data is a merge's, and once of keys that are overwritten in random \
            order, with the goal and without. Sizes are ours: fragments of 8 MiB where they have 1 \
            GB, memtables of 4 MiB, 6 GB written.",
    options: "--data 6G --value-size 484 --memtable-size 4M --table-size 8M --ingest 10M",
    cases: &[
        ("size-tiered", "--workload insert --policy tiered:4"),
        ("incremental", "--workload insert --policy ics:4"),
        ("overwritten", "--workload uniform --policy ics:4:goal=65"),
        ("goal 1.5", "--workload uniform --policy ics:4:goal=1.5"),
        ("leveled", "--workload uniform --policy leveled:10:base=40m"),
    ],
    claims: &[
        PaperClaim {
            section: "2020, Space overhead in STCS",
            text: "A size-tiered merge may take as much space beyond the data as all that it reads",
            figure: "100 % more",
            ours: |o| {
                let most = o["size-tiered"].max_space_amplification;
                (format!("{:.0} % more at most", (most - 1.0) * 100.0), most >= 1.8)
            },
            differs: "",
        },
        PaperClaim {
            section: "2020",
            text: "An incremental one takes a few fragments, for it frees what it has passed",
            figure: "two 1 GB fragments for two runs of 100 GB",
            ours: |o| {
                let of = |name: &str| (o[name].max_space_amplification - 1.0) * 100.0;
                let (tiered, steps) = (of("size-tiered"), of("incremental"));
                (format!("{steps:.0} % more at most"), steps < tiered / 4.0)
            },
            differs: "",
        },
        PaperClaim {
            section: "2020",
            text: "It reads and writes as much as size-tiered",
            figure: "the same",
            ours: |o| {
                let writes = |name: &str| o[name].write_amplification;
                let runs = |name: &str| o[name].mean_runs;
                let (w, r) = (
                    [writes("size-tiered"), writes("incremental")],
                    [runs("size-tiered"), runs("incremental")],
                );
                (
                    format!(
                        "{:.2} and {:.2} bytes a byte, {:.1} and {:.1} runs",
                        w[0], w[1], r[0], r[1]
                    ),
                    (w[1] / w[0] - 1.0).abs() < 0.1 && r[1] < r[0] * 1.3,
                )
            },
            differs: "",
        },
        PaperClaim {
            section: "2021",
            text: "Where keys are overwritten, the goal keeps what they leave behind small",
            figure: "the goal, from far above it",
            ours: |o| {
                let (with, without) = (o["goal 1.5"].mean_space(), o["overwritten"].mean_space());
                (
                    format!(
                        "{with:.2} times the data on average with a goal of 1.5, {without:.2} without"
                    ),
                    with < 1.6 && without > 1.4 * with,
                )
            },
            differs: "",
        },
        PaperClaim {
            section: "2021",
            text: "With the goal it still writes less than leveled",
            figure: "less",
            ours: |o| {
                let of = |name: &str| o[name].write_amplification;
                (
                    format!(
                        "{:.1} bytes a byte with it, {:.1} without, leveled {:.1}",
                        of("goal 1.5"),
                        of("overwritten"),
                        of("leveled")
                    ),
                    of("goal 1.5") < of("leveled"),
                )
            },
            differs: "",
        },
    ],
};

//! Cassandra's documentation of UnifiedCompactionStrategy, the file of that name beside its code.

use super::paper::{Paper, claim, runs, writes};

pub(super) const PAPER: Paper = Paper {
    name: "ucs",
    title: "Unified compaction strategy (UnifiedCompactionStrategy.md, Apache Cassandra 5.0)",
    setup: "Scaling parameters −8 to 8, inserts in random order, as its arithmetic has it (no \
            overwrites). Memtables of 1 MiB and amounts of data are ours.",
    options: "--workload insert --memtable-size 1M --table-size 1M --background-threads 0",
    cases: &[
        ("L10", "--data 256M --policy unified:-8"),
        ("L4", "--data 256M --policy unified:-2"),
        ("N", "--data 256M --policy unified:0"),
        ("T4", "--data 256M --policy unified:2"),
        ("T10", "--data 256M --policy unified:8"),
        ("L4, 16 times", "--data 4G --policy unified:-2"),
        ("T4, 16 times", "--data 4G --policy unified:2"),
        ("mixed", "--data 256M --policy unified:2/-8"),
        ("16M shards", "--data 1G --policy unified:2:target_table=16m"),
    ],
    claims: &[
        claim("Size-based levels", "Tiered writes a byte once for each level").figure(
            "2 levels more: 2 more",
            |o| {
                let [large, small] = o.each(["T4, 16 times", "T4"], writes);
                let more = large - small;
                (format!("16 times the data of T4: {more:.1} more"), (1.5..2.5).contains(&more))
            },
        ),
        claim("Size-based levels", "Leveled writes a byte f − 1 times for each level at most")
            .figure("2 levels more: up to 6 more", |o| {
                let [large, small] = o.each(["L4, 16 times", "L4"], writes);
                let more = large - small;
                (format!("16 times the data of L4: {more:.1} more"), (3.0..=6.0).contains(&more))
            }),
        claim("Size-based levels", "From L10 over N to T10 less is written and more runs are read")
            .figure("monotone", |o| {
                let names = ["L10", "L4", "N", "T4", "T10"];
                let (writes, runs) = (o.each(names, writes), o.each(names, runs));
                let agrees = writes.is_sorted_by(|a, b| a >= b) && runs.is_sorted();
                (format!("{writes:.1?} bytes a byte, {runs:.1?} runs"), agrees)
            }),
        claim("Size-based levels", "Runs: one for each level when leveled, f − 1 when tiered")
            .figure("about 5 and 15 at most", |o| {
                let (level, tier) = (o["L4"].max_runs, o["T4"].max_runs);
                (format!("at most {level} and {tier}"), level <= 5 && tier <= 15 && tier > level)
            }),
        claim("introduction", "Levels may be tiered at the top and leveled below").figure(
            "between",
            |o| {
                let [tier, mixed, level] = o.each(["T4", "mixed", "L10"], writes);
                let ours = format!("{mixed:.1}, between {tier:.1} and {level:.1}");
                (ours, tier < mixed && mixed < level)
            },
        ),
        claim("Basic sharding scheme", "Tables of a large run have between t/√2 and t √2 bytes")
            .figure("11.3 to 22.6 MiB", |o| {
                let last = o["16M shards"].levels.last();
                let mib = last.map_or(0.0, |l| l.bytes as f64 / l.tables as f64 / 1048576.0);
                (format!("{mib:.1} MiB on average on the last level"), (11.3..=22.6).contains(&mib))
            }),
    ],
};

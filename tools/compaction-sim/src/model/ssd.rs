//! A model of an SSD: the writes of its own garbage collection in addition to the store's.
//!
//! A device has more erase blocks than its capacity (over-provisioning). Writes fill the open
//! block; an erase block can only be rewritten after it was erased as a whole. Removed files are
//! trimmed, so their bytes become garbage at once. When few erased blocks are left, the one with
//! the fewest live bytes is collected (greedy). Its live bytes are moved to a separate block.
//!
//! The assumptions are:
//! - The store has the device for itself, and trims.
//! - Tables are written from their first byte to their last while their jobs run, so concurrent
//!   jobs mix in a block.
//! - The log reaches the device as seldom as the engine's does, so it is left out.
//! - Pages are much smaller than tables, so they do not count.
//!
//! A device does not report the size of its erase blocks. If it stripes over its dies, they have
//! some hundred MiB to some GiB.
//!
//! Invariants: the extents of each erase block add up to its live bytes. The host never stores more
//! than the capacity.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// Maximum number of erase blocks, so that a simulation stays fast.
const MOST_BLOCKS: f64 = 262_144.0;
/// Seconds of a year.
pub const YEAR: f64 = 365.25 * 86_400.0;
/// Minimum number of erase blocks beyond the capacity: an open one for the store, one for moved
/// data, and one to move to.
const SPARE_BLOCKS: usize = 4;

/// Parameters of a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SsdShape {
    /// Capacity in bytes.
    pub capacity: f64,
    /// Additional space, as a share of the capacity.
    pub over_provisioning: f64,
    /// Bytes of an erase block.
    pub erase_block: f64,
    /// Bytes that the host may write in its life, as the vendor states it; 0 for unknown.
    pub endurance: f64,
}

impl SsdShape {
    /// Checks that it can be simulated.
    ///
    /// # Errors
    /// The value out of bounds, as text.
    pub fn check(&self) -> Result<(), String> {
        let blocks = self.capacity * (1.0 + self.over_provisioning) / self.erase_block;
        if !(0.02..=4.0).contains(&self.over_provisioning) {
            return Err(format!(
                "the over-provisioning is {}; it must be 0.02 to 4",
                self.over_provisioning
            ));
        }
        if self.erase_block < 65_536.0 || !(8.0..=MOST_BLOCKS).contains(&blocks) {
            return Err(format!(
                "the device has {blocks:.0} erase blocks; it must have 8 to {MOST_BLOCKS}, of \
                 64 KiB at least"
            ));
        }
        Ok(())
    }
}

/// Wear of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SsdWear {
    /// Bytes that the store wrote.
    pub host_bytes: f64,
    /// Bytes that its garbage collection moved.
    pub moved_bytes: f64,
    /// Sum of both over the first.
    pub device_write_amplification: f64,
    /// Number of times that the store wrote its full capacity per day.
    pub drive_writes_per_day: f64,
    /// Years until the store has written the vendor's endurance; 0 if that is unknown.
    pub years: f64,
    /// Peak bytes of the store over the capacity.
    pub fullest: f64,
}

#[derive(Clone, Debug, Default)]
struct EraseBlock {
    /// Live bytes by table.
    extents: BTreeMap<u64, f64>,
    live: f64,
    written: f64,
}

/// A simulated device.
pub struct Ssd {
    shape: SsdShape,
    blocks: Vec<EraseBlock>,
    erased: Vec<usize>,
    /// Full blocks, by their live bytes (as bits, which sort as positive numbers do).
    full: BTreeSet<(u64, usize)>,
    /// The blocks that the store and the garbage collection write to.
    open: [usize; 2],
    /// The blocks of each table.
    tables: BTreeMap<u64, BTreeSet<usize>>,
    live: f64,
    wear: SsdWear,
}

impl Ssd {
    /// Creates an empty device.
    ///
    /// # Errors
    /// As [`SsdShape::check`].
    pub fn new(shape: SsdShape) -> Result<Ssd, String> {
        shape.check()?;
        let shown = (shape.capacity / shape.erase_block).ceil();
        let spare = (shown * shape.over_provisioning).floor() as usize;
        let count = shown as usize + spare.max(SPARE_BLOCKS);
        Ok(Ssd {
            shape,
            blocks: vec![EraseBlock::default(); count],
            erased: (2..count).rev().collect(),
            full: BTreeSet::new(),
            open: [0, 1],
            tables: BTreeMap::new(),
            live: 0.0,
            wear: SsdWear::default(),
        })
    }

    /// Writes bytes of a table.
    ///
    /// # Errors
    /// If the device is full.
    pub fn write(&mut self, table: u64, bytes: f64) -> Result<(), String> {
        if self.live + bytes > self.shape.capacity {
            return Err(format!(
                "the device is full: {:.0} bytes come to {:.0}, of {:.0}",
                bytes, self.live, self.shape.capacity
            ));
        }
        self.live += bytes;
        self.wear.host_bytes += bytes;
        self.wear.fullest = self.wear.fullest.max(self.live / self.shape.capacity);
        self.fill(0, table, bytes)
    }

    /// Removes a table.
    pub fn trim(&mut self, table: u64) {
        for at in self.tables.remove(&table).unwrap_or_default() {
            let sealed = self.full.remove(&self.rank(at));
            let block = &mut self.blocks[at];
            let bytes = block.extents.remove(&table).unwrap_or(0.0);
            // Rounding errors of an empty block count as zero.
            block.live = if block.extents.is_empty() { 0.0 } else { block.live - bytes };
            self.live = (self.live - bytes).max(0.0);
            if sealed {
                self.full.insert(self.rank(at));
            }
        }
    }

    fn rank(&self, at: usize) -> (u64, usize) {
        (self.blocks[at].live.max(0.0).to_bits(), at)
    }

    /// Writes to one of the open blocks, and to the next ones.
    fn fill(&mut self, stream: usize, table: u64, mut bytes: f64) -> Result<(), String> {
        while bytes > 0.0 {
            let at = self.open[stream];
            let room = self.shape.erase_block - self.blocks[at].written;
            let now = bytes.min(room);
            if now > 0.0 {
                let block = &mut self.blocks[at];
                block.written += now;
                block.live += now;
                *block.extents.entry(table).or_default() += now;
                self.tables.entry(table).or_default().insert(at);
                bytes -= now;
            }
            if bytes > 0.0 {
                self.full.insert(self.rank(at));
                // The store waits for an erased block; one is reserved for moved data.
                while stream == 0 && self.erased.len() < 2 && self.collect()? {}
                let next = self.erased.pop();
                self.open[stream] = next.ok_or("the device has no erased block left")?;
            }
        }
        Ok(())
    }

    /// Moves the live data of the block with the most garbage, and erases it. Returns false if no
    /// block has garbage.
    fn collect(&mut self) -> Result<bool, String> {
        let Some(&(_, at)) = self.full.first() else { return Ok(false) };
        if self.blocks[at].live > self.shape.erase_block - 1.0 {
            return Ok(false);
        }
        self.full.pop_first();
        let old = std::mem::take(&mut self.blocks[at]);
        self.erased.insert(0, at);
        for (table, bytes) in old.extents {
            if let Some(places) = self.tables.get_mut(&table) {
                places.remove(&at);
            }
            self.wear.moved_bytes += bytes;
            self.fill(1, table, bytes)?;
        }
        Ok(true)
    }

    /// Returns the wear after this many seconds.
    pub fn wear(&self, seconds: f64) -> SsdWear {
        let w = self.wear;
        let per_second = w.host_bytes / seconds.max(1e-9);
        let years = if self.shape.endurance > 0.0 && per_second > 0.0 {
            self.shape.endurance / per_second / YEAR
        } else {
            0.0
        };
        SsdWear {
            device_write_amplification: (w.host_bytes + w.moved_bytes) / w.host_bytes.max(1.0),
            drive_writes_per_day: per_second * 86_400.0 / self.shape.capacity,
            years,
            ..w
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_testkit::rng::Rng;

    fn shape(blocks: f64, over_provisioning: f64) -> SsdShape {
        SsdShape {
            capacity: blocks * 65_536.0,
            over_provisioning,
            erase_block: 65_536.0,
            endurance: 0.0,
        }
    }

    fn check(ssd: &Ssd) {
        for b in &ssd.blocks {
            assert!((b.extents.values().sum::<f64>() - b.live).abs() < 1e-3, "{b:?}");
            assert!(b.live <= ssd.shape.erase_block + 1e-3 && b.written <= ssd.shape.erase_block);
        }
        let live: f64 = ssd.blocks.iter().map(|b| b.live).sum();
        assert!((live - ssd.live).abs() < 1.0);
    }

    #[test]
    fn what_lives_is_where_it_was_written() {
        for (seed, spare) in (0..30).zip([0.02, 0.07, 0.5].into_iter().cycle()) {
            let mut rng = Rng::new(seed);
            let mut ssd = Ssd::new(shape(64.0, spare)).unwrap();
            for _ in 0..400 {
                let (table, bytes) = (rng.below(60), rng.range(1..200_000) as f64);
                ssd.trim(table);
                let fits = ssd.live + bytes <= ssd.shape.capacity;
                assert_eq!(ssd.write(table, bytes).is_ok(), fits, "{seed}");
                check(&ssd);
            }
        }
    }

    #[test]
    fn whole_blocks_cost_nothing_and_random_parts_much() {
        let run = |size: f64, spare: f64| {
            let mut ssd = Ssd::new(shape(256.0, spare)).unwrap();
            // Nine tenths of it are used; the removed table is random.
            let tables = (0.9 * ssd.shape.capacity / size) as u64;
            let mut rng = Rng::new(1);
            for n in 0..tables * 12 {
                let table = if n < tables { n } else { rng.below(tables) };
                ssd.trim(table);
                ssd.write(table, size).unwrap();
            }
            check(&ssd);
            ssd.wear(1.0).device_write_amplification
        };
        let whole = run(65_536.0, 0.07);
        assert!((whole - 1.0).abs() < 0.01, "{whole}");
        let (little, much) = (run(2048.0, 0.07), run(2048.0, 0.5));
        assert!(little > 2.0 && much < little && much > 1.0, "{little} {much}");
    }

    #[test]
    fn impossible_devices_are_refused() {
        for bad in [shape(2.0, 0.1), shape(100.0, -1.0), shape(1e9, 0.1)] {
            assert!(Ssd::new(bad).is_err());
        }
        let mut ssd = Ssd::new(shape(16.0, 0.02)).unwrap();
        assert!(ssd.write(1, 17.0 * 65_536.0).is_err());
    }

    #[test]
    fn wear_is_compared_with_endurance() {
        let mut ssd = Ssd::new(SsdShape { endurance: 1e9, ..shape(100.0, 0.1) }).unwrap();
        ssd.write(1, 1e6).unwrap();
        let wear = ssd.wear(86_400.0);
        assert!((wear.drive_writes_per_day - 1e6 / 6_553_600.0).abs() < 1e-9);
        assert!((wear.years - 1000.0 / 365.25).abs() < 1e-9);
    }
}

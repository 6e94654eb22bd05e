//! `scan-mix`: a `zipf` trace interrupted by sequential scans.
//!
//! The defaults are the scan resistance experiment of the AD-LRU paper (section
//! 4.4): 100,000 Zipf references to 40,000 pages, and 50 scans of one length,
//! spread evenly, over 10,000 further pages. Without its scans the trace is what
//! `zipf` generates from the same arguments.

use super::arguments::{ArgumentKind, Arguments, BOOLEAN, GeneratorParameter, SEED, WRITE, whole};
use super::random::{Chance, Random};
use super::zipf::{ALPHA, MOST_PAGES, Zipf};
use super::{Generator, GeneratorEntry, GeneratorInfo, RandomGenerator, References};
use crate::error::TraceError;
use crate::reference::Batch;

/// Far below 2^64, so that sums and products of a few such numbers stay below it too.
const MANY: u64 = 1_000_000_000_000_000_000;
const SOME: u64 = 1_000_000_000;
/// Makes the random draws of scans independent of those of the zipf references.
const SCANS: u64 = 0x5CA9_5CA9_5CA9_5CA9;

pub(super) static ENTRY: GeneratorEntry = GeneratorEntry {
    info: GeneratorInfo {
        name: "scan-mix",
        summary: "a zipf trace with sequential scans in between, spread evenly",
        knows_probabilities: false,
        parameters: &[
            GeneratorParameter {
                name: "pages",
                kind: whole(1, MOST_PAGES),
                default: "40000",
                about: "pages that the zipf references go to, numbered from 0",
            },
            GeneratorParameter {
                name: "refs",
                kind: whole(0, MANY),
                default: "100000",
                about: "zipf references; those of the scans come on top",
            },
            GeneratorParameter { name: "read-alpha", kind: ALPHA, default: "1", about: "skew of the zipf reads, 0 is uniform" },
            GeneratorParameter {
                name: "write-alpha",
                kind: ALPHA,
                default: "read-alpha",
                about: "skew of the zipf writes, 0 is uniform",
            },
            GeneratorParameter { about: "share of the zipf references that write", ..WRITE },
            GeneratorParameter {
                name: "shared",
                kind: BOOLEAN,
                default: "false",
                about: "zipf reads and writes rank the pages alike",
            },
            GeneratorParameter { name: "scans", kind: whole(0, SOME), default: "50", about: "number of scans" },
            GeneratorParameter { name: "scan-length", kind: whole(0, SOME), default: "1000", about: "references of each scan" },
            GeneratorParameter {
                name: "scan-first",
                kind: whole(0, MANY),
                default: "pages",
                about: "first page of the scanned area",
            },
            GeneratorParameter {
                name: "scan-pages",
                kind: whole(1, MANY),
                default: "10000",
                about: "pages of the scanned area; a scan that reaches its end goes on at its first page",
            },
            GeneratorParameter {
                name: "scan-start",
                kind: ArgumentKind::Word(&["random", "next", "first"]),
                default: "random",
                about: "a scan begins anywhere in the area, behind the scan before, or at the area's first page",
            },
            GeneratorParameter {
                name: "scan-write",
                default: "0",
                about: "share of the scans' references that write",
                ..WRITE
            },
            SEED,
        ],
    },
    build,
};

/// Where a scan starts.
#[derive(Debug, Clone, Copy)]
enum ScanStart {
    Random,
    Next,
    First,
}

/// The number and shape of scans.
#[derive(Debug, Clone, Copy)]
struct Scans {
    count: u64,
    length: u64,
    first: u64,
    pages: u64,
    start: ScanStart,
    write: Chance,
}

struct ScanMix {
    zipf: Zipf,
    scans: Scans,
    seed: u64,
}

fn build(arguments: &Arguments) -> Result<Box<dyn Generator>, TraceError> {
    let zipf = Zipf::from_arguments(arguments)?;
    let first = if arguments.is_given("scan-first") { arguments.integer("scan-first")? } else { zipf.pages() };
    Ok(Box::new(ScanMix {
        scans: Scans {
            count: arguments.integer("scans")?,
            length: arguments.integer("scan-length")?,
            first,
            pages: arguments.integer("scan-pages")?,
            start: match arguments.choice("scan-start")? {
                "random" => ScanStart::Random,
                "next" => ScanStart::Next,
                _ => ScanStart::First,
            },
            write: arguments.chance("scan-write")?,
        },
        zipf,
        seed: arguments.integer("seed")?,
    }))
}

impl RandomGenerator for ScanMix {
    fn references(&self) -> u64 {
        self.zipf.references() + self.scans.count * self.scans.length
    }

    fn pages(&self) -> u64 {
        self.zipf.pages().max(self.scans.first + self.scans.pages)
    }

    fn start(&self, spec: &str) -> Result<Box<dyn References>, TraceError> {
        Ok(Box::new(Stream {
            zipf: self.zipf.start(spec)?,
            zipf_references: self.zipf.references(),
            zipf_done: 0,
            random: Random::new(self.seed ^ SCANS),
            scans: self.scans,
            begun: 0,
            offset: 0,
            left: 0,
        }))
    }
}

struct Stream {
    zipf: Box<dyn References>,
    zipf_references: u64,
    zipf_done: u64,
    random: Random,
    scans: Scans,
    /// Scans that have begun.
    begun: u64,
    /// The next page of the scan, counted from the area's first.
    offset: u64,
    /// References left in the current scan.
    left: u64,
}

impl Stream {
    /// Zipf references until the next scan: the trace consists of as many equal parts as
    /// there are scans, with a scan in the middle of each.
    fn until_scan(&self) -> u64 {
        if self.begun == self.scans.count {
            return u64::MAX;
        }
        let halves = 2 * u128::from(self.begun) + 1;
        let before = halves * u128::from(self.zipf_references) / (2 * u128::from(self.scans.count));
        before as u64 - self.zipf_done
    }

    fn begin_scan(&mut self) {
        self.begun += 1;
        self.left = self.scans.length;
        match self.scans.start {
            ScanStart::Random => self.offset = self.random.below(self.scans.pages),
            ScanStart::Next => {}
            ScanStart::First => self.offset = 0,
        }
    }

    fn scan(&mut self, batch: &mut Batch, count: u64) {
        for _ in 0..count {
            let write = self.random.happens(self.scans.write);
            batch.push(self.scans.first + self.offset, write);
            self.offset += 1;
            if self.offset == self.scans.pages {
                self.offset = 0;
            }
        }
        self.left -= count;
    }
}

impl References for Stream {
    fn fill(&mut self, batch: &mut Batch, count: usize) {
        let mut left = count as u64;
        while left > 0 {
            let scanned = self.left.min(left);
            self.scan(batch, scanned);
            left -= scanned;
            let zipf = self.until_scan().min(left);
            if self.left == 0 {
                self.zipf.fill(batch, zipf as usize);
                self.zipf_done += zipf;
                left -= zipf;
                if left > 0 {
                    self.begin_scan();
                }
            }
        }
    }
}

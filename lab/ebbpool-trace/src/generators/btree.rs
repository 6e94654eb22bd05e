//! `btree`: the page requests of the CFDC paper's workload through a B+-tree.
//!
//! The references are those of `ebbpool db bench --workload cfdc` with one thread, on a database
//! made by `ebbpool db load`. A point query reads the nodes from the root to a leaf; a point update
//! reads the inner nodes and writes the leaf; a range query descends once and reads leaf after leaf; a
//! range update descends for each leaf, and writes it. New values are as long as the old ones, so the
//! tree keeps the shape in which it was loaded.

mod layout;

use std::sync::{Mutex, PoisonError};

use super::arguments::{ArgumentKind, Arguments, BOOLEAN, GeneratorParameter, SEED, whole};
use super::{Generator, GeneratorEntry, GeneratorInfo};
use crate::error::TraceError;
use crate::formats::{Decode, OpenedTrace};
use crate::reference::{Batch, Metadata, PageClasses};
use crate::workload::{CfdcOperations, CfdcWorkload, Keys, MOST_RECORDS, Skew, WorkloadError, WorkloadOperation};
use layout::{TreeLayout, leaf_cell, most_inline_cell};

/// Far below 2^64, so that sums of a few such numbers stay below it too.
const MANY: ArgumentKind = whole(0, 1_000_000_000_000_000_000);

pub(super) static ENTRY: GeneratorEntry = GeneratorEntry {
    info: GeneratorInfo {
        name: "btree",
        summary: "point and range queries and updates of records in a B+-tree, as in the CFDC paper",
        knows_probabilities: false,
        parameters: &[
            GeneratorParameter {
                name: "records",
                kind: whole(1, MOST_RECORDS),
                default: "1000000",
                about: "records of the database",
            },
            GeneratorParameter { name: "key", kind: whole(1, 8), default: "4", about: "bytes of a key" },
            GeneratorParameter { name: "value", kind: whole(0, 1 << 15), default: "256", about: "bytes of a value" },
            GeneratorParameter {
                name: "page-size",
                kind: ArgumentKind::PageSize(&[512, 1024, 2048, 4096, 8192, 16384, 32768]),
                default: "4096",
                about: "bytes of a page",
            },
            GeneratorParameter {
                name: "fill",
                kind: ArgumentKind::Decimal { max: 1 },
                default: "0.5",
                about: "share of a node that is filled when the records are loaded",
            },
            GeneratorParameter { name: "queries", kind: MANY, default: "100000", about: "point queries" },
            GeneratorParameter { name: "updates", kind: MANY, default: "100000", about: "point updates" },
            GeneratorParameter { name: "scans", kind: MANY, default: "200", about: "range queries" },
            GeneratorParameter { name: "scan-updates", kind: MANY, default: "200", about: "range updates" },
            GeneratorParameter {
                name: "intensity",
                kind: ArgumentKind::Decimal { max: 1 },
                default: "as the four before say",
                about: "share of the operations that are updates, of as many point operations and scans",
            },
            GeneratorParameter {
                name: "length",
                kind: MANY,
                default: "256",
                about: "records of a range; one that reaches the last record ends there",
            },
            GeneratorParameter {
                name: "skew",
                kind: ArgumentKind::Skew,
                default: "0.8/0.2",
                about: "share of the point operations that goes to that share of the records",
            },
            GeneratorParameter {
                name: "scattered",
                kind: BOOLEAN,
                default: "false",
                about: "popular records lie anywhere; otherwise record 0 is the most popular and its neighbours are next",
            },
            SEED,
        ],
    },
    build,
};

struct Btree {
    workload: CfdcWorkload,
    layout: TreeLayout,
    page_size: u64,
    /// Made on first use and then reused, since a trace may be opened many times.
    start: Mutex<Option<CfdcOperations>>,
}

fn build(arguments: &Arguments) -> Result<Box<dyn Generator>, TraceError> {
    let workload = workload(arguments)?;
    let (key, value) = (arguments.integer("key")?, arguments.integer("value")?);
    let keys = Keys::Numbers(key as usize).suffice(workload.records);
    keys.map_err(|source| arguments.refuse_workload(source))?;
    let page_size = arguments.page_size("page-size")?;
    let most = most_inline_cell(page_size);
    if leaf_cell(key, value) > most {
        let most = most - leaf_cell(key, 0);
        return Err(arguments.refuse_value(
            "value",
            &value.to_string(),
            format!("at most {most} bytes: longer ones are not stored in leaves of {page_size} bytes"),
        ));
    }
    let fill = arguments.decimal("fill")?.to_f64();
    Ok(Box::new(Btree {
        layout: TreeLayout::new(workload.records, key, value, page_size, fill),
        workload,
        page_size,
        start: Mutex::new(None),
    }))
}

fn workload(arguments: &Arguments) -> Result<CfdcWorkload, TraceError> {
    let workload = CfdcWorkload {
        records: arguments.integer("records")?,
        queries: arguments.integer("queries")?,
        updates: arguments.integer("updates")?,
        scans: arguments.integer("scans")?,
        update_scans: arguments.integer("scan-updates")?,
        scan_records: arguments.integer("length")?,
        skew: Skew::new(arguments.skew("skew")?),
        scattered: arguments.boolean("scattered")?,
        seed: arguments.integer("seed")?,
    };
    match arguments.is_given("intensity") {
        false => Ok(workload),
        true => Ok(workload.with_update_intensity(arguments.decimal("intensity")?.to_f64())),
    }
}

impl Generator for Btree {
    fn open(&self, spec: &str) -> Result<OpenedTrace, TraceError> {
        let operations = self.operations().map_err(|source| TraceError::Workload { spec: spec.to_owned(), source })?;
        Ok(OpenedTrace {
            metadata: Metadata {
                name: Some(spec.to_owned()),
                page_size: Some(self.page_size),
                database_pages: Some(self.layout.pages()),
                ..Metadata::default()
            },
            references: None,
            notes: Vec::new(),
            decoder: Box::new(Stream {
                all: operations.size_hint().0,
                operations,
                layout: self.layout.clone(),
                scan: None,
                path: Vec::new(),
            }),
        })
    }

    fn classes(&self) -> Option<PageClasses> {
        let names = CLASSES.map(str::to_owned).to_vec();
        let mut inner: Vec<u64> = self.layout.inner_pages().collect();
        inner.sort_unstable();
        let mut ranges = vec![(0, LEAF)];
        for page in inner {
            ranges.pop_if(|last| last.0 == page);
            ranges.extend([(page, INNER), (page + 1, LEAF)]);
        }
        PageClasses::from_ranges(names, ranges)
    }
}

/// The names of the classes of a database's pages, those that `ebbpool-btree` records, and the numbers of two of them.
const CLASSES: [&str; 5] = ["meta", "allocation map", "inner", "leaf", "overflow"];
const INNER: u32 = 3;
const LEAF: u32 = 4;

impl Btree {
    fn operations(&self) -> Result<CfdcOperations, WorkloadError> {
        let mut start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        match &*start {
            Some(operations) => Ok(operations.clone()),
            None => Ok(start.insert(self.workload.operations()?).clone()),
        }
    }
}

struct Stream {
    operations: CfdcOperations,
    all: usize,
    layout: TreeLayout,
    /// The leaves that the current operation still has to visit.
    scan: Option<LeafScan>,
    /// Inner nodes to read first; the last element is the next.
    path: Vec<u64>,
}

struct LeafScan {
    leaf: u64,
    last: u64,
    write: bool,
}

impl Stream {
    /// Begins the next operation; false if there is none.
    fn begin(&mut self) -> bool {
        let Some(operation) = self.operations.next() else {
            return false;
        };
        let (first, records, write) = match operation {
            WorkloadOperation::Read { record } => (record, 1, false),
            WorkloadOperation::Update { record }
            | WorkloadOperation::ReadModifyWrite { record }
            | WorkloadOperation::Insert { record } => (record, 1, true),
            WorkloadOperation::Scan { first, records } => (first, records, false),
            WorkloadOperation::UpdateScan { first, records } => (first, records, true),
        };
        if records > 0 {
            let leaf = self.layout.leaf_of(first);
            let last = self.layout.leaf_of(first + records - 1);
            self.scan = Some(LeafScan { leaf, last, write });
            self.descend(leaf, write);
        }
        true
    }

    fn descend(&mut self, leaf: u64, write: bool) {
        self.path.extend(self.layout.above(leaf));
        self.path.reverse();
        if write && self.layout.height() == 1 {
            // A reader finds out only after reading the root that it is the leaf, and must be latched for
            // writing.
            self.path.push(self.layout.page(0, leaf));
        }
    }

    /// The next reference of the current operation.
    fn step(&mut self) -> Option<(u64, bool)> {
        if let Some(page) = self.path.pop() {
            return Some((page, false));
        }
        let scan = self.scan.as_mut()?;
        let (leaf, write) = (scan.leaf, scan.write);
        scan.leaf += 1;
        let next = scan.leaf;
        if next > scan.last {
            self.scan = None;
        } else if write {
            self.descend(next, write);
        }
        Some((self.layout.page(0, leaf), write))
    }
}

impl Decode for Stream {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        while batch.len() < max {
            match self.step() {
                Some((page, write)) => batch.push(page, write),
                None if self.begin() => {}
                None => break,
            }
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        let left = self.operations.size_hint().0;
        match self.all {
            0 => 1.0,
            all => 1.0 - left as f64 / all as f64,
        }
    }
}

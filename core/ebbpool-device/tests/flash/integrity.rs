//! Every layer, cleaning policy and kind of wear levelling must preserve page contents through all
//! copies and merges, follow the chip's rules, and produce counts that add up.

use std::collections::HashMap;

use ebbpool_device::flash::{DeviceError, Flash, FlashConfig, Geometry, LayerKind, NandCause, NandObserver};
use proptest::prelude::*;

/// A chip that stores contents and checks that its rules are followed; it shares no code with the model.
struct CheckedChip {
    geometry: Geometry,
    /// By physical page: owner and content.
    pages: HashMap<u32, (u32, u64)>,
    /// By block: the first slot that may be programmed.
    next_slot: Vec<u32>,
    erases: Vec<u32>,
    bad: Vec<bool>,
    endurance: u32,
    /// The content that the host's next write stores.
    next: u64,
    /// Owner and content that the host's last read returned.
    last_read: Option<(u32, u64)>,
    /// Counts programs and trims, to order them in time.
    moment: u64,
    /// By owner: when it was last programmed or trimmed.
    moved: HashMap<u32, u64>,
    host_programs: u64,
    copies: u64,
    map_programs: u64,
    reads: u64,
    erase_count: u64,
}

impl CheckedChip {
    fn new(config: &FlashConfig) -> Self {
        let geometry = config.geometry().expect("checked");
        Self {
            geometry,
            pages: HashMap::new(),
            next_slot: vec![0; geometry.blocks as usize],
            erases: vec![0; geometry.blocks as usize],
            bad: vec![false; geometry.blocks as usize],
            endurance: config.chip().endurance.value as u32,
            next: 0,
            last_read: None,
            moment: 0,
            moved: HashMap::new(),
            host_programs: 0,
            copies: 0,
            map_programs: 0,
            reads: 0,
            erase_count: 0,
        }
    }

    fn store(&mut self, page: u32, owner: u32, content: u64) {
        let (block, slot) = (self.geometry.block(page), self.geometry.slot(page));
        assert!(slot < self.geometry.pages_per_block, "no such slot");
        assert!(!self.bad[block as usize], "block {block} is bad");
        assert!(slot >= self.next_slot[block as usize], "page {slot} of block {block} out of order");
        self.next_slot[block as usize] = slot + 1;
        self.moment += 1;
        self.moved.insert(owner, self.moment);
        let before = self.pages.insert(page, (owner, content));
        assert_eq!(before, None, "programmed twice between erases");
    }
}

impl NandObserver for CheckedChip {
    fn read(&mut self, page: u32, cause: NandCause) {
        self.reads += 1;
        let stored = self.pages.get(&page).copied();
        assert!(stored.is_some(), "read of a blank page");
        if cause == NandCause::Host {
            self.last_read = stored;
        }
    }

    fn programmed(&mut self, page: u32, owner: u32, cause: NandCause) {
        match cause {
            NandCause::Host => self.host_programs += 1,
            NandCause::Map => self.map_programs += 1,
            other => panic!("new content because of {other:?}"),
        }
        self.store(page, owner, self.next);
    }

    fn copied(&mut self, from: u32, to: u32, owner: u32, cause: NandCause) {
        assert!(matches!(cause, NandCause::Cleaning | NandCause::Merge | NandCause::Wear));
        self.copies += 1;
        self.reads += 1;
        let (stored, content) = self.pages[&from];
        assert_eq!(stored, owner, "a page changed its owner");
        self.store(to, owner, content);
    }

    fn erased(&mut self, block: u32) {
        self.erase_count += 1;
        self.erases[block as usize] += 1;
        assert!(self.erases[block as usize] <= self.endurance);
        for slot in 0..self.geometry.pages_per_block {
            self.pages.remove(&self.geometry.page(block, slot));
        }
        self.next_slot[block as usize] = 0;
    }

    fn retired(&mut self, block: u32) {
        assert_eq!(self.erases[block as usize], self.endurance);
        self.bad[block as usize] = true;
    }
}

#[derive(Clone, Copy, Debug)]
enum Request {
    Read(u64),
    Write(u64),
    Trim(u64),
}

/// A device and the contents that it must hold.
struct Bench {
    flash: Flash<CheckedChip>,
    expected: Vec<Option<u64>>,
    written: u64,
    reads: u64,
    trims: u64,
    preconditioned: u64,
}

impl Bench {
    fn new(device: &str) -> Self {
        let config: FlashConfig = device.parse().unwrap_or_else(|error| panic!("{error}"));
        let contents = CheckedChip::new(&config);
        let mut flash = Flash::observed(&config, contents).expect("works");
        let pages = flash.logical_pages() as usize;
        let preconditioned = flash.observer().host_programs;
        let mapped = preconditioned > 0;
        Self { flash, expected: vec![mapped.then_some(0); pages], written: 0, reads: 0, trims: 0, preconditioned }
    }

    fn serve(&mut self, request: Request) -> Result<(), DeviceError> {
        match request {
            Request::Read(page) => {
                self.flash.observer().last_read = None;
                self.flash.read(page)?;
                self.reads += 1;
                let found = self.flash.observer().last_read;
                let expected = self.expected[page as usize].map(|content| (page as u32, content));
                assert_eq!(found, expected, "page {page}");
            }
            Request::Write(page) => {
                self.flash.observer().next = self.written + 1;
                self.flash.write(page)?;
                self.written += 1;
                self.expected[page as usize] = Some(self.written);
            }
            Request::Trim(page) => {
                self.flash.trim(page)?;
                self.trims += 1;
                if self.expected[page as usize].is_some() {
                    let seen = self.flash.observer();
                    seen.moment += 1;
                    seen.moved.insert(page as u32, seen.moment);
                }
                self.expected[page as usize] = None;
            }
        }
        Ok(())
    }

    /// If a page moves after the page of DFTL's table with its entry was last written, its new place is
    /// stored in memory only, so there can be no more such pages than entries in memory.
    fn check_table(&mut self) {
        let config = self.flash.config();
        let Some(entries) = config.cached_entries.filter(|_| config.layer == LayerKind::Dftl) else {
            return;
        };
        let per_page = config.page_bytes / 4;
        let logical = self.flash.logical_pages() as u32;
        let seen = self.flash.observer();
        let ahead = |owner: &u32| {
            let table = logical + owner / per_page;
            let written = seen.moved.get(&table).copied().unwrap_or(0);
            seen.moved.get(owner).is_some_and(|&moved| moved > written)
        };
        let ahead = (0..logical).filter(ahead).count();
        assert!(ahead <= entries as usize, "{ahead} entries are not on flash, {entries} fit in memory");
    }

    /// Every logical page has exactly the copy it should have, and the counts add up.
    fn check(&mut self) {
        for page in 0..self.expected.len() as u64 {
            let physical = self.flash.physical_page(page);
            let stored = physical.map(|physical| self.flash.observer().pages[&physical]);
            let expected = self.expected[page as usize].map(|content| (page as u32, content));
            assert_eq!(stored, expected, "page {page}");
            let block = physical.map(|physical| self.flash.observer().geometry.block(physical));
            assert_eq!(self.flash.erase_count(page).is_some(), block.is_some(), "page {page}");
        }
        let report = self.flash.report();
        let seen = self.flash.observer();
        let causes = report.programs_by_cause;
        let copies = causes.cleaning + causes.merge + causes.wear;
        assert_eq!(report.host_writes, self.written);
        assert_eq!((report.host_reads, report.host_trims), (self.reads, self.trims));
        assert_eq!(causes.host, self.written);
        assert_eq!(causes.total(), report.programs);
        if self.preconditioned == 0 {
            assert_eq!(causes.host, seen.host_programs);
            assert_eq!(copies, seen.copies);
            assert_eq!(causes.map, seen.map_programs);
            assert_eq!(report.erases, seen.erase_count);
            assert_eq!(report.reads, seen.reads);
            assert_eq!(report.wear.max, seen.erases.iter().copied().max().unwrap_or(0));
            let bad = seen.bad.iter().filter(|&&bad| bad).count() as u32;
            assert_eq!(report.wear.bad_blocks, bad);
        }
        let mapped = self.expected.iter().flatten().count() as u64;
        assert_eq!(report.mapped_pages, mapped);
    }
}

const LAYERS: [&str; 9] = [
    "ftl=page", "ftl=page,frontiers=2", "ftl=dftl,cmt=3", "ftl=dftl,cmt=9,frontiers=2", "ftl=dftl,cmt=all", "ftl=block",
    "ftl=bast,log_blocks=3", "ftl=fast,log_blocks=2", "ftl=fast,log_blocks=4",
];
const CLEANING: [&str; 6] = ["gc=greedy", "gc=fifo", "gc=random", "gc=d-choices,d=3", "gc=cost-benefit", "gc=ee-greedy"];
const WEAR: [&str; 4] = ["wl=none", "wl=dynamic", "wl=static:0", "wl=static:3"];

/// Every combination of settings that behaves differently.
fn combinations() -> Vec<String> {
    let mut all = Vec::new();
    for layer in LAYERS {
        let page_mapped = layer.contains("page") || layer.contains("dftl");
        for cleaning in CLEANING.iter().take(if page_mapped { 6 } else { 1 }) {
            for wear in WEAR {
                match page_mapped {
                    true => all.push(format!("{layer},{cleaning},{wear}")),
                    false => all.push(format!("{layer},{wear}")),
                }
            }
        }
    }
    all
}

/// A small splitmix64, so that the workload does not come from the code under test.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % below
}

/// Streams, hot pages, random pages, reads and trims by turns.
fn workload(state: &mut u64, at: u64, pages: u64) -> Request {
    let phase = (at / 300) % 4;
    let page = match phase {
        0 => at % pages,
        1 => draw(state, pages.div_ceil(8)),
        _ => draw(state, pages),
    };
    match (phase, draw(state, 10)) {
        (_, 0) => Request::Read(draw(state, pages)),
        (3, 1 | 2) => Request::Trim(page),
        _ => Request::Write(page),
    }
}

fn in_parallel(devices: Vec<String>, run: impl Fn(&str) + Sync) {
    std::thread::scope(|scope| {
        for half in devices.chunks(devices.len().div_ceil(2)) {
            let run = &run;
            scope.spawn(move || half.iter().for_each(|device| run(device)));
        }
    });
}

#[test]
fn contents_survive_every_combination() {
    in_parallel(combinations(), |settings| {
        for geometry in
            ["blocks=24,pages_per_block=8,page_size=64,rho=0.7", "blocks=40,pages_per_block=5,page_size=128,rho=0.85"]
        {
            let device = format!("flash:slc-mt29f4g08aaa,{geometry},{settings}");
            let mut bench = Bench::new(&device);
            let pages = bench.flash.logical_pages();
            let mut state = 7;
            for at in 0..6_000 {
                let request = workload(&mut state, at, pages);
                if let Err(error) = bench.serve(request) {
                    panic!("{device}: request {at}: {error}");
                }
                if at % 64 == 0 {
                    bench.check_table();
                }
            }
            bench.check();
            bench.check_table();
        }
    });
}

/// A sequential log block is ahead of its data block, and its last page is overwritten.
#[test]
fn fast_preserves_a_page_that_a_sequential_log_block_is_ahead_of() {
    let mut bench = Bench::new("flash:slc-mt29f4g08aaa,blocks=12,pages_per_block=8,rho=0.7,ftl=fast,log_blocks=3");
    let writes = [0, 1, 2, 0, 1, 2, 3, 3, 4, 8, 8, 0, 3];
    for page in writes {
        bench.serve(Request::Write(page)).expect("endures");
        bench.check();
    }
    for page in 0..16 {
        bench.serve(Request::Read(page)).expect("endures");
    }
}

/// A full log block whose pages were trimmed is merged with its data block; the next page then goes to a data
/// block, not to a log block in order that has no data block.
#[test]
fn bast_preserves_a_page_that_follows_a_merge_of_trimmed_pages() {
    let tiny = "flash:slc-mt29f4g08aaa,blocks=16,pages_per_block=2,page_size=64,rho=0.5,ftl=bast,log_blocks=3";
    let mut bench = Bench::new(tiny);
    let requests = [
        // The data block is full, then the log block, out of order.
        Request::Write(0),
        Request::Write(1),
        Request::Write(1),
        Request::Write(1),
        Request::Trim(0),
        Request::Trim(1),
        Request::Write(0),
        Request::Write(0),
        Request::Write(1),
        Request::Write(1),
    ];
    for request in requests {
        bench.serve(request).unwrap();
        bench.check();
        bench.check_table();
    }
}

#[test]
fn contents_survive_the_end_of_life() {
    let directory = std::env::temp_dir().join(format!("ebbpool-flash-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the chip");
    let chip = directory.join("short-lived.toml");
    let text = "name = \"short-lived\"\npage_bytes = 64\npages_per_block = 8\nblocks = 24\nread_us = [25.0]\nprogram_us = [220.0]\nerase_us = 1500.0\nendurance = 6\nsource = \"made up\"\n";
    std::fs::write(&chip, text).expect("a chip file");
    let fresh = format!("flash:{},rho=0.7,precondition=steady", chip.display());
    let mut fresh = Flash::new(&fresh.parse().expect("well-formed")).expect("works");
    let wear = fresh.report().wear;
    assert_eq!((wear.max, wear.bad_blocks), (0, 0), "worn before it was delivered");
    in_parallel(combinations(), |settings| {
        let device = format!("flash:{},rho=0.7,{settings}", chip.display());
        let mut bench = Bench::new(&device);
        let pages = bench.flash.logical_pages();
        let mut state = 11;
        let failed = (0..1_000_000).find_map(|at| {
            let request = workload(&mut state, at, pages);
            bench.serve(request).err()
        });
        let Some(DeviceError::WornOut { host_writes, host_bytes, bad_blocks, blocks }) = failed else {
            panic!("{device}: never worn out, but {failed:?}");
        };
        assert_eq!(host_writes, bench.written, "{device}");
        assert_eq!((host_bytes, blocks), (bench.written * 64, 24), "{device}");
        assert!(bad_blocks > 0, "{device}");
        // Each block is programmed at most 7 times, and the device must come close to that.
        let programs = bench.flash.report().programs;
        assert!(programs <= 24 * 8 * 7, "{device}: {programs} programs");
        bench.check();
        for page in 0..pages {
            bench.serve(Request::Read(page)).expect("a worn-out device still reads");
        }
        assert!(bench.flash.write(0).is_err() && bench.flash.trim(0).is_err());
    });
    std::fs::remove_dir_all(&directory).expect("the directory goes");
}

#[test]
fn preconditioned_devices_are_full_and_fresh() {
    for settings in combinations().iter().filter(|settings| settings.contains("wl=none")) {
        let device =
            format!("flash:slc-mt29f4g08aaa,blocks=48,pages_per_block=8,page_size=64,rho=0.7,precondition=steady,{settings}");
        let mut bench = Bench::new(&device);
        assert!(bench.preconditioned > bench.flash.logical_pages(), "{device}");
        let report = bench.flash.report();
        assert_eq!(report.mapped_pages, report.logical_pages, "{device}");
        assert_eq!((report.programs, report.erases, report.wear.max), (0, 0, 0), "{device}");
        bench.serve(Request::Write(3)).expect("writes");
        bench.check();
    }
}

fn requests(pages: u64) -> impl Strategy<Value = Vec<Request>> {
    let one = (0..10u8, 0..pages).prop_map(|(kind, page)| match kind {
        0 => Request::Read(page),
        1 => Request::Trim(page),
        _ => Request::Write(page),
    });
    let stream =
        (0..pages, 1..24u64).prop_map(move |(first, count)| (first..(first + count).min(pages)).map(Request::Write).collect());
    let piece = prop_oneof![one.prop_map(|request| vec![request]), stream];
    prop::collection::vec(piece, 0..120).prop_map(|pieces: Vec<Vec<Request>>| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// The invariants hold after every single request, on the smallest possible devices.
    #[test]
    fn invariants_hold_after_every_request(
        combination in prop::sample::select(combinations()),
        pages_per_block in 1..7u32,
        more_blocks in 0..6u32,
        rho in prop::sample::select(vec![0.3, 0.6, 0.9]),
        requests in requests(30),
    ) {
        let settings = format!("pages_per_block={pages_per_block},page_size=64,rho={rho},{combination}");
        // The error names the smallest device that works; this one is at most a little larger.
        let tiny = format!("flash:slc-mt29f4g08aaa,blocks=1,{settings}");
        let error = tiny.parse::<FlashConfig>().expect_err("one block is too few").to_string();
        // A mapping table of tiny pages can be more than is left.
        prop_assume!(!error.contains("no number of blocks would do"));
        let least: u32 = error
            .split_once("blocks=")
            .and_then(|(_, rest)| rest.split_once(' '))
            .and_then(|(number, _)| number.parse().ok())
            .unwrap_or_else(|| panic!("{error}"));
        let blocks = least + more_blocks;
        let mut bench = Bench::new(&format!("flash:slc-mt29f4g08aaa,blocks={blocks},{settings}"));
        let pages = bench.flash.logical_pages();
        for request in requests {
            let request = match request {
                Request::Read(page) => Request::Read(page % pages),
                Request::Write(page) => Request::Write(page % pages),
                Request::Trim(page) => Request::Trim(page % pages),
            };
            if let Err(error) = bench.serve(request) {
                panic!("{}: {error}", bench.flash.config());
            }
            bench.check();
            bench.check_table();
        }
    }
}

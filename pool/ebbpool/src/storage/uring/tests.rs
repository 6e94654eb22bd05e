use std::io::IoSlice;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use rustix::io::Errno;

use super::*;
use crate::storage::file::raw::Raw;
use crate::storage::file::scripted::{Call, Scripted};

const PAGE: usize = 1024;
const SIZES: Sizes = Sizes { page: PAGE, block: 512 };

/// A ring whose kernel is a scripted file, and completes operations in random order.
struct Kernel<'a> {
    file: &'a Scripted,
    depth: usize,
    submitted: Vec<(Operation, usize)>,
    unsubmitted: Vec<(Operation, usize)>,
    done: VecDeque<(usize, i32)>,
    /// The errors of `enter`, for its calls in order.
    refusals: VecDeque<Option<Errno>>,
    /// Decides which operation is next.
    dice: u64,
    most_pending: usize,
    /// The most operations that one `enter` submitted.
    most_at_once: usize,
}

impl<'a> Kernel<'a> {
    fn new(file: &'a Scripted, depth: usize) -> Self {
        Kernel {
            file,
            depth,
            submitted: Vec::new(),
            unsubmitted: Vec::new(),
            done: VecDeque::new(),
            refusals: VecDeque::new(),
            dice: 1,
            most_pending: 0,
            most_at_once: 0,
        }
    }

    fn complete_one(&mut self) {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005) + 1_442_695;
        let at = (self.dice >> 33) as usize % self.submitted.len();
        let (operation, token) = self.submitted.swap_remove(at);
        let moved = match operation {
            Operation::Read { to, bytes, offset } => {
                // SAFETY: the memory is there until the completion, as `push` demands.
                let buffer = unsafe { std::slice::from_raw_parts_mut(to, bytes) };
                self.file.read_at(buffer, offset)
            }
            Operation::Write { from, bytes, offset } => {
                // SAFETY: the memory is there until the completion, as `push` demands.
                let buffer = unsafe { std::slice::from_raw_parts(from, bytes) };
                self.file.write_at(&[IoSlice::new(buffer)], offset)
            }
            Operation::WriteVectored { list, count, offset } => {
                // SAFETY: the memory is there until the completion, as `push` demands.
                let list = unsafe { std::slice::from_raw_parts(list, count) };
                let slices: Vec<_> = list
                    .iter()
                    .map(|one| {
                        // SAFETY: as above.
                        IoSlice::new(unsafe { std::slice::from_raw_parts(one.iov_base.cast::<u8>(), one.iov_len) })
                    })
                    .collect();
                self.file.write_at(&slices, offset)
            }
        };
        let result = match moved {
            Ok(bytes) => bytes as i32,
            Err(error) => -error.raw_os_error().expect("an error of the system"),
        };
        self.done.push_back((token, result));
    }
}

impl Queue for Kernel<'_> {
    fn depth(&self) -> usize {
        self.depth
    }

    unsafe fn push(&mut self, operation: Operation, token: usize) -> bool {
        self.unsubmitted.push((operation, token));
        let pending = self.submitted.len() + self.unsubmitted.len() + self.done.len();
        self.most_pending = self.most_pending.max(pending);
        pending <= self.depth
    }

    fn enter(&mut self, completions: usize) -> io::Result<()> {
        if let Some(Some(refusal)) = self.refusals.pop_front() {
            return Err(refusal.into());
        }
        self.most_at_once = self.most_at_once.max(self.unsubmitted.len());
        self.submitted.append(&mut self.unsubmitted);
        assert!(completions <= self.submitted.len() + self.done.len(), "waits for ever");
        while self.done.len() < completions {
            self.complete_one();
        }
        Ok(())
    }

    fn unsubmitted(&mut self) -> usize {
        self.unsubmitted.len()
    }

    fn completed(&mut self) -> Option<(usize, i32)> {
        self.done.pop_front()
    }
}

fn content(page: u64) -> Vec<u8> {
    (0..PAGE).map(|at| (page as usize * 31 + at % 255) as u8).collect()
}

fn writes<'a>(pages: &[u64], contents: &'a [Vec<u8>]) -> Vec<Write<'a>> {
    let pairs = pages.iter().zip(contents);
    pairs.map(|(&page, buffer)| Write { page, buffer, outcome: Err(io::Error::other("not settled")) }).collect()
}

/// Writes pages, with neighbours in one run; returns the outcomes, `None` for success.
fn write(pages: &[u64], kernel: &mut Kernel<'_>) -> Vec<Option<Errno>> {
    let contents: Vec<_> = pages.iter().map(|&page| content(page)).collect();
    let mut writes = writes(pages, &contents);
    let runs = writes.chunk_by_mut(|a, b| a.page + 1 == b.page);
    let file = kernel.file;
    let left = drive(runs.map(FileTransfer::new).collect(), kernel, SIZES, || file.length());
    assert!(left.is_ok());
    writes
        .into_iter()
        .map(|write| {
            let error = write.outcome.err()?;
            Some(Errno::from_io_error(&error).unwrap_or_else(|| panic!("{error}")))
        })
        .collect()
}

/// Reads pages one by one; returns their content or error.
fn read(pages: &[u64], kernel: &mut Kernel<'_>) -> Vec<Result<Vec<u8>, Errno>> {
    let mut buffers = vec![vec![0xEE; PAGE]; pages.len()];
    let pairs = pages.iter().zip(&mut buffers);
    let mut reads: Vec<_> =
        pairs.map(|(&page, buffer)| Read { page, buffer, outcome: Err(io::Error::other("not settled")) }).collect();
    let file = kernel.file;
    let transfers = reads.iter_mut().map(FileTransfer::new).collect();
    assert!(drive(transfers, kernel, SIZES, || file.length()).is_ok());
    reads
        .into_iter()
        .map(|read| match read.outcome {
            Ok(()) => Ok(read.buffer.to_vec()),
            Err(error) => Err(Errno::from_io_error(&error).unwrap_or_else(|| panic!("{error}"))),
        })
        .collect()
}

#[test]
fn a_batch_larger_than_the_ring_goes_out_in_rounds_that_keep_it_full() {
    let file = Scripted::new(200 * PAGE);
    let pages: Vec<u64> = (0..100).map(|at| at * 2).collect();
    let mut kernel = Kernel::new(&file, 8);
    assert!(write(&pages, &mut kernel).iter().all(Option::is_none));
    assert_eq!(kernel.most_pending, 8);
    let mut kernel = Kernel::new(&file, 8);
    for (page, bytes) in pages.iter().zip(read(&pages, &mut kernel)) {
        assert_eq!(bytes.expect("it is read"), content(*page));
    }
    assert_eq!(kernel.most_pending, 8);
}

#[test]
fn a_queue_is_filled_in_steps() {
    for (depth, step) in [(1, 1), (8, 1), (12, 2), (32, 4)] {
        let file = Scripted::new(256 * PAGE);
        let pages: Vec<u64> = (0..100).map(|at| at * 2).collect();
        let mut kernel = Kernel::new(&file, depth);
        assert!(write(&pages, &mut kernel).iter().all(Option::is_none));
        assert_eq!((kernel.most_pending, kernel.most_at_once), (depth, step));
    }
}

#[test]
fn neighbours_go_out_as_one() {
    let file = Scripted::new(64 * PAGE);
    let pages: Vec<u64> = (3..35).collect();
    let mut kernel = Kernel::new(&file, 8);
    assert!(write(&pages, &mut kernel).iter().all(Option::is_none));
    assert_eq!(file.calls(Call::Write), 1);
    assert_eq!(&file.bytes()[5 * PAGE..6 * PAGE], content(5));
}

#[test]
fn short_and_interrupted_operations_go_on_where_they_stopped() {
    let file = Scripted::new(64 * PAGE);
    file.is_short(Call::Write, 1, 512);
    file.fails(Call::Write, 2, Errno::INTR);
    file.is_short(Call::Write, 3, 2 * PAGE + 512);
    file.fails(Call::Write, 4, Errno::AGAIN);
    file.fails(Call::Write, 5, Errno::CANCELED);
    let pages: Vec<u64> = (7..19).collect();
    let outcomes = write(&pages, &mut Kernel::new(&file, 4));
    assert!(outcomes.iter().all(Option::is_none), "{outcomes:?}");
    assert_eq!(file.calls(Call::Write), 6);
    for byte in 7 * PAGE..19 * PAGE {
        assert_eq!(file.times_written(byte), 1, "byte {byte}");
    }
    file.is_short(Call::Read, 1, 512);
    file.fails(Call::Read, 2, Errno::INTR);
    file.fails(Call::Read, 3, Errno::AGAIN);
    for (page, bytes) in pages.iter().zip(read(&pages, &mut Kernel::new(&file, 4))) {
        assert_eq!(bytes.expect("it is read"), content(*page));
    }
    assert_eq!(file.calls(Call::Read), 12 + 3);
}

#[test]
fn a_merged_write_that_fails_reports_the_page_that_failed() {
    let file = Scripted::new(64 * PAGE);
    file.is_bad(12 * PAGE..13 * PAGE, Errno::NOSPC);
    let pages: Vec<u64> = (10..20).collect();
    let outcomes = write(&pages, &mut Kernel::new(&file, 4));
    let failed: Vec<u64> = pages.iter().zip(&outcomes).filter_map(|(&page, outcome)| outcome.map(|_| page)).collect();
    assert_eq!(failed, [12]);
    assert_eq!(outcomes[2], Some(Errno::NOSPC));
    assert_eq!(&file.bytes()[11 * PAGE..12 * PAGE], content(11));
    assert_eq!(&file.bytes()[12 * PAGE..13 * PAGE], [0; PAGE]);
    assert_eq!(&file.bytes()[19 * PAGE..20 * PAGE], content(19));
}

#[test]
fn a_fault_at_the_nth_write_fails_no_other() {
    for nth in 1..=20 {
        let file = Scripted::new(64 * PAGE);
        file.fails(Call::Write, nth, Errno::NOSPC);
        let pages: Vec<u64> = (0..20).map(|at| at * 3).collect();
        let outcomes = write(&pages, &mut Kernel::new(&file, 6));
        assert_eq!(outcomes.iter().flatten().count(), 1);
        for (&page, outcome) in pages.iter().zip(outcomes) {
            let at = page as usize * PAGE;
            let expected = match outcome {
                None => content(page),
                Some(_) => vec![0; PAGE],
            };
            assert_eq!(file.bytes()[at..at + PAGE], expected, "page {page}");
        }
    }
}

#[test]
fn pages_beyond_the_end_are_zeros_and_so_is_the_rest_of_the_last() {
    let file = Scripted::new(PAGE + 100);
    let whole = IoSlice::new(&[9; PAGE + 100]);
    file.write_at(&[whole], 0).expect("written");
    let pages = read(&[0, 1, 2], &mut Kernel::new(&file, 2));
    let pages: Vec<_> = pages.into_iter().map(|page| page.expect("read")).collect();
    assert_eq!(pages[0], [9; PAGE]);
    assert_eq!(pages[1][..100], [9; 100]);
    assert_eq!(pages[1][100..], [0; PAGE - 100]);
    assert_eq!(pages[2], [0; PAGE]);
}

#[test]
fn a_call_to_a_busy_kernel_is_repeated() {
    let file = Scripted::new(64 * PAGE);
    let mut kernel = Kernel::new(&file, 4);
    kernel.refusals = [Errno::INTR, Errno::AGAIN, Errno::BUSY, Errno::INTR].map(Some).into();
    let pages: Vec<u64> = (0..20).map(|at| at * 2).collect();
    assert!(write(&pages, &mut kernel).iter().all(Option::is_none));
}

#[test]
fn a_ring_that_breaks_returns_the_transfers_that_it_never_did() {
    for calls_before in 0..6 {
        let file = Scripted::new(64 * PAGE);
        let mut kernel = Kernel::new(&file, 4);
        kernel.refusals = vec![None; calls_before].into();
        // The next calls of `enter` fail, too.
        kernel.refusals.extend([Some(Errno::PERM); 3]);
        let pages: Vec<u64> = (0..20).map(|at| at * 2).collect();
        let contents: Vec<_> = pages.iter().map(|&page| content(page)).collect();
        let mut all = writes(&pages, &contents);
        let runs: Vec<_> = all.chunks_mut(1).map(FileTransfer::new).collect();
        let Err(left) = drive(runs, &mut kernel, SIZES, || file.length()) else { panic!("it broke") };
        assert!(kernel.submitted.is_empty(), "the kernel still has some");
        assert_eq!(Errno::from_io_error(&left.why), Some(Errno::PERM));
        let left: Vec<u64> = left.transfers.iter().map(|t| t.pages.first()).collect();
        for write in &all {
            let written = file.times_written(write.page as usize * PAGE);
            assert_eq!(written, u32::from(write.outcome.is_ok()), "{}", write.page);
            assert_eq!(write.outcome.is_err(), left.contains(&write.page));
        }
    }
}

#[test]
fn nothing_is_in_the_kernel_after_a_panic() {
    let file = Scripted::new(64 * PAGE);
    // After a count within a block `drive` reads the length of the file.
    file.is_short(Call::Write, 3, 100);
    let mut kernel = Kernel::new(&file, 8);
    let pages: Vec<u64> = (0..20).map(|at| at * 2).collect();
    let contents: Vec<_> = pages.iter().map(|&page| content(page)).collect();
    let mut all = writes(&pages, &contents);
    let runs: Vec<_> = all.chunks_mut(1).map(FileTransfer::new).collect();
    let outcome = catch_unwind(AssertUnwindSafe(|| drive(runs, &mut kernel, SIZES, || panic!("as it should")).is_ok()));
    assert!(outcome.is_err());
    assert!(kernel.submitted.is_empty(), "the kernel still has some");
}

/// Faults of calls, each with the number of the call.
fn faults() -> impl Strategy<Value = Vec<(usize, usize)>> {
    proptest::collection::vec((1usize..60, 0usize..7), 0..20)
}

proptest! {
    #[test]
    fn after_any_faults_a_page_is_as_its_outcome_says(
        faults in faults(),
        dice in any::<u64>(),
        depth in 1usize..9,
        steps in proptest::collection::vec(1u64..3, 1..50),
    ) {
        let file = Scripted::new(200 * PAGE);
        for (nth, fault) in faults {
            match fault {
                0 => file.is_short(Call::Write, nth, 512),
                1 => file.is_short(Call::Write, nth, 3 * PAGE),
                2 => file.fails(Call::Write, nth, Errno::INTR),
                3 => file.fails(Call::Write, nth, Errno::AGAIN),
                4 => file.fails(Call::Write, nth, Errno::CANCELED),
                5 => file.fails(Call::Write, nth, Errno::NOSPC),
                _ => file.fails(Call::Write, nth, Errno::IO),
            }
        }
        let pages: Vec<u64> = steps
            .iter()
            .scan(0, |page, step| {
                *page += step;
                Some(*page)
            })
            .collect();
        let mut kernel = Kernel::new(&file, depth);
        kernel.dice = dice;
        let outcomes = write(&pages, &mut kernel);
        prop_assert!(kernel.submitted.is_empty() && kernel.unsubmitted.is_empty());
        let bytes = file.bytes();
        for (&page, outcome) in pages.iter().zip(outcomes) {
            let at = page as usize * PAGE;
            if outcome.is_none() {
                prop_assert_eq!(&bytes[at..at + PAGE], &content(page)[..]);
            }
            for byte in at..at + PAGE {
                prop_assert!(file.times_written(byte) <= 1, "page {} twice", page);
            }
        }
    }
}

mod with_the_kernel {
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::frames::FrameMemory;

    /// Rings for a file, if the kernel allows their use.
    fn rings() -> Option<(std::fs::File, UringPool)> {
        let file = tempfile::tempfile().expect("a file");
        match UringPool::new(&file, 8) {
            Ok(rings) => Some((file, rings)),
            Err(error) => {
                eprintln!("not tested: no io_uring here: {error}");
                None
            }
        }
    }

    #[test]
    fn registered_memory_is_read_into_and_written_from() {
        let Some((file, rings)) = rings() else { return };
        let memory = Arc::new(FrameMemory::new(64, 4096).expect("memory"));
        rings.register(&memory);
        let sizes = Sizes { page: 4096, block: 1 };
        let (start, bytes) = memory.extent();
        // SAFETY: no other code has this memory.
        let frames = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) };
        let (from, to) = frames.split_at_mut(bytes / 2);
        for (at, page) in from.chunks_mut(4096).enumerate() {
            page.fill(at as u8 + 1);
        }
        let writes = from.chunks(4096).enumerate().map(|(at, buffer)| Write {
            page: at as u64 * 2,
            buffer,
            outcome: Err(io::Error::other("not settled")),
        });
        let mut writes: Vec<_> = writes.collect();
        rings.carry_out(writes.chunks_mut(1).map(FileTransfer::new).collect(), &file, sizes);
        assert!(writes.iter().all(|write| write.outcome.is_ok()));
        let reads = to.chunks_mut(4096).enumerate().map(|(at, buffer)| Read {
            page: at as u64 * 2,
            buffer,
            outcome: Err(io::Error::other("not settled")),
        });
        let mut reads: Vec<_> = reads.collect();
        rings.carry_out(reads.iter_mut().map(FileTransfer::new).collect(), &file, sizes);
        for (at, read) in reads.iter().enumerate() {
            assert!(read.outcome.is_ok());
            assert!(read.buffer.iter().all(|&byte| byte == at as u8 + 1));
        }
        assert_eq!(rings.broken(), None);
    }

    #[test]
    fn more_threads_than_rings_take_turns() {
        let Some((file, rings)) = rings() else { return };
        let sizes = Sizes { page: 4096, block: 1 };
        thread::scope(|scope| {
            for thread in 0..40u64 {
                let (file, rings) = (&file, &rings);
                scope.spawn(move || {
                    for round in 0..20 {
                        let buffer = vec![thread as u8 ^ round; 4096];
                        let mut writes: Vec<_> = (0..4)
                            .map(|at| Write {
                                page: thread * 8 + at * 2,
                                buffer: &buffer,
                                outcome: Err(io::Error::other("not settled")),
                            })
                            .collect();
                        let transfers = writes.chunks_mut(1).map(FileTransfer::new).collect();
                        rings.carry_out(transfers, file, sizes);
                        assert!(writes.iter().all(|write| write.outcome.is_ok()));
                        let mut buffer = vec![0; 4096];
                        let mut read =
                            Read { page: thread * 8 + 6, buffer: &mut buffer, outcome: Err(io::Error::other("not settled")) };
                        rings.carry_out(vec![FileTransfer::new(&mut read)], file, sizes);
                        assert!(read.outcome.is_ok());
                        assert!(buffer.iter().all(|&byte| byte == thread as u8 ^ round));
                    }
                });
            }
        });
    }
}

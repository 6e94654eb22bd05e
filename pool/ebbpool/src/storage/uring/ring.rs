//! The kernel's rings, and their use by many threads.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use io_uring::{IoUring, Probe, opcode, squeue, types};
use parking_lot::{Condvar, Mutex};

use super::{Addressed, Operation, Queue, drive};
use crate::frames::FrameMemory;
use crate::storage::file::transfer::{FileTransfer, Sizes};
use crate::storage::threads::{self, Positioned};

/// The most rings of a file: if more threads have batches at the same time, they take turns.
const MOST_RINGS: usize = 16;

/// The longest buffer that the kernel registers.
const LONGEST_BUFFER: usize = 1 << 30;

/// A ring for one file.
struct Uring {
    ring: IoUring,
    /// The requested depth: the kernel's queue is longer if this is not a power of two.
    depth: usize,
    /// It is not registered with the ring: the file's lock is held as long as the file is open, and after a crash the
    /// kernel closes rings, and the files that are registered with them, only after some time. So each transfer holds the
    /// file open while it is under way, and no longer.
    file: RawFd,
    /// The memory whose buffers are registered. The ring holds a reference to it, because the kernel has registered
    /// its pages, and after it is freed the same addresses would be other pages.
    memory: Option<Arc<FrameMemory>>,
}

// SAFETY: rings are used by one thread at a time, and the memory's address is the same for all.
unsafe impl Send for Uring {}

impl Uring {
    fn new(file: &File, depth: u32) -> io::Result<Self> {
        // Completions need not interrupt a thread that waits for them anyway (Linux 5.19).
        let ring = match IoUring::builder().setup_coop_taskrun().build(depth) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => IoUring::new(depth)?,
            built => built?,
        };
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed =
            [opcode::Read::CODE, opcode::Write::CODE, opcode::ReadFixed::CODE, opcode::WriteFixed::CODE, opcode::Writev::CODE];
        if !needed.iter().all(|&code| probe.is_supported(code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let file = file.as_raw_fd();
        Ok(Uring { ring, depth: depth as usize, file, memory: None })
    }

    /// Registers the memory, if the kernel allows it: the memory has to be locked, and there may be a limit for
    /// locked memory.
    fn register(&mut self, memory: &Arc<FrameMemory>) {
        let (start, bytes) = memory.extent();
        let buffers: Vec<libc::iovec> = (0..bytes)
            .step_by(LONGEST_BUFFER)
            .map(|at| libc::iovec { iov_base: start.as_ptr().wrapping_add(at).cast(), iov_len: LONGEST_BUFFER.min(bytes - at) })
            .collect();
        // SAFETY: the buffers are part of the memory, which lives as long as the ring does.
        let registered = unsafe { self.ring.submitter().register_buffers(&buffers) };
        self.memory = registered.is_ok().then(|| Arc::clone(memory));
    }

    /// Shares the buffers that another ring has registered, instead of registering them once more: each registration
    /// counts in full against the limit of locked memory, and takes 16 bytes of kernel memory for each 4096 bytes.
    /// This needs Linux 6.12 or later.
    fn share(&mut self, source: RawFd, memory: &Arc<FrameMemory>) {
        let shared = self.ring.submitter().register_buffers_clone(source);
        self.memory = shared.is_ok().then(|| Arc::clone(memory));
    }

    fn fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// The number of the registered buffer that holds all of these bytes.
    fn buffer(&self, at: *const u8, bytes: usize) -> Option<u16> {
        let (start, length) = self.memory.as_ref()?.extent();
        let first = (at as usize).checked_sub(start.as_ptr() as usize)?;
        let last = first.checked_add(bytes.checked_sub(1)?)?;
        let number = first / LONGEST_BUFFER;
        let held = last < length && last / LONGEST_BUFFER == number;
        u16::try_from(number).ok().filter(|_| held)
    }

    fn entry(&self, operation: Operation) -> squeue::Entry {
        let file = types::Fd(self.file);
        // No operation is longer: pages are shorter, and runs of pages are lists.
        let short = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        match operation {
            Operation::Read { to, bytes, offset } => match self.buffer(to, bytes) {
                Some(number) => opcode::ReadFixed::new(file, to, short(bytes), number).offset(offset).build(),
                None => opcode::Read::new(file, to, short(bytes)).offset(offset).build(),
            },
            Operation::Write { from, bytes, offset } => match self.buffer(from, bytes) {
                Some(number) => opcode::WriteFixed::new(file, from, short(bytes), number).offset(offset).build(),
                None => opcode::Write::new(file, from, short(bytes)).offset(offset).build(),
            },
            Operation::WriteVectored { list, count, offset } => {
                opcode::Writev::new(file, list, short(count)).offset(offset).build()
            }
        }
    }
}

impl Queue for Uring {
    fn depth(&self) -> usize {
        self.depth
    }

    unsafe fn push(&mut self, operation: Operation, token: usize) -> bool {
        let entry = self.entry(operation).user_data(token as u64);
        // SAFETY: the caller ensures that the memory stays valid until the completion.
        unsafe { self.ring.submission().push(&entry).is_ok() }
    }

    fn enter(&mut self, completions: usize) -> io::Result<()> {
        self.ring.submit_and_wait(completions).map(|_| ())
    }

    fn unsubmitted(&mut self) -> usize {
        self.ring.submission().len()
    }

    fn completed(&mut self) -> Option<(usize, i32)> {
        let completion = self.ring.completion().next()?;
        Some((completion.user_data() as usize, completion.result()))
    }
}

#[derive(Default)]
struct RingPool {
    /// Rings that no thread uses.
    rings: Vec<Uring>,
    /// The number of all rings.
    count: usize,
    memory: Option<Arc<FrameMemory>>,
    /// The kernel has registered the memory.
    registered: bool,
    /// The ring that the memory was registered with, while it exists: other rings share its buffers.
    source: Option<RawFd>,
    /// Why rings are no longer used.
    broken: Option<String>,
}

impl RingPool {
    /// A ring, with the memory registered if there is one.
    fn best(&mut self) -> Option<Uring> {
        let best = self.rings.iter().rposition(|ring| ring.memory.is_some());
        let best = best.or(self.rings.len().checked_sub(1))?;
        Some(self.rings.swap_remove(best))
    }

    /// Notes that a ring is about to be closed: its descriptor may soon belong to another file.
    fn remove(&mut self, ring: &Uring) {
        self.count -= 1;
        if self.source == Some(ring.fd()) {
            self.source = None;
        }
    }
}

/// The rings for one file, which are opened when they are needed.
pub(crate) struct UringPool {
    pool: Mutex<RingPool>,
    returned: Condvar,
    depth: u32,
}

impl UringPool {
    /// Rings of that depth.
    ///
    /// # Errors
    ///
    /// If the kernel has no io_uring, or does not allow its use.
    pub(crate) fn new(file: &File, depth: u32) -> io::Result<Self> {
        let first = Uring::new(file, depth)?;
        Ok(UringPool {
            pool: Mutex::new(RingPool { rings: vec![first], count: 1, ..RingPool::default() }),
            returned: Condvar::new(),
            depth,
        })
    }

    /// Registers the memory that most buffers will be part of.
    pub(crate) fn register(&self, memory: &Arc<FrameMemory>) {
        let mut pool = self.pool.lock();
        pool.memory = Some(Arc::clone(memory));
        let Some(first) = pool.rings.first_mut() else {
            return;
        };
        first.register(memory);
        pool.source = first.memory.is_some().then(|| first.fd());
        pool.registered = pool.source.is_some();
    }

    /// Whether the kernel has registered the memory; `None` if there was no memory to register.
    pub(crate) fn is_registered(&self) -> Option<bool> {
        let pool = self.pool.lock();
        pool.memory.as_ref().map(|_| pool.registered)
    }

    /// Why rings are no longer used, if they are not.
    pub(crate) fn broken(&self) -> Option<String> {
        self.pool.lock().broken.clone()
    }

    /// Carries out all transfers, without a ring if rings do not work.
    pub(crate) fn carry_out<P: Addressed + Positioned>(&self, transfers: Vec<FileTransfer<P>>, file: &File, sizes: Sizes) {
        let left = match self.take(file, transfers.len() > 1) {
            None => transfers,
            Some(mut borrowed) => {
                let length = || crate::storage::file::raw::Raw::length(file);
                match drive(transfers, &mut borrowed, sizes, length) {
                    Ok(()) => Vec::new(),
                    Err(left) => {
                        borrowed.break_down(&left.why);
                        left.transfers
                    }
                }
            }
        };
        for transfer in left {
            threads::carry_out(transfer, file, sizes);
        }
    }

    /// Takes a ring that no other thread uses. `None` if rings no longer work, or if all are taken and the caller
    /// need not wait.
    fn take(&self, file: &File, wait: bool) -> Option<BorrowedRing<'_>> {
        let mut pool = self.pool.lock();
        loop {
            if pool.broken.is_some() {
                return None;
            }
            if let Some(ring) = pool.best() {
                return Some(BorrowedRing { ring: Some(ring), rings: self });
            }
            if pool.count < MOST_RINGS
                && let Some(ring) = self.open_another(file, &mut pool)
            {
                return Some(BorrowedRing { ring: Some(ring), rings: self });
            }
            if !wait || pool.count == 0 {
                return None;
            }
            self.returned.wait(&mut pool);
        }
    }

    fn open_another(&self, file: &File, pool: &mut RingPool) -> Option<Uring> {
        let mut ring = Uring::new(file, self.depth).ok()?;
        // If the first ring could not register the memory, another one cannot either.
        if let Some(memory) = pool.memory.as_ref().filter(|_| pool.registered) {
            match pool.source {
                Some(source) => ring.share(source, memory),
                None => {
                    ring.register(memory);
                    pool.source = ring.memory.is_some().then(|| ring.fd());
                }
            }
        }
        pool.count += 1;
        Some(ring)
    }
}

/// A ring that a thread uses. Dropping this gives the ring back, if it is empty.
struct BorrowedRing<'r> {
    ring: Option<Uring>,
    rings: &'r UringPool,
}

impl BorrowedRing<'_> {
    /// Marks the rings as broken: no thread uses them from now on.
    fn break_down(mut self, why: &io::Error) {
        let mut pool = self.rings.pool.lock();
        pool.broken = Some(why.to_string());
        pool.source = None;
        pool.rings.clear();
        pool.count -= 1;
        self.ring = None;
        self.rings.returned.notify_all();
    }
}

impl Queue for BorrowedRing<'_> {
    fn depth(&self) -> usize {
        self.ring.as_ref().map_or(0, Queue::depth)
    }

    unsafe fn push(&mut self, operation: Operation, token: usize) -> bool {
        // SAFETY: the caller ensures the same as for the ring.
        let push = |ring: &mut Uring| unsafe { ring.push(operation, token) };
        self.ring.as_mut().is_some_and(push)
    }

    fn enter(&mut self, completions: usize) -> io::Result<()> {
        match &mut self.ring {
            Some(ring) => ring.enter(completions),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn unsubmitted(&mut self) -> usize {
        self.ring.as_mut().map_or(0, Queue::unsubmitted)
    }

    fn completed(&mut self) -> Option<(usize, i32)> {
        self.ring.as_mut()?.completed()
    }
}

impl Drop for BorrowedRing<'_> {
    fn drop(&mut self) {
        let Some(mut ring) = self.ring.take() else {
            return;
        };
        let mut pool = self.rings.pool.lock();
        // A ring that was dropped while unwinding may hold operations that must never be submitted.
        match ring.unsubmitted() == 0 && pool.broken.is_none() {
            true => pool.rings.push(ring),
            false => {
                pool.remove(&ring);
                // While the lock is held, so that no ring shares the buffers of a closed source.
                drop(ring);
            }
        }
        self.rings.returned.notify_one();
    }
}

impl std::fmt::Debug for UringPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rings").field("depth", &self.depth).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of bytes that this process has pinned, as the kernel counts them against the limit.
    fn pinned() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmPin:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
        kilobytes.unwrap_or(0) << 10
    }

    #[test]
    fn many_rings_pin_the_memory_once() {
        const BYTES: usize = 32 << 20;
        let file = tempfile::tempfile().expect("a file");
        let Ok(rings) = UringPool::new(&file, 8) else {
            // The kernel does not allow its use.
            return;
        };
        let memory = Arc::new(FrameMemory::new(BYTES / 4096, 4096).expect("memory"));
        let before = pinned();
        rings.register(&memory);
        let one = pinned().saturating_sub(before);
        let taken: Vec<_> = (0..MOST_RINGS).map(|_| rings.take(&file, true)).collect();
        assert!(taken.iter().all(Option::is_some));
        let all = pinned().saturating_sub(before);
        assert!(all < one + BYTES / 2, "one ring: {one} bytes, {all} for all");
        let has_memory = |ring: &&Option<BorrowedRing<'_>>| {
            let ring = ring.as_ref().and_then(|borrowed| borrowed.ring.as_ref());
            ring.is_some_and(|ring| ring.memory.is_some())
        };
        let sharing = taken.iter().filter(has_memory).count();
        // All rings, or the first if the kernel cannot share, or none if memory must not be locked.
        assert!([0, 1, MOST_RINGS].contains(&sharing), "{sharing}");
        assert_eq!(rings.is_registered(), Some(sharing > 0));
        drop(taken);
        // The ring that is taken next has the memory.
        let next = rings.take(&file, true);
        assert_eq!(has_memory(&&next), sharing > 0);
    }

    #[test]
    fn a_closed_ring_is_no_source_of_shared_buffers() {
        let file = tempfile::tempfile().expect("a file");
        let Ok(rings) = UringPool::new(&file, 8) else {
            return;
        };
        rings.register(&Arc::new(FrameMemory::new(4, 4096).expect("memory")));
        let mut borrowed = rings.take(&file, true).expect("a ring");
        let nothing = Operation::Write { from: std::ptr::null(), bytes: 0, offset: 0 };
        // SAFETY: it is never submitted to the kernel, and it names no bytes.
        assert!(unsafe { borrowed.push(nothing, 0) });
        drop(borrowed);
        assert_eq!(rings.pool.lock().source, None);
        let registered = rings.is_registered();
        let borrowed = rings.take(&file, true).expect("another ring");
        let has_memory = borrowed.ring.as_ref().is_some_and(|ring| ring.memory.is_some());
        assert_eq!(Some(has_memory), registered);
    }
}

//! Rings of the kernel.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use io_uring::{IoUring, Probe, opcode, squeue, types};
use parking_lot::{Condvar, Mutex};

use super::{Addressed, Operation, Queue, drive};
use crate::frames::Memory;
use crate::storage::file::transfer::{Sizes, Transfer};
use crate::storage::threads::{self, Positioned};

/// Rings at most: batches of more threads than that at once take turns.
const MOST_RINGS: usize = 16;

/// The kernel registers no longer buffers.
const LONGEST_BUFFER: usize = 1 << 30;

/// Where the file stands in a ring's table of files.
const THE_FILE: types::Fixed = types::Fixed(0);

/// A ring for one file.
struct Ring {
    ring: IoUring,
    /// As asked for: the kernel's queue is longer where this is no power of two.
    depth: usize,
    file: RawFd,
    /// The file is registered.
    fixed_file: bool,
    /// Memory whose buffers are registered; kept, for the kernel knows it by its pages, and after
    /// it is freed the same addresses would mean others.
    memory: Option<Arc<Memory>>,
}

// SAFETY: rings are used by one thread at a time, and the memory's address is the same for all.
unsafe impl Send for Ring {}

impl Ring {
    fn new(file: &File, depth: u32) -> io::Result<Self> {
        // Completions need not interrupt a thread that will ask for them (Linux 5.19).
        let ring = match IoUring::builder().setup_coop_taskrun().build(depth) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => IoUring::new(depth)?,
            built => built?,
        };
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::ReadFixed::CODE,
            opcode::WriteFixed::CODE,
            opcode::Writev::CODE,
        ];
        if !needed.iter().all(|&code| probe.is_supported(code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let file = file.as_raw_fd();
        let fixed_file = ring.submitter().register_files(&[file]).is_ok();
        Ok(Ring {
            ring,
            depth: depth as usize,
            file,
            fixed_file,
            memory: None,
        })
    }

    /// Registers the memory, if the kernel lets it: it has to be locked, and there may be a limit
    /// to that.
    fn register(&mut self, memory: &Arc<Memory>) {
        let (start, bytes) = memory.extent();
        let buffers: Vec<libc::iovec> = (0..bytes)
            .step_by(LONGEST_BUFFER)
            .map(|at| libc::iovec {
                iov_base: start.as_ptr().wrapping_add(at).cast(),
                iov_len: LONGEST_BUFFER.min(bytes - at),
            })
            .collect();
        // SAFETY: the buffers are the memory's, which lives as long as the ring does.
        let registered = unsafe { self.ring.submitter().register_buffers(&buffers) };
        self.memory = registered.is_ok().then(|| Arc::clone(memory));
    }

    /// Has the buffers that another ring has registered, without registering them once more: each
    /// time counts in full against the limit of locked memory, and takes 16 bytes of the kernel's for
    /// each 4096 of the memory's. Only Linux 6.12 and later can.
    fn share(&mut self, source: RawFd, memory: &Arc<Memory>) {
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
        /// The same operation on the file by its place in the table, or by its number.
        macro_rules! on_file {
            ($file:ident => $built:expr) => {
                if self.fixed_file {
                    let $file = THE_FILE;
                    $built
                } else {
                    let $file = types::Fd(self.file);
                    $built
                }
            };
        }
        // Longer operations do not come: pages are shorter, and runs of pages go as lists.
        let short = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        match operation {
            Operation::Read { to, bytes, offset } => match self.buffer(to, bytes) {
                Some(number) => on_file!(file => {
                    opcode::ReadFixed::new(file, to, short(bytes), number).offset(offset).build()
                }),
                None => on_file!(file => {
                    opcode::Read::new(file, to, short(bytes)).offset(offset).build()
                }),
            },
            Operation::Write {
                from,
                bytes,
                offset,
            } => match self.buffer(from, bytes) {
                Some(number) => on_file!(file => {
                    opcode::WriteFixed::new(file, from, short(bytes), number).offset(offset).build()
                }),
                None => on_file!(file => {
                    opcode::Write::new(file, from, short(bytes)).offset(offset).build()
                }),
            },
            Operation::WriteVectored {
                list,
                count,
                offset,
            } => on_file!(file => {
                opcode::Writev::new(file, list, short(count)).offset(offset).build()
            }),
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Rings are taken down in the background; the file is to be free at once.
        if self.fixed_file {
            let _ = self.ring.submitter().unregister_files();
        }
    }
}

impl Queue for Ring {
    fn depth(&self) -> usize {
        self.depth
    }

    unsafe fn push(&mut self, operation: Operation, token: usize) -> bool {
        let entry = self.entry(operation).user_data(token as u64);
        // SAFETY: the caller sees to it that the memory stays until the completion.
        unsafe { self.ring.submission().push(&entry).is_ok() }
    }

    fn enter(&mut self, wanted: usize) -> io::Result<()> {
        self.ring.submit_and_wait(wanted).map(|_| ())
    }

    fn untold(&mut self) -> usize {
        self.ring.submission().len()
    }

    fn completed(&mut self) -> Option<(usize, i32)> {
        let completion = self.ring.completion().next()?;
        Some((completion.user_data() as usize, completion.result()))
    }
}

#[derive(Default)]
struct Shelf {
    /// Rings that nobody uses.
    rings: Vec<Ring>,
    /// Rings that there are.
    count: usize,
    memory: Option<Arc<Memory>>,
    /// The kernel has taken it.
    registered: bool,
    /// The ring that it was registered with, as long as there is that one: others share its buffers.
    source: Option<RawFd>,
    /// Why rings are no longer used.
    broken: Option<String>,
}

impl Shelf {
    /// A ring, with the memory registered if there is one.
    fn best(&mut self) -> Option<Ring> {
        let best = self.rings.iter().rposition(|ring| ring.memory.is_some());
        let best = best.or(self.rings.len().checked_sub(1))?;
        Some(self.rings.swap_remove(best))
    }

    /// A ring is about to be taken down, and its number may soon be another file's.
    fn lose(&mut self, ring: &Ring) {
        self.count -= 1;
        if self.source == Some(ring.fd()) {
            self.source = None;
        }
    }
}

/// Rings for one file, made when they are needed.
pub(crate) struct Rings {
    shelf: Mutex<Shelf>,
    returned: Condvar,
    depth: u32,
}

impl Rings {
    /// Rings of that depth.
    ///
    /// # Errors
    ///
    /// If the kernel has no io_uring, or does not let it be used.
    pub(crate) fn new(file: &File, depth: u32) -> io::Result<Self> {
        let first = Ring::new(file, depth)?;
        Ok(Rings {
            shelf: Mutex::new(Shelf {
                rings: vec![first],
                count: 1,
                ..Shelf::default()
            }),
            returned: Condvar::new(),
            depth,
        })
    }

    /// From now on buffers are mostly from this memory.
    pub(crate) fn register(&self, memory: &Arc<Memory>) {
        let mut shelf = self.shelf.lock();
        shelf.memory = Some(Arc::clone(memory));
        let Some(first) = shelf.rings.first_mut() else {
            return;
        };
        first.register(memory);
        shelf.source = first.memory.is_some().then(|| first.fd());
        shelf.registered = shelf.source.is_some();
    }

    /// Whether the kernel has taken the memory that was to be registered, where any was.
    pub(crate) fn is_registered(&self) -> Option<bool> {
        let shelf = self.shelf.lock();
        shelf.memory.as_ref().map(|_| shelf.registered)
    }

    /// Why rings are no longer used, if they are not.
    pub(crate) fn broken(&self) -> Option<String> {
        self.shelf.lock().broken.clone()
    }

    /// Carries out all of them, without the ring where that does not work.
    pub(crate) fn carry_out<P: Addressed + Positioned>(
        &self,
        transfers: Vec<Transfer<P>>,
        file: &File,
        sizes: Sizes,
    ) {
        let left = match self.take(file, transfers.len() > 1) {
            None => transfers,
            Some(mut lent) => {
                let length = || crate::storage::file::raw::Raw::length(file);
                match drive(transfers, &mut lent, sizes, length) {
                    Ok(()) => Vec::new(),
                    Err(left) => {
                        lent.break_down(&left.why);
                        left.transfers
                    }
                }
            }
        };
        for transfer in left {
            threads::carry_out(transfer, file, sizes);
        }
    }

    /// A ring that nobody else uses. Nothing if rings no longer work, or if all are taken and the
    /// caller need not wait.
    fn take(&self, file: &File, wait: bool) -> Option<Lent<'_>> {
        let mut shelf = self.shelf.lock();
        loop {
            if shelf.broken.is_some() {
                return None;
            }
            if let Some(ring) = shelf.best() {
                return Some(Lent {
                    ring: Some(ring),
                    rings: self,
                });
            }
            if shelf.count < MOST_RINGS
                && let Some(ring) = self.another(file, &mut shelf)
            {
                return Some(Lent {
                    ring: Some(ring),
                    rings: self,
                });
            }
            if !wait || shelf.count == 0 {
                return None;
            }
            self.returned.wait(&mut shelf);
        }
    }

    fn another(&self, file: &File, shelf: &mut Shelf) -> Option<Ring> {
        let mut ring = Ring::new(file, self.depth).ok()?;
        // Where the first could not register the memory, another one cannot either.
        if let Some(memory) = shelf.memory.as_ref().filter(|_| shelf.registered) {
            match shelf.source {
                Some(source) => ring.share(source, memory),
                None => {
                    ring.register(memory);
                    shelf.source = ring.memory.is_some().then(|| ring.fd());
                }
            }
        }
        shelf.count += 1;
        Some(ring)
    }
}

/// A ring that goes back when it is dropped, if it is empty.
struct Lent<'r> {
    ring: Option<Ring>,
    rings: &'r Rings,
}

impl Lent<'_> {
    /// Nobody uses rings from now on.
    fn break_down(mut self, why: &io::Error) {
        let mut shelf = self.rings.shelf.lock();
        shelf.broken = Some(why.to_string());
        shelf.source = None;
        shelf.rings.clear();
        shelf.count -= 1;
        self.ring = None;
        self.rings.returned.notify_all();
    }
}

impl Queue for Lent<'_> {
    fn depth(&self) -> usize {
        self.ring.as_ref().map_or(0, Queue::depth)
    }

    unsafe fn push(&mut self, operation: Operation, token: usize) -> bool {
        // SAFETY: as the caller of this says.
        let push = |ring: &mut Ring| unsafe { ring.push(operation, token) };
        self.ring.as_mut().is_some_and(push)
    }

    fn enter(&mut self, wanted: usize) -> io::Result<()> {
        match &mut self.ring {
            Some(ring) => ring.enter(wanted),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn untold(&mut self) -> usize {
        self.ring.as_mut().map_or(0, Queue::untold)
    }

    fn completed(&mut self) -> Option<(usize, i32)> {
        self.ring.as_mut()?.completed()
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let Some(mut ring) = self.ring.take() else {
            return;
        };
        let mut shelf = self.rings.shelf.lock();
        // One that was left while unwinding may hold operations that the kernel must never see.
        match ring.untold() == 0 && shelf.broken.is_none() {
            true => shelf.rings.push(ring),
            false => {
                shelf.lose(&ring);
                // While the lock is held, so that the source is not shared once it is gone.
                drop(ring);
            }
        }
        self.rings.returned.notify_one();
    }
}

impl std::fmt::Debug for Rings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rings").field("depth", &self.depth).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that this process has had pinned, as the kernel counts them against the limit.
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
        let Ok(rings) = Rings::new(&file, 8) else {
            // The kernel does not let it be used.
            return;
        };
        let memory = Arc::new(Memory::new(BYTES / 4096, 4096).expect("memory"));
        let before = pinned();
        rings.register(&memory);
        let one = pinned().saturating_sub(before);
        let taken: Vec<_> = (0..MOST_RINGS).map(|_| rings.take(&file, true)).collect();
        assert!(taken.iter().all(Option::is_some));
        let all = pinned().saturating_sub(before);
        assert!(
            all < one + BYTES / 2,
            "one ring: {one} bytes, {all} for all"
        );
        let has_memory = |ring: &&Option<Lent<'_>>| {
            let ring = ring.as_ref().and_then(|lent| lent.ring.as_ref());
            ring.is_some_and(|ring| ring.memory.is_some())
        };
        let sharing = taken.iter().filter(has_memory).count();
        // All, or the first where the kernel cannot share, or none where memory must not be locked.
        assert!([0, 1, MOST_RINGS].contains(&sharing), "{sharing}");
        assert_eq!(rings.is_registered(), Some(sharing > 0));
        drop(taken);
        // The first that is taken next has it.
        let next = rings.take(&file, true);
        assert_eq!(has_memory(&&next), sharing > 0);
    }

    #[test]
    fn a_ring_that_is_lost_is_not_shared_with() {
        let file = tempfile::tempfile().expect("a file");
        let Ok(rings) = Rings::new(&file, 8) else {
            return;
        };
        rings.register(&Arc::new(Memory::new(4, 4096).expect("memory")));
        let mut lent = rings.take(&file, true).expect("a ring");
        let nothing = Operation::Write {
            from: std::ptr::null(),
            bytes: 0,
            offset: 0,
        };
        // SAFETY: the kernel is never told of it, and it names no bytes.
        assert!(unsafe { lent.push(nothing, 0) });
        drop(lent);
        assert_eq!(rings.shelf.lock().source, None);
        let registered = rings.is_registered();
        let lent = rings.take(&file, true).expect("another ring");
        let has_memory = lent.ring.as_ref().is_some_and(|ring| ring.memory.is_some());
        assert_eq!(Some(has_memory), registered);
    }
}

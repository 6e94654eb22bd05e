//! io_uring: the calling thread submits a batch to a ring, and waits until all operations have completed.
//!
//! A ring belongs to one batch at a time. Before a thread gives a ring back, it waits for every operation that the
//! kernel has begun, also when unwinding: the kernel reads and writes buffers that belong to the caller.

// The kernel gets addresses, and the compiler cannot see what it does with them.
#![allow(unsafe_code)]

pub(super) mod owner;
mod ring;

use std::collections::VecDeque;
use std::io;
use std::thread;
use std::time::Duration;

use super::file::transfer::{FileTransfer, NextStep, Pages, Sizes};
use super::{Read, Write};

pub(super) use ring::UringPool;

/// The number of steps in which a queue is filled. The device should begin the first operations while the last are
/// prepared: a device that gets all operations at once may complete them at once, and then idle until it gets more.
const STEPS: usize = 8;

/// An operation for the kernel: on one address range, or on several for neighbouring pages.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Read {
        to: *mut u8,
        bytes: usize,
        offset: u64,
    },
    Write {
        from: *const u8,
        bytes: usize,
        offset: u64,
    },
    /// The list must not move while the buffers are in use.
    WriteVectored {
        list: *const libc::iovec,
        count: usize,
        offset: u64,
    },
}

/// A ring, or a test's replacement.
trait Queue {
    /// The most operations that the queue holds, from push to completion.
    fn depth(&self) -> usize;

    /// Adds an operation whose completion will carry the token. The kernel may begin it with the next `enter`. False
    /// if the queue is full.
    ///
    /// # Safety
    ///
    /// The memory that the operation names stays valid until it has completed. Until then no other code changes it,
    /// and no other code reads it if the operation reads into it.
    unsafe fn push(&mut self, operation: Operation, token: usize) -> bool;

    /// Submits what was pushed to the kernel, and waits for `completions` completions.
    fn enter(&mut self, completions: usize) -> io::Result<()>;

    /// The number of operations that were pushed and not submitted yet.
    fn unsubmitted(&mut self) -> usize;

    /// The next completion: its token, and the number of bytes moved or a negative error number.
    fn completed(&mut self) -> Option<(usize, i32)>;
}

/// Pages that the kernel can transfer.
pub(super) trait Addressed: Pages {
    /// The operation for the bytes after the first `done` bytes. `list` holds the address ranges that it points to.
    fn operation(&mut self, done: usize, offset: u64, list: &mut Vec<libc::iovec>) -> Operation;
}

impl Addressed for &mut Read<'_> {
    fn operation(&mut self, done: usize, offset: u64, _list: &mut Vec<libc::iovec>) -> Operation {
        let rest = self.buffer.get_mut(done..).unwrap_or_default();
        Operation::Read { to: rest.as_mut_ptr(), bytes: rest.len(), offset }
    }
}

impl Addressed for &mut [Write<'_>] {
    fn operation(&mut self, done: usize, offset: u64, list: &mut Vec<libc::iovec>) -> Operation {
        if let [write] = self {
            let rest = write.buffer.get(done..).unwrap_or_default();
            return Operation::Write { from: rest.as_ptr(), bytes: rest.len(), offset };
        }
        let mut done = done;
        list.clear();
        for write in self.iter() {
            match write.buffer.get(done..) {
                Some(rest) if !rest.is_empty() => {
                    list.push(libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() });
                    done = 0;
                }
                _ => done -= write.buffer.len(),
            }
        }
        Operation::WriteVectored { list: list.as_ptr(), count: list.len(), offset }
    }
}

/// A transfer that the kernel may be carrying out.
struct TransferSlot<P> {
    /// On the heap, so that its address stays valid for the kernel when this is moved.
    list: Vec<libc::iovec>,
    /// `None` once the operation has completed.
    transfer: Option<FileTransfer<P>>,
}

/// The operations in a queue. Dropping it waits until the kernel has none left.
struct Flight<'q, Q: Queue> {
    queue: &'q mut Q,
    /// The number of operations that were pushed and have not completed.
    pending: usize,
}

impl<Q: Queue> Flight<'_, Q> {
    /// Waits for one submitted operation, if there is any.
    fn wait(&mut self) -> bool {
        if self.pending <= self.queue.unsubmitted() {
            return false;
        }
        // The result of `enter` does not matter: even after an error the kernel still has the operation, and
        // completes it while this thread sleeps.
        if self.queue.enter(1).is_err() {
            thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

impl<Q: Queue> Drop for Flight<'_, Q> {
    fn drop(&mut self) {
        loop {
            while self.queue.completed().is_some() {
                self.pending -= 1;
            }
            if !self.wait() {
                return;
            }
        }
    }
}

/// The transfers that could not be carried out through the queue.
struct Unfinished<P> {
    transfers: Vec<FileTransfer<P>>,
    why: io::Error,
}

/// Carries out all transfers through the queue, and refills it while transfers wait. If the queue stops working,
/// returns the transfers that are left; the queue must not be used again then.
fn drive<P: Addressed>(
    transfers: Vec<FileTransfer<P>>,
    queue: &mut impl Queue,
    sizes: Sizes,
    length: impl Fn() -> io::Result<u64>,
) -> Result<(), Unfinished<P>> {
    let mut waiting: VecDeque<FileTransfer<P>> = transfers.into();
    let mut slots: Vec<TransferSlot<P>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut slow = 0;
    // Declared last, so that it is dropped first: that waits for the kernel while the buffers still exist.
    let mut flight = Flight { queue, pending: 0 };
    let why = loop {
        launch(&mut waiting, &mut slots, &mut free, &mut flight, sizes);
        if flight.pending == 0 {
            return Ok(());
        }
        let completions = match (waiting.is_empty(), flight.pending < flight.queue.depth()) {
            // If no transfer waits for room in the queue there is no need to wake up in between.
            (true, _) if slow == 0 => flight.pending,
            // The next step can be prepared meanwhile.
            (false, true) => 0,
            _ => 1,
        };
        if let Err(error) = flight.queue.enter(completions) {
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                // The kernel is out of memory for requests, or out of room for completions: both end when some
                // completions have been taken.
                io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy => {
                    thread::sleep(Duration::from_micros(100));
                }
                _ => break error,
            }
        }
        slow = 0;
        while let Some((token, result)) = flight.queue.completed() {
            flight.pending -= 1;
            for transfer in landed(token, result, &mut slots, sizes, &length) {
                slow += usize::from(transfer.should_wait());
                waiting.push_front(transfer);
            }
            free.push(token);
        }
        if slow > 0 {
            thread::sleep(Duration::from_millis(1));
        }
    };
    // The queue is broken. Wait for the operations that the kernel has; return those that were never submitted, and
    // those that would have to go on.
    loop {
        while let Some((token, result)) = flight.queue.completed() {
            flight.pending -= 1;
            waiting.extend(landed(token, result, &mut slots, sizes, &length));
        }
        if !flight.wait() {
            break;
        }
    }
    drop(flight);
    waiting.extend(slots.into_iter().filter_map(|slot| slot.transfer));
    Err(Unfinished { transfers: waiting.into(), why })
}

/// Fills the queue, by one step at most.
fn launch<P: Addressed, Q: Queue>(
    waiting: &mut VecDeque<FileTransfer<P>>,
    slots: &mut Vec<TransferSlot<P>>,
    free: &mut Vec<usize>,
    flight: &mut Flight<'_, Q>,
    sizes: Sizes,
) {
    let depth = flight.queue.depth();
    let most = (flight.pending + depth.div_ceil(STEPS)).min(depth);
    while flight.pending < most {
        let Some(mut transfer) = waiting.pop_front() else {
            return;
        };
        let token = free.pop().unwrap_or_else(|| {
            slots.push(TransferSlot { list: Vec::new(), transfer: None });
            slots.len() - 1
        });
        let Some(slot) = slots.get_mut(token) else {
            return waiting.push_front(transfer);
        };
        let (done, offset) = (transfer.done(), transfer.offset(sizes));
        let operation = transfer.pages.operation(done, offset, &mut slot.list);
        // SAFETY: the transfer borrows the buffers, and stays in its slot, unchanged, until the completion is taken;
        // so does the list. Both outlive `flight`, which does not end before the kernel has completed all operations.
        if !unsafe { flight.queue.push(operation, token) } {
            free.push(token);
            return waiting.push_front(transfer);
        }
        slot.transfer = Some(transfer);
        flight.pending += 1;
    }
}

/// The transfers that have to go on after a completion.
fn landed<P: Addressed>(
    token: usize,
    result: i32,
    slots: &mut [TransferSlot<P>],
    sizes: Sizes,
    length: impl Fn() -> io::Result<u64>,
) -> Vec<FileTransfer<P>> {
    let slot = slots.get_mut(token);
    let Some(transfer) = slot.and_then(|slot| slot.transfer.take()) else {
        return Vec::new();
    };
    let moved = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
    match transfer.advance(moved, sizes, length) {
        NextStep::Again(transfer) => vec![transfer],
        NextStep::Apart(transfers) => transfers,
        NextStep::Settled => Vec::new(),
    }
}

#[cfg(test)]
mod tests;

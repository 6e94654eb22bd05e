//! io_uring: the calling thread puts a batch into a ring, and waits until all of it has come out.
//!
//! A ring belongs to one batch at a time. Between taking a ring and giving it back, every operation
//! that the kernel has begun is waited for, also when unwinding: the kernel moves bytes into and out
//! of buffers that the caller has only lent.

// The kernel is handed addresses, and the compiler cannot see what it does with them.
#![allow(unsafe_code)]

mod ring;

use std::collections::VecDeque;
use std::io;
use std::thread;
use std::time::Duration;

use super::file::transfer::{Next, Pages, Sizes, Transfer};
use super::{Read, Write};

pub(super) use ring::Rings;

/// A queue is filled in so many steps. The device is to have the first operations while the last are
/// prepared: one that is told of all at once may complete them at once, and idle until it is told of
/// more.
const STEPS: usize = 8;

/// What the kernel is asked for: one address range, or several for neighbouring pages.
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
    /// The list has to stay where it is as long as the buffers.
    WriteVectored {
        list: *const libc::iovec,
        count: usize,
        offset: u64,
    },
}

/// A ring, or what a test takes for one.
trait Queue {
    /// Operations that it holds at most, from push to completion.
    fn depth(&self) -> usize;

    /// Adds an operation, of which the completion will carry the token. The kernel may begin it
    /// with the next `enter`. False if the queue is full.
    ///
    /// # Safety
    ///
    /// The memory that the operation names is there until it has completed, and until then nobody
    /// else changes it, or looks at it if it is read into.
    unsafe fn push(&mut self, operation: Operation, token: usize) -> bool;

    /// Tells the kernel of what was pushed, and waits for so many completions.
    fn enter(&mut self, wanted: usize) -> io::Result<()>;

    /// Operations pushed that the kernel does not know of yet.
    fn untold(&mut self) -> usize;

    /// The next completion: its token, and bytes moved or an error number below 0.
    fn completed(&mut self) -> Option<(usize, i32)>;
}

/// Pages that can be named to the kernel.
pub(super) trait Addressed: Pages {
    /// One operation for what is beyond the first `done` bytes. `list` keeps what it points to.
    fn operation(&mut self, done: usize, offset: u64, list: &mut Vec<libc::iovec>) -> Operation;
}

impl Addressed for &mut Read<'_> {
    fn operation(&mut self, done: usize, offset: u64, _list: &mut Vec<libc::iovec>) -> Operation {
        let rest = self.buffer.get_mut(done..).unwrap_or_default();
        Operation::Read {
            to: rest.as_mut_ptr(),
            bytes: rest.len(),
            offset,
        }
    }
}

impl Addressed for &mut [Write<'_>] {
    fn operation(&mut self, done: usize, offset: u64, list: &mut Vec<libc::iovec>) -> Operation {
        if let [write] = self {
            let rest = write.buffer.get(done..).unwrap_or_default();
            return Operation::Write {
                from: rest.as_ptr(),
                bytes: rest.len(),
                offset,
            };
        }
        let mut done = done;
        list.clear();
        for write in self.iter() {
            match write.buffer.get(done..) {
                Some(rest) if !rest.is_empty() => {
                    list.push(libc::iovec {
                        iov_base: rest.as_ptr().cast_mut().cast(),
                        iov_len: rest.len(),
                    });
                    done = 0;
                }
                _ => done -= write.buffer.len(),
            }
        }
        Operation::WriteVectored {
            list: list.as_ptr(),
            count: list.len(),
            offset,
        }
    }
}

/// A transfer that the kernel may be at.
struct Flying<P> {
    /// Away from the stack, so that an address handed to the kernel survives moving this.
    list: Vec<libc::iovec>,
    /// Nothing once it has come back.
    transfer: Option<Transfer<P>>,
}

/// The operations in a queue; none is left in the kernel when it is dropped.
struct Flight<'q, Q: Queue> {
    queue: &'q mut Q,
    /// Pushed, and not completed.
    pending: usize,
}

impl<Q: Queue> Flight<'_, Q> {
    /// Waits for one operation that the kernel has, if there is any.
    fn wait(&mut self) -> bool {
        if self.pending <= self.queue.untold() {
            return false;
        }
        // What `enter` says does not matter: whatever it is, the kernel still has the operation,
        // and completes it while this thread sleeps.
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

/// What could not be done through the queue.
struct Left<P> {
    transfers: Vec<Transfer<P>>,
    why: io::Error,
}

/// Carries out all transfers through the queue, which is kept full as long as there are enough. If
/// the queue stops working, what is left comes back; the queue must not be used again then.
fn drive<P: Addressed>(
    transfers: Vec<Transfer<P>>,
    queue: &mut impl Queue,
    sizes: Sizes,
    length: impl Fn() -> io::Result<u64>,
) -> Result<(), Left<P>> {
    let mut waiting: VecDeque<Transfer<P>> = transfers.into();
    let mut flying: Vec<Flying<P>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut slow = 0;
    // Declared last, so that it is dropped, and the kernel waited for, before what it points to.
    let mut flight = Flight { queue, pending: 0 };
    let why = loop {
        launch(&mut waiting, &mut flying, &mut free, &mut flight, sizes);
        if flight.pending == 0 {
            return Ok(());
        }
        let wanted = match (waiting.is_empty(), flight.pending < flight.queue.depth()) {
            // With nothing to refill the queue with there is no need to wake up in between.
            (true, _) if slow == 0 => flight.pending,
            // The next step can be prepared already.
            (false, true) => 0,
            _ => 1,
        };
        if let Err(error) = flight.queue.enter(wanted) {
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                // Out of memory for requests, or of room for completions: both pass when some have
                // been taken.
                io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy => {
                    thread::sleep(Duration::from_micros(100));
                }
                _ => break error,
            }
        }
        slow = 0;
        while let Some((token, result)) = flight.queue.completed() {
            flight.pending -= 1;
            for transfer in landed(token, result, &mut flying, sizes, &length) {
                slow += usize::from(transfer.should_wait());
                waiting.push_front(transfer);
            }
            free.push(token);
        }
        if slow > 0 {
            thread::sleep(Duration::from_millis(1));
        }
    };
    // The queue is broken. What the kernel has is waited for; what it never knew of, and what
    // would have to go on, is left.
    loop {
        while let Some((token, result)) = flight.queue.completed() {
            flight.pending -= 1;
            waiting.extend(landed(token, result, &mut flying, sizes, &length));
        }
        if !flight.wait() {
            break;
        }
    }
    drop(flight);
    waiting.extend(flying.into_iter().filter_map(|slot| slot.transfer));
    Err(Left {
        transfers: waiting.into(),
        why,
    })
}

/// Fills the queue, by one step at most.
fn launch<P: Addressed, Q: Queue>(
    waiting: &mut VecDeque<Transfer<P>>,
    flying: &mut Vec<Flying<P>>,
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
            flying.push(Flying {
                list: Vec::new(),
                transfer: None,
            });
            flying.len() - 1
        });
        let Some(slot) = flying.get_mut(token) else {
            return waiting.push_front(transfer);
        };
        let (done, offset) = (transfer.done(), transfer.offset(sizes));
        let operation = transfer.pages.operation(done, offset, &mut slot.list);
        // SAFETY: the buffers are borrowed by the transfer, which stays in its slot, untouched,
        // until the completion is taken; so does the list. Both outlive `flight`, which does not
        // end before the kernel is done with all.
        if !unsafe { flight.queue.push(operation, token) } {
            free.push(token);
            return waiting.push_front(transfer);
        }
        slot.transfer = Some(transfer);
        flight.pending += 1;
    }
}

/// What of a transfer has to go on after a completion.
fn landed<P: Addressed>(
    token: usize,
    result: i32,
    flying: &mut [Flying<P>],
    sizes: Sizes,
    length: impl Fn() -> io::Result<u64>,
) -> Vec<Transfer<P>> {
    let slot = flying.get_mut(token);
    let Some(transfer) = slot.and_then(|slot| slot.transfer.take()) else {
        return Vec::new();
    };
    let moved = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
    match transfer.advance(moved, sizes, length) {
        Next::Again(transfer) => vec![transfer],
        Next::Apart(transfers) => transfers,
        Next::Settled => Vec::new(),
    }
}

#[cfg(test)]
mod tests;

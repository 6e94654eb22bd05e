//! Device time: the moments until which dies and channels are busy.

use crate::energy::DieSeconds;

/// When each die and each channel is free again. Block `n` lies on die `n % dies`, and die `d` is
/// attached to channel `d % channels`. Requests arrive one at a time: a request starts when all
/// operations of the previous one have ended. All times are in nanoseconds since the device was new.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    done: u64,
    request_start: u64,
    die_free: Vec<u64>,
    channel_free: Vec<u64>,
    worked: DieNanos,
}

/// How long the dies worked, summed over all dies, transfers included; in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DieNanos {
    read: u64,
    program: u64,
    erase: u64,
}

impl DieNanos {
    pub(super) fn seconds_since(&self, before: &DieNanos) -> DieSeconds {
        let seconds = |now: u64, before: u64| (now - before) as f64 / 1e9;
        DieSeconds {
            read: seconds(self.read, before.read),
            program: seconds(self.program, before.program),
            erase: seconds(self.erase, before.erase),
        }
    }
}

impl Clock {
    pub(super) fn new(dies: u32, channels: u32) -> Self {
        Self {
            done: 0,
            request_start: 0,
            die_free: vec![0; dies as usize],
            channel_free: vec![0; channels as usize],
            worked: DieNanos::default(),
        }
    }

    /// A request arrives.
    #[inline]
    pub(super) fn start_request(&mut self) {
        self.request_start = self.done;
    }

    /// Nanoseconds from the request's arrival to the end of its last operation.
    #[inline]
    pub(super) fn request_nanos(&self) -> u64 {
        self.done - self.request_start
    }

    /// The end of the last operation so far.
    #[inline]
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// How long the dies have worked so far.
    pub(super) fn worked(&self) -> DieNanos {
        self.worked
    }

    /// True with one die: it does one operation after another, so its clock is a sum.
    #[inline]
    fn serial(&self) -> bool {
        self.die_free.len() == 1
    }

    /// Array time on the die, then the transfer out. Returns when both have ended.
    #[inline]
    pub(super) fn read(&mut self, block: u32, array: u64, transfer: u64) -> u64 {
        self.worked.read += array + transfer;
        if self.serial() {
            self.done += array + transfer;
            return self.done;
        }
        let (die, channel) = self.die_and_channel(block);
        let sensed = self.request_start.max(self.die_free[die]) + array;
        let end = self.on_channel(channel, sensed, transfer);
        self.die_free[die] = end;
        self.done = self.done.max(end);
        end
    }

    /// The transfer in, not before `ready`, then array time on the die. Returns when both have ended.
    #[inline]
    pub(super) fn program(&mut self, block: u32, ready: u64, array: u64, transfer: u64) -> u64 {
        self.worked.program += array + transfer;
        if self.serial() {
            self.done += array + transfer;
            return self.done;
        }
        let (die, channel) = self.die_and_channel(block);
        let free = ready.max(self.request_start).max(self.die_free[die]);
        let end = self.on_channel(channel, free, transfer) + array;
        self.die_free[die] = end;
        self.done = self.done.max(end);
        end
    }

    /// An erase, which waits for every earlier operation of the request, because the copies of the
    /// block's pages must be on flash before it.
    #[inline]
    pub(super) fn erase(&mut self, block: u32, array: u64) {
        self.worked.erase += array;
        let end = self.done + array;
        if !self.serial() {
            let (die, _) = self.die_and_channel(block);
            self.die_free[die] = end;
        }
        self.done = end;
    }

    fn die_and_channel(&self, block: u32) -> (usize, usize) {
        let die = block as usize % self.die_free.len();
        (die, die % self.channel_free.len())
    }

    fn on_channel(&mut self, channel: usize, ready: u64, transfer: u64) -> u64 {
        if transfer == 0 {
            return ready;
        }
        let end = ready.max(self.channel_free[channel]) + transfer;
        self.channel_free[channel] = end;
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_on_one_die_add_up() {
        let mut clock = Clock::new(1, 1);
        clock.start_request();
        let read = clock.read(0, 25, 50);
        clock.program(1, read, 220, 50);
        clock.erase(0, 1500);
        assert_eq!(clock.request_nanos(), 25 + 50 + 220 + 50 + 1500);
    }

    #[test]
    fn two_dies_overlap_copies_and_share_a_channel() {
        let mut clock = Clock::new(2, 1);
        clock.start_request();
        for _ in 0..2 {
            let read = clock.read(0, 25, 0);
            clock.program(1, read, 220, 0);
        }
        // The second read (to 50) hides behind the first program (25 to 245).
        assert_eq!(clock.request_nanos(), 25 + 220 + 220);
        clock.start_request();
        clock.program(0, 0, 220, 50);
        clock.program(1, 0, 220, 50);
        assert_eq!(clock.request_nanos(), 50 + 50 + 220);
        let worked = clock.worked().seconds_since(&DieNanos::default());
        assert_eq!((worked.read, worked.program), (50e-9, 980e-9));
    }
}

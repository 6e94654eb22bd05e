//! Time, faults of the disk, power cuts and the ends of processes.

use ebbpool::storage::{DiskOperation, EIO, ENOSPC, Fault};

use super::{BOTH, Lockstep, Run, Stop};
use crate::step::{C, CONNECTIONS, Operation, Wrong};
use crate::world::Hang;

impl Lockstep<'_> {
    pub fn time(&mut self, seconds: u32) -> Run<()> {
        self.now += seconds;
        let set = self.set_time();
        if self.bench.ours.has_cut() {
            return Ok(());
        }
        let has_failed = self.failures() > 0 || self.has_failed;
        if !set && !has_failed {
            return Err("an epoch fails without a fault".to_owned().into());
        }
        if set || self.is_only_full {
            // Of what is due only a checkpoint may have found no room.
            self.time_has_passed();
        }
        Ok(())
    }

    pub fn set_time(&self) -> bool {
        let mut answers = self.bench.instances.map(|instance| instance.set_time(f64::from(self.now)).is_ok());
        answers.iter_mut().all(|answer| *answer)
    }

    /// All epochs that are due were made.
    pub fn time_has_passed(&mut self) {
        // A statement that is held back has not acknowledged what the other world may have committed.
        if self.any_held() || self.is_dirty {
            return;
        }
        for database in BOTH {
            match self.window(database) {
                Some(window) => {
                    if let Some(time) = self.now.checked_sub(window) {
                        self.history.raise_by_time(database, time);
                    }
                }
                None if !self.openings.iter().flatten().any(|one| one.database == database) => {
                    self.history.raise(database, self.history.last());
                }
                None => {}
            }
        }
    }

    /// True if the disk may begin to fail, and notes that.
    fn may_fail(&mut self) -> bool {
        let has_lock = (0..CONNECTIONS).any(|c| self.is_exclusive[c] && self.openings[c].is_some());
        let may_fail = !self.any_held() && !has_lock;
        self.is_disturbed |= may_fail;
        self.tally.skipped += u64::from(!may_fail);
        may_fail
    }

    pub fn fill(&mut self, bytes: u64) {
        if self.has_pending_fault() || !self.may_fail() {
            return;
        }
        let disk = self.bench.ours.disk();
        disk.set_capacity(disk.used() + bytes);
        self.bench.ours.set_pending_fault(true);
        self.is_only_full = !self.has_failed && !self.lacks_first_page();
    }

    /// True if room that a log has given back for the first page of a database may be gone: the simulated disk reserves nothing behind
    /// the end of a file.
    fn lacks_first_page(&self) -> bool {
        let of_ours = |database, suffix| self.bench.ours.content(&format!("{}{suffix}", self.ours.path(database)));
        self.has_lost_room && BOTH.iter().any(|one| of_ours(*one, "").is_empty() && !of_ours(*one, "-wal").is_empty())
    }

    pub fn fault(&mut self, wrong: Wrong) {
        if !self.may_fail() {
            return;
        }
        self.is_only_full = false;
        self.may_have_dropped |= wrong.of == Operation::DroppingSync;
        self.has_lost_room |= wrong.is_full;
        let errno = if wrong.is_full { ENOSPC } else { EIO };
        let fault = match wrong.of {
            Operation::Write => Fault::failing(DiskOperation::Write, errno),
            Operation::Sync => Fault::failing(DiskOperation::Sync, errno),
            Operation::DroppingSync => Fault::sync_that_drops(errno),
            Operation::Change => Fault::failing(DiskOperation::Change, errno),
        };
        let fault = fault.nth(wrong.nth);
        self.bench.ours.disk().inject(match wrong.forever {
            true => fault.forever(),
            false => fault,
        });
        self.bench.ours.set_pending_fault(true);
    }

    pub fn has_pending_fault(&self) -> bool {
        self.bench.ours.has_pending_fault()
    }

    /// The disk works again, and two seconds later what it has failed was tried again.
    pub fn heal(&mut self) -> Run<()> {
        if !self.has_pending_fault() {
            return Ok(());
        }
        self.bench.ours.disk().heal();
        self.bench.ours.set_pending_fault(false);
        self.is_only_full = false;
        let has_failed = self.bench.ours.forget_failures() > 0 || self.has_failed;
        self.has_failed = false;
        self.now += 2;
        let set = self.set_time();
        if self.bench.ours.has_cut() {
            return Ok(());
        }
        if set {
            // What a process has left that is gone is still to be looked at.
            self.is_in_doubt &= self.is_dirty;
            self.time_has_passed();
            return Ok(());
        }
        // What is left of an error is said once.
        self.has_failed = has_failed;
        match has_failed && self.set_time() {
            true => {
                self.has_failed = false;
                self.is_in_doubt &= self.is_dirty;
                self.time_has_passed();
                Ok(())
            }
            false => Err("an epoch fails although the disk works again".to_owned().into()),
        }
    }

    pub fn cut_later(&mut self, changes: u64, seed: u64) {
        self.is_disturbed = true;
        self.bench.ours.cut_later(changes, seed);
    }

    pub fn kill(&mut self, process: usize) -> Run<()> {
        self.bench.ours.kill(process);
        self.is_disturbed = true;
        // First those that live: a ghost shares memory with them.
        for c in 0..CONNECTIONS {
            if self.openings[c].is_some_and(|opening| opening.process != process) {
                self.end_connection(c)?;
            }
        }
        self.end_life()
    }

    /// All processes are gone, or about to go: their connections close, those of ghosts without a trace.
    pub fn end_life(&mut self) -> Run<()> {
        self.is_disturbed = true;
        for c in 0..CONNECTIONS {
            self.drain(c)?;
        }
        for c in 0..CONNECTIONS {
            self.end_connection(c)?;
        }
        self.note_state();
        for instance in self.bench.instances {
            // What could not be closed is gone with its process.
            instance.be_killed();
        }
        self.bench.ours.revive();
        self.bench.ours.take_cut();
        self.bench.ours.set_pending_fault(false);
        self.is_only_full = false;
        self.has_lost_room = false;
        self.has_failed = false;
        self.is_loose = false;
        self.parked_at = [usize::MAX; CONNECTIONS];
        self.is_dirty = true;
        Ok(())
    }

    fn end_connection(&mut self, c: C) -> Run<()> {
        self.drain(c)?;
        self.ours.close(c);
        self.plain.close(c);
        if let Some(opening) = self.openings[c].take() {
            self.settle(&opening);
        }
        Ok(())
    }

    fn drain(&mut self, c: C) -> Run<()> {
        let hang = |Hang| Stop::Hang(format!("the statement of {c} does not end"));
        if self.ours.is_held(c) {
            self.ours.resume(c).map_err(hang)?;
        }
        if self.plain.is_held(c) {
            self.plain.resume(c).map_err(hang)?;
            self.note_state();
        }
        Ok(())
    }
}

//! How far SQLite is with a transaction: one machine for what it writes to the main file, one for its WAL.
//!
//! A transaction is *prepared* when the disk has room for it, and *logged* when an epoch has it; either may still be undone.
//!
//! In the main file. SQLite syncs the file, after which it may commit or undo what it has written there, and changes its journal:
//! that ends the transaction, or begins the next one. `settle` is the end of a commit (`COMMIT_PHASETWO`, or the writer's lock).
//!
//! ```text
//! main file | sync     | prepare  | log    | journal | settle
//! Open      | Synced   | -        | -      | Open    | Open
//! Synced    | Synced   | Prepared | Logged | Open    | Open
//! Prepared  | Prepared | Prepared | Logged | Ended   | Open
//! Logged    | Logged   | Logged   | Logged | Ended   | Open
//! Ended     | Prepared | -        | -      | Ended   | Open
//! ```
//!
//! In the WAL. `announce` is the header of a commit frame, `withdraw` another header in its place, `refuse` the end of a transaction
//! that SQLite gets an error for. `overwrite` is another content in one of its frames, by which SQLite takes back what was complete.
//! `settle` is the end of the transaction, whatever has become of it, and `begin` the next writer, or that the WAL begins anew.
//!
//! ```text
//! WAL       | announce  | withdraw | prepare  | log    | refuse   | overwrite | settle | begin
//! Idle      | Announced | Idle     | -        | -      | Idle     | Idle      | Idle   | Idle
//! Announced | Announced | Idle     | Prepared | Logged | Idle     | Announced | Idle   | Idle
//! Prepared  | Prepared  | Prepared | Prepared | Logged | Prepared | Announced | Idle   | Idle
//! Logged    | Logged    | Logged   | Prepared | Logged | Logged   | Announced | Idle   | Idle
//! ```

use super::commit::Transaction;

/// How far SQLite is with the transaction in the main file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MainPhase {
    /// There is none, or SQLite writes it.
    #[default]
    Open,
    /// SQLite has synced it, and neither committed nor undone it.
    Synced,
    /// The disk has room for it.
    Prepared,
    /// An epoch has it.
    Logged,
    /// SQLite has changed its journal since it was prepared.
    Ended,
}

/// What happens to the transaction in the main file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MainEvent {
    Sync,
    Prepare,
    Log,
    Journal,
    Settle,
}

impl MainPhase {
    /// The phase after an event. An event that cannot be there is a mistake of this library's.
    pub(crate) fn after(self, event: MainEvent) -> MainPhase {
        use MainPhase::{Ended, Logged, Open, Prepared, Synced};
        match (event, self) {
            (MainEvent::Sync, Open | Synced) => Synced,
            (MainEvent::Sync, Ended) => Prepared,
            (MainEvent::Prepare, Synced) => Prepared,
            (MainEvent::Log, Synced | Prepared | Logged) => Logged,
            (MainEvent::Sync | MainEvent::Prepare, Prepared | Logged) => self,
            (MainEvent::Journal, Open | Synced) | (MainEvent::Settle, _) => Open,
            (MainEvent::Journal, Prepared | Logged | Ended) => Ended,
            (MainEvent::Prepare | MainEvent::Log, Open | Ended) => {
                debug_assert!(false, "{event:?} in the phase {self:?} of the main file");
                if matches!(event, MainEvent::Log) { Logged } else { Prepared }
            }
        }
    }

    /// True if SQLite may commit without another look at the disk.
    pub(crate) fn is_prepared(self) -> bool {
        matches!(self, MainPhase::Prepared | MainPhase::Logged | MainPhase::Ended)
    }
}

/// The last frame of a transaction in SQLite's WAL, and the size of the database in pages that its header has.
pub(super) type CommitFrame = (u32, u32);

/// How far the writer of SQLite's WAL is.
#[derive(Default)]
pub(super) enum WalPhase {
    /// No commit frame has its header since the last transaction was settled.
    #[default]
    Idle,
    /// One has, and frames of its transaction may be missing.
    Announced(CommitFrame),
    /// All of it is there, and the disk has room for it.
    Prepared { transaction: Transaction, announced: Option<CommitFrame> },
    /// All of it is there, and an epoch has it.
    Logged { transaction: Transaction, announced: Option<CommitFrame> },
}

impl WalPhase {
    /// The commit frame whose header is there.
    pub(super) fn announced(&self) -> Option<CommitFrame> {
        match self {
            WalPhase::Idle => None,
            WalPhase::Announced(frame) => Some(*frame),
            WalPhase::Prepared { announced, .. } | WalPhase::Logged { announced, .. } => *announced,
        }
    }

    /// The last frame of the transaction that is complete.
    pub(super) fn last(&self) -> Option<u64> {
        match self {
            WalPhase::Idle | WalPhase::Announced(_) => None,
            WalPhase::Prepared { transaction, .. } | WalPhase::Logged { transaction, .. } => {
                Some(transaction.taken.as_ref().map_or(0, |taken| taken.frames))
            }
        }
    }

    /// `announce` with a frame; `withdraw` and `refuse` without one.
    pub(super) fn announce(&mut self, frame: Option<CommitFrame>) {
        match (&mut *self, frame) {
            (WalPhase::Prepared { announced, .. } | WalPhase::Logged { announced, .. }, frame) => *announced = frame,
            (_, Some(frame)) => *self = WalPhase::Announced(frame),
            (_, None) => *self = WalPhase::Idle,
        }
    }

    /// `prepare`, or `log` if an epoch has the transaction.
    pub(super) fn complete(&mut self, transaction: Transaction, is_durable: bool) {
        let announced = self.announced();
        debug_assert!(!matches!(self, WalPhase::Idle), "a transaction without a commit frame");
        *self = match is_durable {
            true => WalPhase::Logged { transaction, announced },
            false => WalPhase::Prepared { transaction, announced },
        };
    }

    /// `overwrite`: SQLite takes back what was complete.
    pub(super) fn overwrite(&mut self) -> WalPhase {
        let before = std::mem::take(self);
        self.announce(before.announced());
        before
    }

    /// `settle`, and `begin`. Returns what was there.
    pub(super) fn settle(&mut self) -> WalPhase {
        std::mem::take(self)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::database_state::taken_back::Before;

    /// Both tables at the head of this file are what the machines do.
    #[test]
    fn the_tables_are_those_of_the_machines() {
        let row = |name: &str, cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.trim().to_owned()).collect();
            format!("{name} | {}", cells.join(" | "))
        };
        let written: Vec<String> = include_str!("phase.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("//! "))
            .filter(|line| line.contains(" | "))
            .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>().join(" | "))
            .collect();
        let mut drawn = vec!["main file | sync | prepare | log | journal | settle".to_owned()];
        for phase in [MainPhase::Open, MainPhase::Synced, MainPhase::Prepared, MainPhase::Logged, MainPhase::Ended] {
            let events = [MainEvent::Sync, MainEvent::Prepare, MainEvent::Log, MainEvent::Journal, MainEvent::Settle];
            let cells = events.map(|event| {
                let is_in_doubt = !matches!(phase, MainPhase::Open | MainPhase::Ended);
                if is_in_doubt || !matches!(event, MainEvent::Prepare | MainEvent::Log) {
                    format!("{:?}", phase.after(event))
                } else {
                    "-".to_owned()
                }
            });
            drawn.push(row(&format!("{phase:?}"), &cells));
        }
        drawn.push("WAL | announce | withdraw | prepare | log | refuse | overwrite | settle | begin".to_owned());
        for name in ["Idle", "Announced", "Prepared", "Logged"] {
            let events: [fn(&mut WalPhase); 8] = [
                |phase| phase.announce(Some((7, 7))),
                |phase| phase.announce(None),
                |phase| phase.complete(transaction(), false),
                |phase| phase.complete(transaction(), true),
                |phase| phase.announce(None),
                |phase| drop(phase.overwrite()),
                |phase| drop(phase.settle()),
                |phase| drop(phase.settle()),
            ];
            let cells = events.into_iter().enumerate().map(|(at, event)| {
                let mut phase = named(name);
                if name == "Idle" && (2..4).contains(&at) {
                    return "-".to_owned();
                }
                event(&mut phase);
                name_of(&phase).to_owned()
            });
            drawn.push(row(name, &cells.collect::<Vec<_>>()));
        }
        assert_eq!(written, drawn);
    }

    fn transaction() -> Transaction {
        Transaction { pages: BTreeMap::new(), bytes: 0, size: 1, taken: None, before: Before::nothing() }
    }

    fn named(name: &str) -> WalPhase {
        let mut phase = WalPhase::Idle;
        if name != "Idle" {
            phase.announce(Some((3, 1)));
        }
        if name == "Prepared" || name == "Logged" {
            phase.complete(transaction(), name == "Logged");
        }
        phase
    }

    fn name_of(phase: &WalPhase) -> &'static str {
        match phase {
            WalPhase::Idle => "Idle",
            WalPhase::Announced(_) => "Announced",
            WalPhase::Prepared { .. } => "Prepared",
            WalPhase::Logged { .. } => "Logged",
        }
    }
}

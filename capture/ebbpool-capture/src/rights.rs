//! The rights of a thread that captures: it drops those that it does not need any more.

use std::io;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_no_new_privs};

/// What of a capture lies ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// All of it: targets are looked at, and probes attached.
    Attaching,
    /// The probes are attached: events and the target's memory are read, and files written.
    Reading,
}

/// Rights to read what belongs to the target, and to write files into a directory of the caller.
const READING: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER)
    // Before Linux 6.3 reading a map needs it too.
    .union(CapabilitySet::BPF);

/// The rights of [`READING`], and those to load programs and to attach them; without CAP_SYS_ADMIN some kernels refuse.
const ATTACHING: CapabilitySet = READING
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::SYS_RESOURCE);

/// Ctrl-Z and output to a terminal of others no longer stop this process: a command that is stopped does not remove its probes.
#[allow(unsafe_code)]
pub fn ignore_stops() {
    for signal in [libc::SIGTSTP, libc::SIGTTOU] {
        // SAFETY: to ignore a signal runs no code of this process.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Drops, for ever, the calling thread's rights that a capture does not need, also those that it would get by starting another
/// program. Other threads keep theirs.
///
/// # Errors
///
/// The system's; the thread may then still have all of its rights.
pub fn keep_rights_for(ahead: Ahead) -> io::Result<()> {
    let needed = match ahead {
        Ahead::Attaching => ATTACHING,
        Ahead::Reading => READING,
    };
    let mut sets = capabilities(None)?;
    sets.effective &= needed;
    sets.permitted &= needed;
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets)?;
    Ok(set_no_new_privs(true)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_dropped_for_ever_and_in_this_thread_only() {
        let before = capabilities(None).expect("rights");
        let work = || {
            keep_rights_for(Ahead::Attaching).expect("dropped");
            let first = capabilities(None).expect("rights");
            assert_eq!(first.permitted, before.permitted & ATTACHING);
            keep_rights_for(Ahead::Reading).expect("dropped");
            let second = capabilities(None).expect("rights");
            assert_eq!(second.permitted, before.permitted & READING);
            assert_eq!(second.effective, before.effective & READING);
            assert!(second.inheritable.is_empty());
            keep_rights_for(Ahead::Attaching).expect("dropped");
            assert_eq!(capabilities(None).expect("rights"), second);
        };
        std::thread::scope(|scope| scope.spawn(work).join().expect("a thread"));
        assert_eq!(capabilities(None).expect("rights"), before);
    }

    #[test]
    fn a_thread_that_reads_can_neither_attach_nor_administer() {
        let harmful = [
            CapabilitySet::SYS_ADMIN,
            CapabilitySet::SYS_MODULE,
            CapabilitySet::SETUID,
            CapabilitySet::NET_ADMIN,
            CapabilitySet::PERFMON,
        ];
        assert!(harmful.iter().all(|right| !READING.contains(*right)));
    }
}

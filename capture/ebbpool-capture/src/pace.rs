//! How fast a target works, without and with probes, by what the kernel counts of it: how often its threads wait, and how many
//! transfers they make, for each second of their processor time. A program that does the same work all the time has one pace, and what
//! a capture takes of its time shows in it, whatever the calibration says.

use std::collections::HashMap;
use std::time::Duration;

use crate::foreign;
use crate::target::Process;

/// The most threads that are looked at.
const MOST_THREADS: usize = 256;

/// Fewer steps are no pace.
const LEAST_STEPS: u64 = 200;

/// Waits and transfers of threads so far, and their processor time in nanoseconds, by process and thread.
#[derive(Clone, Debug, Default)]
pub struct Steps(HashMap<(i32, String), (u64, u64)>);

impl Steps {
    /// Those of the threads of some processes now, of as many as are looked at.
    pub fn of(processes: &[Process]) -> Steps {
        let threads = processes.iter().flat_map(|process| {
            let threads = foreign::kernel_names(&format!("/proc/{}/task", process.0)).into_iter();
            threads.map(|thread| (process.0, thread))
        });
        let steps = threads.take(MOST_THREADS).filter_map(|(process, thread)| {
            let text = |file: &str| foreign::kernel_text(&format!("/proc/{process}/task/{thread}/{file}")).ok();
            let (status, transfers, time) = (text("status")?, text("io").unwrap_or_default(), text("schedstat")?);
            let waits = field(&status, "voluntary_ctxt_switches:")?;
            let transfers = ["syscr:", "syscw:"].into_iter().filter_map(|name| field(&transfers, name)).sum::<u64>();
            let time = time.split_ascii_whitespace().next()?.parse().ok()?;
            Some(((process, thread), (waits + transfers, time)))
        });
        Steps(steps.collect())
    }

    /// Steps for each second of processor time since then, of the threads that have been there all the time; `None` if these are too few to
    /// say.
    pub fn pace_since(&self, before: &Steps) -> Option<f64> {
        let both = self.0.iter().filter_map(|(thread, now)| Some((now, before.0.get(thread)?)));
        let differences = both.map(|(now, before)| (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1)));
        let (steps, time) = differences.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
        let seconds = Duration::from_nanos(time).as_secs_f64();
        (steps >= LEAST_STEPS && time > 0).then(|| steps as f64 / seconds)
    }
}

/// The number behind a name at the begin of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Instant;

    use super::*;

    #[test]
    fn transfers_for_each_second_of_processor_time() {
        let before = Steps::of(&[Process::current()]);
        let (begun, mut reads) = (Instant::now(), 0u32);
        while begun.elapsed() < Duration::from_millis(100) {
            let mut zeros = std::fs::File::open("/dev/zero").expect("a device");
            zeros.read_exact(&mut [0; 16]).expect("read");
            reads += 1;
        }
        let pace = Steps::of(&[Process::current()]).pace_since(&before).expect("a pace");
        // Other tests run in the same process.
        assert!(reads > 500 && pace > 1000.0, "{pace} with {reads} reads");
        assert_eq!(Steps::default().pace_since(&before), None);
    }

    #[test]
    fn threads_that_come_or_go_do_not_count() {
        let steps = |all: &[(i32, u64, u64)]| {
            Steps(all.iter().map(|(process, steps, time)| ((*process, "1".into()), (*steps, *time))).collect())
        };
        let second = 1_000_000_000;
        let before = steps(&[(1, 100, 0), (2, 0, 0), (3, 5, 5)]);
        let after = steps(&[(1, 600, second), (2, 0, second / 4), (4, 1_000_000, 7)]);
        assert_eq!(after.pace_since(&before), Some(400.0));
        assert_eq!(steps(&[(1, 299, second)]).pace_since(&before), None);
    }
}

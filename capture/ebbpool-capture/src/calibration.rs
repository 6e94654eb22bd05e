//! What a probe costs on this machine: a function of our own is probed as the target's are.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::arch::Arch;
use crate::assembler::Assembler;
use crate::error::CaptureError;
use crate::event::{self, Owner};
use crate::foreign;
use crate::kernel;
use crate::probes::Channel;
use crate::target::Process;

/// Processor time of one event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventCost {
    /// For an event that is handed over.
    pub captured: Duration,
    /// For one whose page does not belong to the sample, and for a run of a program that ends without an event.
    pub left_out: Duration,
    /// For a run in a process that is not captured.
    pub outside: Duration,
    /// What a run takes more where the kernel has to step over the probed instruction.
    pub step: Duration,
    /// What a run takes more that looks at the file of a call.
    pub looked: Duration,
    /// What a run takes more where the target works between two of them, and uses the processor's caches for itself.
    pub cold: Duration,
}

/// The calls of a measurement, of which the median counts: others use the processor too.
const CALLS: u32 = 2_000;

/// Bytes that are touched before each call of a measurement in which the kernel's code and data shall not be in the processor's second
/// cache, as where a program works between two events, and the bytes of a line of a cache.
pub(crate) const TOUCHED: usize = 1 << 20;
const LINE: usize = 64;

/// Begins with a `nop`, as USDT probes do. The kernel emulates that and needs one trap.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn probed(number: u32, from: *const u64) -> u32 {
    core::arch::naked_asm!("nop", "mov eax, edi", "ret")
}

/// Begins with an instruction over which the kernel has to step, in a second trap.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn stepped(number: u32, from: *const u64) -> u32 {
    core::arch::naked_asm!("mov eax, edi", "ret")
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn probed(number: u32, from: *const u64) -> u32 {
    core::arch::naked_asm!("nop", "ret")
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn stepped(number: u32, from: *const u64) -> u32 {
    core::arch::naked_asm!("mov w0, w0", "ret")
}

/// The time of a call: where one follows the other, and behind work that has filled the caches.
pub(crate) fn times_of(call: &mut dyn FnMut(u32)) -> [Duration; 2] {
    [0, TOUCHED].map(|bytes| time_behind(bytes, call))
}

/// The time of a call behind work that touches that many bytes.
pub fn time_behind(bytes: usize, call: &mut dyn FnMut(u32)) -> Duration {
    let touched = vec![1u8; bytes];
    let times = (0..CALLS).map(|number| {
        black_box(touched.iter().step_by(LINE).fold(0u8, |sum, byte| sum ^ byte));
        let start = Instant::now();
        call(number);
        start.elapsed()
    });
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// What the program of the calibration reads of this process.
static READ: [u64; 4] = [1, 2, 3, 4];

/// The program of the calibration: an event as a request of a page of PostgreSQL makes one, from two places in memory.
fn program(address: u64, channel: &Channel) -> Vec<u64> {
    let (arch, maps) = (Arch::THIS, channel.maps());
    let owner = Owner { address: (&raw const READ) as u64, bytes: 8, value: READ[0] };
    let mut program = Assembler::default();
    event::begin_for(&mut program, arch, maps, address, Some(owner));
    event::reserve(&mut program, maps, 1);
    event::copy_memory(&mut program, event::field::OBJECT, 16, arch.argument(1), 0);
    event::copy_memory(&mut program, event::field::DETAIL, 4, arch.argument(1), 16);
    event::copy_register(&mut program, event::field::PAGE, arch.argument(0));
    event::sample(&mut program, maps);
    event::submit(&mut program, maps)
}

/// Measures for some 0.3 s of processor time.
///
/// # Errors
///
/// [`CaptureError::Privilege`] and [`CaptureError::Kernel`].
pub fn calibrate() -> Result<EventCost, CaptureError> {
    let ([captured, left_out], cold) = cost_at(probed)?;
    let ([with_step, _], _) = cost_at(stepped)?;
    Ok(EventCost {
        captured,
        left_out,
        outside: left_out,
        step: with_step.saturating_sub(captured),
        looked: Duration::ZERO,
        cold,
    })
}

/// What a probe of this function costs, for an event that is handed over and for one that is left out, and what it costs more behind
/// other work.
fn cost_at(function: extern "C" fn(u32, *const u64) -> u32) -> Result<([Duration; 2], Duration), CaptureError> {
    let address = function as *const () as u64;
    let mappings = Process::current().mappings();
    let mapping = mappings
        .iter()
        .find(|it| (it.start..it.end).contains(&address))
        .ok_or_else(|| CaptureError::NotFound("this program is not in its own memory".into()))?;
    let offset = address - mapping.start + mapping.offset;
    let call_times = || {
        times_of(&mut |call| {
            black_box(function(black_box(call), READ.as_ptr()));
        })
    };
    let bare = call_times();
    let more = |with: [Duration; 2]| [0, 1].map(|at| with[at].saturating_sub(bare[at]));
    // Large enough that no event of the calibration is lost, which would cost less.
    let mut channel = Channel::new(16 << 20)?;
    let code = program(address, &channel);
    let own = Some(Process::current().0);
    // The file that runs, and not another one that has its path by now.
    let own_file = "/proc/self/exe";
    let path = match foreign::link_text(own_file) {
        Ok(program) if program == mapping.path => own_file,
        _ => &mapping.path,
    };
    let _probe = kernel::probe(path, offset, &code, own)?;
    let [captured, behind_work] = more(call_times());
    channel.drain_all();
    channel.leave_all_out()?;
    let [left_out, _] = more(call_times());
    Ok(([captured, left_out], behind_work.saturating_sub(captured)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probed_functions_return_their_argument() {
        assert_eq!((probed(7, READ.as_ptr()), stepped(8, READ.as_ptr())), (7, 8));
    }
}

//! What a probe costs on this machine: a function of our own is probed as the target's are.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::Duration;

use crate::arch::Arch;
use crate::assembler::Assembler;
use crate::error::CaptureError;
use crate::event;
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
    /// What a run takes more where the kernel has to step over the probed instruction.
    pub step: Duration,
}

const CALLS: u32 = 100_000;

/// Begins with a `nop`, as USDT probes do. The kernel emulates that and needs one trap.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn probed(number: u32) -> u32 {
    core::arch::naked_asm!("nop", "mov eax, edi", "ret")
}

/// Begins with an instruction over which the kernel has to step, in a second trap.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn stepped(number: u32) -> u32 {
    core::arch::naked_asm!("mov eax, edi", "ret")
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn probed(number: u32) -> u32 {
    core::arch::naked_asm!("nop", "ret")
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn stepped(number: u32) -> u32 {
    core::arch::naked_asm!("mov w0, w0", "ret")
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local structure of the right type.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Processor time of a call, after some that warm the caches.
pub(crate) fn time_of(call: &mut dyn FnMut(u32)) -> Duration {
    let mut start = processor_time();
    for number in 0..CALLS + CALLS / 10 {
        if number == CALLS / 10 {
            start = processor_time();
        }
        call(number);
    }
    (processor_time() - start) / CALLS
}

/// The program of the calibration: an event as a request of a page makes one.
fn program(address: u64, channel: &Channel) -> Vec<u64> {
    let (arch, maps) = (Arch::THIS, channel.maps());
    let mut program = Assembler::default();
    event::begin(&mut program, arch, maps, address);
    event::reserve(&mut program, maps, 1);
    event::copy_register(&mut program, event::field::PAGE, arch.argument(0));
    event::sample(&mut program, maps);
    event::submit(&mut program, maps)
}

/// Measures for some 0.2 s of processor time.
///
/// # Errors
///
/// [`CaptureError::Privilege`] and [`CaptureError::Kernel`].
pub fn calibrate() -> Result<EventCost, CaptureError> {
    let (captured, left_out) = cost_at(probed)?;
    let (with_step, _) = cost_at(stepped)?;
    Ok(EventCost { captured, left_out, step: with_step.saturating_sub(captured) })
}

/// What a probe of this function costs, for an event that is handed over and for one that is left out.
fn cost_at(function: extern "C" fn(u32) -> u32) -> Result<(Duration, Duration), CaptureError> {
    let address = function as *const () as u64;
    let mappings = Process::current().mappings();
    let mapping = mappings
        .iter()
        .find(|it| (it.start..it.end).contains(&address))
        .ok_or_else(|| CaptureError::NotFound("this program is not in its own memory".into()))?;
    let offset = address - mapping.start + mapping.offset;
    let call_time = || {
        time_of(&mut |call| {
            black_box(function(black_box(call)));
        })
    };
    let bare = call_time();
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
    let captured = call_time().saturating_sub(bare);
    channel.drain_all();
    channel.leave_all_out()?;
    let left_out = call_time().saturating_sub(bare);
    Ok((captured, left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probed_functions_return_their_argument() {
        assert_eq!((probed(7), stepped(8)), (7, 8));
    }
}

//! Whether there is memory for a policy: it allocates when it is made, and an allocation that fails ends the program.

use ebbpool_policy::PolicySpec;

use crate::bare_policy::BarePolicy;
use crate::error::Failure;
use crate::placement::{self, Region};

/// Policies are measured in samples of this number of frames up to twice as many. In smaller ones `auto` has miniatures of as
/// many frames as in this one.
const SAMPLE: u32 = 8192;
/// More than what a sample takes, or a policy with fewer frames than two samples: for each frame, and in all.
const SMALL_FOR_FRAME: usize = 1 << 10;
const SMALL: usize = 4 << 20;

/// When a policy allocates what it needs for all its frames.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Also later.
    AsNeeded,
    /// When it is made.
    AtOnce,
}

/// Refuses a number of frames for which there is no memory outside of the region. A region that may be large enough is
/// not examined: it has the memory.
pub(crate) fn check_memory(spec: &PolicySpec, frames: u32, growth: Growth, region: Region) -> Result<(), Failure> {
    let refuse = |bytes: usize| Failure::no_memory(format!("{spec} takes about {bytes} bytes for {frames} frames"));
    let small = SMALL + SMALL_FOR_FRAME * frames.min(2 * SAMPLE) as usize;
    if region.is_none() && !is_available(small) {
        return Err(refuse(small));
    }
    if frames < 2 * SAMPLE {
        return Ok(());
    }
    let bytes = estimate(spec, frames, growth, region);
    let least = bytes - bytes / 16;
    match region.size() >= least || is_available(bytes + bytes / 16) {
        true => Ok(()),
        false => Err(refuse(bytes)),
    }
}

/// About as many bytes as the policy takes, from what it takes for fewer frames, and for twice as many of these. The ratio is a
/// power of two, so that tables whose sizes are powers of two have room to spare in the same proportion.
fn estimate(spec: &PolicySpec, frames: u32, growth: Growth, region: Region) -> usize {
    let parts = 1 << (frames / SAMPLE).ilog2();
    let sample = frames.div_ceil(parts);
    let [one, two] = [sample, 2 * sample].map(|frames| measure(spec, frames, growth, region));
    if one == 0 {
        // The program has another allocator, which measures nothing.
        let memory = spec.entry().memory;
        let for_frame = u64::from(memory.order_scattered + memory.ghosts + 24);
        return (for_frame * u64::from(frames)) as usize;
    }
    one + two.saturating_sub(one) * (parts as usize - 1)
}

/// The bytes that a policy takes, which is made in the region as far as that reaches, and dropped.
fn measure(spec: &PolicySpec, frames: u32, growth: Growth, region: Region) -> usize {
    let (policy, filled) = placement::fill(region, || {
        let mut made = BarePolicy::new(spec, frames);
        if growth == Growth::AtOnce {
            made.reserve();
        }
        made
    });
    placement::using(region, || drop(policy));
    filled.bytes
}

/// True if the system has this number of bytes.
fn is_available(bytes: usize) -> bool {
    let mut probe: Vec<u8> = Vec::new();
    probe.try_reserve_exact(bytes).is_ok()
}

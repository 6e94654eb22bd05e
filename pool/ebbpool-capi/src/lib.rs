//! The functions of `libebbpool` that C calls: a buffer pool over a file or over callbacks of the program, and
//! replacement policies for a buffer manager of the program's own. `include/ebbpool.h` declares them, and `docs/c.md`
//! in the repository explains them.
//!
//! Each function returns a status and lets no panic out. Functions convert arguments ([`pointers`]) and call the pool, or
//! the policy behind the checks of `bare_policy`, which refuses calls out of order before the policy sees them.

// A pool over a file is for Unix.

mod bare_policy;
pub mod batches;
pub mod device;
pub mod error;
mod fixed;
pub mod handle;
pub mod log;
mod memory;
pub mod options;
pub mod pages;
pub mod placement;
mod pointers;
pub mod policy;
pub mod pool;
pub mod reading;
pub mod region;
pub mod stats;
pub mod storage;

use std::ffi::c_char;

use error::{Failure, StatusCode, guarded};

/// The C libraries have it; a Rust program that links this crate chooses its own allocator.
#[cfg(feature = "global-allocator")]
#[global_allocator]
static ALLOCATOR: placement::RegionAllocator = placement::RegionAllocator;

/// The version of the interface of this header. It goes up with each addition. A library serves every program that was
/// compiled with a header of its own version or of an earlier one with the same name of the library (`libebbpool.so.0`).
pub const EBBPOOL_ABI_VERSION: u32 = 1;

/// The version of the interface that the library has, to be compared with `EBBPOOL_ABI_VERSION` of the header.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn ebbpool_abi_version() -> u32 {
    EBBPOOL_ABI_VERSION
}

/// `EBBPOOL_OK` if the library serves programs that were compiled with a header of this version; `EBBPOOL_VERSION` if not.
/// Call it first, with `EBBPOOL_ABI_VERSION`.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn ebbpool_check_abi(header_version: u32) -> StatusCode {
    guarded(|| match header_version {
        1..=EBBPOOL_ABI_VERSION => Ok(()),
        _ => Err(Failure::version(format!(
            "the program was compiled for version {header_version} of the interface, and the library has {EBBPOOL_ABI_VERSION}"
        ))),
    })
}

/// The version of Ebbpool as text, such as `0.1.0`. It is valid for as long as the library is loaded.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn ebbpool_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

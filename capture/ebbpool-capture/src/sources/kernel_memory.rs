//! What programs at the kernel's tracepoints have in common: they read the kernel's structures.
//!
//! A read of memory that does not exist gives zeros, so that programs may follow any pointer.

use crate::assembler::{Assembler, Helper, R1, R2, R3, R7, R10, Register};

/// Copies `bytes` bytes at the address in `from` plus `distance` to the stack at `slot`.
pub(super) fn to_stack(program: &mut Assembler, slot: i16, bytes: i32, from: Register, distance: i32) {
    read(program, R10, slot, bytes, (from, distance));
}

/// Copies `bytes` bytes at the address in `from` plus `distance` to the event at `to`.
pub(super) fn to_event(program: &mut Assembler, to: i16, bytes: i32, from: Register, distance: i32) {
    read(program, R7, to, bytes, (from, distance));
}

fn read(program: &mut Assembler, base: Register, to: i16, bytes: i32, (from, distance): (Register, i32)) {
    program.copy(R1, base).add_value(R1, to.into()).set(R2, bytes).copy(R3, from);
    if distance != 0 {
        program.add_value(R3, distance);
    }
    program.call(Helper::ReadKernel);
}

/// Replaces the address in `register` by the one that is stored `distance` bytes behind it, by way of the stack at `slot`.
pub(super) fn follow(program: &mut Assembler, slot: i16, register: Register, distance: i32) {
    to_stack(program, slot, 8, register, distance);
    program.load64(register, R10, slot);
}

/// Stores zeros in 8 bytes each of the stack.
pub(super) fn clear(program: &mut Assembler, slots: &[i16]) {
    program.set(R1, 0);
    for &slot in slots {
        program.store64(R10, slot, R1);
    }
}

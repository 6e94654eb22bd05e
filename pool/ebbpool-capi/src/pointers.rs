//! Values behind the pointers that a program passes.
//!
//! A program may pass null, a pointer that is not aligned, text that is not UTF-8, and a `struct_size` of any value: these
//! are errors. Every other pointer has to be one that C, too, may read or write: that of a live object of its type, or
//! of text that ends with a NUL.

#![allow(unsafe_code)]

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::ptr;

use crate::error::{CallFault, Failure};

/// The most bytes of a text. A program that forgets the NUL is found out here, if there is memory.
const LONGEST_TEXT: usize = 64 << 10;

/// The largest struct that a later version of the header may have.
const LARGEST_STRUCT: usize = 4 << 10;

/// A struct whose first field is its size, so that later versions may append fields.
///
/// # Safety
///
/// The type is `repr(C)`, begins with a `usize` that is the size of the struct, and is valid if all its bytes are 0.
pub(crate) unsafe trait Versioned: Copy {
    /// The name of the struct in C.
    const NAME: &'static str;
}

fn check<T>(pointer: *const T, what: &'static str) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(CallFault::Null(what).into());
    }
    if !pointer.is_aligned() {
        return Err(CallFault::Misaligned { what, address: pointer.addr(), alignment: align_of::<T>() }.into());
    }
    Ok(())
}

/// The object behind a pointer.
///
/// # Safety
///
/// The pointer is null, not aligned, or that of a live `T` that is not changed while the reference is used.
pub(crate) unsafe fn object<'a, T>(pointer: *const T, what: &'static str) -> Result<&'a T, Failure> {
    check(pointer, what)?;
    // SAFETY: it is not null and aligned, and the caller vouches for the rest.
    Ok(unsafe { &*pointer })
}

fn check_list<T>(start: *const T, count: usize, what: &'static str) -> Result<(), Failure> {
    check(start, what)?;
    match count <= isize::MAX as usize / size_of::<T>() {
        true => Ok(()),
        false => Err(CallFault::ListSize { count }.into()),
    }
}

/// A list of the program; `start` may be anything if it is empty.
///
/// # Safety
///
/// The pointer is null, not aligned, or that of `count` values that are not changed while the list is used.
pub(crate) unsafe fn list<'a, T>(start: *const T, count: usize, what: &'static str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    check_list(start, count, what)?;
    // SAFETY: it is not null and aligned, and the caller vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts(start, count) })
}

/// A list for results of a function.
///
/// # Safety
///
/// The pointer is null, not aligned, or that of `count` numbers, which nothing else uses meanwhile.
pub(crate) unsafe fn list_mut<'a, T>(start: *mut T, count: usize, what: &'static str) -> Result<&'a mut [T], Failure> {
    if count == 0 {
        return Ok(&mut []);
    }
    check_list(start, count, what)?;
    // SAFETY: it is not null and aligned, and the caller vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts_mut(start, count) })
}

/// Writes a result of a function.
///
/// # Safety
///
/// The pointer is null, not aligned, or may be written.
pub(crate) unsafe fn write<T>(pointer: *mut T, what: &'static str, value: T) -> Result<(), Failure> {
    check(pointer, what)?;
    // SAFETY: it is not null and aligned, and the caller vouches for the rest.
    unsafe { pointer.write(value) };
    Ok(())
}

/// The size that a program states in a struct: at least `least` bytes.
///
/// # Safety
///
/// The pointer is null, not aligned, or that of a struct whose first field is its size.
unsafe fn struct_size<T: Versioned>(pointer: *const T) -> Result<usize, Failure> {
    check(pointer, T::NAME)?;
    // SAFETY: it is not null and aligned, and the first field is a `usize`.
    let size = unsafe { pointer.cast::<usize>().read() };
    // Version 1 of the interface has these structs. Later versions state here the size that each had in version 1.
    if size < size_of::<T>() {
        return Err(Failure::invalid(format!(
            "{}.struct_size is {size}, and the struct has {} bytes; set it to sizeof",
            T::NAME,
            size_of::<T>()
        )));
    }
    if size > LARGEST_STRUCT {
        return Err(Failure::version(format!("{}.struct_size is {size}, and no version has such a struct", T::NAME)));
    }
    Ok(size)
}

/// A struct of the program. A larger one is that of a later header: its further fields have to be 0, since this library
/// would ignore them.
///
/// # Safety
///
/// The pointer is null, not aligned, or that of a struct with as many bytes as its first field states.
pub(crate) unsafe fn versioned<T: Versioned>(pointer: *const T) -> Result<T, Failure> {
    // SAFETY: the caller vouches for it.
    let size = unsafe { struct_size(pointer) }?;
    let bytes = pointer.cast::<u8>();
    // SAFETY: the struct has `size` bytes, which are not changed meanwhile.
    let further = (size_of::<T>()..size).any(|at| unsafe { bytes.add(at).read() } != 0);
    if further {
        return Err(Failure::version(format!("{} has fields that this version of the library does not know", T::NAME)));
    }
    // SAFETY: it is aligned and large enough, and every value of the fields' types is valid.
    Ok(unsafe { pointer.read() })
}

/// Reads a struct that the program may leave out: all its fields are 0 then.
///
/// # Safety
///
/// The pointer is null, or as in [`versioned`].
pub(crate) unsafe fn versioned_or_zeros<T: Versioned>(pointer: *const T) -> Result<T, Failure> {
    if pointer.is_null() {
        // SAFETY: the type is valid if all bytes are 0.
        return Ok(unsafe { MaybeUninit::zeroed().assume_init() });
    }
    // SAFETY: the caller vouches for it.
    unsafe { versioned(pointer) }
}

/// Fills the fields of a struct of results that both this library and the `struct_size` of the program know.
///
/// # Safety
///
/// The pointer is as in [`versioned`], and the struct may be written.
pub(crate) unsafe fn write_versioned<T: Versioned>(pointer: *mut T, value: T) -> Result<(), Failure> {
    // SAFETY: the caller vouches for it.
    let size = unsafe { struct_size(pointer) }?;
    // SAFETY: it is aligned and has at least the size of a `T`.
    unsafe {
        pointer.write(value);
        pointer.cast::<usize>().write(size);
    }
    Ok(())
}

/// A text of the program.
///
/// # Safety
///
/// The pointer is null, or that of bytes that end with a NUL and stay unchanged while the text is used.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &'static str) -> Result<&'a str, Failure> {
    check(pointer, what)?;
    let bytes = pointer.cast::<u8>();
    // SAFETY: no byte after the first NUL is read.
    let length = (0..LONGEST_TEXT).find(|&at| unsafe { bytes.add(at).read() } == 0);
    let Some(length) = length else {
        return Err(Failure::invalid(format!("{what} has more than {LONGEST_TEXT} bytes")));
    };
    // SAFETY: these bytes are before the NUL.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, length) };
    std::str::from_utf8(bytes).map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}

/// Writes a text with its NUL into a buffer of the program, cut off where the buffer ends, and the text's length in bytes
/// into `length` unless that is null.
///
/// # Safety
///
/// `buffer` is null, or `capacity` bytes behind it may be written; `length` is null, not aligned, or may be written.
pub(crate) unsafe fn write_text(text: &str, buffer: *mut c_char, capacity: usize, length: *mut usize) -> Result<(), Failure> {
    if buffer.is_null() && capacity > 0 {
        return Err(CallFault::Null("the buffer").into());
    }
    if capacity > isize::MAX as usize {
        return Err(CallFault::BufferSize(capacity).into());
    }
    if !length.is_null() {
        // SAFETY: the caller vouches for it.
        unsafe { write(length, "length", text.len()) }?;
    }
    let Some(room) = capacity.checked_sub(1) else {
        return Ok(());
    };
    let shown = text.floor_char_boundary(room);
    // SAFETY: the text and its NUL fit into the buffer, which is the program's and so does not overlap the text.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast::<u8>(), shown);
        buffer.add(shown).write(0);
    }
    Ok(())
}

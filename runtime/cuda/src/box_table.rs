//! Descriptions of the arrays of which kernels copy boxes, in a table in the device's memory.

use std::ffi::{c_int, c_uint};

use hlo::launch_plan::Boxes;

use crate::driver::{BoxDescription, BoxFunctions, DevicePointer};
use crate::{Error, Gpu};

/// Bytes of a description.
pub(crate) const DESCRIPTION_BYTES: usize = size_of::<BoxDescription>();

/// The driver's numbers: types of one and of two bytes, and numbers of four that are rounded to tf32; nothing between rows, rows
/// of 128 bytes whose chunks are exclusively or'ed with their numbers, as much to be fetched for the second cache, and zeros
/// outside.
const TYPES: [c_int; 3] = [0, 1, 11];
const NOT_INTERLEAVED: c_int = 0;
const SWIZZLED_BY_128: c_int = 3;
const FETCHED_256: c_int = 3;
const ZEROS_OUTSIDE: c_int = 0;

/// The functions that describe.
///
/// # Errors
/// For a driver that has none.
pub(crate) fn functions(gpu: &Gpu) -> Result<&'static BoxFunctions, Error> {
    let too_old = || "its kernels copy boxes of arrays, for which the driver is too old".to_string();
    gpu.driver.boxes.as_ref().ok_or_else(|| Error::WrongArchitecture(too_old()))
}

/// Describes boxes of an array.
///
/// # Errors
/// For what the driver refuses, and for sizes that no plan has.
pub(crate) fn describe(gpu: &Gpu, array: DevicePointer, boxes: Boxes) -> Result<BoxDescription, Error> {
    let Boxes { width, sizes, strides, sides } = boxes;
    let small = |number: u64| c_uint::try_from(number).map_err(|_| Error::Plan(format!("boxes of {number} elements")));
    let r#type = match width {
        1 => TYPES[0],
        2 => TYPES[1],
        4 => TYPES[2],
        _ => return Err(Error::Plan(format!("boxes of elements of {width} bytes"))),
    };
    let (sides, steps) = ([small(sides[0])?, small(sides[1])?, 1], [1; 3]);
    let mut description = BoxDescription::default();
    // SAFETY: there are as many numbers as dimensions, and the description is written to a live variable.
    let code = unsafe {
        (functions(gpu)?.describe)(
            &raw mut description,
            r#type,
            sizes.len() as c_uint,
            array,
            sizes.as_ptr(),
            strides.as_ptr(),
            sides.as_ptr(),
            steps.as_ptr(),
            NOT_INTERLEAVED,
            SWIZZLED_BY_128,
            FETCHED_256,
            ZEROS_OUTSIDE,
        )
    };
    gpu.driver.check("cuTensorMapEncodeTiled", code).map(|()| description)
}

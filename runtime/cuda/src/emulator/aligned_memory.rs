//! Memory of the host as a GPU would have it: arrays begin at multiples of what a thread can access at once.

use crate::BufferSizes;
use crate::execution::PlanMemory;

/// Units of the memory of copies, as large as a thread's largest access.
type Unit = u128;

/// An array that stands elsewhere while the program runs.
struct ArrayCopy {
    of: u64,
    bytes: usize,
    units: Vec<Unit>,
    is_result: bool,
}

impl ArrayCopy {
    fn address(&self) -> u64 {
        self.units.as_ptr() as u64
    }
}

/// The buffers of a run, of which those are copies that do not begin where a GPU's would.
pub(super) struct AlignedMemory {
    pub(super) memory: PlanMemory,
    copies: Vec<ArrayCopy>,
}

impl AlignedMemory {
    /// # Safety
    /// The memory must be live and of these sizes.
    pub(super) unsafe fn of(memory: &PlanMemory, sizes: &BufferSizes) -> Self {
        let PlanMemory { parameters, outputs, .. } = memory;
        let mut copies = Vec::new();
        // SAFETY: the caller's promise.
        let mut place =
            |of: u64, bytes: usize, is_result: bool| unsafe { aligned_copy(&mut copies, of, bytes, is_result) };
        let parameters =
            parameters.iter().zip(&sizes.parameters).map(|(&of, &bytes)| place(of, bytes, false)).collect();
        let outputs = outputs.iter().zip(&sizes.outputs).map(|(&of, &bytes)| place(of, bytes, true)).collect();
        AlignedMemory { memory: PlanMemory { parameters, outputs, ..memory.clone() }, copies }
    }

    /// Copies the results to where they belong.
    ///
    /// # Safety
    /// As for [`Self::of`].
    pub(super) unsafe fn copy_back(self) {
        for copy in self.copies.iter().filter(|copy| copy.is_result) {
            // SAFETY: the caller's promise; the copy is as large.
            unsafe { std::ptr::copy_nonoverlapping(copy.units.as_ptr().cast::<u8>(), copy.of as *mut u8, copy.bytes) };
        }
    }
}

/// The address of an array, or of a copy if it does not begin at a unit. A result in the place of an argument is the
/// same copy.
///
/// # Safety
/// The array must be live and of this size.
unsafe fn aligned_copy(copies: &mut Vec<ArrayCopy>, of: u64, bytes: usize, is_result: bool) -> u64 {
    if of.is_multiple_of(align_of::<Unit>() as u64) {
        return of;
    }
    if let Some(known) = copies.iter_mut().find(|copy| copy.of == of) {
        known.is_result |= is_result;
        return known.address();
    }
    let mut units: Vec<Unit> = vec![0; bytes.div_ceil(size_of::<Unit>())];
    // SAFETY: the caller's promise; the copy is at least as large.
    unsafe { std::ptr::copy_nonoverlapping(of as *const u8, units.as_mut_ptr().cast::<u8>(), bytes) };
    let copy = ArrayCopy { of, bytes, units, is_result };
    let address = copy.address();
    copies.push(copy);
    address
}

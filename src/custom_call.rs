//! Functions in Rust or C that programs call by name.
//!
//! Functions are registered for the whole process. A program that calls one compiles only once it is registered; which one
//! of a name is called is found out at each call.
//!
//! ```no_run
//! halo::custom_call::register("halve", |call, results| {
//!     let x = call.operand::<f32>(0)?;
//!     for (result, x) in results[0].as_mut_slice::<f32>()?.iter_mut().zip(x) {
//!         *result = x / 2.0;
//!     }
//!     Ok(())
//! });
//! ```

use std::slice;

use exec::runtime::custom_call as runtime;
use hlo::element_type::ElementType;
use hlo::literal::NativeElement;
use hlo::shape::ArrayShape;

pub use exec::runtime::custom_call::CFunction;

/// A call: what was called, and the operands. Tuples among them are flattened.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    call: &'a runtime::CustomCall<'a>,
}

/// Room for one array of the result, filled with zeros.
#[derive(Debug)]
pub struct ResultArray<'a> {
    shape: ArrayShape,
    bytes: &'a mut [u8],
}

/// Type and dimensions of a buffer.
fn shape_of(buffer: &runtime::CallBuffer<'_>) -> Result<ArrayShape, String> {
    ElementType::all()
        .find(|&element_type| element_type.primitive_type() == buffer.element_type)
        .map(|element_type| ArrayShape::new(element_type, buffer.dimensions))
        .ok_or_else(|| format!("there is no element type {}", buffer.element_type))
}

fn check_type<T: NativeElement>(what: &str, shape: &ArrayShape) -> Result<(), String> {
    if shape.element_type == T::ELEMENT_TYPE {
        return Ok(());
    }
    Err(format!("{what} is {shape}, it was taken for an array of {}", T::ELEMENT_TYPE))
}

impl<'a> Call<'a> {
    /// The name that was called.
    pub fn target(&self) -> &'a str {
        self.call.target
    }

    /// The call's `backend_config`, as written in the program.
    pub fn configuration(&self) -> &'a str {
        self.call.configuration
    }

    /// Number of operands.
    pub fn operand_count(&self) -> usize {
        self.call.operands.len()
    }

    /// Shape of an operand.
    ///
    /// # Errors
    /// If there is no such operand.
    pub fn operand_shape(&self, number: usize) -> Result<ArrayShape, String> {
        self.buffer(number).and_then(shape_of)
    }

    /// Elements of an operand in row-major order.
    ///
    /// # Errors
    /// If there is no such operand, or it is of another element type.
    pub fn operand<T: NativeElement>(&self, number: usize) -> Result<&'a [T], String> {
        let buffer = self.buffer(number)?;
        let shape = shape_of(buffer)?;
        check_type::<T>(&format!("operand {number}"), &shape)?;
        let count = shape.byte_size() / size_of::<T>();
        // SAFETY: compiled code passes buffers of the shapes that it describes, which nobody writes during the call.
        Ok(unsafe { slice::from_raw_parts(buffer.address.cast_const().cast::<T>(), count) })
    }

    fn buffer(&self, number: usize) -> Result<&'a runtime::CallBuffer<'a>, String> {
        let count = self.operand_count();
        self.call.operands.get(number).ok_or_else(|| format!("there is no operand {number}, the call has {count}"))
    }
}

impl ResultArray<'_> {
    /// The shape.
    pub fn shape(&self) -> &ArrayShape {
        &self.shape
    }

    /// The elements in row-major order.
    ///
    /// # Errors
    /// If the result is of another element type.
    pub fn as_mut_slice<T: NativeElement>(&mut self) -> Result<&mut [T], String> {
        check_type::<T>("the result", &self.shape)?;
        let count = self.bytes.len() / size_of::<T>();
        // SAFETY: compiled code keeps the elements of buffers aligned; any bits are a valid `T`.
        Ok(unsafe { slice::from_raw_parts_mut(self.bytes.as_mut_ptr().cast::<T>(), count) })
    }

    /// The bytes of the elements.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

/// Registers a function under a name, in place of any before. It gets the call and one array for each leaf of the result; an
/// error or a panic fails the run.
pub fn register(
    target: &str,
    function: impl Fn(&Call<'_>, &mut [ResultArray<'_>]) -> Result<(), String> + Send + Sync + 'static,
) {
    runtime::register(target, move |call, _| {
        let mut results = Vec::with_capacity(call.results.len());
        for buffer in &call.results {
            let shape = shape_of(buffer)?;
            let size = shape.byte_size();
            // SAFETY: compiled code passes buffers of the shapes that it describes, which are the call's to write and do not
            // overlap. They may hold nothing yet, so they are filled before they are seen.
            let bytes = unsafe {
                buffer.address.write_bytes(0, size);
                slice::from_raw_parts_mut(buffer.address, size)
            };
            results.push(ResultArray { shape, bytes });
        }
        function(&Call { call }, &mut results)
    });
}

/// Registers a C function under a name, in place of any before.
///
/// # Safety
/// The function must be sound to call with the buffers of any program that calls it by this name, on any thread, and must
/// not unwind.
pub unsafe fn register_c(target: &str, function: CFunction) {
    // SAFETY: the caller's promise.
    unsafe { runtime::register_c_function(target, function) };
}

/// Whether a function is registered under a name.
pub fn is_registered(target: &str) -> bool {
    runtime::is_registered(target)
}

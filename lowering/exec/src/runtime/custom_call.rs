//! HLO's `custom-call`: functions that the process registers by name.
//!
//! Compiled code passes a description of the call with each call, so objects do not depend on registration order. Names
//! are looked up when a call runs.

use super::{RunContext, context::context_at};
use std::{
    collections::HashMap,
    ffi::c_void,
    slice, str,
    sync::{Arc, LazyLock, PoisonError, RwLock},
};

/// A buffer that a custom call reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct CallBuffer<'a> {
    /// The number of the element type in XLA's `PrimitiveType` (`xla_data.proto`): 11 for `f32`, 12 for `f64` and so on.
    pub element_type: i64,
    /// The dimensions.
    pub dimensions: &'a [i64],
    /// The layout: dimensions from the fastest to the slowest varying one.
    pub minor_to_major: &'a [i64],
    /// The first byte.
    pub address: *mut u8,
}

/// A call of a registered function.
#[derive(Debug)]
pub struct CustomCall<'a> {
    /// The name that was called.
    pub target: &'a str,
    /// The call's `backend_config`, as written in the program.
    pub configuration: &'a str,
    /// What it reads; tuples are flattened.
    pub operands: Vec<CallBuffer<'a>>,
    /// What it writes; tuples are flattened.
    pub results: Vec<CallBuffer<'a>>,
    /// Whether the result is a tuple in the program.
    pub is_tuple: bool,
}

/// A function with the C signature of XLA's original custom calls: `out` is the result's buffer, or an array of buffers if
/// the result is a tuple; `ins` is an array of the operands' buffers.
pub type CFunction = unsafe extern "C" fn(out: *mut c_void, ins: *const *const c_void);

type Handler = Arc<dyn Fn(&CustomCall, &RunContext) -> Result<(), String> + Send + Sync>;

static HANDLERS: LazyLock<RwLock<HashMap<String, Handler>>> = LazyLock::new(|| {
    RwLock::new(super::lapack::handlers().map(|(name, handler)| (name, Arc::new(handler) as _)).collect())
});

/// Registers a function under a name, in place of any before.
pub fn register(
    target: &str,
    handler: impl Fn(&CustomCall, &RunContext) -> Result<(), String> + Send + Sync + 'static,
) {
    HANDLERS.write().unwrap_or_else(PoisonError::into_inner).insert(target.into(), Arc::new(handler));
}

/// Registers a C function under a name, in place of any before.
///
/// # Safety
/// The function must be sound to call with the buffers of any program that calls it by this name, on any thread, and must
/// not unwind.
pub unsafe fn register_c_function(target: &str, function: CFunction) {
    register(target, move |call, _| {
        let operands: Vec<*const c_void> =
            call.operands.iter().map(|buffer| buffer.address.cast_const().cast()).collect();
        let mut results: Vec<*mut c_void> = call.results.iter().map(|buffer| buffer.address.cast()).collect();
        let out = match results.first() {
            Some(&single) if !call.is_tuple => single,
            _ => results.as_mut_ptr().cast(),
        };
        // SAFETY: the promise at registration.
        unsafe { function(out, operands.as_ptr()) };
        Ok(())
    });
}

/// Whether a function is registered under a name.
pub fn is_registered(target: &str) -> bool {
    HANDLERS.read().unwrap_or_else(PoisonError::into_inner).contains_key(target)
}

/// Calls a registered function.
///
/// `description` holds: bytes of the target's name, bytes of the configuration, number of operands, number of results,
/// whether the result is a tuple; then for each operand and each result the element type, the rank, the dimensions and
/// the minor-to-major order.
///
/// # Safety
/// `context` must be null or live; every address must hold what the description says.
pub unsafe extern "C" fn halo_custom_call(
    context: *const RunContext,
    description: *const i64,
    target: *const u8,
    configuration: *const u8,
    operands: *const *mut u8,
    results: *const *mut u8,
) {
    // SAFETY: the caller's promise.
    let context = unsafe { context_at(context) };
    let fallback = RunContext::new(None);
    let context = context.unwrap_or(&fallback);
    context.guard("custom-call", || {
        let mut reader = Reader { next: description };
        // SAFETY: the caller's promise; the array is read in the order it was written.
        let call = unsafe {
            let [target_bytes, configuration_bytes, operand_count, result_count] =
                [reader.size()?, reader.size()?, reader.size()?, reader.size()?];
            let is_tuple = reader.size()? != 0;
            let text = |start: *const u8, length: usize| {
                let bytes = if length == 0 { &[] } else { slice::from_raw_parts(start, length) };
                str::from_utf8(bytes).map_err(|error| error.to_string())
            };
            CustomCall {
                target: text(target, target_bytes)?,
                configuration: text(configuration, configuration_bytes)?,
                operands: reader.buffers(operands, operand_count)?,
                results: reader.buffers(results, result_count)?,
                is_tuple,
            }
        };
        let handler = HANDLERS.read().unwrap_or_else(PoisonError::into_inner).get(call.target).cloned();
        let handler = handler.ok_or_else(|| format!("no function is registered as `{}`", call.target))?;
        handler(&call, context).map_err(|message| format!("{}: {message}", call.target))
    });
}

struct Reader {
    next: *const i64,
}

impl Reader {
    /// # Safety
    /// The array must go on.
    unsafe fn size(&mut self) -> Result<usize, String> {
        // SAFETY: the caller's promise.
        let value = unsafe { self.next.read() };
        self.next = self.next.wrapping_add(1);
        usize::try_from(value).map_err(|_| format!("size {value}"))
    }

    /// # Safety
    /// The array must go on with `count` values.
    unsafe fn values<'a>(&mut self, count: usize) -> &'a [i64] {
        // SAFETY: the caller's promise.
        let values = unsafe { slice::from_raw_parts(self.next, count) };
        self.next = self.next.wrapping_add(count);
        values
    }

    /// # Safety
    /// The array must go on with `count` descriptions, and `addresses` must hold as many.
    unsafe fn buffers<'a>(&mut self, addresses: *const *mut u8, count: usize) -> Result<Vec<CallBuffer<'a>>, String> {
        (0..count)
            .map(|index| {
                // SAFETY: the caller's promise.
                unsafe {
                    let element_type = self.size()? as i64;
                    let rank = self.size()?;
                    Ok(CallBuffer {
                        element_type,
                        dimensions: self.values(rank),
                        minor_to_major: self.values(rank),
                        address: *addresses.add(index),
                    })
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn swap(out: *mut c_void, ins: *const *const c_void) {
        // SAFETY: called with two floats in and a tuple of two floats out.
        unsafe {
            let out = out.cast::<*mut f32>();
            **out = (*ins.add(1)).cast::<f32>().read();
            **out.add(1) = (*ins).cast::<f32>().read();
        }
    }

    fn call(context: &RunContext, target: &str, configuration: &str, operands: &[f32], results: &mut [f32]) {
        let mut description =
            vec![target.len() as i64, configuration.len() as i64, operands.len() as i64, results.len() as i64, 1];
        (0..operands.len() + results.len()).for_each(|_| description.extend([11, 2, 1, 1, 1, 0]));
        let inputs: Vec<*mut u8> = operands.iter().map(|value| (&raw const *value).cast_mut().cast()).collect();
        let outputs: Vec<*mut u8> = results.iter_mut().map(|value| (&raw mut *value).cast()).collect();
        // SAFETY: as described.
        unsafe {
            halo_custom_call(
                context,
                description.as_ptr(),
                target.as_ptr(),
                configuration.as_ptr(),
                inputs.as_ptr(),
                outputs.as_ptr(),
            );
        }
    }

    #[test]
    fn c_functions_get_addresses() {
        let context = RunContext::new(None);
        // SAFETY: only called below.
        unsafe { register_c_function("test.swap", swap) };
        assert!(is_registered("test.swap"));
        let mut results = [0.0; 2];
        call(&context, "test.swap", "", &[1.0, 2.0], &mut results);
        assert_eq!(context.failure(), None);
        assert_eq!(results, [2.0, 1.0]);
    }

    #[test]
    fn handlers_get_descriptions_and_may_fail() {
        let context = RunContext::new(None);
        register("test.refuse", |call, _| {
            assert_eq!(call.operands[0].dimensions, [1, 1]);
            assert_eq!(call.operands[0].minor_to_major, [1, 0]);
            assert_eq!((call.results.len(), call.results[0].element_type), (1, 11));
            Err(format!("not with {}", call.configuration))
        });
        call(&context, "test.refuse", "{a = 1}", &[1.0], &mut [0.0]);
        assert_eq!(context.failure().as_deref(), Some("custom-call: test.refuse: not with {a = 1}"));
        call(&context, "test.absent", "", &[], &mut []);
        assert!(context.failure().unwrap().contains("`test.absent`"));
    }
}

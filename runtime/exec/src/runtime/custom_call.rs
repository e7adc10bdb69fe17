//! HLO's `custom-call`: functions that the process registers by name.
//!
//! Compiled code passes a description of the call with each call, so objects do not depend on registration order. Names
//! are looked up when a call runs.

use super::{RunContext, context::context_at, missing_feature, primitive_type};
use std::{
    collections::HashMap,
    ffi::c_void,
    ptr, slice, str,
    sync::{Arc, OnceLock, PoisonError, RwLock},
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
    /// The layout that the program declares for the call; functions with the C signature get it.
    pub declared_minor_to_major: &'a [i64],
    /// The first byte.
    pub address: *mut u8,
    /// Whether the program reads what the call writes there, and so whether it must be computed; of operands it says nothing.
    pub is_read: bool,
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

/// The registered functions. A static that names LAPACK's by itself would be compiled into every test of this crate, with all of them.
fn handlers() -> &'static RwLock<HashMap<String, Handler>> {
    static HANDLERS: OnceLock<RwLock<HashMap<String, Handler>>> = OnceLock::new();
    HANDLERS.get_or_init(|| {
        #[cfg(feature = "linear-algebra")]
        let lapack = super::lapack::handlers().map(|(name, handler)| (name, Arc::new(handler) as Handler));
        #[cfg(not(feature = "linear-algebra"))]
        let lapack = std::iter::empty::<(String, Handler)>();
        RwLock::new(lapack.chain([(REQUIRE.to_string(), Arc::new(require) as Handler)]).collect())
    })
}

/// What a pass makes of a rule that only run-time sizes decide: `hlo::ops::custom_call_targets::REQUIRE`.
const REQUIRE: &str = "halo.require";

fn require(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    // SAFETY: the operand is a `pred`, one byte that compiled code has written.
    let holds = call.operands.first().is_some_and(|operand| unsafe { operand.address.read() } != 0);
    if !holds {
        context.fail(call.configuration.to_string());
    }
    Ok(())
}

/// Registers a function under a name, in place of any before.
pub fn register(
    target: &str,
    handler: impl Fn(&CustomCall, &RunContext) -> Result<(), String> + Send + Sync + 'static,
) {
    handlers().write().unwrap_or_else(PoisonError::into_inner).insert(target.into(), Arc::new(handler));
}

/// Registers a C function under a name, in place of any before.
///
/// # Safety
/// The function must be sound to call with the buffers of any program that calls it by this name, on any thread, and must
/// not unwind.
pub unsafe fn register_c_function(target: &str, function: CFunction) {
    register(target, move |call, _| {
        let mut operands = call.operands.iter().map(Relaid::new).collect::<Result<Vec<_>, _>>()?;
        let mut results = call.results.iter().map(Relaid::new).collect::<Result<Vec<_>, _>>()?;
        operands.iter_mut().for_each(Relaid::bring_in);
        let ins: Vec<*const c_void> = operands.iter_mut().map(|operand| operand.address().cast_const()).collect();
        let mut outs: Vec<*mut c_void> = results.iter_mut().map(Relaid::address).collect();
        let out = match outs.first() {
            Some(&single) if !call.is_tuple => single,
            _ => outs.as_mut_ptr().cast(),
        };
        // SAFETY: the promise at registration.
        unsafe { function(out, ins.as_ptr()) };
        results.iter().for_each(Relaid::bring_out);
        Ok(())
    });
}

/// A buffer as a C function wants it: itself, or a copy in the declared layout.
struct Relaid<'b, 'a> {
    buffer: &'b CallBuffer<'a>,
    width: usize,
    copy: Option<Vec<u64>>,
}

impl<'b, 'a> Relaid<'b, 'a> {
    fn new(buffer: &'b CallBuffer<'a>) -> Result<Self, String> {
        let width = primitive_type::byte_width(buffer.element_type);
        let width = width.ok_or_else(|| format!("no element type {}", buffer.element_type))?;
        let copy = (buffer.minor_to_major != buffer.declared_minor_to_major).then(|| {
            let bytes = width * buffer.dimensions.iter().product::<i64>().max(0) as usize;
            let mut copy = Vec::new();
            copy.try_reserve_exact(bytes.div_ceil(8))
                .map_err(|_| format!("out of memory: cannot allocate {bytes} bytes"))?;
            copy.resize(bytes.div_ceil(8), 0u64);
            Ok::<_, String>(copy)
        });
        let copy = copy.transpose()?;
        Ok(Self { buffer, width, copy })
    }

    fn address(&mut self) -> *mut c_void {
        self.copy.as_mut().map_or(self.buffer.address.cast(), |copy| copy.as_mut_ptr().cast())
    }

    /// Calls `body` with the byte offsets of each element in the buffer and in the copy.
    fn each_element(&self, mut body: impl FnMut(usize, usize)) {
        let strides = |order: &[i64]| {
            let mut strides = vec![0; self.buffer.dimensions.len()];
            let mut stride = self.width;
            for &dimension in order {
                strides[dimension as usize] = stride;
                stride *= self.buffer.dimensions[dimension as usize] as usize;
            }
            strides
        };
        let (from, to) = (strides(self.buffer.minor_to_major), strides(self.buffer.declared_minor_to_major));
        let count = self.buffer.dimensions.iter().product::<i64>().max(0) as usize;
        for mut element in 0..count {
            let (mut in_buffer, mut in_copy) = (0, 0);
            for (dimension, &size) in self.buffer.dimensions.iter().enumerate() {
                let position = element % size as usize;
                element /= size as usize;
                in_buffer += position * from[dimension];
                in_copy += position * to[dimension];
            }
            body(in_buffer, in_copy);
        }
    }

    /// Fills the copy.
    fn bring_in(&mut self) {
        let Some(mut copy) = self.copy.take() else { return };
        let (source, target, width) = (self.buffer.address, copy.as_mut_ptr().cast::<u8>(), self.width);
        // SAFETY: both have room for every element.
        self.each_element(|from, to| unsafe { ptr::copy_nonoverlapping(source.add(from), target.add(to), width) });
        self.copy = Some(copy);
    }

    /// Writes the copy back.
    fn bring_out(&self) {
        let Some(copy) = &self.copy else { return };
        let (source, target, width) = (copy.as_ptr().cast::<u8>(), self.buffer.address, self.width);
        // SAFETY: both have room for every element.
        self.each_element(|to, from| unsafe { ptr::copy_nonoverlapping(source.add(from), target.add(to), width) });
    }
}

/// Whether a function is registered under a name.
pub fn is_registered(target: &str) -> bool {
    handlers().read().unwrap_or_else(PoisonError::into_inner).contains_key(target)
}

/// Calls a registered function.
///
/// `description` holds: bytes of the target's name, bytes of the configuration, number of operands, number of results,
/// whether the result is a tuple; then for each operand and each result the element type, the rank, the dimensions,
/// two orders from minor to major (the array's, and the one declared for the call), and whether it is read.
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
        let handler = handlers().read().unwrap_or_else(PoisonError::into_inner).get(call.target).cloned();
        let handler = handler.ok_or_else(|| {
            let said = format!("no function is registered as `{}`", call.target);
            missing_feature(call.target).map_or_else(|| said.clone(), |reason| format!("{said}: {reason}"))
        })?;
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
                        declared_minor_to_major: self.values(rank),
                        address: *addresses.add(index),
                        is_read: self.size()? != 0,
                    })
                }
            })
            .collect()
    }
}

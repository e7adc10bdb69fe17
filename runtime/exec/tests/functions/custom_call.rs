//! Functions that a program calls by their names.

use std::ffi::c_void;

use exec::runtime::custom_call::{halo_custom_call, is_registered, register, register_c_function};
use exec::runtime::{RunContext, primitive_type};

unsafe extern "C" fn swap(out: *mut c_void, ins: *const *const c_void) {
    // SAFETY: called with two floats in and a tuple of two floats out.
    unsafe {
        let out = out.cast::<*mut f32>();
        **out = (*ins.add(1)).cast::<f32>().read();
        **out.add(1) = (*ins).cast::<f32>().read();
    }
}

/// An array that a call gets, which it reads.
pub struct Buffer {
    pub element_type: i64,
    pub dimensions: Vec<i64>,
    /// Its dimensions from minor to major.
    pub order: Vec<i64>,
    /// The order that the call declares, if another.
    pub declared_order: Option<Vec<i64>>,
    pub address: *mut u8,
}

/// Calls a function by its name.
///
/// # Safety
/// The buffers have the sizes that they say.
pub unsafe fn call(
    context: &RunContext,
    target: &str,
    configuration: &str,
    operands: &[Buffer],
    results: &[Buffer],
    is_tuple: bool,
) {
    let counts = [target.len(), configuration.len(), operands.len(), results.len(), usize::from(is_tuple)];
    let mut description = counts.map(|count| count as i64).to_vec();
    for buffer in operands.iter().chain(results) {
        description.extend([buffer.element_type, buffer.dimensions.len() as i64]);
        let declared = buffer.declared_order.as_ref().unwrap_or(&buffer.order);
        [&buffer.dimensions, &buffer.order, declared].into_iter().for_each(|values| description.extend(values));
        description.push(1);
    }
    let addresses = |buffers: &[Buffer]| buffers.iter().map(|buffer| buffer.address).collect::<Vec<_>>();
    let (inputs, outputs) = (addresses(operands), addresses(results));
    // SAFETY: as the caller says.
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

/// Calls a function with matrices of one float each.
fn call_with_floats(context: &RunContext, target: &str, configuration: &str, operands: &[f32], results: &mut [f32]) {
    let buffer = |address: *mut f32| Buffer {
        element_type: primitive_type::F32,
        dimensions: vec![1, 1],
        order: vec![1, 0],
        declared_order: None,
        address: address.cast(),
    };
    let operands: Vec<Buffer> = operands.iter().map(|value| buffer((&raw const *value).cast_mut())).collect();
    let results: Vec<Buffer> = results.iter_mut().map(|value| buffer(value)).collect();
    // SAFETY: as described.
    unsafe { call(context, target, configuration, &operands, &results, true) };
}

#[test]
fn c_functions_get_addresses() {
    let context = RunContext::new(None);
    // SAFETY: only called below.
    unsafe { register_c_function("test.swap", swap) };
    assert!(is_registered("test.swap"));
    let mut results = [0.0; 2];
    call_with_floats(&context, "test.swap", "", &[1.0, 2.0], &mut results);
    assert_eq!(context.failure(), None);
    assert_eq!(results, [2.0, 1.0]);
}

unsafe extern "C" fn copy_six(out: *mut c_void, ins: *const *const c_void) {
    // SAFETY: called with six floats in and out.
    unsafe { out.cast::<[f32; 6]>().write((*ins).cast::<[f32; 6]>().read()) };
}

#[test]
fn c_functions_get_declared_layouts() {
    let context = RunContext::new(None);
    // SAFETY: only called below.
    unsafe { register_c_function("test.copy_six", copy_six) };
    let (input, mut output) = ([1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [0f32; 6]);
    // A 2 by 3 operand declared column-major; the result is row-major.
    let operand = Buffer {
        element_type: primitive_type::F32,
        dimensions: vec![2, 3],
        order: vec![1, 0],
        declared_order: Some(vec![0, 1]),
        address: (&raw const input).cast_mut().cast(),
    };
    let result = Buffer {
        element_type: primitive_type::F32,
        dimensions: vec![3, 2],
        order: vec![1, 0],
        declared_order: None,
        address: (&raw mut output).cast(),
    };
    // SAFETY: as described.
    unsafe { call(&context, "test.copy_six", "", &[operand], &[result], false) };
    assert_eq!(context.failure(), None);
    assert_eq!(output, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
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
    call_with_floats(&context, "test.refuse", "{a = 1}", &[1.0], &mut [0.0]);
    assert_eq!(context.failure().as_deref(), Some("custom-call: test.refuse: not with {a = 1}"));
    call_with_floats(&context, "test.absent", "", &[], &mut []);
    assert!(context.failure().unwrap().contains("`test.absent`"));
}

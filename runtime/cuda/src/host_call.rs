//! Calls of the host's runtime, whose functions compiled code for CPUs calls too.

use std::ffi::c_void;

use exec::runtime::{RunContext, symbols, why_missing};
use hlo::launch_plan::{HostArgument, HostCall};

use crate::Error;

type Address = *const c_void;

/// Calls a function of the runtime.
///
/// # Safety
/// Operands and results must be live memory of the host, of the sizes that the call's descriptor says.
///
/// # Errors
/// [`Error::NoFunction`], and [`Error::Plan`] for arguments that the call does not have.
pub(crate) unsafe fn call(
    call: &HostCall,
    context: &RunContext<'_>,
    operands: &[u64],
    results: &[u64],
) -> Result<(), Error> {
    let symbol = symbols().iter().find(|(name, _)| *name == call.symbol);
    let missing = || Error::NoFunction { name: call.symbol.clone(), reason: why_missing(&call.symbol) };
    let (_, function) = *symbol.ok_or_else(missing)?;
    let mut words: Vec<Address> = vec![std::ptr::from_ref(context).cast(), call.descriptor.as_ptr().cast()];
    // Texts end with a zero byte, so that an empty one has an address, too.
    let texts: Vec<Vec<u8>> = call
        .arguments
        .iter()
        .map(|argument| match argument {
            HostArgument::Text(text) => text.bytes().chain([0]).collect(),
            _ => Vec::new(),
        })
        .collect();
    for (argument, text) in call.arguments.iter().zip(&texts) {
        let array = |arrays: &[u64], number: usize| {
            let array = arrays.get(number).map(|&address| address as Address);
            array.ok_or_else(|| Error::Plan(format!("`{}` has no array {number}", call.symbol)))
        };
        words.push(match argument {
            HostArgument::Operand(number) => array(operands, *number)?,
            HostArgument::Result(number) => array(results, *number)?,
            HostArgument::Operands => operands.as_ptr().cast(),
            HostArgument::Results => results.as_ptr().cast(),
            HostArgument::Nothing => std::ptr::null(),
            HostArgument::Text(_) => text.as_ptr().cast(),
        });
    }
    macro_rules! call_with {
        ($($word:ident)*) => {{
            let [$($word),*] = words[..] else { return Err(Error::Plan("arguments that changed their number".into())) };
            // SAFETY: functions of the runtime take addresses only, as many as the lowering passes; the caller answers for
            // the arrays.
            unsafe {
                let function: unsafe extern "C" fn($(call_with!(@type $word)),*) = std::mem::transmute(function);
                function($($word),*);
            }
        }};
        (@type $word:ident) => { Address };
    }
    match words.len() {
        2 => call_with!(a b),
        3 => call_with!(a b c),
        4 => call_with!(a b c d),
        5 => call_with!(a b c d e),
        6 => call_with!(a b c d e f),
        7 => call_with!(a b c d e f g),
        8 => call_with!(a b c d e f g h),
        count => return Err(Error::Plan(format!("`{}` with {count} arguments", call.symbol))),
    }
    Ok(())
}

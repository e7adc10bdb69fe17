//! Going through the steps of a launch plan.

use std::slice;

use hlo::buffers::{Buffer, Slice};
use hlo::launch_plan::{Boxes, CountedRound, HostCall, Launch, LaunchArgument, LaunchPlan, PlanStep, Round};

use crate::Error;

/// Addresses of a program's buffers in a device's memory.
#[derive(Clone, Debug, Default)]
pub struct PlanMemory {
    /// The arena.
    pub arena: u64,
    /// The leaves of the parameters.
    pub parameters: Vec<u64>,
    /// The constants.
    pub constants: Vec<u64>,
    /// The leaves of the result.
    pub outputs: Vec<u64>,
    /// What kernels get for the descriptions of boxes of arrays, in the order of [`LaunchPlan::boxes`].
    pub boxes: Vec<((Slice, Boxes), u64)>,
}

impl PlanMemory {
    /// The address of a place.
    ///
    /// # Errors
    /// [`Error::Plan`] for a place in a buffer that the program does not have.
    pub fn address(&self, slice: Slice) -> Result<u64, Error> {
        let base = match slice.buffer {
            Buffer::Arena => Some(&self.arena),
            Buffer::Parameter(number) => self.parameters.get(number as usize),
            Buffer::Constant(number) => self.constants.get(number as usize),
            Buffer::Output(number) => self.outputs.get(number as usize),
        };
        let base = base.ok_or_else(|| Error::Plan(format!("the program has no {}", slice.buffer)))?;
        Ok(base + slice.offset as u64)
    }

    /// What a kernel gets.
    fn argument(&self, argument: &LaunchArgument) -> Result<u64, Error> {
        match *argument {
            LaunchArgument::Array(slice) | LaunchArgument::Written(slice) => self.address(slice),
            LaunchArgument::Number(number) => Ok(number as u64),
            LaunchArgument::Boxes(slice, boxes) => {
                let known = self.boxes.iter().find(|(own, _)| *own == (slice, boxes));
                known.map(|(_, given)| *given).ok_or_else(|| Error::Plan(format!("nobody described boxes of {slice}")))
            }
        }
    }

    fn addresses(&self, slices: &[Slice]) -> Result<Vec<u64>, Error> {
        slices.iter().map(|&slice| self.address(slice)).collect()
    }
}

/// Who runs the steps. What it is asked for may be done later, but in order.
///
/// # Safety
/// Addresses are passed to it as they are: whoever calls answers for the memory behind them.
pub unsafe trait Device {
    /// Whether the step may be one of a stretch.
    fn takes(&self, step: &PlanStep) -> bool {
        is_of_device(step)
    }

    /// Runs steps that it takes, and that nothing else comes between.
    ///
    /// # Safety
    /// As for [`run`].
    ///
    /// # Errors
    /// Those of the steps.
    unsafe fn stretch(&mut self, steps: &[PlanStep], memory: &PlanMemory) -> Result<(), Error>
    where
        Self: Sized,
    {
        // SAFETY: the caller's promise.
        unsafe { run_each(steps, memory, self) }
    }

    /// Launches a kernel with its arguments, eight bytes each.
    ///
    /// # Safety
    /// Arrays among the arguments must be live memory of the device, as large as the launch says.
    ///
    /// # Errors
    /// For kernels that cannot be launched, or that fail.
    unsafe fn launch(&mut self, launch: &Launch, arguments: &[u64]) -> Result<(), Error>;

    /// Copies bytes within the device's memory.
    ///
    /// # Safety
    /// Both must be live memory of the device, and not overlap.
    ///
    /// # Errors
    /// For a copy that fails.
    unsafe fn copy(&mut self, from: u64, to: u64, bytes: usize) -> Result<(), Error>;

    /// Waits for everything before it, and reads some bytes of the device's memory.
    ///
    /// # Safety
    /// `from` must be live memory of the device.
    ///
    /// # Errors
    /// For a copy that fails, and for what failed before it.
    unsafe fn read(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Error>;

    /// Calls a function of the host with arrays in the device's memory.
    ///
    /// # Safety
    /// `operands` and `results` must be live memory of the device, of the sizes of the call.
    ///
    /// # Errors
    /// For functions that the host does not have, and copies that fail.
    unsafe fn host_call(&mut self, call: &HostCall, operands: &[u64], results: &[u64]) -> Result<(), Error>;
}

/// Runs a plan.
///
/// # Safety
/// The memory must be that of the plan's program: live memory of the device, as large as the plan's places say, to which
/// nothing else refers meanwhile.
///
/// # Errors
/// Those of the device, and [`Error::Plan`].
pub unsafe fn run(plan: &LaunchPlan, memory: &PlanMemory, device: &mut impl Device) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe { run_steps(&plan.steps, memory, device) }
}

/// # Safety
/// As for [`run`].
pub(crate) unsafe fn run_steps(
    mut steps: &[PlanStep],
    memory: &PlanMemory,
    device: &mut impl Device,
) -> Result<(), Error> {
    // SAFETY: everything below passes the caller's promise on.
    unsafe {
        while let Some((first, others)) = steps.split_first() {
            // Asked anew each time: what the device takes may change.
            let taken = steps.iter().take_while(|step| device.takes(step)).count();
            if taken > 0 {
                device.stretch(&steps[..taken], memory)?;
                steps = &steps[taken..];
                continue;
            }
            steps = others;
            match first {
                PlanStep::Launch(_) | PlanStep::Copy { .. } => device.stretch(slice::from_ref(first), memory)?,
                PlanStep::While(rounds) => run_while(rounds, memory, device)?,
                PlanStep::Repeat { times, rounds } => repeat(*times, rounds, memory, device)?,
                PlanStep::Switch { selector, branches } => {
                    let number = read_scalar(*selector, memory, device)?;
                    let last =
                        branches.len().checked_sub(1).ok_or_else(|| Error::Plan("a switch without ways".into()))?;
                    let chosen = match selector.size {
                        1 => usize::from(number == 0),
                        _ => usize::try_from(number).unwrap_or(last),
                    };
                    run_steps(&branches[chosen.min(last)], memory, device)?;
                }
                PlanStep::HostCall(call) => {
                    let (operands, results) = (memory.addresses(&call.operands)?, memory.addresses(&call.results)?);
                    device.host_call(call, &operands, &results)?;
                }
            }
        }
    }
    Ok(())
}

/// Whether a step is a launch or a copy.
pub(crate) fn is_of_device(step: &PlanStep) -> bool {
    matches!(step, PlanStep::Launch(_) | PlanStep::Copy { .. })
}

/// Runs launches and copies one by one.
///
/// # Safety
/// As for [`run`].
pub(crate) unsafe fn run_each(steps: &[PlanStep], memory: &PlanMemory, device: &mut impl Device) -> Result<(), Error> {
    // SAFETY: everything below passes the caller's promise on.
    unsafe {
        for step in steps {
            match step {
                PlanStep::Launch(launch) => {
                    let arguments = launch.arguments.iter().map(|argument| memory.argument(argument));
                    let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
                    device.launch(launch, &arguments)?;
                }
                PlanStep::Copy { from, to } => {
                    if from.size != to.size {
                        return Err(Error::Plan(format!("{from} is copied to {to}")));
                    }
                    device.copy(memory.address(*from)?, memory.address(*to)?, from.size)?;
                }
                PlanStep::While(_) | PlanStep::Repeat { .. } | PlanStep::Switch { .. } | PlanStep::HostCall(_) => {
                    return Err(Error::Plan("the host's part among the device's steps".into()));
                }
            }
        }
    }
    Ok(())
}

/// # Safety
/// As for [`run`].
unsafe fn run_while(rounds: &[Round], memory: &PlanMemory, device: &mut impl Device) -> Result<(), Error> {
    // SAFETY: everything below passes the caller's promise on.
    unsafe {
        for round in rounds.iter().cycle() {
            run_steps(&round.condition, memory, device)?;
            if read_scalar(round.predicate, memory, device)? == 0 {
                return run_steps(&round.leave, memory, device);
            }
            run_steps(&round.body, memory, device)?;
        }
    }
    Err(Error::Plan("a loop without a body".into()))
}

/// # Safety
/// As for [`run`].
unsafe fn repeat(
    times: u64,
    rounds: &[CountedRound],
    memory: &PlanMemory,
    device: &mut impl Device,
) -> Result<(), Error> {
    for (round, number) in rounds.iter().cycle().zip(0..=times) {
        let steps = if number < times { &round.body } else { &round.leave };
        // SAFETY: the caller's promise.
        unsafe { run_steps(steps, memory, device)? };
    }
    Ok(())
}

/// A `pred` or `s32`.
///
/// # Safety
/// As for [`run`].
unsafe fn read_scalar(place: Slice, memory: &PlanMemory, device: &mut impl Device) -> Result<i32, Error> {
    let mut bytes = [0; 4];
    let read = bytes.get_mut(..place.size).ok_or_else(|| Error::Plan(format!("{place} is no scalar")))?;
    // SAFETY: the caller's promise.
    unsafe { device.read(memory.address(place)?, read)? };
    Ok(i32::from_le_bytes(bytes))
}

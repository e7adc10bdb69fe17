//! Calls of compiled programs.
//!
//! A call fills a table with the addresses of run context, temporary memory, arguments, constants and results, and hands it
//! to the code. Table and temporary memory are kept for the next call, so that a call of
//! [`execute_into`](Executable::execute_into) allocates nothing once as many calls ran at once before.

use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, PoisonError};
use std::thread;

use cuda::DeviceMemory;
use exec::Buffer as PoolBuffer;
use exec::FlushSubnormals;
use exec::runtime::RunContext;
use exec::runtime::devices::{DeviceFailure, Devices};
use hlo::literal::{self, ALIGNMENT, AlignedBytes, ArrayLiteral, Literal};
use hlo::shape::{ArrayShape, Shape};

use crate::argument::{Arguments, ArrayRef, Leaf, shape_text};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::executable::{Code, Executable, ExecutableInner, Interface};
use crate::pending::Pending;
use crate::prepacked::Packed;
use crate::results::{Place, Results};

/// Why a result is not written over a buffer.
const OF_ANOTHER_DEVICE: &str = "it is in the memory of another device";

/// What a call needs for itself, kept between calls.
pub(crate) struct FrameMemory {
    arena: PoolBuffer,
    /// Context, arena, parameters, constants, outputs, and the panels of each parameter if any is packed; the arena and the constants
    /// are always in place.
    table: Vec<*mut c_void>,
    /// Whether each is an address of a GPU.
    on_device: Vec<bool>,
}

// SAFETY: between calls, the table's addresses are only kept; the arena has one owner.
unsafe impl Send for FrameMemory {}

/// A call being made; its memory goes back to the executable when it ends, however it ends.
struct Frame<'e> {
    executable: &'e ExecutableInner,
    memory: Option<FrameMemory>,
    /// The packed arguments of the call.
    packed: Vec<Arc<Packed>>,
}

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.executable.frames.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
        }
    }
}

impl ExecutableInner {
    fn frame(&self) -> Result<Frame<'_>, Error> {
        let kept = self.frames.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let memory = match kept {
            Some(memory) => memory,
            None => self.new_frame()?,
        };
        Ok(Frame { executable: self, memory: Some(memory), packed: Vec::new() })
    }

    fn new_frame(&self) -> Result<FrameMemory, Error> {
        let interface = &self.interface;
        // A GPU has its own.
        let arena_size = if self.is_of_gpu() { 0 } else { interface.arena_size };
        let arena = self.client.inner.memory.allocate(arena_size.max(ALIGNMENT))?;
        let mut table = vec![ptr::null_mut(), arena.as_ptr().cast()];
        table.resize(2 + interface.parameters.len(), ptr::null_mut());
        table.extend(interface.constants.iter().map(|constant| constant.bytes().as_ptr().cast_mut().cast::<c_void>()));
        table.resize(table.len() + interface.outputs.len(), ptr::null_mut());
        if !interface.packed.is_empty() {
            table.resize(table.len() + interface.parameters.len(), ptr::null_mut());
        }
        let on_device = vec![false; table.len()];
        Ok(FrameMemory { arena, table, on_device })
    }

    fn is_of_gpu(&self) -> bool {
        matches!(self.code, Code::Gpu(_))
    }

    /// The arrays of a call, as programs on a GPU take them.
    fn run_arrays(&self, memory: &FrameMemory) -> cuda::RunArrays {
        let place = |position: usize| match (memory.table[position] as u64, memory.on_device[position]) {
            (address, true) => cuda::ArrayPlace::Device(address),
            (address, false) => cuda::ArrayPlace::Host(address),
        };
        cuda::RunArrays {
            parameters: (2..2 + self.interface.parameters.len()).map(place).collect(),
            outputs: (self.first_output()..self.first_packed()).map(place).collect(),
        }
    }

    /// Counts what a GPU would transfer for a call.
    fn count_transfers(&self, memory: &FrameMemory) {
        let Some(DeviceMemory::Emulated(device)) = &self.client.inner.device else { return };
        let is_on_host = |position: usize| !memory.on_device[position];
        for (number, shape) in self.interface.parameters.iter().enumerate() {
            let size = shape.as_ref().filter(|_| is_on_host(2 + number)).map_or(0, ArrayShape::byte_size);
            device.transfers.add_to_device(size);
        }
        for (number, shape) in self.interface.outputs.iter().enumerate() {
            let size = shape.as_ref().filter(|_| is_on_host(self.first_output() + number));
            device.transfers.add_to_host(size.map_or(0, |shape| shape.byte_size()));
        }
    }

    /// The addresses of a table, as a launch plan has them.
    fn plan_memory(&self, table: &[*mut c_void]) -> cuda::PlanMemory {
        let addresses = |range: std::ops::Range<usize>| table[range].iter().map(|&address| address as u64).collect();
        let first_constant = 2 + self.interface.parameters.len();
        cuda::PlanMemory {
            arena: table[1] as u64,
            parameters: addresses(2..first_constant),
            constants: addresses(first_constant..self.first_output()),
            outputs: addresses(self.first_output()..self.first_packed()),
            boxes: Vec::new(),
        }
    }

    fn first_output(&self) -> usize {
        2 + self.interface.parameters.len() + self.interface.constants.len()
    }

    /// Position of the panels of the first parameter, where any are packed.
    fn first_packed(&self) -> usize {
        self.first_output() + self.interface.outputs.len()
    }

    /// "1", or "0.2" for leaf 2 of the tuple that is parameter 0.
    fn parameter_label(&self, leaf: usize) -> String {
        let mut first = 0;
        for (number, parameter) in self.interface.program_shape.parameters.iter().enumerate() {
            let count = parameter.leaves().len();
            if leaf < first + count {
                return match parameter {
                    Shape::Tuple(_) => format!("{number}.{}", leaf - first),
                    Shape::Array(_) | Shape::Token | Shape::Opaque => number.to_string(),
                };
            }
            first += count;
        }
        leaf.to_string()
    }
}

impl Frame<'_> {
    /// Puts an address into the table.
    fn set(&mut self, position: usize, address: *mut u8, is_on_device: bool) {
        let Some(memory) = &mut self.memory else { return };
        if let (Some(slot), Some(flag)) = (memory.table.get_mut(position), memory.on_device.get_mut(position)) {
            (*slot, *flag) = (address.cast(), is_on_device);
        }
    }

    /// Puts the addresses of an argument's panels into the table, if it is packed.
    fn set_packed(&mut self, number: usize, buffer: Option<&Buffer>) {
        let executable = self.executable;
        if !executable.prepacked.packs(number) {
            return;
        }
        let contents = buffer
            .filter(|buffer| buffer.is_on_host())
            .and_then(|buffer| Some((buffer.identity(), buffer.bytes().ok()?)));
        let client = &executable.client.inner;
        let packed =
            contents.and_then(|contents| executable.prepacked.of(number, contents, (&client.room, &client.memory)));
        let address = packed.as_ref().map_or(ptr::null_mut(), |packed| packed.address());
        self.set(executable.first_packed() + number, address, false);
        self.packed.extend(packed);
    }

    /// Puts the arguments' addresses into the table. Donated buffers that results are to be written over go to `taken`, by
    /// parameter leaf.
    fn set_arguments(
        &mut self,
        arguments: &dyn Arguments,
        mut taken: Option<&mut Vec<(usize, Buffer)>>,
    ) -> Result<(), Error> {
        let executable = self.executable;
        let expected = &executable.interface.parameters;
        let device = executable.client.inner.device.as_ref();
        let mut count = 0;
        let mut failure = None;
        arguments.for_each(&mut |leaf| {
            let number = count;
            count += 1;
            let Some(shape) = expected.get(number) else { return };
            let buffer = if let Leaf::Buffer(buffer) = leaf { Some(buffer) } else { None };
            let array = match leaf {
                Leaf::Array(array) => Ok(Some((array, false))),
                Leaf::Buffer(buffer) => buffer.array(device).map(Some),
                Leaf::Donated(donated) => {
                    let is_wanted = executable.interface.aliases.contains(&Some(number));
                    let kept = match taken.as_mut().filter(|_| is_wanted) {
                        None => Ok(()),
                        Some(taken) => donated.take(device).map(|buffer| {
                            taken.extend(buffer.map(|buffer| (number, buffer)));
                        }),
                    };
                    kept.and_then(|()| donated.buffer().array(device)).map(Some)
                }
                Leaf::Token => Ok(None),
                Leaf::Unusable(reason) => Err(reason),
            };
            match (array, shape) {
                (Ok(Some((array, is_on_device))), Some(shape)) if array.has_shape(shape) => {
                    self.set(2 + number, array.address.cast_mut(), is_on_device);
                    self.set_packed(number, buffer);
                }
                (Ok(_), None) => self.set(2 + number, ptr::null_mut(), false),
                (array, shape) if failure.is_none() => {
                    let text = |array: Option<(ArrayRef<'_>, bool)>| {
                        array.map_or_else(|| "token[]".to_string(), |(array, _)| shape_text(&array.shape()))
                    };
                    failure = Some((number, shape, array.map(text)));
                }
                _ => {}
            }
        });
        if count != expected.len() {
            return Err(Error::ArgumentCount { expected: expected.len(), found: count });
        }
        match failure {
            None => Ok(()),
            Some((number, shape, Ok(found))) => Err(Error::ArgumentShape {
                argument: executable.parameter_label(number),
                expected: shape.as_ref().map_or_else(|| "token[]".to_string(), shape_text),
                found,
            }),
            Some((number, _, Err(reason))) => {
                Err(Error::Argument { argument: executable.parameter_label(number), reason })
            }
        }
    }

    /// Puts the address of result `number` into the table. If the result takes the place of an argument, that becomes the
    /// argument's, with what the argument is; on a GPU the program sees to that.
    ///
    /// # Safety
    /// The arguments must be set and readable, and the address must be that of as much memory as the result needs, which
    /// nothing else refers to, of the executable's GPU if `is_on_device`.
    unsafe fn set_output(&mut self, number: usize, address: *mut u8, is_on_device: bool) {
        let executable = self.executable;
        self.set(executable.first_output() + number, address, is_on_device);
        let alias = executable.interface.aliases.get(number).copied().flatten();
        let Some(parameter) = alias.filter(|_| !executable.is_of_gpu()) else { return };
        let size = executable.interface.parameters.get(parameter).and_then(Option::as_ref).map(ArrayShape::byte_size);
        let argument =
            self.memory.as_ref().map(|memory| (memory.table[2 + parameter], memory.on_device[2 + parameter]));
        let (Some(size), Some((argument, was_on_device))) = (size, argument) else { return };
        if argument != address.cast() {
            // SAFETY: the argument has its parameter's shape, which is the result's; the caller answers for the rest.
            unsafe { ptr::copy_nonoverlapping(argument.cast::<u8>().cast_const(), address, size) };
            // A GPU copies the argument to its own memory, wherever the result goes then.
            if let (Some(DeviceMemory::Emulated(device)), false) = (&executable.client.inner.device, was_on_device) {
                device.transfers.add_to_device(size);
            }
            self.set(2 + parameter, address, true);
        }
    }

    /// Puts the addresses of places for all results into the table.
    ///
    /// # Safety
    /// As for [`Self::set_output`].
    unsafe fn set_results(&mut self, results: &mut dyn Results) -> Result<(), Error> {
        let expected = &self.executable.interface.outputs;
        let device = self.executable.client.inner.device.as_ref();
        let mut count = 0;
        let mut failure = None;
        results.for_each(&mut |place| {
            let number = count;
            count += 1;
            let Some(shape) = expected.get(number) else { return };
            match (place, shape) {
                (Place::Array(target), Some(shape)) if target.array.has_shape(shape) => {
                    // SAFETY: the place is writable by contract, and has the result's shape.
                    unsafe { self.set_output(number, target.address, false) };
                }
                (Place::Token | Place::Array(_) | Place::Buffer(_), None) => {}
                (Place::Buffer(buffer), Some(shape)) if is_same_array(buffer.shape(), shape) => {
                    match buffer.array(device) {
                        // SAFETY: as above; nothing else refers to the buffer's memory by contract.
                        Ok((array, true)) => unsafe { self.set_output(number, array.address.cast_mut(), true) },
                        _ => {
                            failure.get_or_insert(Error::Result { result: number, reason: OF_ANOTHER_DEVICE });
                        }
                    }
                }
                (Place::Unusable(reason), _) => {
                    failure.get_or_insert(Error::Result { result: number, reason });
                }
                (place, shape) => {
                    let found = match place {
                        Place::Array(target) => shape_text(&target.array.shape()),
                        Place::Buffer(buffer) => shape_text(buffer.shape()),
                        Place::Token | Place::Unusable(_) => "token[]".to_string(),
                    };
                    let expected = shape.as_ref().map_or_else(|| "token[]".to_string(), |shape| shape_text(shape));
                    failure.get_or_insert(Error::ResultShape { result: number, expected, found });
                }
            }
        });
        if count != expected.len() {
            return Err(Error::ResultCount { expected: expected.len(), found: count });
        }
        failure.map_or(Ok(()), Err)
    }

    /// Runs the program, alone or as one of several devices.
    ///
    /// # Safety
    /// Arguments and results must be set, and what they point to must live until this returns.
    unsafe fn run(&mut self, device: Option<(&Devices, usize)>) -> Result<(), Error> {
        let executable = self.executable;
        let state = &executable.states[device.map_or(0, |(_, number)| number)];
        let mut context = RunContext::with_state(executable.client.inner.threads.as_ref(), state);
        if let Some((devices, number)) = device {
            context = context.on_device(devices, number);
        }
        let Some(memory) = &mut self.memory else { return Ok(()) };
        memory.table[0] = (&raw const context).cast_mut().cast();
        memory.table[1] = memory.arena.as_ptr().cast();
        // SAFETY: the table holds the addresses in the order the code expects, each with the bytes its shape needs; code
        // writes only the arena and the results, which belong to this call.
        let run = unsafe {
            match &executable.code {
                Code::Host { entry, .. } => {
                    let _flush = executable.client.inner.flush_subnormals.then(FlushSubnormals::begin);
                    entry(memory.table.as_ptr());
                    Ok(())
                }
                Code::Gpu(program) => program.run(&executable.run_arrays(memory), &context),
                Code::Emulated(emulator) => {
                    executable.count_transfers(memory);
                    emulator.run(&executable.plan_memory(&memory.table), &context)
                }
            }
        };
        memory.table[0] = ptr::null_mut();
        run?;
        if !executable.interface.steps.is_empty() {
            state.profile.lock().unwrap_or_else(PoisonError::into_inner).extend(context.take_times());
        }
        context.failure().map_or(Ok(()), |failure| Err(Error::Failed(failure)))
    }
}

/// Memory that a call's results are written to, and what becomes of it.
trait ResultMemory: Sized + Send {
    type Value;

    /// Whether results may be donated arguments.
    const TAKES_DONATED: bool;

    /// Memory for the results of a call: of those that take the place of an argument, the one in `taken`, which has
    /// donated buffers by parameter leaf.
    ///
    /// # Safety
    /// The arguments must be set and live.
    unsafe fn reserve(frame: &mut Frame<'_>, taken: Vec<(usize, Buffer)>) -> Result<Self, Error>;

    /// The results, all of which have been written.
    fn into_value(self, interface: &Interface) -> Result<Self::Value, Error>;
}

/// Memory of literals; tokens have none.
struct LiteralResults(Vec<Option<AlignedBytes>>);

impl ResultMemory for LiteralResults {
    type Value = Literal;

    const TAKES_DONATED: bool = false;

    unsafe fn reserve(frame: &mut Frame<'_>, _: Vec<(usize, Buffer)>) -> Result<Self, Error> {
        let interface = &frame.executable.interface;
        let mut outputs = Vec::with_capacity(interface.outputs.len());
        for (number, shape) in interface.outputs.iter().enumerate() {
            // The program writes every byte.
            let mut bytes = shape.as_ref().map(|shape| literal::reserve(shape.byte_size())).transpose()?;
            if let Some(bytes) = &mut bytes {
                // SAFETY: the arguments are set and live; the bytes are new.
                unsafe { frame.set_output(number, bytes.as_mut_ptr(), false) };
            }
            outputs.push(bytes);
        }
        Ok(LiteralResults(outputs))
    }

    fn into_value(self, interface: &Interface) -> Result<Literal, Error> {
        let mut literals = Vec::with_capacity(self.0.len());
        for (shape, bytes) in interface.outputs.iter().zip(self.0) {
            literals.push(match (shape, bytes) {
                (Some(shape), Some(mut bytes)) => {
                    // SAFETY: the capacity is the shape's size, and the program has written every byte of it.
                    unsafe { bytes.set_len(shape.byte_size()) };
                    Literal::Array(ArrayLiteral::new(ArrayShape::clone(shape), bytes)?)
                }
                _ => Literal::Token,
            });
        }
        Ok(assemble(&interface.program_shape.result, &mut literals.into_iter()))
    }
}

/// Buffers in the memory of the client's devices.
struct BufferResults(Vec<Buffer>);

impl ResultMemory for BufferResults {
    type Value = Vec<Buffer>;

    const TAKES_DONATED: bool = true;

    unsafe fn reserve(frame: &mut Frame<'_>, mut taken: Vec<(usize, Buffer)>) -> Result<Self, Error> {
        let executable = frame.executable;
        let mut buffers = Vec::with_capacity(executable.interface.outputs.len());
        for (number, shape) in executable.interface.outputs.iter().enumerate() {
            let Some(shape) = shape else { continue };
            let alias = executable.interface.aliases.get(number).copied().flatten();
            let is_on_device = executable.client.inner.device.is_some();
            if let Some(place) = taken.iter().position(|&(parameter, _)| Some(parameter) == alias) {
                // The address that the table has for the argument.
                let buffer = taken.swap_remove(place).1;
                if let Ok((array, _)) = buffer.array(executable.client.inner.device.as_ref()) {
                    // SAFETY: the arguments are set and live; the memory is the argument's, which was given up.
                    unsafe { frame.set_output(number, array.address.cast_mut(), is_on_device) };
                }
                buffers.push(buffer);
                continue;
            }
            let (buffer, address) = executable.client.new_buffer(Arc::clone(shape))?;
            // SAFETY: the arguments are set and live; the memory is new.
            unsafe { frame.set_output(number, address, is_on_device) };
            buffers.push(buffer);
        }
        Ok(BufferResults(buffers))
    }

    fn into_value(self, _: &Interface) -> Result<Vec<Buffer>, Error> {
        Ok(self.0)
    }
}

/// A call of the program on one device, ready to run.
struct Call<'e, R> {
    frame: Frame<'e>,
    results: R,
}

impl<'e, R: ResultMemory> Call<'e, R> {
    fn new(executable: &'e ExecutableInner, arguments: &dyn Arguments) -> Result<Self, Error> {
        let mut frame = executable.frame()?;
        let mut taken = Vec::new();
        frame.set_arguments(arguments, R::TAKES_DONATED.then_some(&mut taken))?;
        // SAFETY: the arguments are set, and the caller has them.
        let results = unsafe { R::reserve(&mut frame, taken)? };
        Ok(Call { frame, results })
    }

    /// # Safety
    /// The arguments that the call was made with must still live.
    unsafe fn run(&mut self, device: Option<(&Devices, usize)>) -> Result<(), Error> {
        // SAFETY: the caller's promise; the results belong to the call.
        unsafe { self.frame.run(device) }
    }

    /// The results of a call that has run.
    fn finish(self) -> Result<R::Value, Error> {
        self.results.into_value(&self.frame.executable.interface)
    }
}

/// Whether two shapes are of arrays of the same elements, layouts apart.
fn is_same_array(one: &ArrayShape, other: &ArrayShape) -> bool {
    one.element_type == other.element_type && one.dimensions == other.dimensions
}

/// Tells the other devices when the run of one ends, however it ends.
struct Ending<'d> {
    devices: &'d Devices,
    number: usize,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.devices.end(self.number);
    }
}

impl Executable {
    /// Runs the program; the result is a literal of the program's result shape, in which bounded dynamic dimensions stand at
    /// their bounds: [`execute_buffers`](Self::execute_buffers) gives their sizes, too.
    ///
    /// Arguments may be literals, [`Buffer`]s, numbers, [`View`](crate::View)s of slices and `ndarray` arrays; none is
    /// copied. Several kinds go into a tuple: `execute((&literal, &buffer, 2f32))`. Values of the same kind may be a
    /// slice, an array or a `Vec`.
    ///
    /// # Errors
    /// For arguments of the wrong number or shape, and when memory runs out.
    pub fn execute(&self, arguments: impl Arguments) -> Result<Literal, Error> {
        let mut call = Call::<LiteralResults>::new(self.alone()?, &arguments)?;
        // SAFETY: `arguments` lives until the end of this function.
        unsafe { call.run(None)? };
        call.finish()
    }

    /// Runs the program on all of its devices at once, with arguments for each; the results are those of
    /// [`execute`](Self::execute), by device.
    ///
    /// Device `r * partitions + p` is partition `p` of replica `r`. One that fails ends the run of all: nobody waits for it.
    ///
    /// # Errors
    /// As for [`execute`](Self::execute); for arguments of another number of devices, and when devices wait for others that
    /// do not come within the client's time limit.
    pub fn execute_on<A: Arguments>(&self, arguments: &[A]) -> Result<Vec<Literal>, Error> {
        self.run_on::<LiteralResults, A>(arguments)
    }

    /// Runs the program on all of its devices at once; the results are those of
    /// [`execute_buffers`](Self::execute_buffers), by device.
    ///
    /// # Errors
    /// As for [`execute_on`](Self::execute_on).
    pub fn execute_buffers_on<A: Arguments>(&self, arguments: &[A]) -> Result<Vec<Vec<Buffer>>, Error> {
        self.run_on::<BufferResults, A>(arguments)
    }

    /// The program, if it runs on one device.
    fn alone(&self) -> Result<&ExecutableInner, Error> {
        if self.inner.interface.communicates {
            return Err(Error::DeviceCount { expected: self.devices(), found: 1 });
        }
        Ok(&self.inner)
    }

    fn run_on<R: ResultMemory, A: Arguments>(&self, arguments: &[A]) -> Result<Vec<R::Value>, Error> {
        let inner = &*self.inner;
        let (expected, found) = (self.devices(), arguments.len());
        if expected != found {
            return Err(Error::DeviceCount { expected, found });
        }
        if expected > inner.client.devices() {
            return Err(Error::TooFewDevices { needed: expected, devices: inner.client.devices() });
        }
        let on_device = |device: usize, error: Error| Error::OnDevice { device, error: Box::new(error) };
        let mut calls = Vec::with_capacity(found);
        for (number, arguments) in arguments.iter().enumerate() {
            calls.push(Call::<R>::new(inner, arguments).map_err(|error| on_device(number, error))?);
        }
        let count = inner.interface.devices;
        let time_limit = inner.client.inner.collective_time_limit;
        let devices = Devices::new(count.replicas as usize, count.partitions as usize, time_limit);
        thread::scope(|scope| {
            for (number, call) in calls.iter_mut().enumerate() {
                let devices = &devices;
                let run = move || {
                    let _ending = Ending { devices, number };
                    // SAFETY: `arguments` and `calls` live until the threads of the scope have ended.
                    if let Err(error) = unsafe { call.run(Some((devices, number))) } {
                        devices.fail(number, error.to_string());
                    }
                };
                let thread = thread::Builder::new().name(format!("halo-device-{number}")).spawn_scoped(scope, run);
                if let Err(error) = thread {
                    devices.fail(number, format!("could not start a thread: {error}"));
                    devices.end(number);
                }
            }
        });
        if let Some(DeviceFailure { device, message }) = devices.failure() {
            return Err(on_device(device, Error::Failed(message)));
        }
        calls.into_iter().map(Call::finish).collect()
    }

    /// Runs the program; the results' arrays are in the device's memory, tuples flattened and tokens left out. A result with
    /// bounded dynamic dimensions is there at its bounds, zero beyond its run-time sizes; those follow after all results, one
    /// `s32` scalar for each dynamic dimension.
    ///
    /// The memory comes from the client's pool, which reuses that of buffers no longer used: of large results, this is faster
    /// than [`execute`](Self::execute). An argument that is passed by value is given up, and its memory is in the pool again
    /// when the call returns. A result that takes the place of a [donated](Buffer::donate) argument is that buffer.
    ///
    /// # Errors
    /// As for [`execute`](Self::execute).
    pub fn execute_buffers(&self, arguments: impl Arguments) -> Result<Vec<Buffer>, Error> {
        let mut call = Call::<BufferResults>::new(self.alone()?, &arguments)?;
        // SAFETY: `arguments` lives until the end of this function.
        unsafe { call.run(None)? };
        call.finish()
    }

    /// Runs the program, writing the results where the caller says: buffers, literals, slices, `ndarray` arrays. Tuples of
    /// results are flattened.
    ///
    /// Nothing is allocated, but what the first calls of several threads at once need. If the call fails, the contents of
    /// `results` are unspecified.
    ///
    /// # Errors
    /// As for [`execute`](Self::execute); and for results of the wrong number or shape, and for buffers of which another
    /// clone is in use.
    pub fn execute_into(&self, arguments: impl Arguments, mut results: impl Results) -> Result<(), Error> {
        let mut frame = self.alone()?.frame()?;
        frame.set_arguments(&arguments, None)?;
        // SAFETY: the arguments are set and live, and results do not overlap anything by contract.
        unsafe { frame.set_results(&mut results)? };
        // SAFETY: `arguments` and `results` live until the end of this function.
        unsafe { frame.run(None) }
    }

    /// Starts a run and returns at once. Runs of this program that are started so happen one after another, in order;
    /// those of other programs do not wait for them.
    ///
    /// # Errors
    /// [`Error::Threads`]; those of the run come with its result.
    pub fn execute_async(&self, arguments: impl Arguments + Send + 'static) -> Result<Pending<Vec<Buffer>>, Error> {
        let executable = self.clone();
        // Whoever waits at the outfeed waits until this run is done.
        let writer = self.outfeed().writer();
        self.inner.queue.submit(move || {
            let result = executable.execute_buffers(arguments);
            drop(writer);
            result
        })
    }

    /// Buffers for the results of [`execute_into`](Self::execute_into), in order; tokens have none.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn result_buffers(&self) -> Result<Vec<Buffer>, Error> {
        let shapes = self.inner.interface.outputs.iter().flatten();
        shapes.map(|shape| Ok(self.inner.client.new_buffer(Arc::clone(shape))?.0)).collect()
    }
}

/// The value of a shape from its leaves in order.
fn assemble(shape: &Shape, leaves: &mut impl Iterator<Item = Literal>) -> Literal {
    match shape {
        Shape::Tuple(elements) => Literal::Tuple(elements.iter().map(|element| assemble(element, leaves)).collect()),
        Shape::Array(_) | Shape::Token | Shape::Opaque => leaves.next().unwrap_or(Literal::Token),
    }
}

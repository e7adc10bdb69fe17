//! What a run has on the device besides arrays that are there already.
//!
//! Graphs replay steps on the memory that they were recorded with, and so are boxes of arrays described. So each set of addresses
//! that a program runs with has its own: the arrays of a loop that uses its results as the next arguments are in two places in
//! turns.

use hlo::buffers::Slice;
use hlo::launch_plan::Boxes;

use crate::box_table::{self, DESCRIPTION_BYTES};
use crate::device_memory::rounded;
use crate::driver::{DevicePointer, Handle};
use crate::execution::PlanMemory;
use crate::gpu_program::{ArrayPlace, GpuProgram, RunArrays};
use crate::stream::Stream;
use crate::stream_device::Graphs;
use crate::{Error, Gpu};

/// Sets of addresses that are remembered.
const MOST_LAYOUTS: usize = 8;

/// Memory of one run, and of others after it.
pub(crate) struct RunMemory {
    /// All that it took.
    allocations: Vec<DevicePointer>,
    /// Where the arena is, and where arguments and results are that come from the host or go there, once there were such.
    arena: Option<DevicePointer>,
    parameters: Vec<Option<DevicePointer>>,
    outputs: Vec<Option<DevicePointer>>,
    /// The last one first.
    layouts: Vec<Layout>,
    stream: Stream,
}

/// A set of addresses, and what was made for them.
struct Layout {
    places: PlanMemory,
    /// Descriptions of boxes.
    table: Option<DevicePointer>,
    graphs: Graphs,
}

// SAFETY: graphs are the driver's, which is made for any number of threads; the plan's steps are their keys only.
unsafe impl Send for Layout {}

impl Layout {
    fn release(self, gpu: &Gpu, stream: Handle) {
        self.graphs.destroy(gpu, stream);
        // SAFETY: the runs that used it have ended.
        self.table.into_iter().for_each(|table| unsafe { gpu.free(table, stream) });
    }
}

impl RunMemory {
    /// Of a program that has run on no array yet.
    pub fn new(program: &GpuProgram) -> Result<Self, Error> {
        let sizes = &program.sizes;
        let transferred = sizes.parameters.iter().chain(&sizes.outputs).sum();
        Ok(RunMemory {
            allocations: Vec::new(),
            arena: None,
            parameters: vec![None; sizes.parameters.len()],
            outputs: vec![None; sizes.outputs.len()],
            layouts: Vec::new(),
            stream: Stream::new(&program.memory.gpu, transferred)?,
        })
    }

    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    pub fn release(self, gpu: &Gpu) {
        let RunMemory { allocations, layouts, stream, .. } = self;
        layouts.into_iter().for_each(|layout| layout.release(gpu, stream.handle));
        // SAFETY: the runs that used it have ended.
        allocations.into_iter().for_each(|address| unsafe { gpu.free(address, stream.handle) });
    }

    /// The addresses of a run on these arrays, with the graphs that were recorded on them, and the stream that it goes through.
    pub fn prepare(
        &mut self,
        program: &GpuProgram,
        arrays: &RunArrays,
    ) -> Result<(&PlanMemory, &mut Graphs, &mut Stream), Error> {
        let aliases = &program.sizes.aliases;
        let mut parameters: Vec<Option<DevicePointer>> = arrays.parameters.iter().map(|&own| on_device(own)).collect();
        for (alias, &result) in aliases.iter().zip(&arrays.outputs) {
            if let Some(parameter) = alias.and_then(|parameter| parameters.get_mut(parameter)) {
                *parameter = on_device(result);
            }
        }
        let alias_of = |result: usize| aliases.get(result).copied().flatten();
        let outputs = (0..).zip(&arrays.outputs);
        // What takes the place of a parameter needs none of its own.
        let outputs = outputs.map(|(number, &own)| alias_of(number).map_or(on_device(own), |_| Some(0)));
        let outputs: Vec<Option<DevicePointer>> = outputs.collect();
        self.provide(program, &parameters, &outputs)?;
        let chosen = |given: &[Option<DevicePointer>], own: &[Option<DevicePointer>]| {
            given.iter().zip(own).map(|(given, own)| given.or(*own).unwrap_or(0)).collect::<Vec<_>>()
        };
        let parameters = chosen(&parameters, &self.parameters);
        let mut outputs = chosen(&outputs, &self.outputs);
        for (number, output) in outputs.iter_mut().enumerate() {
            let parameter = alias_of(number).and_then(|parameter| parameters.get(parameter));
            *output = parameter.copied().unwrap_or(*output);
        }
        self.choose_layout(program, parameters, outputs)?;
        let layout = self.layouts.first_mut().ok_or_else(|| Error::Plan("a run without addresses".into()))?;
        Ok((&layout.places, &mut layout.graphs, &mut self.stream))
    }

    /// Puts the layout of these addresses first.
    fn choose_layout(
        &mut self,
        program: &GpuProgram,
        parameters: Vec<DevicePointer>,
        outputs: Vec<DevicePointer>,
    ) -> Result<(), Error> {
        let is_known = |layout: &Layout| layout.places.parameters == parameters && layout.places.outputs == outputs;
        if let Some(known) = self.layouts.iter().position(is_known) {
            self.layouts[..=known].rotate_right(1);
            return Ok(());
        }
        let (arena, constants) = (self.arena.unwrap_or(0), program.constants.clone());
        let mut places = PlanMemory { arena, parameters, constants, outputs, boxes: Vec::new() };
        let table = self.describe(program, &mut places)?;
        self.layouts.insert(0, Layout { places, table, graphs: Graphs::default() });
        if self.layouts.len() > MOST_LAYOUTS
            && let Some(oldest) = self.layouts.pop()
        {
            oldest.release(program.gpu(), self.stream.handle);
        }
        Ok(())
    }

    /// Takes memory for the arena, and for arrays that have no address yet.
    fn provide(
        &mut self,
        program: &GpuProgram,
        parameters: &[Option<DevicePointer>],
        outputs: &[Option<DevicePointer>],
    ) -> Result<(), Error> {
        let sizes = &program.sizes;
        let arena = (&mut self.arena, &None, sizes.arena);
        let parameters = self.parameters.iter_mut().zip(parameters).zip(&sizes.parameters);
        let outputs = self.outputs.iter_mut().zip(outputs).zip(&sizes.outputs);
        let arrays = parameters.chain(outputs).map(|((own, given), &size)| (own, given, size));
        let mut places = Places::default();
        let mut missing = Vec::new();
        for (own, given, size) in [arena].into_iter().chain(arrays) {
            if own.is_none() && given.is_none() {
                missing.push((own, places.place(size)));
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let start = program.memory.allocate(places.end, self.stream.handle)?;
        self.allocations.push(start);
        missing.into_iter().for_each(|(own, offset)| *own = Some(start + offset as u64));
        Ok(())
    }

    /// Makes the descriptions of boxes of arrays at their places, in a table.
    fn describe(&mut self, program: &GpuProgram, places: &mut PlanMemory) -> Result<Option<DevicePointer>, Error> {
        let described: Vec<(Slice, Boxes)> = program.plan.boxes();
        if described.is_empty() {
            return Ok(None);
        }
        let table = program.memory.allocate(described.len() * DESCRIPTION_BYTES, self.stream.handle)?;
        let mut fill = || {
            let mut descriptions = Vec::with_capacity(described.len());
            for (number, &(slice, boxes)) in (0..).zip(&described) {
                let description = box_table::describe(program.gpu(), places.address(slice)?, boxes)?;
                let address = table + number * DESCRIPTION_BYTES as u64;
                places.boxes.push(((slice, boxes), address));
                descriptions.push((description, address));
            }
            for (description, address) in &descriptions {
                let from = std::ptr::from_ref(description) as u64;
                // SAFETY: the table was made for them; they live until the stream is done, which is waited for.
                unsafe { self.stream.upload(from, *address, DESCRIPTION_BYTES)? };
            }
            self.stream.wait()
        };
        match fill() {
            Ok(()) => Ok(Some(table)),
            Err(error) => {
                // SAFETY: nothing but the stream has used it.
                unsafe { program.gpu().free(table, self.stream.handle) };
                Err(error)
            }
        }
    }
}

fn on_device(place: ArrayPlace) -> Option<DevicePointer> {
    match place {
        ArrayPlace::Device(address) => Some(address),
        ArrayPlace::Host(_) => None,
    }
}

/// Places for buffers, one behind the other.
#[derive(Default)]
pub(crate) struct Places {
    pub end: usize,
}

impl Places {
    pub fn place(&mut self, size: usize) -> usize {
        let start = self.end;
        self.end += rounded(size);
        start
    }
}

//! Compiled programs.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use exec::runtime::{ProgramState, RunContext};
use exec::{Buffer as PoolBuffer, Jit};
use hlo::graph::Computation;
use hlo::literal::{ALIGNMENT, AlignedBytes, ArrayLiteral, Literal};
use hlo::shape::{ArrayShape, ProgramShape, Shape};
use lowering_loops::program::ENTRY;
use passes::buffer_assignment::BufferAssignment;

use crate::client::Client;
use crate::error::Error;

/// Time that each phase of a compilation took.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompileTimings {
    /// Passes on hlo, fusion and buffer assignment.
    pub passes: Duration,
    /// Making the MLIR context.
    pub context: Duration,
    /// Emission of loops.
    pub loops: Duration,
    /// Loops to the llvm dialect.
    pub lower: Duration,
    /// The llvm dialect to LLVM IR.
    pub translate: Duration,
    /// LLVM's optimisation passes.
    pub optimize: Duration,
    /// Machine code.
    pub emit: Duration,
    /// Loading and linking.
    pub load: Duration,
}

impl CompileTimings {
    /// The phases with their names, in order.
    pub fn phases(&self) -> [(&'static str, Duration); 8] {
        [
            ("passes", self.passes),
            ("context", self.context),
            ("loops", self.loops),
            ("lower", self.lower),
            ("translate", self.translate),
            ("optimize", self.optimize),
            ("emit", self.emit),
            ("load", self.load),
        ]
    }

    /// All phases together.
    pub fn total(&self) -> Duration {
        self.phases().iter().map(|(_, time)| *time).sum()
    }
}

/// The compiled program: takes the table of buffer addresses.
type EntryFunction = unsafe extern "C" fn(*const *mut c_void);

/// A compiled program. Calls may come from several threads at once.
pub struct Executable {
    client: Client,
    // Holds the code that `entry` points to.
    _jit: Jit,
    entry: EntryFunction,
    program_shape: ProgramShape,
    assignment: BufferAssignment,
    constants: Vec<ArrayLiteral>,
    arenas: Mutex<Vec<PoolBuffer>>,
    state: ProgramState,
    pub(crate) timings: CompileTimings,
}

impl Executable {
    pub(crate) fn new(
        client: Client,
        jit: Jit,
        entry: &Computation,
        mut assignment: BufferAssignment,
        timings: CompileTimings,
    ) -> Result<Self, Error> {
        let address = jit.lookup(ENTRY)?;
        // SAFETY: the symbol is the entry function, which the lowering gives this type.
        let function = unsafe { std::mem::transmute::<*mut c_void, EntryFunction>(address.as_ptr()) };
        let mut constants = Vec::with_capacity(assignment.constants.len());
        for literal in std::mem::take(&mut assignment.constants) {
            match literal {
                Literal::Array(array) => constants.push(array),
                other => return Err(Error::Elided(other.shape().to_string())),
            }
        }
        let program_shape = entry.program_shape();
        declare_dimensions(&mut assignment.parameters, program_shape.parameters.iter());
        declare_dimensions(&mut assignment.outputs, std::iter::once(&program_shape.result));
        Ok(Executable {
            client,
            _jit: jit,
            entry: function,
            program_shape,
            assignment,
            constants,
            arenas: Mutex::new(Vec::new()),
            state: ProgramState::default(),
            timings,
        })
    }

    /// Shapes of the parameters and of the result.
    pub fn program_shape(&self) -> &ProgramShape {
        &self.program_shape
    }

    /// What compiling cost.
    pub fn timings(&self) -> &CompileTimings {
        &self.timings
    }

    /// What the program keeps from one execution to the next: its random numbers, and the queues of `infeed`, `outfeed`,
    /// `send` and `recv`.
    pub fn state(&self) -> &ProgramState {
        &self.state
    }

    /// Bytes of temporary memory that a call uses.
    pub fn temporary_bytes(&self) -> usize {
        self.assignment.arena_size
    }

    /// Runs the program on host values.
    ///
    /// # Errors
    /// For arguments of the wrong number or shape, and when memory runs out.
    pub fn execute(&self, arguments: &[Literal]) -> Result<Literal, Error> {
        let leaves: Vec<&Literal> = arguments.iter().flat_map(Literal::leaves).collect();
        self.check_arguments(&leaves)?;
        let mut outputs: Vec<AlignedBytes> =
            self.assignment.outputs.iter().map(|shape| uninitialised(shape.as_ref())).collect();
        let arena = self.take_arena()?;
        let mut table: Vec<*mut c_void> = Vec::with_capacity(2 + leaves.len() + self.constants.len() + outputs.len());
        let context = RunContext::with_state(self.client.inner.threads.as_ref(), &self.state);
        table.push((&raw const context).cast_mut().cast());
        table.push(arena.as_ptr().cast());
        table.extend(leaves.iter().map(|leaf| match leaf {
            Literal::Array(array) => array.bytes().as_ptr().cast_mut().cast(),
            Literal::Tuple(_) | Literal::Token | Literal::Elided(_) => std::ptr::null_mut(),
        }));
        table.extend(self.constants.iter().map(|constant| constant.bytes().as_ptr().cast_mut().cast::<c_void>()));
        table.extend(outputs.iter_mut().map(|output| output.as_mut_ptr().cast::<c_void>()));
        // SAFETY: the table holds the addresses in the order the code expects, each with the bytes its shape needs;
        // code writes only the arena and the outputs, which belong to this call.
        unsafe { (self.entry)(table.as_ptr()) };
        self.return_arena(arena);
        if let Some(failure) = context.failure() {
            return Err(Error::Failed(failure));
        }
        let mut literals = Vec::with_capacity(outputs.len());
        for (shape, bytes) in self.assignment.outputs.iter().zip(outputs) {
            literals.push(match shape {
                Some(shape) => ArrayLiteral::new(ArrayShape { layout: None, ..shape.clone() }, bytes)
                    .map(Literal::Array)
                    .map_err(|error| Error::Failed(error.to_string()))?,
                None => Literal::Token,
            });
        }
        Ok(assemble(&self.program_shape.result, &mut literals.into_iter()))
    }

    fn check_arguments(&self, leaves: &[&Literal]) -> Result<(), Error> {
        if leaves.len() != self.assignment.parameters.len() {
            return Err(Error::ArgumentCount { expected: self.assignment.parameters.len(), found: leaves.len() });
        }
        for (argument, (leaf, expected)) in leaves.iter().zip(&self.assignment.parameters).enumerate() {
            let Some(expected) = expected else { continue };
            let found = leaf.shape();
            let fits = matches!(leaf, Literal::Array(_)) && found.compatible(&Shape::Array(expected.clone()));
            if !fits {
                return Err(Error::ArgumentShape {
                    argument,
                    expected: Shape::Array(expected.clone()).without_layout().to_string(),
                    found: found.without_layout().to_string(),
                });
            }
        }
        Ok(())
    }

    fn take_arena(&self) -> Result<PoolBuffer, Error> {
        let kept = self.arenas.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match kept {
            Some(arena) => Ok(arena),
            None => Ok(self.client.inner.memory.allocate(self.assignment.arena_size.max(ALIGNMENT))?),
        }
    }

    fn return_arena(&self, arena: PoolBuffer) {
        self.arenas.lock().unwrap_or_else(PoisonError::into_inner).push(arena);
    }
}

/// Gives arrays, which compiled code has at their bounds, the dynamic dimensions that the program declares.
fn declare_dimensions<'s>(arrays: &mut [Option<ArrayShape>], declared: impl Iterator<Item = &'s Shape>) {
    for (array, declared) in arrays.iter_mut().zip(declared.flat_map(Shape::leaves)) {
        if let (Some(array), Some(declared)) = (array, declared.as_array()) {
            array.dynamic.clone_from(&declared.dynamic);
        }
    }
}

/// Bytes for an output; the program writes every one of them.
fn uninitialised(shape: Option<&ArrayShape>) -> AlignedBytes {
    let mut bytes = AlignedBytes::new(ALIGNMENT);
    bytes.resize(shape.map_or(0, ArrayShape::byte_size), 0);
    bytes
}

/// The value of a shape from its leaves in order.
fn assemble(shape: &Shape, leaves: &mut impl Iterator<Item = Literal>) -> Literal {
    match shape {
        Shape::Tuple(elements) => Literal::Tuple(elements.iter().map(|element| assemble(element, leaves)).collect()),
        Shape::Array(_) | Shape::Token | Shape::Opaque => leaves.next().unwrap_or(Literal::Token),
    }
}

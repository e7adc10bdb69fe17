//! What every part of the compiler must know of an operation, beside its rules: its facets.
//!
//! A definition states all of them; an operation that forgets one does not compile.

/// The kind of work an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpClass {
    /// Each output element depends on the operands' elements at the same index.
    Elementwise,
    /// Each output element is one operand element (or a padding value) at a computed index.
    Indexed,
    /// Reductions and windows.
    Reduction,
    /// Dot and convolution.
    Contraction,
    /// Control flow and calls.
    Control,
    /// Tuples, parameters, constants, tokens, barriers: no code of their own.
    Structural,
    /// Sorting, factorisations, FFT, custom calls: a runtime call.
    Library,
    /// Random numbers.
    Random,
    /// Collectives and channels.
    Collective,
}

/// What an operation is to loop fusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FusionRole {
    /// Not fused: its operands and its result are in memory.
    Opaque,
    /// Costs nothing when it is read at another index. Of constants only scalars: arrays are in memory.
    View,
    /// One element from the elements at the same index.
    Elementwise,
    /// Reads elements at run-time indices.
    Lookup,
    /// Combines many elements in loops of its own.
    Reduction,
    /// Writes part of an array in place. Where there are several arrays, it is not fused.
    Update,
}

/// How an operation becomes code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lowering {
    /// It needs none: its value is made of its operands' values, or comes from outside.
    None,
    /// By the loops of the fusion that it is in.
    Loops,
    /// By a kernel of its own.
    Kernel,
    /// By a call of the runtime.
    Call,
    /// By branches.
    Branches,
    /// Passes replace it by other operations before.
    Replaced,
}

/// Effects of an operation besides its result. One with an effect must be neither removed nor merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effects {
    /// None.
    None,
    /// Always one.
    Always,
    /// As its attributes say.
    Declared,
    /// Those of the function that it calls.
    OfCallee,
}

/// What an element of the result costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementCost {
    /// No arithmetic: it is moved, or its bits are read in another way.
    Free,
    /// No arithmetic, but a load at an index that itself is loaded.
    Lookup,
    /// One simple operation, cheaper than a load.
    Simple,
    /// One operation dearer than a load, as division is.
    Division,
    /// A function such as exponential; of integers, a few simple operations.
    Transcendental,
    /// What the nested computation costs, for each element that it is applied to.
    Applied,
    /// Not a matter of elements: contractions, library calls, control flow.
    Whole,
}

/// All facets of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facets {
    /// The kind of work it is.
    pub class: OpClass,
    /// What it is to loop fusion.
    pub fusion: FusionRole,
    /// How it becomes code.
    pub lowering: Lowering,
    /// Its effects.
    pub effects: Effects,
    /// What an element costs.
    pub cost: ElementCost,
}

impl Facets {
    /// These facets.
    pub const fn new(
        class: OpClass,
        fusion: FusionRole,
        lowering: Lowering,
        effects: Effects,
        cost: ElementCost,
    ) -> Self {
        Facets { class, fusion, lowering, effects, cost }
    }

    /// Those of an elementwise operation whose elements cost `cost`.
    pub const fn elementwise(cost: ElementCost) -> Self {
        Facets::new(OpClass::Elementwise, FusionRole::Elementwise, Lowering::Loops, Effects::None, cost)
    }
}

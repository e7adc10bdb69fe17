//! New instructions: what an operation is replaced by.
//!
//! A [`GraphBuilder`] holds the instructions of a computation that a pass writes: a block being rewritten
//! (`rewrite`), or a computation nested in a new operation. Operations made here have the
//! shapes that their operands give them, so that an expansion reads like its formula.

use std::cell::OnceCell;

use hlo::attributes::{Attributes, PaddingDimension, SliceDimension};
use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, Instruction, InstructionId, TextPosition};
use hlo::literal::{ArrayLiteral, Literal};
use hlo::op_kind::OpKind;
use hlo::ops::broadcast::BroadcastAttributes;
use hlo::ops::compare::CompareAttributes;
use hlo::ops::concatenate::ConcatenateAttributes;
use hlo::ops::constant::ConstantAttributes;
use hlo::ops::custom_call::CustomCallAttributes;
use hlo::ops::custom_call_targets::REQUIRE;
use hlo::ops::enumerations::{ComparisonDirection, ComparisonType};
use hlo::ops::gather::GatherAttributes;
use hlo::ops::get_tuple_element::GetTupleElementAttributes;
use hlo::ops::iota::IotaAttributes;
use hlo::ops::pad::PadAttributes;
use hlo::ops::parameter::ParameterAttributes;
use hlo::ops::reduce::ReduceAttributes;
use hlo::ops::reduce_window::ReduceWindowAttributes;
use hlo::ops::reverse::ReverseAttributes;
use hlo::ops::slice::SliceAttributes;
use hlo::ops::transpose::TransposeAttributes;
use hlo::ops::typed_attributes::Dimension;
use hlo::ops::{self, OpView};
use hlo::scalar::{Scalar, store};
use hlo::shape::{ArrayShape, ProgramShape, Shape};
use indexing::ceil_div;
use num_complex::Complex64;

use crate::registry::PassError;

/// A number for a constant of any element type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConstantNumber {
    /// An integer; `pred` is 0 or 1.
    Integer(i64),
    /// A float.
    Float(f64),
}

/// Instructions of a computation under construction.
#[derive(Debug, Default)]
pub struct GraphBuilder {
    instructions: Vec<Instruction>,
    parameters: Vec<InstructionId>,
    /// Name and place that new instructions get.
    name: String,
    position: Option<TextPosition>,
    count: usize,
    /// The first mistake of whoever uses the builder.
    mistake: OnceCell<String>,
}

impl GraphBuilder {
    /// An empty computation whose new instructions are named after `name`.
    pub fn new(name: &str) -> Self {
        GraphBuilder { name: name.to_string(), ..GraphBuilder::default() }
    }

    /// New instructions from now on stand for this one: they get its name, numbered, and its place in the text.
    pub fn stand_for(&mut self, instruction: &Instruction) {
        self.name.clone_from(&instruction.name);
        self.position = instruction.position;
        self.count = 0;
    }

    /// Number of instructions.
    pub(crate) fn len(&self) -> usize {
        self.instructions.len()
    }

    /// Takes the last instructions back, up to a number of them.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.instructions.truncate(len);
    }

    /// The instructions.
    ///
    /// # Errors
    /// [`PassError::Bug`] where the builder was used wrongly.
    pub(crate) fn into_instructions(self) -> Result<Vec<Instruction>, PassError> {
        match self.mistake.into_inner() {
            Some(mistake) => Err(PassError::bug(mistake)),
            None => Ok(self.instructions),
        }
    }

    /// [`Self::finish`].
    ///
    /// # Errors
    /// [`PassError::Bug`] where the builder was used wrongly.
    pub(crate) fn into_computation(
        mut self,
        name: String,
        root: InstructionId,
        annotations: Vec<(String, String)>,
    ) -> Result<Computation, PassError> {
        self.mistake.take().map_or(Ok(()), |mistake| Err(PassError::bug(mistake)))?;
        Ok(self.finish(name, root, annotations))
    }

    /// Ends the computation; parameters are those added, in order of their numbers.
    pub fn finish(self, name: String, root: InstructionId, annotations: Vec<(String, String)>) -> Computation {
        Computation { name, instructions: self.instructions, parameters: self.parameters, root, annotations }
    }

    /// Appends an instruction as it is.
    pub fn push(&mut self, instruction: Instruction) -> InstructionId {
        let id = InstructionId(self.instructions.len() as u32);
        if let Some(number) = instruction.parameter_number() {
            if self.parameters.len() <= number {
                self.parameters.resize(number + 1, id);
            }
            self.parameters[number] = id;
        }
        self.instructions.push(instruction);
        id
    }

    /// Appends an operation.
    pub fn add(
        &mut self,
        kind: OpKind,
        shape: impl Into<Shape>,
        operands: &[InstructionId],
        attributes: impl Into<Attributes>,
    ) -> InstructionId {
        self.add_with(kind, shape, operands, attributes, Vec::new())
    }

    /// Appends an operation with nested computations.
    pub fn add_with(
        &mut self,
        kind: OpKind,
        shape: impl Into<Shape>,
        operands: &[InstructionId],
        attributes: impl Into<Attributes>,
        computations: Vec<Computation>,
    ) -> InstructionId {
        self.count += 1;
        let name = format!("{}.{kind}.{}", self.name, self.count);
        let instruction = Instruction::new(name, kind, shape, operands).with_attributes(attributes);
        self.push(Instruction { computations, position: self.position, ..instruction })
    }

    /// Makes the program fail with a reason, unless a `pred` is true when it gets there.
    pub fn require(&mut self, condition: InstructionId, reason: &str) {
        let attributes =
            CustomCallAttributes { custom_call_has_side_effect: true, ..CustomCallAttributes::new(REQUIRE) };
        let call = self.add(OpKind::CustomCall, Shape::Tuple(Vec::new()), &[condition], attributes);
        self.instructions[call.index()].annotations.push(("backend_config".to_string(), format!("\"{reason}\"")));
    }

    /// The instruction at a position.
    pub fn get(&self, id: InstructionId) -> &Instruction {
        &self.instructions[id.index()]
    }

    /// The shape of a value.
    pub fn shape(&self, id: InstructionId) -> &Shape {
        &self.get(id).shape
    }

    /// The shape of an array, without layout. Asked of anything else, the builder gives no instructions in the end.
    pub fn array(&self, id: InstructionId) -> ArrayShape {
        match self.shape(id).as_array() {
            Some(array) => ArrayShape { layout: None, ..array.clone() },
            None => {
                self.mistake.get_or_init(|| format!("`{}` is no array", self.get(id).name));
                ArrayShape::new(ElementType::Pred, [])
            }
        }
    }

    /// Element type of an array.
    pub fn element_type(&self, id: InstructionId) -> ElementType {
        self.array(id).element_type
    }

    /// Whether an instruction is a scalar constant that is zero, not a negative one.
    pub(crate) fn is_zero(&self, id: InstructionId) -> bool {
        let literal = self.get(id).literal().and_then(Literal::as_array);
        literal.is_some_and(|own| own.shape().rank() == 0 && own.bytes().iter().all(|&byte| byte == 0))
    }

    /// Sizes of an array.
    pub fn dimensions(&self, id: InstructionId) -> Vec<i64> {
        self.array(id).dimensions
    }

    /// Appends an operation whose shape its operands and attributes give.
    fn infer(&mut self, kind: OpKind, operands: &[InstructionId], attributes: impl Into<Attributes>) -> InstructionId {
        self.infer_with(kind, operands, attributes, Vec::new())
    }

    /// As [`Self::add_with`], with the shape that operands and attributes give.
    pub(crate) fn infer_with(
        &mut self,
        kind: OpKind,
        operands: &[InstructionId],
        attributes: impl Into<Attributes>,
        computations: Vec<Computation>,
    ) -> InstructionId {
        let attributes = attributes.into();
        let signatures: Vec<ProgramShape> = computations.iter().map(Computation::program_shape).collect();
        let shapes: Vec<&Shape> = operands.iter().map(|&operand| self.shape(operand)).collect();
        let view = OpView { kind, operands: &shapes, attributes: &attributes, computations: &signatures, result: None };
        let shape = ops::infer_shape(&view).unwrap_or_else(|error| {
            self.mistake.get_or_init(|| error.to_string());
            Shape::Token
        });
        self.add_with(kind, shape, operands, attributes, computations)
    }

    /// Parameter number `number`.
    pub fn parameter(&mut self, number: usize, shape: impl Into<Shape>) -> InstructionId {
        let attributes = ParameterAttributes { parameter_number: number as i64 };
        self.add(OpKind::Parameter, shape, &[], attributes)
    }

    /// A constant.
    pub fn literal(&mut self, literal: Literal) -> InstructionId {
        let shape = literal.shape();
        self.add(OpKind::Constant, shape, &[], ConstantAttributes { value: &literal })
    }

    /// A scalar constant.
    pub fn scalar(&mut self, element_type: ElementType, value: ConstantNumber) -> InstructionId {
        let literal = scalar_literal(element_type, value);
        self.literal(literal)
    }

    /// A constant array of complex numbers.
    pub fn numbers(&mut self, shape: ArrayShape, values: &[Complex64]) -> InstructionId {
        let mut bytes = vec![0; shape.byte_size()];
        for (place, &value) in values.iter().enumerate() {
            store(shape.element_type, &mut bytes, place, Scalar::Complex(value));
        }
        self.literal(ArrayLiteral::from_bytes(shape, &bytes).map_or(Literal::Token, Literal::Array))
    }

    /// A constant of any shape: every element, of every array in it, is zero.
    pub fn zeros(&mut self, shape: &Shape) -> InstructionId {
        match shape {
            Shape::Array(array) => self.filled(array, ConstantNumber::Integer(0)),
            Shape::Tuple(elements) => {
                let elements: Vec<InstructionId> = elements.iter().map(|element| self.zeros(element)).collect();
                self.tuple(&elements)
            }
            Shape::Token | Shape::Opaque => self.add(OpKind::AfterAll, Shape::Token, &[], Attributes::new()),
        }
    }

    /// An array of one value.
    pub fn filled(&mut self, shape: &ArrayShape, value: ConstantNumber) -> InstructionId {
        let scalar = self.scalar(shape.element_type, value);
        self.broadcast(scalar, &shape.dimensions, &[])
    }

    /// An elementwise operation on one operand.
    pub fn unary(&mut self, kind: OpKind, operand: InstructionId) -> InstructionId {
        self.infer(kind, &[operand], Attributes::new())
    }

    /// The complex conjugates of numbers, which real ones are themselves.
    pub fn conjugate(&mut self, value: InstructionId) -> InstructionId {
        if !self.element_type(value).is_complex() {
            return value;
        }
        let [real, imaginary] = [OpKind::Real, OpKind::Imag].map(|kind| self.unary(kind, value));
        let imaginary = self.unary(OpKind::Negate, imaginary);
        self.binary(OpKind::Complex, real, imaginary)
    }

    /// An elementwise operation on two operands of one shape.
    pub fn binary(&mut self, kind: OpKind, lhs: InstructionId, rhs: InstructionId) -> InstructionId {
        self.infer(kind, &[lhs, rhs], Attributes::new())
    }

    /// A comparison.
    pub fn compare(&mut self, direction: ComparisonDirection, lhs: InstructionId, rhs: InstructionId) -> InstructionId {
        let attributes = CompareAttributes::new(direction);
        self.infer(OpKind::Compare, &[lhs, rhs], attributes)
    }

    /// `on_true` where the predicate holds, else `on_false`.
    pub fn select(
        &mut self,
        predicate: InstructionId,
        on_true: InstructionId,
        on_false: InstructionId,
    ) -> InstructionId {
        self.infer(OpKind::Select, &[predicate, on_true, on_false], Attributes::new())
    }

    /// [`Self::select`] between values of any shape, by a scalar predicate.
    pub fn choose(
        &mut self,
        predicate: InstructionId,
        on_true: InstructionId,
        on_false: InstructionId,
    ) -> InstructionId {
        match self.shape(on_true).clone() {
            Shape::Tuple(elements) => {
                let chosen: Vec<InstructionId> = (0..elements.len())
                    .map(|index| {
                        let (on_true, on_false) = (self.element(on_true, index), self.element(on_false, index));
                        self.choose(predicate, on_true, on_false)
                    })
                    .collect();
                self.tuple(&chosen)
            }
            Shape::Array(_) => self.select(predicate, on_true, on_false),
            Shape::Token | Shape::Opaque => on_true,
        }
    }

    /// Elements of an array of one dimension at given places; the result has the dimensions of the places.
    pub fn take(&mut self, operand: InstructionId, places: InstructionId) -> InstructionId {
        let dimensions = self.dimensions(places);
        let attributes = GatherAttributes::new(&[], &[0], &[0], dimensions.len() as i64, &[1]);
        self.infer(OpKind::Gather, &[operand, places], attributes)
    }

    /// The parts of an array at given places of its first dimension, which are a vector.
    pub fn take_rows(&mut self, operand: InstructionId, places: InstructionId) -> InstructionId {
        let mut sizes = self.dimensions(operand);
        let inner: Vec<i64> = (1..sizes.len() as i64).collect();
        if let Some(first) = sizes.first_mut() {
            *first = 1;
        }
        self.infer(OpKind::Gather, &[operand, places], GatherAttributes::new(&inner, &[0], &[0], 1, &sizes))
    }

    /// Elements of another type; the operand itself if it has that type.
    pub fn convert(&mut self, operand: InstructionId, element_type: ElementType) -> InstructionId {
        let shape = self.array(operand);
        if shape.element_type == element_type {
            return operand;
        }
        self.add(OpKind::Convert, shape.with_element_type(element_type), &[operand], Attributes::new())
    }

    /// Bits under another type of the same width.
    pub fn bitcast(&mut self, operand: InstructionId, element_type: ElementType) -> InstructionId {
        let shape = self.array(operand);
        if shape.element_type == element_type {
            return operand;
        }
        self.add(OpKind::BitcastConvert, shape.with_element_type(element_type), &[operand], Attributes::new())
    }

    /// Broadcast: dimension `i` of the operand becomes dimension `dimensions[i]` of the result.
    pub fn broadcast(&mut self, operand: InstructionId, sizes: &[i64], dimensions: &[i64]) -> InstructionId {
        let element_type = self.element_type(operand);
        if self.dimensions(operand) == sizes {
            return operand;
        }
        let attributes = BroadcastAttributes { dimensions };
        self.add(OpKind::Broadcast, ArrayShape::new(element_type, sizes), &[operand], attributes)
    }

    /// Broadcast: dimension `i` of the operand becomes dimension `places[i]` of the result, in any order.
    pub fn broadcast_in_dim(&mut self, operand: InstructionId, sizes: &[i64], places: &[i64]) -> InstructionId {
        let mut order: Vec<i64> = (0..places.len() as i64).collect();
        order.sort_by_key(|&d| places[d as usize]);
        let mut places = places.to_vec();
        places.sort_unstable();
        let ordered = self.transpose(operand, &order);
        self.broadcast(ordered, sizes, &places)
    }

    /// A number for each index along one dimension.
    pub fn iota(&mut self, element_type: ElementType, sizes: &[i64], dimension: usize) -> InstructionId {
        let attributes = IotaAttributes { iota_dimension: dimension as i64 };
        self.add(OpKind::Iota, ArrayShape::new(element_type, sizes), &[], attributes)
    }

    /// The same elements under other sizes; the operand itself if it has them.
    pub fn reshape(&mut self, operand: InstructionId, sizes: &[i64]) -> InstructionId {
        let shape = self.array(operand);
        if shape.dimensions == sizes && !shape.is_dynamic() {
            return operand;
        }
        self.add(OpKind::Reshape, ArrayShape::new(shape.element_type, sizes), &[operand], Attributes::new())
    }

    /// Dimensions in another order; the operand itself if that is theirs.
    pub fn transpose(&mut self, operand: InstructionId, permutation: &[i64]) -> InstructionId {
        if permutation.is_sorted() {
            return operand;
        }
        let attributes = TransposeAttributes { dimensions: permutation };
        self.infer(OpKind::Transpose, &[operand], attributes)
    }

    /// Dimensions that are in the order of a permutation in their first order: what [`Self::transpose`] did is taken back.
    pub fn transpose_back(&mut self, operand: InstructionId, permutation: &[i64]) -> InstructionId {
        let place = |dimension: i64| permutation.iter().position(|&own| own == dimension).map(|place| place as i64);
        let back: Vec<i64> = (0..permutation.len() as i64).filter_map(place).collect();
        self.transpose(operand, &back)
    }

    /// The elements of some dimensions in reverse.
    pub fn reverse(&mut self, operand: InstructionId, dimensions: &[i64]) -> InstructionId {
        self.infer(OpKind::Reverse, &[operand], ReverseAttributes { dimensions })
    }

    /// Elements `start..limit` of one dimension; the operand itself if it has no others.
    pub fn slice(&mut self, operand: InstructionId, dimension: usize, start: i64, limit: i64) -> InstructionId {
        self.slice_along(operand, &[(dimension, SliceDimension { start, limit, stride: 1 })])
    }

    /// Parts of some dimensions; the operand itself if these are all of it.
    pub fn slice_along(&mut self, operand: InstructionId, parts: &[(usize, SliceDimension)]) -> InstructionId {
        let shape = self.array(operand);
        let is_whole = |&(dimension, SliceDimension { start, limit, stride }): &(usize, SliceDimension)| {
            let size = ceil_div(limit - start, stride.max(1));
            start == 0 && shape.dimensions.get(dimension) == Some(&size)
        };
        if parts.iter().all(is_whole) && !shape.is_dynamic() {
            return operand;
        }
        let sizes = shape.dimensions.into_iter();
        let mut slices: Vec<SliceDimension> =
            sizes.map(|limit| SliceDimension { start: 0, limit, stride: 1 }).collect();
        parts.iter().for_each(|&(dimension, part)| slices[dimension] = part);
        self.infer(OpKind::Slice, &[operand], SliceAttributes { slice: &slices })
    }

    /// The elements of a vector, as scalars.
    pub fn elements_of(&mut self, vector: InstructionId) -> Vec<InstructionId> {
        let count = self.array(vector).element_count();
        let mut element = |place| {
            let part = self.slice(vector, 0, place, place + 1);
            self.reshape(part, &[])
        };
        (0..count).map(&mut element).collect()
    }

    /// Elements after the last one of a dimension.
    pub fn pad_high(
        &mut self,
        operand: InstructionId,
        value: InstructionId,
        dimension: usize,
        high: i64,
    ) -> InstructionId {
        self.pad(operand, value, dimension, [0, high])
    }

    /// Elements before the first one of a dimension and after the last one; negative numbers take some away.
    pub fn pad(
        &mut self,
        operand: InstructionId,
        value: InstructionId,
        dimension: usize,
        [low, high]: [i64; 2],
    ) -> InstructionId {
        let mut padding = vec![PaddingDimension { low: 0, high: 0, interior: 0 }; self.array(operand).rank()];
        padding[dimension] = PaddingDimension { low, high, interior: 0 };
        let attributes = PadAttributes { padding: &padding };
        self.infer(OpKind::Pad, &[operand, value], attributes)
    }

    /// Arrays one after another along a dimension.
    pub fn concatenate(&mut self, operands: &[InstructionId], dimension: usize) -> InstructionId {
        let attributes = ConcatenateAttributes { dimensions: Dimension(dimension as i64) };
        self.infer(OpKind::Concatenate, operands, attributes)
    }

    /// Combines the elements along some dimensions with one associative operation.
    pub fn reduce(
        &mut self,
        operand: InstructionId,
        initial: ConstantNumber,
        dimensions: &[i64],
        kind: OpKind,
    ) -> InstructionId {
        let element_type = self.element_type(operand);
        let initial = self.scalar(element_type, initial);
        let combiner = binary_computation(&format!("{}.{kind}", self.name), element_type, kind);
        let attributes = ReduceAttributes { dimensions };
        self.infer_with(OpKind::Reduce, &[operand, initial], attributes, vec![combiner])
    }

    /// What all elements up to each one along a dimension, or from it on, are with one associative operation.
    pub fn scan(
        &mut self,
        operand: InstructionId,
        initial: InstructionId,
        (along, is_reversed): (usize, bool),
        kind: OpKind,
    ) -> InstructionId {
        let combiner = binary_computation(&format!("{}.{kind}", self.name), self.element_type(operand), kind);
        let window = ReduceWindowAttributes::cumulative(along, &self.dimensions(operand), is_reversed);
        let attributes = ReduceWindowAttributes { window: &window };
        self.infer_with(OpKind::ReduceWindow, &[operand, initial], attributes, vec![combiner])
    }

    /// Values as a tuple.
    pub fn tuple(&mut self, elements: &[InstructionId]) -> InstructionId {
        let shape = Shape::Tuple(elements.iter().map(|&element| self.shape(element).clone()).collect());
        self.add(OpKind::Tuple, shape, elements, Attributes::new())
    }

    /// Element `index` of a tuple; the value itself where the tuple was made here.
    pub fn element(&mut self, tuple: InstructionId, index: usize) -> InstructionId {
        let instruction = self.get(tuple);
        if instruction.kind == OpKind::Tuple
            && let Some(&element) = instruction.operands.get(index)
        {
            return element;
        }
        let shape = instruction.shape.as_tuple().and_then(|elements| elements.get(index)).cloned();
        let shape = shape.unwrap_or_else(|| {
            self.mistake.get_or_init(|| format!("`{}` has no element {index}", self.get(tuple).name));
            Shape::Token
        });
        let attributes = GetTupleElementAttributes { index: index as i64 };
        self.add(OpKind::GetTupleElement, shape, &[tuple], attributes)
    }

    /// Appends the instructions of a computation with these arguments; returns its result.
    pub fn splice(&mut self, computation: &Computation, arguments: &[InstructionId]) -> InstructionId {
        let mut ids: Vec<InstructionId> = Vec::with_capacity(computation.instructions.len());
        for instruction in &computation.instructions {
            let argument = instruction.parameter_number().and_then(|number| arguments.get(number));
            let id = match argument {
                Some(&argument) => argument,
                None => {
                    let mut copy = instruction.clone();
                    copy.name = format!("{}.{}", self.name, copy.name);
                    for operand in &mut copy.operands {
                        *operand = ids[operand.index()];
                    }
                    self.push(copy)
                }
            };
            ids.push(id);
        }
        ids[computation.root.index()]
    }
}

/// The operation of its two parameters that a computation is.
pub fn binary_operation(computation: &Computation) -> Option<OpKind> {
    let root = computation.root();
    let (&[first, second], &[left, right]) = (&computation.parameters[..], &root.operands[..]) else { return None };
    ((left, right) == (first, second) || (left, right) == (second, first)).then_some(root.kind)
}

/// The computation of two scalars that is one operation.
pub fn binary_computation(name: &str, element_type: ElementType, kind: OpKind) -> Computation {
    let mut builder = GraphBuilder::new(name);
    let scalar = ArrayShape::new(element_type, []);
    let (lhs, rhs) = (builder.parameter(0, scalar.clone()), builder.parameter(1, scalar));
    let root = builder.binary(kind, lhs, rhs);
    builder.finish(format!("{name}.computation"), root, Vec::new())
}

/// Whether (a, b, place of a, place of b) are in descending, or ascending, order.
pub(crate) fn total_order(name: &str, element_type: ElementType, descending: bool) -> Computation {
    let mut builder = GraphBuilder::new(&format!("{name}.order"));
    let shapes = [element_type, element_type, ElementType::S32, ElementType::S32];
    let mut number = 0..;
    let [first, second, _, _] =
        shapes.map(|element_type| builder.parameter(number.next().unwrap_or_default(), Shape::scalar(element_type)));
    let is_float = element_type.class() == ElementClass::Float;
    let attributes = CompareAttributes {
        direction: if descending { ComparisonDirection::Gt } else { ComparisonDirection::Lt },
        r#type: is_float.then_some(ComparisonType::TotalOrder),
    };
    let shape = ArrayShape::new(ElementType::Pred, []);
    let root = builder.add(OpKind::Compare, shape, &[first, second], attributes);
    builder.finish(format!("{name}.order"), root, Vec::new())
}

/// A scalar of an element type with the value of a number, rounded.
pub fn scalar_literal(element_type: ElementType, value: ConstantNumber) -> Literal {
    let value = match (element_type.class(), value) {
        (ElementClass::Predicate, ConstantNumber::Integer(value)) => Scalar::Predicate(value != 0),
        (ElementClass::Predicate, ConstantNumber::Float(value)) => Scalar::Predicate(value != 0.0),
        (ElementClass::Signed, ConstantNumber::Integer(value)) => Scalar::Signed(value),
        (ElementClass::Unsigned, ConstantNumber::Integer(value)) => Scalar::Unsigned(value as u64),
        (ElementClass::Signed, ConstantNumber::Float(value)) => Scalar::Signed(value as i64),
        (ElementClass::Unsigned, ConstantNumber::Float(value)) => Scalar::Unsigned(value as u64),
        (ElementClass::Float, ConstantNumber::Integer(value)) => Scalar::Float(value as f64),
        (ElementClass::Float, ConstantNumber::Float(value)) => Scalar::Float(value),
        (ElementClass::Complex, ConstantNumber::Integer(value)) => Scalar::Complex((value as f64).into()),
        (ElementClass::Complex, ConstantNumber::Float(value)) => Scalar::Complex(value.into()),
    };
    let mut bytes = vec![0; element_type.byte_width()];
    store(element_type, &mut bytes, 0, value);
    ArrayLiteral::from_bytes(ArrayShape::new(element_type, []), &bytes).map_or(Literal::Token, Literal::Array)
}

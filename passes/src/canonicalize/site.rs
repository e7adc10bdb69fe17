//! What a rule sees: an operation, what defines its operands, and ways to create operations before it.

use std::cell::{OnceCell, RefCell};

use hlo::attributes::Attributes;
use hlo::dialect;
use hlo::element_type::ElementType;
use hlo::graph::Instruction;
use hlo::literal::{ArrayLiteral, Literal};
use hlo::op_kind::OpKind;
use hlo::ops::broadcast::BroadcastAttributes;
use hlo::ops::constant::ConstantAttributes;
use hlo::ops::typed_attributes::{OperationAttributes, typed};
use hlo::shape::{ArrayShape, Shape};
use melior::ir::operation::{Operation, OperationLike};
use melior::ir::{OperationRef, Type, TypeLike, Value, ValueLike};
use mlir_ext::operations;
use mlir_ext::rewrite::Rewriter;

/// What all sites share.
pub(super) struct Surroundings<'c, 'r> {
    rewriter: &'r Rewriter<'c, 'r>,
    created: RefCell<Vec<OperationRef<'c, 'r>>>,
}

impl<'c, 'r> Surroundings<'c, 'r> {
    pub(super) fn new(rewriter: &'r Rewriter<'c, 'r>) -> Self {
        Surroundings { rewriter, created: RefCell::new(Vec::new()) }
    }

    /// The operations that rules have created since the last call.
    pub(super) fn take_created(&self) -> Vec<OperationRef<'c, 'r>> {
        self.created.take()
    }
}

/// An operation to look at.
pub(super) struct Site<'s, 'c, 'r> {
    surroundings: &'s Surroundings<'c, 'r>,
    /// Where new operations go, and whose location they get.
    anchor: OperationRef<'c, 'r>,
    operation: OperationRef<'c, 'r>,
    pub(super) kind: OpKind,
    /// Type of the result.
    pub(super) r#type: Type<'c>,
    /// Shape of the result, if it is an array.
    array: Option<ArrayShape>,
    attributes: OnceCell<Option<Attributes>>,
}

impl<'s, 'c, 'r> Site<'s, 'c, 'r> {
    /// `None` where rules do not apply: dynamic dimensions, or an order that must stay (`control-predecessors`).
    pub(super) fn new(
        surroundings: &'s Surroundings<'c, 'r>,
        operation: OperationRef<'c, 'r>,
        kind: OpKind,
    ) -> Option<Self> {
        Self::anchored(surroundings, operation, operation, kind)
    }

    fn anchored(
        surroundings: &'s Surroundings<'c, 'r>,
        anchor: OperationRef<'c, 'r>,
        operation: OperationRef<'c, 'r>,
        kind: OpKind,
    ) -> Option<Self> {
        let result = operation.results().next()?;
        let r#type = result.r#type();
        // Elements of tuples are not looked at: with a tuple for each, time would be quadratic.
        let array = if r#type.is_tuple() { None } else { dialect::shape_of(r#type).ok()?.into_array() };
        let annotations = operations::attribute(&operation, "hlo.annotations").and_then(mlir_ext::attributes::entries);
        if array.as_ref().is_some_and(ArrayShape::is_dynamic)
            || annotations.is_some_and(|entries| entries.iter().any(|(key, _)| *key == "control-predecessors"))
        {
            return None;
        }
        Some(Site { surroundings, anchor, operation, kind, r#type, array, attributes: OnceCell::new() })
    }

    pub(super) fn operation(&self) -> OperationRef<'c, 'r> {
        self.operation
    }

    /// The result's shape, if it is an array.
    pub(super) fn array(&self) -> Option<&ArrayShape> {
        self.array.as_ref()
    }

    /// All attributes, to be handed on; `None` if they cannot be read.
    pub(super) fn all_attributes(&self) -> Option<&Attributes> {
        self.attributes.get_or_init(|| dialect::attributes_of(self.operation, self.kind).ok()).as_ref()
    }

    /// The attributes as those of the operation; `None` if they cannot be read.
    pub(super) fn attributes<'a, T: OperationAttributes<'a>>(&'a self) -> Option<T> {
        typed(self.kind, self.all_attributes()?).ok()
    }

    pub(super) fn operand(&self, index: usize) -> Option<Value<'c, 'r>> {
        self.operation.operand(index).ok()
    }

    pub(super) fn operand_count(&self) -> usize {
        self.operation.operand_count()
    }

    pub(super) fn operands(&self) -> impl Iterator<Item = Value<'c, 'r>> {
        self.operation.operands()
    }

    /// Shape of a static array operand.
    pub(super) fn operand_array(&self, index: usize) -> Option<ArrayShape> {
        match dialect::shape_of(self.operand(index)?.r#type()).ok()? {
            Shape::Array(array) if !array.is_dynamic() => Some(array),
            _ => None,
        }
    }

    /// Whether the result has several users.
    pub(super) fn is_used_often(&self) -> bool {
        self.operation.result(0).is_ok_and(|result| self.surroundings.rewriter.uses(result.into()).len() > 1)
    }

    /// Operand `index`, if it can stand for the result as it is.
    pub(super) fn operand_of_type(&self, index: usize) -> Option<Value<'c, 'r>> {
        self.operand(index).filter(|operand| operand.r#type() == self.r#type)
    }

    /// The operation that defines a value, if it is of a kind. New operations still go before this one.
    pub(super) fn definition(&self, value: Value<'c, 'r>, kind: OpKind) -> Option<Site<'s, 'c, 'r>> {
        self.any_definition(value).filter(|definition| definition.kind == kind)
    }

    /// The operation that defines a value.
    pub(super) fn any_definition(&self, value: Value<'c, 'r>) -> Option<Site<'s, 'c, 'r>> {
        let (operation, _) = self.surroundings.rewriter.definition(value)?;
        let kind = dialect::kind_of(operation)?;
        Site::anchored(self.surroundings, self.anchor, operation, kind)
    }

    /// [`Site::definition`] of operand `index`.
    pub(super) fn operand_definition(&self, index: usize, kind: OpKind) -> Option<Site<'s, 'c, 'r>> {
        self.definition(self.operand(index)?, kind)
    }

    /// Creates an operation before this one.
    pub(super) fn create(
        &self,
        kind: OpKind,
        operands: &[Value<'c, 'r>],
        attributes: impl Into<Attributes>,
        r#type: Type<'c>,
    ) -> Option<Value<'c, 'r>> {
        let (context, location) = (self.surroundings.rewriter.context(), self.anchor.location());
        self.insert(dialect::new_operation(context, kind, operands, &attributes.into(), r#type, location).ok()?)
    }

    /// Creates the operation of an instruction, with its computations, before this one.
    pub(super) fn create_instruction(
        &self,
        instruction: &Instruction,
        operands: &[Value<'c, 'r>],
    ) -> Option<Value<'c, 'r>> {
        let (context, location) = (self.surroundings.rewriter.context(), self.anchor.location());
        self.insert(dialect::instruction_to_operation(context, instruction, operands, location).ok()?)
    }

    fn insert(&self, operation: Operation<'c>) -> Option<Value<'c, 'r>> {
        let Surroundings { rewriter, created } = self.surroundings;
        let operation = rewriter.insert_before(operation, self.anchor).ok()?;
        created.borrow_mut().push(operation);
        operation.result(0).ok().map(Value::from)
    }

    /// Creates a constant before this operation.
    pub(super) fn create_constant(&self, literal: Literal, r#type: Type<'c>) -> Option<Value<'c, 'r>> {
        self.create(OpKind::Constant, &[], ConstantAttributes { value: &literal }, r#type)
    }

    /// Creates a broadcast of a scalar to an array type.
    pub(super) fn create_splat(&self, scalar: ArrayLiteral, r#type: Type<'c>) -> Option<Value<'c, 'r>> {
        let Shape::Array(array) = dialect::shape_of(r#type).ok()? else { return None };
        if array.rank() == 0 {
            return self.create_constant(scalar.into(), r#type);
        }
        let scalar_type = self.type_of(&Shape::scalar(scalar.element_type()))?;
        let scalar = self.create_constant(scalar.into(), scalar_type)?;
        self.create_broadcast(scalar, &[], r#type)
    }

    /// Creates a broadcast, in which the value's dimensions are these of an array type.
    pub(super) fn create_broadcast(
        &self,
        value: Value<'c, 'r>,
        dimensions: &[i64],
        r#type: Type<'c>,
    ) -> Option<Value<'c, 'r>> {
        self.create(OpKind::Broadcast, &[value], BroadcastAttributes { dimensions }, r#type)
    }

    /// A value as an array of some sizes: itself, what it is a reshape of, or a reshape.
    pub(super) fn create_reshape(&self, value: Value<'c, 'r>, sizes: &[i64]) -> Option<Value<'c, 'r>> {
        let array = dialect::shape_of(value.r#type()).ok()?.into_array()?;
        if array.dimensions == sizes {
            return Some(value);
        }
        let before = self.definition(value, OpKind::Reshape);
        if let Some(before) = before.filter(|own| own.operand_array(0).is_some_and(|array| array.dimensions == sizes)) {
            return before.operand(0);
        }
        let r#type = self.type_of(&ArrayShape::new(array.element_type, sizes).into())?;
        self.create(OpKind::Reshape, &[value], Attributes::new(), r#type)
    }

    /// Type of a shape.
    pub(super) fn type_of(&self, shape: &Shape) -> Option<Type<'c>> {
        dialect::type_of(self.surroundings.rewriter.context(), shape).ok()
    }

    /// The one value of all elements of a value that is a constant or a broadcast of a scalar one.
    pub(super) fn splat(&self, value: Value<'c, 'r>) -> Option<ArrayLiteral> {
        let mut definition = self.any_definition(value)?;
        if definition.kind == OpKind::Broadcast {
            definition = definition.operand_definition(0, OpKind::Constant)?;
            if definition.array()?.rank() > 0 {
                return None;
            }
        }
        if definition.kind != OpKind::Constant {
            return None;
        }
        dialect::splat_of(definition.operation)
    }

    /// Value of a constant of at most `limit` bytes.
    pub(super) fn small_literal(&self, value: Value<'c, 'r>, limit: usize) -> Option<Literal> {
        let definition = self.any_definition(value)?;
        let array = definition.array()?;
        if array.byte_size() > limit {
            return None;
        }
        match definition.kind {
            OpKind::Constant => match definition.attributes::<ConstantAttributes>()?.value {
                literal @ Literal::Array(_) => Some(literal.clone()),
                Literal::Tuple(_) | Literal::Token | Literal::Elided(_) => None,
            },
            OpKind::Broadcast => {
                let scalar = self.splat(value)?;
                let bytes = scalar.bytes().repeat(array.element_count() as usize);
                let shape = ArrayShape::new(array.element_type, array.dimensions.clone());
                ArrayLiteral::from_bytes(shape, &bytes).ok().map(Literal::Array)
            }
            _ => None,
        }
    }

    /// Whether all elements of an operand are this number.
    pub(super) fn is_number(&self, index: usize, number: Number) -> bool {
        self.operand(index)
            .and_then(|operand| self.splat(operand))
            .is_some_and(|splat| Number::of(&splat) == Some(number))
    }
}

/// Whether elements of arrays are in the order of their indices.
pub(super) fn has_default_layouts(arrays: &[&ArrayShape]) -> bool {
    arrays.iter().all(|array| array.layout.is_none())
}

/// The numbers that rules ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// 0, `false`, and positive zero.
    Zero,
    /// Negative zero.
    NegativeZero,
    /// 1 and `true`.
    One,
    /// All bits of an integer of more than one bit.
    AllOnes,
}

impl Number {
    /// Which of the numbers a scalar is.
    pub(super) fn of(scalar: &ArrayLiteral) -> Option<Self> {
        let bytes = scalar.bytes();
        let element = scalar.element_type();
        if element.is_complex() || !element.has_zero() {
            return None;
        }
        if bytes.iter().all(|&byte| byte == 0) {
            return Some(Number::Zero);
        }
        let one: &[u8] = match element {
            ElementType::F64 => &1f64.to_ne_bytes(),
            ElementType::F32 => &1f32.to_ne_bytes(),
            ElementType::F16 => &0x3c00u16.to_ne_bytes(),
            ElementType::BF16 => &0x3f80u16.to_ne_bytes(),
            _ if element.is_float() => return None,
            _ => &1u64.to_le_bytes()[..bytes.len()],
        };
        let is_minus_zero = bytes.split_last().is_some_and(|(high, low)| *high == 0x80 && low.iter().all(|&b| b == 0));
        if bytes == one {
            Some(Number::One)
        } else if element.is_float() && is_minus_zero {
            Some(Number::NegativeZero)
        } else if element.is_integer() && element.bit_width() >= 8 && bytes.iter().all(|&byte| byte == 0xff) {
            Some(Number::AllOnes)
        } else {
            None
        }
    }
}

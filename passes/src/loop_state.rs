//! The state of a `while`: the elements of the tuple that goes from iteration to iteration.

use std::collections::{BTreeSet, HashMap, HashSet};

use hlo::attributes::Attributes;
use hlo::dialect;
use hlo::element_type::ElementType;
use hlo::op_kind::OpKind;
use hlo::ops::compare::CompareAttributes;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::get_tuple_element::GetTupleElementAttributes;
use hlo::ops::typed_attributes::typed;
use hlo::scalar::load;
use melior::ir::operation::OperationLike;
use melior::ir::r#type::TupleType;
use melior::ir::{BlockLike, BlockRef, Location, OperationRef, Type, Value, ValueLike};
use mlir_ext::attributes::{self, value_key};
use mlir_ext::operations;
use mlir_ext::rewrite::Rewriter;

use crate::effects::has_effect;
use crate::registry::PassError;

/// A loop whose state is a tuple, and whose body makes a new tuple in each iteration.
pub(crate) struct LoopState<'c, 'r> {
    rewriter: &'r Rewriter<'c, 'r>,
    operation: OperationRef<'c, 'r>,
    condition: BlockRef<'c, 'r>,
    body: BlockRef<'c, 'r>,
    /// The tuple that the body makes.
    next: OperationRef<'c, 'r>,
    /// The elements of the state that the body hands on as they are.
    handed_on: HashSet<usize>,
}

/// The operation before which a new one goes, and where that was in the user's program.
type Place<'c, 'r> = (OperationRef<'c, 'r>, Location<'c>);

impl<'c, 'r> LoopState<'c, 'r> {
    /// The state of a `while`, if it is one that can be changed.
    ///
    /// # Errors
    /// Internal ones.
    pub(crate) fn of(
        rewriter: &'r Rewriter<'c, 'r>,
        operation: OperationRef<'c, 'r>,
    ) -> Result<Option<Self>, PassError> {
        let [condition, body] = [dialect::single_block(operation, 0)?, dialect::single_block(operation, 1)?];
        let next = body.terminator().and_then(|last| last.operands().next()).and_then(|root| rewriter.definition(root));
        let Some((next, _)) = next.filter(|(root, _)| dialect::kind_of(*root) == Some(OpKind::Tuple)) else {
            return Ok(None);
        };
        let mut state = LoopState { rewriter, operation, condition, body, next, handed_on: HashSet::new() };
        let is_handed_on = |(position, value): &(usize, Value<'c, 'r>)| state.position_of(*value) == Some(*position);
        state.handed_on = next.operands().enumerate().filter(is_handed_on).map(|(position, _)| position).collect();
        Ok(Some(state))
    }

    /// The `while`.
    pub(crate) fn operation(&self) -> OperationRef<'c, 'r> {
        self.operation
    }

    /// The block of its body.
    pub(crate) fn body(&self) -> BlockRef<'c, 'r> {
        self.body
    }

    /// The operation that makes the state of the next iteration.
    pub(crate) fn next(&self) -> OperationRef<'c, 'r> {
        self.next
    }

    /// The values in the body that are elements of the state which the body hands on as they are, with their positions.
    pub(crate) fn handed_on(&self) -> Vec<(Value<'c, 'r>, usize)> {
        let elements = self.elements(self.body).into_iter();
        elements.filter(|(_, position)| self.handed_on.contains(position)).collect()
    }

    /// Whether the loop is known to run at least once: its condition compares whole numbers that are constants before it.
    pub(crate) fn runs(&self) -> bool {
        let first_test = || {
            let root = self.condition.terminator()?.operand(0).ok()?;
            let (test, _) = self.rewriter.definition(root)?;
            if dialect::kind_of(test) != Some(OpKind::Compare) {
                return None;
            }
            let attributes = dialect::attributes_of(test, OpKind::Compare).ok()?;
            let CompareAttributes { direction, .. } = typed(OpKind::Compare, &attributes).ok()?;
            let [left, right] = [0, 1].map(|number| self.at_first(test.operand(number).ok()?));
            let (left, right) = (left?, right?);
            Some(match direction {
                ComparisonDirection::Eq => left == right,
                ComparisonDirection::Ne => left != right,
                ComparisonDirection::Lt => left < right,
                ComparisonDirection::Le => left <= right,
                ComparisonDirection::Gt => left > right,
                ComparisonDirection::Ge => left >= right,
            })
        };
        first_test() == Some(true)
    }

    /// The whole number that a value in the condition is before the first iteration, if that is known.
    fn at_first(&self, value: Value<'c, 'r>) -> Option<i64> {
        let (mut definition, _) = self.rewriter.definition(value)?;
        if let Some(position) = position(definition) {
            let argument = self.condition.argument(0).ok()?;
            if value_key(&definition.operand(0).ok()?) != value_key(&argument) {
                return None;
            }
            (definition, _) = self.rewriter.definition(self.initial(position)?)?;
        }
        if dialect::kind_of(definition) != Some(OpKind::Constant) {
            return None;
        }
        let number = dialect::splat_of(definition)?;
        let element_type = number.element_type();
        // Of `u64` some are no index.
        let is_whole = element_type.is_integer() && element_type != ElementType::U64;
        is_whole.then(|| load(element_type, number.bytes(), 0).to_index())
    }

    /// The value before the loop of an element of the state, made where there is none yet.
    ///
    /// # Errors
    /// Internal ones.
    pub(crate) fn before_the_loop(&self, element: Value<'c, 'r>) -> Result<Value<'c, 'r>, PassError> {
        let position = self.position_of(element).ok_or_else(|| PassError::bug("no element of the state"))?;
        match self.initial(position) {
            Some(value) => Ok(value),
            None => {
                self.element_of(self.operation.operand(0).map_err(bug)?, position, element.r#type(), self.operation)
            }
        }
    }

    /// Puts scalar constants in the place of elements that are these in each iteration; how many.
    ///
    /// # Errors
    /// Internal ones.
    pub(crate) fn replace_constants(&self) -> Result<u64, PassError> {
        let mut count = 0;
        for block in [self.condition, self.body] {
            for (element, position) in self.elements(block) {
                let Some(constant) = self.initial_constant(position) else { continue };
                // The body goes on handing it on.
                let is_handed_on = |user: OperationRef<'c, 'r>, operand| user == self.next && operand == position;
                let uses = self.rewriter.uses(element).into_iter();
                let uses: Vec<_> = uses.filter(|r#use| !is_handed_on(r#use.user, r#use.operand)).collect();
                let Some((definition, _)) = self.rewriter.definition(element).filter(|_| !uses.is_empty()) else {
                    continue;
                };
                let copy = self.rewriter.clone_before(constant, definition, |_| None)?;
                for r#use in uses {
                    self.rewriter.set_operand(r#use.user, r#use.operand, copy.result(0).map_err(bug)?.into())?;
                }
                count += 1;
            }
        }
        Ok(count)
    }

    /// Makes values elements of the state, which the body hands on: each a value in the body, and what it is before the loop.
    ///
    /// # Errors
    /// Internal ones.
    pub(crate) fn extend(&mut self, values: &[(Value<'c, 'r>, Value<'c, 'r>)]) -> Result<(), PassError> {
        let rewriter = self.rewriter;
        let before = self.operation.operand(0).map_err(bug)?;
        let old = before.r#type();
        let types = element_types(old)?;
        let mut initial = Vec::with_capacity(types.len() + values.len());
        for (position, &r#type) in types.iter().enumerate() {
            initial.push(match self.initial(position) {
                Some(value) => value,
                None => self.element_of(before, position, r#type, self.operation)?,
            });
        }
        initial.extend(values.iter().map(|(_, before)| *before));
        let first = |block: BlockRef<'c, 'r>| block.first_operation().ok_or_else(|| PassError::bug("an empty block"));
        let behind = self.operation.next_in_block().ok_or_else(|| PassError::bug("nothing is behind a loop"))?;
        let result: Value = self.operation.result(0).map_err(bug)?.into();
        let places = [
            (self.condition.argument(0).map_err(bug)?.into(), first(self.condition)?),
            (self.body.argument(0).map_err(bug)?.into(), first(self.body)?),
            (result, behind),
        ];
        let state = self.tuple(&initial, (self.operation, self.location_of(before)))?;
        rewriter.redirect_operand(self.operation, 0, state)?;
        for (value, anchor) in places {
            let whole: Vec<_> = rewriter.uses(value).into_iter().filter(|r#use| !is_element(r#use.user)).collect();
            rewriter.set_type(value, state.r#type());
            if whole.is_empty() {
                continue;
            }
            let elements = types.iter().enumerate();
            let elements: Result<Vec<_>, _> =
                elements.map(|(position, &r#type)| self.element_of(value, position, r#type, anchor)).collect();
            let narrow = self.tuple(&elements?, (anchor, self.operation.location()))?;
            for r#use in whole {
                rewriter.redirect_operand(r#use.user, r#use.operand, narrow)?;
            }
        }
        let argument: Value = self.body.argument(0).map_err(bug)?.into();
        let mut added = Vec::with_capacity(values.len());
        for (number, (value, _)) in values.iter().enumerate() {
            let position = types.len() + number;
            let element = self.element_of(argument, position, value.r#type(), first(self.body)?)?;
            if let Some((made, _)) = rewriter.definition(element) {
                rewriter.set_location(made, self.location_of(*value));
            }
            rewriter.replace_all_uses(*value, element)?;
            added.push(element);
            self.handed_on.insert(position);
        }
        let next: Vec<Value> = self.next.operands().chain(added).collect();
        let last = self.body.terminator().ok_or_else(|| PassError::bug("a body without an end"))?;
        let root = self.tuple(&next, (last, self.next.location()))?;
        rewriter.redirect_operand(last, 0, root)?;
        if let Some((root, _)) = rewriter.definition(root) {
            self.next = root;
        }
        Ok(())
    }

    /// Removes the elements that neither the condition nor what follows the loop needs, nor any element that these need; how
    /// many.
    ///
    /// # Errors
    /// Internal ones.
    pub(crate) fn remove_unused(&mut self) -> Result<u64, PassError> {
        let rewriter = self.rewriter;
        let result: Value = self.operation.result(0).map_err(bug)?.into();
        let arguments = [self.condition.argument(0).map_err(bug)?, self.body.argument(0).map_err(bug)?];
        let [condition, body]: [Value; 2] = arguments.map(Into::into);
        let states = [condition, body, result];
        let is_taken_apart = |state: Value<'c, 'r>| rewriter.uses(state).iter().all(|r#use| is_element(r#use.user));
        if !states.into_iter().all(is_taken_apart) || rewriter.uses(self.next.result(0).map_err(bug)?.into()).len() != 1
        {
            return Ok(0);
        }
        let needed = self.needed([condition, result]);
        let types = element_types(result.r#type())?;
        if needed.is_empty() || needed.len() == types.len() {
            return Ok(0);
        }
        // What only makes elements that go.
        let last = self.body.terminator().ok_or_else(|| PassError::bug("a body without an end"))?;
        let next: Vec<Value> = self.next.operands().collect();
        let root = self.tuple(&kept(&next, &needed), (last, self.next.location()))?;
        rewriter.redirect_operand(last, 0, root)?;
        for block in [self.condition, self.body] {
            let mut operations = Vec::new();
            let mut operation = block.first_operation();
            while let Some(own) = operation.filter(|own| *own != last) {
                operations.push(own);
                operation = own.next_in_block();
            }
            for own in operations.into_iter().rev() {
                let is_used = own.results().any(|value| rewriter.has_uses(Value::from(value)));
                if own.result_count() > 0 && !is_used && !has_effect(rewriter, own) {
                    rewriter.erase(own)?;
                }
            }
        }
        let before = self.operation.operand(0).map_err(bug)?;
        let initial: Result<Vec<Value>, PassError> = needed
            .iter()
            .map(|&position| match self.initial(position) {
                Some(value) => Ok(value),
                None => self.element_of(before, position, types[position], self.operation),
            })
            .collect();
        let state = self.tuple(&initial?, (self.operation, self.location_of(before)))?;
        rewriter.redirect_operand(self.operation, 0, state)?;
        for value in states {
            rewriter.set_type(value, state.r#type());
            for r#use in rewriter.uses(value) {
                match position(r#use.user).and_then(|old| needed.binary_search(&old).ok()) {
                    Some(new) => {
                        let r#type = r#use.user.result(0).map_err(bug)?.r#type();
                        let element = self.element_of(value, new, r#type, r#use.user)?;
                        rewriter.replace(r#use.user, element)?;
                    }
                    None => rewriter.erase(r#use.user)?,
                }
            }
        }
        if let Some((next, _)) = rewriter.definition(root) {
            self.next = next;
        }
        self.handed_on =
            needed.iter().enumerate().filter(|(_, old)| self.handed_on.contains(old)).map(|(new, _)| new).collect();
        Ok((types.len() - needed.len()) as u64)
    }

    /// The positions of the elements that are read of some states, that what has an effect reads, or that are needed to make
    /// these, in order.
    fn needed(&self, states: [Value<'c, 'r>; 2]) -> Vec<usize> {
        let read = states
            .into_iter()
            .flat_map(|state| self.rewriter.uses(state))
            .filter(|r#use| r#use.user.results().any(|element| self.rewriter.has_uses(Value::from(element))));
        let mut needed: BTreeSet<usize> = read.filter_map(|r#use| position(r#use.user)).collect();
        let mut operations = Vec::new();
        let mut operation = self.body.first_operation();
        while let Some(own) = operation.filter(|own| own.result_count() > 0) {
            operations.push((own, has_effect(self.rewriter, own)));
            operation = own.next_in_block();
        }
        let elements: HashMap<usize, usize> =
            self.elements(self.body).into_iter().map(|(value, position)| (value_key(&value), position)).collect();
        loop {
            let next = self.next.operands().enumerate().filter(|(position, _)| needed.contains(position));
            let mut values: HashSet<usize> = next.map(|(_, value)| value_key(&value)).collect();
            for (own, has_effect) in operations.iter().rev() {
                if *has_effect || own.results().any(|result| values.contains(&value_key(&result))) {
                    values.extend(own.operands().map(|operand| value_key(&operand)));
                }
            }
            let count = needed.len();
            needed.extend(elements.iter().filter(|(value, _)| values.contains(value)).map(|(_, position)| *position));
            if needed.len() == count {
                return needed.into_iter().collect();
            }
        }
    }

    /// The values in a block of the loop that are elements of the state, with their positions.
    fn elements(&self, block: BlockRef<'c, 'r>) -> Vec<(Value<'c, 'r>, usize)> {
        let Ok(argument) = block.argument(0) else { return Vec::new() };
        let users = self.rewriter.uses(argument.into()).into_iter().filter(|r#use| is_element(r#use.user));
        let elements = users.filter_map(|r#use| Some((Value::from(r#use.user.result(0).ok()?), position(r#use.user)?)));
        elements.collect()
    }

    /// The position of a value in the body that is an element of the state.
    fn position_of(&self, value: Value<'c, '_>) -> Option<usize> {
        let (element, _) = self.rewriter.definition(value)?;
        let argument = self.body.argument(0).ok()?;
        let is_of_state = element.operands().any(|tuple| value_key(&tuple) == value_key(&argument));
        position(element).filter(|_| is_of_state)
    }

    /// An element of the tuple before the loop, if an operation makes that.
    fn initial(&self, position: usize) -> Option<Value<'c, 'r>> {
        let (tuple, _) = self.rewriter.definition(self.operation.operand(0).ok()?)?;
        (dialect::kind_of(tuple) == Some(OpKind::Tuple)).then(|| tuple.operand(position).ok())?
    }

    /// The constant that an element is in each iteration.
    fn initial_constant(&self, position: usize) -> Option<OperationRef<'c, 'r>> {
        let value = self.initial(position).filter(|_| self.handed_on.contains(&position))?;
        let (constant, _) = self.rewriter.definition(value)?;
        let is_scalar = dialect::shape_of(value.r#type()).ok()?.as_array().is_some_and(|array| array.rank() == 0);
        (dialect::kind_of(constant) == Some(OpKind::Constant) && is_scalar).then_some(constant)
    }

    /// Makes an element of a tuple.
    fn element_of(
        &self,
        tuple: Value<'c, 'r>,
        position: usize,
        r#type: Type<'c>,
        anchor: OperationRef<'c, 'r>,
    ) -> Result<Value<'c, 'r>, PassError> {
        let attributes = GetTupleElementAttributes { index: position as i64 }.into();
        self.create(OpKind::GetTupleElement, &[tuple], attributes, r#type, (anchor, self.operation.location()))
    }

    fn tuple(&self, elements: &[Value<'c, 'r>], place: Place<'c, 'r>) -> Result<Value<'c, 'r>, PassError> {
        let types: Vec<Type> = elements.iter().map(|element| element.r#type()).collect();
        let r#type = TupleType::new(self.rewriter.context(), &types).into();
        self.create(OpKind::Tuple, elements, Attributes::new(), r#type, place)
    }

    /// Where the value was in the user's program.
    fn location_of(&self, value: Value<'c, 'r>) -> Location<'c> {
        self.rewriter.definition(value).map_or(self.operation.location(), |(operation, _)| operation.location())
    }

    fn create(
        &self,
        kind: OpKind,
        operands: &[Value<'c, 'r>],
        attributes: Attributes,
        r#type: Type<'c>,
        (anchor, location): Place<'c, 'r>,
    ) -> Result<Value<'c, 'r>, PassError> {
        let context = self.rewriter.context();
        let operation = dialect::new_operation(context, kind, operands, &attributes, r#type, location)?;
        Ok(self.rewriter.insert_before(operation, anchor)?.result(0).map_err(bug)?.into())
    }
}

/// Whether the operation is an element of a tuple.
fn is_element(operation: OperationRef<'_, '_>) -> bool {
    dialect::kind_of(operation) == Some(OpKind::GetTupleElement)
}

/// The position that the operation takes an element of a tuple from.
fn position(operation: OperationRef<'_, '_>) -> Option<usize> {
    let index = operations::attribute(&operation, "index").filter(|_| is_element(operation))?;
    usize::try_from(attributes::integer(index)?).ok()
}

/// The values at some positions.
fn kept<'c, 'r>(values: &[Value<'c, 'r>], positions: &[usize]) -> Vec<Value<'c, 'r>> {
    positions.iter().filter_map(|&position| values.get(position).copied()).collect()
}

/// The types of a tuple's elements.
fn element_types(tuple: Type<'_>) -> Result<Vec<Type<'_>>, PassError> {
    let tuple = TupleType::try_from(tuple).map_err(bug)?;
    (0..tuple.type_count()).map(|position| tuple.r#type(position).map_err(bug)).collect()
}

fn bug(error: impl std::fmt::Display) -> PassError {
    PassError::bug(error.to_string())
}

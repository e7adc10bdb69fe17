//! Control flow, calls, and what orders operations.

use super::{Draft, Function, HloBuilder, Op};
use crate::op_kind::OpKind;
use crate::ops::custom_call::CustomCallAttributes;
use crate::ops::enumerations::CustomCallApiVersion;
use crate::shape::Shape;

/// A branch of [`HloBuilder::conditional_indexed`]: its computation of one argument.
pub type Branch<'a> = &'a dyn for<'s> Fn(&'s HloBuilder, Op<'s>) -> Op<'s>;

/// What a custom call is besides its operands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CustomCallOptions {
    /// Name of the function.
    pub target: String,
    /// Text that the function gets.
    pub configuration: String,
    /// The function has an effect besides its result.
    pub has_side_effect: bool,
    /// The convention it is called by.
    pub api_version: Option<CustomCallApiVersion>,
}

impl HloBuilder {
    /// A function applied to arguments.
    #[track_caller]
    pub fn call<'b>(&'b self, function: &Function, arguments: &[Op<'b>]) -> Op<'b> {
        let mut draft = Draft::new(OpKind::Call, arguments);
        draft.callee = Some(function.clone());
        self.push(draft)
    }

    /// `body` applied to its own result, starting from `init`, as long as `condition` holds.
    #[track_caller]
    pub fn while_<'b>(
        &'b self,
        init: Op<'b>,
        condition: impl for<'s> FnOnce(&'s HloBuilder, Op<'s>) -> Op<'s>,
        body: impl for<'s> FnOnce(&'s HloBuilder, Op<'s>) -> Op<'s>,
    ) -> Op<'b> {
        let Some(shape) = self.shape_of(init) else { return self.nothing() };
        let state = [shape];
        let condition = self.nested("while_condition", &state, |b, values| condition(b, values[0]));
        let body = self.nested("while_body", &state, |b, values| body(b, values[0]));
        self.push(Draft::new(OpKind::While, &[init]).computation(condition).computation(body))
    }

    /// One of two computations, chosen by a scalar `pred`.
    #[track_caller]
    pub fn conditional<'b>(
        &'b self,
        predicate: Op<'b>,
        true_operand: Op<'b>,
        true_computation: impl for<'s> FnOnce(&'s HloBuilder, Op<'s>) -> Op<'s>,
        false_operand: Op<'b>,
        false_computation: impl for<'s> FnOnce(&'s HloBuilder, Op<'s>) -> Op<'s>,
    ) -> Op<'b> {
        let (Some(on_true), Some(on_false)) = (self.shape_of(true_operand), self.shape_of(false_operand)) else {
            return self.nothing();
        };
        let on_true = self.nested("on_true", &[on_true], |b, values| true_computation(b, values[0]));
        let on_false = self.nested("on_false", &[on_false], |b, values| false_computation(b, values[0]));
        self.push(
            Draft::new(OpKind::Conditional, &[predicate, true_operand, false_operand])
                .computation(on_true)
                .computation(on_false),
        )
    }

    /// One of several computations, chosen by an `s32` scalar; the last one where it is out of range.
    #[track_caller]
    pub fn conditional_indexed<'b>(&'b self, index: Op<'b>, branches: &[(Branch<'_>, Op<'b>)]) -> Op<'b> {
        let mut operands = vec![index];
        let mut computations = Vec::with_capacity(branches.len());
        for (number, (computation, operand)) in branches.iter().enumerate() {
            let Some(shape) = self.shape_of(*operand) else { return self.nothing() };
            operands.push(*operand);
            let name = format!("branch_{number}");
            computations.push(self.nested(&name, &[shape], |b, values| computation(b, values[0])));
        }
        let draft = Draft::new(OpKind::Conditional, &operands);
        self.push(computations.into_iter().fold(draft, Draft::computation))
    }

    /// The operand, or the values of a tuple, evaluated before whatever uses the result.
    #[track_caller]
    pub fn optimization_barrier<'b>(&'b self, operand: Op<'b>) -> Op<'b> {
        self.push(Draft::new(OpKind::OptimizationBarrier, &[operand]))
    }

    /// A token that is there after all the given ones.
    #[track_caller]
    pub fn after_all<'b>(&'b self, tokens: &[Op<'b>]) -> Op<'b> {
        self.push(Draft::new(OpKind::AfterAll, tokens))
    }

    /// The operand, available after a token.
    #[track_caller]
    pub fn add_dependency<'b>(&'b self, operand: Op<'b>, token: Op<'b>) -> Op<'b> {
        self.push(Draft::new(OpKind::AddDependency, &[operand, token]))
    }

    /// The result, of the given shape, of the function registered as `target`.
    #[track_caller]
    pub fn custom_call<'b>(&'b self, target: &str, operands: &[Op<'b>], shape: impl Into<Shape>) -> Op<'b> {
        let call = CustomCallOptions { target: target.to_string(), ..CustomCallOptions::default() };
        self.custom_call_with(&call, operands, shape)
    }

    /// [`custom_call`](Self::custom_call) with everything that may be said of one.
    #[track_caller]
    pub fn custom_call_with<'b>(
        &'b self,
        call: &CustomCallOptions,
        operands: &[Op<'b>],
        shape: impl Into<Shape>,
    ) -> Op<'b> {
        let attributes = CustomCallAttributes {
            custom_call_has_side_effect: call.has_side_effect,
            api_version: call.api_version,
            ..CustomCallAttributes::new(&call.target)
        };
        let mut draft = Draft::new(OpKind::CustomCall, operands).with_attributes(attributes).declared(shape);
        if !call.configuration.is_empty() {
            // The raw text of an HLO string: quoted, with what would end it escaped.
            let text = call.configuration.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            draft.annotations.push(("backend_config".to_string(), format!("\"{text}\"")));
        }
        self.push(draft)
    }
}

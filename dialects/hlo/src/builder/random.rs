//! Random numbers.

use super::{Draft, HloBuilder, Op};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::ops::enumerations::{RandomDistribution, RngAlgorithm};
use crate::ops::rng::RngAttributes;
use crate::ops::rng_bit_generator::RngBitGeneratorAttributes;
use crate::shape::{ArrayShape, Shape};

impl HloBuilder {
    /// Normal numbers of mean `mu` and standard deviation `sigma`.
    #[track_caller]
    pub fn rng_normal<'b>(&'b self, mu: Op<'b>, sigma: Op<'b>, shape: impl Into<Shape>) -> Op<'b> {
        self.rng(RandomDistribution::Normal, mu, sigma, shape.into())
    }

    /// Uniform numbers in `[a, b)`.
    #[track_caller]
    pub fn rng_uniform<'b>(&'b self, a: Op<'b>, b: Op<'b>, shape: impl Into<Shape>) -> Op<'b> {
        self.rng(RandomDistribution::Uniform, a, b, shape.into())
    }

    #[track_caller]
    fn rng<'b>(&'b self, distribution: RandomDistribution, a: Op<'b>, b: Op<'b>, shape: Shape) -> Op<'b> {
        self.push(Draft::new(OpKind::Rng, &[a, b]).with_attributes(RngAttributes { distribution }).declared(shape))
    }

    /// Ones with probability `mean` (an `f32` scalar), else zeros, as `u32` (2017's RngBernoulli).
    #[track_caller]
    pub fn rng_bernoulli<'b>(&'b self, mean: Op<'b>, shape: ArrayShape) -> Op<'b> {
        let method = "rng_bernoulli";
        let Some(array) = self.array_of(method, mean) else { return self.nothing() };
        if array.rank() != 0 || array.element_type != ElementType::F32 {
            return self.fail_rule(method, format!("takes an f32 scalar as mean, got {array}"));
        }
        if shape.element_type != ElementType::U32 {
            return self.fail_rule(method, format!("gives u32 numbers, got the shape {shape}"));
        }
        let (zero, one) = (self.constant(0f32), self.constant(1f32));
        let uniform = self.rng_uniform(zero, one, shape.with_element_type(ElementType::F32));
        self.convert_element_type(self.lt(uniform, mean, &[]), ElementType::U32)
    }

    /// Random bits of the given shape from a state: a tuple of the new state and the bits.
    #[track_caller]
    pub fn rng_bit_generator<'b>(&'b self, algorithm: RngAlgorithm, state: Op<'b>, shape: impl Into<Shape>) -> Op<'b> {
        let Some(old) = self.shape_of(state) else { return self.nothing() };
        self.push(
            Draft::new(OpKind::RngBitGenerator, &[state])
                .with_attributes(RngBitGeneratorAttributes { algorithm })
                .declared(Shape::Tuple(vec![old, shape.into()])),
        )
    }
}

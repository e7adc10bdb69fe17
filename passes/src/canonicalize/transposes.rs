//! Rules that move a transpose behind what is made of its elements, up to where it is of less or of nothing.
//!
//! What is computed of a transposed array is computed in the order in which its elements are in memory, and a reduction of it goes
//! along the dimension that this one was before.

use hlo::op_kind::OpKind;
use hlo::ops::broadcast::BroadcastAttributes;
use hlo::ops::iota::IotaAttributes;
use hlo::ops::reduce::ReduceAttributes;
use hlo::ops::transpose::TransposeAttributes;
use hlo::ops::{ElementCost, definition};
use hlo::shape::ArrayShape;
use melior::ir::Value;

use super::Rule;
use super::reshapes::{elementwise_result, made_of, reduced_along};
use super::site::Site;

pub(super) static RULES: &[Rule] = &[
    // f(transpose(x, p), transpose(y, p)) => transpose(f(x, y), p)
    Rule { name: "elementwise-of-transpose", kinds: &[], apply: elementwise_of_transpose },
    // reduce(transpose(x, p), y, d) => transpose(reduce(x, y, p[d]))
    Rule { name: "reduce-of-transpose", kinds: &[OpKind::Reduce], apply: reduce_of_transpose },
];

/// What a transpose of arrays of some sizes does.
struct Permutation {
    /// Sizes of the operand.
    sizes: Vec<i64>,
    /// The operand's dimension that each of the result is.
    dimensions: Vec<i64>,
}

impl Permutation {
    /// Of the first operand that is a transpose, of so many.
    fn of_operands(site: &Site<'_, '_, '_>, operands: usize) -> Option<Self> {
        (0..operands).find_map(|number| {
            let transpose = site.operand_definition(number, OpKind::Transpose)?;
            let TransposeAttributes { dimensions } = transpose.attributes()?;
            Some(Permutation { sizes: transpose.operand_array(0)?.dimensions, dimensions: dimensions.to_vec() })
        })
    }

    /// The operand's dimensions that some of the result are.
    fn before(&self, dimensions: &[i64]) -> Option<Vec<i64>> {
        dimensions.iter().map(|&own| self.dimensions.get(usize::try_from(own).ok()?).copied()).collect()
    }

    /// The array that an operand is the transpose of: of this transpose, or of one that moves nothing.
    fn operand_before<'c, 'r>(&self, site: &Site<'_, 'c, 'r>, number: usize) -> Option<Value<'c, 'r>> {
        let own = site.any_definition(site.operand(number)?)?;
        let before = || {
            let element_type = site.operand_array(number)?.element_type;
            site.type_of(&ArrayShape::new(element_type, &self.sizes[..]).into())
        };
        match own.kind {
            OpKind::Transpose => {
                let TransposeAttributes { dimensions } = own.attributes()?;
                own.operand(0).filter(|_| dimensions == self.dimensions)
            }
            OpKind::Broadcast => {
                let BroadcastAttributes { dimensions } = own.attributes()?;
                site.create_broadcast(own.operand(0)?, &self.before(dimensions)?, before()?)
            }
            OpKind::Iota => {
                let IotaAttributes { iota_dimension } = own.attributes()?;
                let iota_dimension = self.before(&[iota_dimension])?[0];
                site.create(OpKind::Iota, &[], IotaAttributes { iota_dimension }, before()?)
            }
            OpKind::Constant => site.create_splat(site.splat(site.operand(number)?)?, before()?),
            _ => None,
        }
    }
}

fn elementwise_of_transpose<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    elementwise_result(site)?;
    let permutation = Permutation::of_operands(site, site.operand_count())?;
    // Products are computed transposed as well.
    let is_of_product = |number: usize| {
        let transpose = site.operand_definition(number, OpKind::Transpose)?;
        transpose.operand_definition(0, OpKind::Dot)
    };
    if (0..site.operand_count()).any(|number| is_of_product(number).is_some()) {
        return None;
    }
    // Functions with several users are arrays in memory, which these read best in order.
    if definition(site.kind).cost == ElementCost::Transcendental && site.is_used_often() {
        return None;
    }
    let made = made_of(site, &permutation.sizes, |number| permutation.operand_before(site, number))?;
    let attributes = TransposeAttributes { dimensions: &permutation.dimensions };
    site.create(OpKind::Transpose, &[made], attributes, site.r#type)
}

fn reduce_of_transpose<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let ReduceAttributes { dimensions } = site.attributes()?;
    // Of several arrays the results are a tuple.
    if site.operand_count() != 2 || site.array()?.layout.is_some() {
        return None;
    }
    let permutation = Permutation::of_operands(site, 1)?;
    let mut reduced = permutation.before(dimensions)?;
    reduced.sort_unstable();
    let kept: Vec<i64> = (0..permutation.sizes.len() as i64).filter(|own| !reduced.contains(own)).collect();
    let sizes: Vec<i64> = kept.iter().map(|&own| permutation.sizes[own as usize]).collect();
    let made = reduced_along(site, permutation.operand_before(site, 0)?, &reduced, sizes)?;
    let order = permutation.dimensions.iter().filter_map(|own| kept.iter().position(|kept| kept == own));
    let order: Vec<i64> = order.map(|place| place as i64).collect();
    if order.is_sorted() {
        return Some(made);
    }
    site.create(OpKind::Transpose, &[made], TransposeAttributes { dimensions: &order }, site.r#type)
}

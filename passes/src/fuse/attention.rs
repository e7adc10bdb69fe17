//! Attention: a product of queries and keys, a softmax along the keys of what is made of its elements, and the product of
//! that with values.
//!
//! All of it is one fusion: its kernel needs nothing of the size of the scores in memory. What is found here is what
//! has such a kernel: one dimension of keys, one of the features that are contracted and one of those that values have, and
//! at least one of queries; the others are batches of any kind, in any order.

use std::collections::{BTreeMap, HashMap, HashSet};

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::broadcast::BroadcastAttributes;
use hlo::ops::dot::DotAttributes;
use hlo::ops::reduce::ReduceAttributes;
use hlo::ops::transpose::TransposeAttributes;
use hlo::ops::{Effects, FusionRole, definition};
use hlo::shape::ArrayShape;

use super::decisions::Refusal;
use super::roles::role;
use crate::graph_builder::{ConstantNumber, scalar_literal};

/// Instructions between the scores and their exponentials that are looked at, at most.
const MOST_VISITED: usize = 64;

/// Instructions behind a product that may store it, at most.
pub(super) const MOST_STEPS: usize = 8;

/// Features that kernels have room for, and their bytes at most.
pub(super) const FEATURES: std::ops::RangeInclusive<i64> = 16..=256;
const MOST_FEATURE_BYTES: i64 = 1536;

/// Bytes of scores from which on they leave the caches that their kernel would find them in.
pub(super) const LEAST_SCORES: usize = 1 << 18;

/// Rows of queries for each key, from which on a device is busy enough: rows are computed side by side, and keys one after
/// another.
pub(super) const ROWS_OF_KEY: u64 = 4;

/// Fewest queries, and keys, of a block.
pub(super) const FEWEST_QUERIES: i64 = 16;
pub(super) const FEWEST_KEYS: i64 = 32;

/// An instruction with its attributes.
pub type Read<'a> = dyn Fn(InstructionId) -> Option<Instruction> + 'a;

/// For each dimension of an array the one of another that it is; none of size 1.
pub(super) type Dimensions = Vec<Option<usize>>;

/// The parts of an attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attention {
    /// The product of queries and keys.
    pub scores: InstructionId,
    /// Which of its operands the keys are.
    pub keys: usize,
    /// What the softmax is of: its last dimension is that of the keys.
    pub logits: InstructionId,
    /// The dimension of the logits that goes through queries.
    pub query: usize,
    /// The exponentials of the logits, less the largest of their row.
    pub exponential: InstructionId,
    /// The exponentials divided by their sums; the exponentials themselves where the product is divided by these.
    pub quotient: InstructionId,
    /// The product of the weights and the values.
    pub product: InstructionId,
    /// Which of its operands the weights are.
    pub weights: usize,
    /// The product, as it is stored.
    pub result: InstructionId,
    /// All instructions that no other computation may need.
    pub members: Vec<InstructionId>,
}

impl Attention {
    /// The attention whose result an instruction is.
    pub fn of(computation: &Computation, result: InstructionId, read: &Read<'_>) -> Option<Attention> {
        let candidates = [0, 1];
        candidates
            .into_iter()
            .find_map(|weights| Finder { computation, read, members: Vec::new() }.find(result, weights))
    }

    /// The attention that a fused computation is.
    pub fn of_body(body: &Computation) -> Option<Attention> {
        let products = body.instructions.iter().filter(|instruction| instruction.kind == OpKind::Dot).count();
        if products != 2 {
            return None;
        }
        Attention::of(body, body.root, &|id| Some(body.get(id).clone()))
    }

    /// Why it is not computed as a whole, where a root and these users need what they do.
    fn refusal(&self, computation: &Computation, users: &[Vec<InstructionId>], least_rows: u64) -> Option<Refusal> {
        let members: HashSet<InstructionId> = self.members.iter().copied().collect();
        let is_read = |id: &InstructionId| {
            let is_outside = |user: &InstructionId| !members.contains(user);
            *id != self.result && (*id == computation.root || users[id.index()].iter().any(is_outside))
        };
        let bytes = computation.get(self.scores).shape.byte_size();
        let sizes = computation.get(self.logits).shape.as_array().map_or(&[][..], |logits| &logits.dimensions);
        let (rows, keys) = rows_and_keys(sizes, sizes.len().saturating_sub(1)).unwrap_or_default();
        if self.members.iter().any(is_read) {
            return Some(Refusal::AttentionIsRead);
        }
        if bytes < LEAST_SCORES {
            return Some(Refusal::FewScores { bytes });
        }
        (rows < least_rows.min(ROWS_OF_KEY * keys)).then_some(Refusal::FewRows { rows })
    }
}

/// The attentions of a computation by their results, and why others are none, by the product with the values.
pub(super) fn find(
    computation: &Computation,
    users: &[Vec<InstructionId>],
    read: &Read<'_>,
    least_rows: u64,
) -> (HashMap<InstructionId, Attention>, HashMap<InstructionId, Refusal>) {
    let users = &needed_users(computation, users);
    let (mut found, mut refused, mut taken) = (HashMap::new(), HashMap::new(), HashSet::new());
    let goes_on = |id: InstructionId| {
        let kind = computation.get(id).kind;
        moves(kind) || kind == OpKind::Divide
    };
    for (product, _) in computation.iter().filter(|(_, instruction)| instruction.kind == OpKind::Dot) {
        // What alone reads the product, and only divides, moves or rounds its elements, stores them.
        let (mut end, mut last) = (product, None);
        for _ in 0..MOST_STEPS {
            last = Attention::of(computation, end, read).or(last);
            match users[end.index()][..] {
                [user] if goes_on(user) && end != computation.root => end = user,
                _ => break,
            }
        }
        // The scores of one may be made of another.
        let Some(attention) = last.filter(|own| own.members.iter().all(|member| !taken.contains(member))) else {
            continue;
        };
        match attention.refusal(computation, users, least_rows) {
            Some(refusal) => drop(refused.insert(product, refusal)),
            None => {
                taken.extend(attention.members.iter().copied());
                found.insert(attention.result, attention);
            }
        }
    }
    (found, refused)
}

/// Whether an operation only moves or rounds elements.
pub(super) fn moves(kind: OpKind) -> bool {
    matches!(kind, OpKind::Convert | OpKind::Copy | OpKind::Transpose | OpKind::Reshape)
}

/// Rows of scores, of all batches, and keys of each: the dimension of a number.
pub(super) fn rows_and_keys(sizes: &[i64], key: usize) -> Option<(u64, u64)> {
    let keys = *sizes.get(key)?;
    let rows = sizes.iter().enumerate().filter(|(place, _)| *place != key).map(|(_, size)| size).product::<i64>();
    Some((rows.unsigned_abs(), keys.unsigned_abs()))
}

/// Of the users of each instruction those that a result or an effect needs: a product that was replaced by another may still
/// be there.
pub(super) fn needed_users(computation: &Computation, users: &[Vec<InstructionId>]) -> Vec<Vec<InstructionId>> {
    let mut needed: Vec<Vec<InstructionId>> = vec![Vec::new(); users.len()];
    let mut is_needed = vec![false; users.len()];
    for (id, instruction) in computation.iter().collect::<Vec<_>>().into_iter().rev() {
        needed[id.index()].extend(users[id.index()].iter().filter(|user| is_needed[user.index()]));
        let own = definition(instruction.kind);
        let may_act = own.effects != Effects::None || !own.computations.is_empty();
        let is_kept = !matches!(role(instruction), FusionRole::Reduction | FusionRole::Elementwise) && may_act;
        is_needed[id.index()] = is_kept || id == computation.root || !needed[id.index()].is_empty();
    }
    needed
}

/// A search for an attention.
pub(super) struct Finder<'a> {
    computation: &'a Computation,
    pub(super) read: &'a Read<'a>,
    pub(super) members: Vec<InstructionId>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(computation: &'a Computation, read: &'a Read<'a>) -> Self {
        Finder { computation, read, members: Vec::new() }
    }

    pub(super) fn shape(&self, id: InstructionId) -> Option<&'a ArrayShape> {
        self.computation.get(id).shape.as_array()
    }

    /// Whether an instruction's elements are made of others' one by one, or moved.
    pub(super) fn is_elementwise(&self, id: InstructionId) -> bool {
        role(self.computation.get(id)) == FusionRole::Elementwise || self.step(id).is_some()
    }

    fn kind(&self, id: InstructionId) -> OpKind {
        self.computation.get(id).kind
    }

    /// Notes a member of a kind.
    pub(super) fn take(&mut self, id: InstructionId, kind: OpKind) -> Option<Instruction> {
        if self.kind(id) != kind {
            return None;
        }
        self.members.push(id);
        (self.read)(id)
    }

    fn find(mut self, result: InstructionId, weights: usize) -> Option<Attention> {
        let Division { product, values, quotient, exponential, weight_dimensions } = self.division(result, weights)?;
        let power = self.take(exponential, OpKind::Exponential)?;
        let difference = self.unrounded(power.operands[0]);
        let difference = self.take(difference, OpKind::Subtract)?;
        let logits = self.unrounded(difference.operands[0]);
        let most = self.row_value(difference.operands[1], OpKind::Maximum)?;
        if !self.is_of_rows(&most, logits) {
            return None;
        }
        let (scores, score_dimensions) = self.scores_of(logits)?;
        let scored = (self.read)(scores)?;
        let [own, other]: [DotAttributes<'_>; 2] = [scored.attributes().ok()?, values.attributes().ok()?];
        let (scored, valued) = (self.roles(&scored, &own)?, self.roles(&values, &other)?);
        let last = score_dimensions.len() - 1;
        let key = score_dimensions[last]?;
        let keys = (0..2).find(|&operand| scored.free[operand].contains(&key))?;
        // By place in the result of the scores, and in the weights.
        let weight_of = |dimension: usize| weight_dimensions.iter().position(|own| *own == Some(dimension));
        let is_query = |&dimension: &usize| {
            let is_free = score_dimensions[dimension].is_some_and(|own| scored.free[1 - keys].contains(&own));
            is_free && weight_of(dimension).is_some_and(|own| valued.own_free[weights].contains(&own))
        };
        let sizes = &self.shape(logits)?.dimensions;
        let query = (0..last).filter(is_query).max_by_key(|&dimension| sizes[dimension])?;
        let contracts_keys = valued.contracted[weights][..] == [weight_of(last)?];
        let size_of = |product: &Instruction, operand: usize, dimensions: &[usize]| match dimensions {
            [dimension] => self.shape(product.operands[operand]).map(|shape| shape.dimensions[*dimension]),
            _ => None,
        };
        let width = self.shape(scores)?.element_type.byte_width() as i64;
        let fits =
            |size: Option<i64>| size.is_some_and(|size| FEATURES.contains(&size) && size * width <= MOST_FEATURE_BYTES);
        let are_values_stored = !self.members.contains(&values.operands[1 - weights]);
        let is_kernel = are_values_stored
            && scored.own_free[keys].len() == 1
            && contracts_keys
            && fits(size_of(self.computation.get(scores), 0, &scored.contracted[0]))
            && fits(size_of(&values, 1 - weights, &valued.own_free[1 - weights]))
            && sizes[query] >= FEWEST_QUERIES
            && sizes[last] >= FEWEST_KEYS
            && self.has_types([scores, product]);
        self.members.sort_unstable();
        self.members.dedup();
        let members = self.members;
        is_kernel.then_some(Attention {
            scores,
            keys,
            logits,
            query,
            exponential,
            quotient,
            product,
            weights,
            result,
            members,
        })
    }

    /// The division by sums of exponentials: of the weights, or of their product with the values.
    fn division(&mut self, result: InstructionId, weights: usize) -> Option<Division> {
        let (source, _) = self.moved_from(result)?;
        if self.kind(source) == OpKind::Dot {
            let values = self.take(source, OpKind::Dot)?;
            let (quotient, weight_dimensions) = self.moved_from(values.operands[weights])?;
            let division = self.take(quotient, OpKind::Divide)?;
            let exponential = self.unrounded(division.operands[0]);
            let sums = self.row_value(division.operands[1], OpKind::Add)?;
            let is_softmax = self.is_of_rows(&sums, exponential);
            return is_softmax.then_some(Division {
                product: source,
                values,
                quotient,
                exponential,
                weight_dimensions,
            });
        }
        let division = self.take(source, OpKind::Divide)?;
        let (product, of_product) = self.moved_from(division.operands[0])?;
        let values = self.take(product, OpKind::Dot)?;
        let (exponential, weight_dimensions) = self.moved_from(values.operands[weights])?;
        // Of each dimension of the product, but of the last one, which is that of the features, that of the exponentials.
        let roles = self.roles(&values, &values.attributes().ok()?)?;
        let of_weights = |place: usize| roles.places[weights].iter().position(|own| *own == Some(place));
        let mut own: Dimensions = of_product.iter().map(|place| of_weights((*place)?)).collect();
        *own.last_mut()? = roles.contracted[weights].first().copied();
        let (combined, rows) = self.row_value(division.operands[1], OpKind::Add)?;
        let (summed, of_rows) = self.moved_from(combined)?;
        let is_softmax = summed == exponential && composed(&rows, &of_rows) == composed(&own, &weight_dimensions);
        is_softmax.then_some(Division { product, values, quotient: exponential, exponential, weight_dimensions })
    }

    /// Whether both products are sums in one type of float, of floats that it holds.
    fn has_types(&self, products: [InstructionId; 2]) -> bool {
        use ElementType::{BF16, F16, F32, F64};
        let type_of = |id: InstructionId| self.shape(id).map(|shape| shape.element_type);
        let own = type_of(products[0]);
        let operands = products.into_iter().flat_map(|product| &self.computation.get(product).operands);
        let holds = |element_type: ElementType| match own {
            Some(F32) => matches!(element_type, F32 | BF16 | F16),
            Some(F64) => element_type == F64,
            _ => false,
        };
        own == type_of(products[1]) && operands.copied().all(|operand| type_of(operand).is_some_and(holds))
    }

    /// What an array is the elements of, moved, and which of its dimensions each one is.
    pub(super) fn moved_from(&mut self, array: InstructionId) -> Option<(InstructionId, Dimensions)> {
        let mut source = array;
        let mut dimensions = own_dimensions(self.shape(array)?);
        while let Some(step) = self.step(source) {
            self.members.push(source);
            source = self.computation.get(source).operands[0];
            dimensions = composed(&dimensions, &step);
        }
        Some((source, dimensions))
    }

    /// For each dimension of what only moves or rounds elements the one of its operand.
    fn step(&self, id: InstructionId) -> Option<Dimensions> {
        let operand = self.shape(*self.computation.get(id).operands.first()?)?;
        let shape = self.shape(id)?;
        match self.kind(id) {
            OpKind::Copy => Some(own_dimensions(shape)),
            OpKind::Convert if is_float(shape) && is_float(operand) => Some(own_dimensions(shape)),
            OpKind::Transpose => {
                let transpose = (self.read)(id)?;
                let TransposeAttributes { dimensions } = transpose.attributes().ok()?;
                Some(dimensions.iter().map(|&dimension| Some(dimension as usize)).collect())
            }
            OpKind::Reshape => reshaped(&shape.dimensions, &operand.dimensions),
            _ => None,
        }
    }

    /// What an array is a rounded copy of.
    fn unrounded(&mut self, array: InstructionId) -> InstructionId {
        let mut source = array;
        while matches!(self.kind(source), OpKind::Convert | OpKind::Copy) && self.step(source).is_some() {
            self.members.push(source);
            source = self.computation.get(source).operands[0];
        }
        source
    }

    /// The array of which the elements along one dimension are combined to the values that an array has all along its last
    /// one, and which of its dimensions each of the array's is: of the last one the combined one.
    fn row_value(&mut self, array: InstructionId, kind: OpKind) -> Option<(InstructionId, Dimensions)> {
        let mut source = array;
        let shape = self.shape(array)?;
        let mut dimensions = own_dimensions(shape);
        while self.kind(source) != OpKind::Reduce {
            let instruction = self.computation.get(source);
            let mut next = *instruction.operands.first()?;
            let step = match instruction.kind {
                OpKind::Broadcast => {
                    let broadcast = (self.read)(source)?;
                    let BroadcastAttributes { dimensions } = broadcast.attributes().ok()?;
                    let place = |own: usize| dimensions.iter().position(|&dimension| dimension as usize == own);
                    (0..self.shape(source)?.rank()).map(place).collect()
                }
                // A maximum of that and nothing.
                OpKind::Maximum if kind == OpKind::Maximum => {
                    let nothing = (0..2).find(|&number| self.is_identity(instruction.operands[number], kind))?;
                    next = instruction.operands[1 - nothing];
                    own_dimensions(self.shape(source)?)
                }
                _ => self.step(source)?,
            };
            self.members.push(source);
            source = next;
            dimensions = composed(&dimensions, &step);
        }
        let reduce = self.take(source, OpKind::Reduce)?;
        let ReduceAttributes { dimensions: reduced } = reduce.attributes().ok()?;
        let ([operand, initial], [reduced]) = (&reduce.operands[..], reduced) else { return None };
        let reduced = usize::try_from(*reduced).ok()?;
        let mut kept: Dimensions = (0..self.shape(*operand)?.rank()).map(Some).collect();
        kept.remove(reduced);
        let mut dimensions = composed(&dimensions, &kept);
        let last = dimensions.last_mut().filter(|last| last.is_none())?;
        *last = Some(reduced);
        (self.combines(&reduce, kind) && self.is_identity(*initial, kind)).then_some((*operand, dimensions))
    }

    /// Whether a reduction combines elements by one operation.
    pub(super) fn combines(&self, reduce: &Instruction, kind: OpKind) -> bool {
        reduce.computations.first().is_some_and(|computation| {
            let mut operands = computation.root().operands.clone();
            operands.sort_unstable();
            let mut parameters = computation.parameters.clone();
            parameters.sort_unstable();
            computation.root().kind == kind && operands == parameters
        })
    }

    /// Whether rows are those of an array along its last dimension.
    fn is_of_rows(&mut self, (combined, rows): &(InstructionId, Dimensions), array: InstructionId) -> bool {
        let (Some((own, of_array)), Some((other, of_rows))) = (self.moved_from(array), self.moved_from(*combined))
        else {
            return false;
        };
        own == other && composed(rows, &of_rows) == of_array
    }

    /// Whether all elements of an array are what changes nothing in combinations of a kind.
    pub(super) fn is_identity(&self, array: InstructionId, kind: OpKind) -> bool {
        let mut source = array;
        while let (OpKind::Broadcast | OpKind::Reshape, [operand, ..]) =
            (self.kind(source), &self.computation.get(source).operands[..])
        {
            source = *operand;
        }
        let is_scalar = self.kind(source) == OpKind::Constant && self.shape(source).is_some_and(|own| own.rank() == 0);
        let Some(constant) = is_scalar.then(|| (self.read)(source)).flatten() else { return false };
        let identity = ConstantNumber::Float(if kind == OpKind::Add { 0.0 } else { f64::NEG_INFINITY });
        let shape = self.shape(source);
        shape.is_some_and(|shape| constant.literal() == Some(&scalar_literal(shape.element_type, identity)))
    }

    /// The product whose elements logits are made of one by one, and the dimension of it that each of theirs is.
    fn scores_of(&mut self, logits: InstructionId) -> Option<(InstructionId, Dimensions)> {
        let mut products = self.products_of(logits)?;
        let last = products.pop();
        last.filter(|_| products.is_empty())
    }

    /// The products whose elements others are made of one by one, and the dimension of each that every one of theirs is.
    pub(super) fn products_of(&mut self, made: InstructionId) -> Option<Vec<(InstructionId, Dimensions)>> {
        let shape = self.shape(made)?;
        let count = shape.element_count();
        let mut pending: BTreeMap<InstructionId, Dimensions> = BTreeMap::from([(made, own_dimensions(shape))]);
        let mut visited: Vec<InstructionId> = Vec::new();
        let mut found: Vec<(InstructionId, Dimensions)> = Vec::new();
        while let Some((id, dimensions)) = pending.pop_last() {
            visited.push(id);
            if visited.len() > MOST_VISITED {
                return None;
            }
            let instruction = self.computation.get(id);
            if instruction.kind == OpKind::Dot {
                found.push((id, dimensions));
                continue;
            }
            let step = match self.step(id) {
                Some(step) => step,
                None if role(instruction) == FusionRole::Elementwise => own_dimensions(self.shape(id)?),
                None => continue,
            };
            let next = composed(&dimensions, &step);
            for &operand in &instruction.operands {
                if self.shape(operand)?.element_count() == count
                    && pending.insert(operand, next.clone()).is_some_and(|known| known != next)
                {
                    return None;
                }
            }
        }
        let mut reaches: HashSet<InstructionId> = found.iter().map(|(product, _)| *product).collect();
        for &id in visited.iter().rev() {
            if self.computation.get(id).operands.iter().any(|operand| reaches.contains(operand)) {
                reaches.insert(id);
            }
        }
        self.members.extend(visited.into_iter().filter(|id| reaches.contains(id)));
        Some(found)
    }

    /// The dimensions of a product that are not of size 1, by what they are to it.
    pub(super) fn roles(&self, product: &Instruction, attributes: &DotAttributes<'_>) -> Option<Roles> {
        let dims = [
            (attributes.lhs_batch_dims, attributes.lhs_contracting_dims),
            (attributes.rhs_batch_dims, attributes.rhs_contracting_dims),
        ];
        let mut roles = Roles::default();
        let mut place = attributes.lhs_batch_dims.len();
        for (operand, (batch, contracting)) in dims.into_iter().enumerate() {
            let sizes = &self.shape(product.operands[operand])?.dimensions;
            for (dimension, &size) in sizes.iter().enumerate() {
                let own = dimension as i64;
                let is_contracted = contracting.contains(&own);
                let is_free = !is_contracted && !batch.contains(&own);
                if size != 1 && is_contracted {
                    roles.contracted[operand].push(dimension);
                }
                if size != 1 && is_free {
                    roles.own_free[operand].push(dimension);
                    roles.free[operand].push(place);
                }
                let batch_place = batch.iter().position(|dimension| *dimension == own);
                let own_place = if is_free { Some(place) } else { batch_place };
                roles.places[operand].push(own_place.filter(|_| size != 1));
                place += usize::from(is_free);
            }
        }
        Some(roles)
    }
}

/// The product of weights and values, and where it is divided by the sums of the exponentials.
struct Division {
    product: InstructionId,
    values: Instruction,
    /// What the weights are the elements of, moved.
    quotient: InstructionId,
    exponential: InstructionId,
    /// The dimension of the exponentials that each of the weights is.
    weight_dimensions: Dimensions,
}

/// What the dimensions of a product's operands are to it.
#[derive(Default)]
pub(super) struct Roles {
    /// Of each operand the dimensions of the result that its own are.
    pub(super) places: [Dimensions; 2],
    /// Of each operand those that are contracted.
    pub(super) contracted: [Vec<usize>; 2],
    /// Of each operand those that it alone has.
    pub(super) own_free: [Vec<usize>; 2],
    /// The same as dimensions of the result.
    pub(super) free: [Vec<usize>; 2],
}

/// Whether rounding to an array's type may be left out.
fn is_float(shape: &ArrayShape) -> bool {
    use ElementType::{BF16, F16, F32, F64};
    matches!(shape.element_type, BF16 | F16 | F32 | F64)
}

/// Each dimension as itself.
fn own_dimensions(shape: &ArrayShape) -> Dimensions {
    shape.dimensions.iter().enumerate().map(|(own, &size)| (size != 1).then_some(own)).collect()
}

/// Dimensions through those of an array between.
fn composed(outer: &[Option<usize>], inner: &[Option<usize>]) -> Dimensions {
    outer.iter().map(|own| own.and_then(|own| inner.get(own).copied().flatten())).collect()
}

/// The dimensions of a reshape's operand, if only dimensions of size 1 come and go.
fn reshaped(result: &[i64], operand: &[i64]) -> Option<Dimensions> {
    let real = |sizes: &[i64]| -> Vec<usize> { (0..sizes.len()).filter(|&own| sizes[own] != 1).collect() };
    let (own, source) = (real(result), real(operand));
    let is_same = own.len() == source.len() && own.iter().zip(&source).all(|(&a, &b)| result[a] == operand[b]);
    let place = |dimension| own.iter().position(|&own| own == dimension).map(|place| source[place]);
    is_same.then(|| (0..result.len()).map(place).collect())
}

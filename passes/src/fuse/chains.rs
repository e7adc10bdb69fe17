//! Chains of products: a product, or a reduction along rows, of *weights* that are computed element by element from the elements of one
//! or two other products.
//!
//! The gradient of an attention consists of these: its softmax's largest logits and sums, the row sums of the gradient, and the
//! gradients of queries, keys and values. Where nothing else needs arrays of the size of the scores, each chain is a fusion: its kernel
//! computes the scores that it needs once more, tile by tile, and no such array is in memory.

use std::collections::{HashMap, HashSet};

use hlo::element_type::ElementType;
use hlo::graph::{Computation, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::reduce::ReduceAttributes;

use super::attention::{
    Attention, FEATURES, FEWEST_KEYS, FEWEST_QUERIES, Finder, LEAST_SCORES, MOST_STEPS, Read, Roles,
};
use super::attention::{Dimensions, ROWS_OF_KEY, moves, needed_users, rows_and_keys};

/// What gradients have at least whose scores are computed again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Least {
    /// Rows of queries, of all batches, or a few for each key.
    pub rows: u64,
    /// Bytes of the scores, where products are not made by matrix instructions: these are as fast as memory, others are not.
    pub scores: u64,
}

/// Features up to which multiply-adds take no longer than moving scores to memory and back.
const FEW_FEATURES: i64 = 16;

/// Features, of all products together, of which the smallest tiles of multiply-adds fit into the shared memory of a block.
const MOST_FEATURES: i64 = 720;

/// Products, and reductions, that the gradient of an attention has at least.
const FEWEST_PRODUCTS: usize = 2;
const FEWEST_REDUCTIONS: usize = 2;

/// One of the products that weights are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scores {
    /// The product.
    pub product: InstructionId,
    /// Which of its operands has the columns.
    pub columns: usize,
}

/// The parts of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// What the weights are made of.
    pub scores: Vec<Scores>,
    /// What is multiplied, or reduced.
    pub weights: InstructionId,
    /// The dimension of the weights that rows of the result are, and the one that is contracted.
    pub row: usize,
    /// See [`Self::row`].
    pub column: usize,
    /// The product or reduction.
    pub end: InstructionId,
    /// Which of its operands the weights are.
    pub operand: usize,
    /// What is stored.
    pub result: InstructionId,
    /// Features that one of the products contracts, or that values have, at most.
    pub features: i64,
    /// All instructions from the products on.
    pub members: Vec<InstructionId>,
}

impl Chain {
    /// The chain whose result an instruction is.
    pub fn of(computation: &Computation, result: InstructionId, read: &Read<'_>) -> Option<Chain> {
        let finder = || Finder::new(computation, read);
        let (end, _) = finder().moved_from(result)?;
        match computation.get(end).kind {
            OpKind::Dot => (0..2).find_map(|operand| of_product(finder(), result, operand)),
            OpKind::Reduce => of_reduction(finder(), result),
            _ => None,
        }
    }

    /// The chain that a fused computation is.
    pub fn of_body(body: &Computation) -> Option<Chain> {
        let count = |kind| body.instructions.iter().filter(|instruction| instruction.kind == kind).count();
        let products = count(OpKind::Dot);
        if products == 0 || products + count(OpKind::Reduce) < 2 {
            return None;
        }
        let chain = Chain::of(body, body.root, &|id| Some(body.get(id).clone()))?;
        let ends_in_product = usize::from(body.get(chain.end).kind == OpKind::Dot);
        let is_all = products == chain.scores.len() + ends_in_product && count(OpKind::Reduce) == 1 - ends_in_product;
        is_all.then_some(chain)
    }
}

/// A chain that ends in a product, of which the weights are an operand.
fn of_product(mut finder: Finder<'_>, result: InstructionId, operand: usize) -> Option<Chain> {
    let (end, _) = finder.moved_from(result)?;
    let product = finder.take(end, OpKind::Dot)?;
    let weights = product.operands[operand];
    let scores = finder.products_of(weights)?;
    let roles = finder.roles(&product, &product.attributes().ok()?)?;
    let ([column], [_]) = (&roles.contracted[operand][..], &roles.contracted[1 - operand][..]) else { return None };
    let [feature] = roles.own_free[1 - operand][..] else { return None };
    let other = finder.shape(product.operands[1 - operand])?;
    let are_values_stored = !finder.members.contains(&product.operands[1 - operand]);
    let fits = FEATURES.contains(&other.dimensions[feature]) && is_operand(other.element_type);
    let is_sum = finder.shape(end)?.element_type == ElementType::F32;
    if !(are_values_stored && fits && is_sum) {
        return None;
    }
    let rows = &roles.own_free[operand];
    let features = other.dimensions[feature];
    let last = LastProduct { features, operands: &[weights, product.operands[1 - operand]] };
    let chain = chain(finder, (end, operand, result), (weights, *column, rows), &scores, &last)?;
    Some(Chain { features: chain.features.max(features), ..chain })
}

/// A chain that ends in a reduction along one dimension.
fn of_reduction(mut finder: Finder<'_>, result: InstructionId) -> Option<Chain> {
    let (end, _) = finder.moved_from(result)?;
    let reduce = finder.take(end, OpKind::Reduce)?;
    let ReduceAttributes { dimensions } = reduce.attributes().ok()?;
    let (&[weights, initial], [column]) = (&reduce.operands[..], dimensions) else { return None };
    let column = usize::try_from(*column).ok()?;
    let kinds = [OpKind::Add, OpKind::Maximum];
    let is_known = kinds.into_iter().any(|kind| finder.combines(&reduce, kind) && finder.is_identity(initial, kind));
    let shape = finder.shape(weights)?;
    if !is_known || !is_operand(shape.element_type) {
        return None;
    }
    let rows: Vec<usize> = (0..shape.rank()).filter(|&dimension| dimension != column).collect();
    let scores = finder.products_of(weights)?;
    chain(finder, (end, 0, result), (weights, column, &rows), &scores, &LastProduct { features: 0, operands: &[] })
}

/// The product that a chain ends in: its features, and its operands. A chain that ends in a reduction has none of either.
struct LastProduct<'a> {
    features: i64,
    operands: &'a [InstructionId],
}

/// A chain of which rows may be some dimensions of the weights.
fn chain(
    mut finder: Finder<'_>,
    (end, operand, result): (InstructionId, usize, InstructionId),
    (weights, column, rows): (InstructionId, usize, &[usize]),
    products: &[(InstructionId, Dimensions)],
    last: &LastProduct<'_>,
) -> Option<Chain> {
    let sizes = &finder.shape(weights)?.dimensions;
    let mut rows: Vec<usize> = rows.iter().copied().filter(|&row| sizes[row] >= FEWEST_QUERIES).collect();
    let (mut scores, mut features, mut all_features) = (Vec::with_capacity(products.len()), 0, last.features);
    let mut multiplied = last.operands.to_vec();
    for (product, dimensions) in products {
        let instruction = (finder.read)(*product)?;
        let roles: Roles = finder.roles(&instruction, &instruction.attributes().ok()?)?;
        let place = dimensions[column]?;
        let columns = (0..2).find(|&own| roles.free[own].contains(&place))?;
        let [depth] = roles.contracted[0][..] else { return None };
        let shapes = [0, 1].map(|own| finder.shape(instruction.operands[own]));
        let [Some(left), Some(right)] = shapes else { return None };
        let are_operands = is_operand(left.element_type) && is_operand(right.element_type);
        let is_kernel = roles.own_free[columns].len() == 1
            && FEATURES.contains(&left.dimensions[depth])
            && are_operands
            && finder.shape(*product)?.element_type == ElementType::F32;
        if !is_kernel {
            return None;
        }
        rows.retain(|&row| dimensions[row].is_some_and(|own| roles.free[1 - columns].contains(&own)));
        features = features.max(left.dimensions[depth]);
        all_features += left.dimensions[depth];
        multiplied.extend(&instruction.operands);
        scores.push(Scores { product: *product, columns });
    }
    let row = rows.into_iter().max_by_key(|&row| sizes[row])?;
    let mut types = multiplied.iter().map(|&operand| finder.shape(operand).map(|shape| shape.element_type));
    let first = types.next()??;
    // Matrix instructions need one type, of 16 bits; their tiles always fit.
    let is_narrow = first.bit_width() == 16 && types.all(|own| own == Some(first));
    let fits = is_narrow || all_features <= MOST_FEATURES;
    let has_room = fits && sizes[column] >= FEWEST_KEYS && (1..=2).contains(&scores.len());
    finder.members.sort_unstable();
    finder.members.dedup();
    has_room.then_some(Chain { scores, weights, row, column, end, operand, result, features, members: finder.members })
}

fn is_operand(element_type: ElementType) -> bool {
    matches!(element_type, ElementType::F32 | ElementType::BF16 | ElementType::F16)
}

/// The chains of the gradients of attentions, by their results, where these are computed without arrays of the size of the scores.
/// Members of `taken` are parts of attentions.
pub(super) fn find(
    computation: &Computation,
    users: &[Vec<InstructionId>],
    read: &Read<'_>,
    (least, taken): (Least, &HashMap<InstructionId, Attention>),
) -> HashMap<InstructionId, Chain> {
    let users = needed_users(computation, users);
    let inside =
        |own: &Attention| own.members.iter().copied().filter(|&member| member != own.result).collect::<Vec<_>>();
    let of_attentions: HashSet<InstructionId> = taken.values().flat_map(inside).collect();
    let taken: HashSet<InstructionId> = taken.values().flat_map(|own| own.members.iter().copied()).collect();
    let reaches = made_of_products(computation, read);
    let mut search = Search { computation, users: &users, read, reaches: &reaches, seen: taken };
    let mut sets: Vec<Vec<Chain>> = Vec::new();
    for (product, instruction) in computation.iter().filter(|(id, _)| reaches[id.index()]) {
        if instruction.kind == OpKind::Dot && !search.seen.contains(&product) {
            let chains = search.chains_from(product);
            sets.extend(chains.filter(|chains| is_worth(computation, chains, least)));
        }
    }
    while let Some(position) = set_read_from_outside(computation, &users, &sets, &of_attentions) {
        sets.swap_remove(position);
    }
    sets.into_iter().flatten().map(|chain| (chain.result, chain)).collect()
}

/// The first of some sets of chains one of which has a member that something else reads as an array, or reads one of an attention:
/// these are no arrays.
fn set_read_from_outside(
    computation: &Computation,
    users: &[Vec<InstructionId>],
    sets: &[Vec<Chain>],
    of_attentions: &HashSet<InstructionId>,
) -> Option<usize> {
    let chains = || sets.iter().enumerate().flat_map(|(set, chains)| chains.iter().map(move |chain| (set, chain)));
    let stored: HashSet<InstructionId> = chains().map(|(_, chain)| chain.result).collect();
    let mut with_member: HashMap<InstructionId, Vec<(usize, &Chain)>> = HashMap::new();
    for (set, chain) in chains() {
        chain.members.iter().for_each(|&member| with_member.entry(member).or_default().push((set, chain)));
    }
    let chains_with = |id: &InstructionId| with_member.get(id).map_or(&[][..], |chains| &chains[..]);
    let is_needed = |id: InstructionId| id == computation.root || !users[id.index()].is_empty();
    computation
        .iter()
        .filter(|&(id, _)| is_needed(id))
        .find_map(|(id, instruction)| {
            let readers = chains_with(&id);
            let has_all = |operand: &InstructionId| {
                !readers.is_empty() && readers.iter().all(|(_, chain)| chain.members.binary_search(operand).is_ok())
            };
            instruction.operands.iter().find_map(|operand| match chains_with(operand).first() {
                _ if of_attentions.contains(operand) => readers.first(),
                Some(first) if !stored.contains(operand) && !has_all(operand) => Some(first),
                _ => None,
            })
        })
        .map(|&(set, _)| set)
}

/// Whether chains are those of the gradient of an attention whose scores are worth being computed again.
fn is_worth(computation: &Computation, chains: &[Chain], least: Least) -> bool {
    let kind_of = |chain: &Chain| computation.get(chain.end).kind;
    let products = chains.iter().filter(|chain| kind_of(chain) == OpKind::Dot).count();
    let are_rows_many = |chain: &Chain| {
        let sizes = computation.get(chain.weights).shape.as_array().map_or(&[][..], |shape| &shape.dimensions);
        rows_and_keys(sizes, chain.column).is_some_and(|(rows, keys)| rows >= least.rows.min(ROWS_OF_KEY * keys))
    };
    let is_large = |chain: &Chain| {
        let has_few = chain.features <= FEW_FEATURES;
        let multiplied = chain.scores.iter().map(|own| own.product).chain([chain.end]);
        let mut operands = multiplied.filter(|&id| computation.get(id).kind == OpKind::Dot).flat_map(|id| {
            let operands = &computation.get(id).operands;
            operands.iter().copied().filter(|operand| *operand != chain.weights)
        });
        let is_narrow = operands.all(|operand| {
            let shape = computation.get(operand).shape.as_array();
            shape.is_some_and(|shape| shape.element_type.bit_width() == 16)
        });
        let bytes = computation.get(chain.scores[0].product).shape.byte_size() as u64;
        bytes >= if is_narrow || has_few { LEAST_SCORES as u64 } else { least.scores }
    };
    products >= FEWEST_PRODUCTS
        && chains.len() - products >= FEWEST_REDUCTIONS
        && chains.iter().all(|chain| are_rows_many(chain) && is_large(chain))
}

/// Which instructions are products of floats, or made of the elements of some one by one.
fn made_of_products(computation: &Computation, read: &Read<'_>) -> Vec<bool> {
    let mut reaches: Vec<bool> = Vec::with_capacity(computation.instructions.len());
    let finder = Finder::new(computation, read);
    for (id, instruction) in computation.iter() {
        let Some(shape) = instruction.shape.as_array() else {
            reaches.push(false);
            continue;
        };
        let count = shape.element_count();
        let is_made = |operand: &InstructionId| {
            let own = computation.get(*operand).shape.as_array();
            reaches[operand.index()] && own.is_some_and(|own| own.element_count() == count)
        };
        reaches.push(match instruction.kind {
            OpKind::Dot => shape.element_type == ElementType::F32,
            _ => instruction.operands.iter().any(is_made) && finder.is_elementwise(id),
        });
    }
    reaches
}

/// A search for what is made of a product's elements.
struct Search<'s> {
    computation: &'s Computation,
    users: &'s [Vec<InstructionId>],
    read: &'s Read<'s>,
    /// What is made of products' elements.
    reaches: &'s [bool],
    /// What was looked at from another product: parts of what is no gradient.
    seen: HashSet<InstructionId>,
}

impl Search<'_> {
    /// The chains that all that is made of a product's elements, and what is made with these, ends in.
    fn chains_from(&mut self, product: InstructionId) -> Option<Vec<Chain>> {
        let finder = Finder::new(self.computation, self.read);
        let mut inside = HashSet::from([product]);
        let mut pending = vec![product];
        let mut ends: Vec<InstructionId> = Vec::new();
        let mut is_whole = true;
        while let Some(id) = pending.pop() {
            is_whole &= self.seen.insert(id) && id != self.computation.root;
            let count = self.computation.get(id).shape.as_array()?.element_count();
            let is_size = |own: InstructionId| {
                self.computation.get(own).shape.as_array().is_some_and(|shape| shape.element_count() == count)
            };
            for &user in &self.users[id.index()] {
                match self.computation.get(user).kind {
                    OpKind::Dot | OpKind::Reduce => ends.push(user),
                    _ if is_size(user) && finder.is_elementwise(user) => {
                        if inside.insert(user) {
                            pending.push(user);
                        }
                    }
                    _ => is_whole = false,
                }
            }
            let operands = &self.computation.get(id).operands;
            let made = operands.iter().copied().filter(|&operand| self.reaches[operand.index()] && is_size(operand));
            if self.computation.get(id).kind != OpKind::Dot {
                pending.extend(made.filter(|&operand| inside.insert(operand)));
            }
            if !is_whole {
                return None;
            }
        }
        ends.sort_unstable();
        ends.dedup();
        ends.into_iter().map(|end| self.chain_to(end)).collect()
    }

    /// The chain to a product or reduction, and to what alone moves or rounds its elements.
    fn chain_to(&self, end: InstructionId) -> Option<Chain> {
        let (mut last, mut result) = (None, end);
        for _ in 0..MOST_STEPS {
            last = Chain::of(self.computation, result, self.read).or(last);
            match self.users[result.index()][..] {
                [user] if moves(self.computation.get(user).kind) && result != self.computation.root => result = user,
                _ => break,
            }
        }
        last
    }
}

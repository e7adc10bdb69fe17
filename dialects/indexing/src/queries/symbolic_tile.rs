//! Tile propagation with symbols: the operand's tile as a function of the offsets, sizes and strides of the result's.

use std::collections::{BTreeMap, BTreeSet};

use melior::Context;
use mlir_ext::affine::{Expr, Var};

use crate::interval::Interval;
use crate::inverse::digit;
use crate::linear::Linear;
use crate::map::{Constraint, IndexingMap, Variable};
use crate::simplify::PointVariables;

/// Tiles of one map that are told apart; reshapes of high rank have more.
const MAX_TILES: usize = 64;

/// The operand's tile for a tile of the result, where constraints hold.
///
/// A tile has along each dimension the indices `offset + stride * k` for `k` in `[0, size)`. The variables of the map
/// are its tile's offsets `o0 …` as dimensions, sizes `n0 …` and strides `t0 …` as symbols; its results are the
/// operand's offsets, sizes and strides; its domain are the tiles of the result it is right for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolicTile<'c> {
    map: IndexingMap<'c>,
}

impl<'c> SymbolicTile<'c> {
    /// All three, as a map from offsets, sizes and strides to offsets, sizes and strides.
    pub fn map(&self) -> &IndexingMap<'c> {
        &self.map
    }

    /// First index along each dimension of the operand.
    pub fn offsets(&self) -> &'c [Expr<'c>] {
        self.part(0)
    }

    /// Number of indices along each dimension.
    pub fn sizes(&self) -> &'c [Expr<'c>] {
        self.part(1)
    }

    /// Distance of neighbouring indices; 1 where there is one index.
    pub fn strides(&self) -> &'c [Expr<'c>] {
        self.part(2)
    }

    fn part(&self, number: usize) -> &'c [Expr<'c>] {
        let rank = self.map.results().len() / 3;
        &self.map.results()[number * rank..(number + 1) * rank]
    }
}

/// The operand's tiles for tiles of the result of `map`, by cases whose domains may overlap and need not cover all
/// tiles of the result: of a reshape, only tiles inside a row or of whole rows are tiles of the operand.
///
/// All values of range variables are needed. Empty if the map has constraints, or its results are no sums of digits
/// of its dimensions.
pub fn symbolic_tiles<'c>(map: &IndexingMap<'c>) -> Vec<SymbolicTile<'c>> {
    cases_of(map).unwrap_or_default()
}

fn cases_of<'c>(map: &IndexingMap<'c>) -> Option<Vec<SymbolicTile<'c>>> {
    let reads_at_index = |v: &Variable<'_>| v.source.as_ref().is_some_and(|source| !source.index.is_empty());
    if map.is_known_empty() || !map.constraints().is_empty() || map.runtimes().iter().any(reads_at_index) {
        return None;
    }
    let rank = map.dims().len();
    let sums: Vec<Linear<'c>> =
        map.results().iter().map(|&result| Linear::from_expr(map.simplify_expr(result))).collect::<Option<_>>()?;
    let chains: Vec<Chain> = (0..rank).map(|i| Chain::new(&sums, i as u32)).collect::<Option<_>>()?;
    let domain = domain(map);
    let mut tiles = Vec::new();
    // Every choice of what varies along each dimension of the result.
    let mut choices: Vec<Vec<Level>> = vec![Vec::new()];
    for chain in &chains {
        choices = choices
            .into_iter()
            .flat_map(|choice| chain.levels().into_iter().map(move |level| [choice.clone(), vec![level]].concat()))
            .collect();
        if choices.len() > MAX_TILES {
            return None;
        }
    }
    for levels in choices {
        let mut constraints = Vec::new();
        for (i, (chain, &level)) in chains.iter().zip(&levels).enumerate() {
            chain.constrain(level, &Symbols::new(map.context(), rank, i), &mut constraints);
        }
        // For each result, the ways in which its terms are one progression.
        let mut partial: Vec<(Vec<Progression<'c>>, Vec<Constraint<'c>>)> = vec![(Vec::new(), constraints)];
        for sum in &sums {
            let ways = progressions(map, sum, &chains, &levels)?;
            partial = partial
                .into_iter()
                .flat_map(|(done, constraints)| {
                    ways.iter().map(move |(progression, needed)| {
                        let done = [done.clone(), vec![*progression]].concat();
                        (done, [constraints.clone(), needed.clone()].concat())
                    })
                })
                .collect();
            if partial.len() > MAX_TILES {
                return None;
            }
        }
        for (progressions, constraints) in partial {
            let part = |read: fn(&Progression<'c>) -> Expr<'c>| progressions.iter().map(read).collect::<Vec<_>>();
            let results = [part(|p| p.offset), part(|p| p.size), part(|p| p.stride)].concat();
            let mut tile = domain.with_results(results);
            constraints.into_iter().for_each(|constraint| tile.add_constraint(constraint.expr, constraint.interval));
            tile.simplify_with(PointVariables::Preserve);
            let tile = SymbolicTile { map: tile };
            if !tile.map.is_known_empty() && !tiles.contains(&tile) && tiles.len() < MAX_TILES {
                tiles.push(tile);
            }
        }
    }
    Some(tiles)
}

/// All tiles of the result.
fn domain<'c>(map: &IndexingMap<'c>) -> IndexingMap<'c> {
    let rank = map.dims().len();
    let extent = |v: &Variable<'_>| v.bounds.len().and_then(|n| i64::try_from(n).ok()).unwrap_or(i64::MAX);
    let named = |letter: &str, i: usize, bounds| Variable::new(bounds).named(&format!("{letter}{i}"));
    let dims = map.dims().iter().enumerate().map(|(i, v)| named("o", i, v.bounds)).collect();
    let symbols =
        |letter| map.dims().iter().enumerate().map(move |(i, v)| named(letter, i, Interval::new(1, extent(v))));
    let ranges = symbols("n").chain(symbols("t")).collect();
    let runtimes = map.runtimes().to_vec();
    let mut domain = IndexingMap::new(map.context(), dims, ranges, runtimes, Vec::new(), Vec::new());
    for (i, v) in map.dims().iter().enumerate() {
        let tile = Symbols::new(map.context(), rank, i);
        domain.add_constraint(tile.last(), v.bounds);
    }
    domain
}

/// The variables of the result's tile along one dimension.
struct Symbols<'c> {
    offset: Expr<'c>,
    size: Expr<'c>,
    stride: Expr<'c>,
}

impl<'c> Symbols<'c> {
    fn new(context: &'c Context, rank: usize, i: usize) -> Self {
        Symbols {
            offset: Expr::dim(context, i),
            size: Expr::symbol(context, i),
            stride: Expr::symbol(context, rank + i),
        }
    }

    /// The tile's last index, less its offset.
    fn reach(&self) -> Expr<'c> {
        (self.size - 1) * self.stride
    }

    fn last(&self) -> Expr<'c> {
        self.offset + self.reach()
    }
}

/// What of a dimension varies in a tile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Nothing: there is one index.
    Single,
    /// The digit of this number in the chain; those below take all their values, those above are fixed.
    Digit(usize),
}

/// A dimension as digits: number `l` is `(d floordiv divisors[l]) mod (divisors[l + 1] / divisors[l])`, the last one
/// has no modulus.
struct Chain {
    divisors: Vec<i64>,
    /// Whether a digit occurs in more than one place, so that they cannot vary independently.
    shared: bool,
}

impl Chain {
    /// The digits of dimension `dimension` that the sums have. `None` if they overlap.
    fn new(sums: &[Linear<'_>], dimension: u32) -> Option<Chain> {
        let mut divisors = BTreeSet::from([1i64]);
        let mut digits: BTreeMap<i64, Option<i64>> = BTreeMap::new();
        let mut shared = false;
        for &(atom, _) in sums.iter().flat_map(|sum| &sum.terms) {
            if !atom.uses(Var::Dim(dimension)) {
                continue;
            }
            let (_, divisor, modulus) = digit(atom)?;
            let end = modulus.map(|m| divisor.checked_mul(m)).map_or(Some(None), |end| end.map(Some))?;
            divisors.insert(divisor);
            divisors.extend(end);
            shared |= digits.insert(divisor, end).is_some();
        }
        let divisors: Vec<i64> = divisors.into_iter().collect();
        let next = |divisor: i64| divisors.iter().copied().find(|&d| d > divisor);
        let divide = divisors.windows(2).all(|pair| pair[1] % pair[0] == 0);
        let disjoint = digits.iter().all(|(&divisor, &end)| next(divisor) == end);
        (divide && disjoint).then_some(Chain { divisors, shared })
    }

    fn levels(&self) -> Vec<Level> {
        if self.shared {
            return vec![Level::Single];
        }
        (0..self.divisors.len()).map(Level::Digit).collect()
    }

    /// The number of values of a digit, if it has a modulus.
    fn modulus(&self, number: usize) -> Option<i64> {
        Some(self.divisors.get(number + 1)? / self.divisors[number])
    }

    /// The digit's value at the tile's offset.
    fn at_offset<'c>(&self, number: usize, tile: &Symbols<'c>) -> Expr<'c> {
        let quotient = tile.offset.floordiv(self.divisors[number]);
        self.modulus(number).map_or(quotient, |m| quotient.modulo(m))
    }

    /// When exactly this digit varies.
    fn constrain<'c>(&self, level: Level, tile: &Symbols<'c>, constraints: &mut Vec<Constraint<'c>>) {
        let number = match level {
            Level::Single => return constraints.push(Constraint::new(tile.size, Interval::point(1))),
            Level::Digit(number) => number,
        };
        let (divisor, modulus) = (self.divisors[number], self.modulus(number));
        let start = self.at_offset(number, tile);
        if divisor == 1 {
            // All of the tile in one period.
            if let Some(m) = modulus {
                constraints.push(Constraint::new(start + tile.reach(), Interval::of_size(m)));
            }
            return;
        }
        // Whole periods of the digits below.
        constraints.push(Constraint::new(tile.offset.modulo(divisor), Interval::point(0)));
        constraints.push(Constraint::new(tile.size.modulo(divisor), Interval::point(0)));
        constraints.push(Constraint::new(tile.stride, Interval::point(1)));
        if let Some(m) = modulus {
            constraints.push(Constraint::new(start + tile.size.floordiv(divisor), Interval::new(1, m)));
        }
    }
}

/// The indices `offset + stride * k` for `k` in `[0, size)`.
#[derive(Clone, Copy)]
struct Progression<'c> {
    offset: Expr<'c>,
    size: Expr<'c>,
    stride: Expr<'c>,
}

/// The ways in which a sum is one progression, each with what it needs.
fn progressions<'c>(
    map: &IndexingMap<'c>,
    sum: &Linear<'c>,
    chains: &[Chain],
    levels: &[Level],
) -> Option<Vec<(Progression<'c>, Vec<Constraint<'c>>)>> {
    let rank = map.dims().len();
    let constant = |value| Expr::constant(map.context(), value);
    // The run-time variables of the tile come after its sizes and strides.
    let runtimes: Vec<Expr<'c>> = map
        .all_variables()
        .filter_map(|variable| match (variable, map.as_runtime(variable)) {
            (Var::Dim(_), _) => None,
            (_, Some(i)) => Some(Expr::symbol(map.context(), 2 * rank + i)),
            (_, None) => Some(constant(0)),
        })
        .collect();
    let mut offset = constant(sum.constant);
    let mut moving: Vec<Progression<'c>> = Vec::new();
    for &(atom, k) in &sum.terms {
        let (start, size, stride) = match atom.as_variable() {
            Some(variable) if map.as_runtime(variable).is_some() => {
                offset = offset + atom.replace(&[], &runtimes) * k;
                continue;
            }
            Some(variable @ Var::Symbol(_)) => {
                let bounds = map.bounds(variable);
                let count = i64::try_from(bounds.len()?).ok()?;
                (constant(bounds.lower), constant(count), constant(1))
            }
            Some(Var::Dim(_)) | None => {
                let (dimension, divisor, _) = digit(atom)?;
                let chain = &chains[dimension as usize];
                let number = chain.divisors.iter().position(|&d| d == divisor)?;
                let tile = Symbols::new(map.context(), rank, dimension as usize);
                let start = chain.at_offset(number, &tile);
                match levels[dimension as usize] {
                    Level::Digit(varying) if varying == number && divisor == 1 => (start, tile.size, tile.stride),
                    Level::Digit(varying) if varying == number => (start, tile.size.floordiv(divisor), constant(1)),
                    Level::Digit(varying) if varying > number => {
                        (constant(0), constant(chain.modulus(number)?), constant(1))
                    }
                    Level::Digit(_) | Level::Single => (start, constant(1), constant(1)),
                }
            }
        };
        // Downwards, the last value comes first.
        let last = start + (size - 1) * stride;
        offset = offset + if k > 0 { start } else { last } * k;
        if size.as_constant() != Some(1) {
            moving.push(Progression { offset: constant(0), size, stride: stride * k.checked_abs()? });
        }
    }
    // The finest steps first, as far as they are known.
    moving.sort_by_key(|p| Linear::from_expr(p.stride).map_or(i64::MAX, |stride| stride.gcd().max(stride.constant)));
    let nothing = Progression { offset, size: constant(1), stride: constant(1) };
    let mut ways = vec![(nothing, Vec::new())];
    for next in moving {
        ways = ways.into_iter().flat_map(|(done, needed)| joined(&done, &needed, &next)).collect();
        if ways.len() > MAX_TILES {
            return None;
        }
    }
    Some(ways)
}

/// The ways in which the sums of an index of `fine` and one of `coarse` are one progression.
fn joined<'c>(
    fine: &Progression<'c>,
    needed: &[Constraint<'c>],
    coarse: &Progression<'c>,
) -> Vec<(Progression<'c>, Vec<Constraint<'c>>)> {
    let offset = fine.offset;
    let one = |p: &Progression<'c>| Constraint::new(p.size, Interval::point(1));
    let with = |more: Vec<Constraint<'c>>| [needed.to_vec(), more].concat();
    let alone = Progression { offset, ..*coarse };
    if fine.size.as_constant() == Some(1) {
        return vec![(alone, needed.to_vec())];
    }
    let mut ways = vec![(*fine, with(vec![one(coarse)])), (alone, with(vec![one(fine)]))];
    // The coarse steps are multiples of the fine ones, and begin at the latest where these end.
    let mut unit = Vec::new();
    let step = match (fine.stride.as_constant(), Linear::from_expr(fine.stride)) {
        (Some(step), _) => Some(step),
        // A symbolic stride has to be 1.
        (None, Some(stride)) => match stride.terms.as_slice() {
            &[(symbol, k)] if stride.constant == 0 => {
                unit.push(Constraint::new(symbol, Interval::point(1)));
                Some(k)
            }
            _ => None,
        },
        (None, None) => None,
    };
    if let Some(step) = step {
        let ratio = coarse.stride.floordiv(step);
        unit.push(Constraint::new(coarse.stride.modulo(step), Interval::point(0)));
        unit.push(Constraint::new(fine.size - ratio, Interval::new(0, i64::MAX)));
        let size = (coarse.size - 1) * ratio + fine.size;
        ways.push((Progression { offset, size, stride: offset.constant_beside(step) }, with(unit)));
    }
    ways
}

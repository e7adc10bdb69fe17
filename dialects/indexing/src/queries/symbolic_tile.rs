//! Tile propagation with symbols: the operand's tile as a function of the offsets, sizes and strides of the result's.

use std::collections::{BTreeMap, BTreeSet};

use crate::expr::{Expr, Var};
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
/// are, for a result of rank `r`, its tile's offsets `o0 …`, sizes `n0 …` and strides `t0 …`; its results are the
/// operand's offsets, sizes and strides; its domain are the tiles of the result it is right for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolicTile {
    map: IndexingMap,
}

impl SymbolicTile {
    /// All three, as a map from offsets, sizes and strides to offsets, sizes and strides.
    pub fn map(&self) -> &IndexingMap {
        &self.map
    }

    /// First index along each dimension of the operand.
    pub fn offsets(&self) -> &[Expr] {
        self.part(0)
    }

    /// Number of indices along each dimension.
    pub fn sizes(&self) -> &[Expr] {
        self.part(1)
    }

    /// Distance of neighbouring indices; 1 where there is one index.
    pub fn strides(&self) -> &[Expr] {
        self.part(2)
    }

    fn part(&self, number: usize) -> &[Expr] {
        let rank = self.map.results().len() / 3;
        &self.map.results()[number * rank..(number + 1) * rank]
    }
}

/// The operand's tiles for tiles of the result of `map`, by cases whose domains may overlap and need not cover all
/// tiles of the result: of a reshape, only tiles inside a row or of whole rows are tiles of the operand.
///
/// All values of range variables are needed. Empty if the map has constraints, or its results are no sums of digits
/// of its dimensions.
pub fn symbolic_tiles(map: &IndexingMap) -> Vec<SymbolicTile> {
    cases_of(map).unwrap_or_default()
}

fn cases_of(map: &IndexingMap) -> Option<Vec<SymbolicTile>> {
    let reads_at_index = |v: &Variable| v.source.as_ref().is_some_and(|source| !source.index.is_empty());
    if map.is_known_empty() || !map.constraints().is_empty() || map.runtimes().iter().any(reads_at_index) {
        return None;
    }
    let rank = map.dims().len();
    let sums: Vec<Linear> =
        map.results().iter().map(|result| Linear::from_expr(&map.simplify_expr(result))).collect::<Option<_>>()?;
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
            chain.constrain(level, &Symbols::new(rank, i), &mut constraints);
        }
        // For each result, the ways in which its terms are one progression.
        let mut partial: Vec<(Vec<Progression>, Vec<Constraint>)> = vec![(Vec::new(), constraints)];
        for sum in &sums {
            let ways = progressions(map, sum, &chains, &levels)?;
            partial = partial
                .into_iter()
                .flat_map(|(done, constraints)| {
                    ways.iter().map(move |(progression, needed)| {
                        let done = [done.clone(), vec![progression.clone()]].concat();
                        (done, [constraints.clone(), needed.clone()].concat())
                    })
                })
                .collect();
            if partial.len() > MAX_TILES {
                return None;
            }
        }
        for (progressions, constraints) in partial {
            let part = |read: fn(&Progression) -> &Expr| progressions.iter().map(read).cloned().collect::<Vec<_>>();
            let results = [part(|p| &p.offset), part(|p| &p.size), part(|p| &p.stride)].concat();
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
fn domain(map: &IndexingMap) -> IndexingMap {
    let rank = map.dims().len();
    let extent = |v: &Variable| v.bounds.len().and_then(|n| i64::try_from(n).ok()).unwrap_or(i64::MAX);
    let named = |letter: &str, i: usize, bounds| Variable::new(bounds).named(&format!("{letter}{i}"));
    let mut dims = Vec::with_capacity(3 * rank);
    dims.extend(map.dims().iter().enumerate().map(|(i, v)| named("o", i, v.bounds)));
    for letter in ["n", "t"] {
        dims.extend(map.dims().iter().enumerate().map(|(i, v)| named(letter, i, Interval::new(1, extent(v)))));
    }
    let mut domain = IndexingMap::new(dims, Vec::new(), map.runtimes().to_vec(), Vec::new(), Vec::new());
    for (i, v) in map.dims().iter().enumerate() {
        let tile = Symbols::new(rank, i);
        domain.add_constraint(tile.last(), v.bounds);
    }
    domain
}

/// The variables of the result's tile along one dimension.
struct Symbols {
    offset: Expr,
    size: Expr,
    stride: Expr,
}

impl Symbols {
    fn new(rank: usize, i: usize) -> Symbols {
        Symbols { offset: Expr::dim(i), size: Expr::dim(rank + i), stride: Expr::dim(2 * rank + i) }
    }

    /// The tile's last index, less its offset.
    fn reach(&self) -> Expr {
        (self.size.clone() - 1) * self.stride.clone()
    }

    fn last(&self) -> Expr {
        self.offset.clone() + self.reach()
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
    fn new(sums: &[Linear], dimension: u32) -> Option<Chain> {
        let mut divisors = BTreeSet::from([1i64]);
        let mut digits: BTreeMap<i64, Option<i64>> = BTreeMap::new();
        let mut shared = false;
        for (atom, _) in sums.iter().flat_map(|sum| &sum.terms) {
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
    fn at_offset(&self, number: usize, tile: &Symbols) -> Expr {
        let quotient = tile.offset.clone().floordiv(self.divisors[number]);
        self.modulus(number).map_or(quotient.clone(), |m| quotient.modulo(m))
    }

    /// When exactly this digit varies.
    fn constrain(&self, level: Level, tile: &Symbols, constraints: &mut Vec<Constraint>) {
        let number = match level {
            Level::Single => return constraints.push(Constraint::new(tile.size.clone(), Interval::point(1))),
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
        constraints.push(Constraint::new(tile.offset.clone().modulo(divisor), Interval::point(0)));
        constraints.push(Constraint::new(tile.size.clone().modulo(divisor), Interval::point(0)));
        constraints.push(Constraint::new(tile.stride.clone(), Interval::point(1)));
        if let Some(m) = modulus {
            constraints.push(Constraint::new(start + tile.size.clone().floordiv(divisor), Interval::new(1, m)));
        }
    }
}

/// The indices `offset + stride * k` for `k` in `[0, size)`.
#[derive(Clone)]
struct Progression {
    offset: Expr,
    size: Expr,
    stride: Expr,
}

/// The ways in which a sum is one progression, each with what it needs.
fn progressions(
    map: &IndexingMap,
    sum: &Linear,
    chains: &[Chain],
    levels: &[Level],
) -> Option<Vec<(Progression, Vec<Constraint>)>> {
    let rank = map.dims().len();
    let mut offset = Expr::constant(sum.constant);
    let mut moving: Vec<Progression> = Vec::new();
    for (atom, k) in &sum.terms {
        let (start, size, stride) = match atom.as_variable() {
            Some(Var::Runtime(_)) => {
                offset = offset + atom.clone() * *k;
                continue;
            }
            Some(variable @ Var::Range(_)) => {
                let bounds = map.bounds(variable);
                let count = i64::try_from(bounds.len()?).ok()?;
                (Expr::constant(bounds.lower), Expr::constant(count), Expr::constant(1))
            }
            Some(Var::Dim(_)) | None => {
                let (dimension, divisor, _) = digit(atom)?;
                let chain = &chains[dimension as usize];
                let number = chain.divisors.iter().position(|&d| d == divisor)?;
                let tile = Symbols::new(rank, dimension as usize);
                let start = chain.at_offset(number, &tile);
                match levels[dimension as usize] {
                    Level::Digit(varying) if varying == number && divisor == 1 => (start, tile.size, tile.stride),
                    Level::Digit(varying) if varying == number => {
                        (start, tile.size.floordiv(divisor), Expr::constant(1))
                    }
                    Level::Digit(varying) if varying > number => {
                        (Expr::constant(0), Expr::constant(chain.modulus(number)?), Expr::constant(1))
                    }
                    Level::Digit(_) | Level::Single => (start, Expr::constant(1), Expr::constant(1)),
                }
            }
        };
        // Downwards, the last value comes first.
        let last = start.clone() + (size.clone() - 1) * stride.clone();
        offset = offset + if *k > 0 { start } else { last } * *k;
        if size.as_constant() != Some(1) {
            moving.push(Progression { offset: Expr::constant(0), size, stride: stride * k.checked_abs()? });
        }
    }
    // The finest steps first, as far as they are known.
    moving.sort_by_key(|p| Linear::from_expr(&p.stride).map_or(i64::MAX, |stride| stride.gcd().max(stride.constant)));
    let nothing = Progression { offset: offset.clone(), size: Expr::constant(1), stride: Expr::constant(1) };
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
fn joined(fine: &Progression, needed: &[Constraint], coarse: &Progression) -> Vec<(Progression, Vec<Constraint>)> {
    let offset = fine.offset.clone();
    let one = |p: &Progression| Constraint::new(p.size.clone(), Interval::point(1));
    let with = |more: Vec<Constraint>| [needed.to_vec(), more].concat();
    let alone = Progression { offset: offset.clone(), ..coarse.clone() };
    if fine.size.as_constant() == Some(1) {
        return vec![(alone, needed.to_vec())];
    }
    let mut ways = vec![(fine.clone(), with(vec![one(coarse)])), (alone, with(vec![one(fine)]))];
    // The coarse steps are multiples of the fine ones, and begin at the latest where these end.
    let mut unit = Vec::new();
    let step = match (fine.stride.as_constant(), Linear::from_expr(&fine.stride)) {
        (Some(step), _) => Some(step),
        // A symbolic stride has to be 1.
        (None, Some(stride)) => match stride.terms.as_slice() {
            [(symbol, k)] if stride.constant == 0 => {
                unit.push(Constraint::new(symbol.clone(), Interval::point(1)));
                Some(*k)
            }
            _ => None,
        },
        (None, None) => None,
    };
    if let Some(step) = step {
        let ratio = coarse.stride.clone().floordiv(step);
        unit.push(Constraint::new(coarse.stride.clone().modulo(step), Interval::point(0)));
        unit.push(Constraint::new(fine.size.clone() - ratio.clone(), Interval::new(0, i64::MAX)));
        let size = (coarse.size.clone() - 1) * ratio + fine.size.clone();
        ways.push((Progression { offset, size, stride: Expr::constant(step) }, with(unit)));
    }
    ways
}

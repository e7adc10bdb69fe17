//! Places in the arena, and in results before these are written.
//!
//! Up to some thousand arrays are placed one after another, each into the smallest gap that is free while it lives. Which
//! order needs least depends on the program: the largest first nearly always, then others are tried as long as there is a
//! chance to need less, and in the end what reaches highest goes first. That is quadratic, so of more arrays each is placed
//! when its life begins, best fit.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hlo::literal::ALIGNMENT;

/// Arrays that are placed by size, and results that they may be placed in, at most.
const MAX_BY_SIZE: usize = 4096;

/// Orders that are tried, at most.
const MAX_ORDERS: usize = 32;

/// Pairs of arrays that are compared in all orders but the first, at most: a millisecond or two.
const MAX_PAIRS: usize = 1 << 20;

/// Bytes that are no two arrays': neither a word of memory nor what is exchanged atomically is shared.
const MIN_ALIGNMENT: usize = 8;

/// Storage that the program must have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// Bytes; more than 0.
    pub size: usize,
    /// Bytes that the address must be a multiple of; at most [`ALIGNMENT`].
    pub alignment: usize,
    /// First position at which the storage is written.
    pub start: u32,
    /// Last position at which it is read.
    pub end: u32,
}

impl Demand {
    /// Bytes that the offset is a multiple of: a small array is within one line of the cache, and fills it with others.
    fn granularity(self) -> usize {
        self.size.next_power_of_two().clamp(MIN_ALIGNMENT, ALIGNMENT)
    }

    fn is_alive_with(self, start: u32, end: u32) -> bool {
        start <= self.end && self.start <= end
    }
}

/// Memory besides the arena.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    /// Bytes.
    pub size: usize,
    /// Bytes that its address is a multiple of.
    pub alignment: usize,
    /// Position from which it is used otherwise.
    pub until: u32,
}

/// Where a demand is met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the region; the arena if there is none.
    pub region: Option<usize>,
    /// Offset in bytes.
    pub offset: usize,
}

/// The place of each demand, and the size of the arena.
pub(super) fn place(demands: &[Demand], regions: &[Region]) -> (Vec<Place>, usize) {
    if demands.len() > MAX_BY_SIZE {
        let (offsets, size) = place_by_start(demands);
        return (offsets.into_iter().map(|offset| Place { region: None, offset }).collect(), size);
    }
    place_in_best_order(demands, if regions.len() > MAX_BY_SIZE { &[] } else { regions })
}

/// What is placed in a region or in the arena, by offset.
#[derive(Default)]
struct Placed {
    /// Offset, end offset, start and end of life.
    blocks: Vec<(usize, usize, u32, u32)>,
}

impl Placed {
    /// The smallest gap for a demand that lies below `limit`; the last one has no end.
    fn gap(&self, demand: Demand, limit: usize) -> Option<usize> {
        let mut best: Option<(usize, usize)> = None;
        let mut free_from = 0usize;
        let mut consider = |from: usize, to: usize| {
            let offset = from.next_multiple_of(demand.granularity());
            let is_room = offset.saturating_add(demand.size) <= to.min(limit);
            if is_room && best.is_none_or(|(room, _)| to - from < room) {
                best = Some((to - from, offset));
            }
        };
        for &(offset, after, start, end) in &self.blocks {
            if !demand.is_alive_with(start, end) {
                continue;
            }
            if offset > free_from {
                consider(free_from, offset);
            }
            free_from = free_from.max(after);
        }
        consider(free_from, usize::MAX);
        best.map(|(_, offset)| offset)
    }

    fn add(&mut self, demand: Demand, offset: usize) {
        let block = (offset, offset + demand.size, demand.start, demand.end);
        let position = self.blocks.partition_point(|other| *other < block);
        self.blocks.insert(position, block);
    }
}

/// The regions that demands may be met in.
struct Regions<'a> {
    all: &'a [Region],
    /// Numbers, the small ones first: a large one may be the only room for a large array.
    by_size: Vec<usize>,
}

impl<'a> Regions<'a> {
    fn of(all: &'a [Region]) -> Self {
        let mut by_size: Vec<usize> = (0..all.len()).filter(|&region| all[region].size > 0).collect();
        by_size.sort_by_key(|&region| all[region].size);
        Regions { all, by_size }
    }

    /// Numbers of those that a demand fits in while nothing else is there.
    fn with_room_for(&self, demand: Demand) -> impl Iterator<Item = usize> {
        let first = self.by_size.partition_point(|&region| self.all[region].size < demand.size);
        let fits = move |region: &Region| demand.end < region.until && demand.alignment <= region.alignment;
        self.by_size[first..].iter().copied().filter(move |&region| fits(&self.all[region]))
    }
}

/// The places in the order that needs the smallest arena, of those that are tried.
fn place_in_best_order(demands: &[Demand], regions: &[Region]) -> (Vec<Place>, usize) {
    let regions = Regions::of(regions);
    let has_region: Vec<bool> = demands.iter().map(|demand| regions.with_room_for(*demand).next().is_some()).collect();
    let goal = most_alive(demands.iter().zip(&has_region).filter(|(_, has)| !**has).map(|(demand, _)| *demand));
    let tries = MAX_ORDERS.min(1 + MAX_PAIRS / demands.len().pow(2).max(1));
    // What can be in no region goes first: others may still go there where the arena has no room.
    let sorted = |key: &dyn Fn(&Demand) -> u64| {
        let mut order: Vec<usize> = (0..demands.len()).collect();
        order.sort_by_cached_key(|&number| {
            let demand = &demands[number];
            (Reverse(key(demand)), Reverse(demand.size), has_region[number], demand.start)
        });
        order
    };
    let life = |demand: &Demand| u64::from(demand.end - demand.start) + 1;
    let keys: [&dyn Fn(&Demand) -> u64; 4] =
        [&|demand| demand.size as u64, &|demand| demand.size as u64 * life(demand), &life, &|demand| {
            u64::from(u32::MAX - demand.start)
        }];
    let mut best: Option<(Vec<usize>, Vec<Place>, usize)> = None;
    for key in keys.into_iter().take(tries) {
        if best.as_ref().is_some_and(|(.., size)| *size <= goal) {
            break;
        }
        let order = sorted(key);
        let (places, size) = place_in_order(demands, &regions, &order);
        if best.as_ref().is_none_or(|(.., least)| size < *least) {
            best = Some((order, places, size));
        }
    }
    let (mut order, mut best, mut least) = best.unwrap_or_default();
    let mut places = best.clone();
    let mut size = least;
    for _ in keys.len()..tries {
        let is_highest =
            |&number: &usize| places[number].region.is_none() && places[number].offset + demands[number].size == size;
        let highest = order.iter().position(is_highest).unwrap_or(0);
        if least <= goal || highest == 0 {
            break;
        }
        order[..=highest].rotate_right(1);
        (places, size) = place_in_order(demands, &regions, &order);
        if size < least {
            (best, least) = (places.clone(), size);
        }
    }
    (best, least)
}

/// The most bytes that are in use at once: no arena is smaller.
fn most_alive(demands: impl Iterator<Item = Demand>) -> usize {
    let mut changes: Vec<(u32, isize)> = demands
        .flat_map(|demand| {
            [(demand.start, demand.size as isize), (demand.end.saturating_add(1), -(demand.size as isize))]
        })
        .collect();
    changes.sort_unstable();
    let alive = changes.into_iter().scan(0, |alive, (_, change)| {
        *alive += change;
        Some(*alive)
    });
    alive.max().map_or(0, |most| most.max(0) as usize)
}

/// The place of each demand if they are met in some order, and the size of the arena.
fn place_in_order(demands: &[Demand], regions: &Regions<'_>, order: &[usize]) -> (Vec<Place>, usize) {
    let mut in_regions: Vec<Placed> = regions.all.iter().map(|_| Placed::default()).collect();
    let mut in_arena = Placed::default();
    let mut places = vec![Place::default(); demands.len()];
    let mut arena_size = 0;
    for &number in order {
        let demand = demands[number];
        let free = in_arena.gap(demand, arena_size);
        let mut candidates = regions.with_room_for(demand).filter(|_| free.is_none());
        let found =
            candidates.find_map(|region| Some((region, in_regions[region].gap(demand, regions.all[region].size)?)));
        if let Some((region, offset)) = found {
            in_regions[region].add(demand, offset);
            places[number] = Place { region: Some(region), offset };
            continue;
        }
        // The last gap of the arena has no end.
        let offset = free.or_else(|| in_arena.gap(demand, usize::MAX)).unwrap_or(arena_size);
        in_arena.add(demand, offset);
        arena_size = arena_size.max(offset + demand.size);
        places[number] = Place { region: None, offset };
    }
    (places, arena_size)
}

/// One sweep over the program's positions that reuses what is dead.
fn place_by_start(demands: &[Demand]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_key(|&number| (demands[number].start, Reverse(demands[number].size)));
    let mut offsets = vec![0; demands.len()];
    let mut free = FreeBlocks::default();
    let mut active: BTreeSet<(u32, usize, usize)> = BTreeSet::new();
    for number in order {
        let Demand { size, start, end, .. } = demands[number];
        while let Some(&(end, offset, size)) = active.first().filter(|(end, ..)| *end < start) {
            active.remove(&(end, offset, size));
            free.release(offset, size);
        }
        let size = size.next_multiple_of(ALIGNMENT);
        offsets[number] = free.take(size);
        active.insert((end, offsets[number], size));
    }
    (offsets, free.end)
}

/// Free parts of the arena.
#[derive(Default)]
struct FreeBlocks {
    /// Sizes by offset.
    blocks: BTreeMap<usize, usize>,
    /// The same as (size, offset).
    by_size: BTreeSet<(usize, usize)>,
    end: usize,
}

impl FreeBlocks {
    /// The smallest free block that fits, or new space at the end.
    fn take(&mut self, size: usize) -> usize {
        if let Some(&(free, offset)) = self.by_size.range((size, 0)..).next() {
            self.remove(offset, free);
            if free > size {
                self.insert(offset + size, free - size);
            }
            return offset;
        }
        // A free block at the end is grown rather than left behind.
        let offset = match self.blocks.last_key_value() {
            Some((&offset, &free)) if offset + free == self.end => {
                self.remove(offset, free);
                offset
            }
            _ => self.end,
        };
        self.end = offset + size;
        offset
    }

    fn release(&mut self, mut offset: usize, mut size: usize) {
        if let Some((&before, &free)) = self.blocks.range(..offset).next_back()
            && before + free == offset
        {
            self.remove(before, free);
            offset = before;
            size += free;
        }
        if let Some(&free) = self.blocks.get(&(offset + size)) {
            self.remove(offset + size, free);
            size += free;
        }
        self.insert(offset, size);
    }

    fn insert(&mut self, offset: usize, size: usize) {
        self.blocks.insert(offset, size);
        self.by_size.insert((size, offset));
    }

    fn remove(&mut self, offset: usize, size: usize) {
        self.blocks.remove(&offset);
        self.by_size.remove(&(size, offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(size: usize, start: u32, end: u32) -> Demand {
        Demand { size, alignment: 1, start, end }
    }

    /// The size of the arena; demands that are alive at the same time must be apart, and where they may begin.
    fn arena_of(demands: &[Demand], regions: &[Region]) -> usize {
        let (places, size) = place(demands, regions);
        for (number, (own, place)) in demands.iter().zip(&places).enumerate() {
            let limit = place.region.map_or(size, |region| regions[region].size);
            assert!(place.offset + own.size <= limit);
            assert_eq!(place.offset % own.granularity(), 0);
            assert!(place.region.is_none_or(|region| own.end < regions[region].until));
            for (other, other_place) in demands[..number].iter().zip(&places) {
                let is_apart = place.region != other_place.region
                    || !own.is_alive_with(other.start, other.end)
                    || place.offset + own.size <= other_place.offset
                    || other_place.offset + other.size <= place.offset;
                assert!(is_apart, "{own:?} at {place:?} and {other:?} at {other_place:?}");
            }
        }
        size
    }

    #[test]
    fn numbers_share_a_line_of_the_cache() {
        assert_eq!(arena_of(&[demand(4, 0, 9), demand(4, 0, 9), demand(1, 0, 9)], &[]), 17);
        assert_eq!(arena_of(&[demand(100, 0, 9), demand(4, 0, 9)], &[]), 108);
    }

    #[test]
    fn rows_of_vectors_begin_with_a_line() {
        assert_eq!(arena_of(&[demand(100, 0, 9), demand(100, 0, 9)], &[]), 228);
    }

    #[test]
    fn the_largest_first_is_not_always_the_best_order() {
        // By size, what is alive in the middle is placed above the first and the last, and leaves a gap.
        let demands = [demand(512, 0, 1), demand(384, 1, 2), demand(256, 0, 0), demand(320, 2, 3), demand(448, 3, 4)];
        assert_eq!(arena_of(&demands, &[]), most_alive(demands.iter().copied()));
    }

    #[test]
    fn results_are_room_until_they_are_written() {
        let result = Region { size: 64, alignment: 4, until: 5 };
        assert_eq!(arena_of(&[demand(64, 0, 4)], &[result]), 0);
        assert_eq!(arena_of(&[demand(64, 0, 5)], &[result]), 64);
    }

    #[test]
    fn many_random_demands_are_apart() {
        let mut state = 1u32;
        let mut random = |limit: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % limit
        };
        for count in [1, 10, 200] {
            let demands: Vec<Demand> = (0..count)
                .map(|_| {
                    let start = random(100);
                    demand(1 + random(2000) as usize, start, start + random(10))
                })
                .collect();
            let regions =
                [Region { size: 512, alignment: 8, until: 50 }, Region { size: 1024, alignment: 1, until: 20 }];
            assert!(arena_of(&demands, &[]) >= most_alive(demands.iter().copied()));
            arena_of(&demands, &regions);
        }
    }
}

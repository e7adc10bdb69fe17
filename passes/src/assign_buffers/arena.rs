//! Places in the arena, and in results before these are written.
//!
//! Up to some thousand arrays are placed one after another, the largest first, each into the smallest gap that is free
//! while it lives. That is quadratic, so of more arrays each is placed when its life begins, best fit.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hlo::literal::ALIGNMENT;

/// Arrays that are placed by size, and results that they may be placed in, at most.
const MAX_BY_SIZE: usize = 4096;

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
    place_by_size(demands, if regions.len() > MAX_BY_SIZE { &[] } else { regions })
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
        let size = demand.size.next_multiple_of(ALIGNMENT);
        let mut best: Option<(usize, usize)> = None;
        let mut free_from = 0usize;
        let mut consider = |from: usize, to: usize| {
            let is_room = from.saturating_add(demand.size) <= to.min(limit);
            if is_room && best.is_none_or(|(room, _)| to - from < room) {
                best = Some((to - from, from));
            }
        };
        for &(offset, after, start, end) in &self.blocks {
            if end < demand.start || demand.end < start {
                continue;
            }
            if offset >= free_from.saturating_add(size) {
                consider(free_from, offset);
            }
            free_from = free_from.max(after);
        }
        consider(free_from, usize::MAX);
        best.map(|(_, offset)| offset)
    }

    fn add(&mut self, demand: Demand, offset: usize) {
        let block = (offset, offset + demand.size.next_multiple_of(ALIGNMENT), demand.start, demand.end);
        let position = self.blocks.partition_point(|other| *other < block);
        self.blocks.insert(position, block);
    }
}

fn place_by_size(demands: &[Demand], regions: &[Region]) -> (Vec<Place>, usize) {
    // What can be in no region goes first: others may still go there where the arena has no room.
    let fits = |demand: &Demand, region: &Region| {
        demand.size <= region.size && demand.end < region.until && demand.alignment <= region.alignment
    };
    let has_region = |demand: &Demand| regions.iter().any(|region| fits(demand, region));
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_cached_key(|&number| {
        let demand = &demands[number];
        (Reverse(demand.size), has_region(demand), demand.start)
    });
    // Small regions first: a large one may be the only room for a large array.
    let mut by_size: Vec<usize> = (0..regions.len()).filter(|&region| regions[region].size > 0).collect();
    by_size.sort_by_key(|&region| regions[region].size);
    let mut in_regions: Vec<Placed> = regions.iter().map(|_| Placed::default()).collect();
    let mut in_arena = Placed::default();
    let mut places = vec![Place::default(); demands.len()];
    let mut arena_size = 0;
    for number in order {
        let demand = demands[number];
        let free = in_arena.gap(demand, arena_size);
        let first = by_size.partition_point(|&region| regions[region].size < demand.size);
        let mut candidates =
            by_size[first..].iter().filter(|&&region| free.is_none() && fits(&demand, &regions[region]));
        let found =
            candidates.find_map(|&region| Some((region, in_regions[region].gap(demand, regions[region].size)?)));
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

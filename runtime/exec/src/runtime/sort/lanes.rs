//! Short rows side by side: each lane of a vector has a row of its own, and the same comparisons sort all of them.

use std::sync::OnceLock;

use super::keys::{Word, WordCoder};
use crate::runtime::tiles::{Square, square_of_sixteen};
use crate::runtime::widest_vectors::in_widest_vectors;

/// Rows that are sorted at once.
pub(super) const LANES: usize = 16;

/// The longest rows that are sorted so.
const LONGEST: usize = 1024;

/// Whether so many rows are worth sorting so: comparisons grow faster than the length, and are as many for few rows. Elements of
/// some `bytes` are alone, or are sorted with their places.
pub(super) fn pays(count: usize, length: usize, bytes: usize, are_alone: bool) -> bool {
    let (longest, fewest) = match (bytes, are_alone) {
        (4, true) => (LONGEST, 8),
        (8, true) => (256, 8),
        // Numbers of 16 bits take two passes of the sort that else is made.
        _ => (512, 12),
    };
    let fewest = if length <= 64 { fewest / 2 } else { fewest };
    (2..=longest).contains(&length) && count >= fewest
}

/// One element of each row.
type Lanes<T> = [T; LANES];

/// The elements at one position of the rows, in cache lines of their own.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Column<W>(Lanes<W>);

#[inline(always)]
fn flattened<W: Word>(columns: &mut [Column<W>]) -> &mut [W] {
    const { assert!(size_of::<Column<W>>() == size_of::<Lanes<W>>()) };
    // SAFETY: columns are lanes and nothing else.
    unsafe { std::slice::from_raw_parts_mut(columns.as_mut_ptr().cast(), LANES * columns.len()) }
}

/// Where the rows of a group are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// The first element of each row; the last row again where there are fewer.
    pub(super) firsts: Lanes<usize>,
    /// How many rows there are.
    pub(super) count: usize,
    /// Elements from one of a row to the next.
    pub(super) step: usize,
    pub(super) length: usize,
    /// Elements of the array.
    pub(super) total: usize,
}

/// How to sort a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) group: Group,
    pub(super) coder: WordCoder<u64>,
    /// Bytes of an element: 1, 2, 4 or 8.
    pub(super) bytes: usize,
    /// Whether NaN has no place in the order.
    pub(super) refuses_nan: bool,
    pub(super) input: *const u8,
    /// Where the elements go, if they are all that there is to sort.
    pub(super) output: Option<*mut u8>,
}

/// What became of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its elements are in the output.
    Written,
    /// [`Words::places`] says where the elements are.
    Places,
    /// Nothing: there is a NaN.
    HasNan,
}

/// Room to sort groups of elements of any size.
#[derive(Default)]
pub(super) struct Words {
    /// Elements of up to 32 bits.
    narrow: WordsOf<u32>,
    wide: WordsOf<u64>,
}

impl Words {
    pub(super) fn byte_size(&self) -> usize {
        self.narrow.byte_size() + self.wide.byte_size()
    }

    /// Sorts a group.
    ///
    /// # Safety
    /// The group lies in both arrays, and nobody else is at its rows.
    pub(super) unsafe fn sort(&mut self, task: &Task) -> Outcome {
        // SAFETY: as the caller promises.
        unsafe {
            match task.is_wide() {
                true => sort_words(&mut self.wide, task, task.coder),
                false => sort_words(&mut self.narrow, task, task.coder.truncated()),
            }
        }
    }

    /// The places of one row's elements in their order.
    pub(super) fn places(&self, task: &Task, lane: usize) -> impl Iterator<Item = u32> {
        let length = task.group.length;
        let [narrow, wide] = if task.is_wide() { [0, length] } else { [length, 0] };
        self.narrow.places(narrow, lane).chain(self.wide.places(wide, lane))
    }
}

impl Task {
    fn is_wide(&self) -> bool {
        self.bytes == size_of::<u64>()
    }
}

/// Elements of a group, position by position.
#[derive(Default)]
struct WordsOf<W> {
    words: Vec<Column<W>>,
    /// Where the elements were, in the lowest 16 bits.
    places: Vec<Column<W>>,
}

in_widest_vectors! {
    /// As [`Words::sort`], by a coder for these words.
    ///
    /// # Safety
    /// The group lies in both arrays, and nobody else is at its rows.
    unsafe fn sort_words<W: Word>(words: &mut WordsOf<W>, task: &Task, coder: WordCoder<W>) -> Outcome = WordsOf::sort_lanes;
}

impl<W: Word> WordsOf<W> {
    fn byte_size(&self) -> usize {
        size_of::<Column<W>>() * (self.words.capacity() + self.places.capacity())
    }

    /// Where the first elements of a row in its order were.
    fn places(&self, count: usize, lane: usize) -> impl Iterator<Item = u32> {
        self.places[..count].iter().map(move |places| places.0[lane].into() as u32 & 0xffff)
    }

    #[inline(always)]
    unsafe fn sort_lanes(&mut self, task: &Task, coder: WordCoder<W>) -> Outcome {
        let (group, length) = (&task.group, task.group.length);
        // SAFETY: as the caller promises.
        unsafe {
            match task.bytes {
                1 => self.load::<u8>(task.input, group),
                2 => self.load::<u16>(task.input.cast(), group),
                _ => self.load::<W>(task.input.cast(), group),
            }
        }
        let (has_nan, has_negative_zero) = self.specials(coder, length);
        if has_nan && task.refuses_nan {
            return Outcome::HasNan;
        }
        let words = &mut self.words[..length];
        let Some(output) = task.output.filter(|_| !has_nan && !has_negative_zero) else {
            for word in flattened(words) {
                *word = coder.encode_canonical(*word);
            }
            // Places are below `LONGEST`: they fit behind small elements.
            if task.bytes <= 2 {
                for (place, words) in (0..).zip(&mut *words) {
                    for word in &mut words.0 {
                        *word = W::truncated((*word).into() << 16 | place);
                    }
                }
                exchange(words);
                std::mem::swap(&mut self.words, &mut self.places);
            } else {
                self.places.resize(length, Default::default());
                for (place, places) in (0..).zip(&mut self.places) {
                    for to in &mut places.0 {
                        *to = W::truncated(place);
                    }
                }
                exchange_with_places(words, &mut self.places);
            }
            return Outcome::Places;
        };
        for word in flattened(words) {
            *word = coder.encode(*word);
        }
        exchange(words);
        for word in flattened(words) {
            *word = coder.decode(*word);
        }
        // SAFETY: as the caller promises.
        unsafe {
            match task.bytes {
                1 => self.store::<u8>(output, group),
                2 => self.store::<u16>(output.cast(), group),
                _ => self.store::<W>(output.cast(), group),
            }
        }
        Outcome::Written
    }

    /// Whether there is a NaN, and whether a -0, if these are not elements as any other.
    #[inline(always)]
    fn specials(&self, coder: WordCoder<W>, length: usize) -> (bool, bool) {
        let Some(infinity) = coder.infinity() else { return (false, false) };
        let (mut largest, mut negative_zeros) = ([W::default(); LANES], [false; LANES]);
        for words in &self.words[..length] {
            for (lane, &bits) in words.0.iter().enumerate() {
                largest[lane] = largest[lane].max(bits & !coder.sign);
                negative_zeros[lane] |= bits == coder.sign;
            }
        }
        (largest.iter().any(|&magnitude| magnitude > infinity), negative_zeros.contains(&true))
    }

    #[inline(always)]
    unsafe fn load<T: Word>(&mut self, input: *const T, group: &Group) {
        let widened = |element: T| W::truncated(element.into());
        // Squares are written whole.
        self.words.resize(group.length.max(LANES), Default::default());
        // SAFETY: elements of the group's rows, and of squares that lie in the array.
        unsafe {
            if let Some(transpose) = group.square::<T>() {
                for position in group.squares() {
                    let from = input.add(group.firsts[0] + position);
                    let to = self.words[position..].as_mut_ptr();
                    transpose(from.cast(), group.row_bytes(), to.cast(), WORDS);
                }
                return;
            }
            for (position, words) in self.words[..group.length].iter_mut().enumerate() {
                let offset = position * group.step;
                words.0 = if group.is_side_by_side() {
                    input.add(group.firsts[0] + offset).cast::<Lanes<T>>().read_unaligned().map(widened)
                } else {
                    group.firsts.map(|first| widened(input.add(first + offset).read_unaligned()))
                };
            }
        }
    }

    #[inline(always)]
    unsafe fn store<T: Word>(&self, output: *mut T, group: &Group) {
        let narrow = |word: W| T::truncated(word.into());
        let words = &self.words[..group.length];
        // SAFETY: elements of the group's rows.
        unsafe {
            if let Some(transpose) = group.square::<T>() {
                for position in group.squares() {
                    let from = self.words[position..].as_ptr().cast();
                    let to = output.add(group.firsts[0] + position);
                    if group.length >= LANES {
                        transpose(from, WORDS, to.cast(), group.row_bytes());
                        continue;
                    }
                    // What a square has behind a row is the next one's place, which is written later, or another group's.
                    let mut square = [[0u32; LANES]; LANES];
                    transpose(from, WORDS, square.as_mut_ptr().cast(), WORDS);
                    for (row, elements) in square.iter().enumerate() {
                        let to = to.add(row * group.length).cast::<Lanes<u32>>();
                        if row * group.length + LANES <= LANES * group.length {
                            to.write_unaligned(*elements);
                        } else {
                            std::ptr::copy_nonoverlapping(elements.as_ptr(), to.cast(), group.length);
                        }
                    }
                }
            } else if group.is_side_by_side() {
                for (position, words) in words.iter().enumerate() {
                    let to = output.add(group.firsts[0] + position * group.step).cast::<Lanes<T>>();
                    to.write_unaligned(words.0.map(narrow));
                }
            } else {
                for (lane, &first) in group.firsts[..group.count].iter().enumerate() {
                    for (position, words) in words.iter().enumerate() {
                        output.add(first + position * group.step).write_unaligned(narrow(words.0[lane]));
                    }
                }
            }
        }
    }
}

/// Bytes of one position of a group whose words have 32 bits.
const WORDS: isize = size_of::<Column<u32>>() as isize;

impl Group {
    /// Whether neighbours are of different rows.
    fn is_side_by_side(&self) -> bool {
        self.step > 1 && self.count == LANES && self.firsts[LANES - 1] - self.firsts[0] == LANES - 1
    }

    /// What transposes squares of rows of words that follow each other, if squares lie in the array.
    fn square<T>(&self) -> Option<Square> {
        let end = self.firsts[LANES - 1] + self.length.max(LANES);
        let has_squares = self.step == 1 && self.count == LANES && size_of::<T>() == 4 && end <= self.total;
        if has_squares { square_of_sixteen() } else { None }
    }

    /// Positions at which squares begin; the last two may overlap.
    fn squares(&self) -> impl Iterator<Item = usize> {
        let last = self.length.saturating_sub(LANES);
        (0..self.length).step_by(LANES).map(move |position| position.min(last))
    }

    fn row_bytes(&self) -> isize {
        4 * self.length as isize
    }
}

/// Pairs of positions of which the first gets the smaller element.
type Network = [(u16, u16)];

/// The network that sorts so many elements, Batcher's.
fn network(length: usize) -> &'static Network {
    static NETWORKS: [OnceLock<Box<Network>>; LONGEST + 1] = [const { OnceLock::new() }; LONGEST + 1];
    NETWORKS[length].get_or_init(|| {
        let mut pairs = Vec::new();
        add_sort(0, length.next_power_of_two(), &mut pairs);
        // As if the largest elements were behind the others: these stay there.
        pairs.retain(|&(_, second)| usize::from(second) < length);
        pairs.into()
    })
}

/// Sorts `count` elements, a power of two, from `first` on.
fn add_sort(first: usize, count: usize, pairs: &mut Vec<(u16, u16)>) {
    if count > 1 {
        add_sort(first, count / 2, pairs);
        add_sort(first + count / 2, count / 2, pairs);
        add_merge(first, count, 1, pairs);
    }
}

/// Merges the two sorted halves of each `step`-th of `count` elements.
fn add_merge(first: usize, count: usize, step: usize, pairs: &mut Vec<(u16, u16)>) {
    let pair = |position: usize| (position as u16, (position + step) as u16);
    if 2 * step == count {
        return pairs.push(pair(first));
    }
    add_merge(first, count, 2 * step, pairs);
    add_merge(first + step, count, 2 * step, pairs);
    pairs.extend((first + step..first + count - step).step_by(2 * step).map(pair));
}

/// Sorts each lane.
#[inline(always)]
fn exchange<W: Ord + Copy>(keys: &mut [Column<W>]) {
    for &(first, second) in network(keys.len()) {
        let (first, second) = (usize::from(first), usize::from(second));
        let (a, b) = (keys[first].0, keys[second].0);
        for lane in 0..LANES {
            keys[first].0[lane] = a[lane].min(b[lane]);
            keys[second].0[lane] = a[lane].max(b[lane]);
        }
    }
}

/// The same where each key has a place, which also decides between equal keys.
#[inline(always)]
fn exchange_with_places<W: Ord + Copy>(keys: &mut [Column<W>], places: &mut [Column<W>]) {
    for &(first, second) in network(keys.len()) {
        let (first, second) = (usize::from(first), usize::from(second));
        let (a, b) = (keys[first].0, keys[second].0);
        let (place_of_a, place_of_b) = (places[first].0, places[second].0);
        for lane in 0..LANES {
            let is_before = place_of_a[lane] < place_of_b[lane];
            let is_in_order = (a[lane] < b[lane]) | (a[lane] == b[lane]) & is_before;
            keys[first].0[lane] = a[lane].min(b[lane]);
            keys[second].0[lane] = a[lane].max(b[lane]);
            places[first].0[lane] = if is_in_order { place_of_a[lane] } else { place_of_b[lane] };
            places[second].0[lane] = if is_in_order { place_of_b[lane] } else { place_of_a[lane] };
        }
    }
}

//! One row at a time: reading it, sorting it, and writing every operand in the new order.

use std::cell::Cell;

use super::{
    Comparator, SortDescriptor, SortOrder,
    keys::{KeyCoder, KeyType, WordCoder},
    lanes::{self, Group, LANES, Outcome, Task, Words},
    merge::merge_sort,
    radix::{Keyed, Packed, Wide, sort_keys},
};
use crate::ThreadPool;

/// Rows shorter than this are not worth several threads.
const PARALLEL_LENGTH: usize = 1 << 15;

/// The arrays to sort, checked.
pub(super) struct Rows {
    length: usize,
    inner: usize,
    count: usize,
    operands: Vec<Operand>,
    comparator: Option<Comparator>,
    order: SortOrder,
    key: Option<Key>,
}

struct Operand {
    input: *const u8,
    output: *mut u8,
    bytes: usize,
}

struct Key {
    operand: usize,
    bits: u32,
    coder: KeyCoder,
    words: Option<WordCoder<u64>>,
}

// SAFETY: rows are disjoint parts of the arrays, and each is handled by one thread; the comparator may run on several.
unsafe impl Sync for Rows {}

impl Rows {
    pub(super) fn new(
        descriptor: &SortDescriptor,
        comparator: Option<Comparator>,
        sizes: &[i64],
        inputs: &[*const u8],
        outputs: &[*mut u8],
    ) -> Result<Self, String> {
        let size = |value: i64, what: &str| usize::try_from(value).map_err(|_| format!("{what} is {value}"));
        let operands: Vec<Operand> = sizes
            .iter()
            .zip(inputs)
            .zip(outputs)
            .map(|((&bytes, &input), &output)| Ok(Operand { input, output, bytes: size(bytes, "element size")? }))
            .collect::<Result<_, String>>()?;
        let order = match descriptor.order {
            0 => SortOrder::Comparator,
            1 => SortOrder::Less,
            2 => SortOrder::Total,
            3 => SortOrder::TotalCanonical,
            other => return Err(format!("no order {other}")),
        };
        let key = if order == SortOrder::Comparator {
            None
        } else {
            let key_type = KeyType::from_code(descriptor.key_type)
                .ok_or_else(|| format!("no key type {}", descriptor.key_type))?;
            let operand = size(descriptor.key_operand, "key operand")?;
            let bytes = operands.get(operand).map(|operand| operand.bytes);
            if bytes != Some(key_type.bytes()) {
                return Err(format!("operand {operand} has no elements of type {}", descriptor.key_type));
            }
            let coder = KeyCoder::new(key_type, order, descriptor.descending != 0);
            Some(Key { operand, bits: 8 * key_type.bytes() as u32, coder, words: WordCoder::new(coder) })
        };
        if comparator.is_none() && matches!(order, SortOrder::Comparator | SortOrder::Less) {
            return Err("no comparator".into());
        }
        let length = size(descriptor.length, "length")?;
        if u32::try_from(length).is_err() {
            return Err(format!("rows of {length} elements are too long"));
        }
        let (outer, inner) = (size(descriptor.outer, "outer size")?, size(descriptor.inner, "inner size")?);
        Ok(Self { length, inner, count: outer * inner, operands, comparator, order, key })
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// How many rows are sorted at once.
    pub(super) fn together(&self) -> usize {
        let pays =
            self.key.as_ref().filter(|key| key.words.is_some()).is_some_and(|key| {
                lanes::pays(self.count, self.length, key.bits as usize / 8, self.operands.len() == 1)
            });
        if pays { LANES } else { 1 }
    }

    /// The first element of row `index`.
    fn first(&self, index: usize) -> usize {
        if self.inner == 1 {
            return index * self.length;
        }
        let (outer, inner) = (index / self.inner, index % self.inner);
        outer * self.length * self.inner + inner
    }

    /// The bits of the key element at a position of the row that starts at element `first`.
    #[inline(always)]
    fn load_bits(&self, key: &Key, first: usize, position: usize) -> u64 {
        let input = self.operands[key.operand].input;
        let element = first + position * self.inner;
        // SAFETY: the element is inside the array, whose element size was checked to be the key's.
        unsafe {
            match key.bits {
                8 => input.add(element).read().into(),
                16 => input.cast::<u16>().add(element).read_unaligned().into(),
                32 => input.cast::<u32>().add(element).read_unaligned().into(),
                _ => input.cast::<u64>().add(element).read_unaligned(),
            }
        }
    }

    /// Writes the bits of the key operand's row that starts at element `first`.
    fn store(&self, key: &Key, first: usize, row: impl Iterator<Item = u64>) {
        let output = self.operands[key.operand].output;
        for (position, bits) in row.enumerate() {
            let element = first + position * self.inner;
            // SAFETY: the element is inside the array, whose element size was checked to be the key's.
            unsafe {
                match key.bits {
                    8 => output.add(element).write(bits as u8),
                    16 => output.cast::<u16>().add(element).write_unaligned(bits as u16),
                    32 => output.cast::<u32>().add(element).write_unaligned(bits as u32),
                    _ => output.cast::<u64>().add(element).write_unaligned(bits),
                }
            }
        }
    }
}

/// Sorts rows in memory that is kept from one to the next.
pub(super) struct Row<'a> {
    rows: &'a Rows,
    threads: Option<&'a ThreadPool>,
    memory: Memory,
}

/// Room to sort a row.
#[derive(Default)]
struct Memory {
    indices: Vec<u32>,
    index_scratch: Vec<u32>,
    packed: Keys<Packed>,
    wide: Keys<Wide>,
    plain: Keys<u32>,
    wide_plain: Keys<u64>,
    bytes: Vec<u8>,
    words: Words,
}

/// Bytes that a thread keeps for its next sort, at most.
const KEPT_BYTES: usize = 16 << 20;

thread_local! {
    /// The memory of the thread's last sort: fresh pages cost as much as sorting in them.
    static KEPT: Cell<Memory> = Cell::default();
}

impl Memory {
    fn byte_size(&self) -> usize {
        4 * (self.indices.capacity() + self.index_scratch.capacity())
            + self.packed.byte_size()
            + self.wide.byte_size()
            + self.plain.byte_size()
            + self.wide_plain.byte_size()
            + self.bytes.capacity()
            + self.words.byte_size()
    }
}

impl Drop for Row<'_> {
    fn drop(&mut self) {
        if self.memory.byte_size() <= KEPT_BYTES {
            KEPT.set(std::mem::take(&mut self.memory));
        }
    }
}

/// Keys of a row, and room to sort them.
#[derive(Default)]
struct Keys<T> {
    keys: Vec<T>,
    scratch: Vec<T>,
}

impl<T: Keyed> Keys<T> {
    fn byte_size(&self) -> usize {
        size_of::<T>() * (self.keys.capacity() + self.scratch.capacity())
    }

    /// The keys in order.
    fn sorted(&mut self, keys: impl Iterator<Item = T>, threads: Option<&ThreadPool>) -> &[T] {
        self.keys.clear();
        self.keys.extend(keys);
        sort_keys(&mut self.keys, &mut self.scratch, threads);
        &self.keys
    }
}

impl<'a> Row<'a> {
    pub(super) fn new(rows: &'a Rows, threads: Option<&'a ThreadPool>) -> Self {
        let threads = threads.filter(|threads| threads.threads() > 1 && rows.length >= PARALLEL_LENGTH);
        Self { rows, threads, memory: KEPT.take() }
    }

    /// Sorts the rows of one group of [`Rows::together`].
    pub(super) fn sort_group(&mut self, index: usize) {
        let rows = self.rows;
        let together = rows.together();
        let begin = index * together;
        let end = rows.count.min(begin + together);
        match rows.key.as_ref().and_then(|key| Some((key, key.words?))) {
            Some((key, coder)) if together > 1 => self.sort_together(key, coder, begin, end),
            _ => (begin..end).for_each(|index| self.sort(index)),
        }
    }

    fn sort_together(&mut self, key: &Key, coder: WordCoder<u64>, begin: usize, end: usize) {
        let rows = self.rows;
        let group = Group {
            firsts: std::array::from_fn(|lane| rows.first((begin + lane).min(end - 1))),
            count: end - begin,
            step: rows.inner,
            length: rows.length,
            total: rows.count * rows.length,
        };
        let operand = &rows.operands[key.operand];
        let task = Task {
            group,
            coder,
            bytes: operand.bytes,
            refuses_nan: rows.order == SortOrder::Less,
            input: operand.input,
            output: (rows.operands.len() == 1).then_some(operand.output),
        };
        // SAFETY: rows of the arrays, whose element size was checked to be the key's, and which this thread has.
        match unsafe { self.memory.words.sort(&task) } {
            Outcome::Written => {}
            Outcome::HasNan => (begin..end).for_each(|index| self.sort(index)),
            Outcome::Places => {
                let mut indices = std::mem::take(&mut self.memory.indices);
                for (lane, &first) in group.firsts[..group.count].iter().enumerate() {
                    indices.clear();
                    indices.extend(self.memory.words.places(&task, lane));
                    self.rearrange(first, &indices);
                }
                self.memory.indices = indices;
            }
        }
    }

    /// Sorts row `index`.
    fn sort(&mut self, index: usize) {
        let rows = self.rows;
        let first = rows.first(index);
        match &rows.key {
            Some(key) if rows.order != SortOrder::Less || !self.has_nan(key, first) => self.sort_by_key(key, first),
            _ => self.sort_by_comparator(first),
        }
    }

    fn has_nan(&self, key: &Key, first: usize) -> bool {
        (0..self.rows.length).any(|position| key.coder.is_nan(self.rows.load_bits(key, first, position)))
    }

    fn sort_by_key(&mut self, key: &Key, first: usize) {
        let rows = self.rows;
        let elements = (0..rows.length).map(|position| rows.load_bits(key, first, position));
        if rows.operands.len() > 1 {
            let mut indices = std::mem::take(&mut self.memory.indices);
            indices.clear();
            if key.bits <= 32 {
                let keys = elements.zip(0..).map(|(bits, index)| Packed::new(key.coder.encode(bits), index));
                indices.extend(self.memory.packed.sorted(keys, self.threads).iter().map(|item| item.payload()));
            } else {
                let keys = elements.zip(0..).map(|(bits, index)| Wide { key: key.coder.encode(bits), index });
                indices.extend(self.memory.wide.sorted(keys, self.threads).iter().map(|item| item.index));
            }
            self.rearrange(first, &indices);
            self.memory.indices = indices;
            return;
        }
        // A single operand needs no places: its elements follow from their keys, or travel with them.
        let keys = elements.clone().map(|bits| key.coder.encode(bits));
        match (key.bits <= 32, key.coder.is_reversible()) {
            (true, true) => {
                let sorted = self.memory.plain.sorted(keys.map(|key| key as u32), self.threads);
                rows.store(key, first, sorted.iter().map(|&item| key.coder.decode(item.into())));
            }
            (true, false) => {
                let items = elements.map(|bits| Packed::new(key.coder.encode(bits), bits as u32));
                let sorted = self.memory.packed.sorted(items, self.threads);
                rows.store(key, first, sorted.iter().map(|item| item.payload().into()));
            }
            (false, true) => {
                let sorted = self.memory.wide_plain.sorted(keys, self.threads);
                rows.store(key, first, sorted.iter().map(|&item| key.coder.decode(item)));
            }
            (false, false) => {
                let items = elements.zip(0..).map(|(bits, index)| Wide { key: key.coder.encode(bits), index });
                let mut indices = std::mem::take(&mut self.memory.indices);
                indices.clear();
                indices.extend(self.memory.wide.sorted(items, self.threads).iter().map(|item| item.index));
                self.rearrange(first, &indices);
                self.memory.indices = indices;
            }
        }
    }

    fn sort_by_comparator(&mut self, first: usize) {
        let rows = self.rows;
        // Checked by `Rows::new`.
        let Some(comparator) = rows.comparator else { return };
        let mut indices = std::mem::take(&mut self.memory.indices);
        indices.clear();
        indices.extend(0..rows.length as u32);
        let mut elements = vec![std::ptr::null::<u8>(); 2 * rows.operands.len()];
        merge_sort(&mut indices, &mut self.memory.index_scratch, |&left, &right| {
            for (pair, operand) in elements.chunks_exact_mut(2).zip(&rows.operands) {
                let address = |position: u32| {
                    // SAFETY: an element of the row.
                    unsafe { operand.input.add((first + position as usize * rows.inner) * operand.bytes) }
                };
                pair.copy_from_slice(&[address(left), address(right)]);
            }
            // SAFETY: two elements of each operand, as the comparator expects.
            unsafe { comparator(elements.as_ptr()) & 1 != 0 }
        });
        self.rearrange(first, &indices);
        self.memory.indices = indices;
    }

    /// Writes element `indices[i]` of the row to place `i`, for every operand.
    fn rearrange(&mut self, first: usize, indices: &[u32]) {
        let rows = self.rows;
        for operand in &rows.operands {
            match operand.bytes {
                1 => self.rearrange_elements::<u8>(operand, first, indices),
                2 => self.rearrange_elements::<u16>(operand, first, indices),
                4 => self.rearrange_elements::<u32>(operand, first, indices),
                8 => self.rearrange_elements::<u64>(operand, first, indices),
                16 => self.rearrange_elements::<u128>(operand, first, indices),
                _ => self.rearrange_bytes(operand, first, indices),
            }
        }
    }

    fn rearrange_elements<T: Copy>(&mut self, operand: &Operand, first: usize, indices: &[u32]) {
        let inner = self.rows.inner;
        let (input, output) = (operand.input.cast::<T>(), operand.output.cast::<T>());
        if input == output.cast_const() {
            // All is read before anything is written.
            self.memory.bytes.resize(size_of::<T>() * indices.len(), 0);
            let row = self.memory.bytes.as_mut_ptr().cast::<T>();
            for (position, &index) in indices.iter().enumerate() {
                // SAFETY: an element of the row, and room for as many as it has.
                unsafe {
                    row.add(position).write_unaligned(input.add(first + index as usize * inner).read_unaligned())
                };
            }
            for position in 0..indices.len() {
                // SAFETY: the same the other way round.
                unsafe { output.add(first + position * inner).write_unaligned(row.add(position).read_unaligned()) };
            }
            return;
        }
        for (position, &index) in indices.iter().enumerate() {
            // SAFETY: elements of the row in two arrays that do not overlap.
            unsafe {
                let element = input.add(first + index as usize * inner).read_unaligned();
                output.add(first + position * inner).write_unaligned(element);
            }
        }
    }

    /// The same through a copy of the row, for elements of any size.
    fn rearrange_bytes(&mut self, operand: &Operand, first: usize, indices: &[u32]) {
        let (inner, bytes) = (self.rows.inner, operand.bytes);
        self.memory.bytes.clear();
        for &index in indices {
            // SAFETY: an element of the row.
            let element = unsafe {
                std::slice::from_raw_parts(operand.input.add((first + index as usize * inner) * bytes), bytes)
            };
            self.memory.bytes.extend_from_slice(element);
        }
        for (position, element) in self.memory.bytes.chunks_exact(bytes.max(1)).enumerate() {
            // SAFETY: an element of the row, which the copy does not overlap.
            unsafe {
                let to = operand.output.add((first + position * inner) * bytes);
                std::ptr::copy_nonoverlapping(element.as_ptr(), to, bytes);
            }
        }
    }
}

//! Memory of large literals is used again: fresh pages of the system cost several times what writing a result does.

use std::sync::{Mutex, PoisonError};

use crate::literal::AlignedBytes;

/// Smaller blocks are the allocator's: it keeps these itself.
const SMALLEST: usize = 1 << 18;

/// Bytes that are kept at most, all together.
const MOST: usize = 64 << 20;

/// Blocks that nobody uses, the oldest first.
static KEPT: Mutex<Vec<AlignedBytes>> = Mutex::new(Vec::new());

/// A kept block for so many bytes, empty, and not much larger.
pub(crate) fn take(bytes: usize) -> Option<AlignedBytes> {
    if bytes < SMALLEST {
        return None;
    }
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = |block: &AlignedBytes| (bytes..=bytes + bytes / 8).contains(&block.capacity());
    let place = kept.iter().rposition(fits)?;
    let mut block = kept.remove(place);
    block.clear();
    Some(block)
}

/// Keeps a block that nobody uses any more, if it is worth it.
pub(crate) fn keep(block: AlignedBytes) {
    if !(SMALLEST..=MOST).contains(&block.capacity()) {
        return;
    }
    let mut released = Vec::new();
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.push(block);
    let mut total: usize = kept.iter().map(|block| block.capacity()).sum();
    while total > MOST {
        total -= kept[0].capacity();
        released.push(kept.remove(0));
    }
    // The system takes its time for large blocks: others need not wait for it.
    drop(kept);
}

/// Gives all kept memory back.
pub fn release() {
    let kept = std::mem::take(&mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner));
    drop(kept);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element_type::ElementType;
    use crate::literal::{ArrayLiteral, reserve};
    use crate::shape::ArrayShape;

    #[test]
    fn memory_of_large_literals_is_used_again() {
        // A size that no other test uses.
        let size = (3 << 20) + 64;
        let mut block = reserve(size).unwrap();
        let start = block.as_ptr();
        block.resize(size, 1);
        let literal = ArrayLiteral::new(ArrayShape::new(ElementType::U8, [size as i64]), block).unwrap();
        let other = literal.clone();
        drop(literal);
        assert_ne!(reserve(size).unwrap().as_ptr(), start, "somebody has it");
        drop(other);
        let again = reserve(size - 1000).unwrap();
        assert_eq!((again.as_ptr(), again.len()), (start, 0));
        assert!(take(size / 2).is_none());
        keep(again);
        release();
    }
}

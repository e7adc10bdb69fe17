//! Names of the kernels of one program, on every platform.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// What equal kernels are found by, and which names are taken.
#[derive(Default)]
pub(crate) struct KernelNames {
    structures: RefCell<HashMap<String, usize>>,
    taken: RefCell<HashSet<String>>,
}

impl KernelNames {
    /// A number that is the same for computations of the same structure.
    pub fn number_of(&self, structure: String) -> usize {
        let mut structures = self.structures.borrow_mut();
        let next = structures.len();
        *structures.entry(structure).or_insert(next)
    }

    /// A name that was free, and is taken now: the wanted one, or one with a number behind it and the separator.
    pub fn unique(&self, wanted: String, separator: char) -> String {
        let mut taken = self.taken.borrow_mut();
        let mut unique = wanted.clone();
        let mut number = 0;
        while !taken.insert(unique.clone()) {
            number += 1;
            unique = format!("{wanted}{separator}{number}");
        }
        unique
    }

    /// Takes a name that follows from a unique one.
    pub fn take(&self, name: String) {
        self.taken.borrow_mut().insert(name);
    }
}

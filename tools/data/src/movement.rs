//! How far a result moves when inputs move by one unit in the last place.

use hlo::literal::ArrayLiteral;

use crate::compare::{self, distance};

/// How far one output moved, at most, over several runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Movement {
    elements: Vec<f64>,
    /// Change of the root mean square.
    pub root_mean_square: f64,
    /// Change of the mean.
    pub mean: f64,
}

impl Movement {
    /// Change of one element, by its row-major position.
    pub fn of(&self, position: usize) -> f64 {
        self.elements.get(position).copied().unwrap_or(0.0)
    }

    /// Takes another run into account: what an element was, and what it was moved to.
    pub fn record(&mut self, unmoved: &ArrayLiteral, moved: &ArrayLiteral) {
        self.elements.resize(unmoved.shape().element_count() as usize, 0.0);
        let pairs = compare::elements(unmoved).zip(compare::elements(moved));
        for (element, (unmoved, moved)) in self.elements.iter_mut().zip(pairs) {
            *element = element.max(distance(unmoved, moved));
        }
        let change = |summary: fn(&ArrayLiteral) -> f64| (summary(unmoved) - summary(moved)).abs();
        let root_mean_square = |array: &ArrayLiteral| compare::root_mean_square(compare::elements(array));
        self.root_mean_square = self.root_mean_square.max(change(root_mean_square));
        self.mean = self.mean.max(change(compare::mean));
    }
}

//! The text of pass pipelines, as a list of passes each with the operations it runs on.
//!
//! MLIR parses and prints pipelines; this reads what MLIR printed, so that a pipeline can be cut between two passes.

use std::fmt;

/// A pass of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Names of the operations around the pass, from below the module inwards, such as `func.func`.
    pub anchors: Vec<String>,
    /// Name of the pass with its options, such as `hlo-canonicalize{max-iterations=3}`.
    pub pass: String,
}

impl Step {
    /// Name of the pass.
    pub fn name(&self) -> &str {
        self.pass.split('{').next().unwrap_or(&self.pass)
    }
}

/// A pipeline on `builtin.module`: its passes in order.
///
/// Running the passes one after the other on the whole module equals running the pipeline, which takes the passes of
/// a nested pipeline together, one operation after the other: a pass on a function sees nothing of other functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipelineText {
    /// The passes.
    pub steps: Vec<Step>,
}

impl PipelineText {
    /// Reads a pipeline, with `builtin.module(…)` around it or without. Text that is not balanced gives steps that MLIR
    /// refuses.
    pub fn parse(text: &str) -> Self {
        let mut steps = Vec::new();
        let elements = split(text.trim());
        match elements.as_slice() {
            [only] if only.starts_with("builtin.module(") && only.ends_with(')') => {
                read(&only["builtin.module(".len()..only.len() - 1], &[], &mut steps);
            }
            _ => read(text.trim(), &[], &mut steps),
        }
        PipelineText { steps }
    }

    /// The first `count` passes, and the rest.
    pub fn split_at(&self, count: usize) -> (PipelineText, PipelineText) {
        let (first, rest) = self.steps.split_at(count.min(self.steps.len()));
        (PipelineText { steps: first.to_vec() }, PipelineText { steps: rest.to_vec() })
    }

    /// Place behind the last pass of a name.
    pub fn end_of(&self, name: &str) -> Option<usize> {
        self.steps.iter().rposition(|step| step.name() == name).map(|place| place + 1)
    }

    /// The passes without `builtin.module` around them.
    pub fn elements(&self) -> String {
        let mut text = String::new();
        let mut open: &[String] = &[];
        for step in &self.steps {
            let common = open.iter().zip(&step.anchors).take_while(|(left, right)| left == right).count();
            // Two neighbours in one nested pipeline stay together; a pass that is closer to the module ends it.
            text.push_str(&")".repeat(open.len() - common));
            if !text.is_empty() && !text.ends_with('(') {
                text.push(',');
            }
            for anchor in &step.anchors[common..] {
                text.push_str(anchor);
                text.push('(');
            }
            text.push_str(&step.pass);
            open = &step.anchors;
        }
        text.push_str(&")".repeat(open.len()));
        text
    }
}

impl fmt::Display for PipelineText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "builtin.module({})", self.elements())
    }
}

fn read(text: &str, anchors: &[String], steps: &mut Vec<Step>) {
    for element in split(text) {
        let element = element.trim();
        let nested =
            element.find(['(', '{']).filter(|&place| element[place..].starts_with('(') && element.ends_with(')'));
        match nested {
            Some(place) => {
                let mut inner = anchors.to_vec();
                inner.push(element[..place].trim().to_string());
                read(&element[place + 1..element.len() - 1], &inner, steps);
            }
            None if element.is_empty() => {}
            None => steps.push(Step { anchors: anchors.to_vec(), pass: element.to_string() }),
        }
    }
}

/// The elements between the commas that are in no brackets and no quotes.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut quote) = (0usize, 0, None);
    let mut parts = Vec::new();
    for (place, letter) in text.char_indices() {
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) => quote = Some(letter),
            ('(' | '{', None) => depth += 1,
            (')' | '}', None) => depth = depth.saturating_sub(1),
            (',', None) if depth == 0 => {
                parts.push(&text[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelines_read_and_print() {
        for text in [
            "builtin.module()",
            "builtin.module(a,func.func(b{x=1 y=2},cse),c{list={1,2} top-down=true},gpu.module(gpu.func(d)))",
            "builtin.module(func.func(a),b,func.func(c))",
        ] {
            assert_eq!(PipelineText::parse(text).to_string(), text);
        }
        assert_eq!(PipelineText::parse("func.func(a,b) , c").to_string(), "builtin.module(func.func(a,b),c)");
    }

    #[test]
    fn pipelines_are_cut_between_passes() {
        let text = PipelineText::parse("a,func.func(b{o=(1,2)},c),d");
        assert_eq!(text.steps[1].name(), "b");
        assert_eq!(text.end_of("b"), Some(2));
        let (first, rest) = text.split_at(2);
        assert_eq!(first.elements(), "a,func.func(b{o=(1,2)})");
        assert_eq!(rest.to_string(), "builtin.module(func.func(c),d)");
    }
}

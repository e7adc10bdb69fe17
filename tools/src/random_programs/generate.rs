//! The program of a seed: parameters, random operations on earlier values, a tuple of what was not used.

use std::collections::HashSet;
use std::fmt::Write;

use fastrand::Rng;
use hlo::element_type::{ElementClass, ElementType};
use hlo::literal::{ArrayLiteral, Literal};
use hlo::scalar::{self, Scalar};
use hlo::shape::ArrayShape;
use num_complex::Complex;

use super::RandomProgram;
use super::accuracy::Accuracy;
use super::{control, operations};

/// Sizes of matrices of many rows, which neither blocks nor vectors divide.
const ROWS: [i64; 3] = [61, 75, 90];
const COLUMNS: [i64; 4] = [11, 40, 57, 70];

/// Elements of other arrays at most.
pub(super) const MOST_ELEMENTS: i64 = 2048;

/// Element types with how often they are drawn.
const TYPES: [(ElementType, u32); 14] = [
    (ElementType::F32, 10),
    (ElementType::S32, 6),
    (ElementType::Pred, 3),
    (ElementType::F64, 2),
    (ElementType::BF16, 2),
    (ElementType::F16, 1),
    (ElementType::S8, 1),
    (ElementType::U8, 1),
    (ElementType::S16, 1),
    (ElementType::U16, 1),
    (ElementType::U32, 2),
    (ElementType::S64, 2),
    (ElementType::U64, 1),
    (ElementType::C64, 1),
];

/// An array that the program has computed.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub name: String,
    pub element_type: ElementType,
    pub dimensions: Vec<i64>,
    pub accuracy: Accuracy,
}

impl Value {
    pub(super) fn elements(&self) -> i64 {
        self.dimensions.iter().product()
    }

    pub(super) fn rank(&self) -> usize {
        self.dimensions.len()
    }

    pub(super) fn is_exact(&self) -> bool {
        self.accuracy.is_exact()
    }

    /// The shape as HLO text writes it.
    pub(super) fn shape(&self) -> String {
        shape_text(self.element_type, &self.dimensions)
    }
}

pub(super) fn shape_text(element_type: ElementType, dimensions: &[i64]) -> String {
    ArrayShape::new(element_type, dimensions).to_string()
}

/// A computation being written.
pub(super) struct Body {
    pub text: String,
    pub values: Vec<Value>,
    /// Names of the values that are operands.
    pub used: HashSet<String>,
    /// Whether every value must be determined to the bit: in loops errors would grow without bound.
    pub exact_only: bool,
    /// How many computations this one is inside of.
    pub depth: usize,
}

/// What all computations of a program share.
pub(super) struct Generator {
    pub random: Rng,
    /// Whether compiled code may be more precise than the program says.
    pub excess_precision: bool,
    /// Computations that are finished.
    pub computations: String,
    names: usize,
}

impl Generator {
    /// A name that nothing else has.
    pub(super) fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}.{}", self.names)
    }

    pub(super) fn element_type(&mut self) -> ElementType {
        let total: u32 = TYPES.iter().map(|(_, weight)| weight).sum();
        let mut ticket = self.random.u32(0..total);
        for (element_type, weight) in TYPES {
            if ticket < weight {
                return element_type;
            }
            ticket -= weight;
        }
        ElementType::F32
    }

    /// Rank 0 to 4; sizes that fill vectors and such that do not, and rows of which kernels compute several blocks.
    fn dimensions(&mut self) -> Vec<i64> {
        if self.chance(10) {
            return vec![*self.choose(&ROWS), *self.choose(&COLUMNS)];
        }
        let rank = [0, 1, 1, 2, 2, 2, 3, 3, 4][self.random.usize(0..9)];
        let mut dimensions: Vec<i64> =
            (0..rank).map(|_| [1, 2, 3, 4, 5, 7, 8, 16, 17, 33][self.random.usize(0..10)]).collect();
        if self.random.u32(0..60) == 0 && rank > 0 {
            dimensions[0] = 0;
        }
        while dimensions.iter().product::<i64>() > MOST_ELEMENTS {
            if let Some(largest) = dimensions.iter_mut().max() {
                *largest /= 2;
            }
        }
        dimensions
    }

    pub(super) fn chance(&mut self, one_in: u32) -> bool {
        self.random.u32(0..one_in) == 0
    }

    pub(super) fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.random.usize(0..items.len())]
    }
}

impl Body {
    pub(super) fn new(exact_only: bool, depth: usize) -> Self {
        Body { text: String::new(), values: Vec::new(), used: HashSet::new(), exact_only, depth }
    }

    /// Writes an instruction and gives its value; `call` is the text behind the shape.
    pub(super) fn add(
        &mut self,
        generator: &mut Generator,
        element_type: ElementType,
        dimensions: &[i64],
        accuracy: Accuracy,
        call: &str,
    ) -> Value {
        let name = generator.name("v");
        let value = Value { name, element_type, dimensions: dimensions.to_vec(), accuracy };
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "  {} = {} {call}", value.name, value.shape());
        self.values.push(value.clone());
        value
    }

    /// Like [`Body::add`] for an operation on `operands`, which are counted as used.
    pub(super) fn apply(
        &mut self,
        generator: &mut Generator,
        operation: &str,
        operands: &[&Value],
        attributes: &str,
        (element_type, dimensions, accuracy): (ElementType, &[i64], Accuracy),
    ) -> Value {
        let call = format!("{operation}({}){attributes}", self.operands(operands));
        self.add(generator, element_type, dimensions, accuracy, &call)
    }

    /// The names of operands as a call lists them; counts them as used.
    pub(super) fn operands(&mut self, operands: &[&Value]) -> String {
        for operand in operands {
            self.used.insert(operand.name.clone());
        }
        operands.iter().map(|operand| operand.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// A constant whose elements are all the same.
    pub(super) fn constant(&mut self, generator: &mut Generator, element_type: ElementType, value: i64) -> Value {
        let text = match element_type.class() {
            ElementClass::Predicate => (value != 0).to_string(),
            ElementClass::Unsigned => value.unsigned_abs().to_string(),
            ElementClass::Complex => format!("({value}, 0)"),
            ElementClass::Signed | ElementClass::Float => value.to_string(),
        };
        let accuracy = Accuracy::whole(value.abs() as f64);
        self.add(generator, element_type, &[], accuracy, &format!("constant({text})"))
    }

    /// A value that `fits`, recent ones more often than others.
    pub(super) fn pick(&self, generator: &mut Generator, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        let fitting: Vec<&Value> = self.values.iter().filter(|value| fits(value)).collect();
        let recent = &fitting[fitting.len().saturating_sub(5)..];
        let among = if generator.random.u32(0..3) > 0 { recent } else { &fitting[..] };
        if among.is_empty() { None } else { Some((*generator.choose(among)).clone()) }
    }

    /// Adds `count` random operations.
    pub(super) fn grow(&mut self, generator: &mut Generator, count: usize) {
        let mut made = 0;
        // Some draws fit no value; the bound keeps a hopeless body from looping for ever.
        for _ in 0..20 * count {
            if made == count {
                return;
            }
            let nested = self.depth < 2 && generator.chance(12);
            let value = if nested { control::random(self, generator) } else { operations::random(self, generator) };
            made += usize::from(value.is_some());
        }
    }
}

/// The program of a seed.
///
/// # Errors
/// The text and what the reader says of it, if it is not valid: a mistake of the generator or of a shape rule.
pub fn generate(seed: u64) -> Result<RandomProgram, String> {
    let mut generator = Generator {
        random: Rng::with_seed(seed),
        excess_precision: seed % 2 == 1,
        computations: String::new(),
        names: 0,
    };
    let mut body = Body::new(false, 0);
    let mut arguments = Vec::new();
    for number in 0..generator.random.usize(2..6) {
        let element_type = generator.element_type();
        let dimensions = generator.dimensions();
        let (argument, accuracy) = argument(&mut generator, element_type, &dimensions);
        body.add(&mut generator, element_type, &dimensions, accuracy, &format!("parameter({number})"));
        arguments.push(Literal::Array(argument));
    }
    let operations = generator.random.usize(8..30);
    body.grow(&mut generator, operations);
    let unused: Vec<&Value> = body.values.iter().filter(|value| !body.used.contains(&value.name)).collect();
    let shapes: Vec<String> = unused.iter().map(|value| value.shape()).collect();
    let names: Vec<&str> = unused.iter().map(|value| value.name.as_str()).collect();
    let errors = body.values.iter().map(|value| (value.name.clone(), value.accuracy.error)).collect();
    let text = format!(
        "HloModule random_{seed}\n\n{}ENTRY main {{\n{}  ROOT results = ({}) tuple({})\n}}\n",
        generator.computations,
        body.text,
        shapes.join(", "),
        names.join(", ")
    );
    let module =
        hlo::text::read(&text).map_err(|error| format!("the generated program is not valid: {error}\n{text}"))?;
    let (excess_precision, overwrites_arguments) = (generator.excess_precision, seed % 4 < 2);
    Ok(RandomProgram { module, arguments, excess_precision, overwrites_arguments, errors })
}

/// Small whole numbers, or any bits of an integer, or reals.
fn argument(generator: &mut Generator, element_type: ElementType, dimensions: &[i64]) -> (ArrayLiteral, Accuracy) {
    let shape = ArrayShape::new(element_type, dimensions);
    let count = shape.element_count() as usize;
    let mut bytes = vec![0; shape.byte_size()];
    let is_whole = generator.random.bool();
    for index in 0..count {
        let small = generator.random.i64(-4..=4);
        let real = generator.random.f64() * 4.0 - 2.0;
        let number = if is_whole { small as f64 } else { real };
        let value = match element_type.class() {
            ElementClass::Predicate => Scalar::Predicate(small > 0),
            ElementClass::Signed => Scalar::Signed(if is_whole { small } else { generator.random.i64(..) }),
            ElementClass::Unsigned => Scalar::Unsigned(if is_whole { small as u64 } else { generator.random.u64(..) }),
            ElementClass::Float => Scalar::Float(number),
            ElementClass::Complex => Scalar::Complex(Complex::new(number, small as f64)),
        };
        scalar::store(element_type, &mut bytes, index, value);
    }
    let is_number = matches!(element_type.class(), ElementClass::Float | ElementClass::Complex);
    let accuracy = match (is_whole, is_number) {
        (true, true) => Accuracy::whole(8.0),
        (false, true) => Accuracy { error: 0.0, bound: 8.0, whole: false },
        (_, false) => Accuracy { error: 0.0, bound: f64::INFINITY, whole: true },
    };
    // The size is the shape's own.
    let literal = ArrayLiteral::from_bytes(shape.clone(), &bytes).unwrap_or_else(|_| ArrayLiteral::scalar(0u8));
    (literal, accuracy)
}

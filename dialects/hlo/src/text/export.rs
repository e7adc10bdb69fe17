//! Graph to text, in the form XLA prints.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use crate::attributes::AttributeValue;
use crate::element_type::ElementType;
use crate::graph::{Computation, Instruction, InstructionId, Module};
use crate::literal::Literal;
use crate::op_kind::OpKind;
use crate::ops::parameter::ParameterAttributes;
use crate::ops::{self, ComputationKey};
use crate::shape::Shape;

use crate::text::attributes;
use crate::text::computation_order::ComputationOrder;
use crate::text::header;
use crate::text::literal;
use crate::text::parse::names_in_braces;

/// What a text holds. Every form reads back to the module, but for what it leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextOptions {
    /// `%` before names, and the signature of each computation.
    pub percent: bool,
    /// `metadata` of instructions and the source tables.
    pub metadata: bool,
    /// `backend_config` of instructions.
    pub backend_config: bool,
    /// The shape before each operand, as older dumps have it.
    pub operand_shapes: bool,
    /// Literals of more than 10 elements; otherwise such are written `{...}`.
    pub large_literals: bool,
}

impl TextOptions {
    /// All there is, as XLA's dumps have it.
    pub const LONG: TextOptions = TextOptions {
        percent: true,
        metadata: true,
        backend_config: true,
        operand_shapes: false,
        large_literals: true,
    };

    /// For people: no `%`, no metadata.
    pub const SHORT: TextOptions = TextOptions { percent: false, metadata: false, ..TextOptions::LONG };
}

impl Default for TextOptions {
    fn default() -> Self {
        TextOptions::LONG
    }
}

/// Elements that a literal may have to be written in full when large ones are not.
const SMALL_LITERAL: i64 = 10;

/// Writes a module in XLA's long form.
pub fn print(module: &Module) -> String {
    print_with(module, TextOptions::LONG)
}

/// Writes a module.
pub fn print_with(module: &Module, options: TextOptions) -> String {
    let order = ComputationOrder::new(module);
    let mut printer = Printer { module, options, order: &order, ordered: HashSet::new(), out: String::new() };
    header::write(&mut printer.out, module, &identifier(&module.name));
    if options.metadata && module.sources.present {
        header::write_tables(&mut printer.out, &module.sources);
    }
    let entry = module.functions.get(module.entry.index());
    for &computation in &order.sequence {
        printer.computation(computation, entry.is_some_and(|entry| std::ptr::eq(entry, computation)));
    }
    printer.out.push('\n');
    printer.out
}

/// `name` as an identifier of HLO text; names that were read are identifiers already.
pub(crate) fn identifier(name: &str) -> Cow<'_, str> {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    if name.starts_with(is_first) && name.chars().all(is_inside) {
        return Cow::Borrowed(name);
    }
    let mut identifier: String = name.chars().map(|c| if is_inside(c) { c } else { '_' }).collect();
    if !identifier.starts_with(is_first) {
        identifier.insert(0, '_');
    }
    Cow::Owned(identifier)
}

struct Printer<'m> {
    module: &'m Module,
    options: TextOptions,
    order: &'m ComputationOrder<'m>,
    /// The names that `control-predecessors` of the computation at hand may have: those of others are left out.
    ordered: HashSet<String>,
    out: String,
}

impl<'m> Printer<'m> {
    fn percent(&self) -> &'static str {
        if self.options.percent { "%" } else { "" }
    }

    fn computation(&mut self, computation: &'m Computation, is_entry: bool) {
        let names = instruction_names(computation);
        let is_ordered = |instruction: &Instruction| instruction.annotation("control-predecessors").is_some();
        let has_order = computation.instructions.iter().any(is_ordered);
        self.ordered = if has_order { names.iter().map(|name| name.to_string()).collect() } else { HashSet::new() };
        let percent = self.percent();
        self.out.push('\n');
        if is_entry {
            self.out.push_str("ENTRY ");
        }
        let name = self.order.name(computation);
        let _ = write!(self.out, "{percent}{name} ");
        if self.options.percent {
            self.out.push('(');
            for (number, &parameter) in computation.parameters.iter().enumerate() {
                if number > 0 {
                    self.out.push_str(", ");
                }
                let shape = computation.get(parameter).shape.without_layout();
                let _ = write!(self.out, "{}: {shape}", names[parameter.index()]);
            }
            let _ = write!(self.out, ") -> {} ", computation.root().shape.without_layout());
        }
        self.out.push_str("{\n");
        for (id, instruction) in computation.iter() {
            self.out.push_str("  ");
            if id == computation.root {
                self.out.push_str("ROOT ");
            }
            self.instruction(computation, &names, id, instruction);
            self.out.push('\n');
        }
        self.out.push('}');
        for (key, value) in &computation.annotations {
            let _ = write!(self.out, ", {key}={value}");
        }
        self.out.push('\n');
    }

    fn instruction(
        &mut self,
        computation: &'m Computation,
        names: &[Cow<'_, str>],
        id: InstructionId,
        instruction: &'m Instruction,
    ) {
        let percent = self.percent();
        let _ = write!(self.out, "{percent}{} = {} {}(", names[id.index()], instruction.shape, instruction.kind);
        match instruction.kind {
            OpKind::Parameter => {
                if let Ok(ParameterAttributes { parameter_number }) = instruction.attributes() {
                    let _ = write!(self.out, "{parameter_number}");
                }
            }
            OpKind::Constant => {
                if let Some(value) = instruction.literal() {
                    self.constant(value);
                }
            }
            _ => self.operands(computation, names, &instruction.operands),
        }
        self.out.push(')');
        self.attributes(computation, instruction);
        self.called(computation, instruction);
        for (key, value) in &instruction.annotations {
            let is_left_out = match key.as_str() {
                "metadata" => !self.options.metadata,
                "backend_config" => !self.options.backend_config,
                _ => false,
            };
            if key == "control-predecessors" {
                let mut names = names_in_braces(value);
                let written = names.len();
                names.retain(|name| self.ordered.contains(*name));
                if names.len() == written {
                    let _ = write!(self.out, ", {key}={value}");
                } else if !names.is_empty() {
                    let _ = write!(self.out, ", {key}={{{}}}", names.join(", "));
                }
            } else if !is_left_out {
                let _ = write!(self.out, ", {key}={value}");
            }
        }
    }

    fn constant(&mut self, value: &Literal) {
        let is_small = match value {
            Literal::Array(array) => array.shape().element_count() <= SMALL_LITERAL,
            Literal::Tuple(_) => false,
            Literal::Token | Literal::Elided(_) => true,
        };
        if is_small || self.options.large_literals {
            literal::write_literal(&mut self.out, value);
        } else {
            self.out.push_str("{...}");
        }
    }

    fn operands(&mut self, computation: &Computation, names: &[Cow<'_, str>], operands: &[InstructionId]) {
        let percent = self.percent();
        for (position, &operand) in operands.iter().enumerate() {
            if position > 0 {
                self.out.push_str(", ");
                if position % 5 == 0 && self.options.percent {
                    let _ = write!(self.out, "/*index={position}*/");
                }
            }
            if self.options.operand_shapes {
                let _ = write!(self.out, "{} ", computation.get(operand).shape);
            }
            let _ = write!(self.out, "{percent}{}", names[operand.index()]);
        }
    }

    fn attributes(&mut self, computation: &Computation, instruction: &Instruction) {
        let rank = |shape: Option<&Shape>| shape.and_then(Shape::as_array).map_or(0, |array| array.rank());
        let operand = |number: usize| instruction.operands.get(number).map(|&operand| &computation.get(operand).shape);
        for (key, value) in instruction.attributes.iter() {
            // Those of a parameter and of a constant stand between the parentheses.
            if attributes::is_payload(key) {
                continue;
            }
            let _ = write!(self.out, ", {key}=");
            let ranks = match value {
                AttributeValue::ConvolutionDimensions(_) => {
                    [rank(operand(0)), rank(operand(1)), rank(Some(&instruction.shape))]
                }
                _ => [0; 3],
            };
            attributes::write(&mut self.out, value, ranks);
        }
    }

    /// `to_apply=%f`, `condition=%c, body=%b`, `branch_computations={%a, %b}`.
    fn called(&mut self, computation: &Computation, instruction: &'m Instruction) {
        let percent = self.percent();
        if let Some(callee) = instruction.callee {
            let name = self.order.name(self.module.function(callee));
            let _ = write!(self.out, ", to_apply={percent}{name}");
            return;
        }
        let computations = &instruction.computations;
        if computations.is_empty() {
            return;
        }
        let keys = ops::definition(instruction.kind).computations;
        let is_predicated = instruction.kind == OpKind::Conditional
            && computations.len() == 2
            && instruction.operands.first().is_some_and(|&selector| {
                let shape = computation.get(selector).shape.as_array();
                shape.is_some_and(|array| array.element_type == ElementType::Pred)
            });
        let list_key = keys.iter().find_map(|key| match key {
            ComputationKey::List(name) if !is_predicated => Some(name),
            _ => None,
        });
        let Some(list_key) = list_key else {
            for (key, nested) in keys.iter().zip(computations) {
                let key = key.name();
                let _ = write!(self.out, ", {key}={percent}{}", self.order.name(nested));
            }
            return;
        };
        let _ = write!(self.out, ", {list_key}={{");
        for (position, nested) in computations.iter().enumerate() {
            let separator = if position > 0 { ", " } else { "" };
            let _ = write!(self.out, "{separator}{percent}{}", self.order.name(nested));
        }
        self.out.push('}');
    }
}

/// The names under which instructions are written: their own, made identifiers and unique in the computation.
fn instruction_names(computation: &Computation) -> Vec<Cow<'_, str>> {
    let mut taken: HashSet<Cow<'_, str>> = HashSet::with_capacity(computation.instructions.len());
    let mut names: Vec<Cow<'_, str>> = Vec::with_capacity(computation.instructions.len());
    let mut repeated = Vec::new();
    for (position, instruction) in computation.instructions.iter().enumerate() {
        let name = identifier(&instruction.name);
        if matches!(name, Cow::Owned(_)) || !taken.insert(Cow::Borrowed(&instruction.name)) {
            repeated.push(position);
        }
        names.push(name);
    }
    let mut next: HashMap<String, usize> = HashMap::new();
    for position in repeated {
        let base = names[position].to_string();
        let number = next.entry(base.clone()).or_insert(0);
        let mut name = base.clone();
        while !taken.insert(Cow::Owned(name.clone())) {
            *number += 1;
            name = format!("{base}.{number}");
        }
        names[position] = Cow::Owned(name);
    }
    names
}

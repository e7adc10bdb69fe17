//! Syntax tree to graph.

use std::collections::{HashMap, HashSet};

use crate::attributes::{AttributeValue, CARRIED};
use crate::element_type::ElementType;
use crate::graph::{self, Computation, FunctionId, Instruction, InstructionId, Module, TextPosition};
use crate::op_kind::OpKind;
use crate::ops::dot::DotAttributes;
use crate::ops::{self, ComputationKey, OpDefinition, OpError, OpView};
use crate::shape::{ArrayShape, ProgramShape, Shape};

use crate::text::ast;
use crate::text::attributes;
use crate::text::error::{Error, Errors, Faults};
use crate::text::expansion::{self, Plan};
use crate::text::header;
use crate::text::literal;
use crate::text::older;
use crate::text::shapes;
use crate::text::source::SourceLines;
use crate::text::suggestion;

/// Bytes that constants written as one value may fill, all together.
const MOST_FILLED_BYTES: i64 = 1 << 30;

/// Makes the graph of a module. Every instruction is verified against its operation's rules.
pub fn import(ast: ast::ModuleNode<'_>, source: SourceLines<'_>) -> Result<Module, Errors> {
    import_with_faults(ast, source, Vec::new())
}

/// As [`import`], for a module of which some faults are known. All faulty instructions are reported, up to a limit; where a
/// fault leaves the shape of a value unknown, nothing is said about what uses it.
pub(crate) fn import_with_faults(
    ast: ast::ModuleNode<'_>,
    source: SourceLines<'_>,
    mut faults: Vec<Error>,
) -> Result<Module, Errors> {
    let mut importer = Importer {
        source,
        lines: line_starts(source.text()),
        taken: ast.computations.iter().map(|computation| computation.name.to_string()).collect(),
        next: HashMap::new(),
        filled_bytes: 0,
        faults: Faults(&mut faults),
    };
    match importer.module(ast) {
        Err(error) => faults.push(error),
        Ok(module) if faults.is_empty() => return Ok(module),
        Ok(_) => {}
    }
    Err(Errors::in_order(faults))
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|newline| newline + 1)).collect()
}

pub(super) struct Importer<'t, 'f> {
    pub(super) source: SourceLines<'t>,
    lines: Vec<usize>,
    /// Names of computations, those of the text and those given here.
    taken: HashSet<String>,
    /// The number with which to go on, by name.
    next: HashMap<String, usize>,
    /// Bytes of constants written as one value for all elements.
    filled_bytes: i64,
    faults: Faults<'f>,
}

/// Computations made so far, by their position in the syntax tree.
pub(super) struct Made {
    plan: Plan,
    /// Computations that are still to be nested somewhere.
    nested: Vec<Option<Computation>>,
    functions: Vec<Computation>,
    function_ids: Vec<Option<FunctionId>>,
    /// Whether a fault leaves the signature unknown.
    is_unknown: Vec<bool>,
}

impl Made {
    /// A copy of a computation, or itself when this is its last use.
    fn take(&mut self, position: usize) -> Option<Computation> {
        self.plan.nested_uses[position] -= 1;
        if self.plan.nested_uses[position] == 0 { self.nested[position].take() } else { self.nested[position].clone() }
    }
}

impl<'t> Importer<'t, '_> {
    fn module(&mut self, mut ast: ast::ModuleNode<'t>) -> Result<Module, Error> {
        let plan = expansion::plan(&ast, self.source)?;
        let count = ast.computations.len();
        let order = plan.order.clone();
        let mut made = Made {
            plan,
            nested: vec![None; count],
            functions: Vec::new(),
            function_ids: vec![None; count],
            is_unknown: vec![false; count],
        };
        // Names of the computations written inside instructions: that of the instruction and of the attribute.
        let mut names: HashMap<usize, String> = HashMap::new();
        for caller in &ast.computations {
            for instruction in &caller.instructions {
                for (number, called) in instruction.called.iter().enumerate() {
                    if ast.computations[called.computation as usize].name.is_empty() {
                        let suffix = if instruction.called.len() > 2 { format!(".{number}") } else { String::new() };
                        let name = self.unique(format!("{}.{}{suffix}", instruction.anchor(), called.key));
                        names.insert(called.computation as usize, name);
                    }
                }
            }
        }
        for position in order {
            let (mut computation, is_unknown) = self.computation(&mut ast.computations[position], &mut made)?;
            made.is_unknown[position] = is_unknown;
            if let Some(name) = names.remove(&position) {
                computation.name = name;
            }
            if made.plan.is_function[position] {
                made.function_ids[position] = Some(FunctionId(made.functions.len() as u32));
                if made.plan.nested_uses[position] > 0 {
                    made.nested[position] = Some(computation.clone());
                }
                made.functions.push(computation);
            } else {
                made.nested[position] = Some(computation);
            }
        }
        let entry = made.function_ids[ast.entry].unwrap_or(FunctionId(0));
        let mut module = Module {
            name: ast.name.to_string(),
            annotations: Vec::new(),
            entry_layout: None,
            input_output_aliases: Vec::new(),
            sources: Default::default(),
            functions: made.functions,
            entry,
        };
        if module.name.is_empty() {
            module.name = module.entry().name.clone();
        }
        header::import(&mut module, &ast, self.source)?;
        Ok(module)
    }

    /// Takes the instructions out of the tree: it shrinks while the graph grows. Also says whether the shape of the root or
    /// of a parameter is unknown.
    fn computation(
        &mut self,
        ast: &mut ast::ComputationNode<'t>,
        made: &mut Made,
    ) -> Result<(Computation, bool), Error> {
        let mut computation = Computation {
            name: ast.name.to_string(),
            instructions: Vec::with_capacity(ast.instructions.len()),
            parameters: ast.parameters.iter().map(|&parameter| InstructionId(parameter)).collect(),
            root: InstructionId(ast.root),
            annotations: annotations(&ast.attributes),
        };
        let mut namer = Namer::new(&ast.instructions);
        let mut unknown: HashSet<u32> = HashSet::new();
        for (position, ast) in (0u32..).zip(std::mem::take(&mut ast.instructions)) {
            let name = namer.name(&ast);
            let is_readable = !ast.faulty
                && !ast.operands.iter().any(|operand| unknown.contains(&operand.instruction))
                && !ast.called.iter().any(|called| made.is_unknown[called.computation as usize]);
            let read = is_readable.then(|| self.instruction(&ast, name.clone(), &computation, made));
            let instruction = match read {
                Some(Ok(instruction)) => instruction,
                failed => {
                    if let Some(Err(fault)) = failed {
                        self.faults.add(fault)?;
                    }
                    if ast.shape.is_none() {
                        unknown.insert(position);
                    }
                    placeholder(name, ast.shape.as_deref())
                }
            };
            computation.instructions.push(instruction);
        }
        let is_unknown =
            unknown.contains(&ast.root) || ast.parameters.iter().any(|parameter| unknown.contains(parameter));
        Ok((computation, is_unknown))
    }

    pub(super) fn instruction(
        &mut self,
        ast: &ast::InstructionNode<'t>,
        name: String,
        computation: &Computation,
        made: &mut Made,
    ) -> Result<Instruction, Error> {
        let kind = match ast.opcode.parse().ok().or_else(|| older::operation(ast.opcode)) {
            Some(kind) => kind,
            None => return self.asynchronous(ast, name, computation, made),
        };
        let definition = ops::definition(kind);
        let operands: Vec<_> = ast.operands.iter().map(|operand| InstructionId(operand.instruction)).collect();
        let position = self.position(ast.anchor());
        let mut instruction = Instruction { position, ..Instruction::new(name, kind, Shape::Token, operands) };
        self.attributes(ast, definition, &mut instruction)?;
        self.called(ast, definition, &mut instruction, computation, made)?;
        if matches!(kind, OpKind::AsyncUpdate | OpKind::AsyncDone) {
            self.check_start(ast, &instruction, computation, None)?;
        }
        if kind == OpKind::Dot && !ast.attributes.iter().any(|attribute| attribute.key.ends_with("_dims")) {
            contract(&mut instruction, ast.shape.as_deref(), computation);
        }
        if kind == OpKind::Conditional {
            self.check_branches(ast, &instruction, computation)?;
        }
        let callee = instruction.callee.map(|callee| made.functions[callee.index()].program_shape());
        self.finish(ast, instruction, ast.shape.as_deref(), computation, callee)
    }

    /// Gives the instruction its shape, declared or inferred, and verifies it.
    pub(super) fn finish(
        &mut self,
        ast: &ast::InstructionNode<'t>,
        mut instruction: Instruction,
        shape: Option<&Shape>,
        computation: &Computation,
        callee: Option<ProgramShape>,
    ) -> Result<Instruction, Error> {
        match shape {
            Some(shape) => {
                instruction.shape = shape.clone();
                if let Err(error) = graph::verify_instruction(computation, &instruction, callee) {
                    let fault = self.op_error(ast, computation, error);
                    self.faults.add(fault)?;
                }
            }
            None => {
                let operands = computation.operand_shapes(&instruction);
                let mut computations: Vec<ProgramShape> =
                    instruction.computations.iter().map(Computation::program_shape).collect();
                computations.extend(callee);
                let view = OpView {
                    kind: instruction.kind,
                    operands: &operands,
                    attributes: &instruction.attributes,
                    computations: &computations,
                    result: None,
                };
                instruction.shape = ops::infer_shape(&view).map_err(|error| self.op_error(ast, computation, error))?;
            }
        }
        Ok(instruction)
    }

    /// A broken rule, at the attribute or operand at fault if the rule names one.
    fn op_error(&self, ast: &ast::InstructionNode<'t>, computation: &Computation, error: OpError) -> Error {
        let is_at_fault =
            |attribute: &&ast::Attribute<'_>| Some(older::attribute(error.kind, attribute.key)) == error.attribute;
        let attribute = ast.attributes.iter().find(is_at_fault);
        let operand = error.operand.and_then(|operand| ast.operands.get(operand));
        let at = match (attribute, operand) {
            (Some(attribute), _) => {
                let start = self.source.span_of(attribute.key).start;
                self.source.location(start..self.source.span_of(attribute.value).end)
            }
            (None, Some(operand)) => self.source.location_of(operand.text),
            (None, None) => {
                match (error.attribute, ast.payload, error.computation.and_then(|index| ast.called.get(index))) {
                    (Some(attributes::VALUE | attributes::PARAMETER_NUMBER), Some(payload), _) => {
                        self.source.location_of(payload)
                    }
                    (_, _, Some(called)) => {
                        let start = self.source.span_of(called.key).start;
                        self.source.location(start..self.source.span_of(called.text).end)
                    }
                    _ => self.source.location_of(ast.opcode),
                }
            }
        };
        let operand = operand
            .and_then(|operand| computation.instructions.get(operand.instruction as usize)?.position)
            .map(|position| self.source.word_at(position));
        Error::Op { at, error: Box::new(error), operand }
    }

    pub(super) fn attributes(
        &mut self,
        ast: &ast::InstructionNode<'t>,
        definition: &'static OpDefinition,
        instruction: &mut Instruction,
    ) -> Result<(), Error> {
        let source = self.source;
        check_unique(source, &ast.attributes)?;
        // Before what is missing: a misspelt attribute is both.
        for attribute in &ast.attributes {
            if CARRIED.contains(&attribute.key) {
                instruction.annotations.push((attribute.key.to_string(), attribute.value.to_string()));
            } else if definition.attribute(older::attribute(instruction.kind, attribute.key)).is_none()
                || attributes::is_payload(attribute.key)
            {
                return Err(self.unknown_attribute(ast.opcode, definition, attribute.key));
            }
        }
        let (mut parameter_number, mut value) = (None, None);
        match (instruction.kind, ast.payload) {
            (OpKind::Constant, Some(text)) => {
                let Some(shape) = &ast.shape else {
                    return Err(missing_shape(source, ast));
                };
                self.count_filled_bytes(shape, text)?;
                value = Some(literal::read(source, shape, text)?);
            }
            (OpKind::Parameter, Some(text)) => {
                if ast.shape.is_none() {
                    return Err(missing_shape(source, ast));
                }
                parameter_number = Some(shapes::integer(source, text)?);
            }
            (_, Some(text)) => return Err(crate::text::scan::Cursor::at(source, text).expected("an operand")),
            (_, None) => {}
        }
        for spec in definition.attributes.specs {
            let is_given =
                |attribute: &&ast::Attribute<'_>| older::attribute(instruction.kind, attribute.key) == spec.name;
            let given = ast.attributes.iter().find(is_given);
            let read = match (spec.name, given) {
                (attributes::PARAMETER_NUMBER, _) => parameter_number.take().map(AttributeValue::Int),
                (attributes::VALUE, _) => value.take().map(AttributeValue::Literal),
                (_, Some(attribute)) => Some(older::word(spec.name, attributes::read(source, *attribute, spec.form)?)),
                (_, None) => older::implied_attribute(ast.opcode, spec.name),
            };
            match read {
                Some(value) => instruction.attributes.set(spec.name, value),
                None if spec.required => {
                    return Err(Error::MissingAttribute {
                        at: source.location_of(ast.opcode),
                        opcode: ast.opcode.to_string(),
                        key: spec.name.to_string(),
                    });
                }
                None => {}
            }
        }
        Ok(())
    }

    /// The attributes that an operation takes are those that it declares, its computations and the carried ones.
    fn unknown_attribute(&self, opcode: &str, definition: &'static OpDefinition, key: &str) -> Error {
        let declared =
            definition.attributes.specs.iter().map(|spec| spec.name).filter(|name| !attributes::is_payload(name));
        let own: Vec<&'static str> = declared.chain(definition.computations.iter().map(|key| key.name())).collect();
        let carried = CARRIED.join(", ");
        let allowed = if own.is_empty() { carried } else { format!("{}, and {carried}", own.join(", ")) };
        Error::UnknownAttribute {
            at: self.source.location_of(key),
            opcode: opcode.to_string(),
            key: key.to_string(),
            suggestion: suggestion::nearest(key, own.into_iter().chain(CARRIED)),
            allowed,
        }
    }

    /// `f32[1000,1000] constant(1)` is short for many bytes; all such constants together are bounded.
    fn count_filled_bytes(&mut self, shape: &Shape, text: &str) -> Result<(), Error> {
        let size = shape.as_array().and_then(|array| array.checked_byte_size());
        if let Some(size) = size.filter(|_| !text.starts_with(['{', '('])) {
            self.filled_bytes = self.filled_bytes.saturating_add(size);
        }
        if self.filled_bytes <= MOST_FILLED_BYTES {
            return Ok(());
        }
        Err(Error::Literal {
            at: self.source.location_of(text),
            shape: shape.to_string(),
            reason: format!("constants of one value fill at most {MOST_FILLED_BYTES} bytes together"),
        })
    }

    /// Nests the computations that the instruction calls, in the definition's order, or sets its callee.
    fn called(
        &mut self,
        ast: &ast::InstructionNode<'t>,
        definition: &'static OpDefinition,
        instruction: &mut Instruction,
        computation: &Computation,
        made: &mut Made,
    ) -> Result<(), Error> {
        for called in &ast.called {
            if !definition.computations.iter().any(|key| key.name() == called.key) {
                return Err(self.unknown_attribute(ast.opcode, definition, called.key));
            }
        }
        for key in definition.computations {
            let mut found = ast.called.iter().filter(|called| called.key == key.name()).peekable();
            if found.peek().is_none() && matches!(key, ComputationKey::One(_)) {
                let name = format!("{}.{}", instruction.name, key.name());
                if let Some(implied) = older::computation(ast.opcode, &computation.operand_shapes(instruction), name) {
                    instruction.computations.push(Computation { name: self.unique(implied.name), ..implied });
                    continue;
                }
                return Err(Error::MissingAttribute {
                    at: self.source.location_of(ast.opcode),
                    opcode: ast.opcode.to_string(),
                    key: key.name().to_string(),
                });
            }
            for called in found {
                let position = called.computation as usize;
                if expansion::calls_function(ast) {
                    instruction.callee = made.function_ids[position];
                } else {
                    instruction.computations.extend(made.take(position));
                }
            }
        }
        Ok(())
    }

    /// A predicate chooses between a true and a false computation, an index between a list of them.
    fn check_branches(
        &self,
        ast: &ast::InstructionNode<'t>,
        instruction: &Instruction,
        computation: &Computation,
    ) -> Result<(), Error> {
        let selector = instruction.operands.first().and_then(|&selector| computation.get(selector).shape.as_array());
        let is_predicated = selector.is_some_and(|selector| selector.element_type == ElementType::Pred);
        let wrong = ast.called.iter().find(|called| (called.key == "branch_computations") == is_predicated);
        match wrong {
            None => Ok(()),
            Some(called) => Err(Error::Attribute {
                at: self.source.location_of(called.key),
                key: called.key.to_string(),
                expected: format!("a first operand of type {}", if is_predicated { "s32" } else { "pred" }),
                found: selector.map_or("another".to_string(), |selector| selector.to_string()),
            }),
        }
    }

    /// `name`, or `name.1`, … if computations have that already.
    pub(super) fn unique(&mut self, name: String) -> String {
        let mut unique = name.clone();
        while !self.taken.insert(unique.clone()) {
            let number = self.next.entry(name.clone()).or_insert(0);
            *number += 1;
            unique = format!("{name}.{number}");
        }
        unique
    }

    pub(super) fn position(&self, slice: &str) -> Option<TextPosition> {
        let start = self.source.span_of(slice).start;
        let line = self.lines.partition_point(|&line| line <= start);
        let line_start = *self.lines.get(line.checked_sub(1)?)?;
        let column = 1 + self.source.text().get(line_start..start)?.chars().count();
        Some(TextPosition { line: u32::try_from(line).ok()?, column: u32::try_from(column).ok()? })
    }
}

/// Gives a `dot` the dimensions that it contracts where nothing says so but its result, as in 2017.
fn contract(dot: &mut Instruction, result: Option<&Shape>, computation: &Computation) {
    let operands: Vec<&ArrayShape> =
        computation.operand_shapes(dot).into_iter().filter_map(|operand| operand.as_array()).collect();
    if let [lhs, rhs] = operands[..]
        && let Some([left, right]) = older::contracted(lhs, rhs, result.and_then(Shape::as_array))
        && let Ok(given) = dot.attributes::<DotAttributes<'_>>()
    {
        let contracting = DotAttributes { lhs_contracting_dims: &[left], rhs_contracting_dims: &[right], ..given };
        dot.attributes = contracting.into();
    }
}

/// The opcode that a text may mean: one that begins with it, or one spelt alike.
pub(super) fn similar_opcode(text: &str) -> Option<&'static str> {
    let opcodes = || OpKind::ALL.iter().map(|kind| kind.text_name());
    let longer = || opcodes().find(|opcode| text.len() >= 3 && opcode.starts_with(text));
    suggestion::nearest(text, opcodes()).or_else(longer)
}

/// What stands for a faulty instruction in a module that is not given to anyone.
fn placeholder(name: String, shape: Option<&Shape>) -> Instruction {
    Instruction::new(name, OpKind::Tuple, shape.cloned().unwrap_or(Shape::Token), Vec::new())
}

pub(super) fn missing_shape(source: SourceLines<'_>, ast: &ast::InstructionNode<'_>) -> Error {
    Error::Shape {
        at: source.location_of(ast.opcode),
        reason: format!("the shape of a `{}` must be written", ast.opcode),
    }
}

pub(super) fn check_unique(source: SourceLines<'_>, attributes: &[ast::Attribute<'_>]) -> Result<(), Error> {
    for (position, attribute) in attributes.iter().enumerate() {
        if let Some(first) = attributes[..position].iter().find(|first| first.key == attribute.key) {
            return Err(Error::Duplicate {
                at: source.location_of(attribute.key),
                what: "attribute",
                name: attribute.key.to_string(),
                first: source.location_of(first.key),
            });
        }
    }
    Ok(())
}

fn annotations(attributes: &[ast::Attribute<'_>]) -> Vec<(String, String)> {
    attributes.iter().map(|attribute| (attribute.key.to_string(), attribute.value.to_string())).collect()
}

/// Names for instructions that have none, apart from all names of their computation.
struct Namer<'t> {
    /// Names of the others; empty when all have names.
    taken: HashSet<&'t str>,
    next: HashMap<&'t str, usize>,
}

impl<'t> Namer<'t> {
    fn new(instructions: &[ast::InstructionNode<'t>]) -> Self {
        let is_needed = instructions.iter().any(|instruction| instruction.name.is_empty());
        let taken = if is_needed { instructions } else { &[] };
        Namer { taken: taken.iter().map(|instruction| instruction.name).collect(), next: HashMap::new() }
    }

    fn name(&mut self, instruction: &ast::InstructionNode<'t>) -> String {
        if !instruction.name.is_empty() {
            return instruction.name.to_string();
        }
        let next = self.next.entry(instruction.opcode).or_insert(0);
        loop {
            let name = match *next {
                0 => format!("{}.anon", instruction.opcode),
                number => format!("{}.anon.{number}", instruction.opcode),
            };
            *next += 1;
            if !self.taken.contains(name.as_str()) {
                return name;
            }
        }
    }
}

//! MLIR → graph.
//!
//! The module may be anything that MLIR's parser accepts: every step is checked, and what is not an HLO program is an
//! error with a location. Names come from locations; without them, and where passes have duplicated them, they are
//! made up.

use std::collections::{HashMap, HashSet};

use melior::ir::operation::OperationLike;
use melior::ir::{Attribute, BlockLike, BlockRef, Location, Module, OperationRef, RegionLike, Type, Value, ValueLike};
use mlir_ext::{attributes, operations};
use rustc_hash::FxHashMap;

use super::annotations::annotations_of;
use super::attributes::{entry, value_of};
use super::error::DialectError;
use super::locations::origin_of;
use super::types::{self, DefaultLayout};
use super::{ENTRY_SYMBOL, INPUT_OUTPUT_ALIASES, NESTING_LIMIT};
use crate::attributes::Attributes;
use crate::graph::{
    self, Computation, FileLocation, FunctionId, InputOutputAlias, Instruction, InstructionId, SourceTables, StackFrame,
};
use crate::op_kind::OpKind;
use crate::ops;
use crate::shape::Shape;

/// Reads an HLO program from an MLIR module. Rules of operations are not checked; MLIR's verifier does that.
///
/// # Errors
/// [`DialectError::Invalid`] with the location of what is not HLO: other operations, types, or attributes; functions
/// that call themselves; a missing entry.
pub fn mlir_to_graph(module: &Module<'_>) -> Result<graph::Module, DialectError> {
    let operation = module.as_operation();
    let find = |name: &str| operations::attribute(&operation, name);
    let default = match find("hlo.row_major") {
        Some(_) => DefaultLayout::RowMajor,
        None => DefaultLayout::Absent,
    };
    let functions = functions_in_call_order(operation)?;
    let symbols: Vec<&str> = functions.iter().filter_map(|&function| symbol_of(function)).collect();
    let ids: HashMap<&str, FunctionId> =
        symbols.iter().enumerate().map(|(index, &symbol)| (symbol, FunctionId(index as u32))).collect();
    let entry = *ids
        .get(ENTRY_SYMBOL)
        .ok_or_else(|| DialectError::invalid(format!("the module has no function `@{ENTRY_SYMBOL}`")))?;
    let reader = Reader { default, functions: Some(&ids) };
    let entry_layout = match find("hlo.entry_layout").and_then(attributes::r#type) {
        Some(signature) => Some(types::program_shape(DefaultLayout::RowMajor, signature)?),
        None => None,
    };
    Ok(graph::Module {
        name: find("sym_name").and_then(attributes::string).unwrap_or_default().to_string(),
        annotations: annotations_of(find, None),
        entry_layout,
        input_output_aliases: input_output_aliases(operation)?,
        sources: find("hlo.sources").map(source_tables).transpose()?.unwrap_or_default(),
        functions: functions
            .iter()
            .zip(&symbols)
            .map(|(&function, symbol)| reader.computation(single_block(function, 0)?, symbol, "func.return", 0))
            .collect::<Result<_, _>>()?,
        entry,
    })
}

fn malformed(name: &str) -> DialectError {
    DialectError::invalid(format!("the module's attribute `{name}` is malformed"))
}

/// The aliases that a module declares.
///
/// # Errors
/// [`DialectError::Invalid`] for a malformed attribute.
pub fn input_output_aliases(module: OperationRef<'_, '_>) -> Result<Vec<InputOutputAlias>, DialectError> {
    let attribute = operations::attribute(&module, INPUT_OUTPUT_ALIASES);
    attribute.map(aliases).transpose().map(Option::unwrap_or_default)
}

fn aliases(attribute: Attribute<'_>) -> Result<Vec<InputOutputAlias>, DialectError> {
    let alias = |alias: Attribute<'_>| {
        Some(InputOutputAlias {
            output_index: attributes::integers(entry(alias, "output_index")?)?,
            parameter: attributes::integer(entry(alias, "parameter")?)?,
            parameter_index: attributes::integers(entry(alias, "parameter_index")?)?,
            must_alias: attributes::integer(entry(alias, "must_alias")?)? != 0,
        })
    };
    attributes::elements(attribute)
        .and_then(|aliases| aliases.into_iter().map(alias).collect())
        .ok_or_else(|| malformed(INPUT_OUTPUT_ALIASES))
}

fn source_tables(attribute: Attribute<'_>) -> Result<SourceTables, DialectError> {
    let names = |name| {
        let names = attributes::elements(entry(attribute, name)?)?;
        names.into_iter().map(|name| attributes::string(name).map(str::to_string)).collect::<Option<Vec<_>>>()
    };
    let numbers = |name| {
        let numbers = attributes::integers(entry(attribute, name)?)?;
        numbers.into_iter().map(|number| u32::try_from(number).ok()).collect::<Option<Vec<_>>>()
    };
    let tables = || {
        Some(SourceTables {
            file_names: names("file_names")?,
            function_names: names("function_names")?,
            file_locations: numbers("file_locations")?
                .chunks_exact(6)
                .map(|row| FileLocation {
                    file_name: row[0],
                    function_name: row[1],
                    line: row[2],
                    end_line: row[3],
                    column: row[4],
                    end_column: row[5],
                })
                .collect(),
            stack_frames: numbers("stack_frames")?
                .chunks_exact(2)
                .map(|row| StackFrame { file_location: row[0], parent: row[1] })
                .collect(),
            present: true,
        })
    };
    tables().ok_or_else(|| malformed("hlo.sources"))
}

/// The functions of a module, callees before callers; in the module's order where that is already so.
///
/// # Errors
/// [`DialectError::Invalid`] for anything but functions of one block, and for functions that call themselves.
pub fn functions_in_call_order<'c, 'a>(
    module: OperationRef<'c, 'a>,
) -> Result<Vec<OperationRef<'c, 'a>>, DialectError> {
    let mut functions = Vec::new();
    let mut next = single_block(module, 0)?.first_operation();
    while let Some(operation) = next {
        check_function(operation).map_err(|error| error.at(|| location_text(operation.location())))?;
        functions.push(operation);
        next = operation.next_in_block();
    }
    let places: HashMap<&str, usize> =
        functions.iter().enumerate().filter_map(|(place, &function)| Some((symbol_of(function)?, place))).collect();
    let mut callees = Vec::with_capacity(functions.len());
    for &function in &functions {
        let mut called = Vec::new();
        collect_callees(single_block(function, 0)?, &places, &mut called, 0)?;
        callees.push(called);
    }
    let order = order_by_calls(&callees).map_err(|place| {
        let symbol = symbol_of(functions[place]).unwrap_or_default();
        DialectError::invalid(format!("function `@{symbol}` calls itself, directly or through others"))
    })?;
    Ok(order.into_iter().map(|place| functions[place]).collect())
}

fn check_function(operation: OperationRef<'_, '_>) -> Result<(), DialectError> {
    let name = operation.name();
    let name = attributes::identifier_text(name);
    if name != "func.func" {
        return Err(DialectError::invalid(format!("`{name}` is not a function")));
    }
    symbol_of(operation).ok_or_else(|| DialectError::invalid("a function has no name"))?;
    single_block(operation, 0).map(|_| ())
}

/// Name of a function.
pub fn symbol_of<'c>(function: OperationRef<'c, '_>) -> Option<&'c str> {
    operations::attribute(&function, "sym_name").and_then(attributes::string)
}

/// The one block of a region of an operation.
///
/// # Errors
/// [`DialectError::Invalid`] where there is another number of blocks.
pub fn single_block<'c, 'a>(operation: OperationRef<'c, 'a>, region: usize) -> Result<BlockRef<'c, 'a>, DialectError> {
    // SAFETY: the reference is used while the module, which outlives `'a`, keeps the operation.
    let operation = unsafe { operation.to_ref() };
    let block = operation.regions().nth(region).and_then(|region| region.first_block());
    match block {
        Some(block) if block.next_in_region().is_none() => Ok(block),
        _ => Err(DialectError::invalid("a computation must have exactly one block")),
    }
}

fn collect_callees(
    block: BlockRef<'_, '_>,
    places: &HashMap<&str, usize>,
    callees: &mut Vec<usize>,
    depth: usize,
) -> Result<(), DialectError> {
    if depth > NESTING_LIMIT {
        return Err(DialectError::invalid(format!("computations nest deeper than {NESTING_LIMIT}")));
    }
    let mut next = block.first_operation();
    while let Some(operation) = next {
        if attributes::identifier_text(operation.name()) == "hlo.call" {
            let callee = operations::attribute(&operation, "to_apply").and_then(attributes::symbol);
            callees.extend(callee.and_then(|callee| places.get(callee)));
        }
        for region in operation.regions() {
            if let Some(block) = region.first_block() {
                collect_callees(block, places, callees, depth + 1)?;
            }
        }
        next = operation.next_in_block();
    }
    Ok(())
}

/// Depth-first order in which callees come first; the place of a function on a cycle otherwise.
fn order_by_calls(callees: &[Vec<usize>]) -> Result<Vec<usize>, usize> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut states = vec![State::New; callees.len()];
    let mut order = Vec::with_capacity(callees.len());
    for start in 0..callees.len() {
        let mut stack = vec![(start, 0)];
        while let Some((place, position)) = stack.pop() {
            if states[place] == State::Done {
                continue;
            }
            states[place] = State::Open;
            match callees[place].get(position) {
                Some(&callee) => {
                    stack.push((place, position + 1));
                    match states[callee] {
                        State::New => stack.push((callee, 0)),
                        State::Open => return Err(callee),
                        State::Done => {}
                    }
                }
                None => {
                    states[place] = State::Done;
                    order.push(place);
                }
            }
        }
    }
    Ok(order)
}

fn location_text(location: Location<'_>) -> String {
    let origin = origin_of(location);
    match (origin.name, origin.position) {
        (Some(name), Some(position)) => format!("`{name}` ({position})"),
        (Some(name), None) => format!("`{name}`"),
        (None, _) => location.to_string(),
    }
}

struct Reader<'r> {
    default: DefaultLayout,
    /// The functions by name; without them, calls are read without their callees.
    functions: Option<&'r HashMap<&'r str, FunctionId>>,
}

/// A computation being read.
struct Draft<'c, 'a> {
    instructions: Vec<Instruction>,
    values: Vec<Value<'c, 'a>>,
    is_read: Vec<bool>,
    ids: FxHashMap<usize, InstructionId>,
    parameters: Vec<Option<Instruction>>,
    parameter_ids: Vec<Option<InstructionId>>,
    names: HashSet<String>,
}

impl<'c, 'a> Draft<'c, 'a> {
    fn push(&mut self, instruction: Instruction, value: Value<'c, 'a>, is_read: bool) -> InstructionId {
        let id = InstructionId(self.instructions.len() as u32);
        self.instructions.push(instruction);
        self.ids.insert(attributes::value_key(&value), id);
        self.values.push(value);
        self.is_read.push(is_read);
        id
    }

    /// The name, or if that is empty or taken one made from it or the operation's name.
    fn unused_name(&mut self, name: String, kind: OpKind) -> String {
        if !name.is_empty() && self.names.insert(name.clone()) {
            return name;
        }
        let stem = if name.is_empty() { kind.text_name() } else { &name };
        let mut number = self.instructions.len();
        loop {
            let candidate = format!("{stem}.{number}");
            if self.names.insert(candidate.clone()) {
                return candidate;
            }
            number += 1;
        }
    }

    fn push_parameter(&mut self, number: usize, value: Value<'c, 'a>) {
        if let Some(mut parameter) = self.parameters[number].take() {
            parameter.name = self.unused_name(parameter.name, OpKind::Parameter);
            self.parameter_ids[number] = Some(self.push(parameter, value, false));
        }
    }
}

impl Reader<'_> {
    fn computation(
        &self,
        block: BlockRef<'_, '_>,
        symbol: &str,
        terminator: &str,
        depth: usize,
    ) -> Result<Computation, DialectError> {
        Ok(self.snapshot(block, symbol, terminator, depth, &|_, _| true)?.computation)
    }

    fn snapshot<'c, 'a>(
        &self,
        block: BlockRef<'c, 'a>,
        symbol: &str,
        terminator: &str,
        depth: usize,
        reads: &dyn Fn(OperationRef<'c, 'a>, OpKind) -> bool,
    ) -> Result<Snapshot<'c, 'a>, DialectError> {
        if depth > NESTING_LIMIT {
            return Err(DialectError::invalid(format!("computations nest deeper than {NESTING_LIMIT}")));
        }
        let last = block.terminator().filter(|last| attributes::identifier_text(last.name()) == terminator);
        let last = last.filter(|last| last.operand_count() == 1).ok_or_else(|| {
            DialectError::invalid(format!("a computation must end in `{terminator}` with one operand"))
        })?;
        let arguments: Vec<_> = (0..block.argument_count()).filter_map(|index| block.argument(index).ok()).collect();
        let values: Vec<Value> = arguments.iter().map(|&argument| argument.into()).collect();
        let annotations = operations::attribute(&last, "hlo.parameter_annotations").and_then(attributes::elements);
        let annotations = annotations.unwrap_or_default();
        let operations = std::iter::successors(block.first_operation(), |operation| operation.next_in_block());
        let count = arguments.len() + operations.count();
        let mut draft = Draft {
            instructions: Vec::with_capacity(count),
            values: Vec::with_capacity(count),
            is_read: Vec::with_capacity(count),
            ids: FxHashMap::with_capacity_and_hasher(count, Default::default()),
            parameters: Vec::with_capacity(arguments.len()),
            parameter_ids: vec![None; arguments.len()],
            names: HashSet::with_capacity(count),
        };
        for (number, argument) in arguments.iter().enumerate() {
            let parameter =
                self.parameter(number, argument.r#type(), argument.location(), annotations.get(number).copied())?;
            draft.parameters.push(Some(parameter));
        }
        let positions = operations::attribute(&last, "hlo.parameter_positions").and_then(attributes::integers);
        let places = parameter_places(positions.as_deref(), arguments.len());
        let numbers: FxHashMap<usize, usize> =
            values.iter().enumerate().map(|(number, value)| (attributes::value_key(value), number)).collect();
        let mut waiting = places.into_iter().peekable();
        let mut next = block.first_operation();
        while let Some(operation) = next {
            next = operation.next_in_block();
            let is_last = next.is_none();
            while waiting.next_if(|(place, _)| is_last || *place <= draft.instructions.len()).is_some_and(
                |(_, number)| {
                    draft.push_parameter(number, values[number]);
                    true
                },
            ) {}
            for operand in operation.operands() {
                if let Some(&number) = numbers.get(&attributes::value_key(&operand)) {
                    draft.push_parameter(number, values[number]);
                }
            }
            if !is_last {
                let is_read = kind_of(operation).is_ok_and(|kind| reads(operation, kind));
                self.push_instruction(operation, &mut draft, is_read, depth)
                    .map_err(|error| error.at(|| location_text(operation.location())))?;
            }
        }
        let root = last.operands().next().and_then(|root| draft.ids.get(&attributes::value_key(&root)).copied());
        let origin = origin_of(last.location());
        let computation = Computation {
            name: origin.name.unwrap_or(symbol).to_string(),
            root: root.ok_or_else(|| DialectError::invalid("the result of a computation is not in it"))?,
            parameters: draft.parameter_ids.into_iter().flatten().collect(),
            instructions: draft.instructions,
            annotations: annotations_of(|name| operations::attribute(&last, name), None),
        };
        Ok(Snapshot { computation, values: draft.values, is_read: draft.is_read })
    }

    fn parameter(
        &self,
        number: usize,
        value: Type<'_>,
        location: Location<'_>,
        annotations: Option<Attribute<'_>>,
    ) -> Result<Instruction, DialectError> {
        let origin = origin_of(location);
        let find = |name: &str| annotations.and_then(|annotations| entry(annotations, name));
        let shape = types::shape_of(self.default, value)?;
        Ok(Instruction {
            annotations: annotations_of(find, origin.metadata),
            position: origin.position,
            ..Instruction::parameter(origin.name.unwrap_or_default(), shape, number)
        })
    }

    fn push_instruction<'c, 'a>(
        &self,
        operation: OperationRef<'c, 'a>,
        draft: &mut Draft<'c, 'a>,
        is_read: bool,
        depth: usize,
    ) -> Result<(), DialectError> {
        let mut operands = Vec::with_capacity(operation.operand_count());
        for operand in operation.operands() {
            let id = draft.ids.get(&attributes::value_key(&operand));
            operands
                .push(*id.ok_or_else(|| DialectError::invalid("an operand comes from outside of the computation"))?);
        }
        let mut instruction = self.instruction(operation, operands, is_read, depth)?;
        if is_read {
            instruction.name = draft.unused_name(instruction.name, instruction.kind);
        }
        if let Some(result) = operation.results().next() {
            draft.push(instruction, result.into(), is_read);
        }
        Ok(())
    }

    fn instruction(
        &self,
        operation: OperationRef<'_, '_>,
        operands: Vec<InstructionId>,
        is_read: bool,
        depth: usize,
    ) -> Result<Instruction, DialectError> {
        let kind = kind_of(operation)?;
        let result = match operation.result(0) {
            Ok(result) if operation.result_count() == 1 => result,
            _ => return Err(DialectError::invalid(format!("`{kind}` must have one result"))),
        };
        let shape = types::shape_of(self.default, result.r#type())?;
        if !is_read {
            return Ok(Instruction::new(String::new(), kind, shape, operands));
        }
        let values = attributes_of(self.default, operation, kind, &shape)?;
        let mut callee = None;
        if let (OpKind::Call, Some(functions)) = (kind, self.functions) {
            let symbol = operations::attribute(&operation, "to_apply").and_then(attributes::symbol).unwrap_or_default();
            callee = functions.get(symbol).copied();
            if callee.is_none() {
                return Err(DialectError::invalid(format!("there is no function `@{symbol}`")));
            }
        }
        let mut computations = Vec::with_capacity(operation.region_count());
        for region in 0..operation.region_count() {
            let name = format!("computation.{region}");
            let block = single_block(operation, region)?;
            computations.push(self.computation(block, &name, "hlo.return", depth + 1)?);
        }
        let origin = origin_of(operation.location());
        Ok(Instruction {
            name: origin.name.unwrap_or_default().to_string(),
            kind,
            shape,
            operands,
            attributes: values,
            computations,
            callee,
            annotations: annotations_of(|name| operations::attribute(&operation, name), origin.metadata),
            position: origin.position,
        })
    }
}

/// The attributes that the operation's definition declares.
pub(super) fn attributes_of(
    default: DefaultLayout,
    operation: OperationRef<'_, '_>,
    kind: OpKind,
    result: &Shape,
) -> Result<Attributes, DialectError> {
    let mut values = Attributes::new();
    for spec in ops::definition(kind).attributes.specs {
        if let Some(attribute) = operations::attribute(&operation, spec.name) {
            values.set(spec.name, value_of(default, spec.form, attribute, result)?);
        }
    }
    Ok(values)
}

/// Reads one operation that calls no function. Its operands are numbered in their order.
///
/// # Errors
/// As for [`mlir_to_graph`].
pub fn operation_to_instruction(operation: OperationRef<'_, '_>) -> Result<Instruction, DialectError> {
    let reader = Reader { default: DefaultLayout::Absent, functions: None };
    let operands = (0..operation.operand_count() as u32).map(InstructionId).collect();
    reader.instruction(operation, operands, true, 0)
}

/// A block as a computation.
#[derive(Debug)]
pub struct Snapshot<'c, 'a> {
    /// The computation. Layouts are those that types have; calls have no callee.
    pub computation: Computation,
    /// The value of each instruction.
    pub values: Vec<Value<'c, 'a>>,
    /// Whether an instruction is there as a whole, or its kind, shape and operands only.
    pub is_read: Vec<bool>,
}

/// Reads a function's or nested computation's block: of parameters and of the operations that `reads` asks for everything, of
/// others kind, shape and operands.
///
/// # Errors
/// As for [`mlir_to_graph`].
pub fn snapshot<'c, 'a>(
    block: BlockRef<'c, 'a>,
    reads: impl Fn(OperationRef<'c, 'a>, OpKind) -> bool,
) -> Result<Snapshot<'c, 'a>, DialectError> {
    let reader = Reader { default: DefaultLayout::Absent, functions: None };
    let parent = block.parent_operation();
    let function = parent.filter(|parent| attributes::identifier_text(parent.name()) == "func.func");
    let symbol =
        function.and_then(|function| operations::attribute(&function, "sym_name")).and_then(attributes::string);
    let terminator = if function.is_some() { "func.return" } else { "hlo.return" };
    reader.snapshot(block, symbol.unwrap_or("computation"), terminator, 0, &reads)
}

/// Operation kind of an operation that is an instruction.
pub(super) fn kind_of(operation: OperationRef<'_, '_>) -> Result<OpKind, DialectError> {
    let name = operation.name();
    let name = attributes::identifier_text(name);
    OpKind::from_mlir_name(name)
        .ok()
        .filter(|&kind| kind != OpKind::Parameter)
        .ok_or_else(|| DialectError::invalid(format!("`{name}` is not an HLO operation")))
}

/// (place among the instructions, parameter number) in the order of places. Passes may have left stale places;
/// they only move a parameter.
fn parameter_places(positions: Option<&[i64]>, count: usize) -> Vec<(usize, usize)> {
    let mut places: Vec<(usize, usize)> = (0..count)
        .map(|number| {
            let place =
                positions.and_then(|positions| positions.get(number)).and_then(|&place| usize::try_from(place).ok());
            (place.unwrap_or(number), number)
        })
        .collect();
    places.sort_unstable();
    places
}

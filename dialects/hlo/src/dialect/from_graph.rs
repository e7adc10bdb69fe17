//! graph → MLIR.
//!
//! Parameters become block arguments; what a block argument cannot carry (its place among the instructions, its
//! annotations) is on the block's terminator, whose location is the computation's name.

use std::collections::HashSet;

use melior::Context;
use melior::ir::attribute::{ArrayAttribute, Attribute, FlatSymbolRefAttribute, StringAttribute, TypeAttribute};
use melior::ir::operation::{OperationBuilder, OperationLike, OperationMutLike};
use melior::ir::r#type::FunctionType;
use melior::ir::{
    Block, BlockLike, BlockRef, Identifier, Location, Module, Operation, OperationRef, Region, RegionLike, Type, Value,
    ValueLike,
};
use mlir_ext::attributes;
use mlir_ext::rewrite::Rewriter;

use super::annotations::annotation_attributes;
use super::attributes::{attribute_of, dictionary, integer, integers};
use super::error::DialectError;
use super::locations::{instruction_location, location_of};
use super::types::{self, DefaultLayout};
use super::{ENTRY_SYMBOL, INPUT_OUTPUT_ALIASES, NESTING_LIMIT, PROGRAM_SHAPE};
use crate::attributes::Attributes;
use crate::graph::{self, Computation, Instruction, SourceTables};
use crate::op_kind::OpKind;
use crate::shape::{ArrayShape, ProgramShape, Shape};

/// Builds the MLIR module of a graph. The result is not verified.
///
/// # Errors
/// [`DialectError::Invalid`] for a graph that breaks the invariants of [`crate::graph`] so that no module can be built.
pub fn graph_to_mlir<'c>(context: &'c Context, graph: &graph::Module) -> Result<Module<'c>, DialectError> {
    let default = default_layout(graph);
    let mut module = Module::new(Location::unknown(context));
    for (name, value) in module_attributes(context, graph, default)? {
        module.as_operation_mut().set_attribute(name, value);
    }
    let symbols = symbols(graph);
    let mut writer = Writer { context, default, sources: &graph.sources, symbols: &symbols };
    for (function, symbol) in graph.functions.iter().zip(&symbols) {
        writer.write_function(&module, function, symbol)?;
    }
    Ok(module)
}

/// Row-major if any array has a layout.
fn default_layout(graph: &graph::Module) -> DefaultLayout {
    let has_layout = |shape: &Shape| {
        let mut found = false;
        shape.for_each_leaf(&mut |leaf| found |= leaf.as_array().is_some_and(|array| array.layout.is_some()));
        found
    };
    let mut instructions = graph.functions.iter().flat_map(|function| &function.instructions);
    if instructions.any(|instruction| has_layout(&instruction.shape)) {
        DefaultLayout::RowMajor
    } else {
        DefaultLayout::Absent
    }
}

/// Symbols of the functions: the entry is `main`, the others keep their names where these are free.
fn symbols(graph: &graph::Module) -> Vec<String> {
    let mut used = HashSet::from([ENTRY_SYMBOL.to_string()]);
    let mut symbol = |name: &str| {
        let mut candidate = if name.is_empty() { "function".to_string() } else { name.to_string() };
        let mut number = 0u64;
        while !used.insert(candidate.clone()) {
            number += 1;
            candidate = format!("{name}.{number}");
        }
        candidate
    };
    let functions = graph.functions.iter().enumerate();
    functions
        .map(|(index, function)| match index == graph.entry.index() {
            true => ENTRY_SYMBOL.to_string(),
            false => symbol(&function.name),
        })
        .collect()
}

fn module_attributes<'c>(
    context: &'c Context,
    graph: &graph::Module,
    default: DefaultLayout,
) -> Result<Vec<(&'static str, Attribute<'c>)>, DialectError> {
    let mut attributes = annotation_attributes(context, &graph.annotations, false);
    if !graph.name.is_empty() {
        attributes.push(("sym_name", StringAttribute::new(context, &graph.name).into()));
    }
    if default == DefaultLayout::RowMajor {
        attributes.push(("hlo.row_major", Attribute::unit(context)));
    }
    if let Some(layout) = &graph.entry_layout {
        let signature = types::function_type(context, DefaultLayout::RowMajor, layout)?;
        attributes.push(("hlo.entry_layout", TypeAttribute::new(signature).into()));
    }
    let entry = graph.functions.get(graph.entry.index());
    let entry = entry.ok_or_else(|| DialectError::invalid("the entry function does not exist"))?;
    let declared = checked_signature(entry)?;
    let has_dynamic = |shape: &Shape| {
        let mut found = false;
        shape.for_each_leaf(&mut |leaf| found |= leaf.as_array().is_some_and(ArrayShape::is_dynamic));
        found
    };
    if declared.parameters.iter().chain([&declared.result]).any(has_dynamic) {
        let signature = types::function_type(context, DefaultLayout::Absent, &declared)?;
        attributes.push((PROGRAM_SHAPE, TypeAttribute::new(signature).into()));
    }
    if !graph.input_output_aliases.is_empty() {
        let aliases: Vec<Attribute> = graph
            .input_output_aliases
            .iter()
            .map(|alias| {
                dictionary(
                    context,
                    &[
                        ("output_index", integers(context, &alias.output_index)),
                        ("parameter", integer(context, alias.parameter)),
                        ("parameter_index", integers(context, &alias.parameter_index)),
                        ("must_alias", integer(context, i64::from(alias.must_alias))),
                    ],
                )
            })
            .collect();
        attributes.push((INPUT_OUTPUT_ALIASES, ArrayAttribute::new(context, &aliases).into()));
    }
    if graph.sources.present {
        attributes.push(("hlo.sources", source_tables(context, &graph.sources)));
    }
    Ok(attributes)
}

fn source_tables<'c>(context: &'c Context, sources: &SourceTables) -> Attribute<'c> {
    let names = |names: &[String]| -> Attribute<'c> {
        let names: Vec<Attribute> = names.iter().map(|name| StringAttribute::new(context, name).into()).collect();
        ArrayAttribute::new(context, &names).into()
    };
    let locations: Vec<i64> = sources
        .file_locations
        .iter()
        .flat_map(|row| [row.file_name, row.function_name, row.line, row.end_line, row.column, row.end_column])
        .map(i64::from)
        .collect();
    let frames: Vec<i64> =
        sources.stack_frames.iter().flat_map(|row| [row.file_location, row.parent]).map(i64::from).collect();
    dictionary(
        context,
        &[
            ("file_names", names(&sources.file_names)),
            ("function_names", names(&sources.function_names)),
            ("file_locations", integers(context, &locations)),
            ("stack_frames", integers(context, &frames)),
        ],
    )
}

struct Writer<'c, 'g> {
    context: &'c Context,
    default: DefaultLayout,
    sources: &'g SourceTables,
    symbols: &'g [String],
}

impl<'c> Writer<'c, '_> {
    fn write_function(
        &mut self,
        module: &Module<'c>,
        function: &Computation,
        symbol: &str,
    ) -> Result<(), DialectError> {
        let region = self.region(function, "func.return", 0)?;
        let signature = types::function_type(self.context, self.default, &checked_signature(function)?)?;
        let mut attributes = vec![
            ("sym_name", StringAttribute::new(self.context, symbol).into()),
            ("function_type", TypeAttribute::new(signature).into()),
        ];
        if symbol != ENTRY_SYMBOL {
            attributes.push(("sym_visibility", StringAttribute::new(self.context, "private").into()));
        }
        let operation = OperationBuilder::new("func.func", Location::unknown(self.context))
            .add_attributes(&named(self.context, attributes))
            .add_regions([region])
            .build()
            .map_err(|error| DialectError::invalid(error.to_string()))?;
        module.body().append_operation(operation);
        Ok(())
    }

    fn type_of(&self, shape: &Shape) -> Result<Type<'c>, DialectError> {
        types::type_of(self.context, self.default, shape)
    }

    fn location(&self, instruction: &Instruction) -> Location<'c> {
        instruction_location(self.context, self.sources, instruction)
    }

    /// A region with the block of a computation.
    fn region(&self, computation: &Computation, terminator: &str, depth: usize) -> Result<Region<'c>, DialectError> {
        if depth > NESTING_LIMIT {
            return Err(DialectError::invalid(format!("computations nest deeper than {NESTING_LIMIT}")));
        }
        checked_signature(computation)?;
        let arguments: Vec<(Type, Location)> = computation
            .parameters
            .iter()
            .map(|&id| {
                let parameter = computation.get(id);
                Ok((self.type_of(&parameter.shape)?, self.location(parameter)))
            })
            .collect::<Result<_, DialectError>>()?;
        let block = Block::new(&arguments);
        let mut values: Vec<Value<'c, '_>> = Vec::with_capacity(computation.instructions.len());
        for instruction in &computation.instructions {
            let value = match instruction.parameter_number() {
                Some(number) => argument(&block, number),
                None => self.instruction(&block, instruction, &values, depth),
            };
            values.push(value.map_err(|error| error.at(|| instruction.name.clone()))?);
        }
        let root = values[computation.root.index()];
        let location = location_of(self.context, self.sources, &computation.name, None, None);
        let operation = OperationBuilder::new(terminator, location)
            .add_attributes(&named(self.context, self.terminator_attributes(computation)))
            .add_operands(&[root])
            .build()
            .map_err(|error| DialectError::invalid(error.to_string()))?;
        block.append_operation(operation);
        let region = Region::new();
        region.append_block(block);
        Ok(region)
    }

    fn instruction<'a>(
        &self,
        block: &Block<'c>,
        instruction: &Instruction,
        values: &[Value<'c, 'a>],
        depth: usize,
    ) -> Result<Value<'c, 'a>, DialectError>
    where
        'c: 'a,
    {
        let mut operands = Vec::with_capacity(instruction.operands.len());
        for operand in &instruction.operands {
            let value = values.get(operand.index());
            operands.push(*value.ok_or_else(|| DialectError::invalid("an operand stands after its user"))?);
        }
        let operation = self.operation(instruction, &operands, self.location(instruction), depth)?;
        let operation = block.append_operation(operation);
        operation.result(0).map(Value::from).map_err(|error| DialectError::invalid(error.to_string()))
    }

    fn operation(
        &self,
        instruction: &Instruction,
        operands: &[Value<'c, '_>],
        location: Location<'c>,
        depth: usize,
    ) -> Result<Operation<'c>, DialectError> {
        let mut attributes = attributes_of(self.context, self.default, &instruction.attributes)?;
        if instruction.kind == OpKind::Call {
            let callee = instruction.callee.and_then(|callee| self.symbols.get(callee.index()));
            let callee = callee.ok_or_else(|| DialectError::invalid("the callee does not exist"))?;
            attributes.push(("to_apply", FlatSymbolRefAttribute::new(self.context, callee).into()));
        }
        attributes.extend(annotation_attributes(self.context, &instruction.annotations, true));
        let regions: Vec<Region> = instruction
            .computations
            .iter()
            .map(|computation| self.region(computation, "hlo.return", depth + 1))
            .collect::<Result<_, _>>()?;
        let result = self.type_of(&instruction.shape)?;
        build(self.context, instruction.kind, operands, attributes, result, location, regions)
    }

    /// What the block arguments and the computation's name leave out.
    fn terminator_attributes(&self, computation: &Computation) -> Vec<(&'static str, Attribute<'c>)> {
        let mut attributes = annotation_attributes(self.context, &computation.annotations, false);
        let positions: Vec<i64> = computation.parameters.iter().map(|id| i64::from(id.0)).collect();
        if !positions.iter().copied().eq(0..positions.len() as i64) {
            attributes.push(("hlo.parameter_positions", integers(self.context, &positions)));
        }
        let annotations: Vec<_> = computation
            .parameters
            .iter()
            .map(|&id| annotation_attributes(self.context, &computation.get(id).annotations, true))
            .collect();
        if annotations.iter().any(|entries| !entries.is_empty()) {
            let dictionaries: Vec<Attribute> =
                annotations.iter().map(|entries| dictionary(self.context, entries)).collect();
            attributes.push(("hlo.parameter_annotations", ArrayAttribute::new(self.context, &dictionaries).into()));
        }
        attributes
    }
}

fn named<'c>(context: &'c Context, attributes: Vec<(&str, Attribute<'c>)>) -> Vec<(Identifier<'c>, Attribute<'c>)> {
    attributes.into_iter().map(|(name, value)| (Identifier::new(context, name), value)).collect()
}

/// Gives the function whose block it is the type that it has now. Nothing where the block is another operation's.
pub fn update_signature<'c>(rewriter: &Rewriter<'c, '_>, block: BlockRef<'c, '_>) {
    let parent = block.parent_operation().filter(|parent| attributes::identifier_text(parent.name()) == "func.func");
    let (Some(function), Some(last)) = (parent, block.terminator()) else { return };
    let arguments: Vec<Type> = (0..block.argument_count())
        .filter_map(|number| block.argument(number).ok())
        .map(|argument| argument.r#type())
        .collect();
    let results: Vec<Type> = last.operands().map(|operand| operand.r#type()).collect();
    let signature = FunctionType::new(rewriter.context(), &arguments, &results);
    rewriter.set_attribute(function, "function_type", TypeAttribute::new(signature.into()).into());
}

/// A function like another one, with another body.
///
/// # Errors
/// As for [`graph_to_mlir`]; calls have no callee here.
pub fn function_like<'c>(
    context: &'c Context,
    function: OperationRef<'c, '_>,
    body: &Computation,
) -> Result<Operation<'c>, DialectError> {
    let default = DefaultLayout::Absent;
    let writer = Writer { context, default, sources: &SourceTables::default(), symbols: &[] };
    let region = writer.region(body, "func.return", 0)?;
    let signature = TypeAttribute::new(types::function_type(context, default, &checked_signature(body)?)?);
    let attributes: Vec<(Identifier, Attribute)> = function
        .attributes()
        .map(|(name, value)| match attributes::identifier_text(name) {
            "function_type" => (name, signature.into()),
            _ => (name, value),
        })
        .collect();
    OperationBuilder::new("func.func", function.location())
        .add_attributes(&attributes)
        .add_regions([region])
        .build()
        .map_err(|error| DialectError::invalid(error.to_string()))
}

/// The operation of an instruction, not yet in a block. Its name and metadata are those of the location.
///
/// # Errors
/// As for [`graph_to_mlir`]; calls have no callee here.
pub fn instruction_to_operation<'c>(
    context: &'c Context,
    instruction: &Instruction,
    operands: &[Value<'c, '_>],
    location: Location<'c>,
) -> Result<Operation<'c>, DialectError> {
    let writer = Writer { context, default: DefaultLayout::Absent, sources: &SourceTables::default(), symbols: &[] };
    writer.operation(instruction, operands, location, 0)
}

/// The end of a nested computation.
///
/// # Errors
/// None for values of computations.
pub fn new_return<'c>(value: Value<'c, '_>, location: Location<'c>) -> Result<Operation<'c>, DialectError> {
    let operation = OperationBuilder::new("hlo.return", location).add_operands(&[value]).build();
    operation.map_err(|error| DialectError::invalid(error.to_string()))
}

/// An operation without computations, not yet in a block.
///
/// # Errors
/// [`DialectError::Invalid`] for attributes without a form in MLIR.
pub fn new_operation<'c>(
    context: &'c Context,
    kind: OpKind,
    operands: &[Value<'c, '_>],
    attributes: &Attributes,
    result: Type<'c>,
    location: Location<'c>,
) -> Result<Operation<'c>, DialectError> {
    new_operation_with(context, kind, operands, attributes, result, location, Vec::new())
}

/// An operation with computations, not yet in a block.
///
/// # Errors
/// [`DialectError::Invalid`] for attributes without a form in MLIR.
pub fn new_operation_with<'c>(
    context: &'c Context,
    kind: OpKind,
    operands: &[Value<'c, '_>],
    attributes: &Attributes,
    result: Type<'c>,
    location: Location<'c>,
    computations: Vec<Region<'c>>,
) -> Result<Operation<'c>, DialectError> {
    let attributes = attributes_of(context, DefaultLayout::Absent, attributes)?;
    build(context, kind, operands, attributes, result, location, computations)
}

fn attributes_of<'a, 'c>(
    context: &'c Context,
    default: DefaultLayout,
    attributes: &'a Attributes,
) -> Result<Vec<(&'a str, Attribute<'c>)>, DialectError> {
    attributes.iter().map(|(name, value)| Ok((name, attribute_of(context, default, value)?))).collect()
}

fn build<'c>(
    context: &'c Context,
    kind: OpKind,
    operands: &[Value<'c, '_>],
    attributes: Vec<(&str, Attribute<'c>)>,
    result: Type<'c>,
    location: Location<'c>,
    computations: Vec<Region<'c>>,
) -> Result<Operation<'c>, DialectError> {
    OperationBuilder::new(kind.mlir_name(), location)
        .add_attributes(&named(context, attributes))
        .add_operands(operands)
        .add_results(&[result])
        .add_regions_vec(computations)
        .build()
        .map_err(|error| DialectError::invalid(error.to_string()))
}

fn argument<'c: 'a, 'a>(block: &Block<'c>, number: usize) -> Result<Value<'c, 'a>, DialectError> {
    block
        .argument(number)
        .map(Value::from)
        .map_err(|_| DialectError::invalid(format!("there is no parameter {number}")))
}

/// Signature of a computation whose root and parameters exist.
fn checked_signature(computation: &Computation) -> Result<ProgramShape, DialectError> {
    let count = computation.instructions.len();
    if computation.root.index() >= count || computation.parameters.iter().any(|id| id.index() >= count) {
        return Err(DialectError::invalid(format!(
            "the root or a parameter of computation `{}` does not exist",
            computation.name
        )));
    }
    Ok(computation.program_shape())
}

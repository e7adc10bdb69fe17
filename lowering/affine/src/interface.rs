//! The interface of a program as the attribute `hlo.interface` of its module.
//!
//! `hlo-to-affine` writes it, the passes after it leave it alone, and whoever loads the code reads it. Types stand in it as
//! text, for they may have layouts and tokens of the hlo dialect, which tools for the levels below do not know.

use std::sync::Arc;

use hlo::cost::Cost;
use hlo::devices::DeviceCount;
use hlo::dialect::{self, DialectError};
use hlo::graph::{Computation, GraphError};
use hlo::interface::Interface;
use hlo::literal::Literal;
use hlo::packed_parameter::PackedParameter;
use hlo::profile::ProfiledStep;
use hlo::shape::{ArrayShape, ProgramShape, Shape};
use melior::Context;
use melior::ir::attribute::{
    ArrayAttribute, Attribute, DenseI64ArrayAttribute, DictionaryAttribute, IntegerAttribute, StringAttribute,
};
use melior::ir::r#type::IntegerType;
use melior::ir::{AttributeLike, Identifier, OperationRef, Type};
use mlir_ext::rewrite::Rewriter;
use mlir_ext::{attributes, operations};
use passes::assign_buffers::{Buffer, BufferAssignment};

/// Name of the module attribute.
pub const INTERFACE: &str = "hlo.interface";

/// What the code says about itself.
#[derive(Debug, Default)]
pub struct CodeInterface {
    /// The steps of its profile.
    pub steps: Vec<ProfiledStep>,
    /// The parameters that it takes packed.
    pub packed: Vec<PackedParameter>,
}

/// The interface of an entry computation, of a program that was declared with these shapes; `communicates` as in
/// [`Interface`].
///
/// # Errors
/// For instructions that break a rule of their operation.
pub fn of(
    program_shape: ProgramShape,
    entry: &Computation,
    assignment: &BufferAssignment,
    devices: DeviceCount,
    communicates: bool,
    CodeInterface { steps, packed }: CodeInterface,
) -> Result<Interface<Literal>, GraphError> {
    let BufferAssignment { arena_size, mut parameters, mut outputs, constants, places, .. } = assignment.clone();
    let aliases = places.iter().map(|place| match place.buffer {
        Buffer::Parameter(number) => Some(number as usize),
        Buffer::Arena | Buffer::Constant(_) | Buffer::Output(_) => None,
    });
    let aliases = aliases.collect();
    declare_dimensions(&mut parameters, program_shape.parameters.iter());
    declare_dimensions(&mut outputs, std::iter::once(&program_shape.result));
    let without_layout = |shape: ArrayShape| Arc::new(ArrayShape { layout: None, ..shape });
    let outputs = outputs.into_iter().map(|shape| shape.map(without_layout)).collect();
    let cost = Cost::of(entry)?;
    Ok(Interface {
        program_shape,
        parameters,
        outputs,
        aliases,
        arena_size,
        constants,
        cost,
        devices,
        communicates,
        steps,
        packed,
    })
}

/// Writes the interface to the module that is rewritten.
///
/// # Errors
/// [`DialectError::Invalid`] for shapes that no type has.
pub fn write<'c>(interface: &Interface<Literal>, rewriter: &Rewriter<'c, '_>) -> Result<(), DialectError> {
    let context = rewriter.context();
    let number = |value: u64| -> Attribute<'c> {
        IntegerAttribute::new(IntegerType::new(context, 64).into(), value as i64).into()
    };
    let shapes = |shapes: &mut dyn Iterator<Item = Option<&ArrayShape>>| -> Result<Attribute<'c>, DialectError> {
        let types: Vec<Attribute> = shapes
            .map(|shape| shape.cloned().map_or(Shape::Token, Shape::Array))
            .map(|shape| Ok(text_of(context, dialect::type_of(context, &shape)?)))
            .collect::<Result<_, DialectError>>()?;
        Ok(ArrayAttribute::new(context, &types).into())
    };
    let constants: Vec<Attribute> = interface
        .constants
        .iter()
        .map(|literal| dialect::literal_attribute(context, literal))
        .collect::<Result<_, DialectError>>()?;
    let aliases: Vec<i64> = interface.aliases.iter().map(|alias| alias.map_or(-1, |leaf| leaf as i64)).collect();
    let mut entries: Vec<(&str, Attribute<'c>)> = vec![
        ("program_shape", text_of(context, dialect::signature_type(context, &interface.program_shape)?)),
        ("parameters", shapes(&mut interface.parameters.iter().map(Option::as_ref))?),
        ("outputs", shapes(&mut interface.outputs.iter().map(Option::as_deref))?),
        ("aliases", DenseI64ArrayAttribute::new(context, &aliases).into()),
        ("arena_size", number(interface.arena_size as u64)),
        ("constants", ArrayAttribute::new(context, &constants).into()),
        ("flops", number(interface.cost.flops)),
        ("transcendentals", number(interface.cost.transcendentals)),
        ("bytes_accessed", number(interface.cost.bytes_accessed)),
        ("replicas", number(interface.devices.replicas as u64)),
        ("partitions", number(interface.devices.partitions as u64)),
        ("communicates", number(interface.communicates.into())),
    ];
    if !interface.steps.is_empty() {
        let text = |text: &str| -> Attribute<'c> { StringAttribute::new(context, text).into() };
        let step = |step: &ProfiledStep| -> Attribute<'c> {
            let Cost { flops, transcendentals, bytes_accessed } = step.cost;
            let [flops, transcendentals, bytes] = [flops, transcendentals, bytes_accessed].map(number);
            let has_steps = number(step.has_steps.into());
            let parts = [text(&step.name), text(&step.operation), has_steps, flops, transcendentals, bytes];
            ArrayAttribute::new(context, &parts).into()
        };
        let steps: Vec<Attribute> = interface.steps.iter().map(step).collect();
        entries.push(("steps", ArrayAttribute::new(context, &steps).into()));
    }
    if !interface.packed.is_empty() {
        let numbers = |packed: &PackedParameter| -> Attribute<'c> {
            let numbers: Vec<i64> = packed.to_numbers().into_iter().map(|number| number as i64).collect();
            DenseI64ArrayAttribute::new(context, &numbers).into()
        };
        let packed: Vec<Attribute> = interface.packed.iter().map(numbers).collect();
        entries.push(("packed", ArrayAttribute::new(context, &packed).into()));
    }
    let entries: Vec<_> = entries.into_iter().map(|(name, value)| (Identifier::new(context, name), value)).collect();
    rewriter.set_attribute(rewriter.root(), INTERFACE, DictionaryAttribute::new(context, &entries).into());
    Ok(())
}

/// Reads the interface of a module.
///
/// # Errors
/// [`DialectError::Invalid`] for a module without one.
pub fn read(module: OperationRef<'_, '_>) -> Result<Interface<Literal>, DialectError> {
    let attribute = operations::attribute(&module, INTERFACE);
    let entries = attribute.and_then(attributes::entries).ok_or_else(|| malformed("is missing"))?;
    let find = |name: &str| {
        let entry = entries.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        entry.ok_or_else(|| malformed(&format!("has no `{name}`")))
    };
    let wrong = |name: &str| malformed(&format!("has a wrong `{name}`"));
    let type_of = |text: Attribute<'_>| {
        attributes::string(text).and_then(|text| Type::parse(operations::context_of(&module), text))
    };
    let number = |name: &str| attributes::integer(find(name)?).map(|value| value as u64).ok_or_else(|| wrong(name));
    let shapes = |name: &str| -> Result<Vec<Option<ArrayShape>>, DialectError> {
        let types = attributes::elements(find(name)?).ok_or_else(|| wrong(name))?;
        types
            .into_iter()
            .map(|shape| match dialect::shape_of(type_of(shape).ok_or_else(|| wrong(name))?)? {
                Shape::Array(array) => Ok(Some(array)),
                Shape::Tuple(_) | Shape::Token | Shape::Opaque => Ok(None),
            })
            .collect()
    };
    let constants = attributes::elements(find("constants")?).ok_or_else(|| wrong("constants"))?;
    let parameters = shapes("parameters")?;
    let outputs: Vec<_> = shapes("outputs")?.into_iter().map(|shape| shape.map(Arc::new)).collect();
    let aliases = attributes::integers(find("aliases")?).filter(|aliases| aliases.len() == outputs.len());
    let aliases = aliases.ok_or_else(|| wrong("aliases"))?;
    if aliases.iter().any(|&alias| alias >= parameters.len() as i64) {
        return Err(wrong("aliases"));
    }
    let steps = match find("steps") {
        Ok(steps) => attributes::elements(steps).ok_or_else(|| wrong("steps"))?,
        Err(_) => Vec::new(),
    };
    let packed = match find("packed") {
        Ok(packed) => attributes::elements(packed).ok_or_else(|| wrong("packed"))?,
        Err(_) => Vec::new(),
    };
    let packed = packed.into_iter().map(|numbers| {
        let numbers: Vec<u64> = attributes::integers(numbers)?.into_iter().map(|number| number as u64).collect();
        PackedParameter::from_numbers(&numbers, parameters.len())
    });
    let packed = packed.collect::<Option<_>>().ok_or_else(|| wrong("packed"))?;
    let signature = type_of(find("program_shape")?).ok_or_else(|| wrong("program_shape"))?;
    Ok(Interface {
        program_shape: dialect::signature_of(signature)?,
        parameters,
        outputs,
        aliases: aliases.into_iter().map(|alias| usize::try_from(alias).ok()).collect(),
        arena_size: number("arena_size")? as usize,
        constants: constants
            .into_iter()
            .map(|value| match value.is_elements() {
                true => dialect::literal_of(value, &dialect::shape_of(value.r#type())?),
                false => Ok(Literal::Token),
            })
            .collect::<Result<_, DialectError>>()?,
        cost: Cost {
            flops: number("flops")?,
            transcendentals: number("transcendentals")?,
            bytes_accessed: number("bytes_accessed")?,
        },
        devices: DeviceCount { replicas: number("replicas")? as i64, partitions: number("partitions")? as i64 },
        communicates: number("communicates")? != 0,
        steps: steps.into_iter().map(|step| read_step(step).ok_or_else(|| wrong("steps"))).collect::<Result<_, _>>()?,
        packed,
    })
}

fn text_of<'c>(context: &'c Context, r#type: Type<'c>) -> Attribute<'c> {
    StringAttribute::new(context, &r#type.to_string()).into()
}

fn read_step(attribute: Attribute<'_>) -> Option<ProfiledStep> {
    let parts = attributes::elements(attribute)?;
    let [name, operation, has_steps, flops, transcendentals, bytes_accessed] = parts[..] else { return None };
    let number = |attribute| attributes::integer(attribute).map(|value| value as u64);
    Some(ProfiledStep {
        name: attributes::string(name)?.to_string(),
        operation: attributes::string(operation)?.to_string(),
        has_steps: number(has_steps)? != 0,
        cost: Cost {
            flops: number(flops)?,
            transcendentals: number(transcendentals)?,
            bytes_accessed: number(bytes_accessed)?,
        },
    })
}

/// Gives arrays, which compiled code has at their bounds, the dynamic dimensions that the program declares.
fn declare_dimensions<'s>(arrays: &mut [Option<ArrayShape>], declared: impl Iterator<Item = &'s Shape>) {
    for (array, declared) in arrays.iter_mut().zip(declared.flat_map(Shape::leaves)) {
        if let (Some(array), Some(declared)) = (array, declared.as_array()) {
            array.dynamic.clone_from(&declared.dynamic);
        }
    }
}

fn malformed(what: &str) -> DialectError {
    DialectError::Invalid { location: None, message: format!("the module's attribute `{INTERFACE}` {what}") }
}

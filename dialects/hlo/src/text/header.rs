//! What stands before the computations: attributes of the module and the source tables, both ways.

use std::fmt::Write;

use crate::aliases::{AliasError, aliased_parameters};
use crate::graph::{FileLocation, InputOutputAlias, Module, SourceTables, StackFrame};
use crate::shape::{ProgramShape, Shape};

use crate::text::ast::{self, TableKind};
use crate::text::attributes::{all_shapes, first_shape, integers};
use crate::text::error::Error;
use crate::text::grammar::{self, Rule};
use crate::text::shapes;
use crate::text::source::SourceLines;
use crate::text::strings;

/// Fills the header of `module` from its syntax.
pub(crate) fn import(module: &mut Module, ast: &ast::ModuleNode<'_>, source: SourceLines<'_>) -> Result<(), Error> {
    for attribute in &ast.attributes {
        match attribute.key {
            "entry_computation_layout" => module.entry_layout = Some(entry_layout(source, attribute.value)?),
            "input_output_alias" => {
                module.input_output_aliases = aliases(source, attribute.value, &module.entry().program_shape())?
            }
            key => {
                if key == "buffer_donor" {
                    grammar::read_all(Rule::donors, source, attribute.value)?;
                }
                module.annotations.push((key.to_string(), attribute.value.to_string()));
            }
        }
    }
    module.sources = source_tables(ast, source)?;
    Ok(())
}

fn entry_layout(source: SourceLines<'_>, text: &str) -> Result<ProgramShape, Error> {
    let pair = grammar::read_all(Rule::entry_layout, source, text)?;
    let mut parameters = Vec::new();
    for inner in pair.clone().into_inner() {
        if inner.as_rule() == Rule::layout_parameters {
            parameters = all_shapes(source, inner)?;
        }
    }
    Ok(ProgramShape { parameters, result: first_shape(source, pair)? })
}

fn aliases(source: SourceLines<'_>, text: &str, program: &ProgramShape) -> Result<Vec<InputOutputAlias>, Error> {
    let pair = grammar::read_all(Rule::aliases, source, text)?;
    let mut aliases = Vec::new();
    let mut places = Vec::new();
    for entry in pair.into_inner().filter(|inner| inner.as_rule() == Rule::alias) {
        places.push(source.location_of(entry.as_str()));
        let mut indices = Vec::new();
        let mut parameter = 0;
        let mut must_alias = false;
        for part in entry.into_inner() {
            match part.as_rule() {
                Rule::integers => indices.push(integers(source, part)?),
                Rule::integer => parameter = shapes::integer(source, part.as_str())?,
                Rule::alias_kind => must_alias = part.as_str().starts_with("must"),
                _ => {}
            }
        }
        let mut indices = indices.into_iter();
        let output_index = indices.next().unwrap_or_default();
        let parameter_index = indices.next().unwrap_or_default();
        aliases.push(InputOutputAlias { output_index, parameter, parameter_index, must_alias });
    }
    aliased_parameters(&aliases, program).map_err(|AliasError { alias, expected, found }| Error::Attribute {
        at: places.swap_remove(alias),
        key: "input_output_alias".into(),
        expected,
        found,
    })?;
    Ok(aliases)
}

fn source_tables(ast: &ast::ModuleNode<'_>, source: SourceLines<'_>) -> Result<SourceTables, Error> {
    let mut tables = SourceTables { present: !ast.tables.is_empty(), ..SourceTables::default() };
    for table in &ast.tables {
        for (position, &(number, value)) in table.rows.iter().enumerate() {
            if shapes::integer(source, number)? != position as i64 + 1 {
                return Err(Error::Syntax {
                    at: source.location_of(number),
                    expected: format!("row {}", position + 1),
                    found: format!("`{number}`"),
                });
            }
            match table.kind {
                TableKind::FileNames => tables.file_names.push(strings::unquote(source, value)?),
                TableKind::FunctionNames => tables.function_names.push(strings::unquote(source, value)?),
                TableKind::FileLocations => tables.file_locations.push(file_location(source, value)?),
                TableKind::StackFrames => tables.stack_frames.push(stack_frame(source, value)?),
            }
        }
    }
    Ok(tables)
}

/// The fields of a row as (name, value).
fn fields<'t>(source: SourceLines<'t>, text: &str) -> Result<Vec<(&'t str, u32)>, Error> {
    let pair = grammar::read_all(Rule::table_fields, source, text)?;
    let mut fields = Vec::new();
    for field in pair.into_inner().filter(|inner| inner.as_rule() == Rule::table_field) {
        let mut name = "";
        for part in field.into_inner() {
            match part.as_rule() {
                Rule::identifier => name = part.as_str(),
                Rule::integer => {
                    let value = part.as_str();
                    let value = value.parse().map_err(|_| Error::Syntax {
                        at: source.location_of(value),
                        expected: "an integer of 32 bits without sign".into(),
                        found: format!("`{value}`"),
                    })?;
                    fields.push((name, value));
                }
                _ => {}
            }
        }
    }
    Ok(fields)
}

fn unknown_field(source: SourceLines<'_>, name: &str) -> Error {
    Error::Syntax { at: source.location_of(name), expected: "a field of this table".into(), found: format!("`{name}`") }
}

fn file_location(source: SourceLines<'_>, text: &str) -> Result<FileLocation, Error> {
    let mut row = FileLocation::default();
    for (name, value) in fields(source, text)? {
        match name {
            "file_name_id" => row.file_name = value,
            "function_name_id" => row.function_name = value,
            "line" => row.line = value,
            "end_line" => row.end_line = value,
            "column" => row.column = value,
            "end_column" => row.end_column = value,
            _ => return Err(unknown_field(source, name)),
        }
    }
    Ok(row)
}

fn stack_frame(source: SourceLines<'_>, text: &str) -> Result<StackFrame, Error> {
    let mut row = StackFrame::default();
    for (name, value) in fields(source, text)? {
        match name {
            "file_location_id" => row.file_location = value,
            "parent_frame_id" => row.parent = value,
            _ => return Err(unknown_field(source, name)),
        }
    }
    Ok(row)
}

/// Writes the line that begins with `HloModule`.
pub(crate) fn write(out: &mut String, module: &Module, name: &str) {
    // XLA's order: these before the layout, the others behind it.
    let is_early = |key: &str| matches!(key, "is_scheduled" | "buffer_donor" | "alias_passthrough_params");
    let _ = write!(out, "HloModule {name}");
    let annotate = |out: &mut String, (key, value): &(String, String)| {
        let _ = write!(out, ", {key}={value}");
    };
    module.annotations.iter().filter(|(key, _)| key == "is_scheduled").for_each(|entry| annotate(out, entry));
    if !module.input_output_aliases.is_empty() {
        out.push_str(", input_output_alias={ ");
        for (position, alias) in module.input_output_aliases.iter().enumerate() {
            if position > 0 {
                out.push_str(", ");
            }
            let kind = if alias.must_alias { "must-alias" } else { "may-alias" };
            write_index(out, &alias.output_index);
            let _ = write!(out, ": ({}, ", alias.parameter);
            write_index(out, &alias.parameter_index);
            let _ = write!(out, ", {kind})");
        }
        out.push_str(" }");
    }
    let early = module.annotations.iter().filter(|(key, _)| is_early(key) && key != "is_scheduled");
    early.for_each(|entry| annotate(out, entry));
    if let Some(layout) = &module.entry_layout {
        out.push_str(", entry_computation_layout={(");
        write_shapes(out, &layout.parameters);
        let _ = write!(out, ")->{}}}", layout.result);
    }
    module.annotations.iter().filter(|(key, _)| !is_early(key)).for_each(|entry| annotate(out, entry));
    out.push('\n');
}

fn write_shapes(out: &mut String, shapes: &[Shape]) {
    for (position, shape) in shapes.iter().enumerate() {
        if position > 0 {
            out.push_str(", ");
        }
        if position > 0 && position % 5 == 0 {
            let _ = write!(out, "/*index={position}*/");
        }
        let _ = write!(out, "{shape}");
    }
}

fn write_index(out: &mut String, index: &[i64]) {
    let text: Vec<String> = index.iter().map(i64::to_string).collect();
    let _ = write!(out, "{{{}}}", text.join(","));
}

/// Writes the source tables.
pub(crate) fn write_tables(out: &mut String, tables: &SourceTables) {
    let names = |out: &mut String, title: &str, names: &[String]| {
        let _ = writeln!(out, "\n{title}");
        for (position, name) in names.iter().enumerate() {
            let _ = write!(out, "{} ", position + 1);
            strings::quote(out, name);
            out.push('\n');
        }
    };
    names(out, "FileNames", &tables.file_names);
    names(out, "FunctionNames", &tables.function_names);
    out.push_str("\nFileLocations\n");
    for (position, row) in tables.file_locations.iter().enumerate() {
        let FileLocation { file_name, function_name, line, end_line, column, end_column } = row;
        let _ = writeln!(
            out,
            "{} {{file_name_id={file_name} function_name_id={function_name} line={line} end_line={end_line} \
             column={column} end_column={end_column}}}",
            position + 1
        );
    }
    out.push_str("\nStackFrames\n");
    for (position, StackFrame { file_location, parent }) in tables.stack_frames.iter().enumerate() {
        let _ = writeln!(out, "{} {{file_location_id={file_location} parent_frame_id={parent}}}", position + 1);
    }
    out.push('\n');
}

//! Questions about instructions of a program.

use std::error::Error;
use std::fmt::Write;

use hlo::graph::{Computation, InstructionId, Module};
use hlo::indexing_maps::{Analysis, ValueIndexing, layouts};
use hlo::op_kind::OpKind;
use hlo::shape::{ArrayShape, Shape};
use indexing::IndexingMap;
use melior::Context;

use crate::Arguments;

/// The maps, for each operand, result or instruction in question.
pub fn answer(arguments: &Arguments) -> Result<String, Box<dyn Error>> {
    let module: Module = hlo::text::read(&arguments.read("hlo")?).map_err(|e| format!("{e:?}"))?;
    let entry = module.entry();
    let context = Context::new_with_threading(false);
    let mut analysis = Analysis::new(&context, entry);
    let mut text = String::new();
    match arguments.get("kind")? {
        "indexing" => {
            let instruction = find(entry, arguments.get("instruction")?)?;
            let id: usize = arguments.get("id")?.parse()?;
            let forward = arguments.get("direction")? == "input_to_output";
            let mut groups = match forward {
                true => analysis.input_to_output(instruction, id),
                false => analysis.output_to_input(instruction, id),
            };
            for (i, group) in groups.iter_mut().enumerate() {
                if arguments.has("physical-layout") {
                    let operand = if forward { id } else { i };
                    let output = array(&entry.get(instruction).shape, if forward { i } else { id });
                    let input = entry.get(instruction).operands.get(operand);
                    let input = input.and_then(|&operand| array(&entry.get(operand).shape, 0));
                    let (Some(output), Some(input)) = (output, input) else { continue };
                    let (from, to) = if forward { (input, output) } else { (output, input) };
                    change(group, |map| *map = layouts::physical(map, from, to));
                }
                if arguments.has("simplify") {
                    change(group, |map| {
                        map.simplify();
                        map.remove_unused_symbols();
                    });
                }
            }
            for (i, group) in groups.iter().enumerate() {
                write(&mut text, &analysis, &format!("operand id = {i}"), group)?;
            }
        }
        "group_by_producers" => {
            let instruction = find(entry, arguments.get("instruction")?)?;
            let groups = analysis.output_to_input(instruction, 0);
            for (&operand, group) in entry.get(instruction).operands.iter().zip(&groups) {
                write(&mut text, &analysis, &format!("instruction {}", entry.get(operand).name), group)?;
            }
        }
        "grouped" => grouped(arguments, entry, &mut analysis, &mut text)?,
        "epilogue" => {
            let name = arguments.get("computation")?;
            let (fusion, fused) = entry
                .iter()
                .find_map(|(id, instruction)| {
                    let nested = instruction.computations.first()?;
                    (instruction.kind == OpKind::Fusion && nested.name == name).then_some((id, nested))
                })
                .ok_or_else(|| format!("no fusion calls `{name}`"))?;
            let (from, to) = (find(fused, arguments.get("from")?)?, find(fused, arguments.get("to")?)?);
            let number = analysis.nested(fusion).ok_or("not a fusion")?;
            let map = analysis.along_users(number, from, to).ok_or("no single map")?;
            write(&mut text, &analysis, "operand id = 0", &ValueIndexing::of(map))?;
        }
        other => return Err(format!("unknown kind `{other}`").into()),
    }
    Ok(text)
}

/// `--fusion instruction,NAME` or `--fusion producer_consumer,NAME,NAME`, `--start [COMPUTATION/]NAME`.
fn grouped<'a>(
    arguments: &Arguments,
    entry: &'a Computation,
    analysis: &mut Analysis<'_, 'a>,
    text: &mut String,
) -> Result<(), Box<dyn Error>> {
    let start = arguments.get("start")?;
    let members: Vec<InstructionId> =
        arguments.get("fusion")?.split(',').skip(1).map(|name| find(entry, name)).collect::<Result<_, _>>()?;
    let Some((computation, name)) = start.split_once('/') else {
        let start = find(entry, start)?;
        let groups = analysis.grouped_within(start, 0, &|id| members.contains(&id));
        for (id, instruction) in entry.iter() {
            let group = &groups[id.index()];
            if *group != ValueIndexing::none() {
                write(text, analysis, &format!("instruction {}", instruction.name), group)?;
            }
        }
        return Ok(());
    };
    let fusion = *members.first().ok_or("no fusion given")?;
    let number = analysis.nested(fusion).ok_or("not a fusion")?;
    let fused = &entry.get(fusion).computations[0];
    let start = find(fused, name)?;
    let groups = analysis.grouped_from(number, start, 0);
    for (id, instruction) in fused.iter() {
        let group = &groups[id.index()];
        if *group == ValueIndexing::none() {
            continue;
        }
        // A parameter of the fusion is the fusion's operand.
        let operand = instruction.parameter_number().and_then(|i| entry.get(fusion).operands.get(i));
        let name = match operand {
            Some(&operand) => format!("{}/{}", entry.name, entry.get(operand).name),
            None => format!("{computation}/{}", instruction.name),
        };
        write(text, analysis, &format!("instruction {name}"), group)?;
    }
    Ok(())
}

fn find(computation: &Computation, name: &str) -> Result<InstructionId, Box<dyn Error>> {
    let found = computation.iter().find(|(_, instruction)| instruction.name == name);
    Ok(found.ok_or_else(|| format!("no instruction `{name}` in `{}`", computation.name))?.0)
}

fn array(shape: &Shape, leaf: usize) -> Option<&ArrayShape> {
    shape.leaves().get(leaf)?.as_array()
}

fn change<'c>(group: &mut ValueIndexing<'c>, change: impl Fn(&mut IndexingMap<'c>)) {
    if let ValueIndexing::Known(entries) = group {
        entries.iter_mut().for_each(|entry| change(&mut entry.map));
    }
}

fn write(text: &mut String, analysis: &Analysis<'_, '_>, title: &str, group: &ValueIndexing<'_>) -> std::fmt::Result {
    writeln!(text, "{title}")?;
    if *group == ValueIndexing::Unknown {
        writeln!(text, "unknown indexing")?;
    }
    for entry in group.maps() {
        writeln!(text, "{}", entry.map)?;
    }
    for entry in group.maps() {
        for (i, variable) in entry.map.runtimes().iter().enumerate() {
            let Some(source) = &variable.source else { continue };
            let Some(instruction) = analysis.runtime_instruction(source.value) else { continue };
            if i == 0 {
                writeln!(text, "runtime variables:")?;
            }
            let mut index = entry.map.with_results(source.index.clone());
            index.remove_unused_symbols();
            writeln!(text, "rt{i}: %{} = {} {}; {index}", instruction.name, instruction.shape, instruction.kind)?;
        }
    }
    Ok(())
}

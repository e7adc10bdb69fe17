//! Results that take the place of arguments in memory: `input_output_alias`.

use std::collections::HashSet;

use crate::graph::InputOutputAlias;
use crate::shape::{ArrayShape, ProgramShape, Shape};

/// An alias that no program can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("input_output_alias number {alias}: expected {expected}, found {found}")]
pub struct AliasError {
    /// Its number in the list.
    pub alias: usize,
    /// What should stand there.
    pub expected: String,
    /// What does.
    pub found: String,
}

/// For each leaf of a program's result, the number of the parameters' leaf that it takes the place of.
///
/// Arrays with dynamic dimensions are computed at their bounds, apart from their sizes, and keep places of their own.
///
/// # Errors
/// For an alias of something that is no array of the program, of arrays of different shapes, or of an array that an earlier
/// one is about.
pub fn aliased_parameters(
    aliases: &[InputOutputAlias],
    program: &ProgramShape,
) -> Result<Vec<Option<usize>>, AliasError> {
    let mut aliased = vec![None; program.result.leaves().len()];
    let first_leaves: Vec<usize> = program
        .parameters
        .iter()
        .scan(0, |next, shape| {
            let first = *next;
            *next += shape.leaves().len();
            Some(first)
        })
        .collect();
    let mut taken = HashSet::new();
    for (alias, own) in aliases.iter().enumerate() {
        let error = |expected: &str, found: String| AliasError { alias, expected: expected.to_string(), found };
        let output = leaf(&program.result, &own.output_index);
        let (output, result) = output.ok_or_else(|| error("an array of the result", index_text(&own.output_index)))?;
        let number = usize::try_from(own.parameter).ok().filter(|&number| number < program.parameters.len());
        let number = number
            .ok_or_else(|| error(&format!("one of {} parameters", first_leaves.len()), own.parameter.to_string()))?;
        let parameter = leaf(&program.parameters[number], &own.parameter_index);
        let (parameter, argument) = parameter
            .ok_or_else(|| error(&format!("an array of parameter {number}"), index_text(&own.parameter_index)))?;
        let parameter = first_leaves[number] + parameter;
        let without_layout = |shape: &ArrayShape| ArrayShape { layout: None, ..shape.clone() };
        if without_layout(result) != without_layout(argument) {
            return Err(error(&format!("a parameter of the result's shape {result}"), argument.to_string()));
        }
        if aliased[output].is_some() {
            return Err(error("a result that has no alias yet", index_text(&own.output_index)));
        }
        if !taken.insert(parameter) {
            return Err(error("a parameter that has no alias yet", number.to_string()));
        }
        if !result.is_dynamic() {
            aliased[output] = Some(parameter);
        }
    }
    Ok(aliased)
}

/// Aliases by which each array of a program's result takes the place of the first parameter's array of its shape that no other
/// has taken.
pub fn by_shape(program: &ProgramShape) -> Vec<InputOutputAlias> {
    let mut free: Vec<(i64, Vec<i64>, &ArrayShape)> = (0..)
        .zip(&program.parameters)
        .flat_map(|(number, shape)| indexed_arrays(shape).into_iter().map(move |(index, array)| (number, index, array)))
        .collect();
    let mut aliases = Vec::new();
    for (output_index, result) in indexed_arrays(&program.result) {
        let fits = |argument: &ArrayShape| {
            argument.element_type == result.element_type && argument.dimensions == result.dimensions
        };
        if result.is_dynamic() {
            continue;
        }
        if let Some(place) = free.iter().position(|(.., argument)| !argument.is_dynamic() && fits(argument)) {
            let (parameter, parameter_index, _) = free.remove(place);
            aliases.push(InputOutputAlias { output_index, parameter, parameter_index, must_alias: false });
        }
    }
    aliases
}

/// The arrays of a shape with their indices.
fn indexed_arrays(shape: &Shape) -> Vec<(Vec<i64>, &ArrayShape)> {
    match shape {
        Shape::Array(array) => vec![(Vec::new(), array)],
        Shape::Tuple(elements) => (0..)
            .zip(elements)
            .flat_map(|(number, element)| {
                indexed_arrays(element).into_iter().map(move |(index, array)| ([vec![number], index].concat(), array))
            })
            .collect(),
        Shape::Token | Shape::Opaque => Vec::new(),
    }
}

/// The array at an index into nested tuples, and the number of its leaf.
fn leaf<'s>(mut shape: &'s Shape, index: &[i64]) -> Option<(usize, &'s ArrayShape)> {
    let mut number = 0;
    for &position in index {
        let Shape::Tuple(elements) = shape else { return None };
        let position = usize::try_from(position).ok()?;
        let element = elements.get(position)?;
        number += elements[..position].iter().map(|element| element.leaves().len()).sum::<usize>();
        shape = element;
    }
    Some((number, shape.as_array()?))
}

fn index_text(index: &[i64]) -> String {
    let numbers: Vec<String> = index.iter().map(i64::to_string).collect();
    format!("{{{}}}", numbers.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element_type::ElementType;

    fn alias(output_index: &[i64], parameter: i64) -> InputOutputAlias {
        let output_index = output_index.to_vec();
        InputOutputAlias { output_index, parameter, parameter_index: Vec::new(), must_alias: false }
    }

    #[test]
    fn results_take_the_first_free_parameter_of_their_shape() {
        let array = |size| Shape::Array(ArrayShape::new(ElementType::F32, [size]));
        let program = ProgramShape {
            parameters: vec![array(3), Shape::Tuple(vec![array(1), array(3)]), array(2)],
            result: Shape::Tuple(vec![array(3), array(2), array(3), array(3)]),
        };
        assert_eq!(aliased_parameters(&by_shape(&program), &program), Ok(vec![Some(0), Some(3), Some(2), None]));
    }

    #[test]
    fn leaves_are_numbered_across_tuples() {
        let array = |size| Shape::Array(ArrayShape::new(ElementType::F32, [size]));
        let program = ProgramShape {
            parameters: vec![Shape::Tuple(vec![array(1), array(2)]), array(3)],
            result: Shape::Tuple(vec![array(3), array(2)]),
        };
        assert_eq!(aliased_parameters(&[alias(&[0], 1)], &program), Ok(vec![Some(2), None]));
        let of_tuple = InputOutputAlias { parameter_index: vec![1], ..alias(&[1], 0) };
        assert_eq!(aliased_parameters(&[of_tuple], &program), Ok(vec![None, Some(1)]));
        let error = |aliases: &[InputOutputAlias]| aliased_parameters(aliases, &program).unwrap_err().to_string();
        let expected = "input_output_alias number 1: expected a result that has no alias yet, found {0}";
        assert_eq!(error(&[alias(&[0], 1), alias(&[0], 1)]), expected);
        let expected = "input_output_alias number 0: expected a parameter of the result's shape f32[2], found f32[3]";
        assert_eq!(error(&[alias(&[1], 1)]), expected);
    }
}

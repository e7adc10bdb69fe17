//! Questions about one map or interval.

use std::error::Error;

use hlo::graph::Computation;
use hlo::indexing_maps::{Outside, RuntimeValue, fold_runtime_values};
use indexing::{IndexingMap, Interval, PointVariables, RangeEvaluator, RuntimeSource};
use melior::Context;
use serde_json::{Value, json};

use crate::Arguments;

fn integers(value: &Value) -> Vec<i64> {
    value.as_array().map(|list| list.iter().filter_map(Value::as_i64).collect()).unwrap_or_default()
}

/// The answer as a map's text or as JSON.
pub fn answer(arguments: &Arguments) -> Result<String, Box<dyn Error>> {
    let text = arguments.read("map")?;
    let values: Value = if arguments.has("args") { serde_json::from_str(&arguments.read("args")?)? } else { json!({}) };
    let operation = arguments.get("op")?;
    if let "equality_classes" | "interval_compare" | "interval_arith" = operation {
        return answer_about_list(operation, &text, &values);
    }
    let context = Context::new_with_threading(false);
    let mut map = IndexingMap::parse(&context, &text)?;
    let symbols = integers(&values["symbols"]);
    let (ranges, runtimes) = symbols.split_at(map.ranges().len().min(symbols.len()));
    let dims = integers(&values["dims"]);
    let interval = |range: Interval| json!([range.lower, range.upper]);
    let json = match operation {
        "parse" | "roundtrip" | "print" | "known_empty" => return Ok(map.to_string()),
        "print_affine_map" => return Ok(with_names(&map, &values["names"]).to_string()),
        "simplify" => {
            let preserve = values["point_dimensions"] == "preserve";
            map.simplify_with(if preserve { PointVariables::Preserve } else { PointVariables::Replace });
            return Ok(map.to_string());
        }
        "compose" => return Ok(map.compose(&IndexingMap::parse(&context, &arguments.read("second")?)?)?.to_string()),
        "remove_unused_symbols" => {
            map.remove_unused_symbols();
            return Ok(map.to_string());
        }
        "remove_unused_vars" => {
            map.remove_unused_variables();
            return Ok(map.to_string());
        }
        "rescale" | "rescale_then_simplify" => {
            map.rescale_symbols();
            if operation == "rescale_then_simplify" {
                map.simplify();
            }
            return Ok(map.to_string());
        }
        "convert_symbols_to_dims" => return Ok(map.symbols_to_dims().to_string()),
        "convert_range_vars_to_dims" => {
            let positions: Vec<usize> =
                integers(&values["range_var_ids"]).iter().filter_map(|&i| usize::try_from(i).ok()).collect();
            return Ok(map.ranges_to_dims(&positions).to_string());
        }
        "replace_constant_rt_vars" => return fold_runtime(map, &values),
        "evaluate" => json!(map.evaluate(&dims, ranges, runtimes)),
        "constraints_satisfied" => json!(map.constraints_hold(&dims, ranges, runtimes)),
        "always_nonnegative" => {
            let expr = map.parse_expr(values["expr"].as_str().unwrap_or_default())?;
            json!(RangeEvaluator::new(&map).is_never_negative(expr))
        }
        "expr_range" => interval(map.range_of(map.parse_expr(values["expr"].as_str().unwrap_or_default())?)),
        "result_ranges" => map.results().iter().map(|&e| interval(map.range_of(e))).collect(),
        other => return Err(format!("unknown operation `{other}`").into()),
    };
    Ok(json.to_string())
}

fn answer_about_list(operation: &str, text: &str, values: &Value) -> Result<String, Box<dyn Error>> {
    if operation == "equality_classes" {
        let texts: Vec<String> = serde_json::from_str(text)?;
        let context = Context::new_with_threading(false);
        let maps = texts.iter().map(|text| IndexingMap::parse(&context, text)).collect::<Result<Vec<_>, _>>()?;
        let mut classes: Vec<Vec<usize>> = Vec::new();
        for (i, map) in maps.iter().enumerate() {
            match classes.iter_mut().find(|class| class.first().is_some_and(|&first| maps[first] == *map)) {
                Some(class) => class.push(i),
                None => classes.push(vec![i]),
            }
        }
        return Ok(json!(classes).to_string());
    }
    let [[a, b], [c, d]]: [[i64; 2]; 2] = serde_json::from_str(text)?;
    let (left, right) = (Interval::new(a, b), Interval::new(c, d));
    let arithmetic = |result: Interval| json!([result.lower, result.upper]);
    let json = match values["operator"].as_str().unwrap_or_default() {
        ">" => json!(left.gt(right)),
        "<" => json!(left.lt(right)),
        ">=" => json!(left.ge(right)),
        "<=" => json!(left.le(right)),
        "==" => json!(left.equals(right)),
        "!=" => json!(left.differs(right)),
        "+" => arithmetic(left + right),
        "*" => arithmetic(left * right),
        other => return Err(format!("unknown operator `{other}`").into()),
    };
    Ok(json.to_string())
}

/// The symbols after the named range variables become run-time variables.
fn with_names<'c>(map: &IndexingMap<'c>, names: &Value) -> IndexingMap<'c> {
    let list = |key: &str| -> Vec<String> {
        let names = names[key].as_array().map(Vec::as_slice).unwrap_or_default();
        names.iter().filter_map(|name| Some(name.as_str()?.to_string())).collect()
    };
    let (dims, ranges, runtimes) = (list("dims"), list("ranges"), list("rt"));
    if ranges.len() + runtimes.len() != map.ranges().len() {
        return map.clone();
    }
    map.ranges_to_runtimes(runtimes.len()).with_names(&dims, &ranges, &runtimes)
}

/// Makes the run-time variable stand for an element of the root of a program, and folds it.
fn fold_runtime(map: IndexingMap<'_>, values: &Value) -> Result<String, Box<dyn Error>> {
    let module = hlo::text::read(values["hlo"].as_str().unwrap_or_default()).map_err(|e| format!("{e:?}"))?;
    let entry: &Computation = module.entry();
    let mut map = map;
    for i in 0..map.runtimes().len() {
        let index = values["rt_vars"][format!("rt{i}")]["map"].as_str().unwrap_or("() -> ()");
        let index = IndexingMap::parse(map.context(), index)?;
        let value = RuntimeValue { computation: 0, instruction: entry.root }.into();
        map.set_runtime_source(i, RuntimeSource { value, index: index.results().to_vec() });
    }
    fold_runtime_values(&mut map, entry, 0, Outside::Impossible);
    map.simplify();
    Ok(map.to_string())
}

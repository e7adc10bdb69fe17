//! Answers questions about a single map, one per run: `--op OPERATION --map FILE [--second FILE] [--args FILE]`.

use indexing::{Expr, IndexingMap, Interval, PointVariables, RangeEvaluator, parse_expr};
use serde_json::{Value, json};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut op = String::new();
    let (mut map, mut second, mut args) = (String::new(), String::new(), json!({}));
    let mut argv = std::env::args().skip(1);
    while let (Some(key), Some(value)) = (argv.next(), argv.next()) {
        match key.as_str() {
            "--op" => op = value,
            "--map" => map = std::fs::read_to_string(value)?,
            "--second" => second = std::fs::read_to_string(value)?,
            "--args" => args = serde_json::from_str(&std::fs::read_to_string(value)?)?,
            _ => return Err(format!("unknown argument {key}").into()),
        }
    }
    println!("{}", answer(&op, &map, &second, &args)?);
    Ok(())
}

fn ints(v: &Value) -> Vec<i64> {
    v.as_array().map(|a| a.iter().filter_map(Value::as_i64).collect()).unwrap_or_default()
}

fn answer(op: &str, text: &str, second: &str, args: &Value) -> Result<String, Box<dyn Error>> {
    let map = || text.parse::<IndexingMap>();
    let symbols = |m: &IndexingMap| {
        let all = ints(&args["symbols"]);
        let (a, b) = all.split_at(m.ranges().len().min(all.len()));
        (ints(&args["dims"]), a.to_vec(), b.to_vec())
    };
    let interval = |r: Interval| json!([r.lower, r.upper]);
    Ok(match op {
        "simplify" => {
            let mut m = map()?;
            m.simplify_with(if args["point_dimensions"] == "preserve" {
                PointVariables::Preserve
            } else {
                PointVariables::Replace
            });
            m.to_string()
        }
        "parse" | "roundtrip" | "print" | "known_empty" | "print_affine_map" => map()?.to_string(),
        "compose" => map()?.compose(&second.parse()?)?.to_string(),
        "remove_unused_symbols" => {
            let mut m = map()?;
            m.remove_unused_symbols();
            m.to_string()
        }
        "remove_unused_vars" => {
            let mut m = map()?;
            m.remove_unused_variables();
            m.to_string()
        }
        "rescale" | "rescale_then_simplify" => {
            let mut m = map()?;
            m.rescale_symbols();
            if op != "rescale" {
                m.simplify();
            }
            m.to_string()
        }
        "convert_symbols_to_dims" => map()?.symbols_to_dims().to_string(),
        "convert_range_vars_to_dims" => {
            let ids: Vec<usize> = ints(&args["range_var_ids"]).iter().map(|&i| i as usize).collect();
            map()?.ranges_to_dims(&ids).to_string()
        }
        "evaluate" => {
            let m = map()?;
            let (d, s, r) = symbols(&m);
            json!(m.evaluate(&d, &s, &r)).to_string()
        }
        "constraints_satisfied" => {
            let m = map()?;
            let (d, s, r) = symbols(&m);
            json!(m.constraints_hold(&d, &s, &r)).to_string()
        }
        "always_nonnegative" | "expr_range" => {
            let m = map()?;
            let e: Expr = parse_expr(args["expr"].as_str().unwrap_or_default(), &m)?;
            let ranges = RangeEvaluator::new(&m);
            if op == "expr_range" {
                interval(ranges.range(&e)).to_string()
            } else {
                json!(ranges.is_never_negative(&e)).to_string()
            }
        }
        "result_ranges" => {
            let m = map()?;
            json!(m.results().iter().map(|e| interval(m.range_of(e))).collect::<Vec<_>>()).to_string()
        }
        "equality_classes" => {
            let list: Vec<String> = serde_json::from_str(text)?;
            let maps: Vec<IndexingMap> = list.iter().map(|t| t.parse()).collect::<Result<_, _>>()?;
            let mut classes: Vec<Vec<usize>> = Vec::new();
            for (i, m) in maps.iter().enumerate() {
                match classes.iter_mut().find(|c| maps[c[0]] == *m) {
                    Some(class) => class.push(i),
                    None => classes.push(vec![i]),
                }
            }
            json!(classes).to_string()
        }
        "interval_compare" | "interval_arith" => {
            let pair: Vec<Vec<i64>> = serde_json::from_str(text)?;
            let (a, b) = (Interval::new(pair[0][0], pair[0][1]), Interval::new(pair[1][0], pair[1][1]));
            match args["operator"].as_str().unwrap_or_default() {
                ">" => json!(a.gt(b)).to_string(),
                "<" => json!(a.lt(b)).to_string(),
                ">=" => json!(a.ge(b)).to_string(),
                "<=" => json!(a.le(b)).to_string(),
                "==" => json!(a.equals(b)).to_string(),
                "!=" => json!(a.differs(b)).to_string(),
                "+" => interval(a + b).to_string(),
                "*" => interval(a * b).to_string(),
                other => return Err(format!("unknown operator {other}").into()),
            }
        }
        _ => return Err(format!("unsupported operation {op}").into()),
    })
}

//! Programs that once took time, memory or stack out of proportion to their size: they compile in seconds, or are refused.

use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

use evaluator::{Environment, evaluate};
use halo::{CompileOptions, Executable, Literal};

use super::CLIENT;

/// What none of them may take, on a machine that does much else. Without the remedies most take minutes or for ever.
const LIMIT: Duration = Duration::from_secs(60);

fn compiled(text: &str) -> Executable {
    let start = Instant::now();
    let executable = CLIENT.compile(text, &CompileOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    executable
}

fn refused(text: &str) -> String {
    let start = Instant::now();
    let error = CLIENT.compile(text, &CompileOptions::default()).expect_err("the program grows");
    assert!(!error.is_bug() && start.elapsed() < LIMIT, "{error} in {:?}", start.elapsed());
    error.to_string()
}

/// The lines that `line` gives for each number.
fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        let _ = writeln!(text, "{}", line(number));
        text
    })
}

fn names(count: usize, letter: char) -> String {
    (0..count).map(|number| format!("{letter}{number}")).collect::<Vec<_>>().join(", ")
}

/// A value transposed and then reshaped, each time from one of these sizes of rows and columns to the next.
fn check_reshaped_transposes(steps: usize, sizes: &[[usize; 2]]) {
    let size = |number: usize| sizes[number % sizes.len()];
    let pairs = lines(steps, |number| {
        let ([rows, columns], [next_rows, next_columns]) = (size(number), size(number + 1));
        let before = if number == 0 { "p".to_string() } else { format!("x{}", number - 1) };
        format!(
            "t{number} = f32[{columns},{rows}] transpose({before}), dimensions={{1,0}}\n\
             x{number} = f32[{next_rows},{next_columns}] reshape(t{number})"
        )
    });
    let ([rows, columns], [last_rows, last_columns]) = (size(0), size(steps));
    let text = format!(
        "HloModule m\nENTRY e {{\np = f32[{rows},{columns}] parameter(0)\n{pairs}\
         ROOT r = f32[{last_rows},{last_columns}] negate(x{})\n}}",
        steps - 1
    );
    let input: Vec<f32> = (0..rows * columns).map(|number| number as f32).collect();
    let input = Literal::from_slice([rows as i64, columns as i64], &input).unwrap();
    let module = halo::text::read(&text).unwrap();
    let expected = evaluate(&module, std::slice::from_ref(&input), &mut Environment::default()).unwrap();
    assert_eq!(compiled(&text).execute((&input,)).unwrap(), expected);
}

#[test]
fn transposes_and_reshapes_that_do_not_fit_each_other() {
    check_reshaped_transposes(60, &[[6, 4]]);
    // Rows of whole vectors, whose lanes are at places of their own.
    check_reshaped_transposes(60, &[[6, 35], [14, 15]]);
}

/// On as much stack as Rust gives a thread.
#[test]
fn a_concatenation_of_many_computed_values() {
    const COUNT: usize = 1500;
    let parts =
        lines(COUNT, |n| format!("s{n} = f32[1] slice(p), slice={{[{n}:{}]}}\ny{n} = f32[1] negate(s{n})", n + 1));
    let text = format!(
        "HloModule m\nENTRY e {{\np = f32[{COUNT}] parameter(0)\n{parts}\
         ROOT r = f32[{COUNT}] concatenate({}), dimensions={{0}}\n}}",
        names(COUNT, 'y')
    );
    let run = move || {
        let result = compiled(&text).execute((&[1f32; COUNT],)).unwrap();
        assert_eq!(result.as_slice::<f32>().unwrap(), [-1.; COUNT]);
    };
    thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

/// Functions, each of which calls the one before it `calls` times.
fn nested_calls(depth: usize, calls: usize) -> String {
    let functions = lines(depth - 1, |n| {
        let calls = lines(calls, |call| {
            let argument = if call == 0 { "x".to_string() } else { format!("y{}", call - 1) };
            format!("y{call} = f32[] call({argument}), to_apply=f{n}")
        });
        format!("f{} {{\nx = f32[] parameter(0)\n{calls}}}", n + 1)
    });
    format!(
        "HloModule m\nf0 {{ x = f32[] parameter(0) ROOT y = f32[] negate(x) }}\n{functions}\
         ENTRY e {{ x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=f{} }}",
        depth - 1
    )
}

#[test]
fn calls_in_calls() {
    let result = compiled(&nested_calls(10_000, 1)).execute((&2f32,)).unwrap();
    assert_eq!(result, Literal::from(-2f32));
    assert!(refused(&nested_calls(40, 2)).contains("instructions"));
}

#[test]
fn conditionals_in_conditionals() {
    let text = |depth: usize| {
        let branches = lines(depth - 1, |n| {
            format!(
                "f{} {{ x = f32[] parameter(0) z = f32[] constant(0) c = pred[] compare(x, z), direction=LT \
                 ROOT y = f32[] conditional(c, x, x), true_computation=f{n}, false_computation=f{n} }}",
                n + 1
            )
        });
        format!(
            "HloModule m\nf0 {{ x = f32[] parameter(0) ROOT y = f32[] negate(x) }}\n{branches}\
             ENTRY e {{ x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=f{} }}",
            depth - 1
        )
    };
    assert_eq!(compiled(&text(9)).execute((&2f32,)).unwrap(), Literal::from(-2f32));
    assert!(refused(&text(18)).contains("copies of shared computations"));
}

#[test]
fn windows_as_long_as_the_array() {
    const COUNT: usize = 1_000_000;
    let text = format!(
        "HloModule m\nadd {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}\n\
         ENTRY e {{ p = f32[{COUNT}] parameter(0) z = f32[] constant(0)\n\
         ROOT r = f32[{COUNT}] reduce-window(p, z), window={{size={COUNT} pad={}_0}}, to_apply=add }}",
        COUNT - 1
    );
    let program = compiled(&text);
    let start = Instant::now();
    let result = program.execute((vec![1f32; COUNT],)).unwrap();
    assert!(start.elapsed() < LIMIT);
    assert_eq!(result.as_slice::<f32>().unwrap()[COUNT - 1], COUNT as f32);
}

/// Many instructions of one kind, in a chain or side by side: the part of the body, and its root.
#[test]
fn many_instructions_of_a_kind() {
    const COUNT: usize = 200;
    const ADD: &str = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n";
    let chain = |line: &dyn Fn(usize, String) -> String| {
        let body = lines(COUNT, |n| line(n, if n == 0 { "p".to_string() } else { format!("x{}", n - 1) }));
        format!("{body}ROOT r = f32[8] negate(x{})", COUNT - 1)
    };
    let side_by_side = |shape: &str, line: &dyn Fn(usize) -> String| {
        let shapes = vec![shape; COUNT].join(", ");
        format!("{}ROOT r = ({shapes}) tuple({})", lines(COUNT, line), names(COUNT, 'x'))
    };
    let start = "p = f32[8] parameter(0)\nq = f32[] parameter(1)\ni = s32[8] iota(), iota_dimension=0\n\
                 z = s32[] constant(0)\n";
    let bodies = [
        chain(&|n, x| {
            format!(
                "x{n} = f32[8] gather({x}, i), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, \
                 index_vector_dim=1, slice_sizes={{1}}"
            )
        }),
        chain(&|n, x| {
            format!(
                "x{n} = f32[8] scatter({x}, i, p), update_window_dims={{}}, inserted_window_dims={{0}}, \
                 scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add"
            )
        }),
        chain(&|n, x| format!("x{n} = f32[8] reduce-window({x}, q), window={{size=3 pad=1_1}}, to_apply=add")),
        chain(&|n, x| {
            format!("u{n} = f32[1] slice({x}), slice={{[1:2]}}\nx{n} = f32[8] dynamic-update-slice({x}, u{n}, z)")
        }),
        chain(&|n, x| {
            format!(
                "s{n} = f32[] reduce({x}, q), dimensions={{0}}, to_apply=add\n\
                 b{n} = f32[8] broadcast(s{n}), dimensions={{}}\nx{n} = f32[8] add({x}, b{n})"
            )
        }),
        chain(&|n, x| format!("l{n} = f32[7] slice({x}), slice={{[1:8]}}\nx{n} = f32[8] pad(l{n}, q), padding=0_1")),
        chain(&|n, x| format!("x{n} = f32[8] sort({x}), dimensions={{0}}, to_apply=less")),
        side_by_side("f32[]", &|n| format!("x{n} = f32[] reduce(p, q), dimensions={{0}}, to_apply=add")),
        side_by_side("f32[8]", &|n| {
            format!(
                "c{n} = f32[] constant({n})\nb{n} = f32[8] broadcast(c{n}), dimensions={{}}\nx{n} = f32[8] add(p, b{n})"
            )
        }),
        side_by_side("f32[8]", &|n| format!("x{n} = f32[8] parameter({})", n + 2)),
    ];
    let less = "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }\n";
    for body in bodies {
        compiled(&format!("HloModule m\n{ADD}{less}ENTRY e {{\n{start}{body}\n}}"));
    }
}

/// Programs whose steps are divided into functions, which get the table of all arrays: each gives what its evaluation gives.
#[test]
fn divided_programs_compute_what_they_say() {
    const COUNT: usize = 300;
    let size = |n: usize| n % 13 + 1;
    let parameters = lines(COUNT, |n| format!("p{n} = f32[{}] parameter({n})", size(n)));
    let sizes: Vec<String> = (0..COUNT).map(|n| format!("f32[{}]", size(n))).collect();
    let total: usize = (0..COUNT).map(size).sum();
    let twice = format!("{}, {}", names(COUNT, 'p'), names(COUNT, 'p'));
    let chosen = |n: usize| if n == 0 { "p12".to_string() } else { format!("x{}", n - 1) };
    let choices = lines(70, |n| {
        format!("x{n} = f32[13] conditional(c, {0}, {0}), true_computation=t, false_computation=f", chosen(n))
    });
    let bodies = [
        format!("ROOT r = ({}) tuple({})", sizes.join(", "), names(COUNT, 'p')),
        format!("ROOT r = f32[{}] concatenate({twice}), dimensions={{0}}", 2 * total),
        format!(
            "o = f32[] constant(1)\nc = pred[] compare(p0s, o), direction=LT\n{choices}ROOT r = f32[13] negate(x69)"
        ),
        format!(
            "{}ROOT r = ({}) tuple({})",
            lines(COUNT - 1, |n| format!("s{n} = f32[1] slice(p{}), slice={{[0:1]}}\nx{n} = f32[1] sine(s{n})", n + 1)),
            vec!["f32[1]"; COUNT - 1].join(", "),
            names(COUNT - 1, 'x')
        ),
    ];
    let inputs: Vec<Literal> = (0..COUNT)
        .map(|n| {
            let values: Vec<f32> = (0..size(n)).map(|i| (n * 13 + i) as f32 / 512.).collect();
            Literal::Array(halo::ArrayLiteral::from_slice([size(n) as i64], &values).unwrap())
        })
        .collect();
    for body in bodies {
        let text = format!(
            "HloModule m\nt {{ x = f32[13] parameter(0) ROOT y = f32[13] negate(x) }}\n\
             f {{ x = f32[13] parameter(0) ROOT y = f32[13] abs(x) }}\n\
             ENTRY e {{\n{parameters}p0s = f32[] reshape(p0)\n{body}\n}}"
        );
        let module = halo::text::read(&text).unwrap();
        let expected = evaluate(&module, &inputs, &mut Environment::default()).unwrap();
        let result = compiled(&text).execute(inputs.as_slice()).unwrap();
        assert!(is_close(&result, &expected), "{body}");
    }
}

/// Whether two results are equal but for the last places.
fn is_close(one: &Literal, other: &Literal) -> bool {
    let values = |literal: &Literal| -> Vec<f32> {
        match literal {
            Literal::Tuple(parts) => parts.iter().flat_map(|part| part.as_slice::<f32>().unwrap().to_vec()).collect(),
            array => array.as_slice::<f32>().unwrap().to_vec(),
        }
    };
    let (one, other) = (values(one), values(other));
    one.len() == other.len() && one.iter().zip(&other).all(|(a, b)| (a - b).abs() <= 1e-6)
}

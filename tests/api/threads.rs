//! Loops that threads share: the same results on any number of threads, and those of the evaluator. Elements are small whole
//! numbers, whose sums are exact in any order.

use std::sync::LazyLock;
use std::thread;

use evaluator::{Environment, evaluate};
use halo::{Client, CompileOptions, Literal, Module, Shape};
use hlo::literal::ArrayLiteral;
use hlo::shape::ArrayShape;

/// Clients of one thread, of two, and of more than any of the loops divides evenly among.
static CLIENTS: LazyLock<[Client; 3]> =
    LazyLock::new(|| [1, 2, 5].map(|threads| Client::with_threads(threads).expect("a client")));

const ADD: &str = "add {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y)\n}\n";

/// Whole numbers from -9 to 9 in no order.
fn numbers(shape: &ArrayShape) -> Literal {
    let values = (0..shape.element_count()).map(|place| ((place * 7919 + place / 13) % 19 - 9) as f32);
    ArrayLiteral::from_slice(shape.dimensions.clone(), &values.collect::<Vec<f32>>()).unwrap().into()
}

/// Checks a program whose parameters are arrays of f32: the computations that it calls, and the instructions of its entry.
#[track_caller]
fn check(called: &str, entry: &str) {
    let text = format!("HloModule m\n{called}ENTRY e {{\n{entry}\n}}\n");
    let module: Module = text.parse().unwrap_or_else(|error| panic!("{error}"));
    let parameters = module.entry().program_shape().parameters;
    let arguments: Vec<Literal> = parameters.iter().map(|shape| numbers(shape.as_array().expect("an array"))).collect();
    let expected = evaluate(&module, &arguments, &mut Environment::default()).unwrap();
    for client in &*CLIENTS {
        let program = client.compile(&module, &CompileOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        // Threads come at different times.
        for _ in 0..3 {
            let found = program.execute(&arguments[..]).unwrap();
            assert!(found == expected, "{} threads: {entry}", client.threads());
        }
    }
}

#[test]
fn concatenates_along_the_outermost_dimension() {
    check(
        "",
        "a = f32[1,600] parameter(0)
         b = f32[999,600] parameter(1)
         c = f32[3,600] parameter(2)
         d = f32[1003,600] concatenate(a, b, c), dimensions={0}
         ROOT e = f32[1003,600] multiply(d, d)",
    );
    check(
        "",
        "a = f32[700003] parameter(0)
         b = f32[699990] slice(a), slice={[13:700003]}
         c = f32[13] slice(a), slice={[0:13]}
         ROOT d = f32[700003] concatenate(b, c), dimensions={0}",
    );
    // Pieces shorter than a vector, of which each element is an iteration.
    check(
        "",
        "a = f32[3] parameter(0)
         b = f32[500001] parameter(1)
         c = f32[5] parameter(2)
         ROOT d = f32[1000013] concatenate(a, b, c, b, a), dimensions={0}",
    );
}

#[test]
fn pads_of_one_batch() {
    check(
        "",
        "a = f32[1,700,801] parameter(0)
         b = f32[] parameter(1)
         ROOT c = f32[1,705,811] pad(a, b), padding=0_0x2_3x9_1",
    );
    check(
        "",
        "a = f32[1,400,501] parameter(0)
         b = f32[] parameter(1)
         c = f32[3,801,501] pad(a, b), padding=1_1x1_1_1x0_0
         ROOT d = f32[3,801,501] add(c, c)",
    );
    check(
        "",
        "a = f32[900000] parameter(0)
         b = f32[] parameter(1)
         ROOT c = f32[900000] pad(a, b), padding=-7_7",
    );
}

#[test]
fn few_outer_positions() {
    check(
        "",
        "a = f32[2,900,401] parameter(0)
         b = f32[2,401,900] parameter(1)
         c = f32[2,900,401] transpose(b), dimensions={0,2,1}
         ROOT d = f32[2,900,401] add(a, c)",
    );
    check(
        "",
        "a = f32[2,700001] parameter(0)
         b = f32[2] parameter(1)
         c = f32[2,700001] broadcast(b), dimensions={0}
         d = f32[2,700001] reverse(a), dimensions={1}
         ROOT e = f32[2,700001] add(c, d)",
    );
}

#[test]
fn steps_of_a_stencil() {
    let body = "body {
         state = (s32[], f32[500,900]) parameter(0)
         i = s32[] get-tuple-element(state), index=0
         x = f32[500,900] get-tuple-element(state), index=1
         one = s32[] constant(1)
         next = s32[] add(i, one)
         first = f32[1,900] slice(x), slice={[0:1], [0:900]}
         inside = f32[499,900] slice(x), slice={[1:500], [0:900]}
         up = f32[500,900] concatenate(inside, first), dimensions={0}
         left = f32[500,899] slice(x), slice={[0:500], [1:900]}
         edge = f32[500,1] slice(x), slice={[0:500], [0:1]}
         along = f32[500,900] concatenate(left, edge), dimensions={1}
         sum = f32[500,900] subtract(up, along)
         ROOT both = (s32[], f32[500,900]) tuple(next, sum)
       }
       goes_on {
         state = (s32[], f32[500,900]) parameter(0)
         i = s32[] get-tuple-element(state), index=0
         n = s32[] constant(5)
         ROOT less = pred[] compare(i, n), direction=LT
       }\n";
    check(
        body,
        "x = f32[500,900] parameter(0)
         zero = s32[] constant(0)
         start = (s32[], f32[500,900]) tuple(zero, x)
         end = (s32[], f32[500,900]) while(start), condition=goes_on, body=body
         ROOT y = f32[500,900] get-tuple-element(end), index=1",
    );
}

#[test]
fn windows_that_lack_terms_at_the_ends() {
    check(
        ADD,
        "a = f32[500009] parameter(0)
         zero = f32[] constant(0)
         ROOT b = f32[500009] reduce-window(a, zero), window={size=7 pad=3_3}, to_apply=add",
    );
}

#[test]
fn reductions_to_few_results() {
    // To one; the second length is a prime.
    for length in [655_360, 700_001] {
        check(
            ADD,
            &format!(
                "a = f32[{length}] parameter(0)
                 one = f32[] constant(1)
                 size = f32[{length}] abs(a)
                 ROOT sum = f32[] reduce(size, one), dimensions={{0}}, to_apply=add"
            ),
        );
    }
    // Of few rows, to few columns, to both, of neighbours in the first and the last dimension.
    for (shape, dimensions, result) in [
        ("4,200003", "1", "4"),
        ("700001,3", "0", "3"),
        ("1009,5,128", "0", "5,128"),
        ("40,60,60,24", "0,1,2", "24"),
        ("7,100,1000", "0,2", "100"),
        ("3,2,100019", "0,2", "2"),
        ("733,1000", "0,1", ""),
    ] {
        check(
            ADD,
            &format!(
                "a = f32[{shape}] parameter(0)
                 b = f32[] parameter(1)
                 ROOT sum = f32[{result}] reduce(a, b), dimensions={{{dimensions}}}, to_apply=add"
            ),
        );
    }
}

#[test]
fn the_place_of_the_largest() {
    check(
        "largest {
           a = f32[] parameter(0)
           i = s32[] parameter(1)
           b = f32[] parameter(2)
           j = s32[] parameter(3)
           more = pred[] compare(a, b), direction=GT
           same = pred[] compare(a, b), direction=EQ
           before = pred[] compare(i, j), direction=LT
           first = pred[] and(same, before)
           own = pred[] or(more, first)
           c = f32[] select(own, a, b)
           k = s32[] select(own, i, j)
           ROOT both = (f32[], s32[]) tuple(c, k)
         }\n",
        "a = f32[2,524288] parameter(0)
         places = s32[2,524288] iota(), iota_dimension=1
         least = f32[] constant(-inf)
         zero = s32[] constant(0)
         ROOT c = (f32[2], s32[2]) reduce(a, places, least, zero), dimensions={1}, to_apply=largest",
    );
}

#[test]
fn large_arguments_that_are_results() {
    check(
        "",
        "a = f32[300007,3] parameter(0)
         ROOT b = (f32[300007,3], f32[300007,3]) tuple(a, a)",
    );
}

/// Sums of numbers with digits are rounded, in the same way on any number of threads.
#[test]
fn sums_do_not_depend_on_the_threads() {
    let text = format!(
        "HloModule m\n{ADD}ENTRY e {{
           a = f32[3,400000] parameter(0)
           zero = f32[] constant(0)
           all = f32[] reduce(a, zero), dimensions={{0,1}}, to_apply=add
           rows = f32[3] reduce(a, zero), dimensions={{1}}, to_apply=add
           ROOT both = (f32[], f32[3]) tuple(all, rows)
         }}\n"
    );
    let values: Vec<f32> = (0..1_200_000u32).map(|place| (place.wrapping_mul(2_654_435_761) as f32).sin()).collect();
    let argument = Literal::from_slice([3, 400_000], &values).unwrap();
    let results = CLIENTS.each_ref().map(|client| {
        let program = client.compile(&*text, &CompileOptions::default()).unwrap();
        program.execute(std::slice::from_ref(&argument)).unwrap()
    });
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
}

/// Programs of one client at the same time, each with loops for all of its threads.
#[test]
fn programs_share_threads() {
    let text = "HloModule m\nENTRY e {
        a = f32[600000] parameter(0)
        b = f32[600000] multiply(a, a)
        c = f32[600000] reverse(b), dimensions={0}
        ROOT d = f32[600000] add(a, c)
      }";
    let client = Client::with_threads(4).unwrap();
    let program = client.compile(text, &CompileOptions::default()).unwrap();
    let shape = Shape::of::<f32>([600_000]);
    let argument = numbers(shape.as_array().unwrap());
    let expected = program.execute(std::slice::from_ref(&argument)).unwrap();
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert!(program.execute(std::slice::from_ref(&argument)).unwrap() == expected);
                }
            });
        }
    });
}

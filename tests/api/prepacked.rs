//! Arguments of products that come as the same buffer again.

use halo::{Buffer, Client, ClientOptions, CompileOptions, ElementType, Executable, Literal};

use super::CLIENT;

/// Whole numbers from -4 to 4, of which sums are exact.
fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * 7 + index / 11 + seed) % 9) as f32 - 4.0).collect()
}

fn compile(client: &Client, entry: &str) -> Executable {
    let text = format!("HloModule m\nENTRY e {{\n{entry}\n}}\n");
    client.compile(&text[..], &CompileOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Random arguments as literals: these are never packed.
fn literals(executable: &Executable, seed: usize) -> Vec<Literal> {
    let shapes = executable.program_shape().parameters.iter().enumerate();
    let literal = |(number, shape): (usize, &halo::Shape)| {
        let array = shape.as_array().expect("an array");
        assert_eq!(array.element_type, ElementType::F32);
        let values = values(array.dimensions.iter().product::<i64>() as usize, seed + number);
        Literal::from_slice(array.dimensions.clone(), &values).expect("as many values")
    };
    shapes.map(literal).collect()
}

fn buffers(literals: &[Literal]) -> Vec<Buffer> {
    literals.iter().map(|literal| Buffer::try_from(literal.clone()).unwrap()).collect()
}

#[track_caller]
fn assert_runs(executable: &Executable, arguments: &[Buffer], expected: &Literal) {
    let expected = expected.as_slice::<f32>().unwrap();
    for run in 0..4 {
        let result = executable.execute_buffers(arguments).unwrap();
        assert_eq!(result[0].as_slice::<f32>().unwrap(), expected, "run {run}");
    }
}

const PRODUCTS: [&str; 12] = [
    "a = f32[40,600] parameter(0)\n b = f32[600,210] parameter(1)\n \
     ROOT d = f32[40,210] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "a = f32[40,600] parameter(0)\n b = f32[210,600] parameter(1)\n \
     ROOT d = f32[40,210] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "a = f32[600,333] parameter(0)\n b = f32[600,129] parameter(1)\n \
     ROOT d = f32[333,129] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "x = f32[2,9,9,48] parameter(0)\n k = f32[3,3,48,96] parameter(1)\n \
     ROOT c = f32[2,7,7,96] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f",
    // The same argument as both sides, and in two ways.
    "a = f32[256,256] parameter(0)\n \
     b = f32[256,256] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n \
     c = f32[256,256] dot(b, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n \
     ROOT s = f32[256,256] add(b, c)",
    // Of so many rows that tasks take all columns of some rows once B is packed.
    "a = f32[800,600] parameter(0)\n b = f32[600,520] parameter(1)\n \
     ROOT d = f32[800,520] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "a = f32[600,785] parameter(0)\n b = f32[600,390] parameter(1)\n \
     ROOT d = f32[785,390] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "a = f32[821,1024] parameter(0)\n b = f32[1024,400] parameter(1)\n c = f32[400] parameter(2)\n \
     d = f32[821,400] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n \
     r = f32[821,400] broadcast(c), dimensions={1}\n \
     ROOT s = f32[821,400] add(d, r)",
    // Few rows, which read B where it is until it is packed.
    "a = f32[8,700] parameter(0)\n b = f32[700,530] parameter(1)\n \
     ROOT d = f32[8,530] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "a = f32[5,300] parameter(0)\n b = f32[300,1100] parameter(1)\n c = f32[1100] parameter(2)\n \
     d = f32[5,1100] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n \
     r = f32[5,1100] broadcast(c), dimensions={1}\n \
     ROOT s = f32[5,1100] add(d, r)",
    // Windows whose rows lie apart.
    "x = f32[1,3,10,32] parameter(0)\n k = f32[3,3,32,256] parameter(1)\n \
     ROOT c = f32[1,1,8,256] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f",
    "x = f32[1,2,8,64] parameter(0)\n k = f32[2,3,64,256] parameter(1)\n \
     ROOT c = f32[1,1,6,256] convolution(x, k), window={size=2x3}, dim_labels=b01f_01io->b01f",
];

#[test]
fn products_of_the_same_buffers_are_the_same() {
    for entry in PRODUCTS {
        let executable = compile(&CLIENT, entry);
        for seed in [1, 5] {
            let arguments = literals(&executable, seed);
            let expected = executable.execute(&arguments[..]).unwrap();
            assert_runs(&executable, &buffers(&arguments), &expected);
        }
    }
}

#[test]
fn a_buffer_that_changed_is_packed_anew() {
    let executable = compile(&CLIENT, PRODUCTS[0]);
    let arguments = literals(&executable, 2);
    let mut changing = buffers(&arguments);
    assert_runs(&executable, &changing, &executable.execute(&arguments[..]).unwrap());
    let others = literals(&executable, 3);
    let bytes = Buffer::try_from(others[1].clone()).unwrap().bytes().unwrap().to_vec();
    changing[1].bytes_mut().expect("the only clone").copy_from_slice(&bytes);
    let expected = executable.execute([&arguments[0], &others[1]]).unwrap();
    assert_runs(&executable, &changing, &expected);
    // Memory that is only lent may change from call to call.
    let mut weights = values(600 * 210, 2);
    let a = arguments[0].as_slice::<f32>().unwrap();
    let view = |weights: &[f32]| {
        let shaped = (halo::View::new(&[40, 600][..], a).unwrap(), halo::View::new(&[600, 210][..], weights).unwrap());
        executable.execute(shaped).unwrap()
    };
    (0..3).for_each(|_| drop(view(&weights)));
    weights.iter_mut().for_each(|weight| *weight += 1.0);
    let expected = executable.execute([&arguments[0], &Literal::from_slice([600, 210], &weights).unwrap()]).unwrap();
    assert_eq!(view(&weights), expected);
}

/// A step of training: weights that are read by a product, and overwritten where they are donated.
#[test]
fn parameters_that_are_overwritten_are_read_as_they_are() {
    let text = "HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }\nENTRY e {\n \
                w = f32[300,200] parameter(0)\n x = f32[40,300] parameter(1)\n two = f32[] constant(2)\n \
                twos = f32[300,200] broadcast(two), dimensions={}\n next = f32[300,200] multiply(w, twos)\n \
                y = f32[40,200] dot(x, next), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n \
                ROOT t = (f32[300,200], f32[40,200]) tuple(next, y)\n}\n";
    let step = CLIENT.compile(text, &CompileOptions::default()).unwrap();
    let arguments = literals(&step, 4);
    let x = Buffer::try_from(arguments[1].clone()).unwrap();
    let mut weights = step.execute_buffers(&arguments[..]).unwrap().swap_remove(0);
    for _ in 0..4 {
        let literal = weights.to_literal().unwrap();
        let expected = step.execute([&literal, &arguments[1]]).unwrap();
        let results = step.execute_buffers((weights.donate(), &x)).unwrap();
        for (result, expected) in results.iter().zip(expected.leaves()) {
            assert_eq!(result.as_slice::<f32>(), expected.as_slice::<f32>());
        }
        weights = results.into_iter().next().expect("two results");
    }
}

#[test]
fn a_client_without_room_packs_in_each_call() {
    let options = ClientOptions { prepacked_bytes: Some(0), ..ClientOptions::default() };
    let executable = compile(&Client::with_options(options).unwrap(), PRODUCTS[0]);
    let arguments = literals(&executable, 1);
    assert_runs(&executable, &buffers(&arguments), &executable.execute(&arguments[..]).unwrap());
}

//! Arguments and results of every kind, errors that name them, and runs in the background.

use halo::builder::HloBuilder;
use halo::{Buffer, Client, ClientOptions, CompileOptions, Error, Executable, Literal, Module, Shape, View};
use ndarray::{Array, Array1, Array2, array};

use super::{CLIENT, compile};

/// y = x * factor, for a matrix and a scalar.
fn scaled(rows: i64, columns: i64) -> Executable {
    let b = HloBuilder::new("scaled");
    let x = b.parameter(0, Shape::of::<f32>([rows, columns]), "x");
    let factor = b.parameter(1, Shape::of::<f32>([]), "factor");
    compile(&b.build(x * factor).unwrap())
}

fn message(result: Result<Literal, Error>) -> String {
    result.expect_err("a wrong call").to_string()
}

#[test]
fn a_program_is_a_module_a_text_or_a_file() {
    let text = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] add(x, x)\n}\n";
    let options = CompileOptions::default();
    let expected = Literal::from([2f32, 4.]);
    let run = |executable: Executable| executable.execute(([1f32, 2.].as_slice(),)).unwrap();
    assert_eq!(run(CLIENT.compile(text, &options).unwrap()), expected);
    let module: Module = hlo::text::read(text).unwrap();
    assert_eq!(run(CLIENT.compile(&module, &options).unwrap()), expected);
    let path = std::env::temp_dir().join(format!("halo-api-{}.hlo", std::process::id()));
    std::fs::write(&path, text).unwrap();
    assert_eq!(run(CLIENT.compile(&path, &options).unwrap()), expected);
    std::fs::remove_file(&path).unwrap();
    let missing = CLIENT.compile(&path, &options).unwrap_err();
    assert!(missing.to_string().contains(&path.display().to_string()), "{missing}");
    assert!(CLIENT.compile("HloModule m\nENTRY e {", &options).is_err());
}

#[test]
fn arguments_come_in_every_form() {
    let program = scaled(2, 2);
    let expected = Literal::from([[2f32, 4.], [6., 8.]]);
    let literal = Literal::from([[1f32, 2.], [3., 4.]]);
    let array = literal.as_array().unwrap().clone();
    let buffer = Buffer::from(array.clone());
    let matrix = array![[1f32, 2.], [3., 4.]];
    let values = [1f32, 2., 3., 4.];
    let view = View::new(&[2, 2][..], &values).unwrap();
    assert_eq!(program.execute((&literal, 2f32)).unwrap(), expected);
    assert_eq!(program.execute((&array, 2f32)).unwrap(), expected);
    assert_eq!(program.execute((&buffer, &Literal::from(2f32))).unwrap(), expected);
    assert_eq!(program.execute((&matrix, &ndarray::arr0(2f32))).unwrap(), expected);
    assert_eq!(program.execute((&matrix.view(), 2f32)).unwrap(), expected);
    assert_eq!(program.execute((&view, 2f32)).unwrap(), expected);
    assert_eq!(program.execute((buffer, 2f32)).unwrap(), expected);
    assert_eq!(program.execute([&literal, &Literal::from(2f32)]).unwrap(), expected);
    assert_eq!(program.execute(vec![literal, 2f32.into()]).unwrap(), expected);
    assert!(View::new(&[2, 3][..], &values).is_none());
}

#[test]
fn results_go_where_the_caller_says() {
    let program = scaled(2, 2);
    let matrix = array![[1f32, 2.], [3., 4.]];
    let expected = array![[2f32, 4.], [6., 8.]];
    let mut result = Array2::<f32>::zeros((2, 2));
    program.execute_into((&matrix, 2f32), (&mut result,)).unwrap();
    assert_eq!(result, expected);
    let mut literal = Literal::from([[0f32; 2]; 2]);
    program.execute_into((&matrix, 2f32), (&mut literal,)).unwrap();
    assert_eq!(halo::literal_view::<f32>(&literal).unwrap(), expected.view().into_dyn());
    let mut buffers = program.result_buffers().unwrap();
    program.execute_into((&matrix, 2f32), &mut buffers).unwrap();
    assert_eq!(buffers[0].as_ndarray::<f32>().unwrap(), expected.view().into_dyn());
    let buffers = program.execute_buffers((&matrix, 2f32)).unwrap();
    assert_eq!(buffers[0].as_slice::<f32>().unwrap(), [2., 4., 6., 8.]);
    assert_eq!(buffers[0].to_literal().unwrap(), literal);
    // A result of one program is an argument of the next.
    assert_eq!(program.execute((&buffers[0], 0.5f32)).unwrap(), Literal::from([[1f32, 2.], [3., 4.]]));
}

#[test]
fn buffers_start_on_cache_lines_and_are_reused() {
    let program = scaled(64, 64);
    let matrix = Array2::<f32>::ones((64, 64));
    let first = program.execute_buffers((&matrix, 2f32)).unwrap();
    let address = first[0].bytes().unwrap().as_ptr();
    assert_eq!(address as usize % 64, 0);
    let clone = first[0].clone();
    drop(first);
    let second = program.execute_buffers((&matrix, 3f32)).unwrap();
    assert_ne!(second[0].bytes().unwrap().as_ptr(), address, "the clone is still in use");
    assert!(clone.as_slice::<f32>().unwrap().iter().all(|&value| value == 2.));
    // Given up to the call, the clone's memory is the pool's again.
    program.execute((clone, 1f32)).unwrap();
    let third = program.execute_buffers((&matrix, 4f32)).unwrap();
    assert_eq!(third[0].bytes().unwrap().as_ptr(), address);
}

/// Slices need no more than the alignment of their elements.
#[test]
fn slices_at_any_address() {
    let b = HloBuilder::new("sums");
    let x = b.parameter(0, Shape::of::<f32>([1000]), "x");
    let y = b.parameter(1, Shape::of::<f64>([1000]), "y");
    let total = b.reduce_all(x, b.constant(0f32), |_, x, y| x + y);
    let program = compile(&b.build(b.tuple(&[x.sqrt() + 1.0, y * y, total])).unwrap());
    let xs: Vec<f32> = (0..1016).map(|value| value as f32).collect();
    let ys: Vec<f64> = (0..1016).map(f64::from).collect();
    for offset in 0..16 {
        let (mut roots, mut squares, mut total) = (vec![0f32; 1016], vec![0f64; 1016], 0f32);
        program
            .execute_into(
                (&xs[offset..][..1000], &ys[offset..][..1000]),
                (
                    &mut roots[offset..][..1000],
                    &mut squares[offset..][..1000],
                    &mut ndarray::aview_mut1(std::slice::from_mut(&mut total)).into_shape_with_order(()).unwrap(),
                ),
            )
            .unwrap();
        for at in offset..offset + 1000 {
            assert!((roots[at] - (xs[at].sqrt() + 1.)).abs() <= 1e-5, "{offset} {at}");
            assert_eq!(squares[at], ys[at] * ys[at]);
        }
        let expected: f64 = ys[offset..][..1000].iter().sum();
        assert!((f64::from(total) - expected).abs() < 1., "{total} {expected}");
    }
}

#[test]
fn wrong_arguments_are_named() {
    let program = scaled(2, 2);
    let matrix = array![[1f32, 2.], [3., 4.]];
    assert_eq!(message(program.execute((&matrix,))), "the program takes 2 arguments, got 1");
    assert_eq!(message(program.execute((&matrix, 2f64))), "argument 1 must be f32[], got f64[]");
    assert_eq!(message(program.execute((&array![1f32, 2.], 2f32))), "argument 0 must be f32[2,2], got f32[2]");
    assert_eq!(message(program.execute((&Literal::Token, 2f32))), "argument 0 must be f32[2,2], got token[]");
    let turned = message(program.execute((&matrix.t(), 2f32)));
    assert!(turned.starts_with("argument 0 cannot be used: the array is not in standard layout"), "{turned}");

    let b = HloBuilder::new("tuple");
    let pair = b.parameter(0, Shape::Tuple(vec![Shape::of::<f32>([2]), Shape::of::<i32>([])]), "pair");
    let program = compile(&b.build(pair.get(0)).unwrap());
    let wrong = Literal::Tuple(vec![[1f32, 2.].into(), 1i64.into()]);
    assert_eq!(message(program.execute([&wrong])), "argument 0.1 must be s32[], got s64[]");
}

#[test]
fn wrong_results_are_named() {
    let program = scaled(2, 2);
    let matrix = array![[1f32, 2.], [3., 4.]];
    let mut small = Array1::<f32>::zeros(3);
    let error = program.execute_into((&matrix, 2f32), (&mut small,)).unwrap_err();
    assert_eq!(error.to_string(), "the place for result 0 must be f32[2,2], got f32[3]");
    let error = program.execute_into((&matrix, 2f32), ()).unwrap_err();
    assert_eq!(error.to_string(), "the program gives 1 results, there are places for 0");
    let mut buffers = program.result_buffers().unwrap();
    let clone = buffers[0].clone();
    let error = program.execute_into((&matrix, 2f32), &mut buffers).unwrap_err();
    assert_eq!(error.to_string(), "the place for result 0 cannot be used: another clone of the buffer is in use");
    drop(clone);
    program.execute_into((&matrix, 2f32), &mut buffers).unwrap();
}

#[test]
fn runs_in_the_background_happen_in_order() {
    let program = scaled(100, 100);
    let matrix = Buffer::from(Literal::from([[1f32; 100]; 100]).as_array().unwrap().clone());
    let pending: Vec<_> =
        (0..20).map(|factor| program.execute_async((matrix.clone(), factor as f32)).unwrap()).collect();
    for (factor, pending) in pending.into_iter().enumerate() {
        let result = pending.wait().unwrap();
        assert!(result[0].as_slice::<f32>().unwrap().iter().all(|&value| value == factor as f32));
    }
    let error = program.execute_async((matrix,)).unwrap().wait().unwrap_err();
    assert_eq!(error.to_string(), "the program takes 2 arguments, got 1");
}

#[test]
fn a_run_keeps_its_device() {
    let pending = {
        let client = halo::Client::with_threads(2).unwrap();
        let program = client.compile("HloModule m\nENTRY e { ROOT c = f32[] constant(7) }", &CompileOptions::default());
        program.unwrap().execute_async(()).unwrap()
    };
    assert_eq!(pending.wait().unwrap()[0].as_slice::<f32>().unwrap(), [7.]);
}

#[test]
fn what_programs_share_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<halo::Client>();
    shared::<Executable>();
    shared::<Buffer>();
    shared::<Literal>();
    fn sent<T: Send>() {}
    sent::<halo::Pending<Vec<Buffer>>>();
    sent::<halo::Infeed>();
}

#[test]
fn a_pending_result_is_a_future() {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let program = scaled(1, 1);
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut pending = std::pin::pin!(program.execute_async((array![[3f32]], 2f32)).unwrap());
    let result = loop {
        match pending.as_mut().poll(&mut context) {
            std::task::Poll::Ready(result) => break result.unwrap(),
            std::task::Poll::Pending => std::thread::park(),
        }
    };
    assert_eq!(result[0].as_slice::<f32>().unwrap(), [6.]);
}

#[test]
fn figures_of_a_program() {
    let b = HloBuilder::new("product");
    let x = b.parameter(0, Shape::of::<f32>([16, 32]), "x");
    let y = b.parameter(1, Shape::of::<f32>([32, 8]), "y");
    let program = compile(&b.build(x.dot(y).exp()).unwrap());
    assert_eq!(program.program_shape().to_string(), "(f32[16,32], f32[32,8]) -> f32[16,8]");
    assert_eq!(program.cost().flops, 2 * 16 * 32 * 8);
    assert_eq!(program.cost().transcendentals, 16 * 8);
    let memory = program.memory();
    assert_eq!((memory.arguments, memory.results), (4 * (16 * 32 + 32 * 8), 4 * 16 * 8));
    assert!(memory.code > 0);
    assert!(program.timings().total().as_nanos() > 0);
}

#[test]
fn empty_and_complex_arrays() {
    let b = HloBuilder::new("empty");
    let x = b.parameter(0, Shape::of::<f32>([0, 3]), "x");
    let program = compile(&b.build(x + 1.0).unwrap());
    assert_eq!(program.execute((&Array::<f32, _>::zeros((0, 3)),)).unwrap().shape(), Shape::of::<f32>([0, 3]));
    let b = HloBuilder::new("complex");
    let x = b.parameter(0, Shape::of::<num_complex::Complex<f32>>([2]), "x");
    let program = compile(&b.build(x * x).unwrap());
    let i = num_complex::Complex::new(0f32, 1.);
    let result = program.execute((&array![i, i + 1.],)).unwrap();
    assert_eq!(result.as_slice::<num_complex::Complex<f32>>().unwrap(), [-(1. + 0. * i), 2. * i]);
}

/// A result with a bounded dynamic dimension is at its bound, zero behind what exists, and its size follows.
#[test]
fn sizes_of_dynamic_results_follow_them() {
    let text = "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  n = s32[] parameter(1)\n  \
                d = f32[<=4] set-dimension-size(x, n), dimensions={0}\n  ROOT y = f32[<=4] reverse(d), dimensions={0}\n}\n";
    let program = CLIENT.compile(text, &CompileOptions::default()).unwrap();
    let results = program.execute_buffers((&[1f32, 2., 3., 4.][..], 3i32)).unwrap();
    let [y, size] = &results[..] else { panic!("{} results", results.len()) };
    assert_eq!(y.as_slice::<f32>(), Some(&[3f32, 2., 1., 0.][..]));
    assert_eq!(size.as_slice::<i32>(), Some(&[3][..]));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn subnormal_numbers_are_kept_unless_a_client_flushes_them() {
    // Enough elements for several threads, each of which makes a subnormal number and reads one.
    let text = "HloModule m\nENTRY e {
      x = f32[2000000] parameter(0)
      half = f32[] constant(0.5)
      halves = f32[2000000] broadcast(half), dimensions={}
      small = f32[2000000] multiply(x, halves)
      many = f32[] constant(1e20)
      manies = f32[2000000] broadcast(many), dimensions={}
      large = f32[2000000] multiply(x, manies)
      ROOT both = (f32[2000000], f32[2000000]) tuple(small, large)
    }";
    let zeros = |flush_subnormals, x: f32| {
        let client = Client::with_options(ClientOptions { threads: 2, flush_subnormals, ..ClientOptions::default() });
        let program = client.unwrap().compile(text, &CompileOptions::default()).unwrap();
        let results = program.execute_buffers((&vec![x; 2_000_000][..],)).unwrap();
        let of_one = |own: &Buffer| own.as_slice::<f32>().unwrap().iter().filter(|&&own| own == 0.0).count();
        results.iter().map(of_one).sum::<usize>()
    };
    let smallest = f32::MIN_POSITIVE;
    assert_eq!(zeros(false, smallest), 0);
    assert_eq!(zeros(false, smallest / 2.0), 0);
    // Only what is half as large as the smallest normal number is none.
    assert_eq!(zeros(true, smallest), 2_000_000);
    assert_eq!(zeros(true, smallest / 2.0), 4_000_000);
    assert!(std::hint::black_box(smallest) / 2.0 > 0.0, "the calling thread is as it was");
}

#[test]
fn excess_precision_leaves_out_roundings_and_can_be_forbidden() {
    let text = "HloModule m\nENTRY e {
      x = f32[] parameter(0)
      y = f32[] parameter(1)
      square = f32[] multiply(x, x)
      difference = f32[] subtract(square, y)
      one = bf16[] constant(1)
      little = bf16[] constant(0.001953125)
      sum = bf16[] add(one, little)
      wide = f32[] convert(sum)
      ROOT both = (f32[], f32[]) tuple(difference, wide)
    }";
    // The square is 1 + 2^-11 + 2^-24, in f32 1 + 2^-11; the sum is 1 + 2^-9, in bf16 1.
    let (x, y) = (1.0 + 2f32.powi(-12), 1.0 + 2f32.powi(-11));
    let run = |excess_precision| {
        let options = CompileOptions { excess_precision, ..CompileOptions::default() };
        CLIENT.compile(text, &options).unwrap().execute((x, y)).unwrap()
    };
    let both = |difference: f32, wide: f32| Literal::Tuple(vec![difference.into(), wide.into()]);
    assert_eq!(run(false), both(0.0, 1.0));
    let difference = if CLIENT.target().has_feature("fma") { 2f32.powi(-24) } else { 0.0 };
    assert_eq!(run(true), both(difference, 1.0 + 2f32.powi(-9)));
    assert!(CompileOptions::default().excess_precision);
}

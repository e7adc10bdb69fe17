//! Many calls: nothing allocated, nothing that grows, right results from many threads at once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::thread;
use std::time::Instant;

use halo::builder::HloBuilder;
use halo::{Client, CompileOptions, Executable, Shape};

use super::compile;

/// The system's allocator, which counts each thread's allocations.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn one_element_add() -> Executable {
    let b = HloBuilder::new("add");
    let x = b.parameter(0, Shape::of::<f32>([1]), "x");
    let y = b.parameter(1, Shape::of::<f32>([1]), "y");
    compile(&b.build(x + y).unwrap())
}

/// Kilobytes of this process in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_call_allocates_nothing() {
    let program = one_element_add();
    let (x, y) = ([1f32], [2f32]);
    let mut buffers = program.result_buffers().unwrap();
    let mut array = ndarray::Array1::<f32>::zeros(1);
    program.execute_into((&x[..], &y[..]), &mut buffers).unwrap();
    let before = ALLOCATIONS.with(Cell::get);
    let start = Instant::now();
    const CALLS: u32 = 100_000;
    for _ in 0..CALLS {
        program.execute_into((&x[..], &y[..]), &mut buffers).unwrap();
    }
    let elapsed = start.elapsed();
    program.execute_into((&x[..], &y[..]), (&mut array,)).unwrap();
    assert_eq!(ALLOCATIONS.with(Cell::get), before);
    assert_eq!(buffers[0].as_slice::<f32>().unwrap(), [3.]);
    assert_eq!(array[0], 3.);
    eprintln!("{} ns a call of a 1-element add", elapsed.as_nanos() / u128::from(CALLS));
}

#[test]
fn many_threads_share_a_program_and_memory_does_not_grow() {
    const THREADS: usize = 8;
    const CALLS: usize = 10_000;
    let b = HloBuilder::new("shared");
    let x = b.parameter(0, Shape::of::<f32>([64]), "x");
    let total = b.reduce_all(x, b.constant(0f32), |_, x, y| x + y);
    let program = compile(&b.build(b.tuple(&[x * 2.0, total])).unwrap());
    let calls = |calls: usize| {
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let program = &program;
                scope.spawn(move || {
                    let mut buffers = program.result_buffers().unwrap();
                    for call in 0..calls {
                        let value = (thread * 1000 + call % 1000) as f32;
                        let x = [value; 64];
                        if call % 16 == 0 {
                            buffers = program.execute_buffers((&x[..],)).unwrap();
                        } else {
                            program.execute_into((&x[..],), &mut buffers).unwrap();
                        }
                        assert!(buffers[0].as_slice::<f32>().unwrap().iter().all(|&found| found == 2. * value));
                        assert_eq!(buffers[1].as_slice::<f32>().unwrap(), [64. * value]);
                    }
                });
            }
        });
    };
    calls(CALLS / 10);
    let before = resident();
    calls(CALLS);
    let after = resident();
    eprintln!("resident: {before} kB before, {after} kB after {THREADS} x {CALLS} calls");
    // Other tests run in this process meanwhile and compile programs of their own.
    assert!(after < before + 200_000, "{before} kB grew to {after} kB");
}

/// Programs that differ by a number, so that each is compiled.
fn scaled(client: &Client, factor: f32) -> Executable {
    let b = HloBuilder::new("scaled");
    let x = b.parameter(0, Shape::of::<f32>([4096]), "x");
    let module = b.build((x * f64::from(factor)).exp() + x).unwrap();
    client.compile(&module, &CompileOptions::default()).unwrap()
}

#[test]
fn threads_share_a_client_and_an_executable() {
    let client = Client::with_threads(3).unwrap();
    let shared = scaled(&client, 0.5);
    let expected = |factor: f32, value: f32| (value * factor).exp() + value;
    let close = |found: f32, expected: f32| (found - expected).abs() <= 1e-5 * expected.abs();
    thread::scope(|scope| {
        for number in 0..8usize {
            let (client, shared) = (&client, &shared);
            scope.spawn(move || {
                let own = scaled(client, 0.1 * number as f32);
                let mut buffers = shared.result_buffers().unwrap();
                for round in 0..40usize {
                    let value = (number * 40 + round) as f32 / 320.;
                    let input = vec![value; 4096];
                    shared.execute_into((&input,), &mut buffers).unwrap();
                    assert!(buffers[0].as_slice::<f32>().unwrap().iter().all(|&y| close(y, expected(0.5, value))));
                    let pending = own.execute_async((input.clone(),)).unwrap();
                    let result = own.execute((&input,)).unwrap();
                    assert!(close(result.as_slice::<f32>().unwrap()[round], expected(0.1 * number as f32, value)));
                    assert_eq!(pending.wait().unwrap()[0].as_slice::<f32>(), result.as_slice::<f32>());
                }
            });
        }
    });
}

//! Results in the place of arguments.

use halo::{CompileOptions, Error, Executable};

use super::CLIENT;

/// A step that overwrites its first argument.
fn step() -> Executable {
    let text = "HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }\nENTRY e {\n  x = f32[40] parameter(0)\n  \
                g = f32[40] parameter(1)\n  y = f32[40] subtract(x, g)\n  ROOT t = (f32[40], f32[40]) tuple(y, g)\n}\n";
    CLIENT.compile(text, &CompileOptions::default()).unwrap()
}

#[test]
fn a_donated_buffer_becomes_the_result() {
    let step = step();
    assert_eq!((step.memory().aliased, step.memory().results), (160, 320));
    let gradient = [1f32; 40];
    let mut x = step.execute_buffers((&[10f32; 40], &gradient)).unwrap().swap_remove(0);
    let address = x.bytes().unwrap().as_ptr();
    for expected in [8f32, 7., 6.] {
        x = step.execute_buffers((x.donate(), &gradient)).unwrap().swap_remove(0);
        assert_eq!(x.bytes().unwrap().as_ptr(), address);
        assert_eq!(x.as_slice::<f32>(), Some(&[expected; 40][..]));
    }
}

#[test]
fn other_arguments_stay_as_they_are() {
    let step = step();
    let (x, gradient) = ([10f32; 40], [1f32; 40]);
    let results = step.execute_buffers((&x, &gradient)).unwrap();
    assert_eq!((x, results[0].as_slice::<f32>()), ([10.; 40], Some(&[9f32; 40][..])));
    let literal = step.execute((&x, &gradient)).unwrap();
    assert_eq!(literal.leaves()[0].as_slice::<f32>().unwrap(), [9.; 40]);
    let (mut first, mut second) = ([0f32; 40], [0f32; 40]);
    step.execute_into((&results[0], &gradient), (&mut first, &mut second)).unwrap();
    assert_eq!((first, second, results[0].as_slice::<f32>()), ([8.; 40], gradient, Some(&[9f32; 40][..])));
    // Shared memory is copied.
    let shared = results[0].clone();
    let next = step.execute_buffers((shared.donate(), &gradient)).unwrap();
    assert_eq!(next[0].as_slice::<f32>(), Some(&[8f32; 40][..]));
    assert_eq!(results[0].as_slice::<f32>(), Some(&[9f32; 40][..]));
}

#[test]
fn a_buffer_is_donated_once() {
    let step = step();
    let gradient = [1f32; 40];
    let x = step.execute_buffers((&[10f32; 40], &gradient)).unwrap().swap_remove(0).donate();
    step.execute_buffers((&x, &gradient)).unwrap();
    let error: Error = step.execute_buffers((&x, &gradient)).unwrap_err();
    assert_eq!(error.to_string(), "argument 0 cannot be used: it was donated to an earlier call");
}

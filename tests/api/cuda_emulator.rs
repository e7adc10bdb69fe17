//! Programs for GPUs, on one that the host plays.

use halo::builder::HloBuilder;
use halo::{Client, ClientOptions, CompileOptions, Literal, Module, Platform, Shape};

use super::CLIENT;

fn emulator() -> Client {
    let options = ClientOptions { platform: Platform::CudaEmulator, ..ClientOptions::default() };
    Client::with_options(options).unwrap()
}

/// 2x + 1 and the sum of x.
fn program() -> Module {
    let b = HloBuilder::new("test");
    let x = b.parameter(0, Shape::of::<f32>([300]), "x");
    let sum = b.reduce(x, b.constant(0f32), |_, sum, x| sum + x, &[0]);
    b.build(b.tuple(&[x * 2.0 + 1.0, sum])).unwrap()
}

fn arguments() -> [f32; 300] {
    std::array::from_fn(|number| number as f32)
}

fn expected() -> Literal {
    let x = arguments();
    Literal::Tuple(vec![Literal::from(x.map(|x| x * 2.0 + 1.0)), Literal::from(x.iter().sum::<f32>())])
}

#[test]
fn kernels_run_and_are_kept() {
    let client = emulator();
    let executable = client.compile(&program(), &CompileOptions::default()).unwrap();
    assert_eq!(executable.execute((&arguments()[..],)).unwrap(), expected());
    let bytes = executable.serialize();
    // SAFETY: the bytes are those of `serialize`.
    let loaded = unsafe { client.deserialize(&bytes) }.unwrap();
    assert_eq!(loaded.execute((&arguments()[..],)).unwrap(), expected());
}

#[test]
fn executables_stay_on_their_platform() {
    let for_emulator = emulator().compile(&program(), &CompileOptions::default()).unwrap().serialize();
    let for_cpu = CLIENT.compile(&program(), &CompileOptions::default()).unwrap().serialize();
    for (client, bytes) in [(&*CLIENT, &for_emulator), (&emulator(), &for_cpu)] {
        // SAFETY: the bytes are those of `serialize`.
        let error = unsafe { client.deserialize(bytes) }.unwrap_err().to_string();
        assert!(error.contains("for another platform"), "{error}");
    }
}

//! Programs for GPUs, on one that the host plays.

use halo::builder::HloBuilder;
use halo::{Client, ClientOptions, CompileOptions, Literal, Module, Platform, Shape, Target, bundle};

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
fn gpus_that_there_are_not_are_refused() {
    let client = |platform| {
        let options = ClientOptions { platform, gpu_processor: Some("sm_1".into()), ..ClientOptions::default() };
        Client::with_options(options)
    };
    for platform in [Platform::Cuda, Platform::CudaEmulator] {
        let error = client(platform).err().unwrap();
        assert!(!error.is_bug() && error.to_string().contains("LLVM knows no such processor"), "{error}");
    }
    assert!(client(Platform::Cpu).is_ok());
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

#[test]
fn of_a_bundle_each_platform_takes_its_own() {
    let gpu = Target::nvptx("sm_80", "+ptx70");
    let platforms = [(Platform::Cuda, gpu), (Platform::CudaEmulator, Target::host()), (Platform::Cpu, Target::host())];
    let bytes = bundle(&program(), &CompileOptions::default(), &platforms).unwrap();
    let unsaid = [(Platform::Cuda, Target::nvptx("sm_80", ""))];
    let twice = [&platforms[..], &platforms, &unsaid].concat();
    assert_eq!(
        bundle(&program(), &CompileOptions::default(), &twice).unwrap().len(),
        bytes.len(),
        "nothing is in it twice"
    );
    assert!(bytes.windows(13).any(|part| part == b".target sm_80"));
    for client in [&*CLIENT, &emulator()] {
        // SAFETY: the bytes are those of `bundle`.
        let loaded = unsafe { client.deserialize(&bytes) }.unwrap();
        assert_eq!(loaded.execute((&arguments()[..],)).unwrap(), expected());
        assert_eq!(loaded.device_time(), None, "the host runs it");
    }
}

#[test]
fn bundles_that_do_not_run_say_why() {
    let bytes = bundle(&program(), &CompileOptions::default(), &[(Platform::CudaEmulator, Target::host())]).unwrap();
    // SAFETY: the bytes are those of `bundle`, or such as the checks refuse.
    let refused = |bytes: &[u8]| unsafe { CLIENT.deserialize(bytes) }.unwrap_err().to_string();
    assert!(refused(&bytes).contains("another platform (emulation of a GPU)"), "{}", refused(&bytes));
    let mut newer = bytes.clone();
    newer[8] = 9;
    assert!(refused(&newer).contains("a bundle of version 9, this halo reads 1"), "{}", refused(&newer));
    let mut damaged = bytes.clone();
    let place = damaged.len() / 2;
    damaged[place] ^= 1;
    assert!(refused(&damaged).contains("damaged"), "{}", refused(&damaged));
    assert!(refused(&bytes[..bytes.len() - 1]).contains("no room"), "{}", refused(&bytes[..bytes.len() - 1]));
    assert!(refused(&bytes[..12]).contains("too early"));
}

#[test]
fn a_machine_without_a_driver_says_so() {
    if let Err(error) = Client::cuda() {
        let error = error.to_string();
        assert!(error.contains("no driver for NVIDIA GPUs") || error.contains("there is no GPU 0"), "{error}");
        assert!(Client::cpu().is_ok(), "other platforms do not care");
    }
}

#[test]
fn kernels_of_very_many_arrays_take_what_they_need() {
    const COUNT: usize = 600;
    let b = HloBuilder::new("test");
    let parameter = |number| b.parameter(number as i64, Shape::of::<f32>([2]), &format!("x{number}"));
    let parts: Vec<_> = (0..COUNT).map(parameter).collect();
    let module = b.build(b.concat_in_dim(&parts, 0)).unwrap();
    let executable = emulator().compile(&module, &CompileOptions::default()).unwrap();
    let arguments: Vec<Literal> = (0..COUNT).map(|number| Literal::from([number as f32, 0.5])).collect();
    let expected: [f32; 2 * COUNT] = std::array::from_fn(|place| if place % 2 == 0 { (place / 2) as f32 } else { 0.5 });
    assert_eq!(executable.execute(&arguments[..]).unwrap(), Literal::from(expected));
}

//! Programs for GPUs, on one that the host plays.

use halo::builder::HloBuilder;
use halo::{Buffer, Client, ClientOptions, CompileOptions, Literal, Module, Platform, Shape, Target, bundle};

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

/// What went to a client's GPU and came from there while something happened.
fn transferred<T>(client: &Client, happens: impl FnOnce() -> T) -> (T, [u64; 2]) {
    let before = client.transferred();
    let value = happens();
    let after = client.transferred();
    (value, [after.to_device - before.to_device, after.to_host - before.to_host])
}

#[test]
fn arrays_on_the_device_stay_there() {
    let client = emulator();
    let executable = client.compile(&program(), &CompileOptions::default()).unwrap();
    let (x, bytes) = transferred(&client, || client.to_device((&arguments()[..],)).unwrap());
    assert_eq!(bytes, [1200, 0]);
    assert!(!x[0].is_on_host());
    let (results, bytes) = transferred(&client, || executable.execute_buffers(&x).unwrap());
    assert_eq!(bytes, [0, 0]);
    // A result is the next argument.
    let (next, bytes) = transferred(&client, || executable.execute_buffers((&results[0],)).unwrap());
    assert_eq!(bytes, [0, 0]);
    let (sum, bytes) = transferred(&client, || next[1].to_vec::<f32>().unwrap());
    let expected: f32 = arguments().iter().map(|x| x * 2.0 + 1.0).sum();
    assert_eq!((sum, bytes), (vec![expected], [0, 4]));
    let (_, bytes) = transferred(&client, || next[1].to_literal().unwrap());
    assert_eq!(bytes, [0, 0], "the host has it already");
    // What the host has goes there and comes back in each call.
    let (_, bytes) = transferred(&client, || executable.execute((&arguments()[..],)).unwrap());
    assert_eq!(bytes, [1200, 1204]);
    assert_eq!(executable.execute(&x).unwrap(), expected_of(&x));
}

fn expected_of(x: &[Buffer]) -> Literal {
    assert_eq!(x[0].as_slice::<f32>().unwrap(), arguments());
    expected()
}

#[test]
fn results_are_written_where_the_device_has_room() {
    let client = emulator();
    let executable = client.compile(&program(), &CompileOptions::default()).unwrap();
    let x = client.to_device((&arguments()[..],)).unwrap();
    let mut results = executable.result_buffers().unwrap();
    let (_, bytes) = transferred(&client, || executable.execute_into(&x, &mut results).unwrap());
    assert_eq!(bytes, [0, 0]);
    assert_eq!(results[0].to_literal().unwrap(), expected().leaves()[0].clone());
    // What the host has seen of a buffer is not what it holds after the next run.
    let on_host = results[0].to_host().unwrap();
    executable.execute_into((&on_host,), &mut results).unwrap();
    assert_eq!(results[0].as_slice::<f32>().unwrap()[3], 15.0);
    let shared = results[0].clone();
    let error = executable.execute_into(&x, &mut results).unwrap_err().to_string();
    assert!(error.contains("another clone of the buffer is in use"), "{error}");
    drop(shared);
    let on_cpu = CLIENT.compile(&program(), &CompileOptions::default()).unwrap();
    let error = on_cpu.execute_into(&x, &mut results).unwrap_err().to_string();
    assert!(error.contains("in the memory of another device"), "{error}");
    assert_eq!(on_cpu.execute(&x).unwrap(), expected(), "arguments come to the host");
    let moved = results[0].to_device(&CLIENT).unwrap();
    assert!(moved.is_on_host() && moved.to_device(&client).unwrap().as_slice::<f32>() == moved.as_slice::<f32>());
    results[1].bytes_mut().unwrap().copy_from_slice(&7f32.to_le_bytes());
    assert_eq!(results[1].as_slice::<f32>(), Some(&[7f32][..]));
}

#[test]
fn a_donated_array_of_the_device_becomes_the_result() {
    let client = emulator();
    let text = "HloModule step, input_output_alias={ {}: (0, {}, may-alias) }\nENTRY e {\n  x = f32[40] parameter(0)\n  \
                ROOT y = f32[40] add(x, x)\n}\n";
    let step = client.compile(text, &CompileOptions::default()).unwrap();
    let mut x = client.to_device((&[1f32; 40],)).unwrap().remove(0);
    let kept = x.clone();
    // One that is in use is copied.
    x = step.execute_buffers((x.donate(),)).unwrap().remove(0);
    assert_eq!((kept.as_slice::<f32>(), x.as_slice::<f32>()), (Some(&[1f32; 40][..]), Some(&[2f32; 40][..])));
    let ((), bytes) = transferred(&client, || {
        for _ in 0..3 {
            x = step.execute_buffers((std::mem::replace(&mut x, kept.clone()).donate(),)).unwrap().remove(0);
        }
    });
    assert_eq!(bytes, [0, 0]);
    assert_eq!(x.as_slice::<f32>(), Some(&[16f32; 40][..]));
    // An argument of the host is copied to where the result is.
    let on_host = kept.to_host().unwrap();
    let (mut results, bytes) = transferred(&client, || step.execute_buffers((on_host.donate(),)).unwrap());
    let y = results.remove(0);
    assert_eq!(bytes, [160, 0]);
    assert!(!y.is_on_host() && y.as_slice::<f32>() == Some(&[2f32; 40][..]));
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
    assert!(refused(&newer).contains("a bundle of version 9, this halo reads 2"), "{}", refused(&newer));
    let mut damaged = bytes.clone();
    let place = damaged.len() / 2;
    damaged[place] ^= 1;
    assert!(refused(&damaged).contains("damaged"), "{}", refused(&damaged));
    assert!(refused(&bytes[..bytes.len() - 1]).contains("no room"), "{}", refused(&bytes[..bytes.len() - 1]));
    assert!(refused(&bytes[..12]).contains("too early"));
}

#[test]
fn a_machine_without_a_driver_says_so() {
    if let Err(error) = Client::cuda(0) {
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

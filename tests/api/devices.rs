//! Programs for several devices.

use std::time::Duration;

use halo::{Client, ClientOptions, CompileOptions, Error, Executable, Literal, custom_call};

fn sum_of(devices: usize) -> String {
    format!(
        "HloModule sum, replica_count={devices}
         add {{ x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }}
         ENTRY e {{
           a = f32[2] parameter(0)
           ROOT r = f32[2] all-reduce(a), replica_groups={{}}, to_apply=add
         }}"
    )
}

fn compile(client: &Client, text: &str) -> Executable {
    client.compile(text, &CompileOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn error_of<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn every_device_has_arguments_and_results_of_its_own() {
    let client = Client::cpu_devices(4).unwrap();
    let executable = compile(&client, &sum_of(4));
    assert_eq!((executable.devices(), executable.communicates()), (4, true));
    for round in 0..50 {
        let arguments: Vec<_> = (0..4).map(|device| ([round as f32, device as f32],)).collect();
        let expected = Literal::from([4. * round as f32, 6.]);
        assert_eq!(executable.execute_on(&arguments).unwrap(), vec![expected.clone(); 4]);
        let buffers = executable.execute_buffers_on(&arguments).unwrap();
        assert!(buffers.iter().all(|results| results[0].to_literal().unwrap() == expected));
    }
}

#[test]
fn executions_at_once_do_not_meet() {
    let client = Client::cpu_devices(2).unwrap();
    let executable = compile(&client, &sum_of(2));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let executable = &executable;
            scope.spawn(move || {
                for round in 0..50 {
                    let value = (100 * thread + round) as f32;
                    let results = executable.execute_on(&[([value, 1.],), ([value, 2.],)]).unwrap();
                    assert_eq!(results, vec![Literal::from([2. * value, 3.]); 2]);
                }
            });
        }
    });
}

#[test]
fn wrong_numbers_of_devices_are_errors() {
    let two = Client::cpu_devices(2).unwrap();
    let too_few = two.compile(sum_of(3).as_str(), &CompileOptions::default());
    assert_eq!(error_of(too_few), "the program is for 3 devices, the client has 2");
    let executable = compile(&two, &sum_of(2));
    let argument = ([1f32, 2.],);
    let message = "the program is for 2 devices, there are arguments for";
    assert_eq!(error_of(executable.execute(argument)), format!("{message} 1"));
    assert_eq!(error_of(executable.execute_on(&[argument, argument, argument])), format!("{message} 3"));
    let shapes = executable.execute_on(&[vec![[1f32, 2.].to_vec()], vec![[1f32].to_vec()]]);
    assert_eq!(error_of(shapes), "device 1: argument 0 must be f32[2], got f32[1]");
}

#[test]
fn devices_that_do_not_depend_on_one_another_run_together_or_alone() {
    let client = Client::cpu_devices(2).unwrap();
    let text = "HloModule m, num_partitions=2\nENTRY e { a = f32[] parameter(0) ROOT b = f32[] negate(a) }";
    let executable = compile(&client, text);
    assert!(!executable.communicates());
    assert_eq!(executable.execute((3f32,)).unwrap(), Literal::from(-3f32));
    assert_eq!(executable.execute_on(&[(1f32,), (2f32,)]).unwrap(), [Literal::from(-1f32), Literal::from(-2f32)]);
}

const CALLS: &str = "HloModule m, replica_count=3
    add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }
    ENTRY e {
      a = f32[] parameter(0)
      c = f32[] custom-call(a), custom_call_target=\"api-devices-fail-at-2\"
      ROOT r = f32[] all-reduce(c), replica_groups={}, to_apply=add
    }";

#[test]
fn a_device_that_fails_ends_the_run_and_the_next_run_is_well() {
    custom_call::register("api-devices-fail-at-2", |call, results| {
        let value = call.operand::<f32>(0)?[0];
        if value == 2. {
            return Err("two is too much".to_string());
        }
        results[0].as_mut_slice::<f32>()?[0] = value;
        Ok(())
    });
    let client = Client::cpu_devices(3).unwrap();
    let executable = compile(&client, CALLS);
    for _ in 0..3 {
        let message = error_of(executable.execute_on(&[(0f32,), (2f32,), (5f32,)]));
        assert_eq!(message, "device 1: the program failed: custom-call: api-devices-fail-at-2: two is too much");
        let results = executable.execute_on(&[(0f32,), (1f32,), (5f32,)]).unwrap();
        assert_eq!(results, vec![Literal::from(6f32); 3]);
    }
}

const SLOW: &str = "HloModule m, replica_count=2
    add { x = s32[] parameter(0) y = s32[] parameter(1) ROOT z = s32[] add(x, y) }
    condition { x = s32[] parameter(0) n = s32[] constant(0) ROOT c = pred[] compare(x, n), direction=NE }
    body { ROOT x = s32[] parameter(0) }
    ENTRY e {
      a = s32[] parameter(0)
      w = s32[] while(a), condition=condition, body=body
      ROOT r = s32[] all-reduce(w), replica_groups={}, to_apply=add
    }";

#[test]
fn a_device_that_never_arrives_is_an_error_within_the_time_limit() {
    let collective_time_limit = Some(Duration::from_millis(100));
    let options = ClientOptions { devices: 2, threads: 1, collective_time_limit, ..ClientOptions::default() };
    let executable = compile(&Client::with_options(options).unwrap(), SLOW);
    let message = error_of(executable.execute_on(&[(0,), (1,)]));
    let expected = "device 0: the program failed: waited 0.1 s for `r";
    assert!(message.starts_with(expected) && message.ends_with("devices [1] still run"), "{message}");
    assert_eq!(executable.execute_on(&[(0,), (0,)]).unwrap(), vec![Literal::from(0); 2]);
}

#[test]
fn saved_programs_know_their_devices() {
    let client = Client::cpu_devices(2).unwrap();
    let bytes = compile(&client, &sum_of(2)).serialize();
    // SAFETY: the bytes are those of `serialize`.
    let loaded = unsafe { client.deserialize(&bytes) }.unwrap();
    assert_eq!(loaded.execute_on(&[([1f32, 2.],), ([3f32, 4.],)]).unwrap(), vec![Literal::from([4f32, 6.]); 2]);
    // SAFETY: as above.
    let refused = unsafe { Client::cpu().unwrap().deserialize(&bytes) };
    assert_eq!(error_of(refused), "the program is for 2 devices, the client has 1");
}

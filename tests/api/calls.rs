//! Functions of the host in programs, and queues between host and program.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use halo::builder::{CustomCallOptions, HloBuilder};
use halo::{CompileOptions, Literal, Shape, custom_call};
use hlo::element_type::ElementType;

use super::{CLIENT, compile};

/// The document's `myfunc`: checks its operands, and writes `z[0][0] = x[1] + y[1][0]`.
unsafe extern "C" fn myfunc(out: *mut c_void, ins: *const *const c_void) {
    // SAFETY: the test calls it with an f32[2] and an f32[2,3] for an f32[3,3].
    unsafe {
        let x = (*ins).cast::<[f32; 2]>();
        let y = (*ins.add(1)).cast::<[[f32; 3]; 2]>();
        let is_expected = *x == [1., 2.] && *y == [[10., 20., 30.], [40., 50., 60.]];
        let mut z = [[0f32; 3]; 3];
        z[0][0] = if is_expected { (*x)[1] + (*y)[1][0] } else { f32::NAN };
        *out.cast::<[[f32; 3]; 3]>() = z;
    }
}

#[test]
fn the_documents_c_function() {
    // SAFETY: called only by the program below.
    unsafe { custom_call::register_c("test.myfunc", myfunc) };
    let b = HloBuilder::new("myfunc");
    let operands = [b.constant([1f32, 2.]), b.constant([[10f32, 20., 30.], [40., 50., 60.]])];
    let result = b.custom_call("test.myfunc", &operands, Shape::of::<f32>([3, 3]));
    let result = compile(&b.build(result).unwrap()).execute(()).unwrap();
    assert_eq!(result, Literal::from([[42f32, 0., 0.], [0.; 3], [0.; 3]]));
}

#[test]
fn closures_get_operands_results_and_configuration() {
    custom_call::register("test.split", |call, results| {
        assert_eq!(call.target(), "test.split");
        assert_eq!(call.operand_shape(0)?.to_string(), "s32[4]");
        let limit: i32 = call.configuration().parse().map_err(|error| format!("{error}"))?;
        let values = call.operand::<i32>(0)?;
        let [below, count] = results else { return Err("two results".to_string()) };
        for (result, &value) in below.as_mut_slice::<i32>()?.iter_mut().zip(values) {
            *result = value.min(limit);
        }
        count.as_mut_slice::<u64>()?[0] = values.iter().filter(|&&value| value < limit).count() as u64;
        Ok(())
    });
    let b = HloBuilder::new("split");
    let x = b.parameter(0, Shape::of::<i32>([4]), "x");
    let call = CustomCallOptions {
        target: "test.split".to_string(),
        configuration: "3".to_string(),
        ..CustomCallOptions::default()
    };
    let shape = Shape::Tuple(vec![Shape::of::<i32>([4]), Shape::of::<u64>([])]);
    let result = b.custom_call_with(&call, &[x * 2], shape);
    let program = compile(&b.build(b.tuple(&[result.get(0) + 1, result.get(1)])).unwrap());
    let result = program.execute(([0i32, 1, 2, 3].as_slice(),)).unwrap();
    assert_eq!(result, Literal::Tuple(vec![[1i32, 3, 4, 4].into(), 2u64.into()]));
}

/// Nobody asks for the results, neither here nor in the loop.
#[test]
fn functions_with_an_effect_are_called() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    custom_call::register("test.count", |call, _| {
        CALLS.fetch_add(call.operand::<i32>(0)?[0] as usize, Ordering::Relaxed);
        Ok(())
    });
    let call =
        CustomCallOptions { target: "test.count".to_string(), has_side_effect: true, ..CustomCallOptions::default() };
    let b = HloBuilder::new("count");
    b.custom_call_with(&call, &[b.constant([100i32])], Shape::of::<i32>([1]));
    b.while_(
        b.constant([1i32]),
        |_, count| count.reshape(&[]).lt(4),
        |b, count| {
            b.custom_call_with(&call, &[count], Shape::of::<i32>([1]));
            count + 1
        },
    );
    let program = compile(&b.build(b.constant(0i32)).unwrap());
    program.execute(()).unwrap();
    assert_eq!(CALLS.load(Ordering::Relaxed), 100 + 1 + 2 + 3);
}

/// A function sees zeros where nothing exists of an operand.
#[test]
fn functions_of_run_time_sizes() {
    custom_call::register("test.copy", |call, results| {
        results[0].as_mut_slice::<i32>()?.copy_from_slice(call.operand::<i32>(0)?);
        Ok(())
    });
    let text = "HloModule m
        ENTRY e {
          a = s32[4] parameter(0)
          n = s32[] parameter(1)
          d = s32[<=4] set-dimension-size(a, n), dimensions={0}
          ROOT r = s32[4] custom-call(d), custom_call_target=\"test.copy\"
        }";
    let program = CLIENT.compile(text, &CompileOptions::default()).unwrap();
    let result = program.execute([Literal::from([1i32, 2, 3, 4]), Literal::from(2i32)]).unwrap();
    assert_eq!(result, Literal::from([1i32, 2, 0, 0]));
}

#[test]
fn failures_of_functions_fail_the_run() {
    custom_call::register("test.fail", |call, _| call.operand::<f64>(0).map(|_| ()));
    custom_call::register("test.panic", |_, _| panic!("no such thing"));
    let run = |target: &str| {
        let b = HloBuilder::new("fail");
        let x = b.parameter(0, Shape::of::<f32>([1]), "x");
        let program = compile(&b.build(b.custom_call(target, &[x], Shape::of::<f32>([1]))).unwrap());
        program.execute(([1f32].as_slice(),)).unwrap_err().to_string()
    };
    let error = run("test.fail");
    assert!(error.contains("operand 0 is f32[1], it was taken for an array of f64"), "{error}");
    assert!(run("test.panic").contains("no such thing"));
}

#[test]
fn unknown_functions_are_found_before_the_program_runs() {
    let b = HloBuilder::new("unknown");
    let result = b.custom_call("test.unknown", &[], Shape::of::<f32>([1]));
    let error = CLIENT.compile(&b.build(result).unwrap(), &CompileOptions::default()).unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("test.unknown"), "{error}");
}

/// Sums what comes in, and hands out each partial sum, until a zero comes.
#[test]
fn values_stream_through_a_loop() {
    let b = HloBuilder::new("stream");
    let start = b.tuple(&[b.constant(1f32), b.constant(0f32)]);
    let end = b.while_(
        start,
        |_, state| state.get(0).ne(0.0),
        |b, state| {
            let value = b.infeed(Shape::of::<f32>([]));
            let total = state.get(1) + value;
            b.outfeed(total);
            b.tuple(&[value, total])
        },
    );
    let program = compile(&b.build(end.get(1)).unwrap());
    let (infeed, outfeed) = (program.infeed(), program.outfeed());
    let pending = program.execute_async(()).unwrap();
    let mut total = 0.;
    for value in [3f32, 4., 5.] {
        infeed.push(&value.into()).unwrap();
        total += value;
        assert_eq!(outfeed.pop(), Some(Literal::from(total)));
    }
    infeed.push(&0f32.into()).unwrap();
    assert_eq!(pending.wait().unwrap()[0].as_slice::<f32>().unwrap(), [12.]);
    assert_eq!(outfeed.pop(), Some(Literal::from(12f32)));
    assert_eq!(outfeed.pop(), None);
}

#[test]
fn an_infeed_of_an_empty_tuple_reads_nothing() {
    let b = HloBuilder::new("nothing");
    b.infeed(Shape::Tuple(vec![]));
    let program = compile(&b.build(b.infeed(Shape::of::<f32>([]))).unwrap());
    program.infeed().push(&2f32.into()).unwrap();
    assert_eq!(program.execute(()).unwrap(), Literal::from(2f32));
}

#[test]
fn a_conditional_runs_one_branch() {
    let b = HloBuilder::new("one branch");
    let (chosen, value) =
        (b.parameter(0, Shape::scalar(ElementType::Pred), "chosen"), b.parameter(1, Shape::of::<f32>([]), "value"));
    let result = b.conditional(
        chosen,
        value,
        |b, x| {
            b.outfeed(x * 10.0);
            x + 1.0
        },
        value,
        |b, x| {
            b.outfeed(x * 100.0);
            x - 1.0
        },
    );
    let program = compile(&b.build(result).unwrap());
    for (chosen, result, written) in [(true, 3f32, 20f32), (false, 1., 200.)] {
        assert_eq!(program.execute(&[Literal::from(chosen), Literal::from(2f32)]).unwrap(), Literal::from(result));
        assert_eq!(program.outfeed().try_pop(), Some(Literal::from(written)));
        assert_eq!(program.outfeed().try_pop(), None);
    }
}

#[test]
fn an_empty_queue_without_a_sender_is_an_error() {
    let b = HloBuilder::new("empty");
    let program = compile(&b.build(b.infeed(Shape::of::<f32>([2]))).unwrap());
    let error = program.execute(()).unwrap_err().to_string();
    assert!(error.contains("the queue is empty"), "{error}");
    let infeed = program.infeed();
    infeed.push(&[1f32].into()).unwrap();
    let error = program.execute(()).unwrap_err().to_string();
    assert!(error.contains("must have dimensions [2]"), "{error}");
    infeed.push(&[1f32, 2.].into()).unwrap();
    assert_eq!(program.execute(()).unwrap(), Literal::from([1f32, 2.]));
}

/// A sender in a loop, in one program; the receiver in another one.
#[test]
fn programs_send_each_other_values() {
    let b = HloBuilder::new("sender");
    let end = b.while_(
        b.constant(0i32),
        |_, count| count.lt(3),
        |b, count| {
            b.send(count * 10, 101);
            count + 1
        },
    );
    let sender = compile(&b.build(end).unwrap());
    let b = HloBuilder::new("receiver");
    let first = b.recv(Shape::of::<i32>([]), 101);
    let second = b.recv(Shape::of::<i32>([]), 101);
    let receiver = compile(&b.build(b.tuple(&[first, second])).unwrap());

    let error = receiver.execute(()).unwrap_err().to_string();
    assert!(error.contains("the queue is empty (channel 101)"), "{error}");
    assert_eq!(sender.execute(()).unwrap(), Literal::from(3i32));
    let received = receiver.execute(()).unwrap();
    assert_eq!(received, Literal::Tuple(vec![Literal::from(0i32), Literal::from(10i32)]));
    // What nobody has received, the host may.
    let outfeed = CLIENT.channel_outfeed(101);
    assert_eq!(outfeed.try_pop(), Some(Literal::from(20i32)));
    assert_eq!(outfeed.try_pop(), None);
    let infeed = CLIENT.channel_infeed(101);
    let pending = receiver.execute_async(()).unwrap();
    infeed.push(&7i32.into()).unwrap();
    infeed.push(&8i32.into()).unwrap();
    let received = pending.wait().unwrap();
    assert_eq!(received[1].as_slice::<i32>().unwrap(), [8]);
}

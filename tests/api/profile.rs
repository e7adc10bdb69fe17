//! Profiles: what the steps of a program are, and when they ran.

use halo::builder::HloBuilder;
use halo::{ArrayLiteral, CompileOptions, Literal, Module, Shape};

use super::CLIENT;

fn program() -> Module {
    let b = HloBuilder::new("profiled");
    let x = b.parameter(0, Shape::of::<f32>([64, 64]), "x");
    let state = b.tuple(&[b.constant(0i32), x.dot(x)]);
    let end =
        b.while_(state, |_, state| state.get(0).lt(3), |b, state| b.tuple(&[state.get(0) + 1, state.get(1).tanh()]));
    b.build(end.get(1)).unwrap()
}

fn square(value: f32) -> Literal {
    Literal::Array(ArrayLiteral::from_slice([64, 64], &[value; 64 * 64]).unwrap())
}

#[test]
fn every_step_says_when_it_ran() {
    let options = CompileOptions { profile: true, ..CompileOptions::default() };
    let executable = CLIENT.compile(&program(), &options).unwrap();
    let x = square(0.01);
    for _ in 0..2 {
        let result = executable.execute((&x,)).unwrap();
        assert_eq!(result, super::compile(&program()).execute((&x,)).unwrap(), "results are those without a profile");
        let runs = executable.take_profile();
        let steps = executable.profiled_steps();
        let count = |name: &str| runs.iter().filter(|run| steps[run.step].operation == name).count();
        assert_eq!((count("dot"), count("while")), (1, 1));
        let kernels = runs.iter().filter(|run| !steps[run.step].has_steps);
        assert!(kernels.clone().count() > 3 * 2, "the loop's kernels count as often as they run");
        let outer = runs.iter().find(|run| steps[run.step].has_steps).unwrap();
        let inner = kernels.filter(|run| run.start >= outer.start && run.end <= outer.end);
        assert!(inner.map(|run| run.end - run.start).sum::<std::time::Duration>() <= outer.end - outer.start);
        assert!(executable.take_profile().is_empty());
    }
    let dot = executable.profiled_steps().iter().find(|step| step.operation == "dot").unwrap();
    assert_eq!((dot.cost.flops, dot.cost.bytes_accessed), (2 * 64 * 64 * 64, 3 * 64 * 64 * 4));
    // SAFETY: the bytes come from this process.
    let loaded = unsafe { CLIENT.deserialize(&executable.serialize()) }.unwrap();
    assert_eq!(loaded.profiled_steps(), executable.profiled_steps());
}

#[test]
fn other_programs_have_no_steps() {
    let executable = super::compile(&program());
    executable.execute((&square(0.),)).unwrap();
    assert!(executable.profiled_steps().is_empty() && executable.take_profile().is_empty());
}

//! Programs with a driver that tests play.

use exec::runtime::ProgramState;

use super::*;
use crate::fake_driver::{self, COMPLAINT, DEVICE_BYTES, Lacks, MOST_SHARED};

const PTX: &[u8] = b".version 7.0\n.target sm_80\n";

/// 2x + 1.
const PLAN: &str = "launch double <<<1, 1>>> ([parameter 0, 0 : 4], [arena, 0 : 4])\n\
                    launch increment <<<1, 1>>> ([arena, 0 : 4], [arena, 4 : 4])\n\
                    copy [arena, 4 : 4] -> [output 0, 0 : 4]\n";

fn load(gpu: &Arc<Gpu>, plan: &str) -> Result<GpuProgram, Error> {
    let sizes = BufferSizes { arena: 64, parameters: vec![4], outputs: vec![4] };
    GpuProgram::load(Arc::clone(gpu), PTX, plan.parse().unwrap(), sizes, &[&[1, 0, 0, 0]])
}

fn run(program: &GpuProgram, x: i32) -> Result<i32, Error> {
    let mut result = 0i32;
    let memory = PlanMemory {
        arena: 0,
        parameters: vec![(&raw const x) as u64],
        constants: vec![0],
        outputs: vec![(&raw mut result) as u64],
        boxes: Vec::new(),
    };
    let state = ProgramState::default();
    // SAFETY: the memory is that of the plan, and lives.
    unsafe { program.run(&memory, &RunContext::with_state(None, &state))? };
    Ok(result)
}

#[test]
fn what_runs_again_is_replayed_in_the_same_memory() {
    let (driver, _user) = fake_driver::fresh();
    let gpu = Arc::new(Gpu::of(driver, 0).unwrap());
    let program = load(&gpu, PLAN).unwrap();
    assert_eq!(program.device_time(), None);
    for x in 0..5 {
        assert_eq!(run(&program, x), Ok(2 * x + 1));
    }
    let (counts, _) = fake_driver::counts();
    assert_eq!(counts.launches, 4, "one by one, then once for the graph");
    assert_eq!(counts.graph_launches, 4);
    assert_eq!(counts.allocations, 2, "for constants, and for runs");
    assert_eq!(counts.pinned, 2, "as for these");
    assert_eq!(counts.synchronizations, 2 + 2 * 5, "for constants and results, and that nothing is left");
    assert_eq!(counts.uploaded, 4 + 5 * 4, "constants once");
    assert_eq!(program.device_time(), Some(Duration::from_micros(2500)));
    drop(program);
    assert_eq!(fake_driver::counts().1, 0, "nothing is left");
}

#[test]
fn shared_memory_is_allowed_and_given() {
    let (driver, _user) = fake_driver::fresh();
    let gpu = Arc::new(Gpu::of(driver, 0).unwrap());
    let plan = |bytes: c_int| format!("launch double <<<1, 1, {bytes}>>> ([parameter 0, 0 : 4], [output 0, 0 : 4])\n");
    let program = load(&gpu, &plan(57344)).unwrap();
    assert_eq!(fake_driver::allowed_bytes(), [("double", 57344)]);
    assert_eq!(run(&program, 4), Ok(8));
    assert_eq!(fake_driver::given_bytes(), [57344]);
    let error = load(&gpu, &plan(MOST_SHARED + 1)).err().unwrap();
    assert!(!error.is_bug());
    assert_eq!(
        error.to_string(),
        "the GPU does not let a block of kernel `double` share 101377 bytes: cuFuncSetAttribute failed: invalid argument"
    );
}

/// Drivers that have everything, that have no conditions, and that refuse them.
fn drivers() -> [Lacks; 4] {
    let all = Lacks::default();
    [
        all,
        Lacks { conditions: true, ..all },
        Lacks { conditional_nodes: true, ..all },
        Lacks { pools: true, pinned_memory: true, ..all },
    ]
}

/// What a plan computes of numbers, which is the same with each driver; how often the host waits in a run of each.
fn run_everywhere(plan: &str, cases: &[(i32, i32)]) -> [usize; 4] {
    drivers().map(|lacks| {
        let (driver, _user) = fake_driver::fresh_without(lacks);
        let gpu = Arc::new(Gpu::of(driver, 0).unwrap());
        let program = load(&gpu, plan).unwrap();
        for &(x, expected) in cases {
            assert_eq!(run(&program, x), Ok(expected), "{x}");
        }
        let before = fake_driver::counts().0.synchronizations;
        run(&program, cases[0].0).unwrap();
        let waits = fake_driver::counts().0.synchronizations - before;
        drop((program, gpu));
        assert_eq!(fake_driver::counts().1, 0, "nothing is left");
        waits
    })
}

#[test]
fn loops_have_conditions_on_the_device() {
    let plan = "copy [parameter 0, 0 : 4] -> [arena, 0 : 4]\n\
                while {\n  condition {\n    launch less_than_100 <<<1, 1>>> ([arena, 0 : 4], [arena, 8 : 1])\n  }\n  \
                body if [arena, 8 : 1] {\n    launch double <<<1, 1>>> ([arena, 0 : 4], [arena, 0 : 4])\n  }\n}\n\
                launch increment <<<1, 1>>> ([arena, 0 : 4], [output 0, 0 : 4])\n";
    let waits = run_everywhere(plan, &[(3, 193), (100, 101), (99, 199), (1, 129)]);
    assert_eq!(waits, [2, 9, 9, 2], "once, and that nothing is left; else for each condition too");
}

#[test]
fn rounds_of_a_loop_are_left_where_they_are() {
    // The state is doubled from one place to another and incremented on the way back, where the predicate is overwritten.
    let plan = "copy [parameter 0, 0 : 4] -> [arena, 0 : 4]\n\
                while {\n\
                condition {\n    launch less_than_100 <<<1, 1>>> ([arena, 0 : 4], [arena, 8 : 1])\n  }\n\
                body if [arena, 8 : 1] {\n    launch double <<<1, 1>>> ([arena, 0 : 4], [arena, 16 : 4])\n  }\n\
                else {\n    copy [arena, 0 : 4] -> [arena, 32 : 4]\n  }\n\
                condition {\n    launch less_than_100 <<<1, 1>>> ([arena, 16 : 4], [arena, 8 : 1])\n  }\n\
                body if [arena, 8 : 1] {\n    launch increment <<<1, 1>>> ([arena, 16 : 4], [arena, 0 : 4])\n    \
                copy [constant 0, 1 : 1] -> [arena, 8 : 1]\n  }\n\
                else {\n    launch increment <<<1, 1>>> ([arena, 16 : 4], [arena, 32 : 4])\n  }\n\
                }\n\
                copy [arena, 32 : 4] -> [output 0, 0 : 4]\n";
    // 3, 6, 7, 14, 15, 30, 31, 62, 63, 126; left behind the doubling. From 49: 98, 99, 198; from 120: at once.
    run_everywhere(plan, &[(3, 127), (49, 199), (120, 120), (0, 127), (50, 101)]);
}

#[test]
fn steps_with_conditions_are_nested() {
    // As long as the number is below 100: doubled where it is below 100, twice incremented, where a way is chosen by number.
    let plan = "copy [parameter 0, 0 : 4] -> [arena, 0 : 4]\n\
                while {\n\
                condition {\n    launch less_than_100 <<<1, 1>>> ([arena, 0 : 4], [arena, 8 : 1])\n  }\n\
                body if [arena, 8 : 1] {\n\
                switch [arena, 8 : 1] {\n  branch {\n    \
                launch double <<<1, 1>>> ([arena, 0 : 4], [arena, 0 : 4])\n  }\n  branch {\n  }\n}\n\
                repeat 2 {\n  body {\n    launch increment <<<1, 1>>> ([arena, 0 : 4], [arena, 0 : 4])\n  }\n}\n\
                switch [parameter 0, 0 : 4] {\n  branch {\n    \
                launch increment <<<1, 1>>> ([arena, 0 : 4], [arena, 0 : 4])\n  }\n  branch {\n  }\n  branch {\n    \
                launch double <<<1, 1>>> ([arena, 0 : 4], [arena, 0 : 4])\n  }\n}\n\
                }\n}\n\
                copy [arena, 0 : 4] -> [output 0, 0 : 4]\n";
    let expected = |x: i32| {
        let mut state = x;
        while state < 100 {
            state = state * 2 + 2;
            match x {
                0 => state += 1,
                1 => {}
                _ => state *= 2,
            }
        }
        (x, state)
    };
    let waits = run_everywhere(plan, &[0, 1, 2, 3, 7, 98, 100].map(expected));
    assert_eq!((waits[0], waits[3]), (2, 2));
}

#[test]
fn the_host_has_its_part_in_loops_of_what_no_graph_takes() {
    let plan = "copy [parameter 0, 0 : 4] -> [arena, 0 : 4]\n\
                while {\n  condition {\n    launch less_than_100 <<<1, 1>>> ([arena, 0 : 4], [arena, 8 : 1])\n  }\n  \
                body if [arena, 8 : 1] {\n    repeat 5000 {\n  body {\n    \
                launch increment <<<1, 1>>> ([arena, 0 : 4], [arena, 0 : 4])\n  }\n}\n  }\n}\n\
                copy [arena, 0 : 4] -> [output 0, 0 : 4]\n";
    let waits = run_everywhere(plan, &[(3, 5003), (100, 100)]);
    assert_eq!(waits, [4; 4]);
}

#[test]
fn a_kernel_that_faults_is_named() {
    let (driver, _user) = fake_driver::fresh();
    let gpu = Arc::new(Gpu::of(driver, 0).unwrap());
    let faulty = "launch faulty <<<1, 1>>> ([parameter 0, 0 : 4], [output 0, 0 : 4]) of [logits, largest.2]\n";
    let error = run(&load(&gpu, faulty).unwrap(), 1).unwrap_err();
    assert!(error.is_bug());
    assert_eq!(
        error.to_string(),
        "kernel `faulty (logits, largest.2)`: cuStreamSynchronize failed: an illegal memory access was encountered"
    );
    let error = run(&load(&gpu, &format!("{PLAN}{faulty}")).unwrap(), 1).unwrap_err().to_string();
    assert!(error.contains("one of 3 kernels, of which the last is `faulty (logits, largest.2)`"), "{error}");
    assert!(error.contains("CUDA_LAUNCH_BLOCKING=1"), "{error}");
    assert_eq!(fake_driver::counts().1, 0, "nothing is left");
}

#[test]
fn what_the_device_lacks_is_said() {
    let (driver, _user) = fake_driver::fresh();
    assert!(matches!(Gpu::of(driver, 1), Err(Error::NoDevice { number: 1, count: 1 })));
    let gpu = Arc::new(Gpu::of(driver, 0).unwrap());
    let sizes = BufferSizes { arena: DEVICE_BYTES + 1, parameters: vec![4], outputs: vec![4] };
    let program = GpuProgram::load(Arc::clone(&gpu), PTX, PLAN.parse().unwrap(), sizes, &[&[]]).unwrap();
    let error = run(&program, 1).unwrap_err();
    assert!(!error.is_bug());
    assert_eq!(error.to_string(), "the GPU has too little memory: 1049344 bytes were asked for");
    let refused = |ptx: &[u8]| {
        let loaded = GpuProgram::load(Arc::clone(&gpu), ptx, LaunchPlan::default(), BufferSizes::default(), &[]);
        loaded.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let newer = refused(b".version 8.0\n.target sm_90\n");
    assert_eq!(
        newer,
        "the program does not run on this GPU: its kernels are for sm_90 GPUs and newer ones, this one is sm_86"
    );
    assert!(refused(b".target sm_80\nnonsense").ends_with(COMPLAINT));
    assert!(load(&gpu, "launch unknown <<<1, 1>>> ()\n").is_err_and(|error| error.to_string().contains("not found")));
}

#[test]
fn boxes_are_described_once_for_each_memory() {
    let (driver, _user) = fake_driver::fresh();
    let gpu = Arc::new(Gpu::of(driver, 0).unwrap());
    // The fake driver's descriptions begin with twice the elements of a row.
    let plan = "launch double <<<1, 1>>> (boxes [arena, 16 : 32] 2 [21, 8, 1] [16, 128] [64, 8], [output 0, 0 : 4])\n";
    let program = load(&gpu, plan).unwrap();
    for _ in 0..3 {
        assert_eq!(run(&program, 1), Ok(84));
    }
    assert_eq!(fake_driver::counts().0.described, 1);
    drop((program, gpu, _user));
    let (driver, _user) = fake_driver::fresh_without(Lacks { boxes: true, ..Lacks::default() });
    let gpu = Arc::new(Gpu::of(driver, 0).unwrap());
    let error = load(&gpu, plan).err().unwrap();
    assert!(!error.is_bug());
    assert_eq!(
        error.to_string(),
        "the program does not run on this GPU: its kernels copy boxes of arrays, for which the driver is too old"
    );
}

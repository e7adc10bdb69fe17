//! Programs with a driver that tests play.

use exec::runtime::ProgramState;

use super::*;
use crate::device_memory::{DeviceArray, DeviceMemory, Transferred};
use crate::driver::Driver;
use crate::fake_driver::{self, COMPLAINT, DEVICE_BYTES, Lacks, MOST_SHARED};

const PTX: &[u8] = b".version 7.0\n.target sm_80\n";

const CODE: KernelCode<'_> = KernelCode { ptx: PTX, cubins: &[] };

/// 2x + 1.
const PLAN: &str = "launch double <<<1, 1>>> ([parameter 0, 0 : 4], to [arena, 0 : 4])\n\
                    launch increment <<<1, 1>>> ([arena, 0 : 4], to [arena, 4 : 4])\n\
                    copy [arena, 4 : 4] -> [output 0, 0 : 4]\n";

fn device(driver: &'static Driver) -> Arc<GpuMemory> {
    Arc::new(GpuMemory::new(Gpu::of(driver, 0).unwrap()))
}

/// The memory of results in the place of no parameter.
fn sizes() -> BufferSizes {
    BufferSizes { arena: 64, parameters: vec![4], outputs: vec![4], aliases: vec![None] }
}

fn load(gpu: &Arc<GpuMemory>, plan: &str) -> Result<GpuProgram, Error> {
    GpuProgram::load(Arc::clone(gpu), CODE, plan.parse().unwrap(), sizes(), &[&[1, 0, 0, 0]])
}

fn run_on(program: &GpuProgram, argument: ArrayPlace, result: ArrayPlace) -> Result<(), Error> {
    let arrays = RunArrays { parameters: vec![argument], outputs: vec![result] };
    let state = ProgramState::default();
    // SAFETY: the memory is that of the plan, and lives.
    unsafe { program.run(&arrays, &RunContext::with_state(None, &state)) }
}

fn run(program: &GpuProgram, x: i32) -> Result<i32, Error> {
    let mut result = 0i32;
    let (x, place) = ((&raw const x) as u64, (&raw mut result) as u64);
    run_on(program, ArrayPlace::Host(x), ArrayPlace::Host(place))?;
    Ok(result)
}

fn place_of(array: &DeviceArray) -> ArrayPlace {
    ArrayPlace::Device(array.address())
}

fn number_in(array: &DeviceArray) -> i32 {
    let mut bytes = [0; 4];
    array.download(&mut bytes).unwrap();
    i32::from_le_bytes(bytes)
}

#[test]
fn what_runs_again_is_replayed_in_the_same_memory() {
    let (driver, _user) = fake_driver::fresh();
    let gpu = device(driver);
    let program = load(&gpu, PLAN).unwrap();
    program.time_device(true);
    assert_eq!(program.device_time(), None);
    for x in 0..5 {
        assert_eq!(run(&program, x), Ok(2 * x + 1));
    }
    let (counts, _) = fake_driver::counts();
    assert_eq!(counts.launches, 4, "one by one, then once for the graph");
    assert_eq!(counts.graph_launches, 4);
    assert_eq!(counts.allocations, 2, "for constants, and for runs");
    assert_eq!(counts.pinned, 2, "as for these");
    assert_eq!(counts.synchronizations, 2 + 5, "for constants, and that nothing is left; for each result");
    assert_eq!(counts.uploaded, 4 + 5 * 4, "constants once");
    assert_eq!(program.device_time(), Some(Duration::from_micros(2500)));
    assert!(program.launch_time().is_some());
    drop(program);
    assert_eq!(fake_driver::counts().1, 0, "nothing is left");
}

#[test]
fn arrays_on_the_device_stay_there() {
    let (driver, _user) = fake_driver::fresh();
    let memory = DeviceMemory::of_gpu(Gpu::of(driver, 0).unwrap());
    let DeviceMemory::Gpu(gpu) = &memory else { panic!("it is a GPU's") };
    let program = load(gpu, PLAN).unwrap();
    let x = memory.upload(&3i32.to_le_bytes()).unwrap();
    let before = memory.transferred();
    assert_eq!(before, Transferred { to_device: 4 + 4, to_host: 0 }, "a constant and the argument");
    let mut y = memory.allocate(4).unwrap();
    run_on(&program, place_of(&x), place_of(&y)).unwrap();
    // Each result is the next argument: 3, 7, 15, 31, ...; what is dropped is where the next result goes.
    for _ in 0..20 {
        let next = memory.allocate(4).unwrap();
        run_on(&program, place_of(&y), place_of(&next)).unwrap();
        y = next;
    }
    assert_eq!(memory.transferred(), before, "nothing comes or goes");
    let counts = fake_driver::counts().0;
    assert_eq!(counts.allocations, 1 + 1 + 2 + 1, "constants, the argument, two results in turns, and the arena");
    assert!(counts.graph_launches >= 15, "in two places in turns, graphs fit: {counts:?}");
    assert_eq!(number_in(&y), (3 + 1) * (1 << 21) - 1);
    assert_eq!(memory.transferred(), Transferred { to_host: 4, ..before });
    drop((program, x, y));
    memory.release_unused();
    assert_eq!(fake_driver::counts().1, 1, "the ring that arrays go through is left");
}

#[test]
fn arrays_find_the_same_places_in_whatever_order_they_were_dropped() {
    let (driver, _user) = fake_driver::fresh();
    let memory = DeviceMemory::of_gpu(Gpu::of(driver, 0).unwrap());
    let take = || -> Vec<DeviceArray> { (0..3).map(|_| memory.allocate(4).unwrap()).collect() };
    let places = |arrays: &[DeviceArray]| -> Vec<ArrayPlace> { arrays.iter().map(place_of).collect() };
    let first = take();
    let mut expected = places(&first);
    drop(first);
    expected.sort_by_key(|place| format!("{place:?}"));
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let mut arrays: Vec<Option<DeviceArray>> = take().into_iter().map(Some).collect();
        let found: Vec<ArrayPlace> = arrays.iter().flatten().map(place_of).collect();
        assert_eq!(found, expected);
        order.into_iter().for_each(|number: usize| drop(arrays[number].take()));
    }
}

#[test]
fn a_result_in_the_place_of_an_argument_is_where_both_are() {
    let (driver, _user) = fake_driver::fresh();
    let memory = DeviceMemory::of_gpu(Gpu::of(driver, 0).unwrap());
    let DeviceMemory::Gpu(gpu) = &memory else { panic!("it is a GPU's") };
    let plan = "launch increment <<<1, 1>>> ([parameter 0, 0 : 4], to [parameter 0, 0 : 4])\n";
    let sizes = BufferSizes { aliases: vec![Some(0)], ..sizes() };
    let program = GpuProgram::load(Arc::clone(gpu), CODE, plan.parse().unwrap(), sizes, &[]).unwrap();
    let (x, y) = (memory.upload(&3i32.to_le_bytes()).unwrap(), memory.allocate(4).unwrap());
    run_on(&program, place_of(&x), place_of(&y)).unwrap();
    assert_eq!((number_in(&x), number_in(&y)), (3, 4), "copied first");
    run_on(&program, place_of(&y), place_of(&y)).unwrap();
    assert_eq!(number_in(&y), 5, "given up");
    let mut result = 0i32;
    run_on(&program, place_of(&y), ArrayPlace::Host((&raw mut result) as u64)).unwrap();
    assert_eq!((number_in(&y), result), (5, 6));
    let argument = 8i32;
    run_on(&program, ArrayPlace::Host((&raw const argument) as u64), place_of(&x)).unwrap();
    assert_eq!((argument, number_in(&x)), (8, 9));
    assert_eq!(run(&program, 1), Ok(2));
}

#[test]
fn machine_code_is_loaded_where_there_is_some() {
    let (driver, _user) = fake_driver::fresh();
    let gpu = device(driver);
    let load = |gpu: &Arc<GpuMemory>, cubins: &[(String, Vec<u8>)]| {
        let before = fake_driver::loads();
        let code = KernelCode { ptx: PTX, cubins };
        let program = GpuProgram::load(Arc::clone(gpu), code, PLAN.parse().unwrap(), sizes(), &[&[]]).unwrap();
        assert_eq!(run(&program, 4), Ok(9));
        let after = fake_driver::loads();
        [after.texts - before.texts, after.links - before.links, after.cubins - before.cubins]
    };
    let cubin = |processor: &str, code: &[u8]| (processor.to_string(), code.to_vec());
    assert_eq!(load(&gpu, &[]), [1, 0, 0]);
    assert_eq!(load(&gpu, &[cubin("sm_90a", b"\x7fELF\0"), cubin("sm_80", b"\x7fELF\0")]), [0, 0, 1]);
    assert_eq!(load(&gpu, &[cubin("sm_90a", b"\x7fELF\0")]), [1, 0, 0], "for another GPU");
    assert_eq!(load(&gpu, &[cubin("sm_86", b"damaged\0")]), [1, 0, 0], "what is refused is made of PTX");
}

#[test]
fn machine_code_is_made_once_for_each_gpu_and_driver() {
    let folder = std::env::temp_dir().join(format!("halo-cubins-{}", std::process::id()));
    let loads = |lacks: Lacks| {
        let (driver, _user) = fake_driver::fresh_without(lacks);
        let gpu = Arc::new(GpuMemory::new(Gpu::of(driver, 0).unwrap().with_cubin_cache(&folder)));
        assert_eq!(run(&load(&gpu, PLAN).unwrap(), 4), Ok(9));
        let loads = fake_driver::loads();
        [loads.texts, loads.links, loads.cubins]
    };
    let all = Lacks::default();
    assert_eq!(loads(Lacks { links: true, ..all }), [1, 0, 0], "a driver that does not link compiles");
    assert_eq!(loads(all), [0, 1, 1]);
    assert_eq!(loads(all), [0, 0, 1], "from the folder");
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    std::fs::write(&files[0], b"damaged\0").unwrap();
    assert_eq!(loads(all), [0, 1, 1], "made again");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn arrays_that_nobody_uses_make_room() {
    let (driver, _user) = fake_driver::fresh();
    let memory = DeviceMemory::of_gpu(Gpu::of(driver, 0).unwrap());
    fake_driver::limit_memory(3 << 10);
    let arrays = [1 << 10, 2 << 10].map(|bytes| memory.allocate(bytes).unwrap());
    let error = memory.allocate(512).unwrap_err();
    assert_eq!(error.to_string(), "the GPU has too little memory: 512 bytes were asked for");
    drop(arrays);
    assert!(memory.allocate(3 << 10).is_ok());
}

#[test]
fn each_gpu_has_its_context() {
    let (driver, _user) = fake_driver::fresh();
    for number in [1, 0, 1] {
        let memory = DeviceMemory::of_gpu(Gpu::of(driver, number).unwrap());
        let _array = memory.upload(&[1, 2, 3]).unwrap();
        assert_eq!(fake_driver::current_context(), number as usize + 1);
    }
    let memories = [0, 0, 1].map(|number| DeviceMemory::of_gpu(Gpu::of(driver, number).unwrap()));
    assert!(memories[0].is_same(&memories[1]) && !memories[0].is_same(&memories[2]));
    assert!(!memories[0].is_same(&DeviceMemory::emulated()));
}

#[test]
fn shared_memory_is_allowed_and_given() {
    let (driver, _user) = fake_driver::fresh();
    let gpu = device(driver);
    let plan =
        |bytes: c_int| format!("launch double <<<1, 1, {bytes}>>> ([parameter 0, 0 : 4], to [output 0, 0 : 4])\n");
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

/// Drivers that have everything, that have no conditions, that refuse them, and that refuse to have steps side by side.
fn drivers() -> [Lacks; 5] {
    let all = Lacks::default();
    [
        all,
        Lacks { conditions: true, ..all },
        Lacks { conditional_nodes: true, ..all },
        Lacks { pools: true, pinned_memory: true, ..all },
        Lacks { order: true, ..all },
    ]
}

/// What a plan computes of numbers, which is the same with each driver; how often the host waits in a run of each.
fn run_everywhere(plan: &str, cases: &[(i32, i32)]) -> [usize; 5] {
    drivers().map(|lacks| {
        let (driver, _user) = fake_driver::fresh_without(lacks);
        let gpu = device(driver);
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
                while {\n  condition {\n    launch less_than_100 <<<1, 1>>> ([arena, 0 : 4], to [arena, 8 : 1])\n  }\n  \
                body if [arena, 8 : 1] {\n    launch double <<<1, 1>>> ([arena, 0 : 4], to [arena, 0 : 4])\n  }\n}\n\
                launch increment <<<1, 1>>> ([arena, 0 : 4], to [output 0, 0 : 4])\n";
    let waits = run_everywhere(plan, &[(3, 193), (100, 101), (99, 199), (1, 129)]);
    assert_eq!(waits, [1, 8, 8, 1, 8], "once; else for each condition too");
}

#[test]
fn rounds_of_a_loop_are_left_where_they_are() {
    // The state is doubled from one place to another and incremented on the way back, where the predicate is overwritten.
    let plan = "copy [parameter 0, 0 : 4] -> [arena, 0 : 4]\n\
                while {\n\
                condition {\n    launch less_than_100 <<<1, 1>>> ([arena, 0 : 4], to [arena, 8 : 1])\n  }\n\
                body if [arena, 8 : 1] {\n    launch double <<<1, 1>>> ([arena, 0 : 4], to [arena, 16 : 4])\n  }\n\
                else {\n    copy [arena, 0 : 4] -> [arena, 32 : 4]\n  }\n\
                condition {\n    launch less_than_100 <<<1, 1>>> ([arena, 16 : 4], to [arena, 8 : 1])\n  }\n\
                body if [arena, 8 : 1] {\n    launch increment <<<1, 1>>> ([arena, 16 : 4], to [arena, 0 : 4])\n    \
                copy [constant 0, 1 : 1] -> [arena, 8 : 1]\n  }\n\
                else {\n    launch increment <<<1, 1>>> ([arena, 16 : 4], to [arena, 32 : 4])\n  }\n\
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
                condition {\n    launch less_than_100 <<<1, 1>>> ([arena, 0 : 4], to [arena, 8 : 1])\n  }\n\
                body if [arena, 8 : 1] {\n\
                switch [arena, 8 : 1] {\n  branch {\n    \
                launch double <<<1, 1>>> ([arena, 0 : 4], to [arena, 0 : 4])\n  }\n  branch {\n  }\n}\n\
                repeat 2 {\n  body {\n    launch increment <<<1, 1>>> ([arena, 0 : 4], to [arena, 0 : 4])\n  }\n}\n\
                switch [parameter 0, 0 : 4] {\n  branch {\n    \
                launch increment <<<1, 1>>> ([arena, 0 : 4], to [arena, 0 : 4])\n  }\n  branch {\n  }\n  branch {\n    \
                launch double <<<1, 1>>> ([arena, 0 : 4], to [arena, 0 : 4])\n  }\n}\n\
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
    assert_eq!((waits[0], waits[3]), (1, 1));
}

#[test]
fn steps_that_do_not_meet_have_no_order() {
    // The fake driver takes what waits for nothing from the end.
    let plan = "launch double <<<1, 1>>> ([parameter 0, 0 : 4], to [arena, 0 : 4])\n\
                launch increment <<<1, 1>>> ([parameter 0, 0 : 4], to [arena, 16 : 4])\n\
                launch double <<<1, 1>>> ([arena, 16 : 4], to [arena, 32 : 4])\n\
                launch increment <<<1, 1>>> ([arena, 0 : 4], to [arena, 16 : 4])\n\
                launch increment <<<1, 1>>> ([arena, 32 : 4], to [arena, 0 : 4])\n\
                launch double <<<1, 1>>> ([arena, 16 : 4], to [output 0, 0 : 4])\n";
    run_everywhere(plan, &[(3, 14), (5, 22), (-1, -2)]);
}

#[test]
fn loops_of_known_length_are_a_part_of_a_graph() {
    let plan = "copy [parameter 0, 0 : 4] -> [arena, 0 : 4]\n\
                repeat 5 {\n\
                body {\n    launch increment <<<1, 1>>> ([arena, 0 : 4], to [arena, 16 : 4])\n  }\n\
                body {\n    launch double <<<1, 1>>> ([arena, 16 : 4], to [arena, 0 : 4])\n  }\n\
                else {\n    copy [arena, 16 : 4] -> [arena, 0 : 4]\n  }\n\
                }\n\
                copy [arena, 0 : 4] -> [output 0, 0 : 4]\n";
    // From 3: 4, 8, 9, 18, 19.
    run_everywhere(plan, &[(3, 19), (0, 7), (-1, 3)]);
    let (driver, _user) = fake_driver::fresh();
    let gpu = device(driver);
    let program = load(&gpu, plan).unwrap();
    for _ in 0..3 {
        run(&program, 3).unwrap();
    }
    assert_eq!(fake_driver::counts().0.graph_launches, 3);
}

#[test]
fn the_host_has_its_part_in_loops_of_what_no_graph_takes() {
    let plan = "copy [parameter 0, 0 : 4] -> [arena, 0 : 4]\n\
                while {\n  condition {\n    launch less_than_100 <<<1, 1>>> ([arena, 0 : 4], to [arena, 8 : 1])\n  }\n  \
                body if [arena, 8 : 1] {\n    repeat 5000 {\n  body {\n    \
                launch increment <<<1, 1>>> ([arena, 0 : 4], to [arena, 0 : 4])\n  }\n}\n  }\n}\n\
                copy [arena, 0 : 4] -> [output 0, 0 : 4]\n";
    let waits = run_everywhere(plan, &[(3, 5003), (100, 100)]);
    assert_eq!(waits, [3; 5]);
}

#[test]
fn a_kernel_that_faults_is_named() {
    let (driver, _user) = fake_driver::fresh();
    let gpu = device(driver);
    let faulty = "launch faulty <<<1, 1>>> ([parameter 0, 0 : 4], to [output 0, 0 : 4]) of [logits, largest.2]\n";
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
    assert!(matches!(Gpu::of(driver, 2), Err(Error::NoDevice { number: 2, count: 2 })));
    let gpu = device(driver);
    let sizes = BufferSizes { arena: DEVICE_BYTES + 1, ..sizes() };
    let program = GpuProgram::load(Arc::clone(&gpu), CODE, PLAN.parse().unwrap(), sizes, &[&[]]).unwrap();
    let error = run(&program, 1).unwrap_err();
    assert!(!error.is_bug());
    assert_eq!(error.to_string(), "the GPU has too little memory: 1049344 bytes were asked for");
    let refused = |ptx: &[u8]| {
        let code = KernelCode { ptx, cubins: &[] };
        let loaded = GpuProgram::load(Arc::clone(&gpu), code, LaunchPlan::default(), BufferSizes::default(), &[]);
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
    let gpu = device(driver);
    // The fake driver's descriptions begin with twice the elements of a row.
    let plan = "launch double <<<1, 1>>> (boxes [arena, 16 : 32] 2 [21, 8, 1] [16, 128] [64, 8], [output 0, 0 : 4])\n";
    let program = load(&gpu, plan).unwrap();
    for _ in 0..3 {
        assert_eq!(run(&program, 1), Ok(84));
    }
    assert_eq!(fake_driver::counts().0.described, 1);
    drop((program, gpu, _user));
    let (driver, _user) = fake_driver::fresh_without(Lacks { boxes: true, ..Lacks::default() });
    let gpu = device(driver);
    let error = load(&gpu, plan).err().unwrap();
    assert!(!error.is_bug());
    assert_eq!(
        error.to_string(),
        "the program does not run on this GPU: its kernels copy boxes of arrays, for which the driver is too old"
    );
}

//! Running cases: printed, verified and evaluated one by one, compiled together.

use std::sync::Arc;

use evaluator::Environment;
use exec::runtime::feeds::FeedArray;
use halo::Platform;
use halo::pipeline::{self, CompilePipeline};
use hlo::dialect;
use hlo::graph::Module;
use hlo::literal::{ArrayLiteral, Literal};
use lowering_affine::error::LoweringError;
use lowering_llvm::{CodeGenerationOptions, Target, nvptx, ptxas};

use super::case::{ConformanceCase, LoadedCase};
use super::difference::difference;
use super::joined::{join, member_of};
use super::report::CaseOutcome;
use super::tolerance;
use crate::emit::DEFAULT_PTX;
use crate::platform_name::PlatformName;

/// Cases that are compiled as one program.
const JOINED: usize = 48;

/// Prints each program and reads it back: both modules must be equal.
pub fn parse(cases: &[Arc<ConformanceCase>]) -> Vec<CaseOutcome> {
    each(cases, |case| {
        let module = case.load()?.module;
        let printed = hlo::text::print(&module);
        let again = hlo::text::read(&printed).map_err(|error| format!("{error:?}"))?;
        Ok(if again == module {
            CaseOutcome::Agrees
        } else {
            CaseOutcome::Fails(format!("reads as another module:\n{printed}"))
        })
    })
}

/// Verifies each program in the `hlo` dialect and brings it back: both graphs must be equal.
pub fn verify(cases: &[Arc<ConformanceCase>]) -> Vec<CaseOutcome> {
    let context = dialect::context();
    each(cases, |case| {
        let module = case.load()?.module;
        let bridged = dialect::graph_to_mlir(&context, &module)
            .and_then(|mlir| dialect::verify(&mlir).map(|()| mlir))
            .and_then(|mlir| dialect::mlir_to_graph(&mlir))
            .map_err(|error| error.to_string())?;
        Ok(if bridged == module {
            CaseOutcome::Agrees
        } else {
            CaseOutcome::Fails("comes back as another module".into())
        })
    })
}

fn each(
    cases: &[Arc<ConformanceCase>],
    run: impl Fn(&ConformanceCase) -> Result<CaseOutcome, String>,
) -> Vec<CaseOutcome> {
    cases.iter().map(|case| run(case).unwrap_or_else(CaseOutcome::Fails)).collect()
}

/// Evaluates each case.
pub fn evaluate(cases: &[Arc<ConformanceCase>]) -> Vec<CaseOutcome> {
    each(cases, evaluate_one)
}

fn evaluate_one(case: &ConformanceCase) -> Result<CaseOutcome, String> {
    let loaded = case.load()?;
    let mut environment = Environment::default();
    environment.infeed.extend(loaded.fed.iter().map(|arrays| match arrays.as_slice() {
        [array] => Literal::Array(array.clone()),
        several => Literal::Tuple(several.iter().cloned().map(Literal::Array).collect()),
    }));
    let found = match &loaded.inputs[..] {
        [inputs] => evaluator::evaluate(&loaded.module, inputs, &mut environment).map(|value| vec![value]),
        several => evaluator::evaluate_on_devices(&loaded.module, several),
    };
    let found = found.map_err(|error| error.to_string())?;
    let mut arrays: Vec<ArrayLiteral> = found.iter().flat_map(arrays_of).collect();
    arrays.extend(environment.outfeed.iter().flat_map(arrays_of));
    Ok(compare(case, &loaded, &arrays))
}

/// Compiles and runs the cases, many for the same devices in one program.
pub fn execute(cases: &[Arc<ConformanceCase>]) -> Vec<CaseOutcome> {
    execute_on(cases, &Platform::Cpu.into())
}

/// Compiles the cases for a GPU, and runs them on it: see [`gpu`].
pub fn emulate(cases: &[Arc<ConformanceCase>]) -> Vec<CaseOutcome> {
    execute_on(cases, &gpu())
}

/// As [`emulate`], with the instructions that Hopper alone has.
pub fn emulate_hopper(cases: &[Arc<ConformanceCase>]) -> Vec<CaseOutcome> {
    hopper().map_or_else(Vec::new, |name| execute_on(cases, &name))
}

/// The GPU of tests: one that the host plays, or what `HALO_GPU` names, as in `cuda`, the machine's first, or
/// `cuda-emulator:sm_90a`.
pub fn gpu() -> PlatformName<Platform> {
    let name = std::env::var("HALO_GPU").unwrap_or_default();
    let (platform, processor) = match name.split_once(':') {
        Some((platform, processor)) => (platform, Some(processor.to_string())),
        None => (name.as_str(), None),
    };
    let platform = if platform == "cuda" { Platform::Cuda } else { Platform::CudaEmulator };
    PlatformName { platform, gpu_number: None, processor }
}

/// The GPU with instructions that no other has.
const HOPPER: &str = "sm_90a";

/// That GPU, played by the host, unless `HALO_GPU` asks for something else.
pub fn hopper() -> Option<PlatformName<Platform>> {
    let is_asked = std::env::var_os("HALO_GPU").is_none();
    is_asked.then(|| PlatformName { processor: Some(HOPPER.to_string()), ..Platform::CudaEmulator.into() })
}

/// GPUs whose code goes through the assembler: the oldest one, and Hopper.
const ASSEMBLED_FOR: [&str; 2] = ["sm_80", HOPPER];

/// Compiles the cases to PTX, which NVIDIA's assembler takes where it is installed.
pub fn assemble(cases: &[Arc<ConformanceCase>]) -> Vec<CaseOutcome> {
    cases.chunks(JOINED).flat_map(assemble_together).collect()
}

fn assemble_together(cases: &[Arc<ConformanceCase>]) -> Vec<CaseOutcome> {
    let loaded: Result<Vec<LoadedCase>, String> = cases.iter().map(|case| case.load()).collect();
    let assembled = loaded.and_then(|loaded| {
        let joined = join(loaded.iter().map(|case| &case.module));
        ASSEMBLED_FOR.iter().try_for_each(|gpu| {
            let ptx = ptx_of(&joined, gpu).map_err(|error| error.to_string())?;
            if let Some(slow) =
                ["\t.local", "ld.local", "st.local", ".extern .func"].iter().find(|word| ptx.contains(**word))
            {
                return Err(format!("a kernel for {gpu} has `{}`", slow.trim()));
            }
            // Without the assembler it is still known that the kernels call nothing that a GPU lacks.
            ptxas::assemble(&ptx, gpu).map(|_| ()).map_err(|error| format!("{gpu}: {error}"))
        })
    });
    match assembled {
        Ok(()) => vec![CaseOutcome::Agrees; cases.len()],
        Err(message) if cases.len() == 1 => vec![CaseOutcome::Fails(message)],
        Err(_) => cases.chunks(1).flat_map(assemble_together).collect(),
    }
}

/// The kernels of a program for a GPU.
fn ptx_of(module: &Module, gpu: &str) -> Result<String, halo::Error> {
    let context = dialect::context();
    let program = pipeline::import(&context, module)?;
    pipeline::run(&program, &CompilePipeline::cuda(gpu, &halo::CompileOptions::default()).text(), false)?;
    Ok(nvptx::generate(&program, &Target::nvptx(gpu, DEFAULT_PTX), CodeGenerationOptions::default())?.text)
}

fn execute_on(cases: &[Arc<ConformanceCase>], platform: &PlatformName<Platform>) -> Vec<CaseOutcome> {
    // As long as there is one client, those of the cases share what it takes long to set up of a GPU.
    let _first = halo::Client::with_options(client_options(platform, 1));
    let size = if cases.iter().any(|case| case.has_queues()) { 1 } else { JOINED };
    let of_same_devices = cases.chunk_by(|case, next| case.devices == next.devices);
    of_same_devices.flat_map(|cases| cases.chunks(size)).flat_map(|cases| execute_together(cases, platform)).collect()
}

fn client_options(platform: &PlatformName<Platform>, devices: usize) -> halo::ClientOptions {
    let gpu_processor = platform.processor.clone();
    halo::ClientOptions { platform: platform.platform, gpu_processor, threads: 1, devices, ..Default::default() }
}

fn execute_together(cases: &[Arc<ConformanceCase>], platform: &PlatformName<Platform>) -> Vec<CaseOutcome> {
    let mut outcomes: Vec<Option<CaseOutcome>> = vec![None; cases.len()];
    let mut loaded: Vec<(usize, LoadedCase)> = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        match case.load() {
            Ok(case) => loaded.push((number, case)),
            Err(message) => outcomes[number] = Some(CaseOutcome::Fails(message)),
        }
    }
    while !loaded.is_empty() {
        let joined = join(loaded.iter().map(|(_, case)| &case.module));
        let devices = loaded[0].1.inputs.len();
        let of_device = |device: usize| loaded.iter().flat_map(|(_, case)| &case.inputs[device]).cloned().collect();
        let inputs: Vec<Vec<Literal>> = (0..devices).map(of_device).collect();
        let fed = loaded.iter().flat_map(|(_, case)| &case.fed);
        let (outcome, at_fault) = match compile_and_run(&joined, &inputs, fed, platform) {
            Ok((results, written)) => {
                for (place, (number, case)) in loaded.iter().enumerate() {
                    let mut found: Vec<ArrayLiteral> =
                        results.iter().filter_map(|device| device.get(place)).flat_map(arrays_of).collect();
                    found.extend(
                        case.written
                            .iter()
                            .zip(&written)
                            .filter_map(|(shape, bytes)| ArrayLiteral::from_bytes(shape.shape().clone(), bytes).ok()),
                    );
                    outcomes[*number] = Some(compare(&cases[*number], case, &found));
                }
                break;
            }
            Err(failure) => failure,
        };
        // Without the case at fault, the others run; if it is not known, each is tried alone.
        match at_fault.filter(|&member| member < loaded.len()) {
            Some(member) => outcomes[loaded.remove(member).0] = Some(outcome),
            None if loaded.len() == 1 => outcomes[loaded.remove(0).0] = Some(outcome),
            None => {
                for (number, _) in loaded.drain(..) {
                    outcomes[number] = execute_together(&cases[number..=number], platform).pop();
                }
            }
        }
    }
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| CaseOutcome::Fails("it did not run".into()))).collect()
}

/// Results of a joined program on each device, one for each member, and the bytes of the arrays that it wrote to its
/// `outfeed`.
type Ran = (Vec<Vec<Literal>>, Vec<Vec<u8>>);

/// Runs a joined program; otherwise what went wrong, and in which member if that is known.
fn compile_and_run<'f>(
    module: &Module,
    inputs: &[Vec<Literal>],
    fed: impl Iterator<Item = &'f Vec<ArrayLiteral>>,
    platform: &PlatformName<Platform>,
) -> Result<Ran, (CaseOutcome, Option<usize>)> {
    let failed = |error: halo::Error| {
        let member = match &error {
            halo::Error::Lowering(LoweringError::Unsupported { instruction, .. }) => member_of(instruction),
            _ => None,
        };
        let text = error.to_string();
        (if error.is_unsupported() { CaseOutcome::Unsupported(text) } else { CaseOutcome::Fails(text) }, member)
    };
    let executable = halo::Client::with_options(client_options(platform, inputs.len()))
        .and_then(|client| client.compile(module, &halo::CompileOptions::default()))
        .map_err(failed)?;
    let feeds = &executable.state().feeds;
    for arrays in fed {
        let arrays = arrays.iter().map(|array| FeedArray {
            element_type: array.element_type().primitive_type(),
            dimensions: array.shape().dimensions.clone(),
            bytes: array.bytes().to_vec(),
        });
        feeds.infeed.push(arrays.collect());
    }
    let results = match inputs {
        [inputs] => executable.execute(inputs).map(|result| vec![result]),
        several => executable.execute_on(several),
    };
    let results = results.map_err(failed)?;
    let mut written = Vec::new();
    while let Some(value) = feeds.outfeed.try_pop() {
        written.extend(value.into_iter().map(|array| array.bytes));
    }
    let tuple = |result| match result {
        Literal::Tuple(results) => Ok(results),
        _ => Err((CaseOutcome::Fails("the joined program gave no tuple".into()), None)),
    };
    Ok((results.into_iter().map(tuple).collect::<Result<_, _>>()?, written))
}

/// The arrays of a value, in order.
fn arrays_of(value: &Literal) -> Vec<ArrayLiteral> {
    value.leaves().into_iter().filter_map(Literal::as_array).cloned().collect()
}

/// Compares the results of a case, and what it wrote, with what is expected.
fn compare(case: &ConformanceCase, loaded: &LoadedCase, found: &[ArrayLiteral]) -> CaseOutcome {
    let expected: Vec<&ArrayLiteral> = loaded.results.iter().chain(&loaded.written).collect();
    if found.len() != expected.len() {
        return CaseOutcome::Fails(format!("expected {} arrays, got {}", expected.len(), found.len()));
    }
    let mut differences = found.iter().zip(expected).filter_map(|(found, expected)| {
        let measure = tolerance::measure(case.op, case.element_type);
        difference(found, expected, measure, tolerance::flushes_denormals(case.source))
    });
    differences.next().map_or(CaseOutcome::Agrees, CaseOutcome::Fails)
}

//! Real programs: they cross the bridge without loss, and the passes keep what they compute.
//!
//! Besides `test-files/models`, the folders in `HALO_MODELS` (separated by colons) are read; `HALO_EVALUATE=1`
//! evaluates their programs too, which may take long.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use evaluator::{EvalError, evaluate_on_devices};
use hlo::aliases::aliased_parameters;
use hlo::dialect::{self, PrintOptions, graph_to_mlir, mlir_to_graph};
use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::Module;
use hlo::literal::{ArrayLiteral, Literal};
use hlo::shape::{ArrayShape, Shape};
use passes::assign_buffers::{assign_buffers, read_assignment};
use passes::fuse::Rows;
use passes::pipeline;

fn programs() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../test-files/models");
    let more = std::env::var("HALO_MODELS").unwrap_or_default();
    let folders = std::iter::once(own).chain(more.split(':').filter(|folder| !folder.is_empty()).map(PathBuf::from));
    let mut files: Vec<PathBuf> = folders
        .flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .collect();
    files.retain(|path| path.to_string_lossy().ends_with(".hlo") || path.to_string_lossy().ends_with(".hlo.gz"));
    files.sort();
    files
}

fn read(path: &Path) -> Module {
    let bytes = std::fs::read(path).unwrap();
    let mut text = String::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
    } else {
        text = String::from_utf8(bytes).unwrap();
    }
    hlo::text::read(&text).unwrap_or_else(|errors| panic!("{}: {errors}", path.display()))
}

#[test]
fn real_programs_cross_the_bridge_without_loss() {
    for path in programs() {
        let graph = read(&path);
        let context = dialect::context();
        let start = Instant::now();
        let module = graph_to_mlir(&context, &graph).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let built = start.elapsed();
        dialect::verify(&module).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let verified = start.elapsed();
        let back = mlir_to_graph(&module).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let read = start.elapsed();
        let count: usize = graph.functions.iter().map(|function| function.instructions.len()).sum();
        println!(
            "{}: {count} instructions in functions, build {built:?}, verify {:?}, back {:?}",
            path.display(),
            verified - built,
            read - verified
        );
        assert!(back.name == graph.name && back.annotations == graph.annotations, "{}", path.display());
        assert!(back.sources == graph.sources && back.entry_layout == graph.entry_layout, "{}", path.display());
        for (before, after) in graph.functions.iter().zip(&back.functions) {
            for (before, after) in before.instructions.iter().zip(&after.instructions) {
                assert_eq!(before, after, "{}", path.display());
            }
        }
        assert!(back == graph, "{}", path.display());
        let text = dialect::print(&module, PrintOptions { locations: true, ..PrintOptions::default() });
        let context = dialect::context();
        let parsed = dialect::parse(&context, &text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(mlir_to_graph(&parsed).unwrap() == graph, "{}: over text", path.display());
    }
}

/// Values between 0 and 1 (integers: 0 to 3) from a counter.
fn argument(shape: &Shape, seed: &mut u64) -> Literal {
    match shape {
        Shape::Array(array) => Literal::Array(argument_array(array, seed)),
        Shape::Tuple(elements) => Literal::Tuple(elements.iter().map(|shape| argument(shape, seed)).collect()),
        Shape::Token | Shape::Opaque => Literal::Token,
    }
}

fn argument_array(shape: &ArrayShape, seed: &mut u64) -> ArrayLiteral {
    let mut next = || {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*seed >> 40) as f64 / (1u64 << 24) as f64
    };
    let element = shape.element_type;
    let count = shape.element_count() as usize;
    let mut bytes = Vec::with_capacity(shape.byte_size());
    for _ in 0..count {
        match element {
            ElementType::F64 => bytes.extend(next().to_ne_bytes()),
            ElementType::F32 => bytes.extend((next() as f32).to_ne_bytes()),
            ElementType::C64 => bytes.extend([next() as f32, next() as f32].iter().flat_map(|part| part.to_ne_bytes())),
            ElementType::C128 => bytes.extend([next(), next()].iter().flat_map(|part| part.to_ne_bytes())),
            ElementType::BF16 => bytes.extend(((next() as f32).to_bits() >> 16).to_le_bytes()[..2].iter()),
            _ if element.class() == ElementClass::Float => bytes.resize(bytes.len() + element.byte_width(), 0),
            ElementType::Pred => bytes.push(u8::from(next() < 0.5)),
            _ => bytes.extend(&((next() * 4.0) as u64).to_le_bytes()[..element.byte_width()]),
        }
    }
    ArrayLiteral::from_bytes(shape.clone(), &bytes).unwrap()
}

#[test]
fn passes_keep_what_programs_compute() {
    let evaluates_all = std::env::var_os("HALO_EVALUATE").is_some();
    for path in programs() {
        let graph = read(&path);
        let passes = pipeline::parse("hlo-inline-calls,hlo-canonicalize,cse,hlo-canonicalize,hlo-dce");
        let start = Instant::now();
        let context = dialect::context();
        let module = graph_to_mlir(&context, &graph).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let run = pipeline::run(&module, &passes, true).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let after = mlir_to_graph(&module).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let lines: Vec<String> =
            run.reports.iter().map(|report| format!("\n  {}: {}", report.pass, report.statistics)).collect();
        let report = lines.concat();
        after.check().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        println!("{}: {:?}{report}", path.display(), start.elapsed());
        if !evaluates_all && !path.to_string_lossy().contains("test-files") {
            continue;
        }
        let mut seed = 1;
        let parameters = graph.entry().program_shape().parameters;
        let arguments: Vec<Literal> = parameters.iter().map(|shape| argument(shape, &mut seed)).collect();
        let before = evaluate_everywhere(&graph, &arguments);
        let after = evaluate_everywhere(&after, &arguments);
        match (before, after) {
            (Ok(before), Ok(after)) => {
                assert!(before.iter().zip(&after).all(|(a, b)| same_bits(a, b)), "{}", path.display())
            }
            (before, after) => panic!("{}: {:?} became {:?}", path.display(), before.err(), after.err()),
        }
    }
}

/// The results on each of a program's devices, all with the same arguments.
fn evaluate_everywhere(module: &Module, arguments: &[Literal]) -> Result<Vec<Literal>, EvalError> {
    let count = hlo::devices::DeviceCount::of(module).total() as usize;
    evaluate_on_devices(module, &vec![arguments.to_vec(); count])
}

fn same_bits(a: &Literal, b: &Literal) -> bool {
    let (a, b) = (a.leaves(), b.leaves());
    let bytes = |literal: &Literal| literal.as_array().map(|array| array.bytes().to_vec());
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| bytes(a) == bytes(b))
}

#[test]
fn buffer_assignments_are_read_back_from_text() {
    for path in programs() {
        let context = dialect::context();
        let module = graph_to_mlir(&context, &read(&path)).unwrap();
        let pipeline = pipeline::parse(&format!("{},hlo-fuse,hlo-assign-buffers", pipeline::HLO));
        pipeline::run(&module, &pipeline, false).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let function = dialect::entry_function(module.as_operation()).unwrap();
        let (computation, assignment) = read_assignment(function).unwrap();
        let aliases = dialect::input_output_aliases(module.as_operation()).unwrap();
        let aliases = aliased_parameters(&aliases, &computation.program_shape()).unwrap();
        assert!(
            assignment == assign_buffers(&computation, &aliases, &|body| Rows::of(&context, body), false),
            "{}",
            path.display()
        );
        let text = dialect::print(&module, PrintOptions::default());
        let context = dialect::context();
        let parsed = dialect::parse(&context, &text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (_, read) = read_assignment(dialect::entry_function(parsed.as_operation()).unwrap()).unwrap();
        assert!(read == assignment, "{}", path.display());
    }
}

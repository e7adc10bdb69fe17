//! graph → MLIR → graph is the identity, also across text; what is not HLO is an error.

use hlo::attributes::{
    AttributeValue, ConvolutionDimensions, PaddingDimension, ReplicaGroups, SliceDimension, WindowDimension,
};
use hlo::dialect::{self, DialectError, PrintOptions, graph_to_mlir, mlir_to_graph};
use hlo::element_type::ElementType;
use hlo::graph::{
    Computation, FileLocation, FunctionId, InputOutputAlias, Instruction, InstructionId, Module, SourceTables,
    StackFrame, TextPosition,
};
use hlo::literal::{ArrayLiteral, Literal};
use hlo::op_kind::OpKind;
use hlo::ops;
use hlo::shape::{ArrayShape, Layout, ProgramShape, Shape, UNBOUNDED};
use melior::ir::operation::OperationLike;

/// Appends instructions to a computation.
struct Builder {
    computation: Computation,
    prefix: String,
}

impl Builder {
    fn new(name: &str) -> Self {
        let computation = Computation {
            name: name.to_string(),
            instructions: Vec::new(),
            parameters: Vec::new(),
            root: InstructionId(0),
            annotations: Vec::new(),
        };
        Builder { computation, prefix: name.to_string() }
    }

    fn push(&mut self, kind: OpKind, shape: Shape, operands: &[InstructionId]) -> InstructionId {
        let id = InstructionId(self.computation.instructions.len() as u32);
        let name = format!("{}.{kind}.{}", self.prefix, id.0);
        self.computation.instructions.push(Instruction::new(name, kind, shape, operands));
        self.computation.root = id;
        id
    }

    fn parameter(&mut self, shape: Shape) -> InstructionId {
        let id = self.push(OpKind::Parameter, shape, &[]);
        let number = self.computation.parameters.len() as i64;
        self.last().attributes.set("parameter_number", AttributeValue::Int(number));
        self.computation.parameters.push(id);
        id
    }

    fn constant(&mut self, literal: Literal) -> InstructionId {
        let id = self.push(OpKind::Constant, literal.shape(), &[]);
        self.last().attributes.set("value", AttributeValue::Literal(literal));
        id
    }

    fn last(&mut self) -> &mut Instruction {
        self.computation.instructions.last_mut().unwrap()
    }

    fn finish(self) -> Computation {
        self.computation
    }
}

fn module(functions: Vec<Computation>) -> Module {
    let entry = FunctionId(functions.len() as u32 - 1);
    Module {
        name: "test".into(),
        annotations: Vec::new(),
        entry_layout: None,
        input_output_aliases: Vec::new(),
        sources: SourceTables::default(),
        functions,
        entry,
    }
}

fn f32s(dimensions: &[i64]) -> Shape {
    Shape::array(ElementType::F32, dimensions)
}

fn scalar_computation(name: &str, kind: OpKind) -> Computation {
    let mut builder = Builder::new(name);
    let a = builder.parameter(f32s(&[]));
    let b = builder.parameter(f32s(&[]));
    builder.push(kind, f32s(&[]), &[a, b]);
    builder.finish()
}

/// Converts there and back, directly and over text with debug information.
fn assert_round_trip(graph: &Module) -> String {
    let context = dialect::context();
    let mlir = graph_to_mlir(&context, graph).unwrap();
    dialect::verify(&mlir).unwrap();
    let back = mlir_to_graph(&mlir).unwrap();
    assert_eq!(*graph, back);
    let options = PrintOptions { locations: true, ..PrintOptions::default() };
    let text = dialect::print(&mlir, options);
    let context = dialect::context();
    let parsed = dialect::parse(&context, &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(*graph == mlir_to_graph(&parsed).unwrap(), "{text}");
    let printed = dialect::print(&parsed, options);
    let difference = text.lines().zip(printed.lines()).find(|(before, after)| before != after);
    assert_eq!(difference, None);
    dialect::print(&mlir, PrintOptions { names: true, ..PrintOptions::default() })
}

#[test]
fn a_loop_with_a_reduction_round_trips() {
    let state = Shape::Tuple(vec![Shape::scalar(ElementType::S32), f32s(&[4])]);
    let element = |builder: &mut Builder, tuple, index: i64, shape| {
        let id = builder.push(OpKind::GetTupleElement, shape, &[tuple]);
        builder.last().attributes.set("index", AttributeValue::Int(index));
        id
    };
    let mut condition = Builder::new("condition");
    let parameter = condition.parameter(state.clone());
    let counter = element(&mut condition, parameter, 0, Shape::scalar(ElementType::S32));
    let limit = condition.constant(Literal::scalar(10i32));
    condition.push(OpKind::Compare, Shape::scalar(ElementType::Pred), &[counter, limit]);
    condition.last().attributes.set("direction", AttributeValue::Word("LT".into()));

    let mut body = Builder::new("body");
    let parameter = body.parameter(state.clone());
    let counter = element(&mut body, parameter, 0, Shape::scalar(ElementType::S32));
    let values = element(&mut body, parameter, 1, f32s(&[4]));
    let one = body.constant(Literal::scalar(1i32));
    let counter = body.push(OpKind::Add, Shape::scalar(ElementType::S32), &[counter, one]);
    let values = body.push(OpKind::Multiply, f32s(&[4]), &[values, values]);
    body.push(OpKind::Tuple, state.clone(), &[counter, values]);

    let mut main = Builder::new("entry.1");
    let zero = main.constant(Literal::scalar(0i32));
    let values = main.parameter(f32s(&[4]));
    main.last().annotations.push(("sharding".into(), "{replicated}".into()));
    let init = main.push(OpKind::Tuple, state.clone(), &[zero, values]);
    let end = main.push(OpKind::While, state, &[init]);
    main.last().computations = vec![condition.finish(), body.finish()];
    main.last().annotations =
        vec![("metadata".into(), "{op_name=\"loop\" source_file=\"a \\\"b\\\".py\" source_line=3}".into())];
    main.last().position = Some(TextPosition { line: 7, column: 3 });
    let values = element(&mut main, end, 1, f32s(&[4]));
    let zero = main.constant(Literal::scalar(0f32));
    main.push(OpKind::Reduce, f32s(&[]), &[values, zero]);
    main.last().attributes.set("dimensions", AttributeValue::Ints(vec![0]));
    main.last().computations = vec![scalar_computation("sum", OpKind::Add)];
    let text = assert_round_trip(&module(vec![main.finish()]));
    assert!(text.contains("hlo.while"), "{text}");
}

#[test]
fn an_error_carries_rule_and_name() {
    let mut main = Builder::new("e");
    let a = main.parameter(f32s(&[4]));
    let b = main.parameter(f32s(&[5]));
    main.push(OpKind::Add, f32s(&[4]), &[a, b]);
    main.last().position = Some(TextPosition { line: 3, column: 5 });
    let context = dialect::context();
    let mlir = graph_to_mlir(&context, &module(vec![main.finish()])).unwrap();
    let DialectError::Diagnostics(diagnostics) = dialect::verify(&mlir).unwrap_err() else { panic!() };
    assert_eq!(diagnostics.len(), 1);
    assert!(diagnostics[0].location.contains("e.add.2") && diagnostics[0].location.contains(":3:5"), "{diagnostics:?}");
    assert!(diagnostics[0].message.contains("[add"), "{diagnostics:?}");
}

#[test]
fn literals_of_every_element_type_round_trip() {
    let mut main = Builder::new("main");
    let mut elements = Vec::new();
    for element_type in ElementType::all() {
        for dimensions in [vec![], vec![3], vec![2, 9], vec![0, 4], vec![2, 2500]] {
            for splat in [false, true] {
                let shape = ArrayShape::new(element_type, dimensions.clone());
                let width = element_type.byte_width();
                // One bit in each element: a value of every type, 0 or 1 for pred and 2-bit types.
                let byte = |position: usize| {
                    u8::from(position.is_multiple_of(width) && (splat || !(position / width).is_multiple_of(3)))
                };
                let bytes: Vec<u8> = (0..shape.byte_size()).map(byte).collect();
                elements.push(main.constant(ArrayLiteral::from_bytes(shape, &bytes).unwrap().into()));
            }
        }
    }
    let tuple = Literal::Tuple(vec![Literal::scalar(1f32), Literal::Tuple(vec![]), Literal::pred(true)]);
    elements.push(main.constant(tuple));
    elements.push(main.constant(Literal::Elided(ArrayShape::new(ElementType::F32, [1024]))));
    elements.push(main.constant(Literal::Token));
    let shapes = elements.iter().map(|id| main.computation.get(*id).shape.clone()).collect();
    main.push(OpKind::Tuple, Shape::Tuple(shapes), &elements);
    let text = assert_round_trip(&module(vec![main.finish()]));
    assert!(text.contains("dense<true> : tensor<2x9xi1>") && text.contains("__elided__"), "{text}");
}

#[test]
fn negative_numbers_of_few_bits_round_trip() {
    let mut main = Builder::new("main");
    let mut constant = |element_type, numbers: &[i8]| {
        let shape = ArrayShape::new(element_type, [numbers.len() as i64]);
        let bytes: Vec<u8> = numbers.iter().map(|&number| number as u8).collect();
        main.constant(ArrayLiteral::from_bytes(shape, &bytes).unwrap().into());
    };
    constant(ElementType::S2, &[-1, -1, -1]);
    constant(ElementType::S2, &[-2, -1, 0, 1]);
    constant(ElementType::S4, &[-1, -1]);
    constant(ElementType::S4, &[-8, -1, 0, 7]);
    assert_round_trip(&module(vec![main.finish()]));
}

#[test]
fn large_literals_are_shared() {
    for element_type in [ElementType::F32, ElementType::Pred] {
        let shape = ArrayShape::new(element_type, [5000]);
        let bytes: Vec<u8> = (0..shape.byte_size()).map(|position| u8::from(position % 3 == 0)).collect();
        let literal = ArrayLiteral::from_bytes(shape, &bytes).unwrap();
        let mut main = Builder::new("main");
        main.constant(literal.clone().into());
        let graph = module(vec![main.finish()]);
        let context = dialect::context();
        let mlir = graph_to_mlir(&context, &graph).unwrap();
        let back = mlir_to_graph(&mlir).unwrap();
        let value = back.entry().root().literal().and_then(Literal::as_array).unwrap();
        assert_eq!(value.bytes().as_ptr(), literal.bytes().as_ptr());
        assert!(dialect::print(&mlir, PrintOptions::default()).contains("dense_resource<constant>"));
    }
}

#[test]
fn layouts_and_bounds_round_trip() {
    let array = |dimensions: &[i64], dynamic: &[bool], layout: Option<(&[i64], &str)>| {
        Shape::Array(ArrayShape {
            element_type: ElementType::F32,
            dimensions: dimensions.to_vec(),
            dynamic: dynamic.to_vec(),
            layout: layout.map(|(order, extras)| Layout { minor_to_major: order.to_vec(), extras: extras.into() }),
        })
    };
    let shapes = [
        array(&[2, 3], &[], None),
        array(&[2, 3], &[], Some((&[1, 0], ""))),
        array(&[2, 3], &[], Some((&[0, 1], ""))),
        array(&[2, 3], &[], Some((&[1, 0], "T(8,128)S(1)"))),
        array(&[2, 3], &[true, false], Some((&[1, 0], ""))),
        array(&[UNBOUNDED, 3], &[true, false], None),
        array(&[UNBOUNDED, 3, 5], &[true, false, true], None),
        array(&[], &[], Some((&[], ""))),
        array(&[], &[], None),
        Shape::Tuple(vec![Shape::Token, Shape::Opaque, array(&[1], &[], Some((&[0], "")))]),
    ];
    // With and without an array that makes row-major the module's default.
    for shapes in [&shapes[..], &[shapes[0].clone(), shapes[5].clone(), shapes[8].clone()]] {
        let mut main = Builder::new("main");
        let ids: Vec<InstructionId> = shapes.iter().map(|shape| main.parameter(shape.clone())).collect();
        main.push(OpKind::Tuple, Shape::Tuple(shapes.to_vec()), &ids);
        let mut graph = module(vec![main.finish()]);
        graph.entry_layout = Some(ProgramShape { parameters: shapes.to_vec(), result: shapes[0].clone() });
        assert_round_trip(&graph);
    }
}

#[test]
fn module_facts_round_trip() {
    let mut callee = Builder::new("main");
    let a = callee.parameter(f32s(&[]));
    callee.push(OpKind::Negate, f32s(&[]), &[a]);
    let mut callee = callee.finish();
    callee.annotations.push(("execution_thread".into(), "\"host\"".into()));
    let mut main = Builder::new("ENTRY odd name");
    let negated = main.constant(Literal::scalar(1f32));
    let b = main.parameter(f32s(&[]));
    let a = main.push(OpKind::Call, f32s(&[]), &[b]);
    main.last().callee = Some(FunctionId(0));
    main.last().annotations = vec![
        ("zzz".into(), "1".into()),
        ("metadata".into(), "{}".into()),
        ("backend_config".into(), "{\"a\":1}".into()),
    ];
    main.push(OpKind::Add, f32s(&[]), &[a, negated]);
    main.last().annotations = vec![("metadata".into(), "{stack_frame_id=1}".into())];
    // The root need not be the last instruction.
    main.push(OpKind::Negate, f32s(&[]), &[a]);
    main.computation.root = a;
    let mut graph = module(vec![callee, main.finish()]);
    graph.name = "jit_f \"x\"".into();
    graph.annotations =
        vec![("is_scheduled".into(), "true".into()), ("alias_passthrough_params".into(), "true".into())];
    graph.input_output_aliases.push(InputOutputAlias {
        output_index: vec![],
        parameter: 0,
        parameter_index: vec![1],
        must_alias: true,
    });
    graph.sources = SourceTables {
        file_names: vec!["/x/y.py".into()],
        function_names: vec!["f".into()],
        file_locations: vec![FileLocation {
            file_name: 1,
            function_name: 1,
            line: 4,
            end_line: 4,
            column: 2,
            end_column: 9,
        }],
        stack_frames: vec![StackFrame { file_location: 1, parent: 0 }],
        present: true,
    };
    let text = assert_round_trip(&graph);
    assert!(text.contains("func.func private @main.1") && text.contains("hlo.call @main.1(%"), "{text}");
}

#[test]
fn structured_attributes_round_trip() {
    let mut main = Builder::new("main");
    let a = main.parameter(f32s(&[4, 6]));
    main.push(OpKind::Slice, f32s(&[2, 6]), &[a]);
    main.last().attributes.set(
        "slice",
        AttributeValue::Slice(vec![
            SliceDimension { start: 0, limit: 4, stride: 2 },
            SliceDimension { start: 0, limit: 6, stride: 1 },
        ]),
    );
    let zero = main.constant(Literal::scalar(0f32));
    main.push(OpKind::Pad, f32s(&[9, 5]), &[a, zero]);
    main.last().attributes.set(
        "padding",
        AttributeValue::Padding(vec![
            PaddingDimension { low: 1, high: 1, interior: 1 },
            PaddingDimension { low: -1, high: 0, interior: 0 },
        ]),
    );
    let image = main.parameter(f32s(&[1, 8, 8, 3]));
    let kernel = main.parameter(f32s(&[3, 3, 3, 16]));
    main.push(OpKind::Convolution, f32s(&[1, 4, 8, 16]), &[image, kernel]);
    let one = WindowDimension { padding_low: 1, padding_high: 1, ..WindowDimension::new(3) };
    main.last().attributes.set(
        "window",
        AttributeValue::Window(vec![WindowDimension { stride: 2, ..one }, WindowDimension { reversal: true, ..one }]),
    );
    main.last().attributes.set(
        "dim_labels",
        AttributeValue::ConvolutionDimensions(ConvolutionDimensions {
            input_batch: 0,
            input_feature: 3,
            input_spatial: vec![1, 2],
            kernel_input_feature: 2,
            kernel_output_feature: 3,
            kernel_spatial: vec![0, 1],
            output_batch: 0,
            output_feature: 3,
            output_spatial: vec![1, 2],
        }),
    );
    main.last().attributes.set("operand_precision", AttributeValue::Words(vec!["highest".into(), "default".into()]));
    let iota = ReplicaGroups::Iota { dimensions: vec![2, 1], reshape: vec![2], transpose: vec![] };
    for groups in [ReplicaGroups::Explicit(vec![vec![0, 1], vec![2, 3]]), ReplicaGroups::Explicit(vec![]), iota] {
        main.push(OpKind::AllReduce, f32s(&[4, 6]), &[a]);
        main.last().attributes.set("replica_groups", AttributeValue::ReplicaGroups(groups));
        main.last().computations = vec![scalar_computation("sum", OpKind::Add)];
    }
    main.push(OpKind::CustomCall, f32s(&[]), &[a]);
    let attributes = &mut main.last().attributes;
    attributes.set("custom_call_target", AttributeValue::String("f \"q\" \u{e9}\n".into()));
    attributes.set("operand_layout_constraints", AttributeValue::Shapes(vec![f32s(&[4, 6])]));
    attributes.set("custom_call_has_side_effect", AttributeValue::Bool(true));
    assert_round_trip(&module(vec![main.finish()]));
}

#[test]
fn names_are_made_up_where_there_are_none() {
    let mut main = Builder::new("main");
    let a = main.parameter(f32s(&[2]));
    let b = main.push(OpKind::Negate, f32s(&[2]), &[a]);
    main.push(OpKind::Add, f32s(&[2]), &[b, b]);
    let graph = module(vec![main.finish()]);
    let context = dialect::context();
    let text = graph_to_mlir(&context, &graph).unwrap().as_operation().to_string();
    let back = mlir_to_graph(&dialect::parse(&context, &text).unwrap()).unwrap();
    back.check().unwrap();
    let names: Vec<&str> = back.entry().instructions.iter().map(|instruction| instruction.name.as_str()).collect();
    assert_eq!(names, ["parameter.0", "negate.1", "add.2"]);
}

#[test]
fn every_operation_and_attribute_is_declared_in_ods() {
    let context = dialect::context();
    let mut missing = Vec::new();
    for &kind in OpKind::ALL {
        let declared = context.is_registered_operation(kind.mlir_name());
        assert_eq!(declared, kind != OpKind::Parameter, "{kind}");
        if kind == OpKind::Parameter {
            continue;
        }
        let operation =
            melior::ir::operation::OperationBuilder::new(kind.mlir_name(), melior::ir::Location::unknown(&context))
                .build()
                .unwrap();
        for spec in ops::definition(kind).attributes.specs {
            if !operation.has_inherent_attribute(spec.name) {
                missing.push(format!("{kind}: {} {:?}", spec.name, spec.form));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn what_is_not_hlo_is_an_error() {
    let context = dialect::context();
    for (text, message) in [
        ("module {}", "no function `@main`"),
        ("func.func @main(%a: i32) -> i32 { return %a : i32 }", "`i32` is not a type"),
        ("func.func @main(%a: tensor<2xindex>) -> tensor<2xindex> { return %a : tensor<2xindex> }", "is not a type"),
        ("func.func @main(%a: tensor<f32>) { return }", "must end in `func.return`"),
        ("func.func private @main(%a: tensor<f32>) -> tensor<f32>", "exactly one block"),
        (
            "func.func @main(%a: tensor<f32>) -> tensor<f32> { cf.br ^b  ^b: return %a : tensor<f32> }",
            "exactly one block",
        ),
        (
            "func.func @main(%a: tensor<f32>) -> tensor<f32> { %0 = arith.addf %a, %a : tensor<f32> return %0 : tensor<f32> }",
            "`arith.addf` is not an HLO operation",
        ),
        (
            "func.func @main(%a: tensor<f32>) -> tensor<f32> {
               %0 = hlo.call @main(%a) : (tensor<f32>) -> tensor<f32> return %0 : tensor<f32> }",
            "calls itself",
        ),
        (
            "func.func @main(%a: tensor<4611686018427387904x8xf32>) -> tensor<4611686018427387904x8xf32> {
               return %a : tensor<4611686018427387904x8xf32> }",
            "does not fit 63 bits",
        ),
        (
            "func.func @main(%a: tensor<2xf32, #hlo.layout<minor_to_major = [1]>>)
               -> tensor<2xf32, #hlo.layout<minor_to_major = [1]>> {
               return %a : tensor<2xf32, #hlo.layout<minor_to_major = [1]>> }",
            "the layout of",
        ),
        ("hlo.return %a : tensor<f32>", "use of undeclared SSA value"),
        ("module { \0 }", "NUL"),
        (
            "func.func @main() -> tensor<f32> { %0 = hlo.constant 3 : i32 -> tensor<f32> return %0 : tensor<f32> }",
            "is not an elements attribute",
        ),
        (
            "func.func @main() -> tensor<2xf32> {
               %0 = hlo.constant sparse<[[0]], [1.0]> : tensor<2xf32> -> tensor<2xf32> return %0 : tensor<2xf32> }",
            "neither dense nor a resource",
        ),
        (
            "func.func @main(%a: tensor<f32>) -> tensor<f32> {
               %0 = hlo.reduce %a : (tensor<f32>) -> tensor<f32> { ^b: } return %0 : tensor<f32> }",
            "",
        ),
        (
            "func.func @main(%a: tensor<f32>) -> tensor<f32> {
               %0 = \"hlo.while\"(%a) : (tensor<f32>) -> tensor<f32> return %0 : tensor<f32> }",
            "",
        ),
    ] {
        let error = dialect::parse(&context, text).and_then(|module| mlir_to_graph(&module)).unwrap_err();
        assert!(error.to_string().contains(message), "{text}\n{error}");
    }
}

#[test]
fn long_chains_are_linear() {
    let mut main = Builder::new("main");
    let mut last = main.parameter(f32s(&[8]));
    for _ in 0..100_000 {
        last = main.push(OpKind::Negate, f32s(&[8]), &[last]);
    }
    let graph = module(vec![main.finish()]);
    let context = dialect::context();
    let start = std::time::Instant::now();
    let mlir = graph_to_mlir(&context, &graph).unwrap();
    let built = start.elapsed();
    dialect::verify(&mlir).unwrap();
    let verified = start.elapsed();
    let back = mlir_to_graph(&mlir).unwrap();
    println!("build {built:?}, verify {:?}, back {:?}", verified - built, start.elapsed() - verified);
    assert!(graph == back);
}

#[test]
fn typed_builders_make_valid_operations() {
    use hlo::dialect::ods::hlo as ods;
    use melior::ir::{Attribute, Block, BlockLike, Location, Module as MlirModule, Region, RegionLike, Type, Value};

    let context = dialect::context();
    let location = Location::unknown(&context);
    let tensor = Type::parse(&context, "tensor<4xf32>").unwrap();
    let block = Block::new(&[(tensor, location)]);
    let x: Value = block.argument(0).unwrap().into();
    let sum = block.append_operation(ods::add(&context, tensor, x, x, location).into());
    let sum: Value = sum.result(0).unwrap().into();
    block.append_operation(
        melior::ir::operation::OperationBuilder::new("func.return", location).add_operands(&[sum]).build().unwrap(),
    );
    let region = Region::new();
    region.append_block(block);
    let attribute = |text| Attribute::parse(&context, text).unwrap();
    let name = |text| melior::ir::Identifier::new(&context, text);
    let function = melior::ir::operation::OperationBuilder::new("func.func", location)
        .add_attributes(&[
            (name("sym_name"), attribute("\"main\"")),
            (name("function_type"), attribute("(tensor<4xf32>) -> tensor<4xf32>")),
        ])
        .add_regions([region])
        .build()
        .unwrap();
    let module = MlirModule::new(location);
    module.body().append_operation(function);
    dialect::verify(&module).unwrap();
    assert_eq!(mlir_to_graph(&module).unwrap().entry().root().kind, OpKind::Add);
}

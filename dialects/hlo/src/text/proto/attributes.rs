//! Attributes of instructions, as text spells them.

use super::messages::{ConvolutionDimensionNumbers, HloInstructionProto, OpSharding, ReplicaGroup, Window};
use super::{ProtoError, Result, list, quoted, shape_text};

/// The attributes that decide about an instruction's value.
pub(super) fn of(instruction: &HloInstructionProto, operands: &[&HloInstructionProto]) -> Result<Vec<String>> {
    let mut attributes = Attributes(Vec::new());
    let opcode = instruction.opcode.as_str();
    let dimensions = &instruction.dimensions;
    match opcode {
        "iota" => attributes.set("iota_dimension", list(dimensions)),
        "reshape" if !dimensions.is_empty() => attributes.set("inferred_dimension", list(dimensions)),
        "get-tuple-element" => attributes.set("index", instruction.tuple_index),
        "broadcast" | "reduce" | "transpose" | "concatenate" | "reverse" | "sort" | "map" => {
            attributes.list("dimensions", dimensions);
        }
        _ if !dimensions.is_empty() => attributes.list("dimensions", dimensions),
        _ => {}
    }
    match opcode {
        "slice" => attributes.set("slice", slices(instruction)),
        "pad" => attributes.set("padding", padding(instruction)),
        "dynamic-slice" => attributes.list("dynamic_slice_sizes", &instruction.dynamic_slice_sizes),
        "reduce-precision" => {
            attributes.set("exponent_bits", instruction.exponent_bits);
            attributes.set("mantissa_bits", instruction.mantissa_bits);
        }
        "compare" => {
            attributes.set("direction", &instruction.comparison_direction);
            attributes.nonempty("type", &instruction.comparison_type);
        }
        "batch-norm-training" | "batch-norm-inference" | "batch-norm-grad" => {
            attributes.set("epsilon", instruction.epsilon);
            attributes.set("feature_index", instruction.feature_index);
        }
        "fft" => {
            attributes.set("fft_type", word(instruction, &["FFT", "IFFT", "RFFT", "IRFFT"], instruction.fft_type)?);
            attributes.list("fft_length", &instruction.fft_length);
        }
        "rng" => {
            let words = ["rng_invalid", "rng_uniform", "rng_normal"];
            attributes.set("distribution", word(instruction, &words, instruction.distribution)?);
        }
        "rng-bit-generator" => {
            let words = ["rng_default", "rng_three_fry", "rng_philox"];
            attributes.set("algorithm", word(instruction, &words, instruction.rng_algorithm)?);
        }
        "rng-get-and-update-state" => attributes.set("delta", instruction.delta),
        "topk" => {
            attributes.set("k", instruction.k);
            attributes.set("largest", instruction.largest);
        }
        "domain" => {
            let side =
                |sharding: &Option<OpSharding>| sharding.as_ref().map_or("{replicated}".to_string(), sharding_text);
            let (entry, exit) = (&instruction.domain_entry_sharding, &instruction.domain_exit_sharding);
            let sides = format!("entry={}, exit={}", side(entry), side(exit));
            attributes.set("domain", format!("{{kind=\"sharding\", {sides}}}"));
        }
        "fusion" => attributes.nonempty("kind", &instruction.fusion_kind),
        _ => {}
    }
    contractions(&mut attributes, instruction);
    indexing(&mut attributes, instruction);
    solvers(&mut attributes, instruction)?;
    if opcode == "custom-call" {
        custom_call(&mut attributes, instruction, operands)?;
    }
    communication(&mut attributes, instruction)?;
    attributes.flag("is_stable", instruction.is_stable);
    Ok(attributes.0)
}

/// Attributes that do not: where the instruction comes from, and how it is distributed.
pub(super) fn annotations(instruction: &HloInstructionProto) -> Vec<String> {
    let mut attributes = Attributes(Vec::new());
    if let Some(sharding) = &instruction.sharding {
        attributes.set("sharding", sharding_text(sharding));
    }
    if let Some(metadata) = &instruction.metadata {
        let mut parts = Vec::new();
        for (key, value) in
            [("op_type", &metadata.op_type), ("op_name", &metadata.op_name), ("source_file", &metadata.source_file)]
        {
            if !value.is_empty() {
                parts.push(format!("{key}={}", quoted(value)));
            }
        }
        for (key, value) in [("source_line", metadata.source_line), ("stack_frame_id", metadata.stack_frame_id)] {
            if value != 0 {
                parts.push(format!("{key}={value}"));
            }
        }
        if !parts.is_empty() {
            attributes.set("metadata", format!("{{{}}}", parts.join(" ")));
        }
    }
    if instruction.opcode != "custom-call" && !instruction.backend_config.is_empty() {
        attributes.set("backend_config", quoted(&String::from_utf8_lossy(&instruction.backend_config)));
    }
    attributes.0
}

/// Attributes being collected.
struct Attributes(Vec<String>);

impl Attributes {
    fn set(&mut self, key: &str, value: impl std::fmt::Display) {
        self.0.push(format!("{key}={value}"));
    }

    fn list(&mut self, key: &str, values: &[i64]) {
        self.set(key, format!("{{{}}}", list(values)));
    }

    fn nonempty_list(&mut self, key: &str, values: &[i64]) {
        if !values.is_empty() {
            self.list(key, values);
        }
    }

    fn nonempty(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.set(key, text);
        }
    }

    fn flag(&mut self, key: &str, value: bool) {
        if value {
            self.set(key, "true");
        }
    }
}

/// The word of an enumeration.
fn word<'w>(instruction: &HloInstructionProto, words: &[&'w str], number: i32) -> Result<&'w str> {
    let found = usize::try_from(number).ok().and_then(|number| words.get(number)).copied();
    found.ok_or_else(|| ProtoError::Unknown(instruction.name.clone(), format!("the unknown word {number}")))
}

fn slices(instruction: &HloInstructionProto) -> String {
    let ranges = instruction.slice_dimensions.iter().map(|range| match range.stride {
        0 | 1 => format!("[{}:{}]", range.start, range.limit),
        stride => format!("[{}:{}:{stride}]", range.start, range.limit),
    });
    format!("{{{}}}", ranges.collect::<Vec<_>>().join(", "))
}

fn padding(instruction: &HloInstructionProto) -> String {
    let dimensions = instruction.padding_config.as_ref().map(|config| config.dimensions.as_slice()).unwrap_or_default();
    let paddings = dimensions.iter().map(|dimension| {
        let edges = format!("{}_{}", dimension.edge_padding_low, dimension.edge_padding_high);
        match dimension.interior_padding {
            0 => edges,
            interior => format!("{edges}_{interior}"),
        }
    });
    paddings.collect::<Vec<_>>().join("x")
}

fn window_text(window: &Window) -> String {
    let joined = |of: &dyn Fn(&super::messages::WindowDimension) -> String| {
        window.dimensions.iter().map(of).collect::<Vec<_>>().join("x")
    };
    let any = |of: &dyn Fn(&super::messages::WindowDimension) -> bool| window.dimensions.iter().any(of);
    let mut parts = vec![format!("size={}", joined(&|dimension| dimension.size.to_string()))];
    if any(&|dimension| dimension.stride > 1) {
        parts.push(format!("stride={}", joined(&|dimension| dimension.stride.max(1).to_string())));
    }
    if any(&|dimension| dimension.padding_low != 0 || dimension.padding_high != 0) {
        let text = joined(&|dimension| format!("{}_{}", dimension.padding_low, dimension.padding_high));
        parts.push(format!("pad={text}"));
    }
    if any(&|dimension| dimension.base_dilation > 1) {
        parts.push(format!("lhs_dilate={}", joined(&|dimension| dimension.base_dilation.max(1).to_string())));
    }
    if any(&|dimension| dimension.window_dilation > 1) {
        parts.push(format!("rhs_dilate={}", joined(&|dimension| dimension.window_dilation.max(1).to_string())));
    }
    if any(&|dimension| dimension.window_reversal) {
        parts.push(format!("rhs_reversal={}", joined(&|dimension| u8::from(dimension.window_reversal).to_string())));
    }
    format!("{{{}}}", parts.join(" "))
}

/// `b01f_01io->b01f`.
fn labels(numbers: &ConvolutionDimensionNumbers) -> String {
    let text = |letters: [(i64, char); 2], spatial: &[i64]| {
        let mut places: Vec<(i64, String)> =
            letters.iter().map(|&(dimension, letter)| (dimension, letter.to_string())).collect();
        places.extend(spatial.iter().enumerate().map(|(number, &dimension)| (dimension, number.to_string())));
        places.sort_unstable();
        places.into_iter().map(|(_, letter)| letter).collect::<String>()
    };
    format!(
        "{}_{}->{}",
        text(
            [(numbers.input_batch_dimension, 'b'), (numbers.input_feature_dimension, 'f')],
            &numbers.input_spatial_dimensions
        ),
        text(
            [(numbers.kernel_input_feature_dimension, 'i'), (numbers.kernel_output_feature_dimension, 'o')],
            &numbers.kernel_spatial_dimensions
        ),
        text(
            [(numbers.output_batch_dimension, 'b'), (numbers.output_feature_dimension, 'f')],
            &numbers.output_spatial_dimensions
        ),
    )
}

fn contractions(attributes: &mut Attributes, instruction: &HloInstructionProto) {
    if let Some(window) = instruction.window.as_ref().filter(|window| !window.dimensions.is_empty()) {
        attributes.set("window", window_text(window));
    }
    if let Some(numbers) = &instruction.convolution_dimension_numbers
        && instruction.opcode == "convolution"
    {
        attributes.set("dim_labels", labels(numbers));
    }
    for (key, count) in
        [("feature_group_count", instruction.feature_group_count), ("batch_group_count", instruction.batch_group_count)]
    {
        if count > 1 {
            attributes.set(key, count);
        }
    }
    let ragged = instruction.ragged_dot_dimension_numbers.as_ref();
    let dot = ragged.and_then(|ragged| ragged.dot_dimension_numbers.as_ref());
    if let Some(numbers) = dot.or(instruction.dot_dimension_numbers.as_ref()) {
        attributes.nonempty_list("lhs_batch_dims", &numbers.lhs_batch_dimensions);
        attributes.list("lhs_contracting_dims", &numbers.lhs_contracting_dimensions);
        attributes.nonempty_list("rhs_batch_dims", &numbers.rhs_batch_dimensions);
        attributes.list("rhs_contracting_dims", &numbers.rhs_contracting_dimensions);
    }
    if let Some(ragged) = ragged {
        attributes.list("lhs_ragged_dims", &ragged.lhs_ragged_dimensions);
        attributes.nonempty_list("rhs_group_dims", &ragged.rhs_group_dimensions);
    }
    if let Some(precision) = &instruction.precision_config {
        if precision.operand_precision.iter().any(|&number| number != 0) {
            let words = ["default", "high", "highest"];
            let text = |&number: &i32| words.get(number.max(0) as usize).copied().unwrap_or("default");
            let words: Vec<&str> = precision.operand_precision.iter().map(text).collect();
            attributes.set("operand_precision", format!("{{{}}}", words.join(",")));
        }
        let algorithms = [
            "unset",
            "dot_any_f8_any_f8_f32",
            "dot_any_f8_any_f8_f32_fast_accum",
            "dot_f16_f16_f16",
            "dot_f16_f16_f32",
            "dot_bf16_bf16_bf16",
            "dot_bf16_bf16_f32",
            "dot_bf16_bf16_f32_x3",
            "dot_bf16_bf16_f32_x6",
            "dot_tf32_tf32_f32",
            "dot_tf32_tf32_f32_x3",
            "dot_f32_f32_f32",
            "dot_f64_f64_f64",
            "dot_bf16_bf16_f32_x9",
        ];
        if let Some(algorithm) = algorithms.get(precision.algorithm.max(0) as usize).filter(|name| **name != "unset") {
            attributes.set("algorithm", algorithm);
        }
    }
}

fn indexing(attributes: &mut Attributes, instruction: &HloInstructionProto) {
    if let Some(numbers) = &instruction.gather_dimension_numbers {
        attributes.list("offset_dims", &numbers.offset_dims);
        attributes.list("collapsed_slice_dims", &numbers.collapsed_slice_dims);
        attributes.list("start_index_map", &numbers.start_index_map);
        attributes.nonempty_list("operand_batching_dims", &numbers.operand_batching_dims);
        attributes.nonempty_list("start_indices_batching_dims", &numbers.start_indices_batching_dims);
        attributes.set("index_vector_dim", numbers.index_vector_dim);
        attributes.list("slice_sizes", &instruction.gather_slice_sizes);
    }
    if let Some(numbers) = &instruction.scatter_dimension_numbers {
        attributes.list("update_window_dims", &numbers.update_window_dims);
        attributes.list("inserted_window_dims", &numbers.inserted_window_dims);
        attributes.list("scatter_dims_to_operand_dims", &numbers.scatter_dims_to_operand_dims);
        attributes.nonempty_list("input_batching_dims", &numbers.input_batching_dims);
        attributes.nonempty_list("scatter_indices_batching_dims", &numbers.scatter_indices_batching_dims);
        attributes.set("index_vector_dim", numbers.index_vector_dim);
    }
    attributes.flag("indices_are_sorted", instruction.indices_are_sorted);
    attributes.flag("unique_indices", instruction.unique_indices);
}

fn solvers(attributes: &mut Attributes, instruction: &HloInstructionProto) -> Result<()> {
    if let Some(options) = &instruction.cholesky_options
        && instruction.opcode == "cholesky"
    {
        attributes.flag("lower", options.lower);
    }
    if let Some(options) = &instruction.triangular_solve_options
        && instruction.opcode == "triangular-solve"
    {
        attributes.flag("left_side", options.left_side);
        attributes.flag("lower", options.lower);
        attributes.flag("unit_diagonal", options.unit_diagonal);
        let words = ["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"];
        attributes.set("transpose_a", word(instruction, &words, options.transpose_a)?);
    }
    Ok(())
}

fn custom_call(
    attributes: &mut Attributes,
    instruction: &HloInstructionProto,
    operands: &[&HloInstructionProto],
) -> Result<()> {
    attributes.set("custom_call_target", quoted(&instruction.custom_call_target));
    if instruction.constrain_layout && instruction.operand_shapes_with_layout.len() == operands.len() {
        let shapes: Vec<String> = instruction
            .operand_shapes_with_layout
            .iter()
            .map(|shape| shape_text(&instruction.name, Some(shape)))
            .collect::<Result<_>>()?;
        attributes.set("operand_layout_constraints", format!("{{{}}}", shapes.join(", ")));
    }
    attributes.flag("custom_call_has_side_effect", instruction.custom_call_has_side_effect);
    if !instruction.output_operand_aliasing.is_empty() {
        let aliases = instruction.output_operand_aliasing.iter().map(|alias| {
            let [output, operand] = [&alias.output_shape_index, &alias.operand_shape_index].map(|index| list(index));
            format!("{{{output}}}: ({}, {{{operand}}})", alias.operand_index)
        });
        attributes.set("output_to_operand_aliasing", format!("{{{}}}", aliases.collect::<Vec<_>>().join(", ")));
    }
    let versions = [
        "API_VERSION_UNSPECIFIED",
        "API_VERSION_ORIGINAL",
        "API_VERSION_STATUS_RETURNING",
        "API_VERSION_STATUS_RETURNING_UNIFIED",
        "API_VERSION_TYPED_FFI",
    ];
    if instruction.custom_call_api_version > 1 {
        attributes.set("api_version", word(instruction, &versions, instruction.custom_call_api_version)?);
    }
    if !instruction.backend_config.is_empty() {
        let configuration = String::from_utf8_lossy(&instruction.backend_config);
        let is_dictionary = configuration.starts_with('{') && configuration.ends_with('}');
        let text = if is_dictionary { configuration.to_string() } else { quoted(&configuration) };
        attributes.set("backend_config", text);
    }
    Ok(())
}

fn groups(groups: &[ReplicaGroup]) -> String {
    let texts: Vec<String> = groups.iter().map(|group| format!("{{{}}}", list(&group.replica_ids))).collect();
    format!("{{{}}}", texts.join(","))
}

fn communication(attributes: &mut Attributes, instruction: &HloInstructionProto) -> Result<()> {
    if instruction.channel_id != 0 {
        attributes.set("channel_id", instruction.channel_id);
    }
    let devices = instruction.collective_device_list.as_ref().map(|list| list.replica_groups.as_slice());
    let replica_groups = devices.filter(|groups| !groups.is_empty()).unwrap_or(&instruction.replica_groups);
    let is_collective = ["all-", "reduce-scatter", "collective-broadcast", "ragged-all-to-all"];
    if !replica_groups.is_empty() || is_collective.iter().any(|prefix| instruction.opcode.starts_with(prefix)) {
        let needs_groups = !instruction.opcode.ends_with("-done");
        if needs_groups {
            attributes.set("replica_groups", groups(replica_groups));
        }
    }
    let is_permutation = matches!(instruction.opcode.as_str(), "collective-permute" | "collective-permute-start");
    if is_permutation || !instruction.source_target_pairs.is_empty() {
        let pairs = instruction.source_target_pairs.iter().map(|pair| format!("{{{},{}}}", pair.source, pair.target));
        attributes.set("source_target_pairs", format!("{{{}}}", pairs.collect::<Vec<_>>().join(",")));
    }
    attributes.flag("use_global_device_ids", instruction.use_global_device_ids);
    attributes.flag("is_host_transfer", instruction.is_host_transfer);
    if instruction.opcode != "custom-call" {
        attributes.flag("constrain_layout", instruction.constrain_layout);
    }
    for (key, configuration) in
        [("infeed_config", &instruction.infeed_config), ("outfeed_config", &instruction.outfeed_config)]
    {
        if !configuration.is_empty() {
            attributes.set(key, quoted(&String::from_utf8_lossy(configuration)));
        }
    }
    if instruction.opcode == "outfeed"
        && let Some(shape) = &instruction.outfeed_shape
    {
        attributes.set("outfeed_shape", shape_text(&instruction.name, Some(shape))?);
    }
    Ok(())
}

fn sharding_text(sharding: &OpSharding) -> String {
    match sharding.kind {
        0 => "{replicated}".to_string(),
        2 => {
            let elements: Vec<String> = sharding.tuple_shardings.iter().map(sharding_text).collect();
            format!("{{{}}}", elements.join(", "))
        }
        4 => "{manual}".to_string(),
        _ => {
            let devices = if sharding.iota_reshape_dims.is_empty() {
                list(&sharding.tile_assignment_devices)
            } else {
                let order: Vec<i64> = sharding.iota_transpose_perm.iter().map(|&place| place.into()).collect();
                let transposed = if order.len() > 1 { format!("T({})", list(&order)) } else { String::new() };
                format!("<=[{}]{transposed}", list(&sharding.iota_reshape_dims))
            };
            let last = if sharding.replicate_on_last_tile_dim { " last_tile_dim_replicate" } else { "" };
            format!("{{devices=[{}]{devices}{last}}}", list(&sharding.tile_assignment_dimensions))
        }
    }
}

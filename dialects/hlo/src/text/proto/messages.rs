//! The messages of XLA's `hlo.proto` and `xla_data.proto`, as far as they say what a program computes and where it comes from.
//! Names, numbers and types are those of the files; fields that are not here are skipped.

use prost::Message;

/// Declares messages: `Name { field: type = [what prost needs to know], … }`.
macro_rules! messages {
    ($($(#[$about:meta])* $name:ident { $($field:ident: $type:ty = [$($how:tt)*],)* })*) => { $(
        $(#[$about])*
        #[derive(Clone, PartialEq, Message)]
        pub(super) struct $name {
            $(#[prost($($how)*)]
            pub(super) $field: $type,)*
        }
    )* };
}

messages! {
    /// What `--xla_dump_hlo_as_proto` writes: a module and its buffers.
    HloProto {
        hlo_module: Option<HloModuleProto> = [message, optional, tag = "1"],
    }
    /// What `--xla_dump_hlo_snapshots` writes: a program, and arguments and result of a run of it, which are left out here.
    HloSnapshot {
        hlo: Option<HloProto> = [message, optional, tag = "1"],
    }
    HloModuleProto {
        name: String = [string, tag = "1"],
        entry_computation_name: String = [string, tag = "2"],
        computations: Vec<HloComputationProto> = [message, repeated, tag = "3"],
        entry_computation_id: i64 = [int64, tag = "6"],
        input_output_alias: Option<InputOutputAlias> = [message, optional, tag = "8"],
        stack_frame_index: Option<StackFrameIndex> = [message, optional, tag = "17"],
    }
    InputOutputAlias {
        entries: Vec<AliasEntry> = [message, repeated, tag = "1"],
    }
    AliasEntry {
        output_shape_index: Vec<i64> = [int64, repeated, tag = "1"],
        parameter_number: i64 = [int64, tag = "2"],
        parameter_shape_index: Vec<i64> = [int64, repeated, tag = "3"],
        kind: i32 = [int32, tag = "4"],
    }
    StackFrameIndex {
        file_names: Vec<String> = [string, repeated, tag = "1"],
        function_names: Vec<String> = [string, repeated, tag = "2"],
        file_locations: Vec<FileLocation> = [message, repeated, tag = "3"],
        stack_frames: Vec<StackFrame> = [message, repeated, tag = "4"],
    }
    FileLocation {
        file_name_id: i32 = [int32, tag = "1"],
        function_name_id: i32 = [int32, tag = "2"],
        line: i32 = [int32, tag = "3"],
        column: i32 = [int32, tag = "4"],
        end_line: i32 = [int32, tag = "5"],
        end_column: i32 = [int32, tag = "6"],
    }
    StackFrame {
        file_location_id: i32 = [int32, tag = "1"],
        parent_frame_id: i32 = [int32, tag = "2"],
    }
    HloComputationProto {
        name: String = [string, tag = "1"],
        instructions: Vec<HloInstructionProto> = [message, repeated, tag = "2"],
        id: i64 = [int64, tag = "5"],
        root_id: i64 = [int64, tag = "6"],
        execution_thread: String = [string, tag = "8"],
    }
    HloInstructionProto {
        name: String = [string, tag = "1"],
        opcode: String = [string, tag = "2"],
        shape: Option<ShapeProto> = [message, optional, tag = "3"],
        metadata: Option<OpMetadata> = [message, optional, tag = "7"],
        literal: Option<LiteralProto> = [message, optional, tag = "8"],
        parameter_number: i64 = [int64, tag = "9"],
        fusion_kind: String = [string, tag = "11"],
        tuple_index: i64 = [int64, tag = "13"],
        dimensions: Vec<i64> = [int64, repeated, tag = "14"],
        window: Option<Window> = [message, optional, tag = "15"],
        convolution_dimension_numbers: Option<ConvolutionDimensionNumbers> = [message, optional, tag = "16"],
        slice_dimensions: Vec<SliceDimensions> = [message, repeated, tag = "17"],
        exponent_bits: i32 = [int32, tag = "18"],
        mantissa_bits: i32 = [int32, tag = "19"],
        dynamic_slice_sizes: Vec<i64> = [int64, repeated, tag = "20"],
        padding_config: Option<PaddingConfig> = [message, optional, tag = "21"],
        outfeed_config: Vec<u8> = [bytes = "vec", tag = "22"],
        distribution: i32 = [int32, tag = "23"],
        epsilon: f32 = [float, tag = "24"],
        feature_index: i64 = [int64, tag = "25"],
        channel_id: i64 = [int64, tag = "26"],
        infeed_config: Vec<u8> = [bytes = "vec", tag = "27"],
        custom_call_target: String = [string, tag = "28"],
        outfeed_shape: Option<ShapeProto> = [message, optional, tag = "29"],
        dot_dimension_numbers: Option<DotDimensionNumbers> = [message, optional, tag = "30"],
        fft_type: i32 = [int32, tag = "31"],
        fft_length: Vec<i64> = [int64, repeated, tag = "32"],
        gather_dimension_numbers: Option<GatherDimensionNumbers> = [message, optional, tag = "33"],
        gather_slice_sizes: Vec<i64> = [int64, repeated, tag = "34"],
        id: i64 = [int64, tag = "35"],
        operand_ids: Vec<i64> = [int64, repeated, tag = "36"],
        control_predecessor_ids: Vec<i64> = [int64, repeated, tag = "37"],
        called_computation_ids: Vec<i64> = [int64, repeated, tag = "38"],
        sharding: Option<OpSharding> = [message, optional, tag = "40"],
        backend_config: Vec<u8> = [bytes = "vec", tag = "43"],
        is_host_transfer: bool = [bool, tag = "47"],
        scatter_dimension_numbers: Option<ScatterDimensionNumbers> = [message, optional, tag = "48"],
        replica_groups: Vec<ReplicaGroup> = [message, repeated, tag = "49"],
        feature_group_count: i64 = [int64, tag = "50"],
        precision_config: Option<PrecisionConfig> = [message, optional, tag = "51"],
        source_target_pairs: Vec<SourceTarget> = [message, repeated, tag = "52"],
        domain_entry_sharding: Option<OpSharding> = [message, optional, tag = "54"],
        domain_exit_sharding: Option<OpSharding> = [message, optional, tag = "55"],
        constrain_layout: bool = [bool, tag = "56"],
        operand_shapes_with_layout: Vec<ShapeProto> = [message, repeated, tag = "57"],
        batch_group_count: i64 = [int64, tag = "58"],
        triangular_solve_options: Option<TriangularSolveOptions> = [message, optional, tag = "59"],
        is_stable: bool = [bool, tag = "60"],
        cholesky_options: Option<CholeskyOptions> = [message, optional, tag = "62"],
        comparison_direction: String = [string, tag = "63"],
        custom_call_has_side_effect: bool = [bool, tag = "65"],
        delta: i64 = [int64, tag = "66"],
        indices_are_sorted: bool = [bool, tag = "67"],
        unique_indices: bool = [bool, tag = "69"],
        rng_algorithm: i32 = [int32, tag = "70"],
        use_global_device_ids: bool = [bool, tag = "71"],
        comparison_type: String = [string, tag = "72"],
        output_operand_aliasing: Vec<OutputOperandAliasing> = [message, repeated, tag = "74"],
        custom_call_api_version: i32 = [int32, tag = "77"],
        k: i64 = [int64, tag = "81"],
        largest: bool = [bool, tag = "85"],
        collective_device_list: Option<CollectiveDeviceList> = [message, optional, tag = "87"],
        ragged_dot_dimension_numbers: Option<RaggedDotDimensionNumbers> = [message, optional, tag = "90"],
    }
    ShapeProto {
        element_type: i32 = [int32, tag = "2"],
        dimensions: Vec<i64> = [int64, repeated, tag = "3"],
        tuple_shapes: Vec<ShapeProto> = [message, repeated, tag = "4"],
        layout: Option<LayoutProto> = [message, optional, tag = "5"],
        is_dynamic_dimension: Vec<bool> = [bool, repeated, tag = "6"],
    }
    LayoutProto {
        minor_to_major: Vec<i64> = [int64, repeated, tag = "1"],
    }
    OpMetadata {
        op_type: String = [string, tag = "1"],
        op_name: String = [string, tag = "2"],
        source_file: String = [string, tag = "3"],
        source_line: i32 = [int32, tag = "4"],
        stack_frame_id: i32 = [int32, tag = "15"],
    }
    LiteralProto {
        shape: Option<ShapeProto> = [message, optional, tag = "1"],
        preds: Vec<bool> = [bool, repeated, tag = "2"],
        u8s: Vec<u8> = [bytes = "vec", tag = "3"],
        s32s: Vec<i32> = [int32, repeated, tag = "4"],
        s64s: Vec<i64> = [int64, repeated, tag = "5"],
        u32s: Vec<u32> = [uint32, repeated, tag = "6"],
        u64s: Vec<u64> = [uint64, repeated, tag = "7"],
        f32s: Vec<f32> = [float, repeated, tag = "8"],
        f64s: Vec<f64> = [double, repeated, tag = "9"],
        tuple_literals: Vec<LiteralProto> = [message, repeated, tag = "10"],
        f16s: Vec<u8> = [bytes = "vec", tag = "11"],
        c64s: Vec<f32> = [float, repeated, tag = "12"],
        bf16s: Vec<u8> = [bytes = "vec", tag = "13"],
        s8s: Vec<u8> = [bytes = "vec", tag = "15"],
        u16s: Vec<u8> = [bytes = "vec", tag = "16"],
        s16s: Vec<u8> = [bytes = "vec", tag = "17"],
        c128s: Vec<f64> = [double, repeated, tag = "18"],
        f8e5m2s: Vec<u8> = [bytes = "vec", tag = "19"],
        f8e4m3fns: Vec<u8> = [bytes = "vec", tag = "20"],
        s4s: Vec<u8> = [bytes = "vec", tag = "21"],
        u4s: Vec<u8> = [bytes = "vec", tag = "22"],
        f8e4m3b11fnuzs: Vec<u8> = [bytes = "vec", tag = "23"],
        f8e5m2fnuzs: Vec<u8> = [bytes = "vec", tag = "24"],
        f8e4m3fnuzs: Vec<u8> = [bytes = "vec", tag = "25"],
        s2s: Vec<u8> = [bytes = "vec", tag = "26"],
        u2s: Vec<u8> = [bytes = "vec", tag = "27"],
        f8e4m3s: Vec<u8> = [bytes = "vec", tag = "28"],
        f8e3m4s: Vec<u8> = [bytes = "vec", tag = "29"],
        f4e2m1fns: Vec<u8> = [bytes = "vec", tag = "32"],
        f8e8m0fnus: Vec<u8> = [bytes = "vec", tag = "33"],
    }
    Window {
        dimensions: Vec<WindowDimension> = [message, repeated, tag = "1"],
    }
    WindowDimension {
        size: i64 = [int64, tag = "1"],
        stride: i64 = [int64, tag = "2"],
        padding_low: i64 = [int64, tag = "3"],
        padding_high: i64 = [int64, tag = "4"],
        window_dilation: i64 = [int64, tag = "5"],
        base_dilation: i64 = [int64, tag = "6"],
        window_reversal: bool = [bool, tag = "7"],
    }
    ConvolutionDimensionNumbers {
        kernel_input_feature_dimension: i64 = [int64, tag = "3"],
        kernel_output_feature_dimension: i64 = [int64, tag = "4"],
        kernel_spatial_dimensions: Vec<i64> = [int64, repeated, tag = "6"],
        input_batch_dimension: i64 = [int64, tag = "7"],
        input_feature_dimension: i64 = [int64, tag = "8"],
        output_batch_dimension: i64 = [int64, tag = "9"],
        output_feature_dimension: i64 = [int64, tag = "10"],
        input_spatial_dimensions: Vec<i64> = [int64, repeated, tag = "11"],
        output_spatial_dimensions: Vec<i64> = [int64, repeated, tag = "12"],
    }
    SliceDimensions {
        start: i64 = [int64, tag = "1"],
        limit: i64 = [int64, tag = "2"],
        stride: i64 = [int64, tag = "3"],
    }
    PaddingConfig {
        dimensions: Vec<PaddingDimension> = [message, repeated, tag = "1"],
    }
    PaddingDimension {
        edge_padding_low: i64 = [int64, tag = "1"],
        edge_padding_high: i64 = [int64, tag = "2"],
        interior_padding: i64 = [int64, tag = "3"],
    }
    DotDimensionNumbers {
        lhs_contracting_dimensions: Vec<i64> = [int64, repeated, tag = "1"],
        rhs_contracting_dimensions: Vec<i64> = [int64, repeated, tag = "2"],
        lhs_batch_dimensions: Vec<i64> = [int64, repeated, tag = "3"],
        rhs_batch_dimensions: Vec<i64> = [int64, repeated, tag = "4"],
    }
    RaggedDotDimensionNumbers {
        dot_dimension_numbers: Option<DotDimensionNumbers> = [message, optional, tag = "1"],
        lhs_ragged_dimensions: Vec<i64> = [int64, repeated, tag = "2"],
        rhs_group_dimensions: Vec<i64> = [int64, repeated, tag = "3"],
    }
    GatherDimensionNumbers {
        offset_dims: Vec<i64> = [int64, repeated, tag = "1"],
        collapsed_slice_dims: Vec<i64> = [int64, repeated, tag = "2"],
        start_index_map: Vec<i64> = [int64, repeated, tag = "3"],
        index_vector_dim: i64 = [int64, tag = "4"],
        operand_batching_dims: Vec<i64> = [int64, repeated, tag = "5"],
        start_indices_batching_dims: Vec<i64> = [int64, repeated, tag = "6"],
    }
    ScatterDimensionNumbers {
        update_window_dims: Vec<i64> = [int64, repeated, tag = "1"],
        inserted_window_dims: Vec<i64> = [int64, repeated, tag = "2"],
        scatter_dims_to_operand_dims: Vec<i64> = [int64, repeated, tag = "3"],
        index_vector_dim: i64 = [int64, tag = "4"],
        input_batching_dims: Vec<i64> = [int64, repeated, tag = "5"],
        scatter_indices_batching_dims: Vec<i64> = [int64, repeated, tag = "6"],
    }
    TriangularSolveOptions {
        left_side: bool = [bool, tag = "1"],
        lower: bool = [bool, tag = "2"],
        unit_diagonal: bool = [bool, tag = "3"],
        transpose_a: i32 = [int32, tag = "4"],
    }
    CholeskyOptions {
        lower: bool = [bool, tag = "1"],
    }
    PrecisionConfig {
        operand_precision: Vec<i32> = [int32, repeated, tag = "1"],
        algorithm: i32 = [int32, tag = "2"],
    }
    ReplicaGroup {
        replica_ids: Vec<i64> = [int64, repeated, tag = "1"],
    }
    CollectiveDeviceList {
        replica_groups: Vec<ReplicaGroup> = [message, repeated, tag = "1"],
    }
    SourceTarget {
        source: i64 = [int64, tag = "1"],
        target: i64 = [int64, tag = "2"],
    }
    OutputOperandAliasing {
        output_shape_index: Vec<i64> = [int64, repeated, tag = "1"],
        operand_index: i64 = [int64, tag = "2"],
        operand_shape_index: Vec<i64> = [int64, repeated, tag = "3"],
    }
    OpSharding {
        kind: i32 = [int32, tag = "1"],
        tile_assignment_dimensions: Vec<i64> = [int64, repeated, tag = "3"],
        tile_assignment_devices: Vec<i64> = [int64, repeated, tag = "4"],
        tuple_shardings: Vec<OpSharding> = [message, repeated, tag = "5"],
        replicate_on_last_tile_dim: bool = [bool, tag = "6"],
        iota_reshape_dims: Vec<i64> = [int64, repeated, tag = "9"],
        iota_transpose_perm: Vec<i32> = [int32, repeated, tag = "10"],
    }
}

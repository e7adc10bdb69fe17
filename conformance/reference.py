"""Runs HLO text on XLA:CPU, in a process of its own: XLA aborts on some programs instead of refusing them."""
import multiprocessing
import os

import ml_dtypes
import numpy as np

# HLO name -> numpy type. Elements of 2 and 4 bits take a byte each, as in halo's literals.
NUMPY_TYPES = {
    "pred": np.bool_,
    "s2": ml_dtypes.int2, "s4": ml_dtypes.int4, "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64,
    "u2": ml_dtypes.uint2, "u4": ml_dtypes.uint4, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "f4e2m1fn": ml_dtypes.float4_e2m1fn,
    "f8e3m4": ml_dtypes.float8_e3m4, "f8e4m3": ml_dtypes.float8_e4m3, "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz, "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2": ml_dtypes.float8_e5m2, "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz, "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64,
    "c64": np.complex64, "c128": np.complex128,
}

# Seconds after which a program counts as one that XLA cannot run.
PATIENCE = 60


def numpy_type(name):
    return np.dtype(NUMPY_TYPES[name])


# Devices that XLA:CPU has.
MOST_DEVICES = 8


def partitioned_by_hand(text):
    """The program with the mark that keeps XLA's partitioner from its instructions."""
    before, entry = text.split("ENTRY", 1)
    lines = (f"{line}, sharding={{manual}}" if " = " in line else line for line in entry.split("\n"))
    return before + "ENTRY" + "\n".join(lines)


def _serve(connection):
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ.setdefault("XLA_FLAGS", f"--xla_force_host_platform_device_count={MOST_DEVICES}")
    import jax
    from jaxlib import _hlo, _jax, lapack, xla_client

    jax.config.update("jax_enable_x64", True)
    lapack._lapack.initialize()
    client = jax.devices("cpu")[0].client

    def run(text, inputs, replicas, partitions):
        """The results of each device."""
        devices = client.local_devices()[:replicas * partitions]
        options = xla_client.CompileOptions()
        options.num_replicas, options.num_partitions = replicas, partitions
        build = options.executable_build_options
        build.num_replicas, build.num_partitions = replicas, partitions
        build.use_spmd_partitioning = partitions > 1
        numbers = np.arange(len(devices)).reshape(replicas, partitions)
        options.device_assignment = build.device_assignment = xla_client.DeviceAssignment.create(numbers)
        text = partitioned_by_hand(text) if partitions > 1 else text
        computation = xla_client.XlaComputation(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
        stablehlo = _jax.mlir.xla_computation_to_mlir_module(computation)
        executable = client.compile_and_load(stablehlo, xla_client.DeviceList(tuple(devices)), options)
        # The arrays of the devices differ; to JAX they pass for copies of one.
        sharding = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(devices), ("d",)), jax.sharding.PartitionSpec())
        arguments = []
        for arrays in zip(*inputs):
            copies = [jax.device_put(array, device) for array, device in zip(arrays, devices)]
            arguments.append(jax.make_array_from_single_device_arrays(arrays[0].shape, sharding, copies))
        results = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
        return [[np.asarray(shards[number]) for shards in results] for number in range(len(devices))]

    while True:
        text, inputs, devices = connection.recv()
        try:
            if devices is None:
                connection.send(("results", run(text, [inputs], 1, 1)[0]))
            else:
                connection.send(("results", run(text, inputs, *devices)))
        except Exception as error:
            connection.send(("refused", f"{type(error).__name__}: {error}".replace("\n", " ")[:400]))


class Refused(Exception):
    """XLA:CPU does not run the program; the text says why."""


class Xla:
    """A running XLA:CPU, started again when it aborts."""

    def __init__(self):
        self.process = None

    def _start(self):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def run(self, text, inputs, devices=None):
        """The leaves of the result, in order; with (replicas, partitions), those of each device."""
        if self.process is None:
            self._start()
        self.connection.send((text, inputs, devices))
        try:
            if not self.connection.poll(PATIENCE):
                raise EOFError
            kind, answer = self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.kill()
            self.process.join()
            self.process = None
            raise Refused("XLA aborted") from None
        if kind == "refused":
            raise Refused(answer)
        return answer

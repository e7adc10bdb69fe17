"""Times XLA on HLO text: a process that takes requests and answers each. These are known:

  {"command": "ready"}                                -> {}
  {"command": "load", "module": PATH, "spec": PATH}   compiles, fills the inputs, runs once
      -> {"compile_ms": T, "temporary_bytes": B, "growth_bytes": G}, the last by how much the process grew in that run
  {"command": "run", "seconds": S}                    runs for about S seconds -> {"runs_ms": [T, ...]}

Any failure answers {"error": TEXT}. `hlo-bench` understands the same, as lines of JSON, and one command more, which measures how
fast the machine copies and computes just then, and says how long a run takes at least:

  {"command": "limit"}                                -> {"limit_ms": T, "bytes": B, "flops": F}, by the best rates so far
"""
import gzip
import json
import os
import pathlib
import re
import time

import jax
import ml_dtypes
import numpy as np
from jaxlib import _hlo, _jax, lapack, xla_client


def fill(index, shape, dtype, low, high):
    """The input rule of halo's `fill.rs`: a pure function of (parameter, element, range)."""
    count = int(np.prod(shape, dtype=np.int64))
    draws = 2 * count if dtype.kind == "c" else count
    with np.errstate(over="ignore"):
        z = np.arange(draws, dtype=np.uint64) + np.uint64(index << 40) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        u = z ^ (z >> np.uint64(31))
    if dtype.kind in "iu":
        values = (u % np.uint64(int(high) - int(low) + 1)).astype(np.int64) + int(low)
    elif dtype.kind == "b":
        values = (u & np.uint64(1)) if low != high else np.full(count, low)
    else:
        values = low + (high - low) * ((u >> np.uint64(11)).astype(np.float64) * 2.0**-53)
        if dtype.kind == "c":
            values = values[0::2] + 1j * values[1::2]
    return values.astype(dtype).reshape(shape)


def numpy_type(name):
    names = {"pred": np.bool_, "bf16": ml_dtypes.bfloat16, "c64": np.complex64, "c128": np.complex128}
    if name in names:
        return np.dtype(names[name])
    if name.startswith("f8") or name.startswith("f4"):
        return np.dtype(getattr(ml_dtypes, "float8_" + name[2:] if name.startswith("f8") else "float4_" + name[2:]))
    kind = {"f": "float", "s": "int", "u": "uint"}[name[0]]
    return np.dtype(kind + name[1:])


def type_name(dtype):
    """HLO's name of an element type of numpy."""
    names = {"bool": "pred", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128"}
    return names.get(dtype.name) or dtype.name.replace("float", "f").replace("uint", "u").replace("int", "s")


def read_text(path):
    with (gzip.open(path, "rt") if path.endswith(".gz") else open(path)) as file:
        text = file.read()
    # A donated input could be used once only.
    return re.sub(r"input_output_alias=\{ .*? \}, (?=entry)", "", text, count=1)


def compile_text(client, text):
    """The executable, and the milliseconds that compiling took; reading the text is not counted."""
    computation = xla_client.XlaComputation(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
    stablehlo = _jax.mlir.xla_computation_to_mlir_module(computation)
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    start = time.perf_counter()
    executable = client.compile_and_load(stablehlo, devices, xla_client.CompileOptions())
    return executable, 1e3 * (time.perf_counter() - start)


def status(name):
    """A number of bytes in Linux's description of this process."""
    text = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"^{name}:\s*(\d+) kB", text, re.MULTILINE).group(1))


def growth_in(run):
    """By how many bytes the process grows at most while it does something; None where Linux does not say."""
    try:
        # The most so far becomes what there is.
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        run()
        return None
    before = status("VmRSS")
    run()
    return max(0, status("VmHWM") - before)


class Program:
    def __init__(self, client, module, spec):
        self.executable, self.compile_ms = compile_text(client, read_text(module))
        with open(spec) as file:
            parameters = json.load(file)["parameters"]
        self.inputs = [
            jax.device_put(fill(i, p["shape"], numpy_type(p["dtype"]), p["fill"]["lo"], p["fill"]["hi"]))
            for i, p in enumerate(parameters)
        ]
        self.growth = growth_in(self.run)

    def run(self):
        run(self.executable, self.inputs)


def run(executable, inputs):
    results = executable.execute_sharded(inputs)
    for shards in results.disassemble_into_single_device_arrays():
        for array in shards:
            array.block_until_ready()


def serve(connection, threads, platform):
    """Answers requests until there are no more. JAX was imported, but none of it used."""
    # XLA sizes its thread pool by the processors that it may use.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    # What it logs is no answer.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    jax.config.update("jax_enable_x64", True)
    # Scipy's LAPACK, which programs of older JAX call by name.
    lapack._lapack.initialize()
    client = jax.devices(platform)[0].client
    # The first program sets up LLVM and what runs programs; it must not count for the one that happens to be first.
    run(compile_text(client, "HloModule warm_up\nENTRY e { ROOT c = f32[] constant(1) }")[0], [])
    program = None
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        try:
            if request["command"] == "ready":
                answer = {}
            elif request["command"] == "load":
                program = Program(client, request["module"], request["spec"])
                memory = program.executable.get_compiled_memory_stats()
                answer = {
                    "compile_ms": program.compile_ms,
                    "temporary_bytes": memory.temp_size_in_bytes,
                    "growth_bytes": program.growth,
                }
            else:
                times = []
                end = time.perf_counter() + request["seconds"]
                while not times or time.perf_counter() < end:
                    start = time.perf_counter()
                    program.run()
                    times.append(1e3 * (time.perf_counter() - start))
                answer = {"runs_ms": times}
        except Exception as error:  # the answer says what went wrong; the caller goes on with other programs
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        connection.send(answer)

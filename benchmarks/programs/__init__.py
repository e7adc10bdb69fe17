"""Small real programs of many kinds, made with JAX: HLO text before any pass, with descriptions of their inputs and results.

A program is a function with its parameters; the modules of this folder register theirs with `program`. Nobody tunes for
these programs: what is slow in one of them is a cause to be found in the compiler.

    python programs DIR [TEXT ...]

writes those whose names contain a TEXT, or all.
"""
import json
import pathlib
import sys

PROGRAMS = {}


def program(*parameters, wide=False):
    """Registers a function of these parameters; `wide` ones compute with 64 bits where nothing else is said."""

    def register(function):
        PROGRAMS[function.__name__] = (function, parameters, wide)
        return function

    return register


def array(kind, *dimensions, low=-1, high=1):
    """A parameter: HLO's name of its element type, its dimensions and the range of its values."""
    return {"dtype": kind, "shape": list(dimensions), "fill": {"lo": low, "hi": high}}


def f32(*dimensions, low=-1, high=1):
    return array("f32", *dimensions, low=low, high=high)


def s32(*dimensions, low=0, high=9):
    return array("s32", *dimensions, low=low, high=high)


def summary(value):
    """Samples and sums of an array, as `hlo-run --spec` checks them."""
    import numpy as np
    import xla

    flat = np.asarray(value).ravel()
    places = np.unique(np.linspace(0, max(flat.size - 1, 0), 16).astype(np.int64)) if flat.size else []
    result = {"shape": list(value.shape), "dtype": xla.type_name(flat.dtype)}
    if flat.dtype.kind in "iub":
        samples = [[int(place), int(flat[place])] for place in places]
        return result | {"samples": samples, "sum": int(flat.astype(object).sum())}
    if flat.dtype.kind == "c":
        samples = [[int(place), float(flat[place].real), float(flat[place].imag)] for place in places]
        return result | {"samples": samples, "rms": float(np.sqrt(np.mean(np.abs(flat) ** 2)))}
    numbers = flat.astype(np.float64)
    assert np.isfinite(numbers).all(), "not finite"
    samples = [[int(place), float(numbers[place])] for place in places]
    return result | {"samples": samples, "rms": float(np.sqrt(np.mean(numbers**2))), "mean": float(numbers.mean())}


def write_program(name, folder):
    """Writes NAME.hlo and NAME.json of one program."""
    import jax
    import numpy as np
    import xla
    from jaxlib import _hlo

    function, parameters, wide = PROGRAMS[name]
    with jax.enable_x64(wide):
        shapes = [jax.ShapeDtypeStruct(p["shape"], xla.numpy_type(p["dtype"])) for p in parameters]
        jitted = jax.jit(function, keep_unused=True)
        options = _hlo.HloPrintOptions()
        options.print_large_constants = True
        options.print_metadata = False
        text = jitted.lower(*shapes).compiler_ir("hlo").as_hlo_module().to_string(options)
        inputs = [
            xla.fill(number, p["shape"], np.dtype(shape.dtype), p["fill"]["lo"], p["fill"]["hi"])
            for number, (p, shape) in enumerate(zip(parameters, shapes))
        ]
        outputs = [summary(value) for value in jax.tree.leaves(jitted(*inputs))]
    (folder / f"{name}.hlo").write_text(text)
    named = [{"name": f"[{number}]"} | parameter for number, parameter in enumerate(parameters)]
    (folder / f"{name}.json").write_text(json.dumps({"parameters": named, "outputs": outputs}, indent=1) + "\n")


def write_programs(folder, patterns=()):
    """As `write_registered`, of the programs of this folder."""
    from . import discrete, learning, matrices, sampling, signals, simulations  # noqa: F401: they register theirs

    return write_registered(folder, patterns)


def write_registered(folder, patterns=()):
    """Writes the programs whose names contain a pattern, or all, that are not in the folder yet; the names that failed."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in PROGRAMS:
        if patterns and not any(pattern in name for pattern in patterns):
            continue
        if (folder / f"{name}.json").exists():
            continue
        try:
            write_program(name, folder)
        except Exception as error:  # one that JAX refuses does not stop the others
            print(f"{name}: {type(error).__name__}: {error}".splitlines()[0], file=sys.stderr)
            failed.append(name)
    return failed

"""Writes random programs of two or three operations, as JAX dumps them, with descriptions of their inputs.

    python random_programs.py FOLDER SEED COUNT

A program's name says its seed: the same one is written again. Nobody thinks of these programs, so they show what nobody tuned for.
"""
import json
import math
import pathlib
import random
import sys

import jax
import jax.numpy as jnp
from jax import lax

jax.config.update("jax_enable_x64", True)

# Three of four programs have single floats.
TYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16, "f64": jnp.float64, "s32": jnp.int32,
         "u8": jnp.uint8, "s8": jnp.int8, "s64": jnp.int64, "c64": jnp.complex64}

MOST_ELEMENTS = 10_000_000


def random_shape(draw):
    rank = draw.choice([1, 1, 2, 2, 2, 3, 3, 4])
    total = 10 ** draw.choice([2, 3, 4, 5, 6, 6.5])
    shares = [draw.random() + 0.05 for _ in range(rank)]
    sizes = [max(1, round(total ** (share / sum(shares)))) for share in shares]
    if draw.random() < 0.4:
        sizes = [1 << max(0, (size - 1).bit_length()) if size > 2 else size for size in sizes]
    while math.prod(sizes) > MOST_ELEMENTS:
        sizes[sizes.index(max(sizes))] //= 2
    return tuple(sizes)


def random_reshape(draw, x):
    rest, sizes = x.size, []
    for _ in range(draw.randrange(3)):
        factors = [size for size in (2, 3, 4, 5, 7, 8, 10, 16, 32, 64, 100, 128) if rest and rest % size == 0]
        if factors:
            sizes.append(draw.choice(factors))
            rest //= sizes[-1]
    sizes.insert(draw.randrange(len(sizes) + 1), rest)
    return x.reshape(sizes)


def operations(draw):
    """The operations by name; their details are drawn when they are applied. Some need dimensions, or elements."""

    def axis(x):
        return draw.randrange(x.ndim)

    def reduced(function):
        return lambda x: function(x, axis=axis(x), keepdims=draw.random() < 0.3)

    def rows(x):
        return x.reshape(-1, x.shape[-1])

    def product(x):
        x = rows(x)
        return x @ x.T if x.shape[0] < 1500 else x.T @ x if x.shape[1] < 1500 else x * 3

    anything = {
        "exp": lambda x: jnp.exp(-jnp.abs(x)), "tanh": jnp.tanh, "gelu": jax.nn.gelu, "sigmoid": jax.nn.sigmoid,
        "relu": jax.nn.relu, "square": lambda x: x * x, "log1p": lambda x: jnp.log1p(jnp.abs(x)), "sin": jnp.sin,
        "rsqrt": lambda x: lax.rsqrt(jnp.abs(x) + 1.0), "pow": lambda x: jnp.abs(x) ** 1.7, "mod": lambda x: x % 3,
        "where": lambda x: jnp.where(x > x.mean(), x, -x), "to_s32": lambda x: (x * 10).astype(jnp.int32),
        "to_f32": lambda x: x.astype(jnp.float32), "sum_all": jnp.sum, "ravel": jnp.ravel,
        "reshape": lambda x: random_reshape(draw, x),
        "min_max": lambda x: (x - x.min()) / (x.max() - x.min() + 1),
        "outer": lambda x: jnp.outer(x.ravel()[:1500], x.ravel()[:1000]),
        "distances": lambda x: ((x.ravel()[:2000, None] - x.ravel()[None, :500]) ** 2).sum(-1),
        "spread": lambda x: x[..., None] * jnp.arange(8, dtype=x.dtype) if x.size < 1e6 else x,
        "histogram": lambda x: jnp.bincount(jnp.clip((x.ravel() * 10).astype(jnp.int32), 0, 63), length=64),
        "one_hot": lambda x: jax.nn.one_hot(x.ravel()[:3000].astype(jnp.int32) % 32, 32),
        "pad": lambda x: jnp.pad(x, [(draw.randrange(3), draw.randrange(3)) for _ in x.shape]),
        "dilate": lambda x: lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, draw.randrange(2)) for _ in x.shape]),
        "stride": lambda x: x[tuple(slice(None, None, draw.choice([1, 1, 2, 3])) for _ in x.shape)],
        "gradient": lambda x: jax.grad(lambda y: jnp.sum(jax.nn.softplus(y) * jnp.roll(y, 1)))(x),
    }
    of_dimensions = {
        "sum": reduced(jnp.sum), "max": reduced(jnp.max), "mean": reduced(jnp.mean), "var": reduced(jnp.var),
        "prod": reduced(jnp.prod), "argmax": reduced(jnp.argmax), "any": lambda x: jnp.any(x > 1, axis=axis(x)),
        "logsumexp": lambda x: jax.nn.logsumexp(x, axis=axis(x)), "softmax": lambda x: jax.nn.softmax(x, axis=axis(x)),
        "standard": lambda x: (x - x.mean(0)) / (x.std(0) + 1),
        "norm": lambda x: x / jnp.sqrt(jnp.sum(x * x, axis=axis(x), keepdims=True) + 1),
        "transpose": lambda x: jnp.transpose(x, draw.sample(range(x.ndim), x.ndim)),
        "cumsum": lambda x: jnp.cumsum(x, axis=axis(x)),
        "cummax": lambda x: lax.cummax(x, axis=axis(x), reverse=draw.random() < 0.5),
        "sort": lambda x: jnp.sort(x, axis=axis(x)), "argsort": lambda x: jnp.argsort(x, axis=axis(x)),
        "top_k": lambda x: lax.top_k(x, min(5, x.shape[-1]))[0], "flip": lambda x: jnp.flip(x, axis=axis(x)),
        "roll": lambda x: jnp.roll(x, 3, axis=axis(x)), "diff": lambda x: jnp.diff(x, axis=axis(x)),
        "neighbours": lambda x: x + jnp.roll(x, 1, -1) + jnp.roll(x, -1, -1),
        "concatenate": lambda x: jnp.concatenate([x, x * 2], axis=axis(x)),
        "stack": lambda x: jnp.stack([x, -x], axis=axis(x)),
        "repeat": lambda x: jnp.repeat(x, 2, axis=axis(x)) if x.size < 3e6 else x,
        "product": product, "by_vector": lambda x: x @ jnp.arange(x.shape[-1], dtype=x.dtype),
        "vector_by": lambda x: jnp.arange(x.shape[0], dtype=x.dtype) @ x.reshape(x.shape[0], -1),
        "gather": lambda x: x[jnp.arange(x.shape[0] * 2) * 7 % x.shape[0]] if x.size < 3e6 else x,
        "scatter": lambda x: x.at[jnp.arange(x.shape[0]) * 3 % x.shape[0]].add(1),
        "segments": lambda x: jax.ops.segment_sum(x, jnp.arange(x.shape[0]) % 7, 7),
        "max_pool": lambda x: lax.reduce_window(
            x, -jnp.inf, lax.max, tuple(min(3, size) for size in x.shape), tuple(draw.choice([1, 2]) for _ in x.shape), "SAME"),
    }
    applied = {name: lambda x, own=own: own(x) if x.ndim and x.size else x for name, own in of_dimensions.items()}
    return anything | applied


def write_program(folder, seed):
    draw = random.Random(seed)
    type_name = draw.choice(["f32"] * 24 + list(TYPES))
    shape, known = random_shape(draw), operations(draw)
    names = [draw.choice(list(known)) for _ in range(draw.choice([2, 2, 3]))]

    def program(x):
        for name in names:
            x = known[name](x)
        return x

    try:
        lowered = jax.jit(program).lower(jax.ShapeDtypeStruct(shape, TYPES[type_name]))
    except (TypeError, ValueError, IndexError):
        # JAX has no such operation of this type or shape.
        return
    path = folder / f"{seed}_{'_'.join(names)}"
    path.with_suffix(".hlo").write_text(lowered.compiler_ir("hlo").as_hlo_text(True))
    fill = {"lo": 0 if type_name == "u8" else -2, "hi": 2}
    parameter = {"shape": shape, "dtype": type_name, "fill": fill}
    path.with_suffix(".json").write_text(json.dumps({"parameters": [parameter]}))


def main(folder, first, count):
    for seed in range(int(first), int(first) + int(count)):
        write_program(pathlib.Path(folder), seed)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Writes programs of two steps each: how an array is moved, and what reads it then.

    python pairs.py FOLDER [TEXT ...]

writes those whose names contain a TEXT, or all.
"""
import sys

sys.dont_write_bytecode = True

import jax
import jax.numpy as jnp
import programs
from jax import lax
from programs import f32


def padded(mode):
    return lambda x: jnp.pad(x, ((1, 1), (2, 2)), mode=mode)


MOVED = {
    "join_columns": lambda x: jnp.concatenate([x, x * 2], 1),
    "join_rows": lambda x: jnp.concatenate([x, x * 2], 0),
    "pad_edge": padded("edge"),
    "pad_reflect": padded("reflect"),
    "pad_wrap": padded("wrap"),
    "pad_zero": lambda x: jnp.pad(x, ((1, 2), (3, 1))),
    "roll": lambda x: jnp.roll(x, (3, 5), (0, 1)),
    "flip": lambda x: x[::-1, ::-1],
    "stride": lambda x: x[::2, 1::3],
    "repeat_columns": lambda x: jnp.repeat(x, 3, 1),
    "repeat_rows": lambda x: jnp.repeat(x, 2, 0),
    "tile": lambda x: jnp.tile(x, (2, 3)),
    "alternate_columns": lambda x: jnp.stack([x, -x], -1).reshape(x.shape[0], -1),
    "alternate_rows": lambda x: jnp.stack([x, -x], 1).reshape(-1, x.shape[1]),
    "triangle": jnp.triu,
    "transpose": jnp.transpose,
    "rows_of_4": lambda x: x.reshape(-1, 4),
    "reshape": lambda x: x.reshape(375, -1),
    "diff_columns": lambda x: jnp.diff(x, axis=1),
    "diff_rows": lambda x: jnp.diff(x, axis=0),
    "upsample": lambda x: lax.pad(x, jnp.float32(0), ((0, 0, 1), (0, 0, 1))),
    "outer": lambda x: x[0][:, None] - x[1][None, :],
    "set_stride": lambda x: x.at[:, ::2].set(0.0),
    "add_to_column": lambda x: x.at[:, 3].add(1.0),
    "patches": lambda x: x.reshape(60, 10, 40, 10).transpose(0, 2, 1, 3).reshape(-1, 100),
    "swap_rows": lambda x: x.reshape(60, 10, 400).transpose(1, 0, 2).reshape(600, 400),
}

READ = {
    "sum_rows": lambda x: x.sum(1),
    "sum_columns": lambda x: x.sum(0),
    "max": jnp.max,
    "argmax_rows": lambda x: x.argmax(1),
    "argmax_columns": lambda x: x.argmax(0),
    "var_rows": lambda x: x.var(1),
    "var_columns": lambda x: x.var(0),
    "softmax_rows": lambda x: jax.nn.softmax(x, 1),
    "softmax_columns": lambda x: jax.nn.softmax(x, 0),
    "cumsum_rows": lambda x: jnp.cumsum(x, 1),
    "cumsum_columns": lambda x: jnp.cumsum(x, 0),
    "sort": lambda x: jnp.sort(x, 1),
    "tanh": jnp.tanh,
    "product": lambda x: x @ jnp.full((x.shape[1], 16), 0.5, x.dtype),
    "pool": lambda x: lax.reduce_window(x, jnp.float32(0), lax.add, (3, 3), (1, 1), "SAME"),
    "top": lambda x: lax.top_k(x, 3)[0],
}


def register():
    programs.PROGRAMS.clear()
    for first, move in MOVED.items():
        for second, read in READ.items():
            programs.PROGRAMS[f"{first}_{second}"] = (lambda x, move=move, read=read: read(move(x)), (f32(600, 400),), False)


if __name__ == "__main__":
    register()
    programs.write_registered(sys.argv[1], sys.argv[2:])

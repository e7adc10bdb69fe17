"""Writes programs of one call of a function of JAX's libraries each, in several sizes, with samples of XLA's results.

    python functions.py FOLDER [TEXT ...]

writes those whose names contain a TEXT, or all. Each row of a table is a name, a function and what its argument is: numbers from -1
to 1 if nothing is said.
"""
import sys

sys.dont_write_bytecode = True

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import programs
from jax import lax, random
from programs import array, f32, s32


def f64(*dimensions):
    return array("f64", *dimensions)


def c64(*dimensions):
    return array("c64", *dimensions)


def positive(*dimensions):
    return f32(*dimensions, low=0.1, high=2)


def unit(*dimensions):
    return f32(*dimensions, low=0.05, high=0.95)


def definite(x):
    return x @ x.T + x.shape[0] * jnp.eye(x.shape[0], dtype=x.dtype)


def windows(x, initial, function, sizes, strides, padding="VALID"):
    return lax.reduce_window(x, initial, function, sizes, strides, padding)


def blend(a, b):
    """Two steps of x -> factor * x + term as one."""
    return a[0] * b[0], a[1] * b[0] + b[1]


def labels(x):
    return jnp.arange(x.shape[0]) % x.shape[1]


def cross_entropy(x):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x), labels(x)[:, None], 1))


def rotated(x):
    """Pairs of columns turned by an angle of their row."""
    half, angle = x.shape[1] // 2, jnp.arange(x.shape[0])[:, None] * 0.01
    a, b = x[:, :half], x[:, half:]
    return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], -1)


def batches(x, size):
    """Square matrices of the elements, as many as there are."""
    return x.ravel()[: x.size // size**2 * size**2].reshape(-1, size, size)


ELEMENTWISE = {
    "erf": (jsp.special.erf,),
    "erfinv": (jsp.special.erfinv,),
    "erfc": (jsp.special.erfc,),
    "gammaln": (jsp.special.gammaln, positive),
    "digamma": (jsp.special.digamma, positive),
    "betaln": (lambda x: jsp.special.betaln(x, x + 1), positive),
    "i0e": (jsp.special.i0e, positive),
    "i1e": (jsp.special.i1e, positive),
    "ndtr": (jsp.special.ndtr,),
    "ndtri": (jsp.special.ndtri, unit),
    "logit": (jsp.special.logit, unit),
    "expit": (jsp.special.expit,),
    "xlogy": (lambda x: jsp.special.xlogy(x, x), positive),
    "entr": (jsp.special.entr, positive),
    "log_ndtr": (jsp.special.log_ndtr,),
    "sinc": (jnp.sinc,),
    "cbrt": (jnp.cbrt, positive),
    "arctan2": (lambda x: jnp.arctan2(x, x * x - 0.3),),
    "hypot": (lambda x: jnp.hypot(x, x + 1),),
    "sinh": (jnp.sinh,),
    "arcsin": (jnp.arcsin,),
    "arctanh": (jnp.arctanh, unit),
    "expm1": (jnp.expm1,),
    "exp2": (jnp.exp2,),
    "log2": (jnp.log2, positive),
    "log10": (jnp.log10, positive),
    "logaddexp": (lambda x: jnp.logaddexp(x, -x),),
    "tan": (jnp.tan,),
    "acosh": (lambda x: jnp.arccosh(x + 1), positive),
    "asinh": (jnp.arcsinh,),
    "round": (lambda x: jnp.round(x * 10),),
    "nan_to_num": (jnp.nan_to_num,),
    "heaviside": (lambda x: jnp.heaviside(x, 0.5),),
    "fmod": (lambda x: jnp.fmod(x, 0.3),),
    "floor_divide": (lambda x: x // 0.3,),
    "divmod": (lambda x: jnp.divmod(x, 0.7),),
    "frexp": (jnp.frexp,),
    "ldexp": (lambda x: jnp.ldexp(x, 3),),
    "nextafter": (lambda x: jnp.nextafter(x, 1.0),),
    "sign": (jnp.sign,),
    "copysign": (lambda x: jnp.copysign(x, -x),),
    "clip": (lambda x: jnp.clip(x, -0.5, 0.5),),
    "float_power": (lambda x: x ** 2.5, positive),
    "pow_3": (lambda x: x ** 3,),
    "pow_arr": (lambda x: x ** x, positive),
    "softplus": (jax.nn.softplus,),
    "silu": (jax.nn.silu,),
    "elu": (jax.nn.elu,),
    "selu": (jax.nn.selu,),
    "gelu": (jax.nn.gelu,),
    "gelu_exact": (lambda x: jax.nn.gelu(x, approximate=False),),
    "mish": (jax.nn.mish,),
    "hard_swish": (jax.nn.hard_swish,),
    "log_sigmoid": (jax.nn.log_sigmoid,),
    "celu": (jax.nn.celu,),
    "squareplus": (jax.nn.squareplus,),
    "complex_exp": (lambda x: jnp.exp(1j * x),),
    "complex_abs": (jnp.abs, c64),
    "complex_mul": (lambda x: x * x, c64),
    "complex_div": (lambda x: x / (x + 2), c64),
    "complex_log": (jnp.log, c64),
    "complex_sqrt": (jnp.sqrt, c64),
    "angle": (jnp.angle, c64),
    "complex_tanh": (jnp.tanh, c64),
    "popcount": (lambda x: lax.population_count(x), s32),
    "clz": (lax.clz, s32),
    "gcd": (lambda x: jnp.gcd(x, 12), s32),
    "int_div": (lambda x: x // 7, s32),
    "int_mod": (lambda x: x % (x // 2 + 1), s32),
    "int_pow": (lambda x: x ** 5, s32),
    "bit_ops": (lambda x: x << 3 ^ x >> 1 | 5, s32),
    "poly": (lambda x: jnp.polyval(jnp.arange(1.0, 9.0), x),),
    "piecewise": (lambda x: jnp.piecewise(x, [x < -0.5, x > 0.5], [lambda v: -v, lambda v: v * 2, 0]),),
    "select_many": (lambda x: jnp.select([x < -0.5, x < 0, x < 0.5], [x, x * 2, x * 3], -x),),
}

ELEMENTWISE_F64 = {
    "exp64": (jnp.exp, f64),
    "log64": (lambda x: jnp.log(x + 2), f64),
    "sin64": (jnp.sin, f64),
    "tanh64": (jnp.tanh, f64),
    "pow64": (lambda x: (x + 2) ** 1.3, f64),
    "erf64": (jsp.special.erf, f64),
    "atan2_64": (lambda x: jnp.arctan2(x, x + 1), f64),
    "sqrt64": (lambda x: jnp.sqrt(x + 1), f64),
    "cbrt64": (jnp.cbrt, f64),
    "log1p64": (lambda x: jnp.log1p(x + 1), f64),
    "expm164": (jnp.expm1, f64),
    "gammaln64": (lambda x: jsp.special.gammaln(x + 2), f64),
    "sigmoid64": (jax.nn.sigmoid, f64),
}

VECTORS = {
    "median": (jnp.median,),
    "percentile": (lambda x: jnp.percentile(x, jnp.array([10.0, 50.0, 90.0])),),
    "quantile": (lambda x: jnp.quantile(x, 0.3),),
    "histogram": (lambda x: jnp.histogram(x, bins=20),),
    "bincount": (lambda x: jnp.bincount(x, length=10), s32),
    "digitize": (lambda x: jnp.digitize(x, jnp.linspace(-1, 1, 20)),),
    "searchsorted": (lambda x: jnp.searchsorted(jnp.linspace(-1, 1, 1000), x),),
    "interp": (lambda x: jnp.interp(x, jnp.linspace(-1, 1, 100), jnp.sin(jnp.linspace(-1, 1, 100))),),
    "unique": (lambda x: jnp.unique(x, size=10), s32),
    "nonzero": (lambda x: jnp.nonzero(x > 0, size=32),),
    "argwhere": (lambda x: jnp.argwhere(x > 0.5, size=50),),
    "flatnonzero": (lambda x: jnp.flatnonzero(x > 0.9, size=20),),
    "cumprod": (lambda x: jnp.cumprod(1 + x * 0.001),),
    "cumsum_rev": (lambda x: jnp.cumsum(x[::-1])[::-1],),
    "cummax": (lax.cummax,),
    "cumlogsumexp": (lax.cumlogsumexp,),
    "diff2": (lambda x: jnp.diff(x, n=2),),
    "gradient": (jnp.gradient,),
    "trapezoid": (jnp.trapezoid,),
    "ediff1d": (jnp.ediff1d,),
    "convolve": (lambda x: jnp.convolve(x, jnp.arange(15.0)),),
    "correlate": (lambda x: jnp.correlate(x, jnp.arange(31.0), mode='same'),),
    "argsort": (jnp.argsort,),
    "sort_int": (jnp.sort, s32),
    "sort_desc": (lambda x: jnp.sort(x, descending=True),),
    "lexsort": (lambda x: jnp.lexsort((x, jnp.floor(x * 4))),),
    "top_k_8": (lambda x: lax.top_k(x, 8),),
    "argmax": (jnp.argmax,),
    "argmin_nan": (jnp.nanargmin,),
    "ptp": (jnp.ptp,),
    "std": (jnp.std,),
    "nanmean": (jnp.nanmean,),
    "average": (lambda x: jnp.average(x, weights=x * x),),
    "prod": (lambda x: jnp.prod(1 + x * 0.001),),
    "count_nonzero": (jnp.count_nonzero, s32),
    "all_any": (lambda x: (jnp.all(x < 2), jnp.any(x > 0.99)),),
    "norm1": (lambda x: jnp.linalg.norm(x, 1),),
    "norm_inf": (lambda x: jnp.linalg.norm(x, jnp.inf),),
    "dot_self": (lambda x: jnp.dot(x, x),),
    "vdot_c": (lambda x: jnp.vdot(x, x), c64),
    "softmax": (jax.nn.softmax,),
    "log_softmax": (jax.nn.log_softmax,),
    "logsumexp": (jax.nn.logsumexp,),
    "standardize": (jax.nn.standardize,),
    "roll7": (lambda x: jnp.roll(x, 7),),
    "flip": (jnp.flip,),
    "repeat3": (lambda x: jnp.repeat(x, 3),),
    "tile3": (lambda x: jnp.tile(x, 3),),
    "take_mod": (lambda x: x[jnp.arange(x.size) * 17 % x.size],),
    "put": (lambda x: x.at[jnp.arange(0, x.size, 3)].set(0),),
    "scatter_add_rand": (lambda x: jnp.zeros(50).at[(jnp.abs(x) * 49).astype(jnp.int32)].add(x),),
    "scatter_max": (lambda x: jnp.zeros(50).at[(jnp.abs(x) * 49).astype(jnp.int32)].max(x),),
    "segment_max": (lambda x: jax.ops.segment_max(x, jnp.arange(x.size) // 10, -(-x.size // 10)),),
    "segment_prod": (lambda x: jax.ops.segment_prod(x, jnp.arange(x.size) % 7, 7),),
    "pad_reflect": (lambda x: jnp.pad(x, 5, mode='reflect'),),
    "pad_wrap": (lambda x: jnp.pad(x, 9, mode='wrap'),),
    "pad_edge": (lambda x: jnp.pad(x, 9, mode='edge'),),
    "fft": (jnp.fft.fft, c64),
    "rfft": (jnp.fft.rfft,),
    "irfft": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 0.5),),
    "hilbert_like": (lambda x: jnp.abs(jnp.fft.ifft(jnp.fft.fft(x) * (jnp.arange(x.size) < x.size // 2))),),
    "fftshift": (jnp.fft.fftshift,),
    "assoc_scan_mul": (lambda x: lax.associative_scan(jnp.multiply, 1 + x * 0.001),),
    "assoc_scan_pair": (lambda x: lax.associative_scan(blend, (x, x)),),
    "scan_sum": (lambda x: lax.scan(lambda c, v: (c * 0.9 + v, c), 0.0, x),),
    "scan_max_pos": (lambda x: lax.scan(lambda c, v: (jnp.maximum(c, v), jnp.where(v > c, 1, 0)), -9.0, x),),
    "map_sin": (lambda x: lax.map(jnp.sin, x),),
    "fori": (lambda x: lax.fori_loop(0, 50, lambda i, v: v * 0.99 + 0.01 * jnp.sin(v), x),),
    "while_norm": (lambda x: lax.while_loop(lambda v: jnp.sum(v * v) > 0.001, lambda v: v * 0.7, x),),
    "cond": (lambda x: lax.cond(x[0] > 0, lambda v: v * 2, lambda v: jnp.sort(v), x),),
    "switch": (lambda x: lax.switch((jnp.abs(x[0]) * 3).astype(jnp.int32), [jnp.sin, jnp.cos, lambda v: v * v], x),),
    "random_uniform": (lambda x: x + random.uniform(random.PRNGKey(0), x.shape),),
    "random_normal": (lambda x: x + random.normal(random.PRNGKey(0), x.shape),),
    "random_perm": (lambda x: random.permutation(random.PRNGKey(0), x),),
    "random_bern": (lambda x: jnp.where(random.bernoulli(random.PRNGKey(0), 0.3, x.shape), x, 0),),
    "random_choice": (lambda x: random.choice(random.PRNGKey(0), x, (100,)),),
    "random_gumbel": (lambda x: jnp.argmax(x + random.gumbel(random.PRNGKey(1), x.shape)),),
    "random_randint": (lambda x: x + random.randint(random.PRNGKey(0), x.shape, 0, 10),),
    "random_expo": (lambda x: x + random.exponential(random.PRNGKey(0), x.shape),),
    "random_laplace": (lambda x: x + random.laplace(random.PRNGKey(0), x.shape),),
    "random_trunc": (lambda x: x + random.truncated_normal(random.PRNGKey(0), -2.0, 2.0, x.shape),),
    "one_hot": (lambda x: jax.nn.one_hot(x, 10), s32),
    "is_in": (lambda x: jnp.isin(x, jnp.array([1, 3, 5])), s32),
    "packbits": (lambda x: jnp.packbits(x > 0),),
    "unpackbits": (lambda x: jnp.unpackbits(x.astype(jnp.uint8)), s32),
    "vander": (lambda x: jnp.vander(x, 4),),
    "grad_softplus": (jax.grad(lambda x: jnp.sum(jax.nn.softplus(x) ** 2)),),
    "hvp": (lambda x: jax.jvp(jax.grad(lambda y: jnp.sum(jnp.sin(y) * y)), (x,), (x,))[1],),
    "compact": (lambda x: jnp.cumsum(x > 0) * (x > 0),),
    "ewma": (lambda x: lax.associative_scan(blend, (jnp.full_like(x, 0.9), x * 0.1))[1],),
    "rle": (lambda x: jnp.cumsum(jnp.concatenate([jnp.ones(1, jnp.int32), (x[1:] != x[:-1]).astype(jnp.int32)])), s32),
    "rank": (lambda x: jnp.argsort(jnp.argsort(x)),),
    "moving_max": (lambda x: windows(x, -jnp.inf, lax.max, (9,), (1,), 'SAME'),),
    "moving_avg": (lambda x: windows(x, 0.0, lax.add, (25,), (1,), 'SAME') / 25,),
    "kaiser": (lambda x: x * jnp.kaiser(x.size, 5.0),),
    "hamming": (lambda x: x * jnp.hamming(x.size),),
    "unwrap": (lambda x: jnp.unwrap(x * 6),),
    "mode_like": (lambda x: jnp.argmax(jnp.bincount(x, length=16)), s32),
}

MATRICES = {
    "matmul": (lambda x: x @ x,),
    "matmul_t": (lambda x: x @ x.T,),
    "mat_power": (lambda x: jnp.linalg.matrix_power(x, 5),),
    "kron_small": (lambda x: jnp.kron(x[:8, :8], x),),
    "trace": (jnp.trace,),
    "diag": (jnp.diag,),
    "diag_make": (lambda x: jnp.diag(x[0]),),
    "tril": (jnp.tril,),
    "triu_mul": (lambda x: jnp.triu(x) @ x,),
    "outer_rows": (lambda x: jnp.einsum('ij,ik->ijk', x[:, :40], x[:, :40]),),
    "einsum_trace": (lambda x: jnp.einsum('ij,ji->', x, x),),
    "einsum_ii": (lambda x: jnp.einsum('ii->i', x),),
    "bilinear": (lambda x: jnp.einsum('i,ij,j->', x[0], x, x[1]),),
    "cov": (jnp.cov,),
    "corrcoef": (jnp.corrcoef,),
    "cdist": (lambda x: jnp.sqrt(((x[:, None, :32] - x[None, :, :32]) ** 2).sum(-1)),),
    "cdist_dot": (lambda x: (x * x).sum(1)[:, None] + (x * x).sum(1)[None] - 2 * x @ x.T,),
    "cosine": (lambda x: (lambda u: u @ u.T)(x / jnp.linalg.norm(x, axis=1, keepdims=True)),),
    "solve": (lambda x: jnp.linalg.solve(definite(x), x),),
    "inv": (lambda x: jnp.linalg.inv(definite(x)),),
    "det": (lambda x: jnp.linalg.slogdet(definite(x)),),
    "cholesky": (lambda x: jnp.linalg.cholesky(definite(x)),),
    "cho_solve": (lambda x: jsp.linalg.cho_solve(jsp.linalg.cho_factor(definite(x)), x),),
    "qr": (lambda x: jnp.linalg.qr(x),),
    "tri_solve": (lambda x: jsp.linalg.solve_triangular(definite(x), x, lower=True),),
    "expm": (lambda x: jsp.linalg.expm(x * 0.05),),
    "lstsq_like": (lambda x: jnp.linalg.solve(x.T @ x + jnp.eye(x.shape[1]), x.T),),
    "softmax_rows": (lambda x: jax.nn.softmax(x, -1),),
    "softmax_cols": (lambda x: jax.nn.softmax(x, 0),),
    "layer_norm": (lambda x: jax.nn.standardize(x, -1),),
    "l2norm_cols": (lambda x: x / jnp.linalg.norm(x, axis=0),),
    "sort_rows": (lambda x: jnp.sort(x, 1),),
    "sort_cols": (lambda x: jnp.sort(x, 0),),
    "argsort_rows": (lambda x: jnp.argsort(x, 1),),
    "median_rows": (lambda x: jnp.median(x, 1),),
    "median_cols": (lambda x: jnp.median(x, 0),),
    "top_k_rows": (lambda x: lax.top_k(x, 5),),
    "cumsum_rows": (lambda x: jnp.cumsum(x, 1),),
    "cumsum_cols": (lambda x: jnp.cumsum(x, 0),),
    "integral": (lambda x: jnp.cumsum(jnp.cumsum(x, 0), 1),),
    "argmax_cols": (lambda x: jnp.argmax(x, 0),),
    "argmax_rows": (lambda x: jnp.argmax(x, 1),),
    "var_cols": (lambda x: jnp.var(x, 0),),
    "minmax_rows": (lambda x: (x.min(1), x.max(1)),),
    "take_along": (lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1),),
    "take_rows": (lambda x: x[jnp.arange(x.shape[0]) * 3 % x.shape[0]],),
    "take_cols": (lambda x: x[:, jnp.arange(x.shape[1]) * 3 % x.shape[1]],),
    "diag_set": (lambda x: x.at[jnp.arange(x.shape[0]), jnp.arange(x.shape[0])].set(0),),
    "row_add": (lambda x: x.at[jnp.array([0, 2, 1])].add(1.0),),
    "rot90": (jnp.rot90,),
    "fliplr": (jnp.fliplr,),
    "transpose": (jnp.transpose,),
    "transpose_add": (lambda x: x + x.T,),
    "meshgrid": (lambda x: jnp.stack(jnp.meshgrid(x[0], x[1])),),
    "block": (lambda x: jnp.block([[x, x.T], [x * 2, -x]]),),
    "fft2": (lambda x: jnp.fft.fft2(x),),
    "ifft_rows": (lambda x: jnp.fft.ifft(x, axis=1), c64),
    "conv2": (lambda x: jsp.signal.convolve2d(x, jnp.ones((5, 5)), mode='same'),),
    "max_pool": (lambda x: windows(x, -jnp.inf, lax.max, (2, 2), (2, 2), 'VALID'),),
    "avg_pool3": (lambda x: windows(x, 0.0, lax.add, (3, 3), (1, 1), 'SAME') / 9,),
    "max_pool_grad": (jax.grad(lambda x: jnp.sum(windows(x, -jnp.inf, lax.max, (2, 2), (2, 2), 'VALID') ** 2)),),
    "resize_lin": (lambda x: jax.image.resize(x, (x.shape[0] * 2, x.shape[1] * 2), 'linear'),),
    "resize_near": (lambda x: jax.image.resize(x, (x.shape[0] * 2, x.shape[1] * 2), 'nearest'),),
    "resize_down": (lambda x: jax.image.resize(x, (x.shape[0] // 2, x.shape[1] // 2), 'cubic'),),
    "map_coords": (lambda x: jsp.ndimage.map_coordinates(x, [jnp.abs(x) * 5, jnp.abs(x.T) * 5], order=1),),
    "laplace5": (lambda x: jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1) - 4 * x,),
    "sobel": (lambda x: x[2:, :] - x[:-2, :],),
    "im2col": (lambda x: lax.conv_general_dilated_patches(x[None, None], (3, 3), (1, 1), 'SAME'),),
    "depth_to_space": (lambda x: x.reshape(x.shape[0] // 2, 2, x.shape[1] // 2, 2).transpose(0, 2, 1, 3),),
    "logsumexp_mat": (lambda x: jax.nn.logsumexp(x[:, :, None][:60] + x.T[None, :, :60][:60, :, :], axis=1),),
    "mlp_grad": (lambda x: jax.grad(lambda w: jnp.mean((jax.nn.relu(x @ w) @ w.T - x) ** 2))(x),),
    "ce_loss": (cross_entropy,),
    "ce_grad": (jax.grad(cross_entropy),),
    "power_iter": (lambda x: lax.fori_loop(0, 10, lambda i, v: (lambda w: w / jnp.linalg.norm(w))(x @ v), x[0]),),
    "jacobi": (lambda x: lax.fori_loop(0, 20, lambda i, v: v - 0.01 * (definite(x) @ v - x[0]), x[0]),),
    "sinkhorn": (lambda x: lax.fori_loop(0, 10, lambda i, k: (lambda a: a / a.sum(0))(k / k.sum(1, keepdims=True)), jnp.exp(x)),),
    "floyd": (lambda x: lax.fori_loop(0, min(64, x.shape[0]), lambda k, d: jnp.minimum(d, d[:, k][:, None] + d[k][None]), jnp.abs(x)),),
    "jac": (lambda x: jax.jacfwd(lambda v: jnp.tanh(x[:50, :50] @ v))(x[0, :50]) if x.shape[0] >= 50 else x,),
    "hessian": (lambda x: jax.hessian(lambda v: jnp.sum(jnp.tanh(x[:50, :50] @ v) ** 2))(x[0, :50]) if x.shape[0] >= 50 else x,),
    "vmap_dot": (lambda x: jax.vmap(jnp.dot)(x, x.T),),
    "attention": (lambda x: jax.nn.softmax(x @ x.T / 8) @ x,),
    "gru_cell": (lambda x: (lambda z, c: z * x + (1 - z) * c)(jax.nn.sigmoid(x @ x), jnp.tanh(x @ x.T)),),
    "rms": (lambda x: x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-06),),
    "rope": (rotated,),
    "glu": (jax.nn.glu,),
    "batched_inv2": (lambda x: jnp.linalg.inv(batches(x, 2) + 3 * jnp.eye(2)),),
    "batched_solve4": (lambda x: jnp.linalg.solve(batches(x, 4) + 4 * jnp.eye(4), jnp.ones((x.size // 16, 4, 1))),),
    "batched_chol4": (lambda x: jnp.linalg.cholesky((lambda a: a @ a.transpose(0, 2, 1) + 4 * jnp.eye(4))(batches(x, 4))),),
    "batched_det3": (lambda x: jnp.linalg.det(batches(x, 3)),),
    "cross3": (lambda x: (lambda v: jnp.cross(v, v[::-1]))(x.ravel()[:x.size // 3 * 3].reshape(-1, 3)),),
    "quat": (lambda x: (lambda q: q / jnp.linalg.norm(q, axis=-1, keepdims=True))(x.reshape(-1, 4)),),
    "rot3": (lambda x: jnp.einsum('ij,nj->ni', x[:3, :3], x.ravel()[:x.size // 3 * 3].reshape(-1, 3)),),
}

FACTORISATIONS = {
    "eigh": (lambda x: jnp.linalg.eigh(x + x.T),),
    "svd": (lambda x: jnp.linalg.svd(x, full_matrices=False),),
    "pinv": (lambda x: jnp.linalg.pinv(x),),
    "matrix_rank": (jnp.linalg.matrix_rank,),
    "norm2": (lambda x: jnp.linalg.norm(x, 2),),
}


# The tables, with the sizes of their arguments.
TABLES = [
    (ELEMENTWISE | ELEMENTWISE_F64, {"s": (100,), "m": (10_000,), "l": (1_000_000,)}),
    (VECTORS, {"s": (64,), "m": (5_000,), "l": (500_000,)}),
    (MATRICES, {"s": (8, 8), "m": (100, 100), "l": (700, 700)}),
    (FACTORISATIONS, {"s": (8, 8), "m": (100, 100)}),
]


def register():
    programs.PROGRAMS.clear()
    for table, sizes in TABLES:
        for name, (function, *kind) in table.items():
            kind = kind[0] if kind else f32
            for size, dimensions in sizes.items():
                programs.PROGRAMS[f"{name}_{size}"] = (function, (kind(*dimensions),), kind is f64)


if __name__ == "__main__":
    register()
    programs.write_registered(sys.argv[1], sys.argv[2:])

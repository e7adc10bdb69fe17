"""Layers, losses, optimisers and small types."""
import jax
import jax.numpy as jnp
from jax import lax

from . import array, f32, program, s32


@program(f32(4, 64, 128), f32(128, 384), f32(128, 128))
def attention_block(x, w, out):
    q, k, v = jnp.split(x @ w, 3, axis=-1)
    q, k, v = (y.reshape(4, 64, 8, 16).transpose(0, 2, 1, 3) for y in (q, k, v))
    score = q @ k.swapaxes(-1, -2) / 4
    score = jnp.where(jnp.tril(jnp.ones((64, 64), bool)), score, -1e9)
    y = (jax.nn.softmax(score) @ v).transpose(0, 2, 1, 3).reshape(4, 64, 128)
    return x + y @ out


@program(f32(512, 256), f32(256), f32(256))
def layer_norm(x, scale, bias):
    mean = x.mean(-1, keepdims=True)
    y = (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * scale + bias
    return jax.nn.gelu(y)


@program(f32(512, 256), f32(256), f32(512, 256))
def rms_norm_gradient(x, scale, weight):
    def loss(x, scale):
        return (weight * x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale).sum()
    return jax.grad(loss, (0, 1))(x, scale)


@program(f32(256, 1000), s32(256, low=0, high=999))
def softmax_cross_entropy(logits, labels):
    def loss(z):
        return -jnp.take_along_axis(jax.nn.log_softmax(z), labels[:, None], 1).mean()
    return jax.value_and_grad(loss)(logits)


@program(f32(1000, 64), s32(32, 20, low=0, high=999), f32(64, 10), s32(32, low=0, high=9))
def bag_of_words_step(table, words, w, labels):
    """A step of SGD through an embedding."""
    def loss(table, w):
        z = table[words].mean(1) @ w
        return -jnp.take_along_axis(jax.nn.log_softmax(z), labels[:, None], 1).mean()
    value, (dt, dw) = jax.value_and_grad(loss, (0, 1))(table, w)
    return value, table - 0.1 * dt, w - 0.1 * dw


@program(array("s8", 64, 256, low=-128, high=127), array("s8", 256, 256, low=-128, high=127), f32(256, low=0.01, high=0.02))
def s8_layers(x, w, scale):
    for _ in range(3):
        y = lax.dot(x, w, preferred_element_type=jnp.int32).astype(jnp.float32) * scale * 0.05
        x = jnp.clip(jnp.round(jax.nn.relu(y)), -128, 127).astype(jnp.int8)
    return x


@program(array("bf16", 32, 256), array("bf16", 256, 256), array("bf16", 256))
def bf16_layers(x, w, b):
    for _ in range(3):
        x = jax.nn.gelu(x @ w * jnp.bfloat16(0.1) + b)
    return x, jax.nn.softmax(x)


@program(array("f16", 64, 128), array("f16", 128, 128))
def f16_layers(x, w):
    for _ in range(3):
        x = jnp.tanh(x @ w * jnp.float16(0.1)) + x
    return (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + jnp.float16(0.01))


@program(f32(8, 28, 28, 1), f32(3, 3, 1, 16), f32(3, 3, 16, 16), f32(784, 10))
def small_cnn(x, first, second, w):
    for kernel in (first, second):
        x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = lax.reduce_window(jax.nn.relu(x), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return jax.nn.log_softmax(x.reshape(8, 784) @ w)


@program(f32(4, 16, 16, 16), f32(3, 3, 16, 16), f32(4, 16, 16, 16))
def convolution_gradients(x, kernel, weight):
    def loss(x, kernel):
        y = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return (weight * jax.nn.silu(y)).sum()
    return jax.grad(loss, (0, 1))(x, kernel)


@program(f32(4, 12, 12, 16), f32(4, 4, 8, 16), f32(1, 4))
def transposed_convolution(x, kernel, _):
    return jnp.tanh(lax.conv_transpose(x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), transpose_kernel=True))


@program(f32(8, 32, 32, 24), f32(3, 3, 1, 24), f32(24, 48), f32(48))
def separable_convolution(x, depth, point, bias):
    y = lax.conv_general_dilated(x, depth, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=24)
    return jnp.clip(y @ point + bias, 0, 6)


@program(f32(16, 24, 24, 16), f32(16), f32(16))
def batch_norm_pool(x, scale, bias):
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    y = jax.nn.relu((x - mean) / jnp.sqrt(variance + 1e-5) * scale + bias)
    return lax.reduce_window(y, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "VALID") / 9, mean, variance


def channels_first(x, kernel, stride=1, dilation=1, padding="SAME"):
    """A convolution as PyTorch lays it out."""
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), padding, lhs_dilation=(dilation, dilation), dimension_numbers=("NCHW", "OIHW", "NCHW")
    )


@program(f32(4, 3, 32, 32), f32(24, 3, 3, 3), f32(24, 24, 3, 3), f32(48, 24, 3, 3), f32(10, 48), s32(4, low=0, high=9))
def residual_step_channels_first(x, first, inner, wider, out, labels):
    """A step of SGD of a small residual network with normalisation over groups."""
    def normalised(y):
        groups = y.reshape(y.shape[0], 4, -1)
        groups = (groups - groups.mean(-1, keepdims=True)) * lax.rsqrt(groups.var(-1, keepdims=True) + 1e-5)
        return jax.nn.relu(groups.reshape(y.shape))

    def loss(weights):
        first, inner, wider, out = weights
        y = normalised(channels_first(x, first))
        y = y + normalised(channels_first(y, inner))
        y = normalised(channels_first(y, wider, stride=2))
        z = y.mean((2, 3)) @ out.T
        return -jnp.take_along_axis(jax.nn.log_softmax(z), labels[:, None], 1).mean()
    weights = (first, inner, wider, out)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss)(weights))


@program(f32(2, 64), f32(64, 2048), f32(64, 128, 4, 4), f32(32, 64, 4, 4), f32(3, 32, 4, 4))
def generator_channels_first(noise, w, *kernels):
    """Pictures from noise by transposed convolutions."""
    x = jax.nn.relu(noise @ w).reshape(2, 128, 4, 4)
    for kernel in kernels:
        x = channels_first(jax.nn.relu(x), kernel, dilation=2, padding=((2, 2), (2, 2)))
    return jnp.tanh(x)


@program(f32(1, 1, 64, 64), f32(16, 1, 3, 3), f32(32, 16, 3, 3), f32(16, 48, 3, 3), f32(2, 16, 1, 1))
def segmentation_channels_first(x, down, inner, up, out):
    fine = jax.nn.relu(channels_first(x, down))
    coarse = lax.reduce_window(fine, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    coarse = jax.nn.relu(channels_first(coarse, inner))
    coarse = jnp.repeat(jnp.repeat(coarse, 2, 2), 2, 3)
    return channels_first(jax.nn.relu(channels_first(jnp.concatenate([fine, coarse], 1), up)), out)


@program(f32(8, 3, 64, 64), f32(96, 3, 8, 8), f32(64, 96))
def patch_embedding(images, kernel, positions):
    patches = channels_first(images, kernel, stride=8, padding="VALID")
    return patches.reshape(8, 96, 64).transpose(0, 2, 1) + positions


@program(f32(300, 200), f32(200), f32(300, 200), f32(200), f32(300, 200, low=0, high=1), f32(200, low=0, high=1))
def adam_step(w, b, dw, db, second, second_b):
    """Adam with clipping by the global norm and weight decay."""
    norm = jnp.sqrt(sum((g * g).sum() for g in (dw, db)))
    factor = jnp.minimum(1, 1 / norm)

    def update(p, g, v):
        g = g * factor
        v = 0.999 * v + 0.001 * g * g
        return p - 1e-3 * (0.1 * g / 0.1 / (jnp.sqrt(v / 0.05) + 1e-8) + 0.01 * p), v

    return update(w, dw, second), update(b, db, second_b)


@program(f32(64, 40), f32(40, 1), s32(64, low=0, high=1))
def logistic_newton(x, start, y):
    def step(w, _):
        p = jax.nn.sigmoid(x @ w)[:, 0]
        h = (x * (p * (1 - p))[:, None]).T @ x + jnp.eye(40)
        g = x.T @ (p - y) + w[:, 0]
        return w - jnp.linalg.solve(h, g)[:, None], p
    return lax.scan(step, start, None, length=6)[0]


@program(f32(30, 16, 32), f32(64, 128), f32(128))
def lstm(x, w, bias):
    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split(jnp.concatenate([x, h], 1) @ w + bias, 4, axis=1)
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    return lax.scan(step, (jnp.zeros((16, 32)),) * 2, x)


@program(f32(20, 8, 24), f32(24, 24), f32(24, 24))
def rnn_gradient(x, w, u):
    def loss(w, u):
        def step(h, x):
            h = jnp.tanh(x @ w + h @ u)
            return h, (h * h).mean()
        return lax.scan(step, jnp.zeros((8, 24)), x)[1].sum()
    return jax.value_and_grad(loss, (0, 1))(w, u)


@program(f32(256, 64), f32(64, 4), f32(4, 64, 64))
def mixture_of_experts(x, gate, experts):
    p = jax.nn.softmax(x @ gate)
    weight, chosen = lax.top_k(p, 2)
    dispatch = (jax.nn.one_hot(chosen, 4) * weight[..., None]).sum(1)
    y = jnp.einsum("td,edf->etf", x, experts)
    return jnp.einsum("te,etf->tf", dispatch, jax.nn.relu(y)), p.mean(0)


@program(f32(1000, 16), f32(100, 16), s32(1000, low=0, high=9))
def nearest_neighbours(points, at, labels):
    distance = (at**2).sum(1)[:, None] - 2 * at @ points.T + (points**2).sum(1)
    _, place = lax.top_k(-distance, 7)
    votes = jax.nn.one_hot(labels[place], 10).sum(1)
    return votes.argmax(1), place


@program(f32(2000, 8), f32(10, 8))
def k_means(points, centres):
    def step(centres, _):
        label = ((points[:, None] - centres) ** 2).sum(-1).argmin(1)
        total = jax.ops.segment_sum(points, label, 10)
        count = jax.ops.segment_sum(jnp.ones(2000), label, 10)
        return total / jnp.maximum(count, 1)[:, None], label
    return lax.scan(step, centres, None, length=5)


@program(f32(128, 64), f32(128, 64))
def contrastive_loss(a, b):
    def loss(a, b):
        a, b = (v / jnp.linalg.norm(v, axis=1, keepdims=True) for v in (a, b))
        z = a @ b.T * 10
        own = jnp.diagonal(z)
        return (jax.nn.logsumexp(z, axis=1) - own).mean() + (jax.nn.logsumexp(z, axis=0) - own).mean()
    return jax.value_and_grad(loss, (0, 1))(a, b)


@program(f32(16, 64, 64), f32(16, 64, 16))
def rotary_positions(q, _):
    angle = jnp.arange(64)[:, None] / 10000 ** (jnp.arange(32) / 32)
    a, b = q[..., ::2], q[..., 1::2]
    turned = jnp.stack([a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], -1)
    return turned.reshape(16, 64, 64)


@program(f32(64, 128), f32(256, 128), f32(64, 16))
def vector_quantiser(x, codes, _):
    def loss(x, codes):
        d = (x**2).sum(1)[:, None] - 2 * x @ codes.T + (codes**2).sum(1)
        place = d.argmin(1)
        near = codes[place]
        return ((lax.stop_gradient(near) - x) ** 2).mean() + ((near - lax.stop_gradient(x)) ** 2).mean(), place
    return jax.value_and_grad(loss, (0, 1), has_aux=True)(x, codes)


@program(f32(100, 8), f32(100, 8), f32(100), s32(100, low=0, high=7))
def policy_gradient(logits, old, reward, action):
    """PPO's loss with advantages estimated backwards, and its gradient."""
    def back(total, r):
        total = r + 0.95 * total
        return total, total
    advantage = lax.scan(back, jnp.float32(0), reward, reverse=True)[1]

    def loss(z):
        new, before = (jnp.take_along_axis(jax.nn.log_softmax(v), action[:, None], 1)[:, 0] for v in (z, old))
        ratio = jnp.exp(new - before)
        return -jnp.minimum(ratio * advantage, ratio.clip(0.8, 1.2) * advantage).mean()

    return jax.value_and_grad(loss)(logits)


@program(f32(20000, 30))
def mixture_density(outputs):
    """Weights, places and widths of five mixed distributions, and actions, which are columns of one layer's outputs."""
    weights = jax.nn.softmax(outputs[:, :5])
    places, widths = outputs[:, 5:15].reshape(-1, 5, 2), jnp.exp(outputs[:, 15:25]).reshape(-1, 5, 2)
    return (weights[..., None] * places).sum(1), widths, jnp.tanh(outputs[:, 25:])

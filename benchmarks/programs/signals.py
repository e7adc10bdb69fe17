"""Signals and images: filters, resampling, transforms, detection and geometry."""
import jax
import jax.numpy as jnp
from jax import lax

from . import array, f32, program, s32

IMAGE = f32(256, 256, low=0, high=1)


@program(f32(16, 4096), f32(63))
def fir_filter(x, taps):
    return jax.vmap(lambda row: jnp.convolve(row, taps, mode="same"))(x)


@program(f32(20000))
def iir_filter(x):
    """A biquad: a recurrence over samples."""
    def step(state, sample):
        a, b = state
        out = 0.2 * sample + a
        return (0.4 * sample + 1.2 * out + b, 0.2 * sample - 0.5 * out), out
    return lax.scan(step, (jnp.float32(0), jnp.float32(0)), x)[1]


@program(f32(64, 64, 3), f32(2, low=0, high=0.3))
def resize_bilinear(image, _):
    return jax.image.resize(image, (160, 160, 3), "linear"), jax.image.resize(image, (24, 24, 3), "cubic")


@program(IMAGE)
def median_filter(image):
    padded = jnp.pad(image, 1, mode="edge")
    near = jnp.stack([padded[i:i + 256, j:j + 256] for i in range(3) for j in range(3)], -1)
    return jnp.sort(near, axis=-1)[..., 4]


@program(array("u8", 256, 256, low=0, high=180))
def equalise_histogram(image):
    counts = jnp.zeros(256, jnp.int32).at[image.ravel()].add(1)
    table = jnp.cumsum(counts)
    return (table[image.astype(jnp.int32)] * 255 // table[-1]).astype(jnp.uint8)


@program(IMAGE)
def sobel_edges(image):
    p = jnp.pad(image, 1)
    dx = (p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:]) - (p[:-2, :-2] + 2 * p[1:-1, :-2] + p[2:, :-2])
    dy = (p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:]) - (p[:-2, :-2] + 2 * p[:-2, 1:-1] + p[:-2, 2:])
    size = jnp.sqrt(dx**2 + dy**2)
    q = jnp.pad(size, 1)
    keep = jnp.where(jnp.abs(dx) > jnp.abs(dy), (size >= q[1:-1, :-2]) & (size >= q[1:-1, 2:]), (size >= q[:-2, 1:-1]) & (size >= q[2:, 1:-1]))
    return jnp.where(keep & (size > 0.5), size, 0)


@program(IMAGE)
def block_dct(image):
    """JPEG's transform with quantisation and back."""
    k = jnp.arange(8)
    basis = jnp.cos(jnp.pi * (2 * k[None] + 1) * k[:, None] / 16) * jnp.where(k == 0, jnp.sqrt(1 / 8), 0.5)[:, None]
    blocks = image.reshape(32, 8, 32, 8).transpose(0, 2, 1, 3)
    spectrum = jnp.round(basis @ blocks @ basis.T * 16) / 16
    return (basis.T @ spectrum @ basis).transpose(0, 2, 1, 3).reshape(256, 256)


@program(f32(16000))
def mel_spectrogram(x):
    frames = x[jnp.arange(98)[:, None] * 160 + jnp.arange(400)[None]]
    window = 0.5 - 0.5 * jnp.cos(2 * jnp.pi * jnp.arange(400) / 400)
    power = jnp.abs(jnp.fft.rfft(frames * window, n=512)) ** 2
    filters = jnp.maximum(0, 1 - jnp.abs(jnp.arange(257)[:, None] - 6.0 * jnp.arange(40)[None]) / 8)
    return jnp.log(power @ filters + 1e-6)


@program(f32(128, 128, low=0, high=1), f32(2, 3))
def affine_warp(image, m):
    """Bilinear sampling through an affine map."""
    y, x = jnp.meshgrid(jnp.arange(128.0), jnp.arange(128.0), indexing="ij")
    u = (1 + 0.1 * m[0, 0]) * x + 0.1 * m[0, 1] * y + m[0, 2]
    v = 0.1 * m[1, 0] * x + (1 + 0.1 * m[1, 1]) * y + m[1, 2]
    u, v = u.clip(0, 126.9), v.clip(0, 126.9)
    i, j = v.astype(int), u.astype(int)
    a, b = v - i, u - j
    return (1 - a) * ((1 - b) * image[i, j] + b * image[i, j + 1]) + a * ((1 - b) * image[i + 1, j] + b * image[i + 1, j + 1])


@program(f32(300, 4, low=0, high=1), f32(300, low=0, high=1))
def non_maximum_suppression(raw, score):
    order = jnp.argsort(-score)
    low, size = raw[order, :2], 0.05 + 0.2 * raw[order, 2:]
    high, area = low + size, size.prod(-1)
    overlap = jnp.maximum(jnp.minimum(high[:, None], high[None]) - jnp.maximum(low[:, None], low[None]), 0).prod(-1)
    iou = overlap / (area[:, None] + area[None] - overlap)

    def step(i, keep):
        return keep & ~((iou[i] > 0.5) & keep[i] & (jnp.arange(300) > i))

    return lax.fori_loop(0, 300, step, jnp.ones(300, bool)), order


@program(f32(3000, 4), f32(20, 4, low=0, high=1))
def anchor_matching(offsets, truth):
    """Decodes boxes of anchors and matches them with the truth, with a focal loss."""
    i = jnp.arange(3000)
    centre = jnp.stack([(i % 60) / 60, (i // 60) / 50], -1) + 0.05 * offsets[:, :2]
    size = 0.1 * jnp.exp(0.3 * offsets[:, 2:])
    low, high = centre - size / 2, centre + size / 2
    tlow, thigh = truth[:, :2], truth[:, :2] + 0.05 + 0.2 * truth[:, 2:]
    both = jnp.maximum(jnp.minimum(high[:, None], thigh) - jnp.maximum(low[:, None], tlow), 0).prod(-1)
    iou = both / (size.prod(-1)[:, None] + (thigh - tlow).prod(-1) - both)
    best, value = iou.argmax(1), iou.max(1)
    p = jax.nn.sigmoid(offsets[:, 0])
    focal = jnp.where(value > 0.2, -((1 - p) ** 2) * jnp.log(p), -(p**2) * jnp.log1p(-p))
    return best, focal.mean(), jnp.abs(low - tlow[best]).sum(-1).mean(), iou.argmax(0)


@program(IMAGE)
def hough_lines(image):
    angle = jnp.linspace(0, jnp.pi, 30, endpoint=False)
    y, x = jnp.meshgrid(jnp.arange(64), jnp.arange(64), indexing="ij")
    strong = image[::4, ::4]
    rho = jnp.round(x[..., None] * jnp.cos(angle) + y[..., None] * jnp.sin(angle)).astype(int) + 90
    votes = jnp.zeros((181, 30)).at[rho, jnp.arange(30)].add((strong > 0.8)[..., None].astype(jnp.float32))
    return lax.top_k(votes.ravel(), 10)


@program(f32(128, 128, low=0, high=1), f32(128, 128, low=0, high=1))
def optical_flow(first, second):
    """Horn and Schunck."""
    gx = 0.5 * (jnp.roll(first, -1, 1) - jnp.roll(first, 1, 1))
    gy = 0.5 * (jnp.roll(first, -1, 0) - jnp.roll(first, 1, 0))
    gt = second - first

    def mean(v):
        return 0.25 * (jnp.roll(v, 1, 0) + jnp.roll(v, -1, 0) + jnp.roll(v, 1, 1) + jnp.roll(v, -1, 1))

    def step(_, flow):
        u, v = map(mean, flow)
        t = (gx * u + gy * v + gt) / (1 + gx**2 + gy**2)
        return u - gx * t, v - gy * t

    return lax.fori_loop(0, 20, step, (jnp.zeros_like(first),) * 2)


@program(f32(3, 256, 256, low=0, high=1))
def colour_spaces(rgb):
    """RGB to HSV and back, with gamma."""
    high, low = rgb.max(0), rgb.min(0)
    span = high - low + 1e-6
    r, g, b = rgb
    hue = jnp.where(high == r, (g - b) / span % 6, jnp.where(high == g, (b - r) / span + 2, (r - g) / span + 4))
    k = (jnp.array([5, 3, 1])[:, None, None] + hue + 0.3) % 6
    back = high - high * (span / (high + 1e-6)) * jnp.maximum(0, jnp.minimum(jnp.minimum(k, 4 - k), 1))
    return jnp.where(back <= 0.0031308, 12.92 * back, 1.055 * jnp.maximum(back, 1e-6) ** (1 / 2.4) - 0.055)


@program(f32(64, 128), f32(96, 128))
def dynamic_time_warping(a, b):
    cost = jnp.abs(a[:, None] - b[None]).sum(-1)

    def row(before, line):
        def cell(left, at):
            above, corner, c = at
            value = c + jnp.minimum(jnp.minimum(left, above), corner)
            return value, value
        corner = jnp.concatenate([jnp.full(1, 1e9), before[:-1]])
        return lax.scan(cell, jnp.float32(1e9), (before, corner, line))[1], None

    first = jnp.cumsum(cost[0])
    return lax.scan(row, first, cost[1:])[0]


@program(f32(8, 512, 3), f32(8, 512, 3))
def chamfer_distance(a, b):
    d = ((a[:, :, None] - b[:, None]) ** 2).sum(-1)
    return d.min(1).mean() + d.min(2).mean(), d.argmin(2)


@program(f32(64, 64, low=0.5, high=2), f32(3))
def ray_march(height, light):
    """Spheres seen by marching rays."""
    y, x = jnp.meshgrid(jnp.linspace(-1, 1, 64), jnp.linspace(-1, 1, 64), indexing="ij")
    ray = jnp.stack([x, y, jnp.ones_like(x)], -1)
    ray = ray / jnp.linalg.norm(ray, axis=-1, keepdims=True)

    def distance(p):
        return jnp.minimum(jnp.linalg.norm(p - jnp.array([0, 0, 3.0]), axis=-1) - 1, p[..., 1] + 1.5)

    t = lax.fori_loop(0, 24, lambda _, t: t + distance(ray * t[..., None]), jnp.zeros((64, 64)))
    p = ray * t[..., None]
    normal = jax.vmap(jax.vmap(jax.grad(lambda q: distance(q))))(p)
    return jnp.maximum((normal * light).sum(-1), 0) * height


@program(array("u8", 64, 32, 32, 3, low=0, high=255), s32(64, 2, high=8), array("pred", 64, low=0, high=1), s32(64, 2, high=31))
def augment_images(images, corner, is_flipped, hole):
    """What image classifiers are trained on: windows of padded images, flips, holes, and channels of mean 0."""
    def window(image, corner):
        padded = jnp.pad(image, ((4, 4), (4, 4), (0, 0)), mode="reflect")
        return lax.dynamic_slice(padded, (corner[0], corner[1], 0), (32, 32, 3))
    x = jax.vmap(window)(images, corner)
    x = jnp.where(is_flipped[:, None, None, None], x[:, :, ::-1], x)
    x = (x.astype(jnp.float32) / 255 - jnp.array([0.49, 0.48, 0.45])) / jnp.array([0.25, 0.24, 0.26])
    near = jnp.abs(jnp.arange(32)[None, None] - hole[:, :, None]) < 4
    return jnp.where((near[:, 0, :, None] & near[:, 1, None])[..., None], 0, x)


@program(f32(1, 16, 16, 64), f32(3, 3, 64, 32), f32(3, 3, 32, 12))
def upsampling_decoder(x, first, second):
    """The end of a generator of images: repeated pixels and a convolution, then one whose channels are pixels."""
    def convolution(x, kernel):
        return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = jax.image.resize(x, (1, 32, 32, 64), "nearest")
    x = jax.nn.silu(convolution(x, first) / 24)
    x = convolution(x, second) / 12
    x = x.reshape(1, 32, 32, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(1, 64, 64, 3)
    return jnp.clip(jax.nn.sigmoid(x) * 255, 0, 255).astype(jnp.uint8)

"""Markov chains, random numbers, statistics and filters."""
import jax
import jax.numpy as jnp
from jax import lax

from . import array, f32, program, s32

KEY = array("u32", 2, low=0, high=1000)


@program(KEY, f32(256, 8))
def metropolis(key, start):
    def density(x):
        return -0.5 * (x**2).sum(-1) - jnp.cos(3 * x[:, 0])

    def step(x, key):
        a, b = jax.random.split(key)
        new = x + 0.3 * jax.random.normal(a, x.shape)
        accept = jnp.log(jax.random.uniform(b, (256,))) < density(new) - density(x)
        return jnp.where(accept[:, None], new, x), accept.mean()

    return lax.scan(step, start, jax.random.split(key, 50))


@program(KEY, f32(200, 10), f32(200, low=0, high=1), f32(10))
def hamiltonian(key, x, y, start):
    """HMC on logistic regression."""
    def energy(w):
        z = x @ w
        return jnp.sum(jax.nn.softplus(z) - y * z) + 0.5 * w @ w

    gradient = jax.grad(energy)

    def leap(_, state):
        w, p = state
        p = p - 0.01 * gradient(w)
        w = w + 0.02 * p
        return w, p - 0.01 * gradient(w)

    def step(w, key):
        a, b = jax.random.split(key)
        p = jax.random.normal(a, w.shape)
        new, q = lax.fori_loop(0, 10, leap, (w, p))
        change = energy(w) + 0.5 * p @ p - energy(new) - 0.5 * q @ q
        w = jnp.where(jnp.log(jax.random.uniform(b)) < change, new, w)
        return w, w

    return lax.scan(step, start, jax.random.split(key, 20))[1]


@program(KEY, array("s8", 128, 128, low=0, high=1))
def ising(key, start):
    row, column = jnp.arange(128)[:, None], jnp.arange(128)[None]

    def sweep(spins, key):
        for colour, key in enumerate(jax.random.split(key)):
            near = sum(jnp.roll(spins, shift, axis) for shift in (1, -1) for axis in (0, 1))
            chance = jnp.exp(-0.8 * (spins * near).astype(jnp.float32))
            flip = (jax.random.uniform(key, spins.shape) < chance) & ((row + column) % 2 == colour)
            spins = jnp.where(flip, -spins, spins)
        return spins, spins.astype(jnp.int32).sum()

    return lax.scan(sweep, 2 * start - 1, jax.random.split(key, 10))


@program(KEY, f32(6, 6))
def gibbs_normal(key, m):
    precision = m @ m.T + 6 * jnp.eye(6)

    def step(x, key):
        noise = jax.random.normal(key, (6,))
        for i in range(6):
            mean = -(precision[i] @ x - precision[i, i] * x[i]) / precision[i, i]
            x = x.at[i].set(mean + noise[i] / jnp.sqrt(precision[i, i]))
        return x, x

    return lax.scan(step, jnp.zeros(6), jax.random.split(key, 200))[1]


@program(KEY, f32(1024, 4), f32(20, 4))
def particle_filter(key, particles, seen):
    def step(x, at):
        key, y = at
        a, b = jax.random.split(key)
        x = 0.9 * x + 0.2 * jax.random.normal(a, x.shape)
        weight = jax.nn.softmax(-2.0 * ((x - y) ** 2).sum(-1))
        places = (jnp.arange(1024) + jax.random.uniform(b)) / 1024
        share = jnp.cumsum(jnp.round(weight * 2**16).astype(jnp.int32))
        return x[jnp.searchsorted(share / share[-1], places).clip(0, 1023)], (weight[:, None] * x).sum(0)

    return lax.scan(step, particles, (jax.random.split(key, 20), seen))


@program(f32(60, 4, 4), f32(60, 4))
def kalman(models, seen):
    def step(state, at):
        x, p = state
        a, y = at
        a = 0.3 * a
        x, p = a @ x, a @ p @ a.T + 0.1 * jnp.eye(4)
        s = p + 0.5 * jnp.eye(4)
        gain = jnp.linalg.solve(s, p).T
        return (x + gain @ (y - x), p - gain @ p), x

    return lax.scan(step, (jnp.zeros(4), jnp.eye(4)), (models, seen))


@program(KEY)
def monte_carlo_option(key):
    z = jax.random.normal(key, (64, 2048))
    path = jnp.exp(jnp.cumsum(0.01 * z - 0.00005, axis=0))
    return jnp.maximum(path.mean(0) - 1, 0).mean(), jnp.maximum(path.max(0) - 1.1, 0).mean()


@program(f32(2000, 2), f32(300, 2))
def kernel_density(points, at):
    distance = ((at[:, None] - points[None]) ** 2).sum(-1)
    return jax.nn.logsumexp(-distance / 0.02, axis=1) - jnp.log(2000.0)


@program(f32(1000, 16), f32(1000, low=0, high=2))
def gaussian_mixture(x, label):
    """Five steps of EM with diagonal covariances."""
    def step(state, _):
        mean, variance, weight = state
        log = -0.5 * (((x[:, None] - mean) ** 2 / variance).sum(-1) + jnp.log(variance).sum(-1)) + jnp.log(weight)
        r = jax.nn.softmax(log, axis=1)
        total = r.sum(0)
        mean = r.T @ x / total[:, None]
        variance = r.T @ (x * x) / total[:, None] - mean**2 + 1e-3
        return (mean, variance, total / 1000), jax.nn.logsumexp(log, axis=1).mean()

    return lax.scan(step, (x[:8], jnp.ones((8, 16)), jnp.full(8, 0.125)), None, length=5)


@program(KEY, f32(500))
def bootstrap(key, data):
    places = jax.random.randint(key, (200, 500), 0, 500)
    means = data[places].mean(1)
    return jnp.sort(means)[jnp.array([5, 100, 195])], means.std()


@program(f32(4096, 24))
def robust_statistics(x):
    """Medians, quantiles, correlations and a histogram."""
    x = jnp.sort(x, axis=0)
    centre = x[2048]
    deviation = jnp.sort(jnp.abs(x - centre), axis=0)[2048]
    z = (x - x.mean(0)) / x.std(0)
    return centre, deviation, x[jnp.array([400, 3600])], z.T @ z / 4096, jnp.histogram(x[:, 0], bins=32, range=(-1, 1))[0]


@program(KEY, f32(64, 1000))
def sample_categories(key, logits):
    """Gumbel, top-k and nucleus sampling of tokens."""
    a, b = jax.random.split(key)
    first = jax.random.categorical(a, logits)
    value, place = lax.top_k(logits, 20)
    chosen = jnp.take_along_axis(place, jax.random.categorical(b, value)[:, None], 1)
    sorted_ = -jnp.sort(-jax.nn.softmax(logits), axis=1)
    return first, chosen, (jnp.cumsum(sorted_, axis=1) < 0.9).sum(1)


@program(s32(2000, low=0, high=3), f32(3, 4, 4, low=0.1, high=1))
def hidden_markov(seen, m):
    """The forward algorithm in probabilities with scaling."""
    a = m[0] / m[0].sum(1, keepdims=True)
    b = m[1] / m[1].sum(1, keepdims=True)

    def step(p, y):
        p = (p @ a) * b[:, y]
        total = p.sum()
        return p / total, jnp.log(total)

    return lax.scan(step, jnp.full(4, 0.25), seen)[1].sum()

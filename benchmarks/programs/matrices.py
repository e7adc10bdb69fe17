"""Solvers, factorisations, optimal control and Gaussian processes."""
import jax
import jax.numpy as jnp
from jax import lax

from . import array, f32, program


@program(f32(256, 256), f32(256))
def conjugate_gradient(m, b):
    a = m @ m.T + jnp.eye(256)

    def step(_, state):
        x, r, p, rr = state
        ap = a @ p
        alpha = rr / (p @ ap)
        x, r = x + alpha * p, r - alpha * ap
        new = r @ r
        return x, r, r + (new / rr) * p, new

    return lax.fori_loop(0, 30, step, (jnp.zeros_like(b), b, b, b @ b))[0]


@program(f32(64, 64))
def newton_inverse(m):
    a = m @ m.T + 64.0 * jnp.eye(64)
    start = a.T / (jnp.abs(a).sum(0).max() * jnp.abs(a).sum(1).max())
    return lax.fori_loop(0, 20, lambda _, x: x @ (2 * jnp.eye(64) - a @ x), start)


@program(f32(128, 128), f32(128))
def jacobi_solver(m, b):
    a = m + 128.0 * jnp.eye(128)
    d = jnp.diagonal(a)

    def step(state):
        x, _, count = state
        new = (b - (a @ x - d * x)) / d
        return new, jnp.abs(new - x).max(), count + 1

    x, _, count = lax.while_loop(lambda s: (s[1] > 1e-6) & (s[2] < 100), step, (b / d, jnp.float32(1), 0))
    return x, count


@program(f32(257, 257))
def multigrid(b):
    def smooth(u, f, times):
        def step(_, u):
            return u.at[1:-1, 1:-1].set(0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - f[1:-1, 1:-1]))
        return lax.fori_loop(0, times, step, u)

    def cycle(u, f):
        u = smooth(u, f, 3)
        if u.shape[0] <= 5:
            return u
        inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        residual = jnp.pad(f[1:-1, 1:-1] - inner, 1)
        coarse = 4 * residual[::2, ::2]
        correction = cycle(jnp.zeros_like(coarse), coarse)
        fine = jnp.zeros_like(u).at[::2, ::2].set(correction)
        fine = fine.at[1::2, ::2].set(0.5 * (fine[:-1:2, ::2] + fine[2::2, ::2]))
        fine = fine.at[:, 1::2].set(0.5 * (fine[:, :-1:2] + fine[:, 2::2]))
        return smooth(u + fine, f, 3)

    return cycle(jnp.zeros_like(b), b / 65536)


@program(f32(4096, 4, low=0.1))
def newton_systems(x):
    """Newton's method on 4,096 small systems, with Jacobians by differentiation."""
    def f(v):
        return jnp.stack([v[0] ** 2 + v[1] - 1, v[1] * v[2] + v[0] - 0.5, jnp.sin(v[2]) + v[3] - 0.2, v[3] ** 3 + v[3] + v[0] - 1])

    def step(v):
        j = jax.jacfwd(f)(v) + 2.0 * jnp.eye(4)
        return v - jnp.linalg.inv(j) @ f(v)

    return lax.fori_loop(0, 5, lambda _, v: jax.vmap(step)(v), x)


@program(f32(16, 16), f32(16, 4), f32(16, 16))
def lqr(a, b, q):
    a, q, r = 0.2 * a, q @ q.T + jnp.eye(16), jnp.eye(4)

    def step(p, _):
        gain = jnp.linalg.solve(r + b.T @ p @ b, b.T @ p @ a)
        return q + a.T @ p @ (a - b @ gain), gain

    return lax.scan(step, q, None, length=40)


@program(f32(12, 12), f32(12, 3), f32(12), f32(20, 3))
def mpc(a, b, start, controls):
    """Projected gradient on the controls of a linear model."""
    a = 0.3 * a

    def cost(u):
        def step(x, v):
            x = a @ x + b @ v
            return x, (x * x).sum() + 0.1 * (v * v).sum()
        return lax.scan(step, start, u)[1].sum()

    return lax.fori_loop(0, 20, lambda _, u: jnp.clip(u - 0.01 * jax.grad(cost)(u), -0.5, 0.5), controls)


@program(f32(4), f32(50, 1))
def ilqr_step(start, controls):
    def dynamics(x, u):
        return x + 0.05 * jnp.stack([x[1], jnp.sin(x[0]) + u[0], x[3], u[0] * jnp.cos(x[0]) - 0.1 * x[3]])

    def roll(x, u):
        return dynamics(x, u), x

    _, states = lax.scan(roll, start, controls)
    a = jax.vmap(jax.jacfwd(dynamics, 0))(states, controls)
    b = jax.vmap(jax.jacfwd(dynamics, 1))(states, controls)

    def back(carry, at):
        v, vv = carry
        a, b, x, u = at
        qx, qu = x + a.T @ v, 0.1 * u + b.T @ v
        qxx, quu, qux = jnp.eye(4) + a.T @ vv @ a, 0.1 * jnp.eye(1) + b.T @ vv @ b, b.T @ vv @ a
        k, gain = -qu / quu[0, 0], -qux / quu[0, 0]
        return (qx + gain.T @ qu, qxx + gain.T @ qux), (k, gain)

    _, (k, gains) = lax.scan(back, (states[-1], jnp.eye(4)), (a, b, states, controls), reverse=True)
    return controls + k + jnp.einsum("tij,tj->ti", gains, 0.1 * states)


@program(f32(200, 4), f32(200), f32(50, 4))
def gaussian_process(x, y, new):
    def kernel(a, b):
        return jnp.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1))

    factor = jnp.linalg.cholesky(kernel(x, x) + 0.1 * jnp.eye(200))
    weights = jax.scipy.linalg.cho_solve((factor, True), y)
    cross = kernel(new, x)
    half = jax.scipy.linalg.solve_triangular(factor, cross.T, lower=True)
    return cross @ weights, 1 - (half**2).sum(0), jnp.log(jnp.diagonal(factor)).sum()


@program(f32(512, 64), f32(64, low=0.1))
def power_iteration(m, v):
    def step(_, v):
        w = m.T @ (m @ v)
        return w / jnp.linalg.norm(w)
    v = lax.fori_loop(0, 50, step, v)
    return v, v @ (m.T @ (m @ v))


@program(array("f64", 300), array("f64", 300), wide=True)
def tridiagonal(diagonal, right):
    """Thomas's algorithm by two scans."""
    diagonal = diagonal + 4.0

    def forward(carry, at):
        c, d = carry
        b, r = at
        c, d = 1.0 / (b - c), (r - d) / (b - c)
        return (c, d), (c, d)

    _, (c, d) = lax.scan(forward, (0.0, 0.0), (diagonal, right))
    return lax.scan(lambda x, at: ((at[1] - at[0] * x),) * 2, 0.0, (c, d), reverse=True)[1]


@program(f32(20), f32(20, 64))
def hessian(x, w):
    """Second derivatives of a small network."""
    def loss(x):
        h = jnp.tanh(x @ w)
        return jnp.log1p(jnp.exp(h)).sum() + (h[1:] * h[:-1]).sum()

    return jax.hessian(loss)(x)


@program(f32(64, 32), f32(32, 32), f32(32, 1), f32(64, 1), f32(32, 32))
def hessian_vector_product(x, w, last, y, direction):
    def loss(w):
        return jnp.mean((jax.nn.softplus(x @ w) @ last - y) ** 2)
    return jax.jvp(jax.grad(loss), (w,), (direction,))


@program(f32(100, 2), f32(100))
def levenberg_marquardt(points, target):
    def residual(p):
        return p[0] * jnp.exp(-p[1] * points[:, 0] ** 2) + p[2] * jnp.sin(p[3] * points[:, 1]) - target

    def step(_, p):
        j, r = jax.jacfwd(residual)(p), residual(p)
        return p - jnp.linalg.solve(j.T @ j + 0.1 * jnp.eye(4), j.T @ r)

    return lax.fori_loop(0, 20, step, jnp.ones(4))


@program(f32(64, 10, 10))
def batched_lu(m):
    x = jnp.linalg.solve(m + 4 * jnp.eye(10), jnp.ones((64, 10, 1)))
    return x, jnp.linalg.slogdet(m + 4 * jnp.eye(10))


@program(f32(48, 48), f32(48, 48))
def matrix_exponential(m, b):
    a = m / 48
    term, total = jnp.eye(48), jnp.eye(48)
    for k in range(1, 9):
        term = term @ a / k
        total = total + term
    for _ in range(4):
        total = total @ total
    return total @ b


@program(f32(400, 2), f32(400, 2))
def sinkhorn(a, b):
    """Optimal transport with entropy, in the logarithm."""
    cost = ((a[:, None] - b[None]) ** 2).sum(-1) / 0.1

    def step(_, state):
        f, g = state
        f = -jax.nn.logsumexp(g[None] - cost, axis=1)
        return f, -jax.nn.logsumexp(f[:, None] - cost, axis=0)

    f, g = lax.fori_loop(0, 10, step, (jnp.zeros(400), jnp.zeros(400)))
    return (jnp.exp(f[:, None] + g[None] - cost) * cost).sum(), f

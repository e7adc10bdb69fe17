"""Differential equations, particles, lattices and epidemics."""
import jax
import jax.numpy as jnp
from jax import lax

from . import array, f32, program, s32


@program(f32(1024, 3))
def lorenz(start):
    """RK4 on 1,024 systems."""
    def f(v):
        x, y, z = v[:, 0], v[:, 1], v[:, 2]
        return jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], 1)

    def step(_, v):
        a = f(v)
        b = f(v + 0.005 * a)
        c = f(v + 0.005 * b)
        return v + 0.01 / 6 * (a + 2 * b + 2 * c + f(v + 0.01 * c))

    return lax.fori_loop(0, 50, step, start)


@program(array("f64", 2, low=0.5, high=1), wide=True)
def pendulum(start):
    """RK4 on one system: a loop of scalars."""
    def f(v):
        return jnp.stack([v[1], -jnp.sin(v[0]) - 0.1 * v[1]])

    def step(v, _):
        a = f(v)
        b = f(v + 0.005 * a)
        c = f(v + 0.005 * b)
        v = v + 0.01 / 6 * (a + 2 * b + 2 * c + f(v + 0.01 * c))
        return v, v[0]

    return lax.scan(step, start, None, length=1000)


@program(f32(128, 3), f32(128, 3, low=-0.1, high=0.1))
def molecules(x, v):
    """Lennard-Jones by velocity Verlet."""
    def force(x):
        d = x[:, None] - x[None]
        r2 = (d * d).sum(-1) + 0.5 + jnp.eye(128)
        inv = 0.2 / r2
        return (d * (inv**7 - 0.5 * inv**4)[..., None]).sum(1)

    def step(_, state):
        x, v, f = state
        x = x + 0.01 * v + 0.00005 * f
        new = force(x)
        return x, v + 0.005 * (f + new), new

    return lax.fori_loop(0, 10, step, (x, v, force(x)))


@program(f32(9, 64, 128, low=0.05, high=0.15))
def lattice_boltzmann(f):
    cx = jnp.array([0, 1, 0, -1, 0, 1, -1, -1, 1.0])
    cy = jnp.array([0, 0, 1, 0, -1, 1, 1, -1, -1.0])
    w = jnp.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
    shifts = list(zip((0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)))

    def step(_, f):
        f = jnp.stack([jnp.roll(f[i], shift, (1, 0)) for i, shift in enumerate(shifts)])
        rho = f.sum(0)
        ux, uy = jnp.tensordot(cx, f, 1) / rho, jnp.tensordot(cy, f, 1) / rho
        cu = cx[:, None, None] * ux + cy[:, None, None] * uy
        equal = w[:, None, None] * rho * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * (ux**2 + uy**2))
        return f + 0.6 * (equal - f)

    return lax.fori_loop(0, 10, step, f)


@program(f32(200, 200), f32(200, 200))
def wave_equation(u, before):
    def step(_, state):
        u, before = state
        p = jnp.pad(u, 1)
        near = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u
        return 2 * u - before + 0.2 * near, u
    return lax.fori_loop(0, 20, step, (u, before))


@program(f32(128, 128, low=0, high=1), f32(128, 128, low=0, high=0.5))
def gray_scott(u, v):
    def laplace(x):
        return sum(jnp.roll(x, s, a) for s in (1, -1) for a in (0, 1)) - 4 * x

    def step(_, state):
        u, v = state
        uvv = u * v * v
        return u + 0.16 * laplace(u) - uvv + 0.035 * (1 - u), v + 0.08 * laplace(v) + uvv - 0.1 * v

    return lax.fori_loop(0, 20, step, (u, v))


@program(f32(32, 32, 3, low=0, high=0.05))
def cloth(noise):
    """Springs between neighbours, corners held."""
    i, j = jnp.meshgrid(jnp.arange(32.0), jnp.arange(32.0), indexing="ij")
    rest = jnp.stack([i, j, 0 * i], -1) / 32

    def spring(a, b):
        d = b - a
        length = jnp.sqrt((d * d).sum(-1, keepdims=True) + 1e-9)
        return 40 * (length - 1 / 32) / length * d

    def step(_, state):
        x, v = state
        f = jnp.zeros_like(x).at[..., 2].set(-0.1)
        down, right = spring(x[:-1], x[1:]), spring(x[:, :-1], x[:, 1:])
        f = f.at[:-1].add(down).at[1:].add(-down).at[:, :-1].add(right).at[:, 1:].add(-right)
        v = 0.99 * (v + 0.02 * f)
        v = v.at[0, 0].set(0).at[0, -1].set(0)
        return x + 0.02 * v, v

    return lax.fori_loop(0, 30, step, (rest + noise, jnp.zeros((32, 32, 3))))


@program(f32(500, 3, low=0, high=1), f32(500, 500, low=0, high=1))
def epidemic(start, contacts):
    """A compartment model of 500 towns that mix."""
    mix = contacts / contacts.sum(1, keepdims=True)

    def step(state, _):
        s, i, r = state
        new = 0.3 * s * (0.9 * i + 0.1 * mix @ i)
        recovered = 0.1 * i
        return (s - new, i + new - recovered, r + recovered), i.sum()

    total = start.sum(1)
    return lax.scan(step, tuple(start[:, k] / total for k in range(3)), None, length=60)


@program(array("u32", 2, low=0, high=1000), f32(512, 2), f32(512, 2))
def boids(key, x, v):
    def step(_, state):
        x, v = state
        d = x[:, None] - x[None]
        r2 = (d**2).sum(-1)
        near = (r2 < 0.1).astype(jnp.float32)
        count = near.sum(1, keepdims=True)
        v = v + 0.01 * (near @ x / count - x) + 0.05 * (near @ v / count - v) + 0.001 * (d / (r2 + 0.01)[..., None]).sum(1)
        v = v / jnp.maximum(jnp.linalg.norm(v, axis=1, keepdims=True), 1)
        return (x + 0.01 * v) % 1.0, v
    return lax.fori_loop(0, 5, step, (x, v))


@program(f32(64, 64), f32(64, 64))
def fluid(u, v):
    """Stable fluids: advection by sampling and projection."""
    i, j = jnp.meshgrid(jnp.arange(64.0), jnp.arange(64.0), indexing="ij")

    def advect(q, u, v):
        x, y = (i - u) % 64, (j - v) % 64
        a, b = jnp.floor(x).astype(int) % 64, jnp.floor(y).astype(int) % 64
        s, t = x - jnp.floor(x), y - jnp.floor(y)
        c, d = (a + 1) % 64, (b + 1) % 64
        return (1 - s) * ((1 - t) * q[a, b] + t * q[a, d]) + s * ((1 - t) * q[c, b] + t * q[c, d])

    def step(_, state):
        u, v = state
        u, v = advect(u, u, v), advect(v, u, v)
        div = 0.5 * (jnp.roll(u, -1, 0) - jnp.roll(u, 1, 0) + jnp.roll(v, -1, 1) - jnp.roll(v, 1, 1))
        near = lambda p: jnp.roll(p, 1, 0) + jnp.roll(p, -1, 0) + jnp.roll(p, 1, 1) + jnp.roll(p, -1, 1)
        p = lax.fori_loop(0, 20, lambda _, p: 0.25 * (near(p) - div), jnp.zeros_like(div))
        return u - 0.5 * (jnp.roll(p, -1, 0) - jnp.roll(p, 1, 0)), v - 0.5 * (jnp.roll(p, -1, 1) - jnp.roll(p, 1, 1))

    return lax.fori_loop(0, 5, step, (u, v))


@program(f32(128, 128, low=0, high=0.01))
def poisson_spectral(f):
    k = jnp.fft.fftfreq(128) * 2 * jnp.pi
    k2 = (k[:, None] ** 2 + k[None] ** 2).at[0, 0].set(1)
    return jnp.fft.ifft2(jnp.fft.fft2(f) / -k2).real


@program(array("c64", 512), f32(512))
def schroedinger(psi, potential):
    """Split steps in space and frequency."""
    k = jnp.fft.fftfreq(512) * 2 * jnp.pi
    half, full = jnp.exp(-0.05j * potential), jnp.exp(-0.1j * k**2)
    return lax.fori_loop(0, 20, lambda _, p: half * jnp.fft.ifft(full * jnp.fft.fft(half * p)), psi)


@program(array("f64", 400, low=0.5, high=1.5), wide=True)
def burgers(u):
    """A flux-limited advection in 64 bits."""
    def limiter(a, b):
        return jnp.where(a * b > 0, jnp.where(jnp.abs(a) < jnp.abs(b), a, b), 0)

    def step(_, u):
        left, right = u - jnp.roll(u, 1), jnp.roll(u, -1) - u
        face = u + 0.5 * limiter(left, right)
        flux = 0.5 * face**2
        return u - 0.1 * (flux - jnp.roll(flux, 1))

    return lax.fori_loop(0, 200, step, u)


@program(f32(40, 40, 40))
def heat_3d(u):
    def step(_, u):
        near = sum(jnp.roll(u, s, a) for s in (1, -1) for a in (0, 1, 2))
        return u + 0.1 * (near - 6 * u)
    return lax.fori_loop(0, 10, step, u)


@program(f32(256, 24, 3), f32(24, 3), f32(1000, 3), f32(1000, 24, low=0, high=1))
def skinned_bodies(pose, joints, vertices, weights):
    """Bodies in poses: rotations of vectors, those of a chain of joints, and vertices that follow several of them."""
    def rotation(v):
        angle = jnp.sqrt((v * v).sum(-1, keepdims=True) + 1e-6)
        x, y, z = jnp.moveaxis(v / angle, -1, 0)
        none = jnp.zeros_like(x)
        k = jnp.stack([none, -z, y, z, none, -x, -y, x, none], -1).reshape(*v.shape, 3)
        angle = angle[..., None]
        return jnp.eye(3) + jnp.sin(angle) * k + (1 - jnp.cos(angle)) * (k @ k)

    def step(parent, joint):
        turn, place = parent
        own, offset = joint
        parent = turn @ own, place + turn @ offset
        return parent, parent
    turns = jnp.swapaxes(rotation(pose), 0, 1)
    start = jnp.broadcast_to(jnp.eye(3), (256, 3, 3)), jnp.zeros((256, 3))
    _, (turns, places) = lax.scan(lambda parent, joint: jax.vmap(step, (0, (0, None)))(parent, joint), start, (turns, joints))
    share = weights / weights.sum(1, keepdims=True)
    blended = jnp.einsum("vj,jbxy->bvxy", share, turns)
    return jnp.einsum("bvxy,vy->bvx", blended, vertices) + jnp.einsum("vj,jbx->bvx", share, places)


@program(f32(5000, 9, 3), s32(12, low=0, high=8))
def joint_directions(joints, chosen):
    """Bones from joint to joint of bodies, by a list that is known, and some joints by one that is not."""
    first, second = jnp.array([0, 0, 1, 2, 0, 4, 5]), jnp.array([1, 2, 3, 4, 5, 6, 7])
    bones = joints[:, second] - joints[:, first]
    return bones / (jnp.linalg.norm(bones, axis=-1, keepdims=True) + 1e-6), 2 * joints[..., 0][:, chosen] + 1

"""Graphs, sparse matrices, decoding, dynamic programming, integers and bits."""
import jax
import jax.numpy as jnp
from jax import lax

from . import array, f32, program, s32

NODES, EDGES = 2000, 16000
ENDS = s32(EDGES, low=0, high=NODES - 1)


@program(ENDS, ENDS)
def page_rank(source, target):
    degree = jnp.zeros(NODES).at[source].add(1.0)

    def step(_, rank):
        share = jnp.where(degree > 0, rank / jnp.maximum(degree, 1), 0)
        return 0.15 / NODES + 0.85 * jnp.zeros(NODES).at[target].add(share[source])

    return lax.fori_loop(0, 20, step, jnp.full(NODES, 1 / NODES))


@program(ENDS, ENDS, f32(NODES, 32), f32(32, 32), f32(32, 32))
def graph_convolution(source, target, x, w, last):
    for weight in (w, last):
        message = (x @ weight)[source]
        total = jax.ops.segment_sum(message, target, NODES)
        count = jax.ops.segment_sum(jnp.ones(EDGES), target, NODES)
        x = jax.nn.relu(total / jnp.maximum(count, 1)[:, None])
    return x


@program(ENDS, ENDS, f32(NODES, 16), f32(32))
def graph_attention(source, target, x, w):
    score = jax.nn.leaky_relu(x[source] @ w[:16] + x[target] @ w[16:])
    top = jax.ops.segment_max(score, target, NODES)
    weight = jnp.exp(score - top[target])
    weight = weight / jax.ops.segment_sum(weight, target, NODES)[target]
    return jax.ops.segment_sum(weight[:, None] * x[source], target, NODES)


@program(f32(NODES, 8), f32(NODES))
def sparse_product(values, x):
    """Eight entries a row, their columns computed; ten products."""
    column = (jnp.arange(NODES)[:, None] * 7 + jnp.arange(8)[None] ** 3 * 31) % NODES
    return lax.fori_loop(0, 10, lambda _, v: jnp.tanh((values * v[column]).sum(1)), x)


@program(f32(256, 256, low=0, high=1))
def breadth_first(raw):
    edge = raw > 0.99

    def step(state):
        level, front, depth = state
        new = (edge & front[:, None]).any(0) & (level < 0)
        return jnp.where(new, depth, level), new, depth + 1

    level = jnp.full(256, -1).at[0].set(0)
    return lax.while_loop(lambda s: s[1].any(), step, (level, jnp.arange(256) == 0, 1))[0]


@program(f32(96, 96, low=0.1, high=5))
def floyd_warshall(d):
    return lax.fori_loop(0, 96, lambda k, d: jnp.minimum(d, d[:, k, None] + d[None, k]), d)


@program(ENDS, ENDS)
def connected_components(source, target):
    def step(state):
        label, _ = state
        least = jnp.minimum(label[source], label[target])
        new = label.at[source].min(least).at[target].min(least)
        return new, (new != label).any()
    return lax.while_loop(lambda s: s[1], step, (jnp.arange(NODES), True))[0]


@program(f32(4, 50, 32), f32(50, 50))
def viterbi(scores, transitions):
    scores = scores.transpose(2, 0, 1)

    def step(best, score):
        both = best[:, :, None] + transitions
        return both.max(1) + score, both.argmax(1)

    last, back = lax.scan(step, scores[0], scores[1:])
    state = last.argmax(-1)

    def follow(state, pointer):
        before = jnp.take_along_axis(pointer, state[:, None], 1)[:, 0]
        return before, before

    return last.max(-1), lax.scan(follow, state, back, reverse=True)[1]


@program(f32(64, 8, 30), s32(8, 12, low=1, high=29))
def ctc_loss(logits, labels):
    p = jax.nn.log_softmax(logits)
    extended = jnp.zeros((8, 25), jnp.int32).at[:, 1::2].set(labels)
    skip = jnp.concatenate([jnp.zeros((8, 2), bool), (extended[:, 2:] != extended[:, :-2]) & (extended[:, 2:] != 0)], 1)

    def step(a, now):
        one = jnp.concatenate([jnp.full((8, 1), -1e9), a[:, :-1]], 1)
        two = jnp.where(skip, jnp.concatenate([jnp.full((8, 2), -1e9), a[:, :-2]], 1), -1e9)
        total = jax.nn.logsumexp(jnp.stack([a, one, two]), axis=0)
        return total + jnp.take_along_axis(now, extended, 1), None

    start = jnp.full((8, 25), -1e9).at[:, 0].set(p[0, :, 0]).at[:, 1].set(jnp.take_along_axis(p[0], labels[:, :1], 1)[:, 0])
    return -jnp.logaddexp(*jnp.moveaxis(lax.scan(step, start, p[1:])[0][:, -2:], 1, 0)).mean()


@program(f32(200, 32), f32(32, 200), f32(32, 32))
def beam_search(embedding, out, w):
    def step(state, _):
        score, hidden, tokens, at = state
        hidden = jnp.tanh(hidden @ w + embedding[tokens[jnp.arange(8), at]])
        total = (score[:, None] + jax.nn.log_softmax(hidden @ out)).ravel()
        score, place = lax.top_k(total, 8)
        beam, token = place // 200, place % 200
        tokens = tokens[beam].at[:, at + 1].set(token)
        return (score, hidden[beam], tokens, at + 1), None

    start = (jnp.array([0.0] + [-1e9] * 7), jnp.zeros((8, 32)), jnp.zeros((8, 33), jnp.int32), 0)
    (score, _, tokens, _), _ = lax.scan(step, start, None, length=32)
    return score, tokens


@program(s32(200, low=0, high=3), s32(256, low=0, high=3))
def edit_distances(a, b):
    def row(before, letter):
        corner = jnp.concatenate([before[:1] - 0, before[:-1]])
        best = jnp.minimum(before + 1, corner + (b != letter))
        place = jnp.arange(256)
        best = lax.cummin(best - place) + place
        return best, None
    return lax.scan(row, jnp.arange(256), a)[0]


@program(s32(60, low=1, high=50), s32(60, low=1, high=99))
def knapsack(weight, value):
    def step(best, item):
        w, v = item
        place = jnp.arange(1000)
        return jnp.where(place >= w, jnp.maximum(best, jnp.roll(best, w) + v), best), None
    return lax.scan(step, jnp.zeros(1000, jnp.int32), (weight, value))[0]


@program(f32(40, 40, low=0, high=1))
def value_iteration(reward):
    def step(state):
        v, _ = state
        p = jnp.pad(v, 1, mode="edge")
        best = jnp.maximum(jnp.maximum(p[:-2, 1:-1], p[2:, 1:-1]), jnp.maximum(p[1:-1, :-2], p[1:-1, 2:]))
        new = reward + 0.9 * (0.8 * best + 0.2 * v)
        return new, jnp.abs(new - v).max()
    return lax.while_loop(lambda s: s[1] > 1e-4, step, (jnp.zeros((40, 40)), jnp.float32(1)))[0]


@program(array("u8", 64, 256, low=0, high=255))
def crc32(data):
    table = jnp.arange(256, dtype=jnp.uint32)
    for _ in range(8):
        table = jnp.where(table & 1, (table >> 1) ^ jnp.uint32(0xEDB88320), table >> 1)

    def step(crc, byte):
        return (crc >> 8) ^ table[((crc ^ byte) & 255).astype(jnp.int32)], None

    return ~lax.scan(step, jnp.full(64, 0xFFFFFFFF, jnp.uint32), data.T.astype(jnp.uint32))[0]


@program(array("u32", 8192, low=1, high=4294967295))
def xorshift(x):
    def step(_, x):
        x = x ^ (x << 13)
        x = x ^ (x >> 17)
        return x ^ (x << 5)
    return lax.fori_loop(0, 64, step, x)


@program(array("u32", 512, 16, low=0, high=4294967295))
def sha_rounds(words):
    def turn(x, n):
        return (x >> n) | (x << (32 - n))

    w = [words[:, i] for i in range(16)]
    for i in range(16, 64):
        a, b = w[i - 15], w[i - 2]
        w.append(w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ (a >> 3)) + w[i - 7] + (turn(b, 17) ^ turn(b, 19) ^ (b >> 10)))

    def step(state, word):
        a, b, c, d, e, f, g, h = state
        t = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + word + jnp.uint32(0x428A2F98)
        u = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))
        return (t + u, a, b, c, d + t, e, f, g), None

    start = tuple(jnp.full(512, 0x6A09E667 + i, jnp.uint32) for i in range(8))
    return lax.scan(step, start, jnp.stack(w))[0]


@program(array("u64", 2048, low=0, high=2147483646), wide=True)
def modular_power(base):
    modulus = jnp.uint64(2147483647)

    def step(state):
        result, base, exponent = state
        result = jnp.where(exponent & 1, result * base % modulus, result)
        return result, base * base % modulus, exponent >> 1

    return lax.while_loop(lambda s: s[2] > 0, step, (jnp.ones_like(base), base, jnp.uint64(65537)))[0]


@program(array("u32", 4096, 8, low=0, high=4294967295), array("u32", 16, 8, low=0, high=4294967295))
def hamming_search(codes, queries):
    distance = lax.population_count(codes[None] ^ queries[:, None]).astype(jnp.int32).sum(-1)
    value, place = lax.top_k(-distance, 5)
    return -value, place


@program(array("pred", 256, 256, low=0, high=1))
def bit_packing(bits):
    place = jnp.arange(32, dtype=jnp.uint32)
    words = (bits.reshape(256, 8, 32).astype(jnp.uint32) << place).sum(-1, dtype=jnp.uint32)
    spread = (words ^ (words >> 1))[..., None] >> place & 1
    return words, spread.astype(bool).reshape(256, 256)


@program(array("u8", 256, 256, low=0, high=1))
def game_of_life(board):
    def step(_, board):
        rows = board + jnp.roll(board, 1, 0) + jnp.roll(board, -1, 0)
        near = rows + jnp.roll(rows, 1, 1) + jnp.roll(rows, -1, 1) - board
        return ((near == 3) | ((near == 2) & (board == 1))).astype(jnp.uint8)
    return lax.fori_loop(0, 20, step, board)


@program(s32(20000, low=0, high=499))
def unique_values(x):
    """Sorted distinct values with their counts and ranks."""
    x = jnp.sort(x)
    new = jnp.concatenate([jnp.ones(1, bool), x[1:] != x[:-1]])
    rank = jnp.cumsum(new) - 1
    values = jnp.zeros(512, jnp.int32).at[rank].set(x, mode="drop")
    return values, jax.ops.segment_sum(jnp.ones(20000, jnp.int32), rank, 512)


@program(f32(8, 4000), s32(8, 4000, low=0, high=9999))
def sort_pairs(key, value):
    order = jnp.argsort(key, axis=1)
    return jnp.take_along_axis(value, order, 1), lax.top_k(key, 16)


@program(s32(4000, low=0, high=255))
def run_lengths(x):
    """Run-length encoding by prefix sums and scatters."""
    x = x // 64
    start = jnp.concatenate([jnp.ones(1, bool), x[1:] != x[:-1]])
    place = jnp.cumsum(start) - 1
    return jnp.zeros(4000, jnp.int32).at[place].add(1), jnp.zeros(4000, jnp.int32).at[place].max(x), place[-1]


@program(s32(64, 64, low=0, high=1))
def flood_fill(walls):
    seen = jnp.zeros((64, 64), bool).at[0, 0].set(True)

    def step(state):
        seen, _ = state
        p = jnp.pad(seen, 1)
        new = (seen | p[:-2, 1:-1] | p[2:, 1:-1] | p[1:-1, :-2] | p[1:-1, 2:]) & ((walls == 0) | seen | (jnp.arange(64) % 3 > 0))
        return new, (new != seen).any()

    return lax.while_loop(lambda s: s[1], step, (seen, True))[0]

"""Calls, loops, branches, tuples, tokens, and the asynchronous forms."""
import numpy as np

from cases import Case, computation, program, shape
from values import ALL, FEW, FEW_NUMBERS, distinct, random
from reduction import few_values


def case(op, element_type, what, lines, inputs, computations="", *source):
    return Case(op, element_type, what, program(lines, inputs, computations), inputs, *source)


def cases():
    for element_type in FEW_NUMBERS:
        array = shape(element_type, (3, 4))
        x, y = (few_values(element_type, (3, 4), "control", number) for number in range(2))
        scalar = few_values(element_type, (), "control")
        double = computation("double", [array], [f"{array} add(p0, p0)"])
        square = computation("square", [array], [f"{array} multiply(p0, p0)"])
        negate = computation("negate", [array], [f"{array} {'negate' if element_type != 'pred' else 'not'}(p0)"])
        yield case("call", element_type, "twice", [f"a = {array} call(p0), to_apply=double", f"{array} call(a), to_apply=double"], [x], double)
        pair = computation("pair", [array, array], [f"s = {array} add(p0, p1)", f"d = {array} subtract(p0, p1)", f"({array}, {array}) tuple(s, d)"])
        yield case("call", element_type, "with a tuple", [f"({array}, {array}) call(p0, p1), to_apply=pair"], [x, y], pair)

        for taken in (True, False):
            text = f"{array} conditional(p0, p1, p2), true_computation=double, false_computation=square"
            yield case("conditional", element_type, f"on {str(taken).lower()}", text, [np.array(taken), x, y], double + square)
        for index in (-1, 0, 1, 2, 3, 100):
            text = f"{array} conditional(p0, p1, p1, p2), branch_computations={{double, square, negate}}"
            yield case("conditional", element_type, f"branch {index}", text, [np.array(index, np.int32), x, y], double + square + negate)

        state = f"(s32[], {array})"
        condition = computation("below", [state], ["i = s32[] get-tuple-element(p0), index=0", "limit = s32[] constant(5)", "pred[] compare(i, limit), direction=LT"])
        body = computation("step", [state], ["i = s32[] get-tuple-element(p0), index=0", "one = s32[] constant(1)", "next = s32[] add(i, one)",
                                             f"v = {array} get-tuple-element(p0), index=1", f"w = {array} add(v, v)", f"{state} tuple(next, w)"])
        for start in (0, 5):
            lines = [f"start = {state} tuple(p0, p1)", f"{state} while(start), condition=below, body=step"]
            yield case("while", element_type, f"from {start}", lines, [np.array(start, np.int32), x], condition + body)

        yield case("tuple", element_type, "nested", [f"inner = ({array}, {shape(element_type, [])}) tuple(p0, p1)", f"(({array}, {shape(element_type, [])}), {array}) tuple(inner, p0)"], [x, scalar])
        yield case("get-tuple-element", element_type, "of a nested tuple",
                   [f"inner = ({array}, {shape(element_type, [])}) tuple(p0, p1)", f"outer = (({array}, {shape(element_type, [])}), {array}) tuple(inner, p0)",
                    f"again = ({array}, {shape(element_type, [])}) get-tuple-element(outer), index=0", f"{shape(element_type, [])} get-tuple-element(again), index=1"], [x, scalar])
        yield case("opt-barrier", element_type, "of a tuple",
                   [f"t = ({array}, {array}) tuple(p0, p1)", f"b = ({array}, {array}) opt-barrier(t)", f"v = {array} get-tuple-element(b), index=0",
                    f"w = {array} get-tuple-element(b), index=1", f"{array} add(v, w)"], [x, y])
        yield case("parameter", element_type, "as the result", [f"({array}, {array}) tuple(p1, p0)"], [x, y])
        fused = computation("fused", [array, array], [f"a = {array} add(p0, p1)", f"{array} multiply(a, p1)"])
        yield case("fusion", element_type, "loop", f"{array} fusion(p0, p1), kind=kLoop, calls=fused", [x, y], fused,
                   lambda a, b: wrapping(lambda: (a + b) * b), "document")
        asynchronous = computation("body", [array], [f"{array} add(p0, p0)"])
        yield case("async-start", element_type, "call",
                   [f"start = (({array}), {array}, u32[]) async-start(p0), calls=body", f"update = (({array}), {array}, u32[]) async-update(start), calls=body",
                    f"{array} async-done(update), calls=body"], [x], asynchronous, lambda a: wrapping(lambda: a + a), "document")
        for op in ("async-update", "async-done"):
            yield case(op, element_type, "call",
                       [f"start = (({array}), {array}, u32[]) async-start(p0), calls=body"] +
                       ([f"update = (({array}), {array}, u32[]) async-update(start), calls=body"] if op == "async-update" else []) +
                       [f"{array} async-done({'update' if op == 'async-update' else 'start'}), calls=body"], [x], asynchronous, lambda a: wrapping(lambda: a + a), "document")
        yield case("copy-start", element_type, "and done", [f"s = ({array}, {array}, u32[]) copy-start(p0)", f"{array} copy-done(s)"], [x], "", lambda a: a, "document")
        yield case("copy-done", element_type, "of a copy", [f"c = {array} copy(p0)", f"s = ({array}, {array}, u32[]) copy-start(c)", f"{array} copy-done(s)"], [x], "", lambda a: a, "document")
        yield case("after-all", element_type, "of two tokens", ["a = token[] after-all()", "b = token[] after-all()", "t = token[] after-all(a, b)", f"{array} add-dependency(p0, t)"], [x], "", lambda a: a, "document")
        yield case("add-dependency", element_type, "on a token", ["t = token[] after-all()", f"d = {array} add-dependency(p0, t)", f"{array} add(d, d)"], [x], "", lambda a: wrapping(lambda: a + a), "document")
        yield case("domain", element_type, "sharding", [f"{array} domain(p0), domain={{kind=\"sharding\", entry={{replicated}}, exit={{replicated}}}}"], [x], "", lambda a: a, "document")

    # Loops in loops, a condition on floats, a result that is not the whole state.
    inner_state = "(s32[], s32[])"
    functions = (
        computation("inner_below", [inner_state], ["i = s32[] get-tuple-element(p0), index=0", "limit = s32[] constant(3)", "pred[] compare(i, limit), direction=LT"])
        + computation("inner_step", [inner_state], ["i = s32[] get-tuple-element(p0), index=0", "one = s32[] constant(1)", "n = s32[] add(i, one)", "s = s32[] get-tuple-element(p0), index=1", "t = s32[] add(s, i)", f"{inner_state} tuple(n, t)"])
        + computation("below", [inner_state], ["i = s32[] get-tuple-element(p0), index=0", "limit = s32[] constant(4)", "pred[] compare(i, limit), direction=LT"])
        + computation("step", [inner_state], ["i = s32[] get-tuple-element(p0), index=0", "s = s32[] get-tuple-element(p0), index=1", "zero = s32[] constant(0)", f"start = {inner_state} tuple(zero, s)",
                                             f"done = {inner_state} while(start), condition=inner_below, body=inner_step", "t = s32[] get-tuple-element(done), index=1", "one = s32[] constant(1)", "n = s32[] add(i, one)", f"{inner_state} tuple(n, t)"]))
    yield case("while", "s32", "nested", [f"start = {inner_state} tuple(p0, p1)", f"end = {inner_state} while(start), condition=below, body=step", "s32[] get-tuple-element(end), index=1"],
               [np.array(0, np.int32), np.array(10, np.int32)], functions)
    functions = (computation("large", ["f32[]"], ["one = f32[] constant(1)", "pred[] compare(p0, one), direction=GT"]) + computation("half", ["f32[]"], ["two = f32[] constant(2)", "f32[] divide(p0, two)"]))
    yield case("while", "f32", "until small", "f32[] while(p0), condition=large, body=half", [np.float32(1000).reshape(())], functions)


def wrapping(function):
    with np.errstate(all="ignore"):
        return function()

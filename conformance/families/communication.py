"""Collectives, channels and queues, of one replica: XLA:CPU runs few of these, the document's rules are plain."""
import numpy as np

from cases import Case, combiner, program, shape
from values import FEW_NUMBERS, distinct
from reduction import few_values


def identity(operand):
    return operand


def cases():
    for element_type in FEW_NUMBERS:
        array = shape(element_type, (2, 3))
        x = few_values(element_type, (2, 3), "collective")
        y = few_values(element_type, (2, 3), "collective", 2)
        add = combiner(element_type)

        def case(op, what, lines, expected=identity, inputs=(x,), computations=""):
            return Case(op, element_type, what, program(lines, inputs, computations), list(inputs), expected, "document")

        yield case("all-reduce", "sum", f"{array} all-reduce(p0), replica_groups={{}}, to_apply=f", computations=add)
        yield case("all-reduce", "of two arrays", f"({array}, {array}) all-reduce(p0, p1), replica_groups={{{{0}}}}, to_apply=f", lambda a, b: [a, b], (x, y), add)
        yield case("all-reduce-start", "and done", [f"s = {array} all-reduce-start(p0), replica_groups={{}}, to_apply=f", f"{array} all-reduce-done(s)"], computations=add)
        yield case("all-reduce-done", "of a start", [f"s = {array} all-reduce-start(p0), replica_groups={{}}, to_apply=f", f"d = {array} all-reduce-done(s)", f"{array} copy(d)"], computations=add)
        yield case("all-gather", "rows", f"{array} all-gather(p0), replica_groups={{}}, dimensions={{0}}")
        for op in ("all-gather-start", "all-gather-done"):
            yield case(op, "columns", [f"s = ({array}, {array}) all-gather-start(p0), replica_groups={{}}, dimensions={{1}}", f"{array} all-gather-done(s)"])
        yield case("all-to-all", "rows", f"{array} all-to-all(p0), replica_groups={{{{0}}}}, dimensions={{0}}")
        yield case("reduce-scatter", "rows", f"{array} reduce-scatter(p0), replica_groups={{}}, dimensions={{0}}, to_apply=f", computations=add)
        yield case("collective-permute", "to itself", f"{array} collective-permute(p0), source_target_pairs={{{{0,0}}}}")
        yield case("collective-permute", "to nobody", f"{array} collective-permute(p0), source_target_pairs={{}}", np.zeros_like)
        for op in ("collective-permute-start", "collective-permute-done"):
            yield case(op, "to itself", [f"s = ({array}, {array}, u32[], u32[]) collective-permute-start(p0), source_target_pairs={{{{0,0}}}}", f"{array} collective-permute-done(s)"])
        yield case("collective-broadcast", "from itself", f"{array} collective-broadcast(p0), replica_groups={{{{0}}}}")
        output = distinct(element_type, (4, 3))
        offsets = [np.array([value], np.int32) for value in (0, 2, 2, 2)]
        names = "o, c, q, r"
        lines = [f"{shape(element_type, (4, 3))} ragged-all-to-all(p0, p1, p2, p3, p4, p5), replica_groups={{{{0}}}}"]
        inputs = (x, output, np.array([0], np.int32), np.array([2], np.int32), np.array([1], np.int32), np.array([2], np.int32))
        yield case("ragged-all-to-all", "two rows", lines, lambda a, b, *_: np.concatenate([b[:1], a, b[3:]]), inputs)
        # Queues: what is fed comes out, what is sent arrives.
        lines = ["t = token[] after-all()", f"i = ({array}, token[]) infeed(t)", f"v = {array} get-tuple-element(i), index=0", f"{array} add(v, p0)"]
        text = program(lines, [x])
        with np.errstate(all="ignore"):
            yield Case("infeed", element_type, "one array", text, [x], lambda a, b=y: a + b, "document", fed=[y])
            lines = ["t = token[] after-all()", f"i = ({array}, token[]) infeed(t)", "u = token[] get-tuple-element(i), index=1", f"j = ({array}, token[]) infeed(u)",
                     f"v = {array} get-tuple-element(i), index=0", f"w = {array} get-tuple-element(j), index=0", f"({array}, {array}) tuple(w, v)"]
            yield Case("infeed", element_type, "twice", program(lines, []), [], lambda a=x, b=y: [b, a], "document", fed=[x, y])
            lines = ["t = token[] after-all()", f"s = {array} add(p0, p1)", f"o = token[] outfeed(s, t), outfeed_shape={array}", f"{array} add-dependency(p0, o)"]
            yield Case("outfeed", element_type, "one array", program(lines, [x, y]), [x, y], lambda a, b: a, "document", written=[x + y])
        for op in ("send", "send-done", "recv", "recv-done"):
            lines = ["t = token[] after-all()", f"s = ({array}, u32[], token[]) send(p0, t), channel_id=1", "sd = token[] send-done(s), channel_id=1",
                     f"q = ({array}, u32[], token[]) recv({'sd' if op in ('send', 'send-done') else 't'}), channel_id=1",
                     f"qd = ({array}, token[]) recv-done(q), channel_id=1", f"{array} get-tuple-element(qd), index=0"]
            yield case(op, "to itself", lines)
    for op in ("replica-id", "partition-id"):
        yield Case(op, "u32", "of the only one", program(f"u32[] {op}()", []), [], lambda: np.array(0, np.uint32), "document")

"""Collectives of 2, 4 and 8 devices, in every form of groups: XLA:CPU runs them on as many; where it refuses, the document's rules."""
import dataclasses
import functools

import numpy as np

from cases import Case, combiner, program, shape
from reduction import few_values
from values import ALL

# Types of less than a byte.
PACKED = ("s2", "u2", "s4", "u4", "f4e2m1fn")
# (replicas, partitions)
COUNTS = [(2, 1), (4, 1), (8, 1), (1, 2), (1, 4), (1, 8), (2, 2), (2, 4), (4, 2)]


def explicit(groups):
    return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in groups) + "}"


def numberings(count):
    """Forms of groups of `count` numbers, with what they are: (what, text, groups)."""
    every = list(range(count))
    yield "all", "{}", [every]
    yield "all, backwards", explicit([every[::-1]]), [every[::-1]]
    half = count // 2
    if half > 1:
        yield "halves", explicit([every[:half], every[half:]]), [every[:half], every[half:]]
        interleaved = [every[0::2], every[1::2]]
        yield "interleaved", f"[2,{half}]<=[{half},2]T(1,0)", interleaved
        yield "iota of halves", f"[2,{half}]<=[{count}]", [every[:half], every[half:]]
    yield "each alone", explicit([[number] for number in every]), [[number] for number in every]


def group_forms(replicas, partitions, takes_device_ids):
    """(what, attributes, groups of devices); device = replica * partitions + partition."""
    device = lambda replica, partition: replica * partitions + partition
    if replicas > 1:
        for what, text, groups in numberings(replicas):
            yield f"replicas: {what}", f"replica_groups={text}", [[device(r, p) for r in group] for group in groups for p in range(partitions)]
    if partitions > 1 and not takes_device_ids:
        for what, text, groups in numberings(partitions):
            yield f"partitions: {what}", f"channel_id=1, replica_groups={text}", [[device(r, p) for p in group] for group in groups for r in range(replicas)]
    if partitions > 1 and takes_device_ids:
        for what, text, groups in numberings(replicas) if replicas > 1 else [("all", "{{0}}", [[0]])]:
            together = [[device(r, p) for r in group for p in range(partitions)] for group in groups]
            yield f"replicas with their partitions: {what}", f"channel_id=1, replica_groups={text}", together
        for what, text, groups in list(numberings(replicas * partitions))[1:]:
            yield f"devices: {what}", f"channel_id=1, replica_groups={text}, use_global_device_ids=true", groups


def member_of(groups, device):
    return next((group for group in groups if device in group), None)


def by_groups(groups, rule):
    """The results of each device: `rule(operands of the group's members, place in the group)`."""
    def results(inputs):
        found = []
        for device in range(len(inputs)):
            group = member_of(groups, device)
            found.append(rule([inputs[member] for member in group], group.index(device)))
        return found
    return results


def add(element_type):
    return "or" if element_type == "pred" else "add"


def total(arrays):
    if arrays[0].dtype == np.bool_:
        return functools.reduce(np.logical_or, arrays)
    return functools.reduce(lambda a, b: (a + b).astype(a.dtype), arrays)


class Maker:
    def __init__(self, element_type, count, sizes):
        self.type, self.count = element_type, count
        self.devices = count[0] * count[1]
        self.inputs = [[few_values(element_type, sizes, "device", device)] for device in range(self.devices)]
        self.array = shape(element_type, sizes)

    def case(self, op, what, lines, rule, computations="", inputs=None):
        inputs = self.inputs if inputs is None else inputs
        header = f"replica_count={self.count[0]}, num_partitions={self.count[1]}"
        text = program(lines, inputs[0], computations).replace("HloModule m", f"HloModule m, {header}", 1)
        name = f"{self.count[0]}x{self.count[1]}, {what}"
        return Case(op, self.type, name, text, inputs, otherwise=rule, devices=self.count)

    def moved(self, op, what, lines, rule):
        """A case of an operation in which XLA:CPU loses elements of less than a byte, of which it moves several at once."""
        case = self.case(op, what, lines, rule)
        return dataclasses.replace(case, expected=rule, source="document") if self.type in PACKED else case


def cases():
    for count in COUNTS:
        yield from forms(count)
    for element_type in ALL:
        yield from types(element_type)


def forms(count):
    for position, (what, attributes, groups) in enumerate(group_forms(*count, True)):
        element_type = ["f32", "s32", "bf16"][position % 3]
        yield from reductions(Maker(element_type, count, (16, 3)), what, attributes, groups)
        yield from gathers(Maker(element_type, count, (2, 3)), what, attributes, groups)
    for what, attributes, groups in group_forms(*count, False):
        yield from exchanges(Maker("f32", count, (16, 8)), what, attributes, groups)
    yield from permutes(Maker("f32", count, (2, 3)))
    yield from numbers(Maker("u32", count, ()))


def types(element_type):
    """Every collective in every type, on four replicas."""
    groups = [[0, 2], [3, 1]]
    attributes = f"replica_groups={explicit(groups)}"
    yield from reductions(Maker(element_type, (4, 1), (4, 3)), "pairs", attributes, groups)
    yield from gathers(Maker(element_type, (4, 1), (2, 3)), "pairs", attributes, groups)
    yield from exchanges(Maker(element_type, (4, 1), (4, 6)), "pairs", attributes, groups)
    if element_type != "f32":
        yield from permutes(Maker(element_type, (4, 1), (5,)))


def reductions(make, what, attributes, groups):
    f, array, size = combiner(make.type, add(make.type)), make.array, len(groups[0])
    yield make.case("all-reduce", what, f"{array} all-reduce(p0), {attributes}, to_apply=f", by_groups(groups, lambda all, _: [total([one for one, in all])]), f)
    started = [f"s = {array} all-reduce-start(p0), {attributes}, to_apply=f", f"{array} all-reduce-done(s)"]
    yield make.case("all-reduce-start", what, started, by_groups(groups, lambda all, _: [total([one for one, in all])]), f)
    pair = f"({array}, {array}) all-reduce(p0, n), {attributes}, to_apply=f"
    rule = lambda all, _: [total([one for one, in all]), total([one[::-1] for one, in all])]
    lines = [f"n = {array} reverse(p0), dimensions={{0}}", f"({array}, {array}) all-reduce(p0, n), {attributes}, to_apply=f"]
    yield make.case("all-reduce", f"{what}, two arrays", lines, by_groups(groups, rule), f)
    whole = make.inputs[0][0].shape
    for dimension in range(len(whole)):
        part = list(whole)
        part[dimension] //= size
        scattered = f"{shape(make.type, part)} reduce-scatter(p0), {attributes}, dimensions={{{dimension}}}, to_apply=f"
        rule = lambda all, place, dimension=dimension: [np.split(total([one for one, in all]), size, dimension)[place]]
        if whole[dimension] % size == 0:
            yield make.case("reduce-scatter", f"{what}, dimension {dimension}", scattered, by_groups(groups, rule), f)


def gathers(make, what, attributes, groups):
    sizes, size = make.inputs[0][0].shape, len(groups[0])
    for dimension in range(len(sizes)):
        whole = list(sizes)
        whole[dimension] *= size
        result = shape(make.type, whole)
        rule = by_groups(groups, lambda all, _, dimension=dimension: [np.concatenate([one for one, in all], dimension)])
        gathered = f"(p0), {attributes}, dimensions={{{dimension}}}"
        yield make.moved("all-gather", f"{what}, dimension {dimension}", f"{result} all-gather{gathered}", rule)
    lines = [f"s = ({make.array}, {result}) all-gather-start{gathered}", f"{result} all-gather-done(s)"]
    yield make.moved("all-gather-start", what, lines, rule)


def exchanges(make, what, attributes, groups):
    """Operations whose groups number partitions if they have a channel."""
    array, size, sizes = make.array, len(groups[0]), make.inputs[0][0].shape
    yield make.case("collective-broadcast", what, f"{array} collective-broadcast(p0), {attributes}", by_groups(groups, lambda all, _: list(all[0])))
    for dimension in range(2):
        if sizes[dimension] % size:
            continue
        rule = lambda all, place, dimension=dimension: [np.concatenate([np.split(one, size, dimension)[place] for one, in all], dimension)]
        yield make.case("all-to-all", f"{what}, dimension {dimension}", f"{array} all-to-all(p0), {attributes}, dimensions={{{dimension}}}", by_groups(groups, rule))
    if size == 1:
        return
    operands = [f"x{number} = {array} {'copy' if number % 2 else 'reverse'}(p0){'' if number % 2 else ', dimensions={0}'}" for number in range(size)]
    tuple_type = "(" + ", ".join([array] * size) + ")"
    exchange = f"{tuple_type} all-to-all({', '.join(f'x{number}' for number in range(size))}), {attributes}"
    yield make.case("all-to-all", f"{what}, operands", [*operands, exchange], by_groups(groups, lambda all, place: [one if place % 2 else one[::-1] for one, in all]))
    yield ragged(make, what, attributes, groups)


def ragged(make, what, attributes, groups):
    """Member m sends m % 2 + 1 of its rows to each other member, which puts them at row 2 * m."""
    size = len(groups[0])
    inputs = []
    for device in range(make.devices):
        group = member_of(groups, device)
        place = group.index(device)
        own = few_values(make.type, (2 * size, 3), "ragged", device)
        output = few_values(make.type, (2 * size, 3), "output", device)
        count = place % 2 + 1
        numbers = [[2 * other for other in range(size)], [count] * size, [2 * place] * size, [other % 2 + 1 for other in range(size)]]
        inputs.append([own, output, *(np.array(values, np.int32) for values in numbers)])

    def rule(all, place):
        result = all[place][1].copy()
        for sender, operands in enumerate(all):
            count = sender % 2 + 1
            result[2 * sender:2 * sender + count] = operands[0][2 * place:2 * place + count]
        return [result]

    array = shape(make.type, (2 * size, 3))
    line = f"{array} ragged-all-to-all(p0, p1, p2, p3, p4, p5), {attributes}"
    return make.case("ragged-all-to-all", what, line, by_groups(groups, rule), inputs=inputs)


def permutes(make):
    replicas, partitions = make.count
    spaces = [("replicas", "", replicas, lambda id, other: id * partitions + other, partitions)]
    spaces.append(("partitions", "channel_id=1, ", partitions, lambda id, other: other * partitions + id, replicas))
    for space, channel, ids, device, others in spaces:
        if ids == 1:
            continue
        ring = [(number, (number + 1) % ids) for number in range(ids)]
        for what, pairs in (("ring", ring), ("line", ring[:-1]), ("swap", [(0, 1), (1, 0)]), ("to itself", [(1, 1)])):
            source = {device(target, other): device(origin, other) for origin, target in pairs for other in range(others)}
            rule = lambda inputs, source=source: [list(inputs[source[number]]) if number in source else [np.zeros(inputs[0][0].shape).astype(inputs[0][0].dtype)] for number in range(make.devices)]
            text = f"{channel}source_target_pairs={explicit(pairs)}"
            yield make.case("collective-permute", f"{space}: {what}", f"{make.array} collective-permute(p0), {text}", rule)
        lines = [f"s = ({make.array}, {make.array}, u32[], u32[]) collective-permute-start(p0), {text}", f"{make.array} collective-permute-done(s)"]
        yield make.case("collective-permute-start", f"{space}: {what}", lines, rule)
        sent = f"channel_id={1 if channel else 0}, frontend_attributes={{_xla_send_recv_source_target_pairs=\"{explicit(ring[:-1])}\"}}"
        source = {device(target, other): device(origin, other) for origin, target in ring[:-1] for other in range(others)}
        rule = lambda inputs, source=source: [list(inputs[source[number]]) if number in source else [np.zeros(inputs[0][0].shape).astype(inputs[0][0].dtype)] for number in range(make.devices)]
        lines = ["t = token[] after-all()", f"s = ({make.array}, u32[], token[]) send(p0, t), {sent}", f"q = ({make.array}, u32[], token[]) recv(t), {sent}",
                 f"d = ({make.array}, token[]) recv-done(q), channel_id={1 if channel else 0}", f"e = token[] send-done(s), channel_id={1 if channel else 0}", f"{make.array} get-tuple-element(d), index=0"]
        yield make.case("send", f"{space}: line", lines, rule)


def numbers(make):
    replicas, partitions = make.count
    for op, number in (("replica-id", lambda device: device // partitions), ("partition-id", lambda device: device % partitions)):
        rule = lambda inputs, number=number: [[np.array(number(device), np.uint32)] for device in range(make.devices)]
        yield make.case(op, "", f"u32[] {op}()", rule, inputs=[[] for _ in range(make.devices)])

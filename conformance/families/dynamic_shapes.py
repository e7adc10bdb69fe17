"""Bounded dynamic dimensions: get-dimension-size, set-dimension-size, dynamic-reshape."""
import numpy as np

from cases import Case, combiner, program, shape
from values import FEW, FEW_NUMBERS, distinct, random
from reduction import few_values, initial


def cases():
    for element_type in FEW:
        operand = distinct(element_type, (3, 5))
        for dimension in range(2):
            yield Case("get-dimension-size", element_type, f"{dimension} of a static shape", program(f"s32[] get-dimension-size(p0), dimensions={{{dimension}}}", [operand]), [operand])
    for element_type in FEW_NUMBERS:
        for size in (0, 1, 3, 5):
            operand = few_values(element_type, (3, 5), "dynamic")
            inputs = [operand, np.array(size, np.int32), initial("add", element_type, operand.dtype)]
            dynamic = f"{element_type}[3,<=5]"
            text = program([f"d = {dynamic} set-dimension-size(p0, p1), dimensions={{1}}", "s32[] get-dimension-size(d), dimensions={1}"], inputs[:2])
            yield Case("get-dimension-size", element_type, f"of {size} set", text, inputs[:2], lambda operand, size: size, "document")
            # The document: what is beyond the size is not there for the operations that follow.
            text = program([f"d = {dynamic} set-dimension-size(p0, p1), dimensions={{1}}", f"{shape(element_type, (3,))} reduce(d, p2), dimensions={{1}}, to_apply=f"], inputs, combiner(element_type))
            yield Case("set-dimension-size", element_type, f"sum of {size}", text, inputs,
                       lambda operand, size, zero: operand[:, :int(size)].astype(np.complex128 if operand.dtype.kind == "c" else np.float64).sum(1).astype(operand.dtype), "document")
            text = program([f"d = {dynamic} set-dimension-size(p0, p1), dimensions={{1}}", "bound = s32[] constant(5)", f"{shape(element_type, (3, 5))} set-dimension-size(d, bound), dimensions={{1}}"], inputs[:2])
    for size in (1, 2, 4):
        operand = distinct("s32", (4, 3))
        inputs = [operand, np.array(size, np.int32)]
        lines = ["d = s32[<=4,3] set-dimension-size(p0, p1), dimensions={0}", "three = s32[] constant(3)", "n = s32[] multiply(p1, three)",
                 "flat = s32[<=12] dynamic-reshape(d, n)", "zero = s32[] constant(0)", "s32[] reduce(flat, zero), dimensions={0}, to_apply=f"]
        yield Case("dynamic-reshape", "s32", f"sum of {size} rows", program(lines, inputs, combiner("s32")), inputs, lambda operand, size: operand[:int(size)].sum(dtype=np.int32).reshape(()), "document")

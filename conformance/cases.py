"""A conformance case, the text of its program, and the files that hold cases."""
import dataclasses
import gzip
import json
import zlib
from typing import Callable, Optional

import numpy as np

from reference import NUMPY_TYPES, Refused


@dataclasses.dataclass
class Case:
    """A program of one operation on one element type.

    `expected` is None where XLA:CPU gives the results. Elsewhere it is a function that gives them from the inputs,
    and `source` says what it follows: `ieee` (the operation in more bits, rounded once), `document` (the operation
    semantics) or `numpy`. `otherwise` is the document's rule for programs that XLA:CPU may refuse.
    """

    op: str
    type: str
    what: str
    text: str
    inputs: list
    expected: Optional[Callable] = None
    source: str = "xla"
    otherwise: Optional[Callable] = None
    # Arrays that the program reads from its infeed queue, and those that it writes to its outfeed queue.
    fed: list = dataclasses.field(default_factory=list)
    written: list = dataclasses.field(default_factory=list)
    # (replicas, partitions): `inputs` and results are then lists of those of each device.
    devices: Optional[tuple] = None

    @property
    def name(self):
        return f"{self.op} {self.type} {self.what}"


def type_name(array):
    for name, numpy_type in NUMPY_TYPES.items():
        if array.dtype == np.dtype(numpy_type):
            return name
    raise ValueError(array.dtype)


def shape(element_type, sizes, layout=None):
    """A shape in HLO text; `layout` is minor to major."""
    text = f"{element_type}[{','.join(map(str, sizes))}]"
    return text if layout is None else text + "{" + ",".join(map(str, layout)) + "}"


def shape_of(array):
    return shape(type_name(array), array.shape)


def program(lines, parameters, computations=""):
    """An entry computation `p0 = …, p1 = …` with the given further lines, of which the last is the root.

    Each line is `name = shape op(…)`; the root may leave its name out.
    """
    lines = [lines] if isinstance(lines, str) else list(lines)
    texts = [p if isinstance(p, str) else shape_of(p) for p in parameters]
    body = [f"  p{number} = {text} parameter({number})" for number, text in enumerate(texts)]
    body += [f"  {line}" for line in lines[:-1]]
    root = lines[-1]
    body.append(f"  ROOT {root}" if root.split(" ", 2)[1:2] == ["="] else f"  ROOT r = {root}")
    return f"HloModule m\n\n{computations}ENTRY e {{\n" + "\n".join(body) + "\n}\n"


def computation(name, parameters, lines):
    """A computation `name` with parameters `p0 …` of the given shapes; its last line is the root."""
    entry = program(lines, parameters)
    return entry.split("\n\n", 1)[1].replace("ENTRY e", name, 1) + "\n"


def combiner(element_type, op="add", name="f"):
    """The computation of one binary operation on scalars."""
    scalar = shape(element_type, [])
    return computation(name, [scalar, scalar], f"{scalar} {op}(p0, p1)")


def generator(*key):
    """Random numbers that depend on the key alone."""
    return np.random.default_rng(zlib.crc32(" ".join(map(str, key)).encode()))


def hexadecimal(array):
    """The bytes as halo's literals have them: elements of 2 and 4 bits extended to a byte."""
    if type_name(array) in ("s2", "s4", "u2", "u4"):
        array = array.astype(np.int8 if type_name(array)[0] == "s" else np.uint8)
    return np.ascontiguousarray(array).tobytes().hex()


def results_of(case, xla):
    """Where the results come from, and the results. Raises Refused where XLA:CPU has none and no rule stands for it."""
    source, rule = case.source, case.expected
    if rule is None:
        try:
            return source, xla.run(case.text, case.inputs, case.devices)
        except Refused:
            if case.otherwise is None:
                raise
            source, rule = "document", case.otherwise
    with np.errstate(all="ignore"):
        results = rule(*case.inputs) if case.devices is None else rule(case.inputs)
    return source, list(results) if isinstance(results, (list, tuple)) else [results]


def write(path, cases, xla):
    """Writes a family: one JSON object a line, compressed. Returns (cases written, [(name, reason)] left out)."""
    rows, refused, names = [], [], set()
    for case in cases:
        if case.name in names:
            raise ValueError(f"two cases are called {case.name}")
        names.add(case.name)
        try:
            source, results = results_of(case, xla)
        except Refused as error:
            refused.append((case.name, str(error)))
            continue
        row = {"op": case.op, "type": case.type, "what": case.what, "source": source, "hlo": case.text}
        flattened = (lambda lists: [array for arrays in lists for array in arrays]) if case.devices else list
        row["inputs"] = [hexadecimal(array) for array in flattened(case.inputs)]
        row["results"] = [hexadecimal(array) for array in flattened(results)]
        if case.devices:
            row["devices"] = case.devices
        for queue in ("fed", "written"):
            if getattr(case, queue):
                row[queue] = [hexadecimal(array) for array in getattr(case, queue)]
        rows.append(row)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    # Without time and name in the header, equal cases give equal files.
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return len(rows), refused

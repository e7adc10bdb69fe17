"""Runs every case of *.txt through XLA's HLO reader, where jaxlib is installed, and prints where it differs.

usage: python compare_with_xla.py [-v]

XLA infers a shape where the text leaves it out, for most operations. A case that halo accepts must give the same
shape there; where XLA refuses to infer, only reading is checked. A case that halo refuses should be refused by XLA,
too; the reader checks less than XLA's verifier, so what it accepts is listed as a hint, not as an error.
"""
import os
import re
import sys
from pathlib import Path

from jaxlib import _hlo

COMPUTATION = re.compile(r"(\w+)=(\{\(|\(|\{\})")


def balanced(text, start):
    """End of the bracket that opens at `start`."""
    depth = 0
    for position in range(start, len(text)):
        depth += text[position] in "([{"
        depth -= text[position] in ")]}"
        if depth == 0:
            return position + 1
    raise ValueError(text)


def split(text):
    """Comma-separated parts outside brackets."""
    parts, depth, last = [], 0, 0
    for position, character in enumerate(text):
        depth += character in "([{"
        depth -= character in ")]}"
        if character == "," and depth == 0:
            parts.append(text[last:position].strip())
            last = position + 1
    parts.append(text[last:].strip())
    return [part for part in parts if part]


def computation(name, signature):
    parameters, result = signature[1 : balanced(signature, 0) - 1], signature.split("->")[-1].strip()
    lines = [f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(split(parameters))]
    return "%s {\n%s\n  ROOT r = %s custom-call(), custom_call_target=\"f\"\n}\n" % (name, "\n".join(lines), result)


def module(operation, declared):
    match = re.match(r"(?:(.*?)\s)?([a-z][a-z0-9-]*)\(", operation) if operation[0] != "(" else None
    if match is None or (match.group(1) and "[" not in match.group(1)):
        end = balanced(operation, 0)
        shape, rest = operation[:end], operation[end:].strip()
    else:
        shape, rest = match.group(1) or "", operation[match.start(2) :]
    end = balanced(rest, rest.index("("))
    opcode, operands, attributes = rest[: rest.index("(")], split(rest[rest.index("(") + 1 : end - 1]), split(rest[end:])
    if opcode in ("parameter", "constant"):
        return None
    computations, kept = [], []
    for attribute in attributes:
        key, _, value = attribute.partition("=")
        if "->" in value and value[0] in "({" and key != "dim_labels":
            items = split(value[1:-1]) if value[0] == "{" else [value]
            names = [f"{key}.{i}" for i in range(len(items))]
            computations += [computation(name, item) for name, item in zip(names, items)]
            value = "{" + ", ".join(names) + "}" if value[0] == "{" else names[0]
            attribute = f"{key}={value}"
        elif value == "":
            continue
        kept.append(attribute)
    parameters = "".join(f"  p{i} = {operand} parameter({i})\n" for i, operand in enumerate(operands))
    arguments = ", ".join(f"p{i}" for i in range(len(operands)))
    shape = shape if declared else ""
    root = f"  ROOT r = {shape} {opcode}({arguments})" + "".join(f", {attribute}" for attribute in kept)
    return f"HloModule m\n{''.join(computations)}ENTRY e {{\n{parameters}{root}\n}}\n"


def read(text):
    """(shape, error) of the root, in a process of its own: XLA aborts on some invalid text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            printed = _hlo.hlo_module_from_text(text).to_string()
            root = [line for line in printed.split("ENTRY")[1].split("\n") if "ROOT" in line][0]
            answer = "+" + re.sub(r"\{[0-9,]*\}(?=[,) ])", "", root.split(" = ", 1)[1])
        except Exception as error:
            answer = "-" + str(error).replace("\n", " ")
        os.write(writer, answer.encode()[:60000])
        os._exit(0)
    os.close(writer)
    answer = b"".join(iter(lambda: os.read(reader, 65536), b"")).decode()
    os.close(reader)
    os.waitpid(child, 0)
    if not answer:
        return None, "aborted"
    return (answer[1:], None) if answer[0] == "+" else (None, answer[1:])


def main():
    verbose = "-v" in sys.argv
    counts = {}
    for path in sorted(Path(__file__).parent.glob("*.txt")):
        for line in path.read_text().splitlines():
            if not line or line[0] in "# ":
                continue
            name, colon, operation = line.partition(": ")
            refused = bool(colon and re.fullmatch(r"\w+", name))
            operation = operation if refused else line
            undeclared, declared = module(operation, False), module(operation, True)
            if undeclared is None:
                continue
            shape, error = read(undeclared)
            how = "inferred"
            if error and re.search("cannot infer shape|Unknown operation for", error):
                how = "read"
                shape, error = read(declared) if declared != undeclared else (None, None)
            expected = "refused" if refused else "accepted"
            if how == "read" and shape is None and error is None:
                found = "not decided by the reader"
            else:
                found = how if error is None else "refused"
            if not refused and how == "inferred" and shape is not None:
                result = shape.replace(" ", "")
                wanted = re.sub(r"\s", "", operation)
                opcode = re.search(r"\b([a-z][a-z0-9-]*)\(p?[^=]*", undeclared.split("ROOT r = ")[-1]).group(1)
                same = result.split(opcode + "(")[0] == wanted.split(opcode + "(")[0]
                found = "inferred" if same else "inferred otherwise: " + shape[:80]
            key = (expected, found if "otherwise" not in found else "inferred otherwise")
            counts[key] = counts.get(key, 0) + 1
            differs = (expected == "accepted" and found not in ("inferred", "read")) or (
                expected == "refused" and found in ("inferred", "read")
            )
            if differs or verbose:
                print(f"{expected}, XLA: {found}: {line}")
                if error:
                    print("    " + re.sub(r"^.*?(error: |HloModule:)", "", error)[:200])
    for key, count in sorted(counts.items()):
        print(count, *key, sep="  ")


if __name__ == "__main__":
    main()

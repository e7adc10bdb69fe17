#!/usr/bin/env python3
"""Registers, shared memory and spills of the kernels of programs, by family, as NVIDIA's assembler says (`ptxas`, or
$HALO_PTXAS): a table in Markdown for each chip. `./x cuda --registers` runs it.

usage: registers.py HLO_OPT [--into FILE] CHIP[,CHIP...] [PROGRAM...]

Without programs, those of $HALO_MODELS. With --into, the tables replace those of a document, between its marks.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from statistics import median

# Families by what only their kernels do, the first that fits.
FAMILIES = [
    ("attention", r"(?s)(?:ldmatrix|ld\.shared\.v).*max\.f\d\d.*shfl\.sync"),
    ("tiles by groups of warps", r"wgmma\."),
    ("tiles on tensor cores", r"mma\.sync"),
    ("sorts by digits", r"(?s)atom\S*shared|shfl\.sync.*bar\.sync.*, 65535;"),
    ("tiles of multiply-adds", r"(?s)bar\.sync.*fma\.rn.*ld\.shared\.v|ld\.shared\.v.*fma\.rn|ld\.shared\.v.*mad\.lo"),
    ("teams in a warp, or several", r"shfl\.sync"),
    ("teams along elements, transposes", r"bar\.sync"),
    ("a thread for several neighbours", r"[ls][dt]\.global(\.nc)?\.v[24]"),
    ("a thread for each element", r""),
]

# Where a document has the tables.
BEGIN = "<!-- registers: ./x cuda --registers --into docs/cuda.md sm_80,sm_90a makes these tables -->"
END = "<!-- end of registers -->"


def kernels(ptx):
    """The text of each kernel by its name."""
    parts = re.split(r"\.visible \.entry (\w+)\(", ptx)
    return dict(zip(parts[1::2], parts[2::2]))


def resources(ptx, chip):
    """What the assembler says of each kernel: registers, shared bytes, spilled bytes, bytes on the stack."""
    assembler = os.environ.get("HALO_PTXAS", "ptxas")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernels.ptx")
        with open(path, "w", encoding="utf-8") as file:
            file.write(ptx)
        run = subprocess.run([assembler, "-v", f"-arch={chip}", "-o", path + ".cubin", path], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    found, name, stack, spilled = {}, None, 0, 0
    for line in run.stderr.splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)'", line):
            name = entry[1]
        elif stores := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", line):
            stack, spilled = int(stores[1]), int(stores[2])
        elif used := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            found[name] = (int(used[1]), int(shared[1]) if shared else 0, spilled, stack)
    return found


def table(hlo_opt, chip, programs):
    """The lines of a chip's table."""
    families, refused, instances = defaultdict(list), 0, 0
    for program in programs:
        command = [hlo_opt, program, f"--platform=cuda:{chip}", "--emit=ptx"]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode == 2:
            refused += 1
            continue
        if run.returncode != 0:
            sys.exit(f"{program}: {run.stderr}")
        found = resources(run.stdout, chip)
        for name, text in kernels(run.stdout).items():
            family = next(family for family, pattern in FAMILIES if re.search(pattern, text))
            families[family].append(found[name])
            instances += 1
    yield f"{instances} kernels of {len(programs) - refused} programs for `{chip}` ({refused} are refused):"
    yield ""
    yield "| kernels | number | registers, median | most | shared memory, most | that spill | with a stack |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for family, _ in FAMILIES:
        if own := families.get(family):
            registers, shared, spilled, stack = zip(*own)
            yield (
                f"| {family} | {len(own)} | {median(registers):.0f} | {max(registers)} | {max(shared)} "
                f"| {sum(map(bool, spilled))} | {sum(map(bool, stack))} |"
            )


def main():
    hlo_opt, *arguments = sys.argv[1:]
    document = None
    if arguments[:1] == ["--into"]:
        document, arguments = arguments[1], arguments[2:]
    if not arguments:
        sys.exit(__doc__)
    chips, *programs = arguments
    if not programs:
        folder = os.environ.get("HALO_MODELS") or sys.exit("no programs, and $HALO_MODELS names no folder of them")
        programs = sorted(glob.glob(os.path.join(folder, "*.hlo")) + glob.glob(os.path.join(folder, "*.hlo.gz")))
    tables = "\n\n".join("\n".join(table(hlo_opt, chip, programs)) for chip in chips.split(","))
    if document is None:
        print(tables)
        return
    with open(document, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    with open(document, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n{tables}\n{END}{after}")


if __name__ == "__main__":
    main()

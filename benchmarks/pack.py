"""Packs what a machine with a GPU needs to check halo and to time it, without a compiler, cargo or Python there.

A folder of bundles, inputs and expected outputs: a sample of the conformance cases, models, programs for rates, and the program
that runs them, `hlo-run-bundle`; `run.sh` in it runs all and writes `report.md`. Beside the folder comes the same as an archive.
"""
import argparse
import concurrent.futures
import gzip
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import rates

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent

# NumPy's names; what it lacks is unsigned integers of the same width.
TYPES = {
    "pred": "|b1", "s8": "|i1", "s16": "<i2", "s32": "<i4", "s64": "<i8", "u8": "|u1", "u16": "<u2", "u32": "<u4", "u64": "<u8",
    "f16": "<f2", "bf16": "<u2", "f32": "<f4", "f64": "<f8", "c64": "<c8", "c128": "<c16",
}  # fmt: skip

PARAMETER = re.compile(r"= (\w+)\[([\d,]*)\]\S* parameter\((\d+)\)")
ROOT_SHAPE = re.compile(r"ROOT [^=]*= (\(.*?\)|\S+) [\w-]+\(")
ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")


def sizes(text):
    return [int(size) for size in text.split(",") if size]


def npy(path, element_type, dimensions, data):
    """Writes a file of NumPy's."""
    shape = "(" + "".join(f"{size}," for size in dimensions) + ")"
    header = f"{{'descr': '{TYPES.get(element_type, '|u1')}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def shapes(hlo):
    """The arrays that a program takes and gives, or None where they are not plain."""
    entry = hlo[hlo.index("ENTRY") :]
    parameters = sorted((int(number), kind, sizes(text)) for kind, text, number in PARAMETER.findall(entry))
    root = ROOT_SHAPE.search(entry)
    if len(parameters) != entry.count(" parameter(") or not root or "<=" in entry or "token" in root[1]:
        return None
    return [(kind, size) for _, kind, size in parameters], [(kind, sizes(text)) for kind, text in ARRAY.findall(root[1])]


def sample(path, count):
    """The first cases of each operation and type of a family, with their arrays."""
    taken = {}
    with gzip.open(path, "rt") as lines:
        for line in lines:
            case = json.loads(line)
            key = (case["op"], case["type"])
            arrays = None if {"devices", "fed", "written"} & case.keys() else shapes(case["hlo"])
            fits = arrays and [len(part) for part in arrays] == [len(case["inputs"]), len(case["results"])]
            if fits and taken.get(key, 0) < count:
                taken[key] = taken.get(key, 0) + 1
                yield "-".join([*key, str(taken[key])]), case, arrays


class Pack:
    def __init__(self, options):
        self.options = options
        self.refused = []

    def bundle(self, program, target):
        """Whether a program is compiled to a bundle; why not is noted."""
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [self.options.hlo_opt, program, "--emit=bundle", f"--bundle-for={self.options.platforms}", "-o", target]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            self.refused.append(f"{target.parent.name}: {run.stderr.strip().splitlines()[0]}")
            shutil.rmtree(target.parent)
        return run.returncode == 0

    def case(self, folder, text, case, arrays):
        with tempfile.NamedTemporaryFile("w", suffix=".hlo") as program:
            program.write(text)
            program.flush()
            if not self.bundle(program.name, folder / "program.halo"):
                return 0
        for name, part, data in [("in", arrays[0], case["inputs"]), ("out", arrays[1], case["results"])]:
            for number, ((kind, dimensions), digits) in enumerate(zip(part, data)):
                npy(folder / f"{name}_{number}.npy", kind, dimensions, bytes.fromhex(digits))
        return 1

    def cases(self, into):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for path in sorted((ROOT / "conformance/data").glob("*.jsonl.gz")):
                family = into / path.name.split(".")[0]
                chosen = sample(path, self.options.cases)
                jobs = [pool.submit(self.case, family / name, case["hlo"], case, arrays) for name, case, arrays in chosen]
                print(f"{family.name}: {sum(job.result() for job in jobs)} cases", flush=True)

    def models(self, into):
        for spec in sorted(self.options.models.glob("*.json")):
            programs = [spec.with_suffix(suffix) for suffix in (".hlo", ".hlo.gz") if spec.with_suffix(suffix).exists()]
            if programs and self.bundle(programs[0], into / spec.stem / "program.halo"):
                shutil.copy(spec, into / spec.stem / "spec.json")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="the pack; anything there is removed")
    parser.add_argument("--hlo-opt", required=True, help="the compiler")
    parser.add_argument("--runner", required=True, help="hlo-run-bundle")
    parser.add_argument("--platforms", default="cuda:sm_90a,cuda:sm_80", help="what for (default: %(default)s)")
    parser.add_argument("--cases", type=int, default=1, help="cases of each operation and type (default: %(default)s)")
    models = os.environ.get("HALO_MODELS") or ROOT / "test-files/models"
    parser.add_argument("--models", type=pathlib.Path, default=models, help="programs with descriptions (default: $HALO_MODELS)")
    options = parser.parse_args()
    folder = options.folder
    if folder.exists():
        if any(folder.iterdir()) and not (folder / "made-by.txt").exists():
            sys.exit(f"error: {folder} is no pack, and not empty")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    pack = Pack(options)
    pack.cases(folder / "cases")
    pack.models(folder / "models")
    if "cuda-emulator" not in options.platforms:
        pack.refused += rates.write(folder / "rates", options.hlo_opt, options.platforms)
    runner = folder / "hlo-run-bundle"
    subprocess.run(["strip", "-o", runner, options.runner], check=True)
    shutil.copy(HERE / "packed.sh", folder / "run.sh")
    shutil.copy(HERE / "gpu_rates.sh", folder)
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    (folder / "made-by.txt").write_text(f"Commit {commit}, kernels for {options.platforms}\n")
    for message in pack.refused:
        print(f"refused: {message}")
    archive = shutil.make_archive(str(folder), "xztar", folder.parent, folder.name)
    size = lambda path: f"{path.stat().st_size / 1e6:.1f} MB"
    print(f"{archive}: {size(pathlib.Path(archive))}; hlo-run-bundle in it {size(runner)}")


if __name__ == "__main__":
    main()

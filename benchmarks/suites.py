"""The programs that are compared, by suite."""
import hashlib
import os
import pathlib
import subprocess
import sys

import micro

HERE = pathlib.Path(__file__).resolve().parent

# Those whose tables documents have, between marks of these names.
MARKS = {"models": "bench", "micro": "micro", "programs": "programs"}


def find_programs(folder, patterns):
    """(name, module, description) of the programs in a folder whose names contain a pattern, or all."""
    for path in sorted(folder.glob("*.hlo")) + sorted(folder.glob("*.hlo.gz")):
        name = path.name.split(".")[0]
        spec = folder / f"{name}.json"
        if spec.exists() and (not patterns or any(pattern in name for pattern in patterns)):
            yield name, path, spec


def write_by_jax(script, *arguments):
    """Runs a script beside this one that writes programs, in a process of its own: JAX stays out of this one."""
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    subprocess.run(command, env=os.environ | {"JAX_PLATFORMS": "cpu"}, check=True)


def written_programs():
    """The folder of the programs of `programs/`, which are written once for each state of that folder."""
    sources = sorted((HERE / "programs").glob("*.py"))
    state = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "halo" / f"programs-{state}"
    if not (folder / "complete").exists():
        print(f"writing programs into {folder}", file=sys.stderr, flush=True)
        write_by_jax("programs", folder)
        (folder / "complete").touch()
    return folder


def folder_of(suite, options, scratch):
    """The folder with a suite's programs, which may be written into a scratch folder first."""
    if suite == "models":
        return pathlib.Path(options.models)
    if suite == "programs":
        return written_programs()
    folder = pathlib.Path(scratch) / suite
    folder.mkdir()
    if suite == "micro":
        micro.write_programs(folder)
    elif suite in ("functions", "pairs"):
        write_by_jax(f"{suite}.py", folder, *options.filter)
    elif suite == "random":
        write_by_jax("random_programs.py", folder, *options.random)
    return folder

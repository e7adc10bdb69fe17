"""Times halo and XLA on the same programs and inputs, interleaved, and prints their ratios.

Every program gets two fresh processes, one for each compiler. After both have compiled it they take turns at running it,
so that a slow spell of the machine meets both. The run time is the median of all runs. A ratio is XLA's time over
halo's: above 1 halo is faster. Beside them, measured right after: the part of halo's time that the machine needs at least to
move what the program's kernels read and write (at the copy rate of the cache or memory that holds it) or to compute it (at
the rate of fused multiplications and additions). Temporary memory is what a run needs besides arguments and results.
"""
import argparse
import hashlib
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

# Imported from the folder of the sources, where nothing else belongs.
sys.dont_write_bytecode = True

import growth
import micro
import report

HERE = pathlib.Path(__file__).resolve().parent


class Worker:
    """A process that speaks the protocol of `xla.py`."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, **request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else {"error": f"the process ended with status {self.process.wait()}"}

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended already, and its answers said so
        self.process.wait()


def measure(program, spec, commands, rounds, seconds, has_limits):
    """{compiler: {"compile_ms", "temporary_bytes", "run_ms", "runs"} or {"error"}} of one program; halo's with "limit_ms"."""
    workers = {name: Worker(command) for name, command in commands.items()}
    results = {name: worker.ask(command="load", module=str(program), spec=str(spec)) for name, worker in workers.items()}
    runs, limits = {name: [] for name in workers}, []
    for _ in range(rounds):
        for name, worker in workers.items():
            if "error" not in results[name]:
                answer = worker.ask(command="run", seconds=seconds)
                runs[name] += answer.get("runs_ms", [])
                if "error" in answer:
                    results[name] = answer
        if has_limits and "error" not in results["halo"]:
            limits.append(workers["halo"].ask(command="limit"))
    for name, worker in workers.items():
        worker.close()
        if runs[name] and "error" not in results[name]:
            results[name] |= {"run_ms": statistics.median(runs[name]), "runs": len(runs[name])}
    limits = [limit for limit in limits if "limit_ms" in limit]
    if limits:
        results["halo"] |= min(limits, key=lambda limit: limit["limit_ms"])
    return results


def find_programs(folder, patterns):
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


def number(value):
    return f"{value:.1f}" if value >= 100 else f"{value:.2f}" if value >= 1 else f"{value:.4f}"


def print_heading(threads):
    print(f"{threads} thread(s); times in ms; ratios are XLA over halo: above 1 halo is faster")
    print(f"{'':<22}{'compile halo':>12}{'xla':>12}{'ratio':>8}{'run halo':>14}{'xla':>12}{'ratio':>8}{'of limit':>10}"
          f"{'MB halo':>10}{'xla':>8}")


def print_row(name, results):
    halo, xla = results.get("halo", {}), results.get("xla", {})

    def cell(result, key):
        return number(result[key]) if key in result else "failed" if result else ""

    def ratio(key):
        return f"{xla[key] / halo[key]:.2f}" if key in halo and key in xla else ""

    row = (
        f"{name:<22}{cell(halo, 'compile_ms'):>12}{cell(xla, 'compile_ms'):>12}{ratio('compile_ms'):>8}"
        f"{cell(halo, 'run_ms'):>14}{cell(xla, 'run_ms'):>12}{ratio('run_ms'):>8}{report.of_limit(halo):>10}"
        f"{report.megabytes(halo):>10}{report.megabytes(xla):>8}"
    )
    print(row.rstrip(), flush=True)
    for compiler, result in results.items():
        if "error" in result:
            print(f"  {compiler}: {result['error']}", flush=True)


def processor():
    """The name of the machine's processor."""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    default_models = os.environ.get("HALO_MODELS") or HERE.parent / "test-files" / "models"
    parser = argparse.ArgumentParser(
        prog="./x bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--halo", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--models", type=pathlib.Path, default=default_models, metavar="DIR",
                        help="folder of programs with their .json descriptions (default: $HALO_MODELS or test-files/models)")
    parser.add_argument("--filter", action="append", default=[], metavar="TEXT",
                        help="only programs whose name contains TEXT; may be given several times")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
                        help="processors that each compiler may use (default: all)")
    parser.add_argument("--platform", default="cpu", metavar="NAME",
                        help="what runs the programs: cpu, cuda (cuda:sm_90a) or cuda-emulator (default: cpu)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="turns of each compiler (default: 5)")
    parser.add_argument("--seconds", type=float, default=0.3, metavar="S", help="length of a turn (default: 0.3)")
    parser.add_argument("--micro", action="store_true", help="programs of one operation each, instead of models")
    parser.add_argument("--functions", action="store_true",
                        help="a call of each of some hundred functions of JAX's libraries, in several sizes, instead of models")
    parser.add_argument("--programs", action="store_true",
                        help="small programs of many kinds, which JAX writes on the first call, instead of models")
    parser.add_argument("--random", type=int, nargs=2, metavar=("SEED", "COUNT"),
                        help="random programs of two or three operations, which JAX writes, instead of models")
    parser.add_argument("--growth", action="store_true",
                        help="compile times of programs of 1,000 to 64,000 instructions of one kind, and their exponents")
    parser.add_argument("--limit", type=float, default=30, metavar="S",
                        help="with --growth: seconds after which a compiler is given up (default: 30)")
    parser.add_argument("--sizes", type=int, nargs="+", default=growth.SIZES, metavar="N", help="with --growth: instructions")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write the results to FILE")
    parser.add_argument("--from-json", type=pathlib.Path, metavar="FILE",
                        help="measure nothing: show the results that --json wrote")
    parser.add_argument("--against", type=pathlib.Path, metavar="FILE",
                        help="also show how halo's times changed since the results that --json wrote")
    parser.add_argument("--change", type=float, default=0.05, metavar="PART",
                        help="with --against: changes to list, as a part of the time (default: 0.05)")
    parser.add_argument("--svg", type=pathlib.Path, metavar="FILE", help="also draw a chart of the ratios")
    parser.add_argument("--readme", type=pathlib.Path, metavar="FILE",
                        help="also replace the short table between the marks <!-- bench --> of FILE")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE",
                        help="also replace the whole table between the marks <!-- bench --> of FILE, with --micro and "
                             "--programs <!-- micro --> and <!-- programs -->")
    options = parser.parse_args()

    if options.from_json:
        results = json.loads(options.from_json.read_text())
        table = results["programs"]
        print_heading(results["threads"])
        for name, row in table.items():
            print_row(name, row)
        finish(options, table, results["threads"], results.get("machine", "an unknown processor"))
        return
    if options.growth:
        table = growth.measure(compilers(options), Worker, options.filter, options.sizes, options.limit)
        if options.json:
            options.json.write_text(json.dumps({"threads": options.threads, "growth": table}, indent=1) + "\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        if options.micro:
            options.models = pathlib.Path(folder)
            micro.write_programs(options.models)
        if options.programs:
            options.models = written_programs()
        if options.functions:
            options.models = pathlib.Path(folder)
            write_by_jax("functions.py", folder, *options.filter)
        if options.random:
            options.models = pathlib.Path(folder)
            write_by_jax("random_programs.py", folder, *options.random)
        table = measure_all(parser, options)
    finish(options, table, options.threads, processor())


def compilers(options):
    """The commands of the workers: XLA's only where JAX has the platform."""
    threads = ["--threads", str(options.threads)]
    halo = [options.halo, *threads, "--platform", options.platform]
    xla = [sys.executable, str(HERE / "xla.py"), *threads, "--platform", options.platform.split(":")[0]]
    if options.platform == "cpu":
        return {"halo": halo, "xla": xla}
    start = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    started = subprocess.run(halo, **start)
    if started.returncode:
        sys.exit(started.stderr.strip())
    if subprocess.run(xla, **start).returncode:
        print(f"JAX has no platform {options.platform}: halo alone is timed", file=sys.stderr)
        return {"halo": halo}
    return {"halo": halo, "xla": xla}


def measure_all(parser, options):
    """The results of all programs asked for, printed as they come."""
    programs = list(find_programs(pathlib.Path(options.models), options.filter))
    if not programs:
        parser.error(f"no program with a description in {options.models} matches")
    commands = compilers(options)
    print_heading(options.threads)
    table = {}
    for name, path, spec in programs:
        table[name] = measure(path, spec, commands, options.rounds, options.seconds, options.platform == "cpu")
        print_row(name, table[name])
    return table


def finish(options, table, threads, machine):
    """Prints the means and which programs are slower, and writes what was asked for."""
    for key, label, _ in report.KEYS:
        mean = report.geometric_mean(table, key)
        if mean:
            print(f"{label}: geometric mean of {mean[1]} ratios {mean[0]:.2f}")
            slower = report.slower(table, key)
            if slower:
                print(f"  slower than XLA: {', '.join(slower)}")
    larger = report.larger(table)
    if larger:
        print(f"temporary memory: more MB than XLA: {', '.join(larger)}")
    if options.against:
        old = json.loads(options.against.read_text())["programs"]
        print("\n".join(report.changes(old, table, options.change)))
    if options.json:
        results = {"threads": threads, "machine": machine, "programs": table}
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.svg:
        options.svg.write_text(report.chart(table, f"halo and XLA:CPU, {threads} threads"))
    mark = next((mark for mark in ("micro", "programs") if getattr(options, mark)), "bench")
    for file, count, mark in ((options.readme, 7, "bench"), (options.table, None, mark)):
        if file:
            content = report.markdown(table, threads, machine, count)
            file.write_text(report.put_between_marks(file.read_text(), mark, content))


if __name__ == "__main__":
    main()

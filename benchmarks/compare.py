"""Times halo and XLA on the same programs and inputs, interleaved, and prints their ratios.

Every program gets two fresh processes, one for each compiler, for each number of threads. After both have compiled it they take
turns at running it, so that a slow spell of the machine meets both. The run time is the median of all runs. A ratio is XLA's time
over halo's: above 1 halo is faster. Beside them, measured right after: the part of halo's time that the machine needs at least to
move what the program's kernels read and write (at the copy rate of the cache or memory that holds it) or to compute it (at
the rate of the instructions that do most at once). Temporary memory is what a run needs besides arguments, results and constants,
as each compiler plans it; growth is by how much the process grew in its first run, results included.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

# Imported from the folder of the sources, where nothing else belongs.
sys.dont_write_bytecode = True

import growth
import report
import suites
from results import Results
from workers import starters

HERE = pathlib.Path(__file__).resolve().parent


def measure(program, spec, start, threads, rounds, seconds, has_limits):
    """{number of threads: {compiler: {"compile_ms", "temporary_bytes", "growth_bytes", "run_ms", "runs"} or {"error"}}} of one
    program; halo's with "limit_ms"."""
    # All are started before one compiles: what else the machine does then would be in its time.
    workers = {count: {name: new(count) for name, new in start.items()} for count in threads}
    for started in workers.values():
        for worker in started.values():
            worker.ask(command="ready")
    return {
        count: measure_with(started, program, spec, rounds, seconds, has_limits) for count, started in workers.items()
    }


def measure_with(workers, program, spec, rounds, seconds, has_limits):
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
        # The last one knows the best rates of all.
        results["halo"] |= limits[-1]
    return results


def number(value):
    return f"{value:.1f}" if value >= 100 else f"{value:.2f}" if value >= 1 else f"{value:.4f}"


def print_heading(suite):
    print(f"{suite}: times in ms; ratios are XLA over halo: above 1 halo is faster")
    print(f"{'':<26}{'threads':>8}{'compile halo':>14}{'xla':>10}{'ratio':>8}{'run halo':>12}{'xla':>10}{'ratio':>8}"
          f"{'of limit':>10}{'MB halo':>10}{'xla':>8}{'growth':>8}{'xla':>8}")


def print_row(name, threads, results):
    halo, xla = results.get("halo", {}), results.get("xla", {})

    def cell(result, key):
        return number(result[key]) if key in result else "failed" if result else ""

    def ratio(key):
        return f"{xla[key] / halo[key]:.2f}" if key in halo and key in xla else ""

    def bytes_of(key):
        return f"{report.megabytes(halo, key):>{10 if key == 'temporary_bytes' else 8}}{report.megabytes(xla, key):>8}"

    row = (
        f"{name:<26}{threads:>8}{cell(halo, 'compile_ms'):>14}{cell(xla, 'compile_ms'):>10}{ratio('compile_ms'):>8}"
        f"{cell(halo, 'run_ms'):>12}{cell(xla, 'run_ms'):>10}{ratio('run_ms'):>8}{report.of_limit(halo):>10}"
        f"{bytes_of('temporary_bytes')}{bytes_of('growth_bytes')}"
    )
    print(row.rstrip(), flush=True)
    for compiler, result in results.items():
        if "error" in result:
            print(f"  {compiler}: {result['error']}", flush=True)


def thread_counts(text):
    counts = sorted({int(part) for part in text.split(",")})
    if counts[0] < 1:
        raise ValueError
    return counts


def parser():
    default_models = os.environ.get("HALO_MODELS") or HERE.parent / "test-files" / "models"
    parser = argparse.ArgumentParser(
        prog="./x bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--halo", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--models", type=pathlib.Path, default=default_models, metavar="DIR",
                        help="folder of programs with their .json descriptions (default: $HALO_MODELS or test-files/models)")
    parser.add_argument("--filter", action="append", default=[], metavar="TEXT",
                        help="only programs whose name contains TEXT; may be given several times")
    parser.add_argument("--threads", type=thread_counts, metavar="N,…",
                        help="processors that each compiler may use; of several numbers each is measured (default: all)")
    parser.add_argument("--platform", default="cpu", metavar="NAME",
                        help="what runs the programs: cpu, cuda (cuda:sm_90a) or cuda-emulator (default: cpu)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="turns of each compiler (default: 5)")
    parser.add_argument("--seconds", type=float, metavar="S", help="length of a turn (default: 0.3; with --all 0.1)")
    suite = parser.add_argument_group("what is measured instead of models; several of these are measured one after the other")
    suite.add_argument("--micro", action="store_true", help="programs of one operation each")
    suite.add_argument("--functions", action="store_true",
                       help="a call of each of some hundred functions of JAX's libraries, in several sizes")
    suite.add_argument("--pairs", action="store_true",
                       help="some four hundred programs of two steps: how an array is moved, and what reads it then")
    suite.add_argument("--programs", action="store_true",
                       help="small programs of many kinds, which JAX writes on the first call")
    suite.add_argument("--random", type=int, nargs=2, metavar=("SEED", "COUNT"),
                       help="random programs of two or three operations, which JAX writes")
    suite.add_argument("--growth", action="store_true",
                       help="how compile times grow with instructions and run times with elements, and the exponents")
    suite.add_argument("--all", action="store_true",
                       help="models, --programs, --micro and --growth on one and on all threads, kept in --json (default: "
                            "target/bench.json) as with --resume, within --minutes (default: 40); the README, "
                            "docs/performance.md and its chart are rewritten where nothing is left out")
    parser.add_argument("--limit", type=float, default=30, metavar="S",
                        help="with --growth: seconds after which a compiler is given up (default: 30; with --all 10)")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="with --growth: instructions, and elements")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write the results to FILE, each as it comes")
    parser.add_argument("--resume", action="store_true",
                        help="what FILE of --json has of this machine and this build of halo is not measured again")
    parser.add_argument("--minutes", type=float, metavar="M", help="stop after so many minutes; --resume goes on from there")
    parser.add_argument("--from-json", type=pathlib.Path, metavar="FILE",
                        help="measure nothing: show the results that --json wrote")
    parser.add_argument("--against", type=pathlib.Path, metavar="FILE",
                        help="also show how halo's times changed since the results that --json wrote")
    parser.add_argument("--change", type=float, default=0.05, metavar="PART",
                        help="with --against: changes to list, as a part of the time (default: 0.05)")
    parser.add_argument("--svg", type=pathlib.Path, metavar="FILE",
                        help="also draw a chart of the ratios of the first suite, on most threads")
    parser.add_argument("--readme", type=pathlib.Path, metavar="FILE",
                        help="also replace the short table of models between the marks <!-- bench --> of FILE")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE",
                        help="also replace the tables between the marks of FILE: of models <!-- bench -->, and of --micro, "
                             "--programs and --growth those of their names")
    return parser


def parse():
    options = parser().parse_args()
    processors = len(os.sched_getaffinity(0))
    options.suites = [name for name in ("programs", "micro", "functions", "pairs", "random") if getattr(options, name)]
    if options.all:
        root = HERE.parent
        options.suites = ["models", "programs", "micro"]
        options.growth = options.resume = True
        options.threads = options.threads or sorted({1, processors})
        options.minutes = options.minutes or 40
        options.limit = min(options.limit, 10)
        options.seconds = options.seconds or 0.1
        options.json = options.json or root / "target" / "bench.json"
        if not options.filter:
            options.readme = options.readme or root / "README.md"
            options.table = options.table or root / "docs" / "performance.md"
            options.svg = options.svg or root / "docs" / "images" / "bench.svg"
    elif not options.suites and not options.growth:
        options.suites = ["models"]
    options.threads = options.threads or [processors]
    options.seconds = options.seconds or 0.3
    if options.resume and not options.json:
        parser().error("--resume needs --json")
    return options


def main():
    options = parse()
    if options.from_json:
        results = Results.read(options.from_json)
        for suite, tables in results.suites.items():
            print_heading(suite)
            for name in next(iter(tables.values())):
                for threads, table in tables.items():
                    if name in table:
                        print_row(name, threads, table[name])
        for what, table in results.growth.items():
            growth.show(what, table)
        finish(options, results)
        return
    end = time.monotonic() + 60 * options.minutes if options.minutes else None
    results = Results.start(options.json, options.halo, options.resume)
    start = starters(options.halo, options.platform)
    is_complete = all(measure_suite(suite, options, results, start, end) for suite in options.suites)
    if not is_complete or options.growth and not growth.measure(options, results, start, end):
        sys.exit(f"stopped after {options.minutes:g} minutes; {'the same command' if options.all else '--resume'} goes on")
    finish(options, results)


def measure_suite(suite, options, results, start, end):
    """Measures the programs of a suite that are not measured yet, and prints them as they come; whether time was left for all."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = suites.folder_of(suite, options, scratch)
        programs = list(suites.find_programs(folder, options.filter))
        if not programs and options.all:
            return True
        if not programs:
            parser().error(f"no program with a description in {folder} matches")
        tables = results.tables(suite, options.threads)
        print_heading(suite)
        for name, path, spec in programs:
            left = [threads for threads, table in tables.items() if name not in table]
            if left and end and time.monotonic() > end:
                return False
            rows = measure(path, spec, start, left, options.rounds, options.seconds, options.platform == "cpu")
            for threads, table in tables.items():
                table[name] = rows.get(threads) or table[name]
                print_row(name, threads, table[name])
            results.save()
    return True


def finish(options, results):
    """Prints the means and which programs are slower, and writes what was asked for."""
    results.save()
    for suite, tables in results.suites.items():
        for threads, table in tables.items():
            print(f"{suite}, {threads} thread{'s' if threads > 1 else ''}:")
            print("\n".join(f"  {line}" for line in report.summary(table)))
            if options.against:
                old = Results.read(options.against).suites.get(suite, {}).get(threads, {})
                print("\n".join(f"  {line}" for line in report.changes(old, table, options.change)))
    if options.svg and results.suites:
        tables = next(iter(results.suites.values()))
        threads = max(tables)
        options.svg.write_text(report.chart(tables[threads], f"halo and XLA:CPU, {threads} threads"))
    contents = {
        mark: report.markdown(results.suites[suite], results.machine)
        for suite, mark in suites.MARKS.items() if suite in results.suites
    }
    if any(results.growth.values()):
        contents["growth"] = growth.markdown(results.growth, results.machine)
    if options.table:
        for mark, content in contents.items():
            report.replace_in(options.table, mark, content)
    if options.readme and "models" in results.suites:
        report.replace_in(options.readme, "bench", report.markdown(results.suites["models"], results.machine, 7))


if __name__ == "__main__":
    main()

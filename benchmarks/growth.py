"""How times grow: those to compile with the number of instructions, those to run with the number of elements.

An exponent of 1 is time proportional to the size, 2 its square. It is taken between the two largest programs that a compiler
finished within the limit where they are compiled, and over the last three, a hundred times as many elements, where they run: then
caches of every size are in it.
"""
import json
import math
import pathlib
import statistics
import tempfile
import time

import growth_of_compiling
import growth_of_running

# what: the kinds, the sizes, and the steps between sizes that an exponent is taken over
FIGURES = {
    "compile": (growth_of_compiling.KINDS, growth_of_compiling.SIZES, 1),
    "run": (growth_of_running.KINDS, growth_of_running.SIZES, 2),
}
TITLES = {"compile": "compile times in ms by instructions", "run": "run times in ms by elements"}


def description(text):
    """The inputs of a program, as the workers read them: numbers up to 3, or up to what stands after `<`."""
    parameters = []
    for parameter in text.parameters:
        shape, _, most = parameter.partition("<")
        kind, dimensions = shape.rstrip("]").split("[")
        high = int(most) if most else 1 if kind == "pred" else 3
        dimensions = [int(size) for size in dimensions.split(",") if size]
        parameters.append({"name": "p", "shape": dimensions, "dtype": kind, "fill": {"lo": 0, "hi": high}})
    return {"parameters": parameters}


def times_of(what, workers, module, spec, limit):
    """{compiler: milliseconds to compile or to run, or None where it fails or takes longer than `limit` seconds}."""
    loaded = {name: worker.ask(limit, command="load", module=str(module), spec=str(spec)) for name, worker in workers.items()}
    if what == "compile":
        return {name: answer.get("compile_ms") for name, answer in loaded.items()}
    runs = {name: [] for name in workers}
    for _ in range(3):
        for name, worker in workers.items():
            if "error" not in loaded[name]:
                runs[name] += worker.ask(limit, command="run", seconds=0.05).get("runs_ms", [])
    return {name: statistics.median(found) if found else None for name, found in runs.items()}


def exponent(times, steps):
    """Over the largest sizes that were finished."""
    found = [(size, time) for size, time in times if time][-steps - 1:]
    if len(found) < 2:
        return None
    (size, time), (larger, longer) = found[0], found[-1]
    return math.log(longer / time) / math.log(larger / size)


def measure_kind(what, write, sizes, start, threads, limit):
    """{compiler: [[size, milliseconds or None]]} of one kind."""
    times = {compiler: [] for compiler in start}
    with tempfile.TemporaryDirectory() as folder:
        module, spec = pathlib.Path(folder) / "growth.hlo", pathlib.Path(folder) / "growth.json"
        for size in sizes:
            text = write(size)
            module.write_text(text.finish())
            spec.write_text(json.dumps(description(text)))
            # What would take too long even if it grew in proportion is not tried.
            tried = {
                name: new for name, new in start.items()
                if not times[name] or times[name][-1][1] and times[name][-1][1] * size / times[name][-1][0] < 1e3 * limit
            }
            workers = {name: new(threads) for name, new in tried.items()}
            for worker in workers.values():
                worker.ask(command="ready")
            found = times_of(what, workers, module, spec, limit)
            for worker in workers.values():
                worker.close()
            for name in start:
                times[name].append([size, found.get(name)])
    return times


def measure(options, results, start, end):
    """Measures the kinds that are not measured yet, and prints them as they come; whether time was left for all."""
    threads = min(options.threads)
    for what, (kinds, sizes, _) in FIGURES.items():
        table = results.growth.setdefault(what, {})
        print_heading(what, options.sizes or sizes)
        for kind, write in kinds.items():
            if options.filter and not any(pattern in kind for pattern in options.filter):
                continue
            if kind not in table:
                if end and time.monotonic() > end:
                    return False
                table[kind] = measure_kind(what, write, options.sizes or sizes, start, threads, options.limit)
                results.save()
            print_kind(what, kind, table[kind])
    return True


def print_heading(what, sizes):
    print(f"{TITLES[what]}, and the exponents of their growth")
    print(f"{'':<22}{'':<6}{''.join(f'{size:>12}' for size in sizes)}{'exponent':>10}")


def print_kind(what, kind, row):
    for compiler, times in row.items():
        cells = "".join(f"{'-' if time is None else f'{time:.4g}':>12}" for _, time in times)
        growth = exponent(times, FIGURES[what][2])
        print(f"{kind:<22}{compiler:<6}{cells}{'' if growth is None else f'{growth:.2f}':>10}", flush=True)


def show(what, table):
    """Prints what was measured before."""
    for kind, row in table.items():
        if kind == next(iter(table)):
            print_heading(what, [size for size, _ in next(iter(row.values()))])
        print_kind(what, kind, row)


def markdown(growth, machine):
    """Tables of halo's times with the exponents of both compilers."""
    lines = [f"Times of halo in ms on one thread of {machine}; exponents of both compilers, where they finished two sizes."]
    for what, table in growth.items():
        if not table:
            continue
        steps = FIGURES[what][2]
        sizes = [size for size, _ in next(iter(next(iter(table.values())).values()))]
        unit = "instructions" if what == "compile" else "elements"
        lines += [
            "",
            f"| {what} | {' | '.join(f'{size:,} {unit}' for size in sizes)} | exponent | of XLA |",
            "|---" * (len(sizes) + 3) + "|",
        ]
        for kind, row in table.items():
            cells = ["-" if time is None else f"{time:.0f}" if time >= 100 else f"{time:.3g}" for _, time in row["halo"]]
            exponents = [exponent(row.get(compiler, []), steps) for compiler in ("halo", "xla")]
            cells += ["" if value is None else f"{value:.2f}" for value in exponents]
            lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"

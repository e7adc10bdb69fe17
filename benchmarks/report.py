"""What a comparison is shown as: a chart, a table for the README, and the change since an earlier one."""
import html
import math
import statistics

KEYS = (("compile_ms", "compile", "#8bb4e0"), ("run_ms", "run", "#1f5fa8"))


def ratio(row, key):
    """XLA's time over halo's; None where one of them failed."""
    halo, xla = row.get("halo", {}), row.get("xla", {})
    return xla[key] / halo[key] if key in halo and key in xla else None


def geometric_mean(table, key):
    """The mean of all ratios and how many there are."""
    ratios = [found for found in (ratio(row, key) for row in table.values()) if found]
    return (statistics.geometric_mean(ratios), len(ratios)) if ratios else None


def slower(table, key):
    """Programs that take longer than in XLA, the slowest first, each with its ratio."""
    ratios = sorted((found, name) for name, row in table.items() if (found := ratio(row, key)) and found < 1)
    return [f"{name} {found:.2f}" for found, name in ratios]


def of_limit(result):
    """How much of a run's time the machine needs at least, in percent; empty where it was not measured."""
    return f"{100 * result['limit_ms'] / result['run_ms']:.0f} %" if "limit_ms" in result and result.get("run_ms") else ""


def megabytes(result, key):
    """Memory of a run; empty where it is not known."""
    size = result.get(key)
    return "" if size is None else f"{size / 1e6:.3g}" if size >= 5000 else "0"


def larger(table):
    """Programs that need more temporary memory than in XLA, each with both sizes in MB."""
    pairs = {name: [row.get(compiler, {}).get("temporary_bytes") for compiler in ("halo", "xla")] for name, row in table.items()}
    return [f"{name} {halo / 1e6:.3g} > {xla / 1e6:.3g}" for name, (halo, xla) in pairs.items() if None not in (halo, xla) and halo > xla]


def chart(table, title):
    """Bars of both ratios for each program, on a logarithmic scale, as SVG."""
    names = sorted(table, key=lambda name: -(ratio(table[name], "run_ms") or 0))
    rows = [(name, [ratio(table[name], key) for key, _, _ in KEYS]) for name in names]
    found = [value for _, values in rows for value in values if value] or [1]
    low, high = min(0.5, min(found)), max(2.0, max(found))
    left, width, row_height, top = 170, 560, 26, 64
    height = top + row_height * len(rows) + 34

    def x(value):
        return left + width * (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 70} {height}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="#1c2733">',
        f'<rect width="100%" height="100%" fill="white"/>',
        f'<text x="12" y="22" font-size="15" font-weight="600">{html.escape(title)}</text>',
        '<text x="12" y="42" fill="#5b6b7b">XLA:CPU\'s time over halo\'s: right of the line halo is faster</text>',
    ]
    for number, (_, label, color) in enumerate(KEYS):
        place = left + 330 + 90 * number
        parts.append(f'<rect x="{place}" y="32" width="12" height="12" fill="{color}"/><text x="{place + 17}" y="42">{label}</text>')
    tick = 2.0 ** math.ceil(math.log2(low))
    while tick <= high:
        style = 'stroke="#1c2733"' if tick == 1 else 'stroke="#d8e0e8"'
        parts.append(f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top - 8}" y2="{height - 26}" {style}/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{height - 10}" text-anchor="middle" fill="#5b6b7b">{tick:g}</text>')
        tick *= 2
    for number, (name, values) in enumerate(rows):
        y = top + row_height * number
        parts.append(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{html.escape(name)}</text>')
        for (_, _, color), value, offset in zip(KEYS, values, (0, 11)):
            if value is None:
                continue
            begin, end = sorted((x(1), x(value)))
            parts.append(f'<rect x="{begin:.1f}" y="{y + offset}" width="{max(end - begin, 1):.1f}" height="10" fill="{color}"/>')
            place, anchor = (end + 4, "start") if value >= 1 else (begin - 4, "end")
            parts.append(f'<text x="{place:.1f}" y="{y + offset + 9}" text-anchor="{anchor}" font-size="10">{value:.2f}</text>')
    return "\n".join(parts + ["</svg>", ""])


def spread(table, count):
    """Programs from the fastest against XLA to the slowest, at even distances, with both ends."""
    names = sorted((name for name in table if ratio(table[name], "run_ms")), key=lambda name: -ratio(table[name], "run_ms"))
    count = min(count, len(names))
    chosen = [names[round(place * (len(names) - 1) / max(count - 1, 1))] for place in range(count)]
    return {name: table[name] for name in chosen}


def markdown(tables, machine, count=None):
    """A table of times and ratios for each number of threads beside each other; with `count`, of that many programs and the
    means of all. Memory is that on most threads."""

    def cell(row, key):
        value = row.get("halo", {}).get(key)
        return "failed" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"

    def factor(row, key):
        value = ratio(row, key)
        return "" if value is None else f"{value:.2f}"

    most = tables[max(tables)]
    shown = most if count is None else spread(most, count)
    chosen = "" if count is None else f" {len(shown)} of {len(most)} programs, evenly from the fastest to the slowest."
    threads = " and ".join(map(str, tables))
    slow = " and ".join(f"{len(slower(table, 'run_ms'))}" for table in tables.values())
    lines = [
        f"Times of halo in ms on {threads} threads of {machine}; ratios are XLA over halo: above 1 halo is faster.{chosen}",
        f"Of all, {slow} run slower than with XLA.",
        "",
        "| program " + "".join(f"| compile, {threads} thr. | ratio " for threads in tables)
        + "".join(f"| run, {threads} thr. | ratio | of limit " for threads in tables)
        + "| temporary MB | XLA | growth MB | XLA |",
        "|---" * (1 + 5 * len(tables) + 4) + "|",
    ]
    for name in shown:
        rows = [table.get(name, {}) for table in tables.values()]
        cells = [name]
        for row in rows:
            cells += [cell(row, "compile_ms"), factor(row, "compile_ms")]
        for row in rows:
            cells += [cell(row, "run_ms"), factor(row, "run_ms"), of_limit(row.get("halo", {}))]
        cells += [
            megabytes(rows[-1].get(compiler, {}), key)
            for key in ("temporary_bytes", "growth_bytes") for compiler in ("halo", "xla")
        ]
        lines.append(f"| {' | '.join(cells)} |")
    means = {key: [geometric_mean(table, key) for table in tables.values()] for key, _, _ in KEYS}
    if all(means["run_ms"]):
        cells = [f"**geometric mean of {means['run_ms'][-1][1]}**"]
        cells += [cell for mean in means["compile_ms"] for cell in ("", f"**{mean[0]:.2f}**")]
        cells += [cell for mean in means["run_ms"] for cell in ("", f"**{mean[0]:.2f}**", "")] + [""] * 4
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def summary(table):
    """Lines with the means, which programs are slower than with XLA and which need more memory."""
    lines = []
    for key, label, _ in KEYS:
        mean = geometric_mean(table, key)
        if mean:
            lines.append(f"{label}: geometric mean of {mean[1]} ratios {mean[0]:.2f}")
            slow = slower(table, key)
            if slow:
                lines.append(f"  slower than XLA: {', '.join(slow)}")
    more = larger(table)
    if more:
        lines.append(f"temporary memory: more MB than XLA: {', '.join(more)}")
    return lines


def replace_in(file, mark, content):
    """Writes a file's content between `<!-- MARK -->` and `<!-- /MARK -->` anew."""
    file.write_text(put_between_marks(file.read_text(), mark, content))


def put_between_marks(text, mark, content):
    """The text with other content between `<!-- MARK -->` and `<!-- /MARK -->`."""
    begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
    before, rest = text.split(begin, 1)
    _, after = rest.split(end, 1)
    return f"{before}{begin}{content}{end}{after}"


def changes(old, new, least):
    """Lines about halo's times that changed by more than a part since an earlier comparison, and the mean change."""
    lines = []
    for key, label, _ in KEYS:
        factors = {
            name: old[name]["halo"][key] / row["halo"][key]
            for name, row in new.items()
            if key in row.get("halo", {}) and key in old.get(name, {}).get("halo", {})
        }
        if not factors:
            continue
        lines.append(f"{label}: {statistics.geometric_mean(factors.values()):.3f} times as fast ({len(factors)} programs)")
        for name, factor in sorted(factors.items(), key=lambda item: item[1]):
            if abs(math.log(factor)) > math.log1p(least):
                before, after = old[name]["halo"][key], new[name]["halo"][key]
                lines.append(f"  {name:<22}{before:>12.4g} ms -> {after:>10.4g} ms{factor:>9.2f} x")
    return lines

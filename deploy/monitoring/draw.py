"""Draws panels of lines as one SVG, readable on light and dark pages."""

import html
import math

WIDTH, HEIGHT, PLOT, LINE, GAP, COLUMNS = 372, 110, 300, 13, 16, 3
LONGEST_LEGEND, LONGEST_NAME = 6, 46
COLOURS = ["#4c8bf5", "#e8710a", "#12a37f", "#a142f4", "#d93025", "#9aa0a6", "#f2b705", "#00a3c4"]
STYLE = """text{font:11px system-ui,sans-serif;fill:#3c4043}.t{font-weight:600}.s{fill:#80868b;font-size:10px}
.h{font-size:14px;font-weight:600}path{fill:none;stroke-width:1.4}.g{stroke:#dadce0;stroke-width:.5}.p{fill:#fff;stroke:#dadce0}
@media(prefers-color-scheme:dark){text{fill:#e8eaed}.s{fill:#9aa0a6}.g{stroke:#3c4043}.p{fill:#202124;stroke:#3c4043}}"""


def shown(value, unit):
    """A value of an axis or a stat, as Grafana shows it."""
    if unit == "bytes":
        return f"{value / 2**20:.3g} MiB"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s" and 0 < value < 1:
        return f"{value * 1000:.3g} ms"
    suffix = {"s": " s", "ops": "/s", "reqps": "/s"}.get(unit, "")
    return (f"{value:,.0f}" if value >= 1000 else f"{value:.3g}") + suffix


def thinned(points, most=120):
    step = math.ceil(len(points) / most)
    return points[::step] + ([points[-1]] if len(points) % step != 1 and step > 1 else [])


def text(x, y, words, kind=""):
    return f'<text x="{x}" y="{y}"' + (f' class="{kind}"' if kind else "") + f">{html.escape(words)}</text>"


def lines_of(panel, span):
    """The plot of a panel, in a field of PLOT by HEIGHT at (60, 26)."""
    start, end = span
    values = [value for _, points in panel["series"] for _, value in points]
    top = max(values) or 1
    out = []
    for part in (0, 0.5, 1):
        y = 26 + HEIGHT * (1 - part)
        out.append(f'<line class="g" x1="60" x2="{60 + PLOT}" y1="{y:.0f}" y2="{y:.0f}"/>')
        out.append(text(6, round(y) + 3, shown(top * part, panel["unit"]), "s"))
    for part in (0, 0.5, 1):
        seconds = (end - start) * part
        label = f"{seconds / 60:.3g} min" if end - start >= 120 else f"{seconds:.0f} s"
        out.append(text(60 + round(PLOT * part) - (0 if part == 0 else 16 if part < 1 else 34), 26 + HEIGHT + 12, label, "s"))
    for number, (_, points) in enumerate(panel["series"]):
        path, before = [], None
        for when, value in thinned(points):
            x, y = 60 + PLOT * (when - start) / ((end - start) or 1), 26 + HEIGHT * (1 - value / top)
            path.append(f"{'L' if before is not None and when - before < (end - start) / 8 else 'M'}{x:.1f} {y:.1f}")
            before = when
        # A lone point would not be seen.
        path.append("h1.5")
        out.append(f'<path stroke="{COLOURS[number % len(COLOURS)]}" d="{"".join(path)}"/>')
    return out


def legend(series):
    """Name and colour of the first series, and how many there are besides; a lone one without a name needs none."""
    if [name for name, _ in series] == [""]:
        return []
    cut = [name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…" for name, _ in series]
    named = [(name, COLOURS[number % len(COLOURS)]) for number, name in enumerate(cut)]
    if len(named) <= LONGEST_LEGEND:
        return named
    return [*named[: LONGEST_LEGEND - 1], (f"and {len(named) - LONGEST_LEGEND + 1} more", "none")]


def height_of(panel):
    if panel["kind"] == "stat":
        return 32 + LINE * max(1, len(panel["series"]))
    return 26 + HEIGHT + 20 + LINE * len(legend(panel["series"]))


def drawn(panel, span, height):
    out = [f'<rect class="p" width="{WIDTH}" height="{height}" rx="3"/>', text(8, 16, panel["title"], "t")]
    if not panel["series"]:
        return [*out, text(8, 36, "nothing of this happened in the run", "s")]
    if panel["kind"] == "stat":
        for number, (name, points) in enumerate(panel["series"]):
            out.append(text(8, 34 + LINE * number, f"{shown(points[-1][1], panel['unit'])}  {name}"))
        return out
    out += lines_of(panel, span)
    for number, (name, colour) in enumerate(legend(panel["series"])):
        y = 26 + HEIGHT + 28 + LINE * number
        out.append(f'<rect x="60" y="{y - 8}" width="9" height="9" fill="{colour}"/>')
        out.append(text(73, y, name))
    return out


def svg(title, rows):
    """rows: (title, panels); a panel has title, unit, kind and series as (name, [(seconds, value)])."""
    times = [when for _, row in rows for panel in row for _, points in panel["series"] for when, _ in points]
    span = (min(times), max(times)) if times else (0, 1)
    body, y = [text(4, 18, title, "h")], 28
    for name, row in rows:
        if name:
            body.append(text(4, y + 12, name, "t"))
            y += 20
        for first in range(0, len(row), COLUMNS):
            line = row[first : first + COLUMNS]
            height = max(map(height_of, line))
            for column, panel in enumerate(line):
                body.append(f'<g transform="translate({column * (WIDTH + GAP)} {y})">')
                body += drawn(panel, span, height)
                body.append("</g>")
            y += height + GAP
    width = COLUMNS * (WIDTH + GAP) - GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-2 0 {width + 4} {y}" width="{width + 4}" height="{y}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *body, "</svg>"]) + "\n"

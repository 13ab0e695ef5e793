#!/usr/bin/env python3
"""Draws each TSV file of this folder as an SVG file beside it: bars of ratios around 1.

    python3 results/plot.py            draws all
    python3 results/plot.py FILE…      draws these files, wherever they are
    python3 results/plot.py --check    fails where a drawing is not that of its data

A file begins with a line `# title`, then has the names of its columns, then a label and one ratio or more
for each line; a ratio that there is not is empty, and has no bar. Bars are on a logarithmic scale, so that twice and half are equally long.

Where the second column is `keys`, a line has a rate of each other column by that number of keys (`peers
growth` writes it): a panel is drawn for each label, both of its scales are logarithmic.

Where the only column is `mean`, bars are plain: they begin at 0.
"""
import math
import sys
from html import escape
from pathlib import Path

COLOURS = ["#2a6fa8", "#e08a3c", "#5b9a57", "#9a6fb0", "#8c6d4a", "#4fa3a5", "#c0504d"]
WIDTH, BAR, GAP = 520, 13, 9
# Columns that the widest letters of a label may take: a renderer may have another font.
LETTER = 7


def read(path):
    title, *lines = path.read_text(encoding="utf-8").splitlines()
    head, *rows = [line.split("\t") for line in lines]
    return title.lstrip("# "), head[1:], [(row[0], [float(v) if v else None for v in row[1:]]) for row in rows]


def draw(title, series, rows):
    values = [v for _, of in rows for v in of if v is not None] + [1.0]
    left = max(len(label) for label, _ in rows) * LETTER + 20
    low, high = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
    scale = WIDTH / max(high - low, 1)
    x = lambda value: left + (math.log2(value) - low) * scale
    top = 62 if len(series) > 1 else 44
    height = top + sum(len(of) * BAR + GAP for _, of in rows) + 24
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + WIDTH + 70}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    # Many names take the whole width; few stand above the bars.
    begin, step = (left, 150) if len(series) * 150 <= WIDTH + 90 else (12, (left + WIDTH + 58) / len(series))
    for n, name in enumerate(series if len(series) > 1 else []):
        at = begin + n * step
        out.append(f'<rect x="{at:g}" y="32" width="10" height="10" fill="{COLOURS[n]}"/>')
        out.append(f'<text x="{at + 15:g}" y="41">{escape(name)}</text>')
    for power in range(low, high + 1):
        at, bold = x(2.0**power), power == 0
        out.append(
            f'<line x1="{at:.1f}" y1="{top}" x2="{at:.1f}" y2="{height - 22}" '
            f'stroke="{"#333" if bold else "#ddd"}"/>'
        )
        # So many numbers stand beside each other without touching.
        if power % max(1, math.ceil((high - low) / 9)) == 0:
            out.append(f'<text x="{at:.1f}" y="{height - 8}" text-anchor="middle">{2.0**power:.3g}</text>')
    y = top + 4
    for label, of in rows:
        middle = y + len(of) * BAR / 2 + 4
        out.append(f'<text x="{left - 10}" y="{middle:.1f}" text-anchor="end">{escape(label)}</text>')
        for n, value in enumerate(of):
            if value is None:
                y += BAR
                continue
            begin, end = sorted((x(1.0), x(value)))
            out.append(
                f'<rect x="{begin:.1f}" y="{y}" width="{max(end - begin, 1):.1f}" height="{BAR - 2}" '
                f'fill="{COLOURS[n]}"/>'
            )
            out.append(f'<text x="{end + 5:.1f}" y="{y + BAR - 3}" fill="#333">{value:g}</text>')
            y += BAR
        y += GAP
    return "\n".join(out + ["</svg>", ""])


def short(n):
    for least, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= least:
            return f"{n / least:g}{unit}"
    return f"{n:g}"


def ticks(low, high):
    """1, 2 and 5 of each power of ten, thinned out to six at most."""
    found = [f * 10.0**p for p in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for f in (1, 2, 5)]
    found = [t for t in found if low <= t <= high]
    for keep in ((1, 2, 5), (1, 5), (1,)):
        thin = [t for t in found if round(t / 10.0 ** math.floor(math.log10(t) + 1e-9)) in keep]
        if len(thin) <= 6:
            break
    return thin or found[:1]


# Marks tell the engines apart without colour.
MARKS = ["M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0", "M-4,-4h8v8h-8z", "M0,-5l5,9h-10z", "M0,-5l5,5l-5,5l-5,-5z"]


def draw_growth(title, series, rows):
    series = series[1:]
    panels = {}
    for label, (keys, *rates) in rows:
        panels.setdefault(label, []).append((keys, rates))
    across, wide, high = 3, 300, 190
    left, top, right, bottom = 52, 26, 14, 30
    height = 60 + -(-len(panels) // across) * high
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across * wide + 20}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    mark = lambda n, x, y: f'<path d="{MARKS[n % len(MARKS)]}" transform="translate({x:.1f},{y:.1f})" fill="{COLOURS[n]}"/>'
    for n, name in enumerate(series):
        out += [mark(n, 20 + n * 120, 40), f'<text x="{30 + n * 120}" y="44">{escape(name)}</text>']
    all_keys = [keys for points in panels.values() for keys, _ in points]
    for at, (label, points) in enumerate(panels.items()):
        ox, oy = at % across * wide + 8, at // across * high + 54
        rates = [r for _, of in points for r in of if r]
        low, top_rate = min(rates) / 1.15, max(rates) * 1.15
        span = max(math.log(max(all_keys) / min(all_keys)), 1e-9)
        x = lambda k: ox + left + math.log(k / min(all_keys)) / span * (wide - left - right)
        y = lambda r: oy + high - bottom - math.log(r / low) / math.log(top_rate / low) * (high - top - bottom)
        out.append(f'<text x="{ox + left}" y="{oy + 16}" font-weight="bold">{escape(label)}</text>')
        for tick in ticks(low, top_rate):
            out.append(f'<line x1="{ox + left}" x2="{ox + wide - right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#ddd"/>')
            out.append(f'<text x="{ox + left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{short(tick)}</text>')
        for keys in sorted({k for k, _ in points}):
            out.append(f'<text x="{x(keys):.1f}" y="{oy + high - bottom + 16}" text-anchor="middle">{short(keys)}</text>')
        for n in range(len(series)):
            line = [(x(k), y(of[n])) for k, of in points if of[n]]
            if line:
                path = " ".join(f"{px:.1f},{py:.1f}" for px, py in line)
                out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[n]}" stroke-width="1.6"/>')
                out += [mark(n, px, py) for px, py in line]
    return "\n".join(out + ["</svg>", ""])


def draw_means(title, _series, rows):
    left, wide, bar, top = 90, 380, 22, 40
    scale = wide / max(values[0] for _, values in rows)
    height = top + len(rows) * (bar + 10) + 26
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + wide + 70}" height="{height}" '
        'font-family="sans-serif" font-size="14">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="12" y="24" font-size="16" font-weight="bold">{escape(title)}</text>',
    ]
    y = top
    for label, (value,) in rows:
        out.append(f'<text x="{left - 10}" y="{y + 16}" text-anchor="end">{escape(label)}</text>')
        out.append(f'<rect x="{left}" y="{y}" width="{value * scale:.1f}" height="{bar}" fill="{COLOURS[0]}"/>')
        out.append(f'<text x="{left + value * scale + 6:.1f}" y="{y + 16}">{value:.1f}</text>')
        y += bar + 10
    at = left + scale
    out.append(f'<line x1="{at:.1f}" y1="{top - 4}" x2="{at:.1f}" y2="{y}" stroke="#333" stroke-dasharray="3,3"/>')
    out.append(f'<text x="{at:.1f}" y="{y + 16}" text-anchor="middle" font-size="12">1: as fast</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    wrong = []
    named = [Path(name) for name in sys.argv[1:] if name != "--check"]
    for path in named or sorted(Path(__file__).parent.glob("*.tsv")):
        title, series, rows = read(path)
        drawing = {"keys": draw_growth, "mean": draw_means}.get(series[0], draw)
        drawn, target = drawing(title, series, rows), path.with_suffix(".svg")
        if "--check" in sys.argv:
            if not target.exists() or target.read_text(encoding="utf-8") != drawn:
                wrong.append(target.name)
        else:
            target.write_text(drawn, encoding="utf-8")
    if wrong:
        sys.exit(f"not drawn from their data: {', '.join(wrong)}; run python3 results/plot.py")


main()

#!/usr/bin/env python3
"""Draws each TSV file of this folder as an SVG file beside it: bars of ratios around 1.

    python3 results/plot.py            draws all
    python3 results/plot.py FILE…      draws these files, wherever they are
    python3 results/plot.py --check    fails where a drawing is not that of its data

A file begins with a line `# title`, then has the names of its columns, then a label and one ratio or more
for each line; a ratio that there is not is empty, and has no bar. Bars are on a logarithmic scale, so that twice and half are equally long.
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
        out.append(f'<text x="{at:.1f}" y="{height - 8}" text-anchor="middle">{2.0**power:g}</text>')
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


def main():
    wrong = []
    named = [Path(name) for name in sys.argv[1:] if name != "--check"]
    for path in named or sorted(Path(__file__).parent.glob("*.tsv")):
        drawn, target = draw(*read(path)), path.with_suffix(".svg")
        if "--check" in sys.argv:
            if not target.exists() or target.read_text(encoding="utf-8") != drawn:
                wrong.append(target.name)
        else:
            target.write_text(drawn, encoding="utf-8")
    if wrong:
        sys.exit(f"not drawn from their data: {', '.join(wrong)}; run python3 results/plot.py")


main()

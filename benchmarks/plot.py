"""Line plots as one SVG, without a library."""

import dataclasses
import html
import math

WIDTH, HEIGHT, PLOT_LEFT, PLOT_TOP, PLOT_RIGHT, PLOT_BOTTOM = 460, 330, 62, 34, 446, 282
COLORS = ["#1b6ca8", "#c1440e", "#3a7d44", "#7d3c98", "#8a6d00", "#444444"]


@dataclasses.dataclass
class Panel:
    title: str
    x_label: str
    y_label: str
    lines: dict  # name: [(x, y), ...]
    bands: dict = dataclasses.field(default_factory=dict)  # name of a line: [(x, low, high), ...]
    is_log: bool = False
    dashed: tuple = ()


def nice_ticks(low, high, is_log):
    if is_log:
        exponents = range(math.floor(math.log2(low)), math.ceil(math.log2(high)) + 1)
        step = max(1, len(exponents) // 7)
        return [2.0**e for e in exponents[::step] if low * 0.99 <= 2.0**e <= high * 1.01]
    span = high - low or 1.0
    unit = 10 ** math.floor(math.log10(span / 5))
    unit *= next(factor for factor in (1, 2, 5, 10) if span / (unit * factor) <= 6)
    first = math.ceil(low / unit)
    return [unit * i for i in range(first, math.floor(high / unit + 1e-9) + 1)]


def panel_svg(panel, dx, dy):
    points = [point for line in panel.lines.values() for point in line]
    points += [(x, y) for band in panel.bands.values() for x, low, high in band for y in (low, high)]
    (x_low, x_high), (y_low, y_high) = ((min(v), max(v)) for v in zip(*points))
    warp = math.log2 if panel.is_log else float

    def scaled(value, low, high, first, last):
        share = (warp(value) - warp(low)) / ((warp(high) - warp(low)) or 1.0)
        return first + share * (last - first)

    def at(x, y):
        return f"{scaled(x, x_low, x_high, PLOT_LEFT, PLOT_RIGHT):.1f},{scaled(y, y_low, y_high, PLOT_BOTTOM, PLOT_TOP):.1f}"

    parts = [f'<g transform="translate({dx},{dy})">',
             f'<text x="{(PLOT_LEFT + PLOT_RIGHT) / 2}" y="18" text-anchor="middle" font-weight="bold">{html.escape(panel.title)}</text>']
    for tick in nice_ticks(x_low, x_high, panel.is_log):
        x, _ = at(tick, y_low).split(",")
        parts.append(f'<line x1="{x}" y1="{PLOT_TOP}" x2="{x}" y2="{PLOT_BOTTOM}" stroke="#ddd"/>'
                     f'<text x="{x}" y="{PLOT_BOTTOM + 15}" text-anchor="middle">{tick:g}</text>')
    for tick in nice_ticks(y_low, y_high, panel.is_log):
        _, y = at(x_low, tick).split(",")
        parts.append(f'<line x1="{PLOT_LEFT}" y1="{y}" x2="{PLOT_RIGHT}" y2="{y}" stroke="#ddd"/>'
                     f'<text x="{PLOT_LEFT - 6}" y="{float(y) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    parts.append(f'<rect x="{PLOT_LEFT}" y="{PLOT_TOP}" width="{PLOT_RIGHT - PLOT_LEFT}" height="{PLOT_BOTTOM - PLOT_TOP}" '
                 'fill="none" stroke="#888"/>')
    for i, (name, line) in enumerate(panel.lines.items()):
        color = COLORS[i % len(COLORS)]
        if name in panel.bands:
            band = panel.bands[name]
            outline = [at(x, high) for x, _, high in band] + [at(x, low) for x, low, _ in reversed(band)]
            parts.append(f'<polygon points="{" ".join(outline)}" fill="{color}" opacity="0.15"/>')
        dash = ' stroke-dasharray="5,4"' if name in panel.dashed else ""
        parts.append(f'<polyline points="{" ".join(at(x, y) for x, y in line)}" fill="none" stroke="{color}" stroke-width="2"{dash}/>')
        y = PLOT_TOP + 16 + 15 * i
        parts.append(f'<line x1="{PLOT_LEFT + 8}" y1="{y - 4}" x2="{PLOT_LEFT + 26}" y2="{y - 4}" stroke="{color}" stroke-width="2"{dash}/>'
                     f'<text x="{PLOT_LEFT + 31}" y="{y}">{html.escape(name)}</text>')
    parts.append(f'<text x="{(PLOT_LEFT + PLOT_RIGHT) / 2}" y="{PLOT_BOTTOM + 34}" text-anchor="middle">{html.escape(panel.x_label)}</text>'
                 f'<text transform="translate(14,{(PLOT_TOP + PLOT_BOTTOM) / 2}) rotate(-90)" text-anchor="middle">'
                 f'{html.escape(panel.y_label)}</text></g>')
    return "\n".join(parts)


def svg(panels):
    """Two panels a row."""
    columns = min(2, len(panels))
    rows = (len(panels) + columns - 1) // columns
    body = "\n".join(panel_svg(panel, WIDTH * (i % columns), HEIGHT * (i // columns)) for i, panel in enumerate(panels))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH * columns}" height="{HEIGHT * rows}" '
            f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n')

"""The pictures of `docs/performance.md`: plain SVG that follows the reader's light or dark setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from benchmarks.results import Result

STYLE: Final = """\
svg { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
.paper { fill: #ffffff; } .ink { fill: #1f2328; } .pale { fill: #59636e; } .grid { stroke: #d8dee4; }
.mark { stroke: #59636e; } .good { fill: #0969da; } .bad { fill: #bc4c00; } .other { fill: #9aa4af; }
.good-line { stroke: #0969da; } .bad-line { stroke: #bc4c00; } .hollow { fill: none; stroke: #59636e; }
.c0 { --c: #0969da; } .c1 { --c: #1a7f37; } .c2 { --c: #8250df; } .c3 { --c: #bc4c00; } .c4 { --c: #6e7781; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #0d1117; } .ink { fill: #e6edf3; } .pale { fill: #9198a1; } .grid { stroke: #30363d; }
  .mark { stroke: #9198a1; } .good { fill: #4493f8; } .bad { fill: #f0883e; } .other { fill: #656c76; }
  .good-line { stroke: #4493f8; } .bad-line { stroke: #f0883e; } .hollow { stroke: #9198a1; }
  .c0 { --c: #4493f8; } .c1 { --c: #3fb950; } .c2 { --c: #ab7df8; } .c3 { --c: #f0883e; } .c4 { --c: #9198a1; }
}
.curve { fill: none; stroke: var(--c); stroke-width: 2; } .dot, .name { fill: var(--c); }
"""


class Axis:
    """A logarithmic axis from one decade to another.

    Args:
        values: What has to fit.
        start: Where the axis begins, in pixels.
        end: Where it ends; before `start` where it grows upwards.
    """

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self._low = math.floor(math.log10(min(values)))
        self._high = max(math.ceil(math.log10(max(values))), self._low + 1)
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)

    @property
    def decades(self) -> list[float]:
        """Where lines are drawn."""
        return [10.0**power for power in range(self._low, self._high + 1)]


def rows(found: Sequence[Result]) -> str:
    """All rows on one axis: how many times as good as its must each is; left of the line it is missed."""
    left, right, top, step = 555, 840, 56, 24
    marks = [
        value
        for result in found
        for value in (_good(result, result.judged[0]), _good(result, result.judged[2]), _aim(result))
    ]
    axis = Axis([*marks, 0.5, 2], left, right)
    bottom = top + step * len(found)
    parts = [
        _text(left, 24, "times as good as the must", "pale"),
        _text(right + 16, 24, "measured", "pale"),
        *_grid(axis, top - 8, bottom, top - 14),
        f'<line class="mark" stroke-width="1.5" x1="{axis(1):.1f}" x2="{axis(1):.1f}" y1="{top - 8}" y2="{bottom}"/>',
    ]
    for number, result in enumerate(found):
        y = top + step * number + step / 2
        kind = "good" if result.holds else "bad"
        low, high = sorted((axis(_good(result, result.judged[0])), axis(_good(result, result.judged[2]))))
        x, aim = axis(result.reached), axis(_aim(result))
        label = result.row.question
        if result.row.peer and len(label) + len(result.row.peer) <= 70:
            label += f", over {result.row.peer}"
        parts += [
            _text(28, y + 4, str(result.row.number), "pale", "end"),
            _text(40, y + 4, label.replace("`", ""), "ink"),
            f'<line class="{kind}-line" stroke-width="3" opacity="0.45" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>',
            f'<path class="hollow" d="M{aim:.1f} {y - 5} l5 5 l-5 5 l-5 -5 z"/>',
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y}" r="4.5"/>',
            _text(right + 16, y + 4, measured(result, result.value), "ink" if result.holds else "bad"),
        ]
    legend = bottom + 30
    parts += [
        f'<circle class="good" cx="52" cy="{legend - 4}" r="4.5"/>',
        _text(64, legend, "holds", "pale"),
        f'<circle class="bad" cx="122" cy="{legend - 4}" r="4.5"/>',
        _text(134, legend, "missed", "pale"),
        f'<path class="hollow" d="M202 {legend - 9} l5 5 l-5 5 l-5 -5 z"/>',
        _text(214, legend, "aim", "pale"),
        f'<line class="good-line" stroke-width="3" opacity="0.45" x1="262" x2="292" y1="{legend - 4}" y2="{legend - 4}"/>',
        _text(300, legend, "noise of the run", "pale"),
    ]
    return _picture(950, legend + 18, "Each row's ratio beside its must and aim", parts)


def bars(title: str, found: Mapping[str, float], ours: str) -> str:
    """Times of one operation, as bars on a logarithmic axis.

    Args:
        title: What is shown.
        found: Seconds by name.
        ours: How the names of our side begin.
    """
    left, right, top, step = 300, 780, 56, 30
    axis = Axis([value * 1e6 for value in found.values()], left, right)
    bottom = top + step * len(found)
    parts = [_text(left, 24, f"{title}, microseconds", "pale"), *_grid(axis, top - 8, bottom, top - 14)]
    for number, (name, seconds) in enumerate(found.items()):
        y, end = top + step * number, axis(seconds * 1e6)
        kind = "good" if name.startswith(ours) else "other"
        parts += [
            _text(left - 12, y + 17, name, "ink", "end"),
            f'<rect class="{kind}" x="{left}" y="{y + 3}" width="{end - left:.1f}" height="20" rx="2"/>',
            _text(end + 8, y + 17, f"{seconds * 1e6:,.0f}", "ink"),
        ]
    return _picture(900, bottom + 16, title, parts)


def growth(title: str, curves: Mapping[str, Mapping[int, float]]) -> str:
    """Curves over the number of messages, both axes logarithmic; each named at its end."""
    left, right, top, bottom = 70, 600, 56, 390
    across = Axis([at for points in curves.values() for at in points], left, right)
    up = Axis([value * 1e3 for points in curves.values() for value in points.values()], bottom, top)
    parts = [_text(left, 24, f"{title}, milliseconds", "pale"), *_grid(across, top, bottom, bottom + 20)]
    for value in up.decades:
        y = up(value)
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(left - 10, y + 4, _number(value), "pale", "end"))
    parts.append(_text(right, bottom + 40, "messages in the session", "pale", "end"))
    ends: list[tuple[float, float, str, str]] = []
    for number, (name, points) in enumerate(curves.items()):
        places = [(across(at), up(points[at] * 1e3)) for at in sorted(points)]
        path = " L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        dots = "".join(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in places)
        colour = f"c{number % 5}"
        parts.append(f'<g class="{colour}"><path class="curve" d="M{path}"/>{dots}</g>')
        ends.append((*places[-1], colour, name))
    free: dict[float, float] = {}
    for x, y, colour, name in sorted(ends):  # of two ends that are near each other one name is moved down
        place = max(y, free.get(x, 0.0))
        free[x] = place + 18
        parts.append(f'<g class="{colour}">{_text(x + 14, place + 4, name, "name")}</g>')
    return _picture(900, bottom + 56, title, parts)


def measured(result: Result, value: float) -> str:
    """A value of a row with its unit."""
    unit = {"times": "x"}.get(result.row.unit, f" {result.row.unit}")
    return f"{_number(value)}{unit}"


def _good(result: Result, value: float) -> float:
    row = result.row
    return max(value / row.must if row.sense == "at least" else row.must / max(value, row.must / 1e4), 1e-3)


def _aim(result: Result) -> float:
    return _good(result, result.row.aim)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _grid(axis: Axis, top: float, bottom: float, labels: float) -> list[str]:
    parts = []
    for value in axis.decades:
        x = axis(value)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>')
        parts.append(_text(x, labels, _number(value), "pale", "middle"))
    return parts


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _picture(width: int, height: float, title: str, parts: Sequence[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{STYLE}</style>",
            f'<rect class="paper" width="{width}" height="{height:.0f}" rx="8"/>',
            *parts,
            "</svg>\n",
        ]
    )

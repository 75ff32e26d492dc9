"""One SVG file with a panel of lines per test: speed against length, a line per engine with its spread."""
from html import escape

WIDTH, HEIGHT, GAP = 380, 260, 20  # Of a panel, and between two.
LEFT, RIGHT, TOP, BOTTOM = 52, 16, 34, 40  # Around the area of the lines.
COLORS = ("#1f6fb4", "#c8591b", "#4b8b3b")


def nice_limit(value):
    """The smallest of 1, 2, 2.5, 5, 10 times a power of ten that is at least `value`."""
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value)


def text(x, y, content, anchor="middle", size=12, **attributes):
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{more}>{escape(content)}</text>'


def panel(title, x_title, points, left):
    """`points`: (label of x, {engine: {"median", "min", "max"}}) from left to right."""
    top_value = nice_limit(max(values["max"] for _, engines in points for values in engines.values()))
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x_of(index):
        return left + LEFT + inner_width * (index + 0.5) / len(points)

    def y_of(value):
        return TOP + inner_height * (1 - value / top_value)

    parts = [text(left + LEFT + inner_width / 2, 20, title, size=14, font_weight="bold"),
             text(left + LEFT + inner_width / 2, HEIGHT - 6, x_title)]
    for tick in range(6):
        value = top_value * tick / 5
        parts.append(f'<line x1="{left + LEFT}" x2="{left + WIDTH - RIGHT}" y1="{y_of(value):.1f}" '
                     f'y2="{y_of(value):.1f}" stroke="#dddddd"/>')
        parts.append(text(left + LEFT - 6, y_of(value) + 4, f"{value:g}", "end"))
    for index, (label, _) in enumerate(points):
        parts.append(text(x_of(index), HEIGHT - BOTTOM + 16, label))
    # The names stand in the upper corner that the lines leave free.
    highest = [max(values["median"] for values in engines.values()) for _, engines in points]
    names_x, anchor = (left + LEFT + 8, "start") if highest[-1] > highest[0] else (left + WIDTH - RIGHT, "end")
    for number, engine in enumerate(dict.fromkeys(name for _, engines in points for name in engines)):
        color = COLORS[number % len(COLORS)]
        line = [(x_of(i), engines[engine]) for i, (_, engines) in enumerate(points) if engine in engines]
        path = " ".join(f"{x:.1f},{y_of(values['median']):.1f}" for x, values in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        for x, values in line:
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y_of(values["min"]):.1f}" '
                         f'y2="{y_of(values["max"]):.1f}" stroke="{color}"/>')
            parts.append(f'<circle cx="{x:.1f}" cy="{y_of(values["median"]):.1f}" r="3.5" fill="{color}"/>')
        parts.append(text(names_x, TOP + 12 + 16 * number, engine, anchor, fill=color))
    return parts


def svg(panels):
    """`panels`: (title, title of x, points as for panel())."""
    width = len(panels) * (WIDTH + GAP) - GAP
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" '
             f'height="{HEIGHT}" font-family="sans-serif" fill="#222222">',
             f'<rect width="{width}" height="{HEIGHT}" fill="#ffffff"/>']
    for number, (title, x_title, points) in enumerate(panels):
        parts += panel(title, x_title, points, number * (WIDTH + GAP))
    return "\n".join([*parts, "</svg>"]) + "\n"

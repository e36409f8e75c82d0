"""An SVG image of what a command printed to a terminal, with lines that appear one after the other, and its text
again.
"""

import re
from html import escape
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
STYLES = re.compile(r"\x1b\[(\d*)m")
CLASSES = {"1": "bold", "32": "green"}
"""The class of the text that follows, by the number in a color escape sequence."""
COLUMN, LINE, MARGIN = 7.25, 18, 16
PACE_S = 0.35
HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 {width:g} {height}" role="img">
<title>{title}</title>
<style>
text {{ font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d0d7de; white-space: pre; }}
.bold {{ font-weight: bold; fill: #ffffff; }}
.green {{ fill: #7ee787; }}
@keyframes unseen {{ from, to {{ opacity: 0; }} }}
@media (prefers-reduced-motion: no-preference) {{ text {{ animation-name: unseen; }} }}
</style>
<rect width="100%" height="100%" rx="8" fill="#161b22"/>
"""


def drawn(printed, title):
    """Return the image of a text with color escape sequences; without animation, all lines are there at once."""
    lines = printed.splitlines()
    height = len(lines) * LINE + 2 * MARGIN
    columns = max(len(STYLES.sub("", line)) for line in lines)
    parts = [HEAD.format(width=columns * COLUMN + 2 * MARGIN, height=height, title=escape(title))]
    style = ""
    for number, line in enumerate(lines):
        spans = []
        for at, piece in enumerate(STYLES.split(line)):
            if at % 2:
                style = CLASSES.get(piece, "")
            elif piece:
                displayed = escape(piece, quote=False)
                spans.append(f'<tspan class="{style}">{displayed}</tspan>' if style else f"<tspan>{displayed}</tspan>")
        place = f'x="{MARGIN}" y="{MARGIN + (number + 0.75) * LINE:g}"'
        parts.append(f'<text {place} style="animation-duration: {number * PACE_S:.2f}s">{"".join(spans)}</text>\n')
    return "".join([*parts, "</svg>\n"])


def text_of(picture):
    """Return the text that an image shows, line by line, without colors."""
    lines = ET.fromstring(picture).iter(f"{SVG}text")
    return "".join("".join(line.itertext()) + "\n" for line in lines)

"""A picture of lines, discs and words, as SVG and as PNG.

Both come from one list of shapes, so they show the same. The SVG is text without a library; the PNG
is painted by RDKit, whose letters are ASCII: so are all words here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

Colour = tuple[float, float, float]

BLACK: Colour = (0.0, 0.0, 0.0)
WHITE: Colour = (1.0, 1.0, 1.0)
GREY: Colour = (0.45, 0.45, 0.45)
_ANCHORS = {"middle": 0, "start": 1, "end": 2}


@dataclass(frozen=True)
class _Line:
    ends: tuple[float, float, float, float]
    width: float
    colour: Colour


@dataclass(frozen=True)
class _Shape:
    """A disc or a rectangle, by its box (left, top, right, bottom)."""

    round: bool
    box: tuple[float, float, float, float]
    fill: Colour | None
    edge: Colour | None
    width: float
    hint: str


@dataclass(frozen=True)
class _Words:
    x: float
    y: float
    text: str
    size: float
    anchor: str
    colour: Colour


@dataclass
class Picture:
    """Shapes on white, in pixels from the top left corner; what comes later lies above.

    Args:
        width: in pixels.
        height: in pixels.
        about: what it shows, for those who cannot see it.

    Example:
        >>> picture = Picture(80, 40, "a disc")
        >>> picture.disc(20, 20, 15, fill=(0.84, 0.37, 0.0), hint="heat 0.7")
        >>> picture.words(60, 20, "t = 1")
        >>> picture.svg()[:4], picture.png()[1:4]
        (b'<svg', b'PNG')
    """

    width: int
    height: int
    about: str = ""
    _shapes: list[_Line | _Shape | _Words] = field(default_factory=list, repr=False)

    def line(
        self, x1: float, y1: float, x2: float, y2: float, *, width: float = 1.5,
        colour: Colour = BLACK,
    ) -> None:  # fmt: skip
        """A straight line."""
        self._shapes.append(_Line((x1, y1, x2, y2), width, colour))

    def disc(
        self, x: float, y: float, radius: float, *, fill: Colour | None = None,
        edge: Colour | None = BLACK, width: float = 1.0, hint: str = "",
    ) -> None:  # fmt: skip
        """A disc; its ``hint`` is shown by hovering over it."""
        box = (x - radius, y - radius, x + radius, y + radius)
        self._shapes.append(_Shape(True, box, fill, edge, width, hint))

    def box(
        self, x: float, y: float, width: float, height: float, *, fill: Colour | None = None,
        edge: Colour | None = None,
    ) -> None:  # fmt: skip
        """A rectangle, from its top left corner."""
        self._shapes.append(_Shape(False, (x, y, x + width, y + height), fill, edge, 1.0, ""))

    def words(
        self, x: float, y: float, text: str, *, size: float = 13, anchor: str = "middle",
        colour: Colour = BLACK,
    ) -> None:  # fmt: skip
        """A line of text whose middle is at the height y."""
        if anchor not in _ANCHORS:
            raise ValueError(f"words have the anchor {', '.join(_ANCHORS)}, not {anchor!r}")
        if not text.isascii():
            raise ValueError(f"only ASCII can be written in a picture, not {text!r}")
        if text:
            self._shapes.append(_Words(x, y, text, size, anchor, colour))

    def svg(self) -> bytes:
        """The picture as a file that needs no other, for pages and for print."""
        body = "\n".join(map(_as_svg, self._shapes))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" role="img" font-family="sans-serif">\n'
            f"<title>{escape(self.about)}</title>\n"
            f'<rect width="{self.width}" height="{self.height}" fill="#ffffff"/>\n'
            f"{body}\n</svg>\n"
        ).encode()

    def png(self, scale: float = 1.6) -> bytes:
        """The picture in so many dots to a pixel."""
        from rdkit.Chem.Draw import rdMolDraw2D

        size = round(self.width * scale), round(self.height * scale)
        canvas: Any = rdMolDraw2D.MolDraw2DCairo(*size)
        # RDKit would hold the size of letters within bounds of its own.
        canvas.drawOptions().maxFontSize = -1
        canvas.drawOptions().minFontSize = -1
        canvas.ClearDrawing()
        for shape in self._shapes:
            _paint(canvas, shape, scale)
        canvas.FinishDrawing()
        return bytes(canvas.GetDrawingText())


def _as_svg(shape: _Line | _Shape | _Words) -> str:
    if isinstance(shape, _Line):
        x1, y1, x2, y2 = map(_number, shape.ends)
        return (
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{_hex(shape.colour)}" '
            f'stroke-width="{_number(shape.width)}" stroke-linecap="round"/>'
        )
    if isinstance(shape, _Words):
        # A third of the size below the middle is where letters of this size stand.
        y = shape.y + 0.35 * shape.size
        return (
            f'<text x="{_number(shape.x)}" y="{_number(y)}" font-size="{_number(shape.size)}" '
            f'text-anchor="{shape.anchor}" fill="{_hex(shape.colour)}">{escape(shape.text)}</text>'
        )
    left, top, right, bottom = shape.box
    paint = f'fill="{_hex(shape.fill)}"'
    if shape.edge is not None:
        paint += f' stroke="{_hex(shape.edge)}" stroke-width="{_number(shape.width)}"'
    title = f"<title>{escape(shape.hint)}</title>" if shape.hint else ""
    if shape.round:
        place = f'cx="{_number((left + right) / 2)}" cy="{_number((top + bottom) / 2)}"'
        return f'<circle {place} r="{_number((right - left) / 2)}" {paint}>{title}</circle>'
    place = f'x="{_number(left)}" y="{_number(top)}"'
    size = f'width="{_number(right - left)}" height="{_number(bottom - top)}"'
    return f"<rect {place} {size} {paint}/>"


def _paint(canvas: Any, shape: _Line | _Shape | _Words, scale: float) -> None:
    from rdkit.Geometry import Point2D

    def at(x: float, y: float) -> Any:
        return Point2D(x * scale, y * scale)

    if isinstance(shape, _Words):
        canvas.SetColour(shape.colour)
        canvas.SetFontSize(shape.size * scale)
        place = at(shape.x, shape.y)
        canvas.DrawString(shape.text, place, _ANCHORS[shape.anchor], rawCoords=True)
        return
    canvas.SetLineWidth(shape.width * scale)
    if isinstance(shape, _Line):
        x1, y1, x2, y2 = shape.ends
        canvas.SetColour(shape.colour)
        canvas.DrawLine(at(x1, y1), at(x2, y2), rawCoords=True)
        return
    left, top, right, bottom = shape.box
    draw = canvas.DrawEllipse if shape.round else canvas.DrawRect
    for colour, filled in ((shape.fill, True), (shape.edge, False)):
        if colour is not None:
            canvas.SetColour(colour)
            canvas.SetFillPolys(filled)
            # A filled shape is stroked as well: with next to nothing, or it would be too large.
            canvas.SetLineWidth(0.1 if filled else shape.width * scale)
            draw(at(left, top), at(right, bottom), rawCoords=True)


def _number(value: float) -> str:
    """A tenth of a pixel is enough.

    >>> _number(12.04), _number(-0.01), _number(3.25)
    ('12', '0', '3.2')
    """
    return f"{round(value, 1) + 0.0:g}"


def _hex(colour: Colour | None) -> str:
    if colour is None:
        return "none"
    return "#" + "".join(f"{round(255 * min(1.0, max(0.0, part))):02x}" for part in colour)

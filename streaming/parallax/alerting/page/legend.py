"""The legend of a drawing: a small picture of each kind of line or box, with its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend, e.g. the box that means "what consumers may read".

    Attributes:
        drawn: the CSS class that the line or box has in the drawing; page.css gives it its colour.
        sign: a small SVG picture of the line or box, with the same class.
        means: what it says about a replica.
    """

    drawn: str
    sign: Markup
    means: str


def legend(drawing: str, entries: Mapping[str, tuple[str, str]]) -> tuple[Key, ...]:
    """Make the legend of a drawing: one `Key` for each of ``entries``, in their order.

    Args:
        drawing: the CSS class of the whole drawing.
        entries: by the CSS class of a line or box, an SVG element for the small picture, and the meaning. The element
            is for a box of 24 by 14, without angle brackets and class, as in ``rect x="1"``.
    """
    return tuple(
        Key(
            drawn,
            Markup(  # noqa: S704 - of this program
                f'<svg class="sign {drawing}" viewBox="0 0 24 14" aria-hidden="true"><{element} class="{drawn}"/></svg>'
            ),
            means,
        )
        for drawn, (element, means) in entries.items()
    )


BOX = 'rect x="1" y="2" width="22" height="10"'
LEVEL = 'path d="M0 7H24"'
"""The SVG element of a line from the left to the right."""


__all__ = ["BOX", "LEVEL", "Key", "legend"]

"""Make content/assets/fonts/course-math.woff2 from Debian's Latin Modern Math.

Run once, and again when a formula needs a character that is not in BLOCKS:

    apt-get install fonts-lmodern
    pip install fonttools brotli
    python -m tools.font

The result keeps the MATH table and all sizes and parts of the kept characters, which is what lets
braces, roots and sums stretch; it drops hints and what the course's formulas cannot use. The font's
licence asks for another name.
"""

from __future__ import annotations

import sys
from pathlib import Path

from press.project import CONTENT

ORIGINAL = Path("/usr/share/texmf/fonts/opentype/public/lm-math/latinmodern-math.otf")
RESULT = CONTENT / "assets/fonts/course-math.woff2"
FAMILY, POSTSCRIPT = "Course Math", "CourseMath-Regular"
BLOCKS = """
    20-7e a0 ac b0-b1 b7 d7 f7 131 237            Latin, signs
    300-308 20d0-20d7 af 2c6-2c7 2d8-2dc          accents over letters
    391-3c9 3d1 3d5 3d6 3f0-3f5                   Greek
    2010-2016 2026 2032-2034 203e 2044 2057       dashes, dots, primes
    2061-2064                                     invisible operators
    2102 2107 210b-2113 2115 2118-211d 2124       letterlike symbols
    212c 2130-2131 2133
    2190-2199 21a6 21d0-21d5 27f5-27fc            arrows
    2200-2238 223c-223d 2243-224c 2254-2255 225c  operators and relations
    2260-2265 226a-226b 2282-2287 228e-22a5
    22c0-22c6 22ee-22f1 2a00-2a0c 2a2f
    2a7d-2a7e 2aaf-2ab0
    2308-230b 2329-232a 23b4-23b5 23dc-23e1       brackets and braces, also lying ones
    27e6-27e9 25a0-25a1 2605
    1d400-1d467 1d49c-1d4b5 1d538-1d551           bold, italic, script, double-struck letters
    1d6a4-1d6a5 1d6a8-1d6e1 1d6fc-1d71b           dotless i and j, bold and italic Greek
    1d7ce-1d7d7                                   bold digits
"""


def characters(blocks: str) -> set[int]:
    """Return the code points of lines of hexadecimal ranges, each line followed by a remark."""
    characters = set()
    for line in blocks.strip().splitlines():
        ranges, _, _ = line.strip().partition("  ")
        for word in ranges.split():
            first, _, last = word.partition("-")
            characters |= set(range(int(first, 16), int(last or first, 16) + 1))
    return characters


def rename(font) -> None:
    """Give the font its neutral name; keep copyright, style, version and licence."""
    names = {1: FAMILY, 4: FAMILY, 16: FAMILY, 6: POSTSCRIPT, 3: f"{POSTSCRIPT};a subset"}
    table = font["name"]
    table.names = [record for record in table.names if record.nameID in {0, 2, 5, 13, 14, *names}]
    for record in table.names:
        record.string = names.get(record.nameID, record.string)
    outlines = font["CFF "].cff
    outlines.fontNames = [POSTSCRIPT]
    outlines.topDictIndex[0].FullName = outlines.topDictIndex[0].FamilyName = FAMILY


def main() -> None:
    """Write the subset."""
    from fontTools import subset  # only here: a test reads BLOCKS without it

    if not ORIGINAL.exists():
        sys.exit(f"{ORIGINAL} is not here: apt-get install fonts-lmodern")
    options = subset.Options(
        flavor="woff2",
        # Dotless letters under accents. Shapes drawn for subscripts (ssty) would double the file.
        layout_features=["dtls"],
        hinting=False,
        desubroutinize=True,
        name_IDs=["*"],
        notdef_outline=True,
    )
    font = subset.load_font(ORIGINAL, options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=characters(BLOCKS))
    subsetter.subset(font)
    rename(font)
    subset.save_font(font, RESULT, options)
    print(f"{RESULT.name}: {RESULT.stat().st_size} bytes")


if __name__ == "__main__":
    main()

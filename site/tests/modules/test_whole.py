"""A module is whole: page, lab, test, navigation, mutants, sources, limits, exercises agree."""

from __future__ import annotations

import pytest

from press import modules
from press.project import COURSE, SITE


@pytest.mark.parametrize("module", modules.everything(), ids=lambda module: module.stem)
def test_a_module_has_all_its_files(module):
    assert modules.missing(module) == []


def test_a_folder_of_this_site_makes_a_module_and_every_program_has_one():
    """What lies where only a module's files lie, and belongs to none, would never be checked."""
    stems = {module.stem for module in modules.everything()}
    programs = {path.name for path in COURSE.glob("code/[0-9]*.py")}
    numbers = {module.number for module in modules.everything()}
    own = {path.name for each in modules.everything() for path in (each.lab, each.script)}

    assert stems
    assert programs == own
    assert {path.name for path in (SITE / "modules").glob("[0-9]*")} == stems
    assert {path.name for path in COURSE.glob("exercises/*/")} <= numbers

"""A recording is replaced by a whole one, or not at all; where asked, section by section."""

from __future__ import annotations

import subprocess
import sys

import pytest

from press.project import ROOT
from record import engines, launching, recording, tally
from record.recording import Recording
from record.scenario import Ran, Scenario, Start, checked

OLD = {"first": "old", "first-fixed": "old", "second": "old", "third": "old"}
RECORDINGS = {"launching": launching, "engines": engines, "tally": tally}


@pytest.fixture
def made(tmp_path):
    """Return a recording of three names, of which those in `wrong` fail."""

    def make(*wrong: str, lacking: str = "") -> Recording:
        def play(name: str) -> dict[str, str]:
            if name in wrong:
                raise RuntimeError(f"{name}, nodeA: exit status 1, not 0\n{name}: nft: not found")
            return {name: "new"}

        names = ("first", "second", "third")
        one = Recording(tmp_path / "recording.txt", names, play, lambda names: lacking)
        one.write(OLD)
        return one

    return make


def test_a_whole_recording_replaces_all_sections_even_those_that_nobody_makes_any_more(made):
    one = made()

    assert recording.main([], one) == 0
    assert one.sections() == dict.fromkeys(["first", "second", "third"], "new")


def test_without_names_one_fault_leaves_the_file_as_it_was(made, capsys):
    one = made("second")
    before = one.file.read_bytes()

    assert recording.main([], one) == 1
    assert one.file.read_bytes() == before
    said = capsys.readouterr().err
    assert "second: nft: not found" in said
    assert "2 faults, so the whole file stays as it was" in said


def test_without_names_the_file_is_as_it_was_until_all_is_played(made):
    one, seen = made(), []

    def play(name: str) -> dict[str, str]:
        seen.append(one.sections())
        return {name: "new"}

    recording.main([], Recording(one.file, one.names, play))

    assert seen == [OLD, OLD, OLD]


def test_with_names_each_section_that_is_right_is_replaced(made):
    one = made("second")

    assert recording.main(["first", "second"], one) == 1
    assert one.sections() == {"first": "new", "second": "old", "third": "old"}


def test_a_recording_that_cannot_be_made_here_is_not_begun(made, capsys):
    one = made(lacking="nft not installed: apt-get install nftables")

    assert recording.main([], one) == 1
    said = capsys.readouterr()
    assert said.err == (
        "recording.txt stays as it is: nft not installed: apt-get install nftables\n"
    )
    assert said.out == ""
    assert one.sections() == OLD


def test_a_file_that_cannot_be_written_leaves_no_part(made, monkeypatch):
    one = made()
    monkeypatch.setattr(type(one.file), "replace", lambda *_: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        recording.main([], one)
    assert [path.name for path in one.file.parent.iterdir()] == ["recording.txt"]
    assert one.sections() == OLD


def test_an_unknown_name_is_refused_with_the_known_ones(made, capsys):
    assert recording.main(["nowhere"], made()) == 2
    assert "'nowhere' cannot be recorded; known are first, second" in capsys.readouterr().err


def test_a_log_that_is_not_as_its_scenario_says_is_no_recording():
    scenario = Scenario("x", (Start("nodeA", "train", ("ok",)),))

    with pytest.raises(RuntimeError, match=r"exit status 1, not 0\n.*no line matches 'ok'"):
        checked(scenario, [Ran(scenario.steps[0], "no", 1, 0.0, 1.0)])


@pytest.mark.parametrize("name", RECORDINGS)
def test_each_recording_of_the_site_is_written_as_it_was_read(name, tmp_path):
    one = RECORDINGS[name].RECORDING
    again = Recording(tmp_path / "recording.txt", one.names, one.play)
    again.write(one.sections())

    assert one.sections()
    assert again.file.read_text() == one.file.read_text()


@pytest.mark.parametrize("name", RECORDINGS)
def test_each_recording_of_the_site_has_its_command(name):
    command = [sys.executable, "-m", f"record.{name}", "nowhere"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "'nowhere' cannot be recorded; known are " in done.stderr

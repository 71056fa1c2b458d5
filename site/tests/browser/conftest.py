"""What the tests in a browser share."""

from __future__ import annotations

import pytest

from browser import visits


@pytest.fixture(scope="module")  # not session: one process can run only one Playwright at a time
def chromium():
    """Start Chromium; where browser tests are required and it is lacking, the test fails."""
    if lacking := visits.missing():
        pytest.fail(lacking)
    with visits.chromium() as browser:
        yield browser

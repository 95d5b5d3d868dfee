"""The host of a test, which is that of no other."""

import pytest

from process_watch import install
from process_watch.whose_code import host


@pytest.fixture(autouse=True, scope="module")
def no_other_host():
    """Have the host of the process again after a module of tests."""
    before = host()
    yield
    install(before)

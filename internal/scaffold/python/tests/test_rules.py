"""RULES.md names tests that exist, and the files of the project are in order."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
RULES = (TESTS.parent / "RULES.md").read_text()


def test_tests_of_rules_exist() -> None:
    rows = [line for line in RULES.splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", row)
        assert named, row
        for file, function in named:
            text = (TESTS / file).read_text()
            assert re.search(rf"^(async )?def {function}\(", text, re.MULTILINE), function

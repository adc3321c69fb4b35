from pathlib import Path

from plans.steps import state_diagram

DOCUMENT = Path(__file__).parents[2] / "docs" / "plans.md"


def test_the_documentation_shows_the_table_as_it_is():
    assert f"```mermaid\n{state_diagram()}```" in DOCUMENT.read_text()

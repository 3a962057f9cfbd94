"""A row of docs/faults.md: something that breaks, and what happens then."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A fault, and what the program does with it.

    Attributes:
        id: a letter for its kind and a number. `pytest.mark.faults(id)` marks the tests that show it, and
            `pytest.mark.faults(id, simulated="...")` those that put something in the place of the fault.
        what: what is broken.
        then: what happens instead of damage.
        code: the exit code; None where the command goes on as if nothing were wrong.
        open: why no test shows it; a row without a reason needs a test that passes.
    """

    id: str
    what: str
    then: str
    code: int | None = None
    open: str = ""

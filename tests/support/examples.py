"""Number of examples for Hypothesis, by the profile of the run.

@settings(max_examples=examples(300))     # 300 in `make test`, fewer in `make quick`, more in `make oracle`
"""

from __future__ import annotations

import hypothesis

#: What the profile `test` tries where a test says nothing.
USUAL = 100
#: The first example is always the simplest one: there is another.
EXAMPLES_MIN = 2


def examples(usual: int) -> int:
    """Scale the number of examples of a test as the profile scales the usual number."""
    return max(EXAMPLES_MIN, usual * hypothesis.settings().max_examples // USUAL)

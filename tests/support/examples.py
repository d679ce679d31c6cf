"""Number of examples for Hypothesis, by the profile of the run.

@settings(max_examples=examples(300))     # 150 in `make test`, 30 in `make quick`, 1,500 in `make oracle`
"""

from __future__ import annotations

import hypothesis

#: A profile with so many examples takes the numbers as they are.
UNSCALED = 100
#: The first example is always the simplest one: there is another.
EXAMPLES_MIN = 2


def examples(usual: int) -> int:
    """Scale the number of examples of a test as the profile scales the usual number."""
    return max(EXAMPLES_MIN, usual * hypothesis.settings().max_examples // UNSCALED)

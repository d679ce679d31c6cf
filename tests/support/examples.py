"""Number of examples for Hypothesis, by the profile of the run.

@settings(max_examples=examples(300))     # 75 in `make test`, 30 in `make quick`, 1,500 in `make oracle`
"""

from __future__ import annotations

import hypothesis

#: A profile with so many examples takes the numbers as they are.
UNSCALED = 100
#: The first example is always the simplest one: there is another.
EXAMPLES_MIN = 2


def examples(usual: int, quick: int | None = None) -> int:
    """Scale the number of examples of a test as the profile scales the usual number; `make quick` may have another."""
    scale = hypothesis.settings().max_examples
    if quick is not None and scale == hypothesis.settings.get_profile("quick").max_examples:
        return quick
    return max(EXAMPLES_MIN, usual * scale // UNSCALED)

"""Calls of the operating system that not every Unix has: Linux's own, or portable counterparts.

The environment variable PYLOGBROKER_PORTABLE chooses the portable ones on Linux, too: tests run with them.
"""

import os
import sys

if sys.platform != "linux" or os.environ.get("PYLOGBROKER_PORTABLE"):
    from pylogbroker.system.portable import *  # noqa: F403
else:
    from pylogbroker.system.linux import *  # noqa: F403

"""What every command of the console script shares."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

EXIT_CONFIG = 4
EXIT_UNFIT = 10

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

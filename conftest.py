"""For this repository's own runs only; the installed plugin never needs it."""

pytest_plugins = ["pytester"]

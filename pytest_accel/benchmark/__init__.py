"""pytest-benchmark's fixture for work on a device. Imported only where pytest-benchmark is installed and active."""

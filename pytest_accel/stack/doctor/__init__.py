"""Doctor: what is wrong with a machine's stack, by rules that are small, pure and sourced, and how it is mended."""

from pytest_accel.stack.doctor.examine import examine_machine
from pytest_accel.stack.doctor.facts import POLICIES, Policy

__all__ = ["POLICIES", "Policy", "examine_machine"]

"""``pytest-accel trace``: which operators a program really calls, as a suite. Recorded in the program's own process."""

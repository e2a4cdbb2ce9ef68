"""pytest-accel: may this driver, toolkit or framework upgrade go live?"""

__version__ = "0.1.0"

"""Which versions go together, as the vendors' pages say. Data only; each table names its source."""

from __future__ import annotations

# NVIDIA's CUDA compatibility guide (docs.nvidia.com/deploy/cuda-compatibility) and table 2 of the CUDA 13.2 release notes:
# below this driver no program of the major version runs, save by the cuda-compat package.
CUDA_MAJOR_MINIMUM = {13: "580", 12: "525.60.13", 11: "450.80.02"}

# Table 3 of the CUDA 13.2 Update 2 release notes, Linux x86_64: the driver that came with each toolkit (major, minor, update).
# From it on all of the toolkit works; between the major's minimum and it, PTX of the toolkit and new features do not.
# Rows of 13.3 and later were not published when this was written: the major's minimum alone judges them.
CUDA_SHIPPED_WITH = {
    (13, 2, 2): "595.71.05",
    (13, 2, 1): "595.58.03",
    (13, 2, 0): "595.45.04",
    (13, 1, 1): "590.48.01",
    (13, 1, 0): "590.44.01",
    (13, 0, 2): "580.95.05",
    (13, 0, 1): "580.82.07",
    (13, 0, 0): "580.65.06",
    (12, 9, 1): "575.57.08",
    (12, 9, 0): "575.51.03",
    (12, 8, 1): "570.124.06",
    (12, 8, 0): "570.26",
    (12, 6, 3): "560.35.05",
    (12, 6, 2): "560.35.03",
    (12, 6, 1): "560.35.03",
    (12, 6, 0): "560.28.03",
    (12, 5, 1): "555.42.06",
    (12, 5, 0): "555.42.02",
    (12, 4, 1): "550.54.15",
    (12, 4, 0): "550.54.14",
    (12, 3, 1): "545.23.08",
    (12, 3, 0): "545.23.06",
    (12, 2, 2): "535.104.05",
    (12, 2, 1): "535.86.09",
    (12, 2, 0): "535.54.03",
    (12, 1, 0): "530.30.02",
    (12, 0, 1): "525.85.12",
    (12, 0, 0): "525.60.13",
    (11, 8, 0): "520.61.05",
}

# ROCm's user and kernel-space support matrix (7.0 edition; the 30.30 row from amdgpu-docs, pull request 97): the oldest and
# the newest ROCm release (major, minor) that a driver package serves.
ROCM_WINDOWS = {
    "30.30": ((6, 3), (7, 2)),
    "30.10": ((6, 2), (7, 0)),
    "6.4": ((6, 1), (7, 0)),
    "6.3": ((6, 1), (7, 0)),
    "6.2": ((6, 0), (7, 0)),
    "6.1": ((5, 7), (6, 4)),
    "6.0": ((5, 6), (6, 2)),
    "5.7": ((5, 5), (6, 1)),
}

# The module's own version (/sys/module/amdgpu/version) is not the package's. Pairs seen together on published machines; a
# version that is not here is not judged, nor is the driver of the kernel's own tree, which has none.
AMDGPU_PACKAGES = {"6.10.5": "6.3", "6.12.12": "6.4", "6.16.6": "30.30", "6.16.13": "30.30"}

# COMPATIBILITY.en.md of Ascend/pytorch: the torch_npu releases made for each CANN.
TORCH_NPU_OF_CANN = {
    "9.1.0": ("2.12.0", "2.11.0", "2.10.0.post4", "2.9.0.post6", "2.7.1.post8"),
    "9.0.0": ("2.10.0.post2", "2.9.0.post2", "2.8.0.post4", "2.7.1.post4"),
    "8.5.0": ("2.9.0", "2.8.0.post2", "2.7.1.post2", "2.6.0.post5"),
    "8.3.RC1": ("2.8.0", "2.7.1", "2.6.0.post3", "2.1.0.post17"),
    "8.2.RC1": ("2.6.0", "2.5.1.post1", "2.1.0.post13"),
    "8.1.RC1": ("2.5.1", "2.4.0.post4", "2.3.1.post6", "2.1.0.post12"),
    "8.0.0": ("2.4.0.post2", "2.3.1.post4", "2.1.0.post10"),
    "8.0.RC3": ("2.4.0", "2.3.1.post2", "2.1.0.post8"),
    "8.0.RC2": ("2.3.1", "2.2.0.post2", "2.1.0.post6"),
    "8.0.RC1": ("2.2.0", "2.1.0.post4"),
    "7.0.0": ("2.1.0", "2.0.1.post1"),
}

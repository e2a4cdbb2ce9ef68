"""The machine around the simulated device: driver's files, npu-smi, and the distributions that make it found.

By hand: ``python tests/simulated/machine.py FOLDER [COMMAND ...]`` builds it in FOLDER and runs the command there-abouts, say
``python -m pytest suites --accel=ascend`` (the shipped sizes are for accelerators: a host needs hours for some).
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path

DEVICE = Path(__file__).parent / "device"
DRIVER, FIRMWARE, CANN = "26.1.0", "7.8.0.6.201", "9.1.0"
_ADDRESSES = ("0000:c1:00.0", "0000:02:00.0")

_NPU_SMI = """\
#!/bin/sh
# npu-smi of a machine with {count} simulated 910B3
if [ -n "$SIM_NPU_STATE" ] && [ -e "$SIM_NPU_STATE/lost" ]; then
  echo 'DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)'
  echo 'dcmi module initialize failed. ret is -8005'
  exit 255
fi
case "$*" in
  "info") cat '{folder}/info.txt' ;;
  "info -m") cat '{folder}/info_m.txt' ;;
  "info -l") cat '{folder}/info_l.txt' ;;
  "info -t board"*) cat '{folder}/board.txt' ;;
  "info -t health"*) cat '{folder}/health.txt' ;;
  "info -t ecc"*) cat '{folder}/ecc.txt' ;;
  "info -t usages"*) cat '{folder}/usages.txt' ;;
  "info -t power"*) cat '{folder}/power.txt' ;;
  "info -t temp"*) cat '{folder}/temp.txt' ;;
  *) echo "Error parameter of $*"; exit 1 ;;
esac
"""
_RULE = "+===========================+===============+====================================================+"
_LINE = "+---------------------------+---------------+----------------------------------------------------+"


def build(folder: Path, devices: int = 1) -> dict[str, str]:
    """Write the machine below ``folder``; returns the environment in which it is seen."""
    _files(folder / "root", devices)
    _tool(folder / "bin", devices)
    _distributions(folder / "site")
    (folder / "state").mkdir(exist_ok=True)
    return {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": f"{DEVICE}{os.pathsep}{folder / 'site'}",
        "SIM_ROOT": str(folder / "root"),
        "SIM_NPU_STATE": str(folder / "state"),
        "SIM_NPU_DEVICES": str(devices),
        "ASCEND_HOME_PATH": "/usr/local/Ascend/cann",
        "LD_LIBRARY_PATH": "/usr/local/Ascend/cann/lib64:/usr/local/Ascend/driver/lib64:/usr/local/Ascend/driver/lib64/driver",
    }


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _files(root: Path, devices: int) -> None:
    ascend = "usr/local/Ascend"
    cann = f"package_name=Ascend-cann-toolkit\nversion={CANN}\narch={platform.machine()}\nos=linux\npath=/{ascend}/cann-{CANN}\n"
    files = {
        "etc/machine-id": "51a1a7edde51a1a7edde51a1a7edde00\n",
        "etc/ascend_install.info": f"UserName=HwHiAiUser\nDriver_Install_Path_Param=/{ascend}\n",
        "proc/sys/kernel/osrelease": "5.10.0-60.18.0.50.oe2203.simulated\n",
        f"{ascend}/driver/version.info": f"Version={DRIVER}\nascendhal_version=7.35.23\n"
        f"compatible_version_fw=[7.0.0,7.9.99]\npackage_version={DRIVER}\n",
        f"{ascend}/firmware/version.info": f"Version={FIRMWARE}\nfirmware_version=1.0\npackage_version={DRIVER}\n",
        f"{ascend}/cann/{platform.machine()}-linux/ascend_toolkit_install.info": cann,
        f"{ascend}/cann/{platform.machine()}-linux/ascend_ops_install.info": cann.replace("toolkit", "ops"),
        f"{ascend}/cann/opp_kernel/version.info": f"Version={CANN}.0.220\nversion_dir={CANN}\n",
        **dict.fromkeys(("dev/davinci_manager", "dev/devmm_svm", "dev/hisi_hdc"), ""),
    }
    for index, address in enumerate(_ADDRESSES[:devices]):
        files[f"dev/davinci{index}"] = ""
        base = f"sys/bus/pci/devices/{address}"
        files |= {
            f"{base}/vendor": "0x19e5\n",
            f"{base}/device": "0xd802\n",
            f"{base}/class": "0x120000\n",
            f"{base}/uevent": "DRIVER=devdrv_device_driver\n",
        }
    for name, text in files.items():
        _write(root / name, text)


def _tool(folder: Path, devices: int) -> None:
    heads = [
        f"| npu-smi {DRIVER}                   Version: {DRIVER}                                               |",
        _LINE,
        "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|",
        "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |",
        _RULE,
    ]
    rows, listing, cards = [], [], []
    for index, address in enumerate(_ADDRESSES[:devices]):
        rows += [
            f"| {index}     910B3               | OK            | 98.1        44                0    / 0             |",
            f"| 0                         | {address.upper()}  | 0           0    / 0          3400 / 65536         |",
            _RULE,
        ]
        listing += [f"\t{index:<31}{0:<31}{index:<31}Ascend 910B3", f"\t{index:<31}{1:<31}{'-':<31}Mcu"]
        cards += [f"\tNPU ID                         : {index}", "\tChip Count                     : 1"]
    processes = [
        _LINE,
        "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |",
        _RULE,
        *(
            line
            for index in range(devices)
            for line in (
                f"| No running processes found in NPU {index}                                                            |",
                _RULE,
            )
        ),
    ]
    table = ["+" + "-" * 96 + "+", *heads, *rows, *processes]
    head = "\t" + "".join(f"{name:<31}" for name in ("NPU ID", "Chip ID", "Chip Logic ID")) + "Chip Name"
    files = {
        "info.txt": table,
        "info_m.txt": [head, *listing],
        "info_l.txt": [f"\tTotal Count                    : {devices}", *cards],
        "board.txt": [
            "\tNPU ID                         : 0",
            f"\tSoftware Version               : {DRIVER}",
            f"\tFirmware Version               : {FIRMWARE}",
            "\tCompatibility                  : OK",
            f"\tPCIe Bus Info                  : {_ADDRESSES[0].upper()}",
            "\tChip Count                     : 1",
        ],
        "health.txt": ["\tHealth Status                  : OK", "\tError Code                     : NA"],
        "ecc.txt": [
            "\tHBM Single Bit Error Count               : 0",
            "\tHBM Double Bit Error Count               : 0",
            "\tHBM Double Bit Isolated Pages Count      : 0",
        ],
        "usages.txt": ["\tHBM Capacity(MB)               : 65536", "\tAicore Usage Rate(%)           : 0"],
        "power.txt": ["\tPower Dissipation(W)           : 98.1"],
        "temp.txt": ["\tTemperature(C)                 : 44"],
    }
    for name, lines in files.items():
        _write(folder / name, "\n".join(lines) + "\n")
    tool = folder / "npu-smi"
    _write(tool, _NPU_SMI.format(folder=folder, count=devices))
    tool.chmod(0o755)


def _distributions(site: Path) -> None:
    version = importlib.metadata.version("torch").partition("+")[0]
    for name, points in (
        (f"torch_npu-{version}", "[torch.backends]\ntorch_npu = torch_npu:_autoload\n"),
        ("simulated_host-1.0", "[pytest11]\nsimulated_host = simulated_host\n"),
    ):
        title, _, number = name.rpartition("-")
        shown = title.replace("_", "-")
        _write(site / f"{name}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {shown}\nVersion: {number}\n")
        _write(site / f"{name}.dist-info/entry_points.txt", points)


if __name__ == "__main__":
    seen = build(Path(sys.argv[1]).resolve())
    if len(sys.argv) == 2:
        print("\n".join(f"export {name}='{value}'" for name, value in seen.items()))
    else:
        sys.exit(subprocess.run(sys.argv[2:], env={**os.environ, **seen}, check=False).returncode)

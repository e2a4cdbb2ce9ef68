"""NVIDIA: what is here, in which state, and how it is used through torch."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from pytest_accel.stack import cuda_nvml, cuda_smi, error_texts
from pytest_accel.stack.chips import name_of, slug_of
from pytest_accel.stack.common import PciCard, host_versions, links, pci_cards, torch_build
from pytest_accel.stack.cuda_cards import Answer, Card, Part, device, visible
from pytest_accel.stack.cuda_text import failure, kernel_module, toolkit_installed
from pytest_accel.stack.host import Host
from pytest_accel.stack.torch_cuda_like import CudaLike, cublas_version, dnn_version, dotted
from pytest_accel.stack.types import Device, Finding, Probe, Telemetry, Value
from pytest_accel.stack.visible import hides_on_purpose

VENDOR = "10de"
CARD_CLASSES = (0x03, 0x12)  # display and processing accelerators; a card's audio and bridges are other classes
VARIABLE = "CUDA_VISIBLE_DEVICES"
MODULE_FILE = "/proc/driver/nvidia/version"
_WHEELS = ("cublas", "cudnn", "nccl", "cuda-runtime")
# What the library says where there is nothing to be broken: only a card or a loaded driver makes these a fault.
_PERHAPS_ABSENT = {"library-missing", "driver-not-loaded", "no-devices"}


class CudaPlatform(CudaLike):
    """See ``stack.platform.Platform``."""

    name = "cuda"
    vendor = "nvidia"
    visible_env = (VARIABLE,)
    # Cards are listed in bus order, so that a number in the visibility variable must mean the same to CUDA.
    default_env: Mapping[str, str] = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    debug_commands = (
        "compute-sanitizer --tool memcheck python reproduce.py",
        "ncu --set full -o reproduce python reproduce.py",
    )

    # --- without torch -------------------------------------------------------------------------------------------------
    def probe(self, host: Host) -> Probe:
        """Files first, then NVML, then nvidia-smi. A card on the bus whose driver does not answer is broken, not absent."""
        on_bus = pci_cards(host, VENDOR, CARD_CLASSES)
        module_text = host.read(MODULE_FILE)
        answer = self._asked(host)
        if answer is None:
            answer = Answer("files", failure=failure("library-missing", "neither NVML nor nvidia-smi is here"))
        if answer.failure is None and not answer.cards:
            answer = Answer(
                answer.source, failure=failure("no-devices", f"{answer.source} lists no card"), lost=answer.lost
            )
        if answer.failure is not None:
            return self._without(host, answer, on_bus, module_text)
        return self._with(host, answer, module_text)

    @staticmethod
    def _asked(host: Host) -> Answer | None:
        nvml = host.library("pynvml")
        answer = cuda_nvml.cards(nvml) if nvml is not None else None
        if answer is None or (answer.failure is not None and answer.failure.code == "library-missing"):
            return cuda_smi.cards(host) or answer
        return answer

    def _without(self, host: Host, answer: Answer, on_bus: list[PciCard], module_text: str | None) -> Probe:
        """The driver lists nothing: absent where nothing speaks for a card, else broken with the vendor's words."""
        found = answer.failure
        assert found is not None
        if found.code in _PERHAPS_ABSENT and not on_bus and module_text is None:
            return Probe(self.name, "absent", f"no NVIDIA card on the PCI bus, no driver loaded ({found.words})")
        seen = [
            f"{len(on_bus)} NVIDIA card(s) on the PCI bus" if on_bus else "",
            "the driver is loaded" if module_text else "",
        ]
        bound = sorted({card.driver for card in on_bus if card.driver and card.driver != "nvidia"})
        by = f", bound to {', '.join(bound)}" if bound else ""
        words = "; ".join((*answer.lost, found.words))
        ids = on_bus[0].ids if on_bus else None
        name = (name_of(ids) if ids else None) or (f"NVIDIA {ids}" if ids else "NVIDIA")
        return Probe(
            platform=self.name,
            state="broken",
            reason=f"{' and '.join(part for part in seen if part) or 'an NVIDIA driver'}{by}, but: {words}",
            mend=found.mend,
            slug=slug_of(self.vendor, name, ids),
            hardware={"name": name, "chip": ids},
            versions=self._versions(host, answer, module_text),
            findings=(Finding(found.code, "error", words, found.mend),),
        )

    def _with(self, host: Host, answer: Answer, module_text: str | None) -> Probe:
        variable = host.env.get(VARIABLE)
        shown = visible(answer.cards, variable)
        if not shown:
            return self._hidden(host, answer, module_text, variable)
        devices = tuple(device(index, card, part) for index, (card, part) in enumerate(shown))
        first = shown[0][0]
        return Probe(
            platform=self.name,
            state="present",
            reason=f"{answer.source} lists {len(answer.cards)} card(s), {len(devices)} device(s) visible",
            slug=slug_of(self.vendor, first.name, first.ids, devices[0].partition),
            devices=devices,
            hardware={
                **_hardware(first, devices[0]),
                "count": len(devices),
                "links": _links(answer, [card for card, _ in shown]),
            },
            versions=self._versions(host, answer, module_text, first),
            settings=first.settings(),
            findings=tuple(_findings(host, answer, module_text, shown)),
        )

    def _hidden(self, host: Host, answer: Answer, module_text: str | None, variable: str | None) -> Probe:
        """Cards are there and none is visible: by the user's variable, by a mistake in it, or for want of MIG devices."""
        count, first = len(answer.cards), answer.cards[0]
        hidden = 0
        if variable is None:
            reason = f"{answer.source} lists {count} card(s) in MIG mode without a MIG device"
            mend = "make MIG devices (nvidia-smi mig -cgi … -C), or turn MIG mode off"
        elif hides_on_purpose(variable):
            reason = f"{VARIABLE}={variable!r} hides all {count} device(s)"
            mend, hidden = f"unset {VARIABLE}, or name a device in it", count
        else:
            reason = f"{VARIABLE}={variable!r} names no device of the {count} that {answer.source} lists"
            mend = f"name one of: {', '.join((*map(str, range(count)), *(card.uuid for card in answer.cards if card.uuid)))}"
        return Probe(
            platform=self.name,
            state="broken",
            reason=reason,
            mend=mend,
            slug=slug_of(self.vendor, first.name, first.ids),
            hardware={**_hardware(first, device(0, first, None)), "hidden_devices": hidden},
            versions=self._versions(host, answer, module_text, first),
            settings=first.settings(),
            findings=(Finding("devices-hidden", "error", reason, mend),),
        )

    @staticmethod
    def _versions(host: Host, answer: Answer, module_text: str | None, card: Card | None = None) -> dict[str, Value]:
        module, flavour = kernel_module(module_text)
        build = torch_build(host)
        home = toolkit_installed(host)
        wheels = {f"nvidia-{name}": _wheel(host, name) for name in _WHEELS}
        return {
            "driver": module or answer.driver,
            "driver_user": answer.driver,
            "driver_module": flavour,
            "cuda_driver": answer.cuda,
            "toolkit": build.cuda if build is not None else home,
            "cuda_home": home,
            "vbios": card.vbios if card else None,
            "firmware": card.firmware if card else None,
            **wheels,
            **host_versions(host),
        }

    def telemetry(self, host: Host, device: Device) -> Telemetry:
        """The state of ``device`` by NVML, else by nvidia-smi."""
        nvml = host.library("pynvml")
        return cuda_nvml.telemetry(nvml, host, device) if nvml is not None else cuda_smi.telemetry(host, device)

    def classify(self, text: str) -> str:
        """The ``ErrorKind`` of a message of torch's, CUDA's or the driver's."""
        return error_texts.classify(text, error_texts.CUDA_LIKE)

    # --- in the measuring process --------------------------------------------------------------------------------------
    def check(self, index: int) -> None:
        """Work on the device and wait. The error names the layer: what the driver lists, and what torch says."""
        try:
            super().check(index)
        except (RuntimeError, AssertionError) as error:  # a torch that was not built for CUDA asserts
            seen = self.probe(Host())
            driver = (
                f"the driver lists {len(seen.devices)} visible device(s)" if seen.devices else f"driver: {seen.reason}"
            )
            raise RuntimeError(f"{driver}; torch cannot use device {index}: {error}") from error

    def versions_loaded(self) -> dict[str, Value]:
        """The libraries as loaded, beside the driver's CUDA version as the runtime sees it (cuda-compat may change it)."""
        import torch

        return {
            **super().versions_loaded(),
            "toolkit": torch.version.cuda,
            "cudnn": dnn_version(torch.backends.cudnn.version()),
            "cublas": cublas_version(),
            "cuda_driver_loaded": dotted(_driver_loaded()),
        }


def _hardware(card: Card, shown: Device) -> dict[str, Value]:
    return {
        "name": shown.name,
        "chip": card.ids,
        "architecture": shown.architecture,
        "capability": "{}.{}".format(*shown.capability) if shown.capability else None,
        "memory_bytes": shown.memory_bytes,
        "partition": shown.partition,
    }


def _links(answer: Answer, shown: list[Card]) -> str | None:
    places = {answer.cards.index(card): place for place, card in enumerate(shown)}
    told = {
        tuple(sorted((places[a], places[b]))): word for (a, b), word in answer.links.items() if {a, b} <= set(places)
    }
    return links({(one, other): word for (one, other), word in told.items()}, len(places))


def _findings(
    host: Host, answer: Answer, module_text: str | None, shown: list[tuple[Card, Part | None]]
) -> list[Finding]:
    found = []
    module, _ = kernel_module(module_text)
    if module and answer.driver and module != answer.driver:
        what = f"the loaded kernel module is {module}, the user-space driver is {answer.driver}"
        found.append(Finding("driver-mismatch", "error", what, failure("driver-mismatch", "").mend))
    for words in answer.lost:
        found.append(Finding("device-lost", "error", words, failure("device-lost", words).mend))
    build = torch_build(host)
    if build is not None and (build.for_host_only or build.hip):
        what = f"the driver lists {len(answer.cards)} card(s), but torch {build.version} was built without CUDA"
        found.append(Finding("torch-without-cuda", "error", what, "install a CUDA build of torch, or say --accel=cpu"))
    if any(card.compute_mode == "prohibited" for card, _ in shown):
        what = "a card's compute mode is Prohibited: no process may use it"
        found.append(Finding("compute-prohibited", "error", what, "nvidia-smi -c DEFAULT"))
    models: Mapping[str, None] = dict.fromkeys(card.name for card, _ in shown)
    if len(models) > 1:
        what = f"cards of different models are visible: {', '.join(models)}"
        found.append(Finding("mixed-models", "warning", what, f"narrow {VARIABLE} to one model"))
        if host.env.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            what = "with cards of different models CUDA counts fastest first; this run counts in bus order, other jobs may not"
            found.append(
                Finding(
                    "device-order", "warning", what, f"set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name UUIDs in {VARIABLE}"
                )
            )
    settings = [card.settings() for card, _ in shown]
    for name, value in settings[0].items():
        if any(other[name] != value for other in settings):
            what = f"{name} differs between the visible cards: {', '.join(str(one[name]) for one in settings)}"
            found.append(Finding("settings-differ-between-devices", "warning", what, "set all cards alike"))
    return found


def _driver_loaded() -> int | None:
    """The CUDA version of the user-space driver that this process has loaded: asked by ``cuDriverGetVersion``."""
    version = ctypes.c_int()
    try:
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return version.value


def _wheel(host: Host, name: str) -> str | None:
    """The version of NVIDIA's wheel of a library; CUDA 13's wheels lost the suffix of most names."""
    for suffix in ("", "-cu13", "-cu12", "-cu11"):
        version = host.package_version(f"nvidia-{name}{suffix}")
        if version is not None:
            return version
    return None

"""One call that a program made, made again on this device and judged: what a trace writes. torch is imported inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_accel.measure import tolerances
from pytest_accel.measure.tolerances import Tolerance
from pytest_accel.measure.types import BadArguments
from pytest_accel.workloads import formulas, magnitudes
from pytest_accel.workloads.domains import Values
from pytest_accel.workloads.judging import Case, HostCannot, Judged, judge, note_fault
from pytest_accel.workloads.rebuild import Made, leaves, placed, read

if TYPE_CHECKING:
    import torch

    from pytest_accel.measure.accelerator import Accelerator

#: Right up to signs, order or a choice of basis: no number says so element by element.
AMBIGUOUS = frozenset("linalg_svd linalg_qr linalg_eigh linalg_eig linalg_lu_factor_ex linalg_ldl_factor_ex".split())  # noqa: SIM905
#: Sums whose order the device chooses; what torch's use_deterministic_algorithms names, by ATen's names.
SUMS_IN_ANY_ORDER = frozenset(
    """embedding_dense_backward embedding_bag_dense_backward convolution_backward cudnn_convolution_backward ctc_loss_backward
    max_pool3d_with_indices_backward avg_pool3d_backward adaptive_avg_pool2d_backward grid_sampler_2d_backward
    upsample_bilinear2d_backward upsample_bicubic2d_backward nll_loss2d_forward native_group_norm_backward
    native_layer_norm_backward native_batch_norm_backward index_put unsafe_index_put index_add scatter_add scatter_reduce
    cumsum bincount histc""".split()  # noqa: SIM905
)
#: Arguments that hang together (lengths, packed weights, a forward's own state): no values made one by one fit.
HANG_TOGETHER = frozenset(
    """ctc_loss ctc_loss_backward cudnn_ctc_loss cudnn_rnn cudnn_rnn_backward miopen_rnn miopen_rnn_backward
    cudnn_rnn_flatten_weight flash_attention_forward flash_attention_backward efficient_attention_forward
    efficient_attention_backward thnn_fused_lstm_cell_backward_impl""".split()  # noqa: SIM905
)
MOST_FLOPS = 5e10  # of the float64 result on one thread of the host: a second or two
ATTENTION = "scaled_dot_product_"
#: ATen's names of operators that the table of tolerances knows by another.
KNOWN_AS = {
    "nll_loss_forward": "nn.functional.nll_loss",
    "nll_loss2d_forward": "nn.functional.nll_loss",
    "convolution": "nn.functional.conv2d",
    "cudnn_convolution": "nn.functional.conv2d",
    "native_group_norm": "nn.functional.group_norm",
    "fused_rms_norm": "nn.functional.rms_norm",
    "to_copy": "to",
    "rsub": "sub",
    "constant_pad_nd": "nn.functional.pad",
    "scaled_mm": "mm",
    "grouped_mm": "mm",
}


def traced_op(accel: Accelerator, op: str, call: list[Any], seed: int = 0) -> dict[str, float | int | str]:
    """Call ``op`` (``aten.mm.default``) with arguments made again from ``call`` and judge the results.

    ``call`` is what the trace wrote: texts for tensors, the program's own numbers, keywords in a last map. Golden is the
    same operator in float64 on the host (for fused attention the plain formula). Where the host has none, or it would
    take more than ``MOST_FLOPS``, a call that runs is ``unverified``. Raises BadArguments for a call that says nothing.
    """
    try:
        plan = make(op, call, seed)
    except NotImplementedError as error:
        return _told(accel, Judged("unsupported", str(error)), op, call)
    found = judge(accel, plan.case(accel.device, accel.may_vary(plan.known)))
    return _told(accel, found, op, call)


def _told(accel: Accelerator, found: Judged, op: str, call: Sequence[Any]) -> dict[str, float | int | str]:
    note_fault(accel, found, op=op, call=list(call))
    return found.metrics()


@dataclass(frozen=True)
class Plan:
    """A call with its arguments made on the host; ``known`` is the operator's name in the table of tolerances."""

    function: Any
    base: str
    known: str
    args: list[Any]
    keywords: dict[str, Any]

    def case(self, device: torch.device, may_vary: bool = False) -> Case:
        """What is judged on ``device``."""
        import torch

        attention = self.base.startswith(ATTENTION)
        if attention:
            self._make_consistent()
        random = torch.Tag.nondeterministic_seeded in self.function.tags and not self._without_dropout()
        compute: Callable[[torch.dtype], list[torch.Tensor]] | None = self.on_host
        if random or self.base in AMBIGUOUS:
            compute = None
        elif attention:
            compute = self._attention
        backward = self.base.endswith("backward")
        rule = self.rule()
        return Case(
            lambda: self._kept(self.on(device)),
            compute,
            rule,
            self._magnitude if rule.condition in ("abs", "input", "largest", "exponent") else None,
            native=attention and backward,
            vary=random or may_vary or self.base in SUMS_IN_ANY_ORDER or (attention and backward),
        )

    def rule(self) -> Tolerance:
        """The tolerance of the operator's class; S of a norm, which needs its own formula, is the result's peak."""
        rule = tolerances.of_operator(self.known)
        if rule.condition == "norm" or self.base.endswith("backward"):
            rule = replace(rule, condition="peak", kappa=max(rule.kappa, 1.0))
        return rule

    def on(self, device: torch.device, wide: torch.dtype | None = None) -> list[torch.Tensor]:
        """The tensors that the call gives or changes on ``device``."""
        import torch

        args, keywords = placed(self.args, device, wide), placed(self.keywords, device, wide)
        if wide is not None:
            args, keywords = self._same_width(args, keywords)
        with torch.no_grad():
            out = self.function(*args, **keywords)
        returned = _tensors(out)
        schema = self.function._schema.arguments
        changed = [
            tensor
            for place, argument in enumerate(schema)
            if argument.alias_info is not None and argument.alias_info.is_write
            for tensor in _tensors(args[place] if place < len(args) else keywords.get(argument.name))
        ]
        known = {id(tensor) for tensor in returned}
        return [*returned, *(tensor for tensor in changed if id(tensor) not in known)]

    def on_host(self, kind: torch.dtype) -> list[torch.Tensor]:
        """The same on the host with floating arguments of dtype ``kind``. Raises HostCannot where it has no such kernel."""
        import torch

        if kind == torch.float64 and self.flops() > MOST_FLOPS:
            raise HostCannot(f"the result in float64 would take more than {MOST_FLOPS:.0e} operations on the host")
        try:
            return self._kept(self.on(torch.device("cpu"), kind))
        except (RuntimeError, NotImplementedError) as error:
            raise HostCannot(f"the host cannot compute it: {str(error).strip().splitlines()[0]}") from error

    def _kept(self, results: list[torch.Tensor]) -> list[torch.Tensor]:
        """Of fused attention the output (or three gradients): the rest is each kernel's own state."""
        if not self.base.startswith(ATTENTION):
            return results
        return results[:3] if self.base.endswith("backward") else results[:1]

    def _same_width(self, args: list[Any], keywords: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """``half_to_float`` asks for a wider result than the input, which float64 cannot give."""
        names = [argument.name for argument in self.function._schema.arguments]
        args = [False if name == "half_to_float" else value for name, value in zip(names, args, strict=False)]
        return args, {name: False if name == "half_to_float" else value for name, value in keywords.items()}

    def flops(self) -> int:
        """Operations of the products and convolutions in it, by torch's own count; 0 where it counts none."""
        import torch
        from torch.utils.flop_counter import FlopCounterMode

        counter = FlopCounterMode(display=False)
        try:
            with counter, torch.no_grad():
                self.function(*placed(self.args, torch.device("meta")), **placed(self.keywords, torch.device("meta")))
        except (RuntimeError, NotImplementedError):
            return 0  # no shape rule, so no product whose work is counted
        return int(counter.get_total_flops())

    def _magnitude(self) -> list[torch.Tensor | None]:
        """S for ``abs`` (the operator of absolute arguments, sums instead of differences) and what comes of the inputs' size."""
        import torch

        golden = self.on_host(torch.float64)
        condition = self.rule().condition
        if condition in ("largest", "exponent"):
            inputs = [each.on(torch.device("cpu"), torch.float64) for each in leaves((self.args, self.keywords))]
            return magnitudes.of_golden(condition, golden, inputs, self._named())
        if condition == "input":
            size = self._first().on(torch.device("cpu"), torch.float64).abs()
            return [size if g.shape == size.shape else None for g in golden]
        absolute = replace(
            self,
            function=_sum_of(self.function),
            args=[_absolute(value) for value in self.args],
            keywords={name: _absolute(value) for name, value in self.keywords.items()},
        )
        try:
            sizes = absolute.on(torch.device("cpu"), torch.float64)
        except (RuntimeError, NotImplementedError):
            return [None] * len(golden)
        if len(sizes) != len(golden):
            return [None] * len(golden)
        return [s if s.shape == g.shape and s.is_floating_point() else None for s, g in zip(sizes, golden, strict=True)]

    def _first(self) -> Made:
        return leaves(self.args)[0]

    # --- fused attention ---------------------------------------------------------------------------------------------
    def _named(self) -> dict[str, Any]:
        names = [argument.name for argument in self.function._schema.arguments]
        return {**dict(zip(names, self.args, strict=False)), **self.keywords}

    def _without_dropout(self) -> bool:
        return self.base.startswith(ATTENTION) and not self._named().get("dropout_p")

    def _plain(self, kind: torch.dtype) -> tuple[list[torch.Tensor], torch.Tensor]:
        import torch

        named = self._named()
        cpu = torch.device("cpu")
        parts = [named[name].on(cpu, kind) for name in ("query", "key", "value")]
        backward = self.base.endswith("backward")
        q, k, v = (part.detach().requires_grad_(backward) for part in parts)
        mask = named.get("attn_bias", named.get("attn_mask"))
        bias = None if mask is None else placed(mask, cpu, kind)
        return [q, k, v], formulas.attention(q, k, v, bias, bool(named.get("is_causal")), named.get("scale"))

    def _attention(self, kind: torch.dtype) -> list[torch.Tensor]:
        import torch

        parts, out = self._plain(kind)
        if not self.base.endswith("backward"):
            return [out]
        named = self._named()
        toward = named["grad_out" if "grad_out" in named else "grad_out_"].on(torch.device("cpu"), kind)
        return list(torch.autograd.grad(out, parts, toward))

    def _make_consistent(self) -> None:
        """A backward kernel takes the forward's output and log sum for granted: they are filled from the formula."""
        import torch

        if not self.base.endswith("backward"):
            return
        named = self._named()
        parts, out = self._plain(torch.float64)
        q, k = parts[0].detach(), parts[1].detach()
        k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
        scores = q @ k.transpose(-1, -2) * (named.get("scale") or q.shape[-1] ** -0.5)
        if named.get("is_causal"):
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), float("-inf"))
        mask = named.get("attn_bias", named.get("attn_mask"))
        if mask is not None:
            bias = placed(mask, torch.device("cpu"), torch.float64)
            scores = scores.masked_fill(~bias, float("-inf")) if bias.dtype == torch.bool else scores + bias
        _fill(named["out"], out.detach())
        _fill(named["logsumexp"], scores.logsumexp(-1))


def make(op: str, call: Sequence[Any], seed: int = 0) -> Plan:
    """The plan of one traced call. Raises NotImplementedError where this torch has no such operator or dtype."""
    function = _operator(op)
    names = [argument.name for argument in function._schema.arguments]
    base = function._schema.name.partition("::")[2].strip("_")
    if base in HANG_TOGETHER:
        raise BadArguments(f"op: the arguments of {op} hang together in ways that shapes do not tell")
    args, keywords = read(call, names, Values(base, call, names, seed))
    base = base.removeprefix("foreach_") if base not in KNOWN_AS else base
    known = KNOWN_AS.get(base, base)
    if known not in tolerances.OPERATORS and f"nn.functional.{known}" in tolerances.OPERATORS:
        known = f"nn.functional.{known}"
    if base.startswith(ATTENTION):
        known = "nn.functional.scaled_dot_product_attention"
    return Plan(function, base, known, args, keywords)


def _operator(op: str) -> Any:
    import torch

    found: Any = torch.ops
    for part in op.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise NotImplementedError(f"this torch has no operator {op}") from None
    return found


def _sum_of(function: Any) -> Any:
    """The operator whose result on absolute arguments is the size of the terms: a sum for a difference."""
    import torch

    name = function._schema.name.partition("::")[2].rstrip("_")
    if name in ("sub", "rsub"):
        overload = function._schema.overload_name
        return getattr(torch.ops.aten.add, overload, function) if name == "sub" else function
    return function


def _absolute(value: Any) -> Any:
    if isinstance(value, Made):
        real = value.memory.is_floating_point() or value.memory.is_complex()
        return replace(value, memory=value.memory.abs()) if real else value
    if isinstance(value, float):
        return abs(value)
    return [_absolute(part) for part in value] if isinstance(value, list) else value


def _fill(made: Made, values: torch.Tensor) -> None:
    """Write ``values`` into the front of a tensor whose last dimensions may be padded (log sums are, by some kernels)."""
    there = (
        made.memory.reshape(made.text.size)
        if made.text.stride is None
        else made.memory.as_strided(made.text.size, made.text.stride)
    )
    while there.dim() > values.dim():
        there = there.squeeze(-1)
    there[tuple(slice(0, size) for size in values.shape)].copy_(values)


def _tensors(out: Any) -> list[torch.Tensor]:
    import torch

    if isinstance(out, torch.Tensor):
        return [out.detach()]
    if isinstance(out, (bool, int, float, complex)):
        return [torch.tensor(out)]
    return [tensor for part in out for tensor in _tensors(part)] if isinstance(out, (list, tuple)) else []

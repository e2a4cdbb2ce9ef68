"""What is wrong with a replacement file beyond its form. torch is asked for its operators' names only, and may be absent."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from pytest_accel.errors import Problem
from pytest_accel.workloads.replacement_file import OperatorFile, plain_name

#: Operators whose sums or exponentials leave 16 bits: what torch's autocast runs in float32 for that reason
#: (autocast_mode.h, list FP32), with the norms and the rotation's tables that model code keeps in float32 itself.
NEEDS_FLOAT32 = frozenset(
    """rms_norm layer_norm native_layer_norm group_norm native_group_norm batch_norm native_batch_norm instance_norm
    local_response_norm softmax log_softmax logsumexp softmin cross_entropy cross_entropy_loss nll_loss
    nll_loss_forward binary_cross_entropy_with_logits kl_div mse_loss l1_loss smooth_l1_loss huber_loss
    cosine_embedding_loss poisson_nll_loss gaussian_nll_loss hinge_embedding_loss margin_ranking_loss
    triplet_margin_loss multi_margin_loss cosine_similarity exp expm1 log log10 log2 log1p reciprocal rsqrt
    sinh cosh tan acos asin pow softplus prod cumprod cumsum sum norm vector_norm nuclear_norm renorm dist pdist cdist
    var std rope rotary rotary_embedding apply_rotary_pos_emb rotary_mul""".split()  # noqa: SIM905
)
NARROW = frozenset({"float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"})


@dataclass(frozen=True)
class Finding:
    """One line of the linter; an ``error`` makes the command fail."""

    severity: Literal["error", "warning"]
    problem: Problem

    def __str__(self) -> str:
        p = self.problem
        return f"{p.path}:{p.line}: {self.severity}: {p.what} ({p.mend})"


def lint(file: OperatorFile, known: Collection[str] | None) -> list[Finding]:
    """The findings, in the order of their lines. ``known`` are the operators that exist, None where nobody can say."""
    found: list[Finding] = []

    def tell(severity: Literal["error", "warning"], line: int, what: str, mend: str) -> None:
        found.append(Finding(severity, Problem(what, mend, file.path, line)))

    for name in sorted(set(file.exclude) & set(file.replace)):
        lines = sorted((file.exclude[name].line, file.replace[name].line))
        what = f"`{name}` is both excluded and replaced: lines {lines[0]} and {lines[1]}"
        tell("error", lines[1], what, "keep one of them: which of the two wins is chance")
    if known is not None:
        for name, line in file.lines().items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean `{near[0]}`?" if near else "names are torch's, such as silu or scaled_mm"
                tell("error", line, f"torch has no operator `{file.written.get(name, name)}`", hint)
    for entry, whose in [(file.policy, "")] * (file.policy is not None) + [
        (entry, f" of `{name}`") for name, entry in file.policy_of.items()
    ]:
        if entry is not None and entry.text == "cpu":
            what = f"the fallback_policy{whose} moves work to the CPU without a word: results stay right, speed is lost"
            tell("error", entry.line, what, "write error, or warn where it is known and accepted")
    silent = [name for name in file.exclude if file.policy is None and name not in file.policy_of]
    if silent:
        line = file.exclude[silent[0]].line
        what = f"nothing says what happens where an excluded operator is called: {', '.join(sorted(silent))}"
        tell("warning", line, what, "write `fallback_policy: error`")
    for name, entry in file.override.items():
        if entry.text in NARROW and name in NEEDS_FLOAT32:
            what = f"`{name}: {entry.text}` is unsafe: its sums or exponentials overflow or lose their low bits in {entry.text}"
            tell("error", entry.line, what, "write float32, or leave it out")
        if name in file.exclude:
            what = f"`{name}` is excluded (line {file.exclude[name].line}), so its precision_override has no effect"
            tell("warning", entry.line, what, "remove one of them")
    for name, replacement in file.replace.items():
        package = replacement.implementation.partition(":")[0].partition(".")[0]
        if importlib.util.find_spec(package) is None:
            what = f"the package {package} of `{name}` cannot be imported here"
            tell("warning", replacement.line, what, "install it, or run the linter where it is installed")
    return sorted(found, key=lambda finding: (finding.problem.line or 0, finding.problem.what))


def known_operators() -> frozenset[str] | None:
    """Every operator's plain name that this torch has, by its dispatcher and its functions; None without torch."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch
    from torch.nn import functional

    names = {plain_name(name.partition("::")[2].partition(".")[0]) for name in torch._C._dispatch_get_all_op_names()}
    for module, prefix in ((functional, ""), (torch, ""), (torch.linalg, "linalg."), (torch.special, "special.")):
        names |= {prefix + plain_name(name) for name in dir(module) if callable(getattr(module, name))}
    return frozenset(names)

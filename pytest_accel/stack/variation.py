"""Operators whose results may lawfully differ from call to call on one input, by platform, as torch and the vendors list them.

Names are those of torch's operator database; only forward computations count, since only they are measured. Where
``deterministic_algorithms`` is in force none of them may.
"""

from __future__ import annotations

# torch.use_deterministic_algorithms, torch 2.13: what is said of a CPU tensor, or of a tensor wherever it is.
HOST = frozenset(("index_put", "put", "index_copy", "nn.functional.max_unpool1d", "nn.functional.max_unpool2d"))

# The same page, of a CUDA tensor, which ROCm's are too. Convolutions stand there as well and are not excepted here: the
# forward algorithms of cuDNN are deterministic (cuDNN developer guide, "Reproducibility"), those of the gradients are not.
CUDA = HOST | frozenset(
    """scatter scatter_add scatter_reduce index_add cumsum bincount histc median nn.functional.nll_loss
    nn.functional.cross_entropy""".split()  # noqa: SIM905
)

# Ascend/pytorch, "API support list of deterministic computing": what becomes deterministic there only by the switch, so that
# without it its parts may be summed in any order. Names that torch's database splits or wraps are added (matmul: linear,
# einsum, …; nll_loss: cross_entropy; index_put: index_add and the scatters that sum by the same atomic additions).
ASCEND = HOST | frozenset(
    """matmul mm bmm mv dot vdot addmm addbmm baddbmm addmv inner outer einsum tensordot nn.functional.linear trace sum
    mean std var std_mean var_mean cumsum nn.functional.batch_norm nn.functional.layer_norm native_layer_norm
    nn.functional.embedding nn.functional.nll_loss nn.functional.cross_entropy nn.functional.mse_loss
    nn.functional.l1_loss nn.functional.smooth_l1_loss nn.functional.kl_div nn.functional.ctc_loss nn.functional.prelu
    nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits nn.functional.soft_margin_loss
    nn.functional.multilabel_margin_loss nn.functional.adaptive_avg_pool2d nn.functional.avg_pool2d
    nn.functional.interpolate nn.functional.fold nn.functional.unfold index_add scatter_add scatter_reduce""".split()  # noqa: SIM905
)

# torch.use_deterministic_algorithms, torch 2.13: backward computations that it changes or refuses, by the operators of the
# database that reach them, on any device. Convolutions are of cuDNN's list.
GRADIENTS = frozenset(
    """nn.functional.avg_pool3d nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d nn.functional.max_pool3d
    nn.functional.max_pool2d nn.functional.max_pool1d nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool2d
    nn.functional.adaptive_max_pool3d nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
    nn.functional.interpolate nn.functional.upsample_bilinear nn.functional.upsample_nearest _upsample_bilinear2d_aa
    nn.functional.pad nn.functional.grid_sample grid_sampler_2d grid_sampler_3d nn.functional.embedding
    nn.functional.embedding_bag nn.functional.ctc_loss nn.functional.nll_loss nn.functional.cross_entropy
    nn.functional.scaled_dot_product_attention nn.functional.multi_head_attention_forward nn.functional.conv1d
    nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d nn.functional.conv_transpose2d
    nn.functional.conv_transpose3d nn.functional.linear_cross_entropy index_select index_put index_add index_copy
    index_reduce gather take put take_along_dim repeat_interleave scatter scatter_add scatter_reduce cumsum __getitem__
    _unsafe_masked_index _unsafe_masked_index_put_accumulate masked_scatter median nanmedian kthvalue mode
    nn.functional.bilinear nn.functional.pixel_unshuffle unfold unfold_copy as_strided as_strided_copy expand
    """.split()  # noqa: SIM905
)

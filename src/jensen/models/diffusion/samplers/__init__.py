"""Samplers: from pure noise x_T down to x_1, as functions of a denoiser, one formula per file.

All take (denoise, x, schedule, generator), where denoise(x, t) returns x̂_0 and σ_t at level t of the schedule, and
yield x_{T-1}, ..., x_1. The last step, x_0 given x_1, depends on the kind of data and belongs to the model.
"""

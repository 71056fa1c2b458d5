"""Solution of task 9."""

import torch
import torch.distributed as dist


class PowerSGD:
    """What the hook keeps between steps: per parameter, the error and the last Q."""

    def __init__(self, matrix_rank: int) -> None:
        """Start without errors."""
        self.matrix_rank = matrix_rank
        self.errors: dict[torch.nn.Parameter, torch.Tensor] = {}
        self.bases: dict[torch.nn.Parameter, torch.Tensor] = {}


def powersgd_hook(state: PowerSGD, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket; gradients() are views of buffer(), so writing there fills the result."""
    for gradient, parameter in zip(bucket.gradients(), bucket.parameters(), strict=True):
        matrix = gradient.view(len(gradient), -1)
        rows, columns = matrix.shape
        if gradient.dim() > 1 and state.matrix_rank * (rows + columns) < rows * columns:
            matrix.copy_(compressed(state, parameter, matrix))
        else:
            gradient.copy_(averaged(gradient.contiguous()))
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def compressed(
    state: PowerSGD, parameter: torch.nn.Parameter, gradient: torch.Tensor
) -> torch.Tensor:
    """Return the average of (m, n) gradients through one power iteration; keep the error."""
    matrix = gradient + state.errors.get(parameter, 0)
    basis = state.bases.get(parameter)
    if basis is None:
        generator = torch.Generator().manual_seed(0)
        shape = matrix.shape[1], state.matrix_rank
        basis = torch.randn(shape, generator=generator, dtype=matrix.dtype)
    p = torch.linalg.qr(averaged(matrix @ basis)).Q.contiguous()
    q = averaged(matrix.T @ p)
    result = p @ q.T
    state.errors[parameter] = matrix - result
    # A basis of zeros would stay zero for ever; a random one is a start.
    if q.any():
        state.bases[parameter] = q
    return result


def averaged(tensor: torch.Tensor) -> torch.Tensor:
    """Return the mean of a tensor over the ranks, in its own memory."""
    dist.all_reduce(tensor)
    return tensor.div_(dist.get_world_size())

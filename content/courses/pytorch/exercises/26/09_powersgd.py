"""Task 9: a comm hook that compresses gradients, PowerSGD with error feedback.

DDP hands each bucket of gradients to a hook, which returns a Future of the averaged bucket. On a
slow network it pays to send less: a matrix M (m x n) is sent as two thin matrices P (m x r) and
Q (n x r) with P Q^T close to M. What got lost is kept on the rank and added to the next gradient.

    ddp.register_comm_hook(PowerSGD(matrix_rank=2), powersgd_hook)

Check it:  python -m distlab.practice check 9
"""

import torch
import torch.distributed as dist


class PowerSGD:
    """What the hook keeps between steps: per parameter, the error and the last Q."""

    def __init__(self, matrix_rank: int) -> None:
        """Compress matrices to rank `matrix_rank`, the r above."""
        raise NotImplementedError


def powersgd_hook(state: PowerSGD, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket over the ranks, compressed; return a Future of the flat result.

    bucket.gradients() are this rank's gradients, views of the flat bucket.buffer(), and
    bucket.parameters() their parameters, in the same order; after the first step DDP may choose
    another order. The result has the shape of bucket.buffer() and is the same on all ranks.

    A gradient (m, ...) counts as a matrix (m, n), n being the product of its other sizes. It is
    compressed if r (m + n) < m n, with one step of the power iteration:

        M = gradient + error;  P = orthonormal basis of the mean over ranks of M Q
        Q = mean over ranks of M^T P;  result = P Q^T;  error = M - result

    Every other gradient is averaged as it is. Nothing more goes over the wire.
    """
    raise NotImplementedError

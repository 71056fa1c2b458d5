"""Typical wrong answers to the exercise, as edits of the solution, and what each must be told."""

from modules.parts import slip

CALL = "    dist.all_reduce(tensor)\n"

WRONG_ANSWERS = (
    slip("1", "adds nothing", CALL, "", "rule", "nobody else's is in it"),
    slip("1", "takes the largest", CALL, CALL.replace(")", ", dist.ReduceOp.MAX)"), "rule",
         "the largest"),
    slip("1", "multiplies it, too", "return tensor.item()",
         "return tensor.item() * dist.get_world_size()", "rule", "Is it the sum"),
    slip("1", "calls on one rank", CALL, "    if dist.get_rank() == 0:\n    " + CALL, "hang|rule",
         "Who never called all_reduce|nobody else's is in it"),
)  # fmt: skip

"""What must make the build fail: for each executed claim of module 99, a wrong program."""

from modules.parts import Mutation

MUTATIONS = (Mutation("toy-sum", "both know the sum", "dist.all_reduce(total)", "pass"),)

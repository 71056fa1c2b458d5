TASKS = ()
RUNS = {}

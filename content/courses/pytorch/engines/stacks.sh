#!/bin/sh
# Print where each rank of a running job's first step is: sh stacks.sh JOBID
# A second step inside the job looks at the first, from each node; needs py-spy.
nodes=$(squeue --noheader --jobs="$1" --format=%D)
srun --jobid="$1" --overlap --nodes="$nodes" --ntasks-per-node=1 --label sh -c '
    scontrol listpids "$SLURM_JOB_ID.0" "$SLURMD_NODENAME" |
        awk "\$5 ~ /^[0-9]/ {print \$5, \$1}" |
        while read -r rank pid; do
            echo "== rank $rank on $SLURMD_NODENAME"
            py-spy dump --pid "$pid" 2>&1 </dev/null
        done' |
    sort --stable --numeric-sort | # by node, each node's lines in their order
    sed 's/^ *[0-9]*: //'

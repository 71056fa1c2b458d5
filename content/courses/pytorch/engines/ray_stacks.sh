#!/bin/sh
# Print where each rank of Ray Train on this machine is; needs py-spy.
for pid in $(pgrep -f '^ray::RayTrainWorker'); do
    py-spy dump --pid "$pid" 2>&1 | # Ray's own threads and frames are left out
        sed -n '1p; /TrainingThread/,$p' | grep -v '(ray/'
done

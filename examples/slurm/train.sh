#!/bin/bash
# One training on several machines, with one task for each GPU. Before its end, the job queues itself again and
# continues.
#
#   sbatch --nodes=2 --ntasks-per-node=8 --gpus-per-task=1 --time=4:00:00 train.sh photos/ --optim.epochs 100
#
# The words after train.sh are those of `vit train`. Without GPUs, leave --gpus-per-task out.
#SBATCH --job-name=vit
#SBATCH --signal=USR1@180    # seconds before the end; srun hands the signal to every task
#SBATCH --open-mode=append   # one log over all starts of the job
#SBATCH --requeue

srun vit train "$@" --resume auto
code=$?
if [ "$code" -eq 138 ]; then # saved after SIGUSR1: the time of the job, not the training, is over
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"

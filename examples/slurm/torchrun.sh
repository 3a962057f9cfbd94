#!/bin/bash
# The same training, where each machine has one task: torchrun, which starts one process for each GPU.
#
#   sbatch --nodes=2 --gpus-per-node=8 --time=4:00:00 torchrun.sh photos/ --optim.epochs 100
#
# Without GPUs, give the number of processes of a machine: PROCESSES=4 sbatch ...
#SBATCH --job-name=vit
#SBATCH --ntasks-per-node=1
#SBATCH --signal=B:USR1@180    # to this script alone, because torchrun ends with 1 after every signal
#SBATCH --open-mode=append
#SBATCH --requeue

first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
trap 'is_asked=yes; scancel --signal=USR1 "$SLURM_JOB_ID"' USR1 # hands the signal to torchrun, which hands it on
srun torchrun --nnodes="$SLURM_NNODES" --nproc-per-node="${PROCESSES:-gpu}" \
    --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$first:$((15000 + SLURM_JOB_ID % 10000))" \
    --signals-to-handle=SIGTERM,SIGINT,SIGUSR1 \
    --module vit train "$@" --resume auto &
wait $!
code=$?
if [ "${is_asked:-no}" = yes ]; then
    wait $! # the signal has ended the first wait
    code=$?
    [ "$code" -ne 0 ] && scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"

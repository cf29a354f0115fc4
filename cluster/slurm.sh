#!/bin/bash
# A search on a Slurm cluster:
#   python -m co2l.cluster check cluster/slurm.sh --space search_spaces/seq_cifar10.yaml
#   sbatch cluster/slurm.sh --space search_spaces/seq_cifar10.yaml
# It saves its states before the time limit, goes back into the queue and continues, until the study is finished.
# Submit it with the Python environment of co2l active; all nodes must see that, the root and the store.
# docs/cluster.md has every step.

# ------------------------------------------------------------------ set these
#SBATCH --partition=CHANGE-ME
#SBATCH --nodes=1
#SBATCH --gpus-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
# ------------------------------------------------------------------ leave the rest
#SBATCH --job-name=co2l
#SBATCH --ntasks-per-node=1
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log

run=(python -m co2l.cluster slurm-task)
if [ -n "${CO2L_CONTAINER:-}" ]; then # built from cluster/apptainer.def
    run=(apptainer exec --nv "$CO2L_CONTAINER" "${run[@]}")
fi

# Only this shell gets the signal, and passes it on once to what runs on this node; Ray's processes must not get it.
asked=
trap 'asked=now; kill -TERM "$task" 2> /dev/null' TERM
"${run[@]}" "$@" &
task=$!
if [ "${SLURM_JOB_NUM_NODES:-1}" -gt 1 ]; then # the other nodes end with this one's head
    others=$((SLURM_JOB_NUM_NODES - 1))
    srun --nodes=$others --ntasks=$others --relative=1 \
        --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" "${run[@]}" --node "$@" &
fi
while wait "$task"; code=$?; [ -n "$asked" ]; do asked=; done

# 130: it was stopped and can continue. A job that was cancelled or is being preempted is no longer RUNNING, and a
# worker does not come back to a search that has left the queue.
state() { squeue --noheader --format=%T --jobs="$1" 2> /dev/null; }
if [ "$code" -eq 130 ] && [ "$(state "$SLURM_JOB_ID")" = RUNNING ] \
    && { [ -z "${CO2L_SEARCH_JOB:-}" ] || [ -n "$(state "$CO2L_SEARCH_JOB")" ]; }; then
    echo "the time is up: back into the queue, to continue"
    scontrol requeue "$SLURM_JOB_ID"
    wait # for Slurm to end this shell
fi
exit "$code"

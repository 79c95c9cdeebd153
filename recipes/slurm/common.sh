# shellcheck shell=bash
# What the batch scripts beside this file share; each sources it and calls one of the three functions at its end.
#
# Variables that a user may export before sbatch (docs/clusters.md):
#   FOVEA_HOME       the repository (default: the folder that sbatch was called in)
#   FOVEA            the program (default: build/release/apps/fovea/fovea there)
#   FOVEA_SETUP      a file to source first, on the node: module load, conda activate ...
#   FOVEA_CONTAINER  an Apptainer image; FOVEA is then the program within (default: fovea)
#   FOVEA_REQUEUE    no: a job that is stopped stays so (default: yes)
#   FOVEA_GPUS       yes or no: whether ranks ask for a GPU each, where a script asks at all (default: whether the node has any)
#   MASTER_PORT      where ranks meet on the first node (default: follows from the job's number)
#   FOVEA_SECRET     what lets a rank in there, or FOVEA_SECRET_FILE with the name of a file (default: drawn for each start)

# Before -u: the set-up files of modules and conda use variables that are not set.
FOVEA_HOME=${FOVEA_HOME:-$SLURM_SUBMIT_DIR}
# shellcheck disable=SC1090
[[ -z ${FOVEA_SETUP:-} ]] || source "$FOVEA_SETUP"
set -euo pipefail
cd "$FOVEA_HOME"

if [[ -n ${FOVEA_CONTAINER:-} ]]; then
  program=(apptainer exec)
  [[ ! -e /dev/nvidiactl ]] || program+=(--nv)
  program+=(--bind "$FOVEA_HOME" "$FOVEA_CONTAINER" "${FOVEA:-fovea}")
else
  program=("${FOVEA:-build/release/apps/fovea/fovea}")
fi

# run_folder SOURCE [a.b=c ...]: that of a recipe or of a run. A recipe with a mistake in it ends the job here.
run_folder() {
  if [[ -d $1 ]]; then
    echo "$1"
  else
    "${program[@]}" config show "$@" | awk '$1 == "dir:" && !found++ { print $2 }'  # reads all: no broken pipe
  fi
}

# launch_and_requeue LAUNCHER... -- SOURCE [a.b=c ...]: trains. A run that was told to stop has saved its state, says so by
# the file `stopped` in its folder, and goes back into the queue; the same script then goes on with it.
launch_and_requeue() {
  local launcher=() folder code=0
  while [[ $1 != -- ]]; do launcher+=("$1") && shift; done
  shift
  if [[ ! -e ${1:-} ]]; then
    echo "no recipe or run folder '${1:-}'; expected: sbatch SCRIPT RECIPE|RUN_DIR [a.b=c ...], called in the repository" >&2
    exit 2
  fi
  folder=$(run_folder "$@")
  rm -f "$folder/stopped"
  echo "job $SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT:-0} + 1)), on $SLURM_JOB_NODELIST: ${launcher[*]} ${program[*]} train $*"
  "${launcher[@]}" "${program[@]}" train "$@" || code=$?
  [[ $code -ne 0 && -e $folder/stopped ]] || exit "$code"
  if [[ ${FOVEA_REQUEUE:-yes} == yes ]]; then
    echo "stopped with the state saved: back into the queue"
    # Slurm ends this script. Were it to end by itself, its code could be taken for that of the next start.
    ! scontrol requeue "$SLURM_JOB_ID" || sleep 600
  fi
  exit 75
}

# Whether this node has GPUs, of NVIDIA's or AMD's, by the driver's device.
has_gpus() {
  case ${FOVEA_GPUS:-} in
    yes | no) [[ $FOVEA_GPUS == yes ]] ;;
    *) [[ -e /dev/nvidiactl || -e /dev/kfd ]] ;;
  esac
}

# What a step does not take over from its job by itself; options_of_gpus, of the script that sources this, where there are GPUs.
step_options() {
  [[ -z ${SLURM_CPUS_PER_TASK:-} ]] || echo "--cpus-per-task=$SLURM_CPUS_PER_TASK"
  [[ -z ${options_of_gpus:-} ]] || ! has_gpus || echo "$options_of_gpus"
}

# train_with_srun SOURCE [a.b=c ...]: each task of the job is a rank. Ranks end by themselves when one of them fails, and
# say which; Slurm waits that long for them.
train_with_srun() {
  if [[ -z ${FOVEA_SECRET:-}${FOVEA_SECRET_FILE:-} ]]; then
    FOVEA_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
    export FOVEA_SECRET
  fi
  # shellcheck disable=SC2046  # words, or none
  launch_and_requeue srun $(step_options) --kill-on-bad-exit=0 --wait=600 -- "$@"
}

# train_with_torchrun SOURCE [a.b=c ...]: one torchrun on each node, which meet on the first one and start a rank for each
# GPU there; RANKS_PER_NODE says another number. They restart the ranks after a failure.
train_with_torchrun() {
  local first
  first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
  # shellcheck disable=SC2046
  launch_and_requeue srun $(step_options) --ntasks-per-node=1 --ntasks="$SLURM_JOB_NUM_NODES" --kill-on-bad-exit=0 --wait=600 \
    torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node="${RANKS_PER_NODE:-${SLURM_GPUS_ON_NODE:-1}}" \
    --rdzv-id="$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}" --rdzv-backend=c10d \
    --rdzv-endpoint="$first:${MASTER_PORT:-$((10000 + SLURM_JOB_ID % 20000))}" \
    --max-restarts="${MAX_RESTARTS:-3}" --signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1 --no-python -- "$@"
}

# work_elastically ETCD RUN [a.b=c ...]: a worker of an elastic run, until that ends or this job is told to go. A worker that was
# preempted comes back under its name.
work_elastically() {
  local name="${SLURM_JOB_NAME}-${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}"
  if [[ $# -lt 2 ]]; then
    echo "expected: sbatch [--array=1-N] SCRIPT ETCD RUN [a.b=c ...]; the scheduler says both" >&2
    exit 2
  fi
  echo "job $SLURM_JOB_ID, on $SLURM_JOB_NODELIST: worker $name of run $2"
  # shellcheck disable=SC2046
  exec srun $(step_options) --kill-on-bad-exit=0 "${program[@]}" elastic worker --etcd "$1" --run "$2" --name "$name" "${@:3}"
}

# shellcheck shell=bash
# What ./quickstart and ./check share; sourced by both, from the repository root.
#
# A script sets stage_total, then calls `stage TITLE` before each part. When it ends early, the trap below says which
# stage failed, after how long, and what to do: the text that the stage left in stage_hint.

readonly apt_list=tools/setup/apt-packages.txt
readonly wheel_list=tools/setup/libtorch-wheels.txt
readonly python_list=tools/setup/python-packages.txt
readonly deps=.deps
readonly logs=build/logs

stage_total=0
stage_number=0
stage_title=
stage_hint=
stage_start=$SECONDS

say() { printf '%s\n' "$@"; }

end_stage() {
  [[ -z $stage_title ]] || say "      done in $((SECONDS - stage_start)) s"
  stage_title=
}

stage() {  # stage TITLE [HINT]: starts the next stage; HINT is printed if it fails
  end_stage
  stage_number=$((stage_number + 1))
  stage_title=$1
  stage_hint=${2:-}
  stage_start=$SECONDS
  say "[$stage_number/$stage_total] $stage_title"
}

stop() {  # stop CODE LINE...: ends the script with a message of its own
  local code=$1
  shift
  printf '%s\n' "$@" >&2
  stage_title=
  exit "$code"
}

report_failure() {
  local code=$?
  if [[ $code -ne 0 && -n $stage_title ]]; then
    say "" "FAILED in stage $stage_number ($stage_title), after $((SECONDS - stage_start)) s, exit code $code." >&2
    [[ -z $stage_hint ]] || say "$stage_hint" >&2
    say "Whatever was done is kept: the same command goes on from here." >&2
  fi
}
trap report_failure EXIT

logged() {  # logged NAME COMMAND...: output to build/logs/NAME.log; its end is shown if the command fails
  local log=$logs/$1.log code=0
  shift
  mkdir -p "$logs"
  "$@" >"$log" 2>&1 || code=$?
  if [[ $code -ne 0 ]]; then
    tail -n 25 "$log" >&2
    say "(all of it: $log)" >&2
  fi
  return "$code"
}

package_names() {  # package_names GROUP
  awk -v group="$1" '!/^#/ && $2 == group { print $1 }' "$apt_list"
}

missing_packages() {  # missing_packages GROUP: those that dpkg does not have
  local name
  for name in $(package_names "$1"); do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || say "$name"
  done
}

install_packages() {  # install_packages NAME...: as root, through apt
  say "      installing: $*"
  logged apt-update apt-get update &&
    DEBIAN_FRONTEND=noninteractive logged apt-install apt-get install -y --no-install-recommends "$@"
}

may_install() { [[ $(id -u) -eq 0 ]] && command -v apt-get >/dev/null; }

need_packages() {  # the group `build`: installs what is missing, or says what to ask for and ends with code 2
  local missing
  if [[ -n ${FOVEA_SKIP_PACKAGES:-} ]]; then
    say "      FOVEA_SKIP_PACKAGES is set: not looked at"
    return
  fi
  missing=$(missing_packages build | tr '\n' ' ')
  missing=${missing% }
  if [[ -z $missing ]]; then
    say "      all $(package_names build | wc -l) packages are there"
  elif may_install; then
    # shellcheck disable=SC2086  # a list of words
    install_packages $missing
  else
    stop 2 "" "Some Debian packages are missing, and installing them takes root. Ask for this, then run the same" \
      "command again ($apt_list says what each is for):" "" "  sudo apt-get install --no-install-recommends $missing" "" \
      "Where these libraries come from elsewhere (no Debian), set FOVEA_SKIP_PACKAGES=1."
  fi
}

want_packages() {  # want_packages GROUP: installs what is missing where it may; says so where it may not
  local missing
  [[ -z ${FOVEA_SKIP_PACKAGES:-} ]] || return 0
  missing=$(missing_packages "$1" | tr '\n' ' ')
  missing=${missing% }
  [[ -n $missing ]] || return 0
  # shellcheck disable=SC2086
  if ! may_install || ! install_packages $missing; then
    say "      not there, what needs them is skipped: $missing"
  fi
}

find_python() {  # a python3 with pip
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      say "$python"
      return
    fi
  done
  stop 2 "No python3 with pip. Expected Debian's python3-pip or another Python 3 with pip on PATH."
}

unpack_libtorch() {  # fetches and unpacks into a temporary folder, then renames: never half a libtorch
  local work=$deps/incoming.$$ free_kb python
  python=$(find_python)
  free_kb=$(df -Pk "$deps" | awk 'NR == 2 { print $4 }')
  if [[ $free_kb -lt 2500000 ]]; then
    stop 1 "Only $((free_kb / 1024)) MB are free in $PWD/$deps; libtorch needs 2,500 MB while it is unpacked, and" \
      "1,100 MB after that. Free some space, or set FOVEA_TORCH_DIR to a libtorch 2.11.0 that is already there."
  fi
  rm -rf "$deps"/incoming.*
  say "      fetching 530 MB from PyPI, and unpacking"
  logged libtorch-fetch env "PYTHON=$python" tools/setup/fetch_libtorch "$work"
  rm -rf "$deps/torch" "$deps/nvidia" "$deps/libtorch-wheels.txt"
  mv "$work/torch" "$work/nvidia" "$deps/"
  cp "$wheel_list" "$deps/libtorch-wheels.txt"  # last: this file says that all before it is complete
  rm -rf "$work"
}

need_libtorch() {  # sets FOVEA_TORCH_DIR
  if [[ -n ${FOVEA_TORCH_DIR:-} ]]; then
    say "      FOVEA_TORCH_DIR=$FOVEA_TORCH_DIR"
    return
  fi
  mkdir -p "$deps"
  exec 8>"$deps/lock"
  flock 8  # two runs in one folder: the second waits for the first one's libtorch
  if cmp -s "$wheel_list" "$deps/libtorch-wheels.txt"; then
    say "      already in $deps/torch"
  else
    unpack_libtorch
  fi
  exec 8>&-
  export FOVEA_TORCH_DIR=$PWD/$deps/torch
}

want_python() {  # want_python PACKAGE...: .deps/python, an environment in which CMake finds what the modules of Python are built with
  local python names list=$logs/python-environment.txt
  if [[ -n ${FOVEA_PYTHON:-} ]]; then
    say "      FOVEA_PYTHON=$FOVEA_PYTHON"
    return
  fi
  names=$(printf '|%s' "$@")
  sed -n -E "s/^((${names:1})==[^ ]+).*/\\1/p" "$python_list" >"$list"
  if cmp -s "$list" "$deps/python/packages.txt" && "$deps/python/bin/python" -c pass; then
    say "      already in $deps/python"
    return
  fi
  # Without pip in it: that would take Debian's python3-venv.
  rm -rf "$deps/python"
  if python=$(find_python) && logged python-environment "$python" -m venv --without-pip "$deps/python" &&
    logged python-packages "$python" -m pip --python "$deps/python/bin/python" install --quiet --no-cache-dir -r "$list"; then
    cp "$list" "$deps/python/packages.txt"  # last: this file says that all before it is complete
  else
    say "      not there, the modules of Python are neither built nor tested: $*"
  fi
}

cpu_limit() {  # processors that this process may use; a container's quota counts
  local cpus quota period
  cpus=$(env -u OMP_NUM_THREADS nproc)
  if [[ -r /sys/fs/cgroup/cpu.max ]] && read -r quota period </sys/fs/cgroup/cpu.max && [[ $quota != max ]]; then
    quota=$(((quota + period - 1) / period))
    [[ $quota -ge $cpus ]] || cpus=$quota
  fi
  say "$cpus"
}

memory_limit_mb() {
  local free limit
  free=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
  if [[ -r /sys/fs/cgroup/memory.max ]] && limit=$(cat /sys/fs/cgroup/memory.max) && [[ $limit != max ]]; then
    limit=$((limit / 1048576))
    [[ $limit -ge $free ]] || free=$limit
  fi
  say "$free"
}

unity_files() {  # how many files are compiled at a time: few processors have little to share out
  if [[ $(cpu_limit) -le 4 ]]; then say 48; else say 16; fi
}

compile_jobs() {  # how many compilers at once: one a processor, with the memory that so many files need
  local by_cpu by_memory
  by_cpu=$(cpu_limit)
  by_memory=$(($(memory_limit_mb) / (1200 + 25 * $(unity_files))))
  [[ $by_memory -ge 1 ]] || by_memory=1
  say "${FOVEA_JOBS:-$((by_cpu < by_memory ? by_cpu : by_memory))}"
}

build() {  # build PRESET [TARGET...]: configures and builds; the compiler's output is shown as it comes
  local preset=$1 targets=()
  shift
  [[ $# -eq 0 ]] || targets=(--target "$@")
  logged "configure-$preset" cmake --preset "$preset" "-DFOVEA_TORCH_DIR=$FOVEA_TORCH_DIR" \
    "-DFOVEA_UNITY_FILES=$(unity_files)" &&
    cmake --build --preset "$preset" -j "$(compile_jobs)" "${targets[@]}"
}

release_targets() {  # what a user runs: the program, and the modules for GPUs and gRPC where there is an nvcc, or gRPC's plugin
  say fovea
  ! makes_gpu_module || say fovea_cuda
  ! has_grpc || say fovea_grpc
}

has_grpc() { pkg-config --exists grpc++ protobuf && command -v protoc >/dev/null && command -v grpc_cpp_plugin >/dev/null; }

find_nvcc() { PATH=$PATH:/usr/local/cuda/bin command -v nvcc || true; }

find_hipcc() { PATH=$PATH:${ROCM_PATH:-/opt/rocm}/bin command -v hipcc || true; }

is_torch_for_rocm() { [[ -e $FOVEA_TORCH_DIR/lib/libtorch_hip.so ]]; }

makes_gpu_module() {  # whether the build finds what cmake/CudaModule.cmake, or HipModule.cmake, asks for
  if is_torch_for_rocm; then
    [[ -n $(find_hipcc) && (-e ${ROCM_PATH:-/opt/rocm}/include/hipblaslt/hipblaslt.h || -e /usr/include/hipblaslt/hipblaslt.h) ]]
  else
    [[ -n $(find_nvcc) ]]
  fi
}

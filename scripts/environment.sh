# Sourced by the launchers: makes .venv beside the checkout's pyproject.toml and installs what is asked for, once.
#   prepare EXTRAS   e.g. prepare "" or prepare dev
# TVM_GNN_VENV names another folder for the environment, PYTHON the interpreter to make it with.
# The stamp holds the checksum of what decides the installation, so that later runs start at once.
root=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
venv=$(realpath -ms -- "${TVM_GNN_VENV:-$root/.venv}")

# The comment at the top of a launcher is its help.
help_of() {
    sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "$1"
}

asks_for_help() {
    [ "${1:-}" = --help ] || [ "${1:-}" = -h ]
}

find_python() {
    local name
    for name in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python3.10; do
        if [ -n "$name" ] && "$name" -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "tvm-gnn: Python 3.10 or newer with the venv module is needed (none on PATH). Set PYTHON." >&2
    exit 3
}

prepare() {
    local extras=$1 stamp="$venv/.installed-${1:-core}" wanted
    wanted=$(cat "$root/pyproject.toml" "$root/scripts/constraints.txt" | cksum)
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && return
    # Two first runs at once must not install into one folder at the same time.
    exec 9>"$root/.venv.lock"
    flock 9 2>/dev/null || true
    if ! { [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; }; then
        local python
        python=$(find_python) || exit 3
        echo "tvm-gnn: first run, installing into $venv (a minute or two)" >&2
        { [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"; } >&2 &&
            "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
                --constraint "$root/scripts/constraints.txt" --editable "$root${extras:+[$extras]}" >&2 || {
            echo "tvm-gnn: installation failed; the messages above say why" >&2
            exit 3
        }
        echo "$wanted" >"$stamp"
    fi
    exec 9>&-
}

# Only the CPU build: a checkout's environment must never pull in gigabytes of CUDA. Returns false where it is not to be
# had; any torch that is installed already is left alone.
install_cpu_torch() {
    "$venv/bin/python" -c "import torch" 2>/dev/null ||
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "torch==2.13.0+cpu" 2>/dev/null
}

# DGL's last CPU wheel pins old packages that its kernels do not need; it imports a part of setuptools that went away.
install_dgl() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps dgl==2.1.0 &&
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
            requests tqdm networkx pyyaml pydantic pandas "setuptools<66" 2>/dev/null
}

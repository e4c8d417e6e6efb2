# For the other scripts: a new virtual environment in $venv, gone at the end, and the tests to run in it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
venv="$work/venv/bin"
core=(tests/kernels tests/virtual tests/tables tests/prediction tests/training tests/models
    tests/auditing/test_estimate.py tests/auditing/test_options.py
    tests/cli/test_cli_audit.py tests/cli/test_cli_numbers.py tests/cli/test_cli_outputs.py)

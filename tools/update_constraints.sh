#!/usr/bin/env bash
# Install the newest versions that pyproject.toml allows into a fresh environment and write them to constraints.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/environment.sh

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$(find_python)" -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --upgrade 'pip>=25.1'
"$scratch/venv/bin/python" -m pip install --quiet --editable . --group dev
{
    echo "# The exact versions that ./check and ./demo install (pip's constraints; written by tools/update_constraints.sh)."
    # A local version such as +cpu names one build of a release; any build of it will do.
    "$scratch/venv/bin/python" -m pip freeze --exclude-editable --exclude pip | grep -v '^stepscope' | sed 's/+[a-z0-9.]*$//'
} >constraints.txt

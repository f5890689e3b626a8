# Sourced by ./check and ./demo: make_environment GROUP makes .venv, or brings it up to date, and says what it does.

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.11 python3.12 python3.13; do
        if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return 0
        fi
    done
    echo "No Python 3.11 or newer was found. Install one, or name it: PYTHON=/path/to/python $0" >&2
    return 1
}

# npm builds the page (web-app/). It is installed where that is allowed.
make_node() {
    if ! command -v npm >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "Installing nodejs and npm"
        apt-get -qq update >/dev/null
        DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends nodejs npm >/dev/null
    fi
    command -v npm >/dev/null && return 0
    echo "There is no npm: the page (stepscope view, --format html) cannot be built" >&2
    return 1
}

# What is installed follows from these files alone; an edit of any brings the environment up to date.
wanted_state() {
    {
        cat pyproject.toml constraints.txt setup.py tools/build_page.py
        cat src/stepscope/native/*.?pp src/stepscope/collect/native/*.[ch]
        find web-app -name node_modules -prune -o -type f -print | LC_ALL=C sort | xargs cat
    } | cksum
}

installed() {
    [ "$(cat ".venv/.installed-$1" 2>/dev/null)" = "$(wanted_state)" ] && .venv/bin/python -c 'import stepscope' 2>/dev/null
}

make_environment() {
    local group=$1 python
    if installed "$group" || installed dev; then
        return 0
    fi
    if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
        python=$(find_python) || return 1
        echo "Making .venv with $("$python" --version)"
        rm -rf .venv
        "$python" -m venv .venv || return 1
    fi
    echo "Installing stepscope and its '$group' packages into .venv (a minute or two the first time)"
    .venv/bin/python -m pip install --quiet --quiet --upgrade 'pip>=25.1' || return 1
    .venv/bin/python -m pip install --quiet --quiet --no-compile --constraint constraints.txt --editable . --group "$group" ||
        return 1
    # on all cores, which pip does not; also where Python is told to write no bytecode, and every start would compile anew
    # packages hold templates that are no Python; nothing imports their tests
    .venv/bin/python -m compileall -q -j 0 -x "/tests?/" .venv/lib src >/dev/null 2>&1 || true
    # pip hides what the build says: once more, in the open, where it did not make the page
    .venv/bin/python tools/build_page.py || ! command -v npm >/dev/null || return 1
    wanted_state >".venv/.installed-$group"
}

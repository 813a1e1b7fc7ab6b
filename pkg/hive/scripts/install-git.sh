# Builds hive from source on this node.
#
# HIVE_REPO  URL of the repository
# HIVE_REF   branch, tag or commit (default: the repository's default branch)
set -euo pipefail

command -v git >/dev/null || fail "git is not installed on this node"
command -v make >/dev/null || fail "make is not installed on this node"
mkdir -p "$(dirname "$HIVE_SOURCE_DIR")" "$run_dir" "$(dirname "$HIVE_BIN")"
if [ ! -d "$HIVE_SOURCE_DIR/.git" ]; then
  clear_source # what was uploaded is no clone
  git clone --quiet -- "$HIVE_REPO" "$HIVE_SOURCE_DIR"
fi
cd "$HIVE_SOURCE_DIR"
git remote set-url origin "$HIVE_REPO"
git fetch --quiet --tags --force origin
commit=$(git rev-parse --verify --quiet "origin/${HIVE_REF:-HEAD}^{commit}" ||
  git rev-parse --verify --quiet "${HIVE_REF:-HEAD}^{commit}") || fail "there is no ref $HIVE_REF in the repository"
git checkout --quiet --force --detach "$commit" # forced: clone-deps.sh changes go.mod

build_source

# Builds hive from source on this node.
#
# HIVE_REPO  URL of the repository
# HIVE_REF   branch, tag or commit (default: the repository's default branch)
set -euo pipefail

command -v git >/dev/null || fail "git is not installed on this node"
command -v make >/dev/null || fail "make is not installed on this node"
mkdir -p "$(dirname "$HIVE_SOURCE_DIR")" "$run_dir" "$(dirname "$HIVE_BIN")"
if [ ! -d "$HIVE_SOURCE_DIR/.git" ]; then
  git clone --quiet -- "$HIVE_REPO" "$HIVE_SOURCE_DIR"
fi
cd "$HIVE_SOURCE_DIR"
git remote set-url origin "$HIVE_REPO"
git fetch --quiet --tags --force origin
commit=$(git rev-parse --verify --quiet "origin/${HIVE_REF:-HEAD}^{commit}" ||
  git rev-parse --verify --quiet "${HIVE_REF:-HEAD}^{commit}") || fail "there is no ref $HIVE_REF in the repository"
git checkout --quiet --force --detach "$commit" # forced: clone-deps.sh changes go.mod

has_target() { grep -q "^$1:" Makefile; }

if has_target quickinstall; then
  stamp=$(sha256sum Makefile)
  if [ "$(cat "$run_dir/quickinstall" 2>/dev/null)" != "$stamp" ]; then
    sudo -n make quickinstall
    printf '%s\n' "$stamp" >"$run_dir/quickinstall"
  fi
fi

# pin NAME checks a sibling repository out at the version that go.mod asks for: its default branch may not fit this ref.
pin() {
  local version
  [ -d "../$1/.git" ] || return 0
  version=$(git show HEAD:go.mod | awk -v name="/$1\$" '$1 ~ name { print $2; exit }')
  [ -n "$version" ] || return 0
  git -C "../$1" fetch --quiet --tags origin
  git -C "../$1" checkout --quiet --force --detach "$version" 2>/dev/null ||
    git -C "../$1" checkout --quiet --force --detach "${version##*-}"
}

if [ -x scripts/clone-deps.sh ]; then
  ./scripts/clone-deps.sh
  pin predastore
  pin viperblock
fi
if [ -x scripts/dev-setup.sh ]; then
  ./scripts/dev-setup.sh
fi
make build
for name in hive spinifex spx; do
  if [ -x "bin/$name" ]; then
    ln -sfn "$HIVE_SOURCE_DIR/bin/$name" "$HIVE_BIN"
    exec "$HIVE_BIN" version
  fi
done
fail "make build has left no program in $HIVE_SOURCE_DIR/bin"

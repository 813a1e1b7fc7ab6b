# Builds hive on this node from a source tree that was uploaded to HIVE_DIR/run/source.tar.gz.
set -euo pipefail

command -v make >/dev/null || fail "make is not installed on this node"
archive=$run_dir/source.tar.gz
[ -f "$archive" ] || fail "there is no $archive"
clear_source
if [ -d "$HIVE_SOURCE_DIR/.git" ]; then
  [ -z "$(git -C "$HIVE_SOURCE_DIR" log --oneline --branches --not --remotes 2>/dev/null)" ] ||
    fail "$HIVE_SOURCE_DIR holds commits that are nowhere else"
  rm -rf --one-file-system -- "$HIVE_SOURCE_DIR" # a clone that --repo has made
fi
mkdir -p "$HIVE_SOURCE_DIR" "$(dirname "$HIVE_BIN")"
[ -z "$(ls -A "$HIVE_SOURCE_DIR")" ] || fail "$HIVE_SOURCE_DIR is in the way: nothing that hive-test knows has made it"
: >"$HIVE_SOURCE_DIR/.uploaded"
tar -xzf "$archive" -C "$HIVE_SOURCE_DIR" --no-same-owner

build_source

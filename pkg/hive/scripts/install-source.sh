# Builds hive on this node from a source tree, of which HIVE_DIR/run/source.tar.gz holds what is not there yet.
#
# HIVE_VERSION, HIVE_COMMIT  what the program says of itself
#
# The archive has, besides files of the tree, .uploaded (every path of the tree) and .removed (what is to go), each path after ./ and
# ended by a NUL. What a build has made stays, and files that are as they were keep their times.
set -euo pipefail

command -v make >/dev/null || fail "make is not installed on this node"
archive=$run_dir/source.tar.gz
[ -f "$archive" ] || fail "there is no $archive"
if [ -d "$HIVE_SOURCE_DIR/.git" ]; then
  [ -z "$(git -C "$HIVE_SOURCE_DIR" log --oneline --branches --not --remotes 2>/dev/null)" ] ||
    fail "$HIVE_SOURCE_DIR holds commits that are nowhere else"
  rm -rf --one-file-system -- "$HIVE_SOURCE_DIR" # a clone that --repo has made
fi
if [ ! -s "$HIVE_SOURCE_DIR/.uploaded" ]; then
  clear_source # nothing is known of what is in it
fi
mkdir -p "$HIVE_SOURCE_DIR" "$(dirname "$HIVE_BIN")"
cd "$HIVE_SOURCE_DIR"
[ -f .uploaded ] || [ -z "$(ls -A)" ] ||
  fail "$HIVE_SOURCE_DIR is in the way: nothing that hive-test knows has made it"
touch .uploaded
tar -xzf "$archive" --no-same-owner .uploaded.new .removed
cat .uploaded.new >>.uploaded # whatever is half done is known to have come from here
xargs -0 -r rm -rf --one-file-system -- <.removed
tar -xzf "$archive" --no-same-owner --touch
mv .uploaded.new .uploaded
rm -f .removed

build_source

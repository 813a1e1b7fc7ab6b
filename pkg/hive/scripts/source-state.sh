# Prints what is left on this node of a source tree that was uploaded, each ended by a NUL: "TYPE MODE PATH" of everything that is still
# there (MODE octal, TYPE f, d or l), "h HASH  PATH" of each file and "t TARGET" of each link after its own entry. Nothing where
# there is no such tree.
set -euo pipefail

[ -s "$HIVE_SOURCE_DIR/.uploaded" ] && [ ! -d "$HIVE_SOURCE_DIR/.git" ] || exit 0
cd "$HIVE_SOURCE_DIR"
# shellcheck disable=SC2016 # the inner shell expands these
sort -zu .uploaded | xargs -0 -r bash -c 'find "$@" -maxdepth 0 -printf "%y %m %p\0" -type l -printf "t %l\0"
  find "$@" -maxdepth 0 -type f -print0 | xargs -0 -r sha256sum --zero -- | sed -z "s/^/h /"' hashes 2>/dev/null || true

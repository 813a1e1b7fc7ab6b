# Unpacks a release of hive that was uploaded to HIVE_DIR/run/release.tar.gz, and makes HIVE_BIN lead to its program. What else
# the release holds is put where a build from source would have it.
set -euo pipefail

archive=$run_dir/release.tar.gz
[ -f "$archive" ] || fail "there is no $archive"
release=$HIVE_DIR/bin/release
rm -rf -- "$release.new"
mkdir -p "$release.new"
tar -xzf "$archive" -C "$release.new" --no-same-owner || fail "$archive is not a tar archive that gzip has compressed"
rm -rf -- "$release"
mv "$release.new" "$release"

# found NAME prints the path of a file of the release.
found() {
  find "$release" -maxdepth 3 -type f -name "$1" | sort | head -n 1
}

# place FROM TO makes a link at TO to a file of the release, in place of what an earlier link led to.
place() {
  if [ -n "$1" ] && { [ -L "$2" ] || [ ! -e "$2" ]; }; then
    mkdir -p "$(dirname "$2")"
    ln -sfn "$1" "$2"
  fi
}

for name in hive spinifex spx; do
  program=$(found "$name")
  if [ -n "$program" ]; then
    chmod +x "$program"
    ln -sfn "$program" "$HIVE_BIN"
    place "$(found nbdkit-viperblock-plugin.so)" "$HIVE_SOURCE_DIR/../viperblock/lib/nbdkit-viperblock-plugin.so"
    exec "$HIVE_BIN" version
  fi
done
fail "the release holds no program: neither hive, spinifex nor spx"

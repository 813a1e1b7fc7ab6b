# Packs what was built in HIVE_SOURCE_DIR as a release, ~/hive/run/built.tar.gz, and prints its SHA-256: the programs, the plugin
# of viperblock, and the script that sets up OVN.
set -euo pipefail

program=$(cat "$run_dir/built" 2>/dev/null || true)
[ -x "$program" ] && cmp -s "$program" "$HIVE_BIN" || fail "what is installed there was not built there"
"$program" version >/dev/null || fail "$program does not run"
archive=$run_dir/built.tar.gz
parts=$run_dir/built.d
rm -rf -- "$parts"
mkdir -p "$parts"
cp -- "$program" "$parts"
for file in "$HIVE_SOURCE_DIR/bin/lb-agent" "$HIVE_SOURCE_DIR/../viperblock/lib/nbdkit-viperblock-plugin.so" \
  "$HIVE_SOURCE_DIR/scripts/setup-ovn.sh"; do
  if [ -f "$file" ]; then
    cp -- "$file" "$parts"
  fi
done
tar -c --owner=0 --group=0 --mtime=@0 --sort=name -C "$parts" . | gzip -1n >"$archive.new"
mv "$archive.new" "$archive"
rm -rf -- "$parts"
sha256sum <"$archive" | cut -d' ' -f1

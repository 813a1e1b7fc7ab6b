# Waits for the init that runs in the background and exits with its status: 124 if it still runs after HIVE_AWAIT seconds,
# 125 if it was killed. Prints "said" if its log holds HIVE_MARKER; the log itself holds secrets.
#
# HIVE_AWAIT   seconds to wait; 0 only looks
# HIVE_MARKER  a text that init prints when it has succeeded
set -euo pipefail

code=0
await init "$HIVE_AWAIT" || code=$?
if grep -qF -- "$HIVE_MARKER" "$log_dir/init.log"; then
  printf 'said\n'
fi
exit "$code"

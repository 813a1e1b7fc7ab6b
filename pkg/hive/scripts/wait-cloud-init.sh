# Waits until cloud-init has finished. Exit status: 0 done, 2 done with complaints (printed), 1 failed (printed).
#
# HIVE_CLOUD_INIT_TIMEOUT  seconds to wait at most
# HIVE_CLOUD_INIT_MARKER   the file that the vendor data makes as its last act
set -euo pipefail

end=$((SECONDS + HIVE_CLOUD_INIT_TIMEOUT))
without_marker=0
while :; do
  report= code=0
  if command -v cloud-init >/dev/null 2>&1; then
    report=$(cloud-init status --long 2>&1) || code=$?
  fi
  state=$(sed -n 's/^status: //p' <<<"$report")
  marked=no
  if [ -e "$HIVE_CLOUD_INIT_MARKER" ]; then
    marked=yes
  fi
  case $state in
  error*)
    printf '%s\n' "$report" >&2
    exit 1
    ;;
  done* | degraded*)
    if [ "$marked" = yes ]; then
      if [ "$code" -ne 0 ]; then
        printf '%s\n' "$report" >&2
        exit 2
      fi
      exit 0
    fi
    without_marker=$((without_marker + 1))
    if [ "$without_marker" -ge 20 ]; then
      printf 'cloud-init is done, but the vendor data has not made %s\n%s\n' "$HIVE_CLOUD_INIT_MARKER" "$report" >&2
      exit 2
    fi
    ;;
  running*) ;;
  *) # cloud-init is absent, disabled or has not been started: only the marker can tell
    if [ "$marked" = yes ]; then
      exit 0
    fi
    ;;
  esac
  if [ "$SECONDS" -ge "$end" ]; then
    printf 'cloud-init has not finished within %s seconds, and %s is not there\n%s\n' \
      "$HIVE_CLOUD_INIT_TIMEOUT" "$HIVE_CLOUD_INIT_MARKER" "$report" >&2
    exit 1
  fi
  if [ -n "$report" ]; then
    sleep 1
  else
    sleep 0.1
  fi
done

# Waits until cloud-init has finished. Its own word counts; where it has none, the marker that the vendor data makes does.
# Exit status: 0 done, 2 done with complaints (printed), 1 failed or not finished in time (printed).
#
# HIVE_CLOUD_INIT_TIMEOUT  seconds to wait at most
# HIVE_CLOUD_INIT_MARKER   the file that the vendor data makes as its last act; empty if there is no vendor data
set -euo pipefail

end=$((SECONDS + HIVE_CLOUD_INIT_TIMEOUT))
while :; do
  report='' code=0
  if command -v cloud-init >/dev/null 2>&1; then
    report=$(cloud-init status --long 2>&1) || code=$?
  fi
  case $(sed -n 's/^status: //p' <<<"$report") in
  error*)
    printf '%s\n' "$report" >&2
    exit 1
    ;;
  done* | degraded*)
    if [ "$code" -ne 0 ]; then # newer versions report recoverable errors with status 2
      printf '%s\n' "$report" >&2
      exit 2
    fi
    exit 0
    ;;
  running*) ;;
  *) # cloud-init is absent, disabled or has not begun
    if [ -n "$HIVE_CLOUD_INIT_MARKER" ]; then
      if [ -e "$HIVE_CLOUD_INIT_MARKER" ]; then
        exit 0
      fi
    elif [ -z "$report" ] || [[ $report == *"status: disabled"* ]]; then
      exit 0 # nobody would tell more
    fi
    ;;
  esac
  if [ "$SECONDS" -ge "$end" ]; then
    printf 'cloud-init has not finished within %s seconds, and there is no %s\n%s\n' \
      "$HIVE_CLOUD_INIT_TIMEOUT" "$HIVE_CLOUD_INIT_MARKER" "$report" >&2
    exit 1
  fi
  sleep 0.2
done

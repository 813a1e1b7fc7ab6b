# Runs the steps in the order of their names. What they write is the build's output.
set -euo pipefail

cd "$(dirname "$0")"
for step in steps/*.sh; do
  name=${step#steps/}
  printf '== %s\n' "${name%.sh}"
  code=0
  (cd && exec bash "$OLDPWD/$step") </dev/null || code=$?
  case $name in
  *-wait-cloud-init.sh) [ "$code" != 2 ] || code=0 ;; # it has finished, and has complained of something, which is printed
  esac
  if [ "$code" != 0 ]; then
    printf '%s failed: it exited with %s\n' "${name%.sh}" "$code" >&2
    exit 1
  fi
done

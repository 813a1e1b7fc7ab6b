# Prints what is on this node that clusters depend on, a line "NAME VERSION" for each. What is not there is left out.
set -euo pipefail

home_root=${SIM_HOST_ROOT:-}
PATH=$home_root/usr/local/go/bin:$home_root/usr/local/bin:$PATH

# told NAME CMD... prints the first line that the command writes.
told() {
  local name=$1 line
  shift
  line=$("$@" 2>/dev/null | head -n 1) || true
  [ -z "$line" ] || printf '%s %s\n' "$name" "$line"
}

. /etc/os-release 2>/dev/null || true
printf 'os %s\n' "${ID:-unknown} ${VERSION_ID:-}"
printf 'users %s\n' "$(awk -F: '$3 >= 1000 && $3 < 60000 { print $1 }' "${SIM_HOST_ROOT:+$SIM_HOST_ROOT}/etc/passwd" 2>/dev/null | sort | paste -sd, -)"
told go go env GOVERSION
told git git --version
told make make --version
told aws aws --version
if is_file "$HIVE_BIN"; then
  told hive "$HIVE_BIN" version
  printf 'program %s\n' "$(sha256sum <"$HIVE_BIN" | cut -c1-64)"
fi
shopt -s nullglob
for file in "$HOME"/images/*; do
  printf 'image-%s %s\n' "${file##*/}" "$(sha256sum <"$file" | cut -c1-64)"
done
if command -v dpkg-query >/dev/null && [ -n "$TEMPLATE_PACKAGES" ]; then
  names=()
  for name in $TEMPLATE_PACKAGES; do
    names+=("${name%%=*}")
  done
  # shellcheck disable=SC2016 # dpkg-query expands it
  dpkg-query -W -f '${db:Status-Status} package-${Package} ${Version}\n' -- "${names[@]}" 2>/dev/null | sed -n 's/^installed //p' || true
fi

#!/bin/bash
# Makes sure that hive-test has a tofu or terraform to use: one that is there, else a download, else the OpenTofu of
# tools/tofu/go.mod, built from the Go module proxy and kept in the user's cache directory for all checkouts.
# With --build it does not look for others.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
package=github.com/opentofu/opentofu/cmd/tofu

# As hive-test does: see CacheDir in pkg/engine and Find in pkg/opentofu.
case $(uname -s) in
Darwin) cache=${XDG_CACHE_HOME:-$HOME/Library/Caches} ;;
*) cache=${XDG_CACHE_HOME:-$HOME/.cache} ;;
esac
dir=$cache/hive-test/tofu/$("$go" list -C tools/tofu -m -f '{{.Version}}' github.com/opentofu/opentofu)

say() { echo "tofu: $*" >&2; }

# progress prints a line for each twentieth of the packages that go build names, in place of a line for each.
progress() {
	awk -v total="$1" '
		/^go: downloading/ { next }
		/^[^ ]+$/ { built++; part = int(20 * built / total); if (part > told && part <= 20) {
			told = part; printf "tofu: %3d%%, %d of %d packages\n", 5 * part, built, total; fflush() }; next }
		{ print; fflush() }' >&2
}

build() {
	local flags=(-trimpath -ldflags "-s -w -X github.com/opentofu/opentofu/version.dev=no")
	local began=$SECONDS total
	mkdir -p "$dir"
	say "downloading what it is made of (go mod)"
	total=$(CGO_ENABLED=0 "$go" list -C tools/tofu "${flags[@]}" -deps -f '{{if .Stale}}stale{{end}}' "$package" \
		2> >(grep -v '^go: downloading' >&2) | grep -c stale || true)
	say "building $total packages"
	CGO_ENABLED=0 "$go" build -C tools/tofu -v "${flags[@]}" -o "$dir/tofu.$$" "$package" 2>&1 | progress "$total"
	mv "$dir/tofu.$$" "$dir/tofu" # at once: another build may be at it, too
	say "built in $((SECONDS - began)) s: $dir/tofu"
}

if [ "${1:-}" != --build ]; then
	problem=$(bin/hive-test version --download 2>&1 >/dev/null) && exit
	say "$(sed -n 's/^error: //p' <<<"$problem"); building OpenTofu from its Go module instead: about 4 minutes, once;" \
		"install tofu to skip this"
fi
[ -x "$dir/tofu" ] || build
mkdir -p bin
ln -sfn "$dir/tofu" bin/tofu # for tests, which have cache directories of their own

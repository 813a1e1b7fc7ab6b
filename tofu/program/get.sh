#!/bin/bash
# Makes sure that hive-test has a tofu or terraform to use: one that is there, else a download, else the OpenTofu of
# tofu/program/go.mod, built from the Go module proxy and kept in the user's cache directory for all checkouts.
# With --build it does not look for others.
set -euo pipefail
cd "$(dirname "$0")/../.."
go=${GO:-go}
package=github.com/opentofu/opentofu/cmd/tofu

# As hive-test does: see CacheDir in pkg/engine and Find in pkg/opentofu.
case $(uname -s) in
Darwin) cache=${XDG_CACHE_HOME:-$HOME/Library/Caches} ;;
*) cache=${XDG_CACHE_HOME:-$HOME/.cache} ;;
esac
dir=$cache/hive-test/tofu/$("$go" list -C tofu/program -m -f '{{.Version}}' github.com/opentofu/opentofu)

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
	total=$(CGO_ENABLED=0 "$go" list -C tofu/program "${flags[@]}" -deps -f '{{if .Stale}}stale{{end}}' "$package" \
		2> >(grep -v '^go: downloading' >&2) | grep -c stale || true)
	say "building $total packages"
	CGO_ENABLED=0 "$go" build -C tofu/program -v "${flags[@]}" -o "$dir/tofu.$$" "$package" 2>&1 | progress "$total"
	mv "$dir/tofu.$$" "$dir/tofu" # at once: another build may be at it, too
	say "built in $((SECONDS - began)) s: $dir/tofu"
}

# link lets tests find it, whose cache directories are their own. A program that was put there stays.
link() {
	[ -e bin/tofu ] && [ ! -L bin/tofu ] || { mkdir -p bin && ln -sfn "$1" bin/tofu; }
}

# found prints where the OpenTofu is that hive-test uses.
found() { sed -n 's/^OpenTofu .* at //p'; }

if [ "${1:-}" != --build ]; then
	told=$(bin/hive-test version -v)
	if grep -q '^tofu: not found' <<<"$told"; then
		say "neither tofu nor terraform is here: downloading OpenTofu"
		told=$(bin/hive-test version --download 2>&1) || failed=$(sed -n 's/^error: //p' <<<"$told")
	fi
	if [ -z "${failed:-}" ]; then
		path=$(found <<<"$told")
		case $path in "$cache"/*) link "$path" ;; esac
		exit
	fi
	say "$failed; building OpenTofu from its Go module instead: about 4 minutes, once; install tofu to skip this"
fi
[ -x "$dir/tofu" ] || build
link "$dir/tofu"

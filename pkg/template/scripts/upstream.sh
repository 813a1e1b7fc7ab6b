# Installs what hive's own Makefile says that hive needs, by its targets for that. A source without them needs what the layer has.
#
# TEMPLATE_MAKEFILE  "yes" if the Makefile was uploaded to ~/.hive-test-template/upstream already
# HIVE_REPO          or else the URL of the repository that has it
# HIVE_REF           branch, tag or commit (default: the repository's default branch)
set -euo pipefail

here=$HOME/.hive-test-template/upstream
trap 'rm -rf -- "$here"' EXIT
if [ "${TEMPLATE_MAKEFILE:-}" != yes ]; then
  command -v git >/dev/null || fail "git is not installed on this node: put it into the layer's packages"
  rm -rf -- "$here"
  git clone --quiet --no-checkout -- "$HIVE_REPO" "$here"
  commit=$(git -C "$here" rev-parse --verify --quiet "origin/${HIVE_REF:-HEAD}^{commit}" ||
    git -C "$here" rev-parse --verify --quiet "${HIVE_REF:-HEAD}^{commit}") || fail "there is no ref $HIVE_REF in the repository"
  git -C "$here" show "$commit:Makefile" >"$here/Makefile" 2>/dev/null || : >"$here/Makefile"
fi
for target in install-system install-go install-aws; do
  if ! grep -q "^$target:" "$here/Makefile"; then
    echo "hive's Makefile has no target $target: what the layer has is what it needs"
    exit 0
  fi
done
command -v make >/dev/null || fail "make is not installed on this node: put it into the layer's packages"
"${admin[@]}" make -C "$here" install-system install-go install-aws

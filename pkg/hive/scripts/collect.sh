# Writes a tar archive of what helps to understand this node to standard output. Everything under secrets/ is there only
# so that its values can be removed from the rest; it is not to be kept.
#
# HIVE_TAIL_BYTES  how much of the end of each log is taken
set -euo pipefail

stage=$(mktemp -d)
trap 'rm -rf -- "$stage"' EXIT
mkdir "$stage/logs" "$stage/system" "$stage/secrets"

# keep FILE NAME takes the end of a file, if it is there and can be read.
keep() {
  local reader=(cat)
  if [ ! -r "$1" ]; then
    sudo -n test -r "$1" 2>/dev/null || return 0
    reader=(sudo -n cat)
  fi
  "${reader[@]}" "$1" 2>/dev/null | tail -c "$HIVE_TAIL_BYTES" >"$stage/$2" || true
}

# ask NAME COMMAND... keeps a command's output, if the node has the command.
ask() {
  local name=$1
  shift
  command -v "$1" >/dev/null 2>&1 || return 0
  timeout 10 "$@" 2>&1 | tail -c "$HIVE_TAIL_BYTES" >"$stage/system/$name" || true
}

for file in "$log_dir"/*.log; do
  if [ -f "$file" ]; then
    keep "$file" "logs/$(basename "$file")"
  fi
done
config=$(config_file)
if [ -n "$config" ]; then
  keep "$config" hive.toml
fi
for file in "$HOME/.aws/credentials" "$HIVE_CONFIG_DIR/join-token" "$HIVE_CONFIG_DIR/master.key"; do
  if [ -f "$file" ]; then
    keep "$file" "secrets/$(basename "$file")"
  fi
done
if [ -x "$HIVE_BIN" ]; then
  timeout 10 "$HIVE_BIN" get nodes --config "$config" >"$stage/get-nodes.txt" 2>&1 || true
  timeout 10 "$HIVE_BIN" version >"$stage/version.txt" 2>&1 || true
fi
keep /var/log/cloud-init-output.log system/cloud-init-output.log
ask cloud-init-status cloud-init status --long
ask ps ps -eo user,pid,ppid,etime,rss,args
ask ss ss -ltnp
ask df df -h
ask free free -m
ask addresses ip address
ask timedatectl timedatectl
ask journal journalctl --no-pager -n 2000 -u 'hive*' -u 'spinifex*'
ask ovs ovs-vsctl show
tar -C "$stage" -cf - .

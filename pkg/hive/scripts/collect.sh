# Writes a tar archive of what helps to understand this node to standard output. Everything under secrets/ is there only
# so that its values can be removed from the rest; it is not to be kept. The file missing says what could not be had: a line
# for each, its name, a tab and why.
#
# HIVE_TAIL_BYTES  how much of the end of each log is taken
set -euo pipefail

stage=$(mktemp -d)
trap 'rm -rf -- "$stage"' EXIT
mkdir "$stage/logs" "$stage/system" "$stage/secrets" "$stage/run"
: >"$stage/missing"

missing() {
  printf '%s\t%s\n' "$1" "$2" >>"$stage/missing"
}

# keep FILE NAME takes the end of a file, if it is there and can be read.
keep() {
  local reader=(cat)
  if [ ! -r "$1" ]; then
    if ! sudo -n test -r "$1" 2>/dev/null; then
      missing "$2" "$1 is not there, or cannot be read"
      return 0
    fi
    reader=(sudo -n cat)
  fi
  "${reader[@]}" "$1" 2>/dev/null | tail -c "$HIVE_TAIL_BYTES" >"$stage/$2" || true
}

# ask NAME COMMAND... keeps a command's output, if the node has the command.
ask() {
  local name=$1 program=$2 code=0
  shift
  if [ "$program" = sudo ]; then
    program=$3 # sudo -n PROGRAM
  fi
  if ! command -v "$program" >/dev/null 2>&1; then
    missing "system/$name" "the node has no program $program"
    return 0
  fi
  timeout 10 "$@" </dev/null 2>&1 | tail -c "$HIVE_TAIL_BYTES" >"$stage/system/$name" || code=$?
  if [ "$code" -eq 124 ]; then
    missing "system/$name" "$program did not end within 10 seconds"
  fi
}

# say NAME COMMAND... keeps what hive says.
say() {
  local name=$1
  shift
  if [ ! -x "$HIVE_BIN" ]; then
    missing "$name" "hive is not installed"
    return 0
  fi
  timeout 10 "$HIVE_BIN" "$@" </dev/null >"$stage/$name" 2>&1 || true
}

found=no
for file in "$log_dir"/*.log; do
  if [ -f "$file" ]; then
    keep "$file" "logs/${file##*/}"
    found=yes
  fi
done
if [ "$layout" = systemd ]; then
  for name in nats predastore viperblock "$product" awsgw vpcd; do
    journal "$name" 20000 | tail -c "$HIVE_TAIL_BYTES" >"$stage/logs/$name.log" || true
  done
  for file in "$root/var/log/$product"/*.log; do # what services write beside the journal
    if [ -f "$file" ]; then
      keep "$file" "logs/var-${file##*/}"
    fi
  done
  found=yes
fi
if [ "$found" = no ]; then
  missing logs "hive has written no logs to $log_dir"
fi
for file in "$run_dir"/*.exit; do # how init and join have ended
  if [ -f "$file" ]; then
    keep "$file" "run/${file##*/}"
  fi
done
if [ -f "$run_dir/services" ]; then # what should run here, and what was left out
  keep "$run_dir/services" run/services
fi
config=$(config_file)
if [ -n "$config" ]; then
  keep "$config" hive.toml
else
  missing hive.toml "this node is not initialized"
fi
keep_secrets "$stage/secrets"

keep /var/log/cloud-init-output.log system/cloud-init-output.log
keep /var/log/cloud-init.log system/cloud-init.log
journal=(journalctl --no-pager)
if sudo -n true 2>/dev/null; then
  journal=(sudo -n "${journal[@]}")
fi
# A node that has panicked and come back tells why in the journal of the boot before, where that is kept.
boots=$(timeout 10 "${journal[@]}" --list-boots 2>/dev/null) || true
if grep -q '^ *-[0-9]' <<<"$boots"; then # no pipe: with pipefail, a list that grep does not read to its end would count as failed
  ask journal-before "${journal[@]}" -b -1 -n 5000 &
fi
say get-nodes.txt get nodes --config "$config" &
say version.txt version &
ask cloud-init-status cloud-init status --long &
ask ps ps -eo user,pid,ppid,etime,rss,args &
ask ss ss -ltnp &
ask df df -h &
ask free free -m &
ask addresses ip address &
ask date date --iso-8601=ns &
ask timedatectl timedatectl &
ask journal "${journal[@]}" -b -n 5000 &
ask ovs ovs-vsctl show &
wait
tar -C "$stage" -cf - .

#!/bin/sh
# Makes the folders that Harbor makes before an agent begins, and waits for the task's health check, if it has one.
# Arguments: who checks (empty: this user), the check's command, seconds between checks, for one check, of grace,
# between checks in that time, and how many checks may fail in a row.
mkdir -p /logs/agent /logs/verifier /logs/artifacts && chmod 777 /logs/agent /logs/verifier /logs/artifacts || exit 1
[ -n "$2" ] || exit 0
who=$1 check=$2 interval=$3 limit=$4 grace=$5 early=$6 most=$7
unset TMPDIR
probe() {
    if [ -z "$who" ]; then sh -c "$check" & else su -p -s /bin/sh "$who" -c "$check" & fi
    probed=$!
    (sleep "$limit" && kill -9 "$probed") >/dev/null 2>&1 &
    timer=$!
    wait "$probed" 2>/dev/null
    healthy=$?
    kill "$timer" 2>/dev/null
    return "$healthy"
}
read -r now _ </proc/uptime
began=${now%.*} failed=0
while :; do
    read -r now _ </proc/uptime
    probe && break
    if [ "$((${now%.*} - began))" -lt "${grace%.*}" ]; then
        sleep "$early"
        continue
    fi
    failed=$((failed + 1))
    if [ "$failed" -ge "$most" ]; then
        echo "the health check failed $failed times in a row: $check" >&2
        exit 1
    fi
    sleep "$interval"
done

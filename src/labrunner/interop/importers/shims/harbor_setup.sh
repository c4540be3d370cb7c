#!/bin/sh
# Makes the folders that Harbor makes before an agent begins, and waits for the task's health check, if it has one.
# Arguments: the check's command, seconds between checks, for one check, of grace, between checks in that time, and
# how many checks may fail in a row. Who checks is the image's own user.
mkdir -p /logs/agent /logs/verifier /logs/artifacts && chmod 777 /logs/agent /logs/verifier /logs/artifacts || exit 1
[ -n "$1" ] || exit 0
who=${AGENTLAB_IMAGE_USER:-} check=$1 interval=$2 limit=$3 grace=$4 early=$5 most=$6
who=${who%%:*}
case $who in
    '' | *[!0-9]*) ;;
    *) # `su` wants a name
        number=$who
        while IFS=: read -r login _ own _; do
            [ "$own" != "$number" ] || { who=$login && break; }
        done </etc/passwd
        ;;
esac
unset TMPDIR
probe() {
    if [ -z "$who" ] || [ "$who" = root ]; then sh -c "$check" & else su -p -s /bin/sh "$who" -c "$check" & fi
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
